//! HTTP/2.

/// `http2` and `http2_*` of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http2 {
    /// `http2 on`. A `listen ... http2` means all servers of that address; either is enough.
    pub enabled: bool,
    /// `http2_max_concurrent_streams`, 128.
    pub max_concurrent_streams: u32,
    /// `http2_body_preread_size`, 64k: what a client may send of a body before anyone asks for it.
    pub body_preread_bytes: u32,
}

impl Default for Http2 {
    fn default() -> Self {
        Self { enabled: false, max_concurrent_streams: 128, body_preread_bytes: 65536 }
    }
}
