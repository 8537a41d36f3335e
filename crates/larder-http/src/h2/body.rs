//! DATA frames, and the flow-control windows for what we receive (RFC 9113 §5.2, §6.1).

use crate::time::Time;

use super::config::{Cost, EARNED_BY_KIB};
use super::connection::{Connection, Event};
use super::error::{ConnectionError, ErrorCode};
use super::frame::{self, Frame, WINDOW_MAX, flag};
use super::stream::{State, StreamId};

impl Connection {
    pub(super) fn take_data<'a>(
        &mut self,
        frame: Frame<'a>,
        out: &mut Vec<u8>,
        now: Time,
    ) -> Result<Option<Event<'a>>, ConnectionError> {
        let id = frame.stream;
        let data = frame.unpadded()?;
        let ends = frame.has(flag::END_STREAM);
        if id == 0 || id > self.last_stream && self.going_away.is_none() {
            return Err(ConnectionError::protocol("DATA on a stream that has not begun"));
        }
        // At most 2^24, and padding counts.
        let bytes = frame.payload.len() as i32;
        if bytes > self.window {
            return Err(ConnectionError::new(ErrorCode::FLOW_CONTROL_ERROR, "more DATA than the connection may take"));
        }
        self.window -= bytes;
        if data.is_empty() && !ends {
            self.spend(Cost::EmptyBody, now)?;
        }
        self.idle_frames.earn(data.len() as u32 / 1024 * EARNED_BY_KIB);
        let Some(stream) = self.streams.get_mut(id).filter(|stream| stream.state != State::Reset) else {
            self.give_back(bytes as u32, out);
            return self.late_data(id, out, now).map(|()| None);
        };
        if bytes > stream.window {
            self.give_back(bytes as u32, out);
            return self.stream_error(id, ErrorCode::FLOW_CONTROL_ERROR, out, now);
        }
        if !stream.may_receive() {
            self.give_back(bytes as u32, out);
            return self.stream_error(id, ErrorCode::STREAM_CLOSED, out, now);
        }
        let left = stream.body_left.map(|left| left.checked_sub(data.len() as u64));
        if left == Some(None) || ends && left.flatten().is_some_and(|left| left > 0) {
            let is_answered = stream.state == State::LocalClosed;
            // Even if this was its end, the stream stays open: it is answered, and then reset (RFC 9113 §8.1.1).
            stream.body_left = Some(0);
            self.give_back(bytes as u32, out);
            if is_answered {
                return self.stream_error(id, ErrorCode::PROTOCOL_ERROR, out, now);
            }
            self.spend_reset(now)?;
            return Ok(Some(Event::WrongLength { stream: StreamId(id) }));
        }
        stream.body_left = left.flatten();
        stream.window -= bytes;
        stream.held += data.len() as u32;
        let padding = bytes as u32 - data.len() as u32;
        if padding > 0 {
            self.return_bytes(id, padding, out);
        }
        if ends {
            self.close_remote(id, out);
        } else if data.is_empty() {
            return Ok(None);
        }
        Ok(Some(Event::Data { stream: StreamId(id), data, ends }))
    }

    /// Says that `bytes` of [`Event::Data`] are consumed, so that the client may send as many more. The client gets a
    /// WINDOW_UPDATE once half a window has accumulated. For closed streams this does nothing: their bytes are given
    /// back automatically.
    pub fn consumed(&mut self, stream: StreamId, bytes: usize, out: &mut Vec<u8>) {
        let Some(found) = self.streams.get_mut(stream.0) else { return };
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(found.held);
        found.held -= bytes;
        self.return_bytes(stream.0, bytes, out);
    }

    /// Raises a stream's window to `window_bytes`, if that is more than before, as nginx does once the body is read.
    pub fn widen(&mut self, stream: StreamId, window_bytes: u32, out: &mut Vec<u8>) {
        let Some(found) = self.streams.get_mut(stream.0).filter(|stream| stream.may_receive()) else { return };
        let target = i32::try_from(window_bytes).unwrap_or(WINDOW_MAX);
        let more = target.saturating_sub(found.window_target);
        // The window that the client had before it knew our settings may be above the target.
        let given = i64::from(found.window) + i64::from(found.held) + i64::from(found.returned);
        if more > 0 && given + i64::from(more) <= i64::from(WINDOW_MAX) {
            found.window_target = target;
            found.window += more;
            frame::window_update(stream.0, more as u32, out);
        }
    }

    /// Gives bytes back to a stream and to the connection.
    fn return_bytes(&mut self, stream: u32, bytes: u32, out: &mut Vec<u8>) {
        if let Some(found) = self.streams.get_mut(stream) {
            found.returned += bytes;
            if found.may_receive() && found.returned as i32 >= (found.window_target / 2).max(1) {
                let returned = std::mem::take(&mut found.returned);
                found.window += returned as i32;
                frame::window_update(stream, returned, out);
            }
        }
        self.give_back(bytes, out);
    }

    /// Gives bytes back to the connection.
    pub(super) fn give_back(&mut self, bytes: u32, out: &mut Vec<u8>) {
        self.returned += bytes;
        if self.returned >= self.config.connection_window_bytes / 2 {
            let returned = std::mem::take(&mut self.returned);
            self.window += returned as i32;
            frame::window_update(0, returned, out);
        }
    }

    /// DATA on a closed stream.
    fn late_data(&mut self, stream: u32, out: &mut Vec<u8>, now: Time) -> Result<(), ConnectionError> {
        self.spend(Cost::Late, now)?;
        let is_expected = self.reset_lately.has(stream) || self.going_away.is_some_and(|last| stream > last);
        if !is_expected {
            frame::reset(stream, ErrorCode::STREAM_CLOSED, out);
        }
        Ok(())
    }

    /// The client has sent all of a request.
    pub(super) fn close_remote(&mut self, stream: u32, out: &mut Vec<u8>) {
        let Some(found) = self.streams.get_mut(stream) else { return };
        match found.state {
            State::Open => found.state = State::RemoteClosed,
            State::LocalClosed => self.forget(stream, out),
            State::RemoteClosed | State::Reset => {}
        }
    }
}
