//! The command line of Varnish: in its unit, or in the variables that its init script reads.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::super::service::{self, Command};
use super::super::words::{self, Reader, Variables};
use crate::machine::Machine;
use crate::unit::Unit;

/// What was found.
#[derive(Debug)]
pub struct Found {
    /// The command.
    pub command: Command,
    /// All files that say it.
    files: Vec<PathBuf>,
}

impl Found {
    /// The files in a line.
    pub fn shown(&self) -> String {
        self.files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ")
    }
}

/// Finds it. systemd reads no file of variables that the unit does not name.
pub fn find(machine: &Machine, unit: Option<&Unit>) -> Result<Found, String> {
    if let Some(unit) = unit {
        let command = service::command(machine, unit, "ExecStart");
        let mut command = command.ok_or("the unit varnish.service has no ExecStart")?;
        let program = command.words.first().cloned().unwrap_or_default();
        if program.ends_with("/larder") && command.words.get(1).is_some_and(|word| word == "varnishd") {
            command.words.remove(0);
        } else if !program.ends_with("/varnishd") {
            return Err(format!(
                "{}:{} runs {program}, whose options are not those of varnishd",
                command.file.display(),
                command.line
            ));
        }
        return Ok(Found { command, files: unit.files.clone() });
    }
    for file in FILES.map(Path::new) {
        let Ok(text) = machine.text(file) else { continue };
        let (mut variables, mut lines) = (Variables::new(), BTreeMap::new());
        words::assign(&text, Reader::Shell, &mut variables, &mut lines);
        let Some(options) = variables.get("DAEMON_OPTS") else { continue };
        let mut all = vec!["/usr/sbin/varnishd".to_owned()];
        all.extend(words::split(options, &Variables::new()));
        let line = lines.get("DAEMON_OPTS").copied().unwrap_or(1);
        // What stands behind it are other variables.
        let end = lines.values().copied().filter(|other| *other > line).min().unwrap_or(usize::MAX);
        let own: String = text.lines().take(end - 1).map(|line| format!("{line}\n")).collect();
        let command =
            Command { words: all, file: file.to_owned(), line, lines: service::lines(file, &own, line).collect() };
        return Ok(Found { command, files: vec![file.to_owned()] });
    }
    Err(format!("there is no unit varnish.service, and no DAEMON_OPTS in {}", FILES.join(" or ")))
}

/// Where packages of Debian and Fedora have the variables.
const FILES: [&str; 3] = ["/etc/default/varnish", "/etc/sysconfig/varnish", "/etc/varnish/varnish.params"];
