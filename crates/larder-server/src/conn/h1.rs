//! Serves an HTTP/1 connection: reads heads and sends responses, one after the other.
//!
//! An idle connection is only its stream, a timer and a few numbers; when it becomes readable, the worker lends it a
//! buffer. A request that can be answered without waiting is answered right there; any other gets a future of its own
//! (`slow`).

use std::future::Future as _;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use larder_conf::model::{LingeringClose, LogLevel};
use larder_http::Time;
use tokio::io::ReadBuf;
use tokio::time::{Instant, Sleep};

use crate::clock;
use crate::context::Cx;
use crate::counting;
use crate::exchange::feed::{self, Refused};
use crate::exchange::{Choice, Client, Exchange, RequestBody};
use crate::net::buffers::ensure;
use crate::net::io::linger;
use crate::net::sink::Sink;
use crate::net::stream::Stream;
use crate::net::{BodySource, Inbound, Io, ReadError};
use crate::pressure::Admission;
use crate::records;
use crate::request::fetch::{self, Begun, Underway};
use crate::request::receive::{Received, receive};
use crate::request::settle::Settled;
use crate::request::{self, Slow, Step, Stop, deliver, request_body};
use crate::seats::Seat;
use crate::worker::Worker;

use super::at_once::{self, Rest};
use super::limit_rate;
use super::ready;
use super::send::{self, SendError};
use super::tunnel;

/// The timer of a connection without a limit.
const NEVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// One client's connection.
pub struct Connection {
    io: Io,
    client: Rc<Client>,
    worker: Rc<Worker>,
    seat: Seat,
    /// The number of requests so far.
    number: u64,
    /// When the connection is closed for being idle or slow.
    deadline: Instant,
    /// Whether a part of a request head has arrived.
    is_reading: bool,
    /// When the first byte of the current head arrived.
    head_began: Option<Time>,
    /// Whether a response was cut off, so that the connection must not be closed in the regular way: the client would
    /// take that for the end of the response.
    is_cut: bool,
    /// Whether the connection has waited until the gate allowed it to read.
    may_read: bool,
    /// The request that is being asked of an origin.
    asking: Option<Asking>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.client.end_log();
        if self.is_reading {
            self.worker.stats.reading.sub(1);
        }
    }
}

/// What one turn at the socket led to.
enum Turn {
    /// The connection is to be closed.
    Close,
    /// A request that has to wait for something.
    Work(Box<Work>),
    /// Too many requests wait for memory; this one is not read yet.
    Crowded,
}

/// How far a request was answered.
enum Answered {
    /// Completely; the connection is kept.
    Next,
    /// Completely; the connection is closed.
    Over,
    /// Not completely: an origin is being asked, and nothing else is waited for.
    Asking,
    /// Not completely: it has to wait.
    Later(Box<Work>),
}

/// A request that waits for nothing but its origin: the connection polls the fetch itself, without a future for it.
struct Asking {
    exchange: Box<Exchange>,
    cx: Cx,
    underway: Box<Underway>,
    _admission: Admission,
}

/// An exchange that cannot be finished at once.
struct Work {
    exchange: Box<Exchange>,
    cx: Cx,
    what: What,
}

enum What {
    /// Steps that have to wait.
    Steps(Slow),
    /// A response that is laid out later, as the body of the request has not been read.
    Respond(Settled),
    /// A response of which a part has been sent.
    Send(Rest),
    /// A response that has been sent, while the client may still be sending its request body.
    End,
}

impl Connection {
    /// Takes over a connection; `first` holds the bytes that were already read, if any.
    ///
    /// Starts the timer of the first head: `client_header_timeout`.
    pub fn new(stream: Stream, first: Vec<u8>, client: Rc<Client>, worker: Rc<Worker>, seat: Seat) -> Self {
        let cx = worker.cx();
        let site = cx.site();
        let limit =
            client.listener(site).map_or(NEVER, |listener| site.servers[listener.default].client.header_timeout);
        Self {
            io: Io::new(stream, first),
            client,
            worker,
            seat,
            number: 0,
            deadline: Instant::now() + limit,
            is_reading: false,
            head_began: None,
            is_cut: false,
            may_read: false,
            asking: None,
        }
    }

