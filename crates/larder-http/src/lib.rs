//! HTTP messages and the codecs of HTTP/1 and HTTP/2: bytes in, values out. Nothing here opens a socket or reads a
//! clock; the caller provides bytes and time. What a peer may send follows nginx's rules; where those are less strict
//! than is safe, the function says how it differs.
//!
//! - [`field`]: header fields and what is written in them.
//! - [`h1`]: request and response heads, chunked bodies.
//! - [`h2`]: the server side of an HTTP/2 connection.
//! - [`uri`], [`host`]: normalised targets and hosts.
//! - [`proxy_protocol`]: the client's address, sent by a load balancer in front.
//! - [`status`], [`date`], [`digits`], [`Time`], [`Method`].
#![forbid(unsafe_code)]

pub mod date;
pub mod digits;
pub mod field;
pub mod h1;
pub mod h2;
pub mod host;
pub mod method;
pub mod proxy_protocol;
mod scan;
pub mod status;
pub mod time;
pub mod uri;

pub use date::{format_date, parse_date, parse_exact_date};
pub use digits::append_decimal;
pub use field::accept_encoding::{Accepted, Coding, Weight};
pub use field::cookie::cookie;
pub use field::known::{Known, KnownSet};
pub use field::names::Names;
pub use field::range::{ByteRange, Ranges, parse_ranges};
pub use field::{Fields, Run, Written, cache_control, dictionary, list, range, vary};
pub use h1::Version;
pub use h1::chunked::{ChunkError, ChunkedDecoder, Decoded, LAST_CHUNK, chunk_head};
pub use h1::error::{HeadError, HeadPlace};
pub use h1::fold::unfold;
pub use h1::framing::{Framing, body_framing, check_host, copy_target_host, keep_alive_wanted, take_host};
pub use h1::request::{HeadLimits, HeadStatus, RequestHead, parse_request};
pub use h1::response::{
    ResponseError, ResponseFraming, ResponseHead, keep_alive_offered, parse_cgi, parse_response, response_framing,
};
pub use host::{HostParts, host_port, normalise_host};
pub use method::Method;
pub use status::{error_note, error_title, reason, sent_status};
pub use time::Time;
pub use uri::{Escape, UriError, UriParts, escape_html, escape_uri, normalise, take_path, unescape};

/// Parses a number of decimal digits, at most 2^63 - 1, as nginx reads sizes. `None` for everything else.
pub fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    let mut value: u64 = 0;
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    (value <= i64::MAX as u64).then_some(value)
}
