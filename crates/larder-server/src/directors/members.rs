//! The members of a director, in the order in which they were added.

use std::sync::Arc;

use parking_lot::Mutex;

use super::judge::Number;

/// How many members a director may have. A VCL may add some with each request.
pub const MEMBERS_MAX: usize = 10_000;

/// A member.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Member {
    /// A backend, or another director.
    pub backend: Number,
    /// Its share of the requests, beside those of the others.
    pub weight: f64,
}

/// All members. Who chooses takes those of one moment, and holds no lock while it asks for their health.
#[derive(Debug, Default)]
pub struct Members {
    /// Guards which list is the current one. Not held across an await.
    list: Mutex<Arc<[Member]>>,
}

impl Members {
    /// Those of this moment.
    pub fn now(&self) -> Arc<[Member]> {
        Arc::clone(&self.list.lock())
    }

    /// Adds one behind the others; a backend may be there several times. False if there are [`MEMBERS_MAX`].
    pub fn add(&self, member: Member) -> bool {
        let mut list = self.list.lock();
        let has_room = list.len() < MEMBERS_MAX;
        if has_room {
            *list = list.iter().copied().chain([member]).collect();
        }
        has_room
    }

    /// Removes the first that is this backend, and returns its place.
    pub fn remove(&self, backend: Number) -> Option<usize> {
        let mut list = self.list.lock();
        let at = list.iter().position(|member| member.backend == backend)?;
        *list = list[..at].iter().chain(&list[at + 1..]).copied().collect();
        Some(at)
    }
}
