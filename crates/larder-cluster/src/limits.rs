//! Limits on requests that all nodes count together.
//!
//! Each node limits by a bucket of its own that leaks. A thread tells the server every few milliseconds what the node has let
//! through, key by key, and learns what others have; the user adds that to its bucket. No request waits for it.
//!
//! A key is a string `limits:ZONE:HASH`. Its value is how much was added, its time to live is how long the bucket needs
//! to be empty: so it goes when nobody has to know of it any more, and who comes to it late learns how full the bucket is.
//!
//! ```text
//! SET key 0 NX PX, INCRBY key COUNT, PTTL key -> what others have added since -> the bucket -> PEXPIRE key
//! ```

use std::collections::HashMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use redis::Value;

use crate::carrier::Level;
use crate::ending::Ending;
use crate::fault::Fault;
use crate::keys::{Keys, LimitName};
use crate::link::Link;
use crate::settings::Settings;

/// Who limits. Called by the thread of [`Limits`].
pub trait LimitUser: Send + Sync {
    /// What was let through since it was asked last: so many keys at most, those that count most.
    fn counted(&self, keys_max: usize) -> Vec<Counted>;

    /// Adds what others have let through to the bucket of a key. Returns how long the bucket needs to be empty; `None` if it
    /// is not there any more.
    fn learn(&self, counted: &Counted, others: Others) -> Option<Duration>;

    /// Takes a line for the log.
    fn say(&self, level: Level, line: &str);
}

/// What a node has let through of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Which one.
    pub name: LimitName,
    /// The key itself, which stays here.
    pub key: Arc<[u8]>,
    /// How many requests.
    pub count: u64,
}

/// What others have let through of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// So many requests since this node told of some a moment ago.
    Since(u64),
    /// So many since the bucket was empty, and without those that this node tells of it needs so long to be that again.
    Before(u64, Duration),
}

/// A node's end.
pub struct Limits(Arc<Ending>);

impl Limits {
    /// Starts the thread that tells and learns.
    pub fn start(settings: Settings, user: Arc<dyn LimitUser>) -> std::io::Result<Self> {
        let ending = Arc::new(Ending::default());
        let keys = Keys::of(&settings.name);
        let node =
            Node { ending: Arc::clone(&ending), keys, settings, user, link: None, seen: HashMap::new(), alone: None };
        thread::Builder::new().name("cluster limits".to_owned()).spawn(move || node.run())?;
        Ok(Self(ending))
    }

    /// Ends the thread.
    pub fn end(&self) {
        self.0.end();
    }
}

impl Drop for Limits {
    fn drop(&mut self) {
        self.end();
    }
}

struct Node {
    ending: Arc<Ending>,
    keys: Keys,
    settings: Settings,
    user: Arc<dyn LimitUser>,
    link: Option<Link>,
    /// The value of each key that this node told of a moment ago, and when.
    seen: HashMap<LimitName, (u64, Instant)>,
    /// Why this node counts alone, which the log was told.
    alone: Option<Fault>,
}

impl Node {
    fn run(mut self) {
        let mut time = EVERY;
        while !self.ending.rest(time) {
            let counted = self.user.counted(KEYS_MAX);
            // Whether a server takes counts again is seen by counts alone, whether it is there at any time.
            if counted.is_empty() && !matches!(self.alone, Some(Fault::Unreachable(_))) {
                continue;
            }
            let asked = self.exchange(&counted);
            time = if asked.is_ok() { EVERY } else { RETRY };
            self.say(asked.err());
            if time == RETRY {
                self.link = None;
            }
        }
    }

