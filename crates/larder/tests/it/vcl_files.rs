//! A VCL in front of files: they are what it fetches, and may be kept as any other page.

use larder_testkit::{Answer, Client, Origin, Response};

use crate::site::{Setup, Site, eventually, get_on, text};

/// A site of files with these subs. `zone` is `proxy_cache pages;`, or nothing.
fn site(subs: &str, zone: &str) -> Site {
    Setup::new()
        .one_worker()
        .name("ZONE", zone)
        .file("site.vcl", format!("vcl 4.1;\nimport std;\n{subs}"))
        .file("www/index.html", "index")
        .file("www/a.txt", "0123456789")
        .file("www/empty.txt", "")
        .file("www/folder/b.txt", "b")
        .file("www/folder/index.php", "<?php")
        .file("secret.txt", "secret")
        .file("www/big.bin", big())
        .start(
            "proxy_cache_path {DIR}/pages keys_zone=pages:1m;
            access_log off;
            server {
                listen 127.0.0.1:{PORT};
                root {DIR}/www;
                vcl {DIR}/site.vcl;
                {ZONE}
                location / { add_header X-Added yes; }
                location /tried/ { try_files /a.txt =404; }
                location /listed/ { alias {DIR}/www/; autoindex on; index none.html; }
                location ~ \\.php$ { vcl off; return 200 php; }
                location = /plain { vcl off; return 200 plain; }
            }",
        )
}

