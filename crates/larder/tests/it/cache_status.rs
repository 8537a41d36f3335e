//! `Cache-Status` of a response, by RFC 9211.

use larder_testkit::{Answer, Origin, Response};

use crate::site::{Setup, Site, cached, eventually};

/// The parameters of our member of the field, read as RFC 9651 §4.2 has it: names with values, `""` for true.
fn parameters(response: &Response) -> Vec<(String, String)> {
    let value = response.field("Cache-Status").expect("it has the field");
    read(value).unwrap_or_else(|| panic!("{value:?} is no structured field"))
}

fn read(value: &str) -> Option<Vec<(String, String)>> {
    let mut rest = value.strip_prefix("larder")?;
    let mut all = Vec::new();
    while !rest.is_empty() {
        rest = rest.strip_prefix(';')?.trim_start_matches(' ');
        let end =
            rest.find(|c: char| !matches!(c, 'a'..='z' | '0'..='9' | '_' | '-' | '.' | '*')).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let (item, after) = match after.strip_prefix('=') {
            None => (String::new(), after),
            Some(after) if after.starts_with('"') => string(&after[1..])?,
            Some(after) => {
                let end = after.find(';').unwrap_or(after.len());
                let (bare, after) = after.split_at(end);
                let is_number =
                    bare.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit()) && bare.len() <= 16;
                let is_token = bare.starts_with(|c: char| c.is_ascii_alphabetic())
                    && bare.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
                (is_number || is_token || bare == "?0").then(|| (bare.to_owned(), after))?
            }
        };
        (!name.is_empty()).then_some(())?;
        all.push((name.to_owned(), item));
        rest = after;
    }
    Some(all)
}

/// What is left of a string of RFC 9651 §3.3.3 behind its first quote.
fn string(text: &str) -> Option<(String, &str)> {
    let mut out = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some((out, &text[at + 1..])),
            '\\' => out.push(chars.next().map(|(_, char)| char).filter(|char| matches!(char, '"' | '\\'))?),
            ' '..='~' => out.push(char),
            _ => return None,
        }
    }
    None
}

fn of(response: &Response, name: &str) -> Option<String> {
    parameters(response).into_iter().find(|(own, _)| own == name).map(|(_, value)| value)
}

fn ttl(response: &Response) -> i64 {
    of(response, "ttl").and_then(|ttl| ttl.parse().ok()).expect("it says a ttl")
}

/// `hit`, or the reason why it was forwarded.
fn way(response: &Response) -> String {
    match (of(response, "hit"), of(response, "fwd")) {
        (Some(_), None) => "hit".to_owned(),
        (None, Some(why)) => why,
        other => panic!("{other:?} of {:?}", response.field("Cache-Status")),
    }
}

fn explained(response: &Response) -> &str {
    response.field("X-Larder-Explain").expect("it is explained")
}

