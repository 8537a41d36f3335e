//! Reads the body of a request into memory or a file before an origin is asked; with `*_request_buffering off` it only
//! begins, and the body goes to the origin as it comes.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use larder_conf::model::{BodyInFile, LogLevel};
use larder_http::{ChunkedDecoder, Known, Version, status};

use crate::context::Cx;
use crate::exchange::feed::{Feed, Refused};
use crate::exchange::{Exchange, RequestBody};
use crate::net::h2::Handle;
use crate::net::{Inbound, Io};
use crate::site::Protocol;
use crate::tempfile::{self, Place, Stay, Temp};
use crate::turns::Transfer;

use super::{Step, Synth, purge_from, receive, route};

/// Where a body goes: memory until it is too large, then a file.
struct Sink {
    memory: Vec<u8>,
    file: Option<(Temp, BufWriter<Arc<File>>)>,
    memory_bytes_max: usize,
    written: u64,
}

/// What goes to a file is gathered up to this: a client may send chunks of a byte.
const WRITE_BYTES: usize = 64 * 1024;

/// Whether an announced body of no bytes is read all the same: the client waits for `100 Continue`, or
/// `client_body_in_file_only` wants a file.
pub fn is_read_though_empty(ex: &Exchange, cx: &Cx) -> bool {
    !ex.is_sub()
        && ex.asked.head.fields.contains_known(Known::ContentLength)
        && (route::expects_continue(ex) || cx.loc(ex).settings.body.in_file_only != BodyInFile::Off)
}

/// Whether the client may still wait for `100 Continue`. If it gets the final response instead, it may send the body
/// or its next request (RFC 9110 §10.1.1), and nobody can tell which.
pub fn waits_for_leave(ex: &Exchange, io: &Io) -> bool {
    matches!(ex.request.body, RequestBody::Unread(_))
        && ex.asked.head.version == Version::Http11
        && route::expects_continue(ex)
        && !io.has_pending()
}

/// Reads the body, then lets the handler answer.
pub async fn read(ex: &mut Exchange, cx: &Cx, from: &mut Inbound<'_>) -> Step {
    let RequestBody::Unread(announced) = ex.request.body else { return Step::Handle };
    // As nginx, we send no 100 by HTTP/2, whose windows say already how much may be sent.
    if let Inbound::Connection(io) = from
        && waits_for_leave(ex, io)
    {
        // The client may be gone already; then the read below says so.
        let _ = io.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await;
    }
    let result = match passes(announced, ex, cx) {
        true => begin(announced, ex, cx, from),
        false => read_whole(announced, ex, cx, from).await,
    };
    match result {
        Ok(body) => {
            ex.request.body = body;
            Step::Handle
        }
        Err(refused) => refused.step(ex, cx),
    }
}

/// Whether the body goes to the origin as it comes. An origin that is asked by HTTP/1.0 is told how long it is.
fn passes(announced: Option<u64>, ex: &Exchange, cx: &Cx) -> bool {
    let Some(origin) = cx.origin(ex) else { return false };
    let loc = cx.loc(ex);
    if !loc.subrequests.mirrors.is_empty() && loc.settings.subrequests.mirror_body && !ex.is_sub() {
        // `mirror` needs it whole.
        return false;
    }
    if purge_from::is_asked(ex, cx) {
        return false;
    }
    let model = &origin.backend.settings.model;
    let takes = match &origin.backend.protocol {
        Protocol::FastCgi(_) => true,
        Protocol::Http(parts) => parts.body.is_none() && (announced.is_some() || parts.http_1_1),
    };
    !model.request.buffering && model.request.pass_body && takes
}

/// Begins a body that is passed on. A body that is here already, and fits in `client_body_buffer_size`, is read.
fn begin(announced: Option<u64>, ex: &mut Exchange, cx: &Cx, from: &mut Inbound<'_>) -> Result<RequestBody, Refused> {
    let settings = &cx.loc(ex).settings;
    let mut feed = Feed::new(announced, from, settings.body.max_bytes, settings.body.timeout, &cx.worker.transfers);
    match feed.begin(from, settings.body.buffer_bytes)? {
        Some(whole) => {
            ex.request.chunk_bytes = feed.framing_bytes();
            Ok(RequestBody::Memory(whole))
        }
        None => Ok(RequestBody::Passing(Box::new(feed))),
    }
}

