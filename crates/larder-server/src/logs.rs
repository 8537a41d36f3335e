//! A worker's logs under one configuration. `error_lines.rs` and `access_lines.rs` write what concerns a request.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::tz::TimeZone;
use larder_conf::model::{LogFileCache, LogLevel, LogTarget};
use larder_http::Time;
use parking_lot::Mutex;

use crate::clock;
use crate::log::access::{LogWriter, Target};
use crate::log::error::{Circumstances, ErrorLog, ErrorTarget};
use crate::log::named::{NamedLogs, TURN_BYTES};
use crate::log::sink::{LogFile, Trouble};
use crate::log::stamp::Stamps;
use crate::log::syslog::SyslogSender;
use crate::site::{AccessSink, Site};

/// The open log files of the process, by path: one descriptor for each, however many places write to it.
#[derive(Clone, Debug, Default)]
pub struct LogFiles(Arc<Mutex<HashMap<PathBuf, Arc<LogFile>>>>);

impl LogFiles {
    /// Takes over descriptors that another process has opened, in place of those of the same paths.
    pub fn adopt(&self, files: impl IntoIterator<Item = (PathBuf, File)>) {
        let mut all = self.0.lock();
        for (path, file) in files {
            match all.get(&path) {
                Some(log) => log.swap(file),
                None => {
                    let log = LogFile::from_file(&path, file);
                    all.insert(path, Arc::new(log));
                }
            }
        }
    }

    /// The log at `path`, opened if needed.
    pub fn open(&self, path: &Path) -> std::io::Result<Arc<LogFile>> {
        let mut all = self.0.lock();
        if let Some(log) = all.get(path) {
            return Ok(Arc::clone(log));
        }
        let log = Arc::new(LogFile::open(path)?);
        all.insert(path.to_owned(), Arc::clone(&log));
        Ok(log)
    }
}

/// A worker's logs.
pub struct Logs {
    errors: Vec<ErrorLog>,
    /// As in the site.
    sinks: RefCell<Vec<Option<LogWriter>>>,
    by_name: RefCell<NamedLogs>,
    stamps: RefCell<Stamps>,
    /// Whether lines wait for the end of this turn of the loop.
    has_lines: Cell<bool>,
}

/// The circumstances of an exchange, kept for a time when the exchange may be over. Rarely used, so cheap to make: what
/// has to be copied is in one place.
#[derive(Clone, Debug)]
pub struct Context {
    /// The error logs, by their place in the site.
    pub log: usize,
    /// The number of the connection.
    connection: u64,
    /// The client's address; a client by a Unix socket has none.
    client: Option<IpAddr>,
    /// The texts, one after the other.
    bytes: Vec<u8>,
    /// Where each ends.
    ends: [usize; TEXTS],
    is_sub: bool,
    has_host: bool,
}

/// What [`Context`] copies of an exchange.
#[derive(Clone, Copy, Default)]
pub struct Texts<'a> {
    /// The first name of the server.
    pub server: &'a [u8],
    /// The request line.
    pub request: &'a [u8],
    /// The URL requested from the origin, in pieces; nothing if there is none.
    pub upstream: [&'a [u8]; 4],
    /// The URI of the subrequest.
    pub subrequest: Option<&'a [u8]>,
    /// The field `Host`.
    pub host: Option<&'a [u8]>,
}

/// How many texts a context has.
const TEXTS: usize = 5;

impl Context {
    /// The circumstances with these texts, for the error logs at the place `log` of the site.
    pub fn new(log: usize, connection: u64, client: Option<IpAddr>, texts: Texts<'_>) -> Self {
        let Texts { server, request, upstream, subrequest, host } = texts;
        let texts: [&[&[u8]]; TEXTS] =
            [&[server], &[request], &upstream, &[subrequest.unwrap_or_default()], &[host.unwrap_or_default()]];
        let mut bytes = Vec::with_capacity(texts.iter().flat_map(|text| text.iter()).map(|piece| piece.len()).sum());
        let ends = texts.map(|text| {
            text.iter().for_each(|piece| bytes.extend_from_slice(piece));
            bytes.len()
        });
        Self { log, connection, client, bytes, ends, is_sub: subrequest.is_some(), has_host: host.is_some() }
    }

