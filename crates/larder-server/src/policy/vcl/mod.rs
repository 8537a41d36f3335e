//! What a VCL decides: at each point its sub is run, and what it returns becomes a value of ours.
//!
//! The order is that of Varnish's `cache_req_fsm.c` and `cache_fetch.c`.

mod answer;
mod bans;
mod client;
mod conditions;
mod directors;
mod fetch;
mod filters;
mod functions;
mod headers;
mod host;
mod labels;
mod lookup;
mod parts;
mod recode;
mod retry;
mod run;
mod task;
mod times;
mod turns;
mod variables;
mod xids;

pub use answer::{failure, judge, keep};
pub use client::{ask, deliver};
pub use fetch::{count_attempt, counts, limit, prepare, question};
pub use headers::takes_gzip;
pub use lookup::{hit, miss, on_stale, rules, time_of_lookup};
pub use recode::{gathers, recode};
pub use turns::abandoned;

use larder_http::Time;

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::filter::esi;
use crate::site::VclPolicy;

/// How pages with ESI are read.
pub fn esi_rules(policy: &VclPolicy) -> esi::Rules {
    let features = &policy.parameters.features;
    esi::Rules {
        reads_any: features.esi_disable_xml_check,
        reads_tags: features.esi_ignore_other_elements,
        takes_https: features.esi_ignore_https,
        removes_bom: features.esi_remove_bom,
        is_full: false,
    }
}

/// The time, which is read once while a request does not wait.
fn now(ex: &Exchange, cx: &Cx) -> Time {
    ex.vcl.turn.unwrap_or_else(|| cx.now())
}

/// A time of day in seconds since 1970.
pub fn seconds(time: Time) -> f64 {
    time.secs_f64()
}

/// Seconds since 1970 as a time of day.
fn time(seconds: f64) -> Time {
    Time((seconds.max(0.0) * 1000.0) as u64)
}
