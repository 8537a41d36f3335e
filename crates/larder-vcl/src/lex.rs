//! Splits VCL into tokens.
//!
//! A token belongs to no version of the language and has no context: a number and its unit are two tokens, and so are
//! the parts of a dotted name. Text behind a mistake is read on, so that one quote does not hide all other errors.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use larder_source::{Diagnostic, Outcome, Span};

use crate::DIAGNOSTICS_MAX;

/// A token, and where it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// Its bytes, quotes included.
    pub span: Span,
}

/// What a token is.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A letter, then letters, digits, `_` and `-`.
    Name(String),
    /// A number without a point.
    Int(i64),
    /// A number with a point.
    Real(f64),
    /// A string, without its quotes.
    Text(Vec<u8>),
    /// What stands in base64 between two colons.
    Blob(Vec<u8>),
    /// `C{ ... }C`
    InlineC,
    /// One of [`SYMBOLS`].
    Symbol(&'static str),
    /// The end of the file.
    End,
}

/// All operators and brackets; the first that fits is taken.
const SYMBOLS: [&str; 34] = [
    "++", "--", "&&", "||", "<=", "==", "!=", ">=", ">>", "<<", "+=", "-=", "*=", "/=", "!~", "{", "}", "(", ")", "*",
    "+", "-", "/", "%", ">", "<", "=", ";", "!", "&", ".", "|", "~", ",",
];

impl Token {
    /// The token as a message names it.
    pub fn describe(&self) -> String {
        match &self.kind {
            Kind::Name(name) => format!("\"{name}\""),
            Kind::Int(value) => format!("\"{value}\""),
            Kind::Real(value) => format!("\"{value:?}\""),
            Kind::Text(_) => "a string".to_owned(),
            Kind::Blob(_) => "a blob".to_owned(),
            Kind::InlineC => "inline C".to_owned(),
            Kind::Symbol(symbol) => format!("\"{symbol}\""),
            Kind::End => "the end of the file".to_owned(),
        }
    }

    /// Whether it is this operator or bracket.
    pub fn is(&self, symbol: &str) -> bool {
        matches!(self.kind, Kind::Symbol(own) if own == symbol)
    }

    /// Whether it is this word.
    pub fn is_name(&self, name: &str) -> bool {
        matches!(&self.kind, Kind::Name(own) if own == name)
    }
}

/// The tokens of a file but at most `tokens_max`, with one [`Kind::End`] behind them. The file is shorter than 4 GB.
pub fn lex(file: u32, bytes: &[u8], tokens_max: usize, diagnostics: &mut Vec<Diagnostic>) -> Vec<Token> {
    // Some editors begin a file with a mark of its encoding.
    let start = if bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    let mut lexer = Lexer { bytes, file, at: start };
    let mut tokens = Vec::new();
    loop {
        if diagnostics.len() > DIAGNOSTICS_MAX || tokens.len() >= tokens_max {
            lexer.at = bytes.len();
        }
        match lexer.next() {
            Ok(token) => {
                let is_end = token.kind == Kind::End;
                tokens.push(token);
                if is_end {
                    return tokens;
                }
            }
            Err(diagnostic) => diagnostics.push(*diagnostic),
        }
    }
}

struct Lexer<'a> {
    bytes: &'a [u8],
    file: u32,
    at: usize,
}

