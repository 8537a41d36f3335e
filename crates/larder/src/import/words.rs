//! The words of a command line, as systemd and as files of variables for shells write them.
//!
//! Sources: systemd.service(5), "COMMAND LINES"; systemd.exec(5), `EnvironmentFile=`.

use std::collections::BTreeMap;

/// The variables that a command line may name.
pub type Variables = BTreeMap<String, String>;

/// Splits a command line. Quotes hold words together, `${A}` is a part of a word, and `$A` alone is as many words as it has.
pub fn split(line: &str, variables: &Variables) -> Vec<String> {
    let mut words = Vec::new();
    let mut letters = line.chars().peekable();
    loop {
        while letters.next_if(|letter| letter.is_whitespace()).is_some() {}
        if letters.peek().is_none() {
            return words;
        }
        let (mut word, mut quote, mut is_quoted) = (String::new(), None, false);
        while let Some(letter) = letters.next_if(|letter| quote.is_some() || !letter.is_whitespace()) {
            match (letter, quote) {
                ('"' | '\'', None) => {
                    quote = Some(letter);
                    is_quoted = true;
                }
                (letter, Some(end)) if letter == end => quote = None,
                ('\\', Some('"') | None) => word.extend(letters.next()),
                (letter, _) => word.push(letter),
            }
        }
        let named = word.strip_prefix('$').filter(|_| !is_quoted).filter(|name| is_name(name));
        match named {
            Some(name) => {
                let value = variables.get(name).map(String::as_str).unwrap_or_default();
                words.extend(split(value, &Variables::new()));
            }
            None => words.push(filled(&word, variables)),
        }
    }
}

/// A word with `${A}` replaced. What is not known is empty, as for systemd.
fn filled(word: &str, variables: &Variables) -> String {
    let (mut out, mut rest) = (String::new(), word);
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, behind)) = after.split_once('}') else { break };
        out.push_str(before);
        out.push_str(variables.get(name).map(String::as_str).unwrap_or_default());
        rest = behind;
    }
    out + rest
}

/// How values of a file of variables are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// A shell, which puts the values of earlier ones in.
    Shell,
    /// systemd, which takes them as they are.
    Systemd,
}

/// Adds what a file of variables sets, with the line of each.
pub fn assign(text: &str, reader: Reader, variables: &mut Variables, lines: &mut BTreeMap<String, usize>) {
    let mut rest = text;
    let mut line = 1;
    while !rest.is_empty() {
        let begins = line;
        let (statement, behind) = statement(rest);
        line += rest[..rest.len() - behind.len()].matches('\n').count();
        rest = behind;
        let statement = statement.trim();
        let statement = statement.strip_prefix("export ").unwrap_or(statement).trim_start();
        let Some((name, value)) = statement.split_once('=').filter(|(name, _)| is_name(name)) else { continue };
        let value = value_of(value, reader, variables);
        lines.insert(name.to_owned(), begins);
        variables.insert(name.to_owned(), value);
    }
}

/// The text up to a line end that is in no quotes, and what is behind it.
fn statement(text: &str) -> (&str, &str) {
    let trimmed = text.trim_start_matches([' ', '\t']);
    if trimmed.starts_with(['#', ';']) {
        let end = text.find('\n').map_or(text.len(), |at| at + 1);
        return ("", &text[end..]);
    }
    let (mut quote, mut is_escaped) = (None, false);
    for (at, letter) in text.char_indices() {
        match (letter, quote) {
            _ if is_escaped => is_escaped = false,
            ('\\', Some('"') | None) => is_escaped = true,
            ('\n', None) => return (&text[..at], &text[at + 1..]),
            ('"' | '\'', None) => quote = Some(letter),
            (letter, Some(end)) if letter == end => quote = None,
            _ => {}
        }
    }
    (text, "")
}

fn value_of(text: &str, reader: Reader, variables: &Variables) -> String {
    let (mut value, mut quote) = (String::new(), None);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            ('"' | '\'', None) => quote = Some(letter),
            (letter, Some(end)) if letter == end => quote = None,
            // A line that goes on.
            ('\\', Some('"') | None) if letters.peek() == Some(&'\n') => {
                letters.next();
            }
            ('\\', Some('"') | None) => value.extend(letters.next()),
            ('#', None) if value.ends_with(' ') => break,
            ('$', Some('"') | None) if reader == Reader::Shell => {
                let is_braced = letters.next_if_eq(&'{').is_some();
                let mut name = String::new();
                while let Some(letter) = letters.next_if(|letter| letter.is_ascii_alphanumeric() || *letter == '_') {
                    name.push(letter);
                }
                if is_braced {
                    letters.next_if_eq(&'}');
                }
                value.push_str(variables.get(&name).map(String::as_str).unwrap_or_default());
            }
            (letter, _) => value.push(letter),
        }
    }
    value.trim().to_owned()
}

fn is_name(word: &str) -> bool {
    !word.is_empty()
        && !word.starts_with(|first: char| first.is_ascii_digit())
        && word.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// Words as systemd reads them back.
pub fn joined(words: &[String]) -> String {
    let quoted = |word: &String| {
        let is_plain = |letter: char| letter.is_alphanumeric() || "/._-+:,@=[]*".contains(letter);
        // systemd reads $ in quotes too; a % is as it was written.
        let escaped = word.replace('\\', "\\\\").replace('"', "\\\"").replace('$', "$$");
        if !word.is_empty() && word.chars().all(is_plain) { escaped } else { format!("\"{escaped}\"") }
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> Variables {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_command_line_is_split_as_systemd_splits_it() {
        let variables = variables(&[("OPTS", "-a :80 -s 'malloc,1 G'"), ("PORT", "81")]);
        for (line, expected) in [
            ("/bin/v -a :80", &["/bin/v", "-a", ":80"][..]),
            ("v \"a b\" 'c d' e\\ f", &["v", "a b", "c d", "e f"]),
            ("v $OPTS x", &["v", "-a", ":80", "-s", "malloc,1 G", "x"]),
            ("v -a :${PORT} '$OPTS'", &["v", "-a", ":81", "$OPTS"]),
            ("v ${NONE} $NONE", &["v", ""]),
            ("v ${PORT", &["v", "${PORT"]),
            ("", &[]),
        ] {
            assert_eq!(split(line, &variables), expected, "{line}");
        }
        let words = ["a b", "c\"d", "%t", "e$", ""].map(str::to_owned);
        assert_eq!(joined(&words), "\"a b\" \"c\\\"d\" \"%t\" \"e$$\" \"\"");
    }

    #[test]
    fn a_file_of_variables_is_read() {
        let text = "# A=0\nA=1 # one\n\n  B=\"x \\\n    y\"\nexport C='$A'\nD=${A}2$B\n; E=1\nF=a\\ b\nnot a line\nB=2";
        for (reader, d) in [(Reader::Shell, "12x     y"), (Reader::Systemd, "${A}2$B")] {
            let (mut found, mut lines) = (Variables::new(), BTreeMap::new());
            assign(text, reader, &mut found, &mut lines);
            let expected = variables(&[("A", "1"), ("B", "2"), ("C", "$A"), ("D", d), ("F", "a b")]);
            assert_eq!(found, expected, "{reader:?}");
            assert_eq!(lines.get("D"), Some(&7), "{lines:?}");
        }
        // Nothing that a file has makes it fail.
        for text in ["=", "A", "A=\"", "A='x\n", "A=\\", "A=${", "é=1\nB=é\\"] {
            assign(text, Reader::Shell, &mut Variables::new(), &mut BTreeMap::new());
        }
    }
}
