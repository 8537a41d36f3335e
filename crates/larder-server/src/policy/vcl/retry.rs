//! Another try of a fetch.

use larder_conf::model::LogLevel;

use crate::context::Cx;
use crate::exchange::{BodyUse, Exchange, RequestBody, Stage};
use crate::site::VclPolicy;

/// What becomes of `return (retry)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The fetch is tried again.
    Again,
    /// It has been tried too often.
    TooOften,
    /// A backend has got the body of the request, which may have done something there.
    BodyGone,
}

/// Notes that the fetch is to be tried again, if it may be; a try that is not made counts.
pub fn again(policy: &VclPolicy, ex: &mut Exchange, cx: &Cx) -> Retry {
    let fetch = &mut ex.vcl.fetch;
    let is_allowed = fetch.retries < policy.parameters.max_retries;
    fetch.retries = fetch.retries.saturating_add(1);
    if !is_allowed {
        return Retry::TooOften;
    }
    if is_body_gone(ex) {
        log_body_gone(ex, cx);
        return Retry::BodyGone;
    }
    ex.vcl.fetch.stage = Stage::Again;
    Retry::Again
}

/// Notes that a backend has got the request, and its body with it.
pub fn note_sent(ex: &mut Exchange) {
    let has_body = matches!(ex.request.body, RequestBody::Memory(_) | RequestBody::File(..));
    if has_body && ex.vcl.fetch.has_body && ex.vcl.client.body == BodyUse::Once {
        ex.vcl.client.body = BodyUse::Gone;
    }
}

/// Whether the body that belongs to the fetch can no longer go to a backend.
pub fn is_body_gone(ex: &Exchange) -> bool {
    let has_begun = || matches!(&ex.request.body, RequestBody::Passing(feed) if !feed.is_fresh());
    ex.vcl.fetch.has_body && (ex.vcl.client.body == BodyUse::Gone || has_begun())
}

/// Logs why there is no other try.
pub fn log_body_gone(ex: &Exchange, cx: &Cx) {
    let why = "the body of the request has gone to a backend already; std.cache_req_body() keeps it";
    cx.local.logs.error(cx, ex, LogLevel::Error, format_args!("{why}"));
}
