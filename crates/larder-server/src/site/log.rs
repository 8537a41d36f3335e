//! Access logs.

use std::time::Duration;

use larder_conf::model;

use crate::text::{Part, Text};

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
