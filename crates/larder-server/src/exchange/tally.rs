//! What is counted and held while a request is answered, for limits and logs.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use larder_origin::Attempt;

use crate::limit::ConnGuard;

use super::emptied;

/// What is counted and held while a request is answered.
#[derive(Default)]
pub struct Tally {
    /// Bytes sent: all, and of the body.
    pub sent: (u64, u64),
    /// Bytes of the body before and after it was compressed, for `$gzip_ratio`.
    pub squeezed: Option<(u64, u64)>,
    /// What was tried at origins, by all locations that the request came to.
    pub attempts: Vec<Attempt>,
    /// What the task that takes the body from the origin has counted.
    pub report: Option<Rc<Report>>,
    /// Connection limits held.
    pub guards: Vec<ConnGuard>,
    /// Whether all of the response has been sent.
    pub is_complete: bool,
    /// Whether the log lines are being written.
    pub is_logging: bool,
}

/// What the task that takes the body from the origin has counted, for the log line.
#[derive(Debug, Default)]
pub struct Report {
    /// From the choice of the origin to the end of its body.
    pub total: Cell<Option<Duration>>,
    /// Bytes of the body.
    pub body_bytes: Cell<u64>,
    /// All bytes received.
    pub received: Cell<u64>,
    /// All bytes sent, once no more are.
    pub sent: Cell<Option<u64>>,
}

impl Tally {
    /// Counts anew. Lists keep their room.
    pub(super) fn reset(&mut self) {
        *self = Self { attempts: emptied(&mut self.attempts), guards: emptied(&mut self.guards), ..Self::default() };
    }
}
