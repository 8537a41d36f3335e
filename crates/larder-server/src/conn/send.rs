//! Sends the rest of a response that the socket did not take [at once](super::at_once), piece by piece as it drains.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::rc::Rc;
use std::time::Duration;

use larder_cache::Form;
use larder_http::{LAST_CHUNK, chunk_head};
use larder_store::{Body, Piece, Place, Whole};

use crate::context::Cx;
use crate::exchange::{Composed, Exchange, Slicing};
use crate::filter::change::Fed;
use crate::net::buffers::ensure;
use crate::net::memory::part;
use crate::net::sink::Sink;
use crate::net::socket::Socket;
use crate::pace::Limit;
use crate::request::added_fields;
use crate::request::deliver::{Outgoing, Source};
use crate::request::recode::Recoding;
use crate::request::slice::{SliceBody, Slices};
use crate::request::wire::Wire;
use crate::turns::{TRANSFER_STEP_BYTES, Transfer};

use super::at_once::{COPY_BYTES, READ_TIMES, Rest, SENT_TIMES, send_file, send_more};
use super::limit_rate;
use super::ready::SMALL_BYTES_MAX;

/// What fits into one packet; nginx's `postpone_output`.
const PACKET_BYTES: u64 = 1460;
/// How much of a compressed body is gathered before it is sent, and how much is compressed before others get a turn.
const RECODED_BYTES: usize = 16 * 1024;
/// How much of an arriving body is taken at once: at most what one turn may send.
const PIECE_BYTES: usize = TRANSFER_STEP_BYTES * SENT_TIMES;

/// Why a response did not reach the client completely.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The client took nothing for `send_timeout`.
    #[error("client timed out")]
    TimedOut,
    /// The client closed the connection, or the system call failed.
    #[error("send() failed{}", crate::log::io_error_text(.0))]
    Io(#[from] io::Error),
    /// The file of the body became shorter, or cannot be read any more.
    #[error("{0}")]
    File(String),
    /// The body ended too early because the origin failed.
    #[error("the response is incomplete: {0}")]
    Incomplete(String),
}

/// Sends the rest of a response, and waits for a slow client.
pub async fn rest<'a>(sink: Sink<'a>, rest: Rest, ex: &'a mut Exchange, cx: &'a Cx) -> Result<(), SendError> {
    let loc = cx.loc(ex);
    let mut sender = Sender {
        sink,
        cx,
        timeout: loc.settings.connection.send_timeout,
        limit: limit_rate::of(ex, cx),
        watches: watches(ex, cx),
        composed: ex.reply.composed.clone(),
        recoding: None,
        head: rest.head,
        sent: ex.tally.sent,
        transfer: Transfer::new(&cx.worker.transfers),
        ex,
    };
    if sender.sent.0 >= TRANSFER_STEP_BYTES as u64 {
        // What was sent at once was one turn's worth.
        sender.transfer.count(TRANSFER_STEP_BYTES);
    }
    let mut result = sender.body(rest.outgoing, rest.body_sent).await;
    if result.is_ok() {
        result = sender.flush().await;
        sender.ex.visit.slicing = Slicing::Over;
    }
    let Sender { ex, sent, recoding, .. } = sender;
    ex.tally.sent = sent;
    if let Some(recoding) = recoding {
        ex.tally.squeezed = Some((recoding.taken, recoding.made));
    }
    result
}

/// Whether the client is watched for leaving: the response is for it alone, not for the cache, and
/// `*_ignore_client_abort` is off.
fn watches(ex: &Exchange, cx: &Cx) -> bool {
    let origin = cx.origin(ex);
    if ex.reply.composed.is_some() {
        // A composed page (SSI and the like) is put together for this client alone.
        return origin.is_none_or(|origin| !origin.backend.settings.model.ignore_client_abort);
    }
    ex.upstream.cache_status.is_none()
        && origin.is_some_and(|origin| !origin.backend.settings.model.ignore_client_abort)
}

