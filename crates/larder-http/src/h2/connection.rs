//! The state of a connection, and the dispatch of its frames.

use std::cmp::Ordering;

use crate::h1::error::HeadError;
use crate::h1::request::RequestHead;
use crate::time::Time;

use super::allowance::Allowance;
use super::block::Block;
use super::config::{Config, Cost};
use super::error::{ConnectionError, ErrorCode};
use super::frame::{self, FRAME_BYTES_DEFAULT, Frame, PREFACE, WINDOW_DEFAULT, WINDOW_MAX, kind, setting};
use super::hpack::Decoder;
use super::priority::Tree;
use super::stream::{State, Stream, StreamId, Streams};

/// The server side of an HTTP/2 connection.
#[derive(Debug)]
pub struct Connection {
    pub(super) config: Config,
    phase: Phase,
    pub(super) decoder: Decoder,
    /// A field block of which more is to come.
    pub(super) block: Option<Box<Block>>,
    pub(super) streams: Streams,
    pub(super) tree: Tree,
    /// Whether the client uses the priorities of RFC 9218, which go before the tree.
    pub(super) speaks_urgency: bool,
    /// Urgencies of streams that have not begun.
    pub(super) early_urgencies: Vec<(u32, super::priority::Urgency)>,
    /// The highest stream that the client began, refused ones included.
    pub(super) last_stream: u32,
    /// Whether the client ever skipped a stream number, so that a lower number may never have begun.
    pub(super) has_gaps: bool,
    /// The last stream that our GOAWAY promised to answer.
    pub(super) going_away: Option<u32>,
    /// Whether the client has sent GOAWAY.
    pub(super) is_client_leaving: bool,
    /// How much we may send on all streams together.
    pub(super) send_window: i32,
    /// How much the client may send. Then: consumed bytes that it has no WINDOW_UPDATE for yet.
    pub(super) window: i32,
    pub(super) returned: u32,
    /// The initial window that the client has set.
    pub(super) send_window_initial: i32,
    pub(super) send_frame_bytes_max: u32,
    pub(super) table_update: TableUpdate,
    /// Whether the client knows our settings.
    pub(super) is_settled: bool,
    /// Streams that we reset lately: the client may not have known that when it sent more frames.
    pub(super) reset_lately: ResetLately,
    pub(super) resets: Allowance,
    pub(super) idle_frames: Allowance,
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug)]
enum Phase {
    Preface,
    /// The client's first frame.
    First,
    Frames,
    Failed(ConnectionError),
}

/// Whether a field block has to tell the client that our encoder has no dynamic table (RFC 7541 §4.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TableUpdate {
    /// Not needed: the client allows a table of the default size.
    None,
    /// The next field block has to say so.
    Due,
    Told,
}

/// What has happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event<'a> {
    /// A request. Its head is in `head`; pass another one to the next call.
    ///
    /// As with HTTP/1, [`check_host`](crate::check_host) comes next.
    Head {
        /// Its stream.
        stream: StreamId,
        /// Whether there is no body.
        ends: bool,
        /// Why it has to be answered with an error. Then `head` has what the log needs, and no fields.
        refused: Option<HeadError>,
    },
    /// A part of a body. Report it to [`Connection::consumed`] when it is processed.
    Data {
        /// Its stream.
        stream: StreamId,
        /// The part; may be empty at the end.
        data: &'a [u8],
        /// Whether it is the last one.
        ends: bool,
    },
    /// A body is complete; it had trailers, which are dropped.
    Trailers {
        /// Its stream.
        stream: StreamId,
    },
    /// A body is not as long as its head said. Nothing more of it follows. Answer if you like, then reset the stream
    /// with PROTOCOL_ERROR.
    WrongLength {
        /// Its stream.
        stream: StreamId,
    },
    /// A stream was reset, by the client or because of what it sent. Drop the answer and call [`Connection::release`];
    /// until then the stream counts as running.
    Reset {
        /// The stream.
        stream: StreamId,
        /// Why: the client's code, or ours.
        code: ErrorCode,
    },
    /// A stream or the connection has room to send again.
    Window,
    /// The client will begin no more streams.
    GoAway,
}

