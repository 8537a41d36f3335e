//! A page with ESI that is put together without waiting: it was read before, and all that it includes is in memory.
//!
//! ```text
//! page: text, include, text ... -> Whole: bytes, or segments of gzip -> Content
//!             `- a request inside, up to where it would wait --> Begun: what there is, and what is left
//! ```
//! A whole in gzip is made of segments, which are kept with the page and with what it includes: nothing is packed twice.

use std::borrow::Cow;
use std::iter;
use std::sync::Arc;

use bytes::Bytes;
use larder_cache::Object;
use larder_compress::{Joined, Segment, restore};
use larder_http::{Coding, Known};

use crate::context::Cx;
use crate::exchange::{Choice, Exchange};
use crate::filter::esi::{Flow, Include, Mark};
use crate::request::compose::parts::{OnError, Pending, is_good, left_out, named, plain};
use crate::request::compress::{self, Facts};
use crate::request::settle::Settled;
use crate::request::{Content, Entrance, Response, Step, Stop, advance, subrequest};

use super::read::{EFFORT, Part, Read};
use super::way::{Found, Way, visitor};
use super::{Includes, counted, failed, other_of, request, tell};

/// What comes of a page.
pub enum AtOnce {
    /// All of it.
    Whole(Bytes),
    /// A beginning.
    Begun(Box<Begun>),
    /// There is nothing to be put together.
    Plain,
    /// Nothing: it has to be read as it comes.
    Not,
}

/// A page of which a part has to be waited for.
pub struct Begun {
    /// What there is, in no coding.
    pub text: Bytes,
    /// What there is, where the whole is in gzip: the rest goes on behind it.
    pub joined: Option<Joined>,
    /// The include that comes next.
    pub next: Option<(Pending, OnError)>,
    /// What is in the page.
    read: Arc<Read>,
    body: Bytes,
    /// The part behind the text and that include.
    at: usize,
    /// Who sees that.
    flow: Flow,
}

impl Begun {
    /// The include that comes next, as the page has it.
    pub fn next_include(&self) -> Option<&Include> {
        let part = self.next.is_some().then(|| self.read.parts.get(self.at.checked_sub(1)?)).flatten()?;
        if let Part::Include(include) = part { Some(include) } else { None }
    }

    /// Whether an include is left.
    pub fn has_includes(&self) -> bool {
        self.next.is_some() || self.read.parts.iter().skip(self.at).any(Part::is_include)
    }

    /// What comes behind it.
    pub fn rest(&self) -> impl Iterator<Item = Found<'_>> {
        self.read.parts.iter().skip(self.at).map(|part| match part {
            Part::Text(range) => Found::Text(self.body.slice(range.clone())),
            Part::Packed(segment) => Found::Packed(Arc::clone(segment)),
            Part::Include(include) => Found::Include(Cow::Borrowed(include)),
            Part::Variable(variable, place) => Found::Variable(variable, *place),
            Part::Mark(mark) => Found::Mark(mark),
        })
    }

    /// How far the page is for its visitor.
    pub fn way(&mut self) -> Way {
        Way::from(std::mem::take(&mut self.flow))
    }
}

/// How many includes are done in one go, while other requests wait.
const INCLUDES_MAX: usize = 64;
/// How deep they may lie in each other: each takes room on the stack.
const DEPTH_MAX: u32 = 5;
/// How much is put together at once, in no coding: what is longer is sent as the client takes it. No page that is longer is
/// read before.
const BYTES_MAX: usize = 256 * 1024;
/// The same for an include, which waits in memory until it is its turn.
const INNER_BYTES_MAX: usize = 32 * 1024;

/// Puts the page `object` together, which is in gzip if `is_gzip` says so, and is to be if `packs` says so. `copy` is the
/// request as its includes begin with it.
pub fn run(object: &Object, (is_gzip, packs): (bool, bool), includes: &Includes, copy: &Exchange, cx: &Cx) -> AtOnce {
    if copy.vcl.client.esi_level >= DEPTH_MAX {
        return AtOnce::Not;
    }
    let Some(read) = read(object, is_gzip, includes, copy, cx) else { return AtOnce::Not };
    if read.is_plain() {
        return AtOnce::Plain;
    }
    put_together(object, &read, packs, includes, copy, cx)
}

