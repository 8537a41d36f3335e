//! How fast a response goes out.

use std::time::{Duration, Instant};

/// A pace.
pub struct Limit {
    /// Bytes a second.
    rate: u64,
    /// So many bytes go out before it holds.
    after: u64,
    began: Instant,
}

impl Limit {
    /// So many bytes a second, once `after` bytes are out; `None` for no limit.
    pub fn new(rate: u64, after: u64) -> Option<Self> {
        (rate > 0).then(|| Self { rate, after, began: Instant::now() })
    }

    /// How long to wait before the next byte, `sent` bytes after the beginning.
    pub fn wait(&self, sent: u64) -> Option<Duration> {
        self.due(sent).checked_sub(self.began.elapsed()).filter(|wait| !wait.is_zero())
    }

    /// How long after the beginning the next byte may go out: the first second's worth goes at once.
    fn due(&self, sent: u64) -> Duration {
        match sent.saturating_sub(self.after) {
            paced if paced < self.rate => Duration::ZERO,
            paced => Duration::from_millis(paced.saturating_mul(1000) / self.rate),
        }
    }

    /// How many bytes may go out at once, `sent` bytes after the beginning: what is left of the first second's worth,
    /// later a tenth, which keeps the pace even.
    pub fn at_once(&self, sent: u64) -> usize {
        let bytes = match self.after.saturating_add(self.rate).saturating_sub(sent) {
            0 => (self.rate / 10).max(1),
            early => early,
        };
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_s_worth_goes_at_once_and_the_rest_evenly() {
        for (rate, after, sent, due_ms, at_once) in [
            (100, 0, 0, 0, 100),
            (100, 0, 30, 0, 70),
            (100, 0, 99, 0, 1),
            (100, 0, 100, 1000, 10),
            (100, 0, 110, 1100, 10),
            (100, 50, 0, 0, 150),
            (100, 50, 149, 0, 1),
            (100, 50, 150, 1000, 10),
            (1, 0, 0, 0, 1),
            (1, 0, 1, 1000, 1),
            (u64::MAX, u64::MAX, 0, 0, usize::MAX),
        ] {
            let limit = Limit { rate, after, began: Instant::now() };
            let found = (limit.due(sent), limit.at_once(sent));
            assert_eq!(found, (Duration::from_millis(due_ms), at_once), "{rate} {after} {sent}");
        }
    }
}
