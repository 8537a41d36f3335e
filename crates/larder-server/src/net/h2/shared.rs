//! What the driver of a connection and the tasks of its streams share.

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

/// Frames that wait for the client; with more than this, nobody adds to them.
pub const OUT_BYTES_MAX: usize = 128 * 1024;

/// How much of a body may come ahead of who reads it.
const BODY_WINDOW_BYTES: u32 = 256 * 1024;

/// The least that a stream may send in a round.
const SHARE_BYTES_MIN: usize = 16 * 1024;

/// What each of so many streams may send in a round.
fn share(streams: usize) -> usize {
    (OUT_BYTES_MAX / streams.max(1)).max(SHARE_BYTES_MIN)
}

/// What the driver and the tasks share.
pub struct Shared {
    state: RefCell<State>,
    /// Wakes the driver, which has to write.
    driver: Cell<Option<Waker>>,
    buffers: Rc<Buffers>,
}

struct State {
    codec: Codec,
    /// Frames that have not been written; `written` bytes of them have.
    out: Vec<u8>,
    written: usize,
    /// The stream of the last frame of a body that a task wrote to `out`, and where its head is.
    last_data: Option<(StreamId, usize)>,
    /// Streams that a task works on.
    streams: Vec<Slot>,
    /// Counts the times that those who wait were woken.
    round: u64,
    /// How many bytes of frames have been written since the connection began.
    progress: u64,
    /// How many steps the client has taken of what waits for it, as the driver sees them.
    steps: u64,
    /// Whether a task has ended since the driver last asked.
    ended: bool,
    /// Whether the connection is over.
    is_over: bool,
}

/// A stream that a task works on.
struct Slot {
    id: StreamId,
    /// What of the request's body has come and is not yet read. In one piece, so that small frames take no room.
    body: Vec<u8>,
    /// Whether all of the body has come.
    body_ended: bool,
    /// Whether the body is not as long as it was said to be.
    is_wrong: bool,
    /// Whether the client has reset it.
    is_gone: bool,
    /// How much it may still send in this round.
    quota: usize,
    /// The round in which it last sent.
    sent_in: u64,
    /// Whether somebody reads the body, so that more of it may come.
    is_read: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// The stream of this number, if a task works on it. There are few, so that a search costs less than a table.
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

/// Where the last of the frames is that begin at `at`.
fn last_frame(frames: &[u8], mut at: usize) -> Option<usize> {
    let mut last = None;
    while let Some([l0, l1, l2, ..]) = frames.get(at..) {
        last = Some(at);
        at += FRAME_HEAD_BYTES + u32::from_be_bytes([0, *l0, *l1, *l2]) as usize;
    }
    last
}

/// What came of an attempt to read or write on a stream.
pub enum Tried<T> {
    /// It was done.
    Done(T),
    /// Not now; the waker is remembered.
    Wait,
    /// The client has reset the stream, or is gone.
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

    /// Remembers whom to wake when there are frames to write.
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

    /// Sends a whole response, head and body, if the windows allow; returns how many bytes it took, all and of the body.
    /// That is not all of the body where it cannot be read; then the stream is reset.
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

    /// How much of a body a frame of a stream holds at most.
    pub fn set_chunk(&self, stream: StreamId, bytes: usize) {
        self.state.borrow_mut().codec.set_chunk(stream, bytes);
    }

    /// Whether `rest`, of which no event came, begins a head that is not complete.
    pub fn is_within_head(&self, rest: &[u8]) -> bool {
        self.state.borrow().codec.is_within_head(rest)
    }

    /// Gives up the request whose head does not come to its end.
    pub fn expire_head(&self, rest: &[u8], now: Time) -> Result<(), ConnectionError> {
        let state = &mut *self.state.borrow_mut();
        state.lend(&self.buffers);
        state.codec.expire_head(rest, &mut state.out, now)
    }

