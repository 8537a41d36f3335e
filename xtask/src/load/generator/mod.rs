//! A generator of our own, where wrk cannot do what is measured: TLS in all its kinds, HTTP/2, people who pause.
//!
//! One thread waits on all connections; it keeps no bodies and checks no signatures (`tls::Client::quick`), so that it
//! costs a third to a half of what nginx costs.

pub mod h1;
mod h2;
mod link;
pub mod tally;
#[cfg(test)]
mod tests;
pub mod tls;

use link::{Happening, Link, Request};
use rustix::event::{Timespec, epoll};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use tally::Tally;

/// Room for what one read brings.
const BUFFER_BYTES: usize = 256 * 1024;
/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 256;
/// How long answers may take to come after the last request.
const DRAIN_LIMIT: Duration = Duration::from_secs(20);
/// How long a server may take to close a connection it says it closes.
const LEAVE_LIMIT: Duration = Duration::from_secs(1);
/// How long a visitor whose request failed waits before the next.
const AFTER_FAILURE: Duration = Duration::from_millis(200);
/// More failures than this end a run: what it measures is not worth waiting for.
const FAILURES_MAX: u64 = 10_000;

/// What the visitors do.
#[derive(Clone)]
pub struct Plan<'a> {
    /// The server.
    pub address: SocketAddr,
    /// TLS, if any.
    pub tls: Option<tls::Client>,
    /// What is spoken.
    pub protocol: Protocol,
    /// The page.
    pub path: &'a str,
    /// Whether `Accept-Encoding: gzip` is sent; over HTTP/1.1 only.
    pub accepts_gzip: bool,
    /// What every answer has to be.
    pub expect: Expect,
    /// How many, each with a connection of its own.
    pub visitors: usize,
    /// Requests that each makes in all.
    pub requests_each: u64,
    /// Requests on a connection before another is opened.
    pub requests_per_connection: u64,
    /// The pause after an answer, give or take a half; `None` is no pause.
    pub pause: Option<Duration>,
    /// When each begins.
    pub start: Start,
    /// Whether the body of the last answer is kept.
    pub keeps_bodies: bool,
}

/// What is spoken to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1, one request at a time.
    Http1,
    /// HTTP/2 with so many requests at a time.
    Http2 {
        /// How many.
        streams: usize,
    },
}

/// When visitors begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// All together.
    AtOnce,
    /// So many a second, evenly.
    Evenly(u32),
    /// So many at once, every second.
    Bursts(u32),
}

/// What an answer has to be. The status has to be 200 in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// A body of so many bytes, not compressed.
    Bytes(usize),
    /// A gzip body that is shorter than so many bytes.
    Gzip(usize),
}

/// One answer.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Its status; 0 while it is not known.
    pub status: u16,
    /// The length of its body as it came, without chunks.
    pub bytes: usize,
    /// Whether it says it is compressed by gzip.
    pub is_gzip: bool,
    /// Whether the server says it closes the connection.
    pub closes: bool,
    /// Whether `X-Cache` says that it came from the cache.
    pub is_hit: bool,
    /// Its body, if bodies are kept.
    pub body: Vec<u8>,
}

/// Visitors of one server.
pub struct Generator<'a> {
    plan: Plan<'a>,
    request: Request,
    poll: OwnedFd,
    visitors: Vec<Visitor>,
    /// When somebody has something to do that no socket says.
    wakes: BinaryHeap<Reverse<(Instant, usize)>>,
    requests_under_way: usize,
    may_ask: bool,
    tally: Tally,
    last_body: Vec<u8>,
    buffer: Vec<u8>,
    happenings: Vec<Happening>,
    chance: u64,
}

/// What a turn waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// Everything that was asked has its answer.
    Answered,
    /// And nobody will ask later.
    NothingToDo,
}

#[derive(Default)]
struct Visitor {
    link: Option<Link>,
    asked_on_link: u64,
    under_way: usize,
    requests_left: u64,
    /// The server has said that it closes; nothing more is asked on this link.
    is_leaving: bool,
    wakes_at: Option<Instant>,
}

