//! `vcl_label`, and a VCL that gives requests to others by `return (vcl(LABEL))`.

use larder_testkit::{Answer, Origin, Signal};

use crate::site::{Setup, Site, eventually, text};

/// The label of an outer block is another VCL there.
const SITE: &str = "
    proxy_cache_path {DIR}/pages keys_zone=pages:1m;
    access_log off;
    vcl_label other {DIR}/third.vcl;
    server {
        listen 127.0.0.1:{PORT};
        vcl {DIR}/site.vcl;
        vcl_label other {DIR}/other.vcl;
        vcl_label third {DIR}/third.vcl;
        location / { proxy_pass http://{ORIGIN}; proxy_cache pages; }
    }";

const ACTIVE: &str = "vcl 4.1;
    sub vcl_recv {
        if (req.restarts > 0) { return (vcl(other)); }
        if (req.url == \"/third\") { return (vcl(third)); }
        set req.http.X-Active = \"yes\";
        if (req.url ~ \"^/other\") { return (vcl(other)); }
    }
    sub vcl_backend_response { set beresp.do_esi = bereq.url == \"/page\"; }
    sub vcl_deliver { set resp.http.X = \"active\"; if (req.url == \"/restart\") { return (restart); } }
    sub vcl_synth { set resp.http.X = \"active\"; }";
const THIRD: &str = "vcl 4.1;
    sub vcl_recv { return (vcl(other)); }
    sub vcl_synth { set resp.http.X = \"third\"; }";
const DELIVERS: &str = "sub vcl_deliver { set resp.http.X = \"other\"; }";

/// A site whose VCL `other` has these subs.
fn site(origin: &Origin, other: &str) -> Site {
    Setup::new()
        .one_worker()
        .name("ORIGIN", origin.address())
        .file("site.vcl", ACTIVE)
        .file("third.vcl", THIRD)
        .file("other.vcl", format!("vcl 4.1;\n{other}"))
        .start(SITE)
}

/// Status, whose response it is, and the body.
fn shown(site: &Site, path: &str) -> String {
    let response = site.get(path);
    format!("{} {} {}", response.status, response.field("X").unwrap_or("-"), text(&response))
}

#[test]
fn a_request_is_answered_by_the_vcl_of_the_label_as_it_came() {
    let (origin, own) = (Origin::start().expect("a port is free"), Origin::start().expect("a port is free"));
    for origin in [&origin, &own] {
        origin.answer("/other", Answer::ok(if std::ptr::eq(origin, &own) { "own" } else { "origin" }));
        origin.answer("/", Answer::ok("page"));
    }
    let (host, port) = (own.address().ip(), own.address().port());
    // What the location serves is the default of both VCLs; the backends of each have numbers of their own.
    for (subs, expected) in [
        (DELIVERS.to_owned(), "200 other origin"),
        (
            format!(
                "backend own {{ .host = \"{host}\"; .port = \"{port}\"; }}
                 sub vcl_recv {{ set req.backend_hint = own; }} {DELIVERS}"
            ),
            "200 other own",
        ),
    ] {
        let site = site(&origin, &subs);
        assert_eq!(shown(&site, "/"), "200 active page", "{subs}");
        assert_eq!(shown(&site, "/other"), expected, "{subs}");
        let posted = site.exchange("POST", "POST /other HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody");
        assert_eq!(posted.status, 200);
    }
    for origin in [&origin, &own] {
        let asked = origin.requests();
        let posted = asked.iter().find(|seen| seen.request_line.starts_with("POST")).expect("it was asked");
        assert_eq!((posted.field("X-Active"), posted.body.as_slice()), (None, &b"body"[..]));
    }
}

#[test]
fn a_page_has_one_key_whichever_vcl_asks_for_it() {
    let origin = Origin::start().expect("a port is free");
    origin.answer("/other", Answer::ok("page"));
    let subs = format!("{DELIVERS} sub vcl_recv {{ set req.url = \"/a\"; return (hash); }}");
    origin.answer("/a", Answer::ok("page"));
    let site = site(&origin, &subs);
    assert_eq!(shown(&site, "/a"), "200 active page");
    assert_eq!(shown(&site, "/other"), "200 other page");
    assert_eq!(origin.count(), 1);
}

#[test]
fn only_the_active_vcl_gives_requests_away_and_not_after_a_restart() {
    let origin = Origin::start().expect("a port is free");
    origin.answer("/restart", Answer::ok("page"));
    let site = site(&origin, DELIVERS);
    for (path, expected, message) in [
        ("/restart", "503 active ", "Illegal return(vcl): Not after restarts"),
        ("/third", "503 third ", "Illegal return(vcl): Only from active VCL"),
    ] {
        let found = shown(&site, path);
        assert!(found.starts_with(expected), "{path}: {found}");
        site.wait_for_log(message);
    }
}

#[test]
fn a_request_that_restarts_stays_in_the_vcl_of_the_label() {
    let origin = Origin::start().expect("a port is free");
    origin.answer("/other", Answer::ok("page"));
    let site = site(
        &origin,
        "sub vcl_deliver { if (req.restarts < 2) { return (restart); } set resp.http.X = \"other \" + req.restarts; }",
    );
    assert_eq!(shown(&site, "/other"), "200 other 2 page");
}

#[test]
fn includes_begin_with_the_active_vcl() {
    let origin = Origin::start().expect("a port is free");
    let page = "<esi:include src=\"/in\"/>,<esi:include src=\"/other/in\"/>";
    for (path, body) in [("/page", page), ("/other/page", page), ("/in", "in"), ("/other/in", "inside")] {
        origin.answer(path, Answer::ok(body));
    }
    let subs = "sub vcl_backend_response { set beresp.do_esi = bereq.url == \"/other/page\"; }
        sub vcl_deliver { set resp.http.X = \"other\"; }";
    let site = site(&origin, subs);
    assert_eq!(shown(&site, "/other/page"), "200 other in,inside");
    assert_eq!(shown(&site, "/page"), "200 active in,inside");
    let asked = origin.requests();
    let seen = |path: &str| {
        let found = asked.iter().find(|seen| seen.request_line.starts_with(&format!("GET {path} ")));
        found.expect("it was asked for").field("X-Active").map(str::to_owned)
    };
    assert_eq!((seen("/in"), seen("/other/in")), (Some("yes".to_owned()), None));
}

#[test]
fn a_page_is_fetched_in_the_background_by_the_vcl_that_delivers_it() {
    let origin = Origin::start().expect("a port is free");
    origin.answer("/other", Answer::ok("old"));
    origin.answer_then("/other", Answer::ok("new"));
    let subs = "sub vcl_backend_response {
        set beresp.ttl = 1ms; set beresp.grace = 1h; set beresp.http.X = \"other \" + bereq.is_bgfetch;
    }";
    // The active VCL would say whose response it is.
    let subs = format!("{subs} sub vcl_deliver {{ return (deliver); }}");
    let site = site(&origin, &subs);
    assert_eq!(shown(&site, "/other"), "200 other false old");
    eventually("it is fetched in the background", || shown(&site, "/other") == "200 other true new");
}

#[test]
fn a_label_that_is_not_there_is_told_when_the_vcl_is_loaded() {
    let origin = Origin::start().expect("a port is free");
    origin.answer("/other", Answer::ok("page"));
    let site = site(&origin, DELIVERS);
    let wrong = "vcl 4.1;\nsub vcl_recv { return (vcl(none)); }\n";
    std::fs::write(site.setup().path("site.vcl"), wrong).expect("it can be written");
    site.signal(Signal::Hup);
    site.wait_for_log("no VCL has the label \"none\"");
    site.wait_for_log("there are \"other\", \"third\"; \"vcl_label none FILE;\" makes one");
    assert_eq!(shown(&site, "/other"), "200 other page");
    let setup = Setup::new().name("ORIGIN", "127.0.0.1:1").file("site.vcl", "vcl 4.1;");
    setup.configure(&SITE.replace("vcl_label third", "vcl_label 3.x"));
    let output = setup.larder(&["-t"]);
    let said = larder_testkit::text_of(&output.stderr);
    assert!(!output.status.success() && said.contains("\"3.x\" cannot be a label"), "{said}");
}
