//! Lines of the CLI, cut into words.

/// Why a line has no words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WordsError {
    /// A word in quotes that does not end.
    #[error("Missing '\"'")]
    Quote,
    /// A backslash before something that has no meaning.
    #[error("Invalid backslash sequence")]
    Backslash,
    /// A text that does not end.
    #[error("The text after << is longer than {TEXT_BYTES_MAX} bytes")]
    Long,
}

/// How many bytes one command may have, with its text.
pub const TEXT_BYTES_MAX: usize = 16 << 20;

/// The words of a line, as varnishd cuts it: white space between them, quotes around those with white space, and
/// `\n \r \t \" \\ \101 \x41` in all.
pub fn split(line: &[u8]) -> Result<Vec<String>, WordsError> {
    let mut rest = line.trim_ascii_start();
    let mut words = Vec::new();
    while !rest.is_empty() {
        let (word, behind) = match rest {
            [b'"', inside @ ..] => quoted(inside)?,
            bare => unquoted(bare)?,
        };
        words.push(String::from_utf8_lossy(&word).into_owned());
        rest = behind.trim_ascii_start();
    }
    Ok(words)
}

fn quoted(mut rest: &[u8]) -> Result<(Vec<u8>, &[u8]), WordsError> {
    let mut word = Vec::new();
    loop {
        match rest {
            [] => return Err(WordsError::Quote),
            [b'"', behind @ ..] => return Ok((word, behind)),
            _ => rest = take_one(rest, &mut word)?,
        }
    }
}

fn unquoted(mut rest: &[u8]) -> Result<(Vec<u8>, &[u8]), WordsError> {
    let mut word = Vec::new();
    while rest.first().is_some_and(|byte| !byte.is_ascii_whitespace()) {
        rest = take_one(rest, &mut word)?;
    }
    Ok((word, rest))
}

/// Takes one character, which may be written with a backslash.
fn take_one<'a>(rest: &'a [u8], word: &mut Vec<u8>) -> Result<&'a [u8], WordsError> {
    let (byte, behind) = match rest {
        [b'\\', b'n', behind @ ..] => (b'\n', behind),
        [b'\\', b'r', behind @ ..] => (b'\r', behind),
        [b'\\', b't', behind @ ..] => (b'\t', behind),
        [b'\\', byte @ (b'"' | b'\\'), behind @ ..] => (*byte, behind),
        [b'\\', b'x', digits @ ..] => number(digits, 2, 16)?,
        [b'\\', digits @ ..] => number(digits, 3, 8)?,
        [byte, behind @ ..] => (*byte, behind),
        [] => return Ok(rest),
    };
    word.push(byte);
    Ok(behind)
}

fn number(digits: &[u8], count: usize, radix: u32) -> Result<(u8, &[u8]), WordsError> {
    let (digits, behind) = digits.split_at_checked(count).ok_or(WordsError::Backslash)?;
    let value = digits.iter().try_fold(0, |value, digit| Some(value * radix + char::from(*digit).to_digit(radix)?));
    let byte = value.and_then(|value| u8::try_from(value).ok()).ok_or(WordsError::Backslash)?;
    Ok((byte, behind))
}

/// Commands, put together of lines: a command that ends with `<< TOKEN` has a text as its last word, all lines down to
/// one that is the token.
#[derive(Debug, Default)]
pub struct Lines {
    open: Option<Text>,
}

#[derive(Debug)]
struct Text {
    words: Vec<String>,
    token: String,
    text: Vec<u8>,
}

impl Lines {
    /// Takes a line without its end. A command, unless the line is empty or the command goes on.
    pub fn take(&mut self, line: &[u8]) -> Option<Result<Vec<String>, WordsError>> {
        let Some(open) = &mut self.open else {
            return self.begin(line).transpose();
        };
        if line == open.token.as_bytes() {
            let open = self.open.take()?;
            let mut words = open.words;
            words.push(String::from_utf8_lossy(&open.text).into_owned());
            return Some(Ok(words));
        }
        if open.text.len() + line.len() >= TEXT_BYTES_MAX {
            self.open = None;
            return Some(Err(WordsError::Long));
        }
        open.text.extend_from_slice(line);
        open.text.push(b'\n');
        None
    }