impl<'a> Generator<'a> {
    /// Visitors that have not begun.
    pub fn new(plan: Plan<'a>) -> io::Result<Generator<'a>> {
        let visitor = || Visitor { requests_left: plan.requests_each, ..Visitor::default() };
        Ok(Generator {
            request: Request::of(&plan),
            poll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            visitors: std::iter::repeat_with(visitor).take(plan.visitors).collect(),
            wakes: BinaryHeap::new(),
            requests_under_way: 0,
            may_ask: true,
            tally: Tally::default(),
            last_body: Vec::new(),
            buffer: vec![0; BUFFER_BYTES],
            happenings: Vec::new(),
            chance: 0x9e37_79b9_7f4a_7c15,
            plan,
        })
    }

    /// Lets every visitor begin at its time.
    pub fn start(&mut self) -> io::Result<()> {
        let now = Instant::now();
        for number in 0..self.visitors.len() {
            match self.plan.start.offset(number) {
                Duration::ZERO => self.go_on(number, now)?,
                offset => self.wake(number, now + offset),
            }
        }
        Ok(())
    }

    /// Goes on for `time`, or until nobody has anything left to do.
    pub fn run(&mut self, time: Duration) -> io::Result<()> {
        self.may_ask = true;
        let now = Instant::now();
        for number in 0..self.visitors.len() {
            if self.visitors.get(number).is_some_and(|visitor| visitor.wakes_at.is_none() && visitor.under_way == 0) {
                self.go_on(number, now)?;
            }
        }
        self.turn(now + time, Until::NothingToDo)
    }

    /// Asks nothing more and waits for the answers that are under way; what does not come has failed.
    pub fn drain(&mut self) -> io::Result<()> {
        self.may_ask = false;
        self.turn(Instant::now() + DRAIN_LIMIT, Until::Answered)?;
        for visitor in self.visitors.iter_mut().filter(|visitor| visitor.under_way > 0) {
            self.tally.fail(visitor.under_way as u64, format!("no answer within {DRAIN_LIMIT:?}"));
            *visitor = Visitor { requests_left: visitor.requests_left, ..Visitor::default() };
        }
        self.requests_under_way = 0;
        Ok(())
    }

    /// Every visitor asks once and has its answer, over a connection that stays. A failure is an error.
    pub fn warm_up(&mut self) -> Result<(), String> {
        let mut once = || {
            self.visitors.iter_mut().for_each(|visitor| visitor.requests_left = 1);
            self.start()?;
            let last = self.plan.start.offset(self.visitors.len());
            self.turn(Instant::now() + last + DRAIN_LIMIT, Until::NothingToDo)?;
            self.drain()?;
            self.visitors.iter_mut().for_each(|visitor| visitor.requests_left = self.plan.requests_each);
            Ok(())
        };
        once().map_err(|error: io::Error| error.to_string())?;
        let Tally { failures, reasons, agreement, .. } = self.take_tally();
        // What the kept connections agreed on holds for what is asked on them later.
        self.tally.agreement = agreement;
        if failures == 0 { Ok(()) } else { Err(reasons.join("; ")) }
    }

    /// What was counted since the last time.
    pub fn take_tally(&mut self) -> Tally {
        std::mem::take(&mut self.tally)
    }

    /// The body of the last answer, if bodies are kept.
    pub fn last_body(&self) -> &[u8] {
        &self.last_body
    }

    /// Waits and acts until `end`, or until what is waited for has come.
    fn turn(&mut self, end: Instant, until: Until) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        loop {
            let now = Instant::now();
            while let Some(Reverse((at, number))) = self.wakes.peek().copied().filter(|wake| wake.0.0 <= now) {
                self.wakes.pop();
                if self.visitors.get(number).is_some_and(|visitor| visitor.wakes_at == Some(at)) {
                    self.go_on(number, now)?;
                }
            }
            let is_done = self.requests_under_way == 0 && (until == Until::Answered || self.wakes.is_empty());
            if now >= end || is_done || self.tally.failures > FAILURES_MAX {
                return Ok(());
            }
            let next = self.wakes.peek().map_or(end, |wake| wake.0.0.min(end));
            let wait = next.saturating_duration_since(now);
            let wait = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
            events.clear();
            match epoll::wait(&self.poll, rustix::buffer::spare_capacity(&mut events), Some(&wait)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                let flags = event.flags;
                let has_ended =
                    flags.intersects(epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR);
                self.read_on(event.data.u64() as usize, has_ended)?;
            }
        }
    }

