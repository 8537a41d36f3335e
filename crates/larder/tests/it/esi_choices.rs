//! `larder_esi`: what of ESI 1.0 is decided at each delivery: `try`, `choose`, `vars`, and variables in URLs.

use larder_testkit::{Answer, Origin, Response, gzipped, unpacked};

use crate::site::{Setup, Site, text};

const SITE: &str = "
    proxy_cache_path {DIR}/pages keys_zone=pages:4m;
    server {
        listen 127.0.0.1:{PORT};
        larder_esi on;
        proxy_cache pages;
        location / {
            proxy_pass http://{ORIGIN};
            {MORE}
        }
        location /expires/ {
            proxy_pass http://{ORIGIN}/;
            expires 1h;
        }
        location /inside/ {
            internal;
            proxy_pass http://{ORIGIN};
        }
        location /vcl/ {
            vcl {DIR}/esi.vcl;
            proxy_pass http://{ORIGIN};
        }
    }";

const VCL: &str = "vcl 4.1; sub vcl_backend_response { set beresp.do_esi = true; }";

fn site(origin: &Origin, more: &str) -> Site {
    let setup = Setup::new().one_worker().file("esi.vcl", VCL).name("MORE", more);
    setup.name("ORIGIN", origin.address()).start(SITE)
}

fn html(body: impl Into<Vec<u8>>) -> Answer {
    Answer::ok(body.into()).field("Cache-Control", "public, max-age=60").field("Content-Type", "text/html")
}

fn packed(body: &str) -> Answer {
    html(gzipped(body.as_bytes())).field("Content-Encoding", "gzip")
}

/// An origin with these pages.
fn origin(pages: &[(&str, &str)]) -> Origin {
    let origin = Origin::start().unwrap();
    for (path, page) in pages {
        origin.answer(*path, html(*page));
    }
    origin.answer("/gone", Answer::status("404 Not Found").body("gone"));
    origin
}

fn unpacked_text(response: &Response) -> String {
    match response.field("Content-Encoding") {
        Some(coding) => String::from_utf8(unpacked(coding, &response.body)).unwrap(),
        None => text(response),
    }
}

const GROUPS: &str = "<h1>1</h1><esi:choose>
    <esi:when test=\"$(HTTP_COOKIE{group})=='Advanced'\">A<esi:include src='/advanced'/></esi:when>
    <esi:when test=\"$(HTTP_COOKIE{group})=='Basic User'\">B<esi:include src='/basic'/></esi:when>
    <esi:otherwise>N<esi:include src=\"/new\"/></esi:otherwise>
</esi:choose>2";

#[test]
fn each_visitor_gets_a_branch_of_one_stored_page() {
    let pages = [("/page", GROUPS), ("/advanced", "<b>advanced"), ("/basic", "<b>basic"), ("/new", "<b>new")];
    let origin = origin(&pages);
    origin.answer("/packed", packed(GROUPS));
    let site = site(&origin, "");
    for turn in 1..=3 {
        for path in ["/page", "/packed"] {
            for (cookie, branch) in [
                ("group=Advanced", "A<b>advanced"),
                ("x=y; group=Basic User", "B<b>basic"),
                ("group=Other", "N<b>new"),
                ("Group=Advanced", "N<b>new"),
            ] {
                for accepts in ["", "Accept-Encoding: gzip\r\n"] {
                    let response = site.ask("GET", path, &format!("Cookie: {cookie}\r\n{accepts}"));
                    let expected = format!("<h1>1</h1>{branch}2");
                    assert_eq!(unpacked_text(&response), expected, "{turn} {path} {cookie} {accepts}");
                    assert_eq!(response.field("Cache-Control"), Some("private, max-age=60"), "{turn} {path}");
                }
            }
        }
    }
    assert_eq!(origin.count(), 5, "each is fetched once: {:?}", origin.requests());
    let head = site.ask("HEAD", "/page", "");
    assert_eq!((head.status, head.field("Cache-Control")), (200, Some("private, max-age=60")));
}

