//! The end of a thread that rests between its turns.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// What tells a thread that it is to end.
#[derive(Default)]
pub(crate) struct Ending {
    is_over: Mutex<bool>,
    ended: Condvar,
}

impl Ending {
    /// Whether it is to end.
    pub fn is_over(&self) -> bool {
        *self.is_over.lock()
    }

    /// Has it end. What goes through [`unless_over`](Self::unless_over) is done when this returns, or never begins.
    pub fn end(&self) {
        *self.is_over.lock() = true;
        self.ended.notify_all();
    }

    /// Waits that long, unless it is to end before. Whether it is.
    pub fn rest(&self, time: Duration) -> bool {
        let mut is_over = self.is_over.lock();
        self.ended.wait_while_for(&mut is_over, |is_over| !*is_over, time);
        *is_over
    }

    /// Does something, and returns what came of it; `None`, and nothing is done, if it is to end.
    pub fn unless_over<T>(&self, act: impl FnOnce() -> T) -> Option<T> {
        let is_over = self.is_over.lock();
        (!*is_over).then(act)
    }
}
