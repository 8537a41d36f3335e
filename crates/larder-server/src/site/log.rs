//! Where lines go.

use std::time::Duration;

use larder_conf::model;

use crate::log::main::MainLog;
use crate::text::{Part, Text};

/// The logs of a configuration.
pub struct SiteLogs {
    /// Access logs, one for each file, format and buffer.
    pub access: Vec<AccessLog>,
    /// Error logs of the main context and every level that has its own.
    pub error: Vec<Vec<model::ErrorLog>>,
    /// Where is told what no worker has to say, such as complaints about name servers.
    pub main: MainLog,
}

/// An access log and how its lines look.
pub struct AccessLog {
    /// Where to.
    pub target: AccessLogTarget,
    /// The line.
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
    /// A fixed place.
    Fixed(model::LogTarget),
    /// A path with variables.
    Variable(Text),
}