#[test]
fn what_a_when_guards_is_never_shown_by_a_test_that_is_none() {
    let page = |test: &str| {
        format!(
            "<a><esi:choose><esi:when test=\"{test}\">secret</esi:when><esi:otherwise>no</esi:otherwise></esi:choose>"
        )
    };
    let long = "1==1|".repeat(200_000);
    let origin = Origin::start().unwrap();
    let site = site(&origin, "");
    for (at, test) in [
        "",
        "1",
        "$(HTTP_COOKIE{a}",
        "$(HTTP_COOKIE{a}) matches '.*'",
        "!($(HTTP_COOKIE{none}) matches 'x')",
        "!$(UNKNOWN)",
        "1==1)",
        &["("; 1000].concat(),
        &long,
    ]
    .into_iter()
    .enumerate()
    {
        let path = format!("/{at}");
        origin.answer(&*path, html(page(test)));
        for turn in 1..=2 {
            let shown = text(&site.ask("GET", &path, "Cookie: a=1\r\n"));
            assert_eq!(shown, "<a>no", "{turn} {}", &test[..test.len().min(40)]);
        }
    }
    site.wait_for_log("ESI: a test of a text alone");
    site.wait_for_log("ESI: a value that is too long; 2 faults in the page");
}

#[test]
fn a_page_that_is_the_same_for_all_may_still_be_shared() {
    let origin = origin(&[
        ("/plain", "<a><esi:include src='/part'/>$(x)<esi:try><esi:attempt>b</esi:attempt></esi:try>"),
        ("/part", "part"),
        ("/vars", "<a><esi:vars>$(HTTP_HOST)</esi:vars>"),
        ("/url", "<a><esi:include src='/part?$(QUERY_STRING)'/>"),
        ("/part?", "part"),
    ]);
    origin.answer("/none", html("<a>$(HTTP_HOST)").field("CDN-Cache-Control", "max-age=9"));
    let passed = |body: &str| {
        let answer = Answer::ok(body).field("Content-Type", "text/html").field("CDN-Cache-Control", "max-age=9");
        answer.field("Cache-Control", "s-maxage=0, stale-while-revalidate=9").field("Set-Cookie", "a=b")
    };
    origin.answer("/pass", passed("<a>$(<esi:include src='/part'/>"));
    origin.answer("/pass-plain", passed("<a><esi:comment/>"));
    let site = site(&origin, "");
    let control = |path: &str| site.get(path).field("Cache-Control").map(str::to_owned);
    // The head goes out before it is known what comes.
    assert_eq!(control("/plain").as_deref(), Some("private, max-age=60"));
    for _ in 0..2 {
        assert_eq!(control("/plain").as_deref(), Some("public, max-age=60"));
    }
    for path in ["/vars", "/url"] {
        for _ in 0..3 {
            assert_eq!(control(path).as_deref(), Some("private, max-age=60"), "{path}");
        }
        assert_eq!(control(&format!("/expires{path}")).as_deref(), Some("private, max-age=3600"), "{path}");
    }
    for turn in 1..=2 {
        let personal = site.get("/pass");
        let told = ["Cache-Control", "CDN-Cache-Control"].map(|name| personal.field(name));
        assert_eq!(told, [Some("private, stale-while-revalidate=9"), None], "{turn}");
        let plain = site.get("/pass-plain");
        let told = ["Cache-Control", "CDN-Cache-Control"].map(|name| plain.field(name));
        assert_eq!(told, [Some("s-maxage=0, stale-while-revalidate=9"), Some("max-age=9")], "{turn}");
    }
    site.get("/none");
    let none = site.get("/none");
    assert_eq!(
        (none.field("Cache-Control"), none.field("CDN-Cache-Control")),
        (Some("public, max-age=60"), Some("max-age=9"))
    );
}

#[test]
fn a_variable_is_a_text_wherever_it_goes_in() {
    let page = "<a><p>Hello, <esi:vars>$(HTTP_COOKIE{name}|'<i>guest</i>')! <img src=\"/$(HTTP_COOKIE{type})/x.gif\">\
                $(document) $(QUERY_STRING{q})$(</esi:vars>$(HTTP_HOST)";
    let origin = origin(&[("/page", page)]);
    origin.answer("/packed", packed(page));
    let site = site(&origin, "");
    let hostile = "Cookie: name=<script>alert('1')</script>; type=\"onerror=alert(1)//\r\n";
    let shown = "<a><p>Hello, &lt;script&gt;alert&#40;&#39;1&#39;&#41;&lt;&#47;script&gt;! \
                 <img src=\"/%22onerror%3Dalert%281%29%2F%2F/x.gif\">$(document) &#37;3Cb&#37;3E$($(HTTP_HOST)";
    for turn in 1..=3 {
        for path in ["/page", "/packed"] {
            for accepts in ["", "Accept-Encoding: gzip\r\n"] {
                let path = format!("{path}?q=%3Cb%3E");
                // The page itself is that of its URL, query and all.
                let bare = &path[..path.find('?').unwrap()];
                origin.answer(&*path, if bare == "/page" { html(page) } else { packed(page) });
                let response = site.ask("GET", &path, &format!("{hostile}{accepts}"));
                assert_eq!(unpacked_text(&response), shown, "{turn} {path} {accepts}");
                let other = unpacked_text(&site.ask("GET", &path, accepts));
                assert!(
                    other.starts_with("<a><p>Hello, <i>guest</i>! <img src=\"//x.gif\">"),
                    "{turn} {path}: {other}"
                );
            }
        }
    }
}

