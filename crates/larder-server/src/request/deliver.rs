//! The response on the wire: conditions, ranges, the fields of this request, the head as bytes.
//!
//! A hit is laid out from what was serialised when the page was stored; only Server, Date, Content-Length,
//! Connection and the location's own fields are written anew. Everything else goes through the fields.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use larder_cache::{Form, FormRef, FormState, HitRef, Object};
use larder_conf::model::Settings;
use larder_http::{Known, Version};
use larder_store::BodyReader;

use crate::context::Cx;
use crate::exchange::{Choice, Exchange};
use crate::files::conditional::{self, Condition};
use crate::files::ranges::{self, Multipart, Plan as RangePlan};
use crate::filter::charset::Table;
use crate::site::Loc;

use super::compress::{self, Facts};
use super::filters::{self, Filters};
use super::recode::Recoder;
use super::slice::Slices;
use super::wire::{HeadWriter, Wire};
use super::{Content, Ranges, Response, Step, Synth, adorn, charset, compose, edits, old_browsers, page};

/// A response whose head has been serialised; this is what follows it.
pub enum Outgoing {
    /// Nothing.
    Nothing,
    /// Bytes.
    Bytes(Bytes),
    /// A part of a file.
    File(Arc<std::fs::File>, Range<u64>),
    /// Bytes, then a part of a file.
    Spliced(Bytes, Arc<std::fs::File>, Range<u64>),
    /// A page that is whole and in memory, found by lookup.
    Hit(HitRef, Range<u64>),
    /// A page that is whole and in memory, shared with others.
    Stored(Arc<Object>, Range<u64>),
    /// Another form of a page, found with it.
    HitForm(FormRef),
    /// Another form of a page, shared with others.
    Form(Arc<Form>),
    /// A body that is compressed or restored as it passes; in chunks or else as it is.
    Recoded {
        /// The body as it comes.
        body: Box<Outgoing>,
        /// What is done to it.
        recoder: Box<Recoder>,
        /// Whether it goes in chunks.
        chunked: bool,
    },
    /// What an origin sends; with chunks, or else as it is.
    Stream {
        /// Where it comes from, at its beginning.
        reader: BodyReader,
        /// Which part.
        range: Range<u64>,
        /// Whether it goes in chunks.
        chunked: bool,
    },
    /// A body of known length that trailers follow; in HTTP/1 it is one chunk, whose head has gone out.
    Trailed(Box<Outgoing>),
    /// A page in slices.
    Slices(Box<Slices>),
    /// Several ranges, each with a head of its own, and the closing boundary.
    Parts(Multipart, Source),
}

/// Where the parts of a multipart response come from.
pub enum Source {
    /// Bytes.
    Bytes(Bytes),
    /// A file.
    File(Arc<std::fs::File>),
    /// A page.
    Stored(Arc<Object>),
}

/// Serialises the head of `response` into `out` and says what follows.
pub fn lay_out(response: Response, ex: &mut Exchange, cx: &Cx, out: &mut Vec<u8>) -> Outgoing {
    match response.content {
        Content::Hit(object) => match quick(&object, ex, cx, out) {
            Some(Quick::Page(len)) => Outgoing::Hit(object, 0..len),
            Some(Quick::Form(form)) => Outgoing::HitForm(form),
            None => {
                let response = page::laid_out(Response { content: Content::Hit(object), ..response }, ex, cx);
                full(response, ex, cx, out)
            }
        },
        content => full(Response { content, ..response }, ex, cx, out),
    }
}

/// Whether the request has conditions or asks for a range.
fn asks_for_part(ex: &Exchange) -> bool {
    ex.asked.head.fields.iter_known().any(|(known, _, _)| {
        matches!(
            known,
            Known::Range
                | Known::IfModifiedSince
                | Known::IfNoneMatch
                | Known::IfMatch
                | Known::IfUnmodifiedSince
                | Known::IfRange
        )
    })
}

