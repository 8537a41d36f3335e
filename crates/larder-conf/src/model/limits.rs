//! `limit_req` and `limit_conn`.

use super::{At, Template};

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
