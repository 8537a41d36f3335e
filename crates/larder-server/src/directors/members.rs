//! The members of a director, in the order in which they were added.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
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

/// All members. Who chooses takes those of one moment, and writes to nothing that others read.
#[derive(Debug, Default)]
pub struct Members {
    list: ArcSwap<Vec<Member>>,
    /// Held while the list is exchanged. Not held across an await.
    changing: Mutex<()>,
}

impl Members {
    /// Those of this moment.
    pub fn now(&self) -> Guard<Arc<Vec<Member>>> {
        self.list.load()
    }

    /// Adds one behind the others; a backend may be there several times. False if there are [`MEMBERS_MAX`].
    pub fn add(&self, member: Member) -> bool {
        let _changing = self.changing.lock();
        let list = self.now();
        let has_room = list.len() < MEMBERS_MAX;
        if has_room {
            self.list.store(Arc::new(list.iter().copied().chain([member]).collect()));
        }
        has_room
    }

    /// Removes the first that is this backend, and returns its place.
    pub fn remove(&self, backend: Number) -> Option<usize> {
        let _changing = self.changing.lock();
        let list = self.now();
        let at = list.iter().position(|member| member.backend == backend)?;
        self.list.store(Arc::new(list[..at].iter().chain(&list[at + 1..]).copied().collect()));
        Some(at)
    }
}
