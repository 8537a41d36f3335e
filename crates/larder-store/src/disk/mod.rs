//! A shelf on a disk: a log of segment files, and an index of it in memory.
//!
//! ```text
//! store, remove -> Queue -> writer thread -> batches -> segments     space.rs counts them, oldest leave first
//! find          -> Index, Live: memory only                          16 bytes a page, a hint
//! read          -> stored.rs, read.rs: every byte verified           on reader threads if it must wait
//! PinnedBody    -> sendfile from the page cache
//! ```
//! A segment file is written once, from start to end, by direct I/O if possible, and deleted as a whole. So bytes that
//! are queued on a socket never change. Only the shelf's own threads wait for the disk, and a failure costs pages,
//! never answers. Start with [`DiskShelf`], then `writer/`.

mod ban_room;
mod bans;
mod body;
mod buffer;
mod bytes;
mod debt;
mod files;
mod footer;
mod found;
#[doc(hidden)]
pub mod fuzzing;
mod health;
mod index;
mod inspect;
mod keys;
mod page;
mod queue;
mod read;
mod readers;
mod record;
mod removals;
mod segment;
mod shared;
mod shelf;
mod space;
mod stats;
mod stored;
mod superblock;
mod units;
mod user;
mod work;
mod writer;

pub use bans::{Judge, WordedBan};
pub use body::{DiskBody, PinnedBody, Ready};
pub use debt::DebtNote;
pub use files::{DiskRoom, Files, Listed, OpenFile, RealFiles, Stamp};
pub use found::Found;
pub use health::{DiskEvent, DiskState};
pub use inspect::{Finding, Inspect, RecordView, Report};
pub use keys::KeySet;
pub use page::{Hold, Owed, Page, PageBody, Payable};
pub use queue::NotKept;
pub use record::{Kind, Span};
pub use shelf::{DiskOptions, DiskShelf, Skipped};
pub use space::DiskLimits;
pub use stats::DiskStats;
pub use stored::{Stored, StoredBody};
pub use writer::CLEAR_FILE;
