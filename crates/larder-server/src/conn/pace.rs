//! `limit_rate` and `limit_rate_after`: how fast a response goes out.

use std::time::{Duration, Instant};

use crate::context::Cx;
use crate::exchange::Exchange;

/// A pace.
pub struct Limit {
    /// Bytes a second.
    rate: u64,
    /// So many bytes go out before it holds.
    after: u64,
    began: Instant,
}

impl Limit {
    /// That of a response; `None` where it has none.
    pub fn of(ex: &mut Exchange, cx: &Cx) -> Option<Self> {
        let loc = &cx.site().locations[ex.location];
        let rate = match ex.limit_rate {
            Some(rate) => rate,
            None => loc
                .texts
                .limit_rate
                .as_ref()
                .and_then(|text| text.with(ex, cx, |_, value| crate::limit::parse_rate(value)))?,
        };
        let after = loc
            .texts
            .limit_rate_after
            .as_ref()
            .and_then(|text| text.with(ex, cx, |_, value| crate::limit::parse_rate(value)));
        (rate > 0).then(|| Self { rate, after: after.unwrap_or(0), began: Instant::now() })
    }

    /// How long to wait before the next byte, `sent` bytes after the beginning.
    pub fn wait(&self, sent: u64) -> Option<Duration> {
        let due = Duration::from_millis(sent.saturating_sub(self.after).saturating_mul(1000) / self.rate);
        due.checked_sub(self.began.elapsed()).filter(|wait| !wait.is_zero())
    }

    /// How many bytes may go out at once, `sent` bytes after the beginning: a tenth of a second's worth keeps the pace
    /// even.
    pub fn at_once(&self, sent: u64) -> usize {
        let early = usize::try_from(self.after.saturating_sub(sent)).unwrap_or(usize::MAX);
        usize::try_from(self.rate / 10).unwrap_or(usize::MAX).max(1).max(early)
    }
}

/// Whether a location or the request slows responses down, so that nothing may be sent at once.
pub fn is_limited(ex: &Exchange, cx: &Cx) -> bool {
    ex.limit_rate.is_some_and(|rate| rate > 0) || cx.site().locations[ex.location].texts.limit_rate.is_some()
}
