//! Pages on disk: what stays through restarts, crashes and reloads, and what happens when a disk does not work.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use larder_testkit::{Answer, HandOrigin, Origin, Signal, signal_to};

use crate::failures::TinyDisk;
use crate::site::{Setup, Site, asked, cached, eventually, text};

/// A zone on disk, and a site that caches everything for an hour.
const SITE: &str = "
    proxy_cache_path {DIR}/pages keys_zone=pages:1m max_size=64m inactive=1h {PATH_MORE};
    {HTTP_MORE}
    server {
        listen 127.0.0.1:{PORT};
        add_header X-Cache $upstream_cache_status;
        location / {
            proxy_pass http://{ORIGIN};
            proxy_cache pages;
            proxy_cache_key $request_uri;
            proxy_cache_valid 200 1h;
        }
    }";

fn setup(origin: &Origin, path_more: &str, http_more: &str) -> Setup {
    Setup::new().one_worker().name("ORIGIN", origin.address()).name("PATH_MORE", path_more).name("HTTP_MORE", http_more)
}

/// The files that are segments in a folder.
fn segments(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "segment")).collect()
}

/// Whether `text` is in a segment of the folder.
fn is_on_disk(folder: &Path, text: &str) -> bool {
    segments(folder).iter().any(|segment| {
        let bytes = fs::read(segment).unwrap_or_default();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    })
}

fn fetch_many(site: &Site, origin: &Origin, count: usize) {
    for number in 0..count {
        let path = format!("/page/{number}");
        origin.answer(path.as_str(), Answer::ok(format!("page {number}, whole")).field("ETag", "\"one\""));
        assert_eq!(cached(&site.get(&path)), "MISS");
    }
}

fn are_hits(site: &Site, count: usize) {
    for number in 0..count {
        let path = format!("/page/{number}");
        // The shelf may still be reading what it has.
        let page = site.get_until(&path, "a hit", |response| cached(response) == "HIT");
        assert_eq!(text(&page), format!("page {number}, whole"));
        assert_eq!(page.field("ETag"), Some("\"one\""));
    }
}

#[test]
fn pages_are_there_after_a_restart_and_after_a_crash() {
    let origin = Origin::start().unwrap();
    let mut site = setup(&origin, "", "").start(SITE);
    fetch_many(&site, &origin, 50);
    site = site.restart();
    // The log is of the run before, too.
    eventually("the shelf to be open", || site.count_in_log("50 pages") == 1);
    are_hits(&site, 50);
    assert_eq!(origin.count(), 50);
    origin.answer("/late", Answer::ok("stored late"));
    site.get("/late");
    let pages = site.setup().path("pages");
    eventually("the page to be written", || is_on_disk(&pages, "stored late"));
    site = site.crash();
    eventually("the shelf to be open", || site.count_in_log("51 pages") == 1);
    are_hits(&site, 50);
    assert_eq!(cached(&site.get("/late")), "HIT");
    assert_eq!(origin.count(), 51);
}

#[test]
fn a_killed_serving_process_leaves_its_pages_to_the_next() {
    let origin = Origin::start().unwrap();
    let site = setup(&origin, "", "").start(SITE);
    origin.answer("/a", Answer::ok("on disk"));
    site.get("/a");
    let pages = site.setup().path("pages");
    eventually("the page to be written", || is_on_disk(&pages, "on disk"));
    let process = site.serving_process();
    signal_to(process, Signal::Kill).unwrap();
    site.wait_for_log(&format!("worker process {process} exited on signal 9"));
    eventually("the shelf to be open", || site.count_in_log("1 pages") == 1);
    assert_eq!(cached(&site.get("/a")), "HIT");
}