impl Lexer<'_> {
    /// The next token. An error has been read over.
    fn next(&mut self) -> Outcome<Token> {
        self.skip_blanks()?;
        let start = self.at;
        let rest = &self.bytes[start..];
        let kind = match rest {
            [] => Kind::End,
            [b'"', b'"', b'"', ..] => self.long_text("\"\"\"", "\"\"\"")?,
            [b'{', b'"', ..] => self.long_text("{\"", "\"}")?,
            [b'"', ..] => self.short_text()?,
            [b'C', b'{', ..] => self.inline_c()?,
            [b':', ..] => self.blob()?,
            [b'0'..=b'9', ..] => self.number()?,
            [b'a'..=b'z' | b'A'..=b'Z', ..] => self.name(),
            _ => self.symbol()?,
        };
        Ok(Token { kind, span: self.span(start, self.at) })
    }

    fn span(&self, start: usize, end: usize) -> Span {
        let short = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Span { file: self.file, start: short(start), end: short(end) }
    }

    /// Goes behind white space and comments.
    fn skip_blanks(&mut self) -> Outcome {
        loop {
            match &self.bytes[self.at..] {
                [b' ' | b'\t' | b'\n' | b'\r' | 0x0b, ..] => self.at += 1,
                [b'#', ..] | [b'/', b'/', ..] => self.at = self.line_end(),
                [b'/', b'*', ..] => self.skip_comment()?,
                _ => return Ok(()),
            }
        }
    }

    fn line_end(&self) -> usize {
        self.find("\n", self.at).unwrap_or(self.bytes.len())
    }

    fn find(&self, text: &str, from: usize) -> Option<usize> {
        let rest = self.bytes.get(from..)?;
        rest.windows(text.len()).position(|window| window == text.as_bytes()).map(|at| from + at)
    }

    fn skip_comment(&mut self) -> Outcome {
        let start = self.at;
        let opening = self.span(start, start + 2);
        let Some(end) = self.find("*/", start + 2) else {
            self.at = self.bytes.len();
            return Err(Diagnostic::error("a comment is not closed")
                .at(opening)
                .label("it begins here")
                .help("end it with */"));
        };
        self.at = end + 2;
        match self.bytes[start + 2..end].windows(2).position(|pair| pair == b"/*").map(|at| start + 2 + at) {
            None => Ok(()),
            Some(inner) => Err(Diagnostic::error("a comment contains /*")
                .at(self.span(inner, inner + 2))
                .label("comments do not nest")
                .related(opening, "the comment begins here")),
        }
    }

    /// A string that may have line breaks.
    fn long_text(&mut self, open: &str, close: &str) -> Outcome<Kind> {
        let start = self.at;
        let from = start + open.len();
        let Some(end) = self.find(close, from) else {
            self.at = self.bytes.len();
            return Err(Diagnostic::error("a string is not closed")
                .at(self.span(start, from))
                .label("it begins here")
                .help(format!("end it with {close}")));
        };
        self.at = end + close.len();
        self.text(from, end)
    }

    /// A string on one line.
    fn short_text(&mut self) -> Outcome<Kind> {
        let start = self.at;
        let rest = &self.bytes[start + 1..];
        let end = rest.iter().position(|byte| matches!(byte, b'"' | b'\n' | b'\r'));
        match end.map(|end| (start + 1 + end, rest[end])) {
            Some((end, b'"')) => {
                self.at = end + 1;
                self.text(start + 1, end)
            }
            _ => {
                self.at = self.line_end();
                Err(Diagnostic::error("a string is not closed on its line")
                    .at(self.span(start, start + 1))
                    .label("it begins here")
                    .help("a string of several lines is written {\"...\"}"))
            }
        }
    }

    fn text(&self, from: usize, to: usize) -> Outcome<Kind> {
        let bytes = &self.bytes[from..to];
        match bytes.iter().position(|&byte| byte == 0) {
            None => Ok(Kind::Text(bytes.to_vec())),
            Some(at) => Err(Diagnostic::error("a string contains a NUL byte").at(self.span(from + at, from + at + 1))),
        }
    }

    fn inline_c(&mut self) -> Outcome<Kind> {
        let start = self.at;
        match self.find("}C", start + 2) {
            Some(end) => {
                self.at = end + 2;
                Ok(Kind::InlineC)
            }
            None => {
                self.at = self.bytes.len();
                Err(Diagnostic::error("inline C is not closed").at(self.span(start, start + 2)).label("it begins here"))
            }
        }
    }

    fn blob(&mut self) -> Outcome<Kind> {
        let start = self.at;
        let digits = self.bytes[start + 1..].iter().take_while(|&&byte| is_base64_digit(byte));
        let end = start + 1 + digits.count();
        self.at = end;
        if self.bytes.get(end) != Some(&b':') {
            return Err(Diagnostic::error("a blob is not closed")
                .at(self.span(start, end.max(start + 1)))
                .help("a blob is base64 between colons, such as :aGVsbG8=:"));
        }
        self.at = end + 1;
        BASE64_STANDARD.decode(&self.bytes[start + 1..end]).map(Kind::Blob).map_err(|_| {
            Diagnostic::error("a blob is no base64")
                .at(self.span(start, end + 1))
                .help("it has a multiple of four characters, the last ones perhaps \"=\"")
        })
    }

    /// A number of at most fifteen digits, or twelve and three behind the point, as in RFC 9651 §3.3.
    fn number(&mut self) -> Outcome<Kind> {
        const INT_DIGITS_MAX: usize = 15;
        const REAL_DIGITS_MAX: usize = 12;
        const FRACTION_DIGITS_MAX: usize = 3;
        let start = self.at;
        let digits = |from: usize| self.bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let whole = digits(start);
        let point = start + whole;
        let fraction = (self.bytes.get(point) == Some(&b'.')).then(|| digits(point + 1));
        let end = fraction.map_or(point, |fraction| point + 1 + fraction);
        self.at = end;
        let span = self.span(start, end);
        if let Some(b'e' | b'E') = self.bytes.get(end) {
            self.at = end + 1;
            return Err(Diagnostic::error("a number has no exponent in VCL").at(self.span(start, end + 1)));
        }
        let text = String::from_utf8_lossy(&self.bytes[start..end]);
        match fraction {
            None if whole > INT_DIGITS_MAX => {
                Err(Diagnostic::error(format!("a number has at most {INT_DIGITS_MAX} digits")).at(span))
            }
            Some(fraction) if whole > REAL_DIGITS_MAX || fraction > FRACTION_DIGITS_MAX => {
                let limits = format!("{REAL_DIGITS_MAX} digits before the point and {FRACTION_DIGITS_MAX} behind it");
                Err(Diagnostic::error(format!("a number has at most {limits}")).at(span))
            }
            None => Ok(Kind::Int(text.parse().unwrap_or(0))),
            Some(_) => Ok(Kind::Real(text.parse().unwrap_or(0.0))),
        }
    }

    fn name(&mut self) -> Kind {
        let start = self.at;
        let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        self.at += self.bytes[start..].iter().take_while(is_part).count();
        Kind::Name(String::from_utf8_lossy(&self.bytes[start..self.at]).into_owned())
    }

    fn symbol(&mut self) -> Outcome<Kind> {
        let start = self.at;
        let rest = &self.bytes[start..];
        if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(symbol.as_bytes())) {
            self.at += symbol.len();
            return Ok(Kind::Symbol(symbol));
        }
        if rest[0] == b'\'' {
            // What such a quote ends is read over with it.
            let width = rest[1..].iter().position(|byte| matches!(byte, b'\'' | b'\n')).map_or(1, |at| at + 2);
            self.at += width.min(rest.len());
            let message = "a string stands in double quotes, not single ones";
            return Err(Diagnostic::error(message).at(self.span(start, start + 1)));
        }
        // All bytes of a character of another alphabet are one error, not several.
        let width = 1 + rest[1..].iter().take_while(|byte| !byte.is_ascii()).count();
        self.at += width;
        let message = match rest[0] {
            // Quotation marks of typography all begin so in UTF-8.
            0xe2 if rest.starts_with("\u{201c}".as_bytes()) => "a string stands in plain double quotes, not curly ones",
            b'\\' => "there are no escapes in VCL",
            _ => "no token begins like this",
        };
        Err(Diagnostic::error(message).at(self.span(start, start + width)))
    }
}