/// A page that is too long, or no gzip: it is not tried again.
struct NotAtOnce;

/// A page as it was read, now or before. `None` if it is not there as a whole, is too long, or is no gzip.
fn read(object: &Object, is_gzip: bool, includes: &Includes, copy: &Exchange, cx: &Cx) -> Option<Arc<Read>> {
    if let Some(read) = object.made::<Arc<Read>>().filter(|read| read.is_by(includes.rules, is_gzip)) {
        return Some(Arc::clone(read));
    }
    if object.body.whole().is_none() || object.made::<NotAtOnce>().is_some() {
        return None;
    }
    let read = body_of(object, is_gzip).and_then(|body| Read::of(&body, is_gzip, includes.rules));
    let Some(read) = read.map(Arc::new) else {
        object.keep_made(NotAtOnce, 0);
        return None;
    };
    if includes.is_by_directive {
        tell(&read.findings, Some(object), copy, cx);
    }
    object.keep_made(Arc::clone(&read), read.heap_bytes());
    Some(read)
}

/// A body in no coding. `None` if it is not there as a whole, is too long, or is no gzip.
fn body_of(object: &Object, is_gzip: bool) -> Option<Bytes> {
    let body = object.body.whole().filter(|body| body.len() <= BYTES_MAX as u64)?.to_bytes().ok()?;
    match is_gzip {
        true => restore(iter::once(&body[..]), Coding::Gzip, BYTES_MAX).ok().map(Bytes::from),
        false => Some(body),
    }
}

fn put_together(
    object: &Object,
    read: &Arc<Read>,
    packs: bool,
    includes: &Includes,
    copy: &Exchange,
    cx: &Cx,
) -> AtOnce {
    let Some(body) = object.body.whole().and_then(|body| body.to_bytes().ok()) else { return AtOnce::Not };
    let Some(shared) = &copy.request.nested.ssi else { return AtOnce::Not };
    let is_top = copy.vcl.client.esi_level == 0;
    if is_top {
        shared.in_a_row.set(0);
    }
    let parts = if packs { Parts::Packed(Joined::default()) } else { Parts::Plain(Vec::new()) };
    let mut whole = Whole { parts, bytes_max: if is_top { BYTES_MAX } else { INNER_BYTES_MAX } };
    let begun = |whole: Whole, next, at, flow| begun(whole, next, (read, &body), (at, flow));
    let mut flow = Flow::default();
    for (at, part) in read.parts.iter().enumerate() {
        let is_added = match part {
            // What it comes to has to be known before it goes out.
            Part::Mark(Mark::Try) if flow.shows() => false,
            Part::Mark(mark) => {
                flow.pass(mark, &visitor(copy));
                true
            }
            _ if !flow.shows() => true,
            Part::Variable(variable, place) => whole.add_bytes(&variable.shown(*place, &visitor(copy))),
            Part::Include(_) => shared.in_a_row.get() < INCLUDES_MAX,
            text => whole.add_text(text, &body),
        };
        if !is_added {
            return begun(whole, None, at, flow);
        }
        let include = match part {
            Part::Include(include) if flow.shows() => include.seen_by(&visitor(copy)),
            _ => continue,
        };
        let include = match include {
            Ok(include) => include,
            Err(why) => {
                failed(&why, copy, cx);
                continue;
            }
        };
        shared.in_a_row.set(shared.in_a_row.get() + 1);
        let on_error = includes.on_error(&include);
        if let Some(pending) = put_in(&include, on_error, &mut whole, includes, copy, cx) {
            return begun(whole, Some((pending, on_error)), at + 1, flow);
        }
    }
    AtOnce::Whole(whole.finish())
}

