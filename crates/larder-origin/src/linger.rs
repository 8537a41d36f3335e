//! A request that was given up while its origin works at it: php-fpm's child goes on, and takes no other request.
//!
//! Its slot at the gate, its place among the requests of the server and its connection are held until the origin says
//! that it is done, or closes. An origin that watches its connections sees at once that nobody listens: our end of the
//! connection is shut for writing. One that looks only when it writes sees it soon after its first bytes, for which the
//! connection is closed: so a script that writes without end ends as it does without a gate.

use std::{future::poll_fn, time::Duration};

use tokio::{
    runtime::Handle,
    time::{Instant, timeout_at},
};

use crate::{
    exchange::{Exchange, Left},
    gate::Slot,
    group::Pick,
};

/// How long is read on after an origin has written something.
const WRITES_FOR: Duration = Duration::from_secs(1);
/// How much is read, and dropped, before the connection is closed.
const BYTES_MAX: usize = 1 << 20;

/// Holds what a request that was given up holds as long as its origin works at it.
pub(crate) fn linger(mut exchange: Box<Exchange>, mut slot: Slot, pick: Option<Pick>) {
    let is_heard = exchange.upload.sent_bytes() > 0;
    let (Some(limit), Ok(runtime), true) = (slot.lingers(), Handle::try_current(), is_heard) else {
        return drop(exchange);
    };
    exchange.forsake();
    runtime.spawn(async move {
        if wait(&mut exchange, limit).await {
            slot.done();
        }
        drop(exchange);
        match pick {
            // It tells the gate of both at once.
            Some(mut pick) => pick.hold(Some(slot)),
            None => drop(slot),
        }
    });
}

/// Waits for the end of the request, for `limit` at most. Returns whether the origin has told it.
async fn wait(exchange: &mut Exchange, limit: Duration) -> bool {
    let now = Instant::now();
    let mut until = now.checked_add(limit).unwrap_or(now + FOREVER);
    let (mut bytes, mut has_written) = (0, false);
    loop {
        match timeout_at(until, poll_fn(|cx| exchange.poll_left(cx))).await {
            Ok(Left::Bytes(count)) => {
                bytes += count;
                if !std::mem::replace(&mut has_written, true) {
                    until = until.min(Instant::now() + WRITES_FOR);
                }
                if bytes > BYTES_MAX {
                    return false;
                }
            }
            Ok(Left::Done) => return true,
            Ok(Left::Closed) | Err(_) => return false,
        }
    }
}

/// As long as no origin works at a request.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);
