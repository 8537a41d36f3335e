//! `larder.upstream()`: the groups of servers of nginx.conf are backends of its VCLs.

use std::net::SocketAddr;

use larder_testkit::{Answer, FastCgiOrigin, FastCgiReply, Origin};

use crate::site::{Setup, Site, text};

/// An address at which nobody listens.
const NOBODY: &str = "127.0.0.1:1";

/// A setup with this VCL, which imports what it needs.
fn setup(subs: &str) -> Setup {
    let vcl = format!("vcl 4.1;\nimport std;\nimport directors;\nimport larder;\n{subs}");
    Setup::new().without_root().file("site.vcl", vcl)
}

/// A site with a group `fast` and a group `slow`, and a location that passes to `fast`.
fn site(fast: &str, slow: &str, location: &str, subs: &str) -> Site {
    setup(subs).name("FAST", fast).name("SLOW", slow).name("LOCATION", location).start(
        "proxy_cache_path {DIR}/pages keys_zone=pages:1m;
         upstream fast { {FAST} }
         upstream slow { {SLOW} }
         server {
             listen 127.0.0.1:{PORT};
             location / { vcl {DIR}/site.vcl; {LOCATION} }
         }",
    )
}

fn server(address: SocketAddr) -> String {
    format!("server {address};")
}

fn origin(says: &str) -> Origin {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok(says));
    origin
}

