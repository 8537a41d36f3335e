//! Splits bytes into words, `;`, `{` and `}`, as nginx does.
//!
//! A word ends at white space, `;` or `{`, unless the brace follows a `$`. A word that begins with a quote ends at the
//! same quote, after which white space, `;`, `{` or `)` must follow. A backslash removes the special meaning of the
//! next byte. Before a quote or a backslash it is dropped; `\t`, `\r` and `\n` are the control characters.

use crate::diagnostic::Diagnostic;
use crate::span::Span;

/// A word, quotes and escapes taken off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// What it says.
    pub text: String,
    /// Where it is, quotes included.
    pub span: Span,
    /// Whether it stood in quotes.
    pub quoted: bool,
    /// Whether a line break stands between it and the word before.
    pub starts_line: bool,
}

/// What the lexer finds next.
#[derive(Debug, PartialEq, Eq)]
pub enum Token {
    /// A word.
    Word(Word),
    /// `;`
    Semicolon(Span),
    /// `{`
    Open(Span),
    /// `}`, where a word could begin.
    Close(Span),
    /// The end of the file.
    End,
}

/// Reads one file.
pub struct Lexer<'a> {
    bytes: &'a [u8],
    file: u32,
    at: usize,
    /// Set after a closing quote, to its span: what follows must end the word.
    after_quote: Option<Span>,
}

/// What is wrong with a piece of text. The lexer goes on behind it.
#[derive(Debug)]
pub struct LexError {
    /// What to say.
    pub diagnostic: Box<Diagnostic>,
    /// Whether nothing sensible can follow.
    pub is_fatal: bool,
}

impl<'a> Lexer<'a> {
    /// Begins at the start of `bytes`, behind a byte order mark if there is one.
    pub fn new(file: u32, bytes: &'a [u8]) -> Self {
        // Spans count in 32 bits; the parser refuses larger files before they come here.
        let at = if bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        Self { bytes, file, at, after_quote: None }
    }

    /// The next token.
    pub fn next(&mut self) -> Result<Token, LexError> {
        if let Some(quoted) = self.after_quote.take() {
            self.check_after_quote(quoted)?;
        }
        let starts_line = self.skip_space();
        let start = self.at;
        let Some(&byte) = self.bytes.get(start) else {
            return Ok(Token::End);
        };
        self.at += 1;
        match byte {
            b';' => Ok(Token::Semicolon(self.span(start, self.at))),
            b'{' => Ok(Token::Open(self.span(start, self.at))),
            b'}' => Ok(Token::Close(self.span(start, self.at))),
            b'"' | b'\'' => self.quoted(byte, start, starts_line),
            _ => {
                self.at = start;
                self.unquoted(start, starts_line)
            }
        }
    }

    /// Skips a block of Lua, which begins behind its `{`, to behind its `}`. Returns whether it ended.
    pub fn skip_lua_block(&mut self) -> bool {
        let mut depth = 1;
        while let Some(&byte) = self.bytes.get(self.at) {
            let rest = &self.bytes[self.at..];
            self.at += match byte {
                b'-' if rest.starts_with(b"--[[") => length_to(rest, b"]]"),
                b'-' if rest.starts_with(b"--") => length_to(rest, b"\n"),
                b'[' if rest.starts_with(b"[[") => length_to(rest, b"]]"),
                b'"' | b'\'' => lua_string_length(rest),
                _ => 1,
            };
            match byte {
                b'{' => depth += 1,
                b'}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return true;
            }
        }
        false
    }

