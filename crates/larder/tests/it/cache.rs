//! What many visitors of one page get, and what the origin is asked for it.

use larder_testkit::{Answer, Client, FastCgiEnd, FastCgiOrigin, FastCgiReply, HandOrigin, Origin, Then};

use crate::site::{Setup, Site, asked, cached, eventually, get, get_on, text};

/// A site in front of `{ORIGIN}` by HTTP, and of `{FCGI}` by FastCGI under `/f/`; `more` goes into the server.
const SITE: &str = "
    proxy_cache_path {DIR}/pages keys_zone=pages:1m;
    fastcgi_cache_path {DIR}/fpages keys_zone=fpages:1m;
    log_format status '$request_uri $upstream_cache_status';
    access_log access.log status;
    server {
        listen 127.0.0.1:{PORT};
        add_header X-Cache $upstream_cache_status;
        proxy_cache_key $uri;
        proxy_cache_valid 200 1h;
        fastcgi_cache_key $uri;
        fastcgi_cache_valid 200 1h;
        {MORE}
        location / { proxy_pass http://{ORIGIN}; proxy_cache pages; }
        location /f/ { fastcgi_pass {FCGI}; {PARAMS} fastcgi_cache fpages; }
    }";

/// Whoever comes while a page is fetched waits for it: then one request is one, however fast the next one comes.
const LOCK: &str = "proxy_cache_lock on; proxy_cache_lock_timeout 1m; proxy_cache_lock_age 1m;
    fastcgi_cache_lock on; fastcgi_cache_lock_timeout 1m; fastcgi_cache_lock_age 1m;";

fn site(origin: &Origin, more: &str) -> Site {
    Setup::new()
        .one_worker()
        .name("ORIGIN", origin.address())
        .name("FCGI", "127.0.0.1:1")
        .name("MORE", more)
        .start(SITE)
}

fn site_by_hand(origin: &HandOrigin, more: &str) -> Site {
    Setup::new()
        .one_worker()
        .name("ORIGIN", origin.address())
        .name("FCGI", "127.0.0.1:1")
        .name("MORE", more)
        .start(SITE)
}

fn fcgi_site(origin: &FastCgiOrigin, more: &str) -> Site {
    Setup::new()
        .one_worker()
        .name("ORIGIN", "127.0.0.1:1")
        .name("FCGI", origin.address())
        .name("MORE", more)
        .start(SITE)
}

#[test]
fn everyone_who_wants_a_cold_page_gets_it_as_it_comes_from_one_fetch() {
    let mut origin = HandOrigin::start().unwrap();
    let setup = Setup::new().name("ORIGIN", origin.address()).name("FCGI", "127.0.0.1:1").name("MORE", LOCK);
    let site = setup.start(SITE);
    let mut clients: Vec<Client> = (0..50).map(|_| site.client()).collect();
    for client in &mut clients {
        client.send(get("/cold").as_bytes()).unwrap();
    }
    let mut fetch = origin.accept().unwrap();
    fetch.request().unwrap().unwrap();
    fetch.send("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf").unwrap();
    for client in &mut clients {
        let head = client.read_head().unwrap();
        assert_eq!((head.status, head.field("Content-Length")), (200, Some("8")));
        assert_eq!(client.read_bytes(4).unwrap(), b"half");
    }
    fetch.send("rest").unwrap();
    for client in &mut clients {
        assert_eq!(client.read_bytes(4).unwrap(), b"rest");
    }
    assert!(origin.try_accept().unwrap().is_none(), "one fetch is enough for all");
}

#[test]
fn fastcgi_waiters_share_one_run_of_the_script() {
    let origin = FastCgiOrigin::start_tcp().unwrap();
    let site = fcgi_site(&origin, LOCK);
    origin.answer("*", FastCgiReply::html("page"));
    let hold = origin.hold("*");
    let mut clients: Vec<Client> = (0..50).map(|_| site.client()).collect();
    for client in &mut clients {
        client.send(get("/f/cold").as_bytes()).unwrap();
    }
    assert!(origin.wait_for(1));
    hold.release();
    for client in &mut clients {
        assert_eq!(client.read_response("GET").unwrap().body, b"page");
    }
    assert_eq!(origin.count(), 1);
}

#[test]
fn nobody_waits_for_a_refetch() {
    let origin = Origin::start().unwrap();
    let site = site(&origin, "proxy_cache_use_stale updating; proxy_cache_background_update on; proxy_cache_lock on;");
    origin.answer("/p", Answer::ok("old").field("X-Accel-Expires", "1"));
    assert_eq!(cached(&site.get("/p")), "MISS");
    let hold = origin.hold("/p");
    origin.answer("/p", Answer::ok("new"));
    // The last HIT is behind us: from here on the page is past its time, and its refetch is held.
    let stale = site.get_until("/p", "the page to expire", |response| cached(response) != "HIT");
    assert_eq!((cached(&stale), text(&stale)), ("STALE", "old".to_owned()));
    for _ in 0..50 {
        let updating = site.get("/p");
        assert_eq!((cached(&updating), text(&updating)), ("UPDATING", "old".to_owned()));
    }
    assert!(origin.wait_for(2));
    assert_eq!(origin.count(), 2);
    hold.release();
    let new = site.get_until("/p", "the refetch", |response| text(response) == "new");
    assert_eq!(cached(&new), "HIT");
    assert_eq!(origin.count(), 2);
}

#[test]
fn the_connection_whose_request_began_a_refetch_does_not_wait_for_it_either() {
    let origin = Origin::start().unwrap();
    let site = site(&origin, "proxy_cache_use_stale updating; proxy_cache_background_update on; proxy_cache_lock on;");
    origin.answer("/p", Answer::ok("old").field("X-Accel-Expires", "1"));
    let mut client = site.client();
    get_on(&mut client, "/p");
    let hold = origin.hold("/p");
    origin.answer("/p", Answer::ok("new"));
    let mut response = get_on(&mut client, "/p");
    eventually("the page to expire", || {
        response = get_on(&mut client, "/p");
        cached(&response) == "STALE"
    });
    for _ in 0..3 {
        assert_eq!(cached(&get_on(&mut client, "/p")), "UPDATING");
    }
    hold.release();
    eventually("the refetch", || text(&get_on(&mut client, "/p")) == "new");
}

#[test]
fn a_page_is_stored_though_the_client_that_asked_for_it_left() {
    let mut origin = HandOrigin::start().unwrap();
    let site = site_by_hand(&origin, LOCK);
    let mut client = site.client();
    client.send(get("/p").as_bytes()).unwrap();
    let mut fetch = origin.accept().unwrap();
    fetch.request().unwrap().unwrap();
    fetch.send("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf").unwrap();
    client.read_head().unwrap();
    drop(client);
    fetch.send("rest").unwrap();
    let page = site.get_until("/p", "the page to be stored", |response| cached(response) == "HIT");
    assert_eq!(text(&page), "halfrest");
    assert!(origin.try_accept().unwrap().is_none(), "one fetch is enough");
}

#[test]
fn a_head_fills_the_page_that_a_get_then_hits() {
    let origin = Origin::start().unwrap();
    let fcgi = FastCgiOrigin::start_tcp().unwrap();
    origin.answer("*", Answer::ok("whole"));
    fcgi.answer("*", FastCgiReply::html("whole"));
    let site = Setup::new()
        .one_worker()
        .name("ORIGIN", origin.address())
        .name("FCGI", fcgi.address())
        .name("MORE", LOCK)
        .start(SITE);
    for path in ["/p", "/f/p"] {
        let head = site.ask("HEAD", path, "");
        assert_eq!((head.status, cached(&head), head.body.len()), (200, "MISS", 0), "{path}");
        let get = site.get_until(path, "the page", |response| cached(response) == "HIT");
        assert_eq!(text(&get), "whole", "{path}");
    }
    assert_eq!((origin.count(), fcgi.count()), (1, 1));
    assert!(origin.requests()[0].request_line.starts_with("GET "));
    assert_eq!(fcgi.requests()[0].param("REQUEST_METHOD"), Some("GET"));
}

#[test]
fn parts_and_conditions_are_answered_from_the_whole_page() {
    let origin = Origin::start().unwrap();
    let modified = "Wed, 01 Jan 2020 00:00:00 GMT";
    origin.answer("*", Answer::ok("0123456789").field("ETag", "\"v1\"").field("Last-Modified", modified));
    let site = site(&origin, LOCK);
    // The first asks for a part; what is fetched and stored is the whole.
    let first = site.ask("GET", "/p", "Range: bytes=2-4\r\n");
    assert_eq!((first.status, cached(&first), text(&first)), (206, "MISS", "234".to_owned()));
    assert_eq!(origin.requests()[0].field("Range"), None);
    site.get_until("/p", "the page", |response| cached(response) == "HIT");
    for (fields, status, body) in [
        ("", 200, "0123456789"),
        ("Range: bytes=0-0\r\n", 206, "0"),
        ("Range: bytes=-3\r\n", 206, "789"),
        ("Range: bytes=7-\r\n", 206, "789"),
        ("If-None-Match: \"v1\"\r\n", 304, ""),
        ("If-None-Match: \"v2\"\r\n", 200, "0123456789"),
        ("If-Modified-Since: Wed, 01 Jan 2020 00:00:00 GMT\r\n", 304, ""),
        ("If-Range: \"v1\"\r\nRange: bytes=1-1\r\n", 206, "1"),
        ("If-Range: \"v2\"\r\nRange: bytes=1-1\r\n", 200, "0123456789"),
    ] {
        let response = site.ask("GET", "/p", fields);
        assert_eq!((response.status, text(&response).as_str(), cached(&response)), (status, body, "HIT"), "{fields}");
    }
    assert_eq!(site.ask("GET", "/p", "Range: bytes=20-\r\n").status, 416);
    assert_eq!(origin.count(), 1);
}

#[test]
fn an_incomplete_answer_is_never_stored() {
    let origin = Origin::start().unwrap();
    let fcgi = FastCgiOrigin::start_tcp().unwrap();
    let short = "HTTP/1.1 200 OK\r\nX-Accel-Expires: 60\r\nContent-Length: 9\r\n\r\nabc";
    let chunked = "HTTP/1.1 200 OK\r\nX-Accel-Expires: 60\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n";
    for (path, wire) in [("/short", short), ("/chunked", chunked)] {
        origin.answer(path, Answer::raw(wire));
        origin.answer_then(path, Answer::ok("whole").field("X-Accel-Expires", "60"));
    }
    fcgi.answer("*", FastCgiReply::html("abc").end(FastCgiEnd::Die));
    fcgi.answer_then("*", FastCgiReply::html("whole"));
    let site = Setup::new()
        .name("ORIGIN", origin.address())
        .name("FCGI", fcgi.address())
        .name("MORE", "proxy_http_version 1.1;")
        .start(SITE);
    for path in ["/short", "/chunked", "/f/dead"] {
        let mut client = site.client();
        client.send(get(path).as_bytes()).unwrap();
        let cut = client.read_response("GET").unwrap();
        assert_eq!((cut.status, text(&cut)), (200, "abc".to_owned()), "{path}");
        assert!(!cut.keeps_connection(), "{path}: the client can tell that it is cut");
        let whole = site.get(path);
        assert_eq!((cached(&whole), text(&whole)), ("MISS", "whole".to_owned()), "{path}");
        site.get_until(path, "the whole page", |response| cached(response) == "HIT");
    }
}

#[test]
fn a_waiter_gets_a_page_though_the_fetch_it_waited_for_failed() {
    let mut origin = HandOrigin::start().unwrap();
    let site = site_by_hand(&origin, LOCK);
    let mut first = site.client();
    first.send(get("/p").as_bytes()).unwrap();
    let mut failing = origin.accept().unwrap();
    failing.request().unwrap().unwrap();
    let mut second = site.client();
    second.send(get("/p").as_bytes()).unwrap();
    // Closed without an answer: the one who fetched hears of it, the one who waited fetches for himself.
    drop(failing);
    assert_eq!(first.read_response("GET").unwrap().status, 502);
    let mut fetch = origin.accept().unwrap();
    fetch.request().unwrap().unwrap();
    fetch.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage").unwrap();
    let response = second.read_response("GET").unwrap();
    assert_eq!((response.status, text(&response)), (200, "page".to_owned()));
}

#[test]
fn an_answer_with_a_cookie_or_a_ban_on_storing_is_for_one_visitor() {
    let origin = Origin::start().unwrap();
    let site = site(&origin, "proxy_cache_lock on;");
    let cases = [
        ("/cookie", "Set-Cookie", "id=1"),
        ("/private", "Cache-Control", "private"),
        ("/no-store", "Cache-Control", "no-store"),
        ("/no-cache", "Cache-Control", "no-cache"),
        ("/expired", "X-Accel-Expires", "0"),
        ("/vary", "Vary", "*"),
    ];
    for (path, name, value) in cases {
        origin.answer(path, Answer::ok("personal").field(name, value));
    }
    for (path, name, _) in cases {
        let asked = origin.count();
        for _ in 0..3 {
            assert_eq!(cached(&site.get(path)), "MISS", "{path} {name}");
        }
        assert_eq!(origin.count(), asked + 3, "{path} {name}");
    }
}

#[test]
fn visitors_of_a_page_that_cannot_be_shared_do_not_queue() {
    let origin = Origin::start().unwrap();
    let site = site(&origin, "proxy_cache_lock on; proxy_cache_lock_timeout 1h; proxy_cache_lock_age 1h;");
    origin.answer("/p", Answer::ok("personal").field("Set-Cookie", "id=1"));
    // Once the origin has said so, the next ones go to it side by side.
    site.get("/p");
    let hold = origin.hold("/p");
    let mut clients: Vec<Client> = (0..10).map(|_| site.client()).collect();
    for client in &mut clients {
        client.send(get("/p").as_bytes()).unwrap();
    }
    assert!(origin.wait_for(11));
    hold.release();
    for client in &mut clients {
        assert_eq!(client.read_response("GET").unwrap().body, b"personal");
    }
}

#[test]
fn a_lifetime_may_be_shorter_than_a_second() {
    let origin = Origin::start().unwrap();
    let site = Setup::new().name("ORIGIN", origin.address()).start(
        "proxy_cache_path {DIR}/pages keys_zone=pages:1m;
         server {
            listen 127.0.0.1:{PORT};
            add_header X-Cache $upstream_cache_status;
            location / { proxy_pass http://{ORIGIN}; proxy_cache pages; proxy_cache_valid 200 500ms; }
         }",
    );
    origin.answer("/p", Answer::ok("a"));
    assert_eq!(cached(&site.get("/p")), "MISS");
    site.get_until("/p", "the page to expire", |response| cached(response) == "EXPIRED");
}

#[test]
fn a_full_zone_goes_on_serving() {
    let origin = Origin::start().unwrap();
    let page = "p".repeat(100 * 1024);
    origin.answer("*", Answer::ok(page.clone()));
    let site = Setup::new().name("ORIGIN", origin.address()).start(
        "proxy_cache_path {DIR}/pages keys_zone=pages:1m max_size=1m larder_disk=off;
         server {
            listen 127.0.0.1:{PORT};
            add_header X-Cache $upstream_cache_status;
            location / { proxy_pass http://{ORIGIN}; proxy_cache pages; proxy_cache_valid 200 1h; }
         }",
    );
    for round in 0..2 {
        for number in 0..50 {
            let response = site.get(&format!("/{number}"));
            assert_eq!((response.status, response.body.len()), (200, page.len()), "{round} {number}");
        }
    }
    // There is always room for what is asked for now, in a while at least.
    site.get_until("/now", "a page to be stored", |response| cached(response) == "HIT");
    assert!(origin.count() > 50, "5 MB do not fit in 1 MB");
}

#[test]
fn a_page_larger_than_its_zone_is_delivered_and_not_stored() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok(vec![b'x'; 3 << 20]));
    let site = Setup::new().name("ORIGIN", origin.address()).start(
        "proxy_cache_path {DIR}/pages keys_zone=pages:1m max_size=1m larder_disk=off;
         server {
            listen 127.0.0.1:{PORT};
            add_header X-Cache $upstream_cache_status;
            location / { proxy_pass http://{ORIGIN}; proxy_cache pages; proxy_cache_valid 200 1h; }
         }",
    );
    for _ in 0..3 {
        let response = site.get("/large");
        assert_eq!((response.status, response.body.len(), cached(&response)), (200, 3 << 20, "MISS"));
    }
}

#[test]
fn a_purge_that_nobody_configured_goes_to_the_origin_and_purges_nothing() {
    let origin = Origin::start().unwrap();
    origin.answer("/p", Answer::ok("page"));
    let site = site(&origin, LOCK);
    site.get("/p");
    site.get_until("/p", "the page", |response| cached(response) == "HIT");
    let purge = site.ask("PURGE", "/p", "");
    assert_eq!((purge.status, origin.count()), (200, 2));
    assert!(origin.requests()[1].request_line.starts_with("PURGE /p "));
    assert_eq!(cached(&site.get("/p")), "HIT");
}

#[test]
fn cache_status_says_why() {
    let origin = Origin::start().unwrap();
    origin.answer("/p", Answer::ok("page"));
    origin.answer("/cookie", Answer::ok("page").field("Set-Cookie", "id=1"));
    let site = site(&origin, "larder_cache_status on; proxy_cache_bypass $arg_fresh;");
    let status = |target: &str| site.get(target).field("Cache-Status").unwrap_or("-").to_owned();
    let miss = status("/p");
    assert!(miss.starts_with("larder; fwd=uri-miss"), "{miss}");
    site.get_until("/p", "the page", |response| cached(response) == "HIT");
    let hit = status("/p");
    assert!(hit.starts_with("larder; hit; ttl=3"), "{hit}");
    let bypass = status("/p?fresh=1");
    assert!(bypass.starts_with("larder; fwd=bypass"), "{bypass}");
    let cookie = status("/cookie");
    assert!(cookie.contains("fwd=uri-miss") && cookie.to_lowercase().contains("set-cookie"), "{cookie}");
    assert!(site.get("/p").field("Age").is_none(), "nginx sends none");
}

#[test]
fn a_hit_says_how_long_it_is_fresh_while_it_arrives_and_when_it_is_put_together() {
    let mut origin = HandOrigin::start().unwrap();
    let site = site_by_hand(&origin, &format!("larder_cache_status on; ssi on; ssi_types text/x-parts; {LOCK}"));
    for media_type in ["text/plain", "text/x-parts"] {
        let target = format!("/{media_type}");
        let (mut first, mut fetch) = asked(&site, &mut origin, &target);
        fetch.send(format!("HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\nContent-Length: 4\r\n\r\npa")).unwrap();
        let mut second = site.client();
        second.send(get(&target).as_bytes()).unwrap();
        let mut hit = second.read_head().unwrap();
        fetch.send("ge").unwrap();
        assert_eq!(text(&first.read_response("GET").unwrap()), "page");
        second.read_body(&mut hit).unwrap();
        assert_eq!(text(&hit), "page");
        let whole = site.get_until(&target, "the page", |response| cached(response) == "HIT");
        // The second has waited for the fetch of the first.
        for (hit, start) in [(hit, "larder; fwd=uri-miss; collapsed; ttl=3"), (whole, "larder; hit; ttl=3")] {
            let said = hit.field("Cache-Status").unwrap_or_default();
            assert!(said.starts_with(start), "{target}: {said}");
        }
    }
}

#[test]
fn without_a_directive_there_is_no_cache_status() {
    let origin = Origin::start().unwrap();
    origin.answer("/p", Answer::ok("page"));
    let site = site(&origin, "");
    assert_eq!(site.get("/p").field("Cache-Status"), None);
}

#[test]
fn pages_are_told_apart_by_what_they_vary_by() {
    let origin = Origin::start().unwrap();
    origin.answer("/p", Answer::ok("one").field("Vary", "Accept-Language"));
    let site = site(&origin, "");
    site.ask("GET", "/p", "Accept-Language: de\r\n");
    origin.answer("/p", Answer::ok("two").field("Vary", "Accept-Language"));
    site.ask("GET", "/p", "Accept-Language: fr\r\n");
    for (language, body) in [("de", "one"), ("fr", "two")] {
        let response = site.ask("GET", "/p", &format!("Accept-Language: {language}\r\n"));
        assert_eq!((cached(&response), text(&response)), ("HIT", body.to_owned()), "{language}");
    }
}

#[test]
fn an_origin_that_hangs_in_the_middle_costs_only_those_who_wait_for_it() {
    let origin = Origin::start().unwrap();
    origin.answer("/fine", Answer::ok("fine"));
    origin.answer("/hangs", Answer::raw("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc").then(Then::Hang));
    let site = site(&origin, "proxy_read_timeout 300ms;");
    let mut waiting = site.client();
    waiting.send(get("/hangs").as_bytes()).unwrap();
    waiting.read_head().unwrap();
    for _ in 0..20 {
        assert_eq!(site.get("/fine").body, b"fine");
    }
    assert_eq!(waiting.read_bytes(9).unwrap(), b"abc", "cut when the origin's time is up");
    site.wait_for_log("timed out");
}
