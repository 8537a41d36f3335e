//! Error codes, and what ends a connection.

use super::hpack::HpackError;

/// Why a stream or a connection ends (RFC 9113 §7). Unknown codes are kept as they are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ErrorCode(pub u32);

#[allow(missing_docs, reason = "the names are those of the standard")]
impl ErrorCode {
    pub const NO_ERROR: ErrorCode = ErrorCode(0);
    pub const PROTOCOL_ERROR: ErrorCode = ErrorCode(1);
    pub const INTERNAL_ERROR: ErrorCode = ErrorCode(2);
    pub const FLOW_CONTROL_ERROR: ErrorCode = ErrorCode(3);
    pub const SETTINGS_TIMEOUT: ErrorCode = ErrorCode(4);
    pub const STREAM_CLOSED: ErrorCode = ErrorCode(5);
    pub const FRAME_SIZE_ERROR: ErrorCode = ErrorCode(6);
    pub const REFUSED_STREAM: ErrorCode = ErrorCode(7);
    pub const CANCEL: ErrorCode = ErrorCode(8);
    pub const COMPRESSION_ERROR: ErrorCode = ErrorCode(9);
    pub const CONNECT_ERROR: ErrorCode = ErrorCode(10);
    pub const ENHANCE_YOUR_CALM: ErrorCode = ErrorCode(11);
    pub const INADEQUATE_SECURITY: ErrorCode = ErrorCode(12);
    pub const HTTP_1_1_REQUIRED: ErrorCode = ErrorCode(13);
}

/// Why a connection cannot go on. Its GOAWAY is already written to the output: send that and close.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("client sent {debug} over HTTP/2")]
pub struct ConnectionError {
    /// The code that the client gets.
    pub code: ErrorCode,
    /// What the client did wrong; the GOAWAY has this text too.
    pub debug: &'static str,
}

impl ConnectionError {
    pub(super) const fn new(code: ErrorCode, debug: &'static str) -> ConnectionError {
        ConnectionError { code, debug }
    }

    pub(super) const fn protocol(debug: &'static str) -> ConnectionError {
        ConnectionError::new(ErrorCode::PROTOCOL_ERROR, debug)
    }

    pub(super) const fn size(debug: &'static str) -> ConnectionError {
        ConnectionError::new(ErrorCode::FRAME_SIZE_ERROR, debug)
    }

    pub(super) const fn calm(debug: &'static str) -> ConnectionError {
        ConnectionError::new(ErrorCode::ENHANCE_YOUR_CALM, debug)
    }
}

impl From<HpackError> for ConnectionError {
    fn from(error: HpackError) -> ConnectionError {
        ConnectionError::new(ErrorCode::COMPRESSION_ERROR, error.fact())
    }
}
