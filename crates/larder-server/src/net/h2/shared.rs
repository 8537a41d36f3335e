//! The state that the driver of an HTTP/2 connection shares with the tasks of its streams, and who may send next.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::task::Waker;

use bytes::Bytes;
use larder_http::h2::{Config, Connection as Codec, ConnectionError, ErrorCode, Event, FRAME_HEAD_BYTES, StreamId};
use larder_http::{RequestHead, Time};

use crate::net::buffers::Buffers;
use crate::net::memory::InMemory;
use crate::net::stream::Stream;

/// How many bytes of frames may wait for the client; beyond this, no task adds to them.
pub const OUT_BYTES_MAX: usize = 128 * 1024;

/// How much of a request's body may arrive before it is read.
const BODY_WINDOW_BYTES: u32 = 256 * 1024;

/// The least that a stream may send in a round.
const SHARE_BYTES_MIN: usize = 16 * 1024;

/// How much each of `streams` streams may send in a round.
fn share(streams: usize) -> usize {
    (OUT_BYTES_MAX / streams.max(1)).max(SHARE_BYTES_MIN)
}

/// What the driver and the tasks share.
pub struct Shared {
    state: RefCell<State>,
    /// Wakes the driver when there are frames to write.
    driver: Cell<Option<Waker>>,
    buffers: Rc<Buffers>,
}

struct State {
    codec: Codec,
    /// Frames to be sent; the first `written` bytes were.
    out: Vec<u8>,
    written: usize,
    /// The stream of the last DATA frame that a task added to `out`, and the place of its header.
    last_data: Option<(StreamId, usize)>,
    /// The streams that tasks answer.
    streams: Vec<Slot>,
    /// How many times waiting tasks were woken.
    round: u64,
    /// How many bytes of frames were written since the connection began.
    progress: u64,
    /// How many times the driver saw that the client had taken some of what waits for it.
    steps: u64,
    /// Whether a task has ended since the driver last asked.
    ended: bool,
    /// Whether the connection has ended.
    is_over: bool,
}

/// A stream that a task answers.
struct Slot {
    id: StreamId,
    /// The part of the request's body that has arrived and was not read. In one piece, so that small frames take little
    /// room.
    body: Vec<u8>,
    /// Whether the whole body has arrived.
    body_ended: bool,
    /// Whether the body's length differs from the declared one.
    is_wrong: bool,
    /// Whether the client has reset the stream.
    is_gone: bool,
    /// How much it may still send in this round.
    quota: usize,
    /// The round in which it last sent.
    sent_in: u64,
    /// Whether a task reads the body, so that more of it may be requested.
    is_read: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// The slot of this stream, if a task answers it. There are few, so a search is cheaper than a table.
fn slot_of(streams: &mut [Slot], id: StreamId) -> Option<&mut Slot> {
    streams.iter_mut().find(|slot| slot.id == id)
}

impl Slot {
    fn wake(&mut self) {
        for waker in [self.reader.take(), self.writer.take()].into_iter().flatten() {
            waker.wake();
        }
    }
}

/// The place of the last of the frames that begin at `at`.
fn last_frame(frames: &[u8], mut at: usize) -> Option<usize> {
    let mut last = None;
    while let Some([l0, l1, l2, ..]) = frames.get(at..) {
        last = Some(at);
        at += FRAME_HEAD_BYTES + u32::from_be_bytes([0, *l0, *l1, *l2]) as usize;
    }
    last
}

/// The result of an attempt to read or write on a stream.
pub enum Tried<T> {
    /// It was done.
    Done(T),
    /// Not possible now; the waker is kept.
    Wait,
    /// The client has reset the stream or left.
    Gone,
}

impl Shared {
    /// The state of a new connection. Our settings are the first frame.
    pub fn new(config: &Config, buffers: &Rc<Buffers>) -> Rc<Self> {
        let mut out = buffers.frames();
        let codec = Codec::new(config, &mut out);
        Rc::new(Self {
            state: RefCell::new(State {
                codec,
                out,
                written: 0,
                last_data: None,
                streams: Vec::new(),
                round: 0,
                progress: 0,
                steps: 0,
                ended: false,
                is_over: false,
            }),
            driver: Cell::new(None),
            buffers: Rc::clone(buffers),
        })
    }

