//! Escaping and unescaping, with nginx's tables.

use super::hex;

/// What text is escaped for: nginx's `NGX_ESCAPE_URI` and the like.
///
/// All of them escape control characters, everything above `~`, the space and `" < > \ ^ { | } ` and the
/// backtick; the variants say what else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Escape {
    /// A path: `#`, `%` and `?`.
    Uri,
    /// An argument: `#`, `%`, `&`, `+`, `;` and `?`.
    Args,
    /// A part of a URI that stands alone: all but letters, digits and `-._~`.
    UriComponent,
    /// A URI in an attribute of a page: `#`, `%` and `'`, but not `?`.
    Html,
}

/// Appends `text` to `out`, with every byte that `kind` does not allow as `%XX`.
pub fn escape_uri(text: &[u8], kind: Escape, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let is_escaped = match kind {
        Escape::Uri => &URI,
        Escape::Args => &ARGS,
        Escape::UriComponent => &URI_COMPONENT,
        Escape::Html => &HTML,
    };
    out.reserve(text.len());
    for &byte in text {
        if is_escaped[usize::from(byte)] {
            out.extend([b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        } else {
            out.push(byte);
        }
    }
}

/// Adds `text` to `out` with `<`, `>`, `&` and `"` as entities, for the text of a page.
pub fn escape_html(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        match byte {
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'&' => out.extend_from_slice(b"&amp;"),
            b'"' => out.extend_from_slice(b"&quot;"),
            _ => out.push(byte),
        }
    }
}

/// Adds `text` to `out` with every `%XX` decoded. As in nginx: a `%` without a digit after it is dropped, and the next
/// byte kept. A `%` with only one digit is dropped with that digit and the byte after it.
pub fn unescape(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while let [byte, after @ ..] = rest {
        rest = after;
        if *byte != b'%' {
            out.push(*byte);
            continue;
        }
        let Some((&first, after)) = rest.split_first() else {
            return;
        };
        rest = after;
        let Some(high) = hex(first) else {
            out.push(first);
            continue;
        };
        let Some((&second, after)) = rest.split_first() else {
            return;
        };
        rest = after;
        if let Some(low) = hex(second) {
            out.push(high << 4 | low);
        }
    }
}

static URI: [bool; 256] = table(b" \"#%<>?\\^`{|}");
static ARGS: [bool; 256] = table(b" \"#%&+;<>?\\^`{|}");
static HTML: [bool; 256] = table(b" \"#%'<>\\^`{|}");
static URI_COMPONENT: [bool; 256] = {
    let mut table = [true; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = !matches!(byte as u8, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~');
        byte += 1;
    }
    table
};

/// A table with the bytes of `escaped`, control characters, and everything above `~`.
const fn table(escaped: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = byte < 0x20 || byte > 0x7e;
        byte += 1;
    }
    let mut at = 0;
    while at < escaped.len() {
        table[escaped[at] as usize] = true;
        at += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_escapes_what_nginx_escapes() {
        let printable: Vec<u8> = (0x20..0x7f).filter(|byte: &u8| !byte.is_ascii_alphanumeric()).collect();
        for (kind, kept) in [
            (Escape::Uri, "!$&'()*+,-./:;=@[]_~"),
            (Escape::Args, "!$'()*,-./:=@[]_~"),
            (Escape::UriComponent, "-._~"),
            (Escape::Html, "!$&()*+,-./:;=?@[]_~"),
        ] {
            let is_kept = |byte: &u8| {
                let mut out = Vec::new();
                escape_uri(&[*byte], kind, &mut out);
                out == [*byte]
            };
            let found: Vec<u8> = printable.iter().copied().filter(is_kept).collect();
            assert_eq!(String::from_utf8_lossy(&found), kept, "{kind:?}");
            assert!((0..=0x1f).chain(0x7f..=0xff).all(|byte| !is_kept(&byte)), "{kind:?}");
        }
        let mut out = b"/".to_vec();
        escape_uri("a b%é".as_bytes(), Escape::Uri, &mut out);
        assert_eq!(out, b"/a%20b%25%C3%A9");
    }

    #[test]
    fn text_of_pages_has_entities() {
        let mut out = Vec::new();
        escape_html(b"<a href=\"x\">'&'</a>", &mut out);
        assert_eq!(out, b"&lt;a href=&quot;x&quot;&gt;'&amp;'&lt;/a&gt;");
    }

    #[test]
    fn escapes_are_decoded_and_broken_ones_lost_as_in_nginx() {
        for (text, expected) in [
            ("a%20b", "a b"),
            ("%41%4a%4A", "AJJ"),
            ("%2525", "%25"),
            ("a?b%3f", "a?b?"),
            ("%", ""),
            ("%4", ""),
            ("%zz", "zz"),
            ("%4zq", "q"),
            ("%%41", "%41"),
        ] {
            let mut out = Vec::new();
            unescape(text.as_bytes(), &mut out);
            assert_eq!(String::from_utf8_lossy(&out), expected, "{text}");
        }
    }

    #[test]
    fn what_is_escaped_as_a_component_is_unescaped_to_itself() {
        let all: Vec<u8> = (0..=255).collect();
        let (mut escaped, mut back) = (Vec::new(), Vec::new());
        escape_uri(&all, Escape::UriComponent, &mut escaped);
        unescape(&escaped, &mut back);
        assert_eq!(back, all);
    }
}
