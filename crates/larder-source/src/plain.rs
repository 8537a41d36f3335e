//! Texts that others have written, for terminals and logs.

use std::fmt::{self, Write};

/// A text for people as one line, without what a terminal obeys: control characters, those of Latin-1 among them, and marks
/// that turn the direction of what follows.
pub struct Plain<'a>(pub &'a str);

impl fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|char| match char {
            char if turns(char) => write!(f, "{}", char.escape_unicode()),
            char if char.is_control() => write!(f, "{}", char.escape_default()),
            char => f.write_char(char),
        })
    }
}

/// The same for a text of several lines.
pub struct PlainLines<'a>(pub &'a str);

impl fmt::Display for PlainLines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.split_inclusive('\n').try_for_each(|line| match line.strip_suffix('\n') {
            Some(line) => writeln!(f, "{}", Plain(line)),
            None => write!(f, "{}", Plain(line)),
        })
    }
}

/// JSON that says the same, without what a terminal obeys. A serializer escapes ASCII alone.
pub struct PlainJson<'a>(pub &'a str);

impl fmt::Display for PlainJson<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|char| match char {
            // Outside ASCII all stands in strings, and these have four digits.
            char if turns(char) || char.is_control() && !char.is_ascii() => write!(f, "\\u{:04x}", u32::from(char)),
            char => f.write_char(char),
        })
    }
}

fn turns(char: char) -> bool {
    matches!(char, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_obeys_nothing_of_it() {
        let text = "a\u{1b}[1m\n\u{9b}31m \u{202e}b\u{e9}\t";
        assert_eq!(Plain(text).to_string(), "a\\u{1b}[1m\\n\\u{9b}31m \\u{202e}b\u{e9}\\t");
        assert_eq!(PlainLines(text).to_string(), "a\\u{1b}[1m\n\\u{9b}31m \\u{202e}b\u{e9}\\t");
        let json = "{\n \"a\": \"\\u001b \u{9b} \u{202e} \u{e9}\"\n}";
        assert_eq!(PlainJson(json).to_string(), "{\n \"a\": \"\\u001b \\u009b \\u202e \u{e9}\"\n}");
    }
}
