//! `larder log`: the requests of a running server, a line for each.

use larder_testkit::{Answer, Origin, text_of};
use serde_json::Value;

use crate::site::{Setup, Site, cached, eventually};

const SITE: &str = "
    proxy_cache_path {DIR}/pages keys_zone=pages:1m larder_disk=off;
    server {
        listen 127.0.0.1:{PORT};
        add_header X-Cache $upstream_cache_status;
        location / {
            proxy_pass http://{ORIGIN};
            proxy_cache pages;
            proxy_cache_valid 200 1h;
            proxy_cache_bypass $cookie_session;
            proxy_no_cache $cookie_session;
        }
        location /gone/ { proxy_pass http://{GONE}; }
        location = /made { return 204; }
        location = /closed { return 444; }
        location /spaced/ { proxy_pass http://{ORIGIN}; proxy_cache pages; proxy_cache_valid 200 1h; proxy_cache_key $host$uri; }
    }";

fn site() -> (Site, Origin) {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page"));
    let gone = format!("127.0.0.1:{}", larder_testkit::free_port());
    let setup = Setup::new().main("daemon off; worker_processes 1; larder_transaction_log on keep=1m;");
    (setup.name("ORIGIN", origin.address()).name("GONE", gone).start(SITE), origin)
}

fn shown(site: &Site, options: &[&str]) -> String {
    let output = site.setup().larder_words(&[&["log"], options].concat());
    assert!(output.status.success(), "{}", text_of(&output.stderr));
    text_of(&output.stdout)
}

/// The URLs that are shown, in their order.
fn urls(site: &Site, options: &[&str]) -> Vec<String> {
    let lines = shown(site, &[&["-d", "--json"], options].concat());
    let url = |line: &str| serde_json::from_str::<Value>(line).unwrap()["url"].as_str().unwrap().to_owned();
    lines.lines().map(url).collect()
}

#[test]
fn requests_are_lines_and_options_choose_among_them() {
    let (site, origin) = site();
    site.get_until("/a", "the page to be stored", |response| cached(response) == "HIT");
    for (method, url, fields) in [
        ("GET", "/bypassed?x=1", "Cookie: session=1\r\nUser-Agent: robot\r\n"),
        ("POST", "/posted", "Content-Length: 0\r\n"),
        ("GET", "/gone/a", ""),
        ("GET", "/made", ""),
    ] {
        site.ask(method, url, fields);
    }
    eventually("all to be told", || urls(&site, &["--url", "/made"]) == ["/made"]);
    for (options, expected) in [
        (&["--cache", "hit", "-k", "1"][..], &["/a"][..]),
        (&["--cache", "bypass"], &["/bypassed?x=1"]),
        (&["--cache", "pass"], &["/posted"]),
        (&["--cache", "none"], &["/gone/a", "/made"]),
        (&["--method", "POST", "--method", "PUT"], &["/posted"]),
        (&["--status", "2xx", "--match", "^/(made|gone)"], &["/made"]),
        (&["--status", "502"], &["/gone/a"]),
        (&["--failed"], &["/gone/a"]),
        (&["--host", "SITE.test", "--url", "/b"], &["/bypassed?x=1"]),
        (&["--host", "other.test"], &[]),
        (&["--from", "127.0.0.0/8", "--cache", "bypass"], &["/bypassed?x=1"]),
        (&["--from", "127.0.0.2"], &[]),
        (&["--slow", "3600s"], &[]),
        (&["-q", "ReqHeader:User-Agent eq robot"], &["/bypassed?x=1"]),
    ] {
        assert_eq!(urls(&site, options), expected, "{options:?}");
    }
    let object: Value = serde_json::from_str(&shown(&site, &["-d", "--json", "--cache", "bypass"])).unwrap();
    for (name, expected) in [
        ("client", "127.0.0.1"),
        ("method", "GET"),
        ("host", "site.test"),
        ("cache", "BYPASS"),
        ("origin", &origin.address().to_string()),
    ] {
        assert_eq!(object[name], expected, "{object}");
    }
    assert_eq!(object["status"], 200);
    assert!(object["seconds"].as_f64() > Some(0.0) && object["origin_seconds"].as_f64() > Some(0.0), "{object}");
    let failed = shown(&site, &["-d", "--failed"]);
    assert!(failed.contains(" 502 -           ") && failed.contains("GET site.test/gone/a"), "{failed}");
    assert!(failed.contains("  error: connect() failed (111: Connection refused)"), "{failed}");
}

/// Sends a head, and returns what the server answers.
fn sent(site: &Site, head: &str) -> String {
    let mut client = site.client();
    client.send(head.as_bytes()).unwrap();
    text_of(&client.read_to_end().unwrap())
}

#[test]
fn requests_without_a_response_or_without_a_head_are_told_as_in_the_other_logs() {
    let (site, _origin) = site();
    let long = "x".repeat(40_000);
    for (head, status) in [
        ("GET /closed HTTP/1.1\r\nHost: site.test\r\n\r\n", ""),
        ("GET /newer HTTP/9.9\r\nHost: site.test\r\n\r\n", "505"),
        ("GET /field HTTP/1.1\r\nHost: site.test\r\nno field\r\n\r\n", "400"),
        (&*format!("GET /long?{long} HTTP/1.1\r\nHost: site.test\r\n\r\n"), "414"),
    ] {
        let answer = sent(&site, head);
        assert_eq!(answer.split(' ').nth(1).unwrap_or_default(), status, "{answer}");
    }
    let all = || -> Vec<Value> {
        shown(&site, &["-d", "--json"]).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    eventually("all to be told", || all().len() == 4);
    for (request, (url, status, host, error)) in all().iter().zip([
        ("/closed", 444, "site.test", ""),
        ("/newer", 505, "", "client sent invalid version while reading client request line"),
        ("/field", 400, "site.test", "client sent invalid header line"),
        ("/long", 414, "", "client sent too long URI while reading client request line"),
    ]) {
        assert!(request["url"].as_str().is_some_and(|told| told.starts_with(url)), "{url}: {request}");
        assert_eq!((&request["status"], &request["method"]), (&status.into(), &"GET".into()), "{request}");
        assert_eq!(request["host"].as_str().unwrap_or_default(), host, "{request}");
        assert!(request["errors"].to_string().contains(error), "{request}");
    }
}

#[test]
fn no_visitor_writes_the_reason_of_a_hit() {
    let (site, _origin) = site();
    let url = "/spaced/a%20-%20purged%20by%20root";
    site.get_until(url, "a hit", |response| cached(response) == "HIT");
    let hit = || shown(&site, &["-d", "--json", "--cache", "hit", "-k", "1"]);
    eventually("it to be told", || !hit().is_empty());
    let hit: Value = serde_json::from_str(&hit()).unwrap();
    assert_eq!((&hit["reason"], &hit["cache"]), (&Value::Null, &"HIT".into()));
}

#[test]
fn without_a_log_it_says_why() {
    let setup = Setup::new();
    for (conf, options, expected) in [
        ("larder_transaction_log off;", &[][..], "larder log: the configuration has \"larder_transaction_log off\""),
        ("pid off", &[], "larder: [emerg] "),
        ("pid none.pid;", &["--match", "("], "larder log: --match: "),
        ("pid none.pid;", &["--hosts"], "larder: \"larder log -h\" shows what can be asked for\n"),
    ] {
        setup.write_raw(&format!("{conf}\nevents {{}}"));
        let output = setup.larder_words(&[&["log"], options].concat());
        assert!(!output.status.success());
        let told = text_of(&output.stderr);
        assert!(told.contains(expected), "{options:?}: {told}");
    }
}