async fn read_whole(
    announced: Option<u64>,
    ex: &mut Exchange,
    cx: &Cx,
    from: &mut Inbound<'_>,
) -> Result<RequestBody, Refused> {
    match (announced, from) {
        // A stream of nothing has an end as well, and the client is still to say so.
        (None | Some(0), Inbound::Stream(handle)) => read_to_end(ex, cx, handle).await,
        (Some(bytes), from) => read_length(bytes, ex, cx, from).await,
        (None, Inbound::Connection(io)) => read_chunked(ex, cx, io).await,
        (None, Inbound::Watched(_) | Inbound::Inside(_) | Inbound::Nobody) => Err(Refused::Gone),
    }
}

impl Refused {
    /// Ends the request.
    pub fn step(self, ex: &mut Exchange, cx: &Cx) -> Step {
        match self {
            Self::Status(status, level, why) => {
                cx.local.logs.error(cx, ex, level, format_args!("{why}"));
                ex.reply.framing.keep_alive = false;
                ex.request.body_refused = true;
                ex.request.body = RequestBody::None;
                Step::Synth(Synth::Status(receive::refusal(status, ex, cx)))
            }
            Self::Gone => {
                cx.local.logs.error(cx, ex, LogLevel::Info, format_args!("client prematurely closed connection"));
                ex.reply.status = status::BAD_REQUEST;
                Step::Abort
            }
            Self::Unwanted => {
                let what = "client prematurely closed connection, so upstream connection is closed too";
                cx.local.logs.error(cx, ex, LogLevel::Info, format_args!("{what}"));
                ex.reply.status = status::CLIENT_CLOSED_REQUEST;
                Step::Abort
            }
        }
    }
}

async fn read_length(bytes: u64, ex: &mut Exchange, cx: &Cx, from: &mut Inbound<'_>) -> Result<RequestBody, Refused> {
    let mut sink = sink(ex, cx)?;
    let timeout = cx.loc(ex).settings.body.timeout;
    let (mut left, mut transfer) = (bytes, Transfer::new(&cx.worker.transfers));
    while left > 0 {
        let piece = from.read_some(usize::try_from(left).unwrap_or(usize::MAX), timeout).await?;
        left -= piece.len() as u64;
        sink.append(&piece, ex, cx)?;
        transfer.count(piece.len());
        transfer.give_way().await;
    }
    sink.finish()
}

async fn read_chunked(ex: &mut Exchange, cx: &Cx, io: &mut Io) -> Result<RequestBody, Refused> {
    let mut sink = sink(ex, cx)?;
    let settings = &cx.loc(ex).settings;
    let (timeout, limit) = (settings.body.timeout, settings.body.max_bytes);
    let (mut decoder, mut transfer) = (ChunkedDecoder::new(), Transfer::new(&cx.worker.transfers));
    loop {
        let piece = io.read_some(usize::MAX, timeout).await?;
        let mut at = 0;
        while at < piece.len() {
            let decoded = decoder.decode(&piece[at..]).map_err(|_| Refused::bad_chunks())?;
            let data = &piece[at..][decoded.data.clone()];
            sink.check(limit, data, "chunked body")?;
            sink.append(data, ex, cx)?;
            at += decoded.consumed;
            ex.request.chunk_bytes += (decoded.consumed - data.len()) as u64;
            if decoded.done {
                io.unread(&piece[at..]);
                return sink.finish();
            }
            if decoded.consumed == 0 {
                break;
            }
        }
        if at < piece.len() {
            io.unread(&piece[at..]);
        }
        // With its framing: a client may send much of that.
        transfer.count(at);
        transfer.give_way().await;
    }
}

/// A body of HTTP/2 whose length was not announced: it ends where its stream does.
async fn read_to_end(ex: &mut Exchange, cx: &Cx, handle: &Handle) -> Result<RequestBody, Refused> {
    let mut sink = sink(ex, cx)?;
    let settings = &cx.loc(ex).settings;
    let (timeout, limit) = (settings.body.timeout, settings.body.max_bytes);
    let mut transfer = Transfer::new(&cx.worker.transfers);
    while let Some(piece) = handle.read(timeout).await? {
        sink.check(limit, &piece, "chunked body")?;
        sink.append(&piece, ex, cx)?;
        transfer.count(piece.len());
        transfer.give_way().await;
    }
    sink.finish()
}

