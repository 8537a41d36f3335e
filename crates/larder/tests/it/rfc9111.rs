//! `larder_cache_mode rfc9111`: what is stored, reused, confirmed and made invalid by RFC 9111.

use larder_testkit::{Answer, FastCgiOrigin, FastCgiReply, HandOrigin, Origin};

use crate::site::{Setup, Site, asked, cached, get_on, text};

const SITE: &str = "
    proxy_cache_path {DIR}/pages keys_zone=pages:1m;
    larder_cache_mode rfc9111;
    server {
        listen 127.0.0.1:{PORT};
        add_header X-Cache $upstream_cache_status always;
        proxy_http_version 1.1;
        proxy_cache pages;
        proxy_cache_key $request_method$host$request_uri;
        location / { proxy_pass http://{ORIGIN}; }
        location /deaf/ { proxy_pass http://{ORIGIN}; larder_cache_mode rfc9111 ignore_requests; }
        location /own/ { proxy_pass http://{ORIGIN}; larder_targeted_cache_control Larder-Cache-Control CDN-Cache-Control; }
        location /none/ { proxy_pass http://{ORIGIN}; larder_targeted_cache_control off; }
    }";

fn site(origin: &Origin) -> Site {
    Setup::new().one_worker().name("ORIGIN", origin.address()).start(SITE)
}

fn page(control: &str) -> Answer {
    Answer::ok("page").field("Cache-Control", control)
}

/// What the cache said to a second and later requests with these fields.
fn again(site: &Site, path: &str, fields: &str) -> String {
    cached(&site.ask("GET", path, fields)).to_owned()
}

#[test]
fn a_hit_has_the_date_of_its_origin_and_its_age() {
    let origin = Origin::start().unwrap();
    const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    origin.answer("/aged", page("max-age=3600").field("Age", "100"));
    origin.answer("/old", page("max-age=2147483647").field("Date", DATE));
    origin.answer("/over", page("max-age=60").field("Age", "61, 0"));
    let site = site(&origin);
    assert_eq!(site.get("/aged").field("Age"), Some("100"));
    let hit = site.get("/aged");
    assert_eq!(cached(&hit), "HIT");
    let age: u64 = hit.field("Age").expect("a hit has an age").parse().expect("it is a number");
    assert!((100..160).contains(&age), "{age}");
    assert!(hit.field("Date").is_some(), "a response that comes without a date is given one");
    assert_eq!(cached(&site.get("/old")), "MISS");
    let hit = site.get("/old");
    assert_eq!((cached(&hit), hit.field("Date")), ("HIT", Some(DATE)));
    let age: u64 = hit.field("Age").expect("a hit has an age").parse().expect("it is a number");
    assert!(age > 1_000_000_000, "{age}");
    // In its other forms, too.
    let part = site.ask("GET", "/old", "Range: bytes=1-2\r\n");
    assert_eq!((part.status, part.field("Date")), (206, Some(DATE)));
    assert!(part.field("Age").is_some());
    for _ in 0..2 {
        assert_eq!(again(&site, "/over", ""), "MISS");
    }
}

#[test]
fn a_request_may_ask_for_a_younger_page_or_for_none_but_a_stored_one() {
    let origin = Origin::start().unwrap();
    for path in ["/a", "/deaf/a", "/immutable"] {
        let control = if path == "/immutable" { "max-age=3600, immutable" } else { "max-age=3600" };
        origin.answer(path, page(control).field("ETag", "\"1\""));
        origin.answer_then(path, Answer::status("304 Not Modified").field("ETag", "\"1\""));
    }
    let site = site(&origin);
    let absent = site.ask("GET", "/a", "Cache-Control: only-if-cached\r\n");
    assert_eq!((absent.status, origin.count()), (504, 0));
    assert_eq!(again(&site, "/a", ""), "MISS");
    for (fields, status) in [
        ("Cache-Control: only-if-cached\r\n", "HIT"),
        ("Cache-Control: max-age=600\r\n", "HIT"),
        ("Cache-Control: min-fresh=3000\r\n", "HIT"),
        ("Cache-Control: no-store\r\n", "HIT"),
        ("Pragma: no-cache\r\n", "HIT"),
        ("Cache-Control: no-cache\r\n", "REVALIDATED"),
        ("Cache-Control: max-age=0\r\n", "REVALIDATED"),
        ("Cache-Control: min-fresh=4000\r\n", "REVALIDATED"),
    ] {
        assert_eq!(again(&site, "/a", fields), status, "{fields}");
    }
    assert_eq!(origin.requests()[1].field("If-None-Match"), Some("\"1\""));
    let refused = site.ask("GET", "/a", "Cache-Control: no-cache, only-if-cached\r\n");
    assert_eq!(refused.status, 504);
    again(&site, "/immutable", "");
    assert_eq!(again(&site, "/immutable", "Cache-Control: max-age=0\r\n"), "HIT");
    assert_eq!(again(&site, "/immutable", "Cache-Control: no-cache\r\n"), "REVALIDATED");
    again(&site, "/deaf/a", "");
    assert_eq!(again(&site, "/deaf/a", "Cache-Control: no-cache\r\n"), "HIT");
}

#[test]
fn a_response_for_one_visitor_is_not_stored_for_others() {
    let origin = Origin::start().unwrap();
    for (path, answer) in [
        ("/private", page("private, max-age=60")),
        ("/store", page("no-store, max-age=60")),
        ("/cookie", page("max-age=60").field("Set-Cookie", "a=1")),
        (
            "/fields",
            page("max-age=60, private=\"Set-Cookie\", no-cache=\"X-Secret\"")
                .field("Set-Cookie", "a=1")
                .field("X-Secret", "1"),
        ),
        ("/login", page("max-age=60")),
        ("/public", page("max-age=60, public")),
        ("/vary", page("max-age=60").field("Vary", "*")),
    ] {
        origin.answer(path, answer);
    }
    let site = site(&origin);
    for path in ["/private", "/store", "/cookie", "/vary"] {
        for _ in 0..2 {
            assert_eq!(again(&site, path, ""), "MISS", "{path}");
        }
    }
    let first = site.get("/fields");
    assert_eq!((first.field("Set-Cookie"), first.field("X-Secret")), (Some("a=1"), Some("1")));
    let hit = site.get("/fields");
    assert_eq!((cached(&hit), hit.field("Set-Cookie"), hit.field("X-Secret")), ("HIT", None, None));
    let authorised = "Authorization: Basic YTpi\r\n";
    for (path, status) in [("/login", "MISS"), ("/public", "HIT")] {
        assert_eq!(again(&site, path, authorised), "MISS");
        assert_eq!(again(&site, path, ""), status, "{path}");
    }
    // That a request is not to be stored is no reason to make others wait for nothing, or to store it.
    origin.answer("/discreet", page("max-age=60"));
    assert_eq!(again(&site, "/discreet", "Cache-Control: no-store\r\n"), "-", "it is passed");
    assert_eq!(["", ""].map(|fields| again(&site, "/discreet", fields)), ["MISS", "HIT"]);
}

#[test]
fn a_targeted_field_goes_before_cache_control() {
    let origin = Origin::start().unwrap();
    for path in ["/t", "/own/t", "/none/t"] {
        origin.answer(path, page("no-store").field("CDN-Cache-Control", "max-age=60"));
    }
    origin.answer(
        "/own/u",
        page("max-age=60").field("CDN-Cache-Control", "max-age=60").field("Larder-Cache-Control", "no-store"),
    );
    let site = site(&origin);
    for (path, status) in [("/t", "HIT"), ("/own/t", "HIT"), ("/none/t", "MISS"), ("/own/u", "MISS")] {
        again(&site, path, "");
        assert_eq!(again(&site, path, ""), status, "{path}");
    }
}

#[test]
fn a_vcl_begins_with_the_times_of_the_rfc() {
    let origin = Origin::start().unwrap();
    let setup = Setup::new().one_worker().name("ORIGIN", origin.address()).file(
        "site.vcl",
        "vcl 4.1; import std; backend default none;
         sub vcl_backend_response {
            set beresp.http.X-Ttl = std.integer(duration=beresp.ttl, fallback=0);
            if (beresp.ttl <= 0s) { set beresp.http.X-Ttl = \"none\"; }
         }",
    );
    let site = setup.start(
        "proxy_cache_path {DIR}/pages keys_zone=pages:1m;
         server {
            listen 127.0.0.1:{PORT};
            location / { proxy_pass http://{ORIGIN}; proxy_cache pages; vcl {DIR}/site.vcl; larder_cache_mode rfc9111; }
            location /varnish/ { proxy_pass http://{ORIGIN}; proxy_cache pages; vcl {DIR}/site.vcl; }
         }",
    );
    for (path, answer, ttl) in [
        ("/a", page("max-age=60").field("CDN-Cache-Control", "max-age=7"), "7"),
        ("/b", page("private, max-age=60"), "none"),
        ("/c", page("max-age=\"60\""), "60"),
        ("/d", Answer::ok("page").field("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT"), "86400"),
        ("/varnish/a", page("max-age=60").field("CDN-Cache-Control", "max-age=7"), "60"),
    ] {
        origin.answer(path, answer);
        assert_eq!(site.get(path).field("X-Ttl"), Some(ttl), "{path}");
    }
}

#[test]
fn an_unsafe_request_that_does_not_fail_makes_pages_invalid() {
    let origin = Origin::start().unwrap();
    for path in ["/page", "/other?a=b", "/third"] {
        origin.answer(path, page("max-age=60"));
    }
    let site = site(&origin);
    let stored = |expected: [&str; 3]| {
        let found = ["/page", "/other?a=b", "/third"].map(|path| again(&site, path, ""));
        assert_eq!(found, expected);
    };
    stored(["MISS"; 3]);
    for (status, location, expected) in [
        ("200 OK", "", ["MISS", "HIT", "HIT"]),
        ("303 See Other", "other?a=b#top", ["MISS", "MISS", "HIT"]),
        ("303 See Other", "/third", ["MISS", "HIT", "MISS"]),
        ("201 Created", "http://site.test/third", ["MISS", "HIT", "MISS"]),
        ("201 Created", "http://elsewhere.test/third", ["MISS", "HIT", "HIT"]),
        ("201 Created", "https://site.test/third", ["MISS", "HIT", "HIT"]),
        ("404 Not Found", "/third", ["HIT", "HIT", "HIT"]),
        ("500 Internal Server Error", "/third", ["HIT", "HIT", "HIT"]),
    ] {
        stored(["HIT"; 3]);
        origin.answer("/page", Answer::status(status).field("Location", location).body("done"));
        site.ask("POST", "/page", "Content-Length: 0\r\n");
        origin.answer("/page", page("max-age=60"));
        stored(expected);
    }
    // That of a HEAD goes, too, where it has a key of its own.
    assert_eq!(["", ""].map(|fields| cached(&site.ask("HEAD", "/page", fields)).to_owned()), ["MISS", "HIT"]);
    site.ask("POST", "/page", "Content-Length: 0\r\n");
    assert_eq!(cached(&site.ask("HEAD", "/page", "")), "MISS");
    origin.answer("/page", Answer::ok("locked").field("Content-Location", "/third"));
    site.ask("LOCK", "/page", "");
    origin.answer("/page", page("max-age=60"));
    stored(["MISS", "HIT", "MISS"]);
}

#[test]
fn a_304_changes_the_stored_fields_if_it_is_about_the_stored_page() {
    let origin = Origin::start().unwrap();
    origin.answer("/a", page("max-age=0").field("ETag", "\"1\"").field("X-A", "old").field("X-B", "stays"));
    origin.answer_then(
        "/a",
        Answer::status("304 Not Modified")
            .field("ETag", "\"1\"")
            .field("X-A", "new")
            .field("Cache-Control", "max-age=60"),
    );
    origin.answer("/b", page("max-age=0").field("ETag", "\"1\""));
    origin.answer_then("/b", Answer::status("304 Not Modified").field("ETag", "\"2\""));
    origin.answer_then("/b", Answer::ok("another").field("ETag", "\"2\"").field("Cache-Control", "max-age=60"));
    origin.answer("/c", page("max-age=0").field("ETag", "\"1\""));
    origin.answer_then("/c", Answer::status("304 Not Modified").field("ETag", "W/\"2\""));
    origin.answer_then("/c", Answer::ok("another"));
    let site = site(&origin);
    site.get("/c");
    assert_eq!(text(&site.get("/c")), "another");
    site.get("/a");
    for status in ["REVALIDATED", "HIT"] {
        let response = site.get("/a");
        assert_eq!(cached(&response), status);
        assert_eq!((response.field("X-A"), response.field("X-B")), (Some("new"), Some("stays")));
        assert_eq!(text(&response), "page");
    }
    site.get("/b");
    assert_eq!(text(&site.get("/b")), "another");
    let asked = origin.requests();
    assert_eq!(asked.last().expect("there is one").field("If-None-Match"), None, "the page is fetched whole");
    assert_eq!(again(&site, "/b", ""), "HIT");
}

#[test]
fn a_stale_page_is_delivered_while_the_origin_is_away_unless_it_forbids_that() {
    let origin = Origin::start().unwrap();
    for (path, control) in [
        ("/plain", "max-age=0"),
        ("/must", "max-age=0, must-revalidate"),
        ("/shared", "s-maxage=0"),
        ("/both", "s-maxage=0, stale-if-error=60"),
        ("/error", "max-age=0, stale-if-error=60"),
    ] {
        origin.answer(path, page(control).field("ETag", "\"1\""));
        origin.answer_then(path, Answer::raw(""));
        origin.answer_then(path, Answer::status("503 Service Unavailable").body("no"));
    }
    let site = site(&origin);
    for (path, away, failing) in
        [("/plain", 200, 503), ("/must", 502, 503), ("/shared", 502, 503), ("/both", 200, 200), ("/error", 200, 200)]
    {
        assert_eq!(site.get(path).status, 200);
        let response = site.get(path);
        assert_eq!((response.status, cached(&response) == "STALE"), (away, away == 200), "{path}");
        assert_eq!(site.get(path).status, failing, "{path}");
    }
    let patient = site.ask("GET", "/plain", "Cache-Control: max-stale=60\r\n");
    assert_eq!((patient.status, cached(&patient)), (200, "STALE"));
    let tolerant = site.ask("GET", "/plain", "Cache-Control: stale-if-error=60\r\n");
    assert_eq!((tolerant.status, cached(&tolerant)), (200, "STALE"));
}

#[test]
fn a_stale_page_goes_when_its_origin_answers_what_is_not_to_be_stored() {
    let origin = Origin::start().unwrap();
    for (path, answer) in [
        ("/private", page("private")),
        ("/cookie", page("max-age=60").field("Set-Cookie", "a=1")),
        ("/gone", Answer::status("410 Gone").field("Cache-Control", "no-store").body("gone")),
        ("/304", Answer::status("304 Not Modified").field("ETag", "\"1\"").field("Cache-Control", "private")),
    ] {
        origin.answer(path, page("max-age=0").field("ETag", "\"1\""));
        origin.answer_then(path, answer);
        origin.answer_then(path, Answer::raw(""));
    }
    let site = site(&origin);
    for path in ["/private", "/cookie", "/gone", "/304"] {
        site.get(path);
        site.get(path);
        let away = site.ask("GET", path, "Cache-Control: max-stale\r\n");
        assert_eq!(away.status, 502, "{path}: nothing is left of it");
    }
}

#[test]
fn what_lets_somebody_in_is_never_stale_and_does_not_ask_what_the_client_asks() {
    let (origin, door) = (Origin::start().unwrap(), Origin::start().unwrap());
    origin.answer("/", Answer::ok("page"));
    door.answer("/", Answer::ok("").field("Cache-Control", "max-age=0").field("ETag", "\"1\""));
    door.answer_then("/", Answer::status("403 Forbidden").body("no"));
    door.answer_then("/", Answer::raw(""));
    let setup = Setup::new().one_worker().name("ORIGIN", origin.address()).name("DOOR", door.address());
    let site = setup.start(
        "proxy_cache_path {DIR}/pages keys_zone=pages:1m;
         larder_cache_mode rfc9111;
         server {
            listen 127.0.0.1:{PORT};
            location / { auth_request /door; proxy_pass http://{ORIGIN}; }
            location = /door { internal; proxy_pass http://{DOOR}/; proxy_cache pages; proxy_cache_key door; }
         }",
    );
    assert_eq!(site.get("/").status, 200);
    assert_eq!(site.ask("GET", "/", "Cache-Control: max-stale, stale-if-error=60\r\n").status, 403);
    assert_eq!(site.get("/").status, 500);
}

#[test]
fn the_configuration_says_what_a_response_does_not() {
    let origin = Origin::start().unwrap();
    origin.answer("/302", Answer::status("302 Found").field("Location", "/x").body("to"));
    origin.answer(
        "/404",
        Answer::status("404 Not Found").field("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT").body("no"),
    );
    origin.answer("/deaf", page("no-store, no-cache, must-revalidate"));
    origin.answer_then("/deaf", Answer::raw(""));
    let site = Setup::new().one_worker().name("ORIGIN", origin.address()).start(
        "proxy_cache_path {DIR}/pages keys_zone=pages:1m;
         larder_cache_mode rfc9111;
         server {
            listen 127.0.0.1:{PORT};
            add_header X-Cache $upstream_cache_status always;
            proxy_cache pages;
            location / { proxy_pass http://{ORIGIN}; proxy_cache_valid 302 1h; proxy_cache_valid 404 0; }
            location /deaf { proxy_pass http://{ORIGIN}; proxy_cache_valid 200 1s; proxy_ignore_headers Cache-Control; }
         }",
    );
    for (path, status) in [("/302", "HIT"), ("/404", "MISS")] {
        again(&site, path, "");
        assert_eq!(again(&site, path, ""), status, "{path}");
    }
    again(&site, "/deaf", "");
    site.get_until("/deaf", "the page to be stale", |response| cached(response) == "STALE");
}

#[test]
fn conditions_are_evaluated_by_rfc_9110() {
    let origin = Origin::start().unwrap();
    const MODIFIED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    origin.answer("/a", page("max-age=60").field("ETag", "\"a,b\"").field("Last-Modified", MODIFIED));
    origin.answer("/weak", page("max-age=60").field("ETag", "W/\"1\""));
    origin.answer("/dated", page("max-age=60").field("Date", "Sun, 06 Nov 2044 08:49:37 GMT"));
    let site = site(&origin);
    for path in ["/a", "/weak", "/dated"] {
        site.get(path);
    }
    let fetched = origin.count();
    for (path, fields, status) in [
        ("/a", "If-None-Match: \"a,b\"\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n", 304),
        ("/a", "If-None-Match: \"x\"\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n", 200),
        ("/a", "If-None-Match: \"x\", W/\"a,b\"\r\n", 304),
        ("/a", "If-None-Match: *\r\n", 304),
        ("/a", "If-Modified-Since: Sun, 06 Nov 1994 08:49:38 GMT\r\n", 304),
        ("/a", "If-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n", 200),
        ("/dated", "If-Modified-Since: Sun, 06 Nov 2044 08:49:38 GMT\r\n", 304),
        ("/a", "Range: bytes=0-1\r\nIf-Range: \"a,b\"\r\n", 206),
        ("/weak", "Range: bytes=0-1\r\nIf-Range: W/\"1\"\r\n", 200),
    ] {
        assert_eq!(site.ask("GET", path, fields).status, status, "{path} {fields}");
    }
    assert_eq!(origin.count(), fetched);
    // These are the origin's to evaluate.
    for fields in ["If-Match: \"a,b\"\r\n", "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n"] {
        site.ask("GET", "/a", fields);
    }
    let asked = origin.requests();
    assert_eq!(asked[fetched].field("If-Match"), Some("\"a,b\""));
    assert!(asked[fetched + 1].field("If-Unmodified-Since").is_some());
}

#[test]
fn fields_that_connection_names_go_no_further_but_for_those_that_rule_the_cache() {
    let origin = Origin::start().unwrap();
    let answer = || page("no-store, max-age=60").field("Connection", "X-Hop, cache-control").field("X-Hop", "1");
    origin.answer("/a", answer());
    let site = site(&origin);
    for _ in 0..2 {
        let response = site.get("/a");
        assert_eq!((cached(&response), response.field("X-Hop")), ("MISS", None));
        assert_eq!(response.field("Cache-Control"), Some("no-store, max-age=60"));
    }
}

#[test]
fn who_waits_for_a_page_that_is_never_fresh_asks_for_it_anew() {
    let mut origin = HandOrigin::start().unwrap();
    let site = Setup::new()
        .one_worker()
        .name("ORIGIN", origin.address())
        .start(&SITE.replace("proxy_cache pages;", "proxy_cache pages; proxy_cache_lock on;"));
    let (mut client, mut fetch) = asked(&site, &mut origin, "/a");
    let mut other = site.client();
    other.send(b"GET /a HTTP/1.1\r\nHost: site.test\r\n\r\n").unwrap();
    let page = "HTTP/1.1 200 OK\r\nCache-Control: no-cache\r\nETag: \"1\"\r\nContent-Length: 4\r\n\r\n";
    fetch.send(format!("{page}one1")).unwrap();
    assert_eq!(text(&client.read_response("GET").unwrap()), "one1");
    let mut fetch = origin.accept().unwrap();
    fetch.request().unwrap();
    fetch.send(format!("{page}two2")).unwrap();
    assert_eq!(text(&other.read_response("GET").unwrap()), "two2");
}

#[test]
fn who_shows_a_password_neither_waits_nor_ends_the_waiting_of_others() {
    let mut origin = HandOrigin::start().unwrap();
    let site = Setup::new()
        .one_worker()
        .name("ORIGIN", origin.address())
        .start(&SITE.replace("proxy_cache pages;", "proxy_cache pages; proxy_cache_lock on;"));
    let send = |fields: &str| {
        let mut client = site.client();
        client.send(format!("GET /a HTTP/1.1\r\nHost: site.test\r\n{fields}\r\n").as_bytes()).unwrap();
        client
    };
    let mut accept = || {
        let mut fetch = origin.accept().unwrap();
        fetch.request().unwrap();
        fetch
    };
    let page = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 4\r\n\r\n";
    let mut known = send("Authorization: Basic YTpi\r\n");
    let mut own = accept();
    let mut first = send("");
    let mut fetch = accept();
    let mut second = send("");
    own.send(format!("{page}mine")).unwrap();
    assert_eq!(text(&known.read_response("GET").unwrap()), "mine");
    let mut third = send("");
    fetch.send(format!("{page}ours")).unwrap();
    for client in [&mut first, &mut second, &mut third] {
        assert_eq!(text(&client.read_response("GET").unwrap()), "ours");
    }
}

#[test]
fn what_a_body_may_have_made_is_nobodys_page() {
    let origin = Origin::start().unwrap();
    let site = site(&origin);
    for (path, body) in
        [("/a", "Content-Length: 4\r\n\r\nx=1\n"), ("/b", "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n")]
    {
        origin.answer(path, page("max-age=60"));
        let mut client = site.client();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: site.test\r\n{body}").as_bytes()).unwrap();
        assert_eq!(cached(&client.read_response("GET").unwrap()), "-", "it is passed");
        assert_eq!(["", "Content-Length: 0\r\n"].map(|fields| again(&site, path, fields)), ["MISS", "HIT"], "{path}");
    }
}

#[test]
fn vary_is_read_where_commas_are_missing_and_what_is_no_name_forbids() {
    let origin = Origin::start().unwrap();
    origin.answer("/spaces", page("max-age=60").field("Vary", "X-A X-B"));
    origin.answer("/odd", page("max-age=60").field("Vary", "X-A; X-B"));
    let site = site(&origin);
    for (fields, status) in [("X-B: 1\r\n", "MISS"), ("X-B: 2\r\n", "MISS"), ("X-B: 1\r\n", "HIT")] {
        assert_eq!(again(&site, "/spaces", fields), status, "{fields}");
        assert_eq!(site.ask("GET", "/odd", fields).status, 200);
    }
    assert_eq!(origin.count(), 5, "two of the first, and all of the second");
}

#[test]
fn slices_are_stored_by_their_range() {
    let origin = Origin::start().unwrap();
    let part = |range: &str, body: &str| {
        Answer::status("206 Partial Content")
            .field("Cache-Control", "max-age=60")
            .field("ETag", "\"1\"")
            .field("Content-Range", range)
            .body(body)
    };
    origin.answer("/f", part("bytes 0-3/6", "abcd"));
    origin.answer_then("/f", part("bytes 4-5/6", "ef"));
    let site = Setup::new().one_worker().name("ORIGIN", origin.address()).start(
        "proxy_cache_path {DIR}/pages keys_zone=pages:1m;
         server {
            listen 127.0.0.1:{PORT};
            larder_cache_mode rfc9111;
            location / { slice 4; proxy_pass http://{ORIGIN}; proxy_cache pages; proxy_http_version 1.1;
                proxy_cache_key $uri$slice_range; proxy_set_header Range $slice_range; }
         }",
    );
    for _ in 0..2 {
        let whole = site.get("/f");
        assert_eq!((whole.status, text(&whole).as_str()), (200, "abcdef"));
    }
    assert_eq!(origin.count(), 2, "the second time both are there");
}

#[test]
fn interim_responses_are_passed_on_and_never_stored() {
    let mut origin = HandOrigin::start().unwrap();
    let site = Setup::new().one_worker().name("ORIGIN", origin.address()).start(SITE);
    let (mut client, mut fetch) = asked(&site, &mut origin, "/a");
    fetch.send("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n").unwrap();
    fetch.send("HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\nX-Hint: 1\r\n\r\n").unwrap();
    fetch.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 4\r\n\r\npage").unwrap();
    assert_eq!(client.read_head().unwrap().status, 102);
    let hint = client.read_head().unwrap();
    assert_eq!((hint.status, hint.field("Link"), hint.field("X-Hint")), (103, Some("</a.css>"), Some("1")));
    let page = client.read_response("GET").unwrap();
    assert_eq!((cached(&page), page.field("X-Hint")), ("MISS", None));
    let hit = get_on(&mut client, "/a");
    assert_eq!((hit.status, cached(&hit), hit.field("X-Hint")), (200, "HIT", None));
}

#[test]
fn an_interim_status_of_a_script_is_no_answer() {
    let script = FastCgiOrigin::start_tcp().unwrap();
    for status in ["100 Continue", "103 Early Hints"] {
        script.answer("*", FastCgiReply::new(format!("Status: {status}\r\nLink: </a.css>\r\n\r\n")));
        let site = Setup::new().name("FCGI", script.address()).start(
            "server { listen 127.0.0.1:{PORT}; location / { fastcgi_pass {FCGI}; fastcgi_param REQUEST_URI $request_uri; } }",
        );
        assert_eq!(site.get("/").status, 502, "{status}");
    }
}

#[test]
fn a_head_that_goes_on_freshens_the_page_of_a_get_or_ends_its_freshness() {
    let origin = Origin::start().unwrap();
    let site = Setup::new()
        .one_worker()
        .name("ORIGIN", origin.address())
        .start(&SITE.replace("proxy_cache pages;", "proxy_cache pages; proxy_cache_convert_head off;"));
    let stored = |path: &str| {
        origin.answer(path, page("max-age=60").field("ETag", "\"1\"").field("X-Field", "1"));
        assert_eq!(cached(&site.get(path)), "MISS");
        assert_eq!(cached(&site.get(path)), "HIT");
    };
    let head = |path: &str, answer: Answer| {
        origin.answer(path, answer);
        let got = site.ask("HEAD", path, "");
        assert_eq!((got.status, cached(&got)), (200, "MISS"), "{path}");
        assert_eq!(origin.requests().last().unwrap().request_line, format!("HEAD {path} HTTP/1.1"));
    };
    let answer = |etag: &str, body: &str| {
        Answer::ok(body).field("Cache-Control", "max-age=600").field("ETag", etag).field("X-Field", "2")
    };
    stored("/same");
    head("/same", answer("\"1\"", "page"));
    let hit = site.get("/same");
    assert_eq!((cached(&hit), hit.field("X-Field"), text(&hit)), ("HIT", Some("2"), "page".to_owned()));
    assert_eq!(hit.field("Cache-Control"), Some("max-age=600"));
    for (path, etag, body) in [("/tag", "\"2\"", "page"), ("/length", "\"1\"", "pages")] {
        stored(path);
        head(path, answer(etag, body));
        assert_eq!(cached(&site.get(path)), "EXPIRED", "{path}");
    }
    // What it says of no page in particular changes nothing.
    stored("/untold");
    head("/untold", page("max-age=600"));
    assert_eq!(site.get("/untold").field("Cache-Control"), Some("max-age=60"));
    // What comes with a cookie is for its client alone.
    stored("/cookie");
    head("/cookie", answer("\"1\"", "page").field("Set-Cookie", "a=1"));
    let hit = site.get("/cookie");
    assert_eq!((cached(&hit), hit.field("X-Field"), hit.field("Set-Cookie")), ("HIT", Some("1"), None));
}

#[test]
fn a_confirmation_with_a_cookie_is_for_its_client_alone() {
    let origin = Origin::start().unwrap();
    let site = Setup::new().one_worker().name("ORIGIN", origin.address()).start(SITE);
    let confirms = |field: &str| Answer::status("304 Not Modified").field("ETag", "\"1\"").field("X-Field", field);
    origin.answer("/a", page("max-age=0").field("ETag", "\"1\"").field("X-Field", "1"));
    origin.answer_then("/a", confirms("of one").field("Set-Cookie", "a=1"));
    origin.answer_then("/a", Answer::status("304 Not Modified").field("ETag", "\"1\""));
    let got: Vec<_> = (0..3)
        .map(|_| {
            let got = site.get("/a");
            (got.status, ["X-Field", "Set-Cookie"].map(|name| got.field(name).map(str::to_owned)))
        })
        .collect();
    let some = |text: &str| Some(text.to_owned());
    let expected = [[some("1"), None], [some("of one"), some("a=1")], [some("1"), None]];
    assert_eq!(got, expected.map(|fields| (200, fields)));
}
