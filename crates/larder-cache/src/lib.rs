//! What may be stored, found and reused. A [`Zone`] is one cache: [`Memory`] in front of [`Shelves`] on disk.
//! [`Zone::lookup`] decides: hit, stale, miss, wait, load or scarce. A miss comes with a [`Permit`] to store the
//! response, a wait with a [`Waiter`], a page on disk with a [`Loading`]. The rules of HTTP are pure functions:
//! [`storable`], [`freshness`], [`age`] and [`vary`].
//!
//! A [`Zone`] is one cache: [`Memory`] in front of [`Shelves`] on disk. [`Zone::lookup`] is the decision: hit, stale,
//! miss, wait, load or scarce. A miss comes with a [`Permit`] to fill, a wait with a [`Waiter`], a page on disk with a
//! [`Loading`]. The rules of HTTP beside that are pure functions: [`storable`], [`freshness`] and [`vary`].
//!
//! Lock order: an entry's state, then a flight's stage or a part of the index of tags. While an entry is locked, no lock of the shelf is taken,
//! because the shelf locks other entries to make room.
#![forbid(unsafe_code)]

mod bans;
mod came;
mod entry;
mod flight;
mod form;
pub mod freshness;
mod front;
#[doc(hidden)]
pub mod fuzzing;
mod handed;
mod key;
pub mod litespeed;
mod loading;
mod lookup;
mod memory;
mod object;
mod others;
mod permit;
mod prepared;
mod purge;
mod remembered;
pub mod rfc9111;
mod rules;
mod selected;
mod selection;
mod shelves;
mod stamps;
mod stats;
pub mod storable;
mod tag_index;
mod tags;
#[cfg(test)]
mod tests;
mod told;
mod untagged;
mod url;
pub mod vary;
mod watch;
mod watched;
mod zone;

pub use bans::{Asking, BanStats, Banned, Condition, Effect, Listed, Reader, Stale, Unread};
pub use came::Came;
pub use entry::Peek;
pub use flight::{Hurry, Waiter, Woken};
pub use form::permit::{Finished, FormPermit, NewForm};
pub use form::{Form, FormRef, FormState, FormWaiter, Made, Shape};
pub use freshness::{OriginTtl, origin_ttl};
pub use front::Front;
pub use handed::{Handed, HandedPage, Handing};
pub use key::{KeyRef, PART};
pub use loading::Loading;
pub use lookup::{HitRef, Verdict};
pub use memory::Memory;
pub use object::{Fetched, FetchedBy, Hold, Mark, Object};
pub use others::Others;
pub use permit::Permit;
pub use prepared::Prepared;
pub use purge::Shorter;
pub use remembered::{Ended, NO_ROOM, Refusal, TOO_LARGE, too_large};
pub use rules::Rules;
pub use selected::{Purge, Purged};
pub use selection::{How, Pattern, Selection, TooLong, UriTest};
pub use shelves::{Member, Placing, Shelves, object_of_head};
pub use stamps::Moment;
pub use stats::ZoneStats;
pub use storable::Ignore;
pub use tags::{TAG_BYTES_MAX, TAGS_MAX, split as split_tags};
pub use url::{Place, Url};
pub use vary::{EachLine, Selecting, VaryKey, selecting};
pub use watch::{Refetchable, Watcher};
pub use zone::{Lurked, Zone, ZoneLimits};

// The types of the store that a caller needs to make and read bodies.
pub use larder_store::{Body, BodyReader, BodyState, BodyWriter, NotKept, Piece, Reservation, Spill};
