//! nginx.conf: text in, a checked and inherited model out.
//!
//! [`load`] reads a configuration as nginx does: `lex` makes words, `parse` a tree with its includes
//! read in, `directives` says what each name may be and what it sets of its `level`, and `build` turns the
//! tree into [`model::Config`], inheriting from level to level. All errors are reported, not the first. The
//! crate opens nothing: files come through a [`Loader`].
#![forbid(unsafe_code)]

mod build;
mod contexts;
mod cx;
mod directives;
mod level;
mod lex;
mod lint;
pub mod model;
mod parse;
mod template;
mod tree;
mod values;

use std::path::{Path, PathBuf};

pub use contexts::Contexts;
pub use directives::headers::{ExpiresError, parse_expires};
pub use directives::{Args, DirectiveInfo, Standing, find_directive};
pub use larder_source::{Diagnostic, Lines, Loader, MemoryLoader, Position, Severity, Sources, Span, nearest};
use larder_source::{diagnostic, sources, span, suggest};
pub use lint::lint;
pub use template::{as_literal, literal, parse_template, show as show_template};

/// What the command line and the machine say about a configuration.
#[derive(Clone, Debug)]
pub struct Options {
    /// Joined to relative paths of logs, roots, the pid file and temporary files.
    pub prefix: PathBuf,
    /// The folder of the main file; joined to relative includes, password files and keys.
    pub conf_prefix: PathBuf,
    /// The text of `-g`, directives of the main context that come before the file.
    pub globals: Option<String>,
    /// Whether the process runs as root, which decides the port of a server without `listen`.
    pub is_root: bool,
    /// The name of the machine, for `server_name $hostname`.
    pub hostname: String,
}

/// A configuration that loaded.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// What it means.
    pub config: model::Config,
    /// The files it was read from.
    pub sources: Sources,
    /// Warnings and notices, in order of the files.
    pub notices: Vec<Diagnostic>,
}

/// A configuration that did not load: all its errors, and what warnings there were.
#[derive(Debug, thiserror::Error)]
#[error("the configuration has {} error(s)", diagnostics.iter().filter(|d| d.severity == Severity::Error).count())]
pub struct Failed {
    /// The files that were read.
    pub sources: Sources,
    /// Errors first come first, with the warnings between them.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads `main_file` and everything it includes.
pub fn load(main_file: &Path, options: &Options, loader: &mut dyn Loader) -> Result<Loaded, Box<Failed>> {
    let parsed = parse::parse(main_file, options, loader);
    let mut diagnostics = parsed.diagnostics;
    let config = match parsed.balanced {
        // With a brace missing every context would be wrong, and so would every message about one.
        false => None,
        true => Some(build::build(&parsed.directives, options, &mut diagnostics)),
    };
    let has_errors = diagnostics.iter().any(|d| d.severity == Severity::Error);
    diagnostics.sort_by_key(|d| d.span.map_or((0, 0), |s| (u64::from(s.file) + 1, s.start)));
    diagnostic::limit(&mut diagnostics);
    match config {
        Some(config) if !has_errors => {
            let config = model::Config { lines: parsed.sources.lines().into(), ..config };
            Ok(Loaded { config, sources: parsed.sources, notices: diagnostics })
        }
        _ => Err(Box::new(Failed { sources: parsed.sources, diagnostics })),
    }
}

/// The diagnostics as plain text, with nginx's words for how bad they are.
pub fn render(diagnostics: &[Diagnostic], sources: &Sources) -> String {
    diagnostic::render(diagnostics, sources, |severity| match severity {
        Severity::Error => "emerg",
        Severity::Warning => "warn",
        Severity::Notice | Severity::NoEffect => "notice",
    })
}
