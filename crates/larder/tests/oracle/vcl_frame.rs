//! The frame around the VCL of a case, and the files that stand beside it.

use std::env;
use std::fs;
use std::io;
use std::path::PathBuf;

use larder_testkit::Folder;

use crate::case::{Case, Entry};
use crate::frame;

/// The VCL that is loaded, in the folder of the case.
pub const MAIN: &str = "main.vcl";

/// Puts the VCL into an empty folder, and the files of the case.
pub fn build(case: &Case, folder: &Folder, fill: &dyn Fn(&str) -> String) -> io::Result<()> {
    if case.published.is_empty() {
        folder.write(MAIN, fill(&framed(&case.config)))?;
    }
    for (number, entry) in case.published.iter().enumerate() {
        let name = if number == 0 { MAIN } else { &entry.name };
        folder.write(name, replaced(entry, fill).map_err(io::Error::other)?)?;
    }
    for entry in &case.files {
        frame::make(entry, folder, fill)?;
    }
    Ok(())
}

/// The folder of published VCLs, which are not ours to keep here.
pub fn published_folder() -> Option<PathBuf> {
    env::var_os("ORACLE_VCLS").map(PathBuf::from)
}

/// The VCL with what a case need not say: the version, `std` and a backend.
fn framed(vcl: &str) -> String {
    let lacks = |text: &str| !vcl.contains(text);
    let mut framed = String::new();
    if lacks("vcl 4.") {
        framed.push_str("vcl 4.1;\n");
    }
    if lacks("import std;") {
        framed.push_str("import std;\n");
    }
    if lacks("backend ") {
        framed.push_str("backend default { .host = \"127.0.0.1\"; .port = \"{ORIGIN_PORT}\"; }\n");
    }
    framed + vcl
}

/// A published file with the lines `OLD => NEW` below its name carried out. What is to be replaced has to be there:
/// the file may have changed since the case was written.
fn replaced(entry: &Entry, fill: &dyn Fn(&str) -> String) -> Result<String, String> {
    let folder = published_folder().ok_or("ORACLE_VCLS is not set")?;
    let from = entry.option("from").ok_or_else(|| format!("{} has no from=", entry.name))?;
    let path = folder.join(from);
    let mut text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    for line in entry.text.lines().filter(|line| !line.trim().is_empty()) {
        let (old, new) = line.split_once(" => ").ok_or_else(|| format!("{line:?} is not `OLD => NEW`"))?;
        if !text.contains(old) {
            return Err(format!("{} has no {old:?}", path.display()));
        }
        text = text.replace(old, &fill(new));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vcl_gets_what_it_does_not_say() {
        let own = framed("sub vcl_recv { }\n");
        for part in ["vcl 4.1;\n", "import std;\n", "backend default {", "sub vcl_recv"] {
            assert!(own.contains(part), "{own}");
        }
        let whole = "vcl 4.0;\nimport std;\nbackend a none;\n";
        assert_eq!(framed(whole), whole);
    }
}
