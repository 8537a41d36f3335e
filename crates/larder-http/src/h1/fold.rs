//! Lines of a head that go on in the next one (obs-fold, RFC 9112 §5.2).

use crate::Known;

/// The head with each continued line in one, of the same length: where a line goes on, its end and the white space behind that become spaces.
///
/// `None` if no line goes on, or one may not: the first one, and those of the fields that say where a message ends and
/// whom it is for, which another server may read in another way.
pub fn unfold(buf: &[u8]) -> Option<Vec<u8>> {
    let mut unfolded = Vec::new();
    let start = buf.iter().position(|byte| !matches!(byte, b'\r' | b'\n'))?;
    let mut field: Option<&[u8]> = None;
    let mut line_start = start;
    while let Some(len) = memchr::memchr(b'\n', &buf[line_start..]) {
        let end = line_start + len;
        let line = &buf[line_start..end];
        match line.strip_suffix(b"\r").unwrap_or(line) {
            // It may also be the first of several that are empty but for spaces.
            [b' ' | b'\t', ..] => {
                if is_framing(field?) {
                    return None;
                }
                if unfolded.is_empty() {
                    unfolded.extend_from_slice(buf);
                }
                let spaces = line.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
                let before = if buf[line_start - 2] == b'\r' { 2 } else { 1 };
                unfolded[line_start - before..line_start + spaces].fill(b' ');
            }
            [] => break,
            line if line_start > start => field = Some(line.split(|byte| *byte == b':').next().unwrap_or(line)),
            _ => {}
        }
        line_start = end + 1;
    }
    (!unfolded.is_empty()).then_some(unfolded)
}

fn is_framing(name: &[u8]) -> bool {
    matches!(
        Known::of(name),
        Known::ContentLength | Known::TransferEncoding | Known::Host | Known::Connection | Known::Upgrade
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_goes_on_becomes_one() {
        for (head, expected) in [
            ("GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n", Some("GET / HTTP/1.1\r\nA: b   c\r\n\r\n")),
            ("GET / HTTP/1.1\nA: b\n\tc\n d\nE: f\n\n", Some("GET / HTTP/1.1\nA: b  c  d\nE: f\n\n")),
            ("\r\nGET / HTTP/1.1\r\nA: b\n \r\n\r\n x", Some("\r\nGET / HTTP/1.1\r\nA: b  \r\n\r\n x")),
            ("GET / HTTP/1.1\r\nA: b\r\n\r\n c", None),
            ("GET / HTTP/1.1\r\n A: b\r\n\r\n", None),
            ("GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", None),
            ("GET / HTTP/1.1\r\nTransfer-Encoding:\r\n chunked\r\n\r\n", None),
            ("GET / HTTP/1.1\r\nA: b\r\n c\r\ncontent-length: 1\r\n 2\r\n\r\n", None),
            (" GET / HTTP/1.1\r\n\r\n", None),
            ("GET / HTTP/1.1\r\nA: b\r\n c", None),
            ("\r\n", None),
            ("", None),
        ] {
            let unfolded = unfold(head.as_bytes());
            assert_eq!(unfolded.as_deref(), expected.map(str::as_bytes), "{head:?}");
        }
    }
}
