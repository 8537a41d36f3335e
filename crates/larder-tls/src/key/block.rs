//! PEM: blocks of base64 between lines of text (RFC 7468).

use super::KeyError;

/// A block between `-----BEGIN LABEL-----` and `-----END LABEL-----`.
pub(super) struct Block<'a> {
    pub(super) label: &'a str,
    /// Lines `Name: value` before the content (RFC 1421).
    pub(super) headers: Vec<(&'a str, &'a str)>,
    pub(super) der: Vec<u8>,
}

/// The blocks whose label is `wanted`. Text outside of blocks is commentary.
pub(super) fn blocks(text: &[u8], wanted: impl Fn(&str) -> bool) -> Result<Vec<Block<'_>>, KeyError> {
    let mut found = Vec::new();
    // A file may have a byte-order mark or comments in any encoding: lines that are no text are commentary too.
    let mut lines = text.split(|byte| *byte == b'\n').map(|line| std::str::from_utf8(line).unwrap_or("").trim());
    while let Some(line) = lines.next() {
        let Some(label) = line.find("-----BEGIN ").and_then(|at| line[at + 11..].strip_suffix("-----")) else {
            continue;
        };
        let damaged = || KeyError::Damaged(label.into());
        let mut headers: Vec<(&str, &str)> = Vec::new();
        let mut base64 = String::new();
        loop {
            let line = lines.next().ok_or_else(damaged)?;
            if let Some(end) = line.strip_prefix("-----END ") {
                if end.strip_suffix("-----") != Some(label) {
                    return Err(damaged());
                }
                break;
            }
            match line.split_once(':') {
                Some((name, value)) => headers.push((name.trim(), value.trim())),
                None => base64.push_str(line),
            }
        }
        if wanted(label) {
            let der = decode_base64(base64.as_bytes()).ok_or_else(damaged)?;
            found.push(Block { label, headers, der });
        }
    }
    Ok(found)
}

/// Base64 with its padding (RFC 4648 §4). White space between is skipped.
fn decode_base64(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut group, mut digits, mut padding) = (0_u32, 0, 0);
    for byte in text.iter().filter(|byte| !byte.is_ascii_whitespace()) {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => {
                padding += 1;
                continue;
            }
            _ => return None,
        };
        if padding > 0 {
            return None;
        }
        group = group << 6 | u32::from(digit);
        digits += 1;
        if digits == 4 {
            bytes.extend_from_slice(&group.to_be_bytes()[1..]);
            (group, digits) = (0, 0);
        }
    }
    match (digits, padding) {
        (0, 0) => {}
        (2, 2) => bytes.push((group >> 4) as u8),
        (3, 1) => bytes.extend_from_slice(&((group >> 2) as u16).to_be_bytes()),
        _ => return None,
    }
    Some(bytes)
}

/// How long the DER sequence is that begins with `der`, its header included.
pub(super) fn sequence_length(der: &[u8]) -> Option<usize> {
    match *der {
        [0x30, short @ 0..=0x7f, ..] => Some(2 + usize::from(short)),
        [0x30, 0x81, a, ..] => Some(3 + usize::from(a)),
        [0x30, 0x82, a, b, ..] => Some(4 + usize::from(u16::from_be_bytes([a, b]))),
        _ => None,
    }
}
