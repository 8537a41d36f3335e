//! Where transactions go when they have ended.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use larder_vsl::{Frame, Kind, Tag, Transaction, Writer};
use parking_lot::{Condvar, Mutex};

/// How the log is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How many bytes of a record are told: `vsl_reclen`.
    pub record_bytes_max: usize,
    /// How many bytes of what has ended are kept for those who come later; 0 for none.
    pub kept_bytes_max: usize,
    /// Which tags are left out: `vsl_mask`.
    pub masked: TagSet,
}

/// A set of tags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TagSet(u128);

impl TagSet {
    /// The set with this tag, too.
    pub fn with(self, tag: Tag) -> Self {
        Self(self.0 | 1 << tag.code())
    }

    /// The set without it.
    pub fn without(self, tag: Tag) -> Self {
        Self(self.0 & !(1 << tag.code()))
    }

    /// Whether it has the tag.
    pub fn has(self, tag: Tag) -> bool {
        self.0 >> tag.code() & 1 == 1
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self { record_bytes_max: 4096, kept_bytes_max: 0, masked: TagSet::default() }
    }
}

/// Where transactions go when they have ended: to listeners, and to what is kept.
pub struct Hub {
    /// Whether anything is recorded.
    is_heard: AtomicBool,
    record_bytes_max: AtomicUsize,
    /// The two halves of the set.
    masked: [AtomicU64; 2],
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    kept_bytes_max: usize,
    kept: VecDeque<Bytes>,
    kept_bytes: usize,
    /// How many frames were kept before those: the number of the first of them.
    gone: u64,
    listeners: Vec<Arc<Queue>>,
}

/// What one listener is still to be told.
#[derive(Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    come: Condvar,
    /// Ends the connection of a listener that loses its place.
    hang_up: Option<Box<dyn Fn() + Send + Sync>>,
}

/// Some of what is kept.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Batch {
    /// How many frames are gone that were before these.
    pub lost: u64,
    pub frames: Vec<Bytes>,
    /// The number of the frame behind them.
    pub next: u64,
}

#[derive(Default)]
struct Waiting {
    frames: VecDeque<Bytes>,
    bytes: usize,
    /// How many transactions were dropped as there was no room.
    lost: u64,
    /// Since when the listener takes what it was given last.
    busy_since: Option<Instant>,
    /// Whether nothing comes any more.
    is_over: bool,
}

/// What waits for a listener that is slow, at most. It is a second of a busy server.
const WAITING_BYTES_MAX: usize = 16 << 20;
/// How many may listen at once.
pub const LISTENERS_MAX: usize = 16;
/// Who takes nothing for longer loses its place to another.
const STUCK_AFTER: Duration = Duration::from_secs(10);
/// How many bytes of what is kept a reader is given at once: what it holds then stays in memory.
const BATCH_BYTES_MAX: usize = 1 << 20;

impl Default for Hub {
    fn default() -> Self {
        Self {
            is_heard: AtomicBool::new(false),
            record_bytes_max: AtomicUsize::new(Settings::default().record_bytes_max),
            masked: Default::default(),
            state: Mutex::default(),
        }
    }
}

impl Hub {
    /// A log that is kept in this way.
    pub fn new(settings: Settings) -> Arc<Self> {
        let hub = Arc::new(Self::default());
        hub.set(settings);
        hub
    }

    /// Keeps the log in this way from now on.
    pub fn set(&self, settings: Settings) {
        let Settings { record_bytes_max, kept_bytes_max, masked } = settings;
        self.record_bytes_max.store(record_bytes_max, Ordering::Relaxed);
        self.masked[0].store(masked.0 as u64, Ordering::Relaxed);
        self.masked[1].store((masked.0 >> 64) as u64, Ordering::Relaxed);
        let mut state = self.state.lock();
        state.kept_bytes_max = kept_bytes_max;
        state.shrink();
        self.note_heard(&state);
    }

