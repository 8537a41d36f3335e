//! A body that is too big for memory goes to disk while it fills, slice by slice. Once a slice is written, it leaves
//! memory, and readers get it from the disk.
//!
//! ```text
//! in memory --handed over--> in a queue --written to all copies--> on disk, and out of memory
//!     ^                         |
//!     `---- every queue full ---'
//! ```
//! If a disk cannot keep up, the copy on it is given up. If no copy is left, the body becomes unstored: nobody waits
//! for a disk.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

use super::{Body, Chunk, End, Fill, Filling, Shared};
use crate::disk::{DiskBody, DiskShelf, PinnedBody, Skipped, Span};

/// Where a body that is too big for memory goes.
#[derive(Clone)]
pub struct Offload {
    /// Each of these shelves gets a copy.
    pub shelves: Vec<DiskShelf>,
    /// A body of this length or more goes to disk.
    pub bytes_min: u64,
    /// The most bytes that may wait in memory for the disks.
    pub memory_bytes_max: u64,
}

/// A complete body on disks.
pub(super) struct OnDisk {
    /// Each of them has all of the body.
    copies: Box<[Complete]>,
    pub(super) len: u64,
}

/// A complete copy of a body on one disk.
struct Complete {
    body: DiskBody,
    /// A read found that some of it is not as it was written.
    is_damaged: AtomicBool,
}

impl OnDisk {
    fn new(copies: impl IntoIterator<Item = DiskBody>, len: u64) -> Box<Self> {
        let copies = copies.into_iter().map(|body| Complete { body, is_damaged: AtomicBool::new(false) });
        Box::new(Self { copies: copies.collect(), len })
    }

    /// Pins the first copy that is still there, from number `first` on.
    pub(super) fn pin(&self, first: usize) -> Option<(usize, Arc<PinnedBody>)> {
        let copies = self.copies.iter().enumerate().skip(first).filter(|(_, copy)| !copy.is_damaged());
        copies.filter_map(|(number, copy)| Some((number, Arc::new(copy.body.pin()?)))).next()
    }

    /// Whether there is a copy that can be read, as far as is known.
    pub(super) fn is_here(&self) -> bool {
        self.copies.iter().any(|copy| !copy.is_damaged() && copy.body.is_here())
    }

    /// Notes why a copy could not be read. After anything but a timeout, it is not tried again.
    pub(super) fn note_fault(&self, copy: usize, error: &io::Error) {
        let passes =
            matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::ResourceBusy | io::ErrorKind::BrokenPipe);
        if let Some(copy) = self.copies.get(copy).filter(|_| !passes) {
            copy.is_damaged.store(true, Ordering::Relaxed);
        }
    }
}

impl Complete {
    fn is_damaged(&self) -> bool {
        self.is_damaged.load(Ordering::Relaxed)
    }
}

/// The part of a filling body that is on disk, or on its way there.
pub(super) struct Offloading {
    copies: Vec<Copy>,
    /// The length of every slice but the last.
    slice_bytes: u64,
    memory_bytes_max: u64,
    /// The position up to which slices have been handed over.
    sent_to: u64,
    /// A thread is handing slices over now.
    is_sending: bool,
    /// The position before which slices need not be kept on disk.
    let_go_to: u64,
    /// Called when all of the body is on a disk.
    hooks: Vec<Hook>,
}

/// A callback for when all of a body is on a disk.
type Hook = Box<dyn FnOnce(&Body) + Send>;

/// A copy that is being written.
struct Copy {
    shelf: DiskShelf,
    /// The longest body that its shelf takes.
    bytes_max: u64,
    /// In order. Each slice is pinned while a reader may want it.
    slices: Vec<(Span, Option<Arc<PinnedBody>>)>,
    /// It misses a slice, so it gets no more.
    is_broken: bool,
    /// Its shelf has counted it as skipped for lack of time.
    is_counted: bool,
}

impl Copy {
    fn on(shelf: &DiskShelf) -> Self {
        Self {
            shelf: shelf.clone(),
            bytes_max: shelf.body_bytes_max(),
            slices: Vec::new(),
            is_broken: false,
            is_counted: false,
        }
    }

    fn count_skipped(&mut self) {
        if !std::mem::replace(&mut self.is_counted, true) {
            self.shelf.count_skipped();
        }
    }
}

impl Offloading {
    /// Lets its shelves count that they had no time for the body.
    pub(super) fn count_skipped(&mut self) {
        self.copies.iter_mut().filter(|copy| !copy.is_broken).for_each(Copy::count_skipped);
    }

