//! Keeps the memory of the whole process below its limits.
//!
//! A thread measures several times a second ([`measure`]), decides ([`decide`]), and sets the memory for pages and the
//! [`gate`]s of the workers. As everything is measured, nothing has to be counted where it is allocated.

mod decide;
mod gate;
mod groups;
mod measure;
mod speech;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use larder_cache::Memory;
use larder_conf::model::{LogLevel, MemoryTotal};
use parking_lot::Mutex;

use crate::log::main::MainLog;
pub use decide::Stage;
use decide::{Decision, Limit, Look};
pub use gate::{Admission, Counts, Gate};
pub use groups::Group;
use measure::Meter;
pub use measure::for_pages;
use speech::{Facts, Speech};

/// The state that the watching thread shares with those that it limits.
#[derive(Default)]
pub struct Pressure {
    workers: Mutex<Vec<Arc<Counts>>>,
    governed: Mutex<Governed>,
    figures: Figures,
}

/// What the decision sets, and what it remembers between looks.
#[derive(Default)]
struct Governed {
    total: MemoryTotal,
    /// The memories for pages, and what the configuration gives to each.
    memories: Vec<(Weak<Memory>, u64)>,
    /// What all of them may use together; `None` before the first look.
    pages_max: Option<u64>,
    /// How many requests ran at the last looks.
    ran: [u64; SETTLED_LOOKS],
}

/// The numbers for the metrics.
#[derive(Debug, Default)]
struct Figures {
    used: AtomicU64,
    cap: AtomicU64,
    stage: AtomicU64,
}

/// What the last look found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// How much of the nearest limit is used, bytes.
    pub used: u64,
    /// The nearest limit, bytes; `None` if there is none.
    pub cap: Option<u64>,
    /// How short memory is.
    pub stage: Stage,
    /// How many requests and connections wait.
    pub waiting: u64,
}

impl Pressure {
    /// The counts of another worker.
    pub fn add_worker(&self) -> Arc<Counts> {
        let counts = Arc::new(Counts::default());
        self.workers.lock().push(Arc::clone(&counts));
        counts
    }

    /// Sets what the configuration gives to pages and to the process.
    pub fn govern(&self, total: MemoryTotal, memories: &[(Arc<Memory>, u64)]) {
        let mut governed = self.governed.lock();
        governed.total = total;
        governed.memories = memories.iter().map(|(memory, bytes)| (Arc::downgrade(memory), *bytes)).collect();
        governed.apply();
    }

    /// Starts the thread that looks at memory, until nobody holds `self` any more.
    pub fn watch(self: &Arc<Self>, log: MainLog) {
        let (weak, began) = (Arc::downgrade(self), Instant::now());
        let (meter, mut speech) = (Meter::new(), Speech::default());
        if is_little(&meter.limits(self.governed.lock().total)) {
            // Where this fails, freed memory returns only when the system itself needs memory.
            let _ = rustix::thread::disable_transparent_huge_pages(true);
        }
        // The first look is before the first client connects.
        self.look(&meter, &mut speech, &log, Duration::ZERO);
        let watch = move || {
            while let Some(pressure) = weak.upgrade() {
                let facts = pressure.look(&meter, &mut speech, &log, began.elapsed());
                drop(pressure);
                let is_calm = facts.stage == Stage::Ample && facts.limit.used < facts.limit.cap / 2;
                thread::sleep(if is_calm { CALM_INTERVAL } else { INTERVAL });
            }
        };
        // If no thread can be started, the process keeps the limits of the first look.
        let _ = thread::Builder::new().name("memory".into()).spawn(watch);
    }

    /// What the last look found.
    pub fn found(&self) -> Found {
        let stage = self.figures.stage.load(Ordering::Relaxed);
        Found {
            used: self.figures.used.load(Ordering::Relaxed),
            cap: Some(self.figures.cap.load(Ordering::Relaxed)).filter(|&cap| cap > 0),
            stage: Stage::ALL.into_iter().find(|known| *known as u64 == stage).unwrap_or_default(),
            waiting: self.workers.lock().iter().map(|counts| counts.waiting()).sum(),
        }
    }

    fn look(&self, meter: &Meter, speech: &mut Speech, log: &MainLog, now: Duration) -> Facts {
        let total = self.governed.lock().total;
        let facts = self.decide(&meter.limits(total));
        if let Some(line) = speech.line(&facts, now) {
            let level = if facts.stage >= Stage::Full { LogLevel::Warn } else { LogLevel::Notice };
            log.write(level, line);
        }
        facts
    }

    /// Decides from what was measured, and applies the decision.
    fn decide(&self, limits: &[Limit]) -> Facts {
        let workers = self.workers.lock();
        let mut governed = self.governed.lock();
        let running: u64 = workers.iter().map(|counts| counts.running()).sum();
        let waiting: u64 = workers.iter().map(|counts| counts.waiting()).sum();
        let pages_wanted = governed.wanted();
        let look = Look {
            limits,
            pages: governed.used(),
            pages_max: governed.pages_max.unwrap_or(pages_wanted),
            pages_wanted,
            running,
            settled: governed.ran.iter().copied().min().unwrap_or(0).min(running),
            waiting,
        };
        let Decision { pages_max, requests, connections, stage } = look.decide();
        governed.ran.rotate_right(1);
        governed.ran[0] = running;
        governed.pages_max = Some(pages_max);
        governed.apply();
        let count = workers.len().max(1) as u64;
        let share = requests / count as i64;
        for counts in workers.iter() {
            let running_max = counts.running().saturating_add_signed(share).max(RUNNING_MIN);
            let connections = if limits.is_empty() { u64::MAX } else { (connections / count).max(CONNECTIONS_MIN) };
            counts.allow(running_max, connections);
        }
        let limit = look.nearest();
        self.figures.used.store(limit.used, Ordering::Relaxed);
        self.figures.cap.store(if limits.is_empty() { 0 } else { limit.cap }, Ordering::Relaxed);
        self.figures.stage.store(stage as u64, Ordering::Relaxed);
        Facts { stage, limit, pages: (pages_max, pages_wanted), waiting }
    }
}

