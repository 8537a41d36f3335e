//! The dashboard of `larder_status`, in a real browser while a known load runs, and in a terminal by `larder top`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use larder_testkit::{Answer, Browser, Origin, PhpFpm, PhpFpmOptions, RaiseOnDrop, Redis, text_of};
use serde_json::Value;

use crate::site::{Setup, Site, cached, eventually, text};

const SITE: &str = "
    proxy_cache_path {DIR}/pages keys_zone=pages:8m max_size=64m;
    upstream php { server {ORIGIN}; larder_gate 4; }
    server {
        listen 127.0.0.1:{PORT};
        server_name shop.test site.test;
        add_header X-Cache $upstream_cache_status;
        location / { proxy_pass http://php; proxy_cache pages; proxy_cache_key $host$request_uri; proxy_cache_valid 200 1h; }
        location /status { larder_status; }
        location = /metrics { larder_metrics; }
        location = /broken { return 500; }
    }";

fn start() -> (Site, Origin) {
    let origin = origin();
    let site = Setup::new().name("ORIGIN", origin.address()).start(SITE);
    (site, origin)
}

fn origin() -> Origin {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page"));
    origin.answer("/cart", Answer::ok("cart").field("Set-Cookie", "PHPSESSID=1"));
    origin
}

/// What a browser sends for a page.
const HTML: &str = "Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n";

#[test]
fn browsers_get_the_page_and_programs_the_json() {
    let (site, _origin) = start();
    let page = site.ask("GET", "/status", HTML);
    assert_eq!((page.status, page.field("Content-Type")), (200, Some("text/html; charset=utf-8")));
    let policy = page.field("Content-Security-Policy").unwrap_or_default();
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
    assert!(policy.contains("; script-src 'sha256-") && !policy.contains("unsafe"), "{policy}");
    let json = site.get("/status");
    assert_eq!(text(&json), "[1,2,3,4,5,6,7,8,9]");
    for answer in [&page, &json] {
        assert_eq!((answer.field("Cache-Control"), answer.field("Vary")), (Some("no-store"), Some("Accept")));
    }
    eventually("what was counted", || {
        let now: Value = serde_json::from_str(&text(&site.get("/status/api/larder/1/now"))).unwrap();
        now["requests"]["per_second"].is_number()
    });
    site.get_until("/page", "the page to be stored", |response| cached(response) == "HIT");
    eventually("how long the disk took", || {
        let now: Value = serde_json::from_str(&text(&site.get("/status/api/larder/1/now"))).unwrap();
        let disk = &now["zones"][1];
        assert!(
            disk["name"].as_str().is_some_and(|name| name.ends_with("/pages")) && disk["read"].is_object(),
            "{disk}"
        );
        disk["write"]["p99"].as_f64() > Some(0.0) && disk["written_per_second"].as_f64() > Some(0.0)
    });
    let hour: Value = serde_json::from_str(&text(&site.get("/status/api/larder/1/hour"))).unwrap();
    assert_eq!(hour["requests"].as_array().map(Vec::len), Some(360));
    let mut client = site.client();
    client.send(b"GET /status/api/larder/1/live HTTP/1.0\r\nHost: shop.test\r\n\r\n").unwrap();
    let mut told = Vec::new();
    while !told.ends_with(b"data: ") {
        told.extend(client.read_bytes(1).unwrap());
    }
    assert!(text_of(&told).contains("\r\n\r\nretry: 100\ndata: "), "{}", text_of(&told));
    let explained = text(&site.get("/status/api/larder/1/explain?url=http%3A%2F%2Fshop.test%2Fcart"));
    assert!(explained.starts_with("a miss") && explained.contains("/cart"), "{explained}");
    for (query, status) in [("url=", 400), ("url=ftp://a/", 400), ("", 400)] {
        assert_eq!(site.get(&format!("/status/api/larder/1/explain?{query}")).status, status, "{query}");
    }
    let metrics = text(&site.get("/metrics"));
    assert!(metrics.contains("\nlarder_disk_write_seconds_count{zone=\"pages\",path="), "{metrics}");
    assert_eq!(site.ask("POST", "/status/api/larder/1/live", "Content-Length: 0\r\n").status, 405);
}

#[test]
fn an_explanation_over_http_tells_nothing_of_other_visitors_and_no_value_of_the_configuration() {
    let origin = Origin::start().unwrap();
    let page = Answer::ok("page").field("Cache-Control", "max-age=100").field("Vary", "Cookie, Authorization");
    origin.answer("*", page);
    let site = Setup::new().name("ORIGIN", origin.address()).start(
        "proxy_cache_path {DIR}/pages keys_zone=p:1m;
         map $uri $tier { /map map-literal; default \"\"; }
         server {
             listen 127.0.0.1:{PORT}; server_name site.test; set $mytoken \"set-literal\"; set $long \"$mytoken-$uri\";
             location /api { larder_status; }
             location / {
                 if ($arg_key != \"compared-literal\") { set $no_key 1; }
                 proxy_pass http://{ORIGIN}; proxy_cache p; proxy_cache_key $host$uri$long$tier; add_header X-Cache $upstream_cache_status;
             }
             location /guarded { proxy_pass http://{ORIGIN}; proxy_cache p; proxy_cache_bypass $long; }
         }",
    );
    let victim = "Cookie: PHPSESSID=victim-session; csrf=abc\r\nAuthorization: Bearer victims-token\r\n";
    for path in ["/page", "/map"] {
        eventually("it is stored", || cached(&site.ask("GET", path, victim)) == "HIT");
    }
    for path in ["/page", "/map", "/guarded"] {
        let told = text(&site.get(&format!("/api/larder/1/explain?url=http://site.test{path}&cookie=own=mine")));
        for secret in ["victim", "csrf", "abc", "set-literal", "map-literal", "compared-literal"] {
            assert!(!told.contains(secret), "{secret} in\n{told}");
        }
        assert!(told.contains("***"), "{told}");
        let output = site.setup().larder_words(&["explain", &format!("http://site.test{path}")]);
        let told = text_of(&output.stdout);
        assert!(told.contains("$mytoken is \"set-literal\""), "at the private socket all is told:\n{told}");
        assert_eq!(told.contains("victim-session"), path != "/guarded", "{told}");
    }
}

/// The events of a stream, by their times.
fn events(site: &Site, is_over: &AtomicBool) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    let mut client = site.client();
    client.send(b"GET /status/api/larder/1/live HTTP/1.0\r\nHost: shop.test\r\n\r\n").unwrap();
    let mut event = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        match client.read_bytes(1) {
            Ok(byte) if !byte.is_empty() => event.extend(byte),
            _ => break,
        }
        if event.ends_with(b"\n\n") {
            let told = String::from_utf8_lossy(&event).into_owned();
            if let Some((_, data)) = told.split_once("data: ") {
                let value: Value = serde_json::from_str(data).unwrap();
                all.insert(value["time"].to_string(), value);
            }
            event.clear();
        }
    }
    all
}

/// All numbers of the page, and their moment.
const NUMBERS: &str = "JSON.stringify([document.body.dataset.time, Object.fromEntries(Array.from(\
     document.querySelectorAll('[data-key]'), place => [place.dataset.key, place.dataset.value]))])";

#[test]
fn the_page_shows_the_numbers_of_the_json_while_a_load_runs() {
    let (origin, redis) = (origin(), Redis::start(&[]));
    let [site, _other] = ["web1", "web2"].map(|node| {
        let http = format!("larder_cluster redis://127.0.0.1:{} name=shop node={node};{SITE}", redis.port());
        Setup::new().name("ORIGIN", origin.address()).start(&http)
    });
    let address = site.setup().address();
    site.get_until("/page", "the page to be stored", |response| cached(response) == "HIT");
    let is_over = AtomicBool::new(false);
    let browser = Browser::start();
    thread::scope(|scope| {
        let over = RaiseOnDrop(&is_over);
        let events = scope.spawn(|| events(&site, &is_over));
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                for path in ["/page", "/page", "/page", "/cart", "/broken", "/none/"] {
                    site.get(path);
                }
                thread::sleep(Duration::from_millis(20));
            }
        });
        browser.open(&format!("http://{address}/status"));
        let is_live = || browser.says("document.getElementById('state').textContent") == "live";
        eventually("the stream", is_live);
        eventually("rates of some seconds", || {
            browser.says("document.body.dataset.time > 0 && Number(document.querySelector('[data-key=\"cache.share\"]').dataset.value) > 0.3") == "true"
        });
        eventually("rows", || browser.has("#costly tbody button") && browser.has("#nodes tbody tr + tr"));
        let mut shown = Vec::new();
        for _ in 0..4 {
            shown.push(browser.says(NUMBERS));
            thread::sleep(Duration::from_millis(700));
        }
        by_keyboard(&browser);
        pictures(&browser);
        drop(over);
        let events = events.join().unwrap();
        let mut compared = 0;
        for shown in shown {
            let shown: Value = serde_json::from_str(&shown).unwrap();
            let Some(event) = events.get(shown[0].as_str().unwrap_or_default()) else { continue };
            for (key, value) in shown[1].as_object().unwrap() {
                let told = key.split('.').fold(event, |value, name| &value[name]);
                let told = match told {
                    Value::Null => String::new(),
                    Value::String(text) => text.clone(),
                    number => number.to_string(),
                };
                let value = value.as_str().unwrap_or_default();
                let numbers = value.parse::<f64>().ok().zip(told.parse::<f64>().ok());
                // The reader of JSON here is off by a last digit now and then.
                let same = numbers.map_or(value == told, |(page, told)| (page - told).abs() <= told.abs() * 1e-12);
                assert!(same, "{key}: the page has {value}, the JSON {told}");
                compared += 1;
            }
        }
        assert!(compared > 20, "{compared} numbers were compared");
    });
    assert_eq!(browser.console(), [""; 0]);
}

