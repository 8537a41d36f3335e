//! `upstream`.

use std::sync::Arc;
use std::time::Duration;

use super::{At, Gate, Queue, Resolver, Template};

/// `upstream`: a group of origins.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// The name.
    pub name: At<String>,
    /// The servers.
    pub servers: Vec<UpstreamServer>,
    /// How one is chosen.
    pub balance: Balance,
    /// `larder_gate`.
    pub gate: Option<At<Gate>>,
    /// `queue`.
    pub queue: Option<At<Queue>>,
    /// `keepalive`: idle connections kept, 32 as in nginx since 1.29.7.
    pub keepalive: usize,
    /// `keepalive_requests`, 1000.
    pub keepalive_requests: u64,
    /// `keepalive_timeout`, 60 s.
    pub keepalive_timeout: Duration,
    /// `keepalive_time`, 1 h.
    pub keepalive_time: Duration,
    /// `resolver`: in place of that of `http`.
    pub resolver: Option<Arc<Resolver>>,
    /// `resolver_timeout`: in place of that of `http`.
    pub resolver_timeout: Option<Duration>,
}

impl Upstream {
    /// nginx's defaults, with no servers.
    pub fn new(name: At<String>) -> Self {
        Self {
            name,
            servers: Vec::new(),
            balance: Balance::RoundRobin,
            gate: None,
            queue: None,
            keepalive: 32,
            keepalive_requests: 1000,
            keepalive_timeout: Duration::from_secs(60),
            keepalive_time: Duration::from_secs(3600),
            resolver: None,
            resolver_timeout: None,
        }
    }
}

/// How a group chooses.
#[derive(Clone, Debug)]
pub enum Balance {
    /// In turn, by weight.
    RoundRobin,
    /// The fewest running.
    LeastConn,
    /// `least_time`: the shortest estimate.
    LeastTime {
        /// `last_byte` in place of `header`.
        last_byte: bool,
        /// `inflight`.
        inflight: bool,
    },
    /// By the client's address.
    IpHash,
    /// By a key; the flag is `consistent`.
    Hash(Template, bool),
    /// `random [two]`.
    Random {
        /// Of two picked, the one with fewer running.
        two: bool,
    },
}

/// A `server` of an `upstream`.
#[derive(Clone, Debug)]
pub struct UpstreamServer {
    /// `host:port`, `host`, or `unix:/path`, as written; no port means 80.
    pub address: At<String>,
    /// `weight=`, 1.
    pub weight: u32,
    /// `max_fails=`, 1; 0 never counts.
    pub max_fails: u32,
    /// `fail_timeout=`, 10 s.
    pub fail_timeout: Duration,
    /// `max_conns=`, 0 for none.
    pub max_conns: u32,
    /// `backup`.
    pub backup: bool,
    /// `down`.
    pub down: bool,
    /// `resolve`: the name is looked up again when its answer runs out.
    pub resolve: bool,
    /// `service=`: the name of a service, whose servers have SRV records.
    pub service: Option<String>,
}
