//! Encodes field blocks, without a dynamic table.

use crate::field::known::Known;
use crate::field::list::trim;

use super::{huffman, integer, static_table};

/// Writes `:status`.
pub fn encode_status(status: u16, out: &mut Vec<u8>) {
    let index = match status {
        200 => 8,
        204 => 9,
        206 => 10,
        304 => 11,
        400 => 12,
        404 => 13,
        500 => 14,
        _ => {
            // A literal without indexing, with the name of entry 8. Huffman code would not make three digits shorter.
            let status = status.min(999);
            let digits = [status / 100, status / 10 % 10, status % 10].map(|digit| b'0' + digit as u8);
            out.extend_from_slice(&[8, 3]);
            return out.extend_from_slice(&digits);
        }
    };
    integer::write(index, 7, 0x80, out);
}

/// Writes a field, with its name in lower case (RFC 9113 §8.2.1). The caller checks that name and value are valid.
///
/// As in nginx, no field is marked as never indexed (RFC 7541 §7.1.3): some simple clients cannot read such fields.
pub fn encode_field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    let known = Known::of(name);
    let index = static_table::index_of(known, name);
    integer::write(index, 4, 0, out);
    if index == 0 {
        encode_name(name, out);
    }
    encode_string(value, out);
}

/// Writes the fields of an HTTP/1 head: lines of `Name: value` that end with CR LF or LF. Skips lines without a colon,
/// and fields that HTTP/2 does not allow: `Connection` and similar ones (RFC 9113 §8.2.2).
pub fn encode_lines(lines: &[u8], out: &mut Vec<u8>) {
    for line in lines.split(|&byte| byte == b'\n') {
        let Some(colon) = memchr::memchr(b':', line) else { continue };
        let name = &line[..colon];
        if !is_of_connection(Known::of(name)) {
            encode_field(name, trim(line[colon + 1..].trim_ascii_end()), out);
        }
    }
}

/// Whether the field is about an HTTP/1 connection and not allowed in HTTP/2 (RFC 9113 §8.2.2).
pub(crate) const fn is_of_connection(known: Known) -> bool {
    matches!(
        known,
        Known::Connection | Known::KeepAlive | Known::ProxyConnection | Known::TransferEncoding | Known::Upgrade
    )
}

fn encode_name(name: &[u8], out: &mut Vec<u8>) {
    let lower = || name.iter().map(u8::to_ascii_lowercase);
    let plain_len = name.len();
    let huffman_len = huffman::encoded_len_of(lower());
    if huffman_len < plain_len {
        integer::write(huffman_len, 7, 0x80, out);
        huffman::encode(lower(), out);
    } else {
        integer::write(plain_len, 7, 0, out);
        out.extend(lower());
    }
}

fn encode_string(text: &[u8], out: &mut Vec<u8>) {
    let huffman_len = huffman::encoded_len_of(text.iter().copied());
    if huffman_len < text.len() {
        integer::write(huffman_len, 7, 0x80, out);
        huffman::encode(text.iter().copied(), out);
    } else {
        integer::write(text.len(), 7, 0, out);
        out.extend_from_slice(text);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Decoder, HpackError};
    use super::*;

    /// The fields of a block as lines.
    fn decoded(block: &[u8]) -> String {
        let (mut text, mut shown) = (Vec::new(), String::new());
        Decoder::new()
            .decode::<HpackError>(block, &mut text, |text, field| {
                let part = |range| String::from_utf8_lossy(&text[range]).into_owned();
                shown += &format!("{}: {}\n", part(field.name()), part(field.value()));
                Ok(())
            })
            .expect("we wrote it");
        shown
    }

    #[test]
    fn statuses_are_indexed_or_literal() {
        for (status, block) in [
            (200, &[0x88][..]),
            (304, &[0x8b]),
            (404, &[0x8d]),
            (500, &[0x8e]),
            (301, &[8, 3, b'3', b'0', b'1']),
            (503, &[8, 3, b'5', b'0', b'3']),
        ] {
            let mut out = Vec::new();
            encode_status(status, &mut out);
            assert_eq!(out, block);
            assert_eq!(decoded(&out), format!(":status: {status}\n"));
        }
    }

    #[test]
    fn names_come_from_the_static_table_and_strings_are_as_short_as_can_be() {
        for (name, value, block) in [
            ("Age", "5", &[0x0f, 21 - 15, 1, b'5'][..]),
            ("Vary", "", &[0x0f, 59 - 15, 0]),
            ("Set-Cookie", "~", &[0x0f, 55 - 15, 1, b'~']),
            ("X", "000", &[0, 1, b'x', 0x82, 0, 1]),
            ("\"", "\"\"", &[0, 1, b'"', 2, b'"', b'"']),
        ] {
            let mut out = Vec::new();
            encode_field(name.as_bytes(), value.as_bytes(), &mut out);
            assert_eq!(out, block, "{name}: {value}");
            assert_eq!(decoded(&out), format!("{}: {value}\n", name.to_lowercase()));
        }
    }

    #[test]
    fn lines_of_http_1_become_fields() {
        let lines = b"Server: larder\r\nContent-Type:text/html \r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\n\
            Transfer-Encoding: chunked\r\nX-Long-Name: a: b\nno colon\r\nX-Empty:\r\n\r\n";
        let mut out = Vec::new();
        encode_lines(lines, &mut out);
        assert_eq!(decoded(&out), "server: larder\ncontent-type: text/html\nx-long-name: a: b\nx-empty: \n");
    }
}