const CHOOSE: &str = "
sub vcl_recv {
    if (req.url ~ \"^/slow\") { set req.backend_hint = larder.upstream(\"slow\"); }
}
sub vcl_deliver {
    set resp.http.X-Backend = req.backend_hint;
    set resp.http.X-Is-Slow = req.backend_hint == larder.upstream(\"slow\");
}";

#[test]
fn a_vcl_chooses_between_groups() {
    let (fast, slow) = (origin("fast"), origin("slow"));
    let location = "proxy_pass http://fast/inner/; proxy_set_header X-Own set; proxy_cache pages;";
    let site = site(&server(fast.address()), &server(slow.address()), location, CHOOSE);
    let page = site.get("/slow/a");
    assert_eq!(
        (text(&page).as_str(), page.field("X-Backend"), page.field("X-Is-Slow")),
        ("slow", Some("slow"), Some("true"))
    );
    let page = site.get("/a");
    assert_eq!((text(&page).as_str(), page.field("X-Is-Slow")), ("fast", Some("false")));
    let (at_fast, at_slow) = (fast.requests(), slow.requests());
    // Both are asked in the words of the location; only its own pass has an address behind the name.
    assert_eq!((at_fast[0].field("X-Own"), at_fast[0].field("Host")), (Some("set"), Some("fast")));
    assert_eq!((at_slow[0].field("X-Own"), at_slow[0].field("Host")), (Some("set"), Some("slow")));
    assert_eq!(at_fast[0].request_line, "GET /inner/a HTTP/1.1");
    assert_eq!(at_slow[0].request_line, "GET /slow/a HTTP/1.1");
    assert_eq!(text(&site.get("/slow/a")), "slow");
    assert_eq!(slow.count(), 1, "its page is kept");
}

#[test]
fn a_server_that_is_down_is_left_out_as_without_a_vcl() {
    let slow = origin("slow");
    let servers = format!("server {NOBODY}; {}", server(slow.address()));
    let site = site(&server(slow.address()), &servers, "proxy_pass http://fast;", CHOOSE);
    for at in 0..8 {
        assert_eq!(text(&site.get(&format!("/slow/{at}"))), "slow");
    }
}

#[test]
fn a_location_without_a_pass_asks_by_the_vcl_alone() {
    let slow = origin("slow");
    let nobody = format!("server {NOBODY};");
    let vcl = format!("backend none none;{CHOOSE}");
    let site = site(&nobody, &server(slow.address()), "proxy_set_header X-Own set;", &vcl);
    let page = site.ask("GET", "/slow/a", "X-Client: here\r\n");
    assert_eq!(text(&page), "slow");
    assert_eq!(slow.requests()[0].field("X-Client"), Some("here"));
    assert_eq!(site.get("/a").status, 503, "the backend of the VCL is none");
}

#[test]
fn fastcgi_goes_to_a_group_with_the_parameters_of_the_location() {
    let (fast, slow) = (FastCgiOrigin::start_tcp().unwrap(), FastCgiOrigin::start_tcp().unwrap());
    fast.answer("*", FastCgiReply::html("fast"));
    slow.answer("*", FastCgiReply::html("slow"));
    let at = |origin: &FastCgiOrigin| format!("server {};", origin.address());
    let location = "fastcgi_pass fast; fastcgi_param SCRIPT_NAME /index.php; fastcgi_param REQUEST_URI $request_uri;";
    let site = site(&at(&fast), &at(&slow), location, CHOOSE);
    assert_eq!(text(&site.get("/slow/a")), "slow");
    assert_eq!(text(&site.get("/a")), "fast");
    assert_eq!(slow.requests()[0].param("REQUEST_URI"), Some("/slow/a"));
    assert_eq!(slow.requests()[0].param("SCRIPT_NAME"), Some("/index.php"));
}

#[test]
fn a_group_is_healthy_while_one_of_its_servers_may_be_asked() {
    let fast = origin("fast");
    let dead = format!("server {NOBODY} max_fails=1 fail_timeout=1h; server {NOBODY} max_fails=1 fail_timeout=1h;");
    let site = site(
        &server(fast.address()),
        &dead,
        "proxy_pass http://fast;",
        "sub vcl_init {
            new both = directors.fallback();
            both.add_backend(larder.upstream(\"slow\"));
            both.add_backend(larder.upstream(\"fast\"));
        }
        sub vcl_recv {
            if (req.url ~ \"^/slow\") { set req.backend_hint = larder.upstream(\"slow\"); }
            if (req.url ~ \"^/both\") { set req.backend_hint = both.backend(); }
        }
        sub vcl_deliver { set resp.http.X-Up = std.healthy(larder.upstream(\"slow\")); }
        sub vcl_synth { set resp.http.X-Up = std.healthy(larder.upstream(\"slow\")); }
        sub vcl_backend_error { set beresp.http.X-Up = std.healthy(larder.upstream(\"slow\")); }",
    );
    assert_eq!(site.get("/a").field("X-Up"), Some("true"), "nobody has asked it");
    assert_eq!(site.get("/slow").status, 503);
    let page = site.get("/b");
    assert_eq!((page.status, page.field("X-Up")), (200, Some("false")), "{}", site.server().error_log());
    let page = site.get("/both");
    assert_eq!((page.status, text(&page).as_str()), (200, "fast"), "the director knows it");
    assert_eq!(site.get("/slow").status, 503);
}

#[test]
fn a_group_has_no_probe() {
    let fast = origin("fast");
    fast.answer("/probe", Answer::status("500 No"));
    let vcl = "probe default { .url = \"/probe\"; .interval = 1h; }
        sub vcl_recv { set req.backend_hint = larder.upstream(\"slow\"); }";
    let site = site("server 127.0.0.1:1;", &server(fast.address()), "proxy_pass http://fast;", vcl);
    assert_eq!(text(&site.get("/a")), "fast");
    assert_eq!(fast.count(), 1);
}

#[test]
fn a_reload_brings_other_servers() {
    let (one, two) = (origin("one"), origin("two"));
    let http = |address: SocketAddr| {
        format!(
            "upstream slow {{ server {address}; }}
             server {{ listen 127.0.0.1:{{PORT}}; location / {{ vcl {{DIR}}/site.vcl; proxy_pass http://slow; }} }}"
        )
    };
    let site = setup(CHOOSE).start(&http(one.address()));
    assert_eq!(text(&site.get("/slow/a")), "one");
    site.change_to(&http(two.address()));
    assert_eq!(text(&site.get("/slow/a")), "two");
}

#[test]
fn a_group_that_is_not_there_is_named_with_those_that_are() {
    let setup = setup("sub vcl_recv { set req.backend_hint = larder.upstream(\"slwo\"); }");
    setup.configure(
        "upstream slow { server 127.0.0.1:1; }
         server { listen 127.0.0.1:{PORT}; location / { vcl {DIR}/site.vcl; proxy_pass http://slow; } }",
    );
    let output = setup.larder(&["-t"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{said}");
    for part in ["there is no upstream \"slwo\"", "site.vcl:5", "did you mean \"slow\"?"] {
        assert!(said.contains(part), "{part} in\n{said}");
    }
}
