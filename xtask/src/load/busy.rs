//! Many connections that all ask at once, round after round: who fails?

use super::contender::Contender;
use super::idle::allow_descriptors;
use super::origin::Page;
use super::report::median;
use super::{LoadError, cannot, fetch};
use rustix::event::Timespec;
use rustix::event::epoll;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// The page that is asked for, as large as in the reports about Varnish that made 10,000 connections a measure.
const PAGE: Page = Page::Plain(5 * 1024);
/// Rounds on one server.
const ROUNDS: usize = 20;
/// A connection that has no whole answer after this has failed.
const ROUND_LIMIT: Duration = Duration::from_secs(20);
/// All rounds on one server together; what is left is not run.
const TOTAL_LIMIT: Duration = Duration::from_secs(90);
/// How long a connection may take to open.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 1024;
/// More failures than this to connect, and the rest is not tried: each may take `CONNECT_LIMIT`.
const CONNECT_FAILURES_MAX: usize = 5;

/// Runs the rounds on each server in turn and prints what came of them.
pub fn measure(connections: usize, contenders: &[Contender]) -> Result<(), LoadError> {
    allow_descriptors(connections)?;
    println!(
        "{:<13} {:>11} {:>6} {:>9} {:>9} {:>9} {:>11} {:>12}",
        "server", "connections", "rounds", "requests", "failures", "req/s", "CPU us/req", "round median"
    );
    let mut failed = false;
    for contender in contenders {
        for _ in 0..2 {
            contender.get(PAGE)?;
        }
        let cpu_before = contender.process.cpu();
        let result = run(contender.address(), connections).map_err(cannot("wait for the connections"))?;
        let cpu = contender.process.cpu().saturating_sub(cpu_before);
        let seconds: f64 = result.rounds.iter().map(Duration::as_secs_f64).sum();
        println!(
            "{:<13} {connections:>11} {:>6} {:>9} {:>9} {:>9.0} {:>11.2} {:>10.0}ms",
            contender.kind.name(),
            result.rounds.len(),
            result.answers,
            result.failures,
            result.answers as f64 / seconds,
            cpu.as_secs_f64() * 1e6 / result.answers as f64,
            median(result.rounds.iter().map(|round| round.as_secs_f64() * 1e3)),
        );
        failed |= result.failures > 0 && contender.kind.is_larder();
    }
    if failed {
        return Err(LoadError::Usage("larder failed requests".into()));
    }
    Ok(())
}

/// What came of the rounds on one server.
#[derive(Debug, Default)]
struct Outcome {
    /// How long each round took.
    rounds: Vec<Duration>,
    /// Whole answers with status 200.
    answers: u64,
    /// Connections that did not open, ended early, answered wrongly or not in time, each once.
    failures: u64,
}

/// One connection in the rounds.
///
/// ```text
/// Idle --ask--> Reading --whole answer--> Idle
///   `-------------`------ anything else -----> Failed
/// ```
enum Caller {
    /// Has no request under way.
    Idle(TcpStream),
    /// Waits for the rest of an answer; holds what has come.
    Reading(TcpStream, Vec<u8>),
    /// Takes no further part; its connection is closed, which also ends its events.
    Failed,
}

fn run(address: SocketAddr, connections: usize) -> io::Result<Outcome> {
    let mut outcome = Outcome::default();
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut callers = Vec::with_capacity(connections);
    let mut refused = 0;
    while callers.len() + refused < connections && refused <= CONNECT_FAILURES_MAX {
        match connect(address, callers.len(), &poll) {
            Ok(stream) => callers.push(Caller::Idle(stream)),
            Err(_) => refused += 1,
        }
    }
    outcome.failures += (connections - callers.len()) as u64;

    let request = format!("GET {} HTTP/1.1\r\nHost: {address}\r\n\r\n", PAGE.path());
    let started = Instant::now();
    while outcome.rounds.len() < ROUNDS && started.elapsed() < TOTAL_LIMIT {
        let round = Instant::now();
        let waiting = ask_all(&mut callers, request.as_bytes(), &mut outcome);
        read_all(&mut callers, waiting, &poll, round, &mut outcome)?;
        outcome.rounds.push(round.elapsed());
    }
    Ok(outcome)
}

