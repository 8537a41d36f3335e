//! Fields that the configuration adds to a response: `add_header`, `add_trailer`, `expires`, the host in a redirect,
//! `Cache-Status`, and what keeps a response out of shared caches.

use larder_conf::model::Expires;
use larder_http::{Fields, Known, list};

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::site::Loc;

use super::wire::{HeadWriter, Wire, append_decimal, append_field, append_line};
use super::{cache_status, explained, response_fields};

/// Whether responses of this status get `expires`, and `add_header` without `always`.
fn gets_added_fields(status: u16) -> bool {
    matches!(status, 200 | 201 | 204 | 206 | 301 | 302 | 303 | 304 | 307 | 308)
}

/// Evaluates `add_header` and hands each field to `each`; one that comes out empty too.
pub fn each_added(loc: &Loc, status: u16, ex: &mut Exchange, cx: &Cx, mut each: impl FnMut(&[u8], &[u8])) {
    for (name, text, always) in &loc.fields.add_headers {
        if *always || gets_added_fields(status) {
            text.with(ex, cx, |_, value| each(name, value));
        }
    }
}

/// Whether `add_header` of this name takes the place of what is there.
pub fn replaces(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"last-modified") || name.eq_ignore_ascii_case(b"etag")
}

/// `add_header`, in order: a value may refer to a field that has been added before it.
pub fn add_configured(loc: &Loc, status: u16, ex: &mut Exchange, cx: &Cx) {
    for (name, text, always) in &loc.fields.add_headers {
        if *always || gets_added_fields(status) {
            let value = text.value(ex, cx);
            add_one(name, &value, ex);
        }
    }
}

/// Adds only `Last-Modified` and `ETag` of `add_header`, before `If-Range` is compared with them. Returns the new
/// date.
pub fn add_validators(loc: &Loc, last_modified: Option<u64>, ex: &mut Exchange, cx: &Cx) -> Option<u64> {
    let mut last_modified = last_modified;
    for (name, text, always) in &loc.fields.add_headers {
        if replaces(name) && (*always || gets_added_fields(ex.reply.status)) {
            let value = text.value(ex, cx);
            add_one(name, &value, ex);
            if name.eq_ignore_ascii_case(b"last-modified") {
                last_modified = larder_http::parse_date(&value);
            }
        }
    }
    last_modified
}

fn add_one(name: &[u8], value: &[u8], ex: &mut Exchange) {
    // These two take the place of what is there, even by nothing; other fields are added to it
    // (ngx_http_headers_filter).
    match (replaces(name), value.is_empty()) {
        (true, true) => {
            ex.reply.fields.remove(&String::from_utf8_lossy(name));
        }
        (true, false) => ex.reply.fields.set(&String::from_utf8_lossy(name), value),
        (false, true) => {}
        (false, false) => ex.reply.fields.push(name, value),
    }
}

/// Whether `add_trailer` is for this status, so that the body is sent in chunks. The values may turn out to be empty.
pub fn has_trailers(loc: &Loc, status: u16) -> bool {
    loc.fields.add_trailers.iter().any(|(_, _, always)| *always || gets_added_fields(status))
}

/// `add_trailer`, as the client's protocol writes it, with the values of now.
pub fn trailers(loc: &Loc, status: u16, wire: Wire, ex: &mut Exchange, cx: &Cx) -> Vec<u8> {
    if !has_trailers(loc, status) {
        return Vec::new();
    }
    let mut out = Vec::new();
    ex.reply.trailers = Some(Box::default());
    for (name, text, always) in &loc.fields.add_trailers {
        if *always || gets_added_fields(status) {
            text.with(ex, cx, |ex, value| {
                if value.is_empty() {
                    return;
                }
                match wire {
                    Wire::Lines => append_line(name, value, &mut out),
                    Wire::Block => append_field(name, value, &mut out),
                }
                // What follows may refer to it.
                if let Some(made) = &mut ex.reply.trailers {
                    made.push(name, value);
                }
            });
        }
    }
    out
}

