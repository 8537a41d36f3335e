//! `larder cache`: what is on disk, whether larder runs or not.

use std::fs;
use std::path::Path;

use larder_testkit::{Answer, Origin};

use crate::site::{self, Setup, Site, cached, eventually, text};

/// Two zones on disk, and one in memory.
const SITE: &str = "
    proxy_cache_path {DIR}/pages keys_zone=pages:1m max_size=64m inactive=1h;
    proxy_cache_path {DIR}/other keys_zone=other:1m max_size=64m inactive=1h;
    proxy_cache_path {DIR}/memory keys_zone=memory:1m larder_disk=off;
    server {
        listen 127.0.0.1:{PORT};
        add_header X-Cache $upstream_cache_status;
        proxy_cache_key http://$host$request_uri;
        proxy_cache_valid 200 1h;
        location / { proxy_pass http://{ORIGIN}; proxy_cache pages; }
        location /other/ { proxy_pass http://{ORIGIN}; proxy_cache other; }
    }";

/// A running site with three pages in `pages` and one in `other`, all of them on disk.
fn site(origin: &Origin) -> Site {
    start(origin, SITE)
}

/// The same under another configuration.
fn start(origin: &Origin, configuration: &str) -> Site {
    let site = Setup::new().one_worker().name("ORIGIN", origin.address()).start(configuration);
    for number in 0..3 {
        let path = format!("/page/{number}");
        origin.answer(path.as_str(), Answer::ok(format!("page {number}")).field("X-From", "the origin"));
        site.get(&path);
    }
    origin.answer("/other/one", Answer::ok("other"));
    site.get("/other/one");
    eventually("the pages to be written", || {
        let listed = cache(site.setup(), &["ls"]).out;
        listed.contains("pages: 3 pages") && listed.contains("other: 1 pages")
    });
    site
}

/// What a run of `larder cache` said.
struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

fn cache(setup: &Setup, words: &[&str]) -> Said {
    let prefix = format!("{}/", setup.path("").display());
    let output = site::run([&["cache"], words, &["-p", &prefix, "-c", "nginx.conf"]].concat().iter());
    Said {
        code: output.status.code(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn damage(folder: &Path, from: &str, to: &str) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "segment") {
            let mut bytes = fs::read(&path).unwrap();
            while let Some(at) = bytes.windows(from.len()).position(|window| window == from.as_bytes()) {
                bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
            }
            fs::write(&path, bytes).unwrap();
        }
    }
}

#[test]
fn pages_are_listed_and_described_while_larder_runs_and_after() {
    let origin = Origin::start().unwrap();
    let site = site(&origin);
    let check = |setup: &Setup| {
        let all = cache(setup, &["ls"]);
        assert_eq!((all.code, all.out.matches("http://site.test/").count()), (Some(0), 4), "{}", all.out);
        let of_zone = cache(setup, &["ls", "other"]);
        assert!(
            of_zone.out.starts_with("200 ") && of_zone.out.contains("http://site.test/other/one"),
            "{}",
            of_zone.out
        );
        assert_eq!(of_zone.out.lines().count(), 2);
        let of_folder = cache(setup, &["ls", &setup.path("other").display().to_string()]);
        assert_eq!((of_folder.code, of_folder.out), (Some(0), of_zone.out));
        for wanted in ["http://site.test/page/1", "/page/1"] {
            let stat = cache(setup, &["stat", wanted, "pages"]);
            assert_eq!(stat.code, Some(0));
            for line in
                ["key: http://site.test/page/1\n", "  status: 200\n", "  body: 6 bytes\n", "  X-From: the origin\n"]
            {
                assert!(stat.out.contains(line), "{line} in {}", stat.out);
            }
        }
        let none = cache(setup, &["stat", "http://site.test/none", "pages"]);
        assert_eq!((none.code, none.out.contains("no page of \"http://site.test/none\"")), (Some(1), true));
        let verified = cache(setup, &["verify"]);
        assert_eq!((verified.code, verified.out.matches(" 0 damaged").count()), (Some(0), 2), "{}", verified.out);
    };
    check(site.setup());
    check(&site.stop());
}

#[test]
fn who_finds_no_page_is_told_what_keys_are_like() {
    let origin = Origin::start().unwrap();
    // Without a `proxy_cache_key`, that is by the address of the origin.
    let by_origin = SITE.replace("proxy_cache_key http://$host$request_uri;", "");
    let site = start(&origin, &by_origin);
    let visited = cache(site.setup(), &["stat", "http://site.test/page/1", "pages"]);
    let key = format!("http://{}/page/1", origin.address());
    let told = format!(
        "no page of \"http://site.test/page/1\"; its keys are like \"{key}\", and \"larder cache ls\" lists them\n"
    );
    assert!(visited.code == Some(1) && visited.out.ends_with(&told), "{}", visited.out);
    assert_eq!(cache(site.setup(), &["stat", &key, "pages"]).code, Some(0));
    // Where no key ends so, it is any.
    let other = cache(site.setup(), &["stat", "none", "other"]);
    let told = format!("no page of \"none\"; its keys are like \"http://{}/other/one\", and", origin.address());
    assert!(other.out.contains(&told), "{}", other.out);
    assert_eq!(cache(site.setup(), &["clear", "other"]).code, Some(0));
    let none = cache(site.setup(), &["stat", "none", "other"]);
    assert!(none.out.contains("no page of \"none\"; it holds no page\n"), "{}", none.out);
}

#[test]
fn what_is_in_memory_and_not_yet_on_disk_is_counted() {
    let origin = Origin::start().unwrap();
    // No segment fits in there.
    let small = SITE.replacen("max_size=64m", "max_size=200k", 1);
    let site = Setup::new().one_worker().name("ORIGIN", origin.address()).start(&small);
    origin.answer("/page/1", Answer::ok("page 1"));
    site.get("/page/1");
    let stat = || cache(site.setup(), &["stat", "/page/1", "pages"]);
    eventually("the page to be owed", || stat().out.contains(": 1 pages, "));
    let said = stat();
    assert!(said.code == Some(1) && said.out.contains("are in memory and still to be written"), "{}", said.out);
    site.change_to(SITE);
    eventually("the page to be written", || {
        let said = stat();
        said.code == Some(0) && !said.out.contains("still to be written")
    });
}

#[test]
fn a_zone_that_has_no_folder_is_said() {
    let origin = Origin::start().unwrap();
    let setup = site(&origin).stop();
    for (zone, said) in [
        (
            "page",
            "no zone of the configuration is called \"page\"; a folder is written with a slash; did you mean \"pages\"?",
        ),
        ("memory", "the zone \"memory\" is in memory only: it has no folder"),
        ("/nowhere", "/nowhere"),
    ] {
        for deed in ["ls", "verify", "clear"] {
            let refused = cache(&setup, &[deed, zone]);
            assert_eq!((refused.code, &*refused.out), (Some(1), ""), "{deed} {zone}");
            assert!(refused.err.contains(said), "{deed} {zone}: {}", refused.err);
        }
    }
    assert_eq!(cache(&setup, &["clear"]).code, Some(1), "all at once are not meant");
    let empty = setup.path("empty");
    fs::create_dir(&empty).unwrap();
    let refused = cache(&setup, &["ls", &empty.display().to_string()]);
    assert!(refused.err.contains("no cache of larder is in"), "{}", refused.err);
    // One that is gone does not hide the others.
    fs::remove_dir_all(setup.path("pages")).unwrap();
    let left = cache(&setup, &["ls"]);
    assert_eq!((left.code, left.out.contains("other: 1 pages")), (Some(1), true), "{}", left.out);
    assert!(left.err.contains("pages"), "{}", left.err);
}

#[test]
fn a_damaged_record_is_found_and_never_served() {
    let origin = Origin::start().unwrap();
    let setup = site(&origin).stop();
    damage(&setup.path("pages"), "page 1", "page 2");
    let verified = cache(&setup, &["verify", "pages"]);
    assert_eq!(verified.code, Some(1), "{}", verified.out);
    assert!(verified.out.contains(" 1 damaged") && verified.out.contains("segment 0"), "{}", verified.out);
    assert_eq!(cache(&setup, &["verify", "other"]).code, Some(0));
    let site = setup.start_as_written();
    assert_eq!(text(&site.get("/page/1")), "page 1");
}

#[test]
fn a_clear_drops_one_zone_from_its_folder() {
    let origin = Origin::start().unwrap();
    let setup = site(&origin).stop();
    let cleared = cache(&setup, &["clear", "pages"]);
    assert_eq!((cleared.code, cleared.out.contains("pages: cleared")), (Some(0), true), "{}", cleared.err);
    assert!(cache(&setup, &["ls"]).out.contains("pages: 0 pages"));
    let site = setup.start_as_written();
    eventually("the shelves to be open", || site.count_in_log("is open with") >= 4);
    assert_eq!(cached(&site.get("/page/0")), "MISS");
    assert_eq!(cached(&site.get("/other/one")), "HIT");
}

#[test]
fn a_clear_of_a_larder_that_runs_drops_what_is_in_memory_too() {
    let origin = Origin::start().unwrap();
    let site = site(&origin);
    assert_eq!(cached(&site.get("/page/0")), "HIT");
    let cleared = cache(site.setup(), &["clear", "pages"]);
    assert_eq!(
        (cleared.code, cleared.out.contains("cleared by the larder that uses it")),
        (Some(0), true),
        "{}",
        cleared.err
    );
    for number in 0..3 {
        assert_eq!(cached(&site.get(&format!("/page/{number}"))), "MISS");
        assert_eq!(cached(&site.get(&format!("/page/{number}"))), "HIT");
    }
    assert_eq!(cached(&site.get("/other/one")), "HIT", "another zone in the same memory");
    let site = site.restart();
    site.get_until("/page/0", "the shelf to be open", |response| cached(response) == "HIT");
}