    fn begin(&mut self, line: &[u8]) -> Result<Option<Vec<String>>, WordsError> {
        let mut words = split(line)?;
        match &words[..] {
            [] => Ok(None),
            [_, .., arrows, token] if arrows == "<<" && !token.is_empty() => {
                let token = words.pop().unwrap_or_default();
                words.pop();
                self.open = Some(Text { words, token, text: Vec::new() });
                Ok(None)
            }
            _ => Ok(Some(words)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_as_varnishd_cuts_them() {
        for (line, expected) in [
            ("", Ok(vec![])),
            ("  \t ", Ok(vec![])),
            ("a  b\tc\r", Ok(vec!["a", "b", "c"])),
            (r#"a "b c" d"#, Ok(vec!["a", "b c", "d"])),
            (r#""a"b"#, Ok(vec!["a", "b"])),
            (r#"a"b"#, Ok(vec!["a\"b"])),
            (r#""" """#, Ok(vec!["", ""])),
            (r#""\n\r\t\"\\\x41\101""#, Ok(vec!["\n\r\t\"\\AA"])),
            (r"a\x20b", Ok(vec!["a b"])),
            (r#""a"#, Err(WordsError::Quote)),
            (r#""a\""#, Err(WordsError::Quote)),
            (r"\q", Err(WordsError::Backslash)),
            (r"\x4", Err(WordsError::Backslash)),
            (r"\xg0", Err(WordsError::Backslash)),
            (r"\777", Err(WordsError::Backslash)),
            ("\\", Err(WordsError::Backslash)),
        ] {
            let expected = expected.map(|words: Vec<&str>| words.into_iter().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(split(line.as_bytes()), expected, "{line:?}");
        }
        assert_eq!(split(b"a\xff"), Ok(vec!["a\u{fffd}".to_owned()]));
    }

    #[test]
    fn a_text_goes_down_to_its_token() {
        let mut lines = Lines::default();
        for (line, expected) in [
            ("ping", Some(vec!["ping"])),
            ("vcl.inline a << END", None),
            ("vcl 4.1; \"", None),
            ("", None),
            (" END", None),
            ("END", Some(vec!["vcl.inline", "a", "vcl 4.1; \"\n\n END\n"])),
            ("END", Some(vec!["END"])),
            ("vcl.inline <<", Some(vec!["vcl.inline", "<<"])),
            ("<< END", Some(vec!["<<", "END"])),
        ] {
            let expected = expected.map(|words| Ok(words.into_iter().map(str::to_owned).collect::<Vec<_>>()));
            assert_eq!(lines.take(line.as_bytes()), expected, "{line:?}");
        }
    }

    #[test]
    fn a_text_without_an_end_is_given_up() {
        let mut lines = Lines::default();
        assert_eq!(lines.take(b"a b << END"), None);
        assert_eq!(lines.take(&vec![b'x'; TEXT_BYTES_MAX - 10]), None);
        assert_eq!(lines.take(&[b'x'; 10]), Some(Err(WordsError::Long)));
        assert_eq!(lines.take(b"ping"), Some(Ok(vec!["ping".to_owned()])));
    }

    #[test]
    fn any_bytes_are_words_or_an_error() {
        const BYTES: &[u8] = b"\\\"x0n< \xff\0";
        let mut lines = vec![Vec::new()];
        for _ in 0..5 {
            lines =
                lines.iter().flat_map(|line| BYTES.iter().map(|byte| [line.as_slice(), &[*byte]].concat())).collect();
            for line in &lines {
                if let Ok(words) = split(line) {
                    assert!(words.len() <= line.len(), "{line:?}");
                }
            }
        }
    }
}
