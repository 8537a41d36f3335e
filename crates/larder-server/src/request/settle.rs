//! What a client gets of a response is decided here, once: conditions, ranges, the form of the body, how the message
//! ends. What comes out is settled, and only has to be written.
//!
//! ```text
//! Response -> conditions: 304, 412 -> (put together, a form made) -> settle: form, ranges, 416, length -> Settled
//! ```
//! The head stays in the exchange: `add_header`, `$sent_http_*` and the logs read it there.

use std::ops::Range;
use std::sync::Arc;

use larder_cache::{FormRef, FormState, HitRef};
use larder_conf::model::Settings;
use larder_http::{Known, Version, status};
use larder_store::Whole;

use crate::context::Cx;
use crate::exchange::{Choice, Exchange};
use crate::files::conditional::{self, Condition};
use crate::files::ranges::{self, Multipart, Plan as RangePlan};
use crate::filter::charset::Table;
use crate::policy;
use crate::site::Loc;

use super::compress::{self, Facts};
use super::filters::Filters;
use super::origin_request::passed_on::CONDITIONAL;
use super::recode::Recoder;
use super::wire::Wire;
use super::{Content, Ranges, Response, Step, Synth, added_fields, charset, more_headers, old_browsers, page};

/// A response of which everything is decided.
pub enum Settled {
    /// A stored page as it is, or a form of it.
    Hit(Hit),
    /// Any other, with its head in the exchange.
    Message(Message),
    /// One that goes into another response, or is a slice of one; whoever asked for it takes it whole.
    Part(Response),
}

impl Settled {
    /// The response that goes into another one.
    pub fn into_part(self) -> Option<Response> {
        match self {
            Self::Part(response) => Some(response),
            Self::Hit(_) | Self::Message(_) => None,
        }
    }
}

/// A stored page that is sent as it was laid out when it was stored.
pub struct Hit {
    /// The page.
    pub object: HitRef,
    /// The form of it that is sent.
    pub form: Option<FormRef>,
    /// The length that is announced, bytes.
    pub len: u64,
}

/// A response with its head in the exchange.
pub struct Message {
    /// The body.
    pub content: Content,
    /// Which part of it is sent, bytes; of one that is changed on its way, before that.
    pub part: Range<u64>,
    /// Several ranges in place of one.
    pub parts: Option<Box<Multipart>>,
    /// What is done to the body.
    pub recoding: Recoding,
    /// How the message ends.
    pub ending: Ending,
}

/// How a message ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With its head.
    Bodiless,
    /// With the body.
    Plain {
        /// Whether that goes in chunks.
        chunked: bool,
    },
    /// With trailers, which in HTTP/1 follow chunks: a body of known length goes in one.
    OneChunk,
    /// With trailers, in HTTP/2.
    Trailers,
}

/// What is done to a body as it passes.
pub enum Recoding {
    /// Nothing.
    None,
    /// Each byte stays in its place.
    InPlace(Box<Recoder>),
    /// Nobody knows how long it will be.
    Anew(Box<Recoder>),
}

impl Recoding {
    /// Whether the body is as long afterwards as before.
    pub fn keeps_length(&self) -> bool {
        matches!(self, Self::None | Self::InPlace(_))
    }
}

/// Whether the request has conditions or asks for a range, so that it may get less than the page.
fn asks_for_part(ex: &Exchange) -> bool {
    let fields = &ex.asked.head.fields;
    fields.may_have(CONDITIONAL) && fields.iter_known().any(|(known, _, _)| CONDITIONAL.contains(known))
}

