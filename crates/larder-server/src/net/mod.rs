//! The bytes of clients: sockets, TLS, streams of HTTP/2. Nothing here knows what a request is.

pub mod buffers;

pub use buffers::Buffers;