/// Finds out whether the request's conditions or range forbid the response, which is then answered by 412 or 416,
/// or by the `error_page` for them.
pub fn settle(response: Response, ex: &mut Exchange, cx: &Cx) -> Result<Response, Step> {
    let may_refuse = response.conditional || response.ranges != Ranges::No;
    if !may_refuse || ex.request.way.error_status.is_some() || !asks_for_part(ex) {
        return Ok(response);
    }
    let response = page::laid_out(response, ex, cx);
    if ex.reply.status != 200 {
        return Ok(response);
    }
    let settings = &cx.loc(ex).settings;
    let etag = ex.reply.fields.get_known(Known::Etag);
    if response.conditional {
        match conditional::decide(&ex.asked.head.fields, response.last_modified, etag, settings.parts.if_modified_since)
        {
            Condition::Go => {}
            Condition::NotModified => return Ok(response),
            Condition::PreconditionFailed => {
                ex.reply.fields.clear();
                return Err(Step::Synth(Synth::Status(412)));
            }
        }
    }
    let asked = ex.asked.head.fields.get_known(Known::Range).filter(|_| {
        // A body that is compressed, rewritten or put together on its way goes whole, whatever part is asked for.
        let facts = Facts { status: 200, fields: &ex.reply.fields, length: response.content.length() };
        let loc = cx.loc(ex);
        response.ranges != Ranges::No
            && compress::choose(&facts, ex, cx).shape().is_none()
            && !filters::substitutes(loc, ex, response.content.length())
            && !compose::will_compose(&response.content, ex, cx)
    });
    if let (Some(asked), Some(total)) = (asked, response.content.length())
        && settings.parts.max_ranges != Some(0)
        && conditional::range_applies(&ex.asked.head.fields, response.last_modified, etag)
        && larder_http::parse_ranges(asked, total, ranges_max(&response.content, settings))
            == larder_http::Ranges::Unsatisfiable
    {
        ex.reply.fields.clear();
        ex.reply.fields.set("Content-Range", format!("bytes */{total}").as_bytes());
        return Err(Step::Synth(Synth::Status(416)));
    }
    Ok(response)
}

/// A plain hit: the serialised fields of the page, and ours around them. `None` when this request asks for more.
fn quick(object: &Object, ex: &mut Exchange, cx: &Cx, out: &mut Vec<u8>) -> Option<Quick> {
    let loc = cx.loc(ex);
    let rules = cx.origin(ex)?.backend.prepared_by.as_ref()?;
    if !loc.fields.add_trailers.is_empty() || ex.reply.accel_fields.is_some() || loc.modules.changes_responses {
        return None;
    }
    let wire = Wire::of(ex.asked.head.version);
    let form = match ex.reply.choice.shape().map(|shape| object.form(shape)) {
        Some(FormState::Ready(form)) => Some(form),
        // It was not worth it: the page goes out as it is.
        Some(FormState::Unwanted) if matches!(ex.reply.choice, Choice::Compress(_)) => None,
        None => None,
        // A form that is not kept is made as it passes.
        Some(FormState::None | FormState::Making(_) | FormState::NoRoom | FormState::Unwanted) => return None,
    };
    let prepared = form
        .as_ref()
        .map_or(object.prepared.get().and_then(Option::as_ref), |form| form.prepared.as_ref())
        .filter(|prepared| {
            // A page that was stored before HTTP/2 was spoken here has no block for it.
            rules.made(prepared) && (wire == Wire::Lines || !prepared.block.is_empty())
        })?;
    if object.status != 200
        || loc.fields.reads_fields
        || loc.settings.fields.expires.is_some()
        || ex.request.way.error_status.is_some()
    {
        return None;
    }
    let body_len = object.body.whole()?.len();
    let len = match &form {
        Some(form) => form.body.whole()?.len(),
        None => body_len,
    };
    if asks_for_part(ex) {
        return None;
    }
    // The stored answer to a HEAD has no body, and says how long it would be.
    let len = if ex.is_head() && len == 0 { object.fields.content_length().unwrap_or(0) } else { len };
    ex.reply.status = 200;
    settle_connection(ex, cx);
    let mut head = HeadWriter::new(out, wire);
    head.status(200, &object.reason);
    write_server_and_date(&loc.settings, ex, cx, &mut head);
    head.length(len);
    head.connection(200, ex.reply.framing.keep_alive, false, &loc.settings);
    if ex.reply.choice.varies() && loc.settings.compression.vary {
        head.field(b"Vary", b"Accept-Encoding");
    }
    head.ready(prepared);
    adorn::each_added(loc, 200, ex, cx, |name, value| {
        if !value.is_empty() {
            head.field(name, value);
        }
    });
    adorn::write_cache_status(loc, ex, cx, &mut head);
    head.end();
    Some(match form {
        Some(_) if ex.is_head() => Quick::Page(0),
        Some(form) => {
            ex.tally.squeezed = Some((body_len, len));
            Quick::Form(form)
        }
        None => Quick::Page(if ex.is_head() { 0 } else { len }),
    })
}

