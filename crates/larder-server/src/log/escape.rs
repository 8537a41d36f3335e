//! How values are written into access logs: `log_format escape=default|json|none`.

use larder_conf::model::LogEscape;

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Appends the value of a variable. A missing one is `-` with `escape=default`, and empty otherwise.
pub fn append_value(escape: LogEscape, value: Option<&[u8]>, out: &mut Vec<u8>) {
    match (escape, value) {
        (LogEscape::Default, Some(value)) => escape_default(value, out),
        (LogEscape::Default, None) => out.push(b'-'),
        (LogEscape::Json, Some(value)) => escape_json(value, out),
        (LogEscape::None, Some(value)) => out.extend_from_slice(value),
        (LogEscape::Json | LogEscape::None, None) => {}
    }
}

/// Escapes quotes, backslashes, control bytes and all non-ASCII bytes as `\xHH`, so that a line stays one line.
pub fn escape_default(value: &[u8], out: &mut Vec<u8>) {
    append_escaped(
        value,
        out,
        |byte| !(0x20..0x7f).contains(&byte) || byte == b'"' || byte == b'\\',
        |byte, out| {
            out.extend_from_slice(&[b'\\', b'x', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 0xf)]]);
        },
    );
}

/// Escapes as in a JSON string. Non-ASCII bytes are kept, so that the JSON is valid if the value is UTF-8.
pub fn escape_json(value: &[u8], out: &mut Vec<u8>) {
    append_escaped(
        value,
        out,
        |byte| byte < 0x20 || byte == b'"' || byte == b'\\',
        |byte, out| match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            _ => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 0xf)]]);
            }
        },
    );
}

/// Appends runs of harmless bytes at once: most values have no others.
fn append_escaped(
    mut value: &[u8],
    out: &mut Vec<u8>,
    is_special: impl Fn(u8) -> bool,
    escape: impl Fn(u8, &mut Vec<u8>),
) {
    while let Some(at) = value.iter().position(|&byte| is_special(byte)) {
        out.extend_from_slice(&value[..at]);
        escape(value[at], out);
        value = &value[at + 1..];
    }
    out.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_escaped_as_in_nginx() {
        for (value, default, json) in [
            (&b"plain /a?b=c&d"[..], "plain /a?b=c&d", "plain /a?b=c&d"),
            (b"", "", ""),
            (b"a\"b\\c", "a\\x22b\\x5Cc", "a\\\"b\\\\c"),
            (b"\n\r\t\x08\x0c", "\\x0A\\x0D\\x09\\x08\\x0C", "\\n\\r\\t\\b\\f"),
            (b"\0\x1f\x7f", "\\x00\\x1F\\x7F", "\\u0000\\u001F\x7f"),
            ("é".as_bytes(), "\\xC3\\xA9", "é"),
            (b"'<>~ ", "'<>~ ", "'<>~ "),
        ] {
            let escaped = |escape| {
                let mut out = Vec::new();
                append_value(escape, Some(value), &mut out);
                String::from_utf8(out).expect("the cases are text when escaped")
            };
            assert_eq!(escaped(LogEscape::Default), default);
            assert_eq!(escaped(LogEscape::Json), json);
            assert_eq!(escaped(LogEscape::None).as_bytes(), value);
        }
    }

    #[test]
    fn what_is_not_there_is_a_dash_by_default_only() {
        for (escape, text) in [(LogEscape::Default, "-"), (LogEscape::Json, ""), (LogEscape::None, "")] {
            let mut out = Vec::new();
            append_value(escape, None, &mut out);
            assert_eq!(out, text.as_bytes(), "{escape:?}");
        }
    }

    #[test]
    fn the_escaped_form_of_any_bytes_is_one_line_of_ascii() {
        let all: Vec<u8> = (0..=255).collect();
        let mut out = Vec::new();
        escape_default(&all, &mut out);
        assert!(out.iter().all(|byte| (0x20..0x7f).contains(byte)));
        assert_eq!(out.len(), 256 + 3 * (32 + 2 + 129));
    }
}
