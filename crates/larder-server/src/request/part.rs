//! A part of a page that is kept alone, in `larder_cache_mode rfc9111` (RFC 9111 §3.3, §3.4).
//!
//! A page is fetched whole, whatever part of it is asked for. Where that does not answer a request in time, as its range
//! begins far beyond what has arrived ([`far_range`]) or beyond `*_cache_max_range_offset`, the origin is asked for the
//! range. Its 206 is stored under a key of its own ([`larder_cache::PART`]), under which nobody looks for a page; its status
//! and its `Content-Range` say what it is, on disk too.
//!
//! ```text
//! no page --its range goes on--> key of the part: hit, stale, wait or miss --206--> stored there
//!    |                                                                     `-200--> stored as the page
//!    `--fetched whole--> a part is there: its rest is asked for, If-Range --206--> joined, stored as the page
//!                                                                         `-else--> as if there were none
//! ```

use std::sync::Arc;

use larder_cache::{Asking, KeyRef, Object, PART};
use larder_http::{ByteRange, Fields, Known, Method, ResponseHead, status};
use larder_origin::Answer;
use larder_store::BodyReader;

use crate::context::Cx;
use crate::exchange::{CacheStatus, Cause, Exchange, Part, Place, Slicing, place_in};
use crate::policy::Rest;
use crate::policy::directives::UNCACHEABLE_FOR;
use crate::site::Origin;

use super::far_range;
use super::page::{self, Page};
use super::plan::{Plan, Storing};
use super::slice::{SliceBody, Slices};
use super::{Content, Ranges, Response, Step};

/// Looks for a part in place of the page. `None` where none would do.
pub fn instead(zone: usize, origin: &Origin, ex: &mut Exchange) -> Option<Step> {
    let range = ex.asked.head.fields.get_known(Known::Range)?;
    let may = ex.upstream.part == Part::Unasked
        && origin.policy.is_rfc9111()
        && !ex.is_sub()
        && !range.contains(&b',')
        && far_range::goes_on(&origin.backend, ex);
    if !may {
        return None;
    }
    ex.upstream.part = Part::Asked;
    ex.upstream.cache_key.extend_from_slice(PART);
    Some(Step::LookInZone(zone))
}

/// Looks for the page after all. False if that is looked for.
pub fn leave(ex: &mut Exchange) -> bool {
    if ex.upstream.part != Part::Asked {
        return false;
    }
    ex.upstream.part = Part::Over;
    let key = &mut ex.upstream.cache_key;
    key.truncate(key.len().saturating_sub(PART.len()));
    true
}

/// Whether what was found is of the kind that was looked for: a page, or a part that has what the request asks for.
#[inline]
pub fn answers(object: &Object, origin: &Origin, ex: &Exchange, cx: &Cx) -> bool {
    match ex.upstream.part {
        Part::Asked => covering(object, ex, cx).is_some(),
        Part::Unasked | Part::Over => {
            object.status != status::PARTIAL_CONTENT
                || !origin.policy.is_rfc9111()
                || matches!(ex.visit.slicing, Slicing::At(_))
        }
    }
}

/// What the request asks for of a part, if that has it all: the range of the page, and where the part lies.
fn covering(object: &Object, ex: &Exchange, cx: &Cx) -> Option<(ByteRange, Place)> {
    let place = place_of(object)?;
    let range = far_range::range_asked(&object.fields, object.last_modified, place.total, ex, cx)?;
    (place.lies.start <= range.start && range.end <= place.lies.end).then_some((range, place))
}

/// Where a stored part lies in its page. `None` for what is none.
fn place_of(object: &Object) -> Option<Place> {
    let is_part = object.status == status::PARTIAL_CONTENT;
    sound_place(&object.fields, object.fields.content_length()).filter(|_| is_part)
}

/// Where a body of this length lies in its page, if its head says that without contradiction.
fn sound_place(fields: &Fields, length: Option<u64>) -> Option<Place> {
    place_in(fields).filter(|place| length == Some(place.lies.end - place.lies.start))
}

