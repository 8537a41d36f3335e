//! `limit_rate` and `limit_rate_after`: how fast a response is sent.

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::pace::Limit;

/// The rate limit of a response; `None` if it has none.
pub fn of(ex: &mut Exchange, cx: &Cx) -> Option<Limit> {
    let loc = cx.loc(ex);
    let rate = match ex.request.limits.rate {
        Some(rate) => rate,
        None => loc
            .pace
            .limit_rate
            .as_ref()
            .and_then(|text| text.with(ex, cx, |_, value| crate::limit::parse_rate(value)))?,
    };
    let after = loc
        .pace
        .limit_rate_after
        .as_ref()
        .and_then(|text| text.with(ex, cx, |_, value| crate::limit::parse_rate(value)));
    Limit::new(rate, after.unwrap_or(0))
}

/// Whether the location or the request limits the rate, so that nothing may be sent at once.
pub fn is_limited(ex: &Exchange, cx: &Cx) -> bool {
    ex.request.limits.rate.is_some_and(|rate| rate > 0) || cx.loc(ex).pace.limit_rate.is_some()
}
