//! What is counted of a server of a group. All workers add to it, once or twice a fetch.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::time::Instant;

/// The bounds of the histogram, milliseconds; behind the last one is a bucket for all that took longer. Source:
/// `response_time_hist` of NGINX Plus' API.
pub const BOUNDS_MILLIS: [u64; 14] = [5, 10, 25, 50, 75, 100, 250, 500, 750, 1000, 2500, 5000, 7500, 10_000];
const BUCKETS: usize = BOUNDS_MILLIS.len() + 1;
/// The lowest status and the number of those that are counted one by one.
const STATUS_MIN: u16 = 100;
const STATUSES: usize = 900;
/// A new time has this share in the average, one part of so many.
const SHARE: u64 = 20;

/// The counts of a server.
#[derive(Debug)]
pub(crate) struct Counts {
    /// Times are counted from here.
    made: Instant,
    requests: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
    fails: AtomicU64,
    unavailable: AtomicU64,
    /// Milliseconds, as is all that follows; 0 if it never was.
    selected: AtomicU64,
    down_since: AtomicU64,
    downtime: AtomicU64,
    header: Average,
    response: Average,
    buckets: [AtomicU64; BUCKETS],
    response_sum: AtomicU64,
    /// Many servers never answer.
    statuses: OnceLock<Box<[AtomicU64]>>,
}

impl Default for Counts {
    fn default() -> Counts {
        Counts {
            made: Instant::now(),
            requests: AtomicU64::default(),
            sent: AtomicU64::default(),
            received: AtomicU64::default(),
            fails: AtomicU64::default(),
            unavailable: AtomicU64::default(),
            selected: AtomicU64::default(),
            down_since: AtomicU64::default(),
            downtime: AtomicU64::default(),
            header: Average::default(),
            response: Average::default(),
            buckets: Default::default(),
            response_sum: AtomicU64::default(),
            statuses: OnceLock::new(),
        }
    }
}

/// What was counted of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerCounts {
    /// How often it was asked.
    pub requests: u64,
    /// Each status that it answered with, and how often.
    pub statuses: Vec<(u16, u64)>,
    /// Bytes sent to it.
    pub sent: u64,
    /// Bytes received from it.
    pub received: u64,
    /// How often asking it failed.
    pub fails: u64,
    /// How often it was marked unavailable for that.
    pub unavailable: u64,
    /// For how long it was, in sum.
    pub downtime: Duration,
    /// Since when it is.
    pub down_for: Option<Duration>,
    /// How long ago it was last asked.
    pub selected_ago: Option<Duration>,
    /// The moving average of the time to the end of its response head.
    pub header_time: Option<Duration>,
    /// The same to the end of the response.
    pub response_time: Option<Duration>,
    /// How many responses were in each bucket of [`BOUNDS_MILLIS`].
    pub buckets: [u64; BUCKETS],
    /// The sum of their times.
    pub response_sum: Duration,
}

impl Counts {
    /// It was chosen.
    pub fn chosen(&self, now: Instant) {
        self.requests.fetch_add(1, Relaxed);
        self.selected.store(self.millis(now), Relaxed);
    }

    /// The head of its answer is there, after this time.
    pub fn answered(&self, status: u16, took: Duration) {
        let statuses = self.statuses.get_or_init(|| (0..STATUSES).map(|_| AtomicU64::default()).collect());
        if let Some(count) = status.checked_sub(STATUS_MIN).and_then(|at| statuses.get(usize::from(at))) {
            count.fetch_add(1, Relaxed);
        }
        self.header.add(took);
    }

    /// Its answer is over, after this time.
    pub fn ended(&self, took: Duration) {
        self.response.add(took);
        let millis = whole_millis(took);
        self.buckets[BOUNDS_MILLIS.partition_point(|bound| *bound < millis)].fetch_add(1, Relaxed);
        self.response_sum.fetch_add(millis, Relaxed);
    }

    /// A connection to it has moved these bytes.
    pub fn moved(&self, sent: u64, received: u64) {
        self.sent.fetch_add(sent, Relaxed);
        self.received.fetch_add(received, Relaxed);
    }

    /// It failed.
    pub fn failed(&self) {
        self.fails.fetch_add(1, Relaxed);
    }

