//! The logs of one configuration as a worker writes them: access lines by their format, errors with the request.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::tz::TimeZone;
use larder_conf::model::{self, LogLevel, LogTarget};
use larder_http::{Known, Time};
use parking_lot::Mutex;

use crate::clock;
use crate::context::Cx;
use crate::exchange::Exchange;
use crate::log::access::{LogWriter, Target};
use crate::log::error::{Circumstances, ErrorLog, ErrorTarget};
use crate::log::escape;
use crate::log::named::{NamedLogs, TURN_BYTES};
use crate::log::sink::LogFile;
use crate::log::stamp::Stamps;
use crate::log::syslog::SyslogSender;
use crate::site::{AccessLogTarget, Site};
use crate::text::Part;
use crate::vars;

/// The open log files of a process, by path: one descriptor however many places write to it.
#[derive(Clone, Debug, Default)]
pub struct LogFiles(Arc<Mutex<HashMap<PathBuf, Arc<LogFile>>>>);

impl LogFiles {
    /// Takes descriptors that somebody else has opened, in place of those of the same paths.
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

    /// The log at `path`, opened now if it is not open yet.
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
    access: RefCell<Vec<Option<LogWriter>>>,
    by_name: RefCell<NamedLogs>,
    stamps: RefCell<Stamps>,
    /// Whether lines wait for the end of this turn of the loop.
    has_lines: Cell<bool>,
}

/// The circumstances of an exchange that may be over when they are needed.
#[derive(Clone, Debug, Default)]
pub struct Context {
    log: usize,
    connection: u64,
    client: Vec<u8>,
    server: Vec<u8>,
    request: Vec<u8>,
    upstream: Vec<u8>,
    subrequest: Option<Vec<u8>>,
    host: Option<Vec<u8>>,
}

