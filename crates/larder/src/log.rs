//! The error log of the supervisor.
//!
//! While larder starts, warnings and errors also go to standard error, as with nginx.

use std::fs::File;
use std::io::{self, Write};
use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use larder_conf::model::{LogLevel, Syslog, SyslogServer};
use larder_server::clock;

/// The log: each line goes to all sinks that accept its level.
#[derive(Debug)]
pub struct Log {
    sinks: Vec<Sink>,
    console: Console,
}

/// One destination of lines.
#[derive(Debug)]
pub struct Sink {
    /// Where.
    pub target: Target,
    /// The least severe level that is written.
    pub level: LogLevel,
}

/// An open destination.
#[derive(Debug)]
pub enum Target {
    /// A file.
    File(File),
    /// Standard error.
    Stderr,
    /// A syslog server.
    Syslog(Syslog),
}

/// Whether warnings and worse are on standard error too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Console {
    /// Yes: the caller waits until we have started.
    Told,
    /// No: we have started.
    Quiet,
}

impl Log {
    /// A log that writes to `sinks`.
    pub fn new(sinks: Vec<Sink>, console: Console) -> Log {
        Log { sinks, console }
    }

    /// Writes to other sinks from now on.
    pub fn redirect(&mut self, sinks: Vec<Sink>) {
        self.sinks = sinks;
    }

    /// Sets whether warnings and worse go to standard error too.
    pub fn set_console(&mut self, console: Console) {
        self.console = console;
    }

    /// Writes one message. Errors of writing are ignored: they are no reason to stop.
    pub fn write(&self, level: LogLevel, message: &str) {
        let mut told = self.console == Console::Quiet || level > LogLevel::Warn;
        for sink in self.sinks.iter().filter(|sink| level <= sink.level) {
            let _ = match &sink.target {
                Target::File(file) => put(file, level, message),
                Target::Stderr => {
                    told = true;
                    put(io::stderr().lock(), level, message)
                }
                Target::Syslog(syslog) => send(syslog, level, message),
            };
        }
        if !told {
            let _ = writeln!(io::stderr().lock(), "larder: [{}] {message}", name(level));
        }
    }

    /// Writes rendered diagnostics of several lines, each message with the level that it names.
    pub fn write_rendered(&self, rendered: &str) {
        for (level, message) in split_rendered(rendered) {
            self.write(level, &message);
        }
    }
}

/// One line, by one write, so that lines of several processes do not mix.
fn put(mut to: impl Write, level: LogLevel, message: &str) -> io::Result<()> {
    to.write_all(format!("{}\n", line(level, message)).as_bytes())
}

fn line(level: LogLevel, message: &str) -> String {
    let pid = std::process::id();
    format!("{} [{}] {pid}#{pid}: {message}", now().strftime("%Y/%m/%d %H:%M:%S"), name(level))
}

/// The local time of this machine.
fn now() -> Zoned {
    let millis = i64::try_from(clock::now().0).unwrap_or(i64::MAX);
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX).to_zoned(TimeZone::system())
}

fn send(syslog: &Syslog, level: LogLevel, message: &str) -> io::Result<()> {
    let severity = level as u8;
    let host = match syslog.nohostname {
        true => String::new(),
        false => format!("{} ", crate::hostname::hostname()),
    };
    let packet = format!(
        "<{}>{} {host}{}: {}",
        u16::from(syslog.facility) * 8 + u16::from(severity),
        now().strftime("%b %e %H:%M:%S"),
        syslog.tag,
        line(level, message),
    );
    match &syslog.server {
        SyslogServer::Udp(server) => {
            let socket = UdpSocket::bind(("0.0.0.0", 0)).or_else(|_| UdpSocket::bind(("::", 0)))?;
            socket.set_nonblocking(true)?;
            socket.send_to(packet.as_bytes(), server.as_str())?;
        }
        SyslogServer::Unix(path) => {
            let socket = UnixDatagram::unbound()?;
            socket.set_nonblocking(true)?;
            socket.send_to(packet.as_bytes(), path)?;
        }
    }
    Ok(())
}

/// Splits rendered diagnostics into messages. Each begins with a line `larder: [level] ...`; the following lines belong
/// to it.
fn split_rendered(rendered: &str) -> Vec<(LogLevel, String)> {
    let mut messages: Vec<(LogLevel, String)> = Vec::new();
    for line in rendered.lines() {
        let begun = line
            .strip_prefix("larder: [")
            .and_then(|rest| rest.split_once("] "))
            .and_then(|(word, message)| Some((level(word)?, message.to_owned())));
        match (begun, messages.last_mut()) {
            (Some(message), _) => messages.push(message),
            (None, Some((_, message))) => {
                message.push('\n');
                message.push_str(line);
            }
            (None, None) => messages.push((LogLevel::Emerg, line.to_owned())),
        }
    }
    for (_, message) in &mut messages {
        message.truncate(message.trim_end().len());
    }
    messages
}

/// The word for a level.
pub fn name(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Emerg => "emerg",
        LogLevel::Alert => "alert",
        LogLevel::Crit => "crit",
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Notice => "notice",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
    }
}

fn level(word: &str) -> Option<LogLevel> {
    LEVELS.into_iter().find(|level| name(*level) == word)
}

const LEVELS: [LogLevel; 8] = [
    LogLevel::Emerg,
    LogLevel::Alert,
    LogLevel::Crit,
    LogLevel::Error,
    LogLevel::Warn,
    LogLevel::Notice,
    LogLevel::Info,
    LogLevel::Debug,
];

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_rendering_is_cut_where_messages_begin() {
        for (rendered, expected) in [
            ("", vec![]),
            ("larder: [warn] a\n", vec![(LogLevel::Warn, "a")]),
            (
                "larder: [emerg] a in f:1\n  |\n1 | b\n\nlarder: [notice] c\n",
                vec![(LogLevel::Emerg, "a in f:1\n  |\n1 | b"), (LogLevel::Notice, "c")],
            ),
            ("larder: [what] a\n", vec![(LogLevel::Emerg, "larder: [what] a")]),
        ] {
            let found = split_rendered(rendered);
            let found: Vec<_> = found.iter().map(|(level, text)| (*level, text.as_str())).collect();
            assert_eq!(found, expected, "{rendered:?}");
        }
    }

    #[test]
    fn a_sink_gets_what_is_severe_enough_with_time_and_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("error.log");
        let sink = Sink { target: Target::File(File::create(&path).unwrap()), level: LogLevel::Warn };
        let log = Log::new(vec![sink], Console::Quiet);
        log.write(LogLevel::Notice, "unheard");
        log.write(LogLevel::Warn, "heard");
        log.write_rendered("larder: [emerg] also\nsnippet\n");
        let pid = std::process::id();
        let written = fs::read_to_string(&path).unwrap();
        let lines: Vec<_> = written.lines().collect();
        assert_eq!(lines.len(), 3, "{written}");
        assert_eq!(lines[0][19..], format!(" [warn] {pid}#{pid}: heard"));
        assert_eq!(lines[1][19..], format!(" [emerg] {pid}#{pid}: also"));
        assert_eq!(lines[2], "snippet");
    }

    #[test]
    fn levels_are_numbered_as_in_syslog() {
        for (number, level) in LEVELS.into_iter().enumerate() {
            assert_eq!(level as usize, number);
        }
    }
}
