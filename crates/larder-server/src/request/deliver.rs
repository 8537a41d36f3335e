//! A settled response on the wire: its head as bytes, and what follows. Nothing is decided here.
//!
//! A plain hit is written from the fields that were laid out when the page was stored; only Server, Date, Content-Length,
//! Connection and the location's own fields are written anew. Everything else is written from the fields of the exchange.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use larder_cache::{Form, FormRef, HitRef, Object};
use larder_conf::model::Settings;
use larder_http::digits::{DIGITS_MAX, digits};
use larder_http::{Known, Time, chunk_head};
use larder_store::BodyReader;

use crate::clock;
use crate::context::Cx;
use crate::counting;
use crate::exchange::Exchange;
use crate::files::ranges::Multipart;
use crate::records;

use super::recode::Recoder;
use super::settle::{Ending, Hit, Message, Recoding, Settled};
use super::slice::Slices;
use super::wire::{HeadWriter, Wire};
use super::{Content, added_fields};

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

/// Writes the head of `settled` to `out`, and says what follows it.
pub fn write(settled: Settled, ex: &mut Exchange, cx: &Cx, out: &mut Vec<u8>) -> Outgoing {
    let now = clock::micros();
    counting::answered(ex, now);
    match settled {
        Settled::Hit(hit) => write_hit(hit, now.time(), ex, cx, out),
        Settled::Message(message) => write_message(message, now.time(), ex, cx, out),
        // It goes into another response, or is a slice of one.
        Settled::Part(_) => Outgoing::Nothing,
    }
}

/// A plain hit: the fields of the page as they were laid out, and ours around them.
fn write_hit(hit: Hit, now: Time, ex: &mut Exchange, cx: &Cx, out: &mut Vec<u8>) -> Outgoing {
    let Hit { object, form, len } = hit;
    let loc = cx.loc(ex);
    let before = out.len();
    let mut head = HeadWriter::new(out, Wire::of(ex.asked.head.version));
    head.status(200, &object.reason);
    let tells_age = cx.origin(ex).is_some_and(|origin| origin.backend.is_rfc9111);
    match tells_age {
        true => {
            write_server(&loc.settings, ex, &mut head);
            let mut room = [0; DIGITS_MAX];
            head.field(b"Age", digits(object.age(now), &mut room));
        }
        false => write_server_and_date(&loc.settings, now, ex, &mut head),
    }
    head.length(len);
    head.connection(200, ex.reply.framing.keep_alive, false, &loc.settings);
    if ex.reply.choice.varies() && loc.settings.compression.vary {
        head.field(b"Vary", b"Accept-Encoding");
    }
    let prepared = match &form {
        Some(form) => form.prepared.as_ref(),
        None => object.prepared.get().and_then(Option::as_ref),
    };
    if let Some(prepared) = prepared {
        head.ready(prepared);
    }
    added_fields::each_added(loc, 200, ex, cx, |name, value| {
        if !value.is_empty() {
            head.field(name, value);
        }
    });
    added_fields::write_cache_status(loc, ex, cx, &mut head);
    head.end();
    record(before, out, ex, cx);
    match form {
        Some(form) if !ex.is_head() => Outgoing::HitForm(form),
        Some(_) | None => Outgoing::Hit(object, 0..if ex.is_head() { 0 } else { len }),
    }
}

/// Any other response: its fields are those of the exchange.
fn write_message(message: Message, now: Time, ex: &mut Exchange, cx: &Cx, out: &mut Vec<u8>) -> Outgoing {
    let loc = cx.loc(ex);
    let status = ex.reply.status;
    let wire = Wire::of(ex.asked.head.version);
    let before = out.len();
    let mut head = HeadWriter::new(out, wire);
    head.status(status, &ex.reply.reason);
    write_server_and_date(&loc.settings, now, ex, &mut head);
    if let Some(length) = ex.reply.framing.length {
        head.length(length);
    }
    head.connection(status, ex.reply.framing.keep_alive, ex.reply.framing.chunked, &loc.settings);
    if (ex.reply.choice.varies() || ex.reply.has_packed) && loc.settings.compression.vary {
        head.field(b"Vary", b"Accept-Encoding");
    }
    added_fields::add_configured(loc, status, ex, cx);
    ex.reply.bare_type.clear();
    head.fields(&ex.reply.fields);
    added_fields::write_cache_status(loc, ex, cx, &mut head);
    head.end();
    ex.reply.framing.head_bytes = (out.len() - before) as u64;
    record(before, out, ex, cx);
    write_body(message, ex, cx, out)
}

/// Tells the transaction log what the head is that has been written from `before` on.
fn record(before: usize, out: &[u8], ex: &Exchange, cx: &Cx) {
    if ex.log.client.is_some() {
        let lines = matches!(Wire::of(ex.asked.head.version), Wire::Lines).then(|| &out[before..]);
        records::sent(lines, ex, cx);
    }
}

