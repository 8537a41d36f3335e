//! HEADERS and CONTINUATION (RFC 9113 §6.2, §6.10, §8.1).

use crate::h1::request::RequestHead;
use crate::time::Time;

use super::block::{Block, Section};
use super::config::{BLOCK_FRAMES_MAX, EARNED_BY_REQUEST, LIST_FACTOR};
use super::connection::{Connection, Event};
use super::error::{ConnectionError, ErrorCode};
use super::frame::{self, FRAME_BYTES_DEFAULT, FRAME_HEAD_BYTES, Frame, WINDOW_DEFAULT, flag, kind, u31};
use super::priority::{Dependency, Urgency};
use super::request::{Malformed, Request, read_request, skip_fields};
use super::stream::{State, Stream, StreamId};

/// What a field section is for.
#[derive(Clone, Copy)]
enum Purpose {
    /// It begins a stream.
    Request,
    /// It begins a stream that is refused, with this code.
    Refused,
    Trailers,
    /// It is dropped: it comes late on a stream that we reset, or on one that our GOAWAY refused.
    Nothing,
    /// It is not allowed here.
    AfterEnd,
}

impl Connection {
    #[inline]
    pub(super) fn take_headers(
        &mut self,
        frame: Frame<'_>,
        head: &mut RequestHead,
        out: &mut Vec<u8>,
        now: Time,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        let stream = frame.stream;
        if stream.is_multiple_of(2) {
            return Err(ConnectionError::protocol("HEADERS with an identifier that is not a client's"));
        }
        let mut fragment = frame.unpadded()?;
        let mut dependency = None;
        if frame.has(flag::PRIORITY) {
            let (bytes, rest) =
                fragment.split_first_chunk::<5>().ok_or(ConnectionError::size("HEADERS of incorrect length"))?;
            dependency = Some(Dependency::of(*bytes));
            fragment = rest;
        }
        if dependency.is_some_and(|dependency| dependency.on == stream) {
            return Err(ConnectionError::protocol("HEADERS of a stream that depends on itself"));
        }
        let section = Section { stream, ends: frame.has(flag::END_STREAM), dependency };
        if frame.has(flag::END_HEADERS) {
            return self.take_section(section, fragment, head, out, now);
        }
        self.block = Some(Box::new(Block { section, bytes: fragment.to_vec(), frames: 1 }));
        Ok(None)
    }

    pub(super) fn take_continuation(
        &mut self,
        frame: Frame<'_>,
        head: &mut RequestHead,
        out: &mut Vec<u8>,
        now: Time,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        let Some(mut block) = self.block.take() else {
            return Err(ConnectionError::protocol("unexpected CONTINUATION"));
        };
        if frame.stream != block.section.stream {
            return Err(ConnectionError::protocol("CONTINUATION of another stream"));
        }
        block.frames += 1;
        // Decoded fields are never much shorter than the block, so this block would be refused anyway.
        let bytes_max = self.config.head.head_bytes.saturating_mul(LIST_FACTOR) + FRAME_BYTES_DEFAULT as usize;
        if block.frames > BLOCK_FRAMES_MAX || block.bytes.len() + frame.payload.len() > bytes_max {
            return Err(ConnectionError::calm("field block in too many frames or too large"));
        }
        block.bytes.extend_from_slice(frame.payload);
        if frame.has(flag::END_HEADERS) {
            return self.take_section(block.section, &block.bytes, head, out, now);
        }
        self.block = Some(block);
        Ok(None)
    }

    /// Processes a whole field section. It is always decoded, because it changes the dynamic table.
    #[inline]
    fn take_section(
        &mut self,
        section: Section,
        block: &[u8],
        head: &mut RequestHead,
        out: &mut Vec<u8>,
        now: Time,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        let stream = section.stream;
        match self.purpose(stream)? {
            Purpose::Request if self.is_too_early(section.ends) => {
                self.note_begin(stream);
                let _ = skip_fields(&mut self.decoder, block, head, &self.config.head)?;
                self.stream_error(stream, ErrorCode::REFUSED_STREAM, out, now)
            }
            Purpose::Request => {
                // It has begun even if it cannot be read: the GOAWAY has to name it.
                self.note_begin(stream);
                let request = read_request(&mut self.decoder, block, head, &self.config.head)?;
                self.begin(section, request, head, now)
            }
            Purpose::Trailers => {
                let trailers = skip_fields(&mut self.decoder, block, head, &self.config.head)?;
                self.end_with_trailers(section, trailers, out, now)
            }
            Purpose::Refused => {
                self.note_begin(stream);
                let _ = skip_fields(&mut self.decoder, block, head, &self.config.head)?;
                self.stream_error(stream, ErrorCode::REFUSED_STREAM, out, now)
            }
            Purpose::Nothing => {
                let _ = skip_fields(&mut self.decoder, block, head, &self.config.head)?;
                self.spend(super::config::Cost::Late, now)?;
                Ok(None)
            }
            Purpose::AfterEnd => {
                let _ = skip_fields(&mut self.decoder, block, head, &self.config.head)?;
                self.stream_error(stream, ErrorCode::STREAM_CLOSED, out, now)
            }
        }
    }

