//! `limit_req` and `limit_conn`: limits on the rate of requests and on simultaneous ones, by key. All workers share the
//! zones.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use larder_http::Time;
use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64;

use crate::lru::Lru;

/// Keys longer than this are not limited, as in nginx; the request machine says so in the log.
pub const REQ_KEY_BYTES_MAX: usize = 65_535;
/// The same for `limit_conn`.
pub const CONN_KEY_BYTES_MAX: usize = 255;

/// The most locks that a zone has.
const SHARDS_MAX: usize = 16;
/// The least memory of a shard: with smaller ones, a busy shard would forget states while another one is empty.
const SHARD_BYTES_MIN: usize = 256 * 1024;
/// What nginx needs beside each key: nodes of a tree, in slabs of powers of two.
const REQ_STATE_BYTES: usize = 80;
const CONN_STATE_BYTES: usize = 36;
/// How old a state must be before it may be forgotten, if it would let a request through at once.
const FORGET_AFTER: Duration = Duration::from_secs(60);
/// A zone with a rate above a request a second does not tell of a request that comes after so many could have: who asks a machine
/// for less than a sixteenth of the rate.
const QUIET_MILLI: i128 = 16_000;
const TOLD_RATE_MILLI_MAX: u64 = 1000;
/// How many machines may share a zone, and for how long a client is refused for more than they all let through.
const MACHINES_MAX: u64 = 50;
const WRONG_MAX: Duration = Duration::from_secs(60);
/// Of how many keys a shard tells at once.
const TOLD_KEYS_MAX: usize = 1024;
/// How many such states one new key removes.
const FORGET_AT_ONCE: usize = 2;

/// The states of one `limit_req_zone`. Numbers of requests are in thousandths, as in nginx.
#[derive(Debug)]
pub struct LimitReqZone {
    rate_milli: u64,
    /// The largest burst of those who use it.
    burst_milli: AtomicU64,
    shards: Box<[Mutex<ReqShard>]>,
    shard_bytes: usize,
    /// What came of the requests that it was asked about.
    pub outcomes: Outcomes,
}

/// What a limit has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It let a request pass.
    Passed,
    /// It held one up.
    Delayed,
    /// It refused one.
    Rejected,
    /// It would have held one up (`limit_req_dry_run`).
    DelayedDry,
    /// It would have refused one.
    RejectedDry,
}

/// How often. All workers add to it.
#[derive(Debug, Default)]
pub struct Outcomes([AtomicU64; 5]);

