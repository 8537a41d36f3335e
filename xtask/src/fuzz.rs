//! `cargo xtask fuzz`: builds the targets of `fuzz/` with libFuzzer, and runs each in turn.
//!
//! cargo-fuzz is not needed. Its flags are those of a nightly compiler only in name: `RUSTC_BOOTSTRAP=1` lets the
//! stable one take them. There is no address sanitizer, as no crate of ours has any `unsafe`.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use lexopt::prelude::*;

const HELP: &str = "\
cargo xtask fuzz [OPTION...] [TARGET...]

Builds the fuzz targets of `fuzz/` with libFuzzer, all or those that are named, and runs one after the other, beginning
with the seeds that `cargo test --package larder-fuzz` plays and with what earlier runs came upon.
A C++ compiler is needed (`apt-get install g++`), and the registry of crates, for libfuzzer-sys.

  --minutes N    how long they run, all together (default: 10)
  --list         print their names

What a target finds it names, with the bytes in `fuzz/findings/`. Mend it, and move them to `fuzz/corpus/TARGET/` under a
name that says what they are: `cargo test --package larder-fuzz` plays them from then on.
";

/// What libFuzzer takes for a time.
const SECONDS_MAX: f64 = 1e9;
/// What makes a target see which code an input reaches, as cargo-fuzz has it. Debug assertions stay on.
const RUSTFLAGS: [&str; 8] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cdebug-assertions",
    "-Coverflow-checks",
    "--cfg=fuzzing",
];

