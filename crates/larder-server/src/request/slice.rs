//! `slice`: a page that is fetched, stored and sent in slices of equal size, as by ngx_http_slice_filter_module.
//!
//! A configuration that uses `$slice_range` in a key or in a request to the origin cuts the request into slices. The
//! first slice goes the way of any request. If it is a 206 that fits, the response becomes a 200 of the page's whole
//! length ([`assemble`]), from which the client's conditions and ranges are answered; any other response is passed on
//! as it is. While the response is sent, larder looks up or fetches the slices that it needs, one after the other
//! ([`Slices::next`]), each for a copy of the exchange.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use larder_cache::Object;
use larder_conf::model::LogLevel;
use larder_http::{Known, status};
use larder_store::BodyReader;

use crate::context::Cx;
use crate::exchange::{Exchange, Purpose, Slice, SliceError, Slicing};
use crate::net::Inbound;

use super::{Content, Ranges, Response, Slow, Step, page};

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
    let slice = slice.clone();
    if matches!(&response.content, Content::Hit(object) if object.status != status::PARTIAL_CONTENT)
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
        skipped: 0,
        bytes: slice.bytes(),
        etag: ex.reply.fields.get_known(Known::Etag).map(Box::from),
        ready: Some((body, place.lies)),
        wanted: 0..place.total,
        template: None,
    };
    ex.reply.status = status::OK;
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
            Content::Passed(bytes, _) => Some(Self::Passing(reader_of(bytes))),
            Content::Hit(object) => Some(Self::Stored(object.to_arc())),
            Content::Empty
            | Content::NoBody
            | Content::Bytes(_)
            | Content::Kept(_)
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

/// A reader of bytes that are not to be stored.
fn reader_of(bytes: Bytes) -> BodyReader {
    let (mut writer, body) = larder_store::body(None, None);
    let reader = body.reader();
    // Without a limit there is nothing to fail.
    let _ = writer.append(bytes);
    writer.finish();
    reader
}

/// A page in slices, on its way to a client.
///
/// ```text
/// the first is ready --want--> next: that one --next--> fetched, one after the other --> over
/// ```
pub struct Slices {
    /// The length of the page.
    total: u64,
    /// Where in the first slice the page begins.
    skipped: u64,
    /// The length of a slice.
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
    /// This part of a body that is there, or is coming, and nothing else.
    pub fn of_part(body: SliceBody, part: Range<u64>) -> Self {
        let total = part.end - part.start;
        let ready = Some((body, 0..part.end));
        Self { total, skipped: part.start, bytes: total.max(1), etag: None, ready, wanted: part, template: None }
    }

    /// The length of the page.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Chooses the part of the page that is sent for `ex`.
    pub fn want(&mut self, wanted: Range<u64>, ex: &Exchange) {
        let wanted = wanted.start + self.skipped..wanted.end + self.skipped;
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
            // The first slice is not wanted after all: the range counts from the end of the page, for example.
            Some(_) | None => self.ask(cx).await?,
        };
        let part = self.wanted.start - lies.start..self.wanted.end.min(lies.end) - lies.start;
        self.wanted.start = lies.end.min(self.wanted.end);
        Some((body, part))
    }

    /// Looks up or fetches the slice that holds the next wanted byte.
    async fn ask(&mut self, cx: &Cx) -> Option<(SliceBody, Range<u64>)> {
        let mut ex = self.template.as_ref()?.for_refetch();
        let start = self.wanted.start / self.bytes * self.bytes;
        let slice = Slice::next(start, self.bytes, self.etag.clone());
        ex.visit.slicing = Slicing::At(slice.clone());
        ex.request.nested.purpose = Purpose::Slice;
        // Big, and needed by few responses.
        let settled = Box::pin(super::run(Step::Lookup, &mut ex, cx, Inbound::Nobody)).await?;
        let response = settled.into_part()?;
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

/// `step`, if it may lead to a slice; otherwise the request is aborted, and the log says what came instead.
pub fn only_of_slices(step: Step, ex: &mut Exchange, cx: &Cx) -> Step {
    let error = match step {
        Step::Lookup
        | Step::LookInZone(_)
        | Step::Page(_)
        | Step::Part(_)
        | Step::Abort
        | Step::Slow(
            Slow::Wait(_)
            | Slow::Load(_)
            | Slow::Fetch(_)
            | Slow::PurgeFirst(_)
            | Slow::Known(_)
            | Slow::Gather(_)
            | Slow::Hold(_),
        ) => {
            return step;
        }
        Step::Deliver(response) => return Step::Part(page::laid_out(response, ex, cx)),
        Step::Synth(synth) => SliceError::Status(synth.status()),
        Step::Route(_)
        | Step::Find
        | Step::Redirect(_)
        | Step::Handle
        | Step::Restart
        | Step::Send(_)
        | Step::Slow(
            Slow::Delay(_)
            | Slow::Refuse(_)
            | Slow::Verify(_)
            | Slow::Ask(_)
            | Slow::ReadBody
            | Slow::Ban(_)
            | Slow::Purge(_)
            | Slow::PurgePages(_)
            | Slow::PurgeUrl(_)
            | Slow::Film(_)
            | Slow::Challenge(_)
            | Slow::Share(_)
            | Slow::Form(_),
        ) => SliceError::Missing,
    };
    cx.local.logs.error(cx, ex, LogLevel::Error, format_args!("{error}"));
    Step::Abort
}
