//! `std.fnmatch()`: shell wildcards (POSIX.1-2017, XCU 2.13).

/// What may be asked of a match, as named in `std.fnmatch()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Whether only a `/` matches a `/`.
    pub pathname: bool,
    /// Whether `\` is an ordinary byte.
    pub noescape: bool,
    /// Whether only a `.` matches a `.` at the start, or with `pathname` behind a `/`.
    pub period: bool,
}

/// Whether `subject` as a whole matches `pattern`. Takes time in proportion to the product of their lengths at most.
pub fn matches(pattern: &[u8], subject: &[u8], rules: Rules) -> bool {
    let (mut at, mut here) = (0, 0);
    // Where to go on if what follows the last `*` does not match: at the `*`, which takes one byte more.
    let mut star = None;
    loop {
        let step = match pattern.get(at) {
            Some(b'*') if !is_guarded(subject, here, rules) || subject.get(here) != Some(&b'.') => {
                star = Some((at + 1, here));
                at += 1;
                continue;
            }
            None if here == subject.len() => return true,
            None => None,
            Some(_) => one(&pattern[at..], subject, here, rules),
        };
        match (step, star) {
            (Some(len), _) => {
                at += len;
                here += 1;
            }
            (None, Some((behind, from))) if from < subject.len() && !(rules.pathname && subject[from] == b'/') => {
                star = Some((behind, from + 1));
                (at, here) = (behind, from + 1);
            }
            (None, _) => return false,
        }
    }
}

/// How long the piece of the pattern is that matches the byte at `here`; `None` if it does not.
fn one(pattern: &[u8], subject: &[u8], here: usize, rules: Rules) -> Option<usize> {
    let byte = *subject.get(here)?;
    let is_literal_only = rules.pathname && byte == b'/' || byte == b'.' && is_guarded(subject, here, rules);
    match pattern {
        [b'?', ..] => (!is_literal_only).then_some(1),
        [b'[', rest @ ..] => match set(rest, byte, rules) {
            Some((is_in, len)) => (is_in && !is_literal_only).then_some(1 + len),
            // A bracket that is not closed is an ordinary byte.
            None => (byte == b'[').then_some(1),
        },
        [b'\\', literal, ..] if !rules.noescape => (byte == *literal).then_some(2),
        // It escapes nothing.
        [b'\\'] if !rules.noescape => None,
        [literal, ..] => (byte == *literal).then_some(1),
        [] => None,
    }
}

/// Whether a byte stands where `period` guards it.
fn is_guarded(subject: &[u8], here: usize, rules: Rules) -> bool {
    rules.period && (here == 0 || rules.pathname && subject[here - 1] == b'/')
}

/// Whether `byte` is in the set behind a `[`, and how long the set is with its `]`. `None` if it has no end.
fn set(pattern: &[u8], byte: u8, rules: Rules) -> Option<(bool, usize)> {
    let is_negated = matches!(pattern.first(), Some(b'!' | b'^'));
    // What stands behind a class that nobody knows does not count, and neither does `!`.
    let mut is_over = false;
    let mut at = usize::from(is_negated);
    let mut is_in = false;
    let first = at;
    loop {
        if pattern.get(at)? == &b']' && at > first {
            let holds = if is_over { is_in && !is_negated } else { is_in != is_negated };
            return Some((holds, at + 1));
        }
        if let Some((class, len)) = class(&pattern[at..]) {
            match class {
                Some(class) => is_in |= class(&byte) && !is_over,
                None => is_over = true,
            }
            at += len;
            continue;
        }
        let (from, len) = member(&pattern[at..], rules)?;
        at += len;
        let is_range = pattern.get(at) == Some(&b'-') && pattern.get(at + 1).is_some_and(|next| *next != b']');
        let to = if is_range {
            let (to, len) = member(&pattern[at + 1..], rules)?;
            at += 1 + len;
            to
        } else {
            from
        };
        is_in |= (from..=to).contains(&byte) && !is_over;
    }
}

/// A byte of a set, and the length in which it is written.
fn member(pattern: &[u8], rules: Rules) -> Option<(u8, usize)> {
    match pattern {
        [b'\\', byte, ..] if !rules.noescape => Some((*byte, 2)),
        [byte, ..] => Some((*byte, 1)),
        [] => None,
    }
}

/// Whether a byte is in a class.
type Class = fn(&u8) -> bool;

