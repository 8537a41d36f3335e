//! The gate of a worker: requests wait here while memory is short, first come, first served.
//!
//! A request that was read waits with its bytes in memory, so only a bounded number does; beyond that, connections wait
//! before they read, which costs only the connection. A hit in memory passes the gate, as long as its request is read.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use tokio::sync::Notify;

/// The counts of one worker, shared with the thread that watches memory.
#[derive(Debug)]
pub struct Counts {
    /// How many requests run.
    running: AtomicU64,
    /// How many requests and connections wait.
    waiting: AtomicU64,
    /// How many requests may run.
    running_max: AtomicU64,
    /// How many connections may be accepted until the next look.
    connections: AtomicU64,
    /// Notified when more requests may run.
    more: Notify,
    /// Notified at each look.
    looked: Notify,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            running: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            running_max: AtomicU64::new(u64::MAX),
            connections: AtomicU64::new(u64::MAX),
            more: Notify::new(),
            looked: Notify::new(),
        }
    }
}

impl Counts {
    /// How many requests run.
    pub fn running(&self) -> u64 {
        self.running.load(Ordering::Relaxed)
    }

    /// How many requests and connections wait.
    pub fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Sets how many requests may run, and how many connections may be accepted until the next call.
    pub fn allow(&self, running_max: u64, connections: u64) {
        self.running_max.store(running_max, Ordering::Relaxed);
        self.connections.store(connections, Ordering::Relaxed);
        self.looked.notify_waiters();
        if self.waiting() > 0 {
            self.more.notify_one();
        }
    }

    /// Waits until a connection may be accepted.
    pub async fn accept(&self) {
        loop {
            let looked = self.looked.notified();
            match self.connections.load(Ordering::Relaxed) {
                u64::MAX => return,
                0 => looked.await,
                left => {
                    // If the watch has changed the number meanwhile, one connection more or less is accepted.
                    self.connections.store(left - 1, Ordering::Relaxed);
                    return;
                }
            }
        }
    }

    fn is_full(&self) -> bool {
        self.running() >= self.running_max.load(Ordering::Relaxed)
    }
}

/// The gate of one worker.
#[derive(Debug, Default)]
pub struct Gate {
    counts: Arc<Counts>,
    /// Requests that were read and wait to run.
    requests: Line,
    /// Connections that wait to read their request.
    connections: Line,
    /// How many connections were called to read and have not heard it yet.
    called: Cell<usize>,
}

/// Waiters for the same thing, in order of arrival.
#[derive(Debug, Default)]
struct Line {
    queue: RefCell<VecDeque<Rc<Ticket>>>,
    len: Cell<usize>,
}

/// A place in a line.
#[derive(Debug, Default)]
struct Ticket {
    state: Cell<State>,
    waker: RefCell<Option<Waker>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Waiting,
    /// It is this waiter's turn.
    Called,
    /// The waiter has gone away.
    Left,
}

/// A request that runs, until this is dropped.
#[derive(Debug)]
pub struct Admission {
    gate: Rc<Gate>,
}

impl Gate {
    /// A gate that is open until `counts` get a limit.
    pub fn new(counts: Arc<Counts>) -> Rc<Self> {
        Rc::new(Self { counts, ..Self::default() })
    }

    /// The counts that the watch sees.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Waits until a request may run. Dropping the future gives up its place.
    pub async fn admit(self: &Rc<Self>) -> Admission {
        match self.try_admit() {
            Some(admission) => admission,
            None => {
                self.wait(For::Running).await;
                Admission { gate: Rc::clone(self) }
            }
        }
    }

    /// Lets a request run if nobody has to wait.
    pub fn try_admit(self: &Rc<Self>) -> Option<Admission> {
        if self.counts.is_full() || self.requests.len.get() > 0 {
            return None;
        }
        add(&self.counts.running, 1);
        Some(Admission { gate: Rc::clone(self) })
    }

    /// Whether so many requests wait that no more are read.
    #[inline]
    pub fn is_crowded(&self) -> bool {
        self.requests.len.get() >= READ_MAX || self.connections.len.get() > 0
    }