/// `expires`: sets Expires and Cache-Control in place of what is there.
pub fn add_expires(loc: &Loc, last_modified: Option<u64>, ex: &mut Exchange, cx: &Cx) {
    let Some(configured) = &loc.settings.fields.expires else { return };
    if !gets_added_fields(ex.reply.status) {
        return;
    }
    let parsed;
    let expires = match (configured, &loc.fields.expires) {
        (Expires::Variable(_, modified), Some(text)) => {
            let value = text.value(ex, cx);
            match larder_conf::parse_expires(&String::from_utf8_lossy(&value), *modified) {
                Ok(Some(expires)) => {
                    parsed = expires;
                    &parsed
                }
                Ok(None) | Err(_) => return,
            }
        }
        (Expires::Variable(..), None) => return,
        (fixed, _) => fixed,
    };
    let now = cx.now().secs();
    let (date, control) = match expires {
        Expires::Epoch => (String::from("Thu, 01 Jan 1970 00:00:01 GMT"), String::from("no-cache")),
        Expires::Max => (String::from("Thu, 31 Dec 2037 23:55:55 GMT"), String::from("max-age=315360000")),
        Expires::After(seconds) => dated(now, *seconds),
        Expires::Modified(seconds) => match last_modified {
            Some(modified) => {
                let at = modified.saturating_add_signed(*seconds);
                dated(now, i64::try_from(at).unwrap_or(i64::MAX).saturating_sub_unsigned(now))
            }
            None => dated(now, *seconds),
        },
        Expires::Daily(second) => {
            let day = 24 * 60 * 60;
            let passed = cx.local.logs.seconds_of_local_day(cx.now());
            dated(now, i64::from((u64::from(*second) + day - passed) as u32 % day as u32))
        }
        Expires::Variable(..) => return,
    };
    ex.reply.fields.set("Expires", date.as_bytes());
    ex.reply.fields.set("Cache-Control", control.as_bytes());
}

fn dated(now: u64, seconds: i64) -> (String, String) {
    let date = larder_http::format_date(now.saturating_add_signed(seconds));
    let date = String::from_utf8_lossy(&date).into_owned();
    if seconds < 0 { (date, String::from("no-cache")) } else { (date, format!("max-age={seconds}")) }
}

/// A redirect to a path becomes one to a URL, unless `absolute_redirect off`.
pub fn absolute_location(loc: &Loc, ex: &mut Exchange, cx: &Cx) {
    let settings = &loc.settings;
    let Some(location) = ex.reply.fields.get_known(Known::Location).filter(|location| location.first() == Some(&b'/'))
    else {
        return;
    };
    // An origin's own relative redirect is passed as it is.
    if !settings.redirects.absolute || !ex.reply.location_is_ours {
        return;
    }
    let secure = ex.asked.client.is_secure();
    let mut url = if secure { b"https://".to_vec() } else { b"http://".to_vec() };
    let usual_port = if secure { 443 } else { 80 };
    let name = &cx.server(ex).name;
    if settings.redirects.server_name && !name.is_empty() {
        url.extend_from_slice(name);
    } else if !ex.request.host.is_empty() {
        url.extend_from_slice(&ex.request.host);
    } else if let Some(local) = ex.asked.client.local {
        url.extend_from_slice(local.ip().to_string().as_bytes());
    }
    if let Some(local) = ex.asked.client.local.filter(|local| settings.redirects.port && local.port() != usual_port) {
        url.push(b':');
        append_decimal(u64::from(local.port()), &mut url);
    }
    url.extend_from_slice(location);
    ex.reply.fields.set("Location", &url);
}

/// `Cache-Status`, and `X-Larder-Explain` for whom the location names.
///
/// Stored pages have it in every form, compressed or in ranges.
pub fn write_cache_status(loc: &Loc, ex: &mut Exchange, cx: &Cx, head: &mut HeadWriter<'_>) {
    if loc.fields.tells_cache {
        tell_cache(loc, ex, cx, head);
    }
}

