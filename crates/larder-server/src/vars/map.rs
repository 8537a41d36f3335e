//! Variables with a slot: those that `set` and named groups fill, and those of `map`, `geo` and `split_clients`.

use larder_conf::model::LogLevel;

use crate::access::Peer;
use crate::context::Cx;
use crate::exchange::{Exchange, Slot};
use crate::realip;
use crate::site::UserVarSource;

use super::append::append_some;
use super::pattern;

/// How deeply variables may read each other before that counts as a cycle.
const DEPTH_MAX: u8 = 100;

/// Appends the value; false if there is none.
pub fn append(slot: usize, ex: &mut Exchange, cx: &Cx, out: &mut Vec<u8>) -> bool {
    let source = cx.site().variables.slots[slot].source;
    let known = ex.eval.slot(slot);
    if known == Slot::Unset
        && source == UserVarSource::Set
        && let Some(field) = &cx.site().variables.slots[slot].otherwise
    {
        return super::append(field, ex, cx, out);
    }
    let volatile = match source {
        UserVarSource::Map(map) => cx.site().variables.maps[map].volatile,
        UserVarSource::Geo(geo) => cx.site().variables.geos[geo].volatile,
        UserVarSource::Set | UserVarSource::Split(_) => false,
    };
    // What was made of the whole request is not what a key and the origin get.
    let is_of_more = source != UserVarSource::Set && ex.eval.leaves_out && has_ignored(ex, cx);
    let value = if known != Slot::Unset && !(volatile && known == Slot::Absent) && !is_of_more {
        known
    } else if ex.eval.depth >= DEPTH_MAX {
        cx.local.logs.error(
            cx,
            ex,
            LogLevel::Error,
            format_args!("cycle while evaluating variable \"{}\"", cx.site().variables.slots[slot].name),
        );
        ex.eval.evaluation.fail();
        return false;
    } else {
        ex.eval.depth += 1;
        let value = match source {
            UserVarSource::Set => Slot::Absent,
            UserVarSource::Map(index) => map(index, ex, cx),
            UserVarSource::Geo(index) => geo(index, ex, cx),
            UserVarSource::Split(index) => split(index, ex, cx),
        };
        ex.eval.depth -= 1;
        // Not kept: an unset variable, which a later `set` may set; a volatile map or geo, which is evaluated each
        // time; a failed evaluation, which is no value for a subrequest; and one without the arguments and cookies that
        // change no page, which conditions see.
        let is_whole = !ex.eval.evaluation.has_failed() && !ex.eval.leaves_out;
        if source != UserVarSource::Set && !volatile && is_whole {
            ex.eval.set_slot(slot, value);
        }
        value
    };
    append_some(ex.eval.values.borrow().bytes(value), out)
}

/// Whether the request has arguments that are left out now.
fn has_ignored(ex: &Exchange, cx: &Cx) -> bool {
    super::leaving_out(ex, cx).is_some_and(|profile| {
        profile.has_ignored(super::query_of(ex.asked.head.target())) || profile.has_ignored(&ex.request.args)
    })
}

/// The value of a `map`.
fn map(index: usize, ex: &mut Exchange, cx: &Cx) -> Slot {
    let map = &cx.site().variables.maps[index];
    let mut subject = ex.eval.scratch.pop().unwrap_or_default();
    map.source.append(ex, cx, &mut subject);
    let entry = map.table.find(&subject, |regex, text| pattern::matches(&map.regexes[regex], text, ex, cx));
    let value = entry.map_or(&map.default, |entry| &map.values[entry]);
    let slot = value.with(ex, cx, |ex, value| ex.eval.keep(value));
    subject.clear();
    ex.eval.scratch.push(subject);
    slot
}

/// The value of a `geo`.
fn geo(index: usize, ex: &mut Exchange, cx: &Cx) -> Slot {
    let geo = &cx.site().variables.geos[index];
    let mut ip = match &geo.source {
        Some(source) => source.with(ex, cx, |_, text| realip::parse_address(text)),
        None => ex.remote_ip(),
    };
    if let Some(proxies) = &geo.proxies {
        let peer = ip.map_or(Peer::Unix, Peer::Ip);
        let values: Vec<&[u8]> = ex.asked.head.fields.all_known(larder_http::Known::XForwardedFor).collect();
        if let Some(told) = realip::forwarded(peer, proxies, values.into_iter(), geo.recursive) {
            ip = Some(told.ip);
        }
    }
    let value = geo.table.find(ip).map_or(&geo.default, |entry| &geo.values[entry]);
    ex.eval.keep(value)
}

/// The value of a `split_clients`.
fn split(index: usize, ex: &mut Exchange, cx: &Cx) -> Slot {
    let split = &cx.site().variables.splits[index];
    let share = split.source.with(ex, cx, |_, text| split.table.find(text));
    match share {
        Some(share) => split.values[share].with(ex, cx, |ex, value| ex.eval.keep(value)),
        None => ex.eval.keep(b""),
    }
}