/// Puts an include into the whole; returns what is left of it if that does not go at once.
fn put_in(
    include: &Include,
    on_error: OnError,
    whole: &mut Whole,
    includes: &Includes,
    copy: &Exchange,
    cx: &Cx,
) -> Option<Pending> {
    let inner = match counted(copy, includes, cx).and_then(|()| request(include, &includes.base, copy, cx)) {
        Ok(inner) => inner,
        Err(why) => {
            failed(&why, copy, cx);
            return (on_error == OnError::End).then_some(Pending::Failed(why));
        }
    };
    match add(inner, on_error, include.alt.is_some(), whole, cx) {
        Added::Yes => None,
        Added::Not(pending) => Some(pending),
        // It may be there at once, too.
        Added::Failed => match add(other_of(include, includes, copy, cx)?, on_error, false, whole, cx) {
            Added::Yes | Added::Failed => None,
            Added::Not(pending) => Some(pending),
        },
    }
}

/// What there is of a page, and from where on it goes on.
fn begun(
    whole: Whole,
    next: Option<(Pending, OnError)>,
    (read, body): (&Arc<Read>, &Bytes),
    (at, flow): (usize, Flow),
) -> AtOnce {
    let (text, joined) = match whole.parts {
        Parts::Plain(text) => (text.into(), None),
        Parts::Packed(joined) => (Bytes::new(), Some(joined)),
    };
    AtOnce::Begun(Box::new(Begun { text, joined, next, read: Arc::clone(read), body: body.clone(), at, flow }))
}

/// What became of an include.
enum Added {
    /// It is in, or left out for good.
    Yes,
    /// It is not there as it is to be: how far it is.
    Not(Pending),
    /// It is an error, and another can be asked for.
    Failed,
}

/// Adds what an include brings, if that is there.
fn add(mut inner: Box<Exchange>, on_error: OnError, has_other: bool, whole: &mut Whole, cx: &Cx) -> Added {
    plain(&mut inner);
    let response = match advance(Step::Route(Entrance::Server), &mut inner, cx) {
        Stop::Deliver(Settled::Part(response)) => response,
        Stop::Slow(slow) => return Added::Not(Pending::Slow(inner, slow)),
        Stop::Deliver(_) | Stop::Abort => {
            return Added::Not(Pending::Failed(format!("{} was closed", named(&inner))));
        }
    };
    let is_good = is_good(inner.reply.status);
    if !is_good && on_error == OnError::End {
        return Added::Not(Pending::Answer(inner, response));
    }
    if (is_good || on_error == OnError::Show) && !take(&response, &mut inner, whole, cx) {
        return Added::Not(Pending::Answer(inner, response));
    }
    if !is_good && on_error == OnError::Skip {
        left_out(&inner, cx);
    }
    subrequest::log(&mut inner, cx);
    if is_good || !has_other || on_error == OnError::Show { Added::Yes } else { Added::Failed }
}

/// Takes the body of a response into the whole. False if it is not there as it is to be.
fn take(response: &Response, inner: &mut Exchange, whole: &mut Whole, cx: &Cx) -> bool {
    let loc = cx.loc(inner);
    let is_changed = loc.modules.sub.is_some() || loc.fields.charset.is_some() || inner.reply.charset.is_some();
    if is_changed && inner.reply.composed.is_none() {
        return false;
    }
    let before = whole.len();
    let is_taken = match &response.content {
        Content::Empty | Content::NoBody => true,
        Content::Bytes(bytes) | Content::Kept(bytes) | Content::Passed(bytes, _) => {
            let is_plain = !inner.reply.fields.contains_known(Known::ContentEncoding);
            is_plain && whole.add_bytes(bytes)
        }
        Content::Object(page) => add_page(page, inner, whole, cx),
        Content::Hit(_)
        | Content::Form(_)
        | Content::File(..)
        | Content::Spliced(..)
        | Content::Stream(..)
        | Content::Slices(_) => false,
    };
    let bytes = (whole.len() - before) as u64;
    inner.tally.sent.0 += bytes;
    inner.tally.sent.1 += bytes;
    is_taken
}

