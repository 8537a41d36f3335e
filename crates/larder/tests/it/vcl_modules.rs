//! What the functions of VCL's modules do for requests.

use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;

use larder_testkit::{Answer, Client, Origin};

use crate::site::{Setup, Site, eventually};

/// A site whose only server carries out `vcl`, with this origin as its backend.
fn site(origin: &Origin, vcl: &str) -> Site {
    site_with(origin, vcl, |setup| setup)
}

/// The same, with more in its folder.
fn site_with(origin: &Origin, vcl: &str, more: impl FnOnce(Setup) -> Setup) -> Site {
    let address = origin.address();
    let backend = format!("backend default {{ .host = \"{}\"; .port = \"{}\"; }}", address.ip(), address.port());
    more(Setup::new().without_root()).file("site.vcl", format!("vcl 4.1;\n{backend}\n{vcl}")).start(
        "proxy_cache_path {DIR}/pages keys_zone=pages:1m max_size=0;
         server { listen 127.0.0.1:{PORT}; vcl {DIR}/site.vcl; vcl_parameter workspace_client 32k;
         proxy_cache pages; }",
    )
}

/// What `set resp.http.R = EXPRESSION` after `statements` in `vcl_deliver` answers to a request with these fields;
/// statuses that are not 200 stand for themselves.
#[track_caller]
fn delivers(imports: &str, cases: &[(&str, &str, &str, &str)]) {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page").field("Set-Cookie", "a=1").field("Set-Cookie", "b=2"));
    let imports: String = imports.split(' ').map(|module| format!("import {module};\n")).collect();
    let mut deliver = String::new();
    for (at, (statements, _, expression, _)) in cases.iter().enumerate() {
        deliver += &format!("if (req.url == \"/{at}\") {{ {statements} set resp.http.R = {expression}; }}\n");
    }
    let site = site(&origin, &format!("{imports}sub vcl_deliver {{\n{deliver}}}"));
    for (at, (statements, fields, expression, expected)) in cases.iter().enumerate() {
        let response = site.ask("GET", &format!("/{at}"), fields);
        let found = match response.status {
            200 => response.field("R").unwrap_or("-").to_owned(),
            status => format!("{status}"),
        };
        assert_eq!(found, *expected, "{statements} {expression}\n{}", site.server().error_log());
    }
}

#[test]
fn cookies_are_those_of_the_task() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page"));
    let vcl = r#"
        import cookie; import std;
        sub vcl_recv {
            cookie.parse(req.http.Cookie);
            if (req.url == "/rollback") { std.rollback(req); cookie.set("only", "this"); }
            cookie.filter_re("^_ga");
            set req.http.Cookie = cookie.get_string();
            return (pass);
        }
        sub vcl_backend_fetch { set bereq.http.X-Theirs = cookie.get_string(); cookie.set("b", "2"); }
        sub vcl_backend_response { set beresp.http.X-Theirs = bereq.http.X-Theirs + cookie.get("b"); }
        sub vcl_deliver { set resp.http.X-Ours = cookie.get_string(); set resp.http.X-Re = cookie.get_re("^(b|c)$"); }
        "#;
    let site = site(&origin, vcl);
    let response = site.ask("GET", "/", "Cookie: a=1; _ga=2; c=x=y; _gat=3\r\n");
    assert_eq!(response.field("X-Ours"), Some("a=1; c=x=y"));
    assert_eq!(response.field("X-Re"), Some("x=y"));
    assert_eq!(response.field("X-Theirs"), Some("2"), "the fetch has none of the client's");
    let response = site.ask("GET", "/rollback", "Cookie: a=1\r\n");
    assert_eq!(response.field("X-Ours"), Some("only=this"));
    let many: String = (0..900).map(|n| format!("c{n}=1;")).collect();
    let response = site.ask("GET", "/", &format!("Cookie: {many}\r\n"));
    assert_eq!(response.status, 503, "they take more than the workspace");
    site.wait_for_log("the cookies of one request take more than");
}

