//! The errors in a request head.

use crate::status;

/// Why a request head was refused. The texts are those of nginx's log, with what it was reading.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum HeadError {
    #[error("client sent invalid method while reading client request line")]
    InvalidMethod,
    #[error("client sent invalid request while reading client request line")]
    InvalidRequest,
    #[error("client sent invalid version while reading client request line")]
    InvalidVersion,
    /// nginx still answers HTTP/0.9; only scanners send it.
    #[error("client sent HTTP/0.9 request while reading client request line")]
    Http09,
    #[error("client sent too long URI while reading client request line")]
    LineTooLong,
    #[error("client sent invalid host in request line while reading client request line")]
    InvalidTargetHost,
    #[error("client sent too long header line: \"{line}...\" while reading client request headers")]
    FieldTooLong { line: Box<str> },
    #[error("client sent too large request while reading client request headers")]
    HeadTooLarge,
    #[error("client sent too many header lines while reading client request headers")]
    TooManyFields,
    /// The line up to the invalid byte.
    #[error("client sent invalid header line: \"{line}\\x{byte:02x}...\" while reading client request headers")]
    InvalidField { line: Box<str>, byte: u8 },
    #[error("client sent duplicate header line: \"{name}\" while reading client request headers")]
    DuplicateField { name: &'static str },
    #[error("client sent HTTP/1.1 request without \"Host\" header while reading client request headers")]
    MissingHost,
    #[error("client sent neither \":authority\" nor \"Host\" header while reading client request headers")]
    MissingAuthority,
    #[error("client sent invalid host header while reading client request headers")]
    InvalidHost,
    #[error(
        "client sent \":authority\" and \"Host\" headers with different values while reading client request headers"
    )]
    HostsDiffer,
    #[error("client sent invalid \"Content-Length\" header while reading client request headers")]
    InvalidContentLength,
    #[error(
        "client sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same time \
         while reading client request headers"
    )]
    BothLengths,
    #[error("client sent HTTP/1.0 request with \"Transfer-Encoding\" header while reading client request headers")]
    TransferEncodingIn10,
    /// HTTP/2 only: the request is malformed (RFC 9113 §8.1.1).
    #[error("client sent {what} while reading client request headers")]
    Malformed { what: &'static str },
    #[error("client sent unknown \"Transfer-Encoding\": \"{value}\" while reading client request headers")]
    UnknownTransferEncoding { value: Box<str> },
}

impl HeadError {
    /// Where in the head the error is. That decides which server answers.
    pub fn place(&self) -> HeadPlace {
        match self {
            HeadError::InvalidMethod
            | HeadError::InvalidRequest
            | HeadError::InvalidVersion
            | HeadError::Http09
            | HeadError::LineTooLong => HeadPlace::Line,
            HeadError::InvalidTargetHost
            | HeadError::MissingHost
            | HeadError::MissingAuthority
            | HeadError::InvalidHost
            | HeadError::HostsDiffer => HeadPlace::Host,
            HeadError::FieldTooLong { .. }
            | HeadError::HeadTooLarge
            | HeadError::TooManyFields
            | HeadError::InvalidField { .. }
            | HeadError::DuplicateField { .. }
            | HeadError::InvalidContentLength
            | HeadError::BothLengths
            | HeadError::TransferEncodingIn10
            | HeadError::Malformed { .. }
            | HeadError::UnknownTransferEncoding { .. } => HeadPlace::Fields,
        }
    }

    /// nginx's status for it. 494 is for `error_page` and the log; the client gets 400
    /// ([`sent_status`](crate::status::sent_status)).
    pub fn status(&self) -> u16 {
        match self {
            HeadError::LineTooLong => status::URI_TOO_LONG,
            HeadError::InvalidVersion => status::VERSION_NOT_SUPPORTED,
            HeadError::UnknownTransferEncoding { .. } => status::NOT_IMPLEMENTED,
            HeadError::FieldTooLong { .. } | HeadError::HeadTooLarge | HeadError::TooManyFields => {
                status::HEAD_TOO_LARGE
            }
            HeadError::InvalidMethod
            | HeadError::InvalidRequest
            | HeadError::Http09
            | HeadError::InvalidTargetHost
            | HeadError::InvalidField { .. }
            | HeadError::DuplicateField { .. }
            | HeadError::MissingHost
            | HeadError::MissingAuthority
            | HeadError::InvalidHost
            | HeadError::HostsDiffer
            | HeadError::InvalidContentLength
            | HeadError::BothLengths
            | HeadError::Malformed { .. }
            | HeadError::TransferEncodingIn10 => status::BAD_REQUEST,
        }
    }
}

/// Where in a head an error is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeadPlace {
    /// In the request line.
    Line,
    /// In the host, or because it is missing.
    Host,
    /// In a field, or in the size of all of them together.
    Fields,
}

/// The beginning of a foreign text, for a message.
pub(crate) fn excerpt(text: &[u8]) -> Box<str> {
    const EXCERPT_BYTES_MAX: usize = 256;
    String::from_utf8_lossy(&text[..text.len().min(EXCERPT_BYTES_MAX)]).into()
}