/// Takes a stored page into the whole.
fn add_page(page: &Object, inner: &Exchange, whole: &mut Whole, cx: &Cx) -> bool {
    let facts = Facts { status: inner.reply.status, fields: &inner.reply.fields, length: None };
    match compress::restored_for_parts(&facts, inner, cx) {
        Choice::AsItIs => whole.add_page(page, false),
        Choice::Restore(Coding::Gzip) => whole.add_page(page, true),
        _ => false,
    }
}

/// What is put together.
struct Whole {
    parts: Parts,
    /// How many bytes it may have in no coding.
    bytes_max: usize,
}

enum Parts {
    /// In no coding.
    Plain(Vec<u8>),
    /// In gzip.
    Packed(Joined),
}

/// What a page is in a whole in gzip.
struct Packed {
    segment: Segment,
    /// Whether it was taken to be in gzip.
    was_gzip: bool,
}

impl Whole {
    /// How many bytes it has.
    fn len(&self) -> usize {
        match &self.parts {
            Parts::Plain(out) => out.len(),
            Parts::Packed(joined) => joined.len(),
        }
    }

    /// Whether there is room for that many more bytes, in no coding.
    fn has_room(&self, bytes: usize) -> bool {
        let len = match &self.parts {
            Parts::Plain(out) => out.len(),
            Parts::Packed(joined) => joined.plain_len(),
        };
        len.saturating_add(bytes) <= self.bytes_max
    }

    /// Adds text of a page with this body. False if there is no room.
    fn add_text(&mut self, text: &Part, body: &Bytes) -> bool {
        if !self.has_room(text.text_bytes()) {
            return false;
        }
        match (&mut self.parts, text) {
            (Parts::Plain(out), Part::Text(range)) => match body.get(range.clone()) {
                Some(text) => out.extend_from_slice(text),
                None => return false,
            },
            (Parts::Plain(out), Part::Packed(segment)) => return segment.restore(out).is_ok(),
            (Parts::Packed(joined), Part::Packed(segment)) => joined.push(segment),
            (Parts::Packed(_), Part::Text(_)) | (_, Part::Include(_) | Part::Variable(..) | Part::Mark(_)) => {
                return false;
            }
        }
        true
    }

    /// Adds bytes of which nobody knows whether they come again. False if there is no room, or if they cannot be packed.
    fn add_bytes(&mut self, bytes: &[u8]) -> bool {
        if !self.has_room(bytes.len()) {
            return false;
        }
        match &mut self.parts {
            Parts::Plain(out) => out.extend_from_slice(bytes),
            Parts::Packed(joined) => match Segment::of(bytes, EFFORT) {
                Ok(segment) => joined.push(&segment),
                Err(_) => return false,
            },
        }
        true
    }

    /// Adds the body of a page, which is in gzip if `is_gzip` says so. False if it is not there as a whole, or if there is
    /// no room.
    fn add_page(&mut self, page: &Object, is_gzip: bool) -> bool {
        let kept = match &self.parts {
            Parts::Plain(_) => None,
            Parts::Packed(_) => page.made::<Packed>().filter(|packed| packed.was_gzip == is_gzip),
        };
        if let Some(Packed { segment, .. }) = kept {
            return self.add_segment(segment);
        }
        let Some(body) = body_of(page, is_gzip).filter(|body| self.has_room(body.len())) else { return false };
        match &mut self.parts {
            Parts::Plain(out) => out.extend_from_slice(&body),
            Parts::Packed(joined) => {
                let Ok(segment) = Segment::of(&body, EFFORT) else { return false };
                joined.push(&segment);
                let bytes = segment.packed_len();
                page.keep_made(Packed { segment, was_gzip: is_gzip }, bytes);
            }
        }
        true
    }

    fn add_segment(&mut self, segment: &Segment) -> bool {
        let has_room = self.has_room(segment.len() as usize);
        match &mut self.parts {
            Parts::Packed(joined) if has_room => joined.push(segment),
            Parts::Packed(_) | Parts::Plain(_) => return false,
        }
        true
    }

    fn finish(self) -> Bytes {
        match self.parts {
            Parts::Plain(out) => out.into(),
            Parts::Packed(joined) => joined.finish().into(),
        }
    }
}
