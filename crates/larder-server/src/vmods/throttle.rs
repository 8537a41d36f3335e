//! The token buckets of the module `vsthrottle`.

use std::array;
use std::collections::HashMap;

use parking_lot::Mutex;

use super::secrets::{Digest, Secrets};

/// Buckets by their keys, in parts, so that workers rarely wait for each other.
#[derive(Debug)]
pub struct Throttle {
    parts: [Mutex<Part>; PARTS],
    secrets: Secrets,
}

/// What names a bucket: who asks for other limits has another one, as in the module.
#[derive(Clone, Copy, Debug)]
pub struct Limit<'a> {
    /// Who is limited.
    pub key: &'a [u8],
    /// How many calls there may be in a period.
    pub number: i64,
    /// How long that is, in seconds.
    pub period: f64,
    /// How long one who was denied stays so, in seconds.
    pub block: f64,
}

#[derive(Debug, Default)]
struct Part {
    buckets: HashMap<Digest, Bucket>,
    calls: usize,
}

#[derive(Clone, Debug)]
struct Bucket {
    last_used: f64,
    period: f64,
    blocked_until: f64,
    tokens: i64,
    capacity: i64,
}

const PARTS: usize = 16;
/// How many buckets a part has at most. Beyond it the half that was used less recently is forgotten, which means that
/// its keys begin anew.
const BUCKETS_MAX: usize = 16 * 1024;
/// After how many calls a part forgets the buckets that are full again.
const CALLS_BETWEEN_CLEANUPS: usize = 1000;

impl Throttle {
    /// Takes a token. True if there was none, or the key is blocked. Times are in seconds, from any beginning.
    pub fn is_denied(&self, limit: &Limit<'_>, now: f64) -> bool {
        self.with(limit, now, |bucket| {
            bucket.tokens = bucket.tokens_at(now);
            let is_blocked = limit.block > 0.0 && now < bucket.blocked_until;
            if is_blocked {
                bucket.last_used = now;
            }
            let has_token = bucket.tokens > 0;
            if has_token {
                bucket.tokens -= 1;
                bucket.last_used = now;
            } else if limit.block > 0.0 && !is_blocked {
                bucket.blocked_until = now + limit.block;
            }
            !has_token || is_blocked
        })
    }

    /// Gives a token back.
    pub fn return_token(&self, limit: &Limit<'_>, now: f64) {
        self.with(limit, now, |bucket| bucket.tokens = bucket.tokens.saturating_add(1));
    }

    /// How many tokens there are.
    pub fn remaining(&self, limit: &Limit<'_>, now: f64) -> i64 {
        self.with(limit, now, |bucket| bucket.tokens_at(now))
    }

    /// For how many more seconds the key is blocked.
    pub fn blocked(&self, limit: &Limit<'_>, now: f64) -> f64 {
        self.with(limit, now, |bucket| (bucket.blocked_until - now).max(0.0))
    }

    fn with<T>(&self, limit: &Limit<'_>, now: f64, work: impl FnOnce(&mut Bucket) -> T) -> T {
        let named = (limit.key, limit.number, limit.period.to_bits(), limit.block.to_bits());
        let digest = self.secrets.digest(named);
        let mut part = self.parts[digest.0 as usize % PARTS].lock();
        part.make_room(now);
        let bucket = part.buckets.entry(digest).or_insert_with(|| Bucket::full(limit, now));
        work(bucket)
    }
}

impl Default for Throttle {
    fn default() -> Self {
        Self { parts: array::from_fn(|_| Mutex::default()), secrets: Secrets::default() }
    }
}

impl Part {
    fn make_room(&mut self, now: f64) {
        self.calls += 1;
        let is_full = self.buckets.len() >= BUCKETS_MAX;
        if self.calls < CALLS_BETWEEN_CLEANUPS && !is_full {
            return;
        }
        self.calls = 0;
        self.buckets.retain(|_, bucket| now - bucket.last_used <= bucket.period || now <= bucket.blocked_until);
        if self.buckets.len() >= BUCKETS_MAX {
            let mut times: Vec<f64> = self.buckets.values().map(|bucket| bucket.last_used).collect();
            let (_, middle, _) = times.select_nth_unstable_by(BUCKETS_MAX / 2, f64::total_cmp);
            let middle = *middle;
            self.buckets.retain(|_, bucket| bucket.last_used > middle);
        }
    }
}