#[test]
fn a_page_comes_back_with_its_variants_and_its_times() {
    let origin = Origin::start().unwrap();
    let mut site = setup(&origin, "", "").start(SITE);
    let page = |text: &str| Answer::ok(text).field("Vary", "Accept-Language").field("Cache-Control", "max-age=2");
    origin.answer("/v", page("deutsch"));
    origin.answer_then("/v", page("english"));
    origin.answer_then("/v", page("neu"));
    let ask = |site: &Site, language: &str| site.ask("GET", "/v", &format!("Accept-Language: {language}\r\n"));
    assert_eq!(text(&ask(&site, "de")), "deutsch");
    assert_eq!(text(&ask(&site, "en")), "english");
    site = site.restart();
    eventually("the shelf to be open", || site.count_in_log("2 pages") == 1);
    for (language, page) in [("de", "deutsch"), ("en", "english")] {
        let response = ask(&site, language);
        if cached(&response) == "HIT" {
            assert_eq!(text(&response), page);
        }
    }
    eventually("the pages to expire", || cached(&ask(&site, "de")) == "EXPIRED");
    assert_eq!(text(&ask(&site, "de")), "neu");
}

#[test]
fn a_reload_keeps_what_is_in_memory_and_on_disk() {
    let origin = Origin::start().unwrap();
    let site = setup(&origin, "", "").start(SITE);
    fetch_many(&site, &origin, 10);
    site.change_to(&SITE.replace("max_size=64m", "max_size=32m min_free=1m"));
    are_hits(&site, 10);
    assert_eq!(origin.count(), 10);
}

#[test]
fn a_big_page_is_served_from_disk_in_full_and_in_parts() {
    let origin = Origin::start().unwrap();
    let mut site =
        setup(&origin, "", "larder_memory 16m; limit_rate 40m;").start(&SITE.replace("max_size=64m", "max_size=256m"));
    let large: Vec<u8> = (0..20 << 20).map(|at: u32| (at / 4096 * 31 + at % 251) as u8).collect();
    origin.answer("/large", Answer::ok(large.clone()).field("Accept-Ranges", "bytes"));
    let first = site.get("/large");
    assert_eq!((cached(&first), first.body == large), ("MISS", true));
    // A busy disk may be slower than that client, and then the page is not kept. Without a client, the fetch waits for
    // the disk.
    let is_a_hit = |site: &Site| cached(&site.ask("HEAD", "/large", "")) == "HIT";
    eventually("the page to be kept", || is_a_hit(&site));
    for _ in 0..2 {
        // What a busy disk does not give within a second is fetched, and is the same page.
        eventually("the disk to give a part of it", || {
            let part = site.ask("GET", "/large", "Range: bytes=10000000-10009999\r\n");
            // That may be the answer of the origin, which knows no ranges.
            let is_whole = part.status == 200 && part.body == large && cached(&part) != "HIT";
            assert!(is_whole || part.status == 206 && part.body == large[10_000_000..10_010_000]);
            cached(&part) == "HIT"
        });
        eventually("the disk to give the whole of it", || {
            let whole = site.get("/large");
            assert!(whole.body == large);
            cached(&whole) == "HIT"
        });
        site = site.restart();
        eventually("the shelf to be open", || is_a_hit(&site));
    }
}

/// Pages of which some are sent from memory and some from the disk's file.
const SIZES: [usize; 3] = [100 << 10, 300 << 10, 1 << 20];

#[test]
fn every_hit_says_how_long_it_is_fresh_wherever_its_body_comes_from() {
    let origin = Origin::start().unwrap();
    let site = setup(&origin, "", "larder_cache_status on;").start(SITE);
    for size in SIZES {
        let path = format!("/{size}");
        let page = Answer::ok(vec![b'a'; size]).field("ETag", "\"one\"").field("Accept-Ranges", "bytes");
        origin.answer(path.as_str(), page);
        site.get(&path);
    }
    let site = site.restart();
    eventually("the shelf to be open", || site.count_in_log("3 pages") == 1);
    for size in SIZES {
        let path = format!("/{size}");
        for (method, fields, status) in [
            ("GET", "", 200),
            ("HEAD", "", 200),
            ("GET", "Range: bytes=5-9\r\n", 206),
            ("GET", "If-None-Match: \"one\"\r\n", 304),
            ("GET", "If-Match: \"two\"\r\n", 412),
            ("GET", "Range: bytes=9000000-\r\n", 416),
        ] {
            let answer = site.ask(method, &path, fields);
            let said = answer.field("Cache-Status").unwrap_or_default();
            assert!(
                answer.status == status && said.starts_with("larder; hit; ttl=3"),
                "{path} {fields}: {} {said}",
                answer.status
            );
        }
    }
    assert_eq!(origin.count(), SIZES.len());
}