/// Delivers what the request asks for of a stored part.
pub fn deliver(page: Page, ex: &mut Exchange, cx: &Cx) -> Step {
    let Some(((range, place), origin)) = covering(page.object(), ex, cx).zip(cx.origin(ex)) else {
        // A confirmation has given it another tag than the client has.
        return Plan::pass().into();
    };
    if ex.upstream.cache_status == Some(CacheStatus::Hit) {
        ex.upstream.cache_detail = Cause::None;
    }
    let (object, reader) = page.into_parts();
    ex.upstream.page = Arc::downgrade(&object);
    ex.upstream.fresh_until = Some(object.fresh_until);
    page::lay_out(&object, &origin.backend, ex, cx);
    let content_range = format!("bytes {}-{}/{}", range.start, range.end - 1, place.total);
    ex.reply.fields.set("Content-Range", content_range.as_bytes());
    let last_modified = object.last_modified;
    let body = match (object.body.whole(), reader) {
        (Some(_), _) => SliceBody::Stored(object),
        (None, Some(reader)) => SliceBody::Passing(reader),
        (None, None) => SliceBody::Passing(object.body.reader()),
    };
    let content =
        Content::Slices(Box::new(Slices::of_part(body, range.start - place.lies.start..range.end - place.lies.start)));
    Step::Deliver(Response { content, last_modified, ranges: Ranges::Quiet, conditional: true })
}

/// Makes the page of a 206 that has all of it, as for `bytes=0-` (§3.4).
pub fn grow_up(answer: &mut Answer, ex: &Exchange) {
    let place = match ex.upstream.part == Part::Asked && answer.head.status == status::PARTIAL_CONTENT {
        true => sound_place(&answer.head.fields, answer.body.content_length()),
        false => None,
    };
    if place.is_some_and(|place| place.lies == (0..place.total)) {
        let fields = Arc::make_mut(&mut answer.head.fields);
        fields.remove("Content-Range");
        become_page(&mut answer.head);
    }
}

fn become_page(head: &mut ResponseHead) {
    head.status = status::OK;
    head.reason = b"OK"[..].into();
}

/// Where an answer to a request for a part is stored: a part there, if its length is sound; another answer as the page.
pub fn storing_for(answer: &Answer, storing: Option<Storing>, ex: &mut Exchange, cx: &Cx) -> Option<Storing> {
    if ex.upstream.part != Part::Asked {
        return storing;
    }
    let is_of_page = match answer.head.status {
        status::PARTIAL_CONTENT if sound_place(&answer.head.fields, answer.body.content_length()).is_some() => {
            return storing;
        }
        // After a failure the next who waits tries.
        500.. => return None,
        status::PARTIAL_CONTENT | status::RANGE_NOT_SATISFIABLE => false,
        _ => leave(ex),
    };
    let (zone, since) = storing.as_ref().map(|storing| (storing.zone(), storing.since()))?;
    if let Some(storing) = storing {
        // Who waits looks for the page.
        storing.uncacheable(UNCACHEABLE_FOR, cx);
    }
    if !is_of_page {
        ex.upstream.cache_detail = Cause::PartOfPage;
    }
    is_of_page.then(|| Storing::unasked_since(zone, since))
}

/// The part that is there of a page which is about to be fetched whole, if its rest may be asked for: it has a strong tag, and
/// begins or ends with the page. One that is on disk alone is not read for that.
pub fn to_complete(zone: usize, origin: &Origin, ex: &Exchange, cx: &Cx) -> Option<Arc<Object>> {
    if !origin.policy.is_rfc9111()
        || ex.request.method != Method::Get
        || matches!(ex.visit.slicing, Slicing::At(_))
        || origin.policy.file().is_some()
        || !far_range::passes_ranges(&origin.backend)
    {
        return None;
    }
    let (zone, head) = (cx.zone(zone), &ex.asked.head);
    let key = [&ex.upstream.cache_key[..], PART].concat();
    let peek = zone.peek(&KeyRef::new(&key), cx.now());
    let request = ex.selecting();
    let asking = Asking { url: head.target(), fields: &head.fields };
    peek.variants.into_iter().find(|object| {
        object.vary.matches(&request)
            && rest_of(object).is_some()
            && object.body.is_here()
            && zone.banned(object, &asking).is_none()
    })
}

