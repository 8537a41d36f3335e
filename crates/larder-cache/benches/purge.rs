//! What purges by tag cost: `cargo bench -p larder-cache --bench purge`, with `-- PAGES` for fewer than a million.
//!
//! A tag of a page is to take 24 bytes of the index at most, a purge of 10,000 pages less than 50 ms, and no hit is to wait
//! for it for more than 1 ms. Purges are measured in processor time of the thread. Hits are measured in the time that their
//! thread runs or waits for another, but not for a processor: other work on the machine adds little to either, unless it
//! takes the processor from who holds a lock.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use larder_cache::{
    Asking, Front, Hold, How, KeyRef, Object, Rules, Selection, Url, VaryKey, Verdict, Zone, ZoneLimits, selecting,
};
use larder_http::{Fields, Time};

/// That of the binary: what a purge costs is in good part what frees its pages.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let pages = std::env::args().filter_map(|word| word.parse().ok()).next().unwrap_or(PAGES);
    let zone = Zone::new("bench", ZoneLimits { bytes_max: 64 << 30, inactive: Duration::from_secs(600) });
    zone.set_tag_fields(&["xkey"]);
    let began = Instant::now();
    let mut front = Front::new();
    for number in 0..pages {
        store(&zone, &mut front, number);
    }
    let (pairs, bytes) = zone.tags_indexed();
    println!(
        "{pages} pages with {} tags, {TAGS} in all, stored in {:.1} s; they count for {} bytes each",
        pairs / pages,
        began.elapsed().as_secs_f64(),
        zone.stats().bytes / pages as u64,
    );
    println!("{pairs} pairs in the index take {:.1} bytes each", bytes as f64 / pairs as f64);
    waits(&zone, pages, "nobody purges", || thread::sleep(Duration::from_millis(200)));
    // A tag of a hundredth of the pages each, by which none was purged before.
    for (what, how) in [("a soft purge", How::Soft), ("a hard purge", How::Hard)] {
        for tag in 0..2 + 2 * u64::from(how == How::Hard) {
            waits(&zone, pages, what, || purge(&zone, what, tag, how));
        }
    }
}

/// Each page has a tag of its hundredth, one of its tenth part of a thousandth, and one that ten pages have.
fn store(zone: &Arc<Zone>, front: &mut Front, number: usize) {
    let key = key(number);
    let Some(mut permit) = zone.permit(front, &KeyRef::new(key.as_bytes()), NOW) else { return };
    let (mut writer, body) = zone.body(key.as_bytes(), Some(100), None);
    let mut fields = Fields::new();
    let tags = format!("hundredth-{} section-{} product-{}", number % 100, number % 10_000, number % (TAGS - 10_100));
    fields.push(b"xkey", tags.as_bytes());
    permit.begin(Object {
        status: 200,
        reason: (*b"OK").into(),
        fields,
        body,
        stored_at: NOW,
        fresh_until: NOW.plus(Duration::from_secs(60)),
        stale_while_revalidate: Duration::from_secs(60),
        stale_if_error: Duration::from_secs(60),
        last_modified: None,
        etag: None,
        vary: VaryKey::none(),
        cost_micros: 0,
        prepared: Default::default(),
        hold: Hold::default().at(Url { is_https: true, host: b"a.example", uri: &key.as_bytes()[HEAD.len()..] }),
    });
    let _ = writer.append(Bytes::from(vec![b'x'; 100]));
    writer.finish();
    permit.complete();
}

fn purge(zone: &Arc<Zone>, what: &str, hundredth: u64, how: How) {
    let tag = format!("hundredth-{hundredth}").into_bytes();
    let accounts = Accounts::open();
    let (began, [ran, _]) = (Instant::now(), accounts.read());
    let Ok(purged) = zone.purge_selected(Selection::Tags(vec![tag.into()]), how, NOW) else { return };
    let (took, ran) = (began.elapsed().as_secs_f64() * 1000.0, (accounts.read()[0] - ran) as f64 / 1e6);
    println!("{what} of {} pages takes {ran:.1} ms, here in {took:.1} ms", purged.pages);
}

/// Runs `purge` while another thread has hits, and says how long the slowest of them took.
fn waits(zone: &Arc<Zone>, pages: usize, what: &str, purge: impl FnOnce()) {
    let (is_ready, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    let mut slowest = thread::scope(|scope| {
        let hits = scope.spawn(|| hits(zone, pages, &is_ready, &is_over));
        while !is_ready.load(Ordering::Acquire) {
            thread::yield_now();
        }
        purge();
        is_over.store(true, Ordering::Release);
        hits.join().unwrap_or_default()
    });
    slowest.sort_unstable();
    let at = |share: f64| slowest.get((slowest.len() as f64 * share) as usize).map_or(0.0, |ns| *ns as f64 / 1000.0);
    println!(
        "  {what}: {} hits meanwhile, in the mean {:.1} µs, 1 in 1000 {:.1} µs, slowest {:.1} µs",
        slowest.len(),
        at(0.5),
        at(0.999),
        at(0.999_999_9),
    );
}

/// How long hits take, in ns: a lookup, and the test by bans that each page has once for each.
fn hits(zone: &Arc<Zone>, pages: usize, is_ready: &AtomicBool, is_over: &AtomicBool) -> Vec<u64> {
    let (mut front, rules, fields) = (Front::new(), Rules::default(), Fields::new());
    let asking = Asking { url: b"/", fields: &fields };
    let accounts = Accounts::open();
    let mut took = Vec::with_capacity(1 << 20);
    // Pages of the hundredth that is never purged.
    for number in (99..pages).step_by(100).cycle() {
        if is_over.load(Ordering::Acquire) || took.len() == took.capacity() {
            break;
        }
        let key = key(number);
        let [_, waited] = accounts.read();
        let began = Instant::now();
        let verdict = zone.lookup(&mut front, &KeyRef::new(key.as_bytes()), &selecting(&fields), &rules, NOW);
        let Verdict::Hit(object) = verdict else { panic!("it is stored: {verdict:?}") };
        assert_eq!(zone.banned(&object, &asking), None);
        let all = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        took.push(all.saturating_sub(accounts.read()[1] - waited));
        is_ready.store(true, Ordering::Release);
    }
    took
}

/// What Linux accounts for this thread.
struct Accounts(File);

impl Accounts {
    fn open() -> Self {
        Self(File::open("/proc/thread-self/schedstat").expect("Linux accounts for threads"))
    }

    /// How many ns it has run, and has waited for a processor.
    fn read(&self) -> [u64; 2] {
        let mut text = [0; 64];
        let len = self.0.read_at(&mut text, 0).unwrap_or(0);
        let mut words =
            text[..len].split(|byte| *byte == b' ').filter_map(|word| str::from_utf8(word).ok()?.parse().ok());
        [words.next().unwrap_or(0), words.next().unwrap_or(0)]
    }
}

fn key(number: usize) -> String {
    format!("{HEAD}/category/page-{number}.html")
}

const HEAD: &str = "httpsGETa.example";
const PAGES: usize = 1_000_000;
const TAGS: usize = 100_000;
const NOW: Time = Time(1_800_000_000_000);
