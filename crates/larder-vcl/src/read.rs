//! Reads a VCL with all that it includes, to one row of tokens.
//!
//! An `include` may stand anywhere, even inside a sub: its tokens take the place of the statement.

use std::io;
use std::path::{Path, PathBuf};

use larder_source::{Diagnostic, Loader, Outcome, Sources, Span};

use crate::DIAGNOSTICS_MAX;
use crate::lex::{Kind, Token, lex};

/// How deep files may include files. Varnish has no limit but memory.
const INCLUDE_DEPTH_MAX: usize = 32;
/// How large a file may be; the largest are lists of addresses.
const FILE_BYTES_MAX: usize = 16 << 20;
/// How many tokens all files may have together, as a file may be included many times.
const TOKENS_MAX: usize = 1_000_000;
/// How many bytes are read in all, and how many files: most of them may be comments, or nothing.
const BYTES_MAX: usize = 64 << 20;
const FILES_MAX: usize = 10_000;

/// The tokens of `main` and its includes, with one [`Kind::End`] behind them. `vcl_path` are the folders in which
/// included files are looked for.
pub fn read(
    main: &Path,
    vcl_path: &[PathBuf],
    loader: &mut dyn Loader,
    sources: &mut Sources,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Token> {
    let mut reader =
        Reader { vcl_path, loader, sources, diagnostics, tokens: Vec::new(), open: Vec::new(), bytes: 0, files: 0 };
    match reader.load(main) {
        Ok(file) => reader.add(file, main),
        Err(error) => reader.diagnostics.push(*cannot_read(main, &error)),
    }
    // Without a token it is the start of the first file.
    let start = Span { file: 0, start: 0, end: 0 };
    let end = reader.tokens.last().map_or(start, |last| Span { start: last.span.end, ..last.span });
    reader.tokens.push(Token { kind: Kind::End, span: end });
    reader.tokens
}

struct Reader<'a> {
    vcl_path: &'a [PathBuf],
    loader: &'a mut dyn Loader,
    sources: &'a mut Sources,
    diagnostics: &'a mut Vec<Diagnostic>,
    tokens: Vec<Token>,
    /// The files that are being read, from the main file to the one that is included.
    open: Vec<u32>,
    /// How much was read so far.
    bytes: usize,
    files: usize,
}

/// An `include` statement.
struct Include {
    path: PathBuf,
    is_pattern: bool,
    /// Whether the name is a path from the root or from the file that includes it, and so is looked for nowhere else.
    is_anchored: bool,
    span: Span,
    /// How many tokens it has.
    length: usize,
}