impl Connection {
    /// A new connection; writes our SETTINGS to `out`.
    pub fn new(config: &Config, out: &mut Vec<u8>) -> Connection {
        let mut config = config.clone();
        config.max_frame_bytes = config.max_frame_bytes.clamp(FRAME_BYTES_DEFAULT, frame::FRAME_BYTES_MAX);
        config.stream_window_bytes = config.stream_window_bytes.min(WINDOW_MAX as u32);
        config.connection_window_bytes = config.connection_window_bytes.clamp(WINDOW_DEFAULT as u32, WINDOW_MAX as u32);
        let mut settings = [(0, 0); 3];
        let mut count = 0;
        for (id, value, default) in [
            (setting::MAX_CONCURRENT_STREAMS, config.max_concurrent_streams, u32::MAX),
            (setting::INITIAL_WINDOW_SIZE, config.stream_window_bytes, WINDOW_DEFAULT as u32),
            (setting::MAX_FRAME_SIZE, config.max_frame_bytes, FRAME_BYTES_DEFAULT),
        ] {
            if value != default {
                settings[count] = (id, value);
                count += 1;
            }
        }
        frame::settings(&settings[..count], out);
        frame::window_update(0, config.connection_window_bytes - WINDOW_DEFAULT as u32, out);
        Connection {
            phase: Phase::Preface,
            decoder: Decoder::new(),
            block: None,
            streams: Streams::default(),
            tree: Tree::default(),
            speaks_urgency: false,
            early_urgencies: Vec::new(),
            last_stream: 0,
            has_gaps: false,
            going_away: None,
            is_client_leaving: false,
            send_window: WINDOW_DEFAULT,
            window: config.connection_window_bytes as i32,
            returned: 0,
            send_window_initial: WINDOW_DEFAULT,
            send_frame_bytes_max: FRAME_BYTES_DEFAULT,
            table_update: TableUpdate::None,
            is_settled: false,
            reset_lately: ResetLately::default(),
            resets: Allowance::default(),
            idle_frames: Allowance::default(),
            config,
        }
    }