    /// Tells what was counted, and learns.
    fn exchange(&mut self, counted: &[Counted]) -> Result<(), Fault> {
        let link = match &mut self.link {
            Some(link) => link,
            none => none.insert(Link::open(&self.settings)?),
        };
        if counted.is_empty() {
            return Ok(());
        }
        let mut tell = redis::pipe();
        for counted in counted {
            let key = self.keys.limit(&counted.name);
            // So that it goes even if this node does first.
            tell.cmd("SET").arg(&key).arg(0).arg("NX").arg("PX").arg(UNFINISHED_MS);
            tell.cmd("INCRBY").arg(&key).arg(counted.count);
            tell.cmd("PTTL").arg(&key);
        }
        // Not over another connection if this one breaks: requests would count twice.
        let answers = link.ask_each(&tell)?;
        let now = Instant::now();
        self.seen.retain(|_, (_, at)| now.duration_since(*at) <= FRESH);
        let (mut refused, mut is_counted) = (None, false);
        let mut keep = redis::pipe();
        for (counted, answers) in counted.iter().zip(answers.chunks_exact(COMMANDS)) {
            let [_, Value::Int(total), Value::Int(left)] = answers else {
                // The others count all the same.
                let odd = || Fault::Odd("what a limit counts".to_owned());
                refused =
                    refused.or_else(|| answers.iter().find_map(|answer| link.fault_of(answer)).or_else(|| Some(odd())));
                continue;
            };
            is_counted = true;
            let (total, left) = (u64::try_from(*total).unwrap_or(0), u64::try_from(*left).unwrap_or(0));
            let others = match self.seen.insert(counted.name.clone(), (total, now)) {
                Some((before, _)) => Others::Since(since(total, before, counted.count)),
                // One that nobody has finished yet seems to last longer than what was added does.
                None => Others::Before(total.saturating_sub(counted.count), Duration::from_millis(left)),
            };
            if let Some(time) = self.user.learn(counted, others) {
                let time = time.clamp(Duration::from_millis(1), TIME_MAX).as_millis();
                keep.cmd("PEXPIRE").arg(self.keys.limit(&counted.name)).arg(u64::try_from(time).unwrap_or(u64::MAX));
            }
        }
        if !keep.is_empty() {
            link.ask(&keep)?;
        }
        refused.filter(|_| !is_counted).map_or(Ok(()), Err)
    }

    /// Tells the log when this node begins to count alone, and when it ends to.
    fn say(&mut self, fault: Option<Fault>) {
        let server = self.settings.shown();
        match (&self.alone, &fault) {
            (None, Some(fault)) => {
                let fact = "until then \"limit_req\" counts the requests of this node alone";
                self.user.say(Level::Warn, &format!("cluster: {server} {fault}; {fact}"));
            }
            (Some(_), None) => {
                let fact = "is back: \"limit_req\" counts the requests of all nodes";
                self.user.say(Level::Notice, &format!("cluster: {server} {fact}"));
            }
            (None, None) | (Some(_), Some(_)) => {}
        }
        self.alone = fault;
    }
}

/// What others have added, where a value was `before` and this node has added `count`. A smaller one has begun anew.
fn since(total: u64, before: u64, count: u64) -> u64 {
    total.checked_sub(before).and_then(|added| added.checked_sub(count)).unwrap_or(total.saturating_sub(count))
}

/// How often a node tells and learns.
const EVERY: Duration = Duration::from_millis(20);
/// How long it counts alone after the server was of no use.
const RETRY: Duration = Duration::from_secs(1);
/// How many keys it tells of at once.
const KEYS_MAX: usize = 512;
/// How long ago a node has told of a key so that it knows the moment of what others have added.
const FRESH: Duration = Duration::from_millis(100);
/// How long a key lives if a node ends between its two questions.
const UNFINISHED_MS: u64 = 10_000;
/// How many commands tell of a key.
const COMMANDS: usize = 3;
/// A bucket that needs a day to be empty counts for all nodes no longer.
const TIME_MAX: Duration = Duration::from_secs(24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_have_added_is_what_is_neither_from_before_nor_ours() {
        for (total, before, count, others) in [(10, 5, 5, 0), (12, 5, 3, 4), (3, 5, 3, 0), (4, 5, 3, 1), (6, 5, 3, 3)] {
            assert_eq!(since(total, before, count), others, "{total} {before} {count}");
        }
    }
}
