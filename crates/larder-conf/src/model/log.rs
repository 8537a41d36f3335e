//! Where logs go, and what their lines are.

use std::path::PathBuf;
use std::time::Duration;

use super::{At, Template};
use crate::span::Span;

/// `access_log` and `error_log`.
#[derive(Clone, Debug)]
pub struct Logs {
    /// `access_log`, in order; empty for `off`.
    pub access: Vec<AccessLog>,
    /// `error_log` of this level or the nearest above; empty means the main context's.
    pub error: Vec<ErrorLog>,
    /// `log_subrequest`, off.
    pub subrequests: bool,
}

impl Default for Logs {
    fn default() -> Self {
        Self {
            access: vec![AccessLog {
                target: AccessLogTarget::Fixed(LogTarget::File("/var/log/larder/access.log".into())),
                format: At { value: "combined".to_owned(), span: Span::NOWHERE },
                buffer_bytes: None,
                flush: None,
                gzip: None,
                condition: None,
            }],
            error: Vec::new(),
            subrequests: false,
        }
    }
}

/// One `error_log`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorLog {
    /// Where the lines go.
    pub target: LogTarget,
    /// The least severe level that is written.
    pub level: LogLevel,
}

/// Where log lines go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LogTarget {
    /// A file; relative names are joined to the prefix already.
    File(PathBuf),
    /// Standard error.
    Stderr,
    /// A syslog server.
    Syslog(Syslog),
}

/// The arguments of `syslog:`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Syslog {
    /// A UDP address or a path of a unix socket (without `unix:`).
    pub server: SyslogServer,
    /// 0 (kern) to 23 (local7).
    pub facility: u8,
    /// 0 (emerg) to 7 (debug), for access logs.
    pub severity: u8,
    /// The tag, `nginx` unless told.
    pub tag: String,
    /// Whether the host name is left out.
    pub nohostname: bool,
}

/// Where a syslog server listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SyslogServer {
    /// `host:port`; port 514 unless given.
    Udp(String),
    /// A datagram unix socket.
    Unix(PathBuf),
}

/// nginx's levels, least severe last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    /// The system cannot be used.
    Emerg,
    /// Something must be done at once.
    Alert,
    /// Critical.
    Crit,
    /// A request failed.
    Error,
    /// Something is odd.
    Warn,
    /// Of note.
    Notice,
    /// For information.
    Info,
    /// For those who look for a bug.
    Debug,
}

/// `access_log`.
#[derive(Clone, Debug)]
pub struct AccessLog {
    /// Where the lines go.
    pub target: AccessLogTarget,
    /// The name of a `log_format`, checked to exist.
    pub format: At<String>,
    /// `buffer=`, bytes.
    pub buffer_bytes: Option<usize>,
    /// `flush=`.
    pub flush: Option<Duration>,
    /// `gzip`: how hard, from 1 to 9; what is gathered becomes a member of a gzip file.
    pub gzip: Option<u8>,
    /// `if=`.
    pub condition: Option<Template>,
}

/// Where an access log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessLogTarget {
    /// A fixed place.
    Fixed(LogTarget),
    /// A path with variables.
    Variable(Template),
}

/// `log_format`.
#[derive(Clone, Debug)]
pub struct LogFormat {
    /// The name.
    pub name: At<String>,
    /// `escape=`.
    pub escape: LogEscape,
    /// The arguments joined.
    pub format: Template,
}

/// `escape=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogEscape {
    /// `\xHH`.
    Default,
    /// JSON strings.
    Json,
    /// As it is.
    None,
}
