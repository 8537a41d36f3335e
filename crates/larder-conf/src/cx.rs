//! What holds for the whole configuration while it is built: where errors go, and what has been named.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;

use crate::Options;
use crate::diagnostic::{Diagnostic, Outcome, Severity};
use crate::model::{At, SharedSessions};
use crate::sources::{Loader, Sources};
use crate::span::Span;

/// How often something is said that holds for several places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// At the first one.
    First,
    /// At each of them, unless nothing is lost.
    Each,
}

/// Files that are read while the configuration is built, and those that were.
pub struct Files<'a> {
    /// All that were read.
    pub sources: &'a mut Sources,
    /// What reads them.
    pub loader: &'a mut dyn Loader,
}

/// What all levels need.
pub struct Cx<'a> {
    /// Prefixes and the like.
    pub options: &'a Options,
    /// Names that are checked when everything is known.
    pub references: Vec<Reference>,
    /// Caches of TLS sessions by name, as first declared.
    session_zones: HashMap<String, (usize, Span)>,
    files: Files<'a>,
    diagnostics: &'a mut Vec<Diagnostic>,
    naming: Naming,
    /// What has been noticed once already.
    noticed: HashSet<String>,
    /// The places that have been named, if each is.
    named: HashSet<(String, Option<Span>)>,
    /// Whether some `*_bind` is `transparent`.
    pub binds_anywhere: bool,
}

impl<'a> Cx<'a> {
    /// Reports go to `diagnostics`.
    pub fn new(options: &'a Options, files: Files<'a>, naming: Naming, diagnostics: &'a mut Vec<Diagnostic>) -> Self {
        Self {
            options,
            references: Vec::new(),
            session_zones: HashMap::new(),
            files,
            diagnostics,
            naming,
            noticed: HashSet::new(),
            named: HashSet::new(),
            binds_anywhere: false,
        }
    }

    /// Reports something.
    #[expect(clippy::boxed_local, reason = "errors come in boxes, to keep results small")]
    pub fn report(&mut self, diagnostic: Box<Diagnostic>) {
        self.diagnostics.push(*diagnostic);
    }

    /// Reads a file, once: its number in the sources, and its text.
    pub fn read(&mut self, path: &Path) -> io::Result<(u32, String)> {
        let file = match self.files.sources.find(path) {
            Some(file) => file,
            None => {
                let bytes = self.files.loader.read(path)?;
                self.files.sources.add_file(path.to_owned(), bytes)
            }
        };
        Ok((file, crate::sources::text(self.files.sources.bytes(file))))
    }

    /// Whether there is a file of that name; what is not known counts as absent.
    pub fn has(&mut self, path: &str) -> bool {
        // As a pattern that matches nothing else, so that it is answered from what was read, too.
        let pattern: String = path.chars().flat_map(|char| escaped(char).into_iter().flatten()).collect();
        match self.files.loader.glob(&pattern) {
            Ok(found) => {
                let is_there = !found.is_empty();
                self.files.sources.add_glob(&pattern, found);
                is_there
            }
            Err(_) => false,
        }
    }

    /// Reports something once for each `topic`, or for each place of one.
    pub fn report_once(&mut self, topic: &str, diagnostic: impl FnOnce() -> Box<Diagnostic>) {
        let is_new = self.noticed.insert(topic.to_owned());
        if !is_new && self.naming == Naming::First {
            return;
        }
        let diagnostic = diagnostic();
        if !is_new && diagnostic.severity == Severity::NoEffect {
            return;
        }
        if self.naming == Naming::First || self.named.insert((topic.to_owned(), diagnostic.span)) {
            self.report(diagnostic);
        }
    }

    /// Says, once for each `what`, that it is read and nothing comes of it, and nothing is lost.
    pub fn note_no_effect(&mut self, what: &str, span: Span, why: &str) {
        self.report_once(what, || Diagnostic::no_effect(what, why).at(span));
    }

    /// Path relative to the prefix, as nginx joins logs, roots and temporary files.
    pub fn path(&self, text: &str) -> std::path::PathBuf {
        self.options.prefix.join(text)
    }

    /// Path relative to the folder of the configuration, as nginx joins what TLS needs.
    pub fn conf_path(&self, text: &str) -> std::path::PathBuf {
        self.options.conf_prefix.join(text)
    }

    /// Where a cache of TLS sessions of that name is declared.
    pub fn session_zone(&self, name: &str) -> Option<Span> {
        self.session_zones.get(name).map(|(_, span)| *span)
    }

    /// Declares a cache of TLS sessions, which has one size wherever it is named.
    pub fn add_session_zone(&mut self, zone: &SharedSessions) -> Outcome {
        let name = &zone.name;
        let (bytes, first) = *self.session_zones.entry(name.value.clone()).or_insert((zone.bytes, name.span));
        match bytes == zone.bytes {
            true => Ok(()),
            false => Err(Diagnostic::error(format!(
                "the size {} of shared memory zone \"{}\" conflicts with already declared size {bytes}",
                zone.bytes, name.value
            ))
            .at(name.span)
            .related(first, "it is declared here")),
        }
    }
}

/// A character of a pattern that means itself.
fn escaped(char: char) -> [Option<char>; 2] {
    match char {
        '*' | '?' | '[' | '\\' => [Some('\\'), Some(char)],
        _ => [Some(char), None],
    }
}

/// A name that something elsewhere must define.
#[derive(Debug)]
pub enum Reference {
    /// A `keys_zone=`, for the directive named.
    CacheZone(At<String>, &'static str),
    /// A zone of `limit_req_zone`.
    LimitReqZone(At<String>),
    /// A zone of `limit_conn_zone`.
    LimitConnZone(At<String>),
    /// A `log_format`.
    LogFormat(At<String>),
    /// An address without a port, which only an `upstream` can explain.
    Group(At<String>),
    /// Charsets of which one is made the other.
    CharsetMap(String, String, Span),
}