impl Bucket {
    fn full(limit: &Limit<'_>, now: f64) -> Self {
        Self {
            last_used: now,
            period: limit.period,
            // Not blocked, whatever the clock began with.
            blocked_until: f64::NEG_INFINITY,
            tokens: limit.number,
            capacity: limit.number,
        }
    }

    /// The tokens with those that have come since the last one was taken: whole ones, and as many as fit.
    fn tokens_at(&self, now: f64) -> i64 {
        let periods = (now - self.last_used).max(0.0) / self.period;
        self.tokens.saturating_add((periods * self.capacity as f64) as i64).min(self.capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(key: &str, number: i64, block: f64) -> Limit<'_> {
        Limit { key: key.as_bytes(), number, period: 10.0, block }
    }

    #[test]
    fn tokens_come_back_with_time() {
        let throttle = Throttle::default();
        let limit = limit("a", 2, 0.0);
        for (now, denied, remaining) in [
            (0.0, false, 1),
            (1.0, false, 0),
            (2.0, true, 0),
            (5.0, true, 0),
            (6.0, false, 0),
            (7.0, true, 0),
            (60.0, false, 1),
        ] {
            assert_eq!(throttle.is_denied(&limit, now), denied, "{now}");
            assert_eq!(throttle.remaining(&limit, now), remaining, "{now}");
        }
        throttle.return_token(&limit, 60.0);
        assert_eq!(throttle.remaining(&limit, 60.0), 2);
        throttle.return_token(&limit, 60.0);
        assert_eq!(throttle.remaining(&limit, 60.0), 2, "there is no room for more");
    }

    #[test]
    fn one_who_was_denied_is_blocked() {
        let throttle = Throttle::default();
        let limit = limit("a", 1, 30.0);
        for (now, denied, blocked) in
            [(0.0, false, 0.0), (1.0, true, 30.0), (12.0, true, 19.0), (30.0, true, 1.0), (45.0, false, 0.0)]
        {
            assert_eq!(throttle.is_denied(&limit, now), denied, "{now}");
            assert_eq!(throttle.blocked(&limit, now), blocked, "{now}");
        }
    }

    #[test]
    fn other_keys_and_limits_have_buckets_of_their_own() {
        let throttle = Throttle::default();
        for limit in [limit("a", 1, 0.0), limit("b", 1, 0.0), limit("a", 2, 0.0), limit("a", 1, 1.0)] {
            assert!(!throttle.is_denied(&limit, 0.0), "{limit:?}");
        }
        assert!(throttle.is_denied(&limit("a", 1, 0.0), 0.0));
    }

    #[test]
    fn limits_that_make_no_sense_are_no_panic() {
        let throttle = Throttle::default();
        for (number, period, denied) in
            [(0, 1.0, true), (-5, 1.0, true), (i64::MAX, 0.0, false), (1, f64::NAN, false), (i64::MIN, -1.0, true)]
        {
            let limit = Limit { key: b"", number, period, block: 0.0 };
            assert_eq!(throttle.is_denied(&limit, 0.0), denied, "{limit:?}");
            throttle.is_denied(&limit, 1e300);
            throttle.return_token(&limit, f64::NAN);
            throttle.remaining(&limit, 1.0);
        }
    }

    #[test]
    fn the_number_of_buckets_is_bounded() {
        let throttle = Throttle::default();
        for number in 0..PARTS * BUCKETS_MAX * 5 / 4 {
            throttle.is_denied(&limit(&number.to_string(), 1, 0.0), number as f64 / 1e6);
        }
        let buckets: usize = throttle.parts.iter().map(|part| part.lock().buckets.len()).sum();
        assert!((PARTS * BUCKETS_MAX / 2..=PARTS * BUCKETS_MAX).contains(&buckets), "{buckets}");
        throttle.is_denied(&limit("late", 1, 0.0), 1000.0);
    }
}
