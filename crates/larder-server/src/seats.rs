//! The connections of a worker, and what else has to end before the worker may.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use larder_http::Time;
use tokio::sync::Notify;

use crate::stats::Stats;

/// How long a connection counts as one that has only just begun.
const FRESH: Duration = Duration::from_millis(500);

/// The connections of a worker, and what else runs on it.
pub struct Seats {
    stats: Arc<Stats>,
    idle: RefCell<Vec<Option<Waker>>>,
    free: RefCell<Vec<usize>>,
    /// Connections that began before are to end with what they do now: none, those before a reload, or all.
    outdated: Cell<Time>,
    closing: Cell<bool>,
    open: Cell<usize>,
    background: Cell<usize>,
    ended: Notify,
}

/// A connection's place among those that a stop has to wake.
pub struct Seat {
    seats: Rc<Seats>,
    index: usize,
}

/// Something that runs and must end before the worker may.
pub struct Running {
    seats: Rc<Seats>,
}

impl Seats {
    /// Nobody has connected yet. Connections are counted in `stats`.
    pub fn new(stats: Arc<Stats>) -> Self {
        Self {
            stats,
            idle: RefCell::default(),
            free: RefCell::default(),
            outdated: Cell::new(Time(0)),
            closing: Cell::new(false),
            open: Cell::new(0),
            background: Cell::new(0),
            ended: Notify::new(),
        }
    }

    /// Whether a connection that began then is to close when it has nothing to do.
    pub fn is_over(&self, began: Time) -> bool {
        began < self.outdated.get()
    }

    /// Whether a connection is to close after the response at hand.
    pub fn is_last(&self, began: Time) -> bool {
        self.closing.get() || self.is_over(began)
    }

    /// Tells connections that are idle at `now` to close, and all others to close after the response at hand. Who has
    /// only just connected is about to say something, and has a moment for it.
    pub async fn close(&self, now: Time) {
        self.closing.set(true);
        let moment = u64::try_from(FRESH.as_millis()).unwrap_or(u64::MAX);
        self.close_older(Time(now.0.saturating_sub(moment)));
        tokio::time::sleep(FRESH).await;
        self.close_older(Time(u64::MAX));
    }

    /// The same for connections that began before `time`.
    pub fn close_older(&self, time: Time) {
        self.outdated.set(time.max(self.outdated.get()));
        for waker in self.idle.borrow_mut().iter_mut().filter_map(Option::take) {
            waker.wake();
        }
    }

    /// A seat for a new connection.
    pub fn sit(self: &Rc<Self>) -> Seat {
        self.open.set(self.open.get() + 1);
        self.stats.accepted.add(1);
        self.stats.active.add(1);
        let mut idle = self.idle.borrow_mut();
        let index = self.free.borrow_mut().pop().unwrap_or_else(|| {
            idle.push(None);
            idle.len() - 1
        });
        Seat { seats: Rc::clone(self), index }
    }

    /// Marks something as running, until what is returned is dropped.
    pub fn begin(self: &Rc<Self>) -> Running {
        self.background.set(self.background.get() + 1);
        Running { seats: Rc::clone(self) }
    }

    /// Waits until no connection is open and nothing runs.
    pub async fn all_ended(&self) {
        while self.open.get() > 0 || self.background.get() > 0 {
            self.ended.notified().await;
        }
    }
}

impl Seat {
    /// Remembers whom to wake when the worker stops.
    pub fn park(&self, waker: &Waker) {
        let mut idle = self.seats.idle.borrow_mut();
        let place = &mut idle[self.index];
        if !place.as_ref().is_some_and(|old| old.will_wake(waker)) {
            *place = Some(waker.clone());
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.idle.borrow_mut()[self.index] = None;
        self.seats.free.borrow_mut().push(self.index);
        self.seats.stats.active.sub(1);
        self.seats.open.set(self.seats.open.get() - 1);
        self.seats.ended.notify_one();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.seats.background.set(self.seats.background.get() - 1);
        self.seats.ended.notify_one();
    }
}
