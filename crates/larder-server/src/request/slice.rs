//! `slice`: a page that is fetched, stored and sent in slices of equal size, as by ngx_http_slice_filter_module.
//!
//! Who evaluates `$slice_range` before the response has its head, in a key or in a request to the origin, cuts the
//! request into slices. The first one goes the way of any request. If what comes of it is a 206 that fits, the
//! response becomes a 200 of the page's whole length ([`assemble`]), and the client's conditions and ranges are
//! answered from that; anything else is passed on as it is. While the response is sent, the slices that it needs are
//! looked up or fetched one after the other ([`Slices::next`]), each for a copy of the exchange.

use std::ops::Range;
use std::sync::Arc;

use larder_cache::Object;
use larder_conf::model::LogLevel;
use larder_http::{Fields, Known};
use larder_store::BodyReader;

use crate::conn::Inbound;
use crate::context::Cx;
use crate::exchange::{Exchange, Purpose};

use super::{Content, Ranges, Response, Slow, Step, page};

/// Where an exchange is with the slices of its page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Slicing {
    /// Nobody has asked for `$slice_range`.
    #[default]
    Unasked,
    /// This one is asked for, or was the last that was.
    At(Slice),
    /// The response has its head, and is not in slices, or all of them have been sent.
    Over,
}

/// A slice that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    start: u64,
    /// How long it is, unless the page ends in it.
    bytes: u64,
    turn: Turn,
}

/// When a slice's turn comes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Turn {
    /// It is the first of its response, which may turn out to be none.
    First,
    /// It follows another, and has this `ETag` if that one had any.
    Next(Option<Box<[u8]>>),
}

/// Why an answer is not the slice that was asked for. The words are nginx's.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SliceError {
    /// The slices before it were there.
    #[error("unexpected status code {0} in slice response")]
    Status(u16),
    /// It is of another version of the page.
    #[error("etag mismatch in slice response")]
    Etag,
    /// `Content-Range` is not there or cannot be read.
    #[error("invalid range in slice response")]
    InvalidRange,
    /// `Content-Range` has a `*` for the length.
    #[error("no complete length in slice response")]
    NoLength,
    /// It is another part of the page.
    #[error("unexpected range in slice response: {}-{}, expected: {}-{}", got.0, got.1, expected.0, expected.1)]
    Range {
        /// Where it begins, and one past its end.
        got: (u64, u64),
        /// Where it should.
        expected: (u64, u64),
    },
    /// Its body has another length than its range.
    #[error("unexpected length in slice response: {got}, expected: {expected}")]
    Length {
        /// How long it is.
        got: u64,
        /// How long its range is.
        expected: u64,
    },
    /// No answer that could be a slice, but for example a redirect.
    #[error("missing slice response")]
    Missing,
}

/// Where a slice lies in its page.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    lies: Range<u64>,
    /// The length of the page.
    total: u64,
}

impl Slicing {
    /// The same for a refetch in the background. The page may have changed: a slice of the new version is as good.
    pub fn for_refetch(self) -> Self {
        match self {
            Self::At(Slice { start, bytes, turn: Turn::Next(_) }) => {
                Self::At(Slice { start, bytes, turn: Turn::Next(None) })
            }
            other => other,
        }
    }
}

impl Slice {
    /// Which part of the page an answer is. `None`: the page is not in slices, and the answer is passed on as it is.
    fn place(&self, status: u16, fields: &Fields, length: Option<u64>) -> Result<Option<Place>, SliceError> {
        match &self.turn {
            Turn::First if status != 206 => return Ok(None),
            Turn::Next(_) if status != 206 => return Err(SliceError::Status(status)),
            Turn::Next(Some(etag)) if fields.get_known(Known::Etag) != Some(&**etag) => return Err(SliceError::Etag),
            Turn::First | Turn::Next(_) => {}
        }
        let value = fields.get_known(Known::ContentRange).unwrap_or_default();
        let (start, end, total) = content_range(value).ok_or(SliceError::InvalidRange)?;
        let total = total.ok_or(SliceError::NoLength)?;
        let expected = (self.start, start.saturating_add(self.bytes).min(total));
        if (start, end) != expected || start >= end {
            return Err(SliceError::Range { got: (start, end), expected });
        }
        match length {
            Some(got) if got != end - start => Err(SliceError::Length { got, expected: end - start }),
            Some(_) | None => Ok(Some(Place { lies: start..end, total })),
        }
    }
}