/// What follows the head of a plain hit.
enum Quick {
    /// This much of the page.
    Page(u64),
    /// A form of it.
    Form(FormRef),
}

/// Any response: its fields are those of the exchange.
fn full(response: Response, ex: &mut Exchange, cx: &Cx, out: &mut Vec<u8>) -> Outgoing {
    let Response { mut content, last_modified, ranges: which, conditional } = response;
    if let Some(status) = ex.request.way.error_status.take() {
        ex.reply.status = status;
        ex.reply.reason.clear();
    }
    let loc = cx.loc(ex);
    if ex.upstream.status.is_none() && !matches!(ex.reply.status, 200 | 206 | 304) {
        // The date of an error page says nothing about what was asked for.
        ex.reply.fields.remove("Last-Modified");
    }
    let charset = match ex.reply.composed {
        // What was put together has been converted before.
        Some(_) => None,
        None => charset::settle(loc, ex, cx),
    };
    if conditional && ex.reply.status == 200 {
        match conditional::decide(
            &ex.asked.head.fields,
            last_modified,
            ex.reply.fields.get_known(Known::Etag),
            loc.settings.parts.if_modified_since,
        ) {
            // A precondition that fails has led elsewhere already (`settle`).
            Condition::Go | Condition::PreconditionFailed => {}
            Condition::NotModified => {
                ex.reply.status = 304;
                ex.reply.reason.clear();
                ex.reply.fields.remove("Content-Type");
                ex.reply.bare_type.clear();
                ex.reply.fields.remove("Accept-Ranges");
                ex.reply.fields.remove("Content-Encoding");
                content = Content::Nothing;
            }
        }
    }
    if !loc.fields.edits.response.is_empty() {
        edits::response(loc, ex, cx);
    }
    let (mut content, recoding) = recode(content, charset, ex, cx);
    let keeps_length = matches!(recoding, Recoding::None | Recoding::InPlace(_));
    let which = if ex.reply.choice.shape().is_some() || !keeps_length { Ranges::No } else { which };
    let total = if keeps_length { content.length() } else { None };
    let total = match &content {
        Content::Object(object) if total == Some(0) && ex.is_head() => object.fields.content_length().or(total),
        _ => total,
    };
    let mut part = 0..total.unwrap_or(u64::MAX);
    let mut parts = None;
    if ex.reply.status == 200 && which != Ranges::No {
        let asks = ex.asked.head.fields.contains_known(Known::Range) && loc.settings.parts.max_ranges != Some(0);
        let last_modified = if asks { adorn::add_validators(loc, last_modified, ex, cx) } else { last_modified };
        let asked = ex.asked.head.fields.get_known(Known::Range).filter(|_| asks);
        let applies = asks
            && conditional::range_applies(&ex.asked.head.fields, last_modified, ex.reply.fields.get_known(Known::Etag));
        let announces = which == Ranges::Announced;
        if announces && loc.settings.parts.max_ranges != Some(0) {
            ex.reply.fields.set("Accept-Ranges", b"bytes");
        }
        if let (Some(total), Some(asked), true) = (total, asked, applies) {
            let content_type = ex.reply.fields.get_known(Known::ContentType).map(<[u8]>::to_vec);
            let asked = larder_http::parse_ranges(asked, total, ranges_max(&content, &loc.settings));
            match ranges::plan(&asked, total, content_type.as_deref().unwrap_or_default(), cx.worker.random()) {
                RangePlan::Whole | RangePlan::Unsatisfiable { .. } => {}
                RangePlan::Single { slice, content_range } => {
                    ex.reply.status = 206;
                    ex.reply.reason.clear();
                    ex.reply.fields.remove("Accept-Ranges");
                    ex.reply.fields.set("Content-Range", content_range.as_bytes());
                    part = slice;
                }
                RangePlan::Multipart(multipart) => {
                    ex.reply.status = 206;
                    ex.reply.reason.clear();
                    ex.reply.fields.remove("Accept-Ranges");
                    ex.reply.fields.remove("Content-Range");
                    ex.reply.fields.set("Content-Type", multipart.content_type.as_bytes());
                    part = 0..multipart.len;
                    parts = Some(multipart);
                }
            }
        }
    }
    let status = ex.reply.status;
    let bodiless = status == 204 || status == 304 || status < 200;
    if status == 204 {
        ex.reply.fields.remove("Content-Type");
    }
    let wire = Wire::of(ex.asked.head.version);
    let is_trailed =
        adorn::has_trailers(loc, status) && total.is_some() && parts.is_none() && !bodiless && !ex.is_head();
    // In HTTP/1 trailers follow chunks, so they make a body of known length go in one.
    let in_one_chunk = is_trailed && chunks_allowed(loc, ex);
    let known = match total {
        // A 304 of our own configuration (`return 304`) says its length as nginx does.
        Some(_) if status == 304 => Some(0).filter(|_| matches!(content, Content::Bytes(_))),
        Some(_) if bodiless || in_one_chunk => None,
        Some(_) => Some(part.end - part.start),
        None => None,
    };
    if loc.modules.changes_responses {
        crate::vars::userid::add(ex, cx);
    }
    adorn::add_expires(loc, last_modified, ex, cx);
    adorn::absolute_location(loc, ex, cx);
    settle_connection(ex, cx);
    let needs_chunks = wire == Wire::Lines && !bodiless && total.is_none();
    // The answer to a HEAD says nothing of chunks that do not follow.
    let chunked = needs_chunks && chunks_allowed(loc, ex) && !ex.is_head();
    if needs_chunks && !chunked && !ex.is_head() {
        ex.reply.framing.keep_alive = false;
    }
    ex.reply.framing.length = known;
    ex.reply.framing.chunked = chunked || in_one_chunk;
    let before = out.len();
    let mut head = HeadWriter::new(out, wire);
    head.status(status, &ex.reply.reason);
    write_server_and_date(&loc.settings, ex, cx, &mut head);
    if let Some(length) = known {
        head.length(length);
    }
    head.connection(status, ex.reply.framing.keep_alive, ex.reply.framing.chunked, &loc.settings);
    if (ex.reply.choice.varies() || ex.reply.has_packed) && loc.settings.compression.vary {
        head.field(b"Vary", b"Accept-Encoding");
    }
    adorn::add_configured(loc, status, ex, cx);
    ex.reply.bare_type.clear();
    for (name, value) in ex.reply.fields.iter() {
        head.field(name, value);
    }
    adorn::write_cache_status(loc, ex, cx, &mut head);
    head.end();
    ex.reply.framing.head_bytes = (out.len() - before) as u64;
    if bodiless || ex.is_head() {
        return Outgoing::Nothing;
    }
    if let Content::Slices(slices) = &mut content {
        let wanted = if keeps_length { part.clone() } else { 0..slices.total() };
        slices.want(wanted, ex);
    }
    if in_one_chunk && part.end > part.start {
        append_hex(part.end - part.start, out);
        out.extend_from_slice(b"\r\n");
        return Outgoing::Trailed(Box::new(changed(outgoing(content, part, None, false), recoding, false)));
    }
    if in_one_chunk {
        return Outgoing::Bytes([b"0\r\n", &adorn::trailers(loc, status, wire, ex, cx)[..], b"\r\n"].concat().into());
    }
    if is_trailed && wire == Wire::Block {
        return Outgoing::Trailed(Box::new(changed(outgoing(content, part, None, false), recoding, false)));
    }
    match recoding {
        Recoding::None => outgoing(content, part, parts, chunked),
        Recoding::InPlace(_) => changed(outgoing(content, part, parts, false), recoding, chunked),
        Recoding::Anew(_) => {
            let all = 0..content.length().unwrap_or(u64::MAX);
            changed(outgoing(content, all, None, false), recoding, chunked)
        }
    }
}