    /// Whether anything is recorded.
    #[inline]
    pub fn is_heard(&self) -> bool {
        self.is_heard.load(Ordering::Relaxed)
    }

    pub(super) fn record_bytes_max(&self) -> usize {
        self.record_bytes_max.load(Ordering::Relaxed)
    }

    pub(super) fn masks(&self, tag: Tag) -> bool {
        let half = usize::from(tag.code() >> 6);
        self.masked[half].load(Ordering::Relaxed) >> (tag.code() & 63) & 1 == 1
    }

    fn note_heard(&self, state: &State) {
        self.is_heard.store(state.kept_bytes_max > 0 || !state.listeners.is_empty(), Ordering::Relaxed);
    }

    /// Tells a record that belongs to no transaction.
    pub fn tell(&self, tag: Tag, text: &[u8]) {
        if !self.is_heard() || self.masks(tag) {
            return;
        }
        let mut writer = Writer::new(Kind::Raw, 0);
        writer.record(tag, self.record_bytes_max(), |out| out.extend_from_slice(text));
        self.ended(&writer.finish());
    }

    /// Tells a transaction that has ended.
    pub(super) fn ended(&self, transaction: &Transaction) {
        let mut frame = Vec::with_capacity(transaction.bytes().len() + 8);
        Frame::append_transaction(transaction, &mut frame);
        let frame = Bytes::from(frame);
        let mut state = self.state.lock();
        for listener in &state.listeners {
            listener.push(&frame);
        }
        if state.kept_bytes_max > 0 {
            state.kept_bytes += frame.len();
            state.kept.push_back(frame);
            state.shrink();
        }
    }

    /// A listener of what comes, whose connection `hang_up` ends; `None` if there are too many, and none of them is stuck
    /// at `now`.
    pub(super) fn listen(&self, hang_up: Option<Box<dyn Fn() + Send + Sync>>, now: Instant) -> Option<Arc<Queue>> {
        let mut state = self.state.lock();
        if state.listeners.len() >= LISTENERS_MAX {
            let stuck = state.listeners.iter().position(|listener| listener.is_stuck(now))?;
            let stuck = state.listeners.remove(stuck);
            stuck.close();
            if let Some(hang_up) = &stuck.hang_up {
                hang_up();
            }
        }
        let queue = Arc::new(Queue { hang_up, ..Queue::default() });
        state.listeners.push(Arc::clone(&queue));
        self.note_heard(&state);
        Some(queue)
    }

    /// Forgets a listener.
    pub(super) fn leave(&self, queue: &Arc<Queue>) {
        let mut state = self.state.lock();
        state.listeners.retain(|listener| !Arc::ptr_eq(listener, queue));
        self.note_heard(&state);
    }

    /// The numbers of the frames that are kept.
    pub(super) fn kept(&self) -> Range<u64> {
        let state = self.state.lock();
        state.gone..state.gone + state.kept.len() as u64
    }

    /// Some of the frames of these numbers that are kept, the oldest first; at least one, if one is.
    pub(super) fn some_kept(&self, wanted: Range<u64>) -> Batch {
        let state = self.state.lock();
        let first = wanted.start.max(state.gone);
        let mut batch = Batch { lost: first.min(wanted.end) - wanted.start, next: first, ..Batch::default() };
        let mut bytes = 0;
        let from = usize::try_from(first - state.gone).unwrap_or(usize::MAX);
        for frame in state.kept.iter().skip(from) {
            bytes += frame.len();
            if batch.next >= wanted.end || bytes > BATCH_BYTES_MAX && !batch.frames.is_empty() {
                break;
            }
            batch.frames.push(frame.clone());
            batch.next += 1;
        }
        batch
    }
}

impl State {
    fn shrink(&mut self) {
        while self.kept_bytes > self.kept_bytes_max {
            let Some(oldest) = self.kept.pop_front() else { break };
            self.kept_bytes -= oldest.len();
            self.gone += 1;
        }
    }
}

