//! The response on the wire: conditions, ranges, the fields of this request, the head as bytes.
//!
//! A hit is laid out from what was serialised when the page was stored; only Server, Date, Content-Length,
//! Connection and the location's own fields are written anew. Everything else goes through the fields.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use larder_cache::{Form, FormRef, FormState, HitRef, Object};
use larder_conf::model::{Expires, Settings};
use larder_http::{Known, Version};
use larder_store::BodyReader;

use crate::context::Cx;
use crate::exchange::{CacheStatus, Exchange};
use crate::files::conditional::{self, Condition};
use crate::files::ranges::{self, Multipart, Plan as RangePlan};
use crate::site::Loc;

use super::compress::{self, Choice, Facts};
use super::recode::Recoder;
use super::wire::{HeadWriter, Wire, append_decimal, append_field, append_line};
use super::{Content, Ranges, Response, Step, Synth, lookup, response_fields};

/// A response whose head has been serialised; this is what follows it.
pub enum Outgoing {
    /// Nothing.
    Nothing,
    /// Bytes.
    Bytes(Bytes),
    /// A part of a file.
    File(Arc<std::fs::File>, Range<u64>),
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
        /// As of [`Outgoing::Stream`].
        trailers: Vec<u8>,
    },
    /// What an origin sends; with chunks, or else as it is.
    Stream {
        /// Where it comes from, at its beginning.
        reader: BodyReader,
        /// Which part.
        range: Range<u64>,
        /// Whether it goes in chunks.
        chunked: bool,
        /// Trailer fields after the last chunk, serialised.
        trailers: Vec<u8>,
    },
    /// A body of known length with what follows it: the end of its one chunk and the trailers, or for HTTP/2 the
    /// trailers' field block.
    Trailed(Box<Outgoing>, Vec<u8>),
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
                let response = from_object(&object, response.ranges, ex, cx);
                full(response, ex, cx, out)
            }
        },
        content => full(Response { content, ..response }, ex, cx, out),
    }
}