    /// Skips to behind the `}` that belongs to a `{` before this place.
    pub fn skip_block(&mut self) {
        let mut depth = 1;
        while let Some(&byte) = self.bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'{' => depth += 1,
                b'}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return;
            }
        }
    }

    /// The last byte of the file that is no white space, for what is missing at its end.
    pub fn last_visible(&self) -> Span {
        let at = self.bytes.iter().rposition(|byte| !byte.is_ascii_whitespace()).unwrap_or(0);
        self.span(at, (at + 1).min(self.bytes.len()))
    }

    /// The column of a place, in bytes from the start of its line, and whether only white space is before it.
    pub fn indent(&self, at: usize) -> (usize, bool) {
        let before = self.bytes.get(..at).unwrap_or_default();
        let line = before.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
        (at - line, before[line..].iter().all(|b| matches!(b, b' ' | b'\t')))
    }

    fn span(&self, start: usize, end: usize) -> Span {
        let bounded = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Span { file: self.file, start: bounded(start), end: bounded(end) }
    }

    /// Skips white space and comments; whether a line ended among it, or the file begins.
    fn skip_space(&mut self) -> bool {
        let mut starts_line = self.at == 0;
        while let Some(&byte) = self.bytes.get(self.at) {
            match byte {
                b'\n' => starts_line = true,
                b' ' | b'\t' | b'\r' => {}
                b'#' => {
                    let rest = &self.bytes[self.at..];
                    self.at += rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
                    continue;
                }
                _ => break,
            }
            self.at += 1;
        }
        starts_line
    }

    fn check_after_quote(&mut self, quoted: Span) -> Result<(), LexError> {
        let Some(&byte) = self.bytes.get(self.at) else {
            return Ok(());
        };
        if matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b';' | b'{' | b')') {
            return Ok(());
        }
        let shown = if byte.is_ascii_graphic() { char::from(byte).to_string() } else { format!("\\x{byte:02x}") };
        let mut diagnostic = Diagnostic::error(format!("unexpected \"{shown}\""))
            .at(self.span(self.at, self.at + 1))
            .label("a space or \";\" must follow a closing quote");
        if self.bytes[quoted.start as usize..quoted.end as usize].contains(&b'\n') {
            let first = self.span(quoted.start as usize, quoted.start as usize + 1);
            diagnostic =
                diagnostic.related(first, "the string that ends here begins lines above; is its quote closed?");
        }
        Err(LexError { diagnostic, is_fatal: false })
    }

    fn quoted(&mut self, quote: u8, start: usize, starts_line: bool) -> Result<Token, LexError> {
        while let Some(&byte) = self.bytes.get(self.at) {
            self.at += 1;
            if byte == b'\\' {
                self.at = (self.at + 1).min(self.bytes.len());
            } else if byte == quote {
                self.after_quote = Some(self.span(start, self.at));
                return self.word(start + 1, self.at - 1, self.span(start, self.at), starts_line, true);
            }
        }
        let quote = char::from(quote);
        Err(LexError {
            diagnostic: Diagnostic::error(format!("unexpected end of file, expecting closing {quote}"))
                .at(self.span(start, start + 1))
                .label("this quote is never closed"),
            is_fatal: true,
        })
    }

    fn unquoted(&mut self, start: usize, starts_line: bool) -> Result<Token, LexError> {
        let mut after_dollar = false;
        while let Some(&byte) = self.bytes.get(self.at) {
            match byte {
                b'{' if after_dollar => {}
                b' ' | b'\t' | b'\r' | b'\n' | b';' | b'{' => break,
                b'\\' => self.at = (self.at + 1).min(self.bytes.len() - 1),
                _ => {}
            }
            // `${` may be followed by a brace that is text as well, so the brace keeps the state.
            after_dollar = byte == b'$' || (after_dollar && byte == b'{');
            self.at += 1;
        }
        self.word(start, self.at, self.span(start, self.at), starts_line, false)
    }

    fn word(&self, from: usize, to: usize, span: Span, starts_line: bool, quoted: bool) -> Result<Token, LexError> {
        let bytes = unescape(&self.bytes[from..to]);
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Token::Word(Word { text, span, quoted, starts_line })),
            Err(_) => Err(LexError {
                diagnostic: Diagnostic::error("a word is not valid UTF-8")
                    .at(span)
                    .help("save the file as UTF-8; comments may be in any encoding"),
                is_fatal: false,
            }),
        }
    }
}

