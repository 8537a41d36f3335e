//! VCL: text in, a checked and typed policy or errors out.
//!
//! [`load`] reads VCL 4.0 and 4.1 as Varnish compiles it: `read` makes one row of tokens of a file and all that it
//! includes, `parse` a tree, and `check` a [`Policy`], in which names are places, values have types, and nothing is
//! left to look up while requests wait. `vars`, `steps` and `vmods` are the tables of what the language has. All errors
//! are reported, not the first. The crate opens nothing: files come through a [`Loader`].
#![forbid(unsafe_code)]

mod acl;
mod ast;
pub mod bans;
mod check;
mod compile;
pub mod features;
pub mod functions;
mod lex;
pub mod lifetime;
pub mod modules;
mod old;
pub mod parameters;
mod parse;
pub mod policy;
pub mod program;
mod reach;
mod read;
pub mod run;
pub mod steps;
pub mod types;
pub mod vars;
pub mod vmods;

use std::path::{Path, PathBuf};

use larder_source::{Diagnostic, Lines, Loader, Severity, Sources, diagnostic};

pub use acl::{Acl, AclLine, AclVerdict, Said};
pub use compile::compile;
pub use policy::Policy;
pub use reach::Fate;

/// The VCL that is added to every other, and answers what that one does not.
pub const BUILTIN: &str = include_str!("../builtin.vcl");

/// Says whether a pattern is a regular expression; if it is none, why.
pub type RegexCheck<'a> = &'a dyn Fn(&str) -> Result<(), String>;

/// How many mistakes are worth reading on for.
const DIAGNOSTICS_MAX: usize = 200;

/// What the outside says about a VCL.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The folders in which included files are looked for.
    pub vcl_path: Vec<PathBuf>,
    /// The places where bodies are stored.
    pub storages: Vec<String>,
    /// The labels of other VCLs, to which requests may be given.
    pub labels: Vec<String>,
    /// The groups of servers beside the VCL, which the module `larder` names.
    pub upstreams: Vec<String>,
    /// Whether requests have somewhere to go without a backend of the VCL.
    pub has_other_backends: bool,
    /// Whether what nothing refers to is a warning only, as with Varnish's `vcc_feature=-err_unref`.
    pub allows_unused: bool,
}

/// A VCL that can be carried out.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// What it means.
    pub policy: Policy,
    /// The files it was read from.
    pub sources: Sources,
    /// Where their lines begin.
    pub lines: Lines,
    /// Warnings, in order of the files.
    pub notices: Vec<Diagnostic>,
}

/// A VCL that cannot be carried out, with all that is wrong with it.
#[derive(Debug, thiserror::Error)]
#[error("the VCL has {} error(s)", diagnostics.iter().filter(|found| found.severity == Severity::Error).count())]
pub struct Failed {
    /// The files that were read.
    pub sources: Sources,
    /// The errors and warnings, in order of the files.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads `main_file` and everything it includes.
pub fn load(
    main_file: &Path,
    options: &Options,
    loader: &mut dyn Loader,
    regex: RegexCheck,
) -> Result<Loaded, Box<Failed>> {
    let mut sources = Sources::new();
    let mut diagnostics = Vec::new();
    let tokens = read::read(main_file, &options.vcl_path, loader, &mut sources, &mut diagnostics);
    // What a file that was not found would have declared would be missed everywhere.
    if !diagnostics.is_empty() {
        return failed(sources, diagnostics);
    }
    let program = parse::parse(&tokens, &mut diagnostics);
    let builtin = sources.add_text("<builtin>", BUILTIN);
    let builtin = parse::parse(&lex::lex(builtin, BUILTIN.as_bytes(), usize::MAX, &mut diagnostics), &mut diagnostics);
    if !diagnostics.is_empty() {
        return failed(sources, diagnostics);
    }
    let policy = check::check(&program, &builtin, options, regex, &mut diagnostics);
    if diagnostics.iter().any(|found| found.severity == Severity::Error) {
        return failed(sources, diagnostics);
    }
    sort(&mut diagnostics);
    let lines = sources.lines();
    Ok(Loaded { policy, sources, lines, notices: diagnostics })
}

fn failed(sources: Sources, mut diagnostics: Vec<Diagnostic>) -> Result<Loaded, Box<Failed>> {
    sort(&mut diagnostics);
    Err(Box::new(Failed { sources, diagnostics }))
}

/// Puts diagnostics in the order of the files, and keeps what a person can read.
fn sort(diagnostics: &mut Vec<Diagnostic>) {
    diagnostics.sort_by_key(|found| found.span.map_or((0, 0), |span| (u64::from(span.file) + 1, span.start)));
    diagnostic::limit(diagnostics);
}

/// The diagnostics as plain text.
pub fn render(diagnostics: &[Diagnostic], sources: &Sources) -> String {
    diagnostic::render(diagnostics, sources, |severity| match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Notice | Severity::NoEffect => "notice",
    })
}
