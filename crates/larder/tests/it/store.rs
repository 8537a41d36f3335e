//! `proxy_store`, `fastcgi_store`: answers that are kept as files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, SystemTime};

use larder_testkit::{Answer, FastCgiOrigin, FastCgiReply, HandOrigin, Origin};

use crate::site::{Setup, Site, eventually, get, text};

/// The usual way: a file that is not there is fetched, and is there the next time.
const SITE: &str = "
    server {
        listen 127.0.0.1:{PORT};
        location / { root {DIR}/mirror; error_page 404 = @fetch; log_not_found off; }
        location @fetch {
            root {DIR}/mirror;
            proxy_pass http://{ORIGIN};
            proxy_store on;
            proxy_store_access user:rw group:rw all:r;
        }
        location /by/ { proxy_pass http://{ORIGIN}; proxy_store {DIR}/by/$host$uri; }
        location /unbuffered { proxy_pass http://{ORIGIN}; proxy_buffering off; proxy_store {DIR}/by$uri; }
        location /php/ { fastcgi_pass {FCGI}; {PARAMS} fastcgi_store {DIR}/by$uri; }
    }";

fn start(origin: impl ToString, fcgi: impl ToString) -> Site {
    let setup = Setup::new().name("ORIGIN", origin).name("FCGI", fcgi);
    for folder in ["mirror", "by"] {
        let path = setup.path(folder);
        fs::create_dir(&path).unwrap();
        // Whoever serves may store.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    setup.start(SITE)
}

/// What is left in the folder for files that are being written.
fn unfinished(site: &Site) -> usize {
    fs::read_dir(site.setup().path("temp-proxy")).map_or(0, Iterator::count)
}

#[test]
fn an_answer_becomes_a_file_and_the_file_the_answer() {
    let origin = Origin::start().unwrap();
    let site = start(origin.address(), "127.0.0.1:1");
    let modified = "Thu, 01 Jan 2026 00:00:00 GMT";
    origin.answer("/a/b/page.html", Answer::ok("page").field("Last-Modified", modified));
    origin.answer("/empty", Answer::ok(""));
    assert_eq!(text(&site.get("/empty")), "");
    let empty = site.setup().path("mirror/empty");
    eventually("the empty file", || empty.exists());
    for _ in 0..2 {
        assert_eq!(text(&site.get("/a/b/page.html")), "page");
        assert_eq!(text(&site.get("/empty")), "");
    }
    assert_eq!(origin.count(), 2);
    let facts = fs::metadata(site.setup().path("mirror/a/b/page.html")).unwrap();
    assert_eq!(facts.permissions().mode() & 0o777, 0o664);
    let since = facts.modified().unwrap().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(since, Duration::from_secs(1_767_225_600));
    assert_eq!(site.get("/a/b/page.html").field("Last-Modified"), Some(modified));
    assert_eq!(unfinished(&site), 0);
}

#[test]
fn a_path_of_variables_and_fastcgi_are_stored_too() {
    let origin = Origin::start().unwrap();
    let php = FastCgiOrigin::start_tcp().unwrap();
    let site = start(origin.address(), php.address());
    origin.answer("/by/x", Answer::ok("by host"));
    php.answer("*", FastCgiReply::html("by php"));
    site.get("/by/x");
    site.get("/php/y");
    for (path, content) in [("by/site.test/by/x", "by host"), ("by/php/y", "by php")] {
        assert_eq!(fs::read_to_string(site.setup().path(path)).unwrap(), content, "{path}");
    }
}

#[test]
fn what_is_no_whole_page_is_not_stored() {
    let origin = Origin::start().unwrap();
    let site = start(origin.address(), "127.0.0.1:1");
    origin.answer("/by/404", Answer::status("404 Not Found").body("no"));
    origin.answer("/by/head", Answer::ok("page"));
    origin.answer("/unbuffered", Answer::ok("page"));
    origin.answer("/by/cut", Answer::raw("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"));
    assert_eq!(site.get("/by/404").status, 404);
    assert_eq!(site.ask("HEAD", "/by/head", "").status, 200);
    assert_eq!(text(&site.get("/unbuffered")), "page");
    let mut client = site.client();
    client.send(get("/by/cut").as_bytes()).unwrap();
    let _ = client.read_response("GET");
    eventually("the cut answer to be given up", || unfinished(&site) == 0);
    assert_eq!(fs::read_dir(site.setup().path("by")).unwrap().count(), 0);
}

#[test]
fn a_visitor_who_leaves_leaves_the_file_to_be_made() {
    let mut origin = HandOrigin::start().unwrap();
    let site = start(origin.address(), "127.0.0.1:1");
    let mut client = site.client();
    client.send(get("/by/slow").as_bytes()).unwrap();
    let mut fetch = origin.accept().unwrap();
    fetch.request().unwrap().unwrap();
    fetch.send("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf").unwrap();
    client.read_head().unwrap();
    assert_eq!(client.read_bytes(4).unwrap(), b"half");
    drop(client);
    fetch.send("rest").unwrap();
    let path = site.setup().path("by/site.test/by/slow");
    eventually("the file", || fs::read_to_string(&path).is_ok_and(|content| content == "halfrest"));
    assert_eq!(unfinished(&site), 0);
}
