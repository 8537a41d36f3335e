//! `larder purge`: a running server is told which pages go.

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::thread;

use larder_testkit::{Answer, Folder, Origin, text_of};

use crate::running_varnishd::Varnishd;
use crate::site::{Setup, Site, cached, run, text};

const SITE: &str = "
    proxy_cache_path {DIR}/pages keys_zone=pages:1m larder_disk=off;
    proxy_cache_path {DIR}/others keys_zone=others:1m larder_disk=off;
    proxy_cache_valid 200 1h;
    proxy_cache_key $request_method$host$request_uri;
    add_header X-Cache $upstream_cache_status;
    server {
        listen 127.0.0.1:{PORT};
        location / { proxy_pass http://{ORIGIN}; proxy_cache pages; larder_cache_tags X-Tags; }
        location /others/ { proxy_pass http://{ORIGIN}; proxy_cache others; }
    }";

const PAGES: [&str; 4] = ["/a", "/a?b", "/blog/1", "/others/a"];

fn site(main: &str) -> (Site, Origin) {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page").field("X-Tags", "all"));
    origin.answer("/blog/1", Answer::ok("page").field("X-Tags", "all,one"));
    let site = Setup::new().main(main).name("ORIGIN", origin.address()).start(SITE);
    (site, origin)
}

/// What is said of these words: the exit code, and standard output or standard error.
fn told(site: &Site, words: &[&str]) -> (i32, String) {
    let output = site.setup().larder_words(&[&["purge"], words].concat());
    let code = output.status.code().unwrap_or(-1);
    (code, text_of(if code == 0 { &output.stdout } else { &output.stderr }))
}

fn fill(site: &Site) {
    for path in PAGES {
        site.get_until(path, "the page to be stored", |response| cached(response) == "HIT");
    }
}

fn gone(site: &Site) -> Vec<&'static str> {
    PAGES.into_iter().filter(|path| cached(&site.get(path)) == "MISS").collect()
}

#[test]
fn pages_go_by_what_is_said_of_them() {
    for main in ["daemon off; worker_processes 2;", "daemon off; master_process off;"] {
        let (site, _origin) = site(main);
        for (words, expected) in [
            (&["http://site.test/a"][..], &["/a"][..]),
            (&["https://site.test:8443/a", "/blog/1"], &["/a", "/blog/1"]),
            (&["http://other.test/a"], &[]),
            (&["http://site.test/a*"], &["/a", "/a?b"]),
            (&["--prefix", "site.test/a"], &["/a", "/a?b"]),
            (&["--match", "^/[ab]"], &["/a", "/a?b", "/blog/1"]),
            (&["--match", "/a$"], &["/a", "/others/a"]),
            (&["--host", "site.test"], &PAGES),
            (&["--host", "other.test"], &[]),
            (&["site.test/a"], &["/a"]),
            (&["Site.test/blog/1"], &["/blog/1"]),
            (&["--tag", "one"], &["/blog/1"]),
            (&["--tag", "all", "--zone", "pages"], &["/a", "/a?b", "/blog/1"]),
            (&["--all"], &PAGES),
            (&["--all", "--zone", "others"], &["/others/a"]),
            (&["--all", "--zone", "others", "--zone", "pages"], &PAGES),
        ] {
            fill(&site);
            let expected_text = crate::purge_from::purged(expected.len());
            assert_eq!(told(&site, words), (0, expected_text), "{words:?}");
            assert_eq!(gone(&site), expected, "{words:?}");
        }
        fill(&site);
        let ban = &["--ban", "obj.http.X-Tags ~ one"];
        assert_eq!(told(&site, ban), (0, "Banned: obj.http.X-Tags ~ one\n".to_owned()));
        assert_eq!(gone(&site), ["/blog/1"]);
        fill(&site);
        let json = told(&site, &["/a", "--soft", "--json"]).1;
        assert_eq!(json, "{\"purged\":1,\"also_on_disk\":false,\"banned\":[]}\n");
        assert_eq!(cached(&site.get("/a")), "EXPIRED");
        site.wait_for_log("\"larder purge\": purged: tags one: 1 page");
        site.wait_for_log("\"larder purge\": banned: ban obj.http.X-Tags ~ one");
    }
}

#[test]
fn what_cannot_be_done_is_told_and_purges_nothing() {
    let (site, _origin) = site("daemon off; worker_processes 2;");
    fill(&site);
    for (words, why) in [
        (&["--match", "("][..], "nothing is purged: Regex compile error"),
        (&["/a", "--match", "("], "nothing is purged: Regex compile error"),
        (&["--ban", "obj.x"], "nothing is purged: "),
        (&["--tag", "a", "--zone", "none"], "there is no zone \"none\"; there are: "),
        (&["ftp://site.test/a"], "\"ftp://site.test/a\" is no URL: it is neither http nor https"),
        (&["hello"], "\"hello\" says no path: write hello/ for the first page of a host, /hello for a page of all"),
        (&["*"], "\"*\" is no URL: \"*\" stands at the end of a path alone"),
        (&["--al"], "invalid option: \"--al\": did you mean \"--all\"?\nlarder: \"larder purge -h\" shows"),
        (&["--tag", "one", "--zone", "others"], "pages have no tags here"),
        (&[], "\"purge\" requires a URL"),
        (&["--all", "/a"], "--all means all pages"),
    ] {
        let (code, told) = told(&site, words);
        assert!(code == 1 && told.contains(why), "{words:?}: {code} {told}");
        assert_eq!(gone(&site), [""; 0], "{words:?}");
    }
    let setup = site.stop();
    let output = setup.larder_words(&["purge", "--all"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text_of(&output.stderr).contains("no server answers at"), "{}", text_of(&output.stderr));
}

#[test]
fn a_configuration_that_is_not_there_is_told_once() {
    for words in [&["purge", "-c", "/none.conf", "--all"][..], &["cache", "bans", "-c", "/none.conf"]] {
        let output = run(words.iter());
        let told = text_of(&output.stderr);
        assert!(told.starts_with("larder: [emerg] open() \"/none.conf\" failed"), "{words:?}: {told}");
        assert_eq!(output.status.code(), Some(1));
    }
}

#[test]
fn each_question_has_a_help_of_its_own() {
    for (words, expected) in [
        (&["purge", "-h"][..], "Usage: larder purge PAGES"),
        (&["explain", "--help"], "Usage: larder explain URL"),
        (&["why", "-?"], "Usage: larder why"),
        (&["explain"], "larder: \"explain\" requires a URL\nlarder: \"larder explain -h\" shows"),
    ] {
        let told = text_of(&run(words.iter()).stderr);
        assert!(told.starts_with(expected), "{words:?}: {told}");
    }
}

/// Pages on a disk alone are meant, and the purge outlives the process.
#[test]
fn a_purge_reaches_the_disk() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page").field("X-Tags", "all"));
    let on_disk = SITE.replace(" larder_disk=off", "");
    let site = Setup::new().name("ORIGIN", origin.address()).start(&on_disk);
    fill(&site);
    let site = site.restart();
    let expected = "Purged: 0 pages\nWhat is on disk alone is purged too, and not counted.\n";
    assert_eq!(told(&site, &["--tag", "all"]), (0, expected.to_owned()));
    let site = site.crash();
    assert_eq!(gone(&site), ["/a", "/a?b", "/blog/1"]);
    assert_eq!(text(&site.get("/a")), "page");
}

#[test]
fn larder_varnishd_purges_by_its_folder() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page").field("Cache-Control", "max-age=3600"));
    let port = origin.address().port();
    let vcl = format!(
        "vcl 4.1;\nbackend default {{ .host = \"127.0.0.1\"; .port = \"{port}\"; }}\n\
         sub vcl_deliver {{ set resp.http.X-Hits = obj.hits; }}"
    );
    let varnishd = Varnishd::serve(&vcl, &[]);
    let hits = || {
        let response = varnishd.play("GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        response.field("X-Hits").unwrap_or_default().to_owned()
    };
    assert_eq!(hits(), "0");
    crate::site::eventually("it is stored", || hits() != "0");
    let folder = varnishd.folder.join("run").display().to_string();
    let output = run(["purge", "-n", &folder, "http://a/a"].iter());
    assert_eq!(text_of(&output.stdout), "Purged: 1 page\n", "{}", text_of(&output.stderr));
    assert_eq!(hits(), "0");
}

#[test]
fn a_server_that_has_no_place_is_asked_again() {
    let folder = Folder::new().unwrap();
    let listener = UnixListener::bind(folder.path().join("busy.ask")).unwrap();
    let server = thread::spawn(move || {
        for answer in
            ["busy\nask again in some seconds\n", "busy\nask again in some seconds\n", "ok\nPurged: 7 pages\n"]
        {
            let (mut stream, _) = listener.accept().unwrap();
            let mut question = String::new();
            stream.read_to_string(&mut question).unwrap();
            assert_eq!(question, "larder 1 purge text\nall\nend\n");
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let pid = folder.path().join("busy.pid").display().to_string();
    let output = run(["purge", "--all", "--pid", &pid].iter());
    assert_eq!((output.status.code(), text_of(&output.stdout)), (Some(0), "Purged: 7 pages\n".to_owned()));
    server.join().unwrap();
}
