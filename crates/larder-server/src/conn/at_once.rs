//! Writes a response as far as the socket takes it without waiting.
//!
//! A body in memory, or the part of it that is there, goes out with its head in one `writev`; a small one is copied
//! behind the head first, as a copy is cheaper than a second buffer. Files, including those in memory, go out by
//! `sendfile`. A stream that encrypts or writes frames reads the file through a buffer that the worker lends.

use std::fs::File;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use bytes::Bytes;
use larder_cache::Form;
use larder_http::chunk_head;
use larder_store::{BodyReader, Place, Whole};
use tokio::io::Interest;

use crate::exchange::Exchange;
use crate::net::buffers::{Buffers, ensure};
use crate::net::memory::part;
use crate::net::socket::Socket;
use crate::net::stream::Stream;
use crate::request::deliver::Outgoing;
use crate::turns::TRANSFER_STEP_BYTES;

use super::ready::{SMALL_BYTES_MAX, is_small};

/// Bodies up to this size are copied behind the head: measured, `send` of one buffer costs 0.24 µs less than
/// `writev` of two, and copying 8 KB less than that.
const COPIED_BYTES_MAX: u64 = 8 * 1024;
/// The most pieces of one `writev`.
const SLICES_MAX: usize = 16;
/// How many steps of [`TRANSFER_STEP_BYTES`] one turn may send of a file by `sendfile` (here) or through a buffer
/// ([`READ_TIMES`]), against one step of a body that is copied twice. All three turns take about as long. Measured: a
/// page of 1 MB that yields every 64 KB costs twice as much.
pub(super) const SENT_TIMES: usize = 8;
/// As [`SENT_TIMES`], for a file that is read through a buffer.
pub(super) const READ_TIMES: usize = 4;
/// How much of a file is read at once where `sendfile` cannot be used: as much as TLS encrypts at once.
pub(super) const COPY_BYTES: usize = 64 * 1024;

/// What is left of a response; some bytes of it may have been sent.
pub struct Rest {
    pub(super) head: Vec<u8>,
    pub(super) outgoing: Outgoing,
    /// Bytes of the body that have been sent.
    pub(super) body_sent: u64,
}

impl Rest {
    /// Wraps a response of which nothing has been sent.
    pub fn unsent(head: &[u8], outgoing: Outgoing) -> Self {
        Self { head: head.to_vec(), outgoing, body_sent: 0 }
    }
}

/// Sends what the socket takes now. `None` if that was the whole response.
///
/// `head` is the worker's own buffer; the part that was not sent is copied. Counts the bytes sent in `ex`.
pub fn try_now(
    stream: &Stream,
    head: &mut Vec<u8>,
    mut outgoing: Outgoing,
    ex: &mut Exchange,
    buffers: &Buffers,
) -> io::Result<Option<Rest>> {
    if let Outgoing::Stream { reader, range, chunked } = &mut outgoing
        && let Some(piece) = first_piece(reader, range)
    {
        range.start = reader.at();
        let is_last = !*chunked && range.is_empty();
        return write_first(stream, head, piece, is_last, *chunked, ex).map(|left| match left {
            left if left.is_empty() && is_last && stream.is_flushed() => None,
            head => Some(Rest { head, outgoing, body_sent: 0 }),
        });
    }
    if !ex.tally.guards.is_empty() && is_small(&outgoing) {
        ex.tally.guards.clear();
    }
    let head_len = head.len();
    let body_with_head = std::mem::take(&mut ex.reply.framing.body_with_head);
    let (wrote, body_len) = match &outgoing {
        Outgoing::Nothing => (retried(stream.try_write(head))?, 0),
        Outgoing::Bytes(bytes) => (write_two(stream, head, bytes)?, bytes.len() as u64),
        Outgoing::Hit(object, range) => match object.body.whole() {
            Some(whole) => (write_whole(stream, head, whole, range, buffers)?, range.end - range.start),
            None => (0, u64::MAX),
        },
        Outgoing::Stored(object, range) => match object.body.whole() {
            Some(whole) => (write_whole(stream, head, whole, range, buffers)?, range.end - range.start),
            None => (0, u64::MAX),
        },
        Outgoing::HitForm(form) => write_form(stream, head, form, buffers)?,
        Outgoing::Form(form) => write_form(stream, head, form, buffers)?,
        Outgoing::File(file, range) => {
            let len = range.end - range.start;
            match stream.plain() {
                Some(socket) => (write_file(socket, head, file, range.clone())?, len),
                None => (write_copied(stream, head, file, range.clone(), buffers)?, len),
            }
        }
        // These have to wait: the head goes out with the first piece of the body.
        Outgoing::Spliced(..)
        | Outgoing::Stream { .. }
        | Outgoing::Recoded { .. }
        | Outgoing::Trailed(..)
        | Outgoing::Slices(_)
        | Outgoing::Parts(..) => (0, u64::MAX),
    };
    let head_sent = wrote.min(head_len);
    let body_sent = (wrote - head_sent) as u64;
    let of_head = head_sent.min(head_len.saturating_sub(body_with_head));
    ex.tally.sent = (wrote as u64, (wrote - of_head) as u64);
    if body_len != u64::MAX && wrote as u64 == head_len as u64 + body_len && stream.is_flushed() {
        return Ok(None);
    }
    let left = head[head_sent..head_len].to_vec();
    Ok(Some(Rest { head: left, outgoing, body_sent }))
}