/// Answers the conditions of a request: 304 in place of what the client has, 412 or its `error_page` for a
/// precondition that fails.
pub fn conditions(response: Response, ex: &mut Exchange, cx: &Cx) -> Result<Response, Step> {
    if !response.conditional || !asks_for_part(ex) {
        return Ok(response);
    }
    let mut response = page::laid_out(response, ex, cx);
    if ex.request.way.error_status.unwrap_or(ex.reply.status) != status::OK {
        return Ok(response);
    }
    match condition(&response, ex, cx) {
        Condition::Go => {}
        Condition::NotModified => {
            ex.request.way.error_status = None;
            ex.reply.status = status::NOT_MODIFIED;
            ex.reply.reason.clear();
            for name in ["Content-Type", "Accept-Ranges", "Content-Encoding"] {
                ex.reply.fields.remove(name);
            }
            response.content = Content::NoBody;
        }
        // The page of an error is delivered whatever was asked of the page in whose place it stands.
        Condition::PreconditionFailed if ex.request.way.error_status.is_some() => {}
        Condition::PreconditionFailed => {
            ex.reply.fields.clear();
            return Err(Step::Synth(Synth::Status(status::PRECONDITION_FAILED)));
        }
    }
    Ok(response)
}

/// What the conditions of the request come to, for the page in the exchange.
fn condition(response: &Response, ex: &Exchange, cx: &Cx) -> Condition {
    let asked = &ex.asked.head.fields;
    if is_rfc9111(ex, cx) {
        return conditional::decide_for_cache(asked, &ex.reply.fields);
    }
    let etag = ex.reply.fields.get_known(Known::Etag);
    conditional::decide(asked, response.last_modified, etag, cx.loc(ex).settings.parts.if_modified_since)
}

fn is_rfc9111(ex: &Exchange, cx: &Cx) -> bool {
    cx.origin(ex).is_some_and(|origin| origin.policy.is_rfc9111())
}

/// Decides the rest, after [`conditions`]: a range that cannot be had leads to 416 or its `error_page`.
pub fn settle(response: Response, ex: &mut Exchange, cx: &Cx) -> Result<Settled, Step> {
    let response = match response.content {
        Content::Hit(object) => match as_laid_out(&object, ex, cx) {
            Some((form, len)) => {
                ex.reply.status = status::OK;
                decide_keep_alive(ex, cx);
                return Ok(Settled::Hit(Hit { object, form, len }));
            }
            None => page::laid_out(Response { content: Content::Hit(object), ..response }, ex, cx),
        },
        content => Response { content, ..response },
    };
    if let Some(len) = len_as_it_is(&response, ex, cx) {
        return Ok(Settled::Message(whole(response.content, len, ex, cx)));
    }
    message(response, ex, cx).map(Settled::Message)
}

/// The form in which a hit goes out as it was laid out when it was stored, `None` for the page itself, and its length.
/// `None` when this request or its location asks for more.
fn as_laid_out(object: &HitRef, ex: &mut Exchange, cx: &Cx) -> Option<(Option<FormRef>, u64)> {
    let loc = cx.loc(ex);
    let rules = cx.origin(ex)?.backend.prepared_by.as_ref()?;
    if !loc.fields.add_trailers.is_empty() || ex.reply.accel_fields.is_some() || loc.modules.changes_responses {
        return None;
    }
    let form = match ex.reply.choice.shape().map(|shape| object.form(shape)) {
        Some(FormState::Ready(form)) => Some(form),
        // It was not worth it: the page goes out as it is.
        Some(FormState::Unwanted) if matches!(ex.reply.choice, Choice::Compress(_)) => None,
        None => None,
        // A form that is not kept is made as it passes.
        Some(FormState::None | FormState::Making(_) | FormState::NoRoom | FormState::Unwanted) => return None,
    };
    let prepared = match &form {
        Some(form) => form.prepared.as_ref()?,
        None => object.prepared.get()?.as_ref()?,
    };
    // A page that was stored before HTTP/2 was spoken here has no block for it.
    if !rules.made(prepared) || Wire::of(ex.asked.head.version) == Wire::Block && prepared.block.is_empty() {
        return None;
    }
    if object.status != status::OK
        || loc.fields.reads_fields
        || loc.settings.fields.expires.is_some()
        || ex.request.way.error_status.is_some()
        || asks_for_part(ex)
    {
        return None;
    }
    let body_len = object.body.whole()?.len();
    let len = match &form {
        Some(form) => form.body.whole()?.len(),
        None => body_len,
    };
    if form.is_some() && !ex.is_head() {
        ex.tally.squeezed = Some((body_len, len));
    }
    // The stored answer to a HEAD has no body, and says how long it would be.
    let len = if ex.is_head() && len == 0 { object.fields.content_length().unwrap_or(0) } else { len };
    Some((form, len))
}

