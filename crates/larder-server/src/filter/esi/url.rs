//! The URL of an include: what it says, and what it means beside its page.

/// An include.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Include {
    /// The host that it names: `http://HOST/...`.
    pub host: Option<Vec<u8>>,
    /// The path and the query; one without a `/` in front lies beside the page.
    pub path: Vec<u8>,
    /// `onerror="continue"`: the page goes on without it.
    pub goes_on: bool,
    /// `alt`: what is asked for in the place of one that fails.
    pub alt: Option<Box<Include>>,
    /// Whether it is resolved as RFC 3986 says, and not as Varnish does.
    pub resolves: bool,
}

/// How URLs are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// As Varnish reads them; with `https://` only if it counts as `http://`.
    Varnish {
        /// `esi_ignore_https`
        takes_https: bool,
    },
    /// As RFC 3986 says.
    Full,
}

impl Include {
    /// That of the attributes of its element. An error says why it is none.
    pub fn of(src: &[u8], alt: Option<&[u8]>, goes_on: bool, reading: Reading) -> Result<Self, &'static str> {
        // One that is no URL is as good as none.
        let alt = alt.and_then(|alt| Self::of(alt, None, false, reading).ok()).map(Box::new);
        let include = match reading {
            Reading::Varnish { takes_https } => Self::as_varnish(src, takes_https)?,
            Reading::Full => Self::resolved(&restored(src))?,
        };
        Ok(Self { goes_on, alt, ..include.checked()? })
    }

    /// The same, if its URL is one.
    fn checked(self) -> Result<Self, &'static str> {
        let is_control = |byte: &u8| *byte <= b' ' || *byte == 0x7f;
        if self.path.is_empty() || self.path.iter().chain(self.host.iter().flatten()).any(is_control) {
            return Err("an include whose src is no URL");
        }
        Ok(self)
    }

    fn as_varnish(url: &[u8], takes_https: bool) -> Result<Self, &'static str> {
        let rest = match (url.strip_prefix(b"http://"), url.strip_prefix(b"https://")) {
            (Some(rest), _) => rest,
            (None, Some(rest)) if takes_https => rest,
            (None, Some(_)) => return Err("an include with https:// (esi_ignore_https)"),
            (None, None) => return Ok(Self { path: restored(url), ..Self::default() }),
        };
        let slash = memchr::memchr(b'/', rest).ok_or("an include of a host without a path")?;
        Ok(Self { host: Some(rest[..slash].to_vec()), path: restored(&rest[slash..]), ..Self::default() })
    }

    /// RFC 3986 §5.2.2, as far as that goes without the URL of the page.
    fn resolved(url: &[u8]) -> Result<Self, &'static str> {
        let url = &url[..memchr::memchr(b'#', url).unwrap_or(url.len())];
        let rest = match scheme(url) {
            None => url,
            Some(scheme) if scheme.eq_ignore_ascii_case(b"http") || scheme.eq_ignore_ascii_case(b"https") => {
                let rest = &url[scheme.len() + 1..];
                if !rest.starts_with(b"//") {
                    return Err("an include of a scheme without a host");
                }
                rest
            }
            Some(_) => return Err("an include with a scheme other than http and https"),
        };
        let (host, path) = match rest.strip_prefix(b"//") {
            None => (None, rest),
            Some(rest) => {
                let end = memchr::memchr2(b'/', b'?', rest).unwrap_or(rest.len());
                (Some(rest[..end].to_vec()), &rest[end..])
            }
        };
        let path = match (&host, path) {
            (None, [b'/', ..]) | (Some(_), _) => without_dots(b"", path),
            (None, _) => path.to_vec(),
        };
        Ok(Self { host, path, resolves: true, ..Self::default() })
    }

    /// The path and the query that are asked for, where the page has this URL.
    pub fn target(&self, page: &[u8]) -> Vec<u8> {
        if self.path.starts_with(b"/") {
            return self.path.clone();
        }
        let path = page.split(|byte| *byte == b'?').next().unwrap_or_default();
        if self.resolves && self.path.starts_with(b"?") {
            return without_dots(path, &self.path);
        }
        let folder = path.iter().rposition(|byte| *byte == b'/').map_or(path, |slash| &path[..slash]);
        match self.resolves {
            true => without_dots(folder, &[b"/", &self.path[..]].concat()),
            false => [folder, b"/", &self.path].concat(),
        }
    }
}