/// The class such as `[:alpha:]` with which the pattern begins, unless nobody knows it, and the length of its name.
fn class(pattern: &[u8]) -> Option<(Option<Class>, usize)> {
    const CLASSES: [(&[u8], Class); 12] = [
        (b"[:alnum:]", u8::is_ascii_alphanumeric),
        (b"[:alpha:]", u8::is_ascii_alphabetic),
        (b"[:blank:]", |byte| matches!(byte, b' ' | b'\t')),
        (b"[:cntrl:]", u8::is_ascii_control),
        (b"[:digit:]", u8::is_ascii_digit),
        (b"[:graph:]", u8::is_ascii_graphic),
        (b"[:lower:]", u8::is_ascii_lowercase),
        (b"[:print:]", |byte| (0x20..0x7f).contains(byte)),
        (b"[:punct:]", u8::is_ascii_punctuation),
        (b"[:space:]", |byte| byte.is_ascii_whitespace() || *byte == 0x0b),
        (b"[:upper:]", u8::is_ascii_uppercase),
        (b"[:xdigit:]", u8::is_ascii_hexdigit),
    ];
    let letters = pattern.strip_prefix(b"[:")?.iter().take_while(|byte| byte.is_ascii_lowercase()).count();
    let len = letters + 4;
    let name = pattern.get(..len).filter(|name| name.ends_with(b":]"))?;
    Some((CLASSES.iter().find(|(known, _)| *known == name).map(|(_, class)| *class), len))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Rules = Rules { pathname: true, noescape: false, period: false };

    #[test]
    fn wildcards_match_as_in_a_shell() {
        for (pattern, subject, expected) in [
            ("", "", true),
            ("", "a", false),
            ("a", "a", true),
            ("/foo/*", "/foo/bar", true),
            ("/foo/*", "/foo/", true),
            ("/foo/*", "/foo/bar/baz", false),
            ("/foo/*/*", "/foo/bar/baz", true),
            ("*.jpg", "a.b.jpg", true),
            ("*a*b*c", "xxaxxbxxbxc", true),
            ("*a*b*c", "xxaxxbxxbx", false),
            ("a*", "", false),
            ("**", "abc", true),
            ("/foo/?ar", "/foo/car", true),
            ("a?b", "a/b", false),
            ("/foo/[!0-9]", "/foo/a", true),
            ("/foo/[!0-9]", "/foo/5", false),
            ("[a-cx]", "b", true),
            ("[a-cx]", "x", true),
            ("[a-cx]", "d", false),
            ("[]-]", "]", true),
            ("[]-]", "-", true),
            ("[[:digit:]z]", "7", true),
            ("[[:digit:]z]", "z", true),
            ("[[:digit:]z]", "a", false),
            ("a[b", "a[b", true),
            ("a[b", "ab", false),
            ("a[/]b", "a/b", false),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("a\\", "a\\", false),
            ("a\\", "a", false),
            ("[b/a]", "a", true),
            ("[a/]", "/", false),
            ("[[:foo:]]", "f", false),
            ("[[:foo:]f]", "f", false),
            ("[f[:foo:]]", "f", true),
            ("[![:foo:]]", "x", false),
            ("[[:al]", ":", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), subject.as_bytes(), PLAIN), expected, "{pattern} {subject}");
        }
    }

    #[test]
    fn rules_change_what_matches() {
        for (pattern, subject, plain, rules, expected) in [
            ("/foo/*/quux", "/foo/bar/baz/quux", false, Rules { pathname: false, ..PLAIN }, true),
            ("a?b", "a/b", false, Rules { pathname: false, ..PLAIN }, true),
            ("\\*", "\\xy", false, Rules { noescape: true, ..PLAIN }, true),
            ("*", ".a", true, Rules { period: true, ..PLAIN }, false),
            ("?a", ".a", true, Rules { period: true, ..PLAIN }, false),
            ("[.]a", ".a", true, Rules { period: true, ..PLAIN }, false),
            (".*", ".a", true, Rules { period: true, ..PLAIN }, true),
            ("a/*", "a/.b", true, Rules { period: true, ..PLAIN }, false),
            ("a/*", "a/b.c", true, Rules { period: true, ..PLAIN }, true),
            ("a/*", "a/.b", true, Rules { period: true, pathname: false, ..PLAIN }, true),
        ] {
            let (pattern, subject) = (pattern.as_bytes(), subject.as_bytes());
            assert_eq!(matches(pattern, subject, PLAIN), plain);
            assert_eq!(matches(pattern, subject, rules), expected, "{rules:?}");
        }
    }

    #[test]
    fn many_stars_take_no_time() {
        let (pattern, subject) = ("*a".repeat(200), "a".repeat(5_000) + "b");
        assert!(!matches(pattern.as_bytes(), subject.as_bytes(), PLAIN));
    }
}