#[test]
fn headers_are_changed_by_their_lines() {
    let set = r#"set resp.http.X = "x";"#;
    delivers(
        "header std",
        &[
            (
                r#"header.append(resp.http.X, "1" + "2"); header.append(resp.http.X, " 3 "); std.collect(resp.http.X);"#,
                "",
                "resp.http.X",
                "12, 3",
            ),
            ("std.collect(resp.http.Set-Cookie);", "", "resp.http.Set-Cookie", "a=1, b=2"),
            (r#"std.collect(resp.http.Set-Cookie, "; ");"#, "", "resp.http.Set-Cookie", "a=1; b=2"),
            (r#"header.remove(resp.http.Set-Cookie, "^a");"#, "", "resp.http.Set-Cookie", "b=2"),
            (
                r#"header.remove(resp.http.Set-Cookie, "=");"#,
                "",
                r#"header.get(resp.http.Set-Cookie, "=") + "gone""#,
                "gone",
            ),
            ("", "", r#"header.get(resp.http.Set-Cookie, "^b=")"#, "b=2"),
            ("", "A: \r\nA: 2\r\n", r#"header.get(req.http.A, ".?")"#, "2"),
            (
                "header.copy(req.http.A, resp.http.B); std.collect(resp.http.B);",
                "A: 1\r\na: 2\r\n",
                "resp.http.B",
                "1, 2",
            ),
            (
                "header.copy(resp.http.Set-Cookie, resp.http.Set-Cookie); std.collect(resp.http.Set-Cookie);",
                "",
                "resp.http.Set-Cookie",
                "a=1, b=2, a=1, b=2",
            ),
            (
                r#"header.append(header.dyn(resp, req.http.Name), "1");"#,
                "Name: Made-Up: x\r\n",
                "resp.http.made-up",
                "1",
            ),
            (r#"set resp.http.Z = header.dyn(req, "na" + "me");"#, "Name: n\r\n", "resp.http.Z", "n"),
            (r#"header.append(header.dyn(resp, ""), "1");"#, "", r#"header.dyn(resp, "")"#, ""),
            (set, "Name: a b\r\n", r#"header.dyn(resp, req.http.Name)"#, "503"),
            (
                r#"header.append(resp.http.X, req.url + "%0a"); header.append(resp.http.X, "a" + {"
"} + "b");"#,
                "",
                "resp.http.X",
                "503",
            ),
            (r#"header.append(header.dyn(resp, "Content-Length"), "1");"#, "", "resp.http.X", "503"),
            (
                r#"header.regsub(resp, "^(?i)set-cookie: a=(.*)$", "X: \1!");"#,
                "",
                "resp.http.X + resp.http.Set-Cookie",
                "1!b=2",
            ),
            (r#"header.regsub(req, "[12]", "0", true);"#, "A: 1-2\r\n", "req.http.A", "0-0"),
            (r#"header.regsub(req, "[12]", "0");"#, "A: 1-2\r\n", "req.http.A", "0-2"),
            (r#"header.regsub(req, "^(?i)a: ", "what is this");"#, "A: 1-2\r\n", "req.http.A", "503"),
            (r#"header.regsub(resp, "^(?i)set-cookie", "Content-Length");"#, "", "resp.http.X", "503"),
        ],
    );
}

#[test]
fn variables_last_as_long_as_their_task() {
    delivers(
        "var std",
        &[
            (
                r#"var.set("a", req.http.A); var.set_string("b", var.get("a") + "!");"#,
                "A: 1\r\n",
                r#"var.get_string("b")"#,
                "1!",
            ),
            (r#"set resp.http.R = var.get("a");"#, "", r#"var.get("a") + "none""#, "none"),
            (r#"var.set_int("a", 41);"#, "", r#"var.get_int("a") + 1"#, "42"),
            (r#"var.set_int("a", 41);"#, "", r#"var.get_int("A") + "" + var.get("a")"#, "0"),
            (r#"var.set_real("a", 1.5);"#, "", r#"var.get_real("a")"#, "1.500"),
            (r#"var.set_duration("a", 1m);"#, "", r#"var.get_duration("a")"#, "60.000"),
            (r#"var.set_real("a", 1.5);"#, "", r#"var.get_duration("a")"#, "0.000"),
            (r#"var.set_ip("a", client.ip);"#, "", r#"var.get_ip("a")"#, "127.0.0.1"),
            ("", "", r#"var.get_ip("a")"#, "503"),
            (r#"var.set_backend("a", req.backend_hint);"#, "", r#"var.get_backend("a")"#, "default"),
            (r#"var.set("a", "1"); var.clear();"#, "", r#"var.get("a") + "gone""#, "gone"),
            (r#"var.set(req.http.None, "1");"#, "", r#"var.get(req.http.None) + "no name""#, "no name"),
            (r#"var.global_set("g", "kept");"#, "", r#"var.global_get("g")"#, "kept"),
            ("", "", r#"var.global_get("g") + var.global_get("h")"#, "kept"),
            (r#"var.global_set("g", req.http.None);"#, "", r#"var.global_get("g") + "none""#, "none"),
        ],
    );
}

#[test]
fn files_and_the_environment_are_read() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page"));
    let vcl = r#"
        import std; import blob;
        sub slow { set req.http.Slow = std.strstr(std.fileread(req.http.Dir + "/long"), "end"); }
        sub vcl_recv { return (pass); }
        sub vcl_deliver {
            set resp.http.X-Text = std.fileread(req.http.Dir + "/site.txt") + "|" + std.fileread("/nowhere");
            set resp.http.X-Blob = blob.encode(HEX, blob = std.blobread(req.http.Dir + "/site.txt"));
            set resp.http.X-There = std.file_exists(req.http.Dir) + " " + std.file_exists("/nowhere");
            set resp.http.X-Env = std.getenv("LARDER_UNSET") + "|" + std.getenv("LARDER_SET");
            set resp.http.X-Took = std.timed_call(slow) < 10s;
            set resp.http.X-Long = req.http.Slow;
        }
        "#;
    let site = site_with(&origin, vcl, |setup| {
        let setup = setup.main("daemon off; worker_processes 1; env LARDER_SET=yes;");
        setup.file("site.txt", "text").file("long", "x".repeat(200_000) + "end")
    });
    let dir = site.setup().path("").display().to_string();
    let response = site.ask("GET", "/", &format!("Dir: {dir}\r\n"));
    assert_eq!(response.status, 200, "{}", site.server().error_log());
    for (name, value) in [
        ("X-Text", "text|"),
        ("X-Blob", "74657874"),
        ("X-There", "true false"),
        ("X-Env", "|yes"),
        ("X-Took", "true"),
        ("X-Long", "end"),
    ] {
        assert_eq!(response.field(name), Some(value), "{name}");
    }
}

#[test]
fn what_a_page_is_purged_by_decides_what_stays() {
    let origin = Origin::start().unwrap();
    let vcl = r#"
        import purge;
        sub vcl_hit { call purges; }
        sub vcl_miss { call purges; }
        sub purges {
            if (req.http.Purge == "hard") { set req.http.N = purge.hard(); return (synth(200)); }
            if (req.http.Purge == "soft") { set req.http.N = purge.soft(); return (synth(200)); }
            if (req.http.Purge == "now") { set req.http.N = purge.soft(0s, 0s, 0s); return (synth(200)); }
            if (req.http.Purge == "revalidate") { set req.http.N = purge.soft(0s, 0s); return (synth(200)); }
            if (req.http.Purge == "go on") { set req.http.N = purge.hard(); }
        }
        sub vcl_backend_response { set beresp.ttl = 1h; set beresp.grace = 1h; set beresp.keep = 1h; }
        sub vcl_synth { set resp.http.X-N = req.http.N; return (deliver); }
        sub vcl_deliver { set resp.http.X-Hits = obj.hits; set resp.http.X-Fresh = obj.ttl > 0s; }
        "#;
    let site = site(&origin, vcl);
    let ask = |purge: &str| site.ask("GET", "/", &format!("Purge: {purge}\r\n"));
    for (purge, number, hits) in
        [("hard", "1", "0"), ("hard", "1", "0"), ("now", "1", "0"), ("soft", "1", "2"), ("revalidate", "1", "0")]
    {
        origin.answer("*", Answer::ok("page").field("ETag", "\"1\""));
        assert_eq!(site.get("/").status, 200);
        assert_eq!(ask(purge).field("X-N"), Some(number), "{purge}");
        assert_eq!(site.get("/").field("X-Hits"), Some(hits), "{purge}\n{}", site.server().error_log());
        // A page in grace is fetched again behind its client's back, and must not come in between what follows.
        eventually("a fresh page", || site.get("/").field("X-Fresh") == Some("true"));
        ask("hard");
    }
    assert_eq!(ask("hard").field("X-N"), Some("0"));
    assert_eq!(ask("go on").status, 200, "it was a miss");
    assert_eq!(site.get("/").field("X-Hits"), Some("1"), "its answer was stored");
}

#[test]
fn pages_are_purged_by_their_tags() {
    let origin = Origin::start().unwrap();
    let vcl = r#"
        import xkey;
        sub vcl_recv {
            if (req.http.Purge) { set req.http.N = xkey.purge(req.http.Purge); return (synth(200)); }
            if (req.http.Soft) { set req.http.N = xkey.softpurge(req.http.Soft); return (synth(200)); }
        }
        sub vcl_backend_response { set beresp.ttl = 1h; set beresp.grace = 1h; }
        sub vcl_synth { set resp.http.X-N = req.http.N; return (deliver); }
        sub vcl_deliver { set resp.http.X-Hits = obj.hits; set resp.http.X-Fresh = obj.ttl > 0s; }
        "#;
    for (path, tags) in [("/a", "one all"), ("/b", "two,all"), ("/c", "three, four all")] {
        origin.answer(path, Answer::ok("page").field("xkey", tags).field("X-HashTwo", &format!("old{path}")));
    }
    let site = site(&origin, vcl);
    let hits = |path: &str| site.get(path).field("X-Hits").map(str::to_owned);
    for (fields, number, stay) in [
        ("Purge: one\r\n", "1", "/b /c"),
        ("Purge: none ,\r\n", "0", "/a /b /c"),
        ("Purge: one,four\r\n", "2", "/b"),
        ("Purge: old/b\r\n", "1", "/a /c"),
        ("Purge: all\r\n", "3", ""),
        ("Purge: all,one\r\n", "3", ""),
        ("Purge: On\r\n", "0", "/a /b /c"),
    ] {
        for path in ["/a", "/b", "/c"] {
            site.get(path);
        }
        assert_eq!(site.ask("GET", "/", fields).field("X-N"), Some(number), "{fields}");
        for path in ["/a", "/b", "/c"] {
            let is_there = hits(path).as_deref() != Some("0");
            assert_eq!(is_there, stay.contains(path), "{path} after {fields}");
        }
    }
    site.get("/a");
    assert_eq!(site.ask("GET", "/", "Soft: one\r\n").field("X-N"), Some("1"));
    assert_eq!(site.ask("GET", "/", "Soft: one\r\n").field("X-N"), Some("0"), "it is stale already");
    assert_eq!(site.get("/a").field("X-Fresh"), Some("false"), "it is in its grace");
}

#[test]
fn who_asks_too_often_is_denied() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page"));
    let vcl = r#"
        import vsthrottle;
        sub vcl_recv {
            set req.http.Left = vsthrottle.remaining(req.http.Who, 2, 1h);
            if (req.http.Back) { vsthrottle.return_token(req.http.Who, 2, 1h); }
            if (vsthrottle.is_denied(req.http.Who, 2, 1h)) { return (synth(429)); }
        }
        sub vcl_deliver { set resp.http.Left = req.http.Left; }
        "#;
    let site = site(&origin, vcl);
    for (fields, status) in [
        ("Who: a\r\n", 200),
        ("Who: a\r\n", 200),
        ("Who: a\r\n", 429),
        ("Who: b\r\n", 200),
        ("Who: a\r\nBack: 1\r\n", 200),
        ("Who: a\r\n", 429),
        ("", 429),
    ] {
        assert_eq!(site.ask("GET", "/", fields).status, status, "{fields}");
    }
}

#[test]
fn bodies_of_requests_are_looked_at() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page"));
    let vcl = r#"
        import bodyaccess; import std;
        sub vcl_recv {
            std.cache_req_body(1MB);
            set req.http.Len = bodyaccess.len_req_body();
            set req.http.Match = bodyaccess.rematch_req_body("wanted$");
            bodyaccess.log_req_body("body:", 4);
            return (hash);
        }
        sub vcl_hash { bodyaccess.hash_req_body(); }
        sub vcl_deliver {
            set resp.http.X-Len = req.http.Len; set resp.http.X-Match = req.http.Match; set resp.http.X-Hits = obj.hits;
        }
        "#;
    let site = site(&origin, vcl);
    let long = format!("{}wanted", "x".repeat(200_000));
    for (body, len, is_match, hits) in [
        ("is wanted", "9", "1", "0"),
        ("is not", "6", "0", "0"),
        ("is wanted", "9", "1", "1"),
        (&long, "200006", "1", "0"),
        (&long, "200006", "1", "1"),
        ("", "-1", "-1", "0"),
    ] {
        let (fields, end) = match body {
            "" => (String::new(), String::new()),
            body => (format!("Content-Length: {}\r\n", body.len()), body.to_owned()),
        };
        let request = format!("POST / HTTP/1.1\r\nHost: site.test\r\n{fields}Connection: close\r\n\r\n{end}");
        let response = site.exchange("POST", request);
        let found = ["X-Len", "X-Match", "X-Hits"].map(|name| response.field(name).unwrap_or("-"));
        assert_eq!(found, [len, is_match, hits], "{} bytes\n{}", body.len(), site.server().error_log());
    }
    site.wait_for_log("body:is w");
    site.wait_for_log("body:ante");
    site.wait_for_log("VCL_Error: Unbuffered req.body");
}

#[test]
fn the_other_end_of_a_connection_is_known() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page"));
    let vcl = r#"
        import unix; import proxy; import h2;
        sub vcl_deliver {
            set resp.http.X-Unix = unix.user() + " " + unix.group() + " " + unix.uid() + " " + unix.gid();
            set resp.http.X-Proxy = proxy.is_ssl() + " " + proxy.client_has_cert_sess() + " " + proxy.client_has_cert_conn()
                + " " + proxy.ssl_verify_result() + " " + proxy.alpn() + " " + proxy.authority() + " " + proxy.ssl_version()
                + " " + proxy.ssl_cipher() + " " + proxy.client_cert_cn() + " " + proxy.cert_sign() + " " + proxy.cert_key();
            set resp.http.X-H2 = h2.is() + " " + h2.rapid_reset_limit() + " " + h2.rapid_reset_budget();
        }
        "#;
    let backend = origin.address();
    let backend = format!("backend default {{ .host = \"{}\"; .port = \"{}\"; }}", backend.ip(), backend.port());
    let site = Setup::new().without_root().file("site.vcl", format!("vcl 4.1;\n{backend}\n{vcl}")).start(
        "server { listen 127.0.0.1:{PORT}; listen 127.0.0.1:{PORT2} proxy_protocol; listen unix:{DIR}/socket;
                  vcl {DIR}/site.vcl; }",
    );
    let request = "GET / HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n";
    let plain = site.get("/");
    assert_eq!(plain.field("X-Unix"), Some("-1 -1"));
    assert_eq!(plain.field("X-Proxy"), Some("false false false 0"));
    assert_eq!(plain.field("X-H2"), Some("false -1 -1.000"));
    let mut socket = std::os::unix::net::UnixStream::connect(site.setup().path("socket")).expect("larder listens");
    socket.write_all(request.as_bytes()).expect("larder takes requests");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("larder answers");
    let metadata = std::fs::metadata("/proc/self").expect("there is a process");
    assert!(answer.contains(&format!(" {} {}\r\n", metadata.uid(), metadata.gid())), "{answer}");
    let mut client = Client::connect(site.setup().other_address()).expect("larder listens");
    client.send(&[&proxy_header()[..], request.as_bytes()].concat()).expect("larder takes requests");
    let told = client.read_response("GET").expect("larder answers");
    assert_eq!(told.field("X-Proxy"), Some("true false true 18 h2 site.test TLSv1.3 CIPHER name sign key"));
}

/// A header of the second version of the PROXY protocol, with all that a proxy may say of TLS.
fn proxy_header() -> Vec<u8> {
    let tlv = |kind: u8, value: &[u8]| [&[kind, 0, value.len() as u8], value].concat();
    let mut ssl = vec![0b011, 0, 0, 0, 18];
    for (kind, value) in [(0x21, "TLSv1.3"), (0x22, "name"), (0x23, "CIPHER"), (0x24, "sign"), (0x25, "key")] {
        ssl.extend(tlv(kind, value.as_bytes()));
    }
    let addresses = [192, 0, 2, 1, 192, 0, 2, 2, 0, 80, 1, 187];
    let body = [&addresses[..], &tlv(1, b"h2"), &tlv(2, b"site.test"), &tlv(0x20, &ssl)].concat();
    [b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0", &[body.len() as u8][..], &body].concat()
}
