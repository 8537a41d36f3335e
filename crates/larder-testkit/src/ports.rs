//! Free TCP ports on the loopback address.

use std::fs;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many ports are tried before giving up.
const TRIES_MAX: u32 = 4000;

/// A TCP port nobody listens on, and that is given out once a process.
///
/// It lies below the range that the kernel takes for outgoing connections, so that it stays free until it is used,
/// and may be used again by a second server when the first has ended. All ports have five digits.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let last = ephemeral_low().clamp(12_000, 32_768) - 1;
    let span = last - 10_000;
    let start = std::process::id().wrapping_mul(97) % span;
    for _ in 0..TRIES_MAX {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 10_000 + (start + step) % span;
        let Ok(port) = u16::try_from(port) else {
            continue;
        };
        if TcpListener::bind(("0.0.0.0", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port in {TRIES_MAX} tries");
}

/// Where the kernel's range for outgoing connections begins.
fn ephemeral_low() -> u32 {
    fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|range| range.split_whitespace().next()?.parse().ok())
        .unwrap_or(32_768)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_given_out_once_and_can_be_bound() {
        let ports: Vec<u16> = (0..20).map(|_| free_port()).collect();
        for (index, port) in ports.iter().enumerate() {
            assert!(!ports[..index].contains(port), "{port}");
            assert!(TcpListener::bind(("127.0.0.1", *port)).is_ok(), "{port}");
        }
    }
}
