//! The shelf is killed, or its power cut, at every kind of moment, and opened again.
//!
//! What must hold then: a page is byte for byte what was stored under its key, and not older than what was durable;
//! what was durably removed does not come back; what was durable and not evicted is there; the limits held all the time.

mod simulated;

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use bytes::Bytes;
use larder_store::{DiskLimits, DiskOptions, DiskShelf, Judge, Page, PageBody, Stored, StoredBody, WordedBan};
use simulated::{EIO, Op, Process, Random, Rule, World};

const BYTES_MAX: u64 = 700 * 1024;
const KEYS: u64 = 10;

/// What was done to one key and variant, in order. A number says which body was stored.
#[derive(Debug, Default)]
struct History {
    done: Vec<Step>,
    /// The last step that is known to be durable.
    floor: Option<usize>,
    /// The last removal, which holds at once while the process lives.
    removed: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Stored(u64),
    Removed(By),
}

/// How a page was removed, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Tombstone,
    Prefix,
    Words,
    /// It was not found.
    Crash,
}

/// Who bans in words: the number of a key, or `*`. One life of the shelf has one.
struct Owner(Mutex<Banned>);

struct Banned {
    bans: Vec<(u64, Box<str>)>,
    /// The lowest number, and the highest.
    first: u64,
    last: u64,
}

impl Owner {
    fn of(shelf: &DiskShelf) -> Arc<Self> {
        let owner = Arc::new(Self(Mutex::new(Banned { bans: Vec::new(), first: 1 << 32, last: 1 << 32 })));
        let judge: Weak<dyn Judge> = Arc::downgrade(&owner) as Weak<dyn Judge>;
        shelf.belong_to(1, judge);
        owner
    }

    fn ban(&self, shelf: &DiskShelf, words: &str) {
        let mut banned = self.0.lock().unwrap();
        banned.last += 1;
        let number = banned.last;
        banned.bans.push((number, words.into()));
        shelf.ban_worded(WordedBan { number, made_at: 5, words: words.into() }, number.is_multiple_of(2));
    }

    /// Numbers the bans that were read from the disk.
    fn take_over(&self, shelf: &DiskShelf) {
        shelf.number_bans(1, |ban| {
            let mut banned = self.0.lock().unwrap();
            banned.first -= 1;
            let number = banned.first;
            banned.bans.push((number, ban.words.clone()));
            number
        });
    }

    /// What is found under a key and may be shown.
    fn read(&self, run: &Run, shelf: &DiskShelf, key: u64, now: u64) -> Vec<Stored> {
        self.take_over(shelf);
        let name = Run::key(key);
        let found = shelf.find(name.as_bytes(), now);
        let mut read = run.runtime.block_on(shelf.read(name.into_bytes().into(), found, usize::MAX));
        // It may have been opened meanwhile.
        self.take_over(shelf);
        read.retain(|stored| !stored.first_ban.is_some_and(|since| self.is_banned(b"", &stored.head, since)));
        read
    }
}

impl Judge for Owner {
    fn is_banned(&self, _: &[u8], head: &[u8], since: u64) -> bool {
        let key = str::from_utf8(head).expect("it is ours").rsplit(' ').next().expect("it has words");
        let covers = |(number, words): &(u64, Box<str>)| *number >= since && [key, "*"].contains(&&**words);
        // What has no number is not known yet.
        since == 0 || self.0.lock().unwrap().bans.iter().any(covers)
    }
}

struct Run {
    seed: u64,
    random: Random,
    world: Arc<World>,
    histories: HashMap<(u64, u8), History>,
    next_body: u64,
    runtime: tokio::runtime::Runtime,
    /// How the last life ended, for messages.
    context: String,
}

impl Run {
    fn new(seed: u64) -> Self {
        Self {
            seed,
            random: Random::new(seed),
            world: World::seeded(BYTES_MAX, seed),
            histories: HashMap::new(),
            next_body: 0,
            runtime: tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime"),
            context: String::new(),
        }
    }

    fn key(number: u64) -> String {
        format!("https://example.com/{number}")
    }