    /// The state of a body of at least `len` that goes to `offload` from now on. `None` if none of the shelves takes
    /// it.
    pub(super) fn begin(offload: &Offload, len: u64) -> Option<Self> {
        let shelves = offload.shelves.iter().filter(|shelf| !shelf.is_out());
        let copies: Vec<Copy> = shelves.map(Copy::on).filter(|copy| len <= copy.bytes_max).collect();
        let slice_bytes = copies.iter().map(|copy| copy.shelf.slice_bytes()).min()? as u64;
        Some(Self {
            copies,
            slice_bytes: slice_bytes.max(1),
            memory_bytes_max: offload.memory_bytes_max,
            sent_to: 0,
            is_sending: false,
            let_go_to: 0,
            hooks: Vec::new(),
        })
    }

    /// How long a slice is.
    pub(super) fn slice_bytes(&self) -> u64 {
        self.slice_bytes
    }

    /// How many bytes may wait in memory.
    pub(super) fn memory_bytes_max(&self) -> u64 {
        self.memory_bytes_max
    }

    /// Whether a copy can still become complete.
    pub(super) fn is_possible(&self) -> bool {
        self.copies.iter().any(|copy| !copy.is_broken)
    }

    /// The position up to which every copy that may become whole has the body; where there is none, the furthest.
    fn written_to(&self, so_far: u64) -> u64 {
        let ends = |copy: &Copy| self.end_of(copy.slices.len()).min(so_far);
        let whole = self.copies.iter().filter(|copy| !copy.is_broken).map(ends).min();
        whole.or_else(|| self.copies.iter().map(ends).max()).unwrap_or(0)
    }

    fn end_of(&self, slices: usize) -> u64 {
        self.slice_bytes.saturating_mul(slices as u64)
    }

    /// Whether the part on disk can still be read from its start.
    pub(super) fn has_its_start(&self) -> bool {
        self.let_go_to == 0
    }

    /// Unpins the slices before `position`, for a body that is not kept.
    pub(super) fn let_go_before(&mut self, position: u64) {
        let (from, to) = (self.let_go_to / self.slice_bytes, position / self.slice_bytes);
        if to <= from {
            return;
        }
        self.let_go_to = to * self.slice_bytes;
        let (from, to) = (from as usize, to as usize);
        for copy in &mut self.copies {
            let end = to.min(copy.slices.len());
            copy.slices.get_mut(from..end).into_iter().flatten().for_each(|(_, pinned)| *pinned = None);
        }
    }

    /// The slice at position `at` on the first copy that has it, from number `first` on. Returns the number of the
    /// copy, the slice, and the position where the slice begins.
    pub(super) fn slice_at(&self, at: u64, first: usize) -> Option<(usize, Arc<PinnedBody>, u64)> {
        let number = usize::try_from(at / self.slice_bytes).ok()?;
        let on = |copy: &Copy| copy.slices.get(number)?.1.clone();
        let found = self.copies.iter().enumerate().skip(first).find_map(|(number, copy)| Some((number, on(copy)?)));
        let (copy, pinned) = found?;
        Some((copy, pinned, self.end_of(number)))
    }
}

impl Filling {
    /// The position up to which the body can be read from disks, from its start.
    pub(super) fn on_disk_to(&self) -> u64 {
        self.offloading.as_ref().map_or(0, |offloading| offloading.written_to(self.so_far))
    }

    /// The next slice to hand over. The bytes before `settled_to` are ready, in slices.
    fn next_slice(&mut self) -> Option<(Bytes, u64)> {
        let offloading = self.offloading.as_mut()?;
        let at = offloading.sent_to;
        let found = self.pieces.iter().find(|(start, _)| *start == at)?;
        let (_, Chunk::Heap(bytes)) = found else { return None };
        let is_last = matches!(self.end, End::Finished) && at + bytes.len() as u64 == self.so_far;
        let is_slice = bytes.len() as u64 == offloading.slice_bytes || is_last;
        is_slice.then(|| (bytes.clone(), at))
    }

    /// Gives up keeping the body. Returns the hooks that will not be called; drop them after the lock is released,
    /// because they may hold the body itself.
    fn unstore(&mut self, shared: &Shared) -> Vec<Hook> {
        shared.unstore();
        self.offloading.as_mut().map(|offloading| std::mem::take(&mut offloading.hooks)).unwrap_or_default()
    }

    /// Whether all of a complete body is on a disk.
    fn is_all_on_disk(&self) -> bool {
        let Some(offloading) = &self.offloading else { return false };
        let is_complete = matches!(self.end, End::Finished);
        is_complete && offloading.is_possible() && offloading.written_to(self.so_far) == self.so_far
    }