fn is_base64_digit(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Result<Vec<Kind>, String> {
        let mut diagnostics = Vec::new();
        let tokens = lex(0, text.as_bytes(), usize::MAX, &mut diagnostics);
        match diagnostics.first() {
            Some(diagnostic) => Err(diagnostic.message.clone()),
            None => Ok(tokens.into_iter().map(|token| token.kind).filter(|kind| *kind != Kind::End).collect()),
        }
    }

    #[test]
    fn tokens_are_told_apart() {
        let name = |text: &str| Kind::Name(text.to_owned());
        let string = |text: &str| Kind::Text(text.as_bytes().to_vec());
        for (text, expected) in [
            ("", vec![]),
            ("# a\n// b\n/* c */x", vec![name("x")]),
            ("a-b_1.c", vec![name("a-b_1"), Kind::Symbol("."), name("c")]),
            ("10s", vec![Kind::Int(10), name("s")]),
            ("1.5 1.", vec![Kind::Real(1.5), Kind::Real(1.0)]),
            (r#""a" {"b"c"} """d"e""""#, vec![string("a"), string("b\"c"), string("d\"e")]),
            ("!~ ! ~ >= +=", ["!~", "!", "~", ">=", "+="].map(Kind::Symbol).to_vec()),
            (":aGVsbG8=: ::", vec![Kind::Blob(b"hello".to_vec()), Kind::Blob(Vec::new())]),
            ("C{ int x; }C", vec![Kind::InlineC]),
        ] {
            assert_eq!(kinds(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_token_is_an_error() {
        for (text, message) in [
            ("\"a\nb\"", "a string is not closed on its line"),
            ("{\"a", "a string is not closed"),
            ("/* a", "a comment is not closed"),
            ("/* /* */", "a comment contains /*"),
            (":abc:", "a blob is no base64"),
            (":ab=c:", "a blob is no base64"),
            (":abcd", "a blob is not closed"),
            ("1e5", "a number has no exponent in VCL"),
            ("1234567890123456", "a number has at most 15 digits"),
            ("1.2345", "a number has at most 12 digits before the point and 3 behind it"),
            ("'a'", "a string stands in double quotes, not single ones"),
            ("\"\0\"", "a string contains a NUL byte"),
            ("ü", "no token begins like this"),
        ] {
            assert_eq!(kinds(text), Err(message.to_owned()), "{text:?}");
        }
    }
}
