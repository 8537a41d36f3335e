//! A worker thread: what its connections share. Nothing here is touched by another thread.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use larder_acme::Responses;
use larder_http::Time;
use tokio::sync::Notify;

use crate::compressor::Compressor;

use crate::exchange::{Client, Exchange};
use crate::local::Local;
use crate::net::Buffers;
use crate::pressure::{Gate, Pressure};
use crate::stats::{AllStats, Stats, Sums};
use crate::turns::Turns;

/// How many exchanges wait to be used again.
const POOLED_MAX: usize = 256;
/// How long a connection counts as one that has only just begun.
const FRESH: Duration = Duration::from_millis(500);

/// What lives as long as the thread.
pub struct Worker {
    /// Its counters.
    pub stats: Arc<Stats>,
    /// Who compresses pages, for all workers.
    pub compressor: Arc<Compressor>,
    /// What the certificate authority is answered, for all workers.
    pub challenges: Arc<Responses>,
    all_stats: AllStats,
    current: RefCell<Rc<Local>>,
    /// Lent to whoever is at work.
    pub buffers: Rc<Buffers>,
    /// Handshakes take turns: one signature a turn of the loop, so that nobody's page waits for a crowd of them.
    pub handshakes: Turns,
    /// Where requests wait that find no memory.
    pub gate: Rc<Gate>,
    /// What limits the process.
    pub pressure: Arc<Pressure>,
    /// Large transfers likewise ([`Transfer`](crate::turns::Transfer)).
    pub transfers: Rc<Turns>,
    #[allow(clippy::vec_box, reason = "exchanges are large and move between steps as boxes")]
    pool: RefCell<Vec<Box<Exchange>>>,
    idle: RefCell<Vec<Option<Waker>>>,
    free: RefCell<Vec<usize>>,
    /// Connections that began before are to end with what they do now: none, those before a reload, or all.
    outdated: Cell<Time>,
    closing: Cell<bool>,
    open: Cell<usize>,
    background: Cell<usize>,
    ended: Notify,
    seed: Cell<u64>,
    /// Configurations whose logs have lines of this turn.
    logging: RefCell<Vec<Rc<Local>>>,
    lines: Notify,
    /// How many copies of requests are on their way to mirrors.
    pub mirrored: Cell<usize>,
    /// Whether a request is being answered without waiting.
    pub at_once: Cell<bool>,
    /// Whether the request at hand was read together with the one before it.
    pub is_pipelined: Cell<bool>,
}

/// A connection's place among those that a stop has to wake.
pub struct Seat {
    worker: Rc<Worker>,
    index: usize,
}

/// Something that runs and must end before the worker may.
pub struct Running {
    worker: Rc<Worker>,
}

impl Worker {
    /// A worker that begins with `local`.
    pub fn new(
        local: Rc<Local>,
        all_stats: &AllStats,
        compressor: Arc<Compressor>,
        challenges: Arc<Responses>,
        pressure: Arc<Pressure>,
    ) -> Rc<Self> {
        use std::hash::{BuildHasher as _, RandomState};
        Rc::new(Self {
            stats: all_stats.add_worker(),
            compressor,
            challenges,
            all_stats: all_stats.clone(),
            current: RefCell::new(local),
            buffers: Rc::default(),
            handshakes: Turns::default(),
            gate: Gate::new(pressure.add_worker()),
            pressure,
            transfers: Rc::default(),
            pool: RefCell::default(),
            idle: RefCell::default(),
            free: RefCell::default(),
            outdated: Cell::new(Time(0)),
            closing: Cell::new(false),
            open: Cell::new(0),
            background: Cell::new(0),
            ended: Notify::new(),
            seed: Cell::new(RandomState::new().hash_one(std::process::id()) | 1),
            logging: RefCell::default(),
            lines: Notify::new(),
            mirrored: Cell::new(0),
            at_once: Cell::new(false),
            is_pipelined: Cell::new(false),
        })
    }

    /// The configuration for a request that begins now.
    pub fn local(&self) -> Rc<Local> {
        Rc::clone(&self.current.borrow())
    }

