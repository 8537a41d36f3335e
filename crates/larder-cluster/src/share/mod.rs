//! A shelf that all nodes share, and the right to fetch a page for all: one fetch for many nodes.
//!
//! ```text
//! look -> PTTL page, GETRANGE page -> a value that can be used
//!                `-> take -> SET lock NX PX, PTTL page, GETRANGE page -> the right: fetch it, then `store` or `give_up`
//!                                                                    `-> none: look again soon
//! ```
//! What is asked has a deadline of some milliseconds, and a server that answers nobody in time is left alone for a while: then
//! every node fetches for itself. A lock that is lost, as its time is over or the server has forgotten it, costs a further fetch.
//!
//! A page that cannot be shared leaves a mark, so that nobody waits for it: each node fetches for itself. Before the mark ends,
//! one node takes the right again, and the others still do not wait.
//!
//! Values are bytes; whether one can be used is judged by who knows what they are.

mod line;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::Value as Answer;

use crate::keys::{Keys, PageName};
use crate::settings::{Settings, Shelf};

pub use line::Hear;
pub(crate) use line::{Limits, Line, seldom};

/// The shelf.
pub struct Share {
    keys: Keys,
    looks: Arc<Line>,
    stores: Arc<Line>,
    shelf: Shelf,
    /// How many looks in a row came too late.
    late: AtomicU64,
    counts: Counts,
}

/// What is on the shelf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// A value. It may be of before a purge, or of another page with the same hash.
    There(Value),
    /// Nothing.
    Nothing,
    /// Nothing that can be shared: each node fetches for itself, for so long still. Of [`ALONE`], half is for seeing in time
    /// whether it can be shared by then.
    Alone(Duration),
    /// The server is away or slow.
    Skipped,
}

/// A value that is on the shelf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// The value; the start of one that is longer than this node takes.
    pub bytes: Vec<u8>,
    /// For how long it stays there.
    pub left: Duration,
}

/// What comes of asking for the right to fetch a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Take {
    /// The right; `None` if another node has it.
    pub lock: Option<Lock>,
    /// What is there now: it may have come since.
    pub look: Look,
}

/// What a look has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A value was used.
    Found,
    /// This node fetches for all.
    Missing,
    /// Another node fetches, and this one waits for it.
    Waited,
    /// The server did not answer in time, or was not asked.
    Skipped,
}

/// The right of a node to fetch a page for all. It ends by itself after ten seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    page: PageName,
}

/// What was counted.
#[derive(Debug, Default)]
struct Counts {
    found: AtomicU64,
    missing: AtomicU64,
    waited: AtomicU64,
    skipped: AtomicU64,
    stored: AtomicU64,
    unstored: AtomicU64,
}

/// What was counted since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareCounts {
    /// Looks whose value was used.
    pub found: u64,
    /// Looks after which this node fetched for all.
    pub missing: u64,
    /// Looks that found another node fetching.
    pub waited: u64,
    /// Looks that the server did not answer in time, or was not asked.
    pub skipped: u64,
    /// Values that were sent.
    pub stored: u64,
    /// Values that were not: too large, or too much waited.
    pub unstored: u64,
}

impl Share {
    /// Begins. `said` hears why the server is of no use, and `None` when it is again.
    pub fn start(settings: &Settings, shelf: Shelf, said: Arc<Hear>) -> std::io::Result<Arc<Self>> {
        let looks = Limits { questions: 10_000, bytes: 16 << 20, together: 64 };
        let stores = Limits { questions: 10_000, bytes: STORES_BYTES_MAX.max(shelf.bytes_max), together: 16 };
        let looks = Line::start("share looks", settings.clone(), looks, Arc::clone(&said))?;
        // To connect, over TLS above all, takes longer than a look may: it is done before the first one.
        let mut ping = redis::pipe();
        ping.cmd("PING");
        looks.put(ping, 0);
        Ok(Arc::new(Self {
            keys: Keys::of(&settings.name),
            looks,
            stores: Line::start("share stores", settings.clone(), stores, said)?,
            shelf,
            late: AtomicU64::new(0),
            counts: Counts::default(),
        }))
    }

