//! The logs of a configuration.

use std::time::Duration;

use larder_conf::model;

use crate::log::main::MainLog;
use crate::text::{Part, Text};

/// The logs of a configuration.
pub struct SiteLogs {
    /// Access logs: one for each combination of place and format.
    pub access: Vec<AccessLog>,
    /// Where access logs with fixed places go.
    pub sinks: Vec<AccessSink>,
    /// Error logs: those of the main level, and of every level that has its own.
    pub error: Vec<Vec<model::ErrorLog>>,
    /// The log for messages that belong to no worker, such as errors of name servers.
    pub main: MainLog,
}

/// An access log and the format of its lines.
#[derive(PartialEq)]
pub struct AccessLog {
    /// Where its lines go.
    pub target: AccessLogTarget,
    /// The format of a line.
    pub format: Vec<Part>,
    /// How values are escaped.
    pub escape: model::LogEscape,
}

/// Where an access log goes.
#[derive(PartialEq)]
pub enum AccessLogTarget {
    /// To a sink of the site.
    Fixed(usize),
    /// A file whose path has variables.
    Variable(Text),
}

/// A file or syslog server that access logs share, and its buffer: so its lines stay in the order of the requests,
/// whatever their formats.
#[derive(PartialEq)]
pub struct AccessSink {
    /// The file or syslog server.
    pub target: model::LogTarget,
    /// `buffer=` and `flush=`.
    pub buffer: Option<(usize, Option<Duration>)>,
    /// `gzip`.
    pub gzip: Option<u8>,
}
