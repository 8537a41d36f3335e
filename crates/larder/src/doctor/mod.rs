//! `larder doctor`: looks at a machine, and says what will hurt, why, and what mends it.
//!
//! `checks` is the table of what is looked at; each check is a function of a `Patient` that adds to what was `Found`.
//! Files are read through a `Machine`, and what no file says is tried by its `Senses`, so that a test can make a sick one.

mod accounts;
mod certificates;
mod checks;
mod clock;
mod configuration;
mod disk;
mod files;
mod finding;
mod kernel;
mod memory;
mod net;
pub mod options;
mod patient;
pub mod php;
mod senses;
#[cfg(test)]
mod tests;
mod words;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use larder_conf::{PlainJson, PlainLines};
use serde_json::json;

use crate::configuration::{Configuration, Surroundings};
use crate::hostname::hostname;
use crate::machine::Machine;
use crate::paths::{self, DefaultLog};
use crate::remark::Remark;

use finding::{Found, Severity};
use options::Doctor;
use patient::Patient;
use senses::{Senses, Tried};

/// Looks, tells, and returns how bad it is.
pub fn run(asked: &Doctor) -> ExitCode {
    let root = asked.root.as_deref().unwrap_or(Path::new("/"));
    let machine = match Machine::at(root) {
        Ok(machine) => machine,
        Err(error) => {
            eprintln!("larder: {} cannot be looked at: {error}", root.display());
            return ExitCode::from(NOT_LOOKED);
        }
    };
    let patient = examine(asked, &machine, &Tried);
    let found = checks::all(&patient);
    let text = match asked.is_json {
        true => {
            let mut json = found.as_json();
            json["configuration"] = json!(patient.conf_file.display().to_string());
            format!("{json:#}\n")
        }
        false => format!("{}\n{}", found.as_text(), summary(&patient, &found)),
    };
    // Files of others may have what a terminal obeys.
    let text = if asked.is_json { PlainJson(&text).to_string() } else { PlainLines(&text).to_string() };
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::from(found.status()),
        // Whoever reads may have left.
        Err(_) => ExitCode::from(NOT_LOOKED),
    }
}

/// What the checks are to look at.
fn examine<'a>(asked: &Doctor, machine: &'a Machine, senses: &'a dyn Senses) -> Patient<'a> {
    let conf_file = conf_file(asked, machine);
    let mut patient = Patient::new(machine, senses, &conf_file);
    patient.measures_disks = !asked.spares_disks;
    let prefix = asked.prefix.clone().unwrap_or_else(|| paths::PREFIX.into());
    let surroundings = Surroundings {
        conf_prefix: conf_file.parent().map(Path::to_owned).unwrap_or_default(),
        conf_file,
        prefix,
        globals: asked.globals.clone(),
        // As the service will be, whoever asks.
        is_root: true,
        hostname: hostname(),
        error_log: DefaultLog::File(paths::ERROR_LOG.into()),
    };
    let mut loader = machine.clone();
    match Configuration::by_loader(surroundings.clone(), &mut loader) {
        Ok(configuration) => {
            let (notices, sources) = (&configuration.notices, &configuration.sources);
            patient.warnings = Remark::of(notices, sources);
            patient.warnings.extend(Remark::of(&larder_conf::lint(&configuration.config), sources));
            patient.config = Some(configuration.config);
        }
        Err(rejected) => {
            patient.errors = rejected.remarks;
            // Something may be wrong that the checks need not know, such as a key that cannot be read.
            patient.config = Configuration::parsed(&surroundings, &mut loader);
        }
    }
    patient
}

/// The configuration that is asked for, or that of the larder that runs, or the one that `larder -t` takes.
fn conf_file(asked: &Doctor, machine: &Machine) -> PathBuf {
    if let Some(file) = &asked.conf_file {
        let prefix = asked.prefix.as_deref().unwrap_or(Path::new(paths::PREFIX));
        return prefix.join(file);
    }
    paths::running_conf_file(machine).unwrap_or_else(|| paths::default_conf_file_of(machine))
}

fn summary(patient: &Patient<'_>, found: &Found) -> String {
    let count = |severity| found.findings.iter().filter(|(_, finding)| finding.severity == severity).count();
    let numbers = [(Severity::Error, "error"), (Severity::Warning, "warning"), (Severity::Note, "note")];
    let numbers = numbers.map(|(severity, word)| match count(severity) {
        1 => format!("1 {word}"),
        number => format!("{number} {word}s"),
    });
    let hint = if patient.is_root || found.unknown.is_empty() { "" } else { "; root may know more" };
    format!("{}: {}{hint}\n", patient.conf_file.display(), numbers.join(", "))
}

const NOT_LOOKED: u8 = 3;
