//! Rust source as the rules see it: code apart from comments and literals, tests apart from the rest.

/// One source file, split so that a rule finds words only where it looks for them.
///
/// Both texts have the lines of the original; what belongs to the other is blank.
pub struct RustText {
    /// Without comments, and without the insides of string and character literals.
    pub code: String,
    /// Only comments.
    pub comments: String,
}

impl RustText {
    /// Splits `text`. Text that is not Rust gives some split, never a panic.
    pub fn of(text: &str) -> RustText {
        let chars: Vec<char> = text.chars().collect();
        let mut out = RustText { code: String::with_capacity(text.len()), comments: String::new() };
        let mut at = 0;
        while at < chars.len() {
            let (end, part) = token(&chars, at);
            for char in chars.iter().take(end).skip(at) {
                out.push(*char, part);
            }
            at = end.max(at + 1);
        }
        out
    }

    /// The lines of code that are part of the program, numbered from 1: those before the test module.
    ///
    /// Tests stand last in a file, so the first `#[cfg(test)] mod tests {` in column one ends the program.
    pub fn program_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines: Vec<&str> = self.code.lines().collect();
        let opens_tests = |at: usize| {
            let marked = lines.get(at).and_then(|line| line.strip_prefix("#[cfg(test)]"));
            let next = lines.get(at + 1).copied().unwrap_or_default();
            marked.is_some_and(|rest| [rest.trim(), next].iter().any(|line| is_open_module(line)))
        };
        let end = (0..lines.len()).find(|at| opens_tests(*at)).unwrap_or(lines.len());
        lines.into_iter().take(end).enumerate().map(|(index, line)| (index + 1, line))
    }

    fn push(&mut self, char: char, part: Part) {
        let (code, comment) = match part {
            _ if char == '\n' => ('\n', '\n'),
            Part::Code => (char, ' '),
            Part::Comment => (' ', char),
            Part::Literal => (' ', ' '),
        };
        self.code.push(code);
        self.comments.push(comment);
    }
}

fn is_open_module(line: &str) -> bool {
    line.starts_with("mod ") && line.trim_end().ends_with('{')
}

#[derive(Clone, Copy)]
enum Part {
    Code,
    Comment,
    Literal,
}

/// Where the piece that begins at `at` ends, and what it is.
fn token(chars: &[char], at: usize) -> (usize, Part) {
    let ahead = |offset: usize| chars.get(at + offset).copied().unwrap_or('\0');
    let after_word = at > 0 && chars.get(at - 1).is_some_and(|char| char.is_alphanumeric() || *char == '_');
    match (ahead(0), ahead(1)) {
        ('/', '/') => (find(chars, at, '\n'), Part::Comment),
        ('/', '*') => (end_of_block_comment(chars, at), Part::Comment),
        ('"', _) => (end_of_string(chars, at + 1), Part::Literal),
        ('r', '"' | '#') if !after_word => match end_of_raw_string(chars, at + 1) {
            Some(end) => (end, Part::Literal),
            None => (at + 1, Part::Code),
        },
        ('b', 'r') if !after_word && matches!(ahead(2), '"' | '#') => match end_of_raw_string(chars, at + 2) {
            Some(end) => (end, Part::Literal),
            None => (at + 1, Part::Code),
        },
        ('\'', '\\') => (find(chars, at + 3, '\'') + 1, Part::Literal),
        ('\'', _) if ahead(2) == '\'' => (at + 3, Part::Literal),
        _ => (at + 1, Part::Code),
    }
}

/// The next `wanted` at or after `at`, or the end.
fn find(chars: &[char], at: usize, wanted: char) -> usize {
    let rest = chars.iter().skip(at);
    rest.take_while(|char| **char != wanted).count().saturating_add(at).min(chars.len())
}

fn end_of_block_comment(chars: &[char], at: usize) -> usize {
    let mut depth = 0usize;
    let mut at = at;
    while at < chars.len() {
        match (chars.get(at), chars.get(at + 1)) {
            (Some('/'), Some('*')) => {
                depth += 1;
                at += 2;
            }
            (Some('*'), Some('/')) => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    chars.len()
}

/// `at` is behind the opening quote.
fn end_of_string(chars: &[char], mut at: usize) -> usize {
    while let Some(char) = chars.get(at) {
        match char {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

/// `at` is behind the `r`; `None` if this is no raw string but a name such as `r#type`.
fn end_of_raw_string(chars: &[char], at: usize) -> Option<usize> {
    let hashes = chars.iter().skip(at).take_while(|char| **char == '#').count();
    if chars.get(at + hashes) != Some(&'"') {
        return None;
    }
    let mut at = at + hashes + 1;
    while at < chars.len() {
        at = find(chars, at, '"') + 1;
        if chars.iter().skip(at).take(hashes).filter(|char| **char == '#').count() == hashes {
            return Some((at + hashes).min(chars.len()));
        }
    }
    Some(chars.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_only_where_they_are_code() {
        for (text, code) in [
            ("let a = 1; // unsafe", "let a = 1;"),
            ("/* a /* b */ c */ fn f()", "fn f()"),
            ("x(\"unsafe \\\" y\") + z", "x(                 ) + z"),
            ("r#\"a \" b\"# + c", "+ c"),
            ("br\"a\" + c", "+ c"),
            ("r#type + c", "r#type + c"),
            ("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)"),
            ("m('\\'', '\"', '\\u{7f}') + n", "m(                    ) + n"),
            ("for \"open", "for"),
        ] {
            let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            let found = RustText::of(text).code.replace("\"", " ");
            assert_eq!(squeeze(&found).replace(", ", ""), squeeze(code).replace(", ", ""), "{text}");
        }
    }

    #[test]
    fn lines_keep_their_numbers() {
        let text = RustText::of("a\n/* b\nb */ c\n\"d\nd\" e\n#[cfg(test)]\nmod tests {\n}\n");
        let lines: Vec<_> = text.program_lines().map(|(number, line)| (number, line.trim())).collect();
        assert_eq!(lines, [(1, "a"), (2, ""), (3, "c"), (4, ""), (5, "e")]);
        assert_eq!(text.comments.lines().nth(1).map(str::trim), Some("/* b"));
    }

    #[test]
    fn text_that_ends_anywhere_is_split() {
        let text = "r#\"a\"# /* x */ 'a' '\\n' \"s\\\\\" // c\n b'x' br##\"y\"##";
        for end in 0..=text.len() {
            let part = &text[..end];
            assert_eq!(RustText::of(part).code.chars().count(), part.chars().count(), "{part}");
        }
    }
}