#[test]
fn a_variable_in_an_attribute_behind_a_greater_than_is_no_live_link() {
    let page = "<a title=\"a > b\" href=\"<esi:vars>$(QUERY_STRING{u})</esi:vars>\">A</a>\
                <button onclick=\"[1].forEach(x => go('<esi:vars>$(QUERY_STRING{u})</esi:vars>'))\">B</button>";
    let origin = Origin::start().unwrap();
    let path = "/page?u=javascript:alert('1')";
    origin.answer(path, html(page));
    let site = site(&origin, "");
    for turn in 1..=3 {
        let shown = text(&site.get(path));
        assert_eq!(shown.matches("javascript%3Aalert%28%271%27%29").count(), 2, "{turn}: {shown}");
        assert!(!shown.contains("&#"), "{turn}: {shown}");
    }
}

#[test]
fn a_variable_of_an_include_is_escaped_for_where_the_include_stands() {
    let (as_text, as_tag) = ("javascript&#58;alert&#40;&#39;1&#39;&#41;", "javascript%3Aalert%28%271%27%29");
    let name = "<esi:vars>$(HTTP_COOKIE{u})</esi:vars>";
    let origin = origin(&[("/name", name), ("/name?", name), ("/outer", "<b><esi:include src='/name'/></b>")]);
    origin.answer("/packed", packed(name));
    origin.answer("/fresh", html(name).field("Cache-Control", "no-store"));
    origin.answer("/vcl/between", html("<b><esi:include src='/name'/></b>"));
    let site = site(&origin, "");
    let tried = "<esi:try><esi:attempt><esi:include src='/gone'/></esi:attempt>\
                 <esi:except><esi:include src='/name'/></esi:except></esi:try>";
    let with_variables = "<esi:include src='/gone?$(QUERY_STRING)' alt='/name?$(QUERY_STRING)'/>";
    let attribute = |include: &str| format!("<a title=\"x > {include}\">");
    let include = |src: &str| format!("<esi:include src='{src}'/>");
    for (at, (page, expected)) in [
        (format!("<p>{}</p>", include("/name")), format!("<p>{as_text}</p>")),
        (format!("<p>{with_variables}</p>"), format!("<p>{as_text}</p>")),
        (format!("<title>{}</title>", include("/fresh")), format!("<title>{as_text}</title>")),
        (attribute(&include("/name")), attribute(as_tag)),
        (attribute(&include("/packed")), attribute(as_tag)),
        (attribute(&include("/fresh")), attribute(as_tag)),
        (attribute("<esi:include src='/gone' alt='/name'/>"), attribute(as_tag)),
        (attribute("<esi:include src='/gone' alt='/fresh'/>"), attribute(as_tag)),
        (attribute(with_variables), attribute(as_tag)),
        (attribute("<esi:include src='/$(HTTP_COOKIE{u}|x)/' alt='/name'/>"), attribute(as_tag)),
        (attribute(&include("/outer")), attribute(&format!("<b>{as_tag}</b>"))),
        (attribute(&include("/vcl/between")), attribute(&format!("<b>{as_tag}</b>"))),
        (attribute(tried), attribute(as_tag)),
        (format!("<script>f('{}')</script>", include("/name")), format!("<script>f('{as_tag}')</script>")),
        (format!("<svg>{}</svg>", include("/name")), format!("<svg>{as_tag}</svg>")),
    ]
    .into_iter()
    .enumerate()
    {
        let not_stored = html(page.clone()).field("Cache-Control", "no-store");
        let paths = [
            (format!("/{at}"), html(page.clone())),
            (format!("/packed/{at}"), packed(&page)),
            (format!("/pass/{at}"), not_stored),
            (format!("/vcl/{at}"), html(page.clone())),
        ];
        for (path, answer) in paths {
            // Varnish knows neither.
            if path.starts_with("/vcl/") && (page.contains(" alt=") || page.contains("<esi:try>")) {
                continue;
            }
            origin.answer(&*path, answer);
            for turn in 1..=3 {
                let response = site.ask("GET", &path, "Cookie: u=javascript:alert('1')\r\nAccept-Encoding: gzip\r\n");
                assert_eq!(unpacked_text(&response), expected, "{turn} {path} {page}");
            }
        }
    }
}