#[test]
fn a_stale_page_says_since_when_wherever_its_body_comes_from() {
    let origin = Origin::start().unwrap();
    let more = "larder_cache_status on; proxy_cache_use_stale http_500;";
    let site = setup(&origin, "", more).start(&SITE.replace("200 1h", "200 1s"));
    for size in SIZES {
        let path = format!("/{size}");
        origin.answer(path.as_str(), Answer::ok(vec![b'a'; size]));
        origin.answer_then(path.as_str(), Answer::status("500 Internal Server Error"));
        site.get(&path);
    }
    let site = site.restart();
    eventually("the shelf to be open", || site.count_in_log("3 pages") == 1);
    for size in SIZES {
        let stale = site.get_until(&format!("/{size}"), "it to be stale", |response| cached(response) == "STALE");
        let said = stale.field("Cache-Status").unwrap_or_default();
        assert!(said.starts_with("larder; fwd=stale; fwd-status=500; ttl="), "{size}: {said}");
    }
}

#[test]
fn a_big_stale_page_that_the_disk_let_go_of_is_fetched_and_never_cut() {
    let origin = Origin::start().unwrap();
    let more =
        "larder_memory 16m; limit_rate 40m; proxy_cache_use_stale updating error; proxy_cache_background_update on;";
    let site =
        setup(&origin, "", more).start(&SITE.replace("max_size=64m", "max_size=40m").replace("200 1h", "200 1s"));
    let page = |number: usize| vec![b'a' + number as u8; 8 << 20];
    for number in 0..7 {
        let path = format!("/{number}");
        origin.answer(path.as_str(), Answer::ok(page(number)).field("ETag", "\"one\""));
        assert!(site.get(&path).body == page(number));
    }
    for number in 0..7 {
        let again = site.get(&format!("/{number}"));
        assert!(again.status == 200 && again.body == page(number), "page {number}: {} bytes", again.body.len());
    }
}

#[test]
fn what_is_not_ours_in_the_folder_is_left_alone_and_said() {
    let origin = Origin::start().unwrap();
    let name = "pages/c/29/b7f54b2df7773722d382f4809d65029c";
    let setup = setup(&origin, "", "").file(name, "nginx's");
    let site = setup.start(SITE);
    site.wait_for_log("left alone");
    fetch_many(&site, &origin, 3);
    assert_eq!(site.server().text(name), "nginx's");
    let site = site.restart();
    are_hits(&site, 3);
    assert_eq!(site.server().text(name), "nginx's");
}

#[test]
fn a_segment_that_is_deleted_by_hand_costs_a_fetch() {
    let origin = Origin::start().unwrap();
    let site = setup(&origin, "", "larder_memory 1m;").start(SITE);
    fetch_many(&site, &origin, 10);
    let site = site.restart();
    eventually("the shelf to be open", || site.count_in_log("10 pages") == 1);
    for segment in segments(&site.setup().path("pages")) {
        fs::remove_file(segment).unwrap();
    }
    for number in 0..10 {
        assert_eq!(text(&site.get(&format!("/page/{number}"))), format!("page {number}, whole"));
    }
    let site = site.restart();
    for number in 0..10 {
        assert_eq!(text(&site.get(&format!("/page/{number}"))), format!("page {number}, whole"));
    }
}

/// How people purge who come from nginx.
fn empty(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
}