    /// Serves the connection until it is closed.
    pub async fn run(mut self) {
        let sleep = tokio::time::sleep_until(self.deadline);
        tokio::pin!(sleep);
        loop {
            match std::future::poll_fn(|task| self.poll(task, sleep.as_mut())).await {
                Turn::Close => break,
                Turn::Crowded => {
                    self.worker.gate.may_read().await;
                    self.may_read = true;
                }
                Turn::Work(work) => {
                    self.worker.stats.writing.add(1);
                    let _admission = match &work.what {
                        What::Steps(_) => Some(self.worker.gate.admit().await),
                        // These hold their memory already and need no admission.
                        What::Respond(_) | What::Send(_) | What::End => None,
                    };
                    let keep = Box::pin(slow(&mut self, work)).await;
                    self.worker.stats.writing.sub(1);
                    if !keep {
                        break;
                    }
                }
            }
        }
        // A client that sees the connection closed may look for its lines in the log.
        self.worker.write_lines(clock::now());
        if !self.is_cut {
            self.io.stream.close();
        }
    }

    fn poll(&mut self, task: &mut Context<'_>, mut sleep: Pin<&mut Sleep>) -> Poll<Turn> {
        let worker = Rc::clone(&self.worker);
        let mut buffer = worker.buffers.read.borrow_mut();
        loop {
            if let Some(asking) = self.asking.take() {
                match self.poll_asking(asking, task) {
                    Poll::Ready(Answered::Next | Answered::Asking) => {}
                    Poll::Ready(Answered::Over) => return Poll::Ready(Turn::Close),
                    Poll::Ready(Answered::Later(work)) => return Poll::Ready(Turn::Work(work)),
                    Poll::Pending => return Poll::Pending,
                }
                continue;
            }
            let held = self.io.pending.len();
            if held == 0 && self.number > 0 && worker.seats.is_over(self.client.began) {
                return Poll::Ready(Turn::Close);
            }
            if !self.may_read && worker.gate.is_crowded() {
                return Poll::Ready(Turn::Crowded);
            }
            if held > 0 && !self.is_reading {
                // The next request was read together with this one.
                let pending = self.io.take_pending();
                ensure(&mut buffer, pending.len());
                buffer[..pending.len()].copy_from_slice(&pending);
                worker.is_pipelined.set(true);
                match self.used(&buffer[..pending.len()]) {
                    Some(turn) => return Poll::Ready(turn),
                    None => continue,
                }
            }
            ensure(&mut buffer, held + MIN_READ_BYTES);
            let (front, room) = buffer.split_at_mut(held);
            let mut read = ReadBuf::new(room);
            match self.io.stream.poll_read(task, &mut read) {
                Poll::Ready(Ok(())) => {
                    let n = read.filled().len();
                    if n == 0 {
                        return Poll::Ready(Turn::Close);
                    }
                    front.copy_from_slice(&self.io.pending);
                    self.io.pending.clear();
                    worker.is_pipelined.set(false);
                    if let Some(turn) = self.used(&buffer[..held + n]) {
                        return Poll::Ready(turn);
                    }
                }
                Poll::Ready(Err(_)) => return Poll::Ready(Turn::Close),
                // A connection without any request yet, such as a browser's preconnect, is idle too.
                Poll::Pending if held == 0 && worker.seats.is_over(self.client.began) => {
                    return Poll::Ready(Turn::Close);
                }
                Poll::Pending => {
                    if self.poll_deadline(task, sleep.as_mut()).is_ready() {
                        return Poll::Ready(self.timed_out());
                    }
                    self.may_read = false;
                    self.seat.park(task.waker());
                    return Poll::Pending;
                }
            }
        }
    }