    /// Whether an incomplete head has begun: in earlier frames, or in the bytes that [`Connection::next`] has left.
    pub fn is_within_head(&self, rest: &[u8]) -> bool {
        self.block.is_some() || rest.len() >= FRAME_HEAD_BYTES && rest[3] == kind::HEADERS
    }

    /// Gives up a request whose head is late. The rest of that head is read and dropped.
    pub fn expire_head(&mut self, rest: &[u8], out: &mut Vec<u8>, now: Time) -> Result<(), ConnectionError> {
        let stream = match (&self.block, rest) {
            (Some(block), _) => block.section.stream,
            (None, &[_, _, _, kind::HEADERS, _, s0, s1, s2, s3, ..]) => u31([s0, s1, s2, s3]),
            (None, _) => return Ok(()),
        };
        // These are trailers, which belong to a body with its own timeout.
        if stream <= self.last_stream || stream.is_multiple_of(2) || self.going_away.is_some() {
            return Ok(());
        }
        self.spend_reset(now)?;
        self.note_begin(stream);
        frame::reset(stream, ErrorCode::PROTOCOL_ERROR, out);
        self.reset_lately.push(stream);
        Ok(())
    }

    /// Whether a client sends a body before it knows our settings, which allow a smaller window than the standard. As
    /// in nginx, the stream is refused, and the client tries again when it has read our settings.
    fn is_too_early(&self, ends: bool) -> bool {
        !ends && !self.is_settled && self.config.stream_window_bytes < WINDOW_DEFAULT as u32
    }

    /// What the next field section of a stream is for.
    #[inline]
    fn purpose(&self, stream: u32) -> Result<Purpose, ConnectionError> {
        if stream > self.last_stream {
            if self.going_away.is_some() {
                return Ok(Purpose::Nothing);
            }
            let is_full = self.streams.len() >= self.config.max_concurrent_streams as usize;
            return Ok(if is_full { Purpose::Refused } else { Purpose::Request });
        }
        match self.streams.get(stream).map(|stream| stream.state) {
            Some(State::Open | State::LocalClosed) => Ok(Purpose::Trailers),
            Some(State::RemoteClosed) => Ok(Purpose::AfterEnd),
            Some(State::Reset) | None if self.reset_lately.has(stream) => Ok(Purpose::Nothing),
            None if self.has_gaps => Err(ConnectionError::protocol("HEADERS with an identifier that is too low")),
            Some(State::Reset) | None => {
                Err(ConnectionError::new(ErrorCode::STREAM_CLOSED, "HEADERS on a stream that is closed"))
            }
        }
    }

    /// Notes that a stream has begun; lower numbers that have not begun never will.
    #[inline]
    fn note_begin(&mut self, stream: u32) {
        let expected = if self.last_stream == 0 { 1 } else { self.last_stream + 2 };
        self.has_gaps |= stream != expected;
        self.last_stream = stream;
    }

    /// Begins a stream with its request.
    #[inline]
    fn begin(
        &mut self,
        section: Section,
        request: Request,
        head: &RequestHead,
        now: Time,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        let Section { stream, ends, dependency } = section;
        let mut request = request;
        if ends && request.content_length.is_some_and(|length| length > 0) {
            request.refuse(Malformed("\"Content-Length\" of a request without a body"));
        }
        if request.is_malformed {
            self.spend_reset(now)?;
        }
        self.idle_frames.earn(EARNED_BY_REQUEST);
        let urgency = self.urgency_of(stream, &request, head);
        let window = self.config.stream_window_bytes as i32;
        self.streams.push(Stream {
            id: stream,
            state: if ends { State::RemoteClosed } else { State::Open },
            send_window: self.send_window_initial,
            window,
            window_target: window,
            held: 0,
            returned: 0,
            body_left: request.content_length,
            chunk_bytes: FRAME_BYTES_DEFAULT,
            is_malformed: request.is_malformed,
            urgency,
        });
        match dependency {
            Some(dependency) => {
                let streams = &self.streams;
                self.tree.set(stream, true, dependency, |id| streams.get(id).is_some_and(Stream::may_send));
            }
            None if !self.tree.is_empty() => self.tree.begin(stream),
            None => {}
        }
        Ok(Some(Event::Head { stream: StreamId(stream), ends, refused: request.refused }))
    }

    /// The urgency of a stream, from an earlier PRIORITY_UPDATE or from the `Priority` field.
    #[inline]
    fn urgency_of(&mut self, stream: u32, request: &Request, head: &RequestHead) -> Urgency {
        if let Some(early) = self.early_urgencies.iter().position(|(id, _)| *id == stream) {
            return self.early_urgencies.swap_remove(early).1;
        }
        if !request.has_priority {
            return Urgency::default();
        }
        self.speaks_urgency = true;
        Urgency::of(head.fields.get_known(crate::field::known::Known::Priority).unwrap_or_default())
    }

    fn end_with_trailers(
        &mut self,
        section: Section,
        trailers: Result<(), Malformed>,
        out: &mut Vec<u8>,
        now: Time,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        let stream = section.stream;
        let is_short = self.streams.get(stream).is_some_and(|stream| stream.body_left.is_some_and(|left| left > 0));
        if !section.ends || is_short || trailers.is_err() {
            return self.stream_error(stream, ErrorCode::PROTOCOL_ERROR, out, now);
        }
        self.close_remote(stream, out);
        Ok(Some(Event::Trailers { stream: StreamId(stream) }))
    }
}
