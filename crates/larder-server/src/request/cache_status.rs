//! The value of `Cache-Status` (RFC 9211): whether it was a hit, or why an origin was asked.

use larder_http::Time;

use crate::context::Cx;
use crate::exchange::{CacheStatus, Cause, Exchange};

use super::reasons;
use super::wire::append_decimal;

/// How a response came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// From the cache, and no origin was asked.
    Hit,
    /// Our own answer: no page was there, and no origin was to be asked.
    Own,
    /// An origin was asked, for this reason: a token of RFC 9211 §2.2.
    Forwarded(&'static str),
}

/// Appends our member of the field; nothing where no cache was asked and none is there to be.
pub fn append(ex: &Exchange, cx: &Cx, out: &mut Vec<u8>) {
    let Some(way) = way(ex, cx) else { return };
    append_name(cx.site().caches.cluster.as_ref().map(|cluster| &*cluster.node), out);
    let mut fresh_until = ex.upstream.fresh_until;
    match way {
        Way::Hit => out.extend_from_slice(b"; hit"),
        Way::Own => {}
        Way::Forwarded(why) => {
            out.extend_from_slice(b"; fwd=");
            out.extend_from_slice(why.as_bytes());
            if let Some(status) = ex.upstream.status {
                out.extend_from_slice(b"; fwd-status=");
                append_decimal(u64::from(status), out);
            }
            if is_stored(ex) {
                out.extend_from_slice(b"; stored");
                fresh_until = fresh_until.or_else(|| Some(ex.upstream.page.upgrade()?.fresh_until));
            }
            match ex.upstream.waited_for {
                Some(_) if ex.upstream.cache_status == Some(CacheStatus::Hit) => out.extend_from_slice(b"; collapsed"),
                Some(_) => out.extend_from_slice(b"; collapsed=?0"),
                None => {}
            }
        }
    }
    if let Some(fresh_until) = fresh_until {
        out.extend_from_slice(b"; ttl=");
        append_ttl(fresh_until, cx.now(), out);
    }
    append_key(ex.upstream.page_key(), out);
    append_detail(ex, out);
}

/// What this cache is called: a token of RFC 9651 §3.3.4. A node of a cluster is told from the others, which may stand behind it.
fn append_name(node: Option<&str>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"larder");
    let is_token = |node: &&str| node.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
    if let Some(node) = node.filter(is_token) {
        out.push(b'/');
        out.extend_from_slice(node.as_bytes());
    }
}

/// `None` if the configuration has no cache for the request.
fn way(ex: &Exchange, cx: &Cx) -> Option<Way> {
    let detail = ex.upstream.cache_detail;
    if detail == Cause::OnlyIfCached {
        return Some(Way::Own);
    }
    Some(match ex.upstream.cache_status {
        Some(CacheStatus::Hit) => match ex.upstream.waited_for {
            Some(why) => Way::Forwarded(why),
            None => Way::Hit,
        },
        Some(CacheStatus::Stale) if detail == Cause::Failed => Way::Forwarded("stale"),
        Some(CacheStatus::Stale | CacheStatus::Updating) => Way::Hit,
        Some(CacheStatus::Bypass) => Way::Forwarded("bypass"),
        Some(CacheStatus::Expired | CacheStatus::Revalidated) if detail == Cause::ByRequest => {
            Way::Forwarded("request")
        }
        Some(CacheStatus::Expired | CacheStatus::Revalidated) => Way::Forwarded("stale"),
        Some(CacheStatus::Miss) if detail == Cause::NotStoredYet && reasons::varies_by(ex, cx).is_some() => {
            Way::Forwarded("vary-miss")
        }
        // A page was there, and did not count.
        Some(CacheStatus::Miss) if detail == Cause::None && ex.upstream.waited_for.is_none() => Way::Forwarded("miss"),
        Some(CacheStatus::Miss) => Way::Forwarded("uri-miss"),
        None if detail == Cause::Method => Way::Forwarded("method"),
        None if detail != Cause::None && ex.upstream.status.is_some() => Way::Forwarded("bypass"),
        None => return None,
    })
}

