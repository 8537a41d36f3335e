//! What a zone promises.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use larder_http::{Fields, Time};
use larder_store::{BodyState, Kept};

use crate::*;

mod bans;
mod disk_bans;
mod disk_selected;
mod disks;
mod flights;
mod forms;
mod looks;
mod others;
mod purges;
mod races;
mod room;
mod selected;
mod taken_in;

const KEY: &[u8] = b"https example.org /";

fn zone(bytes_max: u64) -> Arc<Zone> {
    let inactive = Duration::from_secs(600);
    Zone::new("pages", ZoneLimits { bytes_max, inactive })
}

fn at(secs: u64) -> Time {
    Time::from_secs(1_000_000 + secs)
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn request(lines: &[(&str, &str)]) -> Fields {
    let mut fields = Fields::new();
    for (name, value) in lines {
        fields.push(name.as_bytes(), value.as_bytes());
    }
    fields
}

fn lock() -> Rules {
    Rules { lock: true, ..Rules::default() }
}

/// A worker with a clock that stands still until it is told.
struct Worker {
    zone: Arc<Zone>,
    front: Front,
}

impl Worker {
    fn new(zone: &Arc<Zone>) -> Self {
        Self { zone: Arc::clone(zone), front: Front::new() }
    }

    fn ask(&mut self, key: &[u8], rules: &Rules, now: u64) -> Verdict {
        self.ask_with(key, &[], rules, now)
    }

    fn ask_with(&mut self, key: &[u8], lines: &[(&str, &str)], rules: &Rules, now: u64) -> Verdict {
        let fields = request(lines);
        let zone = Arc::clone(&self.zone);
        zone.lookup(&mut self.front, &KeyRef::new(key), &selecting(&fields), rules, at(now))
    }

    /// A permit that a lookup gave.
    fn permit(&mut self, key: &[u8], rules: &Rules, now: u64) -> Permit {
        permit_of(self.ask(key, rules, now))
    }

    /// Stores a page that is fresh for ten seconds.
    fn store(&mut self, key: &[u8], text: &str, now: u64) -> Arc<Object> {
        self.store_with(key, &[], "", text, now)
    }

    fn store_with(&mut self, key: &[u8], lines: &[(&str, &str)], vary: &str, text: &str, now: u64) -> Arc<Object> {
        let mut permit = permit_of(self.ask_with(key, lines, &Rules::default(), now));
        let (mut writer, body) = self.zone.body(KEY, None, None);
        let object = permit.begin(varied(body, lines, vary, now));
        writer.append(Bytes::copy_from_slice(text.as_bytes())).expect("it is stored");
        writer.finish();
        permit.complete();
        object
    }
}

fn permit_of(verdict: Verdict) -> Permit {
    match verdict {
        Verdict::Miss(Some(permit)) | Verdict::Stale { permit: Some(permit), .. } => permit,
        verdict => panic!("no permit: {verdict:?}"),
    }
}

fn waiter_of(verdict: Verdict) -> Waiter {
    match verdict {
        Verdict::Wait(waiter) => waiter,
        verdict => panic!("nothing to wait for: {verdict:?}"),
    }
}

/// A page that is fresh for ten seconds.
fn page(body: Body, now: u64) -> Object {
    varied(body, &[], "", now)
}

fn varied(body: Body, lines: &[(&str, &str)], vary: &str, now: u64) -> Object {
    let fields = request(&[("Vary", vary), ("Content-Type", "text/html")]);
    let vary = VaryKey::of(&fields, &selecting(&request(lines))).expect("no asterisk");
    Object {
        status: 200,
        reason: (*b"OK").into(),
        fields,
        body,
        stored_at: at(now),
        fresh_until: at(now + 10),
        stale_while_revalidate: secs(5),
        stale_if_error: secs(20),
        last_modified: None,
        etag: None,
        vary,
        cost_micros: 0,
        prepared: Default::default(),
        hold: Hold::default(),
    }
}

fn text(object: &Object) -> String {
    let whole = object.body.whole().expect("it is complete");
    String::from_utf8(whole.to_vec().expect("it is in memory")).expect("it was text")
}

/// A verdict in a word, with the text of what was found.
fn told(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Hit(object) => format!("hit {}", text(object)),
        Verdict::Stale { object, updating, permit } => {
            assert_eq!(*updating, permit.is_none());
            format!("stale {} updating={updating}", text(object))
        }
        Verdict::Miss(Some(_)) => "miss".to_owned(),
        Verdict::Miss(None) => "miss unstored".to_owned(),
        Verdict::Load(_) => "load".to_owned(),
        Verdict::Wait(_) => "wait".to_owned(),
        Verdict::Scarce => "scarce".to_owned(),
    }
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime can be made").block_on(future)
}

async fn read_all(mut reader: BodyReader) -> Result<String, String> {
    let mut all = Vec::new();
    loop {
        match reader.next(1000).await {
            Piece::Data(data) => all.extend_from_slice(&data),
            Piece::End => return Ok(String::from_utf8_lossy(&all).into_owned()),
            Piece::Failed(reason) => return Err(reason.to_string()),
            piece @ (Piece::File { .. } | Piece::Pending) => panic!("{piece:?}"),
        }
    }
}

#[test]
fn a_page_is_a_hit_while_fresh_and_stale_after() {
    let zone = zone(1 << 20);
    let mut worker = Worker::new(&zone);
    let rules = Rules::default();
    assert_eq!(told(&worker.ask(KEY, &rules, 0)), "miss");
    worker.store(KEY, "one", 0);
    let mut other = Worker::new(&zone);
    for (now, expected) in
        [(0, "hit one"), (9, "hit one"), (10, "stale one updating=false"), (500, "stale one updating=false")]
    {
        assert_eq!(told(&worker.ask(KEY, &rules, now)), expected, "{now}");
        assert_eq!(told(&other.ask(KEY, &rules, now)), expected, "{now}");
        assert_eq!(told(&other.ask(b"other", &rules, now)), "miss");
    }
    worker.store(KEY, "two", 500);
    assert_eq!(told(&other.ask(KEY, &rules, 501)), "hit two");
}

