//! Errors, warnings and notices about a configuration, and how they are shown.

use std::fmt::Write as _;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use crate::plain::{Plain, PlainLines};
use crate::sources::{Sources, text};
use crate::span::Span;

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The configuration cannot be used.
    Error,
    /// It can, but probably does not do what was meant.
    Warning,
    /// It can; this is good to know.
    Notice,
    /// Something is read that larder does by itself or does not need: nothing comes of it, and nothing is lost.
    NoEffect,
}

/// Something to say about a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// One line, in the words of nginx or Varnish where they have some.
    pub message: String,
    /// Where.
    pub span: Option<Span>,
    /// What stands there, for the line under it.
    pub label: Option<String>,
    /// What to do.
    pub help: Option<String>,
    /// Other places that matter, and why.
    pub related: Vec<(Span, String)>,
}

/// A value, or what is wrong.
pub type Outcome<T = ()> = Result<T, Box<Diagnostic>>;

impl Diagnostic {
    /// Follows files whose numbers have grown.
    pub fn renumber(&mut self, by: u32) {
        for span in self.span.iter_mut().chain(self.related.iter_mut().map(|(span, _)| span)) {
            span.file = span.file.saturating_add(by);
        }
    }

    /// An error without a place.
    pub fn error(message: impl Into<String>) -> Box<Self> {
        Self::new(Severity::Error, message.into())
    }

    /// A warning without a place.
    pub fn warning(message: impl Into<String>) -> Box<Self> {
        Self::new(Severity::Warning, message.into())
    }

    /// A notice without a place.
    pub fn notice(message: impl Into<String>) -> Box<Self> {
        Self::new(Severity::Notice, message.into())
    }

    /// That `what` is read, and nothing comes of it and nothing is lost, for this reason.
    pub fn no_effect(what: &str, why: &str) -> Box<Self> {
        Self::new(Severity::NoEffect, format!("\"{what}\" is read and has no effect: {why}"))
    }

    /// Says where.
    pub fn at(mut self: Box<Self>, span: Span) -> Box<Self> {
        self.span = Some(span);
        self
    }

    /// Says what stands there.
    pub fn label(mut self: Box<Self>, label: impl Into<String>) -> Box<Self> {
        self.label = Some(label.into());
        self
    }

    /// Says what to do.
    pub fn help(mut self: Box<Self>, help: impl Into<String>) -> Box<Self> {
        self.help = Some(help.into());
        self
    }

    /// Points at another place.
    pub fn related(mut self: Box<Self>, span: Span, why: impl Into<String>) -> Box<Self> {
        self.related.push((span, why.into()));
        self
    }

    fn new(severity: Severity, message: String) -> Box<Self> {
        Box::new(Self { severity, message, span: None, label: None, help: None, related: Vec::new() })
    }
}

/// How many diagnostics are kept; a file that is no configuration has one on every line.
const DIAGNOSTICS_MAX: usize = 100;

/// Keeps what a person can read. Errors stay before notices.
pub fn limit(diagnostics: &mut Vec<Diagnostic>) {
    if diagnostics.len() <= DIAGNOSTICS_MAX {
        return;
    }
    if diagnostics.iter().any(|d| d.severity == Severity::Error) {
        diagnostics.retain(|d| d.severity == Severity::Error);
    }
    let more = diagnostics.len().saturating_sub(DIAGNOSTICS_MAX);
    diagnostics.truncate(DIAGNOSTICS_MAX);
    if more > 0
        && let Some(last) = diagnostics.last_mut()
    {
        let note = format!("and {more} more");
        last.help = Some(last.help.take().map_or(note.clone(), |help| format!("{help}; {note}")));
    }
}

/// The diagnostics as plain text: first a line as in a log, with the `word` for its severity, then the place with a
/// caret.
///
/// ```text
/// larder: [emerg] unknown directive "fastcgi_cach" in /etc/nginx/nginx.conf:12
///   --> /etc/nginx/nginx.conf:12:9
///    |
/// 12 |         fastcgi_cach pages;
///    |         ^^^^^^^^^^^^
///    = help: did you mean "fastcgi_cache"?
/// ```
pub fn render(diagnostics: &[Diagnostic], sources: &Sources, word: fn(Severity) -> &'static str) -> String {
    let mut out = String::new();
    for diagnostic in diagnostics {
        render_one(diagnostic, sources, word(diagnostic.severity), &mut out);
    }
    out
}

