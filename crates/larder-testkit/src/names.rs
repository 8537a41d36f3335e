//! A name server that answers from a table.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::PATIENCE;

/// A name server on the loopback address, by UDP and TCP. A name that nobody told it of does not exist.
#[derive(Debug)]
pub struct NameServer {
    address: SocketAddr,
    table: Arc<Mutex<Table>>,
    ends: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
}

/// What a name server says of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Says {
    /// These addresses, for so many seconds; of the family that is not among them there are none.
    Addresses(Vec<IpAddr>, u32),
    /// The same, but only by TCP: what it says by UDP is cut.
    Long(Vec<IpAddr>, u32),
    /// Another name.
    Alias(String),
    /// Servers of a service: priority, weight, port and name of each, for so many seconds.
    Services(Vec<(u16, u16, u16, String)>, u32),
    /// A failure by its code: 2 for SERVFAIL.
    Failure(u8),
    /// An answer with a number that was not asked by, and nothing else.
    WrongNumber,
    /// Nothing.
    Nothing,
}

#[derive(Debug, Default)]
struct Table {
    says: HashMap<String, Says>,
    /// Every question: its name, and whether it came by TCP.
    asked: Vec<(String, bool)>,
}

/// How often a thread looks whether it is to end.
const TURN: Duration = Duration::from_millis(20);