impl Queue {
    fn push(&self, frame: &Bytes) {
        let mut waiting = self.waiting.lock();
        // What is too long for an empty queue waits alone.
        if waiting.lost > 0 || waiting.bytes > 0 && waiting.bytes + frame.len() > WAITING_BYTES_MAX {
            waiting.lost += 1;
            return;
        }
        waiting.bytes += frame.len();
        waiting.frames.push_back(frame.clone());
        self.come.notify_one();
    }

    /// Whether the listener has taken nothing for long.
    fn is_stuck(&self, now: Instant) -> bool {
        self.waiting.lock().busy_since.is_some_and(|since| now.saturating_duration_since(since) > STUCK_AFTER)
    }

    /// Says that nothing comes any more.
    pub(super) fn close(&self) {
        self.waiting.lock().is_over = true;
        self.come.notify_one();
    }

    /// Waits for what is to be told, and takes all of it: frames, and how many are missing behind them. `None` if nothing
    /// comes any more.
    pub(super) fn next(&self, now: impl Fn() -> Instant) -> Option<(VecDeque<Bytes>, u64)> {
        let mut waiting = self.waiting.lock();
        waiting.busy_since = None;
        while waiting.frames.is_empty() && waiting.lost == 0 {
            if waiting.is_over {
                return None;
            }
            self.come.wait(&mut waiting);
        }
        waiting.bytes = 0;
        waiting.busy_since = Some(now());
        Some((std::mem::take(&mut waiting.frames), std::mem::take(&mut waiting.lost)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transaction(bytes: usize) -> Transaction {
        let mut writer = Writer::new(Kind::Request, 1);
        writer.record(Tag::ReqUrl, usize::MAX, |out| out.resize(out.len() + bytes, b'a'));
        writer.finish()
    }

    fn listen(hub: &Hub) -> Option<Arc<Queue>> {
        hub.listen(None, Instant::now())
    }

    /// The lengths of the URLs that are kept, and how many frames of `wanted` are gone.
    fn lengths(hub: &Hub, wanted: Range<u64>) -> (Vec<usize>, u64) {
        let (mut lengths, mut lost, mut at) = (Vec::new(), 0, wanted.start);
        while at < wanted.end {
            let batch = hub.some_kept(at..wanted.end);
            lengths.extend(batch.frames.iter().map(|frame| frame.len() - transaction(0).bytes().len() - 5));
            lost += batch.lost;
            at = batch.next;
        }
        (lengths, lost)
    }

    #[test]
    fn nothing_is_recorded_unless_somebody_listens_or_it_is_kept() {
        let hub = Hub::new(Settings::default());
        assert!(!hub.is_heard());
        let queue = listen(&hub).unwrap();
        assert!(hub.is_heard());
        hub.leave(&queue);
        assert!(!hub.is_heard());
        hub.set(Settings { kept_bytes_max: 1, ..Settings::default() });
        assert!(hub.is_heard());
        hub.set(Settings::default());
        assert!(!hub.is_heard());
        hub.tell(Tag::Cli, b"nobody hears it");
        assert!(hub.kept().is_empty());
    }

    #[test]
    fn what_is_kept_is_bounded_and_the_oldest_goes_first() {
        let hub = Hub::new(Settings { kept_bytes_max: 1000, ..Settings::default() });
        for bytes in [300, 301, 302, 303] {
            hub.ended(&transaction(bytes));
        }
        assert_eq!(hub.kept(), 1..4);
        assert_eq!(lengths(&hub, 1..4), (vec![301, 302, 303], 0));
        assert_eq!(lengths(&hub, 0..3), (vec![301, 302], 1));
        hub.ended(&transaction(2000));
        assert!(hub.kept().is_empty());
    }

    #[test]
    fn a_slow_listener_loses_what_comes_and_is_told_how_much() {
        let hub = Hub::new(Settings::default());
        let (slow, quick) = (listen(&hub).unwrap(), listen(&hub).unwrap());
        let big = transaction(WAITING_BYTES_MAX);
        for _ in 0..3 {
            hub.ended(&big);
            assert_eq!(quick.next(Instant::now).map(|(frames, lost)| (frames.len(), lost)), Some((1, 0)));
        }
        hub.ended(&transaction(1));
        assert_eq!(slow.next(Instant::now).map(|(frames, lost)| (frames.len(), lost)), Some((1, 3)));
        hub.ended(&transaction(1));
        assert_eq!(slow.next(Instant::now).map(|(frames, lost)| (frames.len(), lost)), Some((1, 0)));
        slow.close();
        assert_eq!(slow.next(Instant::now), None);
    }

    #[test]
    fn a_reader_of_what_is_kept_holds_little_of_it() {
        let hub = Hub::new(Settings { kept_bytes_max: 8 * BATCH_BYTES_MAX, ..Settings::default() });
        let each = BATCH_BYTES_MAX / 2 - 100;
        for _ in 0..10 {
            hub.ended(&transaction(each));
        }
        let wanted = hub.kept();
        let batch = hub.some_kept(wanted.clone());
        assert_eq!((batch.lost, batch.frames.len(), batch.next), (0, 2, 2));
        // All but the last are dropped while it reads.
        hub.set(Settings { kept_bytes_max: BATCH_BYTES_MAX / 2, ..Settings::default() });
        assert_eq!(lengths(&hub, batch.next..wanted.end), (vec![each], 7));
        hub.set(Settings::default());
        assert_eq!(hub.some_kept(5..10), Batch { lost: 5, frames: Vec::new(), next: 10 });
        // One that is longer than any batch is one.
        hub.set(Settings { kept_bytes_max: 8 * BATCH_BYTES_MAX, ..Settings::default() });
        hub.ended(&transaction(2 * BATCH_BYTES_MAX));
        assert_eq!(lengths(&hub, hub.kept()), (vec![2 * BATCH_BYTES_MAX], 0));
    }

    #[test]
    fn who_is_stuck_loses_its_place_to_another() {
        let hub = Hub::new(Settings::default());
        let began = Instant::now();
        let hung_up = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&hung_up);
        let hang_up: Box<dyn Fn() + Send + Sync> = Box::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let stuck = hub.listen(Some(hang_up), began).unwrap();
        let others: Vec<_> = (1..LISTENERS_MAX).map(|_| listen(&hub).unwrap()).collect();
        hub.ended(&transaction(1));
        for queue in others.iter().chain([&stuck]) {
            assert!(queue.next(|| began).is_some());
        }
        for queue in &others {
            queue.waiting.lock().busy_since = None;
        }
        assert!(hub.listen(None, began + STUCK_AFTER).is_none());
        assert_eq!(hung_up.load(Ordering::Relaxed), 0);
        let late = began + STUCK_AFTER + Duration::from_millis(1);
        assert!(hub.listen(None, late).is_some() && hub.listen(None, late).is_none());
        assert_eq!((hung_up.load(Ordering::Relaxed), stuck.next(|| late)), (1, None));
    }

    #[test]
    fn listeners_are_bounded() {
        let hub = Hub::new(Settings::default());
        let all: Vec<_> = (0..LISTENERS_MAX).map(|_| listen(&hub).unwrap()).collect();
        assert!(listen(&hub).is_none());
        hub.leave(&all[0]);
        assert!(listen(&hub).is_some());
    }

    #[test]
    fn a_masked_tag_is_not_told() {
        let masked = TagSet::default().with(Tag::Hash).with(Tag::Cache).with(Tag::Debug).without(Tag::Debug);
        let hub = Hub::new(Settings { masked, ..Settings::default() });
        for &tag in larder_vsl::ALL {
            assert_eq!(hub.masks(tag), matches!(tag, Tag::Hash | Tag::Cache), "{}", tag.name());
        }
    }
}
