//! A stored page, made of an origin's answer and of what the policy decided to keep of it.

use std::sync::OnceLock;

use larder_cache::Object;
use larder_http::{Known, Time};
use larder_origin::Answer;
use larder_store::Body;

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::policy::{Kept, Lifetime};
use crate::site::Backend;

/// The object to store for `answer`.
pub fn object(answer: &Answer, body: Body, kept: Kept, backend: &Backend, ex: &Exchange, cx: &Cx) -> Object {
    let Kept { lifetime, fields, vary } = kept;
    let header = ex.tally.attempts.last().and_then(|attempt| attempt.header).unwrap_or_default();
    Object {
        status: answer.head.status,
        reason: answer.head.reason.as_slice().into(),
        last_modified: fields.get_known(Known::LastModified).and_then(larder_http::parse_date),
        etag: fields.get_known(Known::Etag).map(Box::from),
        vary,
        cost_micros: u32::try_from(header.as_micros()).unwrap_or(u32::MAX),
        prepared: match &backend.prepared_by {
            Some(rules) => OnceLock::from(rules.prepare(&fields, cx.site().speaks_http2)),
            None => OnceLock::new(),
        },
        fields,
        body,
        stored_at: cx.now(),
        fresh_until: lifetime.fresh_until,
        stale_while_revalidate: lifetime.stale_while_revalidate,
        stale_if_error: lifetime.stale_if_error,
        hold: Default::default(),
    }
}

/// A copy of `object` that is fresh again, after the origin confirmed it.
pub fn freshen(object: &Object, lifetime: Lifetime, now: Time) -> Object {
    Object {
        status: object.status,
        reason: object.reason.clone(),
        fields: object.fields.clone(),
        body: object.body.clone(),
        stored_at: now,
        fresh_until: lifetime.fresh_until,
        stale_while_revalidate: lifetime.stale_while_revalidate,
        stale_if_error: lifetime.stale_if_error,
        last_modified: object.last_modified,
        etag: object.etag.clone(),
        vary: object.vary.clone(),
        cost_micros: object.cost_micros,
        prepared: object.prepared.clone(),
        hold: Default::default(),
    }
}
