//! Shelves: bytes under a key. Knows no HTTP.
//! - [`MemoryShelf`] keeps things in memory under a hard budget, and decides what is evicted when it is full.
//! - [`Reservation`] is a part of that budget, owned by what uses the memory.
//! - [`DiskShelf`] keeps pages in segment files on disk.
//! - [`body`] makes a body that is written once and read by many, while it fills and after.
#![forbid(unsafe_code)]

mod arena;
mod background;
mod body;
mod budget;
mod disk;
mod ghost;
mod memory;
mod times;

pub use arena::memory_file_bytes;
pub use body::{
    ARENA_BYTES_MIN, BUFFERED_BYTES, Body, BodyError, BodyReader, BodyState, BodyWriter, CHUNK_BYTES, HeldFile,
    Offload, Piece, Place, SMALL_BYTES, Spill, UNSPILLED_BYTES_MAX, Whole, body, body_with_disks,
};
pub use budget::{Buffers, Reservation};
#[doc(hidden)]
pub use disk::fuzzing;
pub use disk::{
    CLEAR_FILE, DebtNote, DiskBody, DiskEvent, DiskLimits, DiskOptions, DiskRoom, DiskShelf, DiskState, DiskStats,
    Files, Finding, Found, Hold, Inspect, Judge, KeySet, Kind as RecordKind, Listed, NotKept, OpenFile, Owed, Page,
    PageBody, Payable, PinnedBody, Ready, RealFiles, RecordView, Report, Skipped, Span, Stamp, Stored, StoredBody,
    WordedBan,
};
pub use memory::{Kept, MemoryShelf, SLOT_BYTES, Seat, ShelfLimits, ShelfStats};
pub use times::{BOUNDS_MICROS, BUCKETS as TIME_BUCKETS, TimeSums, bucket_of};
