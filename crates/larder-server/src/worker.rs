//! What the connections of one worker thread share. No other thread touches it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use larder_acme::Responses;
use larder_http::Time;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::acme_sharing::AcmeSharing;
use crate::cluster::Sharing;
use crate::compressor::Compressor;

use crate::dash::Dash;
use crate::exchange::{Client, Exchange};
use crate::files::kept::KeptFiles;
use crate::local::Local;
use crate::misses::{AllMisses, Misses};
use crate::net::Buffers;
use crate::pipes::Pipes;
use crate::pressure::{Gate, Pressure};
use crate::refill::Refill;
use crate::seats::Seats;
use crate::stats::{AllStats, Stats, Sums};
use crate::turns::Turns;
use crate::vmods::Vmods;
use crate::vsl::Hub;

/// How many exchanges are kept for reuse.
const POOLED_MAX: usize = 256;

/// What all workers of the process share.
#[derive(Clone, Default)]
pub struct Shared {
    /// The counters of each worker.
    pub stats: AllStats,
    /// The threads that compress pages.
    pub compressor: Arc<Compressor>,
    /// The answers to challenges of the certificate authority (ACME).
    pub challenges: Arc<Responses>,
    /// Other larders that have such answers, too.
    pub acme_sharing: Arc<AcmeSharing>,
    /// The limits on memory.
    pub pressure: Arc<Pressure>,
    /// What modules of VCL keep.
    pub vmods: Arc<Vmods>,
    /// The pipes of VCLs.
    pub pipes: Arc<Pipes>,
    /// The transaction log.
    pub log: Arc<Hub>,
    /// Purges that are shared with other larders.
    pub sharing: Arc<Sharing>,
    /// Pages that are to be fetched again.
    pub refill: Arc<Refill>,
    /// What each worker knows of requests that were no hits.
    pub misses: AllMisses,
    /// How many serving processes have died before this one.
    pub respawned: u32,
    /// The last minute and the last hour, for the dashboard.
    pub dash: Arc<Dash>,
    /// Who explains to the dashboard what becomes of a request.
    pub explain: Option<Explain>,
}

/// Explains a question as `larder explain` asks it, in words.
pub type Explain = fn(&str, &Rc<Worker>) -> Result<String, String>;

/// A worker: it lives as long as its thread.
pub struct Worker {
    /// Its counters.
    pub stats: Arc<Stats>,
    /// What it shares with the other workers.
    pub shared: Shared,
    current: RefCell<Rc<Local>>,
    /// The buffers that it lends to the connection at work.
    pub buffers: Rc<Buffers>,
    /// TLS handshakes take turns: one signature a turn of the loop, so that many of them do not delay everybody's
    /// pages.
    pub handshakes: Turns,
    /// The gate where requests wait while memory is short.
    pub gate: Rc<Gate>,
    /// Large transfers take turns too ([`Transfer`](crate::turns::Transfer)).
    pub transfers: Rc<Turns>,
    #[allow(clippy::vec_box, reason = "exchanges are large and move between steps as boxes")]
    pool: RefCell<Vec<Box<Exchange>>>,
    /// Its connections, and all else that has to end before it.
    pub seats: Rc<Seats>,
    seed: Cell<u64>,
    lines: Lines,
    /// Small files, under any configuration.
    pub kept: RefCell<KeptFiles>,
    /// How many copies of requests are being sent to mirrors.
    pub mirrored: Cell<usize>,
    /// Why requests of the last minutes were no hits.
    pub misses: Arc<Mutex<Misses>>,
    /// Whether a request is being answered without waiting.
    pub at_once: Cell<bool>,
    /// Whether the current request was read together with the one before it.
    pub is_pipelined: Cell<bool>,
}

/// Log lines that are written at the end of this turn of the loop.
#[derive(Default)]
struct Lines {
    /// The configurations with waiting lines.
    of: RefCell<Vec<Rc<Local>>>,
    come: Notify,
}

impl Worker {
    /// A worker that begins with the configuration `local`.
    pub fn new(local: Rc<Local>, shared: Shared) -> Rc<Self> {
        use std::hash::{BuildHasher as _, RandomState};
        let stats = shared.stats.add_worker();
        let misses = shared.misses.add_worker(Arc::clone(&stats));
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
            kept: RefCell::default(),
            mirrored: Cell::new(0),
            misses,
            at_once: Cell::new(false),
            is_pipelined: Cell::new(false),
        })
    }

    /// The configuration of requests that begin now.
    pub fn local(&self) -> Rc<Local> {
        Rc::clone(&self.current.borrow())
    }

    /// Makes `local` the configuration of requests that begin from now on.
    pub fn configure(&self, local: Rc<Local>) {
        *self.current.borrow_mut() = local;
    }

    /// An exchange for a request of `client`: a pooled one if there is one.
    pub fn exchange(&self, client: &Rc<Client>) -> Box<Exchange> {
        match self.pool.borrow_mut().pop() {
            Some(mut exchange) => {
                exchange.reset(client);
                exchange
            }
            None => Exchange::new(Rc::clone(client)),
        }
    }

    /// Takes an exchange back into the pool.
    pub fn recycle(&self, mut exchange: Box<Exchange>) {
        // Limits, files and the like are released now, not at the next use.
        exchange.release();
        let mut pool = self.pool.borrow_mut();
        if pool.len() < POOLED_MAX {
            pool.push(exchange);
        }
    }

    /// Notes that `local` has log lines to be written at the end of this turn of the loop.
    pub fn lines_wait(&self, local: &Rc<Local>) {
        self.lines.of.borrow_mut().push(Rc::clone(local));
        self.lines.come.notify_one();
    }

    /// Waits until there are such lines.
    pub async fn lines(&self) {
        self.lines.come.notified().await;
    }

    /// Writes such lines.
    pub fn write_lines(&self, now: Time) {
        let mut logging = std::mem::take(&mut *self.lines.of.borrow_mut());
        for local in logging.drain(..) {
            local.logs.end_turn(&local.site, now);
        }
        // The list's memory is used again.
        *self.lines.of.borrow_mut() = logging;
    }

    /// The counters of all workers, summed.
    pub fn shared_stats(&self) -> Sums {
        self.shared.stats.sums(self.at_once.get())
    }

    /// The counters of each worker.
    pub fn stats_of_workers(&self) -> Vec<Sums> {
        self.shared.stats.each()
    }

    /// A random number; not secret.
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

/// How long the client's connection has been open.
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
            xid: Cell::default(),
            log: RefCell::default(),
            ids: None,
            secured: crate::exchange::Secured::Not,
        };
        assert_eq!(age(&client, Time(3500)).as_millis(), 2500);
        assert_eq!(age(&client, Time(0)).as_millis(), 0, "a clock that was set back");
    }
}
