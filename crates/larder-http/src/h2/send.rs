//! Sends field blocks, bodies and resets.

use super::config::{EARNED_BY_FRAME, EARNED_BY_KIB, TINY_FRAME_BYTES};
use super::connection::{Connection, TableUpdate};
use super::error::ErrorCode;
use super::frame::{self, flag, kind};
use super::stream::{State, StreamId};

/// A table size update to 0.
const NO_TABLE: u8 = 0x20;

impl Connection {
    /// Writes a response head; after a status of 1xx, another one may follow. `block` is encoded by
    /// [`hpack`](super::hpack). Does nothing if the stream [cannot send](Connection::can_send).
    #[inline]
    pub fn send_head(&mut self, stream: StreamId, block: &[u8], ends: bool, out: &mut Vec<u8>) {
        if !self.can_send(stream) {
            return;
        }
        self.write_block(stream.0, block, ends, out);
        if ends {
            self.end(stream, out);
        }
    }

    /// Our side of a stream is complete, and nothing more of it follows in `out`.
    #[inline]
    fn end(&mut self, stream: StreamId, out: &mut Vec<u8>) {
        let is_malformed = self.streams.get(stream.0).is_some_and(|stream| stream.is_malformed);
        self.close_local(stream.0, out);
        if is_malformed {
            frame::reset(stream.0, ErrorCode::PROTOCOL_ERROR, out);
            self.reset_lately.push(stream.0);
            self.forget(stream.0, out);
        }
    }

    /// Writes trailers, which end the answer.
    pub fn send_trailers(&mut self, stream: StreamId, block: &[u8], out: &mut Vec<u8>) {
        self.send_head(stream, block, true, out);
    }

    /// How much of the body may be sent on a stream now; 0 for closed streams.
    #[inline]
    pub fn capacity(&self, stream: StreamId) -> usize {
        match self.streams.get(stream.0) {
            Some(found) if found.may_send() => found.send_window.min(self.send_window).max(0) as usize,
            _ => 0,
        }
    }

    /// Sets the largest piece of a body in one frame: `http2_chunk_size`, by default 16384, and at most what the client
    /// accepts.
    pub fn set_chunk(&mut self, stream: StreamId, bytes: usize) {
        if let Some(found) = self.streams.get_mut(stream.0) {
            found.chunk_bytes = u32::try_from(bytes.max(1)).unwrap_or(frame::FRAME_BYTES_MAX);
        }
    }

    /// Writes as much of a body as the windows allow, and returns how much that was. `ends` is sent with the last byte;
    /// to end a body that was already sent, pass no data.
    #[inline]
    pub fn send_data(&mut self, stream: StreamId, data: &[u8], ends: bool, out: &mut Vec<u8>) -> usize {
        let chunk_bytes = self.streams.get(stream.0).map_or(frame::FRAME_BYTES_DEFAULT, |stream| stream.chunk_bytes);
        let frame_bytes_max = chunk_bytes.min(self.send_frame_bytes_max) as usize;
        if data.is_empty() {
            if ends && self.can_send(stream) {
                self.write_data_head(stream, 0, true, out);
                self.end(stream, out);
            }
            return 0;
        }
        let taken = self.capacity(stream).min(data.len());
        let mut rest = &data[..taken];
        while !rest.is_empty() {
            let (frame, others) = rest.split_at(rest.len().min(frame_bytes_max));
            rest = others;
            let is_last = ends && taken == data.len() && rest.is_empty();
            self.write_data_head(stream, frame.len(), is_last, out);
            out.extend_from_slice(frame);
            if is_last {
                self.end(stream, out);
            }
        }
        taken
    }

    /// Ends an answer by setting END_STREAM in its last DATA frame, which is still the last one in `out`, with its
    /// header at `at`.
    pub fn end_data_at(&mut self, stream: StreamId, at: usize, out: &mut Vec<u8>) {
        if let Some(flags) = out.get_mut(at + 4)
            && self.can_send(stream)
        {
            *flags |= flag::END_STREAM;
            self.end(stream, out);
        }
    }

    /// Writes the header of a DATA frame of `len` bytes, which must not be more than may be sent.
    #[inline]
    fn write_data_head(&mut self, stream: StreamId, len: usize, ends: bool, out: &mut Vec<u8>) {
        let Some(found) = self.streams.get_mut(stream.0).filter(|stream| stream.may_send()) else { return };
        found.send_window -= len as i32;
        self.send_window -= len as i32;
        if len >= TINY_FRAME_BYTES {
            self.idle_frames.earn(EARNED_BY_FRAME + len as u32 / 1024 * EARNED_BY_KIB);
        }
        frame::head(len, kind::DATA, if ends { flag::END_STREAM } else { 0 }, stream.0, out);
    }

    /// Resets a stream. After a complete answer, `NO_ERROR` says that the rest of the request is not needed (RFC 9113
    /// §8.1). Does nothing for closed streams.
    pub fn reset(&mut self, stream: StreamId, code: ErrorCode, out: &mut Vec<u8>) {
        match self.streams.get(stream.0).map(|stream| stream.state) {
            None => {}
            Some(State::Reset) => self.release(stream),
            Some(State::Open | State::RemoteClosed | State::LocalClosed) => {
                frame::reset(stream.0, code, out);
                self.reset_lately.push(stream.0);
                self.forget(stream.0, out);
            }
        }
    }

    /// Our side of a stream is complete.
    #[inline]
    fn close_local(&mut self, stream: u32, out: &mut Vec<u8>) {
        let Some(found) = self.streams.get_mut(stream) else { return };
        if !found.is_malformed {
            self.resets.earn(1);
        }
        match found.state {
            State::Open => found.state = State::LocalClosed,
            State::RemoteClosed => self.forget(stream, out),
            State::LocalClosed | State::Reset => {}
        }
    }

    /// Writes HEADERS and as many CONTINUATIONs as the client's frames need.
    #[inline]
    fn write_block(&mut self, stream: u32, block: &[u8], ends: bool, out: &mut Vec<u8>) {
        let frame_bytes = self.send_frame_bytes_max as usize;
        let tells = self.table_update == TableUpdate::Due;
        if tells {
            self.table_update = TableUpdate::Told;
        }
        let first_len = block.len().min(frame_bytes - usize::from(tells));
        let (first, mut rest) = block.split_at(first_len);
        let mut flags = if ends { flag::END_STREAM } else { 0 };
        if rest.is_empty() {
            flags |= flag::END_HEADERS;
        }
        frame::head(first.len() + usize::from(tells), kind::HEADERS, flags, stream, out);
        if tells {
            out.push(NO_TABLE);
        }
        out.extend_from_slice(first);
        while !rest.is_empty() {
            let (part, others) = rest.split_at(rest.len().min(frame_bytes));
            rest = others;
            let flags = if rest.is_empty() { flag::END_HEADERS } else { 0 };
            frame::head(part.len(), kind::CONTINUATION, flags, stream, out);
            out.extend_from_slice(part);
        }
    }
}
