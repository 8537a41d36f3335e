//! What is told of an origin that was asked, for `$upstream_*` and the error log.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{error::FetchError, group::Pick};

/// By which connection an origin was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// By none: no origin could be asked.
    None,
    /// By a new one, if it could be made: see [`Attempt::connect`].
    New,
    /// By one that was kept from an earlier fetch.
    Kept,
}

/// An origin that was asked, for `$upstream_*`, the error log and the counters.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// Its address; the name of the group when no origin could be asked.
    pub address: Arc<str>,
    /// The status of its answer, or nginx's status for its failure: 504 for a timeout, else 502. `None` if the failure
    /// was not the origin's.
    pub status: Option<u16>,
    /// By which connection.
    pub line: Line,
    /// How long connecting took; zero on a kept connection, `None` if it failed.
    pub connect: Option<Duration>,
    /// From the choice of this origin to the end of its response head; `None` if it failed before.
    pub header: Option<Duration>,
    /// From the choice of this origin to its failure, or to the end of its response head.
    pub elapsed: Duration,
    /// The message for the error log, in nginx's words.
    pub error: Option<String>,
    /// What a failed origin wrote to stderr. For the origin that answered see
    /// [`AnswerBody::stderr`](crate::AnswerBody::stderr).
    pub stderr: Vec<String>,
    /// Bytes sent to it, by then.
    pub sent_bytes: u64,
    /// Bytes received from it, by then.
    pub received_bytes: u64,
    /// Whether it is the first attempt of a fetch. A request may have several fetches, because of internal redirects.
    pub begins: bool,
    chosen_at: Instant,
}

impl Attempt {
    pub(crate) fn new(pick: &Pick, begins: bool, chosen_at: Instant) -> Attempt {
        Attempt::blank(pick.shown().clone(), begins, chosen_at)
    }

    /// No origin of this group could be asked.
    pub(crate) fn of_nobody(group: &str, error: &FetchError, begins: bool, now: Instant) -> Attempt {
        let status = error.status();
        let blank = Attempt::blank(group.into(), begins, now);
        Attempt { line: Line::None, status, error: Some(error.to_string()), ..blank }
    }

    fn blank(address: Arc<str>, begins: bool, chosen_at: Instant) -> Attempt {
        Attempt {
            address,
            line: Line::New,
            status: None,
            connect: None,
            header: None,
            elapsed: Duration::ZERO,
            error: None,
            stderr: Vec::new(),
            sent_bytes: 0,
            received_bytes: 0,
            begins,
            chosen_at,
        }
    }

    /// When this origin was chosen.
    pub(crate) fn chosen_at(&self) -> Instant {
        self.chosen_at
    }

    /// How long ago this origin was chosen.
    pub fn age(&self) -> Duration {
        self.chosen_at.elapsed()
    }

    /// Adds the time and bytes since the head, up to now: of the body, or of a tunnel.
    pub fn note_end(&mut self) {
        self.elapsed = self.age();
    }

    /// Notes that the head of an answer was read.
    pub(crate) fn note_head(&mut self, status: u16, now: Instant) {
        self.elapsed = now.saturating_duration_since(self.chosen_at);
        self.status = Some(status);
        self.header = Some(self.elapsed);
    }

    /// Notes why there is no answer.
    pub(crate) fn note_failure(&mut self, error: &FetchError, now: Instant) {
        self.elapsed = now.saturating_duration_since(self.chosen_at);
        self.status = error.status();
        self.error = Some(error.to_string());
    }
}
