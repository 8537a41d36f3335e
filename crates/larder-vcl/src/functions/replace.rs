//! What `regsub()` and `regsuball()` put in the place of a match.

/// The most groups that a replacement can name, with the whole match.
pub const GROUPS_MAX: usize = 10;

/// A match: the bytes of the whole and of each group, from and to. A group that took no part has none.
pub type Match = [Option<(usize, usize)>; GROUPS_MAX];

/// Appends `subject` with its first match replaced, or all; false, and nothing appended, if there is none.
///
/// `find` returns the first match at or behind a place. In `with`, `\0` to `\9` are the groups, and a backslash before
/// anything else is left out. As in Varnish, a match of no bytes counts only if it is the first.
pub fn replace<E>(
    subject: &[u8],
    with: &[u8],
    all: bool,
    mut find: impl FnMut(&[u8], usize) -> Result<Option<Match>, E>,
    out: &mut Vec<u8>,
) -> Result<bool, E> {
    let (mut copied, mut from) = (0, 0);
    let mut is_first = true;
    while let Some(found) = if from <= subject.len() { find(subject, from)? } else { None } {
        let Some((start, end)) = found[0].filter(|(start, end)| *start >= copied && start <= end) else { break };
        if start == end && !is_first {
            from = end.max(from) + 1;
            continue;
        }
        is_first = false;
        out.extend_from_slice(subject.get(copied..start).unwrap_or_default());
        append(with, subject, &found, out);
        copied = end;
        from = end;
        if !all {
            break;
        }
    }
    if !is_first {
        out.extend_from_slice(subject.get(copied..).unwrap_or_default());
    }
    Ok(!is_first)
}

fn append(with: &[u8], subject: &[u8], found: &Match, out: &mut Vec<u8>) {
    let mut bytes = with.iter();
    while let Some(&byte) = bytes.next() {
        match (byte, bytes.as_slice().first()) {
            (b'\\', Some(digit @ b'0'..=b'9')) => {
                let group = found[usize::from(digit - b'0')];
                out.extend_from_slice(group.and_then(|(start, end)| subject.get(start..end)).unwrap_or_default());
                bytes.next();
            }
            (b'\\', Some(&other)) => {
                out.push(other);
                bytes.next();
            }
            _ => out.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replaces what a pattern of PCRE2 matches.
    fn replaced(subject: &str, pattern: &str, with: &str, all: bool) -> Option<String> {
        let regex = pcre2::bytes::Regex::new(pattern).expect("the pattern is sound");
        let find = |subject: &[u8], from: usize| {
            let mut found = Match::default();
            let mut locations = regex.capture_locations();
            if regex.captures_read_at(&mut locations, subject, from)?.is_none() {
                return Ok::<_, pcre2::Error>(None);
            }
            (0..GROUPS_MAX).for_each(|group| found[group] = locations.get(group));
            Ok(Some(found))
        };
        let mut out = Vec::new();
        let is_found = replace(subject.as_bytes(), with.as_bytes(), all, find, &mut out).expect("texts are short");
        assert!(is_found || out.is_empty());
        is_found.then(|| String::from_utf8_lossy(&out).into_owned())
    }

    #[test]
    fn matches_are_replaced_once_or_all() {
        for (subject, pattern, with, once, all) in [
            ("a foo foo", "foo", "bar", Some("a bar foo"), Some("a bar bar")),
            ("a", "x", "y", None, None),
            ("", "^$", "y", Some("y"), Some("y")),
            ("key=value", "(.*)=(.*)", "\\2=\\1", Some("value=key"), Some("value=key")),
            ("ab", "(a)|(b)", "[\\1\\2\\9]", Some("[a]b"), Some("[a][b]")),
            ("ab", "a", "\\0\\0", Some("aab"), Some("aab")),
            ("ab", "a", "\\\\\\&\\", Some("\\&\\b"), Some("\\&\\b")),
            ("abc", "", "-", Some("-abc"), Some("-abc")),
            ("abc", "x*", "-", Some("-abc"), Some("-abc")),
            ("axbxc", "x*", "-", Some("-axbxc"), Some("-a-b-c")),
            ("a/b/c", "/", "", Some("ab/c"), Some("abc")),
        ] {
            assert_eq!(replaced(subject, pattern, with, false).as_deref(), once, "{subject} {pattern}");
            assert_eq!(replaced(subject, pattern, with, true).as_deref(), all, "{subject} {pattern}");
        }
    }

    #[test]
    fn a_search_that_fails_is_an_error() {
        let mut out = Vec::new();
        assert_eq!(replace(b"a", b"", true, |_, _| Err("limit"), &mut out), Err("limit"));
    }
}
