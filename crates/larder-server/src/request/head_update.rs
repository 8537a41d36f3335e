//! A HEAD that its origin answers says something of the stored page of a GET (RFC 9111 §4.3.5).
//!
//! This is for `larder_cache_mode rfc9111` and a HEAD that goes on as one: with `proxy_cache_convert_head off`, or passed. Pages
//! that are on disk alone are left as they are.

use std::time::Duration;

use larder_cache::{Asking, KeyRef, Moment, Object, Shorter};
use larder_http::{Fields, Known, Method, ResponseHead, parse_date, status};
use larder_store::Whole;

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::policy::{self, Confirmed, directives};
use crate::site::{Origin, Protocol};

use super::plan::Plan;
use super::store;

/// Freshens the stored page if the answer is about it, and has it be stale if it is about another.
pub fn apply(answer: &ResponseHead, plan: &Plan, origin: &Origin, ex: &mut Exchange, cx: &Cx) {
    if ex.request.method != Method::Head
        || answer.status != status::OK
        || !origin.policy.is_rfc9111()
        || ex.is_sub()
        || !went_as_head(plan, origin)
    {
        return;
    }
    let Some(cache) = origin.policy.directives().and_then(|policy| policy.cache.as_ref()) else { return };
    let Ok(Some(zone)) = directives::zone(cache, ex, cx) else { return };
    let own = std::mem::take(&mut ex.upstream.cache_key);
    let keys = directives::page_keys(cache, &origin.backend, ex, cx);
    // Under a key of both, what is stored may be the answer to a HEAD.
    if let [of_get, _of_head] = &keys[..] {
        ex.upstream.cache_key.clone_from(of_get);
        let since = plan.storing.as_ref().map(|storing| storing.since());
        update(answer, zone, since, origin, ex, cx);
    }
    ex.upstream.cache_key = own;
}

/// Whether the origin got a HEAD.
fn went_as_head(plan: &Plan, origin: &Origin) -> bool {
    let is_method_set = match &origin.backend.protocol {
        Protocol::Http(parts) => parts.method.is_some(),
        Protocol::FastCgi(_) => false,
    };
    let is_converted = plan.storing.is_some() && directives::converts_head(&origin.backend);
    !is_method_set && !is_converted
}

fn update(answer: &ResponseHead, index: usize, since: Option<Moment>, origin: &Origin, ex: &mut Exchange, cx: &Cx) {
    let now = cx.now();
    let zone = cx.zone(index);
    let key = ex.upstream.cache_key.clone();
    let key = KeyRef::new(&key);
    let found = {
        let head = &ex.asked.head;
        let request = ex.selecting();
        let asking = Asking { url: head.target(), fields: &head.fields };
        let peek = zone.peek(&key, now);
        let mut pages = peek.variants.into_iter();
        pages.find(|object| object.vary.matches(&request)).filter(|object| zone.banned(object, &asking).is_none())
    };
    let Some(page) = found else { return };
    match compare(&answer.fields, &page) {
        Agreement::Untold => {}
        Agreement::Differs => {
            let at_once = Shorter { ttl: Duration::ZERO, grace: None, keep: None };
            zone.shorten(&key, at_once, |object| std::ptr::eq(object, &*page), now);
        }
        Agreement::Same => {
            // A purge since then would be undone.
            let Some(since) = since else { return };
            if let Confirmed::Until { lifetime, changed } = policy::confirmed(origin, answer, &page, ex, cx) {
                let fresh = store::freshen(&page, lifetime, changed, &origin.backend, cx);
                let permit = zone.permit(&mut cx.local.fronts[index].borrow_mut(), &key, now);
                if let Some(mut permit) = permit {
                    permit.fetched_since(since);
                    permit.freshen(&page, fresh);
                }
            }
        }
    }
}

/// What a HEAD says of a page.
#[derive(Debug, PartialEq, Eq)]
enum Agreement {
    /// It is the page: all that identifies both is equal.
    Same,
    /// It is another.
    Differs,
    /// Nothing for sure: there is no validator.
    Untold,
}

fn compare(head: &Fields, page: &Object) -> Agreement {
    let length = page.body.whole().map(Whole::len).or(page.fields.content_length());
    compare_fields(head, &page.fields, page.status, length)
}

fn compare_fields(head: &Fields, page: &Fields, status: u16, length: Option<u64>) -> Agreement {
    let opaque = |tag| <[u8]>::strip_prefix(tag, b"W/").unwrap_or(tag);
    let tags = head.get_known(Known::Etag).map(|tag| page.get_known(Known::Etag).map(opaque) == Some(opaque(tag)));
    let date = |fields: &Fields| fields.get_known(Known::LastModified).and_then(parse_date);
    let dates = date(head).map(|modified| date(page) == Some(modified));
    let lengths = head.content_length().map(|said| length.is_none_or(|length| length == said));
    let all = [tags, dates, lengths];
    match () {
        () if status != status::OK || all.contains(&Some(false)) => Agreement::Differs,
        () if tags.or(dates).is_some() => Agreement::Same,
        () => Agreement::Untold,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_about_a_page_if_all_that_it_says_of_it_agrees() {
        const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
        const LATER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";
        let of = |lines: &[(&str, &str)]| lines.iter().copied().collect::<Fields>();
        let page = of(&[("ETag", "\"1\""), ("Last-Modified", DATE)]);
        for (head, agreement) in [
            (of(&[("ETag", "\"1\"")]), Agreement::Same),
            (of(&[("ETag", "W/\"1\"")]), Agreement::Same),
            (of(&[("Last-Modified", DATE)]), Agreement::Same),
            (of(&[("ETag", "\"1\""), ("Content-Length", "4")]), Agreement::Same),
            (of(&[("ETag", "\"1\""), ("Content-Length", "5")]), Agreement::Differs),
            (of(&[("ETag", "\"1\""), ("Last-Modified", LATER)]), Agreement::Differs),
            (of(&[("ETag", "\"2\""), ("Last-Modified", DATE)]), Agreement::Differs),
            (of(&[("Content-Length", "5")]), Agreement::Differs),
            (of(&[("Content-Length", "4")]), Agreement::Untold),
            (of(&[]), Agreement::Untold),
        ] {
            assert_eq!(compare_fields(&head, &page, 200, Some(4)), agreement, "{head:?}");
        }
        let same = of(&[("ETag", "\"1\"")]);
        assert_eq!(compare_fields(&same, &of(&[]), 200, Some(4)), Agreement::Differs, "it had no tag");
        assert_eq!(compare_fields(&same, &page, 404, Some(4)), Agreement::Differs, "it was not there");
    }
}