/// What can be used is reached by Tab, and works.
fn by_keyboard(browser: &Browser) {
    let (tab, enter) = ("\u{e004}", "\u{e007}");
    let mut reached = Vec::new();
    for _ in 0..12 {
        browser.press(tab);
        reached.push(browser.says("document.activeElement.id || document.activeElement.textContent"));
    }
    for wanted in ["theme", "Explain", "url", "cookie"] {
        assert!(reached.iter().any(|one| one == wanted), "{wanted} in {reached:?}");
    }
    browser.fill("#url", "http://shop.test/cart");
    browser.press(enter);
    eventually("the explanation", || {
        browser.says("document.getElementById('explained').textContent").contains("location")
    });
    assert!(browser.says("document.getElementById('explained').textContent").contains("Set-Cookie"));
    browser.fill("#url", "x");
    browser.click("#costly tbody button[aria-label$='/cart']");
    eventually("the explanation of a row", || {
        browser.says("document.getElementById('explained').textContent").contains("Set-Cookie")
            && browser.says("document.getElementById('url').value").ends_with("/cart")
    });
}

/// On a phone nothing is wider than the window. With `UPDATE_PICTURES` the pictures of the manual are made anew, with some minutes
/// in the graphs.
fn pictures(browser: &Browser) {
    let is_to_write = std::env::var_os("UPDATE_PICTURES").is_some();
    if is_to_write {
        thread::sleep(Duration::from_secs(150));
    }
    browser.resize(390, 844);
    eventually("a narrow window", || browser.says("innerWidth < 600") == "true");
    let width = browser.says("document.documentElement.scrollWidth <= innerWidth");
    assert_eq!(width, "true", "{}", browser.says("document.documentElement.scrollWidth + ' ' + innerWidth"));
    browser.resize(1280, 2300);
    eventually("a wide window", || browser.says("innerWidth > 1000") == "true");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/img");
    for name in ["light", "dark"] {
        browser.says(&format!("document.documentElement.dataset.theme = '{name}'"));
        let picture = STANDARD.decode(browser.picture()).expect("it is base64");
        assert!(picture.starts_with(b"\x89PNG"), "a picture");
        if is_to_write {
            fs::write(folder.join(format!("dashboard-{name}.png")), picture).unwrap();
        }
    }
}