/// More than any buffer holds, and no part of it is like another.
fn big() -> Vec<u8> {
    (0..20 << 20_u32).map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

const ZONES: [&str; 2] = ["", "proxy_cache pages;"];

/// Status, the field `X` of the response, and the body.
fn shown(response: &Response) -> String {
    format!("{} {} {}", response.status, response.field("X").unwrap_or("-"), text(response))
}

#[test]
fn a_file_is_served_as_without_the_vcl() {
    for zone in ZONES {
        let site = site("sub vcl_deliver { set resp.http.X = resp.http.Content-Length; }", zone);
        for turn in 0..2 {
            let whole = site.get("/a.txt");
            assert_eq!(shown(&whole), "200 10 0123456789", "{zone} {turn}");
            assert_eq!(whole.field("Content-Type"), Some("text/plain"));
            assert_eq!(whole.field("X-Added"), Some("yes"));
            assert_eq!(whole.field("Accept-Ranges"), Some("bytes"), "{zone} {turn}");
            let tag = whole.field("ETag").expect("a file has a tag").to_owned();
            let date = whole.field("Last-Modified").expect("a file has a date").to_owned();
            for (fields, status, body) in [
                (format!("If-None-Match: {tag}\r\n"), 304, ""),
                (format!("If-Modified-Since: {date}\r\n"), 304, ""),
                ("If-None-Match: \"other\"\r\n".to_owned(), 200, "0123456789"),
                ("Range: bytes=2-4\r\n".to_owned(), 206, "234"),
                ("Range: bytes=-1\r\n".to_owned(), 206, "9"),
                (format!("Range: bytes=2-4\r\nIf-Range: {tag}\r\n"), 206, "234"),
                ("Range: bytes=2-4\r\nIf-Range: \"other\"\r\n".to_owned(), 200, "0123456789"),
            ] {
                let response = site.ask("GET", "/a.txt", &fields);
                assert_eq!((response.status, &*text(&response)), (status, body), "{zone} {turn} {fields}");
            }
            assert_eq!(site.ask("GET", "/a.txt", "Range: bytes=99-\r\n").status, 416, "{zone} {turn}");
            let head = site.ask("HEAD", "/a.txt", "");
            assert_eq!((head.status, head.field("Content-Length"), &*text(&head)), (200, Some("10"), ""), "{zone}");
            let empty = site.get("/empty.txt");
            assert_eq!((empty.status, empty.field("Content-Length"), &*text(&empty)), (200, Some("0"), ""), "{zone}");
        }
    }
}

#[test]
fn what_is_no_file_is_answered_as_files_answer_it() {
    for zone in ZONES {
        let site = site("sub vcl_deliver { set resp.http.X = req.url; }", zone);
        for (method, target, status, part) in [
            ("GET", "/", 200, "index"),
            ("GET", "/none.txt", 404, "404 Not Found"),
            ("GET", "/folder", 301, "301 Moved Permanently"),
            // The index of this folder belongs to another location.
            ("GET", "/tried/x", 200, "0123456789"),
            ("GET", "/listed/", 200, "b.txt"),
            ("GET", "/listed/folder/b.txt", 200, "b"),
            ("POST", "/a.txt", 405, "405 Not Allowed"),
            ("POST", "/none.txt", 404, "404 Not Found"),
            ("PUT", "/a.txt", 405, "405 Not Allowed"),
        ] {
            let response = site.ask(method, target, "");
            let is_listed = target != "/listed/" || text(&response).contains("folder/");
            assert_eq!(response.status, status, "{zone} {method} {target}");
            let is_right = text(&response).contains(part) || target == "/listed/";
            assert!(is_right && is_listed, "{zone} {method} {target}: {}", text(&response));
            assert_eq!(response.field("X"), Some(target), "{zone} {method} {target}");
        }
        let moved = site.get("/folder");
        assert!(moved.field("Location").is_some_and(|to| to.ends_with("/folder/")), "{:?}", moved.field("Location"));
        assert_eq!(text(&site.get("/plain")), "plain");
    }
}

#[test]
fn a_body_that_a_file_does_not_want_is_no_next_request() {
    for zone in ZONES {
        let site = site("", zone);
        let body = "x".repeat(300_000);
        let mut client = site.client();
        let head = format!("POST /a.txt HTTP/1.1\r\nHost: site.test\r\nContent-Length: {}\r\n\r\n", body.len());
        let answer = site.exchange("POST", format!("{head}{body}"));
        assert_eq!(answer.status, 405, "{zone}");
        assert_eq!(text(&get_on(&mut client, "/a.txt")), "0123456789");
    }
}

#[test]
fn an_index_of_another_location_is_asked_for_there() {
    for zone in ZONES {
        let setup = Setup::new()
            .one_worker()
            .name("ZONE", zone)
            .file("site.vcl", "vcl 4.1;\nsub vcl_deliver { set resp.http.X = req.url; }\n")
            .file("www/index.php", "<?php");
        let site = setup.start(
            "proxy_cache_path {DIR}/pages keys_zone=pages:1m;
            server { listen 127.0.0.1:{PORT}; root {DIR}/www; index index.php; {ZONE}
                location / { vcl {DIR}/site.vcl; }
                location ~ \\.php$ { return 200 php; } }",
        );
        for _ in 0..2 {
            assert_eq!(shown(&site.get("/")), "200 - php", "{zone}");
        }
    }
}

#[test]
fn subs_decide_about_files() {
    for zone in ZONES {
        for (subs, target, expected) in [
            (
                "sub vcl_recv { if (req.url == \"/a.txt\") { return (synth(403, \"No\")); } }
                 sub vcl_synth { set resp.http.X = resp.reason; set resp.body = \"b\"; return (deliver); }",
                "/a.txt",
                "403 No b",
            ),
            ("sub vcl_recv { set req.url = regsub(req.url, \"^/old\", \"/folder\"); }", "/old/b.txt", "200 - b"),
            ("sub vcl_backend_fetch { set bereq.url = \"/folder/b.txt\"; }", "/a.txt", "200 - b"),
            ("sub vcl_recv { set req.url = \"/\"; }", "/a.txt", "200 - index"),
            (
                "sub vcl_backend_response { set beresp.http.X = beresp.status + beresp.reason + beresp.http.Content-Length; }",
                "/a.txt",
                "200 200OK10 0123456789",
            ),
            (
                "sub vcl_backend_response { if (beresp.status == 404 && bereq.retries == 0) { set bereq.url = \"/a.txt\"; return (retry); } set beresp.http.X = bereq.retries; }",
                "/none",
                "200 1 0123456789",
            ),
            (
                "sub vcl_deliver { if (resp.status == 404 && req.restarts == 0) { set req.url = \"/\"; return (restart); } set resp.http.X = req.restarts; }",
                "/none",
                "200 1 index",
            ),
            ("sub vcl_recv { return (pass); }", "/a.txt", "200 - 0123456789"),
            ("sub vcl_recv { return (pipe); }", "/a.txt", "200 - 0123456789"),
            ("sub vcl_backend_response { set beresp.do_stream = false; }", "/a.txt", "200 - 0123456789"),
            ("sub vcl_backend_response { set beresp.do_esi = true; }", "/a.txt", "200 - 0123456789"),
        ] {
            let site = site(subs, zone);
            for _ in 0..2 {
                assert_eq!(shown(&site.get(target)), expected, "{zone} {subs}");
            }
        }
    }
}

#[test]
fn no_url_of_a_vcl_leaves_the_files() {
    let outside = ["/../secret.txt", "/%2e%2e/secret.txt", "/folder/../../secret.txt", "secret.txt", "/%00"];
    // The location of the script would not have shown its source.
    for url in outside.into_iter().chain(["/folder/index.php", "/plain"]) {
        for subs in [
            format!("sub vcl_recv {{ set req.url = \"{url}\"; }}"),
            format!("sub vcl_backend_fetch {{ set bereq.url = \"{url}\"; }}"),
        ] {
            let site = site(&subs, "");
            for target in ["/a.txt", "/listed/a.txt"] {
                let response = site.get(target);
                assert!(matches!(response.status, 400 | 404), "{subs}: {}", shown(&response));
            }
        }
    }
}

#[test]
fn a_file_is_kept_where_there_is_a_zone() {
    for (zone, hits) in [("", ["0", "0"]), ("proxy_cache pages;", ["0", "1"])] {
        let site = site("sub vcl_deliver { set resp.http.X = obj.hits; }", zone);
        for target in ["/a.txt", "/", "/empty.txt", "/none.txt", "/big.bin"] {
            assert_eq!(site.get(target).field("X"), Some(hits[0]), "{zone} {target}");
            // The last piece of a big page may reach its client before it is stored.
            eventually(&format!("{} hits: {zone} {target}", hits[1]), || {
                let again = site.get(target);
                again.field("X").is_some_and(|seen| (seen == "0") == (hits[1] == "0"))
            });
        }
        std::fs::write(site.setup().path("www/a.txt"), "changed").expect("it can be written");
        let expected = if zone.is_empty() { "changed" } else { "0123456789" };
        assert_eq!(text(&site.get("/a.txt")), expected, "{zone}");
    }
}

#[test]
fn a_big_file_arrives_whole_and_in_parts() {
    let big = big();
    for zone in ZONES {
        let site = site("", zone);
        for turn in 0..2 {
            assert!(site.get("/big.bin").body == big, "{zone} {turn}");
            let part = site.ask("GET", "/big.bin", "Range: bytes=15000000-15099999\r\n");
            assert!(part.status == 206 && part.body == big[15_000_000..15_100_000], "{zone} {turn}");
        }
    }
}

#[test]
fn a_file_that_was_packed_beforehand_is_unpacked_for_who_does_not_take_it() {
    let packed = larder_testkit::gzipped(b"packed");
    for zone in ZONES {
        let setup = Setup::new()
            .one_worker()
            .name("ZONE", zone)
            .file("site.vcl", "vcl 4.1;\nsub vcl_deliver { unset resp.http.X; }\n");
        let setup = setup.file("www/a.txt", "plain").file("www/a.txt.gz", &packed).file("www/a.txt.br", "brotli");
        let site = setup.start(
            "proxy_cache_path {DIR}/pages keys_zone=pages:1m;
            server { listen 127.0.0.1:{PORT}; root {DIR}/www; vcl {DIR}/site.vcl; {ZONE}
                location / { gzip_static on; brotli_static on; } }",
        );
        for _ in 0..2 {
            let taken = site.ask("GET", "/a.txt", "Accept-Encoding: gzip, br\r\n");
            assert_eq!((taken.field("Content-Encoding"), &taken.body), (Some("gzip"), &packed), "{zone}");
            assert_eq!(taken.field("Vary"), Some("Accept-Encoding"), "{zone}");
            // Without a zone the file itself is read for this client.
            let expected = if zone.is_empty() { "plain" } else { "packed" };
            assert_eq!(text(&site.get("/a.txt")), expected, "{zone}");
        }
    }
}

#[test]
fn a_page_without_grace_is_confirmed_by_its_file() {
    let site = site(
        "sub vcl_backend_response { set beresp.ttl = 1ms; set beresp.grace = 0s; set beresp.keep = 1h; set beresp.http.X = beresp.was_304; }",
        "proxy_cache pages;",
    );
    assert_eq!(shown(&site.get("/a.txt")), "200 false 0123456789");
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(shown(&site.get("/a.txt")), "200 true 0123456789");
    std::fs::write(site.setup().path("www/a.txt"), "changed").expect("it can be written");
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(shown(&site.get("/a.txt")), "200 false changed");
}

#[test]
fn a_backend_of_the_vcl_is_asked_where_it_is_named() {
    let origin = Origin::start().expect("a port is free");
    origin.answer("/api", Answer::ok("api"));
    origin.answer("/none", Answer::ok("none"));
    let setup = Setup::new().one_worker().name("ORIGIN", origin.address()).file("www/a.txt", "file");
    let port = origin.address().port();
    let vcl = format!(
        "vcl 4.1;\nbackend api {{ .host = \"127.0.0.1\"; .port = \"{port}\"; }}
         sub vcl_recv {{ if (req.url ~ \"^/api\") {{ set req.backend_hint = api; }} }}"
    );
    let site = setup.without_root().file("site.vcl", vcl).start(
        "server { listen 127.0.0.1:{PORT}; vcl {DIR}/site.vcl;
            location / { root {DIR}/www; } location /none { } }",
    );
    let mut client: Client = site.client();
    assert_eq!(text(&get_on(&mut client, "/a.txt")), "file");
    assert_eq!(text(&get_on(&mut client, "/api")), "api");
    // Without a root the VCL's first backend is the default.
    assert_eq!(text(&get_on(&mut client, "/none")), "none");
    assert_eq!(origin.requests().len(), 2);
}

#[test]
fn what_a_location_answers_by_itself_needs_nothing_behind_it() {
    let site = Setup::new()
        .without_root()
        .file("site.vcl", "vcl 4.1;\nsub vcl_deliver { set resp.http.X = \"vcl\"; }\n")
        .file("www/a.txt", "file")
        .start(
            "server { listen 127.0.0.1:{PORT}; vcl {DIR}/site.vcl;
                location / { root {DIR}/www; }
                location /returned { return 200 returned; }
                location /led { try_files /nothing /a.txt; } }",
        );
    for (path, body, field) in
        [("/a.txt", "file", Some("vcl")), ("/returned", "returned", None), ("/led", "file", Some("vcl"))]
    {
        let page = site.get(path);
        assert_eq!((text(&page).as_str(), page.field("X")), (body, field), "{path}");
    }
}

#[test]
fn a_vcl_with_nothing_behind_it_is_refused() {
    for (locations, part) in [
        ("location / { }", "there is no backend in "),
        (
            "location / { root {DIR}; } location /other { root {DIR}; } location /none { }",
            "a VCL without a backend needs something behind it: give the location a \"root\" of files",
        ),
        ("location / { root {DIR}; } location /none { }", "nginx.conf:10"),
        ("location / { root {DIR}; } location /none { vcl {DIR}/none.vcl; }", "nginx.conf:10"),
    ] {
        let setup = Setup::new().without_root().file("site.vcl", "vcl 4.1;\nsub vcl_deliver { unset resp.http.X; }\n");
        setup.configure(&format!("server {{ listen 127.0.0.1:{{PORT}}; vcl {{DIR}}/site.vcl; {locations} }}"));
        let output = setup.larder(&["-t"]);
        let said = larder_testkit::text_of(&output.stderr);
        assert!(!output.status.success() && said.contains(part), "{said}");
    }
}

#[test]
fn raw_requests_are_for_a_server_whose_one_location_is_everything() {
    const VCL: &str = "vcl 4.1;\nbackend default { .host = \"127.0.0.1\"; .port = \"1\"; }\n";
    for (locations, is_right) in [
        ("location / { }", true),
        ("location / { } location /admin { deny all; }", false),
        ("location / { root {DIR}; }", false),
        ("location / { rewrite ^/a /b; }", false),
        ("if ($uri ~ ^/admin) { return 403; } location / { }", false),
        ("location / { vcl off; }", false),
        ("location / { location /admin { deny all; } }", false),
        ("location /shop { }", false),
        ("", false),
    ] {
        let setup = Setup::new().without_root().file("site.vcl", VCL);
        let rest = format!("vcl {{DIR}}/site.vcl; vcl_raw_requests on; {locations}");
        setup.configure(&format!("server {{ listen 127.0.0.1:{{PORT}}; {rest} }}"));
        let output = setup.larder(&["-t"]);
        let said = larder_testkit::text_of(&output.stderr);
        let refusal = "\"vcl_raw_requests\" needs a server with one location, \"location / { }\"";
        assert_eq!(said.contains(refusal), !is_right, "{locations}: {said}");
        assert_eq!(output.status.success(), is_right, "{locations}: {said}");
    }
}