/// The first piece of a body that arrives, if it is here already: it goes out with the head.
fn first_piece(reader: &mut BodyReader, range: &Range<u64>) -> Option<Bytes> {
    if range.start > 0 {
        return None;
    }
    let most = usize::try_from(range.end).unwrap_or(usize::MAX).min(TRANSFER_STEP_BYTES);
    reader.next_in_memory(most).filter(|piece| !piece.is_empty())
}

/// Writes the head and the first piece of a body; returns what is to be written before the rest of the body.
fn write_first(
    stream: &Stream,
    head: &mut Vec<u8>,
    piece: Bytes,
    is_last: bool,
    chunked: bool,
    ex: &mut Exchange,
) -> io::Result<Vec<u8>> {
    if is_last && piece.len() as u64 <= SMALL_BYTES_MAX {
        ex.tally.guards.clear();
    }
    if chunked {
        let mut room = [0; 18];
        head.extend_from_slice(chunk_head(piece.len(), &mut room));
    }
    let before = head.len();
    let wrote = write_two(stream, head, &piece)?;
    // What is left of the piece goes out in front of the rest, and is counted as body here.
    ex.tally.sent = (wrote as u64, piece.len() as u64);
    let mut left = head[wrote.min(before)..].to_vec();
    left.extend_from_slice(&piece[wrote.saturating_sub(before)..]);
    if chunked {
        // The line break goes out with what follows.
        left.extend_from_slice(b"\r\n");
    }
    Ok(left)
}

/// How much went out; 0 where `send.rs` tries again, and gives up on a file that has become shorter.
fn retried(result: io::Result<usize>) -> io::Result<usize> {
    use io::ErrorKind::{Interrupted, UnexpectedEof, WouldBlock};
    match result {
        Err(error) if matches!(error.kind(), WouldBlock | Interrupted | UnexpectedEof) => Ok(0),
        other => other,
    }
}

fn write_two(stream: &Stream, head: &mut Vec<u8>, body: &[u8]) -> io::Result<usize> {
    if body.len() as u64 <= COPIED_BYTES_MAX {
        let len = head.len();
        head.extend_from_slice(body);
        let wrote = retried(stream.try_write(head));
        head.truncate(len);
        return wrote;
    }
    retried(stream.try_write_vectored(&[IoSlice::new(head), IoSlice::new(body)]))
}

fn write_whole(
    stream: &Stream,
    head: &mut Vec<u8>,
    whole: &Whole,
    range: &Range<u64>,
    buffers: &Buffers,
) -> io::Result<usize> {
    let place = if stream.plain().is_some() { whole.place_to_send() } else { whole.place() };
    let pieces = match &place {
        Place::Pieces([piece]) => return write_two(stream, head, part(piece, range, 0)),
        Place::Pieces(pieces) => pieces,
        Place::Buffers(pieces) => &pieces[..],
        Place::File { file, offset } => {
            let range = offset + range.start..offset + range.end;
            return match stream.plain() {
                Some(socket) => write_file(socket, head, file, range),
                None => write_copied(stream, head, file, range, buffers),
            };
        }
    };
    let mut slices = [IoSlice::new(&[]); SLICES_MAX];
    slices[0] = IoSlice::new(head);
    let count = 1 + fill(&mut slices[1..], pieces, range);
    retried(stream.try_write_vectored(&slices[..count]))
}