#[test]
fn a_cache_that_is_too_small_is_an_alarm() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("x".repeat(16_000)));
    let site = Setup::new().name("ORIGIN", origin.address()).start(
        "proxy_cache_path {DIR}/small keys_zone=small:1m larder_disk=off max_size=1m;
         server {
             listen 127.0.0.1:{PORT}; server_name site.test;
             location / { proxy_pass http://{ORIGIN}; proxy_cache small; proxy_cache_valid 200 1h; }
             location /status { larder_status; }
             location = /metrics { larder_metrics; }
         }",
    );
    let now = || serde_json::from_str::<Value>(&text(&site.get("/status/api/larder/1/now"))).unwrap();
    assert_eq!(now()["alarms"], Value::Array(Vec::new()));
    eventually("the alarm", || {
        (0..75).for_each(|number| drop(site.get(&format!("/{number}"))));
        let alarms = now()["alarms"].to_string();
        alarms.contains("small: memory is too small: ")
    });
    assert!(now()["zones"][0]["evicted_wanted"].as_u64() > Some(10), "{}", now()["zones"]);
    let caches: Value = serde_json::from_str(&text(&site.get("/status/api/larder/1/caches/small"))).unwrap();
    assert!(caches["memory"]["evicted_wanted"].as_u64() > Some(10), "{caches}");
    let metrics = text(&site.get("/metrics"));
    assert!(metrics.contains("larder_cache_memory_evicted_wanted_total{zone=\"small\"} "), "{metrics}");
    let shown = text_of(&site.setup().larder_words(&["top"]).stdout);
    assert!(shown.contains("\nALARM      small: memory is too small: "), "{shown}");
}

