//! `larder_gate` and `queue`.

use std::time::Duration;

use super::{At, Template};

/// How requests go through the gate of a group: `larder_gate` and `larder_gate_class`.
#[derive(Clone, Debug, Default)]
pub struct Gating {
    /// `larder_gate`; `None` if nothing is said, which is `auto` for FastCGI.
    pub gate: Option<At<Gate>>,
    /// `larder_gate_class`: the class of a request; `None` for the one by its cookies, method and browser.
    pub class: Option<Template>,
}

/// `larder_gate`: how many requests are at the origins of a group at once, and who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    /// How many at once.
    pub limit: GateLimit,
    /// `queue=`: how many wait at most, 4096.
    pub queue: u32,
    /// `timeout=`: how long one waits at most; `None` for the `*_read_timeout` of its location.
    pub timeout: Option<Duration>,
}

/// How many requests are at the origins at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateLimit {
    /// `off`.
    Off,
    /// `auto`: as many as php-fpm has children.
    Auto,
    /// A number.
    Fixed(u32),
    /// `adaptive`: by how long the origins take, between `min=`, 1, and `max=`, 200.
    Adaptive {
        /// The lowest.
        min: u32,
        /// The highest.
        max: u32,
    },
}

/// `queue`: how many wait while all servers have their `max_conns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// How many.
    pub most: u32,
    /// `timeout=`, 60 s.
    pub timeout: Duration,
}

impl Gate {
    /// How many wait unless `queue=` says it: more than php-fpm's backlog of 511 takes for nginx.
    pub const QUEUE: u32 = 4096;

    /// `auto`.
    pub const AUTO: Gate = Gate { limit: GateLimit::Auto, queue: Self::QUEUE, timeout: None };
}
