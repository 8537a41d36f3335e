//! The shelf that all nodes share, on a real server.

use std::sync::Arc;
use std::time::Duration;

use larder_cluster::{Lock, Look, PageName, Share};
use larder_testkit::{Redis, Signal};
use parking_lot::Mutex;

use crate::node::settings;

/// A node's end of the shelf, and what it has said.
struct End {
    share: Arc<Share>,
    said: Arc<Mutex<Vec<String>>>,
    runtime: tokio::runtime::Runtime,
}

impl End {
    fn of(redis: &Redis) -> Self {
        let said = Arc::<Mutex<Vec<String>>>::default();
        let hears = Arc::clone(&said);
        let hear = Arc::new(move |fault: Option<&larder_cluster::Fault>| {
            hears.lock().push(fault.map_or_else(|| "back".to_owned(), ToString::to_string));
        });
        let share = Share::start(&settings(redis, "a"), 1000, hear).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        Self { share, said, runtime }
    }

    fn look_once(&self, name: &str) -> Look {
        self.runtime.block_on(self.share.look(&page(name)))
    }

    /// On a busy machine an answer may come late.
    fn look(&self, name: &str) -> Look {
        for _ in 0..300 {
            match self.look_once(name) {
                Look::Skipped => std::thread::sleep(Duration::from_millis(10)),
                look => return look,
            }
        }
        Look::Skipped
    }

    fn takes(&self, name: &str) -> Lock {
        match self.look(name) {
            Look::Mine(lock) => lock,
            other => panic!("{name}: {other:?}"),
        }
    }

    fn until(&self, name: &str, expected: &Look) {
        until(name, || self.look(name) == *expected);
    }
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..300 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("waited in vain for {what}");
}

fn page(name: &str) -> PageName {
    PageName { zone: "pages".into(), hash: name.bytes().fold(7, |hash, byte| hash * 31 + u128::from(byte)) }
}

#[test]
fn one_node_fetches_and_all_have_it() {
    let redis = Redis::start(&[]);
    let (one, other) = (End::of(&redis), End::of(&redis));
    let lock = one.takes("a");
    assert_eq!(other.look("a"), Look::Anothers);
    one.share.store(&lock, b"page", Duration::from_secs(60));
    other.until("a", &Look::There(b"page".to_vec()));
    let time: i64 = redis.ask(&["PTTL", &redis.ask(&["KEYS", "*page:*"])[0]])[0].parse().unwrap();
    assert!(time > 0 && time <= 60_000, "{time}");
    until("the lock to go", || redis.ask(&["KEYS", "*lock:*"]).is_empty());
    let counts = other.share.counts();
    assert!(counts.found >= 1 && counts.waited >= 1 && counts.stored == 0, "{counts:?}");
    assert_eq!(one.share.counts().stored, 1);
}

#[test]
fn what_cannot_be_shared_is_fetched_by_each_and_nobody_waits() {
    let redis = Redis::start(&[]);
    let (one, other) = (End::of(&redis), End::of(&redis));
    // Too large, not to be stored, and a fetch that failed.
    one.share.store(&one.takes("large"), &[b'x'; 1001], Duration::from_secs(60));
    one.share.give_up(&one.takes("private"), true);
    one.share.give_up(&one.takes("failed"), false);
    other.until("large", &Look::Alone);
    other.until("private", &Look::Alone);
    until("the right to fetch it", || matches!(other.look("failed"), Look::Mine(_)));
}

#[test]
fn a_server_that_is_slow_or_gone_is_skipped_and_its_fault_said() {
    let mut redis = Redis::start(&[]);
    let end = End::of(&redis);
    drop(end.takes("a"));
    redis.signal(Signal::Stop);
    for _ in 0..4 {
        assert_eq!(end.look_once("b"), Look::Skipped);
    }
    assert!(end.share.rests(), "nobody waits for it any more");
    redis.signal(Signal::Continue);
    drop(end.takes("c"));
    redis.kill();
    until("a word about it", || {
        assert_eq!(end.look_once("d"), Look::Skipped);
        !end.said.lock().is_empty()
    });
    assert!(end.said.lock().first().is_some_and(|said| said.starts_with("cannot be reached")), "{:?}", end.said.lock());
    redis.start_again();
    drop(end.takes("e"));
    assert_eq!(end.said.lock().last().map(String::as_str), Some("back"));
    assert!(end.share.counts().skipped >= 4);
}

#[test]
fn a_full_server_keeps_no_page_and_says_so() {
    let redis = Redis::start(&["maxmemory 1", "maxmemory-policy noeviction"]);
    let end = End::of(&redis);
    // It has less than it needs for itself.
    until("a word about it", || {
        assert!(!matches!(end.look_once("a"), Look::There(_)));
        !end.said.lock().is_empty()
    });
    assert!(end.said.lock().first().is_some_and(|said| said.starts_with("is full: ")), "{:?}", end.said.lock());
}