#[test]
fn who_waits_at_a_gate_is_shown_and_who_found_no_turn_is_an_alarm() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page"));
    let http = SITE.replace("larder_gate 4;", "larder_gate 1 queue=1;").replace("proxy_cache pages;", "");
    let site = Setup::new().name("ORIGIN", origin.address()).start(&http);
    let now = || serde_json::from_str::<Value>(&text(&site.get("/status/api/larder/1/now"))).unwrap();
    let gate = || now()["gates"][0].clone();
    eventually("the gate", || gate()["overflows_per_second"].is_number());
    assert_eq!(
        gate(),
        serde_json::json!({ "group": "php", "state": "open", "running": 0, "limit": 1, "waiting": 0,
        "classes": {}, "queue_max": 1, "overflows_per_second": 0.0 })
    );
    let hold = origin.hold("/held");
    let browser = Browser::start();
    thread::scope(|scope| {
        scope.spawn(|| site.get("/held"));
        eventually("one at the origin", || gate()["running"] == 1);
        scope.spawn(|| site.ask("GET", "/held", "Cookie: PHPSESSID=1\r\n"));
        eventually("one that waits", || gate()["classes"] == serde_json::json!({ "high": 1 }));
        assert_eq!(site.get("/held").status, 503);
        eventually("the rate of overflows", || gate()["overflows_per_second"].as_f64() > Some(0.0));
        let shown = text_of(&site.setup().larder_words(&["top"]).stdout);
        assert!(shown.contains("\nqueue            1      1        1  php, 1 high, 0."), "{shown}");
        assert!(shown.contains("\nALARM      php: 1 requests of the last minute found no turn at the gate"), "{shown}");
        browser.open(&format!("http://{}/status", site.setup().address()));
        eventually("the row", || browser.says("document.querySelector('#gates tbody').innerText").contains("1 high"));
        drop(hold);
    });
}

const PHP_SITE: &str = "
    server {
        listen 127.0.0.1:{PORT}; server_name site.test;
        fastcgi_param SCRIPT_FILENAME {DIR}/www$uri;
        fastcgi_param REQUEST_METHOD $request_method;
        location / { fastcgi_pass unix:{PHP}; larder_php_status {STATUS_PATH}; }
        location /status { larder_status; }
        location = /metrics { larder_metrics; }
    }";