    /// Passes the same to `f` in the form that a log takes.
    pub fn with_circumstances<R>(&self, referrer: Option<&[u8]>, f: impl FnOnce(&Circumstances<'_>) -> R) -> R {
        let client = self.client.map_or_else(|| "unix:".to_owned(), |ip| ip.to_string());
        let text = |at: usize| {
            let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
            &self.bytes[start..self.ends[at]]
        };
        f(&Circumstances {
            connection: Some(self.connection),
            client: Some(client.as_bytes()),
            server: Some(text(0)),
            request: Some(text(1)).filter(|request| !request.is_empty()),
            upstream: Some(text(2)).filter(|upstream| !upstream.is_empty()),
            subrequest: Some(text(3)).filter(|_| self.is_sub),
            host: Some(text(4)).filter(|_| self.has_host),
            referrer,
            action: None,
        })
    }
}

impl Logs {
    /// Opens the logs of `site`. Returns an error for each that cannot be opened; the others work.
    pub fn new(site: &Site, files: &LogFiles) -> (Self, Vec<String>) {
        let mut trouble = Vec::new();
        let zone = TimeZone::system();
        let target = |target: &LogTarget, trouble: &mut Vec<String>| match target {
            LogTarget::Stderr => None,
            LogTarget::File(path) => match files.open(path) {
                Ok(file) => Some(Target::File(file)),
                Err(error) => {
                    trouble.push(format!("open() \"{}\" failed{}", path.display(), crate::log::io_error_text(&error)));
                    None
                }
            },
            LogTarget::Syslog(syslog) => match SyslogSender::new(syslog, &site.hostname) {
                Ok(sender) => Some(Target::Syslog(Arc::new(sender))),
                Err(error) => {
                    trouble.push(format!("syslog server not found{}", crate::log::io_error_text(&error)));
                    None
                }
            },
        };
        let errors = site
            .logs
            .error
            .iter()
            .map(|logs| {
                let targets = logs.iter().filter_map(|log| match &log.target {
                    LogTarget::Stderr => Some((ErrorTarget::Stderr, log.level)),
                    other => Some((ErrorTarget::Log(target(other, &mut trouble)?), log.level)),
                });
                ErrorLog::new(targets.collect(), zone.clone())
            })
            .collect();
        let sinks = site
            .logs
            .sinks
            .iter()
            .map(|sink| {
                let target = match &sink.target {
                    // As an access log, standard error is a file like others.
                    LogTarget::Stderr => files.open(Path::new("/dev/stderr")).ok().map(Target::File),
                    other => target(other, &mut trouble),
                };
                let (bytes, flush) = buffer_of(sink);
                target.map(|target| LogWriter::new(target, bytes, flush, sink.gzip))
            })
            .collect();
        let logs = Self {
            errors,
            sinks: RefCell::new(sinks),
            by_name: RefCell::default(),
            stamps: RefCell::new(Stamps::new(zone)),
            has_lines: Cell::new(false),
        };
        (logs, trouble)
    }

    /// These error logs, if any of them takes lines of this level.
    pub fn errors(&self, log: usize, level: LogLevel) -> Option<&ErrorLog> {
        self.errors.get(log).filter(|errors| errors.wants(level))
    }

    /// Writes an error with circumstances that were kept.
    pub fn write(&self, level: LogLevel, message: &str, context: &Context) {
        if let Some(errors) = self.errors.get(context.log) {
            context.with_circumstances(None, |circumstances| errors.write(level, clock::now(), circumstances, message));
        }
    }

    /// The main error log.
    pub fn main_log(&self) -> Option<ErrorLog> {
        self.errors.first().cloned()
    }