fn sink(ex: &mut Exchange, cx: &Cx) -> Result<Sink, Refused> {
    let settings = &cx.loc(ex).settings;
    let mut sink = Sink { memory: Vec::new(), file: None, memory_bytes_max: settings.body.buffer_bytes, written: 0 };
    match settings.body.in_file_only {
        BodyInFile::Off => {}
        BodyInFile::On => sink.file = Some(open(named(Stay::ForGood, ex, cx)?)),
        BodyInFile::Clean => sink.file = Some(open(named(Stay::WhileNeeded, ex, cx)?)),
    }
    Ok(sink)
}

fn open(temp: Temp) -> (Temp, BufWriter<Arc<File>>) {
    let file = BufWriter::with_capacity(WRITE_BYTES, Arc::clone(temp.file()));
    (temp, file)
}

/// Where the files of this location are made.
fn place(ex: &Exchange, cx: &Cx) -> Place {
    let settings = &cx.loc(ex).settings;
    match &settings.body.temp_path {
        Some(dir) => Place { dir: dir.clone(), levels: settings.body.temp_levels },
        None => Place { dir: tempfile::SYSTEM_DIR.into(), levels: [0; 3] },
    }
}

/// A file that has its name from the beginning. There is no second choice of its folder, as others look for it there.
fn named(stay: Stay, ex: &mut Exchange, cx: &Cx) -> Result<Temp, Refused> {
    let place = place(ex, cx);
    let temp = tempfile::create_named(&place, stay).map_err(|error| {
        let dir = place.dir.display();
        Refused::failed(&format!("cannot make a file for the request body in \"{dir}\""), &error)
    })?;
    let path = temp.path().unwrap_or(&place.dir).display();
    cx.local.logs.error(
        cx,
        ex,
        LogLevel::Notice,
        format_args!("a client request body is buffered to a temporary file {path}"),
    );
    Ok(temp)
}

impl Sink {
    /// Refuses a body that gets larger than `client_max_body_size`.
    fn check(&self, limit: Option<u64>, more: &[u8], what: &str) -> Result<(), Refused> {
        let bytes = self.written + more.len() as u64;
        match limit.is_some_and(|limit| bytes > limit) {
            true => Err(Refused::too_large(what, bytes)),
            false => Ok(()),
        }
    }

    fn append(&mut self, data: &[u8], ex: &mut Exchange, cx: &Cx) -> Result<(), Refused> {
        self.written += data.len() as u64;
        if self.file.is_none() && self.memory.len() + data.len() > self.memory_bytes_max {
            let (temp, fallback) = tempfile::create(&place(ex, cx), Path::new(tempfile::SYSTEM_DIR))
                .map_err(|error| Refused::failed("cannot make a temporary file for the request body", &error))?;
            if let Some(fallback) = &fallback {
                cx.local.logs.error(cx, ex, LogLevel::Warn, format_args!("{fallback}"));
            }
            cx.local.logs.error(
                cx,
                ex,
                LogLevel::Warn,
                format_args!("a client request body is buffered to a temporary file"),
            );
            let (temp, mut file) = open(temp);
            file.write_all(&std::mem::take(&mut self.memory)).map_err(not_written)?;
            self.file = Some((temp, file));
        }
        match &mut self.file {
            Some((_, file)) => file.write_all(data).map_err(not_written),
            None => {
                self.memory.extend_from_slice(data);
                Ok(())
            }
        }
    }

    fn finish(self) -> Result<RequestBody, Refused> {
        match self.file {
            Some((temp, mut file)) => {
                file.flush().map_err(not_written)?;
                Ok(RequestBody::File(Arc::new(temp), self.written))
            }
            None => Ok(RequestBody::Memory(Bytes::from(self.memory))),
        }
    }
}

fn not_written(error: std::io::Error) -> Refused {
    Refused::failed("writing the request body to a temporary file failed", &error)
}