    /// How large a value may be.
    pub fn bytes_max(&self) -> usize {
        self.shelf.bytes_max
    }

    /// Looks for a page.
    pub async fn look(&self, page: &PageName) -> Look {
        let mut commands = redis::pipe();
        self.add_look(page, &mut commands);
        match self.answers(commands, None).await.as_deref() {
            Some([left, value]) => self.look_of(left, value),
            Some(_) | None => Look::Skipped,
        }
    }

    /// What `PTTL` and `GETRANGE` say.
    fn look_of(&self, left: &Answer, value: &Answer) -> Look {
        look_of(left, value).unwrap_or_else(|| {
            self.looks.doubt();
            Look::Skipped
        })
    }

    /// Takes the right to fetch a page, unless another node has it. `None` if the server is away or slow.
    pub async fn take(&self, page: &PageName) -> Option<Take> {
        let lock = self.keys.lock(page);
        let mut commands = redis::pipe();
        commands.cmd("SET").arg(&lock).arg(1).arg("NX").arg("PX").arg(LOCK_MS);
        self.add_look(page, &mut commands);
        // An answer that comes too late may have given the right to nobody.
        let answers = self.answers(commands, Some(released(&lock))).await?;
        let [taken, left, value] = &answers[..] else { return None };
        let lock = match taken {
            Answer::Okay => Some(Lock { page: page.clone() }),
            Answer::Nil => None,
            Answer::ServerError(_) => return None,
            _ => {
                self.looks.doubt();
                return None;
            }
        };
        Some(Take { lock, look: self.look_of(left, value) })
    }

    fn add_look(&self, page: &PageName, commands: &mut redis::Pipeline) {
        let name = self.keys.page(page);
        // In this order: another node may store a page between the two. A new one with the time of an old one seems older than it
        // is; an old one with the time of a new one would seem younger.
        commands.cmd("PTTL").arg(&name);
        commands.cmd("GETRANGE").arg(&name).arg(0).arg(self.shelf.bytes_max.saturating_sub(1));
    }

    /// Puts values there for so long, and gives the right back.
    pub fn store(&self, lock: &Lock, values: &[(PageName, Vec<u8>)], time: Duration) {
        if values.iter().any(|(_, value)| value.len() > self.shelf.bytes_max || value.is_empty()) {
            return self.give_up(lock, true);
        }
        self.put(lock, values, time);
    }