    /// A visitor's socket has something to say.
    fn read_on(&mut self, number: usize, has_ended: bool) -> io::Result<()> {
        let Some(visitor) = self.visitors.get_mut(number) else {
            return Ok(());
        };
        let Some(link) = &mut visitor.link else {
            return Ok(());
        };
        let mut happenings = std::mem::take(&mut self.happenings);
        let received = link.receive(&mut self.buffer, has_ended, &mut happenings);
        let now = Instant::now();
        for happening in happenings.drain(..) {
            match happening {
                Happening::Opened(agreement) => {
                    self.tally.connections += 1;
                    self.tally.resumed += u64::from(agreement.as_ref().is_some_and(|agreed| agreed.is_resumed));
                    self.tally.agreement = agreement.or(self.tally.agreement.take());
                }
                Happening::Answer(asked, answer) => self.answered(number, asked, now, answer),
                Happening::NotTaken(count) => {
                    if let Some(visitor) = self.visitors.get_mut(number) {
                        visitor.under_way -= count;
                        visitor.requests_left = visitor.requests_left.saturating_add(count as u64);
                        self.requests_under_way -= count;
                    }
                }
                Happening::Ended => self.ended(number, None, now),
            }
        }
        self.happenings = happenings;
        if let Err(reason) = received {
            self.ended(number, Some(reason), now);
        }
        self.go_on_unless_asleep(number, now)
    }

    fn answered(&mut self, number: usize, asked: Instant, now: Instant, answer: Answer) {
        let Some(visitor) = self.visitors.get_mut(number) else {
            return;
        };
        visitor.under_way -= 1;
        self.requests_under_way -= 1;
        visitor.is_leaving |= answer.closes;
        let is_leaving = visitor.is_leaving;
        match self.plan.expect.find_fault(&answer) {
            Some(fault) => self.tally.fail(1, fault),
            None => {
                self.tally.answers += 1;
                self.tally.body_bytes += answer.bytes as u64;
                self.tally.waits.push(now - asked);
            }
        }
        if self.plan.keeps_bodies {
            self.last_body = answer.body;
        }
        match self.plan.pause {
            Some(pause) => {
                let wakes_at = now + pause.mul_f64(0.5 + self.fraction());
                self.wake(number, wakes_at);
            }
            None if is_leaving => self.wake(number, now + LEAVE_LIMIT),
            None => {}
        }
    }

    /// The connection is over; what was asked on it and not answered has failed.
    fn ended(&mut self, number: usize, reason: Option<String>, now: Instant) {
        let Some(visitor) = self.visitors.get_mut(number).filter(|visitor| visitor.link.is_some()) else {
            return;
        };
        let lost = std::mem::take(&mut visitor.under_way);
        self.requests_under_way -= lost;
        visitor.link = None;
        visitor.is_leaving = false;
        if self.plan.pause.is_none() {
            visitor.wakes_at = None;
        }
        if lost > 0 || reason.is_some() {
            let reason = reason.unwrap_or_else(|| "the connection was closed instead of an answer".into());
            self.tally.fail(lost.max(1) as u64, reason);
            self.wake(number, now + AFTER_FAILURE);
        }
    }

