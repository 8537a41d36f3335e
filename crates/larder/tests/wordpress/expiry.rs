//! Expiry: pages live two seconds. Under load nobody waits for a new one, and while PHP fails the old one stays.

use crate::site::{SLOW, Site, is_nginx};
use crate::visitor::{Cache, Visitor};
use larder_testkit::PATIENCE;
use std::collections::BTreeMap;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

/// How many ask at the same time.
const VISITORS: usize = 8;
/// How long they ask: several lives of a page.
const LOAD: Duration = Duration::from_secs(14);
/// How long a page lives, less what the clocks of two processes may differ by.
const LIFE: Duration = Duration::from_millis(1900);
/// What a visitor does between two requests.
const PAUSE: Duration = Duration::from_millis(5);

/// What one visitor met.
#[derive(Default)]
struct Met {
    answers: BTreeMap<Cache, usize>,
    longest: Duration,
}

/// PHP runs once an expiry, and after the first page everybody is answered from the cache, at its speed.
///
/// What nginx does not give: it makes the next request on a connection wait until the background update that the
/// one before it began is done. Its longest answer is printed, and not judged.
#[test]
fn nobody_waits_when_a_page_expires_under_load() {
    let site = Site::shared();
    site.visitor("news.test").get("/slow/").is(Cache::Miss).shows("Content of slow.");
    site.visitor("news.test").get("/slow/").is(Cache::Hit);

    let met: Vec<Met> = thread::scope(|scope| {
        let visits: Vec<_> = (0..VISITORS).map(|_| scope.spawn(|| visit(&site))).collect();
        visits.into_iter().map(|visit| visit.join().expect("a visitor is always answered")).collect()
    });

    let mut answers: BTreeMap<Cache, usize> = BTreeMap::new();
    for (cache, count) in met.iter().flat_map(|met| &met.answers) {
        *answers.entry(*cache).or_default() += count;
    }
    let longest = met.iter().map(|met| met.longest).max().unwrap_or_default();
    let runs = site.runs("GET news.test /slow/");
    println!("answers {answers:?}, the longest took {longest:?}; {} runs of PHP", runs.len());

    let from_cache = [Cache::Hit, Cache::Stale, Cache::Updating];
    assert!(answers.keys().all(|cache| from_cache.contains(cache)), "{answers:?}\n{}", site.error_logs());
    assert!(runs.len() >= 3, "the page expired several times: {runs:?}");
    for pair in runs.windows(2) {
        let apart = Duration::from_secs_f64(pair[1].began - pair[0].began);
        assert!(apart >= LIFE, "PHP ran twice for one expiry, {apart:?} apart: {runs:?}");
    }
    if is_nginx() {
        println!("nginx: the longest answer is not judged");
        return;
    }
    assert!(longest < SLOW / 2, "somebody waited {longest:?} for a page that takes {SLOW:?} to make: {answers:?}");
}

/// One visitor, asking until the time is over.
fn visit(site: &Site) -> Met {
    let mut visitor = site.visitor("news.test");
    let mut met = Met::default();
    let started = Instant::now();
    while started.elapsed() < LOAD {
        let asked = Instant::now();
        let page = visitor.get("/slow/").shows("Content of slow.");
        met.longest = met.longest.max(asked.elapsed());
        assert_eq!(page.status, 200);
        *met.answers.entry(page.cache).or_default() += 1;
        sleep(PAUSE);
    }
    met
}

/// An error of PHP is nobody's page: the old one is delivered until PHP is well again.
#[test]
fn a_page_stays_while_php_fails() {
    const REQUEST: &str = "GET news.test /fragile/";
    let site = Site::shared();
    let mut visitor = site.visitor("news.test");
    visit_fragile(&mut visitor);

    site.break_php();
    let ran = site.runs(REQUEST).len();
    visit_until(&mut visitor, "PHP failed twice", |_| site.runs(REQUEST).len() >= ran + 2);
    site.mend_php();
    visit_until(&mut visitor, "a new page is there", |cache| cache == Cache::Hit);
}

/// Visits until `is_reached`, and sees the page each time.
fn visit_until(visitor: &mut Visitor, what: &str, is_reached: impl Fn(Cache) -> bool) {
    let started = Instant::now();
    while !is_reached(visit_fragile(visitor)) {
        assert!(started.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        sleep(PAUSE);
    }
}

fn visit_fragile(visitor: &mut Visitor) -> Cache {
    let page = visitor.get("/fragile/").shows("Content of fragile.");
    assert_eq!(page.status, 200);
    page.cache
}
