//! The transaction log, in the words of Varnish's shared memory log (vsl(7)): what a server tells of each connection,
//! request and fetch, to whoever listens.
//!
//! `tag` has what a record may be about, `record` the records and transactions, `frame` how they go over a socket. For who
//! reads them, `group` puts transactions together, `query` and `filter` choose among them, and `globs` reads lists of tags.

mod filter;
mod frame;
mod globs;
mod group;
mod pattern;
mod query;
mod record;
mod tag;

pub use filter::{Filter, RuleError};
pub use frame::{Asked, FRAME_BYTES_MAX, Frame, FrameError, GREETING, Pieces, Reader};
pub use globs::{GlobError, TagSet, of_beginning};
pub use group::{Group, Grouping, Groups, Limits, Member, Reason};
pub use pattern::{Compile, Pattern};
pub use query::{Query, QueryError};
pub use record::{Kind, Record, RecordError, Records, Side, Transaction, Writer};
pub use tag::{ALL, Form, Tag};
