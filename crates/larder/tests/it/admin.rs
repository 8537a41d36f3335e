//! `listen ... larder_admin`: who may, what clients of other caches' APIs send, and what goes in all zones.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;

use larder_testkit::{Answer, Client, Origin, Response};

use crate::site::{Setup, Site, cached, eventually, text};

/// Two sites, each with a zone of its own, and the admin API on the second port.
const SITES: &str = "
    proxy_cache_path {DIR}/pages keys_zone=pages:1m inactive=1h;
    proxy_cache_path {DIR}/others keys_zone=others:1m inactive=1h;
    proxy_cache_key $scheme$request_method$host$request_uri;
    proxy_cache_valid 200 1h;
    proxy_cache_use_stale updating;
    add_header X-Cache $upstream_cache_status;
    error_page 403 404 405 /error;
    larder_purge_from 192.0.2.1;
    log_format admin '$request_method $uri $status';
    server {
        listen 127.0.0.1:{PORT};
        server_name a.example;
        location / { proxy_pass http://{ORIGIN}; proxy_cache pages; }
    }
    server {
        listen 127.0.0.1:{PORT};
        server_name b.example;
        location / { proxy_pass http://{ORIGIN}; proxy_cache others; }
    }
    server {
        listen 127.0.0.1:{PORT2} larder_admin;
        listen unix:{DIR}/admin.sock larder_admin;
        access_log {DIR}/admin.log admin;
        MORE
    }";

fn start(origin: &Origin, more: &str) -> Site {
    Setup::new().name("ORIGIN", origin.address()).start(&SITES.replace("MORE", more))
}

fn tagging_origin() -> Origin {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page").field("Surrogate-Key", "all foo"));
    origin.answer("/bar", Answer::ok("page").field("Surrogate-Key", "all bar b/c"));
    origin
}

/// One request on a connection of its own.
fn send(address: SocketAddr, host: &str, method: &str, target: &str, fields: &str, body: &str) -> Response {
    let mut client = Client::connect(address).unwrap();
    let framing = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let head = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{framing}{fields}Connection: close\r\n\r\n");
    client.send(format!("{head}{body}").as_bytes()).unwrap();
    client.read_response(method).unwrap_or_else(|error| panic!("{method} {target} {fields} {body}: {error}"))
}

fn get(site: &Site, host: &str, target: &str) -> Response {
    send(site.setup().address(), host, "GET", target, "", "")
}

/// A request to the admin API.
fn ask(site: &Site, method: &str, target: &str, fields: &str, body: &str) -> Response {
    send(site.setup().other_address(), "127.0.0.1", method, target, fields, body)
}

/// The pages of the tests, by their site and path.
const PAGES: [(&str, &str); 4] =
    [("a.example", "/foo"), ("a.example", "/bar"), ("b.example", "/foo"), ("b.example", "/dir/x")];

fn fill(site: &Site) {
    for (host, target) in PAGES {
        eventually("the page to be stored", || cached(&get(site, host, target)) == "HIT");
    }
}

/// Which pages are not as they were, by the first letter of their host and their path.
fn gone(site: &Site) -> Vec<String> {
    let gone = |(host, target): &(&str, &str)| cached(&get(site, host, target)) != "HIT";
    PAGES.iter().filter(|page| gone(page)).map(|(host, target)| format!("{}{target}", &host[..1])).collect()
}

#[test]
fn what_clients_of_other_caches_send_purges_in_all_zones() {
    let origin = tagging_origin();
    let site = start(&origin, "");
    let all = &["a/foo", "a/bar", "b/foo", "b/dir/x"][..];
    let json = "Content-Type: application/json\r\n";
    for (method, target, fields, body, expected, told) in [
        // Our own.
        ("POST", "/purge", json, r#"{"urls":["http://a.example/foo"]}"#, &["a/foo"][..], r#"{"purged":1,"#),
        ("POST", "/purge", json, r#"{"urls":["/foo"]}"#, &["a/foo", "b/foo"], r#"{"purged":2,"#),
        ("POST", "/purge", json, r#"{"urls":["/foo"],"zone":"others"}"#, &["b/foo"], r#"{"purged":1,"#),
        (
            "POST",
            "/purge",
            json,
            r#"{"prefixes":["b.example/"],"urls":["/bar"]}"#,
            &["a/bar", "b/foo", "b/dir/x"],
            r#"{"purged":3,"#,
        ),
        ("POST", "/purge", json, r#"{"match":["^/dir/.$"]}"#, &["b/dir/x"], r#"{"purged":1,"#),
        ("POST", "/purge", json, r#"{"hosts":["A.example"]}"#, &["a/foo", "a/bar"], r#"{"purged":2,"#),
        ("POST", "/purge", json, r#"{"tags":["bar"]}"#, &["a/bar"], r#"{"purged":1,"#),
        ("POST", "/purge", json, r#"{"bans":["obj.http.surrogate-key ~ bar"]}"#, &["a/bar"], r#"{"purged":0,"#),
        ("POST", "/purge", json, r#"{"all":true}"#, all, r#"{"purged":4,"#),
        ("POST", "/purge", "Surrogate-Key: bar other\r\n", "", &["a/bar"], r#"{"purged":1,"#),
        ("POST", "/purge", "Cache-Tag: foo,bar\r\nContent-Length: 0\r\n", "", all, r#"{"purged":4,"#),
        // As cloudflare-go, its forks and curl lines in its manual send it.
        (
            "POST",
            "/client/v4/zones/023e105f4ecef8ad9ca31a8372d0c353/purge_cache",
            "Authorization: Bearer 8M7wS6hCpXVc\r\nContent-Type: application/json\r\n",
            r#"{"purge_everything":true}"#,
            all,
            r#""success":true"#,
        ),
        (
            "DELETE",
            "/client/v4/zones/023e105f/purge_cache",
            "X-Auth-Email: a@a.example\r\nX-Auth-Key: 144c9\r\nContent-Type: application/json\r\n",
            r#"{"files":["http://a.example/foo"]}"#,
            &["a/foo"],
            r#""result":{"id":"023e105f"}"#,
        ),
        (
            "POST",
            "/client/v4/zones/023e105f/purge_cache",
            json,
            r#"{"files":[{"url":"https://b.example/foo","headers":{"CF-IPCountry":"US","CF-Device-Type":"desktop"}}]}"#,
            &["b/foo"],
            r#""errors":[]"#,
        ),
        (
            "POST",
            "/client/v4/zones/023e105f/purge_cache",
            json,
            r#"{"tags":["bar"],"hosts":["b.example"]}"#,
            &["a/bar", "b/foo", "b/dir/x"],
            r#""messages":[]"#,
        ),
        (
            "POST",
            "/client/v4/zones/023e105f/purge_cache",
            json,
            r#"{"prefixes":["b.example/dir"]}"#,
            &["b/dir/x"],
            r#""success":true"#,
        ),
        // As go-fastly and fastly-py send it.
        (
            "POST",
            "/service/7i6HN3TK9wS159v2gPAZ8A/purge",
            "Fastly-Key: x\r\nSurrogate-Key: foo bar baz\r\nAccept: application/json\r\nContent-Length: 0\r\n",
            "",
            all,
            r#""baz":"#,
        ),
        (
            "POST",
            "/service/7i6HN3TK9wS159v2gPAZ8A/purge",
            json,
            r#"{"surrogate_keys":["bar","baz"]}"#,
            &["a/bar"],
            r#""bar":"#,
        ),
        ("POST", "/service/7i6HN3TK9wS159v2gPAZ8A/purge/bar", "Fastly-Key: x\r\n", "", &["a/bar"], r#""status":"ok""#),
        ("POST", "/service/7i6HN3TK9wS159v2gPAZ8A/purge/b%2Fc", "", "", &["a/bar"], r#"{"id":""#),
        ("POST", "/service/7i6HN3TK9wS159v2gPAZ8A/purge_all", "", "", all, r#"{"status":"ok"}"#),
        ("POST", "/purge/https://a.example/foo", "", "", &["a/foo"], r#""status":"ok""#),
        ("POST", "/purge/b.example%2Fdir%2Fx", "", "", &["b/dir/x"], r#""status":"ok""#),
        ("PURGE", "/https://a.example/foo", "", "", &["a/foo"], r#""status":"ok""#),
        // As Souin's clients send it.
        (
            "POST",
            "/souin-api/souin",
            json,
            r#"{"type":"uri","selectors":["a.example/foo"],"purge":true}"#,
            &["a/foo"],
            "",
        ),
        (
            "POST",
            "/souin-api/souin",
            json,
            r#"{"type":"uri-prefix","selectors":["b.example/dir"],"purge":true}"#,
            &["b/dir/x"],
            "",
        ),
        (
            "POST",
            "/souin-api/souin",
            json,
            r#"{"type":"origin","selectors":["https://b.example"],"purge":true}"#,
            &["b/foo", "b/dir/x"],
            "",
        ),
        ("POST", "/souin-api/souin", json, r#"{"type":"group","groups":["bar"],"purge":true}"#, &["a/bar"], ""),
        ("PURGE", "/souin-api/souin", "Surrogate-Key: bar\r\n", "", &["a/bar"], "Purged: 1 page"),
        ("PURGE", "/souin-api/souin/flush", "", "", all, "Purged: 4 pages"),
        // What plugins send to the port of a site means no key here.
        ("PURGE", "http://a.example/foo", "", "", &["a/foo"], "Purged: 1 page"),
        ("PURGE", "http://b.example/dir/*", "", "", &["b/dir/x"], "Purged: 1 page"),
        ("PURGE", "http://b.example/", "X-Purge-Method: host\r\n", "", &["b/foo", "b/dir/x"], "Purged: 2 pages"),
        ("BAN", "/", "X-Ban: obj.http.surrogate-key ~ bar\r\n", "", &["a/bar"], "Banned: obj.http.surrogate-key ~ bar"),
        ("BAN", "/", "Cache-Tags: bar|baz\r\n", "", &["a/bar"], "Purged: 1 page"),
        ("URIBAN", "http://a.example/bar", "", "", &["a/bar"], "Purged: 1 page"),
        ("PURGEKEYS", "/", "xkey-purge: bar\r\n", "", &["a/bar"], "Purged: 1 page"),
    ] {
        fill(&site);
        let response = ask(&site, method, target, fields, body);
        let answer = text(&response);
        assert_eq!(response.status, 200, "{method} {target} {fields} {body}: {answer}");
        assert!(answer.starts_with(told) || !told.is_empty() && answer.contains(told), "{target} {body}: {answer}");
        assert_eq!(gone(&site), expected, "{method} {target} {fields} {body}: {answer}");
    }
}

#[test]
fn soft_purges_make_pages_stale() {
    let origin = tagging_origin();
    let site = start(&origin, "");
    for (target, fields, body, state) in [
        ("/purge", "", r#"{"urls":["/foo"],"soft":true}"#, "EXPIRED"),
        ("/purge", "X-Purge-Soft: 1\r\n", r#"{"urls":["/foo"]}"#, "EXPIRED"),
        ("/purge", "", r#"{"urls":["/foo"]}"#, "MISS"),
        ("/service/1/purge/foo", "Fastly-Soft-Purge: 1\r\n", "", "EXPIRED"),
        ("/purge/a.example/foo", "Fastly-Soft-Purge: 1\r\n", "", "EXPIRED"),
        // Fastly has no soft purge of everything.
        ("/service/1/purge_all", "Fastly-Soft-Purge: 1\r\n", "", "MISS"),
        ("/client/v4/zones/1/purge_cache", "X-Purge-Soft: 1\r\n", r#"{"tags":["foo"]}"#, "EXPIRED"),
        ("/souin-api/souin", "", r#"{"type":"group","groups":["foo"]}"#, "EXPIRED"),
    ] {
        fill(&site);
        assert_eq!(ask(&site, "POST", target, fields, body).status, 200, "{target} {body}");
        assert_eq!(cached(&get(&site, "a.example", "/foo")), state, "{target} {fields} {body}");
    }
}

#[test]
fn what_is_wrong_is_told_in_the_words_of_the_api_and_purges_nothing() {
    let origin = tagging_origin();
    let site = start(&origin, "");
    fill(&site);
    let cloudflare = "/client/v4/zones/1/purge_cache";
    for (method, target, fields, body, status, told) in [
        ("POST", "/purge", "", "", 400, r#"{"error":"Nothing is purged: it does not say which pages"#),
        ("POST", "/purge", "", r#"{"all":true"#, 400, "EOF while parsing"),
        ("POST", "/purge", "", r#"{"all":true,"everything":1}"#, 400, "unknown field `everything`"),
        ("POST", "/purge", "", r#"{"all":"yes"}"#, 400, "expected a boolean"),
        ("POST", "/purge", "", r#"{"urls":["/foo"],"match":["("]}"#, 400, "Regex compile error"),
        ("POST", "/purge", "", r#"{"all":true,"zone":"none"}"#, 400, r#"there is no zone \"none\"; there are:"#),
        ("POST", "/purge", "", r#"{"urls":["/foo","ftp://a/"]}"#, 400, "neither http nor https"),
        ("POST", "/purge", "", r#"{"bans":["obj.age >"]}"#, 400, r#"{"error":"#),
        ("POST", cloudflare, "", "{}", 400, r#"{"errors":[{"code":1012,"message":"Nothing is purged: Request must"#),
        ("POST", cloudflare, "", r#"{"tags":["a"],"x":1}"#, 400, r#""success":false"#),
        (
            "POST",
            "/service/1/purge",
            "",
            "",
            400,
            r#"{"detail":"Nothing is purged: the body is no object of JSON","msg":"#,
        ),
        ("POST", "/souin-api/souin", "", r#"{"type":"uri"}"#, 400, "names none"),
        ("PURGE", "/souin-api/souin/GET-http-a.example-/foo", "", "", 400, "Nothing is purged: keys of Souin"),
        ("BAN", "/", "X-Ban: nonsense\r\n", "", 400, "Nothing is purged: "),
        ("GET", "/purge", "", "", 405, "the methods here are POST, PURGE"),
        ("GET", "/purge/a.example/foo", "", "", 405, "the methods here are POST, PURGE"),
        ("PUT", cloudflare, "", "", 405, "the methods here are POST, DELETE, PURGE"),
        ("GET", "/", "", "", 404, r#"{"error":"there is GET /api/, POST /purge, "#),
        ("POST", "/foo", "", "", 404, "/souin-api/souin"),
        ("TRACE", "/purge", "", "", 405, r#"{"error":"405"#),
        ("POST", "/purge", "Content-Length: 1048577\r\n", "", 413, r#"{"error":"413"#),
    ] {
        let response = ask(&site, method, target, fields, body);
        let answer = text(&response);
        assert_eq!(response.status, status, "{method} {target} {body}: {answer}");
        assert!(answer.contains(told), "{method} {target} {body}: {answer}");
        let is_plugin = matches!(method, "PURGE" | "BAN");
        let expected = if is_plugin { "text/plain" } else { "application/json" };
        assert_eq!(response.field("Content-Type"), Some(expected), "{method} {target} {body}");
        let allow = response.field("Allow").map(|methods| methods.starts_with("POST, "));
        assert_eq!(allow, (status == 405 && method != "TRACE").then_some(true), "{method} {target}");
    }
    assert_eq!(gone(&site), [""; 0]);
}

#[test]
fn bodies_are_read_whole_up_to_their_limit() {
    let origin = tagging_origin();
    let site = start(&origin, "client_body_buffer_size 1k;");
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    let chunked = |text: &str| {
        let (first, second) = text.split_at(text.len() / 2);
        let head = "POST /purge HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
        let mut client = Client::connect(site.setup().other_address()).unwrap();
        client.send(format!("{head}{}", chunk(first)).as_bytes()).unwrap();
        client.send(format!("{}0\r\n\r\n", chunk(second)).as_bytes()).unwrap();
        client.read_response("POST").unwrap()
    };
    // Most of it are blanks.
    let order = r#"{"urls":["/foo"]}"#;
    let large = |bytes: usize| order.to_owned() + &" ".repeat(bytes - order.len());
    for (length, status, expected) in
        [(20, 200, &["a/foo", "b/foo"][..]), (1 << 20, 200, &["a/foo", "b/foo"]), ((1 << 20) + 1, 413, &[])]
    {
        fill(&site);
        assert_eq!(ask(&site, "POST", "/purge", "", &large(length)).status, status, "{length}");
        assert_eq!(gone(&site), expected, "{length}");
        fill(&site);
        assert_eq!(chunked(&large(length)).status, status, "{length}");
        assert_eq!(gone(&site), expected, "{length}");
    }
    // The next request of a connection begins behind the body.
    let mut client = Client::connect(site.setup().other_address()).unwrap();
    for _ in 0..2 {
        let body = r#"{"all":true}"#;
        let head = format!(
            "POST /purge HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        client.send(head.as_bytes()).unwrap();
        assert_eq!(client.read_response("POST").unwrap().status, 100);
        client.send(body.as_bytes()).unwrap();
        assert_eq!(client.read_response("POST").unwrap().status, 200);
    }
}

#[test]
fn pages_in_browsers_purge_nothing() {
    let origin = tagging_origin();
    let site = start(&origin, "larder_purge_from 127.0.0.1 key=correct-horse-battery;");
    fill(&site);
    let own = format!("Origin: http://{}\r\n", site.setup().other_address());
    for fields in [
        "Origin: http://evil.example\r\n",
        "Origin: null\r\n",
        &own,
        "Sec-Fetch-Site: cross-site\r\n",
        "Sec-Fetch-Site: same-site\r\nX-Larder-Key: correct-horse-battery\r\n",
    ] {
        for (method, target, body) in
            [("POST", "/purge", r#"{"all":true}"#), ("PURGE", "/", ""), ("POST", "/service/1/purge_all", "")]
        {
            assert_eq!(ask(&site, method, target, fields, body).status, 403, "{method} {target} {fields}");
        }
        // Before the body came.
        let announced = format!("{fields}Content-Length: 1000\r\n");
        assert_eq!(ask(&site, "POST", "/purge", &announced, "").status, 403, "{fields}");
    }
    assert_eq!(gone(&site), [""; 0]);
    assert_eq!(ask(&site, "POST", "/purge", "Sec-Fetch-Site: none\r\n", r#"{"all":true}"#).status, 200);
}

#[test]
fn an_admin_server_lets_whom_it_names() {
    let origin = tagging_origin();
    let all = r#"{"purge_everything":true}"#;
    let cloudflare = "/client/v4/zones/1/purge_cache";
    // What is inherited is for plugins: it does not say who is an operator.
    let site = start(&origin, "");
    assert_eq!(ask(&site, "POST", cloudflare, "", all).status, 200);

    let site = start(&origin, "larder_purge_from 192.0.2.1 key=correct-horse-battery;");
    fill(&site);
    for fields in ["", "X-Auth-Key: wrong\r\n", "Authorization: Bearer wrong\r\n"] {
        let refused = ask(&site, "POST", cloudflare, fields, all);
        assert_eq!(refused.status, 403, "{fields}");
        assert!(text(&refused).starts_with(r#"{"errors":[{"code":10000,"#), "{}", text(&refused));
        assert_eq!(ask(&site, "PURGE", "/", fields, "").status, 403, "{fields}");
        assert_eq!(ask(&site, "GET", "/", fields, "").status, 403, "{fields}");
    }
    assert_eq!(gone(&site), [""; 0]);
    for fields in ["X-Auth-Key: correct-horse-battery\r\n", "Authorization: Bearer correct-horse-battery\r\n"] {
        assert_eq!(ask(&site, "POST", cloudflare, fields, all).status, 200, "{fields}");
    }

    let site = start(&origin, "deny all; larder_purge_from 127.0.0.1;");
    assert_eq!((ask(&site, "POST", cloudflare, "", all).status, ask(&site, "GET", "/", "", "").status), (403, 403));
}

#[test]
fn an_operator_comes_by_a_unix_socket_and_is_logged() {
    let origin = tagging_origin();
    let site = start(&origin, "");
    fill(&site);
    let mut socket = UnixStream::connect(site.setup().path("admin.sock")).unwrap();
    let body = r#"{"hosts":["b.example"]}"#;
    let head =
        format!("POST /purge HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    socket.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains(r#"{"purged":2,"#), "{answer}");
    assert_eq!(gone(&site), ["b/foo", "b/dir/x"]);
    site.wait_for_text("admin.log", "POST /purge 200\n");
    ask(&site, "GET", "/nowhere", "", "");
    site.wait_for_text("admin.log", "GET /nowhere 404\n");
}

#[test]
fn a_reload_changes_who_may_and_where() {
    let origin = tagging_origin();
    let site = start(&origin, "");
    let all = || ask(&site, "POST", "/purge", "", r#"{"all":true}"#).status;
    assert_eq!(all(), 200);
    site.change_to(&SITES.replace("MORE", "larder_purge_from 192.0.2.1;"));
    assert_eq!(all(), 403);
    site.change_to(&SITES.replace("MORE", "").replace("listen 127.0.0.1:{PORT2} larder_admin;", ""));
    eventually("the port to be closed", || Client::connect(site.setup().other_address()).is_err());
    site.change_to(&SITES.replace("MORE", ""));
    assert_eq!(all(), 200);
    // What cannot be is refused as a whole.
    let setup = site.setup();
    setup.configure(&SITES.replace("MORE", "location / { return 204; }"));
    let checked = setup.larder(&["-t"]);
    assert!(!checked.status.success());
    assert!(String::from_utf8_lossy(&checked.stderr).contains("\"location\" has no use in a server of the admin API"));
}

#[test]
fn tags_need_a_field_that_has_them() {
    let origin = tagging_origin();
    let site = Setup::new()
        .name("ORIGIN", origin.address())
        .start(&SITES.replace("MORE", "").replace("larder_purge_from 192.0.2.1;", ""));
    for (method, target, fields, body) in [
        ("POST", "/purge", "", r#"{"tags":["foo"]}"#),
        ("POST", "/purge", "Surrogate-Key: foo\r\n", ""),
        ("POST", "/service/1/purge/foo", "", ""),
        ("PURGE", "/", "xkey: foo\r\n", ""),
    ] {
        let refused = ask(&site, method, target, fields, body);
        assert_eq!(refused.status, 400, "{method} {target}");
        assert!(text(&refused).contains("larder_cache_tags says which fields have them"), "{}", text(&refused));
    }
}
