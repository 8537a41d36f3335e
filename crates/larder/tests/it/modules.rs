//! Variables, fields and logs of the smaller modules, where no version of nginx to compare with has them, or where what
//! they say is another each time.

use larder_testkit::{text_of, unpacked};

use crate::site::{Setup, Site, eventually, text};

#[test]
fn a_field_that_is_added_sees_those_before_it() {
    let site = Site::start(
        "server { listen 127.0.0.1:{PORT}; default_type text/plain;
            add_header A one; add_header A two; add_header X-A $sent_http_a; add_header A three;
            add_header X-Port $is_request_port$request_port;
            add_trailer T one; add_trailer T two; add_trailer X-T $sent_trailer_t;
            location / { return 200 'x'; } }",
    );
    for (target, host, field) in [
        ("/", "site.test", None),
        ("/", "site.test:81", Some(":81")),
        ("http://site.test:82/", "site.test:83", Some(":82")),
        ("http://site.test/", "site.test:83", None),
    ] {
        let mut client = site.client();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes()).unwrap();
        let all = text_of(&client.read_to_end().unwrap());
        assert!(all.contains("\r\nX-A: one, two\r\n"), "{all}");
        assert!(all.contains("\r\nX-T: one, two\r\n"), "{all}");
        let port = field.map(|port| format!("\r\nX-Port: {port}\r\n"));
        assert_eq!(all.contains("X-Port"), port.is_some(), "{all}");
        assert!(port.is_none_or(|port| all.contains(&port)), "{all}");
    }
}

#[test]
fn every_visitor_gets_a_number_of_his_own_and_keeps_it() {
    let site = Site::start(
        "map $arg_new $uid_reset { default ''; 1 1; }
         server { listen 127.0.0.1:{PORT}; userid on; add_header X-Got $uid_got; add_header X-Set $uid_set;
            location / { return 200 'x'; } location /v1 { userid v1; userid_service 7; return 200 'x'; } }",
    );
    let mut numbers = std::collections::HashSet::new();
    for target in ["/", "/", "/v1", "/v1"] {
        let first = site.get(target);
        let cookie = first.field("Set-Cookie").unwrap().split(';').next().unwrap().to_owned();
        let number = first.field("X-Set").unwrap().to_owned();
        assert_eq!((number.len(), first.field("X-Got")), ("uid=".len() + 32, None), "{number}");
        let again = site.ask("GET", target, &format!("Cookie: {cookie}\r\n"));
        assert_eq!((again.field("X-Got"), again.field("Set-Cookie")), (Some(number.as_str()), None), "{cookie}");
        let reset = site.ask("GET", &format!("{target}?new=1"), &format!("Cookie: {cookie}\r\n"));
        assert_eq!(reset.field("X-Got"), Some(number.as_str()));
        assert!(numbers.insert(reset.field("X-Set").unwrap().to_owned()), "{number}");
        assert!(numbers.insert(number));
    }
    assert_eq!(numbers.len(), 8);
}

#[test]
fn a_compressed_log_is_gzip_at_every_flush() {
    let site = Site::start(
        "log_format l $uri; server { listen 127.0.0.1:{PORT}; access_log packed.log l gzip=9 flush=10ms; return 200 x; }",
    );
    let lines = || {
        let bytes = std::fs::read(site.setup().path("packed.log")).unwrap_or_default();
        if bytes.is_empty() { String::new() } else { text_of(&unpacked("gzip", &bytes)) }
    };
    site.get("/a");
    eventually("the first line", || lines() == "/a\n");
    site.get("/b");
    eventually("the second line", || lines() == "/a\n/b\n");
    let setup = site.stop();
    let bytes = std::fs::read(setup.path("packed.log")).unwrap();
    assert_eq!(text_of(&unpacked("gzip", &bytes)), "/a\n/b\n");
}

#[test]
fn standard_error_is_a_log_wherever_it_is_asked_for() {
    let site = Site::start(
        "server { listen 127.0.0.1:{PORT}; location /told { error_log stderr; } location /twice { error_log stderr; \
         error_log stderr warn; } location / { } }",
    );
    for (target, count) in [("/told/a", 1), ("/twice/b", 2), ("/c", 0)] {
        site.get(target);
        let line = format!("request: \"GET {target} ");
        eventually("the lines", || site.server().text("stderr").matches(&line).count() == count);
    }
    site.wait_for_log("request: \"GET /c ");
}

#[test]
fn a_log_named_by_a_variable_is_where_its_name_leads() {
    for (cache, there, lines) in [
        ("", "log-x", "/b\n"),
        ("open_log_file_cache off;", "log-x", "/b\n"),
        ("open_log_file_cache max=10 min_uses=2;", "log-x", "/b\n"),
        ("open_log_file_cache max=10;", "moved", "/a\n/b\n"),
    ] {
        // Who serves has to be able to make the files.
        let setup = Setup::new().main("daemon off; worker_processes 1; user root;").name("CACHE", cache);
        let site = setup.start(
            "log_format l $uri; {CACHE} server { listen 127.0.0.1:{PORT}; access_log {DIR}/log-$arg_to l; return 200 x; }",
        );
        let path = |name: &str| site.setup().path(name);
        site.get("/a?to=x");
        site.wait_for_text("log-x", "/a\n");
        std::fs::rename(path("log-x"), path("moved")).unwrap();
        site.get("/b?to=x");
        site.wait_for_text(there, lines);
        assert_eq!(site.server().text(there), lines, "{cache}");
    }
}

#[test]
fn a_random_file_may_be_any_of_them() {
    let setup = Setup::new().file("www/x/one", "one").file("www/x/two", "two").file("www/x/.three", "three");
    let site = setup.start("server { listen 127.0.0.1:{PORT}; location / { random_index on; } }");
    let mut seen = std::collections::BTreeSet::new();
    eventually("both", || {
        seen.insert(text(&site.get("/x/")));
        seen.len() == 2
    });
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["one", "two"]);
}

#[test]
fn a_volatile_geo_is_asked_anew_each_time() {
    let site = Site::start(
        "geo $arg_ip $once { 192.0.2.1 one; 192.0.2.2 two; }
         geo $arg_ip $anew { volatile; 192.0.2.1 one; 192.0.2.2 two; }
         server { listen 127.0.0.1:{PORT}; set $before $once-$anew; set $args ip=192.0.2.2; return 200 '$before $once-$anew'; }",
    );
    assert_eq!(text(&site.get("/?ip=192.0.2.1")), "one-one one-two");
}