    /// Processes whole frames of `input` until there is an event. `None` if there is no further whole frame; then the
    /// rest of `input` is shorter than a frame of [`Config::max_frame_bytes`].
    ///
    /// A request head is read into `head`, whatever that contains; other events leave nothing there. Replies are
    /// written to `out`: at most twice the bytes that were read, and a GOAWAY. After an error, every call returns the
    /// same error.
    pub fn next<'a>(
        &mut self,
        input: &mut &'a [u8],
        head: &mut RequestHead,
        out: &mut Vec<u8>,
        now: Time,
    ) -> Result<Option<Event<'a>>, ConnectionError> {
        if let Phase::Failed(error) = self.phase {
            return Err(error);
        }
        let result = self.next_event(input, head, out, now);
        if let Err(error) = result {
            let last = self.going_away.unwrap_or(self.last_stream);
            frame::go_away(last, error.code, error.debug, out);
            self.going_away = Some(last);
            self.phase = Phase::Failed(error);
        }
        result
    }

    #[inline]
    fn next_event<'a>(
        &mut self,
        input: &mut &'a [u8],
        head: &mut RequestHead,
        out: &mut Vec<u8>,
        now: Time,
    ) -> Result<Option<Event<'a>>, ConnectionError> {
        if matches!(self.phase, Phase::Preface) && !self.take_preface(input)? {
            return Ok(None);
        }
        loop {
            let Some(frame) = Frame::take(input, self.config.max_frame_bytes as usize)? else {
                return Ok(None);
            };
            let event = self.take_frame(frame, head, out, now)?;
            if event.is_some() {
                return Ok(event);
            }
        }
    }

    fn take_preface(&mut self, input: &mut &[u8]) -> Result<bool, ConnectionError> {
        if let Some(rest) = input.strip_prefix(PREFACE) {
            *input = rest;
            self.phase = Phase::First;
            return Ok(true);
        }
        if PREFACE.starts_with(input) {
            return Ok(false);
        }
        Err(ConnectionError::protocol("invalid connection preface"))
    }

    #[inline]
    fn take_frame<'a>(
        &mut self,
        frame: Frame<'a>,
        head: &mut RequestHead,
        out: &mut Vec<u8>,
        now: Time,
    ) -> Result<Option<Event<'a>>, ConnectionError> {
        if self.block.is_some() && frame.kind != kind::CONTINUATION {
            return Err(ConnectionError::protocol("frame within a field block"));
        }
        if matches!(self.phase, Phase::First) {
            // It should be SETTINGS (RFC 9113 §3.4). As in nginx, a client may omit them.
            self.phase = Phase::Frames;
            self.resets = Allowance::from(now);
            self.idle_frames = Allowance::from(now);
        }
        match frame.kind {
            kind::DATA => self.take_data(frame, out, now),
            kind::HEADERS => self.take_headers(frame, head, out, now),
            kind::CONTINUATION => self.take_continuation(frame, head, out, now),
            kind::PRIORITY => self.take_priority(frame, now),
            kind::RST_STREAM => self.take_reset(frame, out, now),
            kind::SETTINGS => self.take_settings(frame, out, now),
            kind::PING => self.take_ping(frame, out, now),
            kind::GOAWAY => self.take_go_away(frame, now),
            kind::WINDOW_UPDATE => self.take_window_update(frame, out, now),
            kind::PRIORITY_UPDATE => self.take_priority_update(frame, now),
            _ => {
                // One more point for each KiB that was read in vain.
                self.spend(Cost::Late, now)?;
                self.spend_points(frame.payload.len() as u32 / 1024, now)?;
                Ok(None)
            }
        }
    }

    /// Whether the stream is running: begun, and neither ended nor reset.
    pub fn is_open(&self, stream: StreamId) -> bool {
        self.streams.get(stream.0).is_some_and(|stream| stream.state != State::Reset)
    }

    /// Whether an answer, or more of it, may be sent.
    pub fn can_send(&self, stream: StreamId) -> bool {
        self.streams.get(stream.0).is_some_and(Stream::may_send)
    }

    /// How many streams are running, those included that were reset and not released.
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// Whether no further streams will begin, because one side has sent GOAWAY.
    pub fn is_draining(&self) -> bool {
        self.going_away.is_some() || self.is_client_leaving
    }

    /// Sends GOAWAY: streams that begin from now on will not be answered; running ones go on.
    pub fn go_away(&mut self, out: &mut Vec<u8>) {
        if self.going_away.is_none() {
            self.going_away = Some(self.last_stream);
            frame::go_away(self.last_stream, ErrorCode::NO_ERROR, "", out);
        }
    }

    /// Forgets a stream that was reset, see [`Event::Reset`].
    pub fn release(&mut self, stream: StreamId) {
        if self.streams.get(stream.0).is_some_and(|stream| stream.state == State::Reset) {
            self.streams.remove(stream.0);
        }
    }

    /// The order in which two streams send: the lesser one first; equal ones should take turns.
    ///
    /// If the client uses urgencies (RFC 9218), they decide, and then the order in which streams began. Otherwise the
    /// tree of RFC 7540 decides, as in nginx: the stream nearer to the root goes first, then the one with the larger
    /// share.
    pub fn order(&self, a: StreamId, b: StreamId) -> Ordering {
        if self.speaks_urgency {
            let urgency = |id: StreamId| self.streams.get(id.0).map(|stream| stream.urgency).unwrap_or_default();
            return urgency(a).order(a.0, urgency(b), b.0);
        }
        if self.tree.is_empty() {
            return Ordering::Equal;
        }
        self.tree.rank(a.0).order(self.tree.rank(b.0))
    }

    /// The memory the connection holds beside itself.
    pub fn heap_bytes(&self) -> usize {
        let block = self.block.as_ref().map_or(0, |block| block.heap_bytes());
        let early = self.early_urgencies.capacity() * size_of::<(u32, super::priority::Urgency)>();
        self.decoder.heap_bytes() + self.streams.heap_bytes() + self.tree.heap_bytes() + block + early
    }

    /// Resets a stream because of what the client sent. `None` if the application does not know the stream.
    pub(super) fn stream_error(
        &mut self,
        stream: u32,
        code: ErrorCode,
        out: &mut Vec<u8>,
        now: Time,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        self.spend_reset(now)?;
        frame::reset(stream, code, out);
        self.reset_lately.push(stream);
        if !self.is_open(StreamId(stream)) {
            return Ok(None);
        }
        self.abandon(stream, out);
        Ok(Some(Event::Reset { stream: StreamId(stream), code }))
    }

    /// Marks a stream as reset; the application still has to release it.
    pub(super) fn abandon(&mut self, stream: u32, out: &mut Vec<u8>) {
        if let Some(abandoned) = self.streams.get_mut(stream) {
            abandoned.state = State::Reset;
            let held = std::mem::take(&mut abandoned.held);
            self.tree.close(stream);
            self.give_back(held, out);
        }
    }

    /// Forgets a stream.
    pub(super) fn forget(&mut self, stream: u32, out: &mut Vec<u8>) {
        if let Some(forgotten) = self.streams.remove(stream) {
            self.tree.close(stream);
            self.give_back(forgotten.held, out);
        }
    }

    pub(super) fn spend(&mut self, cost: Cost, now: Time) -> Result<(), ConnectionError> {
        self.spend_points(cost as u32, now)
    }

    fn spend_points(&mut self, points: u32, now: Time) -> Result<(), ConnectionError> {
        let spent = self.idle_frames.spend(points, self.config.idle_frames, now);
        spent.map_err(|_| ConnectionError::calm("too many frames of no use"))
    }

    pub(super) fn spend_reset(&mut self, now: Time) -> Result<(), ConnectionError> {
        let spent = self.resets.spend(1, self.config.resets, now);
        spent.map_err(|_| ConnectionError::calm("too many streams that were reset"))
    }
}

/// The streams we reset last.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct ResetLately {
    streams: [u32; 16],
    next: u8,
}

impl ResetLately {
    pub fn push(&mut self, stream: u32) {
        let place = usize::from(self.next) % self.streams.len();
        self.streams[place] = stream;
        self.next = self.next.wrapping_add(1);
    }

    pub fn has(&self, stream: u32) -> bool {
        self.streams.contains(&stream)
    }
}