#[test]
fn a_folder_that_is_emptied_or_deleted_by_hand_takes_the_pages_in_memory_with_it() {
    let empty_it: [fn(&Path); 2] = [empty, |folder| fs::remove_dir_all(folder).unwrap()];
    for empty_it in empty_it {
        let origin = Origin::start().unwrap();
        let setup = setup(&origin, "", "");
        // Where larder's user may make the folder anew.
        let around = setup.path("around");
        fs::create_dir(&around).unwrap();
        fs::set_permissions(&around, fs::Permissions::from_mode(0o777)).unwrap();
        let site = setup.start(&SITE.replace("{DIR}/pages", "{DIR}/around/pages"));
        fetch_many(&site, &origin, 10);
        let pages = around.join("pages");
        eventually("the pages to be written", || is_on_disk(&pages, "page 9, whole"));
        are_hits(&site, 10);
        empty_it(&pages);
        site.wait_for_log("was emptied by hand");
        for number in 0..10 {
            let path = format!("/page/{number}");
            origin.answer(path.as_str(), Answer::ok(format!("page {number}, whole")).field("ETag", "\"one\""));
            assert_eq!(cached(&site.get(&path)), "MISS");
            assert_eq!(cached(&site.get(&path)), "HIT");
        }
        assert_eq!(origin.count(), 20);
        let site = site.restart();
        eventually("the shelf to be open", || site.count_in_log("with 10 pages") == 1);
        are_hits(&site, 10);
        assert_eq!(origin.count(), 20, "what came after that stays");
    }
}

#[test]
fn a_folder_that_larder_may_not_make_or_open_says_what_to_do() {
    if !rustix::process::geteuid().is_root() {
        // Then larder runs as we do, and may do what we may.
        return;
    }
    let origin = Origin::start().unwrap();
    let setup = setup(&origin, "", "");
    let around = setup.path("around");
    fs::create_dir(&around).unwrap();
    let mut site = setup.start(&SITE.replace("{DIR}/pages", "{DIR}/around/pages"));
    fetch_many(&site, &origin, 1);
    let pages = around.join("pages");
    eventually("the page to be written", || is_on_disk(&pages, "page 0, whole"));
    fs::remove_dir_all(&pages).unwrap();
    let again = "; it is left out and tried again every 10 s";
    site.wait_for_log(&format!(
        "it cannot be made (Permission denied (os error 13)); make it for larder's user \"nobody\", or make its parent \
         writable for that user, or, where larder was started as root, reload{again}"
    ));
    site.reload();
    site.wait_for_log("works again");
    assert_eq!(cached(&site.get("/page/0")), "MISS");
    eventually("the page to be written", || is_on_disk(&pages, "page 0, whole"));
    let setup = site.stop();
    // As a copy that root made.
    std::os::unix::fs::chown(pages.join("larder.shelf"), Some(0), Some(0)).unwrap();
    fs::set_permissions(pages.join("larder.shelf"), fs::Permissions::from_mode(0o600)).unwrap();
    site = setup.start_as_written();
    site.wait_for_log(&format!(
        "it cannot be opened (Permission denied (os error 13)); give it and its files to larder's user \"nobody\"{again}"
    ));
}

#[test]
fn a_segment_that_is_deleted_by_hand_takes_its_pages_in_memory_with_it() {
    let origin = Origin::start().unwrap();
    let site = setup(&origin, "", "").start(&SITE.replace("max_size=64m", "max_size=8m"));
    let pages = site.setup().path("pages");
    let body = |number: usize| format!("page {number}, whole ").repeat(2000);
    let ask = |number: usize| site.get(&format!("/page/{number}"));
    for number in 0..20 {
        origin.answer(format!("/page/{number}").as_str(), Answer::ok(body(number)));
        assert_eq!(cached(&ask(number)), "MISS");
        eventually("the page to be written", || is_on_disk(&pages, &format!("page {number}, whole ")));
    }
    let mut all = segments(&pages);
    all.sort();
    assert!(all.len() > 2);
    fs::remove_file(&all[0]).unwrap();
    site.wait_for_log("were deleted by hand");
    let gone: Vec<usize> = (0..20).filter(|&number| cached(&ask(number)) == "MISS").collect();
    assert!(gone.contains(&0) && gone.len() < 10, "{gone:?}");
}

