//! `least_time`: how long servers take, as nginx counts it. Times are in milliseconds, and averages: each new value
//! moves the average by a twentieth of the difference. The estimate for a server is made from its average and its
//! running requests. Close estimates count as equal, and all beyond five seconds as equally bad.

use std::time::Duration;

use tokio::time::Instant;

/// The parameters of `least_time`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeastTime {
    /// Up to which byte the time is measured.
    pub until: Until,
    /// `inflight`: whether running requests count too.
    pub inflight: bool,
}

/// Until which byte time is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// `header`: the last byte of the head.
    Header,
    /// `last_byte`: the last byte of the body.
    LastByte,
}

/// How long a server takes.
#[derive(Clone, Debug, Default)]
pub(super) struct Times {
    header_ms: Option<u64>,
    response_ms: Option<u64>,
    /// The average time of running requests, as it was when a server was last chosen.
    inflight_ms: u64,
    inflight: u32,
    /// The sum of the times of running requests when their number last changed, and when that was.
    inflight_sum_ms: u64,
    inflight_changed: Option<Instant>,
}

/// Times within this difference count as equal.
const EVEN_MS: u64 = 20;
/// Times beyond this are equally bad.
const WORST_MS: u64 = 5000;

impl Times {
    /// The estimate for one more request to a server with `running` requests, which was last chosen `unseen` ago.
    pub(super) fn estimate(
        &mut self,
        by: LeastTime,
        running: u32,
        unseen: Option<Duration>,
        fail_timeout: Duration,
        now: Instant,
    ) -> u64 {
        if self.inflight > 0 {
            let now = self.inflight_sum_ms / u64::from(self.inflight) + self.since_change(now);
            // Requests that have just begun say nothing.
            self.inflight_ms = average(Some(self.inflight_ms).filter(|ms| *ms > 0), now);
        }
        let mut time = match by.until {
            Until::Header => self.header_ms,
            Until::LastByte => self.response_ms,
        }
        .unwrap_or(0);
        // A slow server gets a chance: once in `fail_timeout`, its time counts half.
        if let Some(unseen) = unseen.filter(|unseen| *unseen > fail_timeout) {
            let halvings = unseen.as_secs() / (fail_timeout.as_secs() + 1);
            time = u32::try_from(halvings).ok().and_then(|by| time.checked_shr(by)).unwrap_or(0);
        }
        if self.inflight > 0 {
            time = time.max(self.inflight_ms);
        }
        let time = if time > WORST_MS { WORST_MS } else { time + EVEN_MS - time % EVEN_MS };
        time * (1 + u64::from(running))
    }

    /// Notes that one more request begins.
    pub(super) fn begin(&mut self, now: Instant) {
        self.inflight_sum_ms += self.since_change(now) * u64::from(self.inflight);
        self.inflight_changed = Some(now);
        self.inflight += 1;
    }

    /// Notes that a request is done that took `took`.
    pub(super) fn done(&mut self, took: Duration, now: Instant) {
        let all = self.inflight_sum_ms + self.since_change(now) * u64::from(self.inflight);
        self.inflight = self.inflight.saturating_sub(1);
        self.inflight_sum_ms = if self.inflight == 0 { 0 } else { all.saturating_sub(millis(took)) };
        self.inflight_changed = Some(now);
    }

    pub(super) fn add_header(&mut self, took: Duration) {
        self.header_ms = Some(average(self.header_ms, millis(took)));
    }

    pub(super) fn add_response(&mut self, took: Duration) {
        self.response_ms = Some(average(self.response_ms, millis(took)));
    }

    /// Forgets running requests, because they end with the old members.
    pub(super) fn forget_inflight(&mut self) {
        (self.inflight, self.inflight_sum_ms, self.inflight_ms) = (0, 0, 0);
        self.inflight_changed = None;
    }

    fn since_change(&self, now: Instant) -> u64 {
        self.inflight_changed.map_or(0, |at| millis(now.saturating_duration_since(at)))
    }
}

/// Moves an average towards a value, rounded. The first value becomes the average. Zero is a value too: otherwise the
/// first slow answer would become the average of a server that usually answers within a millisecond.
fn average(average: Option<u64>, value: u64) -> u64 {
    average.map_or(value, |average| (value * 5 + average * 95 + 50) / 100)
}

fn millis(time: Duration) -> u64 {
    // No response takes more than a day.
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).min(24 * 3600 * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const SECOND: Duration = Duration::from_secs(1);

    fn by(until: Until) -> LeastTime {
        LeastTime { until, inflight: false }
    }

    #[test]
    fn averages_move_slowly_and_close_times_are_even() {
        for (header_ms, running, estimate) in [
            (&[][..], 0, 20),
            (&[19], 0, 20),
            (&[20], 0, 40),
            (&[100, 200], 0, 120),
            (&[100, 1100], 0, 160),
            (&[100], 2, 360),
            (&[9000], 1, 10_000),
            (&[0, 1000], 0, 60),
        ] {
            let mut times = Times::default();
            header_ms.iter().for_each(|&ms| times.add_header(ms * MS));
            let found = times.estimate(by(Until::Header), running, None, SECOND, Instant::now());
            assert_eq!(found, estimate, "{header_ms:?} {running}");
        }
    }

    #[test]
    fn who_was_not_seen_for_long_gets_a_chance() {
        let mut times = Times::default();
        times.add_response(1000 * MS);
        for (unseen, estimate) in [(None, 1020), (Some(10), 1020), (Some(11), 520), (Some(22), 260), (Some(7200), 20)] {
            let unseen = unseen.map(|secs| secs * SECOND);
            assert_eq!(times.estimate(by(Until::LastByte), 0, unseen, 10 * SECOND, Instant::now()), estimate);
        }
    }

    #[test]
    fn what_is_not_done_counts_while_it_lasts() {
        let by = LeastTime { until: Until::LastByte, inflight: true };
        let start = Instant::now();
        let mut times = Times::default();
        times.begin(start);
        times.begin(start + 100 * MS);
        // Two for a second: 1100 and 1000 ms so far.
        let estimate = |times: &mut Times, at: Duration| times.estimate(by, 0, None, 10 * SECOND, start + at);
        assert_eq!(estimate(&mut times, 1100 * MS), 1060);
        times.done(1100 * MS, start + 1100 * MS);
        times.done(1000 * MS, start + 1100 * MS);
        assert_eq!(estimate(&mut times, 1100 * MS), 20, "nothing is under way, and nothing was added");
    }
}