/// Whether the request has conditions or asks for a range.
fn asks_for_part(ex: &Exchange) -> bool {
    ex.head.fields.iter_known().any(|(known, _, _)| {
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

/// The response of a page that lookup found, with its head laid out.
pub fn from_object(object: &HitRef, ranges: Ranges, ex: &mut Exchange, cx: &Cx) -> Response {
    if let Some(policy) = lookup::policy(ex, cx) {
        response_fields::lay_out_object(object, policy, ex, cx);
    }
    Response {
        last_modified: object.last_modified,
        content: Content::Object(object.to_arc()),
        ranges,
        conditional: true,
    }
}

/// Finds out whether the request's conditions or range forbid the response, which is then answered by 412 or 416,
/// or by the `error_page` for them.
pub fn settle(response: Response, ex: &mut Exchange, cx: &Cx) -> Result<Response, Step> {
    let may_refuse = response.conditional || response.ranges != Ranges::No;
    if !may_refuse || ex.error_status.is_some() || !asks_for_part(ex) {
        return Ok(response);
    }
    let response = match &response.content {
        Content::Hit(object) => from_object(object, response.ranges, ex, cx),
        _ => response,
    };
    if ex.out.status != 200 {
        return Ok(response);
    }
    let settings = &cx.site().locations[ex.location].settings;
    let etag = ex.out.fields.get_known(Known::Etag);
    if response.conditional {
        match conditional::decide(&ex.head.fields, response.last_modified, etag, settings.if_modified_since) {
            Condition::Go => {}
            Condition::NotModified => return Ok(response),
            Condition::PreconditionFailed => {
                ex.out.fields.clear();
                return Err(Step::Synth(Synth::Status(412)));
            }
        }
    }
    let asked = ex.head.fields.get_known(Known::Range).filter(|_| {
        // A body that is compressed on its way goes whole, whatever part is asked for.
        let facts = Facts { status: 200, fields: &ex.out.fields, length: length(&response.content) };
        response.ranges != Ranges::No && compress::choose(&facts, ex, cx).shape().is_none()
    });
    if let (Some(asked), Some(total)) = (asked, length(&response.content))
        && settings.max_ranges != Some(0)
        && conditional::range_applies(&ex.head.fields, response.last_modified, etag)
        && larder_http::parse_ranges(asked, total, settings.max_ranges) == larder_http::Ranges::Unsatisfiable
    {
        ex.out.fields.clear();
        ex.out.fields.set("Content-Range", format!("bytes */{total}").as_bytes());
        return Err(Step::Synth(Synth::Status(416)));
    }
    Ok(response)
}

/// A plain hit: the serialised fields of the page, and ours around them. `None` when this request asks for more.
fn quick(object: &Object, ex: &mut Exchange, cx: &Cx, out: &mut Vec<u8>) -> Option<Quick> {
    let loc = &cx.site().locations[ex.location];
    let policy = lookup::policy(ex, cx)?;
    if !loc.texts.add_trailers.is_empty() || ex.accel_fields.is_some() {
        return None;
    }
    let wire = Wire::of(ex.head.version);
    let form = match ex.choice.shape().map(|shape| object.form(shape)) {
        Some(FormState::Ready(form)) => Some(form),
        // It was not worth it: the page goes out as it is.
        Some(FormState::Unwanted) if matches!(ex.choice, Choice::Compress(_)) => None,
        None => None,
        // A form that is not kept is made as it passes.
        Some(FormState::None | FormState::Making(_) | FormState::NoRoom | FormState::Unwanted) => return None,
    };
    let prepared = form.as_ref().map_or(&object.prepared, |form| &form.prepared).as_ref().filter(|prepared| {
        // A page that was stored before HTTP/2 was spoken here has no block for it.
        prepared.policy == policy.id && (wire == Wire::Lines || !prepared.block.is_empty())
    })?;
    if object.status != 200 || loc.texts.reads_fields || loc.settings.expires.is_some() || ex.error_status.is_some() {
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
    ex.out.status = 200;
    settle_connection(ex, cx);
    let mut head = HeadWriter::new(out, wire);
    head.status(200, &object.reason);
    write_server_and_date(&loc.settings, ex, cx, &mut head);
    head.length(len);
    head.connection(200, ex.keep_alive, false, &loc.settings);
    if ex.choice.varies() && loc.settings.compression.vary {
        head.field(b"Vary", b"Accept-Encoding");
    }
    head.ready(prepared);
    each_added(loc, 200, ex, cx, |name, value| {
        if !value.is_empty() {
            head.field(name, value);
        }
    });
    write_cache_status(Some(object), loc, ex, cx, &mut head);
    head.end();
    Some(match form {
        Some(_) if ex.is_head() => Quick::Page(0),
        Some(form) => {
            ex.squeezed = Some((body_len, len));
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
    if let Some(status) = ex.error_status.take() {
        ex.out.status = status;
        ex.out.reason.clear();
    }
    let loc = &cx.site().locations[ex.location];
    if ex.origin_status.is_none() && !matches!(ex.out.status, 200 | 206 | 304) {
        // The date of an error page says nothing about what was asked for.
        ex.out.fields.remove("Last-Modified");
    }
    add_configured_charset(loc, ex, cx);
    if conditional && ex.out.status == 200 {
        match conditional::decide(
            &ex.head.fields,
            last_modified,
            ex.out.fields.get_known(Known::Etag),
            loc.settings.if_modified_since,
        ) {
            // A precondition that fails has led elsewhere already (`settle`).
            Condition::Go | Condition::PreconditionFailed => {}
            Condition::NotModified => {
                ex.out.status = 304;
                ex.out.reason.clear();
                ex.out.fields.remove("Content-Type");
                ex.out.fields.remove("Accept-Ranges");
                content = Content::Nothing;
            }
        }
    }
    let (content, recoder) = recode(content, ex, cx);
    let which = if ex.choice.shape().is_some() { Ranges::No } else { which };
    let total = if recoder.is_some() { None } else { length(&content) };
    let mut part = 0..total.unwrap_or(u64::MAX);
    let mut parts = None;
    if ex.out.status == 200 && which != Ranges::No {
        let asked = ex.head.fields.get_known(Known::Range).filter(|_| loc.settings.max_ranges != Some(0));
        let applies = asked.is_some()
            && conditional::range_applies(&ex.head.fields, last_modified, ex.out.fields.get_known(Known::Etag));
        let announces = which == Ranges::Announced;
        if announces && loc.settings.max_ranges != Some(0) {
            ex.out.fields.set("Accept-Ranges", b"bytes");
        }
        if let (Some(total), Some(asked), true) = (total, asked, applies) {
            let content_type = ex.out.fields.get_known(Known::ContentType).map(<[u8]>::to_vec);
            let asked = larder_http::parse_ranges(asked, total, loc.settings.max_ranges);
            match ranges::plan(&asked, total, content_type.as_deref().unwrap_or_default(), cx.worker.random()) {
                RangePlan::Whole | RangePlan::Unsatisfiable { .. } => {}
                RangePlan::Single { slice, content_range } => {
                    ex.out.status = 206;
                    ex.out.reason.clear();
                    ex.out.fields.remove("Accept-Ranges");
                    ex.out.fields.set("Content-Range", content_range.as_bytes());
                    part = slice;
                }
                // A page that still arrives goes out in one piece or one range: several would need to wait.
                RangePlan::Multipart(_) if matches!(content, Content::Stream(..)) => {}
                RangePlan::Multipart(multipart) => {
                    ex.out.status = 206;
                    ex.out.reason.clear();
                    ex.out.fields.remove("Accept-Ranges");
                    ex.out.fields.set("Content-Type", multipart.content_type.as_bytes());
                    part = 0..multipart.len;
                    parts = Some(multipart);
                }
            }
        }
    }
    let status = ex.out.status;
    let bodiless = status == 204 || status == 304 || status < 200;
    if status == 204 {
        ex.out.fields.remove("Content-Type");
    }
    let wire = Wire::of(ex.head.version);
    let trailers = trailers(loc, status, wire, ex, cx);
    let is_trailed = !trailers.is_empty() && total.is_some() && parts.is_none() && !bodiless && !ex.is_head();
    // In HTTP/1 trailers follow chunks, so they make a body of known length go in one.
    let in_one_chunk = is_trailed && chunks_allowed(loc, ex);
    let known = match total {
        // A 304 of our own configuration (`return 304`) says its length as nginx does.
        Some(_) if status == 304 => Some(0).filter(|_| matches!(content, Content::Bytes(_))),
        Some(_) if bodiless || in_one_chunk => None,
        Some(_) => Some(part.end - part.start),
        None => None,
    };
    add_expires(loc, last_modified, ex, cx);
    absolute_location(loc, ex, cx);
    settle_connection(ex, cx);
    let needs_chunks = wire == Wire::Lines && !bodiless && total.is_none();
    // The answer to a HEAD says nothing of chunks that do not follow.
    let chunked = needs_chunks && chunks_allowed(loc, ex) && !ex.is_head();
    if needs_chunks && !chunked && !ex.is_head() {
        ex.keep_alive = false;
    }
    ex.out.length = known;
    ex.out.chunked = chunked || in_one_chunk;
    let mut head = HeadWriter::new(out, wire);
    head.status(status, &ex.out.reason);
    write_server_and_date(&loc.settings, ex, cx, &mut head);
    if let Some(length) = known {
        head.length(length);
    }
    head.connection(status, ex.keep_alive, ex.out.chunked, &loc.settings);
    if (ex.choice.varies() || ex.has_packed) && loc.settings.compression.vary {
        head.field(b"Vary", b"Accept-Encoding");
    }
    add_configured(loc, status, ex, cx);
    for (name, value) in ex.out.fields.iter() {
        head.field(name, value);
    }
    let object = match &content {
        Content::Object(object) => Some(&**object),
        _ => None,
    };
    write_cache_status(object, loc, ex, cx, &mut head);
    head.end();
    if bodiless || ex.is_head() {
        return Outgoing::Nothing;
    }
    if in_one_chunk && part.end > part.start {
        append_hex(part.end - part.start, out);
        out.extend_from_slice(b"\r\n");
        let end = [b"\r\n0\r\n", &trailers[..], b"\r\n"].concat();
        return Outgoing::Trailed(Box::new(outgoing(content, part, None, false, Vec::new())), end);
    }
    if in_one_chunk {
        return Outgoing::Bytes([b"0\r\n", &trailers[..], b"\r\n"].concat().into());
    }
    if is_trailed && wire == Wire::Block {
        return Outgoing::Trailed(Box::new(outgoing(content, part, None, false, Vec::new())), trailers);
    }
    match recoder {
        None => outgoing(content, part, parts, chunked, trailers),
        Some(recoder) => {
            let all = 0..length(&content).unwrap_or(u64::MAX);
            let body = Box::new(outgoing(content, all, None, false, Vec::new()));
            Outgoing::Recoded { body, recoder: Box::new(recoder), chunked, trailers }
        }
    }
}

/// Bodies of our own up to this size are compressed in one go.
const AT_ONCE_BYTES_MAX: usize = 64 * 1024;

/// Chooses the form of the body, and takes the one that is there; else says what makes it as it passes. The fields
/// are those of that form from then on.
fn recode(content: Content, ex: &mut Exchange, cx: &Cx) -> (Content, Option<Recoder>) {
    let facts = Facts { status: ex.out.status, fields: &ex.out.fields, length: length(&content) };
    ex.choice = compress::choose(&facts, ex, cx);
    let Some(shape) = ex.choice.shape() else { return (content, None) };
    let made = match &content {
        Content::Object(object) if object.body.whole().is_some() => match object.form(shape) {
            FormState::Ready(form) => {
                let lengths = object.body.whole().zip(form.body.whole());
                ex.squeezed = lengths.map(|(before, after)| (before.len(), after.len()));
                Some(Content::Form(form.to_arc()))
            }
            FormState::Unwanted if matches!(ex.choice, Choice::Compress(_)) => {
                ex.choice = Choice::AsItIsHere;
                return (content, None);
            }
            FormState::None | FormState::Making(_) | FormState::NoRoom | FormState::Unwanted => None,
        },
        Content::Bytes(bytes) if bytes.len() <= AT_ONCE_BYTES_MAX => {
            let made = compress::at_once(bytes, ex.choice, ex, cx);
            ex.squeezed = made.as_ref().map(|made| (bytes.len() as u64, made.len() as u64));
            made.map(Content::Bytes)
        }
        _ => None,
    };
    let (content, recoder) = match made {
        Some(made) => (made, None),
        None => match Recoder::new(ex.choice, ex, cx) {
            Some(recoder) => (content, Some(recoder)),
            // Without memory for it the body goes as it is.
            None => {
                ex.choice = Choice::AsItIsHere;
                return (content, None);
            }
        },
    };
    compress::adapt(&mut ex.out.fields, ex.choice);
    (content, recoder)
}

/// Whether this response may go in chunks.
fn chunks_allowed(loc: &Loc, ex: &Exchange) -> bool {
    ex.head.version == Version::Http11 && loc.settings.chunked_transfer_encoding
}

fn append_hex(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("{number:x}").as_bytes());
}

fn outgoing(
    content: Content,
    part: Range<u64>,
    parts: Option<Multipart>,
    chunked: bool,
    trailers: Vec<u8>,
) -> Outgoing {
    match (content, parts) {
        (Content::Empty | Content::Nothing, _) => Outgoing::Nothing,
        (Content::Bytes(bytes), None) => Outgoing::Bytes(bytes.slice(part.start as usize..part.end as usize)),
        (Content::Bytes(bytes), Some(parts)) => Outgoing::Parts(parts, Source::Bytes(bytes)),
        (Content::File(file, _), None) => Outgoing::File(file, part),
        (Content::File(file, _), Some(parts)) => Outgoing::Parts(parts, Source::File(file)),
        (Content::Form(form), _) => Outgoing::Form(form),
        (Content::Hit(object), None) => Outgoing::Hit(object, part),
        (Content::Hit(object), Some(parts)) => Outgoing::Parts(parts, Source::Stored(object.to_arc())),
        (Content::Object(object), None) if chunked || object.body.whole().is_none() => {
            Outgoing::Stream { reader: object.body.reader(), range: part, chunked, trailers }
        }
        (Content::Object(object), None) => Outgoing::Stored(object, part),
        (Content::Object(object), Some(parts)) => Outgoing::Parts(parts, Source::Stored(object)),
        // A stream's ranges are single: several would need what has not come yet.
        (Content::Stream(reader, _), _) => Outgoing::Stream { reader, range: part, chunked, trailers },
    }
}

/// The length of a body, when it is known.
fn length(content: &Content) -> Option<u64> {
    match content {
        Content::Empty | Content::Nothing => Some(0),
        Content::Bytes(bytes) => Some(bytes.len() as u64),
        Content::File(_, len) => Some(*len),
        Content::Hit(object) => object.body.whole().map(|whole| whole.len()),
        Content::Form(form) => form.body.whole().map(|whole| whole.len()),
        Content::Object(object) => {
            object.body.whole().map(|whole| whole.len()).or_else(|| super::fetch::announced(&object.fields))
        }
        Content::Stream(_, len) => *len,
    }
}

/// Decides whether the connection is kept after this response.
fn settle_connection(ex: &mut Exchange, cx: &Cx) {
    if ex.keep_alive {
        let timeout = cx.site().locations[ex.location].settings.keepalive_timeout;
        ex.keep_alive = !timeout.is_zero() && !is_last(ex, cx) && !cx.worker.is_closing();
    }
}

/// Whether its connection has served long enough: `keepalive_requests`, `keepalive_time`.
pub fn is_last(ex: &Exchange, cx: &Cx) -> bool {
    let settings = &cx.site().locations[ex.location].settings;
    ex.number >= settings.keepalive_requests || crate::worker::age(&ex.client, cx.now()) > settings.keepalive_time
}

fn write_server_and_date(settings: &Settings, ex: &Exchange, cx: &Cx, head: &mut HeadWriter<'_>) {
    if !ex.out.fields.contains("Server") {
        head.server(settings.server_tokens);
    }
    if !ex.out.fields.contains("Date") {
        head.date(cx.now());
    }
}

/// Statuses that `add_header` without `always` and `expires` are for.
fn is_adorned(status: u16) -> bool {
    matches!(status, 200 | 201 | 204 | 206 | 301 | 302 | 303 | 304 | 307 | 308)
}

/// Evaluates `add_header` and hands each field to `each`; one that comes out empty too.
fn each_added(loc: &Loc, status: u16, ex: &mut Exchange, cx: &Cx, mut each: impl FnMut(&[u8], &[u8])) {
    for (name, text, always) in &loc.texts.add_headers {
        if *always || is_adorned(status) {
            text.with(ex, cx, |_, value| each(name, value));
        }
    }
}

/// Whether `add_header` of this name takes the place of what is there.
pub fn replaces(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"last-modified") || name.eq_ignore_ascii_case(b"etag")
}

fn add_configured(loc: &Loc, status: u16, ex: &mut Exchange, cx: &Cx) {
    let mut added = Vec::new();
    each_added(loc, status, ex, cx, |name, value| added.push((name.to_vec(), value.to_vec())));
    for (name, value) in added {
        // These two take the place of what is there, even by nothing; other fields are added to it
        // (ngx_http_headers_filter).
        match (replaces(&name), value.is_empty()) {
            (true, true) => {
                ex.out.fields.remove(&String::from_utf8_lossy(&name));
            }
            (true, false) => ex.out.fields.set(&String::from_utf8_lossy(&name), &value),
            (false, true) => {}
            (false, false) => ex.out.fields.push(&name, &value),
        }
    }
}

fn trailers(loc: &Loc, status: u16, wire: Wire, ex: &mut Exchange, cx: &Cx) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, text, always) in &loc.texts.add_trailers {
        if *always || is_adorned(status) {
            text.with(ex, cx, |_, value| match wire {
                _ if value.is_empty() => {}
                Wire::Lines => append_line(name, value, &mut out),
                Wire::Block => append_field(name, value, &mut out),
            });
        }
    }
    out
}

/// `expires`: sets Expires and Cache-Control in place of what is there.
fn add_expires(loc: &Loc, last_modified: Option<u64>, ex: &mut Exchange, cx: &Cx) {
    let Some(configured) = &loc.settings.expires else { return };
    if !is_adorned(ex.out.status) {
        return;
    }
    let parsed;
    let expires = match (configured, &loc.texts.expires) {
        (Expires::Variable(_), Some(text)) => {
            let value = text.value(ex, cx);
            match larder_conf::parse_expires(&String::from_utf8_lossy(&value), false) {
                Ok(Some(expires)) => {
                    parsed = expires;
                    &parsed
                }
                Ok(None) | Err(_) => return,
            }
        }
        (Expires::Variable(_), None) => return,
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
        Expires::Variable(_) => return,
    };
    ex.out.fields.set("Expires", date.as_bytes());
    ex.out.fields.set("Cache-Control", control.as_bytes());
}

fn dated(now: u64, seconds: i64) -> (String, String) {
    let date = larder_http::format_date(now.saturating_add_signed(seconds));
    let date = String::from_utf8_lossy(&date).into_owned();
    if seconds < 0 { (date, String::from("no-cache")) } else { (date, format!("max-age={seconds}")) }
}

/// A redirect to a path becomes one to a URL, unless `absolute_redirect off`.
fn absolute_location(loc: &Loc, ex: &mut Exchange, cx: &Cx) {
    let settings = &loc.settings;
    let Some(location) = ex.out.fields.get_known(Known::Location).filter(|location| location.first() == Some(&b'/'))
    else {
        return;
    };
    // An origin's own relative redirect is passed as it is.
    if !settings.absolute_redirect || !ex.out.location_is_ours {
        return;
    }
    let secure = ex.client.is_secure();
    let mut url = if secure { b"https://".to_vec() } else { b"http://".to_vec() };
    let usual_port = if secure { 443 } else { 80 };
    let name = &cx.site().servers[ex.server].name;
    if settings.server_name_in_redirect && !name.is_empty() {
        url.extend_from_slice(name);
    } else if !ex.host.is_empty() {
        url.extend_from_slice(&ex.host);
    } else if let Some(local) = ex.client.local {
        url.extend_from_slice(local.ip().to_string().as_bytes());
    }
    if let Some(local) = ex.client.local.filter(|local| settings.port_in_redirect && local.port() != usual_port) {
        url.push(b':');
        append_decimal(u64::from(local.port()), &mut url);
    }
    url.extend_from_slice(location);
    ex.out.fields.set("Location", &url);
}

/// `charset`: added to a type that is listed and names none.
fn add_configured_charset(loc: &Loc, ex: &mut Exchange, cx: &Cx) {
    let Some(charset) = &loc.texts.charset else { return };
    if ex.out.fields.contains("Content-Encoding") && !ex.attempts.is_empty() {
        return;
    }
    let Some(content_type) = ex.out.fields.get_known(Known::ContentType) else { return };
    // As nginx: a browser may keep the charset of a redirect for the page it leads to.
    if matches!(ex.out.status, 301 | 302) {
        return;
    }
    let bare = content_type.split(|&byte| byte == b';').next().unwrap_or(b"").trim_ascii();
    let types = &loc.settings.charset_types;
    if !types.iter().any(|listed| listed == "*" || listed.as_bytes().eq_ignore_ascii_case(bare)) {
        return;
    }
    let charset = charset.value(ex, cx);
    if !charset.is_empty() && charset != b"off" {
        add_charset(&charset, ex);
    }
}

/// Adds `; charset=` to a Content-Type that has none.
pub fn add_charset(charset: &[u8], ex: &mut Exchange) {
    let Some(content_type) = ex.out.fields.get_known(Known::ContentType) else { return };
    if content_type.windows(8).any(|window| window.eq_ignore_ascii_case(b"charset=")) {
        return;
    }
    let value = [content_type, b"; charset=", charset].concat();
    ex.out.fields.set("Content-Type", &value);
}

/// `Cache-Status` (RFC 9211): hit or why it was forwarded, the time left, and the reason in nginx's word.
fn write_cache_status(object: Option<&Object>, loc: &Loc, ex: &mut Exchange, cx: &Cx, head: &mut HeadWriter<'_>) {
    if !loc.settings.cache_status_header {
        return;
    }
    let Some(status) = ex.cache_status else { return };
    let mut value = ex.scratch.pop().unwrap_or_default();
    value.clear();
    describe_cache_status(status, object, ex, cx, &mut value);
    head.field(b"Cache-Status", &value);
    value.clear();
    ex.scratch.push(value);
}

fn describe_cache_status(status: CacheStatus, object: Option<&Object>, ex: &Exchange, cx: &Cx, out: &mut Vec<u8>) {
    out.extend_from_slice(b"larder");
    match status {
        CacheStatus::Hit => out.extend_from_slice(b"; hit"),
        CacheStatus::Stale | CacheStatus::Updating => out.extend_from_slice(b"; hit"),
        CacheStatus::Miss => out.extend_from_slice(b"; fwd=uri-miss"),
        CacheStatus::Bypass => out.extend_from_slice(b"; fwd=bypass"),
        CacheStatus::Expired | CacheStatus::Revalidated => out.extend_from_slice(b"; fwd=stale"),
    }
    if let Some(object) = object {
        out.extend_from_slice(b"; ttl=");
        let now = cx.now();
        if object.is_fresh(now) {
            append_decimal(object.fresh_until.since(now).as_secs(), out);
        } else {
            out.push(b'-');
            append_decimal(object.staleness(now).as_secs(), out);
        }
    } else if let Some(status) = ex.origin_status {
        out.extend_from_slice(b"; fwd-status=");
        append_decimal(u64::from(status), out);
    }
    out.extend_from_slice(b"; detail=\"");
    out.extend_from_slice(status.name().as_bytes());
    if !ex.cache_detail.is_empty() {
        out.extend_from_slice(b": ");
        out.extend_from_slice(ex.cache_detail.as_bytes());
    }
    out.push(b'"');
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
        let adorned: Vec<u16> = (100..600).filter(|status| is_adorned(*status)).collect();
        assert_eq!(adorned, [200, 201, 204, 206, 301, 302, 303, 304, 307, 308]);
    }
}
