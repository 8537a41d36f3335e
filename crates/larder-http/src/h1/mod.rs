//! The HTTP/1 codec: heads, body framing, chunked bodies. Bytes in, values out.

pub mod chunked;
pub mod error;
pub mod fold;
pub mod framing;
mod line;
pub mod request;
pub mod response;

/// The version of a message; later minor versions of HTTP/1 count as 1.1 (RFC 9110 §2.5). Later ones are greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub enum Version {
    /// HTTP/1.0.
    #[default]
    Http10,
    /// HTTP/1.1.
    Http11,
    /// HTTP/2, which nginx prints with a minor version.
    Http2,
}

impl Version {
    /// As in a start line, `HTTP/1.1`.
    pub fn name(self) -> &'static str {
        match self {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
            Version::Http2 => "HTTP/2.0",
        }
    }
}

/// The version of this minor number of HTTP/1.
fn version_of_minor(minor: u32) -> Version {
    if minor == 0 { Version::Http10 } else { Version::Http11 }
}