/// What is done to a body as it passes.
enum Recoding {
    /// Nothing.
    None,
    /// Each byte stays in its place.
    InPlace(Recoder),
    /// Nobody knows how long it will be.
    Anew(Recoder),
}

/// A body that is changed on its way.
fn changed(body: Outgoing, recoding: Recoding, chunked: bool) -> Outgoing {
    match recoding {
        Recoding::None => body,
        Recoding::InPlace(recoder) | Recoding::Anew(recoder) => {
            Outgoing::Recoded { body: Box::new(body), recoder: Box::new(recoder), chunked }
        }
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
            Some(recoder) => (content, Recoding::Anew(recoder)),
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
    compress::adapt(&mut ex.reply.fields, ex.reply.choice);
    let recoding = if keeps_length && ex.reply.choice.shape().is_none() {
        Recoding::InPlace(recoder)
    } else {
        Recoding::Anew(recoder)
    };
    (content, recoding)
}

/// Whether this response may go in chunks.
fn chunks_allowed(loc: &Loc, ex: &Exchange) -> bool {
    ex.asked.head.version == Version::Http11 && loc.settings.connection.chunked_transfer_encoding
}

fn append_hex(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("{number:x}").as_bytes());
}

fn outgoing(content: Content, part: Range<u64>, parts: Option<Multipart>, chunked: bool) -> Outgoing {
    match (content, parts) {
        (Content::Empty | Content::Nothing, _) => Outgoing::Nothing,
        (Content::Bytes(bytes), None) => Outgoing::Bytes(bytes.slice(part.start as usize..part.end as usize)),
        (Content::Bytes(bytes), Some(parts)) => Outgoing::Parts(parts, Source::Bytes(bytes)),
        (Content::File(file, _), None) => Outgoing::File(file, part),
        (Content::File(file, _), Some(parts)) => Outgoing::Parts(parts, Source::File(file)),
        // Of these one range is given at most (`ranges_max`).
        (Content::Spliced(bytes, file, rest), _) => spliced(&bytes, file, &rest, &part),
        (Content::Form(form), _) => Outgoing::Form(form),
        (Content::Hit(object), None) => Outgoing::Hit(object, part),
        (Content::Hit(object), Some(parts)) => Outgoing::Parts(parts, Source::Stored(object.to_arc())),
        (Content::Object(object), None) if chunked || object.body.whole().is_none() => {
            Outgoing::Stream { reader: object.body.reader(), range: part, chunked }
        }
        (Content::Object(object), None) => Outgoing::Stored(object, part),
        (Content::Object(object), Some(parts)) => Outgoing::Parts(parts, Source::Stored(object)),
        (Content::Slices(slices), _) => Outgoing::Slices(slices),
        // A stream's ranges are single (`ranges_max`).
        (Content::Stream(reader, _), _) => Outgoing::Stream { reader, range: part, chunked },
    }
}

