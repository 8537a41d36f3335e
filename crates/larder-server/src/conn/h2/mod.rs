//! Serves an HTTP/2 connection (RFC 9113): many requests at the same time over one stream of bytes.
//!
//! One future, the driver, reads frames, and once a turn writes those that have gathered. A page that is in memory and
//! fits the windows is answered where its request is read. Every other request becomes a task of its own, which adds
//! its frames to the connection's through a [`Handle`].

mod task;

use std::future::Future as _;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use larder_conf::model::LogLevel;
use larder_http::HeadError;
use larder_http::h2::{Config, ErrorCode, Event, StreamId};
use tokio::io::ReadBuf;
use tokio::time::{Instant, Sleep};

use crate::clock;
use crate::context::Cx;
use crate::counting;
use crate::exchange::{Client, Exchange};
use crate::net::buffers::ensure;
use crate::net::h2::{Handle, OUT_BYTES_MAX, Shared};
use crate::net::io::linger;
use crate::net::stream::Stream;
use crate::records;
use crate::request::receive::begin_stream;
use crate::request::settle::{self, Settled};
use crate::request::{self, Stop, deliver};
use crate::seats::Seat;
use crate::worker::Worker;

use super::{limit_rate, ready};

use task::{What, Work};

/// A body up to this size is copied into the connection's frames at once.
const AT_ONCE_BYTES_MAX: u64 = OUT_BYTES_MAX as u64;
/// How long a connection with open streams waits before it checks its timer again.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// How much is read at once, bytes.
const READ_BYTES: usize = 32 * 1024;

/// One client's connection.
pub struct Connection {
    stream: Stream,
    shared: Rc<Shared>,
    client: Rc<Client>,
    worker: Rc<Worker>,
    seat: Seat,
    /// The beginning of a frame that is not complete.
    partial: Vec<u8>,
    /// The number of requests so far.
    number: u64,
    /// When the connection is closed for being idle.
    deadline: Instant,
    /// How long the connection may be idle.
    patience: Duration,
    /// Since when the client has taken nothing of the bytes that wait for it.
    blocked_since: Option<Instant>,
    /// A request head of which a part has arrived.
    head: Head,
    /// `client_header_timeout`.
    head_patience: Duration,
    /// How far writing was at `blocked_since`: bytes of frames written, and bytes held by the stream.
    blocked_at: (u64, usize),
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.client.end_log();
    }
}

/// A request head that arrives in several pieces.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Head {
    /// No head is incomplete.
    None,
    /// The rest must arrive before this time.
    Due(Instant),
    /// It took too long and is not answered any more.
    Late,
}

/// Why a connection ends.
enum End {
    /// Nothing is left to send.
    Close,
    /// The client may still be sending and shall read our last frames.
    Linger,
    /// The client does not take what it has requested.
    Stalled,
}

impl Connection {
    /// Takes over a connection; `first` holds the bytes that were already read, if any.
    pub fn new(
        stream: Stream,
        first: Vec<u8>,
        config: &Config,
        client: Rc<Client>,
        worker: Rc<Worker>,
        seat: Seat,
    ) -> Self {
        let shared = Shared::new(config, &worker.buffers);
        Self {
            stream,
            shared,
            client,
            worker,
            seat,
            partial: first,
            number: 0,
            deadline: Instant::now(),
            patience: Duration::ZERO,
            blocked_since: None,
            head: Head::None,
            head_patience: Duration::ZERO,
            blocked_at: (0, 0),
        }
    }

