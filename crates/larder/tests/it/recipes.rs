//! Recipes that people run in front of their sites, as they are written, and what they promise.

use larder_testkit::{Answer, Client, Origin, PhpFpm, Response, text_of};

use crate::site::{Setup, Site, cached, php, text};

/// The micro-cache: every page for a second, and whoever has just sent something sees it at once.
const MICRO_CACHE: &str = "
    fastcgi_cache_path {DIR}/shm levels=1:2 keys_zone=microcache:5M max_size=200M inactive=2h;
    log_format cache '$request_method $request_uri $status $upstream_cache_status $cache_uid';
    map $http_cookie $cache_uid {
        default nil;
        ~SESS[[:alnum:]]+=(?<session_id>[[:alnum:]]+) $session_id;
    }
    map $request_method $no_cache {
        default 1;
        HEAD 0;
        GET 0;
    }
    server {
        listen 127.0.0.1:{PORT};
        server_name site.test;
        access_log access.log cache;
        location ~ \\.php$ {
            try_files $uri =404;
            if ($request_method !~ ^(GET|HEAD)$) {
                set $no_cache \"1\";
            }
            if ($no_cache = \"1\") {
                add_header Set-Cookie \"_mcnc=1; Max-Age=2; Path=/\";
                add_header X-Microcachable \"0\";
            }
            if ($http_cookie ~ SESS) {
                set $no_cache \"1\";
            }
            if ($http_cookie ~* \"_mcnc\") {
                set $no_cache \"1\";
            }
            fastcgi_no_cache $no_cache;
            fastcgi_cache_bypass $no_cache;
            fastcgi_cache microcache;
            fastcgi_cache_key $scheme$host$request_uri$request_method;
            fastcgi_cache_valid any 1s;
            fastcgi_max_temp_file_size 1M;
            fastcgi_cache_use_stale updating error timeout invalid_header http_500;
            fastcgi_pass_header Set-Cookie;
            fastcgi_ignore_headers Cache-Control Expires Set-Cookie;
            {PARAMS}
            fastcgi_pass {PHP};
        }
    }";

/// Says that it is not to be cached, as PHP does with a session, and is another page each time.
const PAGE: &str =
    "<?php header('Cache-Control: no-store, no-cache'); header('Expires: Thu, 19 Nov 1981 08:52:00 GMT');
    header('Set-Cookie: seen=1; path=/'); echo $_SERVER['REQUEST_METHOD'], ' ', uniqid('', true);";

fn micro_cache() -> (PhpFpm, Site) {
    let setup = Setup::new().file("www/page.php", PAGE);
    let php = php(&setup, 2);
    let site = setup.name("PHP", format!("unix:{}", php.socket().display())).start(MICRO_CACHE);
    (php, site)
}

#[test]
fn the_micro_cache_keeps_a_page_for_a_second() {
    let (_php, site) = micro_cache();
    let mut first = site.get("/page.php");
    assert_eq!(first.status, 200);
    // Within the second the same page; on a machine that needs longer for two requests, the next two.
    let second = site.get_until("/page.php", "two requests within a second", |response| {
        let is_same = response.body == first.body;
        first = response.clone();
        is_same
    });
    assert_eq!(second.field("Set-Cookie"), Some("seen=1; path=/"), "fastcgi_pass_header hands it on");
    site.wait_for_text("access.log", "GET /page.php 200 HIT nil\n");
    let mut after = site.get("/page.php");
    crate::site::eventually("the page to expire", || {
        after = site.get("/page.php");
        after.body != second.body
    });
    assert_eq!(after.field("X-Microcachable"), None);
}

#[test]
fn the_micro_cache_never_keeps_a_post_and_remembers_who_sent_it() {
    let (_php, site) = micro_cache();
    let post = |body: &str| {
        let length = body.len();
        site.exchange(
            "POST",
            format!("POST /page.php HTTP/1.1\r\nHost: site.test\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"),
        )
    };
    let cookies = |response: &Response| -> Vec<String> {
        let fields = response.fields.iter();
        fields.filter(|(name, _)| name == "Set-Cookie").map(|(_, value)| value.clone()).collect()
    };
    let (one, two) = (post("a=b"), post("a=b"));
    assert_ne!(text(&one), text(&two));
    for response in [&one, &two] {
        assert!(text(response).starts_with("POST "));
        assert_eq!(cookies(response), ["seen=1; path=/", "_mcnc=1; Max-Age=2; Path=/"]);
        assert_eq!(response.field("X-Microcachable"), Some("0"));
    }
    site.wait_for_text("access.log", "POST /page.php 200 - nil\n");

    // With the cookie of that answer, the page is made for this visitor, and kept for nobody.
    let own: Vec<String> = (0..3).map(|_| text(&site.ask("GET", "/page.php", "Cookie: _mcnc=1\r\n"))).collect();
    assert!(own[0] != own[1] && own[1] != own[2], "{own:?}");
    site.wait_for_text("access.log", "GET /page.php 200 BYPASS nil\n");
    let other = site.get("/page.php");
    assert!(!own.contains(&text(&other)));
}

