//! Control frames: PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE (RFC 9113 §6.3 to §6.9), PRIORITY_UPDATE
//! (RFC 9218 §7.1).

use crate::time::Time;

use super::config::Cost;
use super::connection::{Connection, Event, TableUpdate};
use super::error::{ConnectionError, ErrorCode};
use super::frame::{self, FRAME_BYTES_DEFAULT, FRAME_BYTES_MAX, Frame, flag, kind, setting, u31};
use super::hpack::TABLE_BYTES_MAX;
use super::priority::{Dependency, Urgency};
use super::stream::{State, Stream, StreamId};

/// For how many streams that have not begun urgencies are kept.
const EARLY_URGENCIES_MAX: usize = 32;

impl Connection {
    pub(super) fn take_priority(
        &mut self,
        frame: Frame<'_>,
        now: Time,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        self.spend(Cost::Priority, now)?;
        let bytes: [u8; 5] =
            frame.payload.try_into().map_err(|_| ConnectionError::size("PRIORITY of incorrect length"))?;
        let dependency = Dependency::of(bytes);
        if frame.stream == 0 || dependency.on == frame.stream {
            return Err(ConnectionError::protocol("PRIORITY with an incorrect identifier or dependency"));
        }
        let streams = &self.streams;
        let is_open = |id| streams.get(id).is_some_and(Stream::may_send);
        self.tree.set(frame.stream, is_open(frame.stream), dependency, is_open);
        Ok(None)
    }

    pub(super) fn take_priority_update(
        &mut self,
        frame: Frame<'_>,
        now: Time,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        self.spend(Cost::Priority, now)?;
        let (id, value) = frame
            .payload
            .split_first_chunk::<4>()
            .ok_or(ConnectionError::size("PRIORITY_UPDATE of incorrect length"))?;
        let id = u31(*id);
        if frame.stream != 0 || id.is_multiple_of(2) {
            return Err(ConnectionError::protocol("PRIORITY_UPDATE with an incorrect identifier"));
        }
        self.speaks_urgency = true;
        let urgency = Urgency::of(value);
        if let Some(stream) = self.streams.get_mut(id) {
            stream.urgency = urgency;
        } else if id > self.last_stream {
            match self.early_urgencies.iter_mut().find(|(early, _)| *early == id) {
                Some((_, early)) => *early = urgency,
                None => {
                    let last = self.last_stream;
                    self.early_urgencies.retain(|(early, _)| *early > last);
                    if self.early_urgencies.len() < EARLY_URGENCIES_MAX {
                        self.early_urgencies.push((id, urgency));
                    }
                }
            }
        }
        Ok(None)
    }

    pub(super) fn take_reset(
        &mut self,
        frame: Frame<'_>,
        out: &mut Vec<u8>,
        now: Time,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        let code: [u8; 4] =
            frame.payload.try_into().map_err(|_| ConnectionError::size("RST_STREAM of incorrect length"))?;
        self.must_have_begun(frame.stream, "RST_STREAM on a stream that has not begun")?;
        let Some(stream) = self.streams.get_mut(frame.stream) else {
            self.spend(Cost::Late, now)?;
            return Ok(None);
        };
        match stream.state {
            State::Reset => {
                self.spend(Cost::Late, now)?;
                return Ok(None);
            }
            // The answer is complete, so no work was in vain.
            State::LocalClosed => self.spend(Cost::Late, now)?,
            State::Open | State::RemoteClosed => self.spend_reset(now)?,
        }
        let stream = frame.stream;
        self.abandon(stream, out);
        Ok(Some(Event::Reset { stream: StreamId(stream), code: ErrorCode(u32::from_be_bytes(code)) }))
    }

    pub(super) fn take_settings(
        &mut self,
        frame: Frame<'_>,
        out: &mut Vec<u8>,
        now: Time,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        if frame.stream != 0 {
            return Err(ConnectionError::protocol("SETTINGS with an incorrect identifier"));
        }
        if frame.has(flag::ACK) {
            if !frame.payload.is_empty() {
                return Err(ConnectionError::size("SETTINGS that acknowledge and set"));
            }
            if std::mem::replace(&mut self.is_settled, true) {
                self.spend(Cost::Settings, now)?;
            }
            return Ok(None);
        }
        self.spend(Cost::Settings, now)?;
        let (settings, rest) = frame.payload.as_chunks::<6>();
        if !rest.is_empty() {
            return Err(ConnectionError::size("SETTINGS of incorrect length"));
        }
        let mut window = self.send_window_initial;
        for &[i0, i1, v0, v1, v2, v3] in settings {
            let value = u32::from_be_bytes([v0, v1, v2, v3]);
            match u16::from_be_bytes([i0, i1]) {
                // Our encoder has no table; it has to say so once the client lowers the limit.
                setting::HEADER_TABLE_SIZE
                    if value < TABLE_BYTES_MAX as u32 && self.table_update == TableUpdate::None =>
                {
                    self.table_update = TableUpdate::Due;
                }
                setting::ENABLE_PUSH if value > 1 => {
                    return Err(ConnectionError::protocol("SETTINGS with an incorrect ENABLE_PUSH"));
                }
                setting::INITIAL_WINDOW_SIZE => {
                    window = i32::try_from(value).map_err(|_| {
                        ConnectionError::new(
                            ErrorCode::FLOW_CONTROL_ERROR,
                            "SETTINGS with an incorrect INITIAL_WINDOW_SIZE",
                        )
                    })?;
                }
                setting::MAX_FRAME_SIZE => {
                    if !(FRAME_BYTES_DEFAULT..=FRAME_BYTES_MAX).contains(&value) {
                        return Err(ConnectionError::protocol("SETTINGS with an incorrect MAX_FRAME_SIZE"));
                    }
                    self.send_frame_bytes_max = value;
                }
                setting::NO_RFC7540_PRIORITIES => match value {
                    0 => {}
                    1 => self.speaks_urgency = true,
                    _ => return Err(ConnectionError::protocol("SETTINGS with an incorrect NO_RFC7540_PRIORITIES")),
                },
                _ => {}
            }
        }
        let opens = self.set_initial_window(window)?;
        frame::head(0, kind::SETTINGS, flag::ACK, 0, out);
        Ok(opens.then_some(Event::Window))
    }