#[test]
fn a_damaged_segment_is_a_miss_and_never_a_wrong_page() {
    let origin = Origin::start().unwrap();
    let site = setup(&origin, "", "").start(SITE);
    fetch_many(&site, &origin, 10);
    let pages = site.setup().path("pages");
    let setup = site.stop();
    for segment in segments(&pages) {
        let bytes = fs::read(&segment).unwrap();
        let is_of_page_5 = String::from_utf8_lossy(&bytes).contains("page 5, whole");
        let damaged = if is_of_page_5 { replace(&bytes, b"page 5, whole", b"page 6, whole") } else { bytes };
        fs::write(&segment, damaged).unwrap();
    }
    let site = setup.start_as_written();
    for number in 0..10 {
        assert_eq!(text(&site.get(&format!("/page/{number}"))), format!("page {number}, whole"));
    }
}

fn replace(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    while let Some(at) = bytes.windows(from.len()).position(|window| window == from) {
        bytes[at..at + to.len()].copy_from_slice(to);
    }
    bytes
}

#[test]
fn a_disk_without_room_costs_a_line_and_no_answer() {
    let origin = Origin::start().unwrap();
    let Some(disk) = TinyDisk::mount("8m") else { return };
    disk.fill();
    let path = disk.folder.path().display().to_string();
    let site = setup(&origin, "", "").start(&SITE.replace("{DIR}/pages", &path));
    fetch_many(&site, &origin, 20);
    are_hits(&site, 20);
    site.wait_for_log(&path);
}

#[test]
fn max_size_is_kept_to_the_byte_while_pages_come_and_go() {
    let origin = Origin::start().unwrap();
    let site = setup(&origin, "", "larder_memory 1m;").start(&SITE.replace("max_size=64m", "max_size=2m"));
    let pages = site.setup().path("pages");
    for number in 0..200 {
        let body = format!("page {number} ").repeat(10_000);
        let path = format!("/{number}");
        origin.answer(path.as_str(), Answer::ok(body.clone()));
        let answer = site.get(&path);
        let told = (answer.status, answer.body.len(), text(&answer) == body);
        assert_eq!(told, (200, body.len(), true), "{path}");
        let used = used_bytes(&pages);
        assert!(used <= 2 << 20, "{used} bytes after {number} pages");
    }
    // As long as pages wait for the disk, a megabyte of memory may have no room for one more.
    site.get_until("/199", "the page", |response| cached(response) == "HIT");
}

#[test]
fn what_came_faster_than_the_disk_is_on_it_when_nothing_is_owed() {
    const SIZE: usize = 64 << 20;
    let origin = Origin::start().unwrap();
    let metrics = "location = /metrics { larder_metrics; }\n        location / {";
    let mut site = setup(&origin, "", "larder_memory 400m;").start(&SITE.replace("location / {", metrics));
    let pages = site.setup().path("pages");
    let within_limit = |at: usize| assert!(used_bytes(&pages) <= SIZE as u64, "after {at} pages");
    let body = |number: usize| -> Vec<u8> {
        (0..1 << 20).map(|at: usize| (at / 4096 * 31 + at % 251 + number * 7) as u8).collect()
    };
    for number in 0..300 {
        let path = format!("/{number}");
        origin.answer(path.as_str(), Answer::ok(body(number)));
        assert!(site.get(&path).status == 200);
        within_limit(number);
    }
    eventually("all to be written", || {
        within_limit(300);
        text(&site.get("/metrics"))
            .lines()
            .any(|line| line.starts_with("larder_disk_owed_pages{") && line.ends_with(" 0"))
    });
    site = site.crash();
    eventually("the shelf to be open", || site.count_in_log("is open with") == 2);
    let hits = (240..300).filter(|&number| {
        let page = site.get(&format!("/{number}"));
        assert!(page.body == body(number), "{number}");
        cached(&page) == "HIT"
    });
    let hits = hits.count();
    assert!(hits >= 58, "{hits} of the newest 60");
}

