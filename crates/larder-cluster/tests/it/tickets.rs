//! Keys of session tickets that all nodes have, on a real server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use larder_cluster::{Level, Settings, TicketRing, TicketSecret, TicketStart, TicketUser, Tickets};
use larder_testkit::{PATIENCE, Redis};
use parking_lot::{Condvar, Mutex};

use crate::node::{clock, settings};

/// A node, and what it was given.
struct End {
    tickets: Tickets,
    user: Arc<User>,
}

#[derive(Default)]
struct User {
    made: AtomicU64,
    seen: Mutex<Seen>,
    changed: Condvar,
}

#[derive(Clone, Default)]
struct Seen {
    /// The keys of now, and whether the first makes tickets.
    is_made_by: bool,
    keys: Vec<TicketSecret>,
    now: Duration,
    /// Keys that made tickets, with all that were known a moment before each was used.
    makers: Vec<(TicketSecret, Vec<TicketSecret>)>,
    lines: Vec<String>,
}

impl TicketUser for User {
    fn make(&self) -> Option<TicketSecret> {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        self.made.fetch_add(1, Ordering::Relaxed);
        let mut secret = [7; 48];
        secret[..8].copy_from_slice(&NUMBER.fetch_add(1, Ordering::Relaxed).to_be_bytes());
        Some(secret)
    }

    fn kept(&self) -> Duration {
        Duration::from_secs(300)
    }

    fn take(&self, ring: TicketRing<'_>) {
        let mut seen = self.seen.lock();
        if let Some(maker) = ring.keys.first().filter(|_| ring.is_made_by)
            && seen.makers.last().is_none_or(|(last, _)| last != maker)
        {
            let before = seen.keys.clone();
            seen.makers.push((*maker, before));
        }
        (seen.is_made_by, seen.keys, seen.now) = (ring.is_made_by, ring.keys.to_vec(), ring.now);
        self.changed.notify_all();
    }

    fn say(&self, level: Level, line: &str) {
        self.seen.lock().lines.push(format!("{level:?} {line}"));
        self.changed.notify_all();
    }
}

impl End {
    fn of(redis: &Redis, period: Duration) -> Self {
        Self::with(settings(redis, "a"), period)
    }

    fn with(settings: Settings, period: Duration) -> Self {
        let user = Arc::new(User::default());
        let start = TicketStart { settings, user: Arc::clone(&user) as Arc<dyn TicketUser>, clock, period };
        Self { tickets: Tickets::start(start).unwrap(), user }
    }

    fn until(&self, what: &str, is_so: impl Fn(&Seen) -> bool) -> Seen {
        let mut seen = self.user.seen.lock();
        let waited = self.user.changed.wait_while_for(&mut seen, |seen| !is_so(seen), PATIENCE);
        assert!(!waited.timed_out(), "waited in vain for {what}: {:?}", seen.lines);
        seen.clone()
    }

    /// What it is given when it has a key that makes tickets.
    fn shared(&self) -> Seen {
        self.until("keys", |seen| seen.is_made_by)
    }
}

/// A period that is the same one as long as tests run.
const LONG: Duration = Duration::from_secs(100_000_000);
/// A short one.
const TURN: Duration = Duration::from_secs(2);

fn key(number: u64) -> String {
    format!("larder:{{shop}}:tickets:{number}")
}

fn keys(redis: &Redis) -> Vec<String> {
    let mut keys = redis.ask(&["KEYS", "larder:{shop}:tickets:*"]);
    keys.sort();
    keys
}

#[test]
fn all_nodes_have_the_same_key_and_the_next_one() {
    let redis = Redis::start(&[]);
    let ends: Vec<End> = (0..3).map(|_| End::of(&redis, LONG)).collect();
    let first = ends[0].shared();
    let time: u64 = redis.ask(&["TIME"])[0].parse().unwrap();
    let late = End::of(&redis, LONG);
    for end in ends.iter().chain([&late]) {
        assert_eq!(end.shared().keys, first.keys);
    }
    assert_eq!(late.user.made.load(Ordering::Relaxed), 2, "offers for two periods");
    assert_eq!(first.keys.len(), 2);
    assert!(first.now.as_secs().abs_diff(time) <= 60, "{:?} {time}", first.now);
    let number = time / LONG.as_secs();
    assert_eq!(keys(&redis), [key(number), key(number + 1)]);
    // It goes with its last ticket.
    let left: u64 = redis.ask(&["PTTL", &key(number)])[0].parse().unwrap();
    let expected = ((number + 1) * LONG.as_secs() - time + 300) * 1000;
    assert!(left <= expected && left > expected - 60_000, "{left} {expected}");
}

