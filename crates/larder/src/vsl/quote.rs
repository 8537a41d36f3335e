//! How values stand in a line, so that nobody outside can end it or begin another.

/// How bytes are escaped that could.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quoting {
    /// `\xff`, for all but ASCII.
    Hexadecimal,
    /// The same outside of quotation marks: those in it stay as they are.
    Unquoted,
    /// `\u0001`, for control characters. What is not ASCII stays as it is.
    Json,
}

/// Appends a value.
pub fn append(value: &[u8], quoting: Quoting, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for &byte in value {
        let digits = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
        match byte {
            b'"' if quoting == Quoting::Unquoted => out.push(byte),
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b' '..=b'~' => out.push(byte),
            0x7f.. if quoting == Quoting::Json => out.push(byte),
            _ => {
                out.extend_from_slice(if quoting == Quoting::Json { b"\\u00" } else { b"\\x" });
                out.extend_from_slice(&digits);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_on_their_line() {
        for (value, hexadecimal, unquoted, json) in [
            (&b"plain ~?'"[..], &b"plain ~?'"[..], &b"plain ~?'"[..], &b"plain ~?'"[..]),
            (b"\"a\\b\"", b"\\\"a\\\\b\\\"", b"\"a\\\\b\"", b"\\\"a\\\\b\\\""),
            (b"\r\n\t", b"\\r\\n\\t", b"\\r\\n\\t", b"\\r\\n\\t"),
            (b"\0\x1b[1m\x7f", b"\\x00\\x1b[1m\\x7f", b"\\x00\\x1b[1m\\x7f", b"\\u0000\\u001b[1m\x7f"),
            ("é".as_bytes(), b"\\xc3\\xa9", b"\\xc3\\xa9", "é".as_bytes()),
        ] {
            for (quoting, expected) in
                [(Quoting::Hexadecimal, hexadecimal), (Quoting::Unquoted, unquoted), (Quoting::Json, json)]
            {
                let mut out = Vec::new();
                append(value, quoting, &mut out);
                assert_eq!(out, expected, "{} {quoting:?}", value.escape_ascii());
            }
        }
    }
}