#[derive(Debug, thiserror::Error)]
enum FuzzError {
    #[error("{0}")]
    Usage(#[from] lexopt::Error),
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
    #[error("the targets were not built; a C++ compiler is needed (`apt-get install g++`), and libfuzzer-sys")]
    Build,
    #[error("the seeds were not written")]
    Seeds,
    #[error("there is no target {0:?}; `cargo xtask fuzz --list` has them")]
    NoTarget(String),
    #[error("{}", .0.join("\n"))]
    Found(Vec<String>),
}

struct Options {
    minutes: f64,
    targets: Vec<String>,
    lists: bool,
}

/// Runs the command.
pub fn main(root: &Path, arguments: impl Iterator<Item = OsString>) -> ExitCode {
    match run(root, arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(root: &Path, arguments: impl Iterator<Item = OsString>) -> Result<(), FuzzError> {
    let Some(mut options) = Options::parse(arguments)? else {
        print!("{HELP}");
        return Ok(());
    };
    let folder = root.join("fuzz");
    let all = targets(&folder)?;
    if options.lists {
        println!("{}", all.join("\n"));
        return Ok(());
    }
    if options.targets.is_empty() {
        options.targets.clone_from(&all);
    }
    if let Some(unknown) = options.targets.iter().find(|target| !all.contains(target)) {
        return Err(FuzzError::NoTarget(unknown.clone()));
    }
    let seeds = write_seeds(root)?;
    let built = build(root, &folder, &options.targets)?;
    let each = Duration::from_secs_f64((options.minutes * 60.0 / options.targets.len() as f64).clamp(1.0, SECONDS_MAX));
    let mut found = Vec::new();
    for target in &options.targets {
        found.extend(fuzz(&folder, &built.join(target), &seeds.join(target), target, each)?);
    }
    if found.is_empty() { Ok(()) } else { Err(FuzzError::Found(found)) }
}

/// The names of the targets.
fn targets(folder: &Path) -> Result<Vec<String>, FuzzError> {
    let folder = folder.join("fuzz_targets");
    let files = fs::read_dir(&folder).map_err(io_at(&folder.display()))?;
    let names = files.filter_map(|file| Some(file.ok()?.path().file_stem()?.to_str()?.to_owned()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    Ok(names)
}

/// Has the tests write their seeds; the folder with a folder for each target.
fn write_seeds(root: &Path) -> Result<PathBuf, FuzzError> {
    let folder = root.join("fuzz/target/seeds");
    let mut command = cargo(root);
    command.args(["test", "--quiet", "--package", "larder-fuzz", "--test", "seeds", "whatever"]);
    let status = command.env("FUZZ_SEEDS", &folder).stdout(Stdio::null()).status().map_err(io_at(&"cargo"))?;
    if status.success() { Ok(folder) } else { Err(FuzzError::Seeds) }
}

/// Builds the targets; the folder of their binaries.
fn build(root: &Path, folder: &Path, targets: &[String]) -> Result<PathBuf, FuzzError> {
    same_versions(root, folder)?;
    let machine = machine()?;
    let mut command = cargo(folder);
    // With a target named, build scripts are built without the flags, which they could not be linked with.
    command.args(["build", "--release", "--target", &machine]);
    for target in targets {
        command.args(["--bin", target]);
    }
    command.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", RUSTFLAGS.join(" ")).env_remove("CARGO_TARGET_DIR");
    let status = command.status().map_err(io_at(&"cargo"))?;
    if !status.success() {
        return Err(FuzzError::Build);
    }
    Ok(folder.join("target").join(machine).join("release"))
}

/// The targets stand on what larder stands on; Cargo adds what is only theirs.
fn same_versions(root: &Path, folder: &Path) -> Result<(), FuzzError> {
    let (ours, theirs) = (root.join("Cargo.lock"), folder.join("Cargo.lock"));
    let time = |path: &Path| fs::metadata(path).and_then(|file| file.modified()).ok();
    if time(&theirs) < time(&ours) {
        fs::copy(&ours, &theirs).map_err(io_at(&theirs.display()))?;
    }
    Ok(())
}

fn cargo(folder: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(folder);
    command
}

/// What this machine is, as rustc says.
fn machine() -> Result<String, FuzzError> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("-vV").output().map_err(io_at(&"rustc"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or(FuzzError::Build)
}

/// Runs one target; what it found, if anything.
fn fuzz(folder: &Path, binary: &Path, seeds: &Path, target: &str, time: Duration) -> Result<Option<String>, FuzzError> {
    let (findings, corpus) = (folder.join("findings"), folder.join("target/corpus").join(target));
    for folder in [&findings, &corpus] {
        fs::create_dir_all(folder).map_err(io_at(&folder.display()))?;
    }
    let log = folder.join("target").join(format!("{target}.log"));
    let written = fs::File::create(&log).map_err(io_at(&log.display()))?;
    let mut command = Command::new(binary);
    command
        .args([&corpus, seeds])
        .arg(format!("-artifact_prefix={}/{target}-", findings.display()))
        .arg(format!("-max_total_time={}", time.as_secs()))
        // Past what heads and buffers are limited to. What takes a parser of ours ten seconds is a finding.
        .args(["-max_len=16384", "-timeout=10", "-print_final_stats=1", "-verbosity=0"])
        .stderr(written);
    let status = command.status().map_err(io_at(&binary.display()))?;
    let told = fs::read(&log).map_err(io_at(&log.display()))?;
    let told = Told::of(&String::from_utf8_lossy(&told));
    if status.success() {
        println!("{target}: {} runs in {} s, nothing found", told.runs, time.as_secs());
        return Ok(None);
    }
    let found = format!("{target}: {}\n    bytes: {}\n    log: {}", told.fact, told.bytes, log.display());
    println!("{found}");
    Ok(Some(found))
}

/// What a target says of its run.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    /// How many inputs it played.
    runs: String,
    /// Where it panicked and why, or how else it ended.
    fact: String,
    /// The file with the input.
    bytes: String,
}

impl Told {
    fn of(log: &str) -> Told {
        let after = |what: &str| log.lines().find_map(|line| Some(line.split_once(what)?.1.trim().to_owned()));
        let panic = log.split_once("panicked at ").map(|(_, rest)| rest.lines().take(2).collect::<Vec<_>>().join(" "));
        let fact = panic.or_else(|| after("libFuzzer: ")).unwrap_or_else(|| "it did not end well".to_owned());
        let bytes = after("Test unit written to ").unwrap_or_else(|| "none".to_owned());
        Told { runs: after("number_of_executed_units:").unwrap_or_default(), fact, bytes }
    }
}

fn io_at(what: &impl ToString) -> impl FnOnce(io::Error) -> FuzzError {
    let what = what.to_string();
    move |source| FuzzError::Io { what, source }
}

impl Options {
    /// Reads the command line; `None` means it asks for help.
    fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Option<Options>, FuzzError> {
        let mut options = Options { minutes: 10.0, targets: Vec::new(), lists: false };
        let mut parser = lexopt::Parser::from_args(arguments);
        while let Some(argument) = parser.next()? {
            match argument {
                Short('h') | Long("help") => return Ok(None),
                Long("minutes") => options.minutes = parser.value()?.parse()?,
                Value(target) => options.targets.push(target.string()?),
                Long("list") => options.lists = true,
                _ => return Err(argument.unexpected().into()),
            }
        }
        Ok(Some(options))
    }
}

#[test]
fn a_log_says_what_was_found() {
    let panicked = "x\nthread '<unnamed>' panicked at src/a.rs:1:2:\nno way on\nstack\n\
        ==7== ERROR: libFuzzer: deadly signal\nTest unit written to /f/a-crash-1\nstat::number_of_executed_units: 5\n";
    let slow = "==7== ERROR: libFuzzer: timeout after 10 seconds\nTest unit written to /f/a-timeout-1\n";
    for (log, runs, fact, bytes) in [
        (panicked, "5", "src/a.rs:1:2: no way on", "/f/a-crash-1"),
        (slow, "", "timeout after 10 seconds", "/f/a-timeout-1"),
        ("", "", "it did not end well", "none"),
    ] {
        assert_eq!(Told::of(log), Told { runs: runs.into(), fact: fact.into(), bytes: bytes.into() }, "{log}");
    }
}