/// The scheme of a URL: what is before a `:` in front of all else.
fn scheme(url: &[u8]) -> Option<&[u8]> {
    let end = url.iter().position(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')))?;
    (url[end] == b':' && url[0].is_ascii_alphabetic()).then(|| &url[..end])
}

/// `folder`, and behind it a path with a query: without the segments `.` and `..` (RFC 3986 §5.2.4). What leads above the
/// root stays there.
fn without_dots(folder: &[u8], path: &[u8]) -> Vec<u8> {
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

/// A text with the five entities that XML itself has replaced.
fn restored(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'&', rest) {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at..];
        let entity = ENTITIES.iter().find(|(name, _)| rest.starts_with(name));
        let (taken, byte) = entity.map_or((1, b'&'), |(name, byte)| (name.len(), *byte));
        out.push(byte);
        rest = &rest[taken..];
    }
    out.extend_from_slice(rest);
    out
}

const ENTITIES: [(&[u8], u8); 5] =
    [(b"&apos;", b'\''), (b"&quot;", b'"'), (b"&lt;", b'<'), (b"&gt;", b'>'), (b"&amp;", b'&')];

#[cfg(test)]
mod tests {
    use super::*;

    /// The host and the target that an include asks for.
    fn asked(include: &Include, page: &str) -> String {
        let host = include.host.as_deref().map_or(String::new(), |host| format!("{}|", host.escape_ascii()));
        format!("{host}{}", include.target(page.as_bytes()).escape_ascii())
    }

    #[test]
    fn urls_are_resolved_as_rfc_3986_says_or_as_varnish_does() {
        for (src, page, rfc, varnish) in [
            ("/a?b", "/x/y", "/a?b", "/a?b"),
            ("a", "/x/y", "/x/a", "/x/a"),
            ("a", "/x/y?z=/1/2", "/x/a", "/x/a"),
            ("a", "/x/", "/x/a", "/x/a"),
            ("a", "/", "/a", "/a"),
            ("a", "x", "/x/a", "x/a"),
            ("a", "", "/a", "/a"),
            ("?a", "/x/y?b", "/x/y?a", "/x/?a"),
            ("../a", "/x/y", "/a", "/x/../a"),
            ("./a/./b", "/x/y", "/x/a/b", "/x/./a/./b"),
            ("../../../a", "/x/y/z", "/a", "/x/y/../../../a"),
            ("..", "/x/y/z", "/x/", "/x/y/.."),
            (".", "/x/y/z", "/x/y/", "/x/y/."),
            ("a/..", "/x/y", "/x/", "/x/a/.."),
            ("/a/../b/./c?d=../e", "/", "/b/c?d=../e", "/a/../b/./c?d=../e"),
            ("/a//../b", "/", "/a/b", "/a//../b"),
            ("/..a/b../...", "/", "/..a/b../...", "/..a/b../..."),
            ("/a#b?c", "/", "/a", "/a#b?c"),
            ("a?b#c", "/", "/a?b", "/a?b#c"),
            ("//h/a", "/x", "h|/a", "//h/a"),
            ("//h:8/a/../b", "/x", "h:8|/b", "//h:8/a/../b"),
            ("http://h/a", "/x", "h|/a", "h|/a"),
            ("HTTP://h/../a", "/x", "h|/a", "/HTTP://h/../a"),
            ("hTTps://h/a", "/x", "h|/a", "/hTTps://h/a"),
            ("a:b/c", "/x", "", "/a:b/c"),
            ("./a:b", "/x", "/a:b", "/./a:b"),
            ("http:a", "/x", "", "/http:a"),
            ("http://h", "/x", "h|/", ""),
            ("http://h?a#b", "/x", "h|/?a", ""),
            ("javascript:a", "/x", "", "/javascript:a"),
            ("#a", "/x", "", "/#a"),
            ("/%2e%2e/a", "/x", "/%2e%2e/a", "/%2e%2e/a"),
        ] {
            let varnish_reading = Reading::Varnish { takes_https: true };
            let made = [Reading::Full, varnish_reading].map(|reading| {
                let include = Include::of(src.as_bytes(), None, false, reading);
                include.map_or(String::new(), |include| asked(&include, page))
            });
            assert_eq!(made, [rfc, varnish], "{src} in {page}");
        }
    }
}