#[test]
fn the_micro_cache_lets_sessions_pass_and_names_them_in_the_log() {
    let (_php, site) = micro_cache();
    let fields = "Cookie: a=b; SESS12ab=xyz789; c=d\r\n";
    let (one, two) = (site.ask("GET", "/page.php", fields), site.ask("GET", "/page.php", fields));
    assert_ne!(text(&one), text(&two));
    site.wait_for_text("access.log", "GET /page.php 200 BYPASS xyz789\n");
}

#[test]
fn the_micro_cache_keeps_get_and_head_apart() {
    let (_php, site) = micro_cache();
    let head = site.ask("HEAD", "/page.php", "");
    assert_eq!((head.status, head.body.len()), (200, 0));
    let get = site.get("/page.php");
    assert!(text(&get).starts_with("GET "), "{}", text(&get));
}

#[test]
fn the_micro_cache_delivers_the_last_page_while_php_is_away() {
    let (php, site) = micro_cache();
    let page = site.get("/page.php");
    php.kill();
    crate::site::eventually("the page to expire", || {
        assert_eq!(site.get("/page.php").body, page.body);
        site.server().access_log().contains("GET /page.php 200 STALE nil\n")
    });
}

/// A server that answers from one zone only, so that a hit says what is in it.
const PROBE: &str = "
    server {
        listen 127.0.0.1:{PORT2};
        add_header X-Cache $upstream_cache_status;
        location / { proxy_pass http://127.0.0.1:1; proxy_cache $arg_zone; proxy_cache_key $uri; }
    }";

/// Whether `path` is in a zone.
fn is_in(site: &Site, zone: &str, path: &str) -> bool {
    let mut client = Client::connect(site.setup().other_address()).unwrap();
    let request = format!("GET {path}?zone={zone} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    client.send(request.as_bytes()).unwrap();
    let response = client.read_response("GET").unwrap();
    assert!(matches!((response.status, cached(&response)), (200, "HIT") | (502, _)), "{}", text_of(&response.body));
    response.status == 200
}

#[test]
fn films_go_to_one_disk_and_pages_to_the_other() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("something"));
    let site = Setup::new().one_worker().name("ORIGIN", origin.address()).name("PROBE", PROBE).start(&format!(
        "proxy_cache_path {{DIR}}/ssd levels=1:2 keys_zone=disk_ssd:10m max_size=100m inactive=1d use_temp_path=off;
         proxy_cache_path {{DIR}}/hdd levels=1:2 keys_zone=disk_hdd:10m max_size=1g inactive=1d use_temp_path=off;
         map $request_uri $cache {{
            ~\\.mp4 disk_hdd;
            default disk_ssd;
         }}
         server {{
            listen 127.0.0.1:{{PORT}};
            add_header X-Cache $upstream_cache_status;
            location / {{
                proxy_pass http://{{ORIGIN}};
                proxy_cache $cache;
                proxy_cache_key $uri;
                proxy_cache_valid 200 1h; proxy_cache_lock on;
            }}
         }}
         {PROBE}"
    ));
    for (path, zone, other) in
        [("/film.mp4", "disk_hdd", "disk_ssd"), ("/page", "disk_ssd", "disk_hdd"), ("/a/b.mp4", "disk_hdd", "disk_ssd")]
    {
        assert_eq!(cached(&site.get(path)), "MISS", "{path}");
        site.get_until(path, "a hit", |response| cached(response) == "HIT");
        assert!(is_in(&site, zone, path) && !is_in(&site, other, path), "{path}");
    }
    assert_eq!(origin.count(), 3);
}

#[test]
fn clients_are_split_over_two_disks_each_page_on_one() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("something"));
    let site = Setup::new().one_worker().name("ORIGIN", origin.address()).start(&format!(
        "proxy_cache_path {{DIR}}/1 levels=1:2 keys_zone=disk_1:10m max_size=100m;
         proxy_cache_path {{DIR}}/2 levels=1:2 keys_zone=disk_2:10m max_size=100m;
         split_clients $request_uri $disk {{
            50% disk_1;
            * disk_2;
         }}
         server {{
            listen 127.0.0.1:{{PORT}};
            add_header X-Cache $upstream_cache_status;
            location / {{
                proxy_pass http://{{ORIGIN}};
                proxy_cache $disk;
                proxy_cache_key $uri;
                proxy_cache_valid 200 1h; proxy_cache_lock on;
            }}
         }}
         {PROBE}"
    ));
    let mut used = [0, 0];
    for number in 0..40 {
        let path = format!("/{number}");
        site.get(&path);
        site.get_until(&path, "a hit", |response| cached(response) == "HIT");
        let places = [is_in(&site, "disk_1", &path), is_in(&site, "disk_2", &path)];
        assert_ne!(places[0], places[1], "{path} is on one disk");
        used[usize::from(places[1])] += 1;
    }
    assert_eq!(origin.count(), 40);
    assert!(used[0] > 5 && used[1] > 5, "{used:?}");
}
