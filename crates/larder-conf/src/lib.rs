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
pub mod profiles;
mod template;
mod tree;
mod values;

use std::path::{Path, PathBuf};

pub use contexts::Contexts;
pub use directives::headers::{ExpiresError, parse_expires};
pub use directives::{Args, DirectiveInfo, Standing, find_directive};
pub use larder_source::{
    Diagnostic, Lines, Loader, MemoryLoader, Plain, PlainJson, PlainLines, Position, Severity, Sources, Span, nearest,
};
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
    let mut parsed = parse::parse(main_file, options, loader);
    let mut diagnostics = parsed.diagnostics;
    let files = cx::Files { sources: &mut parsed.sources, loader };
    let config = match parsed.balanced {
        // With a brace missing every context would be wrong, and so would every message about one.
        false => None,
        true => Some(build::build(&parsed.directives, options, files, cx::Naming::First, &mut diagnostics)),
    };
    let has_errors = diagnostics.iter().any(|d| d.severity == Severity::Error);
    diagnostics.sort_by_key(in_order);
    diagnostic::limit(&mut diagnostics);
    match config {
        Some(config) if !has_errors => {
            let config = model::Config { lines: parsed.sources.lines().into(), ..config };
            Ok(Loaded { config, sources: parsed.sources, notices: diagnostics })
        }
        _ => Err(Box::new(Failed { sources: parsed.sources, diagnostics })),
    }
}

/// A directive as it is written, whether larder knows it or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its name.
    pub name: String,
    /// Where the name stands.
    pub span: Span,
    /// From the name to the last argument.
    pub whole: Span,
    /// What stands behind the name.
    pub args: Vec<String>,
    /// How larder stands to it; `None` if it knows no directive of that name.
    pub standing: Option<Standing>,
}

/// What is written in a configuration, whether it can be used or not.
#[derive(Debug)]
pub struct Survey {
    /// All directives in order. What stands in `map`, `types` and the like are values, and not among them; nor is what a
    /// refused block has.
    pub directives: Vec<Written>,
    /// The files, the same as those of [`load`].
    pub sources: Sources,
    /// Warnings and notices, in order of the files. Those that [`load`] gives once are here for each place.
    pub notices: Vec<Diagnostic>,
}

/// Looks over `main_file` and its includes.
pub fn survey(main_file: &Path, options: &Options, loader: &mut dyn Loader) -> Survey {
    let mut parsed = parse::parse(main_file, options, loader);
    let mut directives = Vec::new();
    each_written(&parsed.directives, &mut directives);
    let mut notices = parsed.diagnostics;
    if parsed.balanced {
        let files = cx::Files { sources: &mut parsed.sources, loader };
        build::build(&parsed.directives, options, files, cx::Naming::Each, &mut notices);
    }
    notices.retain(|notice| notice.severity != Severity::Error);
    notices.sort_by_key(in_order);
    Survey { directives, sources: parsed.sources, notices }
}

/// By file and place; first those that have none.
fn in_order(diagnostic: &Diagnostic) -> (u64, u32) {
    diagnostic.span.map_or((0, 0), |span| (u64::from(span.file) + 1, span.start))
}

fn each_written(tree: &[tree::Directive], found: &mut Vec<Written>) {
    const OF_VALUES: [&str; 5] = ["map", "geo", "types", "split_clients", "charset_map"];
    for directive in tree {
        let name = directive.name.text.clone();
        let standing = directives::standing_of(&name);
        // What larder does not know may have anything in its block.
        let is_ours = standing.is_some_and(|standing| standing != Standing::Refused);
        let has_directives = is_ours && !OF_VALUES.contains(&name.as_str());
        let args = directive.args.iter().map(|word| word.text.clone()).collect();
        found.push(Written { name, span: directive.name.span, whole: directive.span(), args, standing });
        if let Some(block) = directive.block.as_ref().filter(|_| has_directives) {
            each_written(&block.directives, found);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        Options { prefix: "/".into(), conf_prefix: "/".into(), globals: None, is_root: true, hostname: String::new() }
    }

    #[test]
    fn directives_are_found_where_they_are_written() {
        let mut files = MemoryLoader::new();
        files.add(
            "/a",
            "events {}\nhttp { include b; map $a $b { default 1; } nonsense 1; lua_code on; }\nstream { server { } }",
        );
        files.add("/b", "server {\n  listen 80; tcp_nopush on;\n  perl_set $a x;\n}");
        let Survey { directives: found, sources, .. } = survey(Path::new("/a"), &options(), &mut files);
        let place = |written: &Written| {
            let position = sources.position(written.span).expect("it stands in a file");
            format!("{}:{} {} {:?}", position.path.display(), position.line, written.name, written.standing)
        };
        let found: Vec<String> = found.iter().map(place).collect();
        let expected = [
            "/a:1 events Some(Built)",
            "/a:2 http Some(Built)",
            "/b:1 server Some(Built)",
            "/b:2 listen Some(Built)",
            "/b:2 tcp_nopush Some(Harmless)",
            "/b:3 perl_set Some(Refused)",
            "/a:2 map Some(Built)",
            "/a:2 nonsense None",
            "/a:2 lua_code Some(Harmless)",
            "/a:3 stream Some(Refused)",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_survey_names_each_place_of_what_is_said_once_otherwise() {
        let mut files = MemoryLoader::new();
        let server = |name: &str| {
            format!("server {{ server_name {name}; ssl_protocols TLSv1 TLSv1.2; http3 on; tcp_nopush on; }}\n")
        };
        files.add(
            "/a",
            format!("events {{}} http {{\n{}{}{}}}\n", server("a.test"), server("b.test"), server("c.test")),
        );
        let lines = |notices: &[Diagnostic], sources: &Sources| {
            let line = |notice: &Diagnostic| sources.position(notice.span.expect("it has a place")).map(|at| at.line);
            notices.iter().filter_map(line).collect::<Vec<_>>()
        };
        let loaded = load(Path::new("/a"), &options(), &mut files).expect("it is well-formed");
        assert_eq!(lines(&loaded.notices, &loaded.sources), [2, 2, 2]);
        let survey = survey(Path::new("/a"), &options(), &mut files);
        assert_eq!(lines(&survey.notices, &survey.sources), [2, 2, 2, 3, 3, 4, 4]);
        let protocols = survey.directives.iter().find(|written| written.name == "ssl_protocols").expect("it is there");
        assert_eq!((protocols.args.len(), protocols.whole.end - protocols.whole.start), (2, 27));
    }
}