    /// Counts what a look has led to.
    pub fn count(&self, outcome: Outcome) {
        let Counts { found, missing, waited, skipped, .. } = &self.counts;
        let count = match outcome {
            Outcome::Found => found,
            Outcome::Missing => missing,
            Outcome::Waited => waited,
            Outcome::Skipped => skipped,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Gives the right back without a page. `is_alone`: for a while each node fetches for itself, as the page cannot be shared.
    pub fn give_up(&self, lock: &Lock, is_alone: bool) {
        self.counts.unstored.fetch_add(1, Ordering::Relaxed);
        match is_alone {
            true => self.put(lock, &[(lock.page.clone(), Vec::new())], ALONE),
            false => self.release(&self.keys.lock(&lock.page)),
        }
    }

    /// What was counted.
    pub fn counts(&self) -> ShareCounts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Counts { found, missing, waited, skipped, stored, unstored } = &self.counts;
        ShareCounts {
            found: of(found),
            missing: of(missing),
            waited: of(waited),
            skipped: of(skipped),
            stored: of(stored),
            unstored: of(unstored),
        }
    }

    fn put(&self, lock: &Lock, values: &[(PageName, Vec<u8>)], time: Duration) {
        let time = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).clamp(1, TIME_MS_MAX);
        let mut put = redis::pipe();
        for (page, value) in values {
            put.cmd("SET").arg(self.keys.page(page)).arg(value).arg("PX").arg(time);
        }
        put.cmd("DEL").arg(self.keys.lock(&lock.page));
        let bytes = values.iter().map(|(_, value)| value.len()).sum();
        let is_put = self.stores.put(put, bytes);
        if bytes > 0 {
            let count = if is_put { &self.counts.stored } else { &self.counts.unstored };
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A lock of another node goes, too, if this one's time was over: that costs a fetch.
    fn release(&self, lock: &str) {
        self.stores.put(released(lock), 0);
    }

    async fn answers(&self, commands: redis::Pipeline, undo: Option<redis::Pipeline>) -> Option<Vec<Answer>> {
        let told = self.looks.ask(commands, undo)?;
        match tokio::time::timeout(self.shelf.deadline, told).await {
            Ok(Ok(answers)) => {
                self.late.store(0, Ordering::Relaxed);
                Some(answers)
            }
            Ok(Err(_)) => None,
            Err(_) => {
                let late = self.late.fetch_add(1, Ordering::Relaxed) + 1;
                if is_slow(late, self.looks.told_ago(), self.shelf.deadline) {
                    self.late.store(0, Ordering::Relaxed);
                    self.looks.rest(SLOW_REST);
                }
                None
            }
        }
    }

    /// Whether the server is left alone for now.
    pub fn rests(&self) -> bool {
        self.looks.rests()
    }
}

/// Whether a server that was late so many times in a row is left alone. One that answers others is not: those were behind large
/// pages.
fn is_slow(late: u64, told_ago: Option<Duration>, deadline: Duration) -> bool {
    late >= LATE_MAX && told_ago.is_none_or(|ago| ago > deadline)
}

fn released(lock: &str) -> redis::Pipeline {
    let mut release = redis::pipe();
    release.cmd("DEL").arg(lock);
    release
}

/// The same; `None` if it is no answer to them.
fn look_of(left: &Answer, value: &Answer) -> Option<Look> {
    Some(match (value, left) {
        (Answer::BulkString(value), Answer::Int(left)) => match (value.is_empty(), u64::try_from(*left)) {
            // There is none: -2.
            (true, Err(_)) => Look::Nothing,
            // Or a page that went between the two questions: that costs a fetch, too.
            (true, Ok(left)) => Look::Alone(Duration::from_millis(left)),
            // One that no larder has put there has no end: -1. Or it came between the two.
            (false, Err(_)) => Look::Nothing,
            (false, Ok(left)) => Look::There(Value { bytes: value.clone(), left: Duration::from_millis(left) }),
        },
        (Answer::ServerError(_), _) | (_, Answer::ServerError(_)) => Look::Skipped,
        _ => return None,
    })
}

impl Drop for Share {
    fn drop(&mut self) {
        self.looks.end();
        self.stores.end();
    }
}

/// After so many late answers in a row the server is left alone.
const LATE_MAX: u64 = 3;
/// For so long.
const SLOW_REST: Duration = Duration::from_secs(1);
/// How long a node may fetch for all.
const LOCK_MS: u64 = 10_000;
/// How long each node fetches for itself what cannot be shared.
pub const ALONE: Duration = Duration::from_secs(30);
/// A longer time is none that the server takes: ten years.
const TIME_MS_MAX: u64 = 10 * 365 * 24 * 3600 * 1000;
/// How many bytes wait to be stored.
const STORES_BYTES_MAX: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_late_is_left_alone_unless_it_answers_others() {
        let millis = Duration::from_millis;
        for (late, told_ago, expected) in [
            (LATE_MAX - 1, None, false),
            (LATE_MAX, None, true),
            (LATE_MAX, Some(millis(5)), false),
            (LATE_MAX, Some(millis(6)), true),
            (100, Some(millis(0)), false),
        ] {
            assert_eq!(is_slow(late, told_ago, millis(5)), expected, "{late} {told_ago:?}");
        }
    }
}
