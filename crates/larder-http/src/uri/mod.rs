//! Normalises request targets.

pub mod escape;
pub mod reference;

use std::ops::Range;

use crate::scan;

pub use escape::{Escape, escape_html, escape_uri, unescape};

/// What [`normalise`] found in a target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UriParts {
    /// Where the arguments are in the input, without `?` and without a fragment; `None` without a `?`.
    pub args: Option<Range<usize>>,
    /// Where the extension of the last segment is in the output, without its dot.
    pub extension: Option<Range<usize>>,
    /// Whether the path in the input is the same as in the output.
    pub plain: bool,
}

/// Why a target is invalid. Each is a 400.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UriError {
    /// It does not begin with a slash.
    #[error("the path does not begin with a slash")]
    NotAbsolute,
    /// `..` above the first segment.
    #[error("the path leads above the root")]
    AboveRoot,
    /// A `%` without two hexadecimal digits.
    #[error("the path has an invalid percent escape")]
    BadEscape,
    /// `%00`.
    #[error("the path has a NUL")]
    Nul,
    /// A control character or a space as it is.
    #[error("the target has a control character or a space")]
    Control,
}

impl UriError {
    /// Whether the path begins with `/`, and only has no normal form.
    pub fn is_of_the_path(self) -> bool {
        matches!(self, UriError::AboveRoot | UriError::BadEscape | UriError::Nul)
    }
}

/// Writes the path of a target to `out`, which is cleared first, as it stands there: for who judges it himself.
pub fn take_path(target: &[u8], out: &mut Vec<u8>) -> UriParts {
    out.clear();
    let (path_len, args) = split(target);
    out.extend_from_slice(&target[..path_len]);
    UriParts { args, extension: extension(out), plain: false }
}

/// Writes the decoded path of a target to `out`, which is cleared first, as nginx makes `$uri`.
///
/// Escapes are decoded; `.` and `..` segments are resolved, also if they are escaped; with `merge_slashes`, several
/// slashes in a row become one; a fragment is cut off. An escaped `%`, `#` or `?` is a normal character of the path. A
/// target that is empty or begins with `?` has the path `/`, as `http://host?args` does.
pub fn normalise(path_and_query: &[u8], merge_slashes: bool, out: &mut Vec<u8>) -> Result<UriParts, UriError> {
    out.clear();
    if scan::space_or_control(path_and_query, 0).is_some() {
        return Err(UriError::Control);
    }
    let (path_len, args) = split(path_and_query);
    let path = &path_and_query[..path_len];
    let plain = match path {
        [] => {
            out.push(b'/');
            false
        }
        [b'/', ..] if is_plain(path, merge_slashes) => {
            out.extend_from_slice(path);
            true
        }
        [b'/', ..] => {
            Resolver::run(path, merge_slashes, out)?;
            out == path
        }
        _ => return Err(UriError::NotAbsolute),
    };
    let extension = extension(out);
    Ok(UriParts { args, extension, plain })
}

/// How long the path is, and where the arguments are.
fn split(target: &[u8]) -> (usize, Option<Range<usize>>) {
    match memchr::memchr2(b'?', b'#', target) {
        Some(at) if target[at] == b'?' => {
            let start = at + 1;
            let len = memchr::memchr(b'#', &target[start..]).unwrap_or(target.len() - start);
            (at, Some(start..start + len))
        }
        Some(at) => (at, None),
        None => (target.len(), None),
    }
}

/// Whether a path needs no resolving. May be false although it needs none.
fn is_plain(path: &[u8], merge_slashes: bool) -> bool {
    // Without early exits, so that the compiler vectorises it.
    let has_special = |found, pair: &[u8]| {
        let starts_segment = pair[0] == b'/' && (pair[1] == b'.' || (pair[1] == b'/' && merge_slashes));
        found | (pair[1] == b'%') | starts_segment
    };
    !path.windows(2).fold(false, has_special)
}

/// The extension: what follows the last dot of the last segment. A dot at the start of the segment does not count.
fn extension(path: &[u8]) -> Option<Range<usize>> {
    let segment = memchr::memrchr(b'/', path).map_or(0, |slash| slash + 1);
    let dot = segment + memchr::memrchr(b'.', &path[segment..])?;
    (dot > segment).then(|| dot + 1..path.len())
}