/// What its origin is asked for to complete a part; `None` where it cannot be.
pub fn rest_of(object: &Object) -> Option<Rest> {
    let place = place_of(object)?;
    let etag = object.fields.get_known(Known::Etag).filter(|etag| etag.starts_with(b"\""))?;
    let range = match missing(&place)? {
        rest if rest.end == place.total => format!("bytes={}-", rest.start),
        rest => format!("bytes={}-{}", rest.start, rest.end - 1),
    };
    Some(Rest { range: range.into(), etag: etag.to_vec() })
}

/// What is missing of the page of a part, if it is one range.
fn missing(place: &Place) -> Option<std::ops::Range<u64>> {
    let Place { lies, total } = place;
    match (lies.start, lies.end) {
        (0, end) if end == *total => None,
        (0, end) => Some(end..*total),
        (start, end) if end == *total => Some(0..start),
        _ => None,
    }
}

/// A part that becomes a page together with what its origin sends.
pub struct Joined {
    /// Its bytes.
    pub reader: BodyReader,
    /// How many.
    pub bytes: u64,
    /// Whether they come before those of the origin, or else after.
    pub is_first: bool,
    /// The length of the page.
    pub total: u64,
}

/// What an answer makes of a part whose rest was asked for.
pub enum Completion {
    /// A page: the answer's head is that of it now (§3.4).
    Page(Joined),
    /// Nothing: the answer has all that there is.
    Other,
    /// Nothing, and the answer is of no use: the page is fetched whole.
    Failed,
}

/// Joins a part whose rest the plan asks for with that, and drops it if it is not what its origin has.
pub fn complete(answer: &mut Answer, plan: &mut Plan, ex: &Exchange, cx: &Cx) -> Completion {
    let Some(part) = plan.part.take() else { return Completion::Other };
    let completion = join(answer, &part);
    let is_gone = match completion {
        Completion::Page(_) => false,
        Completion::Failed => true,
        Completion::Other => answer.head.status == status::OK,
    };
    if let Some(storing) = plan.storing.as_ref().filter(|_| is_gone) {
        let key = [&ex.upstream.cache_key[..], PART].concat();
        cx.zone(storing.zone()).purge_variants(&KeyRef::new(&key), |object| std::ptr::eq(object, &*part), cx.now());
    }
    completion
}

/// Joins a part with its rest, if both are of the same page.
fn join(answer: &mut Answer, part: &Object) -> Completion {
    match answer.head.status {
        status::PARTIAL_CONTENT => {}
        status::RANGE_NOT_SATISFIABLE => return Completion::Failed,
        _ => return Completion::Other,
    }
    let (Some(stored), Some(rest)) = (place_of(part), sound_place(&answer.head.fields, answer.body.content_length()))
    else {
        return Completion::Failed;
    };
    let is_equal = |known| answer.head.fields.get_known(known) == part.fields.get_known(known);
    let is_same = is_equal(Known::Etag)
        && is_equal(Known::ContentEncoding)
        && stored.total == rest.total
        && missing(&stored) == Some(rest.lies);
    if !is_same {
        return Completion::Failed;
    }
    let mut fields = larder_cache::rfc9111::updated(&part.fields, &answer.head.fields);
    larder_cache::rfc9111::take_over_cookies(&mut fields, &answer.head.fields);
    fields.remove("Content-Range");
    fields.set("Content-Length", stored.total.to_string().as_bytes());
    answer.head.fields = Arc::new(fields);
    become_page(&mut answer.head);
    Completion::Page(Joined {
        reader: part.body.reader(),
        bytes: stored.lies.end - stored.lies.start,
        is_first: stored.lies.start == 0,
        total: stored.total,
    })
}