impl Outcomes {
    /// Counts one.
    pub fn add(&self, outcome: Outcome) {
        self.0[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How often it came to this.
    pub fn of(&self, outcome: Outcome) -> u64 {
        self.0[outcome as usize].load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
struct ReqShard {
    states: Lru<ReqState>,
    bytes: usize,
    /// What was let through since other machines were told; `None` if they are told nothing.
    tally: Option<Tally>,
}

/// How many requests of each key.
type Tally = HashMap<Arc<[u8]>, u64>;

/// A leaking bucket.
#[derive(Clone, Copy, Debug)]
struct ReqState {
    /// Its contents at `last`.
    excess: i64,
    last: Time,
}

/// One `limit_req` applied to a request.
#[derive(Clone, Copy, Debug)]
pub struct LimitReq<'a> {
    /// The zone.
    pub zone: &'a LimitReqZone,
    /// The value of the zone's key. If it is empty or too long, this limit does not apply.
    pub key: &'a [u8],
    /// `burst=`, requests.
    pub burst: u64,
    /// `delay=`, requests; `None` for `nodelay`.
    pub delay: Option<u64>,
}

/// What the limits say about a request. The numbers are for the log: `excess: 1.250 by zone "a"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReqVerdict {
    /// No limit applies.
    Unlimited,
    /// The request goes on.
    Pass,
    /// The request goes on after a while.
    Delay {
        /// How long.
        wait: Duration,
        /// Thousandths of a request above the rate.
        excess: u64,
        /// The limit with the longest wait, by its place in the list.
        limit: usize,
    },
    /// The request is refused.
    Reject {
        /// Thousandths of a request above the rate.
        excess: u64,
        /// The limit that refuses it, by its place in the list.
        limit: usize,
    },
}

impl LimitReqZone {
    /// A zone with about `bytes` of states that allows `rate_milli` thousandths of a request a second.
    pub fn new(bytes: usize, rate_milli: u64) -> Self {
        let shards = shard_count(bytes);
        Self {
            rate_milli: rate_milli.max(1),
            burst_milli: AtomicU64::new(0),
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            shard_bytes: bytes / shards,
            outcomes: Outcomes::default(),
        }
    }

    fn shard(&self, key: &[u8]) -> &Mutex<ReqShard> {
        &self.shards[xxh3_64(key) as usize % self.shards.len()]
    }

    /// The contents of a bucket at `now` with one more request, and how long it leaked.
    fn leak(&self, state: &ReqState, now: Time) -> (i64, i64) {
        let passed = i128::from(now.0) - i128::from(state.last.0);
        let passed = match passed {
            // The clock was set back by more than a minute: count from the new time.
            ..-60_000 => 1,
            -60_000..0 => 0,
            0.. => i64::try_from(passed).unwrap_or(i64::MAX),
        };
        let leaked = i128::from(self.rate_milli) * i128::from(passed) / 1000;
        let excess = (i128::from(state.excess) - leaked + 1000).max(0);
        (i64::try_from(excess).unwrap_or(i64::MAX), passed)
    }

    /// Adds a request to the bucket of `key`, unless it would then hold more than `most` thousandths. Returns what it
    /// holds, or would hold.
    fn add(&self, key: &[u8], most: u64, now: Time) -> Result<i64, i64> {
        let mut shard = self.shard(key).lock();
        let Some(state) = shard.states.touch(key) else {
            shard.insert(self, key, now);
            shard.tell(self, key, i64::MAX);
            return Ok(0);
        };
        let (excess, passed) = self.leak(state, now);
        if is_above(excess, most) {
            return Err(excess);
        }
        state.excess = excess;
        if passed != 0 {
            state.last = now;
        }
        shard.tell(self, key, passed);
        Ok(excess)
    }

    /// Whether what is let through is counted for other machines, from now on.
    pub fn share(&self, is_shared: bool) {
        for shard in &self.shards {
            shard.lock().tally = is_shared.then(Tally::default);
        }
    }

    /// What was let through since this was asked last, if that is counted: keys, and how many requests of each.
    pub fn take_told(&self) -> impl Iterator<Item = (Arc<[u8]>, u64)> {
        self.shards.iter().filter_map(|shard| shard.lock().tally.as_mut().map(std::mem::take)).flatten()
    }

    /// Knows that a limit which uses the zone has this `burst=`, requests.
    pub fn has_burst(&self, burst: u64) {
        self.burst_milli.fetch_max(burst.saturating_mul(1000), Ordering::Relaxed);
    }

    /// How much a bucket holds at most after others have added to it: what as many machines as a cluster has let through at
    /// once before they know of each other, and what comes in a minute. A wrong number from outside does no more.
    fn most_of_all(&self) -> u64 {
        let at_once = self.burst_milli.load(Ordering::Relaxed).saturating_add(1000).saturating_mul(MACHINES_MAX);
        at_once.saturating_add(self.leaks(WRONG_MAX))
    }

    /// Adds so many requests of other machines to the bucket of `key`, which then holds `least` thousandths at least; but no
    /// more than all machines may have let through. Returns how long it needs to be empty; `None` if there is no bucket.
    pub fn add_others(&self, key: &[u8], requests: u64, least: u64, now: Time) -> Option<Duration> {
        let signed = |number| i64::try_from(number).unwrap_or(i64::MAX);
        let mut shard = self.shard(key).lock();
        let state = shard.states.touch(key)?;
        let most = signed(self.most_of_all());
        let least = least.min(self.most_of_all());
        // As if they had come with the last one of this machine: what the bucket leaked since is theirs, too.
        let all = state.excess.saturating_add(signed(requests.saturating_mul(1000)));
        state.excess = all.min(most.max(state.excess));
        // A bucket's contents are without the last request, see `leak`.
        let (mut held, _) = self.leak(state, now);
        if held < signed(least) {
            held = signed(least);
            *state = ReqState { excess: held.saturating_sub(1000), last: now };
        }
        Some(Duration::from_millis(held.unsigned_abs().saturating_mul(1000) / self.rate_milli))
    }

    /// How many thousandths leak in this time.
    pub fn leaks(&self, time: Duration) -> u64 {
        let leaked = u128::from(self.rate_milli) * time.as_millis() / 1000;
        u64::try_from(leaked).unwrap_or(u64::MAX)
    }

    /// Whether other machines are told of a request that comes so many milliseconds after the last one of its key.
    fn is_told(&self, passed: i64) -> bool {
        let leaked = i128::from(self.rate_milli) * i128::from(passed) / 1000;
        self.rate_milli <= TOLD_RATE_MILLI_MAX || leaked < QUIET_MILLI
    }

    /// What the bucket of `key` would hold with one more request; 0 if there is no bucket.
    fn excess(&self, key: &[u8], now: Time) -> i64 {
        let mut shard = self.shard(key).lock();
        shard.states.touch(key).map_or(0, |state| self.leak(state, now).0)
    }

    /// How long a request with this `excess` waits, if the first `delay` do not wait.
    fn wait(&self, excess: i64, delay: Option<u64>) -> Duration {
        let Some(delay) = delay else {
            return Duration::ZERO;
        };
        let over = u64::try_from(excess).unwrap_or(0).saturating_sub(delay.saturating_mul(1000));
        Duration::from_millis(over.saturating_mul(1000) / self.rate_milli)
    }
}

impl ReqShard {
    /// Counts a request for other machines, if they are told, that comes so many milliseconds after the last one of its key.
    fn tell(&mut self, zone: &LimitReqZone, key: &[u8], passed: i64) {
        let Some(tally) = self.tally.as_mut().filter(|_| zone.is_told(passed)) else { return };
        if let Some(count) = tally.get_mut(key) {
            *count += 1;
        } else if tally.len() < TOLD_KEYS_MAX {
            tally.insert(key.into(), 1);
        }
    }

    fn insert(&mut self, zone: &LimitReqZone, key: &[u8], now: Time) {
        for _ in 0..FORGET_AT_ONCE {
            match self.states.oldest() {
                Some((_, state)) if is_forgettable(zone, state, now) => self.pop_oldest(),
                _ => break,
            }
        }
        let bytes = slab_bytes(REQ_STATE_BYTES, key);
        while self.bytes + bytes > zone.shard_bytes && !self.states.is_empty() {
            self.pop_oldest();
        }
        self.bytes += bytes;
        self.states.insert(key, ReqState { excess: 0, last: now });
    }

    fn pop_oldest(&mut self) {
        if let Some((key, _)) = self.states.pop_oldest() {
            self.bytes -= slab_bytes(REQ_STATE_BYTES, &key);
        }
    }
}

fn is_forgettable(zone: &LimitReqZone, state: &ReqState, now: Time) -> bool {
    let passed = now.0.abs_diff(state.last.0);
    let leaked = i128::from(zone.rate_milli) * i128::from(passed) / 1000;
    u128::from(passed) >= FORGET_AFTER.as_millis() && i128::from(state.excess) <= leaked
}

/// Checks all `limit_req` of a location for one request, and counts the request if it may go on.
///
/// As in nginx: the first limit that is exceeded ends the check, and then no limit has counted the request. Otherwise
/// each limit counts it, and the longest wait applies. The last limit checks and counts in one step, so that with a
/// single limit, the usual case, two workers never let in one request too many.
pub fn limit_req(limits: &[LimitReq<'_>], now: Time) -> ReqVerdict {
    let is_about = |limit: &LimitReq<'_>| !limit.key.is_empty() && limit.key.len() <= REQ_KEY_BYTES_MAX;
    let Some(last) = limits.iter().rposition(is_about) else {
        return ReqVerdict::Unlimited;
    };
    let reject = |excess: i64, limit| ReqVerdict::Reject { excess: excess.unsigned_abs(), limit };
    let before = || limits[..last].iter().enumerate().filter(|(_, limit)| is_about(limit));
    for (n, limit) in before() {
        let excess = limit.zone.excess(limit.key, now);
        if is_above(excess, limit.burst_milli()) {
            return reject(excess, n);
        }
    }
    let excess = match limits[last].zone.add(limits[last].key, limits[last].burst_milli(), now) {
        Ok(excess) => excess,
        Err(excess) => return reject(excess, last),
    };
    let mut longest = (limits[last].zone.wait(excess, limits[last].delay), excess, last);
    for (n, limit) in before().rev() {
        let excess = limit.zone.add(limit.key, u64::MAX, now).unwrap_or_else(|excess| excess);
        let wait = limit.zone.wait(excess, limit.delay);
        if wait > longest.0 {
            longest = (wait, excess, n);
        }
    }
    match longest {
        (Duration::ZERO, ..) => ReqVerdict::Pass,
        (wait, excess, limit) => ReqVerdict::Delay { wait, excess: excess.unsigned_abs(), limit },
    }
}

impl LimitReq<'_> {
    fn burst_milli(&self) -> u64 {
        self.burst.saturating_mul(1000)
    }
}

fn is_above(excess: i64, most: u64) -> bool {
    u64::try_from(excess).unwrap_or(0) > most
}

/// `1.250`: an excess as the log has it.
pub fn excess_text(excess: u64) -> String {
    format!("{}.{:03}", excess / 1000, excess % 1000)
}

/// The counts of one `limit_conn_zone`.
#[derive(Debug)]
pub struct LimitConnZone {
    shards: Box<[Mutex<ConnShard>]>,
    shard_bytes: usize,
    /// What came of the requests that it was asked about.
    pub outcomes: Outcomes,
}

#[derive(Debug, Default)]
struct ConnShard {
    counts: HashMap<Arc<[u8]>, u32>,
    bytes: usize,
}

/// A request that is counted in a zone, until this is dropped.
#[derive(Debug)]
pub struct ConnGuard {
    zone: Arc<LimitConnZone>,
    key: Arc<[u8]>,
}

/// Why `limit_conn` refuses a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnRefusal {
    /// As many as allowed are running already.
    #[error("limiting connections")]
    Limited,
    /// The zone is full of other keys; counts in use cannot be forgotten.
    #[error("no room left in the zone")]
    Full,
}

impl LimitConnZone {
    /// A zone of about `bytes` of counts.
    pub fn new(bytes: usize) -> Self {
        let shards = shard_count(bytes);
        Self {
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            shard_bytes: bytes / shards,
            outcomes: Outcomes::default(),
        }
    }