    fn go_on_unless_asleep(&mut self, number: usize, now: Instant) -> io::Result<()> {
        let Some(visitor) = self.visitors.get_mut(number) else {
            return Ok(());
        };
        if visitor.wakes_at.is_none() {
            return self.go_on(number, now);
        }
        // Replies of the protocols, and what is left of a handshake.
        match visitor.link.as_mut().map_or(Ok(()), Link::send) {
            Ok(()) => {}
            Err(reason) => self.ended(number, Some(reason), now),
        }
        Ok(())
    }

    /// Asks as much as the visitor may, over a new connection if need be, and sends.
    fn go_on(&mut self, number: usize, now: Instant) -> io::Result<()> {
        let Some(visitor) = self.visitors.get_mut(number) else {
            return Ok(());
        };
        visitor.wakes_at = None;
        if std::mem::take(&mut visitor.is_leaving) {
            visitor.link = None;
        }
        let width = match self.plan.protocol {
            Protocol::Http1 => 1,
            Protocol::Http2 { streams } => streams,
        };
        let most = self.plan.requests_per_connection;
        while self.may_ask && visitor.under_way < width && visitor.requests_left > 0 {
            if let Some(link) = visitor.link.take_if(|link| visitor.asked_on_link >= most || !link.may_ask()) {
                if visitor.under_way > 0 {
                    visitor.link = Some(link);
                    break;
                }
                link.close();
            }
            if visitor.link.is_none() {
                match Link::open(&self.plan) {
                    Ok(link) => {
                        let flags = epoll::EventFlags::IN
                            | epoll::EventFlags::OUT
                            | epoll::EventFlags::RDHUP
                            | epoll::EventFlags::ET;
                        epoll::add(&self.poll, link.socket(), epoll::EventData::new_u64(number as u64), flags)?;
                        visitor.link = Some(link);
                        visitor.asked_on_link = 0;
                    }
                    Err(reason) => {
                        visitor.requests_left -= 1;
                        self.tally.fail(1, reason);
                        self.wake(number, now + AFTER_FAILURE);
                        return Ok(());
                    }
                }
            }
            let Some(link) = &mut visitor.link else {
                break;
            };
            visitor.asked_on_link += 1;
            link.ask(&self.request, now, visitor.asked_on_link == most);
            visitor.under_way += 1;
            visitor.requests_left -= 1;
            self.requests_under_way += 1;
        }
        match visitor.link.as_mut().map_or(Ok(()), Link::send) {
            Ok(()) => {}
            Err(reason) => self.ended(number, Some(reason), now),
        }
        Ok(())
    }

    fn wake(&mut self, number: usize, at: Instant) {
        if let Some(visitor) = self.visitors.get_mut(number) {
            visitor.wakes_at = Some(at);
            self.wakes.push(Reverse((at, number)));
        }
    }

    /// A number from 0 to 1, the same ones in every run (xorshift).
    fn fraction(&mut self) -> f64 {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        (self.chance >> 11) as f64 / (1u64 << 53) as f64
    }
}

impl Start {
    fn offset(self, number: usize) -> Duration {
        match self {
            Start::AtOnce => Duration::ZERO,
            Start::Evenly(rate) => Duration::from_secs(1).mul_f64(number as f64 / f64::from(rate)),
            Start::Bursts(size) => Duration::from_secs(number as u64 / u64::from(size.max(1))),
        }
    }
}

impl Expect {
    /// What is wrong with `answer`, if anything.
    fn find_fault(self, answer: &Answer) -> Option<String> {
        let is_right = answer.status == 200
            && match self {
                Expect::Bytes(bytes) => answer.bytes == bytes && !answer.is_gzip,
                Expect::Gzip(bytes) => answer.is_gzip && (1..bytes).contains(&answer.bytes),
            };
        let gzip = if answer.is_gzip { " of gzip" } else { "" };
        (!is_right).then(|| format!("status {} and {} bytes{gzip}, not {self:?}", answer.status, answer.bytes))
    }
}
