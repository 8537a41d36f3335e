//! How long an answer is of use before any sub has said so: as Varnish has it, or by `larder_cache_mode rfc9111`.

use std::time::Duration;

use larder_cache::rfc9111::{self, Response, Said};
use larder_http::{Known, Time};
use larder_vcl::lifetime::{Defaults, Lifetime, lifetime};

use crate::exchange::FetchTask;
use crate::site::VclPolicy;

/// Sets the times that the fields of the answer and the parameters say. Returns when the answer was made, in seconds
/// since 1970.
pub fn set_times(policy: &VclPolicy, fetch: &mut FetchTask, now: f64) -> f64 {
    let set = &policy.parameters;
    let defaults =
        Defaults { ttl: set.default_ttl, grace: set.default_grace, keep: set.default_keep, clock_skew: set.clock_skew };
    let times = match &policy.targets {
        Some(targets) if !fetch.is_uncacheable => by_rfc9111(targets, fetch, &defaults, now),
        Some(_) | None => lifetime(fetch.beresp.status, &fetch.beresp.fields, fetch.is_uncacheable, &defaults, now),
    };
    fetch.answer.fresh_until = times.origin + times.ttl;
    fetch.answer.grace = times.grace;
    fetch.answer.keep = times.keep;
    times.origin
}

/// The same by RFC 9111: an answer that may not be stored has a ttl below 0.
fn by_rfc9111(targets: &[Box<str>], fetch: &FetchTask, defaults: &Defaults, now: f64) -> Lifetime {
    let fields = &fetch.beresp.fields;
    let came = Time((now * 1000.0) as u64);
    let storable = rfc9111::storable(
        &Said::by(fields, targets),
        &Response {
            status: fetch.beresp.status,
            fields,
            is_authorised: fetch.bereq.fields.contains_known(Known::Authorization),
            delay: Duration::ZERO,
            now: came,
            configured: None,
            // `vcl_backend_response` decides about those, as in Varnish.
            may_have_cookies: true,
            is_slice: false,
        },
    );
    match storable {
        Ok(storable) => {
            let age = storable.age as f64;
            let ttl = age + storable.fresh_until.since(came).as_secs_f64();
            Lifetime {
                origin: now - age,
                ttl,
                grace: storable.stale_while_revalidate.as_secs_f64(),
                keep: defaults.keep,
            }
        }
        Err(_) => Lifetime { origin: now, ttl: -1.0, grace: 0.0, keep: 0.0 },
    }
}
