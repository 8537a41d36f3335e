//! A worker thread: what its connections share. Nothing here is touched by another thread.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use larder_acme::Responses;
use larder_http::Time;
use tokio::sync::Notify;

use crate::compressor::Compressor;

use crate::exchange::{Client, Exchange};
use crate::local::Local;
use crate::net::Buffers;
use crate::pressure::{Gate, Pressure};
use crate::seats::Seats;
use crate::stats::{AllStats, Stats, Sums};
use crate::turns::Turns;

/// How many exchanges wait to be used again.
const POOLED_MAX: usize = 256;

/// What all workers of a process share.
#[derive(Clone, Default)]
pub struct Shared {
    /// The counters of each.
    pub stats: AllStats,
    /// Who compresses pages.
    pub compressor: Arc<Compressor>,
    /// What the certificate authority is answered.
    pub challenges: Arc<Responses>,
    /// What limits the process.
    pub pressure: Arc<Pressure>,
}

/// What lives as long as the thread.
pub struct Worker {
    /// Its counters.
    pub stats: Arc<Stats>,
    /// What it shares with the others.
    pub shared: Shared,
    current: RefCell<Rc<Local>>,
    /// Lent to whoever is at work.
    pub buffers: Rc<Buffers>,
    /// Handshakes take turns: one signature a turn of the loop, so that nobody's page waits for a crowd of them.
    pub handshakes: Turns,
    /// Where requests wait that find no memory.
    pub gate: Rc<Gate>,
    /// Large transfers likewise ([`Transfer`](crate::turns::Transfer)).
    pub transfers: Rc<Turns>,
    #[allow(clippy::vec_box, reason = "exchanges are large and move between steps as boxes")]
    pool: RefCell<Vec<Box<Exchange>>>,
    /// Its connections, and what else has to end before it.
    pub seats: Rc<Seats>,
    seed: Cell<u64>,
    lines: Lines,
    /// How many copies of requests are on their way to mirrors.
    pub mirrored: Cell<usize>,
    /// Whether a request is being answered without waiting.
    pub at_once: Cell<bool>,
    /// Whether the request at hand was read together with the one before it.
    pub is_pipelined: Cell<bool>,
}

/// Lines of logs that are written at the end of this turn of the loop.
#[derive(Default)]
struct Lines {
    /// The configurations whose logs have some.
    of: RefCell<Vec<Rc<Local>>>,
    come: Notify,
}

impl Worker {
    /// A worker that begins with `local`.
    pub fn new(local: Rc<Local>, shared: Shared) -> Rc<Self> {
        use std::hash::{BuildHasher as _, RandomState};
        let stats = shared.stats.add_worker();
        let seats = Rc::new(Seats::new(Arc::clone(&stats)));
        let gate = Gate::new(shared.pressure.add_worker());
        Rc::new(Self {
            stats,
            shared,
            current: RefCell::new(local),
            buffers: Rc::default(),
            handshakes: Turns::default(),
            gate,
            transfers: Rc::default(),
            pool: RefCell::default(),
            seats,
            seed: Cell::new(RandomState::new().hash_one(std::process::id()) | 1),
            lines: Lines::default(),
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

    /// Remembers that logs of `local` have lines to be written at the end of this turn of the loop.
    pub fn lines_wait(&self, local: &Rc<Local>) {
        self.lines.of.borrow_mut().push(Rc::clone(local));
        self.lines.come.notify_one();
    }

    /// Waits until there are such lines.
    pub async fn lines(&self) {
        self.lines.come.notified().await;
    }

    /// Writes them.
    pub fn write_lines(&self, now: Time) {
        let mut logging = std::mem::take(&mut *self.lines.of.borrow_mut());
        for local in logging.drain(..) {
            local.logs.end_turn(&local.site, now);
        }
        // The room is used again.
        *self.lines.of.borrow_mut() = logging;
    }

    /// The counters of all workers, summed.
    pub fn shared_stats(&self) -> Sums {
        self.shared.stats.sums(self.at_once.get())
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
