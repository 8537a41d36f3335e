//! Alert messages: their numbers, names and bytes on the wire (RFC 8446 §6).

/// Everything is fine; the sender writes no more.
pub(crate) const CLOSE_NOTIFY: u8 = 0;
pub(crate) const UNEXPECTED_MESSAGE: u8 = 10;
pub(crate) const BAD_RECORD_MAC: u8 = 20;
pub(crate) const RECORD_OVERFLOW: u8 = 22;
pub(crate) const DECODE_ERROR: u8 = 50;
pub(crate) const PROTOCOL_VERSION: u8 = 70;
pub(crate) const INTERNAL_ERROR: u8 = 80;
pub(crate) const USER_CANCELED: u8 = 90;
pub(crate) const NO_RENEGOTIATION: u8 = 100;
const UNRECOGNIZED_NAME: u8 = 112;

/// The level of an alert that leaves the connection alive.
pub(crate) const WARNING: u8 = 1;
/// The level of an alert that ends the connection.
pub(crate) const FATAL: u8 = 2;

/// The content type of a record that holds an alert.
pub(crate) const RECORD_TYPE: u8 = 21;

/// A whole record that holds one fatal alert, unencrypted: an answer to a ClientHello.
pub(crate) const fn plain(description: u8) -> [u8; 7] {
    [RECORD_TYPE, 3, 3, 0, 2, FATAL, description]
}

/// What nginx's `ssl_reject_handshake` sends in answer to a ClientHello: a fatal `unrecognized_name`.
pub const fn unrecognized_name_alert() -> [u8; 7] {
    plain(UNRECOGNIZED_NAME)
}

/// What a client is told where there is nothing to shake hands with, such as a certificate that cannot be loaded.
pub const fn internal_error_alert() -> [u8; 7] {
    plain(INTERNAL_ERROR)
}

/// The name of an alert, as OpenSSL prints it.
pub(crate) fn name(description: u8) -> &'static str {
    match description {
        CLOSE_NOTIFY => "close notify",
        UNEXPECTED_MESSAGE => "unexpected message",
        BAD_RECORD_MAC => "bad record mac",
        RECORD_OVERFLOW => "record overflow",
        40 => "handshake failure",
        42 => "bad certificate",
        43 => "unsupported certificate",
        44 => "certificate revoked",
        45 => "certificate expired",
        46 => "certificate unknown",
        47 => "illegal parameter",
        48 => "unknown CA",
        49 => "access denied",
        DECODE_ERROR => "decode error",
        51 => "decrypt error",
        PROTOCOL_VERSION => "protocol version",
        71 => "insufficient security",
        INTERNAL_ERROR => "internal error",
        86 => "inappropriate fallback",
        USER_CANCELED => "user canceled",
        NO_RENEGOTIATION => "no renegotiation",
        109 => "missing extension",
        110 => "unsupported extension",
        UNRECOGNIZED_NAME => "unrecognized name",
        113 => "bad certificate status response",
        115 => "unknown PSK identity",
        116 => "certificate required",
        120 => "no application protocol",
        _ => "unknown",
    }
}
