//! Purging by a field of an answer: `larder_purge_by_origin`, `larder_litespeed`.

use std::sync::Arc;

use larder_conf::model::LogLevel;
use larder_http::Fields;

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::purges::deeds::Deed;
use crate::purges::{by_origin, said};
use crate::vsl::Plain;

use super::purge_from;

/// What an answer purges.
pub struct Taken {
    /// What is done.
    pub deeds: Vec<Deed>,
    /// What was asked for, for the log.
    pub said: String,
}

/// Takes the fields out of an answer, and returns what they have done; `None` if that is nothing, as in a refill. What
/// cannot be understood is logged, and does nothing.
pub fn taken(fields: &mut Arc<Fields>, ex: &mut Exchange, cx: &Cx) -> Option<Taken> {
    let purging = &cx.loc(ex).settings.purging;
    if !purging.is_by_origin() || !by_origin::FIELDS.iter().any(|name| fields.contains(name)) {
        return None;
    }
    let orders = by_origin::orders(fields);
    let own = Arc::make_mut(fields);
    for name in by_origin::FIELDS {
        own.remove(name);
    }
    if ex.is_unasked() {
        // A page that purges when it is fetched would be fetched without an end.
        return None;
    }
    let taken = orders.map_err(|wrong| wrong.to_string()).and_then(|orders| {
        let said = said::of_orders(&orders);
        purge_from::planned(orders, ex, cx).map(|deeds| Taken { deeds, said })
    });
    match taken {
        Ok(taken) => Some(taken).filter(|taken| !taken.deeds.is_empty()),
        Err(why) => {
            let text = format_args!("\"larder_purge_by_origin\": nothing is purged: {}", Plain(&why));
            cx.local.logs.error(cx, ex, LogLevel::Error, text);
            None
        }
    }
}