/// The length of a page in memory that goes out whole and unchanged, as most hits of a VCL do: for these, nothing of what
/// [`message`] looks for is there.
fn len_as_it_is(response: &Response, ex: &Exchange, cx: &Cx) -> Option<u64> {
    let Content::Object(object) = &response.content else { return None };
    let (loc, reply) = (cx.loc(ex), &ex.reply);
    let changes = loc.modules.changes_responses
        || loc.modules.sub.is_some()
        || loc.compression.compresses
        || loc.fields.charset.is_some()
        || !loc.fields.edits.response.is_empty()
        || !loc.fields.add_trailers.is_empty()
        || loc.settings.fields.expires.is_some();
    let is_changed = reply.charset.is_some()
        || reply.composed.is_some()
        || reply.location_is_ours
        || ex.vcl.client.unpacks
        || ex.request.way.error_status.is_some();
    let is_whole = reply.status == status::OK
        && response.ranges != Ranges::Announced
        && !ex.is_head()
        && !ex.asked.head.fields.contains_known(Known::Range);
    (is_whole && !changes && !is_changed).then(|| object.body.whole()).flatten().map(Whole::len)
}

/// A body of known length that goes out whole and as it is.
fn whole(content: Content, len: u64, ex: &mut Exchange, cx: &Cx) -> Message {
    decide_keep_alive(ex, cx);
    ex.reply.choice = Choice::AsItIs;
    ex.reply.framing.length = Some(len);
    ex.reply.framing.chunked = false;
    Message { content, part: 0..len, parts: None, recoding: Recoding::None, ending: Ending::Plain { chunked: false } }
}

/// Settles any response but a hit that goes out as it was laid out: its fields are those of the exchange.
fn message(response: Response, ex: &mut Exchange, cx: &Cx) -> Result<Message, Step> {
    let Response { content, last_modified, ranges: which, .. } = response;
    let is_error_page = ex.take_error_status();
    let loc = cx.loc(ex);
    if !is_a_page(&content, ex)
        && !matches!(ex.reply.status, status::OK | status::PARTIAL_CONTENT | status::NOT_MODIFIED)
    {
        // The date of a file in place of an error says nothing about what was asked for.
        ex.reply.fields.remove("Last-Modified");
    }
    let charset = match ex.reply.composed {
        // What was put together has been converted before.
        Some(_) => None,
        None => charset::choose_and_label(loc, ex, cx),
    };
    if !loc.fields.edits.response.is_empty() {
        more_headers::response(loc, ex, cx);
    }
    let (mut content, recoding) = recode(content, charset, ex, cx);
    let keeps_length = recoding.keeps_length();
    let which = if ex.reply.choice.shape().is_some() || !keeps_length { Ranges::No } else { which };
    let total = if keeps_length { content.length() } else { None };
    let mut total = match &content {
        Content::Object(object) if total == Some(0) && ex.is_head() => object.fields.content_length().or(total),
        _ => total,
    };
    let mut part = 0..total.unwrap_or(u64::MAX);
    let mut parts = None;
    if ex.reply.status == status::OK && which != Ranges::No {
        match chosen_range(&content, total, last_modified, which, ex, cx) {
            RangePlan::Unsatisfiable { content_range } if which == Ranges::Shaped => {
                ex.reply.status = status::RANGE_NOT_SATISFIABLE;
                ex.reply.reason.clear();
                ex.reply.fields.set("Content-Range", content_range.as_bytes());
                (content, total, part) = (Content::Empty, Some(0), 0..0);
            }
            RangePlan::Unsatisfiable { content_range } if !is_error_page => {
                ex.reply.fields.clear();
                ex.reply.bare_type.clear();
                ex.reply.fields.set("Content-Range", content_range.as_bytes());
                return Err(Step::Synth(Synth::Status(status::RANGE_NOT_SATISFIABLE)));
            }
            RangePlan::Whole | RangePlan::Unsatisfiable { .. } => {}
            RangePlan::Single { slice, content_range } => {
                become_partial(which, ex);
                ex.reply.fields.set("Content-Range", content_range.as_bytes());
                part = slice;
            }
            RangePlan::Multipart(multipart) => {
                become_partial(which, ex);
                ex.reply.fields.remove("Content-Range");
                ex.reply.fields.set("Content-Type", multipart.content_type.as_bytes());
                part = 0..multipart.len;
                parts = Some(Box::new(multipart));
            }
        }
    }
    let is_shaped = cx.origin(ex).is_some_and(policy::shapes_responses);
    if ex.reply.status == status::NO_CONTENT && !is_shaped {
        ex.reply.fields.remove("Content-Type");
    }
    if loc.modules.changes_responses {
        crate::vars::userid::add(ex, cx);
    }
    added_fields::add_expires(loc, last_modified, ex, cx);
    if ex.reply.is_personal {
        added_fields::keep_private(&mut ex.reply.fields);
    }
    added_fields::absolute_location(loc, ex, cx);
    let ending = end(&content, total, &part, parts.is_some(), ex, cx);
    Ok(Message { content, part, parts, recoding, ending })
}

