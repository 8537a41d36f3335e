//! The rate limit of a response.

use std::time::{Duration, Instant};

/// A rate limit.
pub struct Limit {
    /// Bytes a second.
    rate: u64,
    /// How many bytes are sent before the limit applies.
    after: u64,
    began: Instant,
}

impl Limit {
    /// A limit of `rate` bytes a second after the first `after` bytes; `None` for no limit.
    pub fn new(rate: u64, after: u64) -> Option<Self> {
        (rate > 0).then(|| Self { rate, after, began: Instant::now() })
    }

    /// How long to wait before the next byte, when `sent` bytes were sent.
    pub fn wait(&self, sent: u64) -> Option<Duration> {
        self.due(sent).checked_sub(self.began.elapsed()).filter(|wait| !wait.is_zero())
    }

    /// When the next byte may be sent, counted from the beginning: one second's worth is sent at once.
    fn due(&self, sent: u64) -> Duration {
        match sent.saturating_sub(self.after) {
            paced if paced < self.rate => Duration::ZERO,
            paced => Duration::from_millis(paced.saturating_mul(1000) / self.rate),
        }
    }

    /// How many bytes may be sent at once, when `sent` bytes were sent: at first the rest of one second's worth, later
    /// a tenth of it, which keeps the rate even.
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