    /// Polls the timer. It is set anew only when it goes off, so that a busy connection never touches it.
    fn poll_deadline(&self, task: &mut Context<'_>, mut sleep: Pin<&mut Sleep>) -> Poll<()> {
        loop {
            // If the deadline has moved closer, do not wait for the old one.
            if sleep.deadline() > self.deadline {
                sleep.as_mut().reset(self.deadline);
            }
            match sleep.as_mut().poll(task) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(()) if self.deadline > Instant::now() => sleep.as_mut().reset(self.deadline),
                Poll::Ready(()) => return Poll::Ready(()),
            }
        }
    }

    fn timed_out(&self) -> Turn {
        let cx = self.worker.cx();
        if self.is_reading {
            cx.local.logs.main(
                LogLevel::Info,
                format_args!(
                    "client timed out while reading client request headers, client: {}",
                    self.client.address()
                ),
            );
        }
        let site = cx.site();
        let resets = self.client.listener(site).is_some_and(|listener| {
            site.locations[site.servers[listener.default].root].settings.connection.reset_timedout
        });
        if resets {
            self.io.stream.reset_on_close();
        }
        Turn::Close
    }

    /// Answers the requests in `bytes`. `None` if more bytes are needed.
    fn used(&mut self, bytes: &[u8]) -> Option<Turn> {
        let mut at = 0;
        while at < bytes.len() {
            let cx = self.worker.cx();
            let site = cx.site();
            let Some(listener) = self.client.listener(site) else { return Some(Turn::Close) };
            let now = clock::micros();
            let began = *self.head_began.get_or_insert(now.time());
            let mut exchange = self.worker.exchange(&self.client);
            exchange.asked.number = self.number + 1;
            exchange.asked.complete = now;
            let (consumed, step) = match receive(&bytes[at..], listener, &mut exchange, &cx, began) {
                Received::Partial => {
                    if !self.is_reading {
                        self.worker.stats.reading.add(1);
                        self.deadline = Instant::now() + site.servers[listener.default].client.header_timeout;
                    }
                    self.is_reading = true;
                    self.io.pending.extend_from_slice(&bytes[at..]);
                    self.worker.recycle(exchange);
                    return None;
                }
                Received::Head { consumed, step } => (consumed, step),
            };
            if std::mem::take(&mut self.is_reading) {
                self.worker.stats.reading.sub(1);
            }
            self.head_began = None;
            self.may_read = false;
            self.number += 1;
            counting::begun(&exchange, &cx);
            at += consumed;
            self.worker.at_once.set(true);
            let answered = self.answer(step, exchange, cx, at < bytes.len());
            self.worker.at_once.set(false);
            match answered {
                Answered::Next => self.worker.is_pipelined.set(at < bytes.len()),
                Answered::Over => return Some(Turn::Close),
                Answered::Asking => {
                    self.io.pending.extend_from_slice(&bytes[at..]);
                    return None;
                }
                Answered::Later(work) => {
                    self.io.pending.extend_from_slice(&bytes[at..]);
                    return Some(Turn::Work(work));
                }
            }
        }
        self.io.pending = Vec::new();
        None
    }

    /// Answers a request as far as possible without waiting. `has_more` says whether the client has sent more.
    fn answer(&mut self, mut step: Step, mut exchange: Box<Exchange>, cx: Cx, has_more: bool) -> Answered {
        let stop = loop {
            match request::advance(step, &mut exchange, &cx) {
                Stop::Slow(Slow::Fetch(plan)) => match self.worker.gate.try_admit() {
                    None => break Stop::Slow(Slow::Fetch(plan)),
                    Some(admission) => match fetch::begin(plan, &mut exchange, &cx) {
                        Begun::Underway(underway) => {
                            self.worker.stats.writing.add(1);
                            self.asking = Some(Asking { exchange, cx, underway, _admission: admission });
                            return Answered::Asking;
                        }
                        Begun::Beside(plan) => break Stop::Slow(Slow::Fetch(plan)),
                        Begun::Over(next) => step = next,
                    },
                },
                stop => break stop,
            }
        };
        let what = match stop {
            Stop::Abort => {
                finish(&mut exchange, &cx);
                return Answered::Over;
            }
            Stop::Slow(slow) => What::Steps(slow),
            Stop::Deliver(response) if matches!(exchange.request.body, RequestBody::Unread(_)) => {
                What::Respond(response)
            }
            Stop::Deliver(response) => match self.respond(response, &mut exchange, &cx, has_more) {
                Ok(None) if exchange.reply.framing.keep_alive => {
                    self.rest_until_next(&exchange, &cx);
                    finish(&mut exchange, &cx);
                    self.worker.recycle(exchange);
                    return Answered::Next;
                }
                // Closing at once would reset the connection while the client is still sending.
                Ok(None) if exchange.reply.upgraded.is_some() || lingers(&exchange, &cx, has_more) => What::End,
                Ok(Some(rest)) => What::Send(rest),
                Ok(None) | Err(_) => {
                    finish(&mut exchange, &cx);
                    return Answered::Over;
                }
            },
        };
        Answered::Later(Box::new(Work { exchange, cx, what }))
    }

    /// Polls the fetch of a request, and answers it when the origin has. A client that leaves ends a fetch that is for
    /// it alone.
    fn poll_asking(&mut self, mut asking: Asking, task: &mut Context<'_>) -> Poll<Answered> {
        let outcome = match asking.underway.poll(task) {
            Poll::Ready(outcome) => Ok(outcome),
            Poll::Pending if asking.underway.ends_with_client() && self.io.poll_gone(task).is_ready() => {
                Err(Refused::Unwanted)
            }
            Poll::Pending => {
                self.asking = Some(asking);
                return Poll::Pending;
            }
        };
        let Asking { mut exchange, cx, underway, _admission } = asking;
        let step = match outcome {
            Ok(outcome) => underway.conclude(outcome, &mut exchange, &cx),
            Err(refused) => underway.give_up(refused, &mut exchange, &cx),
        };
        self.worker.stats.writing.sub(1);
        self.worker.at_once.set(true);
        let answered = self.answer(step, exchange, cx, self.io.has_more());
        self.worker.at_once.set(false);
        Poll::Ready(answered)
    }

    /// Lays a response out and sends what goes at once. `has_more` says whether the client has sent more.
    fn respond(&self, response: Settled, ex: &mut Exchange, cx: &Cx, has_more: bool) -> std::io::Result<Option<Rest>> {
        let mut head = self.worker.buffers.write.borrow_mut();
        head.clear();
        head.append(&mut ex.reply.hints);
        let outgoing = deliver::write(response, ex, cx, &mut head);
        if limit_rate::is_limited(ex, cx) {
            return Ok(Some(Rest::unsent(&head, outgoing)));
        }
        // Bytes that lie unread at the close reset the connection, and what is held back is lost.
        let is_last = !ex.reply.framing.keep_alive
            && ex.reply.upgraded.is_none()
            && matches!(ex.request.body, RequestBody::None)
            && !has_more
            && !lingers(ex, cx, has_more)
            && ready::in_memory(&outgoing).is_some()
            && !self.io.stream.has_unread();
        self.io.stream.leave_with_close(is_last);
        let rest = at_once::try_now(&self.io.stream, &mut head, outgoing, ex, &self.worker.buffers)?;
        if is_last && rest.is_some() {
            self.io.stream.leave_with_close(false);
        }
        ex.tally.is_complete = rest.is_none();
        Ok(rest)
    }

    /// Starts the timer of an idle connection: `keepalive_timeout`.
    fn rest_until_next(&mut self, ex: &Exchange, cx: &Cx) {
        self.deadline = Instant::now() + cx.loc(ex).settings.connection.keepalive_timeout;
    }
}