/// Writes a head and a part of a memory file, at most one turn's worth ([`SENT_TIMES`]).
fn write_file(socket: &Socket, head: &[u8], file: &File, range: Range<u64>) -> io::Result<usize> {
    let mut wrote = if range.is_empty() { retried(socket.try_write(head))? } else { retried(send_more(socket, head))? };
    let mut at = range.start;
    if wrote < head.len() {
        return Ok(wrote);
    }
    let end = range.end.min(at + (TRANSFER_STEP_BYTES * SENT_TIMES) as u64);
    while at < end {
        match retried(send_file(socket, file, at, (end - at) as usize))? {
            0 => break,
            n => {
                at += n as u64;
                wrote += n;
            }
        }
    }
    Ok(wrote)
}

/// As [`write_file`], to a stream that encrypts.
fn write_copied(stream: &Stream, head: &[u8], file: &File, range: Range<u64>, buffers: &Buffers) -> io::Result<usize> {
    let mut buffer = buffers.file.borrow_mut();
    ensure(&mut buffer, COPY_BYTES);
    let (mut at, mut wrote) = (range.start, 0);
    let end = range.end.min(at + (TRANSFER_STEP_BYTES * READ_TIMES) as u64);
    loop {
        let head = &head[wrote.min(head.len())..];
        let room = buffer.len().min(COPY_BYTES).saturating_sub(head.len());
        let count = room.min((end - at) as usize);
        if let Err(error) = file.read_exact_at(&mut buffer[..count], at) {
            return retried(Err(error)).map(|_| wrote);
        }
        let n = retried(stream.try_write_vectored(&[IoSlice::new(head), IoSlice::new(&buffer[..count])]))?;
        at += n.saturating_sub(head.len()) as u64;
        wrote += n;
        if n == 0 || at == end || !stream.is_flushed() {
            return Ok(wrote);
        }
    }
}

/// Sends bytes with MSG_MORE: the kernel holds them until more follows, so that both leave in one packet.
pub(super) fn send_more(socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
    let flags = rustix::net::SendFlags::MORE | rustix::net::SendFlags::NOSIGNAL;
    socket.try_io(Interest::WRITABLE, |fd| Ok(rustix::net::send(fd, bytes, flags)?))
}

/// Sends up to `count` bytes of a file from `offset`, where the file must have some.
pub(super) fn send_file(socket: &Socket, file: &File, offset: u64, count: usize) -> io::Result<usize> {
    let sent = socket.try_io(Interest::WRITABLE, |fd| {
        let mut at = offset;
        Ok(rustix::fs::sendfile(fd, file, Some(&mut at), count)?)
    })?;
    match sent {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        n => Ok(n),
    }
}

/// Writes a form, which is always complete; returns how much was written and the length of the body.
fn write_form(stream: &Stream, head: &mut Vec<u8>, form: &Form, buffers: &Buffers) -> io::Result<(usize, u64)> {
    match form.body.whole() {
        Some(whole) => Ok((write_whole(stream, head, whole, &(0..whole.len()), buffers)?, whole.len())),
        None => Ok((0, u64::MAX)),
    }
}

/// Puts the pieces of a body that lie in `range` into `slices`; returns how many.
fn fill<'a>(slices: &mut [IoSlice<'a>], pieces: &'a [Bytes], range: &Range<u64>) -> usize {
    let mut at = 0;
    let mut count = 0;
    for piece in pieces {
        let data = part(piece, range, at);
        at += piece.len() as u64;
        if data.is_empty() {
            continue;
        }
        if count == slices.len() {
            break;
        }
        slices[count] = IoSlice::new(data);
        count += 1;
    }
    count
}