impl Logs {
    /// Opens what `site` writes to. What cannot be opened is returned as trouble, and the rest works.
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
            .error_logs
            .iter()
            .map(|logs| {
                let targets = logs.iter().filter_map(|log| match &log.target {
                    LogTarget::Stderr => Some((ErrorTarget::Stderr, log.level)),
                    other => Some((ErrorTarget::Log(target(other, &mut trouble)?), log.level)),
                });
                ErrorLog::new(targets.collect(), zone.clone())
            })
            .collect();
        let access = site
            .access_logs
            .iter()
            .map(|log| match &log.target {
                AccessLogTarget::Fixed(fixed) => {
                    let target = match fixed {
                        // An access log to standard error is the file that it is.
                        LogTarget::Stderr => files.open(Path::new("/dev/stderr")).ok().map(Target::File),
                        other => target(other, &mut trouble),
                    };
                    let (bytes, flush) = buffer_of(log);
                    target.map(|target| LogWriter::new(target, bytes, flush, log.gzip))
                }
                AccessLogTarget::Variable(_) => None,
            })
            .collect();
        let logs = Self {
            errors,
            access: RefCell::new(access),
            by_name: RefCell::default(),
            stamps: RefCell::new(Stamps::new(zone)),
            has_lines: Cell::new(false),
        };
        (logs, trouble)
    }

    /// Writes an error of an exchange.
    pub fn error(&self, cx: &Cx, ex: &Exchange, level: LogLevel, message: fmt::Arguments<'_>) {
        self.with_origin(cx, ex, level, None, message);
    }

    /// Writes an error that an origin at `address` is part of.
    pub fn origin_error(&self, cx: &Cx, ex: &Exchange, level: LogLevel, address: &str, message: fmt::Arguments<'_>) {
        self.with_origin(cx, ex, level, Some(address), message);
    }

    fn with_origin(&self, cx: &Cx, ex: &Exchange, level: LogLevel, address: Option<&str>, message: fmt::Arguments<'_>) {
        let log = cx.loc(ex).texts.error_log;
        let Some(errors) = self.errors.get(log).filter(|errors| errors.wants(level)) else { return };
        let context = self.context(cx, ex, address.unwrap_or_default());
        write(errors, level, cx.now(), &message, &context, ex.asked.head.fields.get_known(Known::Referer));
    }

    /// What [`Logs::write`] needs to know of an exchange.
    pub fn context(&self, cx: &Cx, ex: &Exchange, origin: &str) -> Context {
        Context {
            log: cx.loc(ex).texts.error_log,
            connection: ex.asked.client.id,
            client: ex.remote_ip().map_or_else(|| b"unix:".to_vec(), |ip| ip.to_string().into_bytes()),
            server: cx.server(ex).name.to_vec(),
            request: ex.asked.head.line().to_vec(),
            upstream: upstream_url(cx, ex, origin),
            subrequest: ex.is_sub().then(|| ex.request.uri.clone()),
            host: ex.asked.head.fields.get_known(Known::Host).map(<[u8]>::to_vec),
        }
    }

    /// Writes an error under circumstances kept from before.
    pub fn write(&self, level: LogLevel, message: &str, context: &Context) {
        if let Some(errors) = self.errors.get(context.log) {
            write(errors, level, clock::now(), &message, context, None);
        }
    }

    /// The main error log.
    pub fn main_log(&self) -> Option<ErrorLog> {
        self.errors.first().cloned()
    }

    /// Writes what is no exchange's to the main error log.
    pub fn main(&self, level: LogLevel, message: impl fmt::Display) {
        if let Some(errors) = self.errors.first() {
            errors.write(level, clock::now(), &Circumstances::default(), message);
        }
    }

    /// Writes the access lines of a finished exchange.
    pub fn access(&self, ex: &mut Exchange, cx: &Cx) {
        ex.tally.is_logging = true;
        let site = cx.site();
        for (index, condition) in &cx.loc(ex).texts.access_logs {
            if condition.as_ref().is_some_and(|condition| !condition.is_true(ex, cx)) {
                continue;
            }
            let log = &site.access_logs[*index];
            let mut line = ex.eval.scratch.pop().unwrap_or_default();
            for part in &log.format {
                append_part(part, log.escape, ex, cx, &mut line);
            }
            self.append(*index, &line, ex, cx);
            line.clear();
            ex.eval.scratch.push(line);
        }
    }

    fn append(&self, index: usize, line: &[u8], ex: &mut Exchange, cx: &Cx) {
        let log = &cx.site().access_logs[index];
        let now = cx.now();
        if log.buffer.is_none() && !self.has_lines.replace(true) {
            cx.worker.lines_wait(&cx.local);
        }
        let mut stamps = self.stamps.borrow_mut();
        let result = match &log.target {
            AccessLogTarget::Fixed(_) => match &mut self.access.borrow_mut()[index] {
                Some(writer) => writer.line(now, &mut stamps, |out| out.extend_from_slice(line)),
                None => Ok(()),
            },
            AccessLogTarget::Variable(name) => {
                drop(stamps);
                let path = name.value(ex, cx);
                let name = (index, path);
                let is_open = self.by_name.borrow().is_open(&name);
                if !is_open && let Some(root) = missing_root(ex, cx) {
                    self.error(cx, ex, LogLevel::Error, format_args!("testing \"{root}\" existence failed"));
                    return;
                }
                let cache = cx.loc(ex).settings.modules.log_file_cache;
                stamps = self.stamps.borrow_mut();
                let mut named = self.by_name.borrow_mut();
                match named.writer(name, cache, now) {
                    Ok(writer) => writer.line(now, &mut stamps, |out| out.extend_from_slice(line)),
                    Err((path, error)) => {
                        drop((named, stamps));
                        let path = String::from_utf8_lossy(&path).into_owned();
                        let why = crate::log::io_error_text(&error);
                        let message = format_args!("open() \"{path}\" failed{why} while logging request");
                        self.error(cx, ex, LogLevel::Crit, message);
                        return;
                    }
                }
            }
        };
        if let Err(trouble) = result {
            self.main(trouble.level(), trouble);
        }
    }

    /// Writes buffers whose time has come, or all of them.
    pub fn flush(&self, now: Time, all: bool) {
        let mut writers = self.access.borrow_mut();
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

    /// Writes the lines of logs without `buffer=`, once a turn of the loop: requests that are answered together are
    /// logged together, by one write.
    pub fn end_turn(&self, site: &Site, now: Time) {
        self.has_lines.set(false);
        let mut writers = self.access.borrow_mut();
        let mut by_name = self.by_name.borrow_mut();
        let fixed = writers.iter_mut().enumerate().filter_map(|(index, writer)| Some((index, writer.as_mut()?)));
        let unbuffered = fixed.filter(|(index, _)| site.access_logs[*index].buffer.is_none());
        for writer in unbuffered.map(|(_, writer)| writer).chain(by_name.open_ones()) {
            if let Err(trouble) = writer.flush(now) {
                self.main(trouble.level(), trouble);
            }
        }
        by_name.close_idle(now);
    }

    /// Writes them now, where there are any.
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

    /// The local time in the forms of `$time_local` and `$time_iso8601`.
    pub fn stamp<R>(&self, now: Time, f: impl FnOnce(&crate::log::stamp::Stamp) -> R) -> R {
        f(self.stamps.borrow_mut().at(now))
    }
}

