//! Variables that `map`, `geo` and `split_clients` make.

use crate::access::Peer;
use crate::context::Cx;
use crate::exchange::{Exchange, Slot};
use crate::realip;

use super::pattern;

/// The value that a `map` gives.
pub fn map(index: usize, ex: &mut Exchange, cx: &Cx) -> Slot {
    let map = &cx.site().maps[index];
    let mut subject = ex.eval.scratch.pop().unwrap_or_default();
    map.source.append(ex, cx, &mut subject);
    let entry = map.table.find(&subject, |regex, text| pattern::matches(&map.regexes[regex], text, ex, cx));
    let value = entry.map_or(&map.default, |entry| &map.values[entry]);
    let slot = value.with(ex, cx, |ex, value| ex.eval.keep(value));
    subject.clear();
    ex.eval.scratch.push(subject);
    slot
}

/// The value that a `geo` gives.
pub fn geo(index: usize, ex: &mut Exchange, cx: &Cx) -> Slot {
    let geo = &cx.site().geos[index];
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

/// The value that a `split_clients` gives.
pub fn split(index: usize, ex: &mut Exchange, cx: &Cx) -> Slot {
    let split = &cx.site().splits[index];
    let share = split.source.with(ex, cx, |_, text| split.table.find(text));
    match share {
        Some(share) => split.values[share].with(ex, cx, |ex, value| ex.eval.keep(value)),
        None => ex.eval.keep(b""),
    }
}