    /// It is not asked from now on. Called under the lock of the group, as the next is.
    pub fn down(&self, now: Instant) {
        self.unavailable.fetch_add(1, Relaxed);
        if self.down_since.load(Relaxed) == 0 {
            self.down_since.store(self.millis(now), Relaxed);
        }
    }

    /// It answers again.
    pub fn up(&self, now: Instant) {
        match self.down_since.swap(0, Relaxed) {
            0 => {}
            since => {
                self.downtime.fetch_add(self.millis(now).saturating_sub(since), Relaxed);
            }
        }
    }

    pub fn read(&self, now: Instant) -> ServerCounts {
        let now = self.millis(now);
        let ago = |at: u64| (at > 0).then(|| Duration::from_millis(now.saturating_sub(at)));
        let down_for = ago(self.down_since.load(Relaxed));
        let statuses = self.statuses.get().map_or(&[][..], |statuses| statuses);
        let statuses = (STATUS_MIN..).zip(statuses).map(|(status, count)| (status, count.load(Relaxed)));
        ServerCounts {
            requests: self.requests.load(Relaxed),
            statuses: statuses.filter(|(_, count)| *count > 0).collect(),
            sent: self.sent.load(Relaxed),
            received: self.received.load(Relaxed),
            fails: self.fails.load(Relaxed),
            unavailable: self.unavailable.load(Relaxed),
            downtime: Duration::from_millis(self.downtime.load(Relaxed)) + down_for.unwrap_or_default(),
            down_for,
            selected_ago: ago(self.selected.load(Relaxed)),
            header_time: self.header.get(),
            response_time: self.response.get(),
            buckets: std::array::from_fn(|at| self.buckets[at].load(Relaxed)),
            response_sum: Duration::from_millis(self.response_sum.load(Relaxed)),
        }
    }

    /// A time as it is kept; never 0.
    fn millis(&self, now: Instant) -> u64 {
        whole_millis(now.saturating_duration_since(self.made)) + 1
    }
}

/// A moving average of times, microseconds; 0 if there was none. Of two times that come at once, one may be lost.
#[derive(Debug, Default)]
struct Average(AtomicU64);

impl Average {
    fn add(&self, took: Duration) {
        let new = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1);
        let next = match self.0.load(Relaxed) {
            0 => new,
            old => (old.saturating_mul(SHARE - 1).saturating_add(new) / SHARE).max(1),
        };
        self.0.store(next, Relaxed);
    }

    fn get(&self) -> Option<Duration> {
        Some(self.0.load(Relaxed)).filter(|micros| *micros > 0).map(Duration::from_micros)
    }
}

fn whole_millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_counted_through_its_life() {
        let counts = Counts::default();
        let at = |millis| counts.made + Duration::from_millis(millis);
        assert_eq!(counts.read(at(5)), ServerCounts::default());
        counts.chosen(at(10));
        counts.answered(200, Duration::from_millis(20));
        counts.moved(100, 5000);
        counts.ended(Duration::from_millis(30));
        counts.chosen(at(100));
        counts.failed();
        counts.down(at(150));
        let read = counts.read(at(200));
        assert_eq!((read.requests, read.fails, read.unavailable, read.sent, read.received), (2, 1, 1, 100, 5000));
        assert_eq!(read.statuses, [(200, 1)]);
        assert_eq!((read.downtime.as_millis(), read.down_for), (50, Some(Duration::from_millis(50))));
        assert_eq!(read.selected_ago, Some(Duration::from_millis(100)));
        assert_eq!(read.header_time, Some(Duration::from_millis(20)));
        assert_eq!((read.buckets[3], read.response_sum), (1, Duration::from_millis(30)));
        counts.up(at(250));
        counts.up(at(300));
        let read = counts.read(at(400));
        assert_eq!((read.downtime.as_millis(), read.down_for), (100, None));
    }

    #[test]
    fn an_average_follows_slowly() {
        let average = Average::default();
        assert_eq!(average.get(), None);
        average.add(Duration::from_millis(100));
        assert_eq!(average.get(), Some(Duration::from_millis(100)));
        average.add(Duration::from_millis(300));
        assert_eq!(average.get(), Some(Duration::from_millis(110)));
        average.add(Duration::ZERO);
        assert!(average.get().is_some());
    }
}