#[test]
fn an_include_without_larder_esi_is_asked_for_as_the_client_has_asked() {
    let origin = Origin::start().unwrap();
    origin.answer("/page", html("<a><esi:include src='/echo'/>"));
    origin.answer("/echo", Answer::ok("echo").field("Cache-Control", "no-store"));
    let site = site(&origin, "location /echo { larder_esi off; proxy_pass http://{ORIGIN}; }");
    for (own, expected) in [("", None), ("Surrogate-Capability: own=\"ESI/1.0\"\r\n", Some("own=\"ESI/1.0\""))] {
        for turn in 1..=2 {
            assert_eq!(text(&site.ask("GET", "/page", own)), "<a>echo");
            let seen = origin.requests();
            assert_eq!(seen.last().unwrap().field("Surrogate-Capability"), expected, "{turn} {own}");
        }
    }
    let page = &origin.requests()[0];
    assert_eq!(page.field("Surrogate-Capability"), Some("larder=\"ESI/1.0\""));
}

#[test]
fn a_page_with_an_include_for_one_visitor_is_private() {
    let shared = |body: &str| {
        let answer = Answer::ok(body).field("Content-Type", "text/html");
        answer.field("Cache-Control", "public, max-age=60, s-maxage=100")
    };
    let origin = Origin::start().unwrap();
    origin.answer("/page", shared("<a><esi:include src='/inner'/>"));
    origin.answer("/inner", shared("<b><esi:include src='/name'/>"));
    origin.answer("/name", shared("<esi:vars>hello $(HTTP_COOKIE{name})</esi:vars>"));
    origin.answer("/late", shared("<a><esi:include src='/fresh'/>"));
    origin.answer("/fresh", html("<esi:vars>hello $(HTTP_COOKIE{name})</esi:vars>").field("Cache-Control", "no-store"));
    let site = site(&origin, "");
    let ask = |path: &str| site.ask("GET", path, "Cookie: name=alice\r\n");
    for turn in 1..=4 {
        let response = ask("/page");
        assert_eq!(text(&response), "<a><b>hello alice", "{turn}");
        assert_eq!(response.field("Cache-Control"), Some("private, max-age=60"), "{turn}");
    }
    // Its head goes out before the include is there.
    for turn in 1..=4 {
        let response = ask("/late");
        assert_eq!(text(&response), "<a>hello alice", "{turn}");
        assert_eq!(response.field("Cache-Control"), Some("private, max-age=60"), "{turn}");
    }
}

#[test]
fn a_page_is_private_while_nobody_knows_what_its_includes_bring() {
    let long = format!("<a>{}<esi:include src='/part'/>", "x".repeat(300_000));
    let big = "y".repeat(40_000);
    let origin = origin(&[
        ("/page", "<a><esi:include src='/part'/>1<esi:include src='/other'/>"),
        ("/part", "part"),
        ("/other", "other"),
        ("/unstored", "<a><esi:include src='/fresh'/>"),
        ("/failing", "<a><esi:include src='/gone' alt='/fresh'/>"),
        ("/long", &long),
        ("/of-big", "<a><esi:include src='/big'/>"),
        ("/big", &big),
        ("/of-biggest", "<a><esi:include src='/nested'/>"),
        ("/nested", &format!("<b>{big}<esi:include src='/part'/>")),
        ("/no-esi", &"<p>".repeat(100_000)),
    ]);
    origin.answer("/fresh", Answer::ok("fresh").field("Cache-Control", "no-store"));
    origin.answer("/pass", html("<a><esi:include src='/part'/>").field("Set-Cookie", "a=b"));
    let site = site(&origin, "proxy_cache_purge PURGE from all;");
    let control = |method: &str, path: &str| site.ask(method, path, "").field("Cache-Control").map(str::to_owned);
    let (private, public) = (Some("private, max-age=60"), Some("public, max-age=60"));
    for path in ["/page", "/unstored", "/failing", "/long", "/of-big", "/of-biggest", "/no-esi"] {
        assert_eq!(control("GET", path).as_deref(), private, "{path} comes from its origin");
    }
    for turn in 2..=3 {
        assert_eq!(control("GET", "/page").as_deref(), public, "{turn}: all is in memory");
        assert_eq!(control("GET", "/of-big").as_deref(), public, "{turn}: all is in memory");
        assert_eq!(control("GET", "/no-esi").as_deref(), public, "{turn}: there is nothing in it");
        for path in ["/unstored", "/failing", "/long", "/of-biggest", "/pass"] {
            assert_eq!(control("GET", path).as_deref(), private, "{turn} {path}");
        }
        assert_eq!(control("HEAD", "/page").as_deref(), private, "{turn}: a HEAD asks for no includes");
    }
    for part in ["/part", "/other"] {
        assert_eq!(site.ask("PURGE", part, "").status, 200, "{part}");
        assert_eq!(control("GET", "/page").as_deref(), private, "{part} is not there");
        assert_eq!(control("GET", "/page").as_deref(), public, "{part} is there again");
    }
}

