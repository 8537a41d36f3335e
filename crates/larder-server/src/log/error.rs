//! The error log: lines with a level, and the circumstances of the connection and request.

use std::fmt;
use std::io::Write;
use std::sync::Arc;

use jiff::tz::TimeZone;
use larder_conf::model::LogLevel;
use larder_http::Time;

use super::access::Target;
use super::stamp::Stamp;

/// The longest line with its line feed; more is cut off, as in nginx.
const LINE_BYTES_MAX: usize = 2048;

/// The error logs of one level of the configuration.
#[derive(Clone, Debug)]
pub struct ErrorLog {
    targets: Arc<[(ErrorTarget, LogLevel)]>,
    zone: TimeZone,
}

/// Where a log's lines go.
#[derive(Clone, Debug)]
pub enum ErrorTarget {
    /// A file or a syslog server.
    Log(Target),
    /// Standard error.
    Stderr,
}

/// The circumstances that a line shows beside its message. `None` leaves a part out; the default belongs to no
/// connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Circumstances<'a> {
    /// The number of the connection.
    pub connection: Option<u64>,
    /// What larder was doing, such as `reading client request headers`.
    pub action: Option<&'a str>,
    /// The address of the client.
    pub client: Option<&'a [u8]>,
    /// The first name of the server, which may be empty; before a request was read, the address listened at.
    pub server: Option<&'a [u8]>,
    /// The request line.
    pub request: Option<&'a [u8]>,
    /// The URI of the subrequest.
    pub subrequest: Option<&'a [u8]>,
    /// The URL requested from the origin.
    pub upstream: Option<&'a [u8]>,
    /// The field `Host`.
    pub host: Option<&'a [u8]>,
    /// The field `Referer`.
    pub referrer: Option<&'a [u8]>,
}

impl ErrorLog {
    /// A log to these targets, each with the least severe level that it takes; times are in `zone`.
    pub fn new(targets: Vec<(ErrorTarget, LogLevel)>, zone: TimeZone) -> Self {
        Self { targets: targets.into(), zone }
    }

    /// A log to standard error, until a configuration is loaded.
    pub fn stderr(level: LogLevel, zone: TimeZone) -> Self {
        Self::new(vec![(ErrorTarget::Stderr, level)], zone)
    }

    /// Whether any target takes lines of this level. Ask before making an expensive message.
    pub fn wants(&self, level: LogLevel) -> bool {
        self.targets.iter().any(|(_, least)| level <= *least)
    }

    /// Writes a line. A line that cannot be written is lost, as there is no place to report that.
    pub fn write(&self, level: LogLevel, now: Time, circumstances: &Circumstances<'_>, message: impl fmt::Display) {
        if !self.wants(level) {
            return;
        }
        let stamp = Stamp::new(now, &self.zone);
        let process = (std::process::id(), rustix::thread::gettid().as_raw_nonzero().get());
        let line = format_line(&stamp, level, process, circumstances, &message);
        for (target, least) in &*self.targets {
            if level > *least {
                continue;
            }
            match target {
                ErrorTarget::Log(Target::File(file)) => drop(file.append(&line, now)),
                ErrorTarget::Log(Target::Syslog(syslog)) => {
                    // nginx's levels are those of syslog, in the same order.
                    let severity = level as u8;
                    drop(syslog.send(severity, &stamp, line.strip_suffix(b"\n").unwrap_or(&line)));
                }
                ErrorTarget::Stderr => drop(std::io::stderr().write_all(&line)),
            }
        }
    }
}

/// `2026/11/21 21:25:10 [error] PID#TID: *CONNECTION message, client: …` and its line feed.
fn format_line(
    stamp: &Stamp,
    level: LogLevel,
    (pid, tid): (u32, i32),
    circumstances: &Circumstances<'_>,
    message: &dyn fmt::Display,
) -> Vec<u8> {
    let mut line = Line(Vec::with_capacity(512));
    line.add(format_args!("{} [{}] {pid}#{tid}: ", stamp.error, level_name(level)));
    let Circumstances { connection, action, client, server, request, subrequest, upstream, host, referrer } =
        *circumstances;
    if let Some(connection) = connection {
        line.add(format_args!("*{connection} "));
    }
    line.add(format_args!("{message}"));
    if let Some(action) = action {
        line.add(format_args!(" while {action}"));
    }
    for (name, value) in [(", client: ", client), (", server: ", server)] {
        if let Some(value) = value {
            line.add_bytes(name.as_bytes());
            line.add_bytes(value);
        }
    }
    for (name, value) in [
        (", request: \"", request),
        (", subrequest: \"", subrequest),
        (", upstream: \"", upstream),
        (", host: \"", host),
        (", referrer: \"", referrer),
    ] {
        if let Some(value) = value {
            line.add_bytes(name.as_bytes());
            line.add_bytes(value);
            line.add_bytes(b"\"");
        }
    }
    let mut bytes = line.0;
    bytes.push(b'\n');
    bytes
}

