//! The idle connections of a group, one pool for all workers of the process. With one pool for each worker, several
//! times as many php-fpm children would be held by idle connections. The most recently used connection is taken first,
//! so that the others grow old and are closed. Idle connections belong to no runtime. A sweep closes those that are too
//! old or that the origin has closed, so that a site without visitors holds no child. It also closes idle connections
//! while a request on a new connection waits for a child.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use crate::{
    address::Address,
    connection::{Connection, Layers, Parked},
    limits::Bind,
};

/// Which connections of a group are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// `keepalive`: idle connections kept at most, 0 for none.
    pub idle_max: usize,
    /// `keepalive_requests`: requests a connection.
    pub requests: u64,
    /// `keepalive_timeout`: how long one may be idle.
    pub timeout: Duration,
    /// `keepalive_time`: how old one may be when it is put back.
    pub time: Duration,
}

impl Keepalive {
    /// Nothing is kept.
    pub const NONE: Keepalive = Keepalive::of(0);

    /// So many idle connections, and nginx's other defaults: 1000 requests, 60 s, 1 h.
    pub const fn of(idle_max: usize) -> Keepalive {
        Keepalive { idle_max, requests: 1000, timeout: Duration::from_secs(60), time: Duration::from_secs(3600) }
    }
}

pub(crate) struct Pool {
    keepalive: Keepalive,
    /// Not held across an await, nor a system call that may wait.
    state: Mutex<State>,
}

struct State {
    /// The most recently used is at the back.
    idle: VecDeque<Idle>,
    /// Whether a sweep runs on some worker.
    swept: bool,
    /// Requests on new FastCGI connections without an answer yet: number, server, and since when.
    waiting: Vec<(u64, Address, Instant)>,
    next_waiting: u64,
}

/// A request on a new FastCGI connection, until its response head is there.
///
/// A php-fpm child serves one connection until it is closed. If all children have kept connections, a new connection
/// waits in the queue of the socket, even if all the kept ones are idle.
pub(crate) struct Waiting {
    pool: Arc<Pool>,
    number: u64,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.pool.state.lock().waiting.retain(|(number, ..)| *number != self.number);
    }
}

struct Idle {
    parked: Parked,
    purpose: Purpose,
    since: Instant,
}

/// Which requests may use a kept connection: those with the same purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Purpose {
    /// Where the origin listens. As in nginx, servers with the same address share connections.
    pub(crate) server: Address,
    /// Our address, if `*_bind` sets one.
    pub(crate) bind: Option<Bind>,
    /// FastCGI or HTTP.
    pub(crate) speaks: Speaks,
    /// TLS and the PROXY header below that.
    pub(crate) layers: Layers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    FastCgi,
    Http,
}

/// How often idle connections are checked.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

impl Pool {
    pub(crate) fn new(keepalive: Keepalive) -> Arc<Pool> {
        let state = State { idle: VecDeque::new(), swept: false, waiting: Vec::new(), next_waiting: 0 };
        Arc::new(Pool { keepalive, state: Mutex::new(state) })
    }

    pub(crate) fn len(&self) -> usize {
        self.state.lock().idle.len()
    }

    /// Whether it keeps connections at all.
    pub(crate) fn keeps(&self) -> bool {
        self.keepalive.idle_max > 0
    }

    /// Notes a request on a new connection. `None` if connections are not kept, or hold no child.
    pub(crate) fn wait(self: &Arc<Self>, purpose: &Purpose) -> Option<Waiting> {
        if !self.keeps() || purpose.speaks != Speaks::FastCgi {
            return None;
        }
        let mut state = self.state.lock();
        let number = state.next_waiting;
        state.next_waiting += 1;
        state.waiting.push((number, purpose.server.clone(), Instant::now()));
        Some(Waiting { pool: Arc::clone(self), number })
    }

    /// Takes the most recently used connection that still works.
    pub(crate) fn take(&self, purpose: &Purpose) -> Option<Connection> {
        let now = Instant::now();
        loop {
            let mut idle = {
                let mut state = self.state.lock();
                let at = state.idle.iter().rposition(|idle| idle.purpose == *purpose)?;
                state.idle.remove(at)?
            };
            if now.duration_since(idle.since) <= self.keepalive.timeout
                && idle.parked.is_quiet()
                && let Ok(connection) = idle.parked.unpark()
            {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection whose response is complete, or closes it if `keepalive_requests` or another limit is reached.
    pub(crate) fn put(self: &Arc<Self>, connection: Connection, purpose: Purpose) {
        let now = Instant::now();
        let Keepalive { idle_max, requests, time, .. } = self.keepalive;
        let worn = connection.served() >= requests || now.duration_since(connection.made_at()) > time;
        if idle_max == 0 || worn || !connection.is_idle() {
            connection.close();
            return;
        }
        let Ok(parked) = connection.park() else {
            return;
        };
        let mut state = self.state.lock();
        state.idle.push_back(Idle { parked, purpose, since: now });
        let fallen = if state.idle.len() > idle_max { state.idle.pop_front() } else { None };
        let swept = std::mem::replace(&mut state.swept, true);
        drop(state);
        drop(fallen);
        if !swept {
            tokio::spawn(sweep(Sweeping(Arc::downgrade(self))));
        }
    }

    /// Closes connections that are too old, that the origin has closed, or that may hold the child that a request waits
    /// for.
    fn tidy(&self, now: Instant) -> Tidied {
        let mut closed = Vec::new();
        let mut state = self.state.lock();
        let State { idle, swept, waiting, .. } = &mut *state;
        let mut at = 0;
        while let Some(one) = idle.get_mut(at) {
            let pins = one.purpose.speaks == Speaks::FastCgi
                && waiting.iter().any(|(_, server, since)| {
                    *server == one.purpose.server && now.duration_since(*since) >= SWEEP_EVERY
                });
            if !pins && now.duration_since(one.since) <= self.keepalive.timeout && one.parked.is_quiet() {
                at += 1;
            } else {
                closed.extend(idle.remove(at));
            }
        }
        *swept = !idle.is_empty();
        let tidied = if *swept { Tidied::SomeLeft } else { Tidied::Empty };
        drop(state);
        tidied
    }
}

enum Tidied {
    SomeLeft,
    /// The pool is empty; the next `put` starts a new sweep.
    Empty,
}

/// The right to sweep a pool. If its runtime ends before the pool is empty, the next `put` starts another sweep.
struct Sweeping(Weak<Pool>);

impl Drop for Sweeping {
    fn drop(&mut self) {
        if let Some(pool) = self.0.upgrade() {
            pool.state.lock().swept = false;
        }
    }
}

/// Tidies a pool every second until it is empty or gone.
async fn sweep(mut sweeping: Sweeping) {
    loop {
        sleep(SWEEP_EVERY).await;
        let Some(pool) = sweeping.0.upgrade() else {
            return;
        };
        if let Tidied::Empty = pool.tidy(Instant::now()) {
            sweeping.0 = Weak::new();
            return;
        }
    }
}
