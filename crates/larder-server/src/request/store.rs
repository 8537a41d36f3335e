//! Whether an origin's answer may be stored, for how long, and as what object: the nginx rules.

use std::sync::OnceLock;
use std::time::Duration;

use larder_cache::{Ignore, Object, OriginTtl, VaryKey, origin_ttl, selecting};
use larder_conf::model::OriginSettings;
use larder_http::{Fields, Known, Time};
use larder_origin::Answer;
use larder_store::Body;

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::site::OriginPolicy;
use crate::text::Text;

use super::response_fields;

/// How long an answer may be used, or why it may not be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// It may, so long.
    Until {
        /// When it stops being fresh.
        fresh_until: Time,
        /// How long after that it may be used while one fetch runs.
        stale_while_revalidate: Duration,
        /// How long after that it may be used when the origin fails.
        stale_if_error: Duration,
    },
    /// It may not; the reason is for `Cache-Status`.
    No(&'static str),
}

/// Decides for an answer of `status` with `fields`.
///
/// What the origin says comes first (X-Accel-Expires, Cache-Control, Expires); only when it says nothing, the
/// `*_cache_valid` of the configuration; `*_no_cache` and X-Accel-Buffering can forbid it.
pub fn keeping(status: u16, fields: &Fields, policy: &OriginPolicy, ex: &mut Exchange, cx: &Cx) -> Keeping {
    let Some(cache) = &policy.cache else { return Keeping::No("no cache") };
    if Text::any_true(&cache.no_cache, ex, cx) {
        return Keeping::No("no_cache");
    }
    if ex.eval.evaluation.has_failed() {
        return Keeping::No("a rule could not be evaluated");
    }
    let model = &policy.settings.model;
    if !model.ignore_headers.x_accel_buffering
        && fields.get_known(Known::XAccelBuffering).is_some_and(|value| value.eq_ignore_ascii_case(b"no"))
    {
        return Keeping::No("x-accel-buffering");
    }
    if !model.buffering {
        return Keeping::No("buffering is off");
    }
    by_time(status, fields, model, cx.now())
}

fn by_time(status: u16, fields: &Fields, model: &OriginSettings, now: Time) -> Keeping {
    let ignored = model.ignore_headers;
    let ignore = Ignore {
        x_accel_expires: ignored.x_accel_expires,
        expires: ignored.expires,
        cache_control: ignored.cache_control,
        set_cookie: ignored.set_cookie,
        vary: ignored.vary,
    };
    match origin_ttl(fields, &ignore, now) {
        OriginTtl::NotCacheable(why) => Keeping::No(why),
        OriginTtl::Ttl { fresh_until, stale_while_revalidate, stale_if_error } => {
            Keeping::Until { fresh_until, stale_while_revalidate, stale_if_error }
        }
        OriginTtl::Unset { stale_while_revalidate, stale_if_error } => match configured(status, model) {
            Some(ttl) => Keeping::Until { fresh_until: now.plus(ttl), stale_while_revalidate, stale_if_error },
            None => Keeping::No("no lifetime"),
        },
    }
}

/// The `*_cache_valid` for a status: the first that names it or `any`.
fn configured(status: u16, model: &OriginSettings) -> Option<Duration> {
    let valid = model.cache_valid.iter().find(|valid| valid.status.is_none_or(|named| named == status))?;
    Some(valid.ttl).filter(|ttl| !ttl.is_zero())
}

/// The time a 304 gives to the stored page: its own, else that of the page's head counted anew.
pub fn freshened(confirmation: &Fields, object: &Object, policy: &OriginPolicy, now: Time) -> Keeping {
    let model = &policy.settings.model;
    let ignored = model.ignore_headers;
    let ignore = Ignore {
        x_accel_expires: ignored.x_accel_expires,
        expires: ignored.expires,
        cache_control: ignored.cache_control,
        set_cookie: true,
        vary: true,
    };
    match origin_ttl(confirmation, &ignore, now) {
        OriginTtl::Unset { .. } => by_time(object.status, &object.fields, model, now),
        OriginTtl::Ttl { fresh_until, stale_while_revalidate, stale_if_error } => {
            Keeping::Until { fresh_until, stale_while_revalidate, stale_if_error }
        }
        OriginTtl::NotCacheable(why) => Keeping::No(why),
    }
}

/// The object to store for `answer`; `None` when its Vary can match no second request.
pub fn object(
    answer: &Answer,
    body: Body,
    keeping: Keeping,
    policy: &OriginPolicy,
    ex: &mut Exchange,
    cx: &Cx,
) -> Option<Object> {
    let Keeping::Until { fresh_until, stale_while_revalidate, stale_if_error } = keeping else { return None };
    let fields = stored_fields(&answer.head.fields, policy);
    let vary = if policy.settings.model.ignore_headers.vary {
        VaryKey::none()
    } else {
        VaryKey::of(&fields, &selecting(&ex.asked.head.fields))?
    };
    let last_modified = fields.get_known(Known::LastModified).and_then(larder_http::parse_date);
    let etag = fields.get_known(Known::Etag).map(Box::from);
    let prepared = OnceLock::from(response_fields::prepare(&fields, policy, ex.request.location, cx));
    let header = ex.tally.attempts.last().and_then(|attempt| attempt.header).unwrap_or_default();
    Some(Object {
        status: answer.head.status,
        reason: answer.head.reason.as_slice().into(),
        last_modified,
        etag,
        vary,
        cost_micros: u32::try_from(header.as_micros()).unwrap_or(u32::MAX),
        prepared,
        fields,
        body,
        stored_at: cx.now(),
        fresh_until,
        stale_while_revalidate,
        stale_if_error,
        hold: Default::default(),
    })
}

/// The fields that are stored: what concerns this connection alone is left out, and a cookie, which belongs to one
/// visitor, unless `*_pass_header Set-Cookie` asks for it.
fn stored_fields(fields: &Fields, policy: &OriginPolicy) -> Fields {
    let keeps_cookies = policy.settings.model.pass_headers.iter().any(|name| name == "set-cookie");
    let mut stored = Fields::new();
    for (known, name, value) in fields.iter_known() {
        let dropped = match known {
            Known::Connection
            | Known::KeepAlive
            | Known::TransferEncoding
            | Known::Upgrade
            | Known::Te
            | Known::Trailer => true,
            Known::SetCookie => !keeps_cookies,
            _ => false,
        };
        if !dropped {
            stored.push(name, value);
        }
    }
    stored
}

/// A copy of `object` that is fresh again, after the origin confirmed it.
pub fn freshen(object: &Object, keeping: Keeping, now: Time) -> Object {
    let (fresh_until, stale_while_revalidate, stale_if_error) = match keeping {
        Keeping::Until { fresh_until, stale_while_revalidate, stale_if_error } => {
            (fresh_until, stale_while_revalidate, stale_if_error)
        }
        // Confirmed, and forbidden to keep: good for this answer only.
        Keeping::No(_) => (now, Duration::ZERO, Duration::ZERO),
    };
    Object {
        status: object.status,
        reason: object.reason.clone(),
        fields: object.fields.clone(),
        body: object.body.clone(),
        stored_at: now,
        fresh_until,
        stale_while_revalidate,
        stale_if_error,
        last_modified: object.last_modified,
        etag: object.etag.clone(),
        vary: object.vary.clone(),
        cost_micros: object.cost_micros,
        prepared: object.prepared.clone(),
        hold: Default::default(),
    }
}