    /// Counts one more request under `key`, of which `max` are allowed. `None` for a key that is not counted: an empty
    /// or too long one.
    pub fn enter(self: &Arc<Self>, key: &[u8], max: u32) -> Result<Option<ConnGuard>, ConnRefusal> {
        if key.is_empty() || key.len() > CONN_KEY_BYTES_MAX {
            return Ok(None);
        }
        let mut shard = self.shard(key).lock();
        let key = match shard.counts.get_key_value(key) {
            Some((_, count)) if *count >= max => return Err(ConnRefusal::Limited),
            Some((key, _)) => Arc::clone(key),
            None => {
                let bytes = slab_bytes(CONN_STATE_BYTES, key);
                if shard.bytes + bytes > self.shard_bytes {
                    return Err(ConnRefusal::Full);
                }
                shard.bytes += bytes;
                key.into()
            }
        };
        *shard.counts.entry(Arc::clone(&key)).or_insert(0) += 1;
        Ok(Some(ConnGuard { zone: Arc::clone(self), key }))
    }

    fn shard(&self, key: &[u8]) -> &Mutex<ConnShard> {
        &self.shards[xxh3_64(key) as usize % self.shards.len()]
    }
}

impl Drop for ConnGuard {
    fn drop(&mut self) {
        let mut shard = self.zone.shard(&self.key).lock();
        if let Some(count) = shard.counts.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                shard.counts.remove(&self.key);
                shard.bytes -= slab_bytes(CONN_STATE_BYTES, &self.key);
            }
        }
    }
}

