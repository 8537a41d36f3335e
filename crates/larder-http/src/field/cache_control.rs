//! `Cache-Control` (RFC 9111 §5.2): its directives, one after the other.

use super::list::{is_token, trim};

/// A directive of `Cache-Control`, such as `max-age=60` or `no-cache="Set-Cookie"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Directive<'a> {
    /// Its name, as it was sent.
    pub name: &'a [u8],
    /// Its argument.
    pub argument: Argument<'a>,
    /// All of it, as it was sent.
    pub text: &'a [u8],
}

/// The argument of a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument<'a> {
    /// None.
    None,
    /// A token, or what stands in the place of one.
    Token(&'a [u8]),
    /// What stands between quotes, escapes and all.
    Quoted(&'a [u8]),
}

impl<'a> Directive<'a> {
    /// Whether it is as the RFC has it: a token, and after a `=` a token or a quoted string.
    pub fn is_well_formed(&self) -> bool {
        is_token(self.name)
            && match self.argument {
                Argument::None => true,
                Argument::Token(text) => is_token(text),
                Argument::Quoted(text) => !has_bare_quote(text),
            }
    }

    /// Whether `word`, in lower case, stands anywhere in it: what one that is not well formed may have meant.
    pub fn mentions(&self, word: &str) -> bool {
        self.text.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word.as_bytes()))
    }

    /// Whether it has this name, in lower case. One with white space before its `=` has a name of its own.
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }

    /// The same for one that is not well formed: as it was meant.
    pub fn is_meant_as(&self, name: &str) -> bool {
        trim(self.name).eq_ignore_ascii_case(name.as_bytes())
    }

    /// The seconds of a directive that is well formed, at most [`SECONDS_MAX`]; as a token or in quotes (§5.2). `None`
    /// for everything else.
    pub fn seconds(&self) -> Option<u64> {
        match self.argument {
            Argument::Token(text) | Argument::Quoted(text) if trim(self.name) == self.name => delta_seconds(text),
            _ => None,
        }
    }

    /// The names of fields in its argument, which is in quotes (§5.2.2.4, §5.2.2.7). `None` if there is no name, or what
    /// is no name: then it is as good as without argument.
    pub fn names(&self) -> Option<Vec<&'a [u8]>> {
        let Argument::Quoted(text) = self.argument else { return None };
        let names: Vec<&[u8]> = text.split(|&byte| byte == b',').map(trim).filter(|name| !name.is_empty()).collect();
        (!names.is_empty() && names.iter().all(|name| is_token(name))).then_some(names)
    }
}

/// Whether a quote without a backslash stands in what is between quotes.
fn has_bare_quote(text: &[u8]) -> bool {
    let mut is_escaped = false;
    text.iter().any(|byte| {
        let is_bare = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        is_bare
    })
}

/// The greatest number of seconds that is told apart from a greater one (RFC 9111 §1.2.2).
pub const SECONDS_MAX: u64 = 1 << 31;

/// Decimal digits as seconds, at most [`SECONDS_MAX`] (RFC 9111 §1.2.2). `None` for everything else.
pub fn delta_seconds(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |sum, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        Some((sum * 10 + digit).min(SECONDS_MAX))
    })
}

/// The directives of one line.
///
/// Commas inside a quoted argument do not separate. A quote that is never closed, or does not begin an argument, is no
/// quote, so that it hides no directive.
pub fn directives(line: &[u8]) -> impl Iterator<Item = Directive<'_>> {
    let mut rest = line;
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let end = end_of_member(rest);
            let member = trim(&rest[..end]);
            rest = rest.get(end + 1..).unwrap_or_default();
            if !member.is_empty() {
                return Some(directive(member));
            }
        }
        None
    })
}

