//! The tokens that are left, and what is said about them.

use larder_source::{Diagnostic, Span};

use crate::DIAGNOSTICS_MAX;
use crate::ast::Word;
use crate::lex::{Kind, Token};

/// How deep blocks, parentheses and calls may nest together. Everything that walks the tree may recurse this deep.
const DEPTH_MAX: usize = 64;

/// What could not be read has been reported.
#[derive(Clone, Copy, Debug)]
pub struct Reported;

/// What was probably meant where a token stands in the way of what has to come.
fn slip(last: &Token, found: &Token) -> Option<&'static str> {
    let touches = last.span.file == found.span.file && last.span.end == found.span.start;
    match (&last.kind, &found.kind) {
        (Kind::Text(_), Kind::Name(name)) if touches && name == "i" => {
            Some("write (?i) at the beginning of the pattern, for letters of either case")
        }
        (_, Kind::Text(_)) | (Kind::Text(_), Kind::Int(_) | Kind::Real(_)) => Some("join texts with +"),
        (Kind::Text(_), Kind::Name(name)) if HOLDS_HEADERS.contains(&name.as_str()) => Some("join texts with +"),
        (_, Kind::Symbol("=")) => Some("compare with =="),
        (_, Kind::Name(name)) if name == "and" => Some("write && in place of and"),
        (_, Kind::Name(name)) if name == "or" => Some("write || in place of or"),
        (Kind::Name(name), Kind::Name(_)) if name == "return" => Some("write return (ACTION);"),
        _ => None,
    }
}

/// What the names of most texts begin with.
const HOLDS_HEADERS: [&str; 8] = ["req", "bereq", "beresp", "obj", "resp", "client", "server", "now"];

/// Something, or what is wrong has been reported.
pub type Parsed<T = ()> = Result<T, Reported>;

/// A place in a row of tokens that ends with [`Kind::End`].
pub struct Cursor<'a> {
    tokens: &'a [Token],
    at: usize,
    depth: usize,
    diagnostics: &'a mut Vec<Diagnostic>,
}

impl<'a> Cursor<'a> {
    /// Begins at the first of `tokens`.
    pub fn new(tokens: &'a [Token], diagnostics: &'a mut Vec<Diagnostic>) -> Self {
        Self { tokens, at: 0, depth: 0, diagnostics }
    }

    /// The next token, which stays.
    pub fn peek(&self) -> &'a Token {
        self.ahead(0)
    }

    /// The token that is `count` behind the next.
    pub fn ahead(&self, count: usize) -> &'a Token {
        const END: &Token = &Token { kind: Kind::End, span: Span { file: u32::MAX, start: 0, end: 0 } };
        self.tokens.get(self.at + count).or(self.tokens.last()).unwrap_or(END)
    }

    /// The next token, which is taken; the end is never.
    pub fn take(&mut self) -> &'a Token {
        let token = self.peek();
        if token.kind != Kind::End {
            self.at += 1;
        }
        token
    }

    /// How many tokens were taken.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Whether there is nothing more.
    pub fn is_at_end(&self) -> bool {
        self.peek().kind == Kind::End
    }

    /// Takes the next token if it is `symbol`.
    pub fn eat(&mut self, symbol: &str) -> bool {
        let is_it = self.peek().is(symbol);
        if is_it {
            self.take();
        }
        is_it
    }

    /// Takes the next token, which has to be `symbol`. What comes `before` it is named if it is not.
    pub fn expect(&mut self, symbol: &str, before: &str) -> Parsed<Span> {
        if self.peek().is(symbol) {
            return Ok(self.take().span);
        }
        let found = self.peek();
        let mut diagnostic =
            Diagnostic::error(format!("expected \"{symbol}\" {before}, found {}", found.describe())).at(found.span);
        let last = self.at.checked_sub(1).and_then(|last| self.tokens.get(last));
        if let Some(help) = last.and_then(|last| slip(last, found)) {
            return self.fail(diagnostic.help(help));
        }
        // What is missing at the end of a line is shown there, not on the next one.
        if symbol == ";"
            && let (Some(last), Kind::Name(_) | Kind::Symbol("}") | Kind::End) = (last, &found.kind)
        {
            let end = Span { start: last.span.end.saturating_sub(1), ..last.span };
            diagnostic = diagnostic.at(end).label("a \";\" is missing here").related(found.span, "this comes next");
        }
        self.fail(diagnostic)
    }

    /// Takes the next token, which has to be a name. `what` says of what.
    pub fn expect_name(&mut self, what: &str) -> Parsed<Word> {
        let token = self.peek();
        match &token.kind {
            Kind::Name(name) => {
                self.take();
                Ok(Word { text: name.clone(), span: token.span, quoted: false })
            }
            _ => self.fail(Diagnostic::error(format!("expected {what}, found {}", token.describe())).at(token.span)),
        }
    }

    /// Reports an error.
    #[allow(clippy::boxed_local, reason = "diagnostics are made in boxes")]
    pub fn fail<T>(&mut self, diagnostic: Box<Diagnostic>) -> Parsed<T> {
        self.diagnostics.push(*diagnostic);
        if self.diagnostics.len() > DIAGNOSTICS_MAX {
            self.at = self.tokens.len();
        }
        Err(Reported)
    }

    /// Reads what nests one deeper.
    pub fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth == DEPTH_MAX {
            let span = self.peek().span;
            return self.fail(Diagnostic::error(format!("this nests more than {DEPTH_MAX} deep")).at(span));
        }
        self.depth += 1;
        let out = read(self);
        self.depth -= 1;
        out
    }

    /// Goes to the first token for which `stop` holds, over whole blocks in braces, and not behind the `}` of this
    /// block.
    pub fn skip_to(&mut self, stop: impl Fn(&Self) -> bool) {
        let mut depth = 0_usize;
        while !self.is_at_end() {
            if depth == 0 && (stop(self) || self.peek().is("}")) {
                return;
            }
            let token = self.take();
            if token.is("{") {
                depth += 1;
            } else if token.is("}") {
                depth = depth.saturating_sub(1);
            }
        }
    }
}
