//! The transaction log, in the words of Varnish's shared memory log (vsl(7)): what a server tells of each connection,
//! request and fetch, to whoever listens.
//!
//! `tag` has what a record may be about, `record` the records and transactions, `frame` how they go over a socket.

mod frame;
mod record;
mod tag;

pub use frame::{Asked, FRAME_BYTES_MAX, Frame, FrameError, GREETING, Pieces, Reader};
pub use record::{Kind, Record, RecordError, Records, Side, Transaction, Writer};
pub use tag::{ALL, Tag};
