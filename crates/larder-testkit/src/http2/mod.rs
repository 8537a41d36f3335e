//! HTTP/2: a client that behaves, and one that sends what it is told.

mod client;
mod raw;

pub use client::{Http2Client, Http2End, Http2Error, Http2Exchange, Http2Options, Http2Request};
pub use raw::{Frame, FrameKind, RawAnswer, RawEnd, RawHttp2, request_block};
