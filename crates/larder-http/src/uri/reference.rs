//! References to other URLs, seen from one (RFC 3986 §5.2).

/// The scheme of a URL: what is before a `:` in front of all else.
pub fn scheme(url: &[u8]) -> Option<&[u8]> {
    let end = url.iter().position(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')))?;
    (url[end] == b':' && url[0].is_ascii_alphabetic()).then(|| &url[..end])
}

/// The path and query that a reference without scheme and host has, seen from a page with this path and query.
pub fn target_from(page: &[u8], reference: &[u8]) -> Vec<u8> {
    let path = page.split(|byte| *byte == b'?').next().unwrap_or_default();
    match reference {
        [] => page.to_vec(),
        [b'/', ..] => without_dots(b"", reference),
        [b'?', ..] => without_dots(path, reference),
        _ => {
            let folder = path.iter().rposition(|byte| *byte == b'/').map_or(path, |slash| &path[..slash]);
            without_dots(folder, &[b"/", reference].concat())
        }
    }
}

/// `folder`, and behind it a path with a query: without the segments `.` and `..` (§5.2.4). What leads above the root stays
/// there.
pub fn without_dots(folder: &[u8], path: &[u8]) -> Vec<u8> {
    let query = memchr::memchr(b'?', path).unwrap_or(path.len());
    let whole = [folder, &path[..query]].concat();
    let mut out: Vec<u8> = Vec::with_capacity(whole.len() + path.len() - query + 1);
    let mut segments = whole.strip_prefix(b"/").unwrap_or(&whole).split(|byte| *byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        match segment {
            b"." | b".." => {
                if segment == b".." {
                    let parent = out.iter().rposition(|byte| *byte == b'/').unwrap_or_default();
                    out.truncate(parent);
                }
                if segments.peek().is_none() {
                    out.push(b'/');
                }
            }
            _ => {
                out.push(b'/');
                out.extend_from_slice(segment);
            }
        }
    }
    out.extend_from_slice(&path[query..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_seen_from_its_page() {
        for (reference, expected) in [
            ("", "/b/c/d?q"),
            ("?y", "/b/c/d?y"),
            ("g", "/b/c/g"),
            ("./g", "/b/c/g"),
            ("g/", "/b/c/g/"),
            ("/g", "/g"),
            ("g?y/../x", "/b/c/g?y/../x"),
            (".", "/b/c/"),
            ("..", "/b/"),
            ("../g", "/b/g"),
            ("../../../g", "/g"),
            ("/./g/../h", "/h"),
        ] {
            let found = target_from(b"/b/c/d?q", reference.as_bytes());
            assert_eq!(String::from_utf8_lossy(&found), expected, "{reference}");
        }
    }

    #[test]
    fn a_scheme_ends_at_the_first_colon() {
        for (url, expected) in [
            ("http://a/", Some("http")),
            ("a+b:c", Some("a+b")),
            ("/a:b", None),
            ("1a:b", None),
            (":a", None),
            ("", None),
        ] {
            assert_eq!(scheme(url.as_bytes()), expected.map(str::as_bytes), "{url}");
        }
    }
}