#[test]
fn how_busy_php_is_is_shown_while_somebody_watches() {
    let held = "<?php while (!file_exists(__DIR__ . '/end')) { usleep(10000); clearstatcache(); }";
    let setup = Setup::new().file("www/held.php", held);
    let options = PhpFpmOptions {
        children: 3,
        pool_lines: "pm.status_path = /fpm-status\n".to_owned(),
        ..PhpFpmOptions::new(setup.path("www"))
    };
    let php = PhpFpm::start(&options).unwrap();
    let site = setup.name("PHP", php.socket().display()).name("STATUS_PATH", "/fpm-status").start(PHP_SITE);
    let told = || {
        let now: Value = serde_json::from_str(&text(&site.get("/status/api/larder/1/now"))).unwrap();
        now["origins"][0]["php"].clone()
    };
    assert!(told()["busy"].is_null() && told().is_object(), "nobody watched yet");
    eventually("a pool at rest", || (told()["busy"].as_u64(), told()["children"].as_u64()) == (Some(0), Some(3)));
    thread::scope(|scope| {
        scope.spawn(|| site.get("/held.php"));
        // Whatever comes, the script ends.
        let _end = EndOf(site.setup().path("www/end"));
        eventually("a child at work", || told()["busy"].as_u64() == Some(1));
    });
    assert!(told()["waiting"].is_null(), "php-fpm does not know it of a Unix socket");
    let metrics = text(&site.get("/metrics"));
    assert!(metrics.contains("\nlarder_php_children{group=\"unix:"), "{metrics}");
    let shown = text_of(&site.setup().larder_words(&["top"]).stdout);
    assert!(shown.contains(" of 3 children busy, - waiting"), "{shown}");
}

/// Makes a file at its end.
struct EndOf(std::path::PathBuf);

impl Drop for EndOf {
    fn drop(&mut self) {
        let _ = fs::write(&self.0, "");
    }
}

#[test]
fn a_status_page_that_is_not_there_is_unknown_and_not_logged() {
    let setup = Setup::new().file("www/index.php", "");
    let php = PhpFpm::start(&PhpFpmOptions::new(setup.path("www"))).unwrap();
    let site = setup.name("PHP", php.socket().display()).name("STATUS_PATH", "/none").start(PHP_SITE);
    let now = || serde_json::from_str::<Value>(&text(&site.get("/status/api/larder/1/now"))).unwrap();
    let began = now()["time"].as_f64().unwrap();
    eventually("two questions", || now()["time"].as_f64() > Some(began + 5.0));
    let php = now()["origins"][0]["php"].clone();
    assert!(php.is_object() && php["busy"].is_null() && php["exhausted"].is_null(), "{php}");
    assert_eq!(site.server().error_log().matches("[error]").count(), 0);
}

#[test]
fn the_same_is_shown_in_a_terminal() {
    let (site, _origin) = start();
    site.get_until("/page", "the page to be stored", |response| cached(response) == "HIT");
    let told = |options: &[&str]| {
        let output = site.setup().larder_words(&[&["top"], options].concat());
        assert!(output.status.success(), "{}", text_of(&output.stderr));
        text_of(&output.stdout)
    };
    eventually("rates", || {
        let now: Value = serde_json::from_str(&told(&["--json"])).unwrap();
        now["requests"]["per_second"].is_number() && now["requests"]["total"].as_u64() >= Some(2)
    });
    let shown = told(&[]);
    for line in ["requests/s ", "from cache ", "STATE         BUSY   MOST FAILURES  ORIGIN\nup ", "  pages\n"] {
        assert!(shown.contains(line), "{line:?} in\n{shown}");
    }
    assert!(shown.contains("not stored yet, shop.test /, /page"), "{shown}");
    let wrong = site.setup().larder_words(&["top", "--all"]);
    assert!(text_of(&wrong.stderr).contains("\"larder top -h\" shows what can be asked for"));
}