    /// A body that can be told from every other. Its length follows from its number.
    fn body(seed: u64, number: u64) -> Bytes {
        let mut random = Random::new(seed.rotate_left(32) ^ number);
        let len = match random.below(10) {
            0 => 0,
            1..=4 => random.below(2_000),
            5..=7 => random.below(16_000),
            _ => random.below(120_000),
        };
        let mut bytes = number.to_le_bytes().to_vec();
        while bytes.len() < len as usize {
            bytes.extend(random.next().to_le_bytes());
        }
        bytes.into()
    }

    /// One step of the workload.
    fn step(&mut self, shelf: &DiskShelf, owner: &Owner, now: u64) {
        let key = self.random.below(KEYS);
        let variant = self.random.below(2) as u8;
        match self.random.below(21) {
            0..=11 => {
                let number = self.next_body;
                self.next_body += 1;
                let body = Self::body(self.seed, number);
                let middle = body.len() / 3;
                let pieces = vec![body.slice(..middle), body.slice(middle..)];
                let page = page(&Self::key(key), variant, format!("head {number} of {key}"), pieces);
                if shelf.store(page, now).is_ok() {
                    self.histories.entry((key, variant)).or_default().done.push(Step::Stored(number));
                }
            }
            12 | 13 => {
                let only = (self.random.below(2) == 0).then_some(variant);
                shelf.remove(Self::key(key).as_bytes(), only, now);
                for other in [0, 1] {
                    if only.is_none_or(|only| only == other) {
                        let history = self.histories.entry((key, other)).or_default();
                        history.done.push(Step::Removed(By::Tombstone));
                        history.removed = Some(history.done.len() - 1);
                    }
                }
            }
            kind @ (16 | 17) => {
                // Of one key, and seldom of all; by a prefix, or in words.
                let banned = if self.random.below(8) == 0 { 0..KEYS } else { key..key + 1 };
                let is_one = banned.end - banned.start == 1;
                if kind == 16 {
                    let prefix = if is_one { Self::key(key) } else { "https://".to_owned() };
                    shelf.ban(prefix.as_bytes(), now);
                } else {
                    owner.ban(shelf, &if is_one { key.to_string() } else { "*".to_owned() });
                }
                for key in banned {
                    for variant in [0, 1] {
                        let history = self.histories.entry((key, variant)).or_default();
                        history.done.push(Step::Removed(if kind == 16 { By::Prefix } else { By::Words }));
                        history.removed = Some(history.done.len() - 1);
                    }
                }
            }
            14 => {
                if shelf.flush_blocking() {
                    for history in self.histories.values_mut() {
                        history.floor = history.done.len().checked_sub(1);
                    }
                }
            }
            15 => shelf.tick(now),
            _ => self.check_key(shelf, owner, key, now, false),
        }
    }

    /// What can be found under a key is not older than it may be, and right.
    fn check_key(&self, shelf: &DiskShelf, owner: &Owner, key: u64, now: u64, is_reopened: bool) {
        let read = owner.read(self, shelf, key, now);
        for stored in &read {
            let StoredBody::Memory(body) = &stored.body else { panic!("all of it was asked for") };
            let number = u64::from_le_bytes(body[..8].try_into().expect("8 bytes"));
            let what = format!("seed {}, {}, key {key}, body {number}", self.seed, self.context);
            assert_eq!(*body, Self::body(self.seed, number), "{what}: other bytes");
            assert_eq!(stored.head, format!("head {number} of {key}"), "{what}: another head");
            let history = self.histories.get(&(key, stored.variant)).expect("it was stored once");
            let at = history.done.iter().position(|step| *step == Step::Stored(number)).expect("under this key");
            assert!(
                history.floor.is_none_or(|floor| at >= floor),
                "{what}: older than what was durable; {at} in {history:?}"
            );
            let removed = history.removed.filter(|_| !is_reopened);
            assert!(removed.is_none_or(|removed| at > removed), "{what}: it was removed; {at} in {history:?}");
        }
        for variant in [0, 1].into_iter().filter(|_| is_reopened) {
            // What was durable is there, unless something later took its place or a segment was evicted.
            let Some(history) = self.histories.get(&(key, variant)) else { continue };
            let Some(floor) = history.floor else { continue };
            let is_last = floor + 1 == history.done.len();
            let is_evicted = self.world.segments_unlinked.load(Ordering::SeqCst) > 0;
            if is_last && !is_evicted && matches!(history.done[floor], Step::Stored(_)) {
                let is_there = read.iter().any(|stored| stored.variant == variant);
                assert!(is_there, "seed {}, {}, key {key}: lost", self.seed, self.context);
            }
        }
    }

