//! What a generator counted.

use super::tls::Agreement;
use std::time::Duration;

/// Reasons kept for the message; the others are like them.
const REASONS_MAX: usize = 5;

/// Counts of one stretch of time.
#[derive(Debug, Default)]
pub struct Tally {
    /// Answers that were what they had to be.
    pub answers: u64,
    /// Requests that brought none, and connections that did not come about.
    pub failures: u64,
    /// Why, of the first few.
    pub reasons: Vec<String>,
    /// Connections that were opened, over TLS their handshakes done.
    pub connections: u64,
    /// Handshakes that began with a ticket.
    pub resumed: u64,
    /// What the last handshake agreed on.
    pub agreement: Option<Agreement>,
    /// Bytes of bodies as they came.
    pub body_bytes: u64,
    /// The wait of each answer.
    pub waits: Waits,
}

impl Tally {
    /// Counts `requests` requests that failed for the same reason.
    pub fn fail(&mut self, requests: u64, reason: String) {
        self.failures += requests;
        if self.reasons.len() < REASONS_MAX {
            self.reasons.push(reason);
        }
    }
}

/// How long answers took.
#[derive(Debug, Default)]
pub struct Waits(Vec<Duration>);

impl Waits {
    /// Adds one.
    pub fn push(&mut self, wait: Duration) {
        self.0.push(wait);
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds the waits of the requests that would have been made every `interval` while one was waited for.
    ///
    /// Somebody who asks again only after an answer asks once in a long stall, where a stream of visitors would have
    /// asked many times: without these, the worst seconds would count least.
    pub fn with_those_not_asked(self, interval: Duration) -> Waits {
        let mut all = Vec::with_capacity(self.0.len());
        for wait in self.0 {
            let mut rest = Some(wait);
            while let Some(wait) = rest.filter(|wait| !wait.is_zero()) {
                all.push(wait);
                rest = wait.checked_sub(interval).filter(|_| !interval.is_zero());
            }
        }
        Waits(all)
    }

    /// Adds all of `others`.
    pub fn extend(&mut self, others: Waits) {
        self.0.extend(others.0);
    }

    /// The waits that `quantiles` of all answers did not exceed, by nearest rank: 0.5 is the median, 1.0 the longest.
    ///
    /// Zero if there are none.
    pub fn quantiles<const N: usize>(mut self, quantiles: [f64; N]) -> [Duration; N] {
        self.0.sort_unstable();
        quantiles.map(|quantile| {
            let rank = (quantile * self.0.len() as f64).ceil() as usize;
            self.0.get(rank.saturating_sub(1)).copied().unwrap_or_default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_a_wait_that_occurred() {
        let hundred = || (1..=100).rev().collect::<Vec<u64>>();
        for (waits, quantiles) in [
            (hundred(), [50, 95, 99, 100]),
            (vec![7], [7, 7, 7, 7]),
            (vec![2, 1], [1, 2, 2, 2]),
            (vec![], [0, 0, 0, 0]),
        ] {
            let kept = Waits(waits.iter().copied().map(Duration::from_millis).collect());
            let found = kept.quantiles([0.5, 0.95, 0.99, 1.0]).map(|wait| wait.as_millis() as u64);
            assert_eq!(found, quantiles, "{waits:?}");
        }
    }

    #[test]
    fn a_stall_counts_for_everyone_who_would_have_waited() {
        let ms = Duration::from_millis;
        for (waits, interval, all) in
            [(vec![5], 2, vec![5, 3, 1]), (vec![1, 2], 2, vec![1, 2]), (vec![4], 0, vec![4]), (vec![], 1, vec![])]
        {
            let found = Waits(waits.iter().copied().map(ms).collect()).with_those_not_asked(ms(interval));
            assert_eq!(found.0, all.into_iter().map(ms).collect::<Vec<_>>(), "{waits:?} every {interval}");
        }
    }

    #[test]
    fn only_the_first_reasons_are_kept() {
        let mut tally = Tally::default();
        for number in 0..20 {
            tally.fail(2, number.to_string());
        }
        assert_eq!((tally.failures, tally.reasons.len()), (40, REASONS_MAX));
    }
}