/// Whether the process may use so little memory that freed memory must return to the system at once.
pub fn has_little_memory(total: MemoryTotal) -> bool {
    is_little(&Meter::new().limits(total))
}

fn is_little(limits: &[Limit]) -> bool {
    limits.iter().any(|limit| limit.cap < LITTLE_BYTES)
}

impl Governed {
    fn each(&self) -> impl Iterator<Item = (Arc<Memory>, u64)> + '_ {
        self.memories.iter().filter_map(|(memory, bytes)| Some((memory.upgrade()?, *bytes)))
    }

    /// What the configuration gives to pages, bytes.
    fn wanted(&self) -> u64 {
        self.each().map(|(_, bytes)| bytes).sum()
    }

    /// What pages use, bytes.
    fn used(&self) -> u64 {
        self.each().map(|(memory, _)| memory.used()).sum()
    }

    /// Gives each memory its share of what all may use.
    fn apply(&self) {
        let wanted = self.wanted();
        let pages_max = self.pages_max.unwrap_or(wanted).min(wanted);
        for (memory, bytes) in self.each() {
            let part = u128::from(bytes) * u128::from(pages_max) / u128::from(wanted.max(1));
            memory.adjust(u64::try_from(part).unwrap_or(bytes));
        }
    }
}

/// The time between two looks. A look allows only what fits until the next, so this can be longer while most of the
/// memory is free.
const INTERVAL: Duration = Duration::from_millis(100);
const CALM_INTERVAL: Duration = Duration::from_millis(500);

/// Below this limit, huge pages are turned off: the system takes a huge page back only when all of it is free, or when
/// it needs memory itself. Measured in a group of 64 MB: 15 MB lost.
const LITTLE_BYTES: u64 = 1 << 30;

/// A request that already ran this many looks ago has taken its memory.
const SETTLED_LOOKS: usize = 3;

/// However short memory is, this many requests run on each worker, so that waiting ones get their turn.
const RUNNING_MIN: u64 = 8;

/// Likewise for connections that a worker accepts between two looks.
const CONNECTIONS_MIN: u64 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    fn used(mb: u64) -> [Limit; 1] {
        [Limit { cap: 60 * MB, used: mb * MB }]
    }

    #[test]
    fn each_memory_has_its_part_of_what_pages_may_take() {
        let pressure = Pressure::default();
        let (one, two) = (Memory::new(18 * MB), Memory::new(6 * MB));
        pressure.govern(MemoryTotal::Auto, &[(Arc::clone(&one), 18 * MB), (Arc::clone(&two), 6 * MB)]);
        pressure.decide(&used(20));
        assert_eq!((one.stats().bytes_max, two.stats().bytes_max), (18 * MB, 6 * MB));
        // The memories are empty: the used memory is something else.
        pressure.decide(&used(47));
        assert_eq!((one.stats().bytes_max, two.stats().bytes_max), (6 * MB, 2 * MB));
        pressure.decide(&used(61));
        assert_eq!((one.stats().bytes_max, two.stats().bytes_max), (0, 0));
        assert_eq!(pressure.found().stage, Stage::Full);
        for _ in 0..20 {
            pressure.decide(&used(10));
        }
        assert_eq!((one.stats().bytes_max, two.stats().bytes_max), (18 * MB, 6 * MB));
        // A new configuration begins with what the old one may use.
        pressure.decide(&used(51));
        let before = one.stats().bytes_max;
        pressure.govern(MemoryTotal::Auto, &[(Arc::clone(&one), 18 * MB), (Arc::clone(&two), 6 * MB)]);
        assert_eq!(one.stats().bytes_max, before);
    }

    #[test]
    fn workers_are_told_what_may_run() {
        let pressure = Pressure::default();
        let (one, two) = (pressure.add_worker(), pressure.add_worker());
        let gates = [Gate::new(Arc::clone(&one)), Gate::new(Arc::clone(&two))];
        pressure.decide(&[]);
        assert_eq!(pressure.found(), Found { used: 0, cap: None, stage: Stage::Ample, waiting: 0 });
        let enter = |gate: &std::rc::Rc<Gate>| {
            let mut admission = Box::pin({
                let gate = std::rc::Rc::clone(gate);
                async move { gate.admit().await }
            });
            let polled = admission.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
            (admission, polled)
        };
        for gate in &gates {
            pressure.decide(&used(61));
            let mut running: Vec<_> = (0..RUNNING_MIN).map(|_| enter(gate).1).collect();
            assert!(running.iter().all(std::task::Poll::is_ready), "so many run in any case");
            let (waiting, polled) = enter(gate);
            assert!(polled.is_pending());
            assert_eq!(pressure.decide(&used(61)).stage, Stage::Waiting);
            pressure.decide(&used(40));
            gate.let_in();
            running.clear();
            drop(waiting);
        }
        assert_eq!(pressure.decide(&used(40)).stage, Stage::Ample);
    }
}
