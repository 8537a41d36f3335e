//! `cargo xtask load`: larder beside nginx and Varnish on this machine, measured in the server's own CPU time.
//!
//! How and why it measures as it does is told in `docs/measuring.md`.

mod bans;
mod busy;
mod certificate;
mod cluster;
pub mod configuration;
mod contender;
mod fetch;
mod gate;
pub mod generator;
pub mod idle;
mod included;
pub mod kind;
pub mod options;
pub mod origin;
pub mod pageless;
mod php;
mod prepared;
pub mod process;
pub mod ramp;
pub mod report;
mod scenario;
mod shop;
mod stall;
mod syscalls;
mod throughput;
pub mod undo;
mod wrk;

use certificate::Certificate;
use configuration::{Setup, Source};
use contender::Contender;
use kind::Kind;
use options::{Mode, Options};
use origin::{Origin, Work};
use rustix::thread::{CpuSet, sched_setaffinity};
use scenario::Scenario;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Why a measurement was not made.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The command line asks for something that is not there.
    #[error("{0}\nSee `--help` of the command.")]
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
pub fn cannot(doing: impl Into<String>) -> impl FnOnce(io::Error) -> LoadError {
    let doing = doing.into();
    move |source| LoadError::System { doing, source }
}

/// Measures as `arguments` say, and prints.
pub fn main(root: &Path, arguments: impl Iterator<Item = OsString>) -> ExitCode {
    end("load", run(root, arguments))
}

/// Turns what came of a measurement into an exit code, and says why if there is none.
pub fn end(tool: &str, result: Result<(), LoadError>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{tool}: {error}");
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
    if matches!(options.mode, Mode::Throughput) && options.scenario.is_by_wrk() {
        wrk::look_for()?;
    }
    if options.servers.iter().copied().any(Kind::is_current) && options.programs.larder.is_none() {
        options.programs.larder = Some(build(root)?);
    }
    if options.scenario == Scenario::Cluster {
        let larder = Kind::Larder.program(&options.programs)?;
        return cluster::measure(&options, &larder);
    }
    stay_on(options.generator_cpu)?;
    let origin = if options.source() == Source::Origin {
        let pages: Vec<_> = options.sizes.iter().map(|bytes| options.scenario.page(*bytes)).collect();
        Origin::start_prepared(&pages)?
    } else {
        Origin::start(Work::NONE)?
    };
    let vcl = match options.scenario {
        Scenario::Vcl => Some(shop::template(options.vcl.as_deref())?),
        Scenario::Esi | Scenario::EsiGzip => Some(included::vcl(options.scenario.is_packed())),
        _ => None,
    };
    let certificate = Certificate::make()?;
    let setup = Setup {
        programs: options.programs.clone(),
        source: options.source(),
        server_cpu: options.server_cpu,
        connections: options.connections_at_a_time(),
        origin_port: origin.port(),
        front: options.front(),
        compresses: options.scenario.is_packed(),
        vcl: vcl.as_deref(),
        location: "",
        certificate: &certificate,
        group: options.group,
        resumes: options.scenario == Scenario::Resumed,
    };
    let mut contenders = Vec::new();
    for kind in &options.servers {
        if setup.suits(*kind) {
            let contender = Contender::start(*kind, &setup)?;
            println!("{}: {}", kind.name(), contender.version);
            contenders.push(contender);
        } else {
            println!("{}: n/a, it cannot take part", kind.name());
        }
    }
    match (options.mode, options.scenario) {
        (Mode::Throughput, Scenario::Gate) => gate::measure(&options, &contenders),
        (Mode::Throughput, Scenario::Stall) => stall::measure(&options, &contenders, &origin),
        (Mode::Throughput, _) => throughput::measure(&options, &contenders, &origin),
        (Mode::Syscalls, _) => syscalls::measure(&options, &contenders, &origin),
        (Mode::Idle(connections), _) => idle::measure(connections, &contenders),
        (Mode::Busy(connections), _) => busy::measure(connections, &contenders),
    }
}

/// Keeps this thread and those it starts, generator and origin, off the servers' CPU.
pub fn stay_on(cpu: usize) -> Result<(), LoadError> {
    let mut set = CpuSet::new();
    if cpu < CpuSet::MAX_CPU {
        set.set(cpu);
    }
    sched_setaffinity(None, &set).map_err(|error| cannot(format!("run on CPU {cpu}"))(error.into()))
}

/// Builds the release binary and says where it is.
pub fn build(root: &Path) -> Result<PathBuf, LoadError> {
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