/// The document root, where its name has variables and it is no folder: whatever a client calls itself makes no log
/// then, as in nginx.
fn missing_root(ex: &mut Exchange, cx: &Cx) -> Option<String> {
    let loc = cx.loc(ex);
    if loc.alias.is_some() || loc.texts.root.constant().is_some() {
        return None;
    }
    let root = crate::vars::document_root(ex, cx);
    let is_folder = Path::new(std::ffi::OsStr::from_bytes(&root)).is_dir();
    (!is_folder).then(|| String::from_utf8_lossy(&root).into_owned())
}

/// The bytes and the time of a log's buffer. Without `buffer=`, room for what one turn of the loop logs.
fn buffer_of(log: &crate::site::AccessLog) -> (Option<usize>, Option<std::time::Duration>) {
    log.buffer.map_or((Some(TURN_BYTES), None), |(bytes, flush)| (Some(bytes), flush))
}

fn append_part(part: &Part, how: model::LogEscape, ex: &mut Exchange, cx: &Cx, line: &mut Vec<u8>) {
    match part {
        Part::Literal(bytes) => line.extend_from_slice(bytes),
        Part::Capture(_) => {}
        Part::Var(var) => {
            let mut value = ex.eval.scratch.pop().unwrap_or_default();
            let found = vars::append(var, ex, cx, &mut value);
            escape::append_value(how, found.then_some(&value[..]), line);
            value.clear();
            ex.eval.scratch.push(value);
        }
    }
}

fn upstream_url(cx: &Cx, ex: &Exchange, origin: &str) -> Vec<u8> {
    use crate::site::{Handler, Protocol};
    if origin.is_empty() {
        return Vec::new();
    }
    let Handler::Origin(asked) = &cx.loc(ex).handler else {
        return origin.as_bytes().to_vec();
    };
    match asked.backend.protocol {
        Protocol::FastCgi(_) => format!("fastcgi://{origin}").into_bytes(),
        Protocol::Http(_) => {
            let separator: &[u8] = if origin.starts_with("unix:") { b":" } else { b"" };
            let scheme = asked.backend.scheme().prefix();
            [scheme, origin.as_bytes(), separator, ex.asked.head.target()].concat()
        }
    }
}

fn write(
    errors: &ErrorLog,
    level: LogLevel,
    now: Time,
    message: &dyn fmt::Display,
    context: &Context,
    referrer: Option<&[u8]>,
) {
    let circumstances = Circumstances {
        connection: Some(context.connection),
        client: Some(&context.client),
        server: Some(&context.server),
        request: Some(&context.request[..]).filter(|request| !request.is_empty()),
        upstream: Some(&context.upstream[..]).filter(|upstream| !upstream.is_empty()),
        host: context.host.as_deref(),
        referrer,
        action: None,
        subrequest: context.subrequest.as_deref(),
    };
    errors.write(level, now, &circumstances, message);
}