/// Whether a response is a stored page or an origin's answer, and not a file or a text of ours.
fn is_a_page(content: &Content, ex: &Exchange) -> bool {
    if ex.upstream.status.is_some() {
        return true;
    }
    match content {
        Content::Hit(_)
        | Content::Object(_)
        | Content::Form(_)
        | Content::Stream(..)
        | Content::Passed(..)
        | Content::Slices(_) => ex.reply.composed.is_none(),
        Content::Empty
        | Content::NoBody
        | Content::Bytes(_)
        | Content::Kept(_)
        | Content::File(..)
        | Content::Spliced(..) => false,
    }
}

/// What of a page of 200 is sent. Adds `Accept-Ranges` to it, and what `add_header` says of its date and tag.
fn chosen_range(
    content: &Content,
    total: Option<u64>,
    last_modified: Option<u64>,
    which: Ranges,
    ex: &mut Exchange,
    cx: &Cx,
) -> RangePlan {
    let loc = cx.loc(ex);
    // A range is for GET alone (RFC 9110 §14.2).
    if loc.settings.parts.max_ranges == Some(0) || ex.is_head() && is_rfc9111(ex, cx) {
        return RangePlan::Whole;
    }
    let asks = ex.asked.head.fields.contains_known(Known::Range);
    let last_modified = if asks { added_fields::add_validators(loc, last_modified, ex, cx) } else { last_modified };
    if which == Ranges::Announced {
        ex.reply.fields.set("Accept-Ranges", b"bytes");
    }
    let etag = ex.reply.fields.get_known(Known::Etag);
    let (Some(total), Some(asked)) = (total, ex.asked.head.fields.get_known(Known::Range)) else {
        return RangePlan::Whole;
    };
    let applies = match is_rfc9111(ex, cx) {
        true => conditional::range_applies_strongly(&ex.asked.head.fields, last_modified, etag),
        false => conditional::range_applies(&ex.asked.head.fields, last_modified, etag),
    };
    if !applies {
        return RangePlan::Whole;
    }
    let content_type = ex.reply.fields.get_known(Known::ContentType).unwrap_or_default();
    let asked = larder_http::parse_ranges(asked, total, ranges_max(content, &loc.settings));
    ranges::plan(&asked, total, content_type, cx.worker.random())
}