#[test]
fn a_variable_in_a_url_leads_nowhere_else() {
    let page = "<a>1<esi:include src='/inside/public/$(HTTP_COOKIE{id}|default).html'/>2\
                <esi:include src='$(QUERY_STRING{u})'/>3<esi:include src='http://$(HTTP_HOST)/host'/>4\
                <esi:include src='/search?n=$(HTTP_COOKIE{id})&amp;$(QUERY_STRING)'/>5\
                <esi:include src='/$(HTTP_COOKIE{id})' alt='/inside/public/alt'/>6";
    let origin = origin(&[
        ("/inside/public/default.html", "default"),
        ("/inside/public/7.html", "seven"),
        ("/inside/public/alt", "alt"),
        ("/inside/secret", "secret"),
        ("/host", "host"),
        ("/search?n=7&u=x", "found"),
        ("/7", "7"),
    ]);
    for path in ["/page", "/page?u=x", "/page?u=/inside/secret"] {
        origin.answer(path, html(page));
    }
    let site = site(&origin, "");
    for turn in 1..=2 {
        let known = text(&site.ask("GET", "/page?u=x", "Cookie: id=7\r\n"));
        assert_eq!(known, "<a>1seven23host4found576", "{turn}");
        let unknown = text(&site.get("/page"));
        assert!(unknown.starts_with("<a>1default23host4"), "{turn}: {unknown}");
        for id in ["../secret?", "..%2Fsecret%3F", "..", "%2e%2e", "a\\..\\b", "x%00"] {
            let hostile = text(&site.ask("GET", "/page?u=/inside/secret", &format!("Cookie: id={id}\r\n")));
            assert!(!hostile.contains("secret"), "{turn} {id}: {hostile}");
            assert!(hostile.starts_with("<a>123host4"), "{turn} {id}: {hostile}");
        }
        let broken = text(&site.ask("GET", "/page?u=x", "Cookie: id=a/b\r\n"));
        assert!(broken.ends_with("5alt6"), "{turn}: {broken}");
    }
    let asked = origin.requests();
    assert!(asked.iter().all(|seen| !seen.request_line.starts_with("GET /inside/secret")), "{asked:?}");
    site.wait_for_log("ESI: an include whose $(HTTP_COOKIE{id}) is more than a segment of a path");
    site.wait_for_log("ESI: an include whose src is no URL: $(QUERY_STRING{u})");
}