    /// Waits until a connection may read. Dropping the future gives up its place.
    pub fn may_read(self: &Rc<Self>) -> Wait {
        self.wait(For::Reading)
    }

    fn wait(self: &Rc<Self>, what: For) -> Wait {
        let ticket = Rc::new(Ticket::default());
        self.line(what).push(&ticket);
        add(&self.counts.waiting, 1);
        Wait { gate: Rc::clone(self), ticket, what }
    }

    /// Waits until more requests may run.
    pub async fn more(&self) {
        self.counts.more.notified().await;
    }

    /// Lets in as many waiters as may run.
    pub fn let_in(&self) {
        while !self.counts.is_full() && self.requests.call() {
            add(&self.counts.waiting, -1);
            add(&self.counts.running, 1);
        }
        while self.requests.len.get() + self.called.get() < READ_MAX && self.connections.call() {
            add(&self.counts.waiting, -1);
            self.called.set(self.called.get() + 1);
        }
    }

    fn leave(&self) {
        add(&self.counts.running, -1);
        if self.counts.waiting() > 0 {
            self.let_in();
        }
    }

    fn line(&self, what: For) -> &Line {
        match what {
            For::Running => &self.requests,
            For::Reading => &self.connections,
        }
    }
}

impl Line {
    fn push(&self, ticket: &Rc<Ticket>) {
        self.queue.borrow_mut().push_back(Rc::clone(ticket));
        self.len.set(self.len.get() + 1);
    }

    /// Calls the first waiter; false if there is none.
    fn call(&self) -> bool {
        loop {
            let Some(ticket) = self.queue.borrow_mut().pop_front() else { return false };
            match ticket.state.get() {
                State::Waiting => {
                    self.len.set(self.len.get() - 1);
                    ticket.state.set(State::Called);
                    if let Some(waker) = ticket.waker.take() {
                        waker.wake();
                    }
                    return true;
                }
                State::Called | State::Left => {}
            }
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.gate.leave();
    }
}

/// What a waiter waits for.
#[derive(Clone, Copy, Debug)]
enum For {
    Running,
    Reading,
}

/// A waiter's wait for its turn.
#[derive(Debug)]
pub struct Wait {
    gate: Rc<Gate>,
    ticket: Rc<Ticket>,
    what: For,
}

impl Wait {
    /// Notes that this waiter has heard its call.
    fn arrived(&self) {
        match self.what {
            For::Running => {}
            For::Reading => self.gate.called.set(self.gate.called.get() - 1),
        }
    }
}

impl Future for Wait {
    type Output = ();

    fn poll(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<()> {
        if self.ticket.state.get() == State::Called {
            self.ticket.state.set(State::Left);
            self.arrived();
            return Poll::Ready(());
        }
        *self.ticket.waker.borrow_mut() = Some(task.waker().clone());
        Poll::Pending
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        match self.ticket.state.replace(State::Left) {
            State::Waiting => {
                let line = self.gate.line(self.what);
                line.len.set(line.len.get() - 1);
                add(&self.gate.counts.waiting, -1);
            }
            State::Called => {
                self.arrived();
                match self.what {
                    For::Running => self.gate.leave(),
                    For::Reading => self.gate.let_in(),
                }
            }
            State::Left => {}
        }
    }
}

/// Changes a count. Only the worker itself does so, so that no atomic addition is needed.
fn add(count: &AtomicU64, n: i64) {
    count.store(count.load(Ordering::Relaxed).wrapping_add_signed(n), Ordering::Relaxed);
}

/// How many requests wait with their bytes in memory: some KB each.
const READ_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    fn gate(running_max: u64) -> Rc<Gate> {
        let counts = Arc::new(Counts::default());
        counts.allow(running_max, 1);
        Gate::new(counts)
    }

    fn poll<F: Future>(future: Pin<&mut F>) -> Option<F::Output> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    fn enter(gate: &Rc<Gate>) -> Admission {
        poll(pin!(gate.admit())).expect("it is let in at once")
    }

