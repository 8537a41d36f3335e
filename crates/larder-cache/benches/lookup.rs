//! What a lookup costs: `cargo bench -p larder-cache`.
//!
//! A hit of a hot page is to stay below 100 ns, and with two threads on one page to cost each what it costs
//! one alone. The numbers are processor time of the thread, so that other work on the machine adds little.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use larder_cache::{
    FormState, Front, Hold, KeyRef, NewForm, Object, Rules, VaryKey, Verdict, Zone, ZoneLimits, selecting,
};
use larder_http::{Coding, Fields, Time};

fn main() {
    let limits = ZoneLimits { bytes_max: 1 << 30, inactive: Duration::from_secs(600) };
    let zone = Zone::new("bench", limits);
    let keys: Vec<String> = (0..PAGES).map(|n| format!("httpsGETexample.org/category/page-{n}.html")).collect();
    let before = resident_bytes();
    for key in &keys {
        store(&zone, key, "");
    }
    println!(
        "a page of 1000 bytes                counts for {}, takes {}",
        zone.stats().bytes / PAGES as u64,
        resident_bytes().saturating_sub(before) / PAGES as u64,
    );
    store(&zone, VARIED, "Accept-Encoding");
    let one = &keys[..1];
    measure("one hot page", &zone, one, 1);
    measure("one hot page, 2 threads", &zone, one, 2);
    measure("one hot page with Vary", &zone, &[VARIED.to_owned()], 1);
    make_form(&zone, VARIED);
    measure("one hot page with Vary, its gzip form", &zone, &[VARIED.to_owned()], 1);
    measure("1000 pages in turn", &zone, &keys[..1000], 1);
    measure("100000 pages in turn", &zone, &keys, 1);
    measure("100000 pages in turn, 2 threads", &zone, &keys, 2);
}

fn request() -> Fields {
    let mut fields = Fields::new();
    for (name, value) in [
        ("Host", "example.org"),
        ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"),
        ("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
        ("Accept-Language", "en-US,en;q=0.5"),
        ("Accept-Encoding", "gzip, deflate, br, zstd"),
        ("Cookie", "_ga=GA1.1.111111111.1700000000"),
    ] {
        fields.push(name.as_bytes(), value.as_bytes());
    }
    fields
}

fn store(zone: &Arc<Zone>, key: &str, vary: &str) {
    let mut front = Front::new();
    let request = request();
    let key = KeyRef::new(key.as_bytes());
    let verdict = zone.lookup(&mut front, &key, &selecting(&request), &Rules::default(), NOW);
    let Verdict::Miss(Some(mut permit)) = verdict else {
        return;
    };
    let (mut writer, body) = zone.body(b"key", Some(1000), None);
    let mut fields = Fields::new();
    fields.push(b"Vary", vary.as_bytes());
    let Some(vary) = VaryKey::of(&fields, &selecting(&request)) else {
        return;
    };
    permit.begin(Object {
        status: 200,
        reason: (*b"OK").into(),
        fields,
        body,
        stored_at: NOW,
        fresh_until: NOW.plus(Duration::from_secs(60)),
        stale_while_revalidate: Duration::ZERO,
        stale_if_error: Duration::ZERO,
        last_modified: None,
        etag: None,
        vary,
        cost_micros: 0,
        prepared: Default::default(),
        hold: Hold::default(),
    });
    let _ = writer.append(Bytes::from(vec![b'x'; 1000]));
    writer.finish();
    permit.complete();
}

fn make_form(zone: &Arc<Zone>, key: &str) {
    let request = request();
    let verdict =
        zone.lookup(&mut Front::new(), &KeyRef::new(key.as_bytes()), &selecting(&request), &Rules::default(), NOW);
    if let Verdict::Hit(hit) = verdict
        && let Some(permit) = hit.claim_form(Coding::Gzip)
    {
        permit.finish(NewForm { bytes: Bytes::from(vec![b'x'; 300]), prepared: None });
    }
}

fn measure(what: &str, zone: &Arc<Zone>, keys: &[String], threads: usize) {
    let each: Vec<f64> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| hits(zone, keys))).collect();
        workers.into_iter().filter_map(|worker| worker.join().ok()).collect()
    });
    let mean = each.iter().sum::<f64>() / each.len() as f64;
    println!("{what:38} {mean:7.1} ns a hit");
}

/// Nanoseconds a hit, key and body pointer included.
fn hits(zone: &Arc<Zone>, keys: &[String]) -> f64 {
    let mut front = Front::new();
    let rules = Rules::default();
    let request = request();
    let mut bytes = 0;
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let start = thread_nanos();
        for key in keys.iter().cycle().take(HITS) {
            let key = KeyRef::new(key.as_bytes());
            match zone.lookup(&mut front, &key, &selecting(&request), &rules, NOW) {
                Verdict::Hit(object) => {
                    bytes += match object.form(Coding::Gzip) {
                        FormState::Ready(form) if !form.wants_hard() => {
                            form.body.whole().map_or(0, |whole| whole.len())
                        }
                        _ => object.body.whole().map_or(0, |whole| whole.len()),
                    }
                }
                verdict => panic!("every page is stored: {verdict:?}"),
            }
        }
        best = best.min((thread_nanos() - start) / HITS as f64);
    }
    black_box(bytes);
    best
}

/// The processor time of this thread, as Linux accounts it.
fn thread_nanos() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0.0)
}

/// The memory of this process, as Linux accounts it.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split(' ').nth(1).and_then(|n| n.parse().ok()).unwrap_or(0);
    pages * 4096
}

const PAGES: usize = 100_000;
const HITS: usize = 1_000_000;
const NOW: Time = Time(1_800_000_000_000);
const VARIED: &str = "httpsGETexample.org/varied";