    /// Writes to the main error log what belongs to no exchange.
    pub fn main(&self, level: LogLevel, message: impl fmt::Display) {
        if let Some(errors) = self.errors.first() {
            errors.write(level, clock::now(), &Circumstances::default(), message);
        }
    }

    /// Notes that a line waits for the end of this turn of the loop; true for the first one.
    pub fn line_waits(&self) -> bool {
        !self.has_lines.replace(true)
    }

    /// Adds a line to a sink of the site.
    pub fn line(&self, sink: usize, line: &[u8], now: Time) -> Result<(), Trouble> {
        match &mut self.sinks.borrow_mut()[sink] {
            Some(writer) => writer.line(now, &mut self.stamps.borrow_mut(), |out| out.extend_from_slice(line)),
            None => Ok(()),
        }
    }

    /// Whether a log whose path has variables is open.
    pub fn is_open(&self, name: &[u8]) -> bool {
        self.by_name.borrow().is_open(name)
    }

    /// Adds a line to a log whose path has variables; if it cannot be opened, returns the path and the error.
    pub fn named_line(
        &self,
        name: Vec<u8>,
        cache: Option<LogFileCache>,
        line: &[u8],
        now: Time,
    ) -> Result<Result<(), Trouble>, (Vec<u8>, std::io::Error)> {
        let mut named = self.by_name.borrow_mut();
        let writer = named.writer(name, cache, now)?;
        Ok(writer.line(now, &mut self.stamps.borrow_mut(), |out| out.extend_from_slice(line)))
    }

    /// Writes the buffers that are due, or all of them.
    pub fn flush(&self, now: Time, all: bool) {
        let mut writers = self.sinks.borrow_mut();
        let mut by_name = self.by_name.borrow_mut();
        for writer in writers.iter_mut().flatten().chain(by_name.open_ones()) {
            if (all || writer.due().is_some_and(|due| due <= now))
                && let Err(trouble) = writer.flush(now)
            {
                self.main(trouble.level(), trouble);
            }
        }
        if all {
            by_name.clear();
        }
    }

    /// Writes the lines of logs without `buffer=` at the end of a turn of the loop: requests that were answered
    /// together are logged by one write.
    pub fn end_turn(&self, site: &Site, now: Time) {
        self.has_lines.set(false);
        let mut writers = self.sinks.borrow_mut();
        let mut by_name = self.by_name.borrow_mut();
        let fixed = writers.iter_mut().enumerate().filter_map(|(index, writer)| Some((index, writer.as_mut()?)));
        let unbuffered = fixed.filter(|(index, _)| site.logs.sinks[*index].buffer.is_none());
        for writer in unbuffered.map(|(_, writer)| writer).chain(by_name.open_ones()) {
            if let Err(trouble) = writer.flush(now) {
                self.main(trouble.level(), trouble);
            }
        }
        by_name.close_idle(now);
    }

    /// Writes these lines now, if there are any.
    pub fn write_now(&self, site: &Site, now: Time) {
        if self.has_lines.get() {
            self.end_turn(site, now);
        }
    }

    /// Seconds since midnight, local time, for `expires @`.
    pub fn seconds_of_local_day(&self, now: Time) -> u64 {
        let offset = self.stamp(now, |stamp| stamp.offset_secs);
        now.secs().saturating_add_signed(offset) % (24 * 60 * 60)
    }

    /// Passes the local time in the formats of `$time_local` and `$time_iso8601` to `f`.
    pub fn stamp<R>(&self, now: Time, f: impl FnOnce(&crate::log::stamp::Stamp) -> R) -> R {
        f(self.stamps.borrow_mut().at(now))
    }
}

/// Size and `flush=` of a log's buffer. Without `buffer=`, room for the lines of one turn of the loop.
fn buffer_of(sink: &AccessSink) -> (Option<usize>, Option<std::time::Duration>) {
    sink.buffer.map_or((Some(TURN_BYTES), None), |(bytes, flush)| (Some(bytes), flush))
}