impl Reader<'_> {
    /// Adds the tokens of a file, without its end.
    fn add(&mut self, file: u32, path: &Path) {
        let bytes = self.sources.bytes(file);
        self.bytes += bytes.len();
        self.files += 1;
        // One more than there is room for, so that it is seen.
        let room = TOKENS_MAX.saturating_sub(self.tokens.len()) + 1;
        let tokens = lex(file, bytes, room, self.diagnostics);
        self.open.push(file);
        let mut at = 0;
        while at < tokens.len() && tokens[at].kind != Kind::End {
            if let Some(message) = self.is_too_much() {
                if self.diagnostics.iter().all(|known| known.message != message) {
                    self.diagnostics.push(*Diagnostic::error(message).at(tokens[at].span));
                }
                break;
            }
            if self.diagnostics.len() >= DIAGNOSTICS_MAX {
                break;
            }
            if !tokens[at].is_name("include") {
                self.tokens.push(tokens[at].clone());
                at += 1;
                continue;
            }
            match include_statement(&tokens[at..], path) {
                Ok(include) => {
                    at += include.length;
                    self.include(&include);
                }
                Err(diagnostic) => {
                    self.diagnostics.push(*diagnostic);
                    at += 1;
                    at += tokens[at..].iter().take_while(|token| !token.is(";") && token.kind != Kind::End).count();
                    at += usize::from(tokens[at].is(";"));
                }
            }
        }
        self.open.pop();
    }

    /// Says what there is too much of to read on.
    fn is_too_much(&self) -> Option<String> {
        if self.tokens.len() >= TOKENS_MAX {
            return Some(format!("the files have more than {TOKENS_MAX} words and signs together"));
        }
        if self.bytes > BYTES_MAX {
            return Some(format!(
                "the files have more than {} MB together, each as often as it is included",
                BYTES_MAX >> 20
            ));
        }
        (self.files > FILES_MAX).then(|| format!("files are included more than {FILES_MAX} times"))
    }

    fn include(&mut self, include: &Include) {
        if self.open.len() > INCLUDE_DEPTH_MAX {
            let message = format!("files include files more than {INCLUDE_DEPTH_MAX} deep");
            return self.diagnostics.push(*Diagnostic::error(message).at(include.span));
        }
        if include.is_pattern {
            return self.include_all(include);
        }
        match self.find(include) {
            Ok((file, path)) => self.add_once(file, &path, include.span),
            Err(error) => {
                let searched: Vec<_> = self.vcl_path.iter().map(|folder| folder.display().to_string()).collect();
                let mut diagnostic = cannot_read(&include.path, &error).at(include.span);
                if !include.is_anchored && !searched.is_empty() {
                    diagnostic = diagnostic.help(format!("it is looked for in {}", searched.join(", ")));
                }
                self.diagnostics.push(*diagnostic);
            }
        }
    }

    fn include_all(&mut self, include: &Include) {
        let Some(pattern) = include.path.to_str() else {
            return self.diagnostics.push(*Diagnostic::error("the pattern is not valid UTF-8").at(include.span));
        };
        match self.loader.glob(pattern) {
            Ok(paths) if paths.is_empty() => {
                let message = format!("the pattern \"{pattern}\" matches no file");
                self.diagnostics.push(*Diagnostic::error(message).at(include.span));
            }
            Ok(paths) => {
                self.sources.add_glob(pattern, paths.clone());
                for path in paths {
                    match self.load(&path) {
                        Ok(file) => self.add_once(file, &path, include.span),
                        Err(error) => self.diagnostics.push(*cannot_read(&path, &error).at(include.span)),
                    }
                }
            }
            Err(error) => {
                let message = format!("cannot list \"{pattern}\": {}", reason(&error));
                self.diagnostics.push(*Diagnostic::error(message).at(include.span));
            }
        }
    }

    /// Adds a file unless it is being read already.
    fn add_once(&mut self, file: u32, path: &Path, span: Span) {
        if self.open.contains(&file) {
            let message = format!("\"{}\" includes itself", path.display());
            return self.diagnostics.push(*Diagnostic::error(message).at(span));
        }
        self.add(file, path);
    }

    /// The file of this name, from the first folder that has it.
    fn find(&mut self, include: &Include) -> io::Result<(u32, PathBuf)> {
        let name = &include.path;
        if include.is_anchored || self.vcl_path.is_empty() {
            return Ok((self.load(name)?, name.clone()));
        }
        let mut first_error = None;
        for folder in self.vcl_path {
            let path = folder.join(name);
            match self.load(&path) {
                Ok(file) => return Ok((file, path)),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        Err(first_error.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
    }

    fn load(&mut self, path: &Path) -> io::Result<u32> {
        if let Some(file) = self.sources.find(path) {
            return Ok(file);
        }
        let bytes = self.loader.read(path)?;
        match bytes.len() > FILE_BYTES_MAX {
            true => Err(io::Error::other(format!("it is larger than {} MB", FILE_BYTES_MAX >> 20))),
            false => Ok(self.sources.add_file(path.to_owned(), bytes)),
        }
    }
}

/// Reads `include [+glob] "NAME";`, whose first token is there.
fn include_statement(tokens: &[Token], including: &Path) -> Outcome<Include> {
    let mut is_pattern = false;
    let mut at = 1;
    while let [sign, name, ..] = &tokens[at..]
        && (sign.is("+") || sign.is("-"))
    {
        if !name.is_name("glob") {
            let message = format!("{} is no flag of include", name.describe());
            return Err(Diagnostic::error(message).at(name.span).help("the only one is +glob"));
        }
        is_pattern = sign.is("+");
        at += 2;
    }
    let [Token { kind: Kind::Text(text), span }, end, ..] = &tokens[at..] else {
        let (found, span) = tokens.get(at).map_or(("nothing".to_owned(), tokens[0].span), |t| (t.describe(), t.span));
        return Err(Diagnostic::error(format!("include wants the name of a file, not {found}"))
            .at(span)
            .help("write include \"name.vcl\";"));
    };
    if !end.is(";") {
        return Err(Diagnostic::error("a \";\" is missing behind include").at(*span));
    }
    let name = Path::new(
        std::str::from_utf8(text).map_err(|_| Diagnostic::error("the name of a file is not valid UTF-8").at(*span))?,
    );
    let is_anchored = name.is_absolute() || name.starts_with(".");
    if is_pattern && !is_anchored {
        return Err(Diagnostic::error("a pattern has to begin with \"/\" or \"./\"").at(*span));
    }
    // A name that begins with "./" is relative to the file that includes it.
    let path = match (name.strip_prefix("."), including.parent()) {
        (Ok(rest), Some(folder)) => folder.join(rest),
        _ => name.to_owned(),
    };
    Ok(Include { path, is_pattern, is_anchored, span: *span, length: at + 2 })
}

fn cannot_read(path: &Path, error: &io::Error) -> Box<Diagnostic> {
    Diagnostic::error(format!("cannot read \"{}\": {}", path.display(), reason(error)))
}

/// What the operating system says, without its number.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match error.raw_os_error() {
        Some(code) => text.strip_suffix(&format!(" (os error {code})")).unwrap_or(&text).to_owned(),
        None => text,
    }
}
