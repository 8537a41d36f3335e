//! Keeps track of a worker's connections, and of all else that has to end before the worker.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use larder_http::Time;
use tokio::sync::Notify;

use crate::stats::Stats;

/// How long a connection counts as just opened.
const FRESH: Duration = Duration::from_millis(500);

/// The connections of a worker, and what else runs on it.
pub struct Seats {
    stats: Arc<Stats>,
    idle: RefCell<Vec<Option<Waker>>>,
    free: RefCell<Vec<usize>>,
    /// Connections that were opened before this time close after their current request: none, those before a reload, or
    /// all.
    outdated: Cell<Time>,
    closing: Cell<bool>,
    closes: Notify,
    open: Cell<usize>,
    background: Cell<usize>,
    ended: Notify,
}

/// A connection's entry among those that a stop has to wake.
pub struct Seat {
    seats: Rc<Seats>,
    index: usize,
}

/// Something that has to end before the worker, until this is dropped.
pub struct Running {
    seats: Rc<Seats>,
}

impl Seats {
    /// No connection yet. Open connections are counted in `stats`.
    pub fn new(stats: Arc<Stats>) -> Self {
        Self {
            stats,
            idle: RefCell::default(),
            free: RefCell::default(),
            outdated: Cell::new(Time(0)),
            closing: Cell::new(false),
            closes: Notify::new(),
            open: Cell::new(0),
            background: Cell::new(0),
            ended: Notify::new(),
        }
    }

    /// Whether the worker is about to end.
    pub fn is_closing(&self) -> bool {
        self.closing.get()
    }

    /// Waits until the worker is about to end.
    pub async fn is_to_close(&self) {
        while !self.closing.get() {
            self.closes.notified().await;
        }
    }

    /// Whether a connection opened at `began` shall close when it is idle.
    pub fn is_over(&self, began: Time) -> bool {
        began < self.outdated.get()
    }

    /// Whether a connection opened at `began` shall close after its current response.
    pub fn is_last(&self, began: Time) -> bool {
        self.closing.get() || self.is_over(began)
    }

    /// Closes connections that are idle at `now`, and all others after their current response. A client that has just
    /// connected is about to send a request and gets a moment for it.
    pub async fn close(&self, now: Time) {
        self.closing.set(true);
        self.closes.notify_waiters();
        let moment = u64::try_from(FRESH.as_millis()).unwrap_or(u64::MAX);
        self.close_older(Time(now.0.saturating_sub(moment)));
        tokio::time::sleep(FRESH).await;
        self.close_older(Time(u64::MAX));
    }

    /// The same for connections that were opened before `time`.
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

    /// Marks something as running, until the returned value is dropped.
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
    /// Keeps the waker that is called when the worker stops.
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
