//! Parses words into a tree of directives, and reads includes.

use std::io;
use std::path::{Path, PathBuf};

use crate::Options;
use crate::diagnostic::Diagnostic;
use crate::directives;
use crate::lex::{Lexer, Token};
use crate::sources::{Loader, Sources};
use crate::span::Span;
use crate::tree::{Block, Directive, Word};

/// How deep blocks and includes may nest together.
const DEPTH_MAX: usize = 64;
/// How many files may be read in, the same one counted each time.
const INCLUDES_MAX: usize = 10_000;
/// How large one file may be; places in it are counted in 32 bits.
const FILE_BYTES_MAX: usize = 64 << 20;

/// What came out.
pub struct Parsed {
    /// The directives of the main context.
    pub directives: Vec<Directive>,
    /// All files that were read.
    pub sources: Sources,
    /// What was wrong.
    pub diagnostics: Vec<Diagnostic>,
    /// Whether all quotes and braces were closed, so that contexts can be trusted.
    pub balanced: bool,
}

/// Reads the main file and its includes.
pub fn parse(main_file: &Path, options: &Options, loader: &mut dyn Loader) -> Parsed {
    let mut parser = Parser {
        options,
        loader,
        sources: Sources::new(),
        diagnostics: Vec::new(),
        balanced: true,
        includes: 0,
        including: Vec::new(),
        odd_indent: None,
    };
    let mut directives = Vec::new();
    if let Some(globals) = &options.globals {
        // A semicolon that is missing at the end is forgiven here, unlike in nginx.
        let text = match globals.trim_end().ends_with([';', '}']) {
            true => globals.clone(),
            false => format!("{globals};"),
        };
        let file = parser.sources.add_text("command line", &text);
        directives.extend(parser.file(file, 0));
    }
    directives.extend(parser.read_and_parse(main_file, None, 0));
    Parsed { directives, sources: parser.sources, diagnostics: parser.diagnostics, balanced: parser.balanced }
}

struct Parser<'a> {
    options: &'a Options,
    loader: &'a mut dyn Loader,
    sources: Sources,
    diagnostics: Vec<Diagnostic>,
    balanced: bool,
    includes: usize,
    /// The files that are being read, outermost first.
    including: Vec<PathBuf>,
    odd_indent: Option<OddIndent>,
}

/// The first `}` that stands at another indent than the line that opened its block. Where a brace is
/// missing, that is where the trouble begins.
struct OddIndent {
    close: Span,
    opening: Span,
}

/// A block that has been opened.
#[derive(Clone, Copy)]
struct Opened<'a> {
    name: &'a Word,
    brace: Span,
}

