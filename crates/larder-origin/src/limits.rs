//! How long an origin may take and how much it may send, and the end of ours of a connection.

use std::{net::SocketAddr, time::Duration};

/// How long an origin may take, how much it may send, and from where it is asked.
#[derive(Clone, Debug)]
pub struct Limits {
    /// `*_connect_timeout`.
    pub connect: Duration,
    /// `*_send_timeout`, between two successive writes.
    pub send: Duration,
    /// `*_read_timeout`, between two successive reads.
    pub read: Duration,
    /// How long it may be silent in the middle of the body.
    pub read_body: Duration,
    /// `*_buffer_size`: the head of the response must fit, bytes.
    pub head_bytes_max: usize,
    /// The most bytes of a line of it, if there is a limit; of HTTP only.
    pub line_bytes_max: Option<usize>,
    /// Whether lines of the head may go on in the next one.
    pub unfolds: bool,
    /// `*_bind`: our address.
    pub bind: Option<Bind>,
    /// `*_socket_keepalive`.
    pub tcp_keepalive: bool,
}

/// The end of ours that a connection begins at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bind {
    /// The address; a port of 0 is left to the system.
    pub address: SocketAddr,
    /// `transparent`: the address need not be one of ours.
    pub transparent: bool,
}
