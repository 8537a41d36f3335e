//! The server side of an HTTP/2 connection: bytes in, events and bytes out (RFC 9113, RFC 7541, RFC 9218).
//!
//! [`Connection::next`] takes frames off what was received and says what happened; the other functions write
//! frames to the end of a buffer. Nothing waits, nothing is kept that has been handed out, and a connection without
//! streams holds hardly any memory.
//!
//! ```text
//! bytes -> Connection::next -> Head     -> a request: answer with send_head, send_data, send_trailers
//!                           -> Data     -> part of a body: consumed() once it is out of the way
//!                           -> Trailers -> the body is complete
//!                           -> Reset    -> nobody wants the answer: drop it, then release()
//!                           -> Window   -> what waited for capacity() may go on
//!                           -> GoAway   -> the client begins no more streams
//! ```
//!
//! What the caller sees to: that [`Connection::next`] is not called while too much of `out` is unsent, because a
//! client that does not read must not make us write (what one call writes is bounded by what it reads); deadlines;
//! the number of requests a connection may make; and that the transport is closed only after what the client still
//! sends has been read, because otherwise our last frames may be lost.

mod allowance;
mod block;
mod body;
mod config;
mod connection;
mod control;
mod error;
mod frame;
mod headers;
pub mod hpack;
mod priority;
mod request;
mod send;
mod stream;

pub use config::{BLOCK_FRAMES_MAX, Config, Cost, LIST_FACTOR, Rate};
pub use connection::{Connection, Event};
pub use error::{ConnectionError, ErrorCode};
pub use frame::{FRAME_HEAD_BYTES, PREFACE};
pub use stream::StreamId;
