//! Limits that all nodes count together, on a real server.

use std::sync::Arc;
use std::time::Duration;

use larder_cluster::{Counted, Level, LimitName, LimitUser, Limits, Others, Settings};
use larder_testkit::{PATIENCE, Redis};
use parking_lot::{Condvar, Mutex};

use crate::node::settings;

/// A node whose buckets need a minute for each request.
struct End {
    limits: Limits,
    user: Arc<User>,
}

#[derive(Default)]
struct User {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// What is to be told next.
    counted: Vec<Counted>,
    /// How many requests each bucket holds.
    held: std::collections::HashMap<u128, u64>,
    learned: Vec<Others>,
    lines: Vec<String>,
    asked: usize,
}

impl LimitUser for User {
    fn counted(&self, keys_max: usize) -> Vec<Counted> {
        let mut state = self.state.lock();
        assert!(state.counted.len() <= keys_max);
        state.asked += 1;
        self.changed.notify_all();
        std::mem::take(&mut state.counted)
    }

    fn learn(&self, counted: &Counted, others: Others) -> Option<Duration> {
        let mut state = self.state.lock();
        state.learned.push(others);
        let held = state.held.entry(counted.name.hash).or_default();
        *held += counted.count;
        match others {
            Others::Since(count) => *held += count,
            Others::Before(count, _) => *held = (*held).max(count + counted.count),
        }
        let time = MINUTE * u32::try_from(*held).unwrap();
        self.changed.notify_all();
        Some(time)
    }

    fn say(&self, level: Level, line: &str) {
        self.state.lock().lines.push(format!("{level:?} {line}"));
        self.changed.notify_all();
    }
}

impl End {
    fn of(redis: &Redis) -> Self {
        Self::with(settings(redis, "a"))
    }

    fn with(settings: Settings) -> Self {
        let user = Arc::new(User::default());
        let limits = Limits::start(settings, Arc::clone(&user) as Arc<dyn LimitUser>).unwrap();
        Self { limits, user }
    }

    fn until(&self, what: &str, is_so: impl Fn(&State) -> bool) {
        let mut state = self.user.state.lock();
        let waited = self.user.changed.wait_while_for(&mut state, |state| !is_so(state), PATIENCE);
        assert!(!waited.timed_out(), "waited in vain for {what}: {:?} {:?}", state.learned, state.lines);
    }

    /// Lets requests through, and returns what is learned of others by that.
    fn lets_through(&self, hash: u128, count: u64) -> Others {
        let before = self.user.state.lock().learned.len();
        self.user.state.lock().counted.push(counted(hash, count));
        self.until("an answer", |state| state.learned.len() > before);
        self.user.state.lock().learned[before]
    }

    fn lines(&self) -> Vec<String> {
        self.user.state.lock().lines.clone()
    }
}

const MINUTE: Duration = Duration::from_secs(60);

fn counted(hash: u128, count: u64) -> Counted {
    Counted { name: LimitName { zone: "login".into(), hash }, key: Arc::from(&b"key"[..]), count }
}

fn key(hash: u128) -> String {
    format!("larder:{{shop}}:limits:login:{hash:032x}")
}

