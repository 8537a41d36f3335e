//! The limits of an HTTP/2 connection.

use crate::h1::request::HeadLimits;

use super::frame::FRAME_BYTES_DEFAULT;

/// The settings and limits of HTTP/2 connections.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// `http2_max_concurrent_streams`: more streams are refused; the client may send them again.
    pub max_concurrent_streams: u32,
    /// The largest accepted payload of a frame, 16384 to 2^24 - 1. A frame is processed when it is complete, so a
    /// connection needs a buffer of this size.
    pub max_frame_bytes: u32,
    /// `http2_body_preread_size`: how much of a request body may arrive before it is read.
    pub stream_window_bytes: u32,
    /// The same for all streams of a connection together; at least 65535, the initial value of the standard.
    pub connection_window_bytes: u32,
    /// The limits of request heads, with this meaning for HTTP/2. Bytes are counted after decoding.
    ///
    /// - `line_bytes`: method, path and `HTTP/2.0` with the spaces between them; 414 past it.
    /// - `field_bytes`: name and value of one field; 494 past it.
    /// - `head_bytes`: names and values of all fields together, pseudo fields and ignored ones included; 494 past
    ///   it, and the end of the connection past [`LIST_FACTOR`] times as much.
    /// - `max_fields`: crumbs of cookies and ignored fields are not counted, as in nginx.
    ///
    /// nginx since 1.19.7 takes both sizes from `large_client_header_buffers` and closes the connection past them.
    pub head: HeadLimits,
    /// How many streams may be reset before they are answered, and how fast that count falls. An answered stream lowers
    /// the count by one. Streams that we reset because of what the client sent (CVE-2023-44487, CVE-2025-8671) and
    /// refused ones count too.
    pub resets: Rate,
    /// How many points useless frames may cost, and how fast that count falls; see [`Cost`]. Requests and bodies lower
    /// the count.
    pub idle_frames: Rate,
}

impl Default for Config {
    /// nginx's defaults, if it has them.
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

/// A limit of a count that falls with time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// The highest allowed count.
    pub burst: u32,
    /// By how much the count falls each second.
    pub per_second: u32,
}

/// What frames cost that carry neither a request nor a body, in points of [`Config::idle_frames`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Cost {
    /// A WINDOW_UPDATE, of whatever size. Each DATA frame that we send pays for several of them.
    WindowUpdate = 1,
    /// A frame on a closed stream, or of an unknown type.
    Late = 2,
    /// PRIORITY and PRIORITY_UPDATE, which make work in the tree.
    Priority = 3,
    /// PING, which has to be answered. Clients that measure the connection send one for each answer.
    Ping = 4,
    /// An empty DATA frame that does not end the stream.
    EmptyBody = 10,
    /// SETTINGS, which may change the window of every stream; and GOAWAY, of which one is enough.
    Settings = 100,
}

/// How much a request lowers the count.
pub(super) const EARNED_BY_REQUEST: u32 = 20;
/// How much a DATA frame that we send lowers the count, if it is not tiny.
pub(super) const EARNED_BY_FRAME: u32 = 8;
/// How much each KiB of a body, in either direction, lowers the count.
pub(super) const EARNED_BY_KIB: u32 = 1;
/// A DATA frame that is smaller than this because of the client's window does not lower the count.
pub(super) const TINY_FRAME_BYTES: usize = 256;

/// How many times [`HeadLimits::head_bytes`] are decoded, so that the client gets an answer for a head that is too
/// large.
pub const LIST_FACTOR: usize = 4;

/// The most frames of one field block. Clients need one, or three for the largest cookies.
pub const BLOCK_FRAMES_MAX: u32 = 64;