/// Checks all `limit_conn` of a location, given as zone, key and number. The guards are to be kept as long as the
/// request. A request that is refused is not counted anywhere; the error has the place of the limit.
pub fn limit_conn<'a>(
    limits: impl IntoIterator<Item = (&'a Arc<LimitConnZone>, &'a [u8], u32)>,
) -> Result<Vec<ConnGuard>, (usize, ConnRefusal)> {
    let mut guards = Vec::new();
    for (n, (zone, key, max)) in limits.into_iter().enumerate() {
        guards.extend(zone.enter(key, max).map_err(|refusal| (n, refusal))?);
    }
    Ok(guards)
}

/// Parses a rate as `limit_rate` takes it from a variable: bytes a second, with `k` or `m` times 1024 or 1024². `None`
/// if it is malformed.
pub fn parse_rate(text: &[u8]) -> Option<u64> {
    let (digits, unit): (&[u8], u64) = match text {
        [digits @ .., b'k' | b'K'] => (digits, 1 << 10),
        [digits @ .., b'm' | b'M'] => (digits, 1 << 20),
        _ => (text, 1),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse::<u64>().ok()?.checked_mul(unit)
}

fn shard_count(bytes: usize) -> usize {
    (bytes / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX)
}

fn slab_bytes(state: usize, key: &[u8]) -> usize {
    (state + key.len()).next_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZONE_BYTES: usize = 1 << 20;

    /// The verdicts on requests of one key at these times in milliseconds.
    fn verdicts(rate_milli: u64, burst: u64, delay: Option<u64>, at: &[u64]) -> Vec<String> {
        let zone = LimitReqZone::new(ZONE_BYTES, rate_milli);
        let ask = |&millis: &u64| {
            let limit = LimitReq { zone: &zone, key: b"k", burst, delay };
            match limit_req(&[limit], Time(1_000_000 + millis)) {
                ReqVerdict::Unlimited => "unlimited".to_owned(),
                ReqVerdict::Pass => "pass".to_owned(),
                ReqVerdict::Delay { wait, excess, .. } => {
                    format!("{} ms, {}", wait.as_millis(), excess_text(excess))
                }
                ReqVerdict::Reject { excess, .. } => format!("reject, {}", excess_text(excess)),
            }
        };
        at.iter().map(ask).collect()
    }

    /// Worked out by hand; the second line was compared with the log of nginx 1.22.
    #[test]
    fn a_bucket_leaks_at_its_rate() {
        for (rate, burst, delay, at, expected) in [
            (
                1000,
                0,
                Some(0),
                &[0, 0, 999, 1000, 2000][..],
                &["pass", "reject, 1.000", "reject, 0.001", "pass", "pass"][..],
            ),
            (2000, 3, Some(1), &[0, 0, 0, 0, 0], &["pass", "pass", "500 ms, 2.000", "1000 ms, 3.000", "reject, 4.000"]),
            (2000, 3, Some(0), &[0, 250, 500], &["pass", "250 ms, 0.500", "500 ms, 1.000"]),
            (2000, 2, None, &[0, 0, 0, 0, 500], &["pass", "pass", "pass", "reject, 3.000", "pass"]),
            (500, 1, Some(0), &[0, 1000, 60_000], &["pass", "1000 ms, 0.500", "pass"]),
            (333, 1, Some(0), &[0, 100], &["pass", "2903 ms, 0.967"]),
        ] {
            assert_eq!(verdicts(rate, burst, delay, at), expected, "rate {rate} burst {burst} delay {delay:?}");
        }
    }

    #[test]
    fn a_clock_set_back_does_not_punish() {
        let zone = LimitReqZone::new(ZONE_BYTES, 1000);
        let ask = |millis| {
            let limit = LimitReq { zone: &zone, key: b"k", burst: 5, delay: None };
            limit_req(&[limit], Time(millis));
            zone.shard(b"k").lock().states.touch(b"k").map(|state| (state.excess, state.last.0))
        };
        assert_eq!(ask(100_000), Some((0, 100_000)));
        assert_eq!(ask(99_000), Some((1000, 100_000)), "a second back: as if no time passed");
        assert_eq!(ask(10_000), Some((1999, 10_000)), "long back: counted from there");
    }

    #[test]
    fn of_several_limits_the_longest_wait_counts_and_a_refusal_counts_nowhere() {
        let (slow, fast) = (LimitReqZone::new(ZONE_BYTES, 1000), LimitReqZone::new(ZONE_BYTES, 10_000));
        let ask = |key: &'static [u8]| {
            let slow = LimitReq { zone: &slow, key, burst: 1, delay: Some(0) };
            let fast = LimitReq { zone: &fast, key: b"all", burst: 9, delay: Some(0) };
            limit_req(&[slow, fast], Time(5_000))
        };
        let excess_of_all = || fast.excess(b"all", Time(5_000));
        assert_eq!(ask(b"a"), ReqVerdict::Pass);
        let wait = Duration::from_secs(1);
        assert_eq!(ask(b"a"), ReqVerdict::Delay { wait, excess: 1000, limit: 0 });
        assert_eq!(excess_of_all(), 2000);
        assert_eq!(ask(b"a"), ReqVerdict::Reject { excess: 2000, limit: 0 });
        assert_eq!(excess_of_all(), 2000, "what the first refused the second has not seen");
        let wait = Duration::from_millis(200);
        assert_eq!(ask(b""), ReqVerdict::Delay { wait, excess: 2000, limit: 1 }, "an empty key is not limited");
        let nobody = LimitReq { zone: &slow, key: b"", burst: 0, delay: None };
        assert_eq!(limit_req(&[nobody], Time(0)), ReqVerdict::Unlimited);
        assert_eq!(limit_req(&[], Time(0)), ReqVerdict::Unlimited);
    }

    #[test]
    fn what_others_let_through_fills_the_bucket() {
        let zone = LimitReqZone::new(ZONE_BYTES, 2000);
        assert_eq!(zone.add_others(b"k", 1, 0, Time(0)), None, "no bucket");
        let add = |millis| zone.add(b"k", 9000, Time(millis));
        assert_eq!((add(0), add(0)), (Ok(0), Ok(1000)));
        // Two of here and three of others, two a second: the last one has gone after 2.5 seconds.
        assert_eq!(zone.add_others(b"k", 3, 0, Time(0)), Some(Duration::from_millis(2500)));
        assert_eq!(add(500), Ok(4000));
        for (least, held_ms) in [(4000, 2500), (5000, 2500), (9000, 4500)] {
            assert_eq!(zone.add_others(b"k", 0, least, Time(500)), Some(Duration::from_millis(held_ms)), "{least}");
        }
        assert_eq!((add(500), add(500)), (Ok(9000), Err(10_000)));
        // Others who came while the bucket was empty here have leaked with it.
        assert_eq!(zone.add_others(b"k", 2, 0, Time(10_000)), Some(Duration::ZERO));
        assert_eq!(zone.leaks(Duration::from_millis(1500)), 3000);
    }

    #[test]
    fn a_wrong_number_of_others_refuses_nobody_for_long() {
        for (rate_milli, burst, seconds) in [(10_000, 20, 60 + 105), (1000, 0, 60 + 50), (83, 5, 60 + 3614)] {
            for wrong in [10_000_000, i64::MAX as u64, u64::MAX] {
                let zone = LimitReqZone::new(ZONE_BYTES, rate_milli);
                zone.has_burst(burst);
                zone.has_burst(burst / 2);
                assert_eq!(zone.add(b"k", 0, Time(0)), Ok(0));
                let until_empty = [zone.add_others(b"k", wrong, 0, Time(0)), zone.add_others(b"k", 0, wrong, Time(0))];
                for time in until_empty {
                    let time = time.expect("there is a bucket").as_secs();
                    // The bucket's contents are given with one more request.
                    let more = 1 + 1000 / rate_milli;
                    assert!((seconds..=seconds + more).contains(&time), "{rate_milli} {burst} {wrong}: {time}");
                }
            }
        }
    }

    #[test]
    fn a_zone_tells_what_it_let_through_if_it_is_to_and_of_no_quiet_client() {
        let told = |rate_milli, is_shared: bool, at: &[u64]| {
            let zone = LimitReqZone::new(ZONE_BYTES, rate_milli);
            zone.share(is_shared);
            for millis in at {
                let _ = zone.add(b"k", 1000, Time(*millis));
            }
            let told: Vec<u64> = zone.take_told().map(|(_, count)| count).collect();
            assert_eq!(zone.take_told().count(), 0, "it is told once");
            told
        };
        for (rate_milli, is_shared, at, expected) in [
            (1000, false, &[0, 0][..], &[][..]),
            (1000, true, &[0, 0, 0, 0], &[2]),
            (1000, true, &[0, 60_000], &[2]),
            (1001, true, &[0], &[]),
            (1001, true, &[0, 0], &[1]),
            (10_000, true, &[0, 1600, 3200], &[]),
            (10_000, true, &[0, 1599, 3198], &[2]),
        ] {
            assert_eq!(told(rate_milli, is_shared, at), expected, "{rate_milli} {is_shared} {at:?}");
        }
        let zone = LimitReqZone::new(128 * 1024, 1);
        zone.share(true);
        for n in 0..2 * TOLD_KEYS_MAX {
            let _ = zone.add(&n.to_be_bytes(), 0, Time(0));
        }
        assert_eq!(zone.take_told().count(), TOLD_KEYS_MAX);
        zone.share(false);
        let _ = zone.add(b"k", 0, Time(0));
        assert_eq!(zone.take_told().count(), 0);
    }

    #[test]
    fn a_zone_keeps_to_its_bytes_and_forgets_the_oldest() {
        let zone = LimitReqZone::new(32 * 1024, 1);
        let fits = 32 * 1024 / 128;
        for n in 0..2 * fits {
            let key = format!("{n:08}");
            zone.add(key.as_bytes(), u64::MAX, Time(n as u64)).expect("no limit");
            zone.add(b"busy....", u64::MAX, Time(n as u64)).expect("no limit");
            let shard = zone.shards[0].lock();
            assert!(shard.bytes <= 32 * 1024 && shard.states.len() <= fits, "after {n}");
        }
        assert!(zone.excess(b"busy....", Time(0)) > 1000, "what is used stays");
        assert_eq!(zone.excess(b"00000000", Time(0)), 0, "what is not used goes");
    }

    #[test]
    fn idle_states_are_forgotten_by_twos() {
        let zone = LimitReqZone::new(32 * 1024, 1000);
        for n in 0..5 {
            zone.add(format!("{n}").as_bytes(), u64::MAX, Time(0)).expect("no limit");
        }
        for (millis, key, left) in [(59_999, "x", 6), (60_000, "y", 5), (60_000, "z", 4)] {
            zone.add(key.as_bytes(), u64::MAX, Time(millis)).expect("no limit");
            assert_eq!(zone.shards[0].lock().states.len(), left, "after {key}");
        }
    }

    #[test]
    fn rates_are_sizes() {
        for (text, rate) in [
            ("0", Some(0)),
            ("500", Some(500)),
            ("4k", Some(4096)),
            ("4K", Some(4096)),
            ("1m", Some(1 << 20)),
            ("1M", Some(1 << 20)),
            ("", None),
            ("k", None),
            ("-1", None),
            ("+1", None),
            ("1g", None),
            ("1.5k", None),
            ("99999999999999999999", None),
            ("18446744073709551615k", None),
        ] {
            assert_eq!(parse_rate(text.as_bytes()), rate, "{text}");
        }
    }

    #[test]
    fn so_many_at_once_and_no_more() {
        let zone = Arc::new(LimitConnZone::new(ZONE_BYTES));
        let first = zone.enter(b"k", 2).expect("one");
        let second = zone.enter(b"k", 2).expect("two");
        assert_eq!(zone.enter(b"k", 2).expect_err("three"), ConnRefusal::Limited);
        assert!(zone.enter(b"other", 2).is_ok_and(|guard| guard.is_some()));
        drop(first);
        assert!(zone.enter(b"k", 2).is_ok());
        drop(second);
        let shard = zone.shard(b"k").lock();
        assert!(shard.counts.is_empty(), "what nobody holds is not kept");
        assert_eq!(shard.bytes, 0);
    }

    #[test]
    fn keys_that_are_empty_or_too_long_are_not_counted() {
        let zone = Arc::new(LimitConnZone::new(ZONE_BYTES));
        let long = [b'k'; CONN_KEY_BYTES_MAX + 1];
        for (key, is_counted) in [(&b""[..], false), (&long, false), (&long[1..], true)] {
            assert_eq!(zone.enter(key, 1).expect("nobody is there").is_some(), is_counted, "{}", key.len());
        }
    }

    #[test]
    fn a_request_that_is_turned_away_is_counted_nowhere() {
        let (wide, narrow) = (Arc::new(LimitConnZone::new(ZONE_BYTES)), Arc::new(LimitConnZone::new(ZONE_BYTES)));
        let ask = || limit_conn([(&wide, &b"all"[..], 9), (&narrow, &b"k"[..], 1)]);
        let held = ask().expect("the first");
        assert_eq!(held.len(), 2);
        assert_eq!(ask().expect_err("the second"), (1, ConnRefusal::Limited));
        assert_eq!(wide.shard(b"all").lock().counts.get(&b"all"[..]), Some(&1));
    }

    #[test]
    fn a_full_zone_takes_no_new_key() {
        let zone = Arc::new(LimitConnZone::new(128));
        let _held: Vec<_> = ["a", "b"].iter().map(|key| zone.enter(key.as_bytes(), 1).expect("room")).collect();
        assert_eq!(zone.enter(b"c", 1).expect_err("no room"), ConnRefusal::Full);
    }
}