fn is_stored(ex: &Exchange) -> bool {
    match ex.upstream.cache_status {
        Some(CacheStatus::Miss | CacheStatus::Bypass | CacheStatus::Expired) => ex.upstream.is_stored,
        Some(CacheStatus::Revalidated) => true,
        Some(CacheStatus::Hit | CacheStatus::Stale | CacheStatus::Updating) | None => false,
    }
}

/// The whole seconds that are left, less than 0 of what has been stale for so long.
fn append_ttl(fresh_until: Time, now: Time, out: &mut Vec<u8>) {
    let stale = now.since(fresh_until).as_secs();
    if stale > 0 {
        out.push(b'-');
    }
    append_decimal(stale.max(fresh_until.since(now).as_secs()).min(INTEGER_MAX), out);
}

/// The greatest integer of structured fields (RFC 9651 §3.3.1).
const INTEGER_MAX: u64 = 999_999_999_999_999;

/// The key as a string of RFC 9651 §3.3.3; one with other bytes is left out, as are those of VCLs.
fn append_key(key: &[u8], out: &mut Vec<u8>) {
    if key.is_empty() || key.len() > KEY_BYTES_MAX || !key.iter().all(|byte| (b' '..=b'~').contains(byte)) {
        return;
    }
    out.extend_from_slice(b"; key=\"");
    for &byte in key {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
}

/// A longer key is left out: a client could have a head made of it that nobody takes.
const KEY_BYTES_MAX: usize = 2048;

/// nginx's word, and the reason. Neither has a quote or a byte beyond ASCII in it.
fn append_detail(ex: &Exchange, out: &mut Vec<u8>) {
    out.extend_from_slice(b"; detail=\"");
    let status = ex.upstream.cache_status.map_or("", CacheStatus::name);
    out.extend_from_slice(status.as_bytes());
    let detail = ex.upstream.cache_detail.words();
    if !status.is_empty() && !detail.is_empty() {
        out.extend_from_slice(b": ");
    }
    out.extend_from_slice(detail.as_bytes());
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_node_is_named_as_far_as_it_can_be() {
        for (node, expected) in [
            (None, "larder"),
            (Some("web-1.shop_a"), "larder/web-1.shop_a"),
            (Some("web 1"), "larder"),
            (Some("web;1"), "larder"),
            (Some("wëb"), "larder"),
        ] {
            let mut out = Vec::new();
            append_name(node, &mut out);
            assert_eq!(out, expected.as_bytes(), "{node:?}");
        }
    }

    #[test]
    fn keys_are_strings_or_left_out() {
        for (key, expected) in [
            (&b"shop.test/a"[..], "; key=\"shop.test/a\""),
            (b"a\"b\\c ~", "; key=\"a\\\"b\\\\c ~\""),
            (b"", ""),
            (b"a\tb", ""),
            (b"a\r\nSet-Cookie: b", ""),
            (b"a\x7f", ""),
            (b"a\0", ""),
            ("ä".as_bytes(), ""),
            (&[b'a'; KEY_BYTES_MAX + 1], ""),
        ] {
            let mut out = Vec::new();
            append_key(key, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{}", String::from_utf8_lossy(key));
        }
    }

    #[test]
    fn a_page_that_has_just_become_stale_is_fresh_for_no_time() {
        let now = Time::from_secs(10).plus(Duration::from_millis(500));
        for (fresh_until, ttl) in [(72, "61"), (11, "0"), (10, "0"), (9, "-1"), (0, "-10")] {
            let mut out = Vec::new();
            append_ttl(Time::from_secs(fresh_until), now, &mut out);
            assert_eq!(out, ttl.as_bytes(), "{fresh_until}");
        }
    }
}
