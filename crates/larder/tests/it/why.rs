//! What a running server says of itself when it is asked: `larder why`.

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

/// The rows of `larder why`: how many requests, and why.
fn reasons(told: &str) -> Vec<String> {
    let rows = told.lines().skip(1).filter(|line| line.contains(" % "));
    rows.map(|line| line.split_once(" % ").unwrap().1.trim().replace("  ", " ")).collect()
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
                "1 Cache-Control: private",
                "1 Vary: user-agent (stored for other values)",
                "1 no cache in this location",
                "1 no lifetime: the answer says none, and proxy_cache_valid has none for 200",
                "1 not stored yet (URL with ?utm_source=)",
                "1 proxy_cache_bypass $arg_fresh at nginx.conf:14",
                "2 not stored yet",
                "2 proxy_cache_bypass $skip_cache at nginx.conf:14",
                "3 Set-Cookie (PHPSESSID, a)",
            ],
            "{told}"
        );
        assert!(told.starts_with("13 requests of the last 10 minutes went to an origin; hits: 1\n"), "{told}");
        assert!(told.contains("from shop.test /, such as /cart\n"), "{told}");
        assert!(told.contains("from shop.test ~ ^/api/, such as /api/x\n"), "{told}");
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
        "1 beresp.uncacheable, with Set-Cookie (PHPSESSID)".to_owned(),
        "1 hit-for-miss, then beresp.uncacheable, with Set-Cookie (PHPSESSID)".to_owned(),
        "1 not stored yet".to_owned(),
        format!("1 pass by vcl_recv at {site}:5"),
    ];
    assert_eq!(found, expected, "{told}{}", text_of(&output.stderr));
}
