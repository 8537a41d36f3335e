//! What a running server says of itself when it is asked: `larder why`, `larder explain`.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use larder_testkit::{Answer, Origin, Signal, text_of};

use crate::running_varnishd::Varnishd;
use crate::site::{Setup, Site, binary, eventually};

/// The answer of a server to these words.
fn asked(site: &Site, words: &[&str]) -> String {
    let output = site.setup().larder_words(words);
    assert!(output.status.success(), "{words:?}: {}", text_of(&output.stderr));
    text_of(&output.stdout)
}

/// The rows of `larder why`: how many requests, and why, with the place between.
fn reasons(told: &str) -> Vec<String> {
    let lines: Vec<&str> = told.lines().skip(1).collect();
    let row = |pair: &[&str]| {
        let (_, why) = pair[0].split_once(" % of misses: ").expect("a share");
        format!("{} {why}", pair[1].split_whitespace().next().expect("a count"))
    };
    lines.chunks(2).map(row).collect()
}

const SHOP: &str = "proxy_cache_path {DIR}/pages keys_zone=p:1m; proxy_cache_key $host$request_uri; proxy_cache p;
    server { listen 127.0.0.1:{PORT}; server_name shop.test;
        set $skip_cache 0;
        if ($http_cookie ~ wordpress_logged_in) { set $skip_cache 1; }
        location / { proxy_pass http://{ORIGIN}; proxy_cache_bypass $arg_fresh $skip_cache; proxy_no_cache $skip_cache; }
        location ~ ^/api/ { proxy_cache off; proxy_pass http://{ORIGIN}; }
    }";

fn shop(main: &str) -> (Site, Origin) {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page").field("Cache-Control", "max-age=100"));
    origin.answer("/cart", Answer::ok("cart").field("Set-Cookie", "PHPSESSID=1; path=/").field("Set-Cookie", "a=b"));
    origin.answer("/lang", Answer::ok("de").field("Cache-Control", "max-age=100").field("Vary", "User-Agent"));
    origin.answer("/none", Answer::ok("none"));
    origin.answer("/mine", Answer::ok("mine").field("Cache-Control", "private"));
    let site = Setup::new().main(main).name("ORIGIN", origin.address()).start(SHOP);
    (site, origin)
}

fn get(site: &Site, url: &str, fields: &str) {
    let response = site.exchange("GET", format!("GET {url} HTTP/1.1\r\nHost: shop.test\r\n{fields}\r\n"));
    assert_eq!(response.status, 200, "{url}");
}

#[test]
fn reasons_for_misses_are_counted_by_place_with_an_example() {
    for main in ["daemon off; worker_processes 2;", "daemon off; master_process off;"] {
        let (site, _origin) = shop(main);
        for _ in 0..3 {
            get(&site, "/cart", "");
        }
        get(&site, "/a", "Cookie: wordpress_logged_in_1=x\r\n");
        get(&site, "/a", "Cookie: wordpress_logged_in_1=x\r\n");
        for url in ["/page", "/page", "/page?utm_source=x", "/none", "/mine", "/page?fresh=1", "/api/x"] {
            get(&site, url, "");
        }
        get(&site, "/lang", "User-Agent: a\r\n");
        get(&site, "/lang", "User-Agent: b\r\n");
        let told = asked(&site, &["why"]);
        let mut found = reasons(&told);
        found.sort();
        assert_eq!(
            found,
            [
                "1 Cache-Control: private from shop.test /",
                "1 Vary: user-agent from shop.test / (stored for other values)",
                "1 no cache in this location from shop.test ~ ^/api/",
                "1 no lifetime: the answer says none, and proxy_cache_valid has none for 200 from shop.test /",
                "1 not stored yet from shop.test / (URL with ?utm_*=)",
                "1 proxy_cache_bypass $arg_fresh at nginx.conf:14 from shop.test /",
                "2 not stored yet from shop.test /",
                "2 proxy_cache_bypass $skip_cache at nginx.conf:14 from shop.test /",
                "3 Set-Cookie from shop.test / (PHPSESSID, a)",
            ],
            "{told}"
        );
        assert!(told.starts_with("13 requests of the last 10 minutes went to an origin; hits: 1\n"), "{told}");
        let first = " 23 % of misses: Set-Cookie from shop.test / (PHPSESSID, a)\n      3 requests, such as /cart\n";
        assert!(told.contains(first), "{told}");
        assert!(told.contains("      1 request, such as /api/x\n"), "{told}");
        let made_by = "2 requests, such as /a: cookie wordpress_logged_in_1 sets $skip_cache=1 at nginx.conf:13\n";
        assert!(told.contains(made_by), "{told}");
        let json: serde_json::Value = serde_json::from_str(&asked(&site, &["why", "--json"])).unwrap();
        assert_eq!((&json["misses"], &json["hits"]), (&13.into(), &1.into()));
        let first = &json["rows"][0];
        assert_eq!((&first["count"], &first["reason"]), (&3.into(), &"Set-Cookie (PHPSESSID, a)".into()));
    }
}

#[test]
fn the_server_is_found_by_its_configuration_or_pid_file_and_tells_nobody_else() {
    let (mut site, _origin) = shop("daemon off; worker_processes 1;");
    let socket = site.setup().path("nginx.ask");
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let pid = site.setup().path("nginx.pid").display().to_string();
    let by_pid = crate::site::run(&["why", "--pid", &pid]);
    assert!(by_pid.status.success() && text_of(&by_pid.stdout).starts_with("0 requests"), "{by_pid:?}");
    // Who connects and says nothing holds up nobody.
    let idle: Vec<_> = (0..9).map(|_| std::os::unix::net::UnixStream::connect(&socket).unwrap()).collect();
    assert!(asked(&site, &["why"]).starts_with("0 requests"));
    drop(idle);
    // It stays through a reload, and another serving process takes it over.
    site.server().signal(Signal::Hup).unwrap();
    eventually("it reloads", || site.server().error_log().contains("the new configuration holds"));
    assert!(asked(&site, &["why"]).starts_with("0 requests"));
    let serving = site.serving_process();
    larder_testkit::signal_to(serving, Signal::Kill).unwrap();
    eventually("another one serves", || site.server().children().first().is_some_and(|process| *process != serving));
    eventually("it answers", || crate::site::run(&["why", "--pid", &pid]).status.success());
    site.server().signal(Signal::Term).unwrap();
    site.server_mut().wait().unwrap();
    assert!(!socket.exists());
    let gone = crate::site::run(&["why", "--pid", &pid]);
    assert!(!gone.status.success() && text_of(&gone.stderr).contains("no server answers at"), "{gone:?}");
}

#[test]
fn the_reasons_of_a_vcl_name_sub_and_line() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page").field("Cache-Control", "max-age=100"));
    origin.answer("/cart", Answer::ok("cart").field("Set-Cookie", "PHPSESSID=1"));
    origin.answer("/short", Answer::ok("short").field("Cache-Control", "max-age=0"));
    let (host, port) = (origin.address().ip(), origin.address().port());
    let vcl = format!(
        "vcl 4.1;\nbackend default {{ .host = \"{host}\"; .port = \"{port}\"; }}\nsub vcl_recv {{\n\
         if (req.url ~ \"^/pass\") {{\n return (pass); }} }}\n"
    );
    let varnishd = Varnishd::serve(&vcl, &[]);
    for url in ["/page", "/page", "/pass", "/cart", "/cart"] {
        varnishd.ask("GET", url);
    }
    let output = Command::new(binary())
        .args(["why", "-n"])
        .arg(varnishd.folder.join("run"))
        .stdin(Stdio::null())
        .output()
        .expect("larder can be run");
    let told = text_of(&output.stdout);
    let mut found = reasons(&told);
    found.sort();
    let site = varnishd.folder.join("site.vcl").display().to_string();
    let expected = [
        "1 beresp.uncacheable, with Set-Cookie from a (PHPSESSID)".to_owned(),
        "1 hit-for-miss, then beresp.uncacheable, with Set-Cookie from a (PHPSESSID)".to_owned(),
        "1 not stored yet from a".to_owned(),
        format!("1 pass by vcl_recv at {site}:5 from a"),
    ];
    assert_eq!(found, expected, "{told}{}", text_of(&output.stderr));
}

fn explained(site: &Site, words: &[&str]) -> String {
    asked(site, &[&["explain"], words].concat())
}

/// The first line.
fn sentence(told: &str) -> &str {
    told.lines().next().unwrap_or_default()
}

#[test]
fn the_first_line_says_why_a_page_is_not_cached() {
    let (site, origin) = shop("daemon off; worker_processes 2;");
    let cookie = "Cookie: a=b; wordpress_logged_in_x=1";
    for (words, expected) in [
        (
            &["http://shop.test/page", "-H", cookie][..],
            "not cached: cookie wordpress_logged_in_x sets $skip_cache=1 at nginx.conf:13, used by proxy_cache_bypass at \
             nginx.conf:14 and proxy_no_cache at nginx.conf:14",
        ),
        (
            &["http://shop.test/page?fresh=yes"],
            "bypassed: $arg_fresh is \"yes\", used by proxy_cache_bypass at nginx.conf:14; the answer is stored if it may be",
        ),
        (&["http://shop.test/page", "-X", "POST"], "not cached: POST is not cached"),
        (&["http://shop.test/api/x"], "not cached: no cache in this location"),
        (&["http://shop.test/page"], "a miss: it is not stored; the answer is stored if it may be"),
        (&["http://shop.test/a b"], "answered with 400: client sent invalid request"),
    ] {
        let told = explained(&site, words);
        let found = sentence(&told);
        assert!(found == expected || expected.ends_with("request") && found.starts_with("answered with 400"), "{told}");
    }
    assert_eq!(origin.requests().len(), 0, "nothing is asked");
    // One that is bypassed may have been stored.
    get(&site, "/other?fresh=yes", "");
    let told = explained(&site, &["http://shop.test/page"]);
    assert_eq!(sentence(&told), "a miss: it is not stored; the answer is stored if it may be");
    let told = explained(&site, &["http://shop.test/page", "-H", cookie]);
    for part in [
        "server     shop.test, the default of this address",
        "if         ($http_cookie ~ \"wordpress_logged_in\") holds, by the cookie wordpress_logged_in_x  [nginx.conf:13]",
        "set        $skip_cache is \"1\"  [nginx.conf:13]",
        "location   /, for /page; \"~ ^/api/\" does not match",
        "key        shop.test/page",
    ] {
        assert!(told.contains(part) || part.starts_with("server"), "{part}: {told}");
    }
}

#[test]
fn a_page_that_is_there_is_described_and_asking_changes_nothing() {
    let (site, origin) = shop("daemon off; worker_processes 1;");
    get(&site, "/page", "");
    get(&site, "/lang", "User-Agent: a\r\n");
    get(&site, "/cart", "");
    let before = (asked(&site, &["why"]), origin.requests().len());
    for _ in 0..3 {
        let told = explained(&site, &["http://shop.test/page"]);
        assert!(
            sentence(&told).starts_with("a hit: stored 0 s ago, fresh for ")
                || sentence(&told).starts_with("a hit: stored "),
            "{told}"
        );
        assert!(told.contains("zone p, 1 variant in memory") && told.contains("status 200, stored "), "{told}");
    }
    let other = explained(&site, &["http://shop.test/lang", "-H", "User-Agent: b"]);
    assert!(sentence(&other).starts_with("a miss: it is stored for other values of user-agent; "), "{other}");
    assert!(other.contains("for user-agent: \"a\"; not for this request"), "{other}");
    let cart = explained(&site, &["http://shop.test/cart"]);
    assert!(sentence(&cart).starts_with("not cached: Set-Cookie (PHPSESSID, a), says the last answer, "), "{cart}");
    assert!(
        cart.contains("\nlast answer  status 200, ") && cart.contains("; it would need no Set-Cookie, or "),
        "{cart}"
    );
    assert_eq!((asked(&site, &["why"]), origin.requests().len()), before);
    let json: serde_json::Value =
        serde_json::from_str(&explained(&site, &["http://shop.test/page", "--json"])).unwrap();
    assert!(json["sentence"].as_str().unwrap().starts_with("a hit: "), "{json}");
    assert_eq!(json["rows"][1]["what"], "server");
}

#[test]
fn limits_and_questions_to_others_are_not_asked() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page").field("Cache-Control", "max-age=100"));
    let site = Setup::new().name("ORIGIN", origin.address()).start(
        "proxy_cache_path {DIR}/pages keys_zone=p:1m; limit_req_zone $host zone=r:1m rate=1r/m;
         map $http_cookie $skip { default 0; ~sess 1; }
         server { listen 127.0.0.1:{PORT}; server_name *.test; return 301 https://a.test$request_uri; }
         server { listen 127.0.0.1:{PORT}; server_name a.test;
            error_page 404 = @gone;
            location / { limit_req zone=r; auth_request /auth; proxy_cache p; proxy_no_cache $skip; proxy_cache_bypass $skip;
                proxy_pass http://{ORIGIN}; }
            location = /auth { internal; proxy_pass http://{ORIGIN}; }
            location ^~ /old/ { rewrite ^/old/(.*) /$1 last; }
            location /deny/ { deny all; }
            location /files/ { try_files $uri =404; }
            location @gone { proxy_pass http://{ORIGIN}; }
            location /drop/ { proxy_cache p; proxy_cache_purge $http_x_purge; proxy_cache_valid 1m; proxy_pass http://{ORIGIN}; }
         }",
    );
    for _ in 0..5 {
        let told = explained(&site, &["http://a.test/page"]);
        assert_eq!(sentence(&told), "a miss: it is not stored; the answer is stored if it may be");
        assert!(told.contains("limit_req") && told.contains("auth_request"), "{told}");
        assert!(told.contains("a.test, by server_name a.test, which comes before *.test\n"), "{told}");
    }
    for (words, expected) in [
        (&["http://b.test/x"][..], "answered by larder itself: 301 to https://a.test/x"),
        (&["http://a.test/deny/x"], "answered by larder itself: 403"),
        (
            &["http://a.test/drop/x", "-H", "X-Purge: 1"],
            "it purges pages, by proxy_cache_purge: this is not done in a walk",
        ),
        (&["http://a.test/files/x"], "not cached: no cache in this location"),
        (
            &["http://a.test/x", "-H", "Cookie: sessid=1; b=c"],
            "not cached: cookie sessid makes $skip=1 at nginx.conf:11, used by proxy_cache_bypass at nginx.conf:15 and \
             proxy_no_cache at nginx.conf:15",
        ),
    ] {
        let told = explained(&site, words);
        assert_eq!(sentence(&told), expected, "{told}");
    }
    let old = explained(&site, &["http://a.test/old/page"]);
    assert!(old.contains("^~ /old/, for /old/page") && old.contains("http://127.0.0.1"), "{old}");
    assert_eq!(origin.requests().len(), 0, "nothing is asked");
    assert!(!site.server().error_log().contains("access forbidden"), "nothing is logged");
    // None of them has used up the one request of the minute.
    let response = site.exchange("GET", "GET /page HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(response.status, 200);
    let wrong = site.setup().larder_words(&["explain", "/page"]);
    assert!(!wrong.status.success() && text_of(&wrong.stderr).contains("names no host"), "{wrong:?}");
}

#[test]
fn a_vcl_is_walked_through_with_its_lines() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page").field("Cache-Control", "max-age=100"));
    let (host, port) = (origin.address().ip(), origin.address().port());
    let vcl = format!(
        "vcl 4.1;\nbackend default {{ .host = \"{host}\"; .port = \"{port}\"; }}\nsub vcl_recv {{\n\
         if (req.url ~ \"^/pass\") {{\n return (pass); }}\n\
         if (req.url ~ \"^/deny\") {{\n return (synth(403, \"No\")); }}\n\
         if (req.url ~ \"^/ban\") {{\n ban(\"obj.status == 200\"); }}\n\
         if (req.method == \"PURGE\") {{\n return (purge); }} }}\n"
    );
    let varnishd = Varnishd::serve(&vcl, &[]);
    varnishd.ask("GET", "/page");
    let folder = varnishd.folder.join("run").display().to_string();
    let site = varnishd.folder.join("site.vcl").display().to_string();
    let told = |words: &[&str]| {
        let output = crate::site::run([&["explain", "-n", &folder], words].concat().iter());
        assert!(output.status.success(), "{}", text_of(&output.stderr));
        text_of(&output.stdout)
    };
    let url = |path: &str| format!("http://a{path}");
    assert_eq!(sentence(&told(&[&url("/pass")])), format!("not cached: pass by vcl_recv at {site}:5"));
    assert_eq!(
        sentence(&told(&[&url("/deny")])),
        format!("answered by the VCL itself: 403, vcl_recv: return (synth), status 403, No at {site}:7")
    );
    let page = told(&[&url("/other")]);
    assert!(sentence(&page).starts_with("a miss: it is not stored"), "{page}");
    assert!(page.contains("vcl_recv") && page.contains("return (hash)") && page.contains("return (lookup)"), "{page}");
    // Neither bans nor purges.
    let _ = (told(&[&url("/ban")]), told(&["-X", "PURGE", "http://a/page"]));
    let requests = origin.requests().len();
    varnishd.ask("GET", "/page");
    assert_eq!(origin.requests().len(), requests, "it is still there");
}

#[test]
fn chosen_visitors_are_told_with_the_response() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page").field("Cache-Control", "max-age=100"));
    origin.answer("/cart", Answer::ok("cart").field("Set-Cookie", "PHPSESSID=1"));
    let site = Setup::new().name("ORIGIN", origin.address()).start(
        "proxy_cache_path {DIR}/pages keys_zone=p:1m; proxy_cache_key $host$request_uri; larder_cache_status on;
         set_real_ip_from 127.0.0.1; real_ip_header X-Real-IP; larder_explain_from 192.0.2.0/24 2001:db8::/32;
         server { listen 127.0.0.1:{PORT}; server_name shop.test;
            set $skip_cache 0;
            if ($http_cookie ~ wordpress_logged_in) { set $skip_cache 1; }
            location / { proxy_pass http://{ORIGIN}; proxy_cache p; proxy_no_cache $skip_cache; proxy_cache_bypass $skip_cache; }
            location /off/ { larder_explain_from off; proxy_pass http://{ORIGIN}; }
         }",
    );
    let told = |url: &str, ip: &str, fields: &str| {
        let head = format!("GET {url} HTTP/1.1\r\nHost: shop.test\r\nX-Real-IP: {ip}\r\n{fields}\r\n");
        let response = site.exchange("GET", head);
        let field = |name: &str| response.field(name).unwrap_or("-").to_owned();
        (field("X-Larder-Explain"), field("Cache-Status"))
    };
    let (explained, status) = told("/page", "192.0.2.7", "");
    assert_eq!(explained, "a miss: not stored yet; the answer is stored");
    let start = "larder; fwd=uri-miss; fwd-status=200; stored; ttl=";
    let end = "; key=\"shop.test/page\"; detail=\"MISS: not stored yet\"";
    assert!(status.starts_with(start) && status.ends_with(end), "{status}");
    let hit = || told("/page", "2001:db8::1", "").0.starts_with("a hit: fresh for ");
    eventually("it is a hit", hit);
    assert!(told("/page", "192.0.2.1", "").1.ends_with("; key=\"shop.test/page\"; detail=\"HIT\""));
    let (explained, status) = told("/cart", "192.0.2.7", "");
    assert_eq!(explained, "not cached: Set-Cookie (PHPSESSID)");
    assert!(!status.contains("stored;"), "{status}");
    let (explained, _) = told("/page", "192.0.2.7", "Cookie: a=b; wordpress_logged_in_x=1\r\n");
    let expected = "not cached: cookie wordpress_logged_in_x sets $skip_cache=1 at nginx.conf:14, used by proxy_cache_bypass at \
                    nginx.conf:15 and proxy_no_cache at nginx.conf:15";
    assert_eq!(explained, expected);
    for (url, ip) in [("/page", "198.51.100.1"), ("/page", "::1"), ("/off/page", "192.0.2.7")] {
        assert_eq!(told(url, ip, "").0, "-", "{url} {ip}");
    }
}

/// What is not an origin's answer, and what is stored though the cache was not asked.
#[test]
fn a_response_that_is_larders_own_says_so() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page").field("Cache-Control", "max-age=100"));
    origin.answer("/bypass/cookie", Answer::ok("page").field("Set-Cookie", "a=b"));
    let vcl = "vcl 4.1;\nsub vcl_recv { if (req.url ~ \"no\") { return (synth(403)); } }";
    let site = Setup::new().name("ORIGIN", origin.address()).file("site.vcl", vcl).start(
        "proxy_cache_path {DIR}/pages keys_zone=p:1m; proxy_cache_key $host$request_uri; larder_explain_from 127.0.0.1;
         server { listen 127.0.0.1:{PORT};
            proxy_cache p;
            location / { proxy_pass http://{ORIGIN}; larder_cache_mode rfc9111; larder_purge_from 127.0.0.1; }
            location /deny/ { deny all; proxy_pass http://{ORIGIN}; }
            location /vcl/ { vcl {DIR}/site.vcl; proxy_pass http://{ORIGIN}; }
            location /gone/ { proxy_pass http://127.0.0.1:{PORT2}; proxy_cache off; }
            location /off/ { proxy_pass http://{ORIGIN}; proxy_cache off; }
            location /bypass/ { proxy_pass http://{ORIGIN}; proxy_cache_bypass $http_x_new; proxy_no_cache $http_x_none; }
         }",
    );
    for (method, url, fields, expected) in [
        ("GET", "/deny/", "", "answered by larder itself: 403"),
        (
            "GET",
            "/",
            "Cache-Control: only-if-cached\r\n",
            "answered by larder itself: 504, only-if-cached of the request",
        ),
        ("PURGE", "/", "", "answered by larder itself: 200"),
        ("GET", "/vcl/no", "", "answered by the VCL itself: 403"),
        ("GET", "/gone/", "", "not cached: the origin gave no answer"),
        ("GET", "/off/", "", "not cached: no cache in this location"),
        (
            "GET",
            "/bypass/",
            "X-New: 1\r\n",
            "bypassed, and stored anew: $http_x_new is \"1\", used by proxy_cache_bypass at nginx.conf:18",
        ),
        (
            "GET",
            "/bypass/cookie",
            "X-New: 1\r\n",
            "not cached: $http_x_new is \"1\", used by proxy_cache_bypass at nginx.conf:18",
        ),
        (
            "GET",
            "/bypass/",
            "X-New: 1\r\nX-None: 1\r\n",
            "not cached: $http_x_new is \"1\", used by proxy_cache_bypass at nginx.conf:18",
        ),
    ] {
        let response = site.ask(method, url, fields);
        assert_eq!(response.field("X-Larder-Explain"), Some(expected), "{method} {url} {fields}");
    }
    let told = explained(&site, &[&format!("http://{}/bypass/", site.setup().address()), "-H", "X-New: 1"]);
    let expected = "bypassed: $http_x_new is \"1\", used by proxy_cache_bypass at nginx.conf:18; the answer is stored if it may be";
    assert_eq!(sentence(&told), expected);
}

#[test]
fn who_may_purge_is_told_with_the_line() {
    let origin = Origin::start().unwrap();
    let site = Setup::new().name("ORIGIN", origin.address()).start(
        "proxy_cache_path {DIR}/pages keys_zone=p:1m; proxy_cache_key $host$request_uri;
         server { listen 127.0.0.1:{PORT}; server_name a.test;
            proxy_cache p;
            larder_purge_from 192.0.2.1 key=a-long-secret-of-32-letters-1234;
            location / { proxy_pass http://{ORIGIN}; }
            location /both/ { proxy_pass http://{ORIGIN}; proxy_cache_purge PURGE from 192.0.2.2; }
            location /ban/ { proxy_pass http://{ORIGIN}; larder_ban p BAN $http_x_ban from 192.0.2.2; }
            location ~ ^/drop(/.*) { larder_purge_from off; proxy_cache_purge p $host$1; }
         }",
    );
    let may = |ip: &str, by: &str| format!("it purges pages, as {ip} may by {by}: this is not done in a walk");
    let may_not = |ip: &str, by: &str| format!("answered by larder itself: 403, as {ip} may not {by}");
    let own = "larder_purge_from at nginx.conf:13";
    let ban = "larder_ban at nginx.conf:16";
    for (words, expected) in [
        (&["/a", "-X", "PURGE", "--from", "192.0.2.1"][..], may("192.0.2.1", own)),
        (&["/a", "-X", "PURGE", "--from", "192.0.2.9"], may_not("192.0.2.9", &format!("purge by {own}"))),
        (
            &["/a", "-X", "BAN", "--from", "192.0.2.9", "-H", "X-Larder-Key: a-long-secret-of-32-letters-1234"],
            may("192.0.2.9", own),
        ),
        (&["/both/a", "-X", "PURGE", "--from", "192.0.2.1"], may("192.0.2.1", own)),
        (&["/both/a", "-X", "PURGE", "--from", "192.0.2.2"], may("192.0.2.2", "proxy_cache_purge")),
        (&["/both/a", "-X", "PURGE", "--from", "192.0.2.3"], may_not("192.0.2.3", "purge by proxy_cache_purge")),
        (&["/ban/a", "-X", "BAN", "--from", "192.0.2.1"], may_not("192.0.2.1", &format!("ban by {ban}"))),
        (
            &["/ban/a", "-X", "BAN", "--from", "192.0.2.2", "-H", "X-Ban: obj.age > 1h"],
            format!("it bans pages of zone p, as 192.0.2.2 may by {ban}: this is not done in a walk"),
        ),
        (
            &["/ban/a", "-X", "BAN", "--from", "192.0.2.2", "-H", "X-Ban: obj.age"],
            format!("answered by larder itself: 400, by {ban}: Expected comparison operator."),
        ),
        (
            &["/drop/a", "--from", "192.0.2.9"],
            "it purges pages, by its location: this is not done in a walk".to_owned(),
        ),
    ] {
        let url = format!("http://a.test{}", words[0]);
        let told = explained(&site, &[&[&*url], &words[1..]].concat());
        assert_eq!(sentence(&told), expected, "{words:?}");
    }
    assert_eq!(origin.requests().len(), 0);
}

/// What a visitor is told is in logs of proxies and in reports of bugs.
#[test]
fn a_response_tells_no_secret_and_nothing_of_another_cache() {
    let origin = Origin::start().unwrap();
    let forged =
        |answer: Answer| answer.field("X-Larder-Explain", "a hit: forged").field("Cache-Control", "max-age=100");
    origin.answer("*", forged(Answer::ok("page")));
    let http = "proxy_cache_path {DIR}/pages keys_zone=p:1m; proxy_cache_key $host$request_uri;
         map $http_cookie $logged_in { default 0; ~sess= 1; ~bare 1; }
         server { listen 127.0.0.1:{PORT};
            proxy_cache p;
            {FROM}
            location /auth/ { proxy_pass http://{ORIGIN}; proxy_cache_bypass $http_authorization; }
            location /cookie/ { proxy_pass http://{ORIGIN}; proxy_no_cache $cookie_sess; }
            location /map/ { proxy_pass http://{ORIGIN}; proxy_no_cache $logged_in; }
            location /set/ { set $who $cookie_sess; proxy_pass http://{ORIGIN}; proxy_no_cache $who; }
            location / { proxy_pass http://{ORIGIN}; }
         }";
    let start = |from: &str| Setup::new().name("ORIGIN", origin.address()).name("FROM", from).start(http);
    let site = start("larder_explain_from 127.0.0.1;");
    let cookie = "Cookie: a=b; sess=0123456789abcdef; long=";
    let told = |url: &str, fields: &str| {
        let response = site.ask("GET", url, fields);
        let lines = response.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("X-Larder-Explain"));
        let lines: Vec<String> = lines.map(|(_, value)| value.clone()).collect();
        assert_eq!(lines.len(), 1, "{lines:?}");
        lines.concat()
    };
    for (url, fields, expected) in [
        ("/auth/", "Authorization: Bearer secret-token-1\r\n", "$http_authorization is \"Bearer ***\", used by"),
        ("/cookie/", &format!("{cookie}\r\n"), "$cookie_sess is \"***\", used by proxy_no_cache"),
        ("/map/", &format!("{cookie}\r\n"), "cookie sess makes $logged_in=1 at"),
        ("/set/", &format!("{cookie}\r\n"), "\"set\" makes $who=*** at"),
        ("/map/", "Cookie: bare-secret-token\r\n", "cookie *** makes $logged_in=1 at"),
        ("/map/", &format!("Cookie: {}sess=1\r\n", "x".repeat(4000)), "x... makes $logged_in=1 at"),
        ("/auth/", &format!("Authorization: {}\r\n", "x".repeat(6000)), "\", used by proxy_cache_bypass"),
    ] {
        let sentence = told(url, fields);
        assert!(sentence.contains(expected), "{url}: {sentence}");
        assert!(!sentence.contains("0123456789") && !sentence.contains("secret") && sentence.len() < 300, "{sentence}");
    }
    assert!(!asked(&site, &["why"]).contains("0123456789"));
    eventually("a hit", || told("/page", "").starts_with("a hit: fresh for"));
    // Without the directive it is a field like any other.
    assert_eq!(start("").get("/page").field("X-Larder-Explain"), Some("a hit: forged"));
}

#[test]
fn an_origin_that_does_not_answer_is_the_reason() {
    let site = Setup::new().start(
        "proxy_cache_path {DIR}/pages keys_zone=p:1m;
         server { listen 127.0.0.1:{PORT}; location / { proxy_cache p; proxy_pass http://127.0.0.1:{PORT2}; } }",
    );
    assert_eq!(site.get("/page").status, 502);
    assert_eq!(reasons(&asked(&site, &["why"])), ["1 the origin gave no answer from _ /"]);
}

/// Each reason once, in the words that an operator reads.
#[test]
fn each_reason_has_a_sentence() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page").field("Cache-Control", "max-age=100"));
    let answers = [
        ("/private", "Cache-Control", "private"),
        ("/no-store", "Cache-Control", "no-store"),
        ("/star", "Vary", "*"),
        ("/short", "Cache-Control", "max-age=1"),
        ("/accel", "X-Accel-Expires", "0"),
        ("/past", "Expires", "Thu, 19 Nov 1981 08:52:00 GMT"),
        ("/broken", "Cache-Control", "max-age=abc"),
    ];
    for (path, name, value) in answers {
        origin.answer(path, Answer::ok("page").field(name, value));
    }
    origin.answer("/gone", Answer::status("404 Not Found").body("gone"));
    origin.answer("/302", Answer::status("302 Found").field("Location", "/page").body(""));
    origin.answer("/saved/", Answer::ok("saved").field("X-Larder-Purge", "url=/none").field("Set-Cookie", "a=b"));
    let big = Answer::ok(vec![b'x'; 700_000]).field("Cache-Control", "max-age=100");
    origin.answer("/big", big);
    let site = Setup::new().one_worker().name("ORIGIN", origin.address()).start(
        "larder_memory 1m;
         proxy_cache_path {DIR}/pages keys_zone=p:1m max_size=2m; proxy_cache_key $host$request_uri; proxy_cache p;
         map $request_method $purges { default 0; PURGE 1; }
         server { listen 127.0.0.1:{PORT}; server_name site.test;
            location / { proxy_pass http://{ORIGIN}; proxy_cache_purge $purges; }
            location /seldom { proxy_pass http://{ORIGIN}; proxy_cache_min_uses 3; }
            location /sess { proxy_pass http://{ORIGIN}; proxy_cache_bypass $cookie_sess; proxy_no_cache $cookie_sess; }
            location /rfc/ { proxy_pass http://{ORIGIN}/; larder_cache_mode rfc9111; }
            location /saved/ { proxy_pass http://{ORIGIN}; larder_purge_by_origin on; }
         }",
    );
    site.get("/saved/");
    for url in [
        "/past",
        "/broken",
        "/private",
        "/no-store",
        "/star",
        "/accel",
        "/gone",
        "/seldom",
        "/short",
        "/page",
        "/big",
        "/rfc/302",
    ] {
        site.ask("GET", url, "");
    }
    site.ask("POST", "/page", "Content-Length: 0\r\n");
    site.ask("GET", "/sess", "Cookie: sess=1\r\n");
    site.ask("GET", "/rfc/own", "Authorization: Basic YTpi\r\n");
    site.ask("GET", "/rfc/page", "Cache-Control: no-store\r\n");
    eventually("it is purged", || {
        site.get("/page");
        site.ask("PURGE", "/page", "");
        asked(&site, &["why"]).contains("purged")
    });
    eventually("it expires", || {
        site.ask("GET", "/short", "");
        asked(&site, &["why"]).contains("expired")
    });
    let told = asked(&site, &["why"]);
    for expected in [
        "Cache-Control: private from site.test /\n",
        "Cache-Control: no-store from site.test /\n",
        "Vary: * from site.test /\n",
        "Set-Cookie from site.test /saved/ (a)\n",
        "X-Accel-Expires: 0 from site.test /\n",
        "Expires: it does not lie ahead from site.test /\n",
        "Cache-Control: max-age without whole seconds from site.test /\n",
        "no lifetime: the answer says none, and proxy_cache_valid has none for 404 from site.test /\n",
        "asked for too seldom from site.test /seldom (proxy_cache_min_uses 3)\n",
        "too large from site.test / (700000 bytes)\n",
        "POST is not cached from site.test /\n",
        "proxy_cache_bypass $cookie_sess at nginx.conf:16 from site.test /sess\n",
        "not stored yet from site.test /\n",
        "purged from site.test /\n",
        "expired from site.test /\n",
        "status 302: it says no time, and is not stored without from site.test /rfc/\n",
        "Authorization of the request: the answer does not say that others may have it from site.test /rfc/\n",
        "Cache-Control: no-store of the request from site.test /rfc/\n",
    ] {
        assert!(told.contains(&format!(" % of misses: {expected}")), "{expected}{told}");
    }
}
