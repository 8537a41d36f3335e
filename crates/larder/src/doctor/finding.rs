//! What was found: what hurts, what could not be looked at, and what is in order.

use std::fmt;

use serde_json::{Value, json};

/// How much it hurts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Good to know; costs nothing yet.
    Note,
    /// It will hurt under load, or on a bad day.
    Warning,
    /// It hurts now, or the server does not start.
    Error,
}

impl Severity {
    /// As it is printed.
    pub fn word(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// Something that hurts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How much.
    pub severity: Severity,
    /// The fact, with its numbers.
    pub what: String,
    /// What comes of it.
    pub why: String,
    /// The commands that mend it, one each; those that begin with `#` are for a person.
    pub mend: Vec<String>,
}

impl Finding {
    /// A note.
    pub fn note(what: impl Into<String>) -> Finding {
        Finding::new(Severity::Note, what.into())
    }

    /// A warning.
    pub fn warning(what: impl Into<String>) -> Finding {
        Finding::new(Severity::Warning, what.into())
    }

    /// An error.
    pub fn error(what: impl Into<String>) -> Finding {
        Finding::new(Severity::Error, what.into())
    }

    fn new(severity: Severity, what: String) -> Finding {
        Finding { severity, what, why: String::new(), mend: Vec::new() }
    }

    /// Says what comes of it.
    pub fn why(self, why: impl Into<String>) -> Finding {
        Finding { why: why.into(), ..self }
    }

    /// Adds a command that mends it.
    pub fn mend(mut self, command: impl Into<String>) -> Finding {
        self.mend.push(command.into());
        self
    }
}

/// What the checks have found so far.
#[derive(Debug, Default)]
pub struct Found {
    check: &'static str,
    /// What hurts, each with the name of its check.
    pub findings: Vec<(&'static str, Finding)>,
    /// What could not be looked at, and why.
    pub unknown: Vec<(&'static str, String)>,
    /// What is in order, with the fact that says so.
    pub fine: Vec<(&'static str, String)>,
}

impl Found {
    /// What follows belongs to this check.
    pub fn begin(&mut self, check: &'static str) {
        self.check = check;
    }

    /// Something hurts.
    pub fn add(&mut self, finding: Finding) {
        let told = (self.check, finding);
        if !self.findings.contains(&told) {
            self.findings.push(told);
        }
    }

    /// Something could not be looked at.
    pub fn unknown(&mut self, why: impl fmt::Display) {
        let told = (self.check, why.to_string());
        if !self.unknown.contains(&told) {
            self.unknown.push(told);
        }
    }

    /// Something is in order.
    pub fn fine(&mut self, fact: impl Into<String>) {
        let told = (self.check, fact.into());
        if !self.fine.contains(&told) {
            self.fine.push(told);
        }
    }

    /// Whether this check has found something.
    pub fn has_finding_now(&self) -> bool {
        self.findings.iter().any(|(check, _)| *check == self.check)
    }

    /// The worst that was found.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|(_, finding)| finding.severity).max()
    }

    /// The exit status: 0, or 1 with warnings, or 2 with errors.
    pub fn status(&self) -> u8 {
        match self.worst() {
            None | Some(Severity::Note) => 0,
            Some(Severity::Warning) => 1,
            Some(Severity::Error) => 2,
        }
    }

    /// For people: the worst first.
    pub fn as_text(&self) -> String {
        let mut text = String::new();
        let mut findings: Vec<_> = self.findings.iter().collect();
        findings.sort_by_key(|(_, finding)| std::cmp::Reverse(finding.severity));
        for (check, finding) in findings {
            text.push_str(&format!("[{}] {check}: {}\n", finding.severity.word(), finding.what));
            if !finding.why.is_empty() {
                text.push_str(&format!("    why:  {}\n", finding.why));
            }
            for (at, command) in finding.mend.iter().enumerate() {
                let head = if at == 0 { "mend:" } else { "     " };
                text.push_str(&format!("    {head} {command}\n"));
            }
        }
        for (title, lines) in [("Not known:", &self.unknown), ("In order:", &self.fine)] {
            if lines.is_empty() {
                continue;
            }
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&format!("{title}\n"));
            for (check, line) in lines {
                text.push_str(&format!("    {check}: {line}\n"));
            }
        }
        text
    }

    /// For programs.
    pub fn as_json(&self) -> Value {
        let finding = |(check, finding): &(&str, Finding)| {
            json!({
                "check": check,
                "severity": finding.severity.word(),
                "what": finding.what,
                "why": finding.why,
                "mend": finding.mend,
            })
        };
        let lines = |key: &str, lines: &[(&'static str, String)]| -> Vec<Value> {
            lines.iter().map(|(check, line)| json!({ "check": check, key: line })).collect()
        };
        json!({
            "status": self.status(),
            "findings": self.findings.iter().map(finding).collect::<Vec<_>>(),
            "unknown": lines("why", &self.unknown),
            "fine": lines("what", &self.fine),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_decides_and_comes_first() {
        let mut found = Found::default();
        found.begin("a");
        found.fine("all");
        assert_eq!(found.status(), 0);
        found.add(Finding::note("small"));
        assert_eq!(found.status(), 0);
        found.add(Finding::warning("bad").why("so").mend("do this").mend("and that"));
        found.add(Finding::warning("bad").why("so").mend("do this").mend("and that"));
        assert_eq!((found.status(), found.findings.len()), (1, 2));
        found.begin("b");
        found.add(Finding::error("worse"));
        found.unknown("closed");
        assert_eq!(found.status(), 2);
        assert_eq!(
            found.as_text(),
            "[error] b: worse\n[warning] a: bad\n    why:  so\n    mend: do this\n          and that\n[note] a: small\n\
             \nNot known:\n    b: closed\n\nIn order:\n    a: all\n"
        );
        let json = found.as_json();
        assert_eq!((&json["status"], &json["findings"][1]["mend"][1]), (&json!(2), &json!("and that")));
        assert_eq!(json["unknown"][0], json!({ "check": "b", "why": "closed" }));
    }
}