    /// Requests that begin from now on run under `local`.
    pub fn configure(&self, local: Rc<Local>) {
        *self.current.borrow_mut() = local;
    }

    /// An exchange for a request of `client`: a used one if there is one.
    pub fn exchange(&self, client: &Rc<Client>) -> Box<Exchange> {
        match self.pool.borrow_mut().pop() {
            Some(mut exchange) => {
                exchange.reset(client);
                exchange
            }
            None => Exchange::new(Rc::clone(client)),
        }
    }

    /// Takes an exchange back, to be used again.
    pub fn recycle(&self, mut exchange: Box<Exchange>) {
        // What belongs to others, such as limits held or a file, is let go now and not at the next use.
        exchange.release();
        let mut pool = self.pool.borrow_mut();
        if pool.len() < POOLED_MAX {
            pool.push(exchange);
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
        Seat { worker: Rc::clone(self), index }
    }

    /// Marks something as running, until what is returned is dropped.
    pub fn exchange_begins(self: &Rc<Self>) -> Running {
        self.background.set(self.background.get() + 1);
        Running { worker: Rc::clone(self) }
    }

    /// Waits until no connection is open and nothing runs.
    pub async fn all_ended(&self) {
        while self.open.get() > 0 || self.background.get() > 0 {
            self.ended.notified().await;
        }
    }

    /// Remembers that logs of `local` have lines to be written at the end of this turn of the loop.
    pub fn lines_wait(&self, local: &Rc<Local>) {
        self.logging.borrow_mut().push(Rc::clone(local));
        self.lines.notify_one();
    }

    /// Waits until there are such lines.
    pub async fn lines(&self) {
        self.lines.notified().await;
    }

    /// Writes them.
    pub fn write_lines(&self, now: Time) {
        let mut logging = std::mem::take(&mut *self.logging.borrow_mut());
        for local in logging.drain(..) {
            local.logs.end_turn(&local.site, now);
        }
        // The room is used again.
        *self.logging.borrow_mut() = logging;
    }

    /// The counters of all workers, summed.
    pub fn shared_stats(&self) -> Sums {
        self.all_stats.sums(self.at_once.get())
    }

    /// A number that is different each time; not a secret.
    pub fn random(&self) -> u64 {
        // xorshift64*: enough for boundaries and request ids.
        let mut x = self.seed.get();
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.seed.set(x);
        x.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// 32 hexadecimal digits, for `$request_id`.
    pub fn random_hex(&self) -> [u8; 32] {
        let mut out = [0; 32];
        let bits = u128::from(self.random()) << 64 | u128::from(self.random());
        for (n, digit) in out.iter_mut().enumerate() {
            *digit = b"0123456789abcdef"[(bits >> (4 * n) & 0xf) as usize];
        }
        out
    }
}

impl Seat {
    /// Remembers whom to wake when the worker stops.
    pub fn park(&self, waker: &Waker) {
        let mut idle = self.worker.idle.borrow_mut();
        let place = &mut idle[self.index];
        if !place.as_ref().is_some_and(|old| old.will_wake(waker)) {
            *place = Some(waker.clone());
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.worker.idle.borrow_mut()[self.index] = None;
        self.worker.free.borrow_mut().push(self.index);
        self.worker.stats.active.sub(1);
        self.worker.open.set(self.worker.open.get() - 1);
        self.worker.ended.notify_one();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.worker.background.set(self.worker.background.get() - 1);
        self.worker.ended.notify_one();
    }
}

/// How long a connection has been open.
pub fn age(client: &Client, now: Time) -> std::time::Duration {
    now.since(client.began)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_grows_older() {
        let client = Client {
            id: 1,
            peer: None,
            local: None,
            bound: larder_conf::model::ListenAddress::Unix("/run/a.sock".into()),
            began: Time(1000),
            proxy: None,
            secured: crate::exchange::Secured::Not,
        };
        assert_eq!(age(&client, Time(3500)).as_millis(), 2500);
        assert_eq!(age(&client, Time(0)).as_millis(), 0, "a clock that was set back");
    }
}