    /// Changes the window of every stream by the change of the initial one. True if a stream can send again.
    fn set_initial_window(&mut self, window: i32) -> Result<bool, ConnectionError> {
        let change = i64::from(window) - i64::from(self.send_window_initial);
        self.send_window_initial = window;
        let mut opens = false;
        if change != 0 {
            for stream in self.streams.iter_mut() {
                let before = stream.send_window;
                stream.send_window = i32::try_from(i64::from(before) + change).map_err(|_| {
                    ConnectionError::new(ErrorCode::FLOW_CONTROL_ERROR, "SETTINGS that make a window too large")
                })?;
                opens |= before <= 0 && stream.send_window > 0 && stream.may_send();
            }
        }
        Ok(opens)
    }

    pub(super) fn take_ping(
        &mut self,
        frame: Frame<'_>,
        out: &mut Vec<u8>,
        now: Time,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        self.spend(Cost::Ping, now)?;
        if frame.payload.len() != 8 {
            return Err(ConnectionError::size("PING of incorrect length"));
        }
        if frame.stream != 0 {
            return Err(ConnectionError::protocol("PING with an incorrect identifier"));
        }
        if !frame.has(flag::ACK) {
            frame::head(8, kind::PING, flag::ACK, 0, out);
            out.extend_from_slice(frame.payload);
        }
        Ok(None)
    }

    pub(super) fn take_go_away(
        &mut self,
        frame: Frame<'_>,
        now: Time,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        self.spend(Cost::Settings, now)?;
        if frame.payload.len() < 8 {
            return Err(ConnectionError::size("GOAWAY of incorrect length"));
        }
        if frame.stream != 0 {
            return Err(ConnectionError::protocol("GOAWAY with an incorrect identifier"));
        }
        self.is_client_leaving = true;
        Ok(Some(Event::GoAway))
    }

    pub(super) fn take_window_update(
        &mut self,
        frame: Frame<'_>,
        out: &mut Vec<u8>,
        now: Time,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        self.spend(Cost::WindowUpdate, now)?;
        let bytes: [u8; 4] =
            frame.payload.try_into().map_err(|_| ConnectionError::size("WINDOW_UPDATE of incorrect length"))?;
        let more = u31(bytes) as i32;
        if frame.stream == 0 {
            if more == 0 {
                return Err(ConnectionError::protocol("WINDOW_UPDATE with an increment of 0"));
            }
            let before = self.send_window;
            self.send_window = before.checked_add(more).ok_or(ConnectionError::new(
                ErrorCode::FLOW_CONTROL_ERROR,
                "WINDOW_UPDATE that makes the window of the connection too large",
            ))?;
            return Ok((before <= 0).then_some(Event::Window));
        }
        self.must_have_begun(frame.stream, "WINDOW_UPDATE on a stream that has not begun")?;
        let Some(stream) = self.streams.get_mut(frame.stream).filter(|stream| stream.state != State::Reset) else {
            return Ok(None);
        };
        if more == 0 {
            return self.stream_error(frame.stream, ErrorCode::PROTOCOL_ERROR, out, now);
        }
        let before = stream.send_window;
        let Some(window) = before.checked_add(more) else {
            return self.stream_error(frame.stream, ErrorCode::FLOW_CONTROL_ERROR, out, now);
        };
        stream.send_window = window;
        Ok((before <= 0 && window > 0 && stream.may_send()).then_some(Event::Window))
    }

    fn must_have_begun(&self, stream: u32, debug: &'static str) -> Result<(), ConnectionError> {
        let may_be_late = self.going_away.is_some();
        if stream.is_multiple_of(2) || stream > self.last_stream && !may_be_late {
            return Err(ConnectionError::protocol(debug));
        }
        Ok(())
    }
}