fn render_one(diagnostic: &Diagnostic, sources: &Sources, word: &str, out: &mut String) {
    let _ = write!(out, "larder: [{word}] {}", Plain(&diagnostic.message));
    let place = diagnostic.span.and_then(|span| Some((span, sources.position(span)?)));
    let Some((span, position)) = place else {
        out.push('\n');
        if let Some(help) = &diagnostic.help {
            let _ = writeln!(out, "  = help: {}", PlainLines(help));
        }
        return;
    };
    let _ = writeln!(out, " in {}:{}", position.path.display(), position.line);

    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Notice | Severity::NoEffect => Level::NOTE,
    };
    let mut places = vec![(span, AnnotationKind::Primary, diagnostic.label.clone())];
    places.extend(diagnostic.related.iter().map(|(span, why)| (*span, AnnotationKind::Context, Some(why.clone()))));
    let mut group = Group::with_level(level);
    while let Some(file) = places.first().map(|(span, ..)| span.file) {
        let (here, elsewhere): (Vec<_>, Vec<_>) = places.into_iter().partition(|(span, ..)| span.file == file);
        places = elsewhere;
        if let Some(snippet) = snippet(file, here, sources) {
            group = group.element(snippet);
        }
    }
    if let Some(help) = &diagnostic.help {
        group = group.element(Level::HELP.message(PlainLines(help).to_string()));
    }
    out.push_str(&Renderer::plain().render(&[group]));
    out.push('\n');
}

/// A line with stars for the secrets of `key=SECRET`: what is said of a configuration goes to logs.
fn without_secrets(shown: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(shown.len()), shown);
    while let Some(at) = rest.find(SECRET) {
        let begin = at + SECRET.len();
        let (before, secret) = rest.split_at(begin);
        let quote = before[..at].chars().next_back().filter(|char| matches!(char, '"' | '\''));
        let is_word = at == 0 || quote.is_some() || before[..at].ends_with(|char: char| char.is_ascii_whitespace());
        let end = match quote {
            // A variable is none.
            _ if !is_word || secret.starts_with('$') => 0,
            Some(quote) => secret.find(quote).unwrap_or(secret.len()),
            None => secret.find([' ', '\t', '\r', '\n', ';']).unwrap_or(secret.len()),
        };
        out.push_str(before);
        // As many bytes, so that what is marked stays in its place.
        out.push_str(&"*".repeat(end));
        rest = &secret[end..];
    }
    out.push_str(rest);
    out
}

const SECRET: &str = "key=";

/// Longer lines are cut, bytes.
const LINES_BYTES_MAX: usize = 4096;
/// What is left of them before a place, and behind its beginning.
const CONTEXT_BYTES: usize = 100;

/// The lines of one file from the first to the last place, with the places marked.
fn snippet(
    file: u32,
    places: Vec<(Span, AnnotationKind, Option<String>)>,
    sources: &Sources,
) -> Option<Snippet<'static, annotate_snippets::Annotation<'static>>> {
    let bytes = sources.bytes(file);
    let first = places.iter().map(|(span, ..)| span.start as usize).min()?.min(bytes.len());
    let last = places.iter().map(|(span, ..)| span.end as usize).max()?.clamp(first, bytes.len());
    let from = bytes[..first].iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
    let to = bytes[last..].iter().position(|&b| b == b'\n').map_or(bytes.len(), |at| last + at);
    // Of a line that nobody could read there is what is beside the places. Its columns would be others, so it has none.
    let is_cut = to - from > LINES_BYTES_MAX;
    let (from, to) = match is_cut {
        true => (from.max(first.saturating_sub(CONTEXT_BYTES)), to.min(first + CONTEXT_BYTES)),
        false => (from, to),
    };
    let path = sources.position(Span { file, start: 0, end: 0 })?.path.display().to_string();
    let line = 1 + bytes[..from].iter().filter(|&&b| b == b'\n').count();
    let shown = without_secrets(&text(&bytes[from..to]));
    let mut snippet = Snippet::source(shown.clone()).line_start(line);
    if !is_cut {
        snippet = snippet.path(path);
    }
    for (span, kind, label) in places {
        let start = (span.start as usize).saturating_sub(from).min(shown.len());
        let end = (span.end as usize).saturating_sub(from).clamp(start, shown.len());
        if shown.is_char_boundary(start) && shown.is_char_boundary(end) {
            // A word over several lines is marked where it begins; the rest only pushes the message away.
            let end = shown[start..end].find('\n').map_or(end, |at| start + at);
            snippet = snippet.annotation(kind.span(start..end).label(label));
        }
    }
    Some(snippet)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn of_a_line_that_nobody_could_read_there_is_what_is_beside_the_place() {
        let mut sources = Sources::default();
        let text = format!("ok;\n{}here {}\nend", "a;".repeat(200_000), "b;".repeat(200_000));
        let at = u32::try_from(text.find("here").expect("it is there")).expect("it is near");
        let file = sources.add_file(PathBuf::from("/n.conf"), text.into_bytes());
        let diagnostic = Diagnostic {
            severity: Severity::Error,
            message: "no".to_owned(),
            span: Some(Span { file, start: at, end: at + 4 }),
            label: None,
            related: Vec::new(),
            help: None,
        };
        let shown = render(&[diagnostic], &sources, |_| "emerg");
        assert!(shown.starts_with("larder: [emerg] no in /n.conf:2\n"), "{shown}");
        assert!(shown.contains(";here b;") && shown.contains("^^^^") && shown.len() < 1000, "{shown}");
        assert!(!shown.contains("ok;") && !shown.contains("end"), "{shown}");
    }
}
