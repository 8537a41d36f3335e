//! Variables about this machine, its time and its counters.

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::variable::ServerVar;

use super::append::{append_display, append_millis, append_some, append_text};
use super::date::{self, Place};

/// Appends the value; false if there is none.
pub fn append(var: ServerVar, ex: &Exchange, cx: &Cx, out: &mut Vec<u8>) -> bool {
    match var {
        ServerVar::ConnectionsActive => append_display(cx.worker.shared_stats().active, out),
        ServerVar::ConnectionsReading => append_display(cx.worker.shared_stats().reading, out),
        ServerVar::ConnectionsWriting => append_display(cx.worker.shared_stats().writing, out),
        ServerVar::ConnectionsWaiting => append_display(cx.worker.shared_stats().waiting, out),
        ServerVar::DateGmt => append_date(Place::Gmt, ex, cx, out),
        ServerVar::DateLocal => append_date(Place::Local, ex, cx, out),
        ServerVar::Hostname => append_text(&cx.site().hostname, out),
        ServerVar::Msec => append_millis(u128::from(cx.now().0), out),
        ServerVar::NginxVersion => append_text(crate::NGINX_VERSION, out),
        ServerVar::Pid => append_display(std::process::id(), out),
        ServerVar::TimeIso8601 => cx.local.logs.stamp(cx.now(), |stamp| append_text(&stamp.iso8601, out)),
        ServerVar::TimeLocal => cx.local.logs.stamp(cx.now(), |stamp| append_text(&stamp.local, out)),
    }
}

/// Appends the time in the format that the page has set.
fn append_date(place: Place, ex: &Exchange, cx: &Cx, out: &mut Vec<u8>) -> bool {
    let format = ex.request.nested.time_format.as_deref().map(String::from_utf8_lossy);
    let date = date::date(cx.now(), place, format.as_deref().unwrap_or(date::DEFAULT_FORMAT));
    append_some(date.as_deref().map(str::as_bytes), out)
}