    /// Works until it is killed or done, and checks what the next one finds. Gives the number of operations.
    fn crash(&mut self, kill_at: Option<u64>, is_power_cut: bool, steps: u64) -> u64 {
        let process = self.world.process();
        if let Some(kill_at) = kill_at {
            process.kill_at(kill_at);
        }
        let shelf = open(&process, BYTES_MAX);
        let owner = Owner::of(&shelf);
        for step in 0..steps {
            if process.is_dead() {
                break;
            }
            self.step(&shelf, &owner, 1000 + step / 10);
        }
        let ops = process.ops();
        process.kill();
        shelf.stop();
        drop(shelf);
        if is_power_cut {
            self.world.cut_power(&mut self.random);
        }
        self.context = format!("killed at {kill_at:?}, power cut: {is_power_cut}");
        let process = self.world.process();
        let shelf = open(&process, BYTES_MAX);
        assert!(shelf.flush_blocking(), "seed {}, {}: it cannot be opened", self.seed, self.context);
        let owner = Owner::of(&shelf);
        for key in 0..KEYS {
            self.check_key(&shelf, &owner, key, 2000, true);
        }
        assert_eq!(self.world.overruns.load(Ordering::SeqCst), 0, "seed {}, {}", self.seed, self.context);
        // From here on, what can be found is what there is: the next crash starts from that.
        self.adopt(&shelf, &owner);
        shelf.stop();
        ops
    }

    /// Takes what can be found now for what was stored.
    fn adopt(&mut self, shelf: &DiskShelf, owner: &Owner) {
        for key in 0..KEYS {
            let read = owner.read(self, shelf, key, 2000);
            for variant in [0, 1] {
                let history = self.histories.entry((key, variant)).or_default();
                let last = read.iter().find(|stored| stored.variant == variant).map(|stored| match &stored.body {
                    StoredBody::Memory(body) => u64::from_le_bytes(body[..8].try_into().expect("8 bytes")),
                    StoredBody::Disk(_) => panic!("all of it was asked for"),
                });
                history.done.push(last.map_or(Step::Removed(By::Crash), Step::Stored));
                // It is on the disk; whether it is durable is known only for the last that was flushed.
                let number = last.map(Step::Stored);
                let first = history.done.iter().position(|step| Some(*step) == number);
                if let Some(first) = first {
                    history.done.truncate(first + 1);
                    history.floor = Some(first);
                } else {
                    history.floor = Some(history.done.len() - 1);
                }
                history.removed = None;
            }
        }
    }
}

/// Killed at each operation from the first on, and at random ones of a longer life. Every second time the power goes.
///
/// Everything that is random comes from the seed; when the threads of the shelf run is all that differs between runs.
/// `CRASH_SEEDS=310..311` runs these rounds and no others.
#[test]
fn a_shelf_comes_back_from_any_crash_with_what_was_durable() {
    let seeds = seeds();
    let next = AtomicU64::new(seeds.start);
    // A round mostly waits for one thread to wake another, so that many fit beside each other.
    std::thread::scope(|scope| {
        let work = || {
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= seeds.end {
                    return;
                }
                crash_three_times(seed);
            }
        };
        for _ in 0..WORKERS {
            scope.spawn(work);
        }
    });
}

fn crash_three_times(seed: u64) {
    let mut run = Run::new(seed);
    // The first life: shorter than that, so that every boundary of opening, writing and sealing is met.
    run.crash(Some(seed % 60), seed.is_multiple_of(2), 60);
    // The second, in the midst of evictions; the third right behind it.
    let at = 20 + run.random.below(300);
    run.crash(Some(at), seed.is_multiple_of(3), 160);
    let at = run.random.below(60);
    run.crash(Some(at), seed.is_multiple_of(5), 60);
}

