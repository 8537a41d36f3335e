//! The numbers of connections, requests and fetches in front of which a VCL stands: `X-Varnish`, `req.xid`.

use std::sync::atomic::{AtomicU64, Ordering};

/// Varnish begins with 1 as well, and counts all three kinds by one counter.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The next number, which nothing else in this process has.
pub fn next() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Goes on from this number: `debug.xid`.
pub fn go_on_from(number: u64) {
    NEXT.store(number, Ordering::Relaxed);
}

/// The number that the next one gets.
pub fn coming() -> u64 {
    NEXT.load(Ordering::Relaxed)
}