struct Sender<'a> {
    sink: Sink<'a>,
    /// The configuration under which slices are requested, and the worker that lends buffers.
    cx: &'a Cx,
    timeout: Duration,
    limit: Option<Limit>,
    /// Whether a client that leaves ends the sending, even while the origin is silent.
    watches: bool,
    /// Set for a composed page: its head waits for the first bytes of the body, as composing may fail.
    composed: Option<Rc<Composed>>,
    /// How the body is changed on its way.
    recoding: Option<Recoding>,
    /// What is left of the head; it goes out before anything else.
    head: Vec<u8>,
    sent: (u64, u64),
    /// How much was sent since others had a turn.
    transfer: Transfer,
    /// The exchange of this response: trailers are made from it after the body was sent.
    ex: &'a mut Exchange,
}

impl Sender<'_> {
    async fn body(&mut self, outgoing: Outgoing, done: u64) -> Result<(), SendError> {
        match outgoing {
            Outgoing::Nothing => self.memory(&[]).await,
            Outgoing::Bytes(bytes) => self.memory(&bytes[done as usize..]).await,
            Outgoing::Hit(object, range) => {
                let object = object.to_arc();
                self.stored(&object.body, range.start + done..range.end).await
            }
            Outgoing::Stored(object, range) => self.stored(&object.body, range.start + done..range.end).await,
            Outgoing::HitForm(form) => self.form(&form.to_arc(), done).await,
            Outgoing::Form(form) => self.form(&form, done).await,
            Outgoing::Recoded { body, recoder, chunked } => {
                self.recoding = Some(Recoding::new(*recoder, RECODED_BYTES));
                self.recoded(*body, chunked).await
            }
            Outgoing::File(file, range) => self.file(&file, range.start + done..range.end).await,
            Outgoing::Spliced(bytes, file, range) => {
                self.memory(&bytes).await?;
                self.file(&file, range).await
            }
            Outgoing::Stream { reader, range, chunked } => self.stream(reader, range, chunked).await,
            // Boxed, so that the other futures stay small.
            Outgoing::Slices(slices) => Box::pin(self.slices(*slices, false)).await,
            Outgoing::Trailed(inner) => {
                Box::pin(self.body(*inner, 0)).await?;
                let trailers = self.trailers();
                self.uncounted(&[b"\r\n0\r\n", &trailers[..], b"\r\n"].concat()).await
            }
            Outgoing::Parts(multipart, source) => {
                for part in &multipart.parts {
                    self.memory(&part.head).await?;
                    match &source {
                        Source::Bytes(bytes) => {
                            self.memory(&bytes[part.slice.start as usize..part.slice.end as usize]).await?
                        }
                        Source::File(file) => self.file(file, part.slice.clone()).await?,
                        Source::Stored(object) => self.stored(&object.body, part.slice.clone()).await?,
                    }
                }
                self.memory(&multipart.tail).await
            }
        }
    }

    async fn form(&mut self, form: &Form, done: u64) -> Result<(), SendError> {
        self.stored(&form.body, done..form.body.whole().map_or(u64::MAX, Whole::len)).await
    }

    /// Sends a body that is compressed or decompressed on its way.
    async fn recoded(&mut self, body: Outgoing, chunked: bool) -> Result<(), SendError> {
        match body {
            Outgoing::Stream { reader, range, .. } => return self.stream(reader, range, chunked).await,
            Outgoing::File(file, range) => self.file_in_pieces(&file, range, chunked).await?,
            Outgoing::Spliced(bytes, file, range) => {
                self.piece(&bytes, chunked).await?;
                self.file_in_pieces(&file, range, chunked).await?;
            }
            Outgoing::Bytes(bytes) => self.piece(&bytes, chunked).await?,
            Outgoing::Stored(object, range) => {
                let reader = object.body.reader();
                return self.stream(reader, range, chunked).await;
            }
            Outgoing::Hit(object, range) => {
                let reader = object.to_arc().body.reader();
                return self.stream(reader, range, chunked).await;
            }
            Outgoing::Slices(slices) => return Box::pin(self.slices(*slices, chunked)).await,
            // Within parts, bytes may be changed only one for one; the heads of the parts are not changed.
            Outgoing::Parts(multipart, source) => {
                for part in &multipart.parts {
                    self.memory(&part.head).await?;
                    match &source {
                        Source::Bytes(bytes) => {
                            self.piece(&bytes[part.slice.start as usize..part.slice.end as usize], false).await?;
                        }
                        Source::File(file) => self.file_in_pieces(file, part.slice.clone(), false).await?,
                        Source::Stored(object) => {
                            self.passing(object.body.reader(), part.slice.clone(), false).await?;
                        }
                    }
                    self.flush_recoding(false).await?;
                }
                self.memory(&multipart.tail).await?;
            }
            Outgoing::Nothing
            | Outgoing::HitForm(_)
            | Outgoing::Form(_)
            | Outgoing::Recoded { .. }
            | Outgoing::Trailed(..) => {}
        }
        self.end(chunked).await
    }

    async fn stored(&mut self, body: &Body, range: Range<u64>) -> Result<(), SendError> {
        let Some(whole) = body.whole() else {
            return self.stream(body.reader(), range, false).await;
        };
        let place = if self.sink.socket().is_some() { whole.place_to_send() } else { whole.place() };
        let pieces = match &place {
            Place::Pieces(pieces) => pieces,
            Place::Buffers(pieces) => &pieces[..],
            Place::File { file, offset } => {
                return self.file(file, offset + range.start..offset + range.end).await;
            }
        };
        let mut at = 0;
        for piece in pieces {
            self.memory(part(piece, &range, at)).await?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    /// Sends bytes, after the rest of the head.
    async fn memory(&mut self, body: &[u8]) -> Result<(), SendError> {
        let head = std::mem::take(&mut self.head);
        let mut at = 0;
        let total = head.len() + body.len();
        while at < total {
            let allowed = self.turn(1).await?;
            let from_head = at.min(head.len());
            // The rate limit covers the head too.
            let head_end = head.len().min(from_head.saturating_add(allowed));
            let from_body = at.saturating_sub(head.len());
            let body_end = body.len().min(from_body.saturating_add(allowed - (head_end - from_head)));
            match self.sink.try_write(&head[from_head..head_end], &body[from_body..body_end]) {
                Ok(n) => {
                    let body_part = (at + n).saturating_sub(head.len()) - from_body;
                    self.count(n, body_part, 1);
                    at += n;
                }
                Err(error) => self.wait(error).await?,
            }
        }
        Ok(())
    }

    /// Sends a part of a file unchanged.
    async fn file(&mut self, file: &File, range: Range<u64>) -> Result<(), SendError> {
        let socket = self.sink.socket();
        if self.limit.is_some() {
            self.memory(&[]).await?;
        } else if let Some(socket) = socket.filter(|_| !range.is_empty()) {
            self.head_before_more(socket).await?;
        }
        let mut offset = range.start;
        let times = if socket.is_some() { SENT_TIMES } else { READ_TIMES };
        while offset < range.end {
            let allowed = self.turn(times).await?;
            let count = usize::try_from(range.end - offset).unwrap_or(usize::MAX).min(allowed);
            let sent = match socket {
                Some(socket) => send_file(socket, file, offset, count).map(|n| (n, n)).map_err(SendError::from),
                None => self.copy(file, offset, count),
            };
            match sent {
                Ok((all, body)) => {
                    offset += body as u64;
                    self.count(all, body, times);
                }
                Err(SendError::Io(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Err(truncated(file, offset));
                }
                Err(SendError::Io(error)) => self.wait(error).await?,
                Err(error @ (SendError::Incomplete(_) | SendError::File(_) | SendError::TimedOut)) => {
                    return Err(error);
                }
            }
        }
        self.memory(&[]).await
    }

    /// Writes the rest of the head and as much of a file as fits, through the worker's buffer. Returns how much was
    /// written: in total, and of the file.
    fn copy(&mut self, file: &File, offset: u64, count: usize) -> Result<(usize, usize), SendError> {
        let mut buffer = self.cx.worker.buffers.file.borrow_mut();
        ensure(&mut buffer, COPY_BYTES);
        let room = self.sink.room().min(COPY_BYTES);
        if room == 0 {
            return Err(SendError::Io(io::ErrorKind::WouldBlock.into()));
        }
        let count = count.min(room.saturating_sub(self.head.len()));
        let read = match file.read_at(&mut buffer[..count], offset) {
            Ok(0) if count > 0 => return Err(truncated(file, offset)),
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok((0, 0)),
            Err(error) => return Err(unreadable(file, &error)),
        };
        let wrote = self.sink.try_write(&self.head, &buffer[..read])?;
        let of_head = wrote.min(self.head.len());
        self.head.drain(..of_head);
        Ok((wrote, wrote - of_head))
    }

    /// Sends a file whose bytes are changed on their way.
    async fn file_in_pieces(&mut self, file: &File, range: Range<u64>, chunked: bool) -> Result<(), SendError> {
        let mut buffer = vec![0; COPY_BYTES.min(usize::try_from(range.end - range.start).unwrap_or(COPY_BYTES))];
        let mut offset = range.start;
        while offset < range.end {
            let count = usize::try_from(range.end - offset).unwrap_or(COPY_BYTES).min(buffer.len());
            match file.read_at(&mut buffer[..count], offset) {
                Ok(0) => return Err(truncated(file, offset)),
                Ok(n) => {
                    self.piece(&buffer[..n], chunked).await?;
                    offset += n as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(unreadable(file, &error)),
            }
        }
        self.memory(&[]).await
    }

    /// Sends the rest of the head, ahead of a file.
    async fn head_before_more(&mut self, socket: &Socket) -> Result<(), SendError> {
        let head = std::mem::take(&mut self.head);
        let mut at = 0;
        while at < head.len() {
            match send_more(socket, &head[at..]) {
                Ok(n) => {
                    at += n;
                    self.count(n, 0, 1);
                }
                Err(error) => self.wait(error).await?,
            }
        }
        Ok(())
    }

    async fn stream(
        &mut self,
        reader: larder_store::BodyReader,
        range: Range<u64>,
        chunked: bool,
    ) -> Result<(), SendError> {
        self.passing(reader, range, chunked).await?;
        self.end(chunked).await
    }

    /// Sends a page in slices. The next slice is requested when the one before has been sent.
    async fn slices(&mut self, mut slices: Slices, chunked: bool) -> Result<(), SendError> {
        let mut after = None;
        while after.is_some() || !slices.is_over() {
            let (body, part) = match after.take() {
                Some(slice) => slice,
                None => {
                    if !slices.has_next() {
                        // Send what has arrived before waiting for more.
                        self.flush_recoding(chunked).await?;
                        self.memory(&[]).await?;
                    }
                    self.slice(&mut slices).await?
                }
            };
            // Bytes that do not fill a packet wait for the next slice, and are dropped if that cannot be fetched.
            if part.end - part.start < PACKET_BYTES && !slices.is_over() {
                after = Some(self.slice(&mut slices).await?);
            }
            match body {
                SliceBody::Stored(object) if self.recoding.is_none() => self.stored(&object.body, part).await?,
                body => self.passing(body.into_reader(), part, chunked).await?,
            }
        }
        self.end(chunked).await
    }

    /// Fetches the next slice of a page; returns it and which part of it is to be sent.
    async fn slice(&self, slices: &mut Slices) -> Result<(SliceBody, Range<u64>), SendError> {
        let slice = tokio::select! {
            biased;
            slice = slices.next(self.cx) => slice,
            () = self.sink.gone(), if self.watches => {
                return Err(SendError::Io(io::ErrorKind::ConnectionReset.into()));
            }
        };
        slice.ok_or_else(|| SendError::Incomplete("a slice of the page is missing".to_owned()))
    }

    /// Sends a part of a body that may still be arriving.
    async fn passing(
        &mut self,
        mut reader: larder_store::BodyReader,
        range: Range<u64>,
        chunked: bool,
    ) -> Result<(), SendError> {
        reader.skip_to(range.start);
        loop {
            let left = usize::try_from(range.end.saturating_sub(reader.at())).unwrap_or(usize::MAX);
            if left == 0 {
                break;
            }
            let piece = match reader.try_next(PIECE_BYTES.min(left)) {
                Piece::Pending => {
                    // Send what the origin has delivered so far before waiting for more.
                    self.flush_recoding(chunked).await?;
                    let is_held =
                        self.composed.as_ref().is_some_and(|composed| !composed.has_head_first) && reader.at() == 0;
                    if !self.head.is_empty() && !is_held {
                        self.memory(&[]).await?;
                    }
                    // If the client leaves while the origin is silent, the origin must not be kept working.
                    tokio::select! {
                        biased;
                        piece = reader.next(PIECE_BYTES.min(left)) => piece,
                        () = self.sink.gone(), if self.watches => {
                            return Err(SendError::Io(io::ErrorKind::ConnectionReset.into()));
                        }
                    }
                }
                piece => piece,
            };
            match piece {
                Piece::Data(bytes) => {
                    if bytes.len() == left && left as u64 <= SMALL_BYTES_MAX {
                        self.ex.tally.guards.clear();
                    }
                    self.piece(&bytes, chunked).await?;
                }
                Piece::File { file, offset, len } => {
                    let whole = offset..offset + len as u64;
                    if self.recoding.is_some() {
                        self.file_in_pieces(&file, whole, chunked).await?;
                    } else if chunked {
                        let mut room = [0; 18];
                        let line = chunk_head(len, &mut room).to_vec();
                        self.uncounted(&line).await?;
                        self.file(&file, whole).await?;
                        self.uncounted(b"\r\n").await?;
                    } else {
                        self.file(&file, whole).await?;
                    }
                }
                Piece::End if range.end < u64::MAX => return Err(shorter()),
                Piece::End => break,
                Piece::Failed(why) => {
                    // Send what has arrived, so that the client gets as much as from nginx. Of a composed page that
                    // failed, not even the head is sent.
                    let is_sent = |composed: &Rc<Composed>| composed.has_head_first || composed.is_cut_off.get();
                    if reader.at() > 0 || self.composed.as_ref().is_none_or(is_sent) {
                        self.flush_recoding(chunked).await?;
                        self.memory(&[]).await?;
                    }
                    return Err(SendError::Incomplete(why.to_string()));
                }
                Piece::Pending => {}
            }
        }
        Ok(())
    }

    /// Ends a body, with the last chunk if its length was not announced.
    async fn end(&mut self, chunked: bool) -> Result<(), SendError> {
        if let Some(recoding) = &mut self.recoding {
            recoding.finish().map_err(SendError::Incomplete)?;
            let last = recoding.take();
            if !last.is_empty() {
                self.raw_piece(&last, chunked).await?;
            }
        }
        // Release the limits before the client can see the end.
        self.ex.tally.guards.clear();
        if !chunked {
            return self.memory(&[]).await;
        }
        match &self.trailers()[..] {
            [] => self.uncounted(LAST_CHUNK).await,
            trailers => self.uncounted(&[b"0\r\n", trailers, b"\r\n"].concat()).await,
        }
    }

    /// The trailers, from the variables' values of now.
    fn trailers(&mut self) -> Vec<u8> {
        let loc = self.cx.loc(self.ex);
        added_fields::trailers(loc, self.ex.reply.status, Wire::Lines, self.ex, self.cx)
    }

    /// Sends compressed bytes that are held back.
    async fn flush_recoding(&mut self, chunked: bool) -> Result<(), SendError> {
        let Some(recoding) = &mut self.recoding else { return Ok(()) };
        recoding.flush().map_err(SendError::Incomplete)?;
        let made = recoding.take();
        if made.is_empty() { Ok(()) } else { self.raw_piece(&made, chunked).await }
    }

    /// Sends a piece of a body, after changing it.
    async fn piece(&mut self, bytes: &[u8], chunked: bool) -> Result<(), SendError> {
        if self.recoding.is_none() {
            return self.raw_piece(bytes, chunked).await;
        }
        // Changing bytes takes far longer than sending them, so others get a turn in between.
        for part in bytes.chunks(RECODED_BYTES) {
            let mut input = part;
            loop {
                let Some(recoding) = &mut self.recoding else { return Ok(()) };
                let fed = recoding.feed(&mut input).map_err(SendError::Incomplete)?;
                if recoding.out.len() >= RECODED_BYTES || fed == Fed::Some {
                    let made = recoding.take();
                    self.raw_piece(&made, chunked).await?;
                }
                if fed == Fed::All {
                    break;
                }
            }
            if part.len() == RECODED_BYTES {
                self.cx.worker.transfers.next().await;
            }
        }
        Ok(())
    }

    async fn raw_piece(&mut self, bytes: &[u8], chunked: bool) -> Result<(), SendError> {
        if !chunked {
            return self.memory(bytes).await;
        }
        let mut room = [0; 18];
        let line = chunk_head(bytes.len(), &mut room);
        self.head.extend_from_slice(line);
        self.memory(bytes).await?;
        self.head.extend_from_slice(b"\r\n");
        // The line break goes out with the next chunk's head.
        Ok(())
    }

    /// Sends bytes that are not part of the body: heads and ends of chunks.
    async fn uncounted(&mut self, bytes: &[u8]) -> Result<(), SendError> {
        self.head.extend_from_slice(bytes);
        self.memory(&[]).await
    }

    /// Counts what was sent. `times` is how many steps a turn may take this way ([`SENT_TIMES`]).
    fn count(&mut self, all: usize, body: usize, times: usize) {
        self.sent.0 += all as u64;
        self.sent.1 += body as u64;
        self.transfer.count(all / times);
    }

    /// Gives others a turn when one is due, and waits as the rate limit demands; returns how many bytes may be sent
    /// then.
    async fn turn(&mut self, times: usize) -> Result<usize, SendError> {
        self.transfer.give_way().await;
        Ok(self.pace().await?.min(TRANSFER_STEP_BYTES * times))
    }

    /// Waits as `limit_rate` demands; returns how many bytes may be sent then.
    async fn pace(&self) -> Result<usize, SendError> {
        let Some(limit) = &self.limit else { return Ok(usize::MAX) };
        if let Some(wait) = limit.wait(self.sent.0) {
            // If the client leaves meanwhile, stop waiting.
            tokio::select! {
                biased;
                () = tokio::time::sleep(wait) => {}
                () = self.sink.gone() => return Err(SendError::Io(io::ErrorKind::ConnectionReset.into())),
            }
        }
        Ok(limit.at_once(self.sent.0))
    }

    /// Waits until the socket takes more. Any `error` but `WouldBlock` is returned.
    async fn wait(&self, error: io::Error) -> Result<(), SendError> {
        match error.kind() {
            io::ErrorKind::WouldBlock => {}
            io::ErrorKind::Interrupted => return Ok(()),
            _ => return Err(SendError::Io(error)),
        }
        loop {
            let before = self.sink.progress_of_others();
            match tokio::time::timeout(self.timeout, self.sink.writable()).await {
                Ok(ready) => return Ok(ready?),
                // Another stream of this client made progress: it takes what it wants first.
                Err(_) if before.is_some() && self.sink.progress_of_others() > before => {}
                Err(_) => return Err(SendError::TimedOut),
            }
        }
    }

    /// Waits until the last byte has left larder.
    async fn flush(&self) -> Result<(), SendError> {
        while !self.sink.is_flushed() {
            self.wait(io::ErrorKind::WouldBlock.into()).await?;
        }
        Ok(())
    }
}

fn unreadable(file: &File, error: &io::Error) -> SendError {
    SendError::File(format!("read() \"{}\" failed{}", path_of(file), crate::log::io_error_text(error)))
}

/// nginx's words, for what `sendfile` and `read` tell alike.
fn truncated(file: &File, at: u64) -> SendError {
    SendError::File(format!("sendfile() reported that \"{}\" was truncated at {at}", path_of(file)))
}

/// Where a file is, or was when it was opened.
fn path_of(file: &File) -> String {
    let link = format!("/proc/self/fd/{}", file.as_raw_fd());
    std::fs::read_link(link).map_or_else(|_| "?".to_owned(), |path| path.display().to_string())
}

fn shorter() -> SendError {
    SendError::Incomplete("the body is shorter than it was".to_owned())
}