    /// Serves the connection until it is closed.
    pub async fn run(mut self) {
        let limit = match self.client.listener(self.worker.cx().site()) {
            Some(listener) => self.worker.cx().site().servers[listener.default].client.header_timeout,
            None => return,
        };
        self.deadline = Instant::now() + limit;
        self.patience = limit;
        self.head_patience = limit;
        let first = std::mem::take(&mut self.partial);
        let end = match self.used(&first) {
            Ok(()) => {
                let sleep = tokio::time::sleep_until(self.deadline);
                tokio::pin!(sleep);
                std::future::poll_fn(|task| self.poll(task, sleep.as_mut())).await
            }
            Err(end) => {
                self.last_words();
                end
            }
        };
        self.shared.end();
        match end {
            End::Close => {}
            End::Stalled => self.timed_out(),
            End::Linger => {
                let cx = self.worker.cx();
                let site = cx.site();
                let Some(listener) = self.client.listener(site) else { return };
                let settings = &site.locations[site.servers[listener.default].root].settings;
                linger(&mut self.stream, settings.connection.lingering_time, settings.connection.lingering_timeout)
                    .await;
            }
        }
    }

    fn poll(&mut self, task: &mut Context<'_>, mut sleep: Pin<&mut Sleep>) -> Poll<End> {
        self.shared.drive_with(task.waker());
        loop {
            match self.write(task) {
                Ok(()) => {}
                Err(_) => return Poll::Ready(End::Close),
            }
            if self.worker.seats.is_over(self.client.began) {
                self.shared.go_away();
                // The frame that says so is sent in this turn.
                if self.write(task).is_err() {
                    return Poll::Ready(End::Close);
                }
            }
            if self.shared.is_done() && self.stream.is_flushed() {
                return Poll::Ready(End::Linger);
            }
            // A client that does not read gets no more answers, so that it cannot make us hold them in memory.
            if self.shared.unsent() >= OUT_BYTES_MAX {
                break;
            }
            match self.read(task) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(end)) => {
                    self.last_words();
                    return Poll::Ready(end);
                }
                Poll::Pending => break,
            }
        }
        if self.shared.has_ended() {
            self.deadline = Instant::now() + self.patience;
        }
        self.seat.park(task.waker());
        self.poll_deadline(task, sleep.as_mut())
    }

    /// Writes the gathered frames as far as the socket takes them.
    fn write(&mut self, task: &mut Context<'_>) -> std::io::Result<()> {
        loop {
            let wrote = self.shared.write_to(&self.stream);
            let blocked = match wrote {
                Ok(all) => !all || !self.stream.is_flushed(),
                Err(error) => return Err(error),
            };
            if !blocked {
                self.blocked_since = None;
                return Ok(());
            }
            match self.stream.poll_write_ready(task) {
                Poll::Ready(ready) => ready?,
                Poll::Pending => {
                    let at = (self.shared.progress(), self.stream.held_bytes());
                    if self.blocked_since.is_none() || at != self.blocked_at {
                        self.blocked_since = Some(Instant::now());
                        self.blocked_at = at;
                        self.shared.note_step();
                    }
                    return Ok(());
                }
            }
        }
    }

    /// Reads once and handles the frames that arrived.
    fn read(&mut self, task: &mut Context<'_>) -> Poll<Result<(), End>> {
        let worker = Rc::clone(&self.worker);
        let mut buffer = worker.buffers.read.borrow_mut();
        let held = self.partial.len();
        ensure(&mut buffer, held + READ_BYTES);
        let mut read = ReadBuf::new(&mut buffer[held..]);
        let n = match self.stream.poll_read(task, &mut read) {
            Poll::Ready(Ok(())) => read.filled().len(),
            Poll::Ready(Err(_)) => return Poll::Ready(Err(End::Close)),
            Poll::Pending => return Poll::Pending,
        };
        if n == 0 {
            return Poll::Ready(Err(End::Close));
        }
        buffer[..held].copy_from_slice(&self.partial);
        self.partial = Vec::new();
        Poll::Ready(self.used(&buffer[..held + n]))
    }

    /// Handles frames; an incomplete last one is kept.
    fn used(&mut self, bytes: &[u8]) -> Result<(), End> {
        let now = clock::now();
        let mut input = bytes;
        let mut exchange = self.worker.exchange(&self.client);
        loop {
            match self.shared.next(&mut input, &mut exchange.asked.head, now) {
                Ok(None) => break,
                Ok(Some(Event::Head { stream, ends, refused })) => {
                    self.request(stream, ends, refused, exchange);
                    exchange = self.worker.exchange(&self.client);
                }
                Ok(Some(Event::Data { stream, data, ends })) => self.shared.body(stream, data, ends),
                Ok(Some(Event::Trailers { stream })) => self.shared.body(stream, &[], true),
                Ok(Some(Event::WrongLength { stream })) => self.shared.body_is_wrong(stream),
                Ok(Some(Event::Reset { stream, code: _ })) => self.shared.reset_by_peer(stream),
                Ok(Some(Event::Window)) => self.shared.wake_writers(),
                Ok(Some(Event::GoAway)) => {}
                Err(error) => {
                    let cx = self.worker.cx();
                    cx.local.logs.main(LogLevel::Info, format_args!("{error}, client: {}", self.client.address()));
                    self.worker.recycle(exchange);
                    return Err(End::Linger);
                }
            }
        }
        self.worker.recycle(exchange);
        self.partial.extend_from_slice(input);
        self.head = match self.head {
            _ if !self.shared.is_within_head(input) => Head::None,
            Head::None => Head::Due(Instant::now() + self.head_patience),
            head => head,
        };
        Ok(())
    }

    /// Answers a request, at once or in a task.
    fn request(&mut self, stream: StreamId, ends: bool, refused: Option<HeadError>, mut ex: Box<Exchange>) {
        let cx = self.worker.cx();
        let Some(listener) = self.client.listener(cx.site()) else {
            self.shared.reset(stream, ErrorCode::REFUSED_STREAM);
            self.shared.go_away();
            return;
        };
        self.number += 1;
        let now = clock::micros();
        ex.asked.number = self.number;
        ex.asked.complete = now;
        let step = begin_stream(listener, refused, ends, &mut ex, &cx, now.time());
        counting::begun(&ex, &cx);
        self.worker.at_once.set(true);
        let stop = request::advance(step, &mut ex, &cx);
        let what = match stop {
            Stop::Abort => {
                counting::finished(&ex, &cx);
                cx.local.logs.access(&mut ex, &cx);
                records::finished(&mut ex, &cx);
                self.shared.reset(stream, ErrorCode::INTERNAL_ERROR);
                self.worker.at_once.set(false);
                self.worker.recycle(ex);
                return;
            }
            Stop::Slow(slow) => Some(What::Steps(slow)),
            Stop::Deliver(response) => self.respond(stream, response, &mut ex, &cx),
        };
        self.worker.at_once.set(false);
        match what {
            None => {
                if !ends {
                    // The whole answer was sent; the rest of the request's body is not needed (RFC 9113 §8.1).
                    self.shared.reset(stream, ErrorCode::NO_ERROR);
                }
                self.after(&ex, &cx);
                counting::finished(&ex, &cx);
                cx.local.logs.access(&mut ex, &cx);
                records::finished(&mut ex, &cx);
                self.worker.recycle(ex);
            }
            Some(what) => {
                let handle = Handle::new(&self.shared, stream, ends);
                self.after(&ex, &cx);
                tokio::task::spawn_local(task::run(Work { exchange: ex, cx, what }, handle));
            }
        }
    }

    /// Sends a response whole, if that goes without waiting; returns what is left to do.
    fn respond(&self, stream: StreamId, response: Settled, ex: &mut Exchange, cx: &Cx) -> Option<What> {
        let mut head = self.worker.buffers.write.borrow_mut();
        head.clear();
        let outgoing = deliver::write(response, ex, cx, &mut head);
        let chunk_bytes = cx.loc(ex).settings.connection.http2_chunk_bytes;
        let body = ready::in_memory(&outgoing).filter(|body| body.bytes() <= AT_ONCE_BYTES_MAX);
        if let Some(body) = body
            && !limit_rate::is_limited(ex, cx)
            && let Some(sent) = self.shared.send_whole(stream, &head, &body, chunk_bytes)
        {
            ex.tally.sent = sent;
            ex.tally.is_complete = sent.1 == body.bytes();
            return None;
        }
        Some(What::Send(head.clone(), outgoing))
    }

    /// After a request: starts the timer of an idle connection (`keepalive_timeout`), and sends GOAWAY if this was the
    /// last request that the connection may serve.
    fn after(&mut self, ex: &Exchange, cx: &Cx) {
        if settle::is_last(ex, cx) {
            self.shared.go_away();
        }
        self.patience = cx.loc(ex).settings.connection.keepalive_timeout;
        self.deadline = Instant::now() + self.patience;
    }

    fn poll_deadline(&mut self, task: &mut Context<'_>, mut sleep: Pin<&mut Sleep>) -> Poll<End> {
        loop {
            let deadline = match self.blocked_since {
                Some(since) => since + self.send_timeout(),
                None => self.deadline,
            };
            // A client in the middle of a request is not idle.
            let deadline = match (self.head, self.blocked_since) {
                (Head::Due(due), None) => due,
                (Head::Due(due), Some(_)) => deadline.min(due),
                (Head::None | Head::Late, _) => deadline,
            };
            if sleep.deadline() > deadline {
                sleep.as_mut().reset(deadline);
            }
            match sleep.as_mut().poll(task) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(()) if deadline > Instant::now() => sleep.as_mut().reset(deadline),
                Poll::Ready(()) if self.head == Head::Due(deadline) => {
                    self.head = Head::Late;
                    if self.expire_head(task).is_err() {
                        self.last_words();
                        return Poll::Ready(End::Linger);
                    }
                }
                Poll::Ready(()) if self.blocked_since.is_some() => return Poll::Ready(End::Stalled),
                Poll::Ready(()) if self.shared.has_streams() => {
                    // Their tasks have timers of their own; check again after a while.
                    self.deadline = Instant::now() + LOOK_AGAIN;
                    sleep.as_mut().reset(self.deadline);
                }
                Poll::Ready(()) => {
                    self.shared.go_away();
                    self.last_words();
                    return Poll::Ready(End::Linger);
                }
            }
        }
    }

    /// Tells the client that its request head took too long.
    fn expire_head(&mut self, task: &mut Context<'_>) -> Result<(), End> {
        let cx = self.worker.cx();
        cx.local.logs.main(
            LogLevel::Info,
            format_args!("client timed out while reading client request headers, client: {}", self.client.address()),
        );
        let site = cx.site();
        if let Some(listener) = self.client.listener(site) {
            self.patience = site.locations[site.servers[listener.default].root].settings.connection.keepalive_timeout;
            self.deadline = Instant::now() + self.patience;
        }
        self.shared.expire_head(&self.partial, clock::now()).map_err(|_| End::Linger)?;
        self.write(task).map_err(|_| End::Close)
    }

    /// Sends what is left, such as the reason for closing, if the socket takes it.
    fn last_words(&self) {
        // A client that is gone or reads nothing does not get it.
        let _ = self.shared.write_to(&self.stream);
    }

    fn send_timeout(&self) -> Duration {
        let cx = self.worker.cx();
        let site = cx.site();
        self.client.listener(site).map_or(LOOK_AGAIN, |listener| {
            site.locations[site.servers[listener.default].root].settings.connection.send_timeout
        })
    }

    fn timed_out(&self) {
        let cx = self.worker.cx();
        cx.local.logs.main(
            LogLevel::Info,
            format_args!("client timed out while sending to client, client: {}", self.client.address()),
        );
        let site = cx.site();
        let resets = self
            .client
            .listener(site)
            .is_some_and(|at| site.locations[site.servers[at.default].root].settings.connection.reset_timedout);
        if resets {
            self.stream.reset_on_close();
        }
    }
}
