//! What gives way when the whole process has little memory.

use larder_testkit::{Answer, Origin};

use crate::site::{Setup, cached, eventually, get, get_on, text};

/// More than the sockets between larder and a client who does not read take, and less than one such client has of
/// `proxy_buffers` below.
const BODY_BYTES: usize = 24 << 20;

#[test]
fn near_its_limit_nothing_is_stored_and_everybody_is_answered() {
    let origin = Origin::start().unwrap();
    origin.answer("/big", Answer::ok(vec![b'x'; BODY_BYTES]));
    for number in 0..30 {
        origin.answer(format!("/uncached/{number}").as_str(), Answer::ok("not stored"));
    }
    origin.answer("/page", Answer::ok("a page"));
    let site = Setup::new().one_worker().name("ORIGIN", origin.address()).start(
        "larder_memory_total 48m;
        proxy_cache_path {DIR}/pages keys_zone=pages:1m max_size=64m;
        server {
            listen 127.0.0.1:{PORT};
            add_header X-Cache $upstream_cache_status;
            larder_cache_status on;
            proxy_buffers 1000 64k;
            proxy_max_temp_file_size 0;
            location / { proxy_pass http://{ORIGIN}; proxy_cache pages; proxy_cache_valid 200 1h; }
            location = /big { proxy_pass http://{ORIGIN}; }
            location /uncached/ { proxy_pass http://{ORIGIN}; }
            location = /metrics { larder_metrics; }
        }",
    );
    // What waits for these clients is in memory.
    let mut slow: Vec<_> = (0..3).map(|_| site.client()).collect();
    for client in &mut slow {
        client.send(get("/big").as_bytes()).expect("larder takes requests");
    }
    site.wait_for_log("MB of 48 MB of memory are in use: ");
    eventually("nothing to be stored", || {
        text(&site.get("/metrics")).contains("larder_memory_stage{stage=\"full\"} 1\n")
    });
    for _ in 0..2 {
        let page = site.get("/page");
        assert_eq!((page.status, cached(&page)), (200, "MISS"));
        assert!(page.field("Cache-Status").is_some_and(|status| status.contains("no room")), "{page:?}");
    }
    // More than may run at once: some of them wait for others.
    let mut many: Vec<_> = (0..30).map(|_| site.client()).collect();
    for (number, client) in many.iter_mut().enumerate() {
        client.send(get(&format!("/uncached/{number}")).as_bytes()).expect("larder takes requests");
    }
    for client in &mut many {
        let answer = client.read_response("GET").expect("nobody is refused");
        assert_eq!((answer.status, text(&answer).as_str()), (200, "not stored"));
        assert_eq!(get_on(client, "/uncached/0").status, 200);
    }
    for client in &mut slow {
        let answer = client.read_response("GET").expect("it comes whole");
        assert_eq!((answer.status, answer.body.len()), (200, BODY_BYTES));
    }
    site.get_until("/page", "pages to be stored again", |page| cached(page) == "HIT");
}
