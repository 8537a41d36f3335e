//! The body of a request: read whole before an origin is asked, into memory, then into an unlinked file.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use larder_conf::model::LogLevel;
use larder_http::{ChunkedDecoder, Version};

use crate::conn::h2::Handle;
use crate::conn::{Inbound, Io, ReadError};
use crate::context::Cx;
use crate::exchange::{Exchange, RequestBody};
use crate::tempfile;

use super::{Step, Synth, route};

/// Where a body goes: memory until it is too large, then a file.
struct Sink {
    memory: Vec<u8>,
    file: Option<std::fs::File>,
    memory_bytes_max: usize,
    written: u64,
}

/// Reads the body, then lets the handler answer.
pub async fn read(ex: &mut Exchange, cx: &Cx, from: &mut Inbound<'_>) -> Step {
    let RequestBody::Unread(announced) = ex.body else { return Step::Handle };
    // As nginx, we send no 100 by HTTP/2, whose windows say already how much may be sent.
    if let Inbound::Connection(io) = from
        && announced != Some(0)
        && route::expects_continue(ex)
        && ex.head.version == Version::Http11
        && !io.has_pending()
    {
        // The client may be gone already; then the read below says so.
        let _ = io.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await;
    }
    let result = match (announced, &mut *from) {
        (Some(bytes), from) => read_length(bytes, ex, cx, from).await,
        (None, Inbound::Connection(io)) => read_chunked(ex, cx, io).await,
        (None, Inbound::Stream(handle)) => read_to_end(ex, cx, handle).await,
    };
    match result {
        Ok(body) => {
            ex.body = body;
            Step::Handle
        }
        Err(Refused::Status(status, why)) => {
            cx.local.logs.error(cx, ex, LogLevel::Error, format_args!("{why}"));
            ex.keep_alive = false;
            ex.body_refused = true;
            ex.body = RequestBody::None;
            Step::Synth(Synth::Status(status))
        }
        Err(Refused::Gone) => {
            cx.local.logs.error(cx, ex, LogLevel::Info, format_args!("client prematurely closed connection"));
            ex.out.status = 400;
            Step::Abort
        }
    }
}

enum Refused {
    Status(u16, String),
    Gone,
}

impl From<ReadError> for Refused {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::TimedOut => Self::Status(408, "client timed out".to_owned()),
            ReadError::Closed | ReadError::Io(_) => Self::Gone,
        }
    }
}

async fn read_length(bytes: u64, ex: &mut Exchange, cx: &Cx, from: &mut Inbound<'_>) -> Result<RequestBody, Refused> {
    let mut sink = sink(ex, cx);
    let timeout = cx.site().locations[ex.location].settings.client_body_timeout;
    let mut left = bytes;
    while left > 0 {
        let piece = from.read_some(usize::try_from(left).unwrap_or(usize::MAX), timeout).await?;
        left -= piece.len() as u64;
        sink.append(&piece, ex, cx)?;
    }
    Ok(sink.finish())
}

async fn read_chunked(ex: &mut Exchange, cx: &Cx, io: &mut Io) -> Result<RequestBody, Refused> {
    let mut sink = sink(ex, cx);
    let settings = &cx.site().locations[ex.location].settings;
    let (timeout, limit) = (settings.client_body_timeout, settings.client_max_body_bytes);
    let mut decoder = ChunkedDecoder::new();
    loop {
        let piece = io.read_some(usize::MAX, timeout).await?;
        let mut at = 0;
        while at < piece.len() {
            let decoded = decoder
                .decode(&piece[at..])
                .map_err(|_| Refused::Status(400, "client sent invalid chunked body".to_owned()))?;
            let data = &piece[at..][decoded.data.clone()];
            sink.check(limit, data, "chunked body")?;
            sink.append(data, ex, cx)?;
            at += decoded.consumed;
            if decoded.done {
                io.unread(&piece[at..]);
                return Ok(sink.finish());
            }
            if decoded.consumed == 0 {
                break;
            }
        }
        if at < piece.len() {
            io.unread(&piece[at..]);
        }
    }
}

/// A body of HTTP/2 whose length was not announced: it ends where its stream does.
async fn read_to_end(ex: &mut Exchange, cx: &Cx, handle: &Handle) -> Result<RequestBody, Refused> {
    let mut sink = sink(ex, cx);
    let settings = &cx.site().locations[ex.location].settings;
    let (timeout, limit) = (settings.client_body_timeout, settings.client_max_body_bytes);
    while let Some(piece) = handle.read(timeout).await? {
        sink.check(limit, &piece, "body")?;
        sink.append(&piece, ex, cx)?;
    }
    Ok(sink.finish())
}

fn sink(ex: &Exchange, cx: &Cx) -> Sink {
    let settings = &cx.site().locations[ex.location].settings;
    Sink { memory: Vec::new(), file: None, memory_bytes_max: settings.client_body_buffer_bytes, written: 0 }
}

impl Sink {
    /// Refuses a body that gets larger than `client_max_body_size`.
    fn check(&self, limit: Option<u64>, more: &[u8], what: &str) -> Result<(), Refused> {
        let bytes = self.written + more.len() as u64;
        if limit.is_some_and(|limit| bytes > limit) {
            return Err(Refused::Status(413, format!("client intended to send too large {what}: {bytes} bytes")));
        }
        Ok(())
    }

    fn append(&mut self, data: &[u8], ex: &mut Exchange, cx: &Cx) -> Result<(), Refused> {
        self.written += data.len() as u64;
        if self.file.is_none() && self.memory.len() + data.len() > self.memory_bytes_max {
            let dir = cx.site().locations[ex.location].settings.client_body_temp_path.clone();
            let system = Path::new(tempfile::SYSTEM_DIR);
            let temp = tempfile::create(dir.as_deref().unwrap_or(system), system).map_err(|error| {
                Refused::Status(500, format!("cannot make a temporary file for the request body ({error})"))
            })?;
            if let Some(fallback) = &temp.fallback {
                cx.local.logs.error(cx, ex, LogLevel::Warn, format_args!("{fallback}"));
            }
            cx.local.logs.error(
                cx,
                ex,
                LogLevel::Warn,
                format_args!("a client request body is buffered to a temporary file"),
            );
            self.file = Some(temp.file);
            let memory = std::mem::take(&mut self.memory);
            self.write(&memory)?;
        }
        match self.file {
            Some(_) => self.write(data),
            None => {
                self.memory.extend_from_slice(data);
                Ok(())
            }
        }
    }

    fn write(&mut self, data: &[u8]) -> Result<(), Refused> {
        let Some(file) = &mut self.file else { return Ok(()) };
        file.write_all(data).map_err(|error| {
            Refused::Status(500, format!("writing the request body to a temporary file failed ({error})"))
        })
    }

    fn finish(self) -> RequestBody {
        match self.file {
            Some(file) => RequestBody::File(Arc::new(file), self.written),
            None if self.memory.is_empty() => RequestBody::None,
            None => RequestBody::Memory(Bytes::from(self.memory)),
        }
    }
}
