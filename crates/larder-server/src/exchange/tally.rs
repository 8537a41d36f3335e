//! Counts and guards of an exchange, for limits and logs.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use larder_origin::{Attempt, Usage};

use crate::limit::ConnGuard;

/// Counts and guards of an exchange, for limits and logs.
#[derive(Default)]
pub struct Tally {
    /// Bytes sent: in total, and of the body.
    pub sent: (u64, u64),
    /// The body's length before and after it was compressed, for `$gzip_ratio`.
    pub squeezed: Option<(u64, u64)>,
    /// The attempts at origins, in all locations of this request.
    pub attempts: Vec<Attempt>,
    /// The counts of the body from the origin.
    pub report: Reported,
    /// The places that the exchange holds under `limit_conn`.
    pub guards: Vec<ConnGuard>,
    /// From the end of the request's head to the first byte of the response, microseconds.
    pub took_micros: Option<u64>,
    /// Whether the whole response was sent.
    pub is_complete: bool,
    /// Whether it has purged pages of which other larders are told, and its answer waits until they know.
    pub has_purged: bool,
    /// Whether the log lines are being written now.
    pub is_logging: bool,
}

/// Who counts the body from the origin.
#[derive(Clone, Debug, Default)]
pub enum Reported {
    /// Nobody: there is none.
    #[default]
    No,
    /// It is over.
    Over(Report),
    /// The task that reads it.
    Running(Rc<Report>),
}

impl Reported {
    /// The counts.
    pub fn get(&self) -> Option<&Report> {
        match self {
            Self::No => None,
            Self::Over(report) => Some(report),
            Self::Running(report) => Some(report),
        }
    }
}

/// The counts of a body from the origin, for the log line.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The time from the choice of the origin to the end of its body.
    pub total: Cell<Option<Duration>>,
    /// Bytes of the body.
    pub body_bytes: Cell<u64>,
    /// All bytes received from the origin.
    pub received: Cell<u64>,
    /// What the connection was used for, once the body is over.
    pub ended: Cell<Option<Usage>>,
}

impl Tally {
    /// Begins to count anew. Lists keep their memory.
    pub(super) fn reset(&mut self) {
        let Self { sent, squeezed, attempts, report, guards, took_micros, is_complete, is_logging, has_purged } = self;
        *sent = (0, 0);
        *squeezed = None;
        attempts.clear();
        *report = Reported::No;
        guards.clear();
        *took_micros = None;
        *is_complete = false;
        *is_logging = false;
        *has_purged = false;
    }
}