/// Builds a path byte by byte. `.` and `..` are only recognised as segments at the next slash; until then they are in
/// `out`.
struct Resolver<'o> {
    out: &'o mut Vec<u8>,
    state: Segment,
    merge_slashes: bool,
}

/// What the current segment consists of so far.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Segment {
    Empty,
    Dot,
    DotDot,
    Usual,
}

impl Resolver<'_> {
    fn run(path: &[u8], merge_slashes: bool, out: &mut Vec<u8>) -> Result<(), UriError> {
        let mut resolver = Resolver { out, state: Segment::Usual, merge_slashes };
        let mut rest = path;
        while let [byte, after @ ..] = rest {
            rest = after;
            if *byte != b'%' {
                resolver.add(*byte)?;
                continue;
            }
            let [high, low, after @ ..] = after else {
                return Err(UriError::BadEscape);
            };
            rest = after;
            match hex(*high).zip(hex(*low)).map(|(high, low)| high << 4 | low) {
                None => return Err(UriError::BadEscape),
                Some(0) => return Err(UriError::Nul),
                Some(decoded) => resolver.add(decoded)?,
            }
        }
        resolver.end_segment()
    }

    fn add(&mut self, byte: u8) -> Result<(), UriError> {
        match (byte, self.state) {
            (b'/', Segment::Empty) if self.merge_slashes => return Ok(()),
            (b'/', Segment::Dot | Segment::DotDot) => {
                self.end_segment()?;
                self.state = Segment::Empty;
                return Ok(());
            }
            (b'/', Segment::Empty | Segment::Usual) => self.state = Segment::Empty,
            (b'.', Segment::Empty) => self.state = Segment::Dot,
            (b'.', Segment::Dot) => self.state = Segment::DotDot,
            _ => self.state = Segment::Usual,
        }
        self.out.push(byte);
        Ok(())
    }

    /// Resolves the segment that ends here, if it is `.` or `..`; the slash before it is kept.
    fn end_segment(&mut self) -> Result<(), UriError> {
        match self.state {
            Segment::Empty | Segment::Usual => {}
            Segment::Dot => {
                self.out.pop();
            }
            Segment::DotDot => {
                // Remove "/..", then everything after the slash before it.
                self.out.truncate(self.out.len() - 3);
                let slash = memchr::memrchr(b'/', self.out).ok_or(UriError::AboveRoot)?;
                self.out.truncate(slash + 1);
            }
        }
        Ok(())
    }
}

