//! More visitors than PHP can serve: what they get, and how long cached pages take meanwhile.
//!
//! Each server has a php-fpm of its own with few children at a unix socket, as Debian has it, and a script that takes a while.
//! Many connections ask for a page that is not cached, each again as soon as it has its answer, or a second after a failure,
//! as `Retry-After` has browsers and crawlers do. One more asks for a cached page every few milliseconds.

use super::contender::Contender;
use super::idle::allow_descriptors;
use super::options::Options;
use super::php::FEW_CHILDREN;
use super::{LoadError, cannot, fetch};
use rustix::event::Timespec;
use rustix::event::epoll;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

/// What is asked for.
const SLOW: &str = "/slow.php";
/// The same, from the cache.
const CACHED: &str = "/cached/slow.php";

/// After a failure a client asks again then.
const REST: Duration = Duration::from_secs(1);
/// How often the cached page is asked for.
const PROBE_EVERY: Duration = Duration::from_millis(10);
/// How long it is asked for alone, before each round.
const ALONE: Duration = Duration::from_secs(2);
/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 1024;

/// What came of the rounds on one server.
#[derive(Debug, Default)]
struct Outcome {
    /// How many answers had each status; 0 for connections that broke.
    statuses: BTreeMap<u16, u64>,
    /// How long the pages took that came, milliseconds.
    pages: Vec<f64>,
    /// How long the cached page took alone, and meanwhile.
    alone: Vec<f64>,
    meanwhile: Vec<f64>,
}

/// Runs the rounds, the servers in turn, and prints what came of them.
pub fn measure(options: &Options, contenders: &[Contender]) -> Result<(), LoadError> {
    allow_descriptors(options.connections)?;
    let waiting = cannot("ask the servers");
    let mut outcomes: Vec<Outcome> = contenders.iter().map(|_| Outcome::default()).collect();
    for contender in contenders {
        for _ in 0..2 {
            fetch::get(contender.address(), CACHED).map_err(cannot("fetch the page that is cached"))?;
        }
    }
    let mut run = || -> io::Result<()> {
        for _ in 0..options.rounds {
            for (contender, outcome) in contenders.iter().zip(&mut outcomes) {
                outcome.alone.extend(probe(contender.address(), ALONE)?);
                let time = Duration::from_secs(options.slice_seconds);
                let address = contender.address();
                let probing = thread::spawn(move || probe(address, time));
                ask(address, options.connections, time, outcome)?;
                let found = probing.join().map_err(|_| io::Error::other("the probe has panicked"))?;
                outcome.meanwhile.extend(found?);
            }
        }
        Ok(())
    };
    run().map_err(waiting)?;
    println!(
        "{} connections, {FEW_CHILDREN} children, 50 ms a page, {} s on each server",
        options.connections,
        options.rounds as u64 * options.slice_seconds
    );
    println!(
        "{:<10} {:>7} {:>7} {:>7} {:>7} {:>7} {:>10} {:>10} {:>13} {:>17}",
        "server",
        "200",
        "502",
        "503",
        "504",
        "broken",
        "p50 of 200",
        "p99 of 200",
        "cached, alone",
        "cached, meanwhile"
    );
    let mut failed = None;
    for (contender, outcome) in contenders.iter().zip(&mut outcomes) {
        let count = |status| outcome.statuses.get(&status).copied().unwrap_or(0);
        println!(
            "{:<10} {:>7} {:>7} {:>7} {:>7} {:>7} {:>8.0}ms {:>8.0}ms {:>11.2}ms {:>15.2}ms",
            contender.kind.name(),
            count(200),
            count(502),
            count(503),
            count(504),
            count(0),
            quantile(&mut outcome.pages, 0.5),
            quantile(&mut outcome.pages, 0.99),
            quantile(&mut outcome.alone, 0.99),
            quantile(&mut outcome.meanwhile, 0.99),
        );
        let known = [200, 503];
        if contender.kind.is_larder() && outcome.statuses.keys().any(|status| !known.contains(status)) {
            failed = Some(format!("{} answered with {:?}", contender.kind.name(), outcome.statuses));
        }
    }
    failed.map_or(Ok(()), |failed| Err(LoadError::Usage(failed)))
}

/// Asks for the cached page again and again. Returns how long each answer took, milliseconds.
fn probe(address: SocketAddr, time: Duration) -> io::Result<Vec<f64>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let request = format!("GET {CACHED} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let (began, mut times) = (Instant::now(), Vec::new());
    while began.elapsed() < time {
        let asked = Instant::now();
        stream.write_all(request.as_bytes())?;
        let mut bytes = Vec::new();
        while fetch::length(&bytes).is_none_or(|length| bytes.len() < length) {
            let mut part = [0; 4096];
            match stream.read(&mut part)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                count => bytes.extend_from_slice(part.get(..count).unwrap_or_default()),
            }
        }
        if fetch::status(&bytes) != Some(200) {
            return Err(io::Error::other("the cached page is not there"));
        }
        times.push(asked.elapsed().as_secs_f64() * 1e3);
        if !fetch::keeps_connection(&bytes) {
            stream = TcpStream::connect(address)?;
        }
        thread::sleep(PROBE_EVERY.saturating_sub(asked.elapsed()));
    }
    Ok(times)
}