fn become_partial(which: Ranges, ex: &mut Exchange) {
    ex.reply.status = status::PARTIAL_CONTENT;
    ex.reply.reason.clear();
    if which != Ranges::Shaped {
        ex.reply.fields.remove("Accept-Ranges");
    }
}

/// Decides how the message ends, what length its head announces, and whether the connection is kept after it.
fn end(
    content: &Content,
    total: Option<u64>,
    part: &Range<u64>,
    is_multipart: bool,
    ex: &mut Exchange,
    cx: &Cx,
) -> Ending {
    let loc = cx.loc(ex);
    let status = ex.reply.status;
    let bodiless = matches!(status, status::NO_CONTENT | status::NOT_MODIFIED) || status < status::OK;
    let wire = Wire::of(ex.asked.head.version);
    let is_trailed =
        added_fields::has_trailers(loc, status) && total.is_some() && !is_multipart && !bodiless && !ex.is_head();
    // In HTTP/1 trailers follow chunks, so they make a body of known length go in one.
    let in_one_chunk = is_trailed && chunks_allowed(loc, ex);
    decide_keep_alive(ex, cx);
    let needs_chunks = wire == Wire::Lines && !bodiless && total.is_none();
    // The answer to a HEAD says nothing of chunks that do not follow.
    let chunked = needs_chunks && chunks_allowed(loc, ex) && !ex.is_head();
    if needs_chunks && !chunked && !ex.is_head() {
        ex.reply.framing.keep_alive = false;
    }
    ex.reply.framing.length = match total {
        // A 304 of our own configuration (`return 304`) says its length as nginx does, that of a VCL none, as Varnish.
        Some(_) if status == status::NOT_MODIFIED => Some(0)
            .filter(|_| matches!(content, Content::Bytes(_)) && !cx.origin(ex).is_some_and(policy::shapes_responses)),
        Some(_) if bodiless || in_one_chunk => None,
        Some(_) => Some(part.end - part.start),
        None => None,
    };
    ex.reply.framing.chunked = chunked || in_one_chunk;
    match () {
        () if bodiless || ex.is_head() => Ending::Bodiless,
        () if in_one_chunk => Ending::OneChunk,
        () if is_trailed && wire == Wire::Block => Ending::Trailers,
        () => Ending::Plain { chunked },
    }
}

/// Bodies of our own up to this size are compressed in one go.
const AT_ONCE_BYTES_MAX: usize = 64 * 1024;

/// Chooses the form of the body, and takes the one that is there; else says what makes it as it passes. The fields
/// are those of that form from then on.
fn recode(content: Content, charset: Option<Arc<Table>>, ex: &mut Exchange, cx: &Cx) -> (Content, Recoding) {
    let length = content.length();
    let facts = Facts { status: ex.reply.status, fields: &ex.reply.fields, length };
    ex.reply.choice = compress::choose(&facts, ex, cx);
    let filters = match ex.reply.composed {
        // What was put together has been changed before, part by part.
        Some(_) => Filters::default(),
        None => Filters::choose(charset, length, ex.reply.choice, ex, cx),
    };
    if !filters.is_empty() {
        return filtered(content, filters, ex, cx);
    }
    let Some(shape) = ex.reply.choice.shape() else { return (content, Recoding::None) };
    let made = match &content {
        Content::Object(object) if object.body.whole().is_some() => match object.form(shape) {
            FormState::Ready(form) => {
                let lengths = object.body.whole().zip(form.body.whole());
                ex.tally.squeezed = lengths.map(|(before, after)| (before.len(), after.len()));
                Some(Content::Form(form.to_arc()))
            }
            FormState::Unwanted if matches!(ex.reply.choice, Choice::Compress(_)) => {
                ex.reply.choice = Choice::AsItIsHere;
                return (content, Recoding::None);
            }
            FormState::None | FormState::Making(_) | FormState::NoRoom | FormState::Unwanted => None,
        },
        Content::Bytes(bytes) if bytes.len() <= AT_ONCE_BYTES_MAX => {
            let made = compress::at_once(bytes, ex.reply.choice, ex, cx);
            ex.tally.squeezed = made.as_ref().map(|made| (bytes.len() as u64, made.len() as u64));
            made.map(Content::Bytes)
        }
        _ => None,
    };
    let (content, recoding) = match made {
        Some(made) => (made, Recoding::None),
        None => match Recoder::new(ex.reply.choice, ex, cx) {
            Some(recoder) => {
                compress::count(ex.reply.choice, cx);
                (content, Recoding::Anew(Box::new(recoder)))
            }
            // Without memory for it the body goes as it is.
            None => {
                ex.reply.choice = Choice::AsItIsHere;
                return (content, Recoding::None);
            }
        },
    };
    compress::adapt(&mut ex.reply.fields, ex.reply.choice);
    (content, recoding)
}