impl Parser<'_> {
    #[expect(clippy::boxed_local, reason = "errors come in boxes, to keep results small")]
    fn error(&mut self, diagnostic: Box<Diagnostic>) {
        self.diagnostics.push(*diagnostic);
    }

    fn read_and_parse(&mut self, path: &Path, from: Option<Span>, depth: usize) -> Vec<Directive> {
        if let Err(diagnostic) = self.may_include(path, depth) {
            self.error(Box::new(Diagnostic { span: from, ..*diagnostic }));
            return Vec::new();
        }
        let file = match self.sources.find(path) {
            Some(file) => file,
            None => match self.loader.read(path) {
                Ok(bytes) if bytes.len() > FILE_BYTES_MAX => {
                    let message = format!("\"{}\" is larger than {} MB", path.display(), FILE_BYTES_MAX >> 20);
                    self.error(Box::new(Diagnostic { span: from, ..*Diagnostic::error(message) }));
                    return Vec::new();
                }
                Ok(bytes) => self.sources.add_file(path.to_owned(), bytes),
                Err(error) => {
                    let message = format!("open() \"{}\" failed ({})", path.display(), reason(&error));
                    self.error(Box::new(Diagnostic { span: from, ..*Diagnostic::error(message) }));
                    return Vec::new();
                }
            },
        };
        self.including.push(path.to_owned());
        let directives = self.file(file, depth);
        self.including.pop();
        directives
    }

    fn may_include(&mut self, path: &Path, depth: usize) -> Result<(), Box<Diagnostic>> {
        self.includes += 1;
        if self.including.iter().any(|open| open == path) {
            return Err(Diagnostic::error(format!("\"{}\" includes itself", path.display())));
        }
        if depth >= DEPTH_MAX {
            return Err(Diagnostic::error(format!("blocks and includes are nested more than {DEPTH_MAX} deep")));
        }
        if self.includes > INCLUDES_MAX {
            return Err(Diagnostic::error(format!("more than {INCLUDES_MAX} files are included")));
        }
        Ok(())
    }

    fn file(&mut self, file: u32, depth: usize) -> Vec<Directive> {
        let bytes = self.sources.bytes(file).to_vec();
        let mut lexer = Lexer::new(file, &bytes);
        self.items(&mut lexer, None, depth)
    }

    /// Directives up to the `}` that belongs to `opened`, or to the end of the file.
    fn items(&mut self, lexer: &mut Lexer<'_>, opened: Option<Opened<'_>>, depth: usize) -> Vec<Directive> {
        let mut directives = Vec::new();
        let mut words: Vec<Word> = Vec::new();
        // What stands in a directive with such an error is not judged further.
        let mut is_broken = false;
        loop {
            let token = match lexer.next() {
                Ok(token) => token,
                Err(error) => {
                    self.error(error.diagnostic);
                    is_broken = true;
                    if error.is_fatal {
                        self.balanced = false;
                        return directives;
                    }
                    continue;
                }
            };
            match token {
                Token::Word(word) => words.push(word),
                Token::Semicolon(_) if is_broken => {
                    is_broken = false;
                    words.clear();
                }
                Token::Semicolon(span) => match words.is_empty() {
                    true => self
                        .error(Diagnostic::error("unexpected \";\"").at(span).label("no directive stands before it")),
                    false => self.simple(std::mem::take(&mut words), &mut directives, depth),
                },
                Token::Open(brace) => self.block(lexer, std::mem::take(&mut words), brace, &mut directives, depth),
                Token::Close(span) => {
                    if !words.is_empty() {
                        self.unterminated(&words, "a \";\" is missing here");
                        self.simple(std::mem::take(&mut words), &mut directives, depth);
                    }
                    match opened {
                        Some(opened) => {
                            self.compare_indents(lexer, opened, span);
                            return directives;
                        }
                        None => {
                            self.balanced = false;
                            self.error(Diagnostic::error("unexpected \"}\"").at(span).label("no block is open here"));
                        }
                    }
                }
                Token::End => {
                    self.end(&words, opened, lexer.last_visible());
                    return directives;
                }
            }
        }
    }

    fn end(&mut self, words: &[Word], opened: Option<Opened<'_>>, span: Span) {
        if opened.is_some() || !words.is_empty() {
            self.balanced = false;
        }
        let expecting = match (words.last(), opened) {
            (None, None) => return,
            (Some(last), None) => {
                let diagnostic = Diagnostic::error("unexpected end of file, expecting \";\" or \"}\"");
                return self.error(diagnostic.at(behind(last.span)).label("a \";\" is missing here"));
            }
            (Some(_), Some(_)) => "\";\" or \"}\"",
            (None, Some(_)) => "\"}\"",
        };
        let Some(opened) = opened else { return };
        let mut diagnostic = Diagnostic::error(format!("unexpected end of file, expecting {expecting}"))
            .at(span)
            .related(opened.name.span, format!("the block \"{}\" is opened here and not closed", opened.name.text));
        // Only that some block is open is sure; a brace that stands oddly tells better which.
        if let Some(odd) = self.odd_indent.take() {
            diagnostic = diagnostic
                .related(odd.close, "this \"}\" does not line up with the block it closes")
                .related(odd.opening, "that block begins here");
        }
        self.error(diagnostic);
    }

    fn compare_indents(&mut self, lexer: &Lexer<'_>, opened: Opened<'_>, close: Span) {
        if opened.name.span.file != close.file || self.odd_indent.is_some() {
            return;
        }
        let (opening, opening_alone) = lexer.indent(opened.name.span.start as usize);
        let (closing, closing_alone) = lexer.indent(close.start as usize);
        if opening_alone && closing_alone && opening != closing {
            self.odd_indent = Some(OddIndent { close, opening: opened.name.span });
        }
    }

    fn block(
        &mut self,
        lexer: &mut Lexer<'_>,
        words: Vec<Word>,
        brace: Span,
        directives: &mut Vec<Directive>,
        depth: usize,
    ) {
        if words.is_empty() {
            self.error(Diagnostic::error("unexpected \"{\"").at(brace).label("no directive stands before it"));
        }
        let mut words = self.split_missing_semicolon(words, true, directives, depth);
        let name = match words.is_empty() {
            true => Word { text: "{".to_owned(), span: brace, quoted: false, starts_line: false },
            false => words.remove(0),
        };
        let opened = Opened { name: &name, brace };
        let inner = if name.text.ends_with("_by_lua_block") {
            if !lexer.skip_lua_block() {
                self.end(&[], Some(opened), lexer.last_visible());
            }
            Vec::new()
        } else if depth >= DEPTH_MAX {
            let message = format!("blocks and includes are nested more than {DEPTH_MAX} deep");
            self.error(Diagnostic::error(message).at(opened.brace));
            self.balanced = false;
            lexer.skip_block();
            Vec::new()
        } else {
            self.items(lexer, Some(opened), depth + 1)
        };
        if name.text != "{" {
            directives.push(Directive { name, args: words, block: Some(Block { directives: inner }), runs_on: None });
        }
    }

    fn simple(&mut self, words: Vec<Word>, directives: &mut Vec<Directive>, depth: usize) {
        let mut words = self.split_missing_semicolon(words, false, directives, depth);
        if words.is_empty() {
            return;
        }
        let runs_on = runs_on(&words);
        let name = words.remove(0);
        if name.text == "include" && words.len() == 1 {
            let pattern = words.remove(0);
            directives.extend(self.include(&pattern, depth));
            return;
        }
        directives.push(Directive { name, args: words, block: None, runs_on });
    }

    /// Where words cannot be one directive but could be two, the second on a new line, says that a `;` is
    /// missing, keeps the first and returns the words of the second.
    fn split_missing_semicolon(
        &mut self,
        words: Vec<Word>,
        has_block: bool,
        directives: &mut Vec<Directive>,
        depth: usize,
    ) -> Vec<Word> {
        let Some(split) = missing_semicolon(&words, has_block) else {
            return words;
        };
        let mut first = words;
        let second = first.split_off(split);
        self.unterminated(&first, "a \";\" is missing here");
        if let (Some(last), Some(next)) = (self.diagnostics.last_mut(), second.first()) {
            last.related.push((next.span, "the next directive begins here".to_owned()));
        }
        self.simple(first, directives, depth);
        self.split_missing_semicolon(second, has_block, directives, depth)
    }

    fn unterminated(&mut self, words: &[Word], label: &str) {
        if let (Some(name), Some(last)) = (words.first(), words.last()) {
            let message = format!("directive \"{}\" is not terminated by \";\"", name.text);
            self.error(Diagnostic::error(message).at(behind(last.span)).label(label));
        }
    }

    fn include(&mut self, pattern: &Word, depth: usize) -> Vec<Directive> {
        let path = self.options.conf_prefix.join(&pattern.text);
        if !pattern.text.contains(['*', '?', '[']) {
            return self.read_and_parse(&path, Some(pattern.span), depth + 1);
        }
        let Some(full) = path.to_str() else {
            self.error(Diagnostic::error("the path of an include is not valid UTF-8").at(pattern.span));
            return Vec::new();
        };
        match self.loader.glob(full) {
            Ok(paths) => {
                self.sources.add_glob(full, paths.clone());
                let mut directives = Vec::new();
                for path in paths {
                    directives.extend(self.read_and_parse(&path, Some(pattern.span), depth + 1));
                }
                directives
            }
            Err(error) => {
                self.error(
                    Diagnostic::error(format!("glob() \"{full}\" failed ({})", reason(&error))).at(pattern.span),
                );
                Vec::new()
            }
        }
    }
}

