//! `limit_req` and `limit_conn`.

use super::{At, LogLevel, Template};

/// `limit_req*`, `limit_conn*` and `limit_rate*`.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// `limit_req*`.
    pub req: Limit<LimitReq>,
    /// `limit_conn*`: zone and number.
    pub conn: Limit<(At<String>, u32)>,
    /// `limit_rate`, bytes a second; `0` for none.
    pub rate: Option<Template>,
    /// `limit_rate_after`.
    pub rate_after: Option<Template>,
}

/// What is counted in zones, and what is done with a request that is too many.
#[derive(Clone, Debug)]
pub struct Limit<Z> {
    /// `limit_req` or `limit_conn`, in order.
    pub zones: Vec<Z>,
    /// `limit_*_status`, 503.
    pub status: u16,
    /// `limit_*_log_level`, error.
    pub log_level: LogLevel,
    /// `limit_*_dry_run`, off.
    pub dry_run: bool,
}

impl<Z> Default for Limit<Z> {
    fn default() -> Self {
        Self { zones: Vec::new(), status: 503, log_level: LogLevel::Error, dry_run: false }
    }
}

/// `limit_req_zone`.
#[derive(Clone, Debug)]
pub struct LimitReqZone {
    /// The name.
    pub name: At<String>,
    /// What is counted.
    pub key: Template,
    /// Bytes of state.
    pub bytes: usize,
    /// Thousandths of a request a second: `1r/s` is 1000, `30r/m` is 500.
    pub rate_milli: u64,
}

/// `limit_conn_zone`.
#[derive(Clone, Debug)]
pub struct LimitConnZone {
    /// The name.
    pub name: At<String>,
    /// What is counted.
    pub key: Template,
    /// Bytes of counts.
    pub bytes: usize,
}

/// `limit_req`.
#[derive(Clone, Debug)]
pub struct LimitReq {
    /// The zone.
    pub zone: At<String>,
    /// `burst=`, requests.
    pub burst: u64,
    /// `delay=`; `None` for `nodelay`.
    pub delay: Option<u64>,
}