/// A connection that asks again and again.
///
/// ```text
/// Resting --its time comes--> Asking --an answer--> Asking, or Resting after a failure
/// ```
struct Caller {
    stream: TcpStream,
    bytes: Vec<u8>,
    state: State,
}

enum State {
    /// Has asked then.
    Asking(Instant),
    /// Asks again then.
    Resting(Instant),
}

fn ask(address: SocketAddr, connections: usize, time: Duration, outcome: &mut Outcome) -> io::Result<()> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let request = format!("GET {SLOW} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let began = Instant::now();
    let mut callers = Vec::with_capacity(connections);
    for number in 0..connections {
        let stream = connect(address, number, &poll)?;
        callers.push(Caller { stream, bytes: Vec::new(), state: State::Resting(began) });
    }
    let mut events = Vec::with_capacity(EVENTS_MAX);
    let tick = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
    while began.elapsed() < time {
        let now = Instant::now();
        for (number, caller) in callers.iter_mut().enumerate() {
            if matches!(caller.state, State::Resting(until) if until <= now) && caller.ask(&request).is_err() {
                caller.renew(address, number, &poll)?;
            }
        }
        events.clear();
        epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), Some(&tick))?;
        for event in &events {
            let number = event.data.u64() as usize;
            let Some(caller) = callers.get_mut(number) else { continue };
            let again = match caller.read()? {
                Came::More => continue,
                Came::Broken => {
                    if matches!(caller.state, State::Asking(_)) {
                        *outcome.statuses.entry(0).or_default() += 1;
                    }
                    caller.renew(address, number, &poll)?;
                    continue;
                }
                Came::Answer(status, keeps) => {
                    *outcome.statuses.entry(status).or_default() += 1;
                    if let (200, State::Asking(since)) = (status, &caller.state) {
                        outcome.pages.push(since.elapsed().as_secs_f64() * 1e3);
                    }
                    if !keeps {
                        caller.renew(address, number, &poll)?;
                    }
                    status == 200
                }
            };
            match again {
                true if caller.ask(&request).is_ok() => {}
                true | false => caller.state = State::Resting(Instant::now() + REST),
            }
        }
    }
    Ok(())
}

fn connect(address: SocketAddr, number: usize, poll: &OwnedFd) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nonblocking(true)?;
    epoll::add(poll, &stream, epoll::EventData::new_u64(number as u64), epoll::EventFlags::IN)?;
    Ok(stream)
}

/// What has come on a connection.
enum Came {
    More,
    Broken,
    /// A whole answer with this status, after which the connection stays or not.
    Answer(u16, bool),
}

impl Caller {
    fn ask(&mut self, request: &str) -> io::Result<()> {
        self.bytes.clear();
        // A request is far smaller than an empty send buffer.
        self.stream.write_all(request.as_bytes())?;
        self.state = State::Asking(Instant::now());
        Ok(())
    }

    /// Another connection in its place, which asks after a rest.
    fn renew(&mut self, address: SocketAddr, number: usize, poll: &OwnedFd) -> io::Result<()> {
        self.stream = connect(address, number, poll)?;
        self.bytes.clear();
        self.state = State::Resting(Instant::now() + REST);
        Ok(())
    }

    fn read(&mut self) -> io::Result<Came> {
        let mut part = [0; 16 * 1024];
        match self.stream.read(&mut part) {
            Ok(0) => return Ok(Came::Broken),
            Ok(count) => self.bytes.extend_from_slice(part.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Came::More),
            Err(_) => return Ok(Came::Broken),
        }
        Ok(match (fetch::length(&self.bytes), fetch::status(&self.bytes)) {
            (Some(length), Some(status)) if self.bytes.len() == length => {
                Came::Answer(status, fetch::keeps_connection(&self.bytes))
            }
            (Some(length), _) if self.bytes.len() > length => Came::Broken,
            _ => Came::More,
        })
    }
}

/// The value that so many are not above; 0 of none.
fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (values.len() as f64 * share).ceil() as usize;
    values.get(at.saturating_sub(1)).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let mut values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!((quantile(&mut values, 0.5), quantile(&mut values, 0.99)), (50.0, 99.0));
        assert_eq!((quantile(&mut [7.0], 0.99), quantile(&mut [], 0.5)), (7.0, 0.0));
    }
}
