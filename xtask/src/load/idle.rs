//! What an idle keep-alive connection costs the server in memory.

use super::contender::Contender;
use super::generator::{Expect, Generator, Plan, Start};
use super::origin::Page;
use super::{LoadError, cannot, fetch};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::sleep;
use std::time::Duration;

/// The page each connection asks for once.
const PAGE: Page = Page::Plain(1024);

/// Connections with TLS that are opened in a second: fewer than a server's core makes handshakes.
const HANDSHAKES_A_SECOND: u32 = 1000;

/// Descriptors the tool needs besides its connections.
const SPARE_DESCRIPTORS: usize = 200;

/// Only guards against hanging.
const IO_LIMIT: Duration = Duration::from_secs(30);

/// Opens `connections` connections to each server in turn, one request on each, and prints the growth.
pub fn measure(connections: usize, contenders: &[Contender]) -> Result<(), LoadError> {
    allow_descriptors(connections)?;
    println!("{:<13} {:>11} {:>12} {:>12} {:>14}", "server", "connections", "PSS before", "PSS after", "bytes each");
    for contender in contenders {
        for _ in 0..2 {
            contender.get(PAGE)?;
        }
        let before = contender.process.pss_bytes();
        let path = PAGE.path();
        let _open = open(contender, connections, &path)?;
        // The servers tidy up after the last answer on their own time; a second is many of their turns.
        sleep(Duration::from_secs(1));
        let after = contender.process.pss_bytes();
        let each = (after as f64 - before as f64) / connections as f64;
        println!(
            "{:<13} {connections:>11} {:>10}kB {:>10}kB {each:>14.0}",
            contender.kind.name(),
            before / 1024,
            after / 1024
        );
    }
    println!(
        "PSS of all processes of the server; the kernel's own memory of a socket is the same for all and not in it"
    );
    Ok(())
}

/// Connections that stay open until this is dropped.
enum Open<'a> {
    Clear { _streams: Vec<TcpStream> },
    Tls { _visitors: Box<Generator<'a>> },
}

fn open<'a>(contender: &Contender, connections: usize, path: &'a str) -> Result<Open<'a>, LoadError> {
    if !contender.front.is_tls() {
        let mut streams = Vec::with_capacity(connections);
        for number in 0..connections {
            let connection = one_request(contender.address())
                .map_err(|error| contender.fault(format!("failed at connection {}: {error}", number + 1)))?;
            streams.push(connection);
        }
        return Ok(Open::Clear { _streams: streams });
    }
    let plan = Plan {
        start: Start::Evenly(HANDSHAKES_A_SECOND),
        ..contender.plan(path, Expect::Bytes(PAGE.bytes()), connections)
    };
    let mut visitors = Generator::new(plan).map_err(cannot("wait for connections"))?;
    visitors.warm_up().map_err(|reason| contender.fault(format!("failed: {reason}")))?;
    Ok(Open::Tls { _visitors: Box::new(visitors) })
}

/// A connection after one request whose answer has been read.
fn one_request(address: SocketAddr) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&address, IO_LIMIT)?;
    stream.set_read_timeout(Some(IO_LIMIT))?;
    write!(stream, "GET {} HTTP/1.1\r\nHost: {address}\r\n\r\n", PAGE.path())?;
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    while fetch::length(&bytes).is_none_or(|length| bytes.len() < length) {
        let count = stream.read(&mut part)?;
        if count == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(part.get(..count).unwrap_or_default());
    }
    Ok(stream)
}

/// Raises our own limit of open files so that `connections` fit, or says how to.
pub fn allow_descriptors(connections: usize) -> Result<(), LoadError> {
    let needed = (connections + SPARE_DESCRIPTORS) as u64;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if limit.maximum.is_some_and(|maximum| maximum < needed) {
        return Err(LoadError::Usage(format!(
            "{connections} connections need more open files: run `ulimit -n {needed}` first (as root)"
        )));
    }
    let wanted = Rlimit { current: Some(needed), maximum: limit.maximum };
    setrlimit(Resource::Nofile, wanted).map_err(|error| cannot("raise the limit of open files")(error.into()))
}