fn tell_cache(loc: &Loc, ex: &mut Exchange, cx: &Cx, head: &mut HeadWriter<'_>) {
    if ex.remote_ip().is_some_and(|ip| crate::access::is_in(&loc.settings.fields.explain_from, ip)) {
        let sentence = explained::sentence(ex, cx);
        head.field(response_fields::EXPLAIN.as_bytes(), &one_line(&sentence));
    }
    if !loc.settings.fields.cache_status {
        return;
    }
    let mut value = ex.eval.scratch.pop().unwrap_or_default();
    value.clear();
    cache_status::append(ex, cx, &mut value);
    if !value.is_empty() {
        head.field(b"Cache-Status", &value);
    }
    value.clear();
    ex.eval.scratch.push(value);
}

/// A text as the value of a field.
fn one_line(text: &str) -> Vec<u8> {
    let bytes = text.bytes().take(EXPLAINED_BYTES_MAX);
    bytes.map(|byte| if byte.is_ascii_control() { b' ' } else { byte }).collect()
}

/// What is told of a reason.
const EXPLAINED_BYTES_MAX: usize = 1000;

/// Makes the head one that no cache may keep for others, whatever the page and the location say of it. What they say to the
/// client's own cache stays.
pub fn keep_private(fields: &mut Fields) {
    // RFC 9213, and what CDNs take beside it.
    fields.retain(|_, name, _| {
        let name = name.to_ascii_lowercase();
        !(name.ends_with(b"cdn-cache-control") || matches!(&name[..], b"surrogate-control" | b"edge-control"))
    });
    let members = fields.all_known(Known::CacheControl).flat_map(list::members);
    let mut control: Vec<&[u8]> = vec![b"private"];
    control.extend(members.filter(|member| !is_of_shared_caches(member)));
    let control = control.join(&b", "[..]);
    fields.set("Cache-Control", &control);
}

/// Whether a directive is for caches that serve more than one, or is ours.
fn is_of_shared_caches(member: &[u8]) -> bool {
    let name = member.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii();
    [&b"public"[..], b"private", b"s-maxage", b"proxy-revalidate"].iter().any(|own| own.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expires_comes_with_its_cache_control() {
        for (seconds, date, control) in [
            (0, "Thu, 01 Jan 1970 00:16:40 GMT", "max-age=0"),
            (60, "Thu, 01 Jan 1970 00:17:40 GMT", "max-age=60"),
            (-1, "Thu, 01 Jan 1970 00:16:39 GMT", "no-cache"),
            (-5000, "Thu, 01 Jan 1970 00:00:00 GMT", "no-cache"),
        ] {
            assert_eq!(dated(1000, seconds), (date.to_owned(), control.to_owned()), "{seconds}");
        }
    }

    #[test]
    fn fields_are_added_to_the_statuses_that_nginx_names() {
        let given: Vec<u16> = (100..600).filter(|status| gets_added_fields(*status)).collect();
        assert_eq!(given, [200, 201, 204, 206, 301, 302, 303, 304, 307, 308]);
    }

    #[test]
    fn no_shared_cache_may_keep_a_personal_page() {
        for (lines, expected) in [
            (&[][..], "private"),
            (&["public, max-age=60, s-maxage=600"], "private, max-age=60"),
            (&["max-age=5", "Public", "must-revalidate"], "private, max-age=5, must-revalidate"),
            (&["private=\"Set-Cookie\", no-cache"], "private, no-cache"),
            (&["no-store"], "private, no-store"),
            (&["proxy-revalidate, S-MAXAGE = 5, stale-if-error=9"], "private, stale-if-error=9"),
        ] {
            let mut fields: Fields = lines.iter().map(|line| ("Cache-Control", *line)).collect();
            for name in ["CDN-Cache-Control", "Cloudflare-CDN-Cache-Control", "Surrogate-Control", "Edge-Control"] {
                fields.push(name.as_bytes(), b"max-age=60");
            }
            fields.push(b"X-Other", b"1");
            keep_private(&mut fields);
            let all: Vec<_> = fields.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
            assert_eq!(fields.get("Cache-Control"), Some(expected.as_bytes()), "{lines:?}");
            assert_eq!(all.len(), 2, "{all:?}");
        }
    }
}
