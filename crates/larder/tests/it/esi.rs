//! ESI: pages whose VCL says `beresp.do_esi`, put together as they are delivered.

use larder_testkit::{Answer, HandOrigin, Http2Client, Origin, gzipped, unpacked, unpacked_whole};

use crate::site::{Setup, Site, eventually, text};

const SITE: &str = "
    proxy_cache_path {DIR}/pages keys_zone=pages:1m;
    server {
        listen 127.0.0.1:{PORT};
        http2 on;
        location / {
            vcl {DIR}/esi.vcl;
            {MORE}
            proxy_pass http://{ORIGIN};
            proxy_cache pages;
        }
    }";

const VCL: &str = "vcl 4.1;
    sub vcl_recv {
        set req.http.X-Seen = req.esi_level + \" \" + req_top.method + \" \" + req_top.url + \" \" + req_top.http.X-Mine;
        set req.http.X-Mine = \"changed\";
        set req.http.X-Host = req.http.Host;
        if (req.url == \"/synth\") { return (synth(299, \"Made\")); }
        if (req.url == \"/fail\") { return (fail); }
        if (req.url == \"/pipe\") { return (pipe); }
        if (req.url ~ \"/pass\") { return (pass); }
    }
    sub vcl_synth {
        if (resp.status == 299) { set resp.body = \"made\"; return (deliver); }
    }
    sub vcl_backend_response {
        set beresp.do_esi = true;
        if (bereq.url == \"/packed\") { set beresp.do_gzip = true; }
        if (bereq.url == \"/unpacked\") { set beresp.do_gunzip = true; }
        if (bereq.http.X-Fetch) { set beresp.filters = bereq.http.X-Fetch; }
        if (bereq.http.X-Open) { set beresp.do_gzip = true; }
        set beresp.http.X-Before = beresp.filters;
    }
    sub vcl_deliver {
        set resp.http.X-Can = obj.can_esi;
        if (req.http.X-Raw) { set resp.do_esi = false; }
        if (req.http.X-Filters) { set resp.filters = req.http.X-Filters; }
        if (req.http.X-Both) { set resp.do_esi = true; }
        set resp.http.X-Filters = resp.filters;
    }
    sub vcl_backend_error { set beresp.body = \"error \" + beresp.status; return (deliver); }";

fn site(origin: &Origin, more: &str) -> Site {
    Setup::new().one_worker().file("esi.vcl", VCL).name("MORE", more).name("ORIGIN", origin.address()).start(SITE)
}

/// An origin with these pages, each fresh for an hour.
fn origin(pages: &[(&str, &str)]) -> Origin {
    let origin = Origin::start().unwrap();
    for (path, page) in pages {
        origin.answer(*path, Answer::ok(*page).field("Cache-Control", "max-age=3600").field("ETag", "\"tag\""));
    }
    origin
}

#[test]
fn a_page_goes_out_with_what_it_includes() {
    let origin = origin(&[
        ("/x/page?q", "<html>1<esi:include src=\"part?a=1&amp;b=2\"/>2<esi:remove>not</esi:remove><!--esi 3-->"),
        ("/x/part?a=1&b=2", "<esi:include src='/inner' />!"),
        ("/inner", "inner"),
    ]);
    let site = site(&origin, "");
    let fields = "X-Mine: own\r\nIf-Modified-Since: Mon, 01 Jan 2024 00:00:00 GMT\r\nRange: bytes=0-1\r\n";
    for is_hit in [false, true] {
        let response = site.ask("GET", "/x/page?q", fields);
        assert_eq!((response.status, &text(&response)[..]), (200, "<html>1inner!2 3"));
        assert_eq!(response.field("Content-Length"), None);
        assert_eq!(response.field("Accept-Ranges"), None);
        assert_eq!(response.field("ETag"), Some("W/\"tag\""));
        assert_eq!(response.field("X-Can"), Some("true"));
        assert_eq!(origin.count(), 3, "hit: {is_hit}");
    }
    let seen = origin.requests();
    let asked: Vec<_> = seen.iter().map(|seen| (&seen.request_line[..], seen.field("X-Seen").unwrap())).collect();
    assert_eq!(
        asked,
        [
            ("GET /x/page?q HTTP/1.1", "0 GET /x/page?q own"),
            ("GET /x/part?a=1&b=2 HTTP/1.1", "1 GET /x/page?q changed"),
            ("GET /inner HTTP/1.1", "2 GET /x/page?q changed"),
        ]
    );
    for part in &seen[1..] {
        assert_eq!(part.field("X-Mine"), Some("changed"), "each begins with what the client sent");
        assert_eq!(part.field("X-Forwarded-For"), Some("127.0.0.1"), "who asks is said once");
        assert_eq!((part.field("Range"), part.field("If-Modified-Since")), (None, None));
    }
    let inner = site.get("/inner");
    assert_eq!((&text(&inner)[..], inner.field("Content-Length"), origin.count()), ("inner", Some("5"), 3));
    assert_eq!((inner.field("ETag"), inner.field("X-Can")), (Some("\"tag\""), Some("false")));
}

#[test]
fn a_page_goes_out_as_it_is_where_the_vcl_says_so() {
    let page = "<a><esi:include src='/b'/>";
    let origin = origin(&[("/a", page), ("/pass", page), ("/b", "b")]);
    let site = site(&origin, "");
    assert_eq!(text(&site.ask("GET", "/a", "X-Raw: 1\r\n")), page);
    assert_eq!(text(&site.get("/a")), "<a>b");
    assert_eq!(text(&site.ask("GET", "/a", "X-Raw: 1\r\n")), page);
    assert_eq!(text(&site.get("/pass")), "<a>b", "a page that is not stored is put together too");
    let head = site.ask("HEAD", "/a", "");
    assert_eq!((head.status, head.body.len()), (200, 0));
    let known = site.ask("GET", "/a", "If-None-Match: \"tag\"\r\n");
    assert_eq!((known.status, known.body.len()), (304, 0));
    let posted = site.ask("POST", "/pass", "Content-Length: 0\r\n");
    assert_eq!(text(&posted), "<a>b");
    assert_eq!(origin.requests().last().unwrap().request_line, "POST /pass HTTP/1.1");
}

#[test]
fn includes_that_are_no_pages_have_their_place() {
    let page = "<a>1<esi:include src='/synth'/>2<esi:include src='/gone'/>3<esi:include src='/fail'/>4\
                <esi:include src='/pipe'/>5<esi:include src='/empty'/>6<esi:include src='//'/>7";
    let origin = origin(&[("/a", page), ("/pipe", "piped"), ("/empty", ""), ("//", "root")]);
    origin.answer("/gone", Answer::status("404 Not Found").body("gone"));
    let site = site(&origin, "");
    let whole = text(&site.get("/a"));
    let (before, after) = whole.split_once("3").unwrap();
    assert_eq!(before, "<a>1made2gone");
    assert!(after.contains("VCL failed") && after.ends_with("4piped56root7"), "{after}");
}

#[test]
fn includes_that_lie_in_each_other_end() {
    let origin = origin(&[
        ("/once", "<a><esi:include src='/once'/>b"),
        ("/often", &format!("<{}>", "<esi:include src='/often'/>".repeat(10)).replace("<<", "<a><")),
    ]);
    let one = site(&origin, "");
    assert_eq!(text(&one.get("/once")), format!("{}{}", "<a>".repeat(6), "b".repeat(6)));
    let two = site(&origin, "vcl_parameter max_esi_depth 2;");
    assert_eq!(text(&two.get("/once")), "<a><a><a>bbb");
    one.wait_for_log("more than 5 deep (max_esi_depth)");
    let often = text(&one.get("/often"));
    assert_eq!(often.matches("<a>").count(), 10_001, "there is a limit for the whole request");
    one.wait_for_log("more than 10000 includes in one request");
    assert_eq!(one.count_in_log("ESI: "), 3, "each is said once a request");
}

#[test]
fn an_error_ends_its_page_where_that_is_asked_for() {
    let origin = origin(&[
        ("/end", "<a>1<esi:include src='/gone'/>2"),
        ("/on", "<a>1<esi:include src='/gone' onerror='continue'/>2<esi:include src='/part'/>3"),
        ("/part", "part"),
    ]);
    origin.answer("/gone", Answer::status("404 Not Found").body("gone"));
    let strict = site(&origin, "vcl_parameter feature +esi_include_onerror;");
    assert_eq!(text(&strict.get("/on")), "<a>12part3");
    let mut client = strict.client();
    client.send(b"GET /end HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let all = client.read_to_end().unwrap();
    assert!(all.ends_with(b"\r\n\r\n4\r\n<a>1\r\n"), "{}", all.escape_ascii());
    let lenient = site(&origin, "");
    assert_eq!(text(&lenient.get("/end")), "<a>1gone2");
}

#[test]
fn a_page_in_gzip_is_put_together_in_gzip_for_who_takes_it() {
    let origin = Origin::start().unwrap();
    let packed = |text: &str| {
        Answer::ok(gzipped(text.as_bytes())).field("Content-Encoding", "gzip").field("Cache-Control", "max-age=60")
    };
    origin.answer("/a", packed("<a>1<esi:include src='/plain'/>2<esi:include src='/packed'/>3"));
    origin.answer("/packed", packed("packed"));
    origin.answer("/plain", Answer::ok("plain").field("Cache-Control", "max-age=60"));
    let site = site(&origin, "");
    for _ in 0..2 {
        let plain = site.get("/a");
        assert_eq!((&text(&plain)[..], plain.field("Content-Encoding")), ("<a>1plain2packed3", None));
        let gzip = site.ask("GET", "/a", "Accept-Encoding: gzip\r\n");
        assert_eq!((gzip.field("Content-Encoding"), gzip.field("Vary")), (Some("gzip"), Some("Accept-Encoding")));
        assert_eq!(unpacked("gzip", &gzip.body), b"<a>1plain2packed3");
    }
    assert_eq!(origin.count(), 3);
}

#[test]
fn what_is_there_goes_out_and_nothing_is_asked_for_nobody() {
    let mut origin = HandOrigin::start().unwrap();
    let site = Setup::new().one_worker().file("esi.vcl", VCL).name("MORE", "").name("ORIGIN", origin.address());
    let site = site.start(SITE);
    let mut client = site.client();
    client.send(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut fetch = origin.accept().unwrap();
    fetch.request().unwrap();
    let page = "<a>1<esi:include src='/pass/1'/>2";
    fetch.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{page}", page.len())).unwrap();
    client.read_head().unwrap();
    assert_eq!(client.read_bytes(9).unwrap(), b"4\r\n<a>1\r\n"[..], "what is before the first goes out");
    let mut part = origin.accept().unwrap();
    assert!(part.request().unwrap().unwrap().request_line.starts_with("GET /pass/1 "));
    drop(client);
    assert!(part.request().unwrap().is_none(), "its connection is closed");
}

#[test]
fn includes_are_asked_for_at_the_same_time_when_one_is_slow() {
    let page = "<a>0<esi:include src='/pass/1'/>1<esi:include src='/pass/2'/>2<esi:include src='/pass/3'/>3";
    let origin = origin(&[("/a", page), ("/pass/1", "one"), ("/pass/2", "two"), ("/pass/3", "three")]);
    let mut held: Vec<_> = ["/pass/1", "/pass/2", "/pass/3"].map(|path| origin.hold(path)).into();
    let site = site(&origin, "");
    let mut client = site.client();
    client.send(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert!(origin.wait_for(4), "{:?}", origin.requests());
    while let Some(last) = held.pop() {
        last.release();
    }
    assert_eq!(text(&client.read_response("GET").unwrap()), "<a>0one1two2three3");
}

/// What chunks hold.
fn joined(mut chunks: &[u8]) -> String {
    let mut text = Vec::new();
    while let Some(end) = chunks.windows(2).position(|two| two == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&chunks[..end]).unwrap(), 16).unwrap();
        text.extend_from_slice(&chunks[end + 2..end + 2 + size]);
        chunks = &chunks[end + 2 + size + 2..];
    }
    String::from_utf8(text).unwrap()
}

#[test]
fn without_support_for_gzip_what_is_included_stays_as_it_is() {
    let origin = Origin::start().unwrap();
    for (path, page) in [("/a", "<esi:include src='/b'/>"), ("/b", "b")] {
        let answer = Answer::ok(gzipped(page.as_bytes())).field("Content-Encoding", "gzip");
        origin.answer(path, answer.field("Cache-Control", "max-age=60"));
    }
    let site = site(&origin, "vcl_parameter http_gzip_support off;");
    for turn in 1..=3 {
        assert_eq!(unpacked("gzip", &site.get("/a").body), b"b", "{turn}");
    }
}

#[test]
fn what_is_in_memory_goes_out_at_once_and_the_rest_when_it_is_there() {
    let page = "<a>0<esi:include src='/part'/>1<esi:include src='/pass'/>2<esi:include src='/part'/>3";
    let origin = origin(&[("/a", page), ("/packed", page), ("/part", "<b>part"), ("/pass", "passed")]);
    let site = site(&origin, "");
    let whole = "<a>0<b>part1passed2<b>part3";
    for path in ["/a", "/packed"] {
        assert_eq!(text(&site.get(path)), whole);
        let before = origin.count();
        let held = origin.hold("/pass");
        let mut client = site.client();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n").as_bytes()).unwrap();
        client.read_head().unwrap();
        let begins = b"c\r\n<a>0<b>part1\r\n";
        assert_eq!(client.read_bytes(begins.len()).unwrap(), begins[..], "{path}");
        held.release();
        assert_eq!(joined(&client.read_to_end().unwrap()), "passed2<b>part3", "{path}");
        assert_eq!(origin.count(), before + 1, "the rest is in the cache: {path}");
        let gzip = site.ask("GET", path, "Accept-Encoding: gzip\r\n");
        assert_eq!(gzip.field("Content-Encoding"), (path == "/packed").then_some("gzip"));
        let unpacked = if path == "/packed" { unpacked("gzip", &gzip.body) } else { gzip.body };
        assert_eq!(String::from_utf8_lossy(&unpacked), whole);
    }
}

#[test]
fn a_whole_in_gzip_is_one_stream_whatever_its_parts_are_stored_as() {
    let long = format!("<p>{}</p>", "a word and another ".repeat(5_000));
    let huge = format!("<q>{}</q>", "more words than go at once ".repeat(80_000));
    let many = "<esi:include src='/part'/>".repeat(70);
    let much = "<esi:include src='/long'/>".repeat(15);
    let page = format!(
        "<a>{long}<esi:include src='/long'/><esi:remove>not</esi:remove><esi:include src='/nested'/>\
         <esi:include src='/empty'/><esi:include src='/gone'/><esi:include src='/synth'/>{many}{much}<esi:include src='/huge'/>\
         <!--esi end-->"
    );
    let origin = origin(&[("/packed", &page), ("/plain", &page), ("/long", &long), ("/empty", ""), ("/part", "p")]);
    origin.answer("/huge", Answer::ok(&*huge).field("Cache-Control", "max-age=60"));
    origin.answer("/gone", Answer::status("404 Not Found").body("gone").field("Cache-Control", "max-age=60"));
    let nested = Answer::ok(gzipped(b"<n><esi:include src='/part'/></n>"));
    origin.answer("/nested", nested.field("Content-Encoding", "gzip").field("Cache-Control", "max-age=60"));
    let site = site(&origin, "");
    let whole = format!("<a>{long}{long}<n>p</n>gonemade{}{}{huge} end", "p".repeat(70), long.repeat(15));
    for (path, fields, coding) in [
        ("/packed", "Accept-Encoding: gzip\r\n", Some("gzip")),
        ("/packed", "", None),
        ("/plain", "Accept-Encoding: gzip\r\n", None),
        ("/plain", "", None),
    ] {
        for turn in 1..=3 {
            let response = site.ask("GET", path, fields);
            assert_eq!(response.field("Content-Encoding"), coding);
            let body = coding.map_or(response.body.clone(), |coding| unpacked(coding, &response.body));
            assert!(body == whole.as_bytes(), "{path} {fields} {turn}: {} bytes", body.len());
        }
    }
    let head = site.ask("HEAD", "/packed", "Accept-Encoding: gzip\r\n");
    assert_eq!((head.status, head.field("Content-Encoding"), head.body.len()), (200, Some("gzip"), 0));
    assert_eq!(origin.count(), 8, "each was fetched once: {:?}", origin.requests());
}

#[test]
fn filters_tell_and_say_what_a_body_goes_through() {
    let page = "<a><esi:include src='/part'/>";
    let origin = origin(&[("/a", page), ("/packed", page), ("/part", "part")]);
    let gzip = Answer::ok(gzipped(page.as_bytes())).field("Content-Encoding", "gzip");
    origin.answer("/gzip", gzip.clone().field("Cache-Control", "max-age=60"));
    origin.answer("/unpacked", gzip.field("Cache-Control", "max-age=60"));
    let site = site(&origin, "");
    for (target, fields, before, filters, body) in [
        ("/a", "", "esi", "esi", "<a>part"),
        ("/a", "Range: bytes=0-1\r\n", "esi", "esi", "<a>part"),
        ("/a", "X-Raw: 1\r\nRange: bytes=0-2\r\n", "esi", "range", "<a>"),
        ("/a", "X-Filters: gunzip\r\n", "esi", "gunzip", page),
        ("/a", "X-Raw: 1\r\nX-Filters: esi\r\n", "esi", "esi", "<a>part"),
        ("/packed", "", "esi_gzip", "esi gunzip", "<a>part"),
        ("/packed", "X-Raw: 1\r\n", "esi_gzip", "gunzip", page),
        ("/gzip", "", "gunzip esi_gzip", "esi gunzip", "<a>part"),
        ("/unpacked", "", "gunzip esi", "esi", "<a>part"),
    ] {
        let response = site.ask("GET", target, fields);
        let told = [response.field("X-Before"), response.field("X-Filters")].map(Option::unwrap_or_default);
        assert_eq!((told, &text(&response)[..]), ([before, filters], body), "{target} {fields}");
    }
    for (at, (filters, is_packed, body)) in [
        ("gzip", true, page),
        ("gzip gunzip gzip", true, page),
        ("testgunzip gunzip", false, page),
        ("esi gzip", true, "<a>part"),
        ("gunzip esi_gzip", true, "<a>part"),
        // Nobody sees ESI in what is packed.
        ("gzip esi", true, page),
        ("rot13", false, "error 503"),
    ]
    .into_iter()
    .enumerate()
    {
        let path = format!("/pass/{at}");
        origin.answer(&*path, Answer::ok(page));
        assert_eq!(text(&site.ask("GET", &path, &format!("X-Fetch: {filters}\r\n"))), body, "{filters}");
        let coded = site.ask("GET", &path, &format!("X-Fetch: {filters}\r\nAccept-Encoding: gzip\r\n"));
        assert_eq!(coded.field("Content-Encoding").is_some(), is_packed, "{filters}");
    }
    for fields in ["X-Filters: rot13\r\n", "X-Fetch: gzip\r\nX-Open: 1\r\n", "X-Filters: esi\r\nX-Both: 1\r\n"] {
        let path = if fields.contains("X-Open") { "/pass/0" } else { "/a" };
        assert_eq!(site.ask("GET", path, fields).status, 503, "{fields}");
    }
}

#[test]
fn features_say_what_is_read() {
    let page = "text <i title='<esi:include src=\"https://h/b\"/>'>";
    let origin = origin(&[("/a", page), ("/b", "part")]);
    assert_eq!(text(&site(&origin, "").get("/a")), page);
    let site = site(
        &origin,
        "vcl_parameter feature +esi_disable_xml_check,+esi_ignore_https;
         vcl_parameter feature +esi_ignore_other_elements;",
    );
    assert_eq!(text(&site.get("/a")), "text <i title='part'>");
    assert_eq!(origin.requests().last().unwrap().field("X-Host"), Some("h"));
}

#[test]
fn a_page_that_comes_back_from_a_disk_is_still_put_together() {
    let origin = origin(&[("/x/a?q", "<a>1<esi:include src='b'/>2"), ("/x/b", "b")]);
    let mut site = site(&origin, "");
    for runs in 1..=3 {
        assert_eq!(text(&site.get("/x/a?q")), "<a>1b2");
        assert_eq!(origin.count(), 2);
        site = site.restart();
        eventually("the shelf to be open", || site.count_in_log("2 pages") == runs);
    }
}

#[test]
fn old_and_new_protocols_get_the_whole_too() {
    let origin = origin(&[("/a", "<a>1<esi:include src='/b'/>2"), ("/b", "b")]);
    let site = site(&origin, "");
    let mut client = site.client();
    client.send(b"GET /a HTTP/1.0\r\nHost: a\r\n\r\n").unwrap();
    let all = client.read_to_end().unwrap();
    assert!(all.ends_with(b"\r\n\r\n<a>1b2"), "{}", all.escape_ascii());
    let response = Http2Client::connect(site.setup().address()).unwrap().get("/a").unwrap();
    assert_eq!(response.body, b"<a>1b2");
}

const PLAIN_SITE: &str = "
    proxy_cache_path {DIR}/pages keys_zone=pages:1m;
    server {
        listen 127.0.0.1:{PORT};
        location / {
            larder_esi {ESI};
            proxy_pass http://{ORIGIN};
            proxy_cache pages;
            {MORE}
        }
        location /raw/ { proxy_pass http://{ORIGIN}/; }
    }";

fn html(body: impl Into<Vec<u8>>) -> Answer {
    Answer::ok(body.into()).field("Cache-Control", "max-age=60").field("Content-Type", "text/html")
}

#[test]
fn a_location_without_a_vcl_puts_pages_together_by_their_type_or_by_what_is_said_of_them() {
    let page = "<a>1<esi:include src='/part?x=1'/>2<esi:include src='/gone'/>3";
    let whole = "<a>1<b>part23";
    let origin = Origin::start().unwrap();
    let says = |answer: Answer| answer.field("Surrogate-Control", "content=\"ESI/1.0\"");
    let dated = |answer: Answer| answer.field("ETag", "\"1\"").field("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT");
    origin.answer("/page", dated(html(page)));
    origin.answer(
        "/said",
        says(Answer::ok(page).field("Content-Type", "text/plain").field("Cache-Control", "max-age=60")),
    );
    origin.answer("/text", Answer::ok(page).field("Content-Type", "text/plain").field("Cache-Control", "max-age=60"));
    origin.answer("/part?x=1", html("<b>part"));
    origin.answer("/plain", dated(html("<p>no ESI")));
    origin.answer("/gone", Answer::status("404 Not Found").body("gone"));
    for (esi, put_together) in [("on", &["/page", "/said"][..]), ("surrogate", &["/said"]), ("off", &[])] {
        let setup = Setup::new().one_worker().name("ESI", esi).name("MORE", "").name("ORIGIN", origin.address());
        let site = setup.start(PLAIN_SITE);
        for path in ["/page", "/said", "/text"] {
            for turn in 1..=3 {
                let response = site.get(path);
                let is_whole = put_together.contains(&path);
                assert_eq!(text(&response), if is_whole { whole } else { page }, "{esi} {path} {turn}");
                if is_whole {
                    let told = ["Content-Length", "ETag", "Last-Modified", "Surrogate-Control"];
                    assert_eq!(told.map(|name| response.field(name)), [None; 4], "{esi} {path} {turn}");
                }
            }
        }
        // The first is read as it comes; then it is known that there is nothing in it.
        site.get("/plain");
        site.get("/plain");
        let plain = site.get("/plain");
        let told = ["Content-Length", "ETag"].map(|name| plain.field(name));
        assert_eq!((&text(&plain)[..], told), ("<p>no ESI", [Some("9"), Some("\"1\"")]), "{esi}");
        let asked = site.ask("GET", "/plain?new", "Surrogate-Capability: own=\"ESI/1.0\"\r\n");
        assert_eq!(asked.status, 200);
        let seen = origin.requests();
        let capability = seen.last().unwrap().field("Surrogate-Capability");
        assert_eq!(capability, Some(if esi == "off" { "own=\"ESI/1.0\"" } else { "larder=\"ESI/1.0\"" }));
    }
}

#[test]
fn a_whole_is_never_what_a_client_has_already_nor_a_part() {
    let page = "<a>1<esi:include src='/basket'/>2<esi:inline name='/x'>no</esi:inline>";
    let origin = Origin::start().unwrap();
    let tagged = |answer: Answer| {
        let answer = answer.field("ETag", "\"t\"").field("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT");
        answer.field("Surrogate-Control", "content=\"ESI/1.0\"")
    };
    origin.answer("/page", tagged(html(page)));
    origin.answer("/none", tagged(html("<p>none")));
    origin.answer(
        "/pass",
        tagged(Answer::ok(page).field("Content-Type", "text/html").field("Cache-Control", "no-store")),
    );
    origin.answer("/basket", Answer::ok("b").field("Cache-Control", "no-store"));
    let setup = Setup::new().one_worker().name("ESI", "surrogate").name("MORE", "").name("ORIGIN", origin.address());
    let site = setup.start(PLAIN_SITE);
    for path in ["/page", "/pass"] {
        for fields in
            ["If-None-Match: \"t\"\r\n", "If-Modified-Since: Mon, 01 Jan 2024 00:00:00 GMT\r\n", "Range: bytes=0-4\r\n"]
        {
            for _ in 0..2 {
                let response = site.ask("GET", path, fields);
                assert_eq!((response.status, &text(&response)[..]), (200, "<a>1b2"), "{path} {fields}");
            }
        }
        let asked = origin.requests();
        let page = asked.iter().rev().find(|asked| asked.request_line.contains(path)).unwrap();
        assert_eq!(["Range", "If-None-Match", "If-Modified-Since"].map(|name| page.field(name)), [None; 3], "{path}");
    }
    site.wait_for_log("ESI: <esi:inline>, of which larder leaves the content out");
    for turn in 1..=3 {
        let none = site.get("/none");
        assert_eq!((&text(&none)[..], none.field("Surrogate-Control")), ("<p>none", None), "{turn}");
    }
    let known = site.ask("GET", "/none", "If-None-Match: \"t\"\r\n");
    assert_eq!((known.status, known.field("Surrogate-Control")), (304, None), "there is none in it");
}

#[test]
fn another_is_asked_for_in_the_place_of_an_include_that_fails() {
    let page = "\u{feff}text 1<esi:include src='/gone' alt='/part'/>2<esi:include src='/gone' alt='/none'/>3\
                <esi:include src='/part' alt='/gone'/>4<esi:include src='/gone' alt='/never'/>5\
                <esi:include src='https://any/part'/>6";
    let origin = Origin::start().unwrap();
    origin.answer("/page", html(page));
    origin.answer("/part", html("part"));
    origin.answer("/gone", Answer::status("503 Service Unavailable").body("gone").field("Cache-Control", "max-age=60"));
    origin.answer("/never", html("never").field("Set-Cookie", "a=b"));
    let setup = Setup::new().one_worker().name("ESI", "on").name("MORE", "proxy_cache_valid any 1m;");
    let site = setup.name("ORIGIN", origin.address()).start(PLAIN_SITE);
    for turn in 1..=3 {
        assert_eq!(text(&site.get("/page")), "\u{feff}text 1part23part4never5part6", "{turn}");
    }
    let vcl = self::site(&origin, "");
    for _ in 0..2 {
        assert_eq!(text(&vcl.get("/page")), page, "Varnish reads no page that does not begin with a tag");
    }
    origin.answer("/tag", html("<a><esi:include src='/gone' alt='/part'/>"));
    for _ in 0..2 {
        assert_eq!(text(&vcl.get("/tag")), "<a>gone", "Varnish knows no alt");
    }
}

#[test]
fn urls_are_those_of_rfc_3986_without_a_vcl() {
    let page = "<a>1<esi:include src='../part?a=../b#c'/>2<esi:include src='//h.test/x/./y'/>3\
                <esi:include src='HTTP://h.test'/>4<esi:include src='?q'/>5<esi:include src='javascript:x'/>6";
    let origin = Origin::start().unwrap();
    for (path, body) in
        [("/x/page", page), ("/part?a=../b", "part"), ("/x/y", "y"), ("/", "root"), ("/x/page?q", "query")]
    {
        origin.answer(path, html(body));
    }
    origin.answer("/vcl/page", html("<a>1<esi:include src='../part#c'/>2"));
    origin.answer("/vcl/../part#c", html("as written"));
    let setup = Setup::new().one_worker().name("ESI", "on").name("MORE", "").name("ORIGIN", origin.address());
    let site = setup.start(PLAIN_SITE);
    for turn in 1..=3 {
        assert_eq!(text(&site.get("/x/page")), "<a>1part2y3root4query56", "{turn}");
    }
    let vcl = self::site(&origin, "");
    assert_eq!(text(&vcl.get("/vcl/page")), "<a>1as written2");
}

#[test]
fn pages_without_a_vcl_are_packed_as_they_are_stored_or_as_the_location_says() {
    let page = "<a>1<esi:include src='/part'/>2<esi:include src='/packed'/>3";
    let whole = b"<a>1<b>part2<c>packed3";
    let origin = Origin::start().unwrap();
    let packed = |text: &str| html(gzipped(text.as_bytes())).field("Content-Encoding", "gzip");
    origin.answer("/page", html(page));
    origin.answer("/gzip", packed(page));
    origin.answer("/part", html("<b>part"));
    origin.answer("/packed", packed("<c>packed"));
    let setup = Setup::new().one_worker().name("ESI", "on").name("ORIGIN", origin.address());
    let site = setup.name("MORE", "gzip on; gzip_min_length 1; gunzip on;").start(PLAIN_SITE);
    for _ in 0..3 {
        for path in ["/page", "/gzip"] {
            let response = site.ask("GET", path, "Accept-Encoding: gzip\r\n");
            assert_eq!(response.field("Content-Encoding"), Some("gzip"), "{path}");
            assert_eq!(unpacked("gzip", &response.body), whole, "{path}");
            let plain = site.get(path);
            assert_eq!((&plain.body[..], plain.field("Content-Encoding")), (&whole[..], None), "{path}");
        }
    }
    assert_eq!(origin.count(), 4, "{:?}", origin.requests());
}

#[test]
fn a_page_goes_out_in_what_its_client_takes_whether_its_includes_are_in_memory_or_not() {
    let text = "of the page ".repeat(2_000);
    let page = |part: &str| format!("<a>{text}<esi:include src='/part'/>{text}<esi:include src='{part}'/>{text}");
    let whole = |part: &str| format!("<a>{text}<b>part{text}{part}{text}");
    let origin = Origin::start().unwrap();
    let packed = |body: &str| html(gzipped(body.as_bytes())).field("Content-Encoding", "gzip");
    let part = "a packed part ".repeat(4_000);
    origin.answer("/part", html("<b>part"));
    origin.answer("/packed", packed(&part));
    origin.answer("/fresh", Answer::ok("fresh").field("Cache-Control", "no-store"));
    origin.answer("/fresh-packed", packed(&part).field("Cache-Control", "no-store"));
    for (at, part) in ["/packed", "/fresh", "/fresh-packed"].into_iter().enumerate() {
        origin.answer(&*format!("/plain/{at}"), html(page(part)));
        origin.answer(&*format!("/gzip/{at}"), packed(&page(part)));
    }
    let codings = "gzip on; gzip_min_length 1; gzip_proxied any; gunzip on;
        brotli on; brotli_min_length 1; zstd on; zstd_min_length 1;";
    let setup = Setup::new().one_worker().name("ESI", "on").name("ORIGIN", origin.address());
    let by_directive = setup.name("MORE", codings).start(PLAIN_SITE);
    let by_vcl = site(&origin, codings);
    for turn in 1..=3 {
        for (at, part) in [&part[..], "fresh", &part[..]].into_iter().enumerate() {
            for (stored, accepts, coding) in [
                ("plain", "gzip", Some("gzip")),
                ("plain", "br", Some("br")),
                ("plain", "zstd", Some("zstd")),
                ("plain", "gzip, br, zstd", Some("br")),
                ("plain", "identity", None),
                ("gzip", "gzip", Some("gzip")),
                ("gzip", "br", Some("br")),
                ("gzip", "zstd", Some("zstd")),
                ("gzip", "gzip, br, zstd", Some("gzip")),
                ("gzip", "identity", None),
            ] {
                // Behind a VCL clients take gzip or nothing.
                let with_vcl = accepts.contains("gzip").then_some("gzip");
                for (site, coding) in [(&by_directive, coding), (&by_vcl, with_vcl)] {
                    let path = format!("/{stored}/{at}");
                    let response = site.ask("GET", &path, &format!("Accept-Encoding: {accepts}\r\n"));
                    let case = format!("{turn} {path} {accepts}, with a VCL: {}", std::ptr::eq(site, &by_vcl));
                    assert_eq!(response.field("Content-Encoding"), coding, "{case}");
                    let shown = unpacked_whole(coding.unwrap_or("identity"), &response.body);
                    assert!(shown.as_deref() == Some(whole(part).as_bytes()), "{case}");
                }
            }
        }
    }
}

#[test]
fn a_page_in_gzip_is_joined_of_what_is_kept_though_a_part_of_it_has_to_be_waited_for() {
    let noise: String = (0..4_000_u32).map(|at| format!("{:08x}", at.wrapping_mul(2_654_435_761))).collect();
    let tried = "<esi:try><esi:attempt>t</esi:attempt></esi:try>";
    let page = |part: &str| format!("<a>{noise}<esi:include src='/part'/>{noise}<esi:include src='{part}'/>{noise}");
    let whole = format!("<a>{noise}<b>part{noise}basket{noise}");
    let origin = Origin::start().unwrap();
    let packed = |body: &str| html(gzipped(body.as_bytes())).field("Content-Encoding", "gzip");
    origin.answer("/part", html("<b>part"));
    origin.answer("/kept", html("basket"));
    origin.answer("/fresh", Answer::ok("basket").field("Cache-Control", "no-store"));
    origin.answer("/all-kept", packed(&page("/kept")));
    origin.answer("/one-fresh", packed(&page("/fresh")));
    origin.answer("/tried", packed(&format!("{}{tried}{noise}", page("/fresh"))));
    let setup = Setup::new().one_worker().name("ESI", "on").name("ORIGIN", origin.address());
    let site = setup.name("MORE", "gunzip on;").start(PLAIN_SITE);
    let ask = |path: &str| {
        let response = site.ask("GET", path, "Accept-Encoding: gzip\r\n");
        assert_eq!(response.field("Content-Encoding"), Some("gzip"), "{path}");
        let shown = unpacked_whole("gzip", &response.body).expect("its sum and length are right");
        (String::from_utf8(shown).unwrap(), response.body)
    };
    for path in ["/all-kept", "/one-fresh"] {
        assert!(ask(path).0 == whole, "{path} comes from its origin");
    }
    let (shown, all_kept) = ask("/all-kept");
    assert!(shown == whole);
    for turn in 2..=3 {
        let (shown, one_fresh) = ask("/one-fresh");
        assert!(shown == whole, "{turn}");
        assert!(one_fresh == all_kept, "{turn}: what is kept in gzip is sent as it is kept");
        assert!(ask("/tried").0 == format!("{whole}t{noise}"), "{turn}");
    }
    // And for who takes none, what is kept in gzip comes out of it.
    assert!(text(&site.get("/one-fresh")) == whole);
    // So it does for who is behind a proxy: `gzip_proxied` is off.
    let behind_a_proxy = site.ask("GET", "/one-fresh", "Accept-Encoding: gzip\r\nVia: 1.1 proxy\r\n");
    assert_eq!(behind_a_proxy.field("Content-Encoding"), None);
    assert!(text(&behind_a_proxy) == whole);
}

#[test]
fn what_larder_esi_can_be_is_said() {
    let setup = Setup::new().name("ESI", "yes").name("MORE", "").name("ORIGIN", "127.0.0.1:1");
    setup.configure(PLAIN_SITE);
    let checked = setup.larder(&["-t"]);
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(!checked.status.success() && said.contains("invalid value \"yes\" in \"larder_esi\" directive"), "{said}");
    assert!(said.contains("\"off\", \"on\" or \"surrogate\""), "{said}");
}