/// The least room that a growing head is given.
const MIN_READ_BYTES: usize = 16 * 1024;

/// Writes the log lines of a finished exchange. As with nginx, they are in the log before the client sees its
/// connection closed.
fn finish(ex: &mut Exchange, cx: &Cx) {
    counting::finished(ex, cx);
    cx.local.logs.access(ex, cx);
    records::finished(ex, cx);
    if !ex.reply.framing.keep_alive {
        cx.local.logs.write_now(cx.site(), cx.now());
    }
}

/// Finishes an exchange that has to wait; returns whether the connection is kept.
async fn slow(connection: &mut Connection, work: Box<Work>) -> bool {
    let Work { exchange: mut ex, cx, what } = *work;
    let _running = cx.worker.seats.begin();
    let response = match what {
        What::Send(rest) => return send_rest(connection, rest, ex, &cx).await,
        What::End => return end(connection, ex, &cx).await,
        What::Respond(response) => discardable(response, &mut ex, &cx, connection),
        What::Steps(slow) => {
            let steps = request::finish(slow, &mut ex, &cx, Inbound::Connection(&mut connection.io));
            match cx.local.while_valid(steps).await {
                Some(response) => response,
                None => return cut_off(connection, ex, &cx),
            }
        }
    };
    let Some(response) = response else {
        finish(&mut ex, &cx);
        return false;
    };
    // What comes then is either the body or the next request, and nobody can tell which.
    ex.reply.framing.keep_alive &= !request_body::waits_for_leave(&ex, &connection.io);
    match connection.respond(response, &mut ex, &cx, connection.io.has_more()) {
        Ok(None) => end(connection, ex, &cx).await,
        Ok(Some(rest)) => send_rest(connection, rest, ex, &cx).await,
        Err(_) => {
            finish(&mut ex, &cx);
            false
        }
    }
}