#[test]
fn stale_use_ends_with_its_time() {
    let zone = zone(1 << 20);
    let object = Worker::new(&zone).store(KEY, "one", 0);
    for (now, revalidating, error) in
        [(9, true, true), (14, true, true), (15, false, true), (29, false, true), (30, false, false)]
    {
        assert_eq!(object.may_serve_while_revalidating(at(now)), revalidating, "{now}");
        assert_eq!(object.may_serve_if_error(at(now)), error, "{now}");
    }
}

#[test]
fn a_key_is_stored_when_it_was_asked_for_often_enough() {
    let zone = zone(1 << 20);
    let mut worker = Worker::new(&zone);
    let rules = Rules { min_uses: 3, ..Rules::default() };
    let words: Vec<_> = (0..4).map(|_| told(&worker.ask(KEY, &rules, 0))).collect();
    assert_eq!(words, ["scarce", "scarce", "miss", "miss"]);
    worker.store(b"known", "one", 0);
    assert_eq!(told(&worker.ask(b"known", &rules, 1)), "hit one");
}

#[test]
fn variants_answer_their_own_requests() {
    let zone = zone(1 << 20);
    let mut worker = Worker::new(&zone);
    let rules = Rules::default();
    let de = [("Accept-Language", "de")];
    let fr = [("Accept-Language", "fr")];
    worker.store_with(KEY, &de, "Accept-Language", "Hallo", 0);
    assert_eq!(told(&worker.ask_with(KEY, &fr, &rules, 0)), "miss");
    worker.store_with(KEY, &fr, "Accept-Language", "Salut", 5);
    for (lines, expected) in
        [(&de[..], "hit Hallo"), (&fr, "hit Salut"), (&[("accept-language", " de ")], "hit Hallo"), (&[], "miss")]
    {
        assert_eq!(told(&worker.ask_with(KEY, lines, &rules, 6)), expected, "{lines:?}");
    }
    let all = Rules { ignore_vary: true, ..Rules::default() };
    assert_eq!(told(&worker.ask(KEY, &all, 6)), "hit Salut");
    // Each is refetched for itself, and replaced by its like.
    assert_eq!(told(&worker.ask_with(KEY, &fr, &rules, 12)), "hit Salut");
    worker.store_with(KEY, &de, "Accept-Language", "Moin", 12);
    assert_eq!(told(&worker.ask_with(KEY, &de, &rules, 13)), "hit Moin");
    assert_eq!(told(&worker.ask_with(KEY, &fr, &rules, 13)), "hit Salut");
    assert_eq!((zone.stats().entries, zone.stats().objects), (1, 2));
    assert_eq!(zone.purge(&KeyRef::new(KEY), at(0)), 2);
    assert_eq!((zone.stats().entries, zone.stats().objects), (0, 0));
}

#[test]
fn a_refetched_page_leaves_no_other_behind() {
    let zone = zone(1 << 20);
    let mut worker = Worker::new(&zone);
    worker.store(KEY, "for all", 0);
    let de = [("Accept-Language", "de")];
    worker.store_with(KEY, &de, "Accept-Language", "Hallo", 20);
    let fr = [("Accept-Language", "fr")];
    assert_eq!(told(&worker.ask_with(KEY, &fr, &Rules::default(), 21)), "miss");
}

#[test]
fn a_bypassed_cache_is_filled_by_a_permit_of_its_own() {
    let zone = zone(1 << 20);
    let mut worker = Worker::new(&zone);
    worker.store(KEY, "old", 0);
    let key = KeyRef::new(KEY);
    let permit = zone.permit(&mut worker.front, &key, at(1));
    let mut permit = permit.expect("there is room");
    permit.begin(page(Body::of(Bytes::from_static(b"new"), zone.reserve(3)), 1));
    drop(permit);
    assert_eq!(told(&worker.ask(KEY, &Rules::default(), 2)), "hit new");
}

#[test]
fn zones_keep_apart_what_has_the_same_key() {
    let (one, two) = (zone(1 << 20), zone(1 << 20));
    let mut worker = Worker::new(&one);
    worker.store(KEY, "one", 0);
    worker.zone = Arc::clone(&two);
    assert_eq!(told(&worker.ask(KEY, &Rules::default(), 0)), "miss");
    worker.store(KEY, "two", 0);
    assert_eq!(told(&worker.ask(KEY, &Rules::default(), 0)), "hit two");
    worker.zone = Arc::clone(&one);
    assert_eq!(told(&worker.ask(KEY, &Rules::default(), 0)), "hit one");
    let stats = one.stats();
    assert_eq!((stats.hits, stats.misses, stats.stored, stats.entries), (1, 1, 1, 1));
    drop(worker);
    assert_eq!(one.stats().hits, 1, "a worker's counts outlive it");
}

#[test]
fn what_a_lookup_gives_may_go_to_another_thread() {
    fn goes<T: Send>() {}
    fn lives_on<T: Send + 'static>(_: &T) {}
    goes::<Verdict>();
    goes::<Permit>();
    goes::<Front>();
    goes::<Arc<Object>>();
    goes::<BodyWriter>();
    let zone = zone(1 << 20);
    let _permit = Worker::new(&zone).permit(KEY, &lock(), 0);
    let waiter = waiter_of(Worker::new(&zone).ask(KEY, &lock(), 0));
    lives_on(&waiter.wait());
}
