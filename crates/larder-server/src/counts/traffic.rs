//! What is counted of the requests of a zone.

use larder_store::TimeSums;

use crate::stats::Counter;

use super::times::Times;
use super::tls::{TlsSums, TlsTraffic};

/// What the cache said about a request, as `$upstream_cache_status` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing: it was not asked, nor was an origin.
    Unasked,
    /// `HIT`.
    Hit,
    /// `STALE`.
    Stale,
    /// `UPDATING`.
    Updating,
    /// `REVALIDATED`.
    Revalidated,
    /// `MISS`.
    Miss,
    /// `EXPIRED`.
    Expired,
    /// `BYPASS`.
    Bypass,
    /// Nothing: it was not asked, and an origin has answered.
    Passed,
}

/// All of them, in the order of their counts, with their names.
pub const VERDICTS: [(Verdict, &str); 9] = [
    (Verdict::Unasked, "none"),
    (Verdict::Hit, "hit"),
    (Verdict::Stale, "stale"),
    (Verdict::Updating, "updating"),
    (Verdict::Revalidated, "revalidated"),
    (Verdict::Miss, "miss"),
    (Verdict::Expired, "expired"),
    (Verdict::Bypass, "bypass"),
    (Verdict::Passed, "pass"),
];

/// The verdicts of pages that came from a cache.
pub const FROM_CACHE: [Verdict; 4] = [Verdict::Hit, Verdict::Stale, Verdict::Updating, Verdict::Revalidated];
/// The verdicts of pages that a cache was asked for, and that came from an origin.
pub const MISSED: [Verdict; 3] = [Verdict::Miss, Verdict::Expired, Verdict::Bypass];
/// The verdicts of all that came from an origin.
pub const FROM_ORIGIN: [Verdict; 4] = [Verdict::Miss, Verdict::Expired, Verdict::Bypass, Verdict::Passed];

/// A request that is over.
#[derive(Clone, Copy, Debug)]
pub struct Finished {
    /// What the cache said.
    pub verdict: Verdict,
    /// Its status; `None` if nothing of a response was sent.
    pub status: Option<u16>,
    /// Bytes received for it.
    pub received: u64,
    /// Bytes of the response, with its head.
    pub sent: u64,
    /// Bytes of the body that an origin has sent; those of the response if the page was in the cache.
    pub page_bytes: u64,
    /// Whether the page was stored.
    pub is_stored: bool,
    /// From its head to the first byte of the response, microseconds.
    pub took_micros: Option<u64>,
}

/// The lowest status and the number of those that are counted one by one.
const STATUS_MIN: u16 = 100;
const STATUSES: usize = 900;

/// What a worker has counted in a `status_zone`.
#[derive(Debug)]
#[repr(align(128))]
pub struct Traffic {
    /// Requests that began.
    pub requests: Counter,
    discarded: Counter,
    received: Counter,
    sent: Counter,
    times: [Times; VERDICTS.len()],
    statuses: Box<[Counter]>,
    /// Handshakes with the server; nothing for a location.
    pub tls: TlsTraffic,
}

impl Default for Traffic {
    fn default() -> Self {
        let [requests, discarded, received, sent] = Default::default();
        let statuses = (0..STATUSES).map(|_| Counter::default()).collect();
        Self { requests, discarded, received, sent, times: Default::default(), statuses, tls: TlsTraffic::default() }
    }
}

impl Traffic {
    /// Counts a request that is over, which [`Traffic::requests`] has already.
    pub fn finished(&self, request: &Finished) {
        let counter = |status: u16| self.statuses.get(usize::from(status.checked_sub(STATUS_MIN)?));
        request.status.and_then(counter).unwrap_or(&self.discarded).add(1);
        self.received.add(request.received);
        self.sent.add(request.sent);
        if let Some(micros) = request.took_micros {
            self.times[request.verdict as usize].add(micros);
        }
    }
}

/// What all workers have counted in a `status_zone`.
#[derive(Clone, Debug, Default)]
pub struct TrafficSums {
    /// Requests that began.
    pub requests: u64,
    /// Those that ended without a response.
    pub discarded: u64,
    /// Bytes from clients.
    pub received: u64,
    /// Bytes to clients.
    pub sent: u64,
    /// Each status that was sent, and how often.
    pub statuses: std::collections::BTreeMap<u16, u64>,
    /// How long responses took, in the order of [`VERDICTS`].
    pub times: [TimeSums; VERDICTS.len()],
    /// Handshakes.
    pub tls: TlsSums,
}

impl TrafficSums {
    /// Adds what a worker has counted.
    pub fn add(&mut self, traffic: &Traffic) {
        self.requests += traffic.requests.get();
        self.discarded += traffic.discarded.get();
        self.received += traffic.received.get();
        self.sent += traffic.sent.get();
        for (status, counter) in (STATUS_MIN..).zip(&traffic.statuses) {
            match counter.get() {
                0 => {}
                count => *self.statuses.entry(status).or_default() += count,
            }
        }
        self.times.iter_mut().zip(&traffic.times).for_each(|(sums, times)| times.add_to(sums));
        self.tls.add(&traffic.tls);
    }

