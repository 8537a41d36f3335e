//! The idle connections of a group, one pool for all workers of the process. With one pool for each worker, several
//! times as many php-fpm children would be held by idle connections. Idle connections stay registered with the runtime
//! of the worker that used them last: that worker takes them again without a system call. It takes its own first, and
//! another worker's if it has none. Of either, the most recently used one is taken first, so that the others grow old
//! and are closed. A sweep closes those that are too old or that the origin has closed, so that a site without visitors
//! holds no child. It also closes idle connections while a request on a new connection waits for a child.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    runtime::{Handle, Id},
    time::{Instant, sleep},
};

use crate::{
    address::Address,
    connection::Connection,
    purpose::{Speaks, Wanted},
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
    connection: Connection,
    since: Instant,
    /// How often its runtime had looked at its sockets when it was put here.
    looks: u64,
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
    pub(crate) fn wait(self: &Arc<Self>, wanted: Wanted<'_>, now: Instant) -> Option<Waiting> {
        if !self.keeps() || wanted.speaks != Speaks::FastCgi {
            return None;
        }
        let mut state = self.state.lock();
        let number = state.next_waiting;
        state.next_waiting += 1;
        state.waiting.push((number, wanted.server.clone(), now));
        Some(Waiting { pool: Arc::clone(self), number })
    }

    /// Takes the most recently used connection that still works.
    pub(crate) fn take(&self, wanted: Wanted<'_>, now: Instant) -> Option<Connection> {
        let handle = Handle::current();
        let here = handle.id();
        let looks = looks(&handle);
        loop {
            let Idle { mut connection, since, looks: looks_before } = {
                let mut state = self.state.lock();
                let at = state.find(wanted, here)?;
                state.idle.remove(at)?
            };
            // What the runtime knows of a connection is as old as its last look at the sockets. The system is asked for a
            // request that can be sent only once, and where the runtime has not looked since the last answer: bytes
            // that came behind it would be taken for the next one.
            let trusted = (wanted.may_resend && looks != looks_before).then_some(here);
            if now.saturating_duration_since(since) <= self.keepalive.timeout
                && connection.is_quiet(trusted)
                && let Ok(connection) = connection.wake(here)
            {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection whose response is complete, or closes it if it is not to be kept, or `keepalive_requests` or
    /// another limit is reached.
    pub(crate) fn put(self: &Arc<Self>, mut connection: Connection, now: Instant) {
        let Keepalive { idle_max, requests, time, .. } = self.keepalive;
        let worn = connection.served() >= requests || now.saturating_duration_since(connection.made_at()) > time;
        if idle_max == 0 || worn || connection.purpose().is_none() || !connection.is_idle() {
            connection.close();
            return;
        }
        connection.rest();
        let looks = looks(&Handle::current());
        let mut state = self.state.lock();
        let fallen = if state.idle.len() < idle_max { None } else { state.idle.pop_front() };
        state.idle.push_back(Idle { connection, since: now, looks });
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
            let pins = one.connection.purpose().is_some_and(|purpose| {
                let is_late = |since: Instant| now.duration_since(since) >= SWEEP_EVERY;
                waiting.iter().any(|(_, server, since)| purpose.is_fastcgi_of(server) && is_late(*since))
            });
            if !pins && now.duration_since(one.since) <= self.keepalive.timeout && one.connection.is_quiet(None) {
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

impl State {
    /// The most recently used connection that is wanted: one of this runtime, else one of another.
    fn find(&self, wanted: Wanted<'_>, here: Id) -> Option<usize> {
        let is_wanted = |idle: &Idle| idle.connection.purpose().is_some_and(|purpose| wanted.is_met_by(purpose));
        let ours = |idle: &Idle| idle.connection.is_at_home(here) && is_wanted(idle);
        self.idle.iter().rposition(ours).or_else(|| self.idle.iter().rposition(is_wanted))
    }
}

/// How often a runtime has looked at its sockets before it slept.
fn looks(handle: &Handle) -> u64 {
    handle.metrics().worker_park_count(0)
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

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        io::{IoSlice, Write},
        net::TcpListener,
    };

    use super::*;
    use crate::{limits::Limits, purpose::Layers};

    #[tokio::test]
    async fn bytes_behind_an_answer_are_not_the_next_one() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let server = Address::Tcp(listener.local_addr().expect("it is bound"));
        let layers = Layers::default();
        let wanted = Wanted { server: &server, bind: None, speaks: Speaks::Http, layers: &layers, may_resend: true };
        let pool = Pool::new(Keepalive::of(1));
        for is_noisy in [false, true] {
            let mut connection =
                Connection::open(&server, &layers, &Limits::default(), true).await.expect("it listens");
            connection.dedicate(wanted.to_purpose());
            let written = poll_fn(|cx| connection.poll_write_from(cx, &[IoSlice::new(b"GET")])).await;
            assert_eq!(written.expect("there is room"), 3);
            let (mut origin, _) = listener.accept().expect("it is connected");
            pool.put(connection, Instant::now());
            if is_noisy {
                // Loopback delivers within the call; the runtime has no time to look.
                origin.write_all(b"HTTP/1.1 200 OK\r\n\r\n").expect("it is open");
            }
            assert_eq!(pool.take(wanted, Instant::now()).is_none(), is_noisy);
        }
    }
}
