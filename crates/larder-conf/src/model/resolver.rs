//! `resolver`.

use std::time::Duration;

use super::At;

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
}
