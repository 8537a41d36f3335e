//! `larder_metrics`.

use larder_testkit::{Answer, Origin};

use crate::site::{Setup, cached, eventually, text};

#[test]
fn what_the_caches_count_is_told_to_prometheus() {
    let origin = Origin::start().unwrap();
    for path in ["/a", "/b"] {
        origin.answer(path, Answer::ok("a page"));
    }
    let site = Setup::new().one_worker().name("ORIGIN", origin.address()).start(
        "proxy_cache_path {DIR}/pages keys_zone=pages:1m max_size=64m;
        proxy_cache_path {DIR}/none keys_zone=memory:1m larder_disk=off;
        server {
            listen 127.0.0.1:{PORT};
            add_header X-Cache $upstream_cache_status;
            location / { proxy_pass http://{ORIGIN}; proxy_cache pages; proxy_cache_valid 200 1h; }
            location = /metrics { larder_metrics; }
        }",
    );
    for (path, status) in [("/a", "MISS"), ("/a", "HIT"), ("/a", "HIT"), ("/b", "MISS")] {
        assert_eq!(cached(&site.get(path)), status);
    }
    let disk = format!("zone=\"pages\",path=\"{}\"", site.setup().path("pages").display());
    let told = || {
        let page = site.get("/metrics");
        assert_eq!(page.field("Content-Type"), Some("text/plain; version=0.0.4; charset=utf-8"));
        text(&page)
    };
    let written = format!("larder_disk_pages_stored_total{{{disk},kind=\"new\"}} 2\n");
    eventually("both to be on disk", || told().contains(&written));
    let page = told();
    for line in [
        "# TYPE larder_cache_lookups_total counter",
        "larder_cache_lookups_total{zone=\"pages\",result=\"hit\"} 2",
        "larder_cache_lookups_total{zone=\"pages\",result=\"miss\"} 2",
        "larder_cache_lookups_total{zone=\"memory\",result=\"hit\"} 0",
        "larder_cache_responses_total{zone=\"pages\",outcome=\"stored\"} 2",
        "larder_cache_entries{zone=\"pages\"} 2",
        &format!("larder_disk_state{{{disk},state=\"serving\"}} 1"),
        &format!("larder_disk_bytes_max{{{disk}}} {}", 64 << 20),
        &format!("larder_disk_pages{{{disk}}} 2"),
        &format!("larder_disk_pages_skipped_total{{{disk},lack=\"time\"}} 0"),
        "larder_connections{state=\"writing\"} 1",
    ] {
        assert_eq!(page.lines().filter(|&told| told == line).count(), 1, "{line} in\n{page}");
    }
    assert!(!page.contains("zone=\"memory\",path="), "{page}");
    // Each metric has its kind once, before its values.
    let kinds: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let mut told: Vec<&str> =
        page.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split(['{', ' ']).next()).collect();
    // A histogram has three names.
    let histogram = |name: &str| {
        kinds.iter().find(|kind| page.contains(&format!("# TYPE {kind} histogram")) && name.starts_with(*kind))
    };
    told.iter_mut().for_each(|name| *name = histogram(name).copied().unwrap_or(name));
    told.dedup();
    assert_eq!(kinds, told);
    assert_eq!(site.ask("POST", "/metrics", "Content-Length: 0\r\n").status, 405);
}
