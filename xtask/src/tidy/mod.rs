//! `cargo xtask tidy`: the rules of the repository that no compiler checks.
//!
//! Each rule reads text and returns findings; only this file walks the repository.

mod circles;
mod crates;
mod imports;
mod layers;
mod links;
mod rust_text;
mod sources;
mod tree;

use rust_text::RustText;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// One broken rule: where, what, and how to mend it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Relative to the root of the repository.
    pub file: PathBuf,
    /// Counted from 1.
    pub line: usize,
    /// What is wrong.
    pub fact: String,
    /// What to do about it.
    pub mend: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { file, line, fact, mend } = self;
        write!(f, "{}:{line}: {fact}\n    mend: {mend}", file.display())
    }
}

/// Checks the repository at `root`, prints what it found, and fails if it found anything.
pub fn main(root: &Path) -> ExitCode {
    let (findings, files) = match check(root) {
        Ok(found) => found,
        Err(error) => {
            eprintln!("tidy: cannot read the repository: {error}");
            return ExitCode::FAILURE;
        }
    };
    for finding in &findings {
        eprintln!("{finding}");
    }
    if findings.is_empty() {
        println!("tidy: {files} files, nothing to mend");
        ExitCode::SUCCESS
    } else {
        eprintln!("tidy: {} to mend", findings.len());
        ExitCode::FAILURE
    }
}

/// Every finding, by file and line, and the number of files read.
fn check(root: &Path) -> io::Result<(Vec<Finding>, usize)> {
    let mut files = Vec::new();
    walk(root, Path::new(""), &mut files)?;
    files.sort();

    let mut findings = Vec::new();
    let mut programs: BTreeMap<PathBuf, Vec<(PathBuf, RustText)>> = BTreeMap::new();
    for file in &files {
        let Ok(text) = fs::read_to_string(root.join(file)) else {
            continue; // Not text: a corpus file of a parser may hold anything.
        };
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("rs") => {
                let split = RustText::of(&text);
                findings.extend(sources::check(file, &text, &split));
                if let Some(src) = source_folder(file) {
                    programs.entry(src).or_default().push((file.clone(), split));
                }
            }
            Some("toml") if is_manifest(file) => findings.extend(crates::check(file, &text)),
            Some("md") => {
                let read = |path: &Path| fs::read_to_string(root.join(path)).ok();
                let exists = |path: &Path| root.join(path).exists();
                findings.extend(links::check(file, &text, &exists, &read));
            }
            _ => {}
        }
    }
    for (src, program) in &programs {
        findings.extend(layers::check(src, program));
    }
    findings.sort();
    Ok((findings, files.len()))
}

/// Whether `file` is the manifest of a crate, not of the workspace.
fn is_manifest(file: &Path) -> bool {
    file.ends_with("Cargo.toml") && file.components().count() > 1
}

/// The `src` that `file` lies in, of a crate in `crates/` or of `xtask`.
fn source_folder(file: &Path) -> Option<PathBuf> {
    let parts: Vec<&OsStr> = file.iter().collect();
    let src = match parts.as_slice() {
        [first, src, _, ..] if *first == "xtask" && *src == "src" => 2,
        [first, _, src, _, ..] if *first == "crates" && *src == "src" => 3,
        _ => return None,
    };
    Some(parts.into_iter().take(src).collect())
}

/// Collects the files below `root`/`below`, but nothing that is built, fetched or hidden.
fn walk(root: &Path, below: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    const SKIPPED: [&str; 2] = ["target", "node_modules"];
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with('.') || SKIPPED.contains(&name.as_ref()) {
            continue;
        }
        let path = below.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            walk(root, &path, files)?;
        } else if kind.is_file() {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_names_file_line_fact_and_mend() {
        let finding = Finding {
            file: PathBuf::from("crates/larder-http/src/lib.rs"),
            line: 3,
            fact: "`TcpStream` in larder-http".into(),
            mend: "pass the bytes in".into(),
        };
        assert_eq!(
            finding.to_string(),
            "crates/larder-http/src/lib.rs:3: `TcpStream` in larder-http\n    mend: pass the bytes in"
        );
    }

    #[test]
    fn a_program_is_what_lies_in_the_src_of_a_crate() {
        for (file, src) in [
            ("crates/larder-http/src/h1/mod.rs", Some("crates/larder-http/src")),
            ("crates/larder-http/tests/h1.rs", None),
            ("crates/larder-http/src.rs", None),
            ("xtask/src/main.rs", Some("xtask/src")),
            ("fuzz/src/main.rs", None),
        ] {
            assert_eq!(source_folder(Path::new(file)).as_deref(), src.map(Path::new), "{file}");
        }
    }

    #[test]
    fn only_manifests_of_crates_are_crate_manifests() {
        for (file, claim) in [
            ("Cargo.toml", false),
            ("crates/larder/Cargo.toml", true),
            ("xtask/Cargo.toml", true),
            ("clippy.toml", false),
        ] {
            assert_eq!(is_manifest(Path::new(file)), claim, "{file}");
        }
    }
}
