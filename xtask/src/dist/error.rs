//! What goes wrong while packages are made, and the running of tools.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Why there is no package.
#[derive(Debug, thiserror::Error)]
pub enum DistError {
    #[error("{0}\nSee `cargo xtask dist --help`.")]
    Usage(#[from] lexopt::Error),
    #[error("there is no kind of package {0:?}; there are deb, rpm, tarball, oci")]
    NoKind(String),
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("`{tool}` does not start ({source}): {mend}")]
    NoTool { tool: String, source: io::Error, mend: &'static str },
    #[error("failed: {0}")]
    Failed(String),
    #[error(
        "there is no chroot of {suite}: {why}\nA suite of Debian is one that its mirror has, such as bookworm or trixie; \
         a suite of Ubuntu needs /usr/share/keyrings/ubuntu-archive-keyring.gpg, from Debian 13's package ubuntu-keyring."
    )]
    NoSuite { suite: String, why: String },
    #[error("{0}")]
    Program(String),
}

/// Names the path at which the system refused.
pub fn io_at(path: &Path) -> impl FnOnce(io::Error) -> DistError {
    let path = path.to_owned();
    move |source| DistError::Io { path, source }
}

/// Runs a tool, and takes a bad end of it for an error. `mend` says how to get it.
pub fn run(command: &mut Command, mend: &'static str) -> Result<(), DistError> {
    let tool = name(command);
    let status = command.stdin(Stdio::null()).status();
    match status.map_err(|source| DistError::NoTool { tool: tool.clone(), source, mend })?.success() {
        true => Ok(()),
        false => Err(DistError::Failed(format!("{command:?}"))),
    }
}

/// The same, and what the tool says is heard only if it fails: its first line that begins with `E:`.
pub fn run_quietly(command: &mut Command, mend: &'static str) -> Result<(), DistError> {
    let tool = name(command);
    let output = command.stdin(Stdio::null()).output().map_err(|source| DistError::NoTool { tool, source, mend })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let error = said.lines().find_map(|line| line.strip_prefix("E: "));
    Err(DistError::Failed(error.map_or_else(|| format!("{command:?}"), str::to_owned)))
}

/// What a tool writes to its standard output.
pub fn output(command: &mut Command, mend: &'static str) -> Result<String, DistError> {
    let tool = name(command);
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|source| DistError::NoTool { tool, source, mend })?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    } else {
        Err(DistError::Failed(format!("{command:?}")))
    }
}

fn name(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}