/// The place behind a word, for what is missing there.
fn behind(span: Span) -> Span {
    Span { start: span.end.saturating_sub(1), ..span }
}

/// An error of the operating system in nginx's order: `2: No such file or directory`.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match error.raw_os_error() {
        Some(code) => format!("{code}: {}", text.strip_suffix(&format!(" (os error {code})")).unwrap_or(&text)),
        None => text,
    }
}

/// Where a second directive begins in words that cannot be one.
fn missing_semicolon(words: &[Word], has_block: bool) -> Option<usize> {
    let (name, args) = words.split_first()?;
    if directives::could_be(&name.text, args.len(), has_block) {
        return None;
    }
    (1..words.len()).find(|&at| {
        let rest = &words[at];
        rest.starts_line
            && !rest.quoted
            && directives::could_be(&name.text, at - 1, false)
            && directives::is_known(&rest.text)
    })
}

/// The same where the words could be one directive after all, as with `index` and `server_name`.
fn runs_on(words: &[Word]) -> Option<Box<Diagnostic>> {
    let name = words.first()?;
    let at = (2..words.len()).find(|&at| {
        let next = &words[at];
        next.starts_line
            && !next.quoted
            && directives::is_known(&next.text)
            && directives::could_be(&next.text, words.len() - at - 1, false)
    })?;
    let (last, next) = (words.get(at - 1)?, words.get(at)?);
    Some(
        Diagnostic::warning(format!("directive \"{}\" is perhaps not terminated by \";\"", name.text))
            .at(behind(last.span))
            .label("is a \";\" missing here?")
            .related(next.span, "this is read as another argument"),
    )
}
