//! What a VCL sees as the URL, and what answers at its location makes of that, where rewrites or `try_files` come first.

use larder_testkit::{Answer, FastCgiOrigin, FastCgiReply, Origin};

use crate::site::{Setup, Site, eventually, text};

/// A site whose pages all come from one script, as that of a blog.
fn blog(script: &FastCgiOrigin, subs: &str) -> Site {
    script.answer("*", FastCgiReply::html("page"));
    Setup::new()
        .name("SCRIPT", script.address())
        .file("site.vcl", format!("vcl 4.1;\nimport std;\n{subs}"))
        .file("www/index.php", "")
        .file("www/a.txt", "a file")
        .start(
            "fastcgi_cache_path {DIR}/pages keys_zone=pages:1m;
             server {
                 listen 127.0.0.1:{PORT};
                 root {DIR}/www;
                 index index.php;
                 location / { try_files $uri $uri/ /index.php?$args; }
                 location /old/ { rewrite ^/old/(.*) /index.php?q=$1 last; }
                 location ~ \\.php$ {
                     vcl {DIR}/site.vcl;
                     fastcgi_pass {SCRIPT};
                     fastcgi_param SCRIPT_NAME $fastcgi_script_name;
                     fastcgi_param REQUEST_URI $request_uri;
                     fastcgi_param QUERY_STRING $query_string;
                     fastcgi_cache pages;
                 }
             }",
        )
}

/// Which script was asked last, for which URL and with which arguments.
fn last(script: &FastCgiOrigin) -> String {
    let requests = script.requests();
    let request = requests.last().expect("there was a request");
    let [name, url, args] =
        ["SCRIPT_NAME", "REQUEST_URI", "QUERY_STRING"].map(|name| request.param(name).unwrap_or("-"));
    format!("{name} {url} {args}")
}

#[test]
fn a_page_of_a_script_is_kept_under_the_url_that_was_asked_for() {
    let script = FastCgiOrigin::start_tcp().unwrap();
    let site = blog(&script, "sub vcl_deliver { set resp.http.X-Url = req.url; set resp.http.X-Hits = obj.hits; }");
    for (url, seen) in [
        ("/", "/index.php / "),
        ("/one", "/index.php /one "),
        ("/two", "/index.php /two "),
        ("/two?b=2", "/index.php /two?b=2 b=2"),
        ("/index.php?c", "/index.php /index.php?c c"),
        ("/old/x?d=4", "/index.php /old/x?d=4 q=x&d=4"),
    ] {
        let before = script.count();
        let page = site.get(url);
        assert_eq!((page.field("X-Url"), page.field("X-Hits")), (Some(url), Some("0")), "{url}");
        assert_eq!(last(&script), seen, "{url}");
        assert_eq!(site.get(url).field("X-Hits"), Some("1"), "{url}");
        assert_eq!(script.count(), before + 1, "{url}");
    }
    assert_eq!(text(&site.get("/a.txt")), "a file");
}