/// A part of bytes and a part of a file behind them.
fn spliced(bytes: &Bytes, file: Arc<std::fs::File>, rest: &Range<u64>, part: &Range<u64>) -> Outgoing {
    let before = bytes.len() as u64;
    let of_file = |at: u64| rest.start + at.saturating_sub(before);
    let bytes = bytes.slice(part.start.min(before) as usize..part.end.min(before) as usize);
    Outgoing::Spliced(bytes, file, of_file(part.start)..of_file(part.end))
}

/// How many ranges of a body may be asked for: one of a page that still arrives, as several would need what has not
/// come yet, and of a film that is cut, as in nginx.
fn ranges_max(content: &Content, settings: &Settings) -> Option<u32> {
    match content {
        Content::Stream(..) | Content::Slices(_) | Content::Spliced(..) => {
            Some(settings.parts.max_ranges.unwrap_or(1).min(1))
        }
        Content::Empty
        | Content::Nothing
        | Content::Bytes(_)
        | Content::File(..)
        | Content::Hit(_)
        | Content::Object(_)
        | Content::Form(_) => settings.parts.max_ranges,
    }
}

/// Decides whether the connection is kept after this response.
fn settle_connection(ex: &mut Exchange, cx: &Cx) {
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

fn write_server_and_date(settings: &Settings, ex: &Exchange, cx: &Cx, head: &mut HeadWriter<'_>) {
    if !ex.reply.silent.server && !ex.reply.fields.contains("Server") {
        head.server(settings.fields.server_tokens);
    }
    if !ex.reply.silent.date && !ex.reply.fields.contains("Date") {
        head.date(cx.now());
    }
}