    /// Requests that are not over.
    pub fn processing(&self) -> u64 {
        // Workers count on while their counts are added up.
        self.requests.saturating_sub(self.responses() + self.discarded)
    }

    /// Responses by the first digit of their status, from 1 to 5.
    pub fn classes(&self) -> [u64; 5] {
        [1, 2, 3, 4, 5].map(|digit| self.statuses.range(digit * 100..(digit + 1) * 100).map(|(_, count)| count).sum())
    }

    /// Responses that were sent.
    pub fn responses(&self) -> u64 {
        self.statuses.values().sum()
    }
}

/// What a worker has counted in a cache zone.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct CacheTraffic([VerdictTraffic; VERDICTS.len()]);

#[derive(Debug, Default)]
struct VerdictTraffic {
    times: Times,
    responses: Counter,
    bytes: Counter,
    stored: Counter,
    stored_bytes: Counter,
}

impl CacheTraffic {
    /// Counts a request that is over.
    pub fn finished(&self, request: &Finished) {
        let traffic = &self.0[request.verdict as usize];
        if request.status.is_some() {
            traffic.responses.add(1);
        }
        traffic.bytes.add(request.page_bytes);
        if request.is_stored {
            traffic.stored.add(1);
            traffic.stored_bytes.add(request.page_bytes);
        }
        if let Some(micros) = request.took_micros {
            traffic.times.add(micros);
        }
    }
}

/// What all workers have counted in a cache zone, in the order of [`VERDICTS`].
pub type CacheSums = [VerdictSums; VERDICTS.len()];

/// The same for one verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerdictSums {
    /// How long responses took.
    pub times: TimeSums,
    /// Responses.
    pub responses: u64,
    /// Bytes of their pages.
    pub bytes: u64,
    /// Those that were stored.
    pub stored: u64,
    /// Bytes of these.
    pub stored_bytes: u64,
}

impl VerdictSums {
    /// Adds what a worker has counted.
    pub fn add(all: &mut CacheSums, traffic: &CacheTraffic) {
        for (sums, traffic) in all.iter_mut().zip(&traffic.0) {
            traffic.times.add_to(&mut sums.times);
            sums.responses += traffic.responses.get();
            sums.bytes += traffic.bytes.get();
            sums.stored += traffic.stored.get();
            sums.stored_bytes += traffic.stored_bytes.get();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HIT: Finished = Finished {
        verdict: Verdict::Hit,
        status: Some(200),
        received: 10,
        sent: 100,
        page_bytes: 80,
        is_stored: false,
        took_micros: Some(30),
    };

    #[test]
    fn verdicts_are_counted_in_their_order() {
        for (place, (verdict, name)) in VERDICTS.into_iter().enumerate() {
            assert_eq!(verdict as usize, place, "{name}");
        }
    }

    #[test]
    fn a_request_is_counted_by_what_was_sent() {
        let traffic = Traffic::default();
        for status in [Some(200), Some(200), Some(404), Some(999), None, Some(99), Some(1000)] {
            traffic.requests.add(1);
            traffic.finished(&Finished { status, ..HIT });
        }
        let mut sums = TrafficSums::default();
        sums.add(&traffic);
        assert_eq!(sums.statuses, [(200, 2), (404, 1), (999, 1)].into());
        assert_eq!((sums.requests, sums.responses(), sums.discarded, sums.processing()), (7, 4, 3, 0));
        assert_eq!(sums.classes(), [0, 2, 0, 1, 0]);
        assert_eq!((sums.received, sums.sent), (70, 700));
        assert_eq!(sums.times[Verdict::Hit as usize].count(), 7);
    }

    #[test]
    fn a_cache_counts_by_its_verdict() {
        let traffic = CacheTraffic::default();
        traffic.finished(&HIT);
        traffic.finished(&Finished { verdict: Verdict::Miss, is_stored: true, ..HIT });
        traffic.finished(&Finished { verdict: Verdict::Miss, status: None, took_micros: None, page_bytes: 0, ..HIT });
        let mut sums = CacheSums::default();
        VerdictSums::add(&mut sums, &traffic);
        let counted = |verdict: Verdict| {
            let VerdictSums { times, responses, bytes, stored, stored_bytes } = sums[verdict as usize];
            (times.count(), responses, bytes, stored, stored_bytes)
        };
        assert_eq!(counted(Verdict::Hit), (1, 1, 80, 0, 0));
        assert_eq!(counted(Verdict::Miss), (1, 1, 80, 1, 80));
        assert_eq!(counted(Verdict::Bypass), (0, 0, 0, 0, 0));
    }
}
