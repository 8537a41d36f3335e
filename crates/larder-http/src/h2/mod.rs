//! The server side of an HTTP/2 connection: bytes in, events and bytes out (RFC 9113, RFC 7541, RFC 9218).
//! [`Connection::next`] processes received frames and returns events; the other functions append frames to a buffer.
//! Nothing waits, no data is kept that was passed on, and a connection without streams holds hardly any memory.
//!
//! ```text
//! bytes -> Connection::next -> Head     -> a request: answer with send_head, send_data, send_trailers
//!                           -> Data     -> part of a body: consumed() once it is out of the way
//!                           -> Trailers -> the body is complete
//!                           -> Reset    -> nobody wants the answer: drop it, then release()
//!                           -> Window   -> what waited for capacity() may go on
//!                           -> GoAway   -> the client begins no more streams
//! ```
//! The caller has to
//!
//! - stop calling [`Connection::next`] while too much of `out` is unsent, because a client that does not read must not
//!   make us write (one call writes at most a multiple of what it reads);
//! - apply timeouts, and the limit of requests on a connection;
//! - read what the client still sends before it closes the transport, because otherwise our last frames may be lost.

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