/// Appends `$slice_range`: the slice that is asked for. Who asks first, asks for that in which the client's range
/// begins; once the response has its head it is too late.
pub fn append_range(ex: &mut Exchange, cx: &Cx, out: &mut Vec<u8>) -> bool {
    if ex.visit.slicing == Slicing::Unasked {
        let settings = &cx.loc(ex).settings;
        let bytes = settings.slice_bytes;
        if bytes == 0 || ex.tally.is_logging {
            return false;
        }
        // A range that is not looked at must not choose where the page begins.
        let start = if settings.max_ranges == Some(0) { 0 } else { first_byte(&ex.asked.head.fields) };
        ex.visit.slicing = Slicing::At(Slice { start: start / bytes * bytes, bytes, turn: Turn::First });
    }
    let Slicing::At(Slice { start, bytes, .. }) = &ex.visit.slicing else { return false };
    out.extend_from_slice(format!("bytes={start}-{}", start.saturating_add(bytes - 1)).as_bytes());
    true
}

/// Where the client's range begins. With several ranges, one that counts from the end, or one under a condition,
/// which may lead to the whole page, that is the beginning.
fn first_byte(request: &Fields) -> u64 {
    if request.contains_known(Known::IfRange) {
        return 0;
    }
    let Some(range) = request.get_known(Known::Range) else { return 0 };
    let Some((unit, rest)) = range.split_at_checked(6) else { return 0 };
    if !unit.eq_ignore_ascii_case(b"bytes=") || rest.contains(&b',') {
        return 0;
    }
    number(&mut trim_spaces(rest)).unwrap_or(0)
}

/// `bytes FIRST-LAST/LENGTH` as the first byte, the one past the last, and the length unless that is `*`.
fn content_range(value: &[u8]) -> Option<(u64, u64, Option<u64>)> {
    let mut rest = trim_spaces(value.strip_prefix(b"bytes ")?);
    let start = number(&mut rest)?;
    rest = trim_spaces(trim_spaces(rest).strip_prefix(b"-")?);
    let last = number(&mut rest)?;
    rest = trim_spaces(trim_spaces(rest).strip_prefix(b"/")?);
    let total = match rest.strip_prefix(b"*") {
        Some(after) => {
            rest = after;
            None
        }
        None => Some(number(&mut rest)?),
    };
    trim_spaces(rest).is_empty().then_some((start, last + 1, total))
}

fn trim_spaces(text: &[u8]) -> &[u8] {
    let spaces = text.iter().take_while(|&&byte| byte == b' ').count();
    &text[spaces..]
}

/// Takes a number off the beginning; `None` where there is none, or one that no file could have as its length.
fn number(text: &mut &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = text.split_at(digits);
    *text = rest;
    std::str::from_utf8(number).ok()?.parse::<i64>().ok().and_then(|number| u64::try_from(number).ok())
}

/// Whether an answer whose fields are laid out in `ex` cannot be the slice that was asked for; says so in the log.
/// It must not be stored then.
pub fn is_wrong(length: Option<u64>, ex: &Exchange, cx: &Cx) -> bool {
    let Slicing::At(slice) = &ex.visit.slicing else { return false };
    // An error page is passed on whatever it is.
    if ex.request.way.error_status.is_some() {
        return false;
    }
    let length = length.filter(|_| !ex.is_head());
    match slice.place(ex.reply.status, &ex.reply.fields, length) {
        Ok(_) => false,
        Err(error) => {
            cx.local.logs.error(cx, ex, LogLevel::Error, format_args!("{error}"));
            true
        }
    }
}