impl NameServer {
    /// Starts one.
    pub fn start() -> io::Result<NameServer> {
        let (udp, tcp) = sockets()?;
        let address = udp.local_addr()?;
        udp.set_read_timeout(Some(TURN))?;
        tcp.set_nonblocking(true)?;
        let (table, ends) = (Arc::<Mutex<Table>>::default(), Arc::<AtomicBool>::default());
        let threads = vec![
            thread::spawn({
                let (table, ends) = (Arc::clone(&table), Arc::clone(&ends));
                move || serve_udp(&udp, &table, &ends)
            }),
            thread::spawn({
                let (table, ends) = (Arc::clone(&table), Arc::clone(&ends));
                move || serve_tcp(&tcp, &table, &ends)
            }),
        ];
        Ok(NameServer { address, table, ends, threads })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on it says this of `name`.
    pub fn says(&self, name: &str, says: Says) {
        locked(&self.table).says.insert(name.to_owned(), says);
    }

    /// The same with IPv4 addresses that hold for an hour.
    pub fn knows(&self, name: &str, addresses: &[[u8; 4]]) {
        self.says(name, Says::Addresses(addresses.iter().map(|&octets| octets.into()).collect(), 3600));
    }

    /// How many questions about `name` came: by UDP, by TCP. One look-up is two, for two families of addresses.
    pub fn asked(&self, name: &str) -> (usize, usize) {
        let table = locked(&self.table);
        let count = |by_tcp| table.asked.iter().filter(|asked| asked.0 == name && asked.1 == by_tcp).count();
        (count(false), count(true))
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

/// Two sockets of one port. What is free for one protocol may be in use for the other, so another port is tried then.
fn sockets() -> io::Result<(UdpSocket, TcpListener)> {
    const TRIES: usize = 100;
    let pair = || -> io::Result<(UdpSocket, TcpListener)> {
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        let tcp = TcpListener::bind(udp.local_addr()?)?;
        Ok((udp, tcp))
    };
    (1..TRIES).find_map(|_| pair().ok()).map_or_else(pair, Ok)
}

fn locked(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve_udp(socket: &UdpSocket, table: &Mutex<Table>, ends: &AtomicBool) {
    let mut bytes = [0; 1024];
    while !ends.load(Ordering::Relaxed) {
        let Ok((length, from)) = socket.recv_from(&mut bytes) else { continue };
        if let Some(answer) = answer(&bytes[..length], false, table) {
            // A client that is gone does not matter.
            let _ = socket.send_to(&answer, from);
        }
    }
}

fn serve_tcp(listener: &TcpListener, table: &Mutex<Table>, ends: &AtomicBool) {
    while !ends.load(Ordering::Relaxed) {
        let Ok((mut stream, _)) = listener.accept() else {
            thread::sleep(TURN);
            continue;
        };
        let mut exchange = || -> io::Result<()> {
            stream.set_nonblocking(false)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            let mut length = [0; 2];
            stream.read_exact(&mut length)?;
            let mut question = vec![0; usize::from(u16::from_be_bytes(length))];
            stream.read_exact(&mut question)?;
            let Some(answer) = answer(&question, true, table) else { return Ok(()) };
            let length = u16::try_from(answer.len()).map_err(io::Error::other)?;
            stream.write_all(&[&length.to_be_bytes()[..], &answer].concat())
        };
        // A client that is gone does not matter.
        let _ = exchange();
    }
}

const A: u16 = 1;
const CNAME: u16 = 5;
const AAAA: u16 = 28;
const SRV: u16 = 33;
/// Of an answer: response, recursion desired and available.
const ANSWER: u16 = 0x8180;
const CUT: u16 = 0x0200;
const NOT_FOUND: u16 = 3;

fn answer(question: &[u8], by_tcp: bool, table: &Mutex<Table>) -> Option<Vec<u8>> {
    let (name, end) = name(question)?;
    let kind = u16::from_be_bytes(question.get(end..end + 2)?.try_into().ok()?);
    let mut table = locked(table);
    table.asked.push((name.clone(), by_tcp));
    let says = table.says.get(&name).cloned();
    drop(table);
    let mut id = u16::from_be_bytes(question.get(..2)?.try_into().ok()?);
    let mut flags = ANSWER;
    let records: Vec<Vec<u8>> = match says {
        None => {
            flags |= NOT_FOUND;
            Vec::new()
        }
        Some(Says::Nothing) => return None,
        Some(Says::WrongNumber) => {
            id = id.wrapping_add(1);
            Vec::new()
        }
        Some(Says::Failure(code)) => {
            flags |= u16::from(code);
            Vec::new()
        }
        Some(Says::Long(..)) if !by_tcp => {
            flags |= CUT;
            Vec::new()
        }
        Some(Says::Addresses(addresses, ttl) | Says::Long(addresses, ttl)) => {
            addresses.iter().filter_map(|address| address_record(*address, kind, ttl)).collect()
        }
        Some(Says::Alias(to)) => vec![record(CNAME, 3600, &encoded(&to))],
        Some(Says::Services(services, ttl)) if kind == SRV => services
            .iter()
            .map(|(priority, weight, port, target)| {
                let numbers = [priority, weight, port].map(|number| number.to_be_bytes()).concat();
                record(SRV, ttl, &[numbers, encoded(target)].concat())
            })
            .collect(),
        Some(Says::Services(..)) => Vec::new(),
    };
    let mut out = Vec::new();
    for word in [id, flags, 1, u16::try_from(records.len()).ok()?, 0, 0] {
        out.extend_from_slice(&word.to_be_bytes());
    }
    out.extend_from_slice(question.get(12..end + 4)?);
    records.iter().for_each(|record| out.extend_from_slice(record));
    Some(out)
}

/// The name of a question in lower case, and where it ends.
fn name(question: &[u8]) -> Option<(String, usize)> {
    let mut labels = Vec::new();
    let mut at = 12;
    loop {
        let length = usize::from(*question.get(at)?);
        if length == 0 {
            return Some((labels.join("."), at + 1));
        }
        let label = question.get(at + 1..at + 1 + length)?;
        labels.push(String::from_utf8_lossy(label).to_ascii_lowercase());
        at += 1 + length;
    }
}

fn encoded(name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for label in name.split('.') {
        out.push(label.len() as u8);
        out.extend_from_slice(label.as_bytes());
    }
    out.push(0);
    out
}

fn address_record(address: IpAddr, kind: u16, ttl: u32) -> Option<Vec<u8>> {
    match (address, kind) {
        (IpAddr::V4(ip), A) => Some(record(A, ttl, &ip.octets())),
        (IpAddr::V6(ip), AAAA) => Some(record(AAAA, ttl, &ip.octets())),
        _ => None,
    }
}

/// A record of the name that was asked for.
fn record(kind: u16, ttl: u32, body: &[u8]) -> Vec<u8> {
    let mut out = vec![0xc0, 12];
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&1u16.to_be_bytes());
    out.extend_from_slice(&ttl.to_be_bytes());
    out.extend_from_slice(&(body.len() as u16).to_be_bytes());
    out.extend_from_slice(body);
    out
}
