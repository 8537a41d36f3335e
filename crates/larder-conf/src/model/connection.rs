//! Connections to clients.

use std::time::Duration;

/// How long a connection to a client lasts, and how it is written to.
#[derive(Clone, Debug)]
pub struct ClientConnection {
    /// `keepalive_timeout`: how long an idle connection is kept, 75 s; zero closes at once.
    pub keepalive_timeout: Duration,
    /// The second argument: the `Keep-Alive: timeout=` to send, in seconds.
    pub keepalive_header: Option<u64>,
    /// `keepalive_requests`, 1000.
    pub keepalive_requests: u64,
    /// `keepalive_time`, 1 h.
    pub keepalive_time: Duration,
    /// `keepalive_disable`, msie6.
    pub keepalive_disable: KeepaliveDisable,
    /// `send_timeout`, 60 s between two writes.
    pub send_timeout: Duration,
    /// `lingering_close`.
    pub lingering_close: LingeringClose,
    /// `lingering_time`, 30 s.
    pub lingering_time: Duration,
    /// `lingering_timeout`, 5 s.
    pub lingering_timeout: Duration,
    /// `reset_timedout_connection`.
    pub reset_timedout: bool,
    /// `chunked_transfer_encoding`, on.
    pub chunked_transfer_encoding: bool,
    /// `http2_chunk_size`, 8k: bytes of a body in a frame at most.
    pub http2_chunk_bytes: usize,
}

impl Default for ClientConnection {
    fn default() -> Self {
        Self {
            keepalive_timeout: Duration::from_secs(75),
            keepalive_header: None,
            keepalive_requests: 1000,
            keepalive_time: Duration::from_secs(3600),
            keepalive_disable: KeepaliveDisable { msie6: true, safari: false },
            send_timeout: Duration::from_secs(60),
            lingering_close: LingeringClose::On,
            lingering_time: Duration::from_secs(30),
            lingering_timeout: Duration::from_secs(5),
            reset_timedout: false,
            chunked_transfer_encoding: true,
            http2_chunk_bytes: 8192,
        }
    }
}

/// The browsers of `keepalive_disable`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeepaliveDisable {
    /// Internet Explorer up to 6, after a POST.
    pub msie6: bool,
    /// Safari on a Mac.
    pub safari: bool,
}

/// `lingering_close`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LingeringClose {
    /// Never wait for more data.
    Off,
    /// When a client may still be sending.
    On,
    /// Always.
    Always,
}