    /// Whether the writer may wait until a disk has taken some of what is in memory.
    pub(super) fn may_wait_for_disk(&self) -> bool {
        let Some(offloading) = &self.offloading else { return false };
        let is_much = self.in_memory() > offloading.memory_bytes_max / 2;
        let is_hungry = self.readers.iter().any(|&(_, at)| at + AHEAD_BYTES > self.so_far);
        is_much && !is_hungry && self.is_on_its_way()
    }

    /// Whether a complete body will reach a disk without further calls: a slice is on its way, or being handed over,
    /// and when it is written, the next one is handed over.
    fn is_on_its_way(&self) -> bool {
        let Some(offloading) = &self.offloading else { return false };
        let is_out = offloading.is_sending || offloading.written_to(self.so_far) < offloading.sent_to;
        offloading.is_possible() && is_out
    }
}

/// Hands the ready slices over to the disks, as many as their queues take.
pub(super) fn hand_over(shared: &Arc<Shared>, fill: &Arc<Fill>) {
    loop {
        let (bytes, at, shelves) = {
            let mut filling = fill.filling.lock();
            let Some((bytes, at)) = filling.next_slice() else { return };
            let Some(offloading) = filling.offloading.as_mut().filter(|offloading| !offloading.is_sending) else {
                return;
            };
            offloading.is_sending = true;
            let shelves: Vec<(usize, DiskShelf, bool)> = offloading
                .copies
                .iter()
                .enumerate()
                .filter(|(_, copy)| !copy.is_broken)
                .map(|(number, copy)| (number, copy.shelf.clone(), at + bytes.len() as u64 <= copy.bytes_max))
                .collect();
            (bytes, at, shelves)
        };
        // Without the lock, because a shelf may call back at once.
        let mut is_taken = false;
        let mut full = Vec::new();
        let mut broken = Vec::new();
        for (number, shelf, fits) in shelves {
            if !fits {
                broken.push(number);
                continue;
            }
            let is_over = Arc::new(AtomicBool::new(false));
            let (to, by) = (Arc::clone(shared), Arc::clone(fill));
            let teller = Teller { what: Some((to, by, number, at)), is_over: Arc::clone(&is_over) };
            match shelf.store_slice(vec![bytes.clone()], Box::new(move |span| teller.tell(span))) {
                // The shelf has meanwhile discarded its queue, and this slice with it.
                Ok(()) if is_over.swap(true, Ordering::AcqRel) => broken.push(number),
                Ok(()) => is_taken = true,
                Err(Skipped::QueueFull) => full.push(number),
                Err(Skipped::TooBig | Skipped::Out) => broken.push(number),
            }
        }
        let mut filling = fill.filling.lock();
        let Some(offloading) = filling.offloading.as_mut() else { return };
        offloading.is_sending = false;
        // If one shelf takes the slice, the copies on those that do not are given up.
        let lost = if is_taken { full.iter().chain(&broken) } else { broken.iter().chain(&[]) };
        for number in lost {
            let copy = &mut offloading.copies[*number];
            copy.is_broken = true;
            if full.contains(number) {
                copy.count_skipped();
            }
        }
        if is_taken {
            offloading.sent_to = at + bytes.len() as u64;
        } else if !full.is_empty() {
            return;
        }
        if !offloading.is_possible() {
            let unwanted = filling.unstore(shared);
            drop(filling);
            drop(unwanted);
            return;
        }
    }
}

/// Reports what became of a slice when it is dropped. So it also reports if a shelf stops and discards its queue.
struct Teller {
    /// Taken when it is reported.
    what: Option<(Arc<Shared>, Arc<Fill>, usize, u64)>,
    /// Set once by the caller that offers the slice, once by the report: the second one knows that both have happened.
    is_over: Arc<AtomicBool>,
}

impl Teller {
    fn tell(mut self, span: Option<Span>) {
        if let Some((shared, fill, copy, at)) = self.what.take() {
            written(&shared, &fill, copy, at, span);
        }
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        // A refused slice is dropped before it was taken; the caller knows about that.
        if let Some((shared, fill, copy, at)) = self.what.take()
            && self.is_over.swap(true, Ordering::AcqRel)
        {
            written(&shared, &fill, copy, at, None);
        }
    }
}

