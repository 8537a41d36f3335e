//! The functions of the module `vtc`, which are for test suites only.
//!
//! What waits here blocks the worker and all its requests, for [`WAIT_MAX`] at most: a VCL for anything but tests has no
//! use for it.

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use larder_vcl::run::{Failure, Texts, Value};

use crate::policy::vcl::task::Run;
use crate::policy::vcl::variables::span;

use super::unbuilt;

/// How long one call waits at most.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Calls one of them.
pub fn call(run: &mut Run<'_>, name: &str, args: &[Value], texts: &mut Texts<'_>) -> Result<Value, Failure> {
    match (name, args) {
        ("barrier_sync", [Value::Text(address), Value::Real(timeout)]) => {
            let address = String::from_utf8_lossy(texts.bytes(*address)).into_owned();
            barrier(&address, *timeout).map_err(|why| Failure::host(format!("Barrier {address}: {why}")))?;
            Ok(Value::Nothing)
        }
        ("sleep", [Value::Real(seconds)]) => {
            std::thread::sleep(span(*seconds).min(WAIT_MAX));
            Ok(Value::Nothing)
        }
        ("no_backend" | "no_stevedore", []) => Ok(Value::Id(None)),
        ("panic", [Value::Text(text)]) => {
            // A request ends nothing but itself.
            Err(Failure::host(format!("PANIC:{}", String::from_utf8_lossy(texts.bytes(*text)))))
        }
        ("typesize", [Value::Text(text)]) => Ok(Value::Int(typesize(texts.bytes(*text)).unwrap_or(-1))),
        ("workspace_free", [Value::Word(which)]) => Ok(Value::Int(int(room(*which, texts)))),
        ("workspace_reserve", [Value::Word(which), Value::Int(bytes)]) => {
            let (room, wanted) = (room(*which, texts), asked(*which, *bytes, texts)?);
            Ok(Value::Bytes(if wanted <= room { int(wanted) } else { 0 }))
        }
        ("workspace_alloc", [Value::Word(which), Value::Int(bytes)]) => {
            let wanted = asked(*which, *bytes, texts)?;
            if wanted > room(*which, texts) {
                return Err(Failure::host("vtc.workspace_alloc"));
            }
            if is_of_texts(*which) {
                texts.take(wanted);
                run.modules().0.taken_bytes += wanted;
            }
            Ok(Value::Nothing)
        }
        ("workspace_overflowed", [_]) => Ok(Value::Bool(false)),
        _ => Err(unbuilt(&format!("vtc.{name}()"))),
    }
}

/// Waits until the peer closes the connection.
fn barrier(address: &str, timeout: f64) -> Result<(), std::io::Error> {
    let wait = match span(timeout) {
        Duration::ZERO => WAIT_MAX,
        timeout => timeout.min(WAIT_MAX),
    };
    let address: SocketAddr = address.to_socket_addrs()?.next().ok_or(ErrorKind::NotFound)?;
    let mut peer = TcpStream::connect_timeout(&address, wait)?;
    peer.set_read_timeout(Some(wait))?;
    match peer.read(&mut [0; 32])? {
        0 => Ok(()),
        _ => Err(std::io::Error::other("unexpected data")),
    }
}

/// `client` or `backend`, whose workspace is that of the texts of the sub that runs; the others are `session` and
/// `thread`.
fn is_of_texts(which: u32) -> bool {
    which < 2
}

fn room(which: u32, texts: &Texts<'_>) -> usize {
    /// What is left of the workspaces that only Varnish has.
    const OTHERS_BYTES: usize = 512;
    if is_of_texts(which) { texts.room() } else { OTHERS_BYTES }
}

/// The bytes that a number of them means: one below zero leaves so many free.
fn asked(which: u32, bytes: i64, texts: &Texts<'_>) -> Result<usize, Failure> {
    let wanted = if bytes < 0 { bytes.saturating_add(int(room(which, texts))) } else { bytes };
    match usize::try_from(wanted) {
        Ok(wanted) if wanted > 0 => Ok(wanted),
        Ok(_) | Err(_) => Err(Failure::host("Attempted negative WS allocation")),
    }
}

fn int(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// The bytes of a struct of C with fields of these types on a 64-bit machine; `None` for a type that there is not.
fn typesize(types: &[u8]) -> Option<i64> {
    let (mut bytes, mut largest) = (0_i64, 1);
    for letter in types {
        let field = match letter {
            b'c' => 1,
            b's' => 2,
            b'f' | b'i' | b'u' => 4,
            b'd' | b'j' | b'l' | b'o' | b'p' | b'z' => 8,
            _ => return None,
        };
        bytes = aligned(bytes, field) + field;
        largest = largest.max(field);
    }
    Some(aligned(bytes, largest))
}

fn aligned(bytes: i64, to: i64) -> i64 {
    (bytes + to - 1) / to * to
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn fields_of_a_struct_are_aligned() {
        for (types, expected) in [
            ("c", Some(1)),
            ("zc", Some(16)),
            ("ic", Some(8)),
            ("csc", Some(6)),
            ("czc", Some(24)),
            ("uzp", Some(24)),
            ("*", None),
        ] {
            assert_eq!(typesize(types.as_bytes()), expected, "{types}");
        }
    }

    #[test]
    fn a_barrier_opens_when_its_peer_closes() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
        let address = listener.local_addr().expect("it listens").to_string();
        let peer = std::thread::spawn(move || listener.accept().map(drop));
        assert!(barrier(&address, 0.0).is_ok());
        peer.join().expect("it accepts").expect("it accepts");
        assert!(barrier(&address, 0.1).is_err(), "nobody listens");
        let silent = TcpListener::bind("127.0.0.1:0").expect("there is a port");
        let address = silent.local_addr().expect("it listens").to_string();
        assert!(barrier(&address, 0.05).is_err(), "it never closes");
    }
}