fn directive(member: &[u8]) -> Directive<'_> {
    let Some(at) = member.iter().position(|&byte| byte == b'=') else {
        return Directive { name: member, argument: Argument::None, text: member };
    };
    let (name, value) = (&member[..at], &member[at + 1..]);
    let argument = match value {
        [b'"', inner @ .., b'"'] => Argument::Quoted(inner),
        _ => Argument::Token(value),
    };
    Directive { name, argument, text: member }
}

/// Where the first member ends: at a comma outside quotes, or at the end.
fn end_of_member(list: &[u8]) -> usize {
    let mut at = 0;
    while let Some(&byte) = list.get(at) {
        match byte {
            b',' => return at,
            b'=' if list.get(at + 1) == Some(&b'"') => at += 1 + quoted(&list[at + 1..]).unwrap_or(1),
            _ => at += 1,
        }
    }
    list.len()
}

/// How long the quoted text is that `text` begins with, quotes included.
fn quoted(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_are_split_outside_of_quotes_that_end() {
        for (line, expected) in [
            ("", &[][..]),
            (" , ,", &[]),
            ("no-cache", &["no-cache"]),
            ("max-age=60, no-store", &["max-age=60", "no-store"]),
            ("a=\"x, y\",b", &["a=\"x, y\"", "b"]),
            (r#"a="\", no-store", b"#, &[r#"a="\", no-store""#, "b"]),
            ("a=\"x, no-store", &["a=\"x", "no-store"]),
            (r#"a="\"#, &[r#"a="\"#]),
            ("\"a, no-store\"", &["\"a", "no-store\""]),
            ("max-age=60;s-maxage=7", &["max-age=60;s-maxage=7"]),
        ] {
            let found: Vec<_> = directives(line.as_bytes())
                .map(|directive| {
                    let name = String::from_utf8_lossy(directive.name).into_owned();
                    match directive.argument {
                        Argument::None => name,
                        Argument::Token(text) => format!("{name}={}", String::from_utf8_lossy(text)),
                        Argument::Quoted(text) => format!("{name}=\"{}\"", String::from_utf8_lossy(text)),
                    }
                })
                .collect();
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn seconds_are_digits_and_nothing_else() {
        for (line, seconds) in [
            ("max-age=60", Some(60)),
            ("max-age=\"60\"", Some(60)),
            ("max-age=0060", Some(60)),
            ("max-age=99999999999999999999", Some(SECONDS_MAX)),
            ("max-age", None),
            ("max-age=", None),
            ("max-age='60'", None),
            ("max-age=60.0", None),
            ("max-age=-1", None),
            ("max-age=60a", None),
            ("max-age =60", None),
            ("max-age= 60", None),
        ] {
            let directive = directives(line.as_bytes()).next().expect("there is one");
            assert!(directive.is_meant_as("max-age"), "{line}");
            assert_eq!(directive.seconds(), seconds, "{line}");
        }
    }

    #[test]
    fn an_argument_in_quotes_may_name_fields() {
        let of = |line: &'static str| {
            let directive = directives(line.as_bytes()).next().expect("there is one");
            directive.names().map(|names| {
                names.into_iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect::<Vec<_>>()
            })
        };
        let names = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(of("no-cache=\"Set-Cookie, X-A,\""), names(&["Set-Cookie", "X-A"]));
        for line in ["no-cache", "no-cache=\"\"", "private=Set-Cookie", "private=\"X-A X-B\"", "private=\"X\\-A\""] {
            assert_eq!(of(line), None, "{line}");
        }
    }

    #[test]
    fn what_is_not_well_formed_is_told() {
        for line in ["no-store", "max-age=60", "a=\"x, \\\" y\"", "private=''"] {
            assert!(directives(line.as_bytes()).all(|directive| directive.is_well_formed()), "{line}");
        }
        for line in [
            "no-store;",
            "private; max-age=60",
            "private =1",
            "no-cache=",
            "a=\"x",
            "\"private\"",
            "a=\"x\"private",
            "a=\"b, private, c=\"d",
        ] {
            assert!(!directives(line.as_bytes()).all(|directive| directive.is_well_formed()), "{line}");
        }
    }
}
