//! Conditional requests, as Varnish answers them (`RFC2616_Do_Cond`).

use larder_http::{Known, list, parse_date, status};

use crate::context::Cx;
use crate::exchange::Exchange;

use super::seconds;
use super::variables::page;

/// Whether the client has this response already: by its tag, and only if it names none by its date.
pub fn is_not_modified(ex: &Exchange, cx: &Cx) -> bool {
    // What is included has to be there.
    if ex.reply.status != status::OK || ex.vcl.client.esi_level > 0 {
        return false;
    }
    let (asked, response) = (&ex.asked.head.fields, &ex.reply.fields);
    if asked.contains_known(Known::IfNoneMatch) {
        let Some(tag) = response.get_known(Known::Etag) else { return false };
        let is_strong = asked.contains_known(Known::Range);
        let mut tags = asked.all_known(Known::IfNoneMatch).flat_map(list::members);
        return tags.any(|asked| is_same(asked, tag, is_strong));
    }
    let Some(since) = asked.get_known(Known::IfModifiedSince).and_then(parse_date) else { return false };
    if since > cx.now().secs() {
        return false;
    }
    let modified = match response.get_known(Known::LastModified) {
        Some(date) => parse_date(date),
        // A page without a date is as old as it is.
        None => Some(origin(ex, seconds(cx.now())) as u64),
    };
    modified.is_some_and(|modified| modified <= since)
}

fn origin(ex: &Exchange, now: f64) -> f64 {
    match &ex.vcl.page {
        Some(page) => now - page::age(page, now),
        None => ex.vcl.fetch.answer.origin,
    }
}

/// RFC 9110 §8.8.3.2. `*` stands for any.
fn is_same(asked: &[u8], tag: &[u8], is_strong: bool) -> bool {
    let bare = |tag: &'_ [u8]| tag.strip_prefix(b"W/").unwrap_or(tag).to_vec();
    match is_strong {
        true => asked == tag && !tag.starts_with(b"W/"),
        false => asked == b"*" || bare(asked) == bare(tag),
    }
}
