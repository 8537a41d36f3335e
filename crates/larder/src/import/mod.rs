//! `larder import`: what of another server's configuration works with larder, and how to switch over and back.
//!
//! It reads a machine and changes nothing; `--write` writes what a switch-over needs into a new folder.

mod nginx;
pub mod options;
mod report;
mod service;
mod varnish;
mod words;

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use larder_conf::{PlainJson, PlainLines};

use crate::machine::Machine;
use crate::shell::quoted;

use options::{Import, Other};

/// Looks, tells, and returns whether all of it works. `program` is what this process runs.
pub fn run(asked: &Import, program: &Path) -> ExitCode {
    let root = asked.root.as_deref().unwrap_or(Path::new("/"));
    let machine = match Machine::at(root) {
        Ok(machine) => machine,
        Err(error) => return nothing(&format!("{} cannot be looked at: {error}", root.display())),
    };
    let written = asked.write.as_deref();
    let program = service::program(&machine, program);
    let report = match asked.of {
        Other::Nginx => nginx::report(&machine, &program, asked.conf_file.as_deref(), written),
        Other::Varnish => varnish::report(&machine, &program, written),
    };
    let report = match report {
        Ok(report) => report,
        Err(why) => return nothing(&why),
    };
    if let Some(folder) = written
        && let Err(error) = report.write_into(folder)
    {
        return nothing(&format!("nothing is overwritten: {error}"));
    }
    let text = if asked.is_json { format!("{:#}\n", report.as_json()) } else { report.as_text() };
    // Files of others may have what a terminal obeys.
    let text = if asked.is_json { PlainJson(&text).to_string() } else { PlainLines(&text).to_string() };
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) if report.works() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn nothing(why: &str) -> ExitCode {
    eprintln!("larder: {}", PlainLines(why));
    ExitCode::from(NOTHING)
}

/// Where the files are that a command names: in the folder of `--write`, or in one that is named in its place.
fn place(written: Option<&Path>, file: &str) -> std::path::PathBuf {
    let folder = written.map(|folder| std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned()));
    folder.unwrap_or_else(|| Path::new(UNWRITTEN).to_owned()).join(file)
}

/// The command that writes the files, if they are not written yet.
fn to_write(program: &Path, written: Option<&Path>, what: &str) -> Option<String> {
    written.is_none().then(|| format!("{} import {what} --write {UNWRITTEN}", shown(program)))
}

/// A path in a command.
fn shown(path: &Path) -> String {
    quoted(&path.display().to_string())
}

const UNWRITTEN: &str = "/root/larder-import";
const NOTHING: u8 = 2;
