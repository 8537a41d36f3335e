//! `more_set_headers`, `more_clear_headers` and the same of requests, whatever the status.
//!
//! What is claimed was compared with Debian's headers-more module; nginx without it cannot run these.

use larder_testkit::{Answer, Origin, Response};

use crate::site::{Setup, Site, cached, text};

const SITE: &str = "
    types { text/html html; text/css css; text/plain txt; }
    charset utf-8;
    proxy_cache_path {DIR}/pages keys_zone=pages:1m;
    more_set_headers 'X-Powered-By : larder' 'X-Frame-Options: SAMEORIGIN';
    more_set_headers 'Server: mine';
    server {
        listen 127.0.0.1:{PORT};
        more_clear_headers 'X-Debug-*' X-Pingback;
        location / { more_set_headers 'X-Uri: $uri' 'Cache-Control: no-cache'; add_header Cache-Control later; }
        location /cleared { more_clear_headers Server Date; more_clear_headers -s '404 410' X-Frame-Options; }
        location /typed {
            more_set_headers -t 'text/css application/json' 'X-Typed: yes';
            more_set_headers -s 404 -t text/html 'X-Typed: lost';
        }
        location /retyped { more_set_headers 'Content-Type: text/plain'; default_type text/html; return 200 x; }
        location /untyped { more_clear_headers Content-Type; default_type text/html; return 200 x; }
        location /empty { more_set_headers 'X-Powered-By:' 'X-Arg: $arg_x'; return 200 x; }
        location /moved { more_set_headers 'Location: /there'; return 302 /here; }
        location /colonless { more_set_headers 'X-Dead-End true' 'Content-Type text/plain' 'X-Both : a b'; return 200 x; }
        location /if {
            if ($arg_a) { more_set_headers 'X-If: yes'; }
            more_set_headers 'X-Loc: yes';
            return 200 x;
        }
        location /origin/ {
            proxy_pass http://{ORIGIN}; proxy_cache pages; proxy_cache_valid 1m;
            more_set_headers 'X-Cache: $upstream_cache_status' 'x-twice: one';
            more_clear_headers ETag;
        }
        location /in/ {
            more_set_input_headers 'X-New: $arg_x' 'User-Agent: changed' 'X-Empty:';
            more_set_input_headers -r 'X-There: replaced' 'X-Not-There: replaced';
            more_clear_input_headers Accept-Encoding 'X-Secret-*';
            more_set_input_headers -t text/plain 'X-Type: plain';
            proxy_pass http://{ORIGIN};
        }
        location /host/ { more_set_input_headers 'Host: other.test'; proxy_set_header Host $host; proxy_pass http://{ORIGIN}; }
    }";

fn site() -> (Site, Origin) {
    let origin = Origin::start().unwrap();
    let answer = Answer::ok("origin").field("X-Debug-Time", "1").field("x-debug-Mem", "2").field("X-Pingback", "x");
    origin.answer("*", answer.field("X-Twice", "a").field("X-Twice", "b").field("ETag", "\"x\""));
    let setup = Setup::new().name("ORIGIN", origin.address());
    let setup = setup.file("www/a.css", "css").file("www/typed/a.css", "css").file("www/cleared/a.txt", "text");
    (setup.start(SITE), origin)
}

fn all<'a>(response: &'a Response, name: &str) -> Vec<&'a str> {
    let named = response.fields.iter().filter(|(field, _)| field.eq_ignore_ascii_case(name));
    named.map(|(_, value)| value.as_str()).collect()
}

#[test]
fn fields_of_responses_are_set_and_taken_away_by_name_status_and_type() {
    let (site, _origin) = site();
    for (target, status, name, values) in [
        ("/a.css", 200, "X-Powered-By", &["larder"][..]),
        ("/a.css", 200, "Server", &["mine"]),
        ("/a.css", 200, "X-Uri", &["/a.css"]),
        ("/a.css", 200, "Cache-Control", &["no-cache", "later"]),
        ("/none.css", 404, "X-Frame-Options", &["SAMEORIGIN"]),
        ("/cleared/a.txt", 200, "Server", &[]),
        ("/cleared/a.txt", 200, "Date", &[]),
        ("/cleared/a.txt", 200, "X-Frame-Options", &["SAMEORIGIN"]),
        ("/cleared/none", 404, "X-Frame-Options", &[]),
        ("/typed/a.css", 200, "X-Typed", &["yes"]),
        ("/typed/none", 404, "X-Typed", &["lost"]),
        ("/retyped", 200, "Content-Type", &["text/plain; charset=utf-8"]),
        ("/untyped", 200, "Content-Type", &[]),
        ("/colonless", 200, "X-Dead-End", &["true"]),
        ("/colonless", 200, "Content-Type", &["text/plain; charset=utf-8"]),
        ("/colonless", 200, "X-Both", &["a b"]),
        ("/empty", 200, "X-Powered-By", &[]),
        ("/empty", 200, "X-Arg", &[]),
        ("/empty?x=1", 200, "X-Arg", &["1"]),
        ("/if", 200, "X-If", &[]),
        ("/if?a=1", 200, "X-If", &["yes"]),
        ("/if?a=1", 200, "X-Loc", &["yes"]),
        ("/origin/a", 200, "X-Debug-Time", &[]),
        ("/origin/a", 200, "X-Debug-Mem", &[]),
        ("/origin/a", 200, "X-Pingback", &[]),
        ("/origin/a", 200, "ETag", &[]),
        ("/origin/a", 200, "X-Twice", &["one"]),
    ] {
        let response = site.get(target);
        assert_eq!((response.status, all(&response, name)), (status, values.to_vec()), "{target} {name}");
    }
    let moved = site.get("/moved").field("Location").unwrap_or_default().to_owned();
    assert!(moved.starts_with("http://") && moved.ends_with("/there"), "{moved}");
}

#[test]
fn a_hit_is_edited_as_a_miss_is() {
    let (site, origin) = site();
    for word in ["MISS", "HIT", "HIT"] {
        let response = site.get("/origin/page");
        assert_eq!((cached(&response), text(&response).as_str()), (word, "origin"));
        assert_eq!((all(&response, "X-Twice"), all(&response, "X-Debug-Time")), (vec!["one"], vec![]), "{word}");
    }
    assert_eq!(origin.count(), 1);
}

#[test]
fn fields_of_requests_are_edited_before_origins_see_them() {
    let (site, origin) = site();
    let sent = "X-There: 1\r\nAccept-Encoding: gzip\r\nX-Secret-A: 1\r\nX-Empty: 1\r\nContent-Type: text/plain\r\n";
    site.ask("GET", "/in/a?x=1", sent);
    site.ask("GET", "/host/", "");
    let seen = origin.requests();
    for (name, value) in [
        ("X-New", Some("1")),
        ("User-Agent", Some("changed")),
        ("X-Empty", None),
        ("X-There", Some("replaced")),
        ("X-Not-There", None),
        ("Accept-Encoding", None),
        ("X-Secret-A", None),
        ("X-Type", Some("plain")),
    ] {
        assert_eq!(seen[0].field(name), value, "{name}");
    }
    assert_eq!(seen[1].field("Host"), Some("other.test"));
}