/// The response to a request whose body nobody wants, unless what has come of that is no body.
fn discardable(response: Settled, ex: &mut Exchange, cx: &Cx, connection: &Connection) -> Option<Settled> {
    if matches!(ex.request.body, RequestBody::Unread(None)) && !feed::begins_in_chunks(&connection.io.pending) {
        ex.reply.fields.clear();
        ex.reply.choice = Choice::default();
        let refused = Refused::bad_chunks().step(ex, cx);
        return request::answer_now(refused, ex, cx);
    }
    Some(response)
}

/// What is still to be read of the request's body; `None` if nothing. Bytes that were read beyond it go back to `io`,
/// for the next request.
fn unread(ex: &mut Exchange, io: &mut Io) -> Option<feed::Rest> {
    match std::mem::take(&mut ex.request.body) {
        RequestBody::Unread(Some(bytes)) => Some(feed::Rest::Length(bytes)),
        RequestBody::Unread(None) => Some(feed::Rest::Chunked(Box::default())),
        RequestBody::Passing(feed) => {
            let (rest, ahead) = feed.into_rest();
            io.unread(&ahead);
            (!matches!(rest, feed::Rest::Nothing)).then_some(rest)
        }
        RequestBody::None | RequestBody::Memory(_) | RequestBody::File(..) => None,
    }
}

/// Ends an exchange that ran longer than `worker_shutdown_timeout` under a replaced configuration.
fn cut_off(connection: &mut Connection, mut ex: Box<Exchange>, cx: &Cx) -> bool {
    connection.is_cut = true;
    finish(&mut ex, cx);
    false
}

async fn send_rest(connection: &mut Connection, rest: Rest, mut ex: Box<Exchange>, cx: &Cx) -> bool {
    let mut feed = ex.request.body.take_feed();
    let sending = send::rest(Sink::Connection(&connection.io.stream), rest, &mut ex, cx);
    let sending = async {
        match feed.as_deref_mut() {
            None => sending.await,
            Some(feed) => feed::beside(feed, BodySource::Connection(&connection.io), sending).await,
        }
    };
    let Some(sent) = cx.local.while_valid(sending).await else { return cut_off(connection, ex, cx) };
    if let Some(feed) = feed {
        ex.reply.framing.keep_alive &= !feed.is_broken();
        ex.request.body = RequestBody::Passing(feed);
    }
    if let Err(error) = sent {
        match &error {
            SendError::TimedOut => {
                cx.local.logs.error(cx, &ex, LogLevel::Info, format_args!("client timed out while sending to client"));
                if cx.loc(&ex).settings.connection.reset_timedout {
                    connection.io.stream.reset_on_close();
                }
            }
            SendError::Io(_) => {
                cx.local.logs.error(cx, &ex, LogLevel::Info, format_args!("{error} while sending to client"))
            }
            SendError::File(_) => {
                cx.local.logs.error(cx, &ex, LogLevel::Alert, format_args!("{error} while sending response to client"))
            }
            // The origin's failure is in the log already.
            SendError::Incomplete(_) => {}
        }
        connection.is_cut = true;
        finish(&mut ex, cx);
        return false;
    }
    ex.tally.is_complete = true;
    end(connection, ex, cx).await
}

