//! What is said about a configuration, apart from how it is shown: for those who sort it, or write it as JSON.

use std::path::PathBuf;

use larder_conf::{Diagnostic, Severity, Sources, Span};
use serde_json::{Value, json};

/// Something that is said about a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// How bad it is.
    pub severity: Severity,
    /// One line.
    pub message: String,
    /// Where, by the numbers of its sources.
    pub span: Option<Span>,
    /// File and line.
    pub place: Option<(PathBuf, usize)>,
    /// What stands there.
    pub label: Option<String>,
    /// What to do.
    pub help: Option<String>,
}

impl Remark {
    /// All of `diagnostics`, with the places that `sources` know.
    pub fn of(diagnostics: &[Diagnostic], sources: &Sources) -> Vec<Remark> {
        let remark = |diagnostic: &Diagnostic| {
            let position = diagnostic.span.and_then(|span| sources.position(span));
            Remark {
                severity: diagnostic.severity,
                message: diagnostic.message.clone(),
                span: diagnostic.span,
                place: position.map(|position| (position.path, position.line)),
                label: diagnostic.label.clone(),
                help: diagnostic.help.clone(),
            }
        };
        diagnostics.iter().map(remark).collect()
    }

    /// A notice without a place.
    pub fn notice(message: &str) -> Remark {
        Remark {
            severity: Severity::Notice,
            message: message.to_owned(),
            span: None,
            place: None,
            label: None,
            help: None,
        }
    }

    /// `FILE:LINE`; empty if it has no place.
    pub fn shown_place(&self) -> String {
        self.place.as_ref().map_or_else(String::new, |(path, line)| format!("{}:{line}", path.display()))
    }

    /// Whether it is about a file that this account may not read.
    pub fn is_forbidden(&self) -> bool {
        self.message.contains("Permission denied")
    }

    /// The message behind its place.
    pub fn in_a_line(&self) -> String {
        match self.place {
            Some(_) => format!("{}: {}", self.shown_place(), self.message),
            None => self.message.clone(),
        }
    }

    /// For programs.
    pub fn as_json(&self) -> Value {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Notice => "notice",
            Severity::NoEffect => "no effect",
        };
        let place = self.place.as_ref();
        json!({
            "severity": severity,
            "message": self.message,
            "file": place.map(|(path, _)| path.display().to_string()),
            "line": place.map(|(_, line)| line),
            "label": self.label,
            "help": self.help,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remark_has_the_place_of_its_diagnostic() {
        let mut sources = Sources::new();
        let file = sources.add_file("/a".into(), b"one\ntwo\n".to_vec());
        let there = Diagnostic::error("bad").at(Span { file, start: 4, end: 7 }).help("mend");
        let remarks = Remark::of(&[*there, *Diagnostic::notice("nowhere")], &sources);
        assert_eq!(remarks[0].in_a_line(), "/a:2: bad");
        assert_eq!(remarks[1].in_a_line(), "nowhere");
        assert_eq!(remarks[0].as_json()["line"], 2);
        assert_eq!(remarks[0].as_json()["help"], "mend");
        assert_eq!(remarks[1].as_json()["file"], Value::Null);
    }
}