fn connect(address: SocketAddr, number: usize, poll: &OwnedFd) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, CONNECT_LIMIT)?;
    stream.set_nonblocking(true)?;
    epoll::add(poll, &stream, epoll::EventData::new_u64(number as u64), epoll::EventFlags::IN)?;
    Ok(stream)
}

/// Sends one request on every connection that has not failed, and says how many now wait for an answer.
fn ask_all(callers: &mut [Caller], request: &[u8], outcome: &mut Outcome) -> usize {
    let mut waiting = 0;
    for caller in callers {
        let Caller::Idle(mut stream) = std::mem::replace(caller, Caller::Failed) else {
            continue;
        };
        // A request is far smaller than an empty send buffer, so it is written whole or the connection is dead.
        match stream.write(request) {
            Ok(count) if count == request.len() => {
                *caller = Caller::Reading(stream, Vec::new());
                waiting += 1;
            }
            Ok(_) | Err(_) => outcome.failures += 1,
        }
    }
    waiting
}

/// Reads until every connection that waits has its answer, or the round's time is over.
fn read_all(
    callers: &mut [Caller],
    mut waiting: usize,
    poll: &OwnedFd,
    round: Instant,
    outcome: &mut Outcome,
) -> io::Result<()> {
    let mut events = Vec::with_capacity(EVENTS_MAX);
    let tick = Timespec { tv_sec: 1, tv_nsec: 0 };
    while waiting > 0 && round.elapsed() < ROUND_LIMIT {
        events.clear();
        epoll::wait(poll, rustix::buffer::spare_capacity(&mut events), Some(&tick))?;
        for event in &events {
            let number = event.data.u64() as usize;
            let Some(caller) = callers.get_mut(number) else {
                continue;
            };
            let was_reading = matches!(caller, Caller::Reading(..));
            let next = std::mem::replace(caller, Caller::Failed).read_on();
            match (&next, was_reading) {
                (Caller::Idle(_), true) => outcome.answers += 1,
                (Caller::Failed, _) => outcome.failures += 1,
                (Caller::Idle(_) | Caller::Reading(..), _) => {}
            }
            waiting -= usize::from(was_reading && !matches!(next, Caller::Reading(..)));
            *caller = next;
        }
    }
    for caller in callers.iter_mut().filter(|caller| matches!(caller, Caller::Reading(..))) {
        *caller = Caller::Failed;
        outcome.failures += 1;
    }
    Ok(())
}

impl Caller {
    /// Reads once what is there. Called only when the connection is readable, so an end or surplus bytes show here.
    fn read_on(self) -> Caller {
        let mut part = [0; 16 * 1024];
        match self {
            Caller::Failed => Caller::Failed,
            // Bytes now are an answer nobody asked for; an end is the server closing a connection it may still be asked on.
            Caller::Idle(mut stream) => match stream.read(&mut part) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => Caller::Idle(stream),
                Ok(_) | Err(_) => Caller::Failed,
            },
            Caller::Reading(mut stream, mut bytes) => match stream.read(&mut part) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => Caller::Reading(stream, bytes),
                Ok(0) | Err(_) => Caller::Failed,
                Ok(count) => {
                    bytes.extend_from_slice(part.get(..count).unwrap_or_default());
                    match fetch::length(&bytes) {
                        Some(length) if bytes.len() == length && fetch::status(&bytes) == Some(200) => {
                            Caller::Idle(stream)
                        }
                        Some(length) if bytes.len() >= length => Caller::Failed,
                        Some(_) | None => Caller::Reading(stream, bytes),
                    }
                }
            },
        }
    }
}
