//! The words of a query.

use std::borrow::Cow;
use std::fmt;

/// A word, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word<'a> {
    pub kind: Kind<'a>,
    /// Its first byte, and the one behind it.
    pub at: (usize, usize),
}

/// What a word is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind<'a> {
    /// An operator, a bracket, or a word that means something.
    Fixed(&'static str),
    /// A value, without its quotes.
    Value(Cow<'a, [u8]>),
    /// The end of a query, or of all.
    End,
}

/// Why a text is no query, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryError {
    /// What is wrong, and what would be right.
    pub what: String,
    /// The byte where it is, counted from 0.
    pub at: usize,
    /// The line, or what is around the place, and how many of its bytes are in front of the place.
    line: (String, usize),
}

impl QueryError {
    pub(super) fn new(text: &[u8], at: usize, what: impl Into<String>) -> Self {
        let at = at.min(text.len());
        let line_start = text[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let line_end = text[at..].iter().position(|byte| *byte == b'\n').map_or(text.len(), |end| at + end);
        let start = line_start.max(at.saturating_sub(SHOWN_BYTES));
        let end = line_end.min(at + SHOWN_BYTES);
        // One column for each byte, so that the mark stands below its place.
        let one = |byte: &u8| if (b' '..=b'~').contains(byte) { char::from(*byte) } else { ' ' };
        Self { what: what.into(), at, line: (text[start..end].iter().map(one).collect(), at - start) }
    }
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, before) = &self.line;
        write!(f, "{} (position {})\n{line}\n{}^", self.what, self.at + 1, "-".repeat(*before))
    }
}

impl std::error::Error for QueryError {}

/// The words of a text. The last one is an end.
pub fn words(text: &[u8]) -> Result<Vec<Word<'_>>, QueryError> {
    let mut words = Vec::new();
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let rest = &text[at..];
        let (kind, length) = match byte {
            b' ' | b'\t' => {
                at += 1;
                continue;
            }
            b'\\' if rest.get(1) == Some(&b'\n') => {
                at += 2;
                continue;
            }
            b'#' => {
                at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
                continue;
            }
            b'\n' => (Kind::End, 1),
            b'"' | b'\'' => {
                let (value, length) = quoted(rest).ok_or_else(|| {
                    let mend =
                        format!("a quoted text ends with {0} on the same line; in it, write \\{0}", byte as char);
                    QueryError::new(text, at, mend)
                })?;
                (Kind::Value(value), length)
            }
            _ => match fixed(rest) {
                Some(word) => (Kind::Fixed(word), word.len()),
                None => match rest.iter().take_while(|byte| is_of_word(**byte)).count() {
                    0 => {
                        let mend =
                            format!("\"{}\" has no meaning here: put values with it into quotes", shown(&[byte]));
                        return Err(QueryError::new(text, at, mend));
                    }
                    length => (Kind::Value(Cow::Borrowed(&rest[..length])), length),
                },
            },
        };
        words.push(Word { kind, at: (at, at + length) });
        at += length;
    }
    words.push(Word { kind: Kind::End, at: (text.len(), text.len()) });
    Ok(words)
}

/// The word that means something with which a text begins. The longer of two comes first.
fn fixed(rest: &[u8]) -> Option<&'static str> {
    let found = FIXED.iter().find(|word| rest.starts_with(word.as_bytes()))?;
    // `order` does not begin with `or`.
    let goes_on = rest.get(found.len()).is_some_and(|byte| is_of_word(*byte));
    (!(found.as_bytes()[0].is_ascii_alphabetic() && goes_on)).then_some(found)
}

/// A text in quotes, and how many bytes it has with them. `None` if it does not end on its line.
fn quoted(rest: &[u8]) -> Option<(Cow<'_, [u8]>, usize)> {
    let quote = rest[0];
    let mut value = Vec::new();
    let mut bytes = rest.iter().enumerate().skip(1);
    while let Some((at, &byte)) = bytes.next() {
        match byte {
            b'\n' => return None,
            b'\\' => match bytes.next()? {
                (_, b'\n') => return None,
                (_, &escaped) => value.push(escaped),
            },
            byte if byte == quote => return Some((Cow::Owned(value), at + 1)),
            byte => value.push(byte),
        }
    }
    None
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-+.*".contains(&byte)
}

/// How bytes are shown in an error: their beginning, as text.
pub fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_BYTES)]);
    text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect()
}

const FIXED: &[&str] = &[
    "==", "!=", "<=", ">=", "!~", "<", ">", "~", "[", "]", "{", "}", "(", ")", ":", ",", "eq", "ne", "and", "or",
    "not", "vxid",
];
/// What of a line is shown on each side of a place.
const SHOWN_BYTES: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> Result<String, String> {
        let words = words(text).map_err(|error| error.to_string())?;
        let one = |word: &Word<'_>| match &word.kind {
            Kind::Fixed(word) => (*word).to_owned(),
            Kind::Value(value) => format!("'{}'", value.escape_ascii()),
            Kind::End => "END".to_owned(),
        };
        Ok(words.iter().map(one).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn words_are_operators_and_values() {
        for (text, expected) in [
            ("", "END"),
            ("ReqURL", "'ReqURL' END"),
            ("{2+}Req*:a[1]>=.5", "{ '2+' } 'Req*' : 'a' [ '1' ] >= '.5' END"),
            ("a<b<=c!~d~e==f!=g", "'a' < 'b' <= 'c' !~ 'd' ~ 'e' == 'f' != 'g' END"),
            ("not order and nothing or vxid eq eqs ne-", "not 'order' and 'nothing' or vxid eq 'eqs' 'ne-' END"),
            ("(a,b)", "( 'a' , 'b' ) END"),
            ("a\nb # c \" \\\nd", "'a' END 'b' END 'd' END"),
            ("a \\\n eq b", "'a' eq 'b' END"),
            (r#""a \"b\" \\ 'c'""#, r#"'a "b" \\\\ \'c\'' END"#.replace(r"\\\\", r"\\").as_str()),
            ("'x\\n\"'", r#"'xn\"' END"#),
            ("''", "'' END"),
        ] {
            let expected = expected.replace('"', "\\\"").replace("\\\\\"", "\\\"");
            assert_eq!(read(text.as_bytes()), Ok(expected), "{text}");
        }
        assert_eq!(read(b"'\xff'"), Ok("'\\xff' END".to_owned()));
    }

    #[test]
    fn an_error_shows_the_place() {
        let quote = "a quoted text ends with \" on the same line; in it, write \\\"";
        for (text, expected) in [
            (&b"ReqURL eq \"x"[..], format!("{quote} (position 11)\nReqURL eq \"x\n----------^")),
            (b"a\nb \"\n\"", format!("{quote} (position 5)\nb \"\n--^")),
            (b"\"\\\n\"", format!("{quote} (position 1)\n\"\\\n^")),
            (b"\"\\", format!("{quote} (position 1)\n\"\\\n^")),
            (b"a!b", "\"!\" has no meaning here: put values with it into quotes (position 2)\na!b\n-^".to_owned()),
            (
                b"a \xc3",
                "\"\u{fffd}\" has no meaning here: put values with it into quotes (position 3)\na  \n--^".to_owned(),
            ),
        ] {
            assert_eq!(read(text), Err(expected), "{}", text.escape_ascii());
        }
        let far = [&b"a ".repeat(1000)[..], b"!", &b" a".repeat(1000)].concat();
        let said = read(&far).unwrap_err();
        assert!(said.len() < 400 && said.contains("(position 2001)"), "{said}");
    }
}