fn seeds() -> Range<u64> {
    let Ok(asked) = std::env::var("CRASH_SEEDS") else { return 0..ROUNDS };
    let ends = asked.split_once("..").map(|(from, to)| (from.parse(), to.parse()));
    let Some((Ok(from), Ok(to))) = ends else { panic!("CRASH_SEEDS is two numbers as in 0..350, and not {asked}") };
    from..to
}

/// Of a segment with a page and a newer one with its removal, a power cut never brings back the first alone.
#[test]
fn what_was_removed_stays_so_when_segments_left_right_before_a_power_cut() {
    // The second process finds nine segments, or eight when the first one evicted one right before it was killed. Of
    // these it evicts as many as its limit asks for; or it cannot read the second, and all up to that one go.
    for (is_first_to_evict, bytes_max, unreadable) in
        [(true, 590 * 1024, 0), (false, 525 * 1024, 0), (false, BYTES_MAX, u64::MAX)]
    {
        for seed in 0..24 {
            let what = format!("seed {seed}, limit {bytes_max}, {unreadable} reads fail");
            let world = World::seeded(BYTES_MAX, seed);
            let process = world.process();
            // Killed right behind the unlink, which is followed by this.
            let rule = Rule { op: Op::Create, suffix: "0a.segment", errno: EIO, times: u64::MAX, after: 0 };
            process.fail(rule);
            let shelf = open(&process, BYTES_MAX);
            assert!(shelf.flush_blocking(), "{what}");
            fill_until(&shelf, "first", || world.segments() == 2);
            shelf.remove(b"first0", None, 1000);
            let unlinked = || world.segments_unlinked.load(Ordering::SeqCst);
            fill_until(&shelf, "then", || if is_first_to_evict { unlinked() == 1 } else { world.segments() == 9 });
            process.kill();
            shelf.stop();
            drop(shelf);
            let process = world.process();
            // Its first block can be read, so that it counts as a segment.
            process.fail(Rule { op: Op::Read, suffix: "02.segment", errno: EIO, times: unreadable, after: 1 });
            let shelf = open(&process, bytes_max);
            assert!(shelf.flush_blocking(), "{what}");
            assert_eq!((unlinked(), world.segments()), (2, 7), "{what}");
            process.kill();
            shelf.stop();
            drop(shelf);
            world.cut_power(&mut Random::new(seed));
            let shelf = open(&world.process(), BYTES_MAX);
            assert!(shelf.flush_blocking(), "{what}");
            assert!(shelf.find(b"first0", 2000).is_empty(), "{what}: it came back");
            shelf.stop();
        }
    }
}

/// Stores pages whose keys are `names` and a number until `is_enough`.
fn fill_until(shelf: &DiskShelf, names: &str, is_enough: impl Fn() -> bool) {
    for number in 0..200 {
        if is_enough() {
            return;
        }
        let body = vec![Bytes::from(vec![7; 6_000])];
        // The last may fail with the segment that cannot be made.
        let _ = shelf.store(page(&format!("{names}{number}"), 0, String::new(), body), 1000);
        shelf.flush_blocking();
    }
    panic!("segments do not fill");
}

fn open(process: &Process, bytes_max: u64) -> DiskShelf {
    let limits = DiskLimits { bytes_max: Some(bytes_max), free_min: 0, inactive: Duration::from_secs(1_000_000) };
    let options = DiskOptions { dir: PathBuf::from("/shelf"), limits, queue_bytes: 64 << 20, events: Arc::new(|_| {}) };
    DiskShelf::with_files(options, Arc::new(process.clone()))
}

fn page(key: &str, variant: u8, head: String, pieces: Vec<Bytes>) -> Page {
    Page {
        key: key.as_bytes().into(),
        variant,
        head: head.into(),
        body: PageBody::Memory(pieces),
        expires_at: u64::MAX,
        cost_micros: 1,
        holds: None,
    }
}

/// As many rounds of three crashes.
const ROUNDS: u64 = 350;
/// As many rounds at the same time.
const WORKERS: usize = 4;