/// From the start of `bytes` to behind `end`, or all of them.
fn length_to(bytes: &[u8], end: &[u8]) -> usize {
    bytes.windows(end.len()).position(|window| window == end).map_or(bytes.len(), |at| at + end.len())
}

/// The length of a string in quotes, which ends on its line at the latest.
fn lua_string_length(bytes: &[u8]) -> usize {
    let mut at = 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 1,
            b'\n' => return at,
            _ if byte == bytes[0] => return at + 1,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

fn unescape(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes.iter().copied();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match rest.next() {
            Some(same @ (b'"' | b'\'' | b'\\')) => out.push(same),
            Some(b't') => out.push(b'\t'),
            Some(b'r') => out.push(b'\r'),
            Some(b'n') => out.push(b'\n'),
            Some(other) => out.extend([b'\\', other]),
            None => out.push(b'\\'),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words as they are, quoted ones in quotes, and `!` for an error.
    fn tokens(text: &str) -> String {
        let mut lexer = Lexer::new(0, text.as_bytes());
        let mut out: Vec<String> = Vec::new();
        loop {
            match lexer.next() {
                Ok(Token::Word(word)) if word.quoted => out.push(format!("<{}>", word.text)),
                Ok(Token::Word(word)) => out.push(word.text),
                Ok(Token::Semicolon(_)) => out.push(";".into()),
                Ok(Token::Open(_)) => out.push("{".into()),
                Ok(Token::Close(_)) => out.push("}".into()),
                Ok(Token::End) => return out.join(" "),
                Err(error) => {
                    out.push("!".into());
                    if error.is_fatal {
                        return out.join(" ");
                    }
                }
            }
        }
    }

    #[test]
    fn words_end_as_in_nginx() {
        for (text, expected) in [
            ("", ""),
            ("  # nothing", ""),
            ("a b;", "a b ;"),
            ("a{b;}", "a { b ; }"),
            ("a{b}c;}", "a { b}c ; }"),
            ("a ${b}c;", "a ${b}c ;"),
            ("a $b{c;}", "a $b { c ; }"),
            ("a b#c d;", "a b#c d ;"),
            ("a #b;\nc;", "a c ;"),
            ("a b\"c d\"e;", "a b\"c d\"e ;"),
            ("a 'b c' \"d;{}\";", "a <b c> <d;{}> ;"),
            ("a \"\";", "a <> ;"),
            (r#"a "b\"c" 'd\'e' "f\\g" "h\.i";"#, r#"a <b"c> <d'e> <f\g> <h\.i> ;"#),
            (r"a b\;c\ d \{2\};", r"a b\;c\ d \{2\} ;"),
            ("a \"b\\tc\\nd\";", "a <b\tc\nd> ;"),
            ("if ($a = \"b\") {}", "if ($a = <b> ) { }"),
            ("\u{feff}a;", "a ;"),
            ("a\r\nb;\r\n", "a b ;"),
            ("a 'b'c;", "a <b> ! c ;"),
            ("a 'b", "a !"),
            ("a 'b\\'", "a !"),
            ("a b\\", "a b\\"),
            ("a 'é' ü;", "a <é> ü ;"),
        ] {
            assert_eq!(tokens(text), expected, "{text}");
        }
    }

    #[test]
    fn foreign_encodings_are_refused_in_words_and_ignored_in_comments() {
        let mut lexer = Lexer::new(0, b"# \xe4\na \xe4;");
        assert!(matches!(lexer.next(), Ok(Token::Word(word)) if word.text == "a"));
        assert!(lexer.next().is_err());
        assert!(matches!(lexer.next(), Ok(Token::Semicolon(_))));
    }

    #[test]
    fn spans_cover_the_quotes() {
        let mut lexer = Lexer::new(3, b"a 'b' ;");
        assert!(matches!(lexer.next(), Ok(Token::Word(word)) if word.span == Span { file: 3, start: 0, end: 1 }));
        assert!(matches!(lexer.next(), Ok(Token::Word(word)) if word.span == Span { file: 3, start: 2, end: 5 }));
    }
}
