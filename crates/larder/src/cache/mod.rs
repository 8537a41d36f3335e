//! `larder cache`: shows and clears what is on disk, whether larder runs or not.
//!
//! It reads the folders. It cannot see pages that a running larder has only in memory, but it knows how many of them
//! are still to be written, from a note in the folder.

mod page;

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use larder_conf::model::{CachePath, Config};
use larder_store::{CLEAR_FILE, DebtNote, Inspect};

use crate::cli::{Cache, CacheDeed};
use crate::configuration::{Configuration, Rejected, Surroundings};
use crate::oserror::CallFailed;
use crate::paths::Paths;
use page::Page;

/// Runs the command, and prints an error if that fails.
pub fn run(cache: &Cache) -> ExitCode {
    match folders(cache).and_then(|folders| deed(cache, &folders)) {
        Ok(code) => code,
        // The reader of our output, such as `head`, has seen enough.
        Err(CacheError::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        // It says who tells it, for each of its lines.
        Err(CacheError::Configuration(rejected)) => {
            eprint!("{}", rejected.rendered);
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("larder: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
enum CacheError {
    #[error(transparent)]
    Configuration(#[from] Rejected),
    #[error("no zone of the configuration is called \"{0}\"; a folder is written with a slash{1}")]
    NoZone(String, String),
    #[error("the zone \"{0}\" is in memory only: it has no folder")]
    InMemory(String),
    #[error("no zone of the configuration has a folder")]
    NoFolder,
    #[error("{0}")]
    Folder(CallFailed),
    #[error("no cache of larder is in \"{0}\"")]
    NoCache(String),
    #[error("cannot write the answer: {0}")]
    Io(#[from] io::Error),
    #[error("larder, which uses \"{0}\", has not cleared it in {1:?}: is that process stopped?")]
    Unanswered(String, Duration),
}

/// The folders that the command is about.
fn folders(cache: &Cache) -> Result<Vec<PathBuf>, CacheError> {
    if let Some(folder) = cache.place.as_ref().filter(|place| place.contains('/')) {
        return Ok(vec![folder.into()]);
    }
    let paths = Paths::of_running(&cache.options);
    let configuration = Configuration::read(Surroundings::new(&paths, cache.options.globals.clone()))?;
    of_zone(&configuration.config, cache.place.as_deref())
}

/// The folders of a zone, or of all.
fn of_zone(config: &Config, zone: Option<&str>) -> Result<Vec<PathBuf>, CacheError> {
    let http = &config.http;
    let names: Vec<&str> = match zone {
        None => http.cache_paths.iter().map(|path| path.zone.value.as_str()).collect(),
        Some(name) => match http.placements.iter().find(|placement| placement.zone.value == name) {
            Some(placement) => placement.members.iter().map(|member| member.value.as_str()).collect(),
            None => vec![name],
        },
    };
    let is_meant = |path: &&CachePath| names.contains(&path.zone.value.as_str());
    let paths: Vec<&CachePath> = http.cache_paths.iter().filter(is_meant).collect();
    let folders: Vec<PathBuf> = paths.iter().filter(|path| path.on_disk).map(|path| path.path.clone()).collect();
    match (zone, paths.is_empty(), folders.is_empty()) {
        (_, _, false) => Ok(folders),
        (None, _, true) => Err(CacheError::NoFolder),
        (Some(name), false, true) => Err(CacheError::InMemory(name.to_owned())),
        (Some(name), true, true) => {
            let known = http.cache_paths.iter().map(|path| path.zone.value.as_str());
            let known = known.chain(http.placements.iter().map(|placement| placement.zone.value.as_str()));
            let nearest = larder_conf::nearest(name, known).map(|near| format!("; did you mean \"{near}\"?"));
            Err(CacheError::NoZone(name.to_owned(), nearest.unwrap_or_default()))
        }
    }
}

fn deed(cache: &Cache, folders: &[PathBuf]) -> Result<ExitCode, CacheError> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut code = ExitCode::SUCCESS;
    for folder in folders {
        let done = match &cache.deed {
            CacheDeed::List => list(folder, &mut out),
            CacheDeed::Stat(wanted) => stat(folder, wanted, &mut out),
            CacheDeed::Bans => bans(folder, &mut out),
            CacheDeed::Verify => verify(folder, &mut out),
            CacheDeed::Clear => clear(folder, &mut out),
        };
        match done {
            Ok(true) => {}
            Ok(false) => code = ExitCode::FAILURE,
            Err(CacheError::Io(error)) => return Err(error.into()),
            // The other folders may still work.
            Err(error) => {
                eprintln!("larder: {error}");
                code = ExitCode::FAILURE;
            }
        }
    }
    out.flush()?;
    Ok(code)
}

fn open(folder: &Path) -> Result<Inspect, CacheError> {
    Inspect::open(folder).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound if folder.is_dir() => CacheError::NoCache(folder.display().to_string()),
        _ => CacheError::Folder(CallFailed::on("open", folder.display(), error)),
    })
}

/// A line for each page, newest first.
fn list(folder: &Path, out: &mut impl Write) -> Result<bool, CacheError> {
    let mut pages = 0_u64;
    let mut bytes = 0_u64;
    let mut written = Ok(());
    let inspect = open(folder)?;
    inspect.records(|record| {
        if !record.live || written.is_err() {
            return;
        }
        pages += 1;
        bytes += record.body_len;
        written = Page::of(&record).write_line(out);
    })?;
    written?;
    writeln!(out, "{}: {pages} pages, {bytes} bytes", folder.display())?;
    say_debt(&inspect, out)?;
    Ok(true)
}

/// A line for each ban, newest first.
fn bans(folder: &Path, out: &mut impl Write) -> Result<bool, CacheError> {
    let inspect = open(folder)?;
    let bans = inspect.worded_bans();
    for ban in bans.iter().rev() {
        writeln!(out, "{} {}", page::time(ban.made_at / 1000), larder_server::bans::shown(&ban.words))?;
    }
    writeln!(out, "{}: {} bans", folder.display(), bans.len())?;
    Ok(true)
}

/// Prints how much the running larder has in memory and still has to write.
fn say_debt(inspect: &Inspect, out: &mut impl Write) -> Result<(), CacheError> {
    if let Some(DebtNote { pages, bytes }) = inspect.debt()? {
        writeln!(
            out,
            "{}: {pages} pages, {bytes} bytes are in memory and still to be written",
            inspect.dir().display()
        )?;
    }
    Ok(())
}

/// Prints everything about each page that `wanted` may mean. False if there is none.
fn stat(folder: &Path, wanted: &str, out: &mut impl Write) -> Result<bool, CacheError> {
    let mut found = false;
    let mut example = Example::None;
    let mut written = Ok(());
    let inspect = open(folder)?;
    inspect.records(|record| {
        if !record.live || written.is_err() {
            return;
        }
        if !page::is_meant(record.key, wanted) {
            example.see(record.key, wanted);
            return;
        }
        found = true;
        written = Page::of(&record).write_all(folder, out);
    })?;
    written?;
    if !found {
        writeln!(out, "{}: no page of \"{wanted}\"; {example}", folder.display())?;
    }
    say_debt(&inspect, out)?;
    Ok(found)
}

/// A key of the folder, as an example if the operator's key is not found.
enum Example {
    /// There is no page.
    None,
    /// Any key.
    Any(Vec<u8>),
    /// A key with the same path and query.
    Alike(Vec<u8>),
}

impl Example {
    /// Keeps `key` if it is a better example.
    fn see(&mut self, key: &[u8], wanted: &str) {
        match self {
            Self::None | Self::Any(_) if page::is_alike(key, wanted) => *self = Self::Alike(key.to_vec()),
            Self::None => *self = Self::Any(key.to_vec()),
            Self::Any(_) | Self::Alike(_) => {}
        }
    }
}

impl fmt::Display for Example {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => write!(f, "it holds no page"),
            Self::Any(key) | Self::Alike(key) => {
                let key = page::printable(key);
                write!(f, "its keys are like \"{key}\", and \"larder cache ls\" lists them")
            }
        }
    }
}

/// Checks everything. False if something is damaged.
fn verify(folder: &Path, out: &mut impl Write) -> Result<bool, CacheError> {
    let mut written = Ok(());
    let report = open(folder)?.verify(|finding| {
        if written.is_ok() {
            let (segment, offset, fact) = (finding.segment, finding.offset, finding.fact);
            written = writeln!(out, "{}: segment {segment:016x}, at {offset}: {fact}", folder.display());
        }
    })?;
    written?;
    let (pages, records, segments) = (report.live, report.records, report.segments);
    let (bytes, findings) = (report.bytes, report.findings);
    writeln!(
        out,
        "{}: {pages} pages, {records} records in {segments} segments, {bytes} bytes read, {findings} damaged",
        folder.display()
    )?;
    Ok(findings == 0)
}

/// Drops every page: here, or by asking the larder that uses the folder.
fn clear(folder: &Path, out: &mut impl Write) -> Result<bool, CacheError> {
    let failed = |call, path: &Path| {
        let path = path.display().to_string();
        move |error| CacheError::Folder(CallFailed::on(call, path, error))
    };
    let inspect = open(folder)?;
    if !inspect.is_in_use().map_err(failed("flock", folder))? {
        inspect.clear().map_err(failed("unlink", folder))?;
        writeln!(out, "{}: cleared", folder.display())?;
        return Ok(true);
    }
    let note = folder.join(CLEAR_FILE);
    File::create(&note).map_err(failed("open", &note))?;
    for _ in 0..CLEAR_LOOKS {
        std::thread::sleep(CLEAR_PAUSE);
        if !note.exists() {
            writeln!(out, "{}: cleared by the larder that uses it", folder.display())?;
            return Ok(true);
        }
    }
    // Otherwise a larder might find the file days later, and clear then.
    let _ = fs::remove_file(&note);
    Err(CacheError::Unanswered(folder.display().to_string(), CLEAR_PAUSE * CLEAR_LOOKS))
}

/// How often to check whether a running larder is done; it looks for the file once a second.
const CLEAR_LOOKS: u32 = 200;
const CLEAR_PAUSE: Duration = Duration::from_millis(50);