#[test]
fn a_url_that_the_vcl_changes_is_another_page_of_the_same_script() {
    let script = FastCgiOrigin::start_tcp().unwrap();
    let site = blog(
        &script,
        "sub vcl_recv {
             if (req.url ~ \"utm\") { set req.url = regsub(req.url, \"[?&]utm=.*\", \"\"); }
             if (req.url ~ \"^/moved/\") { set req.url = regsub(req.url, \"^/moved\", \"\"); }
             if (req.url ~ \"^/back\") { set req.url = \"/elsewhere\"; std.rollback(req); }
             if (req.http.Pass) { return (pass); }
         }
         sub vcl_backend_fetch {
             if (bereq.url ~ \"late=\") { set bereq.url = regsub(bereq.url, \"[?&]late=.*\", \"\"); }
         }",
    );
    for (url, seen) in [
        ("/one?utm=1", "/index.php /one "),
        ("/one?a=1&utm=1", "/index.php /one?a=1 a=1"),
        ("/old/x?utm=1", "/index.php /old/x q=x"),
        ("/moved/two?a=1", "/index.php /two?a=1 a=1"),
        ("/back?a=1", "/index.php /back?a=1 a=1"),
        ("/index.php?a=1&utm=1", "/index.php /index.php?a=1 a=1"),
        ("/moved/index.php?a=1", "/index.php /index.php?a=1 a=1"),
        ("/one?late=1", "/index.php /one "),
    ] {
        site.ask("GET", url, "Pass: 1\r\n");
        assert_eq!(last(&script), seen, "{url}");
    }
    // A page that is fetched again behind its client is the same one.
    site.get("/again?utm=1");
    assert_eq!(last(&script), "/index.php /again ");
}

#[test]
fn a_fetch_in_the_background_asks_for_the_same_page() {
    let script = FastCgiOrigin::start_tcp().unwrap();
    let site = blog(
        &script,
        "sub vcl_recv { set req.url = regsub(req.url, \"[?&]utm=.*\", \"\"); }
         sub vcl_backend_response { set beresp.ttl = 1ms; set beresp.grace = 1h; }",
    );
    site.get("/one?a=1&utm=1");
    eventually("a fetch behind the client", || {
        site.get("/one?a=1&utm=2");
        script.count() > 1
    });
    assert_eq!(last(&script), "/index.php /one?a=1 a=1");
}

#[test]
fn an_origin_gets_what_a_rewrite_has_made_unless_the_vcl_has_changed_the_path() {
    let (own, other) = (Origin::start().unwrap(), Origin::start().unwrap());
    for origin in [&own, &other] {
        origin.answer("*", Answer::ok("page"));
    }
    let address = other.address();
    let vcl = format!(
        "vcl 4.1;
         backend other {{ .host = \"{}\"; .port = \"{}\"; }}
         sub vcl_recv {{
             if (req.http.Other) {{ set req.backend_hint = other; }}
             if (req.url ~ \"utm\") {{ set req.url = regsub(req.url, \"[?&]utm=.*\", \"\"); }}
             if (req.url ~ \"^/moved\") {{ set req.url = regsub(req.url, \"^/moved\", \"/to\"); }}
             if (req.url == \"/prefix/bare\") {{ set req.url = \"/b\"; }}
             return (pass);
         }}",
        address.ip(),
        address.port()
    );
    let site = Setup::new().file("site.vcl", vcl).name("OWN", own.address()).start(
        "server {
             listen 127.0.0.1:{PORT};
             vcl {DIR}/site.vcl;
             location / { rewrite ^/short/(.*) /a/long/$1 break; proxy_pass http://{OWN}; }
             location /prefix/ { proxy_pass http://{OWN}/inner/; }
             location /moved/ { rewrite ^/moved/(.*) /rewritten/$1 break; proxy_pass http://{OWN}; }
         }",
    );
    let path = |origin: &Origin| origin.requests().last().map(|request| request.request_line.clone()).unwrap();
    for (url, at_own, at_other) in [
        ("/plain?a=1", "/plain?a=1", "/plain?a=1"),
        ("/short/x?a=1", "/a/long/x?a=1", "/short/x?a=1"),
        ("/short/x?a=1&utm=1", "/a/long/x?a=1", "/short/x?a=1"),
        ("/prefix/x?utm=1", "/inner/x", "/prefix/x"),
        ("/prefix/bare", "/b", "/b"),
        ("/moved/x?a=1", "/to/x?a=1", "/to/x?a=1"),
        ("/%7Euser?utm=1", "/%7Euser", "/%7Euser"),
    ] {
        site.get(url);
        assert_eq!(path(&own), format!("GET {at_own} HTTP/1.1"), "{url}");
        site.ask("GET", url, "Other: 1\r\n");
        assert_eq!(path(&other), format!("GET {at_other} HTTP/1.1"), "{url}");
    }
}

#[test]
fn an_include_of_ssi_has_a_url_of_its_own() {
    let origin = Origin::start().unwrap();
    let page = r#"<!--#include virtual="/part/one" --> <!--#include virtual="/part/two?a=1" -->"#;
    origin.answer("/page", Answer::ok(page).field("Content-Type", "text/html"));
    origin.answer("*", Answer::ok("part").field("Cache-Control", "max-age=60"));
    let site = Setup::new()
        .file("site.vcl", "vcl 4.1;\nsub vcl_recv { set req.http.X-Url = req.url; }")
        .name("ORIGIN", origin.address())
        .start(
            "proxy_cache_path {DIR}/pages keys_zone=pages:1m;
             server {
                 listen 127.0.0.1:{PORT};
                 vcl {DIR}/site.vcl;
                 ssi on;
                 location / { proxy_pass http://{ORIGIN}; proxy_cache pages; }
                 location /part/ { rewrite ^ /every/part break; proxy_pass http://{ORIGIN}; proxy_cache pages; }
             }",
        );
    for _ in 0..2 {
        assert_eq!(text(&site.get("/page")), "part part");
    }
    let requests = origin.requests();
    let shown = requests.iter().map(|seen| format!("{} for {}", seen.request_line, seen.field("X-Url").unwrap_or("-")));
    let mut asked: Vec<String> = shown.collect();
    let mut expected = [
        "GET /page HTTP/1.1 for /page",
        "GET /every/part HTTP/1.1 for /part/one",
        "GET /every/part?a=1 HTTP/1.1 for /part/two?a=1",
    ];
    asked.sort_unstable();
    expected.sort_unstable();
    assert_eq!(asked, expected);
}

#[test]
fn what_an_origin_redirects_to_has_a_url_of_its_own() {
    let origin = Origin::start().unwrap();
    let sends = |to: &str| Answer::ok("").field("X-Accel-Redirect", to).field("Cache-Control", "no-store");
    let site = Setup::new()
        .file("site.vcl", "vcl 4.1;\nsub vcl_deliver { set resp.http.X-Url = req.url; }")
        .file("kept/a.txt", "that of a")
        .file("kept/b.txt", "that of b")
        .name("ORIGIN", origin.address())
        .start(
            "proxy_cache_path {DIR}/pages keys_zone=pages:1m;
             server {
                 listen 127.0.0.1:{PORT};
                 vcl {DIR}/site.vcl;
                 proxy_cache pages;
                 location / { vcl off; proxy_cache off; proxy_pass http://{ORIGIN}; }
                 location /kept/ { root {DIR}; }
             }",
        );
    for (answer, body, url) in
        [("/kept/a.txt?x=1", "that of a", "/kept/a.txt?x=1"), ("/kept/b.txt", "that of b", "/kept/b.txt")]
    {
        origin.answer("/download", sends(answer));
        for _ in 0..2 {
            let page = site.get("/download");
            assert_eq!((text(&page).as_str(), page.field("X-Url")), (body, Some(url)));
        }
    }
}

#[test]
fn no_script_of_another_location_runs() {
    let script = FastCgiOrigin::start_tcp().unwrap();
    script.answer("*", FastCgiReply::html("ran"));
    let vcl = "vcl 4.1;
        sub vcl_recv {
            set req.url = regsub(req.url, \"^/en/\", \"/\");
            if (req.http.To) { set req.url = req.http.To; }
            return (pass);
        }
        sub vcl_backend_fetch {
            if (bereq.http.Late) { set bereq.url = bereq.http.Late; }
        }";
    let site = Setup::new().name("SCRIPT", script.address()).file("site.vcl", vcl).start(
        "proxy_cache_path {DIR}/pages keys_zone=pages:1m;
         server {
             listen 127.0.0.1:{PORT};
             root {DIR};
             vcl {DIR}/site.vcl;
             fastcgi_cache pages;
             fastcgi_param SCRIPT_NAME $fastcgi_script_name;
             location / { return 200 plain; }
             location ^~ /secret/ { deny all; location ~ \\.php$ { fastcgi_pass {SCRIPT}; } }
             location ^~ /uploads/ { return 200 uploads; }
             location ~ \\.php$ { if ($request_method = POST) { fastcgi_pass {SCRIPT}; } fastcgi_pass {SCRIPT}; }
             location /front/ { try_files /none @front; }
             location @front { fastcgi_pass {SCRIPT}; }
         }",
    );
    for (method, url, to, expected) in [
        ("GET", "/a.php", "", "200 /a.php"),
        ("GET", "/en/a.php", "", "200 /a.php"),
        ("POST", "/en/a.php", "", "200 /a.php"),
        ("GET", "/secret/a.php", "", "403 -"),
        ("GET", "/en/secret/a.php", "", "404 -"),
        ("POST", "/en/secret/a.php", "", "404 -"),
        ("GET", "/a.php", "/uploads/a.jpg", "404 -"),
        ("GET", "/a.php", "/uploads/a.php", "404 -"),
        ("GET", "/front/b", "/front/c", "200 /front/c"),
        ("GET", "/front/b", "/secret/a.php", "404 -"),
        ("GET", "/a.php", "/b.php\r\nLate: /c.php", "200 /c.php"),
        ("GET", "/a.php", "/b.php\r\nLate: /secret/c.php", "404 -"),
    ] {
        let before = script.count();
        let to = if to.is_empty() { String::new() } else { format!("To: {to}\r\n") };
        let status = site.ask(method, url, &to).status;
        let requests = script.requests();
        let ran =
            if script.count() > before { requests.last().and_then(|last| last.param("SCRIPT_NAME")) } else { None };
        assert_eq!(format!("{status} {}", ran.unwrap_or("-")), expected, "{method} {url} {to}");
    }
}

#[test]
fn an_origin_behind_a_vcl_leads_elsewhere_as_without_it() {
    let origin = Origin::start().unwrap();
    let leads = |to: &str| {
        Answer::ok("its own")
            .field("X-Accel-Redirect", to)
            .field("Cache-Control", "max-age=60")
            .field("Set-Cookie", "a=b")
    };
    origin.answer("/file", leads("/kept/a.txt"));
    origin.answer("/denied", leads("/denied/a.txt"));
    origin.answer("/named", leads("@named"));
    origin.answer("/ignored", leads("/kept/a.txt"));
    let address = origin.address();
    let vcl = format!(
        "vcl 4.1;
         backend other {{ .host = \"{}\"; .port = \"{}\"; }}
         sub vcl_recv {{
             if (req.http.Other) {{ set req.backend_hint = other; }}
             if (req.http.Pass) {{ return (pass); }}
         }}
         sub vcl_deliver {{ set resp.http.X-Url = req.url; }}",
        address.ip(),
        address.port()
    );
    let site = Setup::new().file("site.vcl", vcl).file("kept/a.txt", "the file").name("OWN", address).start(
        "proxy_cache_path {DIR}/pages keys_zone=pages:1m;
         server {
             listen 127.0.0.1:{PORT};
             vcl {DIR}/site.vcl;
             proxy_cache pages;
             root {DIR};
             location / { proxy_pass http://{OWN}; }
             location /ignored { proxy_pass http://{OWN}; proxy_ignore_headers X-Accel-Redirect; }
             location /kept/ { internal; }
             location /denied/ { internal; deny all; }
             location @named { return 200 named; }
         }",
    );
    for (url, fields, expected) in [
        ("/file", "", "200 the file /kept/a.txt a=b"),
        ("/file", "Pass: 1\r\n", "200 the file /kept/a.txt a=b"),
        ("/denied", "", "403"),
        ("/named", "", "200 named - a=b"),
        ("/ignored", "Pass: 1\r\n", "200 its own /ignored a=b"),
        // What a VCL declares knows nothing of this server's locations.
        ("/file", "Other: 1\r\nPass: 1\r\n", "200 its own /file a=b"),
    ] {
        for turn in 0..2 {
            let page = site.ask("GET", url, fields);
            let seen = format!(
                "{} {} {} {}",
                page.status,
                text(&page),
                page.field("X-Url").unwrap_or("-"),
                page.field("Set-Cookie").unwrap_or("-")
            );
            assert!(seen.starts_with(expected), "{url} {fields} {turn}: {seen}");
        }
    }
}

#[test]
fn a_page_of_another_location_is_neither_seen_nor_replaced_by_a_url_that_the_vcl_sets() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("of the origin"));
    let site = Setup::new()
        .name("ORIGIN", origin.address())
        .file(
            "site.vcl",
            "vcl 4.1; sub vcl_recv { set req.url = regsub(req.url, \"^/(old|way)/\", \"/\"); }
            sub vcl_deliver { set resp.http.X-Hits = obj.hits; }",
        )
        .file("www/secret/a.txt", "a secret")
        .file("www/secret/b.txt", "a secret")
        .file("www/open/a.txt", "a file")
        .start(
            "proxy_cache_path {DIR}/pages keys_zone=pages:1m;
             server {
                 listen 127.0.0.1:{PORT};
                 set_real_ip_from 127.0.0.1; real_ip_header X-From;
                 root {DIR}/www;
                 proxy_cache pages;
                 vcl {DIR}/site.vcl;
                 location / { }
                 location /old/ { }
                 location /way/ { proxy_pass http://{ORIGIN}; }
                 location /secret/ { allow 192.0.2.1; deny all; }
             }",
        );
    let get = |path: &str, from: &str| {
        let page = site.ask("GET", path, &format!("X-From: {from}\r\n"));
        format!("{} {} {}", page.status, page.field("X-Hits").unwrap_or("-"), text(&page))
    };
    let (friend, foe) = ("192.0.2.1", "192.0.2.2");
    // What is refused stays refused to those alone who ask so.
    assert!(get("/old/secret/a.txt", foe).starts_with("404 0"));
    assert_eq!(get("/secret/a.txt", friend), "200 0 a secret");
    assert!(get("/secret/a.txt", foe).starts_with("403"));
    // What is stored is for those alone whom its location lets in.
    assert_eq!(get("/secret/b.txt", friend), "200 0 a secret");
    assert!(get("/old/secret/b.txt", foe).starts_with("404 0"));
    // Two origins have two pages, and each is kept.
    assert_eq!(get("/way/open/a.txt", foe), "200 0 of the origin");
    assert_eq!(get("/open/a.txt", foe), "200 0 a file");
    assert_eq!(get("/way/open/a.txt", foe), "200 1 of the origin");
    assert_eq!(get("/open/a.txt", foe), "200 1 a file");
}

#[test]
fn locations_that_answer_for_one_url_keep_their_pages_apart() {
    let (public, private) = (Origin::start().unwrap(), Origin::start().unwrap());
    public.answer("*", Answer::ok("public"));
    private.answer("*", Answer::ok("private"));
    let site = Setup::new()
        .name("PUBLIC", public.address())
        .name("PRIVATE", private.address())
        .file("site.vcl", "vcl 4.1; sub vcl_recv { if (req.method == \"PURGE\") { return (purge); } return (hash); }")
        .start(
            "proxy_cache_path {DIR}/pages keys_zone=pages:1m;
             proxy_cache pages;
             vcl {DIR}/site.vcl;
             server {
                 listen 127.0.0.1:{PORT};
                 server_name one;
                 if ($http_x_key = \"K\") { rewrite ^/(.*)$ /inside/$1 last; }
                 location / { proxy_pass http://{PUBLIC}; }
                 location /inside/ { internal; proxy_pass http://{PRIVATE}; }
                 location /if/ { if ($http_x_if = \"K\") { proxy_pass http://{PRIVATE}; } proxy_pass http://{PUBLIC}; }
             }
             server {
                 listen 127.0.0.1:{PORT2};
                 server_name two;
                 location / { if ($http_x_two != \"K\") { return 403; } proxy_pass http://{PRIVATE}; }
             }",
        );
    let ask = |port: bool, method: &str, path: &str, fields: &str| {
        let address = if port { site.setup().other_address() } else { site.setup().address() };
        let mut client = larder_testkit::Client::connect(address).unwrap();
        client.send(format!("{method} {path} HTTP/1.1\r\n{fields}\r\n").as_bytes()).unwrap();
        text(&client.read_response(method).unwrap())
    };
    for (key, plain) in [("Host: one\r\nX-Key: K\r\n", "Host: one\r\n"), ("Host: two\r\nX-Key: K\r\n", "Host: two\r\n")]
    {
        for first in [key, plain] {
            ask(false, "GET", "/a", first);
        }
        assert_eq!((ask(false, "GET", "/a", key), ask(false, "GET", "/a", plain)), ("private".into(), "public".into()));
    }
    let (by_if, plain) = ("Host: one\r\nX-If: K\r\n", "Host: one\r\n");
    assert_eq!(
        (ask(false, "GET", "/if/a", by_if), ask(false, "GET", "/if/a", plain)),
        ("private".into(), "public".into())
    );
    // A name of another server, at a port where it is not.
    let two = "Host: two\r\nX-Two: K\r\n";
    assert_eq!((ask(true, "GET", "/b", two), ask(false, "GET", "/b", two)), ("private".into(), "public".into()));
    let before = private.count();
    ask(false, "PURGE", "/b", two);
    assert_eq!((ask(true, "GET", "/b", two), private.count()), ("private".into(), before));
    ask(true, "PURGE", "/b", two);
    assert_eq!((ask(true, "GET", "/b", two), private.count()), ("private".into(), before + 1));
}