    /// Takes a piece of a request's body.
    pub fn body(&self, stream: StreamId, data: &[u8], ends: bool) {
        let state = &mut *self.state.borrow_mut();
        let Some(slot) = slot_of(&mut state.streams, stream) else {
            // Nobody wants it; the window of the connection is for the others.
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

    /// A request's body is not as long as it was said to be, and nothing more of it comes.
    pub fn body_is_wrong(&self, stream: StreamId) {
        let state = &mut *self.state.borrow_mut();
        if let Some(slot) = slot_of(&mut state.streams, stream) {
            slot.is_wrong = true;
            if let Some(reader) = slot.reader.take() {
                reader.wake();
            }
        }
    }

    /// The client wants nothing more of a stream.
    pub fn reset_by_peer(&self, stream: StreamId) {
        let mut state = self.state.borrow_mut();
        match slot_of(&mut state.streams, stream) {
            // Its task lets go of it.
            Some(slot) => {
                slot.is_gone = true;
                slot.wake();
            }
            None => state.codec.release(stream),
        }
    }

    /// Ends a stream before its time.
    pub fn reset(&self, stream: StreamId, code: ErrorCode) {
        let state = &mut *self.state.borrow_mut();
        state.lend(&self.buffers);
        state.codec.reset(stream, code, &mut state.out);
        state.codec.release(stream);
    }

    /// Begins another round: streams that wait may send. Those that matter most go first and may take all the room;
    /// equal ones share it, and the one that has waited longest comes first.
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

    /// How many bytes of frames have been written since the connection began.
    pub fn progress(&self) -> u64 {
        self.state.borrow().progress
    }

    /// The client has taken some of what waits for it.
    pub fn note_step(&self) {
        self.state.borrow_mut().steps += 1;
    }

    /// How many such steps there were.
    pub fn steps(&self) -> u64 {
        self.state.borrow().steps
    }

    /// Whether a task has ended since this was asked last.
    pub fn has_ended(&self) -> bool {
        std::mem::take(&mut self.state.borrow_mut().ended)
    }

    /// Writes frames; says whether all went out.
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

    /// Tasks that waited for room go on.
    fn wake_blocked(&self) {
        if self.state.borrow().streams.iter().any(|slot| slot.writer.is_some()) {
            self.wake_writers();
        }
    }

    /// Tells the client to ask elsewhere from now on.
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

    /// Whether nothing more is to be done: we have said that we leave, and all is answered and sent.
    pub fn is_done(&self) -> bool {
        let state = self.state.borrow();
        state.codec.is_draining() && state.streams.is_empty() && state.codec.open_streams() == 0 && state.unsent() == 0
    }

    /// The connection is over; tasks learn of it.
    pub fn end(&self) {
        let mut state = self.state.borrow_mut();
        state.is_over = true;
        for slot in &mut state.streams {
            slot.is_gone = true;
            slot.wake();
        }
    }

    /// Makes room for a stream that a task works on.
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

    /// A task is done with its stream. One that has not been ended is reset.
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

    /// Sends the head of a response.
    pub fn send_head(&self, id: StreamId, block: &[u8], ends: bool) -> u64 {
        let state = &mut *self.state.borrow_mut();
        state.lend(&self.buffers);
        let before = state.out.len();
        state.codec.send_head(id, block, ends, &mut state.out);
        self.wake_driver();
        (state.out.len() - before) as u64
    }

    /// How much of a body would be sent now.
    pub fn room(&self, id: StreamId) -> usize {
        let state = &mut *self.state.borrow_mut();
        let quota = slot_of(&mut state.streams, id).map_or(0, |slot| slot.quota);
        OUT_BYTES_MAX.saturating_sub(state.unsent()).min(state.codec.capacity(id)).min(quota)
    }

    /// Sends what the windows and the room allow of `data`; with `waker`, remembers whom to wake if that is nothing.
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

    /// Whether something may be written; else remembers whom to wake.
    pub fn may_send(&self, id: StreamId, waker: &Waker) -> Tried<()> {
        let state = &mut *self.state.borrow_mut();
        if state.is_gone(id) {
            return Tried::Gone;
        }
        let has_room = state.codec.capacity(id) > 0 && state.unsent() < OUT_BYTES_MAX;
        let is_idle = state.unsent() == 0;
        let Some(slot) = slot_of(&mut state.streams, id) else { return Tried::Gone };
        if has_room && is_idle {
            // All has left; another round would begin at once.
            slot.quota = slot.quota.max(SHARE_BYTES_MIN);
        }
        if has_room && slot.quota > 0 {
            return Tried::Done(());
        }
        slot.writer = Some(waker.clone());
        Tried::Wait
    }

    /// Whether it is others, and not the client's window, that a stream waits for.
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
                // The last frame has not left, and nothing came behind it: it can say that it is the last.
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

    /// Whether all of the request's body has come and been read.
    pub fn has_ended_body(&self, id: StreamId) -> bool {
        slot_of(&mut self.state.borrow_mut().streams, id).is_some_and(|slot| slot.body_ended && slot.body.is_empty())
    }

    /// Whether the request's body was found to be of another length than it was said to be.
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

    /// Whether the client has left; else remembers whom to wake.
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
    /// Borrows the worker's buffer for frames, if none is in use.
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