/// What follows the head of a message.
fn write_body(message: Message, ex: &mut Exchange, cx: &Cx, out: &mut Vec<u8>) -> Outgoing {
    let Message { mut content, part, parts, recoding, ending } = message;
    let parts = parts.map(|parts| *parts);
    if let Content::Slices(slices) = &mut content
        && ending != Ending::Bodiless
    {
        let wanted = if recoding.keeps_length() { part.clone() } else { 0..slices.total() };
        slices.want(wanted, ex);
    }
    match ending {
        Ending::Bodiless => Outgoing::Nothing,
        Ending::OneChunk if part.is_empty() => {
            let trailers = added_fields::trailers(cx.loc(ex), ex.reply.status, Wire::Lines, ex, cx);
            Outgoing::Bytes([b"0\r\n", &trailers[..], b"\r\n"].concat().into())
        }
        Ending::OneChunk => {
            append_hex(part.end - part.start, out);
            out.extend_from_slice(b"\r\n");
            Outgoing::Trailed(Box::new(changed(outgoing(content, part, None, false), recoding, false)))
        }
        Ending::Trailers => Outgoing::Trailed(Box::new(changed(outgoing(content, part, None, false), recoding, false))),
        Ending::Plain { chunked } => match recoding {
            Recoding::None => match content {
                Content::Passed(bytes, _) if chunked => {
                    write_chunk(&bytes, ex, cx, out);
                    Outgoing::Nothing
                }
                content => outgoing(content, part, parts, chunked),
            },
            Recoding::InPlace(_) => changed(outgoing(content, part, parts, false), recoding, chunked),
            Recoding::Anew(_) => {
                let all = 0..content.length().unwrap_or(u64::MAX);
                changed(outgoing(content, all, None, false), recoding, chunked)
            }
        },
    }
}

/// A body that is changed on its way.
fn changed(body: Outgoing, recoding: Recoding, chunked: bool) -> Outgoing {
    match recoding {
        Recoding::None => body,
        Recoding::InPlace(recoder) | Recoding::Anew(recoder) => {
            Outgoing::Recoded { body: Box::new(body), recoder, chunked }
        }
    }
}

/// Writes a body whose end is known behind its head: one chunk, and the last one.
fn write_chunk(bytes: &[u8], ex: &mut Exchange, cx: &Cx, out: &mut Vec<u8>) {
    ex.reply.framing.body_with_head = bytes.len();
    if !bytes.is_empty() {
        let mut room = [0; 18];
        out.extend_from_slice(chunk_head(bytes.len(), &mut room));
        out.extend_from_slice(bytes);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"0\r\n");
    out.extend_from_slice(&added_fields::trailers(cx.loc(ex), ex.reply.status, Wire::Lines, ex, cx));
    out.extend_from_slice(b"\r\n");
}

fn append_hex(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("{number:x}").as_bytes());
}

fn outgoing(content: Content, part: Range<u64>, parts: Option<Multipart>, chunked: bool) -> Outgoing {
    match (content, parts) {
        (Content::Empty | Content::NoBody, _) => Outgoing::Nothing,
        (Content::Bytes(bytes) | Content::Kept(bytes), None) => {
            Outgoing::Bytes(bytes.slice(part.start as usize..part.end as usize))
        }
        (Content::Bytes(bytes) | Content::Kept(bytes), Some(parts)) => Outgoing::Parts(parts, Source::Bytes(bytes)),
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
        // Of a length that nobody said, `part` is all.
        (Content::Passed(bytes, _), _) => {
            let end = usize::try_from(part.end).unwrap_or(usize::MAX).min(bytes.len());
            let start = usize::try_from(part.start).unwrap_or(end).min(end);
            // A slice of all would be counted, for which memory is needed.
            Outgoing::Bytes(if end - start == bytes.len() { bytes } else { bytes.slice(start..end) })
        }
    }
}

/// A part of bytes and a part of a file behind them.
fn spliced(bytes: &Bytes, file: Arc<std::fs::File>, rest: &Range<u64>, part: &Range<u64>) -> Outgoing {
    let before = bytes.len() as u64;
    let of_file = |at: u64| rest.start + at.saturating_sub(before);
    let bytes = bytes.slice(part.start.min(before) as usize..part.end.min(before) as usize);
    Outgoing::Spliced(bytes, file, of_file(part.start)..of_file(part.end))
}

fn write_server(settings: &Settings, ex: &Exchange, head: &mut HeadWriter<'_>) {
    if !ex.reply.silent.server && !ex.reply.fields.contains_known(Known::Server) {
        head.server(settings.fields.server_tokens);
    }
}

fn write_server_and_date(settings: &Settings, now: Time, ex: &Exchange, head: &mut HeadWriter<'_>) {
    write_server(settings, ex, head);
    if !ex.reply.silent.date && !ex.reply.fields.contains_known(Known::Date) {
        head.date(now);
    }
}
