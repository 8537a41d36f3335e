//! The logs of a configuration.

use std::time::Duration;

use larder_conf::model;

use crate::log::main::MainLog;
use crate::text::{Part, Text};

/// The logs of a configuration.
pub struct SiteLogs {
    /// Access logs: one for each combination of file, format and buffer.
    pub access: Vec<AccessLog>,
    /// Error logs: those of the main level, and of every level that has its own.
    pub error: Vec<Vec<model::ErrorLog>>,
    /// The log for messages that belong to no worker, such as errors of name servers.
    pub main: MainLog,
}

/// An access log and the format of its lines.
pub struct AccessLog {
    /// Where its lines go.
    pub target: AccessLogTarget,
    /// The format of a line.
    pub format: Vec<Part>,
    /// How values are escaped.
    pub escape: model::LogEscape,
    /// `buffer=` and `flush=`.
    pub buffer: Option<(usize, Option<Duration>)>,
    /// `gzip`.
    pub gzip: Option<u8>,
}

/// Where an access log goes.
pub enum AccessLogTarget {
    /// A file or syslog server.
    Fixed(model::LogTarget),
    /// A file whose path has variables.
    Variable(Text),
}