/// The same for a body that filters change: it is restored before them and compressed after them, as it passes.
fn filtered(content: Content, filters: Filters, ex: &mut Exchange, cx: &Cx) -> (Content, Recoding) {
    let keeps_length = filters.keeps_length();
    filters.adapt(cx.loc(ex), &mut ex.reply.fields);
    if !keeps_length && !matches!(ex.reply.choice, Choice::Restore(_)) {
        // Whether it is worth compressing does not depend on a length that is not known.
        ex.reply.choice =
            compress::choose(&Facts { status: ex.reply.status, fields: &ex.reply.fields, length: None }, ex, cx);
    }
    let Some(recoder) = Recoder::with(filters, ex.reply.choice, ex, cx) else {
        // Without memory for it the body goes as it is.
        ex.reply.choice = Choice::AsItIsHere;
        return (content, Recoding::None);
    };
    compress::count(ex.reply.choice, cx);
    compress::adapt(&mut ex.reply.fields, ex.reply.choice);
    let recoding = if keeps_length && ex.reply.choice.shape().is_none() {
        Recoding::InPlace(Box::new(recoder))
    } else {
        Recoding::Anew(Box::new(recoder))
    };
    (content, recoding)
}

/// Whether this response may go in chunks.
fn chunks_allowed(loc: &Loc, ex: &Exchange) -> bool {
    ex.asked.head.version == Version::Http11 && loc.settings.connection.chunked_transfer_encoding
}

/// How many ranges of a body may be asked for: one of a page that still arrives, as several would need what has not
/// come yet, and of a film that is cut, as in nginx.
fn ranges_max(content: &Content, settings: &Settings) -> Option<u32> {
    match content {
        Content::Stream(..) | Content::Passed(..) | Content::Slices(_) | Content::Spliced(..) => {
            Some(settings.parts.max_ranges.unwrap_or(1).min(1))
        }
        Content::Empty
        | Content::NoBody
        | Content::Bytes(_)
        | Content::Kept(_)
        | Content::File(..)
        | Content::Hit(_)
        | Content::Object(_)
        | Content::Form(_) => settings.parts.max_ranges,
    }
}

/// Decides whether the connection is kept after this response.
fn decide_keep_alive(ex: &mut Exchange, cx: &Cx) {
    if ex.reply.framing.keep_alive {
        let settings = &cx.loc(ex).settings;
        ex.reply.framing.keep_alive = !settings.connection.keepalive_timeout.is_zero()
            && !is_last(ex, cx)
            && !old_browsers::is_better_closed(settings.connection.keepalive_disable, ex)
            && !cx.worker.seats.is_last(ex.asked.client.began);
    }
}

/// Whether its connection has served long enough: `keepalive_requests`, `keepalive_time`.
pub fn is_last(ex: &Exchange, cx: &Cx) -> bool {
    let settings = &cx.loc(ex).settings;
    ex.asked.number >= settings.connection.keepalive_requests
        || crate::worker::age(&ex.asked.client, cx.now()) > settings.connection.keepalive_time
}