#[test]
fn an_except_goes_in_for_an_attempt_of_which_an_include_fails() {
    let good = "<esi:include src='/part'/>";
    let bad = "<esi:include src='/gone'/>";
    let tried = |attempt: &str, except: &str| {
        format!("<a>0<esi:try> x <esi:attempt>1{attempt}2</esi:attempt> <esi:except>3{except}4</esi:except></esi:try>5")
    };
    let nested = |inner: &str| {
        tried(&format!("<esi:try><esi:attempt>a{bad}</esi:attempt><esi:except>b{inner}c</esi:except></esi:try>"), "e")
    };
    let origin = origin(&[("/part", "part"), ("/alt", "alt"), ("/once", "once")]);
    origin.answer("/empty", Answer::status("204 No Content"));
    let site = site(&origin, "");
    for (at, (page, expected)) in [
        (tried(good, "<esi:include src='/never'/>"), "<a>01part25"),
        (tried("", ""), "<a>0125"),
        (tried(&format!("{good}{bad}"), good), "<a>03part45"),
        (tried(bad, bad), "<a>0345"),
        (tried("<esi:include src='/gone' alt='/alt'/>", "e"), "<a>01alt25"),
        (tried("<esi:include src='/gone' alt='/gone'/>", "e"), "<a>03e45"),
        (tried("<esi:include src='/gone' onerror='continue'/>", "e"), "<a>0125"),
        (tried("<esi:include src='/empty'/>", "e"), "<a>0125"),
        (tried("<esi:include src='http:///'/>", "e"), "<a>03e45"),
        (nested(good), "<a>01bpartc25"),
        (nested(bad), "<a>03e45"),
        (tried(bad, &nested(good).replace("<a>", "")), "<a>0301bpartc2545"),
        (tried(&format!("<esi:choose><esi:when test='1==2'>{bad}</esi:when></esi:choose>"), "e"), "<a>0125"),
        (
            tried(
                &format!("<esi:choose><esi:when test='1==1'>{bad}</esi:when></esi:choose>"),
                "<esi:vars>$(HTTP_HOST)</esi:vars>",
            ),
            "<a>03site.test45",
        ),
        (format!("<a>0<esi:try><esi:attempt>1{bad}2</esi:attempt></esi:try>5"), "<a>05"),
        (format!("<a>0<esi:try><esi:attempt>1{bad}2"), "<a>0"),
        (format!("<a>0<esi:choose><esi:when test='1==2'>{}</esi:when></esi:choose>5", tried(bad, "e")), "<a>05"),
    ]
    .into_iter()
    .enumerate()
    {
        let path = format!("/{at}");
        origin.answer(&*path, html(page.clone()));
        for turn in 1..=3 {
            assert_eq!(text(&site.get(&path)), expected, "{turn} {page}");
        }
        let path = format!("/packed/{at}");
        origin.answer(&*path, packed(&page));
        for turn in 1..=3 {
            let response = site.ask("GET", &path, "Accept-Encoding: gzip\r\n");
            assert_eq!(unpacked_text(&response), expected, "{turn} {page}");
        }
    }
    let asked = origin.requests();
    assert!(asked.iter().all(|seen| !seen.request_line.contains("/never")), "an except is asked for if it is needed");
    site.wait_for_log("ESI: <esi:except> goes in: \"/gone\" answers 404");
    site.wait_for_log("ESI: <esi:except> goes in: \"\" is no host");
}

#[test]
fn an_attempt_is_fetched_with_all_else_and_sent_as_a_whole() {
    let page = "<a>0<esi:include src='/one'/>1<esi:try><esi:attempt>2<esi:include src='/two'/>3<esi:include src='/three'/>\
                4</esi:attempt><esi:except>5<esi:include src='/five'/></esi:except></esi:try>6<esi:include src='/six'/>7";
    let origin = Origin::start().unwrap();
    let part = |text: &str| Answer::ok(text).field("Cache-Control", "no-store");
    origin.answer("/page", html(page));
    for path in ["/one", "/two", "/five", "/six"] {
        origin.answer(path, part(path));
    }
    origin.answer("/three", part("/three"));
    let site = site(&origin, "");
    for (status, whole) in [("200 OK", "<a>0/one12/two3/three46/six7"), ("500 Oh", "<a>0/one15/five6/six7")] {
        origin.answer("/three", Answer::status(status).body("/three").field("Cache-Control", "no-store"));
        let before = origin.count();
        let held: Vec<_> = ["/one", "/two", "/three", "/six"].map(|path| origin.hold(path)).into();
        let mut client = site.client();
        client.send(b"GET /page HTTP/1.1\r\nHost: site.test\r\n\r\n").unwrap();
        let is_first = before == 0;
        assert!(origin.wait_for(before + 4 + usize::from(is_first)), "{:?}", origin.requests());
        assert!(origin.requests().iter().skip(before).all(|seen| !seen.request_line.contains("/five")));
        held.into_iter().rev().for_each(|held| held.release());
        assert_eq!(text(&client.read_response("GET").unwrap()), whole);
    }
}