    /// Keeps the driver's waker, to be called when there are frames to write.
    pub fn drive_with(&self, waker: &Waker) {
        let same = self.driver.take().filter(|old| old.will_wake(waker));
        self.driver.set(Some(same.unwrap_or_else(|| waker.clone())));
    }

    fn wake_driver(&self) {
        if let Some(waker) = self.driver.take() {
            waker.wake_by_ref();
            self.driver.set(Some(waker));
        }
    }

    /// The next event of `input`.
    pub fn next<'a>(
        &self,
        input: &mut &'a [u8],
        head: &mut RequestHead,
        now: Time,
    ) -> Result<Option<Event<'a>>, ConnectionError> {
        let state = &mut *self.state.borrow_mut();
        state.lend(&self.buffers);
        state.codec.next(input, head, &mut state.out, now)
    }

    /// Sends a whole response, head and body, if the windows allow it. Returns how many bytes were sent: in total, and
    /// of the body. If the body cannot be read to its end, the stream is reset and fewer are sent.
    pub fn send_whole(
        &self,
        stream: StreamId,
        head: &[u8],
        body: &InMemory<'_>,
        chunk_bytes: usize,
    ) -> Option<(u64, u64)> {
        let state = &mut *self.state.borrow_mut();
        let len = usize::try_from(body.bytes()).ok()?;
        if len > state.codec.capacity(stream) && len > 0 || state.unsent() + len > OUT_BYTES_MAX {
            return None;
        }
        state.lend(&self.buffers);
        let before = state.out.len();
        if len > chunk_bytes {
            state.codec.set_chunk(stream, chunk_bytes);
        }
        state.codec.send_head(stream, head, len == 0, &mut state.out);
        let mut left = len;
        let read = body.for_each(&mut self.buffers.file.borrow_mut(), |piece| {
            left -= piece.len();
            if !piece.is_empty() {
                state.codec.send_data(stream, piece, left == 0, &mut state.out);
            }
        });
        if read.is_err() {
            state.codec.reset(stream, ErrorCode::INTERNAL_ERROR, &mut state.out);
        }
        Some(((state.out.len() - before) as u64, (len - left) as u64))
    }

    /// Sets the largest piece of a body in one frame of a stream.
    pub fn set_chunk(&self, stream: StreamId, bytes: usize) {
        self.state.borrow_mut().codec.set_chunk(stream, bytes);
    }

    /// Whether `rest`, which made no event, begins a head that is not complete.
    pub fn is_within_head(&self, rest: &[u8]) -> bool {
        self.state.borrow().codec.is_within_head(rest)
    }

    /// Gives up the request whose head did not arrive in time.
    pub fn expire_head(&self, rest: &[u8], now: Time) -> Result<(), ConnectionError> {
        let state = &mut *self.state.borrow_mut();
        state.lend(&self.buffers);
        state.codec.expire_head(rest, &mut state.out, now)
    }

    /// Stores a piece of a request's body.
    pub fn body(&self, stream: StreamId, data: &[u8], ends: bool) {
        let state = &mut *self.state.borrow_mut();
        let Some(slot) = slot_of(&mut state.streams, stream) else {
            // No task reads it; the connection's window is returned for the others.
            state.lend(&self.buffers);
            state.codec.consumed(stream, data.len(), &mut state.out);
            return;
        };
        slot.body.extend_from_slice(data);
        slot.body_ended |= ends;
        if let Some(reader) = slot.reader.take() {
            reader.wake();
        }
    }

    /// Notes that a request's body is not as long as declared, and that nothing more of it arrives.
    pub fn body_is_wrong(&self, stream: StreamId) {
        let state = &mut *self.state.borrow_mut();
        if let Some(slot) = slot_of(&mut state.streams, stream) {
            slot.is_wrong = true;
            if let Some(reader) = slot.reader.take() {
                reader.wake();
            }
        }
    }

    /// Notes that the client has reset a stream.
    pub fn reset_by_peer(&self, stream: StreamId) {
        let mut state = self.state.borrow_mut();
        match slot_of(&mut state.streams, stream) {
            // Its task closes it.
            Some(slot) => {
                slot.is_gone = true;
                slot.wake();
            }
            None => state.codec.release(stream),
        }
    }

    /// Resets a stream.
    pub fn reset(&self, stream: StreamId, code: ErrorCode) {
        let state = &mut *self.state.borrow_mut();
        state.lend(&self.buffers);
        state.codec.reset(stream, code, &mut state.out);
        state.codec.release(stream);
    }

    /// Begins another round: waiting streams may send again. The most urgent ones go first and may take all the room;
    /// equally urgent ones share it, beginning with the one that has waited longest.
    pub fn wake_writers(&self) {
        let state = &mut *self.state.borrow_mut();
        state.round += 1;
        let codec = &state.codec;
        if state.streams.len() > 1 {
            state.streams.sort_by(|a, b| codec.order(a.id, b.id).then(a.sent_in.cmp(&b.sent_in)));
        }
        let mut at = 0;
        while at < state.streams.len() {
            let first = state.streams[at].id;
            let is_equal = |slot: &Slot| codec.order(first, slot.id).is_eq();
            let equal = state.streams[at..].iter().take_while(|slot| is_equal(slot)).count().max(1);
            let waiting = state.streams[at..at + equal].iter().filter(|slot| slot.writer.is_some()).count();
            for slot in &mut state.streams[at..at + equal] {
                slot.quota = share(waiting);
                if let Some(writer) = slot.writer.take() {
                    writer.wake();
                }
            }
            at += equal;
        }
    }

    /// How many bytes wait for the client.
    pub fn unsent(&self) -> usize {
        self.state.borrow().unsent()
    }

    /// How many bytes of frames were written since the connection began.
    pub fn progress(&self) -> u64 {
        self.state.borrow().progress
    }

    /// Notes that the client has taken some of what waits for it.
    pub fn note_step(&self) {
        self.state.borrow_mut().steps += 1;
    }

    /// How many times [`note_step`](Self::note_step) was called.
    pub fn steps(&self) -> u64 {
        self.state.borrow().steps
    }

    /// Whether a task has ended since the last call.
    pub fn has_ended(&self) -> bool {
        std::mem::take(&mut self.state.borrow_mut().ended)
    }

    /// Writes frames; returns whether all were written.
    pub fn write_to(&self, stream: &Stream) -> io::Result<bool> {
        let all = self.state.borrow_mut().write_to(stream)?;
        if all {
            let mut state = self.state.borrow_mut();
            if state.out.capacity() > 0 {
                let frames = std::mem::take(&mut state.out);
                self.buffers.take_frames(frames);
            }
            drop(state);
            self.wake_blocked();
        }
        Ok(all)
    }

    /// Wakes tasks that wait for room.
    fn wake_blocked(&self) {
        if self.state.borrow().streams.iter().any(|slot| slot.writer.is_some()) {
            self.wake_writers();
        }
    }

    /// Sends GOAWAY: the client shall make new requests elsewhere.
    pub fn go_away(&self) {
        let state = &mut *self.state.borrow_mut();
        if !state.codec.is_draining() {
            state.lend(&self.buffers);
            state.codec.go_away(&mut state.out);
        }
    }

    /// Whether streams are open.
    pub fn has_streams(&self) -> bool {
        let state = self.state.borrow();
        !state.streams.is_empty() || state.codec.open_streams() > 0
    }

    /// Whether the connection is done: GOAWAY was sent, and all is answered and sent.
    pub fn is_done(&self) -> bool {
        let state = self.state.borrow();
        state.codec.is_draining() && state.streams.is_empty() && state.codec.open_streams() == 0 && state.unsent() == 0
    }

    /// Ends the connection; waiting tasks are woken.
    pub fn end(&self) {
        let mut state = self.state.borrow_mut();
        state.is_over = true;
        for slot in &mut state.streams {
            slot.is_gone = true;
            slot.wake();
        }
    }

    /// Makes a slot for a stream that a task answers.
    pub fn open(&self, id: StreamId, body_ended: bool) {
        let mut state = self.state.borrow_mut();
        let quota = share(state.streams.len() + 1);
        state.streams.push(Slot {
            id,
            body: Vec::new(),
            body_ended,
            is_wrong: false,
            is_gone: false,
            quota,
            sent_in: 0,
            is_read: false,
            reader: None,
            writer: None,
        });
    }

    /// Releases the slot of a stream. If the response has not ended, the stream is reset.
    pub fn close(&self, id: StreamId, code: ErrorCode) {
        let state = &mut *self.state.borrow_mut();
        state.lend(&self.buffers);
        let mut is_wrong = false;
        if let Some(at) = state.streams.iter().position(|slot| slot.id == id) {
            let slot = state.streams.swap_remove(at);
            is_wrong = slot.is_wrong;
            state.codec.consumed(id, slot.body.len(), &mut state.out);
            state.ended = true;
        }
        if !state.is_over && state.codec.is_open(id) {
            let code = if is_wrong { ErrorCode::PROTOCOL_ERROR } else { code };
            state.codec.reset(id, code, &mut state.out);
        }
        state.codec.release(id);
        self.wake_driver();
    }

    /// Sends the head of a response; returns its length in frames, bytes.
    pub fn send_head(&self, id: StreamId, block: &[u8], ends: bool) -> u64 {
        let state = &mut *self.state.borrow_mut();
        state.lend(&self.buffers);
        let before = state.out.len();
        state.codec.send_head(id, block, ends, &mut state.out);
        self.wake_driver();
        (state.out.len() - before) as u64
    }

    /// How much of a body could be sent now, bytes.
    pub fn room(&self, id: StreamId) -> usize {
        let state = &mut *self.state.borrow_mut();
        let quota = slot_of(&mut state.streams, id).map_or(0, |slot| slot.quota);
        OUT_BYTES_MAX.saturating_sub(state.unsent()).min(state.codec.capacity(id)).min(quota)
    }

    /// Sends as much of `data` as the windows and the room allow; `Wait` if that is nothing.
    pub fn send(&self, id: StreamId, data: &[u8]) -> Tried<usize> {
        let state = &mut *self.state.borrow_mut();
        if state.is_gone(id) {
            return Tried::Gone;
        }
        let quota = slot_of(&mut state.streams, id).map_or(0, |slot| slot.quota);
        let room = OUT_BYTES_MAX.saturating_sub(state.unsent());
        let room = room.min(state.codec.capacity(id)).min(data.len()).min(quota);
        if room == 0 && !data.is_empty() {
            return Tried::Wait;
        }
        state.lend(&self.buffers);
        let before = state.out.len();
        let sent = state.codec.send_data(id, &data[..room], false, &mut state.out);
        state.last_data = last_frame(&state.out, before).map(|at| (id, at));
        let round = state.round;
        if let Some(slot) = slot_of(&mut state.streams, id) {
            slot.quota -= sent.min(slot.quota);
            slot.sent_in = round;
        }
        self.wake_driver();
        Tried::Done(sent)
    }

    /// Whether something may be written; if not, `waker` is kept.
    pub fn may_send(&self, id: StreamId, waker: &Waker) -> Tried<()> {
        let state = &mut *self.state.borrow_mut();
        if state.is_gone(id) {
            return Tried::Gone;
        }
        let has_room = state.codec.capacity(id) > 0 && state.unsent() < OUT_BYTES_MAX;
        let is_idle = state.unsent() == 0;
        let Some(slot) = slot_of(&mut state.streams, id) else { return Tried::Gone };
        if has_room && is_idle {
            // All was sent; another round would begin at once.
            slot.quota = slot.quota.max(SHARE_BYTES_MIN);
        }
        if has_room && slot.quota > 0 {
            return Tried::Done(());
        }
        slot.writer = Some(waker.clone());
        Tried::Wait
    }

    /// Whether a stream waits for other streams, and not for the client's window.
    pub fn is_crowded_out(&self, id: StreamId) -> bool {
        self.state.borrow().codec.capacity(id) > 0
    }

    /// Ends a response, with trailers if there are any.
    pub fn finish(&self, id: StreamId, trailers: &[u8]) {
        let state = &mut *self.state.borrow_mut();
        if state.is_gone(id) {
            return;
        }
        state.lend(&self.buffers);
        if trailers.is_empty() {
            match state.last_data.take() {
                // The last frame is still here with nothing behind it, so it can carry END_STREAM.
                Some((stream, at)) if stream == id && at >= state.written && last_frame(&state.out, at) == Some(at) => {
                    state.codec.end_data_at(id, at, &mut state.out);
                }
                _ => drop(state.codec.send_data(id, &[], true, &mut state.out)),
            }
        } else {
            state.codec.send_trailers(id, trailers, &mut state.out);
        }
        self.wake_driver();
    }

    /// Whether the whole body of the request was read.
    pub fn has_ended_body(&self, id: StreamId) -> bool {
        slot_of(&mut self.state.borrow_mut().streams, id).is_some_and(|slot| slot.body_ended && slot.body.is_empty())
    }

    /// Whether the request's body is not as long as declared.
    pub fn is_wrong(&self, id: StreamId) -> bool {
        slot_of(&mut self.state.borrow_mut().streams, id).is_some_and(|slot| slot.is_wrong)
    }

    /// Takes a piece of the request's body; `None` at its end.
    pub fn read(&self, id: StreamId, waker: &Waker) -> Tried<Option<Bytes>> {
        let state = &mut *self.state.borrow_mut();
        let Some(slot) = slot_of(&mut state.streams, id) else { return Tried::Gone };
        if !slot.body.is_empty() {
            let piece = Bytes::from(std::mem::take(&mut slot.body));
            state.lend(&self.buffers);
            state.codec.consumed(id, piece.len(), &mut state.out);
            self.wake_driver();
            return Tried::Done(Some(piece));
        }
        if slot.is_wrong {
            return Tried::Gone;
        }
        if slot.body_ended {
            return Tried::Done(None);
        }
        if slot.is_gone {
            return Tried::Gone;
        }
        slot.reader = Some(waker.clone());
        if !std::mem::replace(&mut slot.is_read, true) {
            state.lend(&self.buffers);
            state.codec.widen(id, BODY_WINDOW_BYTES, &mut state.out);
            self.wake_driver();
        }
        Tried::Wait
    }

    /// Whether the client has left; if not, `waker` is kept.
    pub fn has_left(&self, id: StreamId, waker: &Waker) -> bool {
        let state = &mut *self.state.borrow_mut();
        let Some(slot) = slot_of(&mut state.streams, id) else { return true };
        if !slot.is_gone {
            slot.reader = Some(waker.clone());
        }
        slot.is_gone
    }
}

impl State {
    /// Borrows a buffer for frames from the worker, if there is none yet.
    fn lend(&mut self, buffers: &Buffers) {
        if self.out.capacity() == 0 {
            self.out = buffers.frames();
        }
    }

    fn unsent(&self) -> usize {
        self.out.len() - self.written
    }

    fn is_gone(&self, id: StreamId) -> bool {
        self.is_over || self.streams.iter().any(|slot| slot.id == id && slot.is_gone)
    }

    fn write_to(&mut self, stream: &Stream) -> io::Result<bool> {
        while self.written < self.out.len() {
            match stream.try_write(&self.out[self.written..]) {
                Ok(n) => {
                    self.written += n;
                    self.progress += n as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.written = 0;
        self.last_data = None;
        Ok(true)
    }
}
