//! Moves bytes from and to clients: sockets, TLS, streams of HTTP/2. Nothing here knows what a request is.

pub mod buffers;
pub mod h2;
pub mod inbound;
pub mod io;
pub mod memory;
pub mod sink;
pub mod socket;
pub mod stream;
pub mod tls;

pub use buffers::Buffers;
pub use inbound::{BodySource, Inbound};
pub use io::{Io, ReadError};
