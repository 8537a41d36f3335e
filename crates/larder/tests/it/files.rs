//! Static files: a small one is in memory after a while, which no client may notice, whatever is done to the file.

use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use larder_testkit::{Framing, Http2Client, Response};

use crate::site::{Setup, Site, eventually, text};
use crate::tls::is_nginx;

/// How many files were found in memory.
fn found_in_memory(site: &Site) -> u64 {
    let page = text(&site.get("/metrics"));
    let count = page.lines().find_map(|line| line.strip_prefix("larder_files_from_memory_total "));
    count.and_then(|count| count.parse().ok()).expect("it is told")
}

/// Asks until the file is found in memory, which is once its last change is a while ago.
fn until_in_memory(site: &Site, target: &str) -> Response {
    let mut last = None;
    eventually(&format!("{target} to be in memory"), || {
        let before = found_in_memory(site);
        last = Some(site.get(target));
        is_nginx() || found_in_memory(site) > before
    });
    last.expect("it was asked for")
}

/// What tells two answers apart.
fn shown(response: &Response) -> (u16, Vec<(String, String)>, Framing, Vec<u8>) {
    let mut fields = response.fields.clone();
    // Of what is sent in several parts, each answer has a boundary of its own.
    fields.retain(|(name, _)| name != "Date" && name != "Content-Type");
    let is_in_parts = response.field("Content-Type").is_some_and(|value| value.starts_with("multipart"));
    let body = if is_in_parts { Vec::new() } else { response.body.clone() };
    (response.status, fields, response.framing, body)
}

#[test]
fn a_file_in_memory_is_answered_as_one_that_is_opened() {
    for cache in ["", "open_file_cache max=10;"] {
        let page = "<!--# echo var='name' --> page ".repeat(300);
        let setup = Setup::new().one_worker().name("CACHE", cache);
        let setup = setup.file("www/a.html", &page).file("www/a.html.gz", "packed").file("www/i/index.html", "index");
        let site = setup.start(
            "{CACHE} default_type text/html; charset_map koi8-r utf-8 { 80 E282AC; } server {
                listen 127.0.0.1:{PORT} http2; root {DIR}/www;
                location = /metrics { larder_metrics; }
                location /i/ { }
                location /packed/ { alias {DIR}/www/; gzip_static on; gzip_vary on; }
                location /gzip/ { alias {DIR}/www/; gzip on; gzip_vary on; }
                location /slow/ { alias {DIR}/www/; limit_rate 100m; }
                location /added/ { alias {DIR}/www/; add_header X-Tag $sent_http_etag; expires 1h; add_trailer X-End 1; }
                location /charset/ { alias {DIR}/www/; charset koi8-r; source_charset utf-8; }
                location /sub/ { alias {DIR}/www/; sub_filter page side; sub_filter_once off; }
                location /ssi/ { alias {DIR}/www/; ssi on; }
                location /links/ { alias {DIR}/www/; disable_symlinks on; }
                location /tried/ { root {DIR}/www; try_files /none.html /a.html =404; }
                location /bare/ { alias {DIR}/www/; etag off; max_ranges 0; if_modified_since off; }
                error_page 404 /a.html;
            }",
        );
        let tag = site.get("/a.html").field("ETag").expect("a file has one").to_owned();
        let none_match = format!("If-None-Match: {tag}\r\n");
        let if_range = format!("If-Range: {tag}\r\nRange: bytes=5-\r\n");
        let requests = [
            ("GET", "/a.html", ""),
            ("HEAD", "/a.html", ""),
            ("POST", "/a.html", "Content-Length: 0\r\n"),
            ("DELETE", "/a.html", ""),
            ("GET", "/a.html", "Range: bytes=1-3\r\n"),
            ("GET", "/a.html", "Range: bytes=-3\r\n"),
            ("GET", "/a.html", "Range: bytes=1-3,7-9\r\n"),
            ("GET", "/a.html", "Range: bytes=100000-\r\n"),
            ("GET", "/a.html", &none_match),
            ("GET", "/a.html", &if_range),
            ("GET", "/a.html", "If-Match: \"x\"\r\n"),
            ("GET", "/i/", ""),
            ("GET", "/packed/a.html", ""),
            ("GET", "/packed/a.html", "Accept-Encoding: gzip\r\n"),
            ("GET", "/gzip/a.html", ""),
            ("GET", "/gzip/a.html", "Accept-Encoding: gzip\r\n"),
            ("GET", "/slow/a.html", ""),
            ("GET", "/charset/a.html", ""),
            ("GET", "/sub/a.html", ""),
            ("GET", "/ssi/a.html", ""),
            ("GET", "/links/a.html", ""),
            ("GET", "/tried/x", ""),
            ("GET", "/bare/a.html", "Range: bytes=1-3\r\n"),
            ("GET", "/none", ""),
        ];
        let answers = || requests.map(|(method, target, fields)| shown(&site.ask(method, target, fields)));
        let added = || site.get("/added/a.html");
        // Files that have just been written are opened for each request.
        let (opened, opened_added) = (answers(), added());
        for target in ["/a.html", "/i/", "/packed/a.html"] {
            until_in_memory(&site, target);
        }
        until_in_memory(&site, "/a.html");
        let kept = answers();
        for (at, request) in requests.iter().enumerate() {
            assert_eq!(kept[at], opened[at], "{request:?} {cache}");
        }
        let kept_added = added();
        for name in ["X-Tag", "Cache-Control", "Last-Modified"] {
            assert_eq!(kept_added.field(name), opened_added.field(name), "{name}");
        }
        assert_eq!((kept_added.trailers, kept_added.body), (opened_added.trailers, opened_added.body));
        let mut client = Http2Client::connect(site.setup().address()).unwrap();
        assert_eq!(client.get("/a.html").unwrap().body, page.as_bytes(), "{cache}");
    }
}

