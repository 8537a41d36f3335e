//! Connections of clients: from the first byte to the last response.

pub mod at_once;
pub mod h1;
pub mod h2;
pub mod inbound;
pub mod io;
pub mod limit_rate;
pub mod memory;
pub mod open;
pub mod ready;
pub mod send;
pub mod sink;
pub mod socket;
pub mod stream;
pub mod tls;
pub mod tunnel;

pub use inbound::{Inbound, Source};
pub use io::{Io, ReadError, linger};
