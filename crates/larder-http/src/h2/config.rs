//! What is asked of connections.

use crate::h1::request::HeadLimits;

use super::frame::FRAME_BYTES_DEFAULT;

/// What is asked of HTTP/2 connections.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// `http2_max_concurrent_streams`: more are refused, and the client may send them again.
    pub max_concurrent_streams: u32,
    /// The largest payload of a frame that is taken, 16384 to 2^24 - 1. A frame is taken whole, so that this is
    /// what a connection needs as a buffer.
    pub max_frame_bytes: u32,
    /// `http2_body_preread_size`: how much of a body may come before somebody consumes it.
    pub stream_window_bytes: u32,
    /// The same for all streams of a connection together; at least 65535, which the standard gives everybody.
    pub connection_window_bytes: u32,
    /// What is asked of request heads, read as follows for HTTP/2. Bytes are counted after decoding.
    ///
    /// - `line_bytes`: method, path and `HTTP/2.0` with the spaces between them; 414 past it.
    /// - `field_bytes`: name and value of one field; 494 past it.
    /// - `head_bytes`: names and values of all fields together, pseudo fields and ignored ones included; 494 past
    ///   it, and the end of the connection past [`LIST_FACTOR`] times as much.
    /// - `max_fields`: crumbs of cookies and ignored fields are not counted, as in nginx.
    ///
    /// nginx since 1.19.7 takes both sizes from `large_client_header_buffers` and closes the connection past them.
    pub head: HeadLimits,
    /// How many streams may be reset before they are answered, and how fast that is forgiven. An answered stream
    /// makes up for one that was reset. Streams that we reset because of what the client sent count, too
    /// (CVE-2023-44487, CVE-2025-8671), and so do refused ones.
    pub resets: Rate,
    /// How many points of frames without use may come, and how fast they are forgiven; see [`Cost`]. Requests and
    /// bytes delivered earn points.
    pub idle_frames: Rate,
}

impl Default for Config {
    /// nginx's defaults where it has them.
    fn default() -> Config {
        Config {
            max_concurrent_streams: 128,
            max_frame_bytes: FRAME_BYTES_DEFAULT,
            stream_window_bytes: 65_536,
            connection_window_bytes: 1 << 20,
            head: HeadLimits::default(),
            resets: Rate { burst: 256, per_second: 10 },
            idle_frames: Rate { burst: 10_000, per_second: 500 },
        }
    }
}

/// How much of something may come at once, and how much of it is forgiven in a second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// At once.
    pub burst: u32,
    /// Forgiven in a second.
    pub per_second: u32,
}

/// What frames cost that carry neither a request nor a body, in points of [`Config::idle_frames`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Cost {
    /// A WINDOW_UPDATE, of whatever size. A frame of a body that we send earns several of them.
    WindowUpdate = 1,
    /// A frame on a stream that is over, or of a type that nobody knows.
    Late = 2,
    /// PRIORITY and PRIORITY_UPDATE, which make work in the tree.
    Priority = 3,
    /// PING, which has to be answered. Clients that measure the way send one for each answer they receive.
    Ping = 4,
    /// A DATA frame with nothing in it that ends nothing.
    EmptyBody = 10,
    /// SETTINGS, which may change the window of every stream; and GOAWAY, of which one is enough.
    Settings = 100,
}

/// What a request earns.
pub(super) const EARNED_BY_REQUEST: u32 = 20;
/// What a DATA frame that we send earns, if it is not tiny.
pub(super) const EARNED_BY_FRAME: u32 = 8;
/// What each KiB of a body earns, in either direction.
pub(super) const EARNED_BY_KIB: u32 = 1;
/// A DATA frame that a client's window made smaller than this earns nothing.
pub(super) const TINY_FRAME_BYTES: usize = 256;

/// How many times [`HeadLimits::head_bytes`] are decoded, so that the client can be told what is wrong.
pub const LIST_FACTOR: usize = 4;

/// The most frames a field block may be spread over. Clients need one, or three for the largest cookies.
pub const BLOCK_FRAMES_MAX: u32 = 64;
