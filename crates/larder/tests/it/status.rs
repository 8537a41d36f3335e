//! `stub_status`, and `status_zone` with what is counted by it.

use larder_testkit::{Answer, Http2Client, Origin};

use crate::site::{Setup, cached, get, get_on, text};

/// The lines of metrics that begin so.
fn lines(page: &str, begin: &str) -> Vec<String> {
    page.lines().filter(|line| line.starts_with(begin)).map(str::to_owned).collect()
}

const SITE: &str = "proxy_cache_path {DIR}/pages keys_zone=pages:1m;
    server {
        listen 127.0.0.1:{PORT};
        http2 on;
        status_zone shop;
        add_header X-Cache $upstream_cache_status;
        location / { proxy_pass http://{ORIGIN}; proxy_cache pages; proxy_cache_valid 200 1h; status_zone pages; }
        location /moved { status_zone moved; rewrite ^ /page last; }
        location /gone { status_zone gone; return 410; }
        location /nothing { status_zone nothing; return 444; }
        location = /metrics { larder_metrics; }
        MORE
    }";

#[test]
fn requests_are_counted_by_status_zone() {
    let origin = Origin::start().unwrap();
    origin.answer("/page", Answer::ok("a page"));
    let site = Setup::new().one_worker().name("ORIGIN", origin.address()).start(&SITE.replace("MORE", ""));
    for (path, status) in [("/page", "MISS"), ("/page", "HIT"), ("/moved", "HIT")] {
        assert_eq!(cached(&site.get(path)), status);
    }
    assert_eq!(site.get("/gone").status, 410);
    let mut client = site.client();
    client.send(get("/nothing").as_bytes()).unwrap();
    assert_eq!(client.read_to_end().unwrap(), b"");
    let mut client = Http2Client::connect(site.setup().address()).unwrap();
    assert_eq!(client.get("/page").unwrap().status, 200);

    let page = text(&site.get("/metrics"));
    for (of, zone, requests, processing, ok, gone, discarded) in [
        ("server", "shop", 7, 1, 4, 1, 1),
        // Where the request ended, and not where it began.
        ("location", "pages", 4, 0, 4, 0, 0),
        ("location", "moved", 0, 0, 0, 0, 0),
        ("location", "gone", 1, 0, 0, 1, 0),
        ("location", "nothing", 1, 0, 0, 0, 1),
    ] {
        let labels = format!("of=\"{of}\",zone=\"{zone}\"");
        for line in [
            format!("larder_status_zone_requests_total{{{labels}}} {requests}"),
            format!("larder_status_zone_processing{{{labels}}} {processing}"),
            format!("larder_status_zone_responses_total{{{labels},status=\"2xx\"}} {ok}"),
            format!("larder_status_zone_responses_total{{{labels},status=\"4xx\"}} {gone}"),
            format!("larder_status_zone_discarded_total{{{labels}}} {discarded}"),
        ] {
            assert!(page.lines().any(|told| told == line), "{line} in\n{page}");
        }
    }
    for (name, labels, count) in [
        ("larder_request_seconds", "zone=\"pages\",verdict=\"hit\"", 3),
        ("larder_request_seconds", "zone=\"pages\",verdict=\"miss\"", 1),
        ("larder_request_seconds", "zone=\"\",verdict=\"none\"", 1),
        ("larder_status_zone_request_seconds", "of=\"server\",zone=\"shop\",verdict=\"hit\"", 3),
        ("larder_status_zone_request_seconds", "of=\"location\",zone=\"pages\",verdict=\"miss\"", 1),
    ] {
        assert_eq!(lines(&page, &format!("{name}_count{{{labels}}}")), [format!("{name}_count{{{labels}}} {count}")]);
        let last = format!("{name}_bucket{{{labels},le=\"+Inf\"}} {count}");
        assert!(page.contains(&last), "{last} in\n{page}");
    }
    let sent = lines(&page, "larder_status_zone_sent_bytes_total{of=\"location\",zone=\"gone\"}");
    assert!(sent.iter().all(|line| !line.ends_with(" 0")) && sent.len() == 1, "{sent:?}");
}

#[test]
fn counts_go_on_through_a_reload_and_end_with_their_zone() {
    let origin = Origin::start().unwrap();
    origin.answer("/page", Answer::ok("a page"));
    let site = Setup::new().one_worker().name("ORIGIN", origin.address()).start(&SITE.replace("MORE", ""));
    site.get("/page");
    site.get("/gone");
    let requests = |zone: &str| {
        lines(
            &text(&site.get("/metrics")),
            &format!("larder_status_zone_requests_total{{of=\"location\",zone=\"{zone}\"}} "),
        )
    };
    let is = |zone: &str, count: u32| {
        assert_eq!(
            requests(zone),
            [format!("larder_status_zone_requests_total{{of=\"location\",zone=\"{zone}\"}} {count}")]
        );
    };
    site.change_to(&SITE.replace("MORE", "location /new { status_zone gone; return 200; }"));
    is("gone", 1);
    site.get("/new");
    is("gone", 2);
    let without = SITE.replace("MORE", "").replace("status_zone gone;", "");
    site.change_to(&without);
    assert_eq!(requests("gone"), [""; 0]);
    is("pages", 1);
    site.change_to(&SITE.replace("MORE", ""));
    is("gone", 0);
}

#[test]
fn stub_status_is_nginxs_to_the_byte() {
    let site = Setup::new().one_worker().start("server { listen 127.0.0.1:{PORT}; location /status { stub_status; } }");
    let (mut first, mut second) = (site.client(), site.client());
    get_on(&mut first, "/status");
    let mut told = || {
        let page = get_on(&mut second, "/status");
        assert_eq!(page.field("Content-Type"), Some("text/plain"));
        text(&page)
    };
    let numbers = |page: &str| -> Vec<u64> { page.split([' ', '\n']).filter_map(|word| word.parse().ok()).collect() };
    let page = told();
    // Whoever waited for the server to start has connected, too.
    let [active, accepted, handled, requests, ..] = numbers(&page)[..] else { panic!("{page}") };
    let expected = |requests: u64| {
        format!(
            "Active connections: 2 \nserver accepts handled requests\n {accepted} {accepted} {requests} \n\
             Reading: 0 Writing: 1 Waiting: 1 \n"
        )
    };
    assert_eq!((active, handled, page), (2, accepted, expected(requests)));
    assert_eq!(told(), expected(requests + 1));
}