#[test]
fn a_user_with_the_rights_of_the_manual_may_do_it() {
    let rights = "user shop on >secret ~larder:{shop}:* resetchannels -@all +@read +@write +@connection +@transaction +time -@dangerous";
    let redis = Redis::start(&[rights]);
    let (user, password) = (Some("shop".to_owned()), Some("secret".to_owned()));
    let end = End::with(Settings { user, password, ..settings(&redis, "a") }, LONG);
    assert_eq!(end.shared().lines, Vec::<String>::new());
}

#[test]
fn nodes_rotate_together_and_each_knows_a_key_before_it_makes_tickets() {
    let redis = Redis::start(&[]);
    let ends: Vec<End> = (0..2).map(|_| End::of(&redis, TURN)).collect();
    let seen: Vec<Seen> = ends.iter().map(|end| end.until("three rotations", |seen| seen.makers.len() >= 4)).collect();
    for (n, (maker, before)) in seen[0].makers.iter().enumerate() {
        assert!(n == 0 || before.contains(maker), "rotation {n}");
        assert!(seen[0].keys.contains(maker), "old keys open tickets, those of rotation {n} too");
    }
    let of = |seen: &Seen| seen.makers.iter().map(|(maker, _)| *maker).collect::<Vec<_>>();
    let (one, other) = (of(&seen[0]), of(&seen[1]));
    assert!(other.iter().filter(|maker| one.contains(maker)).count() >= 3, "{one:?} {other:?}");
}

#[test]
fn a_server_that_lost_its_keys_gets_those_that_nodes_know() {
    let redis = Redis::start(&[]);
    let end = End::of(&redis, LONG);
    let before = end.shared();
    redis.ask(&["FLUSHALL"]);
    let until = Instant::now() + PATIENCE;
    while keys(&redis).len() < 2 {
        assert!(Instant::now() < until, "no keys");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(End::of(&redis, LONG).shared().keys, before.keys);
}

#[test]
fn nodes_without_the_server_go_on_with_the_last_keys_and_then_alone_and_say_so_once() {
    let mut redis = Redis::start(&[]);
    let end = End::of(&redis, TURN);
    end.shared();
    redis.kill();
    let last = end.until("the next key's turn", |seen| seen.makers.len() >= 2);
    assert!(last.is_made_by && last.lines.is_empty(), "{:?}", last.lines);
    let alone = end.until("no key", |seen| !seen.is_made_by && !seen.lines.is_empty());
    assert!(!alone.keys.is_empty(), "they still open tickets");
    assert!(alone.lines[0].starts_with("Warn cluster: redis://127.0.0.1:"), "{:?}", alone.lines);
    assert!(alone.lines[0].contains("cannot be reached") && alone.lines[0].ends_with("at this node alone"));
    redis.start_again();
    let back = end.until("the server", |seen| seen.is_made_by && seen.lines.len() >= 2);
    assert!(back.lines[1].ends_with("sessions are resumed at any node"), "{:?}", back.lines);
    assert_eq!(back.lines.len(), 2);
    // After its end it is given nothing.
    end.tickets.end();
    let ended = end.user.seen.lock().now;
    let other = End::of(&redis, TURN);
    other.until("two rotations", |seen| seen.makers.len() >= 3);
    assert_eq!(end.user.seen.lock().now, ended);
}

#[test]
fn a_server_that_takes_no_key_is_a_fault_that_names_the_mend() {
    let redis = Redis::start(&["maxmemory 1", "maxmemory-policy noeviction"]);
    let end = End::of(&redis, LONG);
    let seen = end.until("a word about it", |seen| !seen.lines.is_empty());
    assert!(seen.lines[0].contains("is full: raise its \"maxmemory\"") && !seen.is_made_by, "{:?}", seen.lines);
    let redis = Redis::start(&[]);
    let number = redis.ask(&["TIME"])[0].parse::<u64>().unwrap() / LONG.as_secs();
    redis.ask(&["SET", &key(number), "else"]);
    let end = End::of(&redis, LONG);
    let seen = end.until("a word about it", |seen| !seen.lines.is_empty());
    assert!(
        seen.lines[0].contains("holds something else than a key of session tickets under \"larder:{shop}:tickets:")
    );
}