/// A name, a way to change what it names, and what the next request gets.
type Change = (&'static str, fn(&Path), (u16, &'static str));

#[test]
fn each_change_of_a_file_is_seen_by_the_next_request() {
    let changes: [Change; 11] = [
        ("nothing", |_| {}, (200, "one")),
        (
            "another file by the same name",
            |folder| {
                fs::write(folder.join("new"), "two").unwrap();
                fs::rename(folder.join("new"), folder.join("f")).unwrap();
            },
            (200, "two"),
        ),
        ("in place, as long as before", |folder| fs::write(folder.join("f"), "two").unwrap(), (200, "two")),
        (
            "in place, and its time set back",
            |folder| {
                let before = fs::metadata(folder.join("f")).unwrap().modified().unwrap();
                fs::write(folder.join("f"), "two").unwrap();
                let file = File::options().write(true).open(folder.join("f")).unwrap();
                file.set_times(FileTimes::new().set_modified(before)).unwrap();
            },
            (200, "two"),
        ),
        ("longer", |folder| fs::write(folder.join("f"), "one and more").unwrap(), (200, "one and more")),
        ("shorter", |folder| fs::write(folder.join("f"), "o").unwrap(), (200, "o")),
        ("empty", |folder| fs::write(folder.join("f"), "").unwrap(), (200, "")),
        ("gone", |folder| fs::remove_file(folder.join("f")).unwrap(), (404, "")),
        ("its folder gone", |folder| fs::rename(folder, folder.with_extension("old")).unwrap(), (404, "")),
        (
            "a link on the way to another folder",
            |folder| {
                let release = folder.with_extension("2");
                fs::create_dir(&release).unwrap();
                fs::write(release.join("f"), "two").unwrap();
                fs::rename(folder, folder.with_extension("1")).unwrap();
                symlink(release, folder).unwrap();
            },
            (200, "two"),
        ),
        (
            "a folder in its place",
            |folder| {
                fs::remove_file(folder.join("f")).unwrap();
                fs::create_dir(folder.join("f")).unwrap();
            },
            (301, ""),
        ),
    ];
    let mut setup = Setup::new().one_worker();
    for at in 0..changes.len() {
        setup = setup.file(&format!("www/{at}/f"), "one");
    }
    let site =
        setup.start("server { listen 127.0.0.1:{PORT}; root {DIR}/www; location = /metrics { larder_metrics; } }");
    let target = |at: usize| format!("/{at}/f");
    for at in 0..changes.len() {
        assert_eq!(text(&until_in_memory(&site, &target(at))), "one");
    }
    for (at, (what, change, (status, body))) in changes.into_iter().enumerate() {
        // What was read a few seconds ago is read again.
        until_in_memory(&site, &target(at));
        change(&site.setup().path(&format!("www/{at}")));
        let answer = site.get(&target(at));
        assert_eq!(answer.status, status, "{what}");
        assert!(status != 200 || text(&answer) == body, "{what}: {}", text(&answer));
    }
}

#[test]
fn a_file_that_may_no_longer_be_read_is_forbidden_at_once() {
    let setup = Setup::new().one_worker().file("www/f", "one").file("www/x/f", "one");
    let site =
        setup.start("server { listen 127.0.0.1:{PORT}; root {DIR}/www; location = /metrics { larder_metrics; } }");
    for (target, name) in [("/f", "www/f"), ("/x/f", "www/x")] {
        until_in_memory(&site, target);
        fs::set_permissions(site.setup().path(name), Permissions::from_mode(0o000)).unwrap();
        assert_eq!(site.get(target).status, 403, "{target}");
        fs::set_permissions(site.setup().path(name), Permissions::from_mode(0o755)).unwrap();
        assert_eq!(text(&site.get(target)), "one", "{target}");
    }
}

#[test]
fn a_file_that_becomes_shorter_than_was_announced_ends_the_connection() {
    // With `open_file_cache`, the length of before is announced.
    let long = "x".repeat(100_000);
    let site = Setup::new()
        .one_worker()
        .file("www/f", &long)
        .start("open_file_cache max=10; server { listen 127.0.0.1:{PORT}; root {DIR}/www; }");
    assert_eq!(site.get("/f").body.len(), long.len());
    File::options().write(true).open(site.setup().path("www/f")).unwrap().set_len(10).unwrap();
    let mut client = site.client();
    client.send(b"GET /f HTTP/1.1\r\nHost: site.test\r\n\r\n").unwrap();
    let answer = client.read_response("GET").unwrap();
    assert_eq!((answer.field("Content-Length"), answer.body.len()), (Some("100000"), 10));
    site.wait_for_log("was truncated at 10 while sending response to client");
    assert_eq!(site.get("/none").status, 404);
}