fn site(origin: &Origin, mode: &str) -> Site {
    let http = format!(
        "proxy_cache_path {{DIR}}/pages keys_zone=p:1m; proxy_cache_key $arg_key$uri; larder_cache_status on; {mode}
         larder_explain_from 127.0.0.1;
         add_header X-Cache $upstream_cache_status; proxy_cache p; proxy_cache_revalidate on;
         server {{ listen 127.0.0.1:{{PORT}}; proxy_cache_bypass $arg_fresh;
            location / {{ proxy_pass http://{{ORIGIN}}; proxy_cache_use_stale http_503; }}
            location /off {{ proxy_cache off; proxy_pass http://{{ORIGIN}}; }} }}"
    );
    Setup::new().one_worker().name("ORIGIN", origin.address()).start(&http)
}

const MODES: [&str; 2] = ["", "larder_cache_mode rfc9111;"];

#[test]
fn it_says_why_an_origin_was_asked_and_what_became_of_the_answer() {
    for mode in MODES {
        let origin = Origin::start().unwrap();
        origin.answer("*", Answer::ok("page").field("Cache-Control", "max-age=100").field("Vary", "X-Lang"));
        origin.answer("/cookie", Answer::ok("page").field("Set-Cookie", "a=b"));
        let site = site(&origin, mode);
        let first = site.get("/page");
        assert_eq!((way(&first), of(&first, "fwd-status").as_deref()), ("uri-miss".into(), Some("200")), "{mode}");
        assert_eq!((of(&first, "stored").as_deref(), ttl(&first) > 90), (Some(""), true));
        let hit = site.get_until("/page", "a hit", |response| cached(response) == "HIT");
        assert_eq!((way(&hit), of(&hit, "fwd-status"), of(&hit, "stored")), ("hit".into(), None, None));
        assert!((1..=100).contains(&ttl(&hit)));
        assert_eq!(of(&hit, "key").as_deref(), Some("/page"));
        assert_eq!(of(&hit, "detail").as_deref(), Some("HIT"));
        let other = site.ask("GET", "/page", "X-Lang: de\r\n");
        assert_eq!((way(&other), of(&other, "stored").as_deref()), ("vary-miss".into(), Some("")), "{mode}");
        let bypass = site.get("/page?fresh=1");
        assert_eq!((way(&bypass), of(&bypass, "stored").as_deref()), ("bypass".into(), Some("")));
        let head = site.ask("HEAD", "/head", "");
        assert_eq!((way(&head), of(&head, "stored").as_deref()), ("uri-miss".into(), Some("")), "{mode}");
        assert_eq!(explained(&head), "a miss: not stored yet; the answer is stored");
        let cookie = site.get("/cookie");
        assert_eq!((way(&cookie), of(&cookie, "stored"), of(&cookie, "ttl")), ("uri-miss".into(), None, None));
        assert_eq!(of(&cookie, "detail").as_deref(), Some("MISS: Set-Cookie"));
        let post = site.ask("POST", "/page", "Content-Length: 0\r\n");
        assert_eq!((way(&post), of(&post, "fwd-status").as_deref()), ("method".into(), Some("200")), "{mode}");
        assert_eq!(site.get("/off").field("Cache-Status"), None);
    }
}

#[test]
fn stale_pages_say_whether_their_origin_was_asked() {
    for mode in MODES {
        let origin = Origin::start().unwrap();
        origin.answer("*", Answer::ok("page").field("Cache-Control", "max-age=1").field("ETag", "\"1\""));
        origin.answer_then(
            "*",
            Answer::status("304 Not Modified").field("ETag", "\"1\"").field("Cache-Control", "max-age=1"),
        );
        origin.answer_then("*", Answer::status("503 Service Unavailable").body("down"));
        let site = site(&origin, mode);
        site.get("/page");
        let confirmed = site.get_until("/page", "it is confirmed", |response| cached(response) == "REVALIDATED");
        assert_eq!((way(&confirmed), of(&confirmed, "fwd-status").as_deref()), ("stale".into(), Some("304")), "{mode}");
        assert_eq!((of(&confirmed, "stored").as_deref(), ttl(&confirmed) <= 1), (Some(""), true));
        let failed = site.get_until("/page", "its origin fails", |response| cached(response) == "STALE");
        assert_eq!((way(&failed), of(&failed, "fwd-status").as_deref()), ("stale".into(), Some("503")), "{mode}");
        assert!(ttl(&failed) <= 0, "{failed:?}");
        assert_eq!(explained(&failed), "a stale page, as the origin answered with 503");
    }
}

#[test]
fn a_request_that_asks_for_more_is_told_so() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page").field("Cache-Control", "max-age=100"));
    let site = site(&origin, MODES[1]);
    site.get_until("/page", "a hit", |response| cached(response) == "HIT");
    let reload = site.ask("GET", "/page", "Cache-Control: no-cache\r\n");
    assert_eq!((way(&reload), of(&reload, "stored").as_deref()), ("request".into(), Some("")));
    let guarded = site.ask("GET", "/page", "If-Match: \"1\"\r\n");
    assert_eq!((way(&guarded), of(&guarded, "stored")), ("bypass".into(), None));
    let absent = site.ask("GET", "/absent", "Cache-Control: only-if-cached\r\n");
    assert_eq!((absent.status, of(&absent, "hit"), of(&absent, "fwd")), (504, None, None));
    assert_eq!(of(&absent, "detail").as_deref(), Some("only-if-cached of the request"));
}

/// RFC 9111 §3.3: by nginx's rules none is kept.
#[test]
fn a_part_that_is_kept_is_stored() {
    let origin = Origin::start().unwrap();
    let part = Answer::status("206 Partial Content").field("Content-Range", "bytes 2-3/10");
    origin.answer("*", part.field("Cache-Control", "max-age=100").body("23"));
    for (mode, stored, expected) in [
        (MODES[0], None, "not cached: the range begins too far in"),
        (MODES[1], Some(""), "a miss: the range begins too far in; the part is stored"),
    ] {
        let site = site(&origin, &format!("{mode} proxy_cache_max_range_offset 0;"));
        let response = site.ask("GET", "/film", "Range: bytes=2-3\r\n");
        assert_eq!(
            (response.status, way(&response), of(&response, "stored").as_deref()),
            (206, "uri-miss".into(), stored)
        );
        assert_eq!(explained(&response), expected);
    }
}

#[test]
fn those_who_wait_for_a_fetch_are_collapsed() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page").field("Cache-Control", "max-age=100"));
    origin.answer("/mine", Answer::ok("mine").field("Cache-Control", "private"));
    let site = site(&origin, "proxy_cache_lock on;");
    for (path, expected) in [("/page", Some("")), ("/mine", Some("?0"))] {
        let hold = origin.hold(path);
        let before = origin.count();
        let send = || {
            let mut client = site.client();
            client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").as_bytes()).unwrap();
            client
        };
        let mut first = send();
        assert!(origin.wait_for(before + 1));
        let mut second = send();
        eventually("the second waits", || {
            let told = site.setup().larder_words(&["explain", &format!("http://a{path}")]);
            String::from_utf8_lossy(&told.stdout).starts_with("a miss: ")
        });
        // One that is not sent yet would find the page.
        std::thread::yield_now();
        hold.release();
        assert_eq!(way(&first.read_response("GET").unwrap()), "uri-miss");
        let response = second.read_response("GET").unwrap();
        if way(&response) != "hit" {
            assert_eq!(of(&response, "collapsed").as_deref(), expected, "{:?}", response.field("Cache-Status"));
        }
    }
}

#[test]
fn hostile_keys_leave_it_well_formed() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page").field("Cache-Control", "max-age=100"));
    for mode in MODES {
        let site = site(&origin, mode);
        for (target, key) in [
            ("/a?key=b\"c\\d;e=1,f", Some("b\"c\\d;e=1,f/a")),
            ("/%22%5c;%20a", Some("/\"\\; a")),
            ("/%c3%a4", None),
            ("/%7f", None),
            ("/%01%0d%0aX-Evil:%20a", None),
            ("/a?key=\u{e4}", None),
        ] {
            for _ in 0..2 {
                let response = site.get(target);
                assert_eq!((response.status, response.field("X-Evil")), (200, None), "{target}");
                assert_eq!(of(&response, "key").as_deref(), key, "{target}: {:?}", response.field("Cache-Status"));
            }
        }
        let long = site.get(&format!("/a?key={}", "x".repeat(3000)));
        assert_eq!((way(&long), of(&long, "key")), ("uri-miss".into(), None));
    }
}

#[test]
fn a_vcl_has_it_too() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page").field("Cache-Control", "max-age=100"));
    origin.answer("/cookie", Answer::ok("page").field("Set-Cookie", "a=b"));
    let vcl = "vcl 4.1; sub vcl_recv { if (req.url ~ \"^/pass\") { return (pass); }
         if (req.url ~ \"^/own\") { return (synth(200)); } }";
    let site = Setup::new().one_worker().file("site.vcl", vcl).name("ORIGIN", origin.address()).start(
        "proxy_cache_path {DIR}/pages keys_zone=p:1m; larder_cache_status on;
         server { listen 127.0.0.1:{PORT};
            location / { vcl {DIR}/site.vcl; proxy_pass http://{ORIGIN}; proxy_cache p; } }",
    );
    assert_eq!(way(&site.get("/page")), "uri-miss");
    let mut hit = site.get("/page");
    eventually("a hit", || {
        hit = site.get("/page");
        way(&hit) == "hit"
    });
    assert_eq!((of(&hit, "key"), of(&hit, "detail").as_deref()), (None, Some("HIT")));
    let pass = site.get("/pass");
    assert_eq!((way(&pass), of(&pass, "fwd-status").as_deref()), ("bypass".into(), Some("200")));
    let cookie = site.get("/cookie");
    assert_eq!((way(&cookie), of(&cookie, "stored")), ("uri-miss".into(), None));
    assert_eq!(site.get("/own").field("Cache-Status"), None);
}