/// The bytes of blocks that a folder takes, as `du` counts.
fn used_bytes(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let blocks = |path: &Path| fs::metadata(path).map_or(0, |meta| meta.blocks() * 512);
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries.map(|entry| blocks(&entry.path())).sum::<u64>() + blocks(folder)
}

#[test]
fn two_larders_on_one_folder_take_turns() {
    let origin = Origin::start().unwrap();
    let first = setup(&origin, "", "").start(SITE);
    fetch_many(&first, &origin, 5);
    let folder = first.setup().path("pages").display().to_string();
    let second = setup(&origin, "", "").start(&SITE.replace("{DIR}/pages", &folder));
    second.wait_for_log("another process");
    // It serves meanwhile, from memory.
    assert_eq!(cached(&second.get("/page/0")), "MISS");
    assert_eq!(cached(&second.get("/page/0")), "HIT");
    // Its folder stays.
    let _first = first.stop();
    second.wait_for_log("5 pages");
    assert_eq!(cached(&second.get("/page/4")), "HIT");
}

#[test]
fn a_page_for_which_there_is_no_room_is_delivered_whole() {
    let mut origin = HandOrigin::start().unwrap();
    let site = Setup::new()
        .one_worker()
        .name("ORIGIN", origin.address())
        .name("PATH_MORE", "larder_disk=off")
        .name("HTTP_MORE", "")
        .start(&SITE.replace("max_size=64m", "max_size=1m"));
    // Two pages that are still to come to their ends hold nearly all memory.
    let (len, most) = (521_000, 520_000);
    let mut held = Vec::new();
    for path in ["/a", "/b"] {
        let (mut client, mut fetch) = asked(&site, &mut origin, path);
        fetch.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n{}", "x".repeat(most))).unwrap();
        client.read_head().unwrap();
        client.read_bytes(most).unwrap();
        held.push((client, fetch));
    }
    let body = "page ".repeat(16_000);
    let (mut client, mut fetch) = asked(&site, &mut origin, "/c");
    // Nobody knows how long it is, so that its first bytes are those that find no room.
    fetch.send(format!("HTTP/1.1 200 OK\r\n\r\n{body}")).unwrap();
    drop(fetch);
    assert!(text(&client.read_response("GET").unwrap()) == body);
}

/// Two folders under one zone.
const PLACED: &str = "
    proxy_cache_path {DIR}/one keys_zone=one:1m max_size=16m inactive=1h;
    proxy_cache_path {DIR}/two keys_zone=two:1m max_size=16m inactive=1h;
    larder_placement pages {RULE} one two;
    server {
        listen 127.0.0.1:{PORT};
        add_header X-Cache $upstream_cache_status;
        location / {
            proxy_pass http://{ORIGIN};
            proxy_cache pages;
            proxy_cache_key $request_uri;
            proxy_cache_valid 200 1h;
        }
    }";

#[test]
fn hash_spreads_pages_and_a_lost_disk_loses_its_share_only() {
    let origin = Origin::start().unwrap();
    let site = setup(&origin, "", "").name("RULE", "hash").start(PLACED);
    fetch_many(&site, &origin, 100);
    let setup = site.stop();
    fs::remove_dir_all(setup.path("one")).unwrap();
    let site = setup.start_as_written();
    eventually("the shelves to be open", || site.count_in_log("is open with") >= 4);
    let hits = (0..100).filter(|number| cached(&site.get(&format!("/page/{number}"))) == "HIT").count();
    assert!((25..75).contains(&hits), "{hits}");
}

#[test]
fn a_mirror_survives_the_loss_of_a_disk() {
    for lost in ["one", "two"] {
        let origin = Origin::start().unwrap();
        let site = setup(&origin, "", "").name("RULE", "mirror").start(PLACED);
        fetch_many(&site, &origin, 20);
        let setup = site.stop();
        fs::remove_dir_all(setup.path(lost)).unwrap();
        let site = setup.start_as_written();
        eventually("the shelf to be open", || site.count_in_log("is open with 20 pages") == 1);
        are_hits(&site, 20);
        assert_eq!(origin.count(), 20, "{lost}");
    }
}