fn until_minutes(redis: &Redis, hash: u128, minutes: u64) {
    for _ in 0..1000 {
        let left: i64 = redis.ask(&["PTTL", &key(hash)])[0].parse().unwrap();
        if u64::try_from(left).is_ok_and(|left| left.div_ceil(60_000) == minutes) {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("never so: {:?}", redis.ask(&["PTTL", &key(hash)]));
}

#[test]
fn who_comes_late_learns_how_full_a_bucket_is_and_it_lasts_as_long() {
    let redis = Redis::start(&[]);
    let (one, other) = (End::of(&redis), End::of(&redis));
    let Others::Before(0, _) = one.lets_through(7, 5) else { panic!("nobody was there") };
    until_minutes(&redis, 7, 5);
    let Others::Before(5, left) = other.lets_through(7, 1) else { panic!("the other node was") };
    assert!(left <= 5 * MINUTE && left > 4 * MINUTE, "{left:?}");
    until_minutes(&redis, 7, 6);
    assert_eq!(redis.ask(&["GET", &key(7)]), ["6"]);
    let Others::Before(0, _) = other.lets_through(8, 1) else { panic!("another key is another bucket") };
    assert_eq!(one.lines(), Vec::<String>::new());
}

#[test]
fn nodes_that_tell_in_turn_know_each_others_requests() {
    let redis = Redis::start(&[]);
    let ends: Vec<End> = (0..3).map(|_| End::of(&redis)).collect();
    for round in 1..=50 {
        for end in &ends {
            end.lets_through(7, round);
        }
    }
    let all = 3 * (1..=50).sum::<u64>();
    for end in &ends {
        end.lets_through(7, 1);
    }
    // Each knows what was there when it told last.
    for (end, expected) in ends.iter().zip(all + 1..) {
        assert_eq!(end.user.state.lock().held[&7], expected);
    }
}

#[test]
fn a_user_with_the_rights_of_the_manual_may_do_it_and_a_full_server_is_said_once() {
    let rights = "user shop on >secret ~larder:{shop}:* resetchannels -@all +@read +@write +@connection +@transaction +time -@dangerous";
    let redis = Redis::start(&[rights, "maxmemory-policy noeviction"]);
    let (user, password) = (Some("shop".to_owned()), Some("secret".to_owned()));
    let end = End::with(Settings { user, password, ..settings(&redis, "a") });
    end.lets_through(7, 2);
    until_minutes(&redis, 7, 2);
    let turns = |count| {
        let asked = end.user.state.lock().asked;
        end.until("a turn", |state| state.asked > asked + count);
    };
    for (bytes, lines) in [("1", 1), ("0", 2)] {
        redis.ask(&["CONFIG", "SET", "maxmemory", bytes]);
        while end.lines().len() < lines {
            end.user.state.lock().counted.push(counted(7, 1));
            turns(1);
        }
        // Without anything to tell nothing is known.
        turns(2);
        assert_eq!(end.lines().len(), lines);
    }
    let lines = end.lines();
    assert!(lines[0].contains("is full: raise its \"maxmemory\"") && lines[1].contains("is back"), "{lines:?}");
}

#[test]
fn a_bucket_that_the_server_has_forgotten_begins_anew() {
    let redis = Redis::start(&[]);
    let (one, other) = (End::of(&redis), End::of(&redis));
    one.lets_through(7, 5);
    redis.ask(&["FLUSHALL"]);
    assert!(matches!(other.lets_through(7, 2), Others::Before(0, _)));
    assert!(matches!(one.lets_through(7, 1), Others::Before(2, _) | Others::Since(2)));
}

#[test]
fn without_the_server_a_node_counts_alone_and_says_so_once() {
    let mut redis = Redis::start(&[]);
    let end = End::of(&redis);
    end.lets_through(7, 1);
    redis.kill();
    for n in 1..=3 {
        let asked = end.user.state.lock().asked;
        end.user.state.lock().counted.push(counted(7, n));
        end.until("another try", |state| state.asked > asked + 1);
    }
    let lines = end.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].starts_with("Warn cluster: redis://127.0.0.1:") && lines[0].contains("cannot be reached"));
    assert!(lines[0].ends_with("until then \"limit_req\" counts the requests of this node alone"), "{lines:?}");
    redis.start_again();
    end.until("a word about it", |state| state.lines.len() == 2);
    assert!(end.lines()[1].ends_with("is back: \"limit_req\" counts the requests of all nodes"));
    end.lets_through(7, 1);
    end.limits.end();
}

#[test]
fn a_key_that_somebody_has_spoilt_counts_alone_and_no_other() {
    let redis = Redis::start(&[]);
    let (one, other) = (End::of(&redis), End::of(&redis));
    redis.ask(&["LPUSH", &key(7), "x"]);
    {
        let mut state = one.user.state.lock();
        state.counted.extend([counted(7, 5), counted(8, 2)]);
    }
    one.until("the other key to be told", |state| state.learned.len() == 1);
    let Others::Before(2, _) = other.lets_through(8, 1) else { panic!("it was told") };
    assert_eq!(one.lines(), Vec::<String>::new());
}