#[test]
fn an_attempt_that_breaks_off_or_brings_too_much_has_failed() {
    let origin = Origin::start().unwrap();
    origin.answer("/big", Answer::ok("x".repeat(3 << 20)).field("Cache-Control", "max-age=60"));
    origin.answer("/large", Answer::ok("y".repeat(1 << 19)).field("Cache-Control", "max-age=60"));
    origin.answer("/short", Answer::raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\nConnection: close\r\n\r\nshort"));
    let tried = |attempt: &str| {
        format!("<a>1<esi:try><esi:attempt>{attempt}</esi:attempt><esi:except>e</esi:except></esi:try>2")
    };
    let site = site(&origin, "");
    for (at, (attempt, expected)) in [
        ("<esi:include src='/big'/>".to_owned(), "e".to_owned()),
        ("<esi:include src='/short'/>".to_owned(), "e".to_owned()),
        ("<esi:include src='/large'/>".to_owned(), "y".repeat(1 << 19)),
        ("z".repeat(1 << 19), "z".repeat(1 << 19)),
        ("z".repeat(2 << 20), "e".to_owned()),
        (format!("<esi:try><esi:attempt>{}</esi:attempt></esi:try>", "z".repeat(2 << 20)), "e".to_owned()),
    ]
    .into_iter()
    .enumerate()
    {
        let path = format!("/{at}");
        origin.answer(&*path, html(tried(&attempt)));
        for turn in 1..=2 {
            let shown = text(&site.get(&path));
            assert!(shown == format!("<a>1{expected}2"), "{turn} {at}: {} bytes", shown.len());
        }
    }
    site.wait_for_log("ESI: <esi:except> goes in: \"/short\" breaks off");
    site.wait_for_log("its attempt brings more than 1 MB");
    site.wait_for_log("an <esi:attempt> or <esi:except> of more than 1 MB");
}

#[test]
fn with_a_vcl_all_is_shown_that_varnish_shows() {
    let page = "<a><esi:choose><esi:when test=\"1==2\">1</esi:when></esi:choose><esi:try><esi:attempt>2</esi:attempt>\
                <esi:except>3</esi:except></esi:try><esi:vars>$(HTTP_HOST)</esi:vars>";
    let origin = origin(&[("/vcl/page", page)]);
    let site = site(&origin, "");
    for _ in 0..2 {
        let response = site.get("/vcl/page");
        assert_eq!(text(&response), "<a>123$(HTTP_HOST)");
        assert_eq!(response.field("Cache-Control"), Some("public, max-age=60"));
    }
}

#[test]
fn what_is_broken_in_a_page_is_named_once() {
    let vars = |text: &str| format!("<a><esi:vars>{text}</esi:vars>");
    let when = |test: &str| format!("<a><esi:choose><esi:when test=\"{test}\">1</esi:when></esi:choose>");
    let origin = Origin::start().unwrap();
    let site = site(&origin, "location /closed { return 444; }");
    let long = format!("{}{}", vars("$(LONG)"), "x".repeat(300_000));
    for (at, (page, told)) in [
        (
            vars("$(HTTP_HOST) $(HTTP_COOKEI{a}|x) $(OTHER) $(OTHER)"),
            "the unknown variable $(HTTP_COOKEI{a}); 3 faults",
        ),
        (vars("$(ONE{\u{1b}[1m'})"), "the unknown variable $(ONE{\\x1b[1m\\'})"),
        (long, "the unknown variable $(LONG)"),
        (when("$(TWO)==1"), "a test with the unknown variable $(TWO)"),
        (when("1==1 & $(HTTP_COOKIE{a)==1"), "a test with a broken variable: $(HTTP_COOKIE{a)==1"),
    ]
    .into_iter()
    .enumerate()
    {
        let path = format!("/{at}");
        origin.answer(&*path, html(page));
        for _ in 1..=4 {
            site.get(&path);
        }
        site.wait_for_log(&format!("ESI: {told}"));
        assert_eq!(site.count_in_log(&format!("request: \"GET {path} ")), 1, "{told}");
    }
    origin.answer("/new", html(vars("$(NEW)")).field("Cache-Control", "no-store"));
    for _ in 1..=2 {
        site.get("/new");
    }
    site.wait_for_log("ESI: the unknown variable $(NEW)");
    assert_eq!(site.count_in_log("ESI: the unknown variable $(NEW)"), 2, "each is another page");
    origin.answer("/try", html("<a><esi:try><esi:attempt><esi:include src='/closed?a'/></esi:attempt></esi:try>"));
    assert_eq!(text(&site.get("/try")), "<a>");
    site.wait_for_log("ESI: <esi:except> goes in: \"/closed?a\" was closed");
}

#[test]
fn hostile_pages_come_to_an_end() {
    let origin = Origin::start().unwrap();
    origin.answer("/part", html("part"));
    let repeat = |text: &str| text.repeat(1000);
    let site = site(&origin, "");
    for (at, (page, expected)) in [
        (format!("<a>{}x", repeat("<esi:try><esi:attempt>")), "<a>"),
        (format!("<a>{}x{}y", repeat("<esi:try><esi:attempt>"), repeat("</esi:attempt></esi:try>")), "<a>y"),
        (
            format!(
                "<a>{}x<esi:include src='/gone'/>{}y",
                "<esi:try><esi:attempt>".repeat(16),
                "</esi:attempt><esi:except>e</esi:except></esi:try>".repeat(16)
            ),
            "<a>ey",
        ),
        (format!("<a>{}x", repeat("<esi:choose><esi:when test='1==1'>")), "<a>"),
        (format!("<a>{}x{}y", repeat("<esi:vars>"), repeat("</esi:vars>")), "<a>y"),
        (format!("<a><esi:vars>{}", repeat("$(")), &format!("<a>{}", repeat("$("))),
        (
            format!("<a><esi:vars>$(HTTP_COOKIE{{{}", "x".repeat(100_000)),
            &format!("<a>$(HTTP_COOKIE{{{}", "x".repeat(100_000)),
        ),
        (
            format!("<a><esi:try><esi:attempt>{}</esi:attempt></esi:try>", repeat("<esi:include src='/part'/>")),
            &format!("<a>{}", repeat("part")),
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let path = format!("/{at}");
        origin.answer(&*path, html(page));
        for turn in 1..=2 {
            let shown = text(&site.get(&path));
            assert!(shown == expected, "{turn} {at}: {}", &shown[..shown.len().min(200)]);
        }
    }
}

/// What is written for other servers that read ESI.
#[test]
fn pages_for_other_servers_are_understood() {
    let origin = origin(&[
        ("/_fragment?path=_controller%3Dnews", "<ul>news</ul>"),
        ("/page_cache/block/esi/blocks/[\"catalog.topnav\"]/", "<nav>"),
        ("/en/advert", "advert"),
        ("/default.html", "default"),
        ("/win.css", "win"),
    ]);
    let symfony = "<esi:include src=\"/_fragment?path=_controller%3Dnews\" /><esi:remove><hinclude/></esi:remove>\
                   <esi:comment text=\"news\" />";
    let magento =
        "<a><esi:include src=\"http://site.test/page_cache/block/esi/blocks/[&quot;catalog.topnav&quot;]/\" />";
    let akamai = "<esi:choose><esi:when test=\"$(HTTP_ACCEPT_LANGUAGE{en}) && $(HTTP_HOST) has 'site'\"><esi:try><esi:attempt>\
                  <esi:comment text=\"an ad\"/><esi:include src=\"http://$(HTTP_HOST)/en/advert\"/></esi:attempt><esi:except>\
                  <a href=\"/\">site</a></esi:except></esi:try></esi:when><esi:otherwise>none</esi:otherwise></esi:choose>";
    let oracle = "<esi:choose><esi:when test=\"$(HTTP_USER_AGENT{os})=='WIN' & $(HTTP_USER_AGENT{version})>=4\">\
                  <esi:include src=\"/win.css\"/></esi:when><esi:otherwise>other</esi:otherwise></esi:choose>";
    let squid = "<!--esi <p><esi:vars>Hello, $(HTTP_COOKIE{name}|guest)! You come from $(HTTP_REFERER|'nowhere').</esi:vars></p>\
                 <esi:include src=\"/$(HTTP_COOKIE{id}|default).html\"/>-->";
    for (path, page) in
        [("/symfony", symfony), ("/magento", magento), ("/akamai", akamai), ("/oracle", oracle), ("/squid", squid)]
    {
        origin.answer(path, html(page));
    }
    let site = site(&origin, "");
    for turn in 1..=3 {
        for (path, fields, expected) in [
            ("/symfony", "", "<ul>news</ul>"),
            ("/magento", "", "<a><nav>"),
            ("/akamai", "Accept-Language: de, en;q=0.5\r\n", "advert"),
            ("/akamai", "Accept-Language: de\r\n", "none"),
            ("/oracle", "User-Agent: Mozilla/4.0 (compatible; MSIE 5.5; Windows NT)\r\n", "win"),
            ("/oracle", "User-Agent: Mozilla/3.0 (Windows)\r\n", "other"),
            ("/squid", "", " <p>Hello, guest! You come from nowhere.</p>default"),
            (
                "/squid",
                "Cookie: name=Ann\r\nReferer: http://a.test/\r\n",
                " <p>Hello, Ann! You come from http&#58;&#47;&#47;a.test&#47;.</p>default",
            ),
        ] {
            assert_eq!(text(&site.ask("GET", path, fields)), expected, "{turn} {path} {fields}");
        }
    }
}
