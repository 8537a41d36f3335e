//! The idle connections of a group, one pool for all workers of the process. With one pool for each worker, several
//! times as many php-fpm children would be held by idle connections. Idle connections stay registered with the runtime
//! of the worker that used them last: that worker takes them again without a system call. It takes its own first, of
//! these one that its runtime has looked at since the last answer, and another worker's if it has none. Of each kind,
//! the most recently used one is taken first, so that the others grow old and are closed. A sweep closes those that are
//! too old or that the origin has closed, so that a site without visitors holds no child. It also closes idle
//! connections while a request on a new connection waits for a child.

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
    exchange::Exchange,
    looks,
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
    /// Its connection, and the memory of the next request on it.
    exchange: Box<Exchange>,
    since: Instant,
    /// How often its runtime had looked at its sockets when it was put here.
    looks: u64,
}

/// What to do with a connection if the runtime has not looked at its sockets since the last answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unseen {
    /// Wait until it has.
    Wait,
    /// Ask the system about that connection.
    Ask,
}

/// What [`Pool::take`] found.
pub(crate) enum Taken {
    Kept(Box<Exchange>),
    /// To be asked again when the runtime has looked at its sockets, see [`looks::after_next`].
    Later,
    Nothing,
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
    ///
    /// What the runtime knows of a connection is as old as its last look at the sockets. Bytes that came behind the last
    /// answer since then would be taken for the next one. With `Unseen::Wait`, [`Taken::Later`] says that there are
    /// connections, but that the runtime has not looked since their last answers.
    pub(crate) fn take(&self, wanted: Wanted<'_>, unseen: Unseen, now: Instant) -> Taken {
        let handle = Handle::current();
        let here = handle.id();
        let looks = looks::count(&handle);
        loop {
            let Idle { mut exchange, since, looks: looks_before } = {
                let mut state = self.state.lock();
                let Some(at) = state.find(wanted, here, looks) else {
                    return Taken::Nothing;
                };
                let is_unseen = state.idle.get(at).is_some_and(|idle| idle.is_unseen(here, looks));
                if is_unseen && unseen == Unseen::Wait && wanted.may_resend {
                    return Taken::Later;
                }
                let Some(idle) = state.idle.remove(at) else {
                    return Taken::Nothing;
                };
                idle
            };
            // The system is asked for a request that can be sent only once.
            let trusted = (wanted.may_resend && looks != looks_before).then_some(here);
            if now.saturating_duration_since(since) <= self.keepalive.timeout
                && exchange.connection.is_quiet(trusted)
                && exchange.connection.wake(here).is_ok()
            {
                return Taken::Kept(exchange);
            }
        }
    }