/// Makes the whole page of its first slice. Another response goes on as it is.
pub fn assemble(response: Response, ex: &mut Exchange, cx: &Cx) -> Result<Response, Step> {
    let Slicing::At(slice) = &ex.visit.slicing else {
        ex.visit.slicing = Slicing::Over;
        return Ok(response);
    };
    let (slice, bytes) = (slice.clone(), slice.bytes);
    if matches!(&response.content, Content::Hit(object) if object.status != 206)
        || ex.request.way.error_status.is_some()
    {
        ex.visit.slicing = Slicing::Over;
        return Ok(response);
    }
    let response = page::laid_out(response, ex, cx);
    let length = response.content.length().filter(|_| !ex.is_head());
    let place = match slice.place(ex.reply.status, &ex.reply.fields, length) {
        Ok(Some(place)) => place,
        Ok(None) => {
            ex.visit.slicing = Slicing::Over;
            return Ok(response);
        }
        Err(error) => {
            cx.local.logs.error(cx, ex, LogLevel::Error, format_args!("{error}"));
            return Err(Step::Abort);
        }
    };
    let Response { content, last_modified, conditional, .. } = response;
    let Some(body) = SliceBody::of(content) else { return Err(Step::Abort) };
    let slices = Slices {
        total: place.total,
        bytes,
        etag: ex.reply.fields.get_known(Known::Etag).map(Box::from),
        ready: Some((body, place.lies)),
        wanted: 0..place.total,
        template: None,
    };
    ex.reply.status = 200;
    ex.reply.reason.clear();
    ex.reply.fields.remove("Content-Range");
    ex.reply.fields.remove("Accept-Ranges");
    Ok(Response { content: Content::Slices(Box::new(slices)), last_modified, ranges: Ranges::Announced, conditional })
}

/// The body of a slice.
pub enum SliceBody {
    /// Of a page that is stored, or being stored.
    Stored(Arc<Object>),
    /// As it arrives.
    Passing(BodyReader),
}

impl SliceBody {
    fn of(content: Content) -> Option<Self> {
        match content {
            Content::Object(object) => Some(Self::Stored(object)),
            Content::Stream(reader, _) => Some(Self::Passing(reader)),
            Content::Hit(object) => Some(Self::Stored(object.to_arc())),
            Content::Empty
            | Content::Nothing
            | Content::Bytes(_)
            | Content::File(..)
            | Content::Spliced(..)
            | Content::Form(_)
            | Content::Slices(_) => None,
        }
    }

    /// A reader from its first byte.
    pub fn into_reader(self) -> BodyReader {
        match self {
            Self::Stored(object) => object.body.reader(),
            Self::Passing(reader) => reader,
        }
    }
}

/// A page in slices, on its way to a client.
///
/// ```text
/// the first is ready --want--> next: that one --next--> fetched, one after the other --> over
/// ```
pub struct Slices {
    /// The length of the page.
    total: u64,
    /// That of a slice.
    bytes: u64,
    /// The page's `ETag`, once a slice had one.
    etag: Option<Box<[u8]>>,
    /// A slice that is there, and where it lies.
    ready: Option<(SliceBody, Range<u64>)>,
    /// What of the page is still to be sent.
    wanted: Range<u64>,
    /// The request, for as many slices as it takes.
    template: Option<Box<Exchange>>,
}

impl Slices {
    /// The length of the page.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Chooses the part of the page that is sent for `ex`.
    pub fn want(&mut self, wanted: Range<u64>, ex: &Exchange) {
        let has_all = self.ready.as_ref().is_some_and(|(_, lies)| covers(lies, &wanted));
        if !has_all {
            self.template = Some(ex.for_refetch());
        }
        self.wanted = wanted;
    }