    #[test]
    fn who_comes_first_is_let_in_first() {
        let gate = gate(1);
        let running = enter(&gate);
        let (mut first, mut second) = (pin!(gate.admit()), pin!(gate.admit()));
        assert!(poll(first.as_mut()).is_none() && poll(second.as_mut()).is_none());
        assert_eq!((gate.counts.running(), gate.counts.waiting()), (1, 2));
        drop(running);
        assert!(poll(second.as_mut()).is_none());
        let running = poll(first.as_mut()).expect("it is the first one's turn");
        assert_eq!((gate.counts.running(), gate.counts.waiting()), (1, 1));
        gate.counts.allow(2, 1);
        gate.let_in();
        let other = poll(second.as_mut()).expect("two may run");
        drop((running, other));
        assert_eq!((gate.counts.running(), gate.counts.waiting()), (0, 0));
    }

    #[test]
    fn who_leaves_takes_no_turn() {
        let gate = gate(1);
        let running = enter(&gate);
        let (mut first, mut second) = (Box::pin(gate.admit()), Box::pin(gate.admit()));
        let mut third = pin!(gate.admit());
        assert!(poll(first.as_mut()).is_none() && poll(second.as_mut()).is_none() && poll(third.as_mut()).is_none());
        drop(first);
        drop(running);
        // The second was let in and never ran.
        drop(second);
        let running = poll(third.as_mut()).expect("nobody is before it");
        assert_eq!((gate.counts.running(), gate.counts.waiting()), (1, 0));
        drop(running);
        assert_eq!(gate.counts.running(), 0);
    }

    #[test]
    fn nobody_passes_those_who_wait() {
        let gate = gate(1);
        let running = enter(&gate);
        let mut first = pin!(gate.admit());
        assert!(poll(first.as_mut()).is_none());
        gate.counts.allow(5, 1);
        let mut second = pin!(gate.admit());
        assert!(poll(second.as_mut()).is_none(), "one waits");
        gate.let_in();
        assert!(poll(first.as_mut()).is_some() && poll(second.as_mut()).is_some());
        drop(running);
    }

    #[test]
    fn connections_wait_unread_behind_a_number_of_requests() {
        let gate = gate(1);
        let running = enter(&gate);
        let mut requests: Vec<_> = (0..READ_MAX).map(|_| Box::pin(gate.admit())).collect();
        for request in &mut requests {
            assert!(!gate.is_crowded());
            assert!(poll(request.as_mut()).is_none());
        }
        assert!(gate.is_crowded());
        let (mut one, two, mut three) = (pin!(gate.may_read()), gate.may_read(), pin!(gate.may_read()));
        assert!(poll(one.as_mut()).is_none() && poll(three.as_mut()).is_none());
        gate.counts.allow(2, 1);
        gate.let_in();
        assert!(poll(three.as_mut()).is_none(), "one request fewer waits, so one connection may read");
        poll(one.as_mut()).expect("it came first");
        // This one had nothing to read, and the next one left: both give their turns to those behind them.
        gate.let_in();
        drop(two);
        poll(three.as_mut()).expect("nobody is before it");
        drop((running, requests));
        assert_eq!((gate.counts.running(), gate.counts.waiting(), gate.called.get()), (0, 0, 0));
        assert!(!gate.is_crowded());
    }

    #[test]
    fn so_many_connections_are_accepted_between_two_looks() {
        let counts = Counts::default();
        assert!(poll(pin!(counts.accept())).is_some());
        counts.allow(u64::MAX, 2);
        assert!(poll(pin!(counts.accept())).is_some() && poll(pin!(counts.accept())).is_some());
        let mut third = pin!(counts.accept());
        assert!(poll(third.as_mut()).is_none());
        counts.allow(u64::MAX, 0);
        assert!(poll(third.as_mut()).is_none());
        counts.allow(u64::MAX, 1);
        assert!(poll(third.as_mut()).is_some());
    }
}
