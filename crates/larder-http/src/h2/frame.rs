//! Frames as bytes (RFC 9113 §4.1, §6).

use super::error::{ConnectionError, ErrorCode};

/// What a client sends first (RFC 9113 §3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The length of a frame's head.
pub const FRAME_HEAD_BYTES: usize = 9;

/// The largest payload that every peer must accept, and the largest that we accept.
pub(super) const FRAME_BYTES_DEFAULT: u32 = 16_384;
/// The largest payload that a peer can allow.
pub(super) const FRAME_BYTES_MAX: u32 = (1 << 24) - 1;
/// The initial window of every stream and connection.
pub(super) const WINDOW_DEFAULT: i32 = 65_535;
/// The largest window.
pub(super) const WINDOW_MAX: i32 = i32::MAX;

/// Frame types.
pub(super) mod kind {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const PRIORITY: u8 = 2;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PUSH_PROMISE: u8 = 5;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
    /// RFC 9218 §7.1.
    pub const PRIORITY_UPDATE: u8 = 0x10;
}

/// Flags.
pub(super) mod flag {
    pub const ACK: u8 = 1;
    pub const END_STREAM: u8 = 1;
    pub const END_HEADERS: u8 = 4;
    pub const PADDED: u8 = 8;
    pub const PRIORITY: u8 = 0x20;
}

/// Settings.
pub(super) mod setting {
    pub const HEADER_TABLE_SIZE: u16 = 1;
    pub const ENABLE_PUSH: u16 = 2;
    pub const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub const INITIAL_WINDOW_SIZE: u16 = 4;
    pub const MAX_FRAME_SIZE: u16 = 5;
    /// RFC 9218 §2.1.
    pub const NO_RFC7540_PRIORITIES: u16 = 9;
}

/// A whole frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    pub kind: u8,
    pub flags: u8,
    /// The stream, without the reserved bit.
    pub stream: u32,
    pub payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Takes a frame from `input`. `None` if it is incomplete.
    #[inline]
    pub fn take(input: &mut &'a [u8], bytes_max: usize) -> Result<Option<Frame<'a>>, ConnectionError> {
        let Some((head, rest)) = input.split_first_chunk::<FRAME_HEAD_BYTES>() else {
            return Ok(None);
        };
        let &[l0, l1, l2, kind, flags, s0, s1, s2, s3] = head;
        let len = u32::from_be_bytes([0, l0, l1, l2]) as usize;
        if len > bytes_max {
            return Err(ConnectionError::size("frame larger than SETTINGS_MAX_FRAME_SIZE"));
        }
        // No client may send this, so it need not be complete to be refused.
        if kind == kind::PUSH_PROMISE {
            return Err(ConnectionError::protocol("PUSH_PROMISE"));
        }
        let Some((payload, rest)) = rest.split_at_checked(len) else {
            return Ok(None);
        };
        *input = rest;
        Ok(Some(Frame { kind, flags, stream: u31([s0, s1, s2, s3]), payload }))
    }

    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The payload without padding (RFC 9113 §6.1).
    #[inline]
    pub fn unpadded(&self) -> Result<&'a [u8], ConnectionError> {
        if !self.has(flag::PADDED) {
            return Ok(self.payload);
        }
        let (&padding, rest) = self.payload.split_first().ok_or(ConnectionError::size("padded frame of no length"))?;
        let len = rest.len().checked_sub(usize::from(padding));
        len.map(|len| &rest[..len]).ok_or(ConnectionError::protocol("frame with more padding than payload"))
    }
}

/// 31 bits; the highest one is reserved.
#[inline]
pub(super) fn u31(bytes: [u8; 4]) -> u32 {
    u32::from_be_bytes(bytes) & 0x7fff_ffff
}

/// Writes the head of a frame of `len` bytes, which is less than 2^24.
#[inline]
pub(super) fn head(len: usize, kind: u8, flags: u8, stream: u32, out: &mut Vec<u8>) {
    debug_assert!(len <= FRAME_BYTES_MAX as usize, "the length of a frame has 24 bits");
    let [_, l0, l1, l2] = (len as u32).to_be_bytes();
    let [s0, s1, s2, s3] = stream.to_be_bytes();
    out.extend_from_slice(&[l0, l1, l2, kind, flags, s0, s1, s2, s3]);
}

/// Writes SETTINGS.
pub(super) fn settings(settings: &[(u16, u32)], out: &mut Vec<u8>) {
    head(settings.len() * 6, kind::SETTINGS, 0, 0, out);
    for (id, value) in settings {
        out.extend_from_slice(&id.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Writes a WINDOW_UPDATE, unless `bytes` is zero.
pub(super) fn window_update(stream: u32, bytes: u32, out: &mut Vec<u8>) {
    if bytes > 0 {
        head(4, kind::WINDOW_UPDATE, 0, stream, out);
        out.extend_from_slice(&bytes.to_be_bytes());
    }
}

/// Writes a RST_STREAM.
pub(super) fn reset(stream: u32, code: ErrorCode, out: &mut Vec<u8>) {
    head(4, kind::RST_STREAM, 0, stream, out);
    out.extend_from_slice(&code.0.to_be_bytes());
}

/// Writes a GOAWAY.
pub(super) fn go_away(last_stream: u32, code: ErrorCode, debug: &str, out: &mut Vec<u8>) {
    head(8 + debug.len(), kind::GOAWAY, 0, 0, out);
    out.extend_from_slice(&last_stream.to_be_bytes());
    out.extend_from_slice(&code.0.to_be_bytes());
    out.extend_from_slice(debug.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_taken_whole_or_not_at_all() {
        let mut bytes = Vec::new();
        reset(5, ErrorCode::CANCEL, &mut bytes);
        bytes[5] |= 0x80; // the reserved bit
        for len in 0..bytes.len() {
            let mut input = &bytes[..len];
            assert!(Frame::take(&mut input, 16_384).expect("nothing is wrong").is_none());
            assert_eq!(input.len(), len);
        }
        bytes.push(7);
        let mut input = &bytes[..];
        let frame = Frame::take(&mut input, 16_384).expect("nothing is wrong").expect("it is complete");
        assert_eq!((frame.kind, frame.flags, frame.stream, frame.payload), (3, 0, 5, &[0, 0, 0, 8][..]));
        assert_eq!(input, [7]);
        let mut large = &[0, 0x40, 1, 0, 0, 0, 0, 0, 1][..];
        let error = Frame::take(&mut large, 16_384).expect_err("it is too large");
        assert_eq!(error.code, ErrorCode::FRAME_SIZE_ERROR);
    }

    #[test]
    fn padding_is_taken_off() {
        for (payload, expected) in [
            (&[0, 1, 2][..], Ok(&[1, 2][..])),
            (&[2, 1, 2, 3], Ok(&[1])),
            (&[2, 1, 2], Ok(&[])),
            (&[3, 1, 2], Err(ErrorCode::PROTOCOL_ERROR)),
            (&[], Err(ErrorCode::FRAME_SIZE_ERROR)),
        ] {
            let frame = Frame { kind: 0, flags: flag::PADDED, stream: 1, payload };
            assert_eq!(frame.unpadded().map_err(|error| error.code), expected);
        }
    }
}
