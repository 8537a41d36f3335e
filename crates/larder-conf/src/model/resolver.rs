//! `resolver`.

use std::sync::Arc;
use std::time::Duration;

use super::At;

/// `resolver` and `resolver_timeout`.
#[derive(Clone, Debug)]
pub struct Resolving {
    /// `resolver`; without one the system is asked when a name comes from a variable.
    pub resolver: Option<Arc<Resolver>>,
    /// `resolver_timeout`, 30 s.
    pub timeout: Duration,
}

impl Default for Resolving {
    fn default() -> Self {
        Self { resolver: None, timeout: Duration::from_secs(30) }
    }
}

/// Name servers, and how they are asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolver {
    /// The name servers: addresses, or names that the system knows, with or without a port; at least one.
    pub servers: Vec<At<String>>,
    /// `valid=`: how long an answer holds, whatever it says itself.
    pub valid: Option<Duration>,
    /// `ipv4=`, on.
    pub ipv4: bool,
    /// `ipv6=`, on.
    pub ipv6: bool,
    /// `status_zone=`: the name under which it is counted.
    pub status_zone: Option<String>,
}