/// Passes bytes both ways after a response that switched protocols, until one side ends.
async fn pass(connection: &mut Connection, origin: larder_origin::Upgraded, ex: &mut Exchange, cx: &Cx) {
    let settings = &cx.loc(ex).settings;
    let model = &settings.proxy.origin;
    let limits = tunnel::Limits {
        silence: model.connection.read_timeout,
        to_origin: model.connection.send_timeout,
        to_client: settings.connection.send_timeout,
    };
    let early = origin.early_bytes();
    let passed = tunnel::run(&mut connection.io, origin, &limits).await;
    ex.tally.sent.0 += passed.to_client;
    ex.tally.sent.1 += passed.to_client;
    let who = match passed.end {
        tunnel::End::Closed => None,
        tunnel::End::OriginTimedOut => Some("upstream"),
        tunnel::End::ClientTimedOut => Some("client"),
    };
    let address = ex.tally.attempts.last_mut().map(|attempt| {
        attempt.sent_bytes += passed.to_origin;
        attempt.received_bytes += passed.to_client.saturating_sub(early);
        attempt.note_end();
        attempt.address.clone()
    });
    if let Some(who) = who {
        cx.local.logs.origin_error(
            cx,
            ex,
            LogLevel::Info,
            &address.unwrap_or_default(),
            format_args!("{who} timed out (110: Connection timed out) while proxying upgraded connection"),
        );
    }
}

/// Finishes an exchange after its response: writes the log, and deals with the rest of the request's body.
async fn end(connection: &mut Connection, mut ex: Box<Exchange>, cx: &Cx) -> bool {
    if let Some(origin) = ex.reply.upgraded.take() {
        let passing = pass(connection, origin, &mut ex, cx);
        if cx.local.while_valid(passing).await.is_none() {
            return cut_off(connection, ex, cx);
        }
    }
    finish(&mut ex, cx);
    let settings = &cx.loc(&ex).settings;
    let mut keep = ex.reply.framing.keep_alive;
    let unread = unread(&mut ex, &mut connection.io);
    let has_more = unread.is_some() || connection.io.has_pending();
    if keep && let Some(rest) = unread {
        keep =
            discard(connection, rest, settings.connection.lingering_time, settings.connection.lingering_timeout).await;
    }
    if keep {
        connection.rest_until_next(&ex, cx);
        let again = !connection.worker.seats.is_over(connection.client.began);
        connection.worker.recycle(ex);
        return again;
    }
    if lingers(&ex, cx, has_more) {
        linger(&mut connection.io.stream, settings.connection.lingering_time, settings.connection.lingering_timeout)
            .await;
    }
    false
}

/// Whether a connection that is closed after this response is read on for a while first: closing it while the client is
/// still sending would reset it, and the client might not read the response.
fn lingers(ex: &Exchange, cx: &Cx, has_more: bool) -> bool {
    match cx.loc(ex).settings.connection.lingering_close {
        LingeringClose::Off => false,
        LingeringClose::On => {
            let is_unread = matches!(ex.request.body, RequestBody::Unread(_) | RequestBody::Passing(_));
            has_more || is_unread || ex.asked.head_is_bad || ex.request.body_refused
        }
        LingeringClose::Always => true,
    }
}

/// Reads and drops the rest of a body that nobody reads; false if the connection cannot be kept.
async fn discard(connection: &mut Connection, rest: feed::Rest, total: Duration, each: Duration) -> bool {
    let began = Instant::now();
    let mut rest = rest;
    while began.elapsed() < total {
        let most = match &rest {
            feed::Rest::Length(0) | feed::Rest::Nothing => return true,
            feed::Rest::Length(left) => usize::try_from(*left).unwrap_or(usize::MAX),
            feed::Rest::Chunked(_) | feed::Rest::Stream => usize::MAX,
        };
        let piece = match connection.io.read_some(most, each).await {
            Ok(piece) => piece,
            Err(ReadError::TimedOut | ReadError::Closed | ReadError::WrongLength | ReadError::Io(_)) => return false,
        };
        match &mut rest {
            feed::Rest::Length(left) => *left -= piece.len() as u64,
            feed::Rest::Chunked(decoder) => {
                let mut at = 0;
                while at < piece.len() {
                    let Ok(decoded) = decoder.decode(&piece[at..]) else { return false };
                    at += decoded.consumed;
                    if decoded.done {
                        connection.io.unread(&piece[at..]);
                        return true;
                    }
                    if decoded.consumed == 0 {
                        return false;
                    }
                }
            }
            feed::Rest::Stream | feed::Rest::Nothing => {}
        }
    }
    matches!(rest, feed::Rest::Length(0) | feed::Rest::Nothing)
}