    /// Keeps a connection whose response is complete, or closes it if it is not to be kept, or `keepalive_requests` or
    /// another limit is reached.
    pub(crate) fn put(self: &Arc<Self>, mut exchange: Box<Exchange>, now: Instant) {
        let Keepalive { idle_max, requests, time, .. } = self.keepalive;
        let connection = &mut exchange.connection;
        let worn = connection.served() >= requests || now.saturating_duration_since(connection.made_at()) > time;
        if idle_max == 0 || worn || connection.purpose().is_none() || !connection.is_idle() {
            connection.close();
            return;
        }
        exchange.rest();
        let looks = looks::count(&Handle::current());
        let mut state = self.state.lock();
        let fallen = if state.idle.len() < idle_max { None } else { state.idle.pop_front() };
        state.idle.push_back(Idle { exchange, since: now, looks });
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
            let pins = one.exchange.connection.purpose().is_some_and(|purpose| {
                let is_late = |since: Instant| now.duration_since(since) >= SWEEP_EVERY;
                waiting.iter().any(|(_, server, since)| purpose.is_fastcgi_of(server) && is_late(*since))
            });
            if !pins
                && now.duration_since(one.since) <= self.keepalive.timeout
                && one.exchange.connection.is_quiet(None)
            {
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

impl Idle {
    /// Whether it belongs to this runtime, which has not looked at it since it was put here.
    fn is_unseen(&self, here: Id, looks: u64) -> bool {
        self.looks == looks && self.exchange.connection.is_at_home(here)
    }
}

impl State {
    /// The most recently used connection that is wanted: one of this runtime that it has looked at since its last
    /// answer, else one of this runtime, else one of another.
    fn find(&self, wanted: Wanted<'_>, here: Id, looks: u64) -> Option<usize> {
        let is_wanted =
            |idle: &Idle| idle.exchange.connection.purpose().is_some_and(|purpose| wanted.is_met_by(purpose));
        let is_ours = |idle: &Idle| idle.exchange.connection.is_at_home(here) && is_wanted(idle);
        let is_looked_at = |idle: &Idle| idle.looks != looks && is_ours(idle);
        let idle = || self.idle.iter();
        idle().rposition(is_looked_at).or_else(|| idle().rposition(is_ours)).or_else(|| idle().rposition(is_wanted))
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

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        io::{IoSlice, Write},
        net::{TcpListener, TcpStream},
        task::Poll,
    };

    use bytes::Bytes;

    use super::*;
    use crate::{
        connection::Connection, download::Download, http, limits::Limits, purpose::Layers, request_body::RequestBody,
        upload::Upload,
    };

    /// A listener, its address, and what is between it and a request.
    fn origin() -> (TcpListener, Address, Layers) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let server = Address::Tcp(listener.local_addr().expect("it is bound"));
        (listener, server, Layers::default())
    }

    fn wanted<'a>(server: &'a Address, layers: &'a Layers) -> Wanted<'a> {
        Wanted { server, bind: None, speaks: Speaks::Http, layers, may_resend: true }
    }

    /// A connection that was used once, and its other end.
    async fn used(listener: &TcpListener, wanted: Wanted<'_>) -> (Box<Exchange>, TcpStream) {
        let mut connection =
            Connection::open(wanted.server, wanted.layers, &Limits::default(), true).await.expect("it listens");
        connection.dedicate(wanted.to_purpose());
        let written = poll_fn(|cx| connection.poll_write_from(cx, &[IoSlice::new(b"GET")])).await;
        assert_eq!(written.expect("there is room"), 3);
        let upload = Upload::new(Speaks::Http, Bytes::new(), RequestBody::None);
        let download = Download::Http(http::Response::new(0, false, false));
        let exchange = Exchange::new(connection, upload, download, &Limits::default(), Instant::now());
        (exchange, listener.accept().expect("it is connected").0)
    }

    #[tokio::test]
    async fn bytes_behind_an_answer_are_not_the_next_one() {
        let (listener, server, layers) = origin();
        let wanted = wanted(&server, &layers);
        let pool = Pool::new(Keepalive::of(1));
        for is_noisy in [false, true] {
            let (exchange, mut origin) = used(&listener, wanted).await;
            pool.put(exchange, Instant::now());
            if is_noisy {
                // Loopback delivers within the call; the runtime has no time to look.
                origin.write_all(b"HTTP/1.1 200 OK\r\n\r\n").expect("it is open");
            }
            assert!(matches!(pool.take(wanted, Unseen::Wait, Instant::now()), Taken::Later));
            let is_taken = matches!(pool.take(wanted, Unseen::Ask, Instant::now()), Taken::Kept(_));
            assert_eq!(is_taken, !is_noisy);
        }
    }

    #[tokio::test]
    async fn who_waits_for_a_look_gets_what_is_quiet() {
        let (listener, server, layers) = origin();
        let wanted = wanted(&server, &layers);
        let pool = Pool::new(Keepalive::of(1));
        for is_noisy in [false, true] {
            let (exchange, mut origin) = used(&listener, wanted).await;
            pool.put(exchange, Instant::now());
            assert!(matches!(pool.take(wanted, Unseen::Wait, Instant::now()), Taken::Later));
            let mut has_waited = false;
            poll_fn(|cx| {
                if std::mem::replace(&mut has_waited, true) {
                    return Poll::Ready(());
                }
                looks::after_next(cx);
                // Before the runtime looks.
                if is_noisy {
                    origin.write_all(b"HTTP/1.1 200 OK\r\n\r\n").expect("it is open");
                }
                Poll::Pending
            })
            .await;
            let taken = pool.take(wanted, Unseen::Wait, Instant::now());
            assert!(matches!((is_noisy, taken), (false, Taken::Kept(_)) | (true, Taken::Nothing)));
        }
    }

    #[tokio::test]
    async fn one_that_the_runtime_has_looked_at_is_taken_first() {
        let (listener, server, layers) = origin();
        let wanted = wanted(&server, &layers);
        let pool = Pool::new(Keepalive::of(3));
        let (mut ends, mut made) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let (exchange, end) = used(&listener, wanted).await;
            made.push(exchange.connection.made_at());
            ends.push(end);
            // To sleep, the runtime looks at its sockets.
            sleep(Duration::from_millis(1)).await;
            pool.put(exchange, Instant::now());
        }
        let take = || match pool.take(wanted, Unseen::Ask, Instant::now()) {
            Taken::Kept(exchange) => exchange.connection.made_at(),
            Taken::Later | Taken::Nothing => panic!("three are idle"),
        };
        // It has not looked since the last was put there, but has since the others were.
        assert_eq!([take(), take(), take()], [made[1], made[0], made[2]]);
    }
}