    /// Whether all of it has been handed out.
    pub fn is_over(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Whether the next slice is there already.
    pub fn has_next(&self) -> bool {
        self.ready.as_ref().is_some_and(|(_, lies)| lies.contains(&self.wanted.start))
    }

    /// The next slice, and which part of it is to be sent. Not to be asked for once it is over. `None` when it cannot
    /// be had, which the log says.
    pub async fn next(&mut self, cx: &Cx) -> Option<(SliceBody, Range<u64>)> {
        let is_ready = self.has_next();
        let (body, lies) = match self.ready.take() {
            Some(ready) if is_ready => ready,
            // A first slice that turned out not to be wanted, such as by a range that counts from the end.
            Some(_) | None => self.ask(cx).await?,
        };
        let part = self.wanted.start - lies.start..self.wanted.end.min(lies.end) - lies.start;
        self.wanted.start = lies.end.min(self.wanted.end);
        Some((body, part))
    }

    /// Looks the slice up, or fetches it, in which what is wanted next lies.
    async fn ask(&mut self, cx: &Cx) -> Option<(SliceBody, Range<u64>)> {
        let mut ex = self.template.as_ref()?.for_refetch();
        let start = self.wanted.start / self.bytes * self.bytes;
        let slice = Slice { start, bytes: self.bytes, turn: Turn::Next(self.etag.clone()) };
        ex.visit.slicing = Slicing::At(slice.clone());
        ex.request.nested.purpose = Purpose::Slice;
        // Big, and needed by few responses.
        let response = Box::pin(super::run(Step::Lookup, &mut ex, cx, Inbound::Nobody)).await?;
        let found = self.found(response, &slice, &ex);
        if let Err(error) = &found {
            cx.local.logs.error(cx, &ex, LogLevel::Error, format_args!("{error}"));
        }
        found.ok()
    }

    /// The slice that a response is.
    fn found(
        &mut self,
        response: Response,
        slice: &Slice,
        ex: &Exchange,
    ) -> Result<(SliceBody, Range<u64>), SliceError> {
        let length = response.content.length();
        let place = slice.place(ex.reply.status, &ex.reply.fields, length)?.ok_or(SliceError::Missing)?;
        // A page without a tag may have become shorter in between.
        if !place.lies.contains(&self.wanted.start) {
            return Err(SliceError::Missing);
        }
        let body = SliceBody::of(response.content).ok_or(SliceError::Missing)?;
        if let Some(etag) = ex.reply.fields.get_known(Known::Etag) {
            self.etag = Some(etag.into());
        }
        Ok((body, place.lies))
    }
}

fn covers(outer: &Range<u64>, inner: &Range<u64>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

/// `step`, if it may lead to a slice; else the log says what came in its place.
pub fn only_of_slices(step: Step, ex: &mut Exchange, cx: &Cx) -> Step {
    let error = match step {
        Step::Lookup
        | Step::Look(_)
        | Step::Page(_)
        | Step::Send(_)
        | Step::Abort
        | Step::Slow(Slow::Wait(_) | Slow::Load(_) | Slow::Fetch(_)) => {
            return step;
        }
        Step::Deliver(response) => return Step::Send(page::laid_out(response, ex, cx)),
        Step::Synth(synth) => SliceError::Status(synth.status()),
        Step::Route(_) | Step::Find | Step::Redirect(_) | Step::Handle | Step::Slow(_) => SliceError::Missing,
    };
    cx.local.logs.error(cx, ex, LogLevel::Error, format_args!("{error}"));
    Step::Abort
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(lines: &[(&str, &str)]) -> Fields {
        let mut fields = Fields::new();
        for (name, value) in lines {
            fields.push(name.as_bytes(), value.as_bytes());
        }
        fields
    }

    #[test]
    fn the_first_slice_is_that_in_which_the_range_begins() {
        for (range, start) in [
            ("bytes=5-6", 5),
            ("Bytes= 5-6", 5),
            ("bytes=5-", 5),
            ("bytes=5", 5),
            ("bytes=-5", 0),
            ("bytes=5-6,9-", 0),
            ("bytes=x", 0),
            ("bytes=", 0),
            ("items=5-6", 0),
            ("bytes=9223372036854775807-", i64::MAX as u64),
            ("bytes=9223372036854775808-", 0),
            ("", 0),
        ] {
            assert_eq!(first_byte(&fields(&[("Range", range)])), start, "{range}");
        }
        assert_eq!(first_byte(&fields(&[])), 0);
        assert_eq!(first_byte(&fields(&[("Range", "bytes=5-6"), ("If-Range", "\"x\"")])), 0);
    }

    #[test]
    fn content_range_is_read_as_nginx_reads_it() {
        for (value, read) in [
            ("bytes 0-3/10", Some((0, 4, Some(10)))),
            ("bytes  0 - 3 / 10 ", Some((0, 4, Some(10)))),
            ("bytes 0-3/*", Some((0, 4, None))),
            ("bytes 0-3/ * ", Some((0, 4, None))),
            ("bytes 0-9223372036854775807/1", Some((0, 1 << 63, Some(1)))),
            ("bytes 0-9223372036854775808/1", None),
            ("bytes 0-3/10x", None),
            ("bytes 0-3", None),
            ("bytes */10", None),
            ("bytes -3/10", None),
            ("Bytes 0-3/10", None),
            ("bytes", None),
            ("", None),
        ] {
            assert_eq!(content_range(value.as_bytes()), read, "{value}");
        }
    }

    #[test]
    fn an_answer_is_the_slice_that_was_asked_for_or_none() {
        let first = Slice { start: 4, bytes: 4, turn: Turn::First };
        let next = Slice { turn: Turn::Next(Some(Box::from(&b"\"a\""[..]))), ..first.clone() };
        let untold = Slice { turn: Turn::Next(None), ..first.clone() };
        let place = |lies, total| Ok(Some(Place { lies, total }));
        let range = |got, expected| Err(SliceError::Range { got, expected });
        for (slice, status, value, etag, length, expected) in [
            (&first, 206, "bytes 4-7/10", "", Some(4), place(4..8, 10)),
            (&first, 206, "bytes 4-7/8", "", None, place(4..8, 8)),
            (&first, 206, "bytes 4-5/6", "\"b\"", None, place(4..6, 6)),
            (&first, 200, "", "", Some(10), Ok(None)),
            (&first, 404, "bytes 4-7/10", "", None, Ok(None)),
            (&first, 206, "", "", None, Err(SliceError::InvalidRange)),
            (&first, 206, "bytes 4-7/*", "", None, Err(SliceError::NoLength)),
            // nginx expects the end that goes with the start that it got.
            (&first, 206, "bytes 0-3/10", "", None, range((0, 4), (4, 4))),
            (&first, 206, "bytes 4-6/10", "", None, range((4, 7), (4, 8))),
            (&first, 206, "bytes 4-9/10", "", None, range((4, 10), (4, 8))),
            (&first, 206, "bytes 4-3/4", "", None, range((4, 4), (4, 4))),
            (&first, 206, "bytes 4-7/10", "", Some(5), Err(SliceError::Length { got: 5, expected: 4 })),
            (&next, 206, "bytes 4-7/10", "\"a\"", None, place(4..8, 10)),
            (&next, 206, "bytes 4-7/10", "\"b\"", None, Err(SliceError::Etag)),
            (&next, 206, "bytes 4-7/10", "", None, Err(SliceError::Etag)),
            (&next, 200, "", "\"a\"", None, Err(SliceError::Status(200))),
            (&untold, 206, "bytes 4-7/10", "\"b\"", None, place(4..8, 10)),
            (&untold, 416, "", "", None, Err(SliceError::Status(416))),
        ] {
            let lines: Vec<_> =
                [("Content-Range", value), ("ETag", etag)].into_iter().filter(|(_, value)| !value.is_empty()).collect();
            let got = slice.place(status, &fields(&lines), length);
            assert_eq!(got, expected, "{status} {value} {etag} {length:?}");
        }
    }

    #[test]
    fn a_refetch_takes_a_slice_of_the_new_version_too() {
        let etag = Some(Box::from(&b"\"a\""[..]));
        let at = |turn| Slicing::At(Slice { start: 4, bytes: 4, turn });
        assert_eq!(at(Turn::Next(etag)).for_refetch(), at(Turn::Next(None)));
        assert_eq!(at(Turn::First).for_refetch(), at(Turn::First));
    }
}
