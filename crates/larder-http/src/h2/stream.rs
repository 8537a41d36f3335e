//! The streams of a connection.

use super::priority::Urgency;

/// Names a stream of a connection. Streams of a client have odd numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StreamId(pub u32);

/// The state of a stream.
///
/// ```text
/// Open --we end--> LocalClosed --client ends--> forgotten
///  | `--client ends--> RemoteClosed --we end--> forgotten
///  `- any of them --reset by the client, or by us for what it sent--> Reset --released--> forgotten
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Both sides may send.
    Open,
    /// The request is complete.
    RemoteClosed,
    /// The answer is complete, the request is not.
    LocalClosed,
    /// Neither side may send, but the application has not released it yet.
    Reset,
}

/// A stream that is not closed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    pub id: u32,
    pub state: State,
    /// How much we may send; negative after the client has made windows smaller.
    pub send_window: i32,
    /// How much the client may send. `window`, `held` and `returned` add up to `window_target`, or to more while the
    /// client uses up the larger window that it had before it knew our settings.
    pub window: i32,
    /// How much the client may send if the application holds nothing.
    pub window_target: i32,
    /// The bytes that the application has received and not consumed.
    pub held: u32,
    /// Consumed bytes that the client has no WINDOW_UPDATE for yet.
    pub returned: u32,
    /// How much of the body is still to come, if the client announced its length.
    pub body_left: Option<u64>,
    /// The largest piece of a body in one frame.
    pub chunk_bytes: u32,
    /// Whether the request is malformed, so that the stream is reset after the error was sent (RFC 9113 §8.1.1).
    pub is_malformed: bool,
    /// The priority of RFC 9218.
    pub urgency: Urgency,
}

impl Stream {
    pub fn may_send(&self) -> bool {
        matches!(self.state, State::Open | State::RemoteClosed)
    }

    pub fn may_receive(&self) -> bool {
        matches!(self.state, State::Open | State::LocalClosed)
    }
}

/// The streams that are not closed, ordered by number. There are few, and new ones have the highest number.
#[derive(Clone, Default, Debug)]
pub(super) struct Streams {
    list: Vec<Stream>,
    /// The most streams since there were none.
    peak: usize,
}

/// For how many streams memory is kept when there are none.
const KEPT: usize = 8;

impl Streams {
    pub fn len(&self) -> usize {
        self.list.len()
    }

    #[inline]
    fn place(&self, id: u32) -> Option<usize> {
        match self.list.last() {
            Some(last) if last.id == id => Some(self.list.len() - 1),
            _ => self.list.binary_search_by_key(&id, |stream| stream.id).ok(),
        }
    }

    #[inline]
    pub fn get(&self, id: u32) -> Option<&Stream> {
        self.list.get(self.place(id)?)
    }

    #[inline]
    pub fn get_mut(&mut self, id: u32) -> Option<&mut Stream> {
        let place = self.place(id)?;
        self.list.get_mut(place)
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.list.iter_mut()
    }

    /// Adds a stream with a higher number than all others.
    pub fn push(&mut self, stream: Stream) {
        debug_assert!(self.list.last().is_none_or(|last| last.id < stream.id), "numbers of streams only rise");
        self.list.push(stream);
        self.peak = self.peak.max(self.list.len());
    }

    /// Forgets a stream, and memory that was not needed lately.
    pub fn remove(&mut self, id: u32) -> Option<Stream> {
        let place = self.place(id)?;
        let stream = self.list.remove(place);
        if self.list.is_empty() {
            if self.peak.max(KEPT) * 4 <= self.list.capacity() {
                self.list.shrink_to(self.peak.max(KEPT));
            }
            self.peak = 0;
        }
        Some(stream)
    }

    pub fn heap_bytes(&self) -> usize {
        self.list.capacity() * size_of::<Stream>()
    }
}
