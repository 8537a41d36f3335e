//! `larder profile`: what is known of applications, for people.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use larder_conf::{Diagnostic, Sources, profiles, render};

use crate::oserror::Reason;

/// Without a word, lists the profiles. Prints the text of one, says what is wrong with a file, or which applications are in a
/// folder.
pub fn run(what: Option<&Path>) -> ExitCode {
    let told = match what {
        None => Ok(list()),
        Some(path) => match path.to_str().and_then(profiles::find) {
            Some(known) => Ok(known.text.to_owned()),
            None if path.is_dir() => Ok(found(path)),
            None => file(path),
        },
    };
    match told {
        // Who reads may have read enough.
        Ok(text) => drop(std::io::stdout().write_all(text.as_bytes())),
        Err(text) => {
            eprint!("{text}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn list() -> String {
    let width = profiles::built_in().iter().map(|known| known.name.len()).max().unwrap_or_default();
    profiles::built_in().iter().map(|known| format!("{:<width$}  {}\n", known.name, known.written.about)).collect()
}

/// What `larder_profile auto` finds below a root.
fn found(root: &Path) -> String {
    let found = profiles::detect(&mut |file| root.join(file).exists());
    match found.is_empty() {
        true => format!("no application was found in {}\n", root.display()),
        false => found.iter().map(|found| format!("{}: it has {}\n", found.profile.name, found.by)).collect(),
    }
}

/// Whether a file is a profile, and what it comes to.
fn file(path: &Path) -> Result<String, String> {
    let shown = path.display().to_string();
    let bytes = fs::read(path).map_err(|error| match shown.contains('/') || path.exists() {
        true => format!("larder: {shown} cannot be read {}\n", Reason(&error)),
        false => format!("larder: there is no profile {shown:?}: there are {}\n", profiles::names()),
    })?;
    let mut sources = Sources::new();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let number = sources.add_file(path.to_owned(), bytes);
    let mut wrong: Vec<Diagnostic> = Vec::new();
    let written = profiles::read(&text, number, &shown, &mut wrong);
    let profile = profiles::own(&shown, &written, &mut wrong);
    match wrong.is_empty() {
        true => Ok(format!("{shown} is a profile: {} names in its rows and those it goes with\n", profile.rows.len())),
        false => Err(render(&wrong, &sources)),
    }
}
