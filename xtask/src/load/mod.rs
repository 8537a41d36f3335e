//! `cargo xtask load`: larder beside nginx and Varnish on this machine, measured in the server's own CPU time.
//!
//! How and why it measures as it does is told in `docs/measuring.md`.

mod busy;
mod contender;
mod fetch;
mod idle;
mod options;
mod origin;
mod process;
mod report;
mod syscalls;
mod throughput;
mod wrk;

use contender::{Contender, Kind};
use options::{Mode, Options};
use origin::Origin;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Why a measurement was not made.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The command line asks for something that is not there.
    #[error("{0}\nSee `cargo xtask load --help`.")]
    Usage(String),
    /// A program the measurement needs is missing.
    #[error("`{0}` is not installed or does not start: run `scripts/setup test`")]
    Missing(String),
    /// A server under measurement did not start, or ended.
    #[error("{server} {fact}\n{log}")]
    Server {
        /// Which of the servers.
        server: &'static str,
        /// What happened.
        fact: String,
        /// The end of its log.
        log: String,
    },
    /// An answer was not what every server has to give.
    #[error("{server}: {fact}")]
    Answer {
        /// Which of the servers.
        server: &'static str,
        /// What is wrong with the answer.
        fact: String,
    },
    /// A tool said something that is not understood.
    #[error("{tool} said what is not understood: {said}")]
    Tool {
        /// The tool.
        tool: &'static str,
        /// Its words.
        said: String,
    },
    /// The system refused.
    #[error("cannot {doing}")]
    System {
        /// What was being done.
        doing: String,
        /// Why not.
        source: io::Error,
    },
}

/// Names what was being done when the system refused.
fn cannot(doing: impl Into<String>) -> impl FnOnce(io::Error) -> LoadError {
    let doing = doing.into();
    move |source| LoadError::System { doing, source }
}

/// Measures as `arguments` say, and prints.
pub fn main(root: &Path, arguments: impl Iterator<Item = OsString>) -> ExitCode {
    match run(root, arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("load: {error}");
            let mut cause = std::error::Error::source(&error);
            while let Some(reason) = cause {
                eprintln!("    because: {reason}");
                cause = reason.source();
            }
            ExitCode::FAILURE
        }
    }
}

fn run(root: &Path, arguments: impl Iterator<Item = OsString>) -> Result<(), LoadError> {
    let Some(mut options) = Options::parse(arguments)? else {
        print!("{}", options::HELP);
        return Ok(());
    };
    if options.servers.iter().any(|kind| kind.is_larder()) && options.larder.is_none() {
        options.larder = Some(build(root)?);
    }
    let origin = Origin::start()?;
    let mut contenders = Vec::new();
    for kind in &options.servers {
        contenders.push(Contender::start(*kind, &options, origin.port())?);
    }
    match options.mode {
        Mode::Throughput => throughput::measure(&options, &contenders, &origin),
        Mode::Syscalls => syscalls::measure(&options, &contenders, &origin),
        Mode::Idle(connections) => idle::measure(connections, &contenders),
        Mode::Busy(connections) => busy::measure(connections, &contenders),
    }
}

/// Builds the release binary and says where it is.
fn build(root: &Path) -> Result<PathBuf, LoadError> {
    let status = Command::new("cargo")
        .args(["build", "--release", "--package", "larder"])
        .current_dir(root)
        .status()
        .map_err(cannot("run cargo"))?;
    if !status.success() {
        return Err(LoadError::Usage(
            "larder does not build; to measure without it: --servers nginx,nginx-tuned,varnish".into(),
        ));
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(root.join(target).join("release/larder"))
}