/// The value of a hexadecimal digit.
pub fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(target: &str, merge_slashes: bool) -> Result<String, UriError> {
        let mut out = b"left over".to_vec();
        normalise(target.as_bytes(), merge_slashes, &mut out)?;
        Ok(String::from_utf8_lossy(&out).into_owned())
    }

    #[test]
    fn paths_are_decoded_and_resolved() {
        for (target, expected) in [
            ("/", "/"),
            ("", "/"),
            ("?a", "/"),
            ("/a/b.php?x", "/a/b.php"),
            ("/a#f", "/a"),
            ("/a#f?x", "/a"),
            ("/a%20b", "/a b"),
            ("/%41%c3%a9", "/Aé"),
            ("/a+b", "/a+b"),
            ("/a%2Bb", "/a+b"),
            ("/a%2fb", "/a/b"),
            ("/a//b///c", "/a/b/c"),
            ("/a/%2f/b", "/a/b"),
            ("//", "/"),
            ("/a/./b", "/a/b"),
            ("/a/.", "/a/"),
            ("/a/./", "/a/"),
            ("/a/b/..", "/a/"),
            ("/a/b/../", "/a/"),
            ("/a/b/../c", "/a/c"),
            ("/a/../b/../c", "/c"),
            ("/a/..", "/"),
            ("/a/..?x", "/"),
            ("/a/.?x", "/a/"),
            ("/a/..#x", "/"),
            ("/a/%2e%2e/b", "/b"),
            ("/a/.%2e/b", "/b"),
            ("/a/%2E/b", "/a/b"),
            ("/a/%2e%2e%2fb", "/b"),
            ("/a/b//../c", "/a/c"),
            ("/..a", "/..a"),
            ("/...", "/..."),
            ("/.a", "/.a"),
            ("/a..", "/a.."),
            ("/a/.b/../c", "/a/c"),
            ("/a%25b", "/a%b"),
            ("/a%2525", "/a%25"),
            ("/a%23b", "/a#b"),
            ("/a%3fb?c", "/a?b"),
            ("/a%3Fb", "/a?b"),
            ("/%01%7f", "/\u{1}\u{7f}"),
        ] {
            assert_eq!(path(target, true), Ok(expected.into()), "{target}");
        }
    }

    #[test]
    fn slashes_stay_when_they_are_not_merged() {
        for (target, expected) in [("//a///b", "//a///b"), ("//a//../b", "//a/b"), ("//..", "/"), ("/a//", "/a//")] {
            assert_eq!(path(target, false), Ok(expected.into()), "{target}");
        }
    }

    #[test]
    fn what_names_nothing_is_refused() {
        for (target, error) in [
            ("/..", UriError::AboveRoot),
            ("/../a", UriError::AboveRoot),
            ("/%2e%2e/a", UriError::AboveRoot),
            ("/a/../../b", UriError::AboveRoot),
            ("/a/b/../../..", UriError::AboveRoot),
            ("/..?a", UriError::AboveRoot),
            ("/%00", UriError::Nul),
            ("/a%0", UriError::BadEscape),
            ("/a%", UriError::BadEscape),
            ("/a%?b", UriError::BadEscape),
            ("/a%g0", UriError::BadEscape),
            ("/a%0g", UriError::BadEscape),
            ("/a b", UriError::Control),
            ("/a\r\nb", UriError::Control),
            ("/a?\0", UriError::Control),
            ("/a\u{7f}", UriError::Control),
            ("*", UriError::NotAbsolute),
            ("a/b", UriError::NotAbsolute),
            ("%2fa", UriError::NotAbsolute),
        ] {
            assert_eq!(path(target, true), Err(error), "{target}");
        }
    }

    #[test]
    fn arguments_are_what_stands_after_the_first_question_mark() {
        for (target, expected) in [
            ("/a", None),
            ("/a?", Some("")),
            ("/a?b=c&d", Some("b=c&d")),
            ("/a?b?c", Some("b?c")),
            ("/a?b#c", Some("b")),
            ("/a#b?c", None),
            ("/%3f?%2e", Some("%2e")),
            ("?x", Some("x")),
        ] {
            let parts = normalise(target.as_bytes(), true, &mut Vec::new()).expect("the target is valid");
            assert_eq!(parts.args.map(|args| &target[args]), expected, "{target}");
        }
    }

    #[test]
    fn the_extension_is_after_the_last_dot_of_the_last_segment() {
        for (target, expected) in [
            ("/a.php", Some("php")),
            ("/a.tar.gz?x.y", Some("gz")),
            ("/a.b/c", None),
            ("/.htaccess", None),
            ("/.a.b", Some("b")),
            ("/a.", Some("")),
            ("/a%2ephp", Some("php")),
            ("/a.php/../b", None),
            ("/a", None),
        ] {
            let mut out = Vec::new();
            let parts = normalise(target.as_bytes(), true, &mut out).expect("the target is valid");
            assert_eq!(parts.extension.map(|range| &out[range]), expected.map(str::as_bytes), "{target}");
        }
    }

    #[test]
    fn plain_says_that_the_path_was_normal_already() {
        for (target, merge_slashes, expected) in [
            ("/a/b.c?x=%20#f", true, true),
            ("/.a", true, true),
            ("//a", true, false),
            ("//a", false, true),
            ("/a%20", true, false),
            ("/./a", true, false),
            ("?a", true, false),
        ] {
            let parts = normalise(target.as_bytes(), merge_slashes, &mut Vec::new()).expect("the target is valid");
            assert_eq!(parts.plain, expected, "{target}");
        }
    }
}
