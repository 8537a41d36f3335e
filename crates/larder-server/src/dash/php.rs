//! How busy pools of php-fpm are, as their status pages say.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use larder_origin::Address;
use parking_lot::Mutex;

/// What a status page says of its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Children that work, without the one that answers the question.
    pub busy: u64,
    /// All children.
    pub children: u64,
    /// Connections that wait for a child; `None` where php-fpm does not know, as of a Unix socket.
    pub waiting: Option<u64>,
    /// The most that have waited since php-fpm was started.
    pub waiting_max: Option<u64>,
    /// How often all children that there may be were busy since php-fpm was started.
    pub exhausted: u64,
}

/// The pools that are asked, by their addresses.
#[derive(Debug, Default)]
pub struct Pools {
    known: Mutex<HashMap<Address, Known>>,
    /// When somebody last wanted to know, in seconds of the steady clock, and one more; 0 for never.
    watched_at: AtomicU64,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    asked_at: Duration,
    told: Option<(Duration, Pool)>,
}

impl Pools {
    /// Somebody wants to know.
    pub fn watch(&self, now: Duration) {
        self.watched_at.store(now.as_secs() + 1, Ordering::Relaxed);
    }

    /// Whether somebody wanted to know lately.
    pub fn is_watched(&self, now: Duration) -> bool {
        let at = self.watched_at.load(Ordering::Relaxed);
        at > 0 && now.as_secs() < at + WATCHED_SECS
    }

    /// Whether a pool is to be asked now; then it is not for some seconds.
    pub fn begin(&self, address: &Address, now: Duration) -> bool {
        let mut known = self.known.lock();
        if let Some(known) = known.get_mut(address) {
            let is_due = now >= known.asked_at + PAUSE;
            if is_due {
                known.asked_at = now;
            }
            return is_due;
        }
        known.retain(|_, known| now < known.asked_at + FORGOTTEN);
        let has_room = known.len() < POOLS_MAX;
        if has_room {
            known.insert(address.clone(), Known { asked_at: now, told: None });
        }
        has_room
    }

    /// What a pool has said; `None` if it said nothing that can be read.
    pub fn end(&self, address: &Address, pool: Option<Pool>, now: Duration) {
        if let Some(known) = self.known.lock().get_mut(address) {
            known.told = pool.map(|pool| (now, pool));
        }
    }

    /// What is known of a pool now.
    pub fn pool(&self, address: &Address, now: Duration) -> Option<Pool> {
        let (at, pool) = self.known.lock().get(address)?.told?;
        (now < at + KNOWN).then_some(pool)
    }
}

/// How long after the last one who wanted to know pools are asked.
const WATCHED_SECS: u64 = 60;
/// How often a pool is asked: longer than an answer is waited for.
const PAUSE: Duration = Duration::from_secs(3);
/// How long an answer holds.
const KNOWN: Duration = Duration::from_secs(10);
/// After what time a pool that is not asked any more is forgotten.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// More pools are not asked.
const POOLS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: Pool = Pool { busy: 1, children: 5, waiting: None, waiting_max: None, exhausted: 2 };

    fn at(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn pools_are_asked_now_and_then_while_somebody_watches() {
        let (pools, address) = (Pools::default(), Address::Unix("/run/php.sock".into()));
        assert!(!pools.is_watched(at(0)));
        pools.watch(at(100));
        assert_eq!([159, 160, 161].map(|secs| pools.is_watched(at(secs))), [true, true, false]);
        assert_eq!(
            [100, 101, 102, 103, 105].map(|secs| pools.begin(&address, at(secs))),
            [true, false, false, true, false]
        );
    }

    #[test]
    fn an_answer_is_known_for_a_while_and_a_failure_ends_it() {
        let (pools, address) = (Pools::default(), Address::Unix("/run/php.sock".into()));
        pools.end(&address, Some(POOL), at(1));
        assert_eq!(pools.pool(&address, at(1)), None, "it was not asked");
        assert!(pools.begin(&address, at(1)));
        pools.end(&address, Some(POOL), at(2));
        assert_eq!([2, 11, 12].map(|secs| pools.pool(&address, at(secs))), [Some(POOL), Some(POOL), None]);
        pools.end(&address, None, at(3));
        assert_eq!(pools.pool(&address, at(3)), None);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let pools = Pools::default();
        let address = |number: usize| Address::Unix(format!("/{number}").into());
        let asked = (0..2 * POOLS_MAX).filter(|number| pools.begin(&address(*number), at(1))).count();
        assert_eq!(asked, POOLS_MAX);
        assert!(pools.begin(&address(500), at(61)), "the others are forgotten");
    }
}