/// Notes what a shelf did with a slice: `span` says where it is, `None` that it was not written.
fn written(shared: &Arc<Shared>, fill: &Arc<Fill>, copy: usize, at: u64, span: Option<Span>) {
    let unwanted = {
        let mut filling = fill.filling.lock();
        let Some(offloading) = filling.offloading.as_mut() else { return };
        let slice_bytes = offloading.slice_bytes;
        let growing = &mut offloading.copies[copy];
        let is_next = growing.slices.len() as u64 * slice_bytes == at;
        let pinned = span.filter(|_| is_next).and_then(|span| {
            let pinned = DiskBody::new(&growing.shelf, vec![span]).pin()?;
            Some((span, Some(Arc::new(pinned))))
        });
        match pinned {
            Some(slice) => growing.slices.push(slice),
            None => growing.is_broken = true,
        }
        let is_possible = offloading.is_possible();
        let to = filling.on_disk_to();
        filling.free_before(to);
        if is_possible { Vec::new() } else { filling.unstore(shared) }
    };
    drop(unwanted);
    hand_over(shared, fill);
    settle(shared, fill);
    // Last, so that a waiting writer sees the result.
    fill.consumed.notify_waiters();
}

/// Ends the filling of a complete body once all of it is on a disk, or can no longer get there.
pub(super) fn settle(shared: &Arc<Shared>, fill: &Arc<Fill>) {
    let hooks = {
        let mut filling = fill.filling.lock();
        if !matches!(filling.end, End::Finished) {
            return;
        }
        if !filling.is_all_on_disk() {
            if !filling.is_on_its_way() {
                if let Some(offloading) = &mut filling.offloading {
                    offloading.count_skipped();
                }
                let unwanted = filling.unstore(shared);
                drop(filling);
                drop(unwanted);
            }
            return;
        }
        let len = filling.so_far;
        let Some(offloading) = filling.offloading.as_mut() else { return };
        let whole = |copy: &&Copy| offloading.end_of(copy.slices.len()) >= len && !copy.is_broken;
        let bodies = offloading.copies.iter().filter(whole).map(|copy| {
            let spans = copy.slices.iter().map(|(span, _)| *span).collect();
            DiskBody::new(&copy.shelf, spans)
        });
        // A second caller finds it set to the same.
        let _ = shared.on_disk.set(OnDisk::new(bodies, len));
        shared.fill.lock().take();
        std::mem::take(&mut offloading.hooks)
    };
    let body = Body { shared: Arc::clone(shared) };
    hooks.into_iter().for_each(|hook| hook(&body));
}

impl Body {
    /// A complete body that is on a disk, or the same one on several.
    pub fn on_disk(copies: impl IntoIterator<Item = DiskBody>) -> Self {
        let copies: Vec<DiskBody> = copies.into_iter().collect();
        let len = copies.first().map_or(0, DiskBody::len);
        let shared = Shared::empty(true);
        // A new one is not set yet.
        let _ = shared.on_disk.set(OnDisk::new(copies, len));
        Self { shared: Arc::new(shared) }
    }

    /// Its length, if it is complete but not all of it is in memory. Use a reader then.
    pub fn disk_len(&self) -> Option<u64> {
        if let Some(on_disk) = self.shared.on_disk.get() {
            return Some(on_disk.len);
        }
        let fill = self.shared.fill.lock().clone()?;
        let filling = fill.filling.lock();
        let is_complete = matches!(filling.end, End::Finished) && filling.offloading.is_some();
        is_complete.then_some(filling.so_far)
    }

    /// Whether all of it can still be read, as far as that is known without reading: a disk may have evicted it, or may
    /// have failed before it got the end.
    pub fn is_here(&self) -> bool {
        match self.shared.on_disk.get() {
            Some(on_disk) => on_disk.is_here(),
            None => self.whole().is_some() || self.is_stored() && self.has_its_start(),
        }
    }

    /// The copy of it on a shelf.
    pub fn on(&self, shelf: &DiskShelf) -> Option<DiskBody> {
        let copies = self.shared.on_disk.get()?.copies.iter().filter(|copy| !copy.is_damaged());
        copies.map(|copy| &copy.body).find(|body| body.is_of(shelf)).cloned()
    }

    /// Calls `hook` once all of it is on a disk: now, or from a thread of a shelf. Never, if it does not get there.
    pub fn when_on_disk(&self, hook: impl FnOnce(&Body) + Send + 'static) {
        let fill = self.shared.fill.lock().clone();
        if let Some(fill) = fill {
            let mut filling = fill.filling.lock();
            let Some(offloading) = filling.offloading.as_mut() else { return };
            if self.shared.on_disk.get().is_none() {
                if self.is_stored() {
                    offloading.hooks.push(Box::new(hook));
                }
                return;
            }
        }
        if self.shared.on_disk.get().is_some() {
            hook(self);
        }
    }
}

/// While the slowest reader has this many bytes before it, the writer may wait for a disk without delaying a reader.
const AHEAD_BYTES: u64 = 1 << 20;

impl fmt::Debug for Offload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Offload")
            .field("shelves", &self.shelves.len())
            .field("bytes_min", &self.bytes_min)
            .finish_non_exhaustive()
    }
}