/// nginx's name of a level.
fn level_name(level: LogLevel) -> &'static str {
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

/// A line that is being written; bytes beyond the limit are dropped. A line feed in a value would split the line, so it
/// becomes a space.
struct Line(Vec<u8>);

impl Line {
    fn add_bytes(&mut self, bytes: &[u8]) {
        let room = (LINE_BYTES_MAX - 1).saturating_sub(self.0.len());
        let kept = bytes.get(..room).unwrap_or(bytes);
        self.0.extend(kept.iter().map(|&byte| if byte == b'\n' { b' ' } else { byte }));
    }

    fn add(&mut self, text: fmt::Arguments<'_>) {
        // A `Display` that fails ends only its own part of the line.
        let _ = fmt::Write::write_fmt(self, text);
    }
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.add_bytes(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::sink::LogFile;

    fn line(circumstances: &Circumstances<'_>, message: &str) -> String {
        let stamp = Stamp::new(Time::from_secs(0), &TimeZone::UTC);
        let line = format_line(&stamp, LogLevel::Error, (7, 8), circumstances, &message);
        String::from_utf8(line).expect("the cases are text")
    }

    #[test]
    fn lines_have_nginxs_form() {
        let nobody = Circumstances::default();
        let early = Circumstances {
            connection: Some(3),
            action: Some("waiting for request"),
            client: Some(b"10.0.0.1"),
            server: Some(b"0.0.0.0:80"),
            ..nobody
        };
        let request = Circumstances {
            connection: Some(3),
            client: Some(b"10.0.0.1"),
            server: Some(b""),
            request: Some(b"GET /a HTTP/1.1"),
            host: Some(b"example.org"),
            ..nobody
        };
        let all = Circumstances {
            action: Some("reading response header from upstream"),
            subrequest: Some(b"/b"),
            upstream: Some(b"fastcgi://unix:/run/php.sock:"),
            referrer: Some(b"https://example.org/"),
            ..request
        };
        for (circumstances, expected) in [
            (nobody, "1970/01/01 00:00:00 [error] 7#8: text\n"),
            (
                early,
                "1970/01/01 00:00:00 [error] 7#8: *3 text while waiting for request, client: 10.0.0.1, \
                 server: 0.0.0.0:80\n",
            ),
            (
                request,
                "1970/01/01 00:00:00 [error] 7#8: *3 text, client: 10.0.0.1, server: , request: \"GET /a HTTP/1.1\", \
                 host: \"example.org\"\n",
            ),
            (
                all,
                "1970/01/01 00:00:00 [error] 7#8: *3 text while reading response header from upstream, \
                 client: 10.0.0.1, server: , request: \"GET /a HTTP/1.1\", subrequest: \"/b\", \
                 upstream: \"fastcgi://unix:/run/php.sock:\", host: \"example.org\", \
                 referrer: \"https://example.org/\"\n",
            ),
        ] {
            assert_eq!(line(&circumstances, "text"), expected);
        }
    }

    #[test]
    fn a_line_is_one_line_of_bounded_length() {
        let client = Circumstances { client: Some(b"10.0.0.1"), ..Circumstances::default() };
        let long = line(&client, &"x".repeat(5000));
        assert_eq!(long.len(), LINE_BYTES_MAX);
        assert!(long.ends_with("xxx\n"));
        let forged = line(&client, "one\n1970/01/01 00:00:00 [error] two");
        assert_eq!(forged.matches('\n').count(), 1);
    }

    #[test]
    fn each_target_takes_what_is_severe_enough() {
        let dir = ::tempfile::tempdir().expect("a temp dir can be made");
        let open = |name: &str| {
            let file = LogFile::open(&dir.path().join(name)).expect("opened");
            ErrorTarget::Log(Target::File(Arc::new(file)))
        };
        let targets = vec![(open("error"), LogLevel::Error), (open("info"), LogLevel::Info)];
        let log = ErrorLog::new(targets, TimeZone::UTC);
        for (level, wanted) in [(LogLevel::Emerg, true), (LogLevel::Info, true), (LogLevel::Debug, false)] {
            assert_eq!(log.wants(level), wanted, "{level:?}");
        }
        for level in [LogLevel::Crit, LogLevel::Error, LogLevel::Warn, LogLevel::Info, LogLevel::Debug] {
            log.write(level, Time(0), &Circumstances::default(), format_args!("at {level:?}"));
        }
        let levels = |name: &str| {
            let text = std::fs::read_to_string(dir.path().join(name)).expect("there");
            text.lines().map(|line| line.rsplit(' ').next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(levels("error"), ["Crit", "Error"]);
        assert_eq!(levels("info"), ["Crit", "Error", "Warn", "Info"]);
    }
}
