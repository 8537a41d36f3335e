//! After `101 Switching Protocols`: bytes both ways until one side ends, as for WebSocket.

use std::cell::Cell;
use std::time::Duration;

use larder_origin::Upgraded;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::Instant;

use super::{Io, Stream};

/// How much is held in each direction.
const BUFFER_BYTES: usize = 16 * 1024;

/// Passes bytes both ways until a side closes, fails, or both are silent for `silence` (`proxy_read_timeout`).
///
/// Returns how many bytes went to the client.
pub async fn run(io: &mut Io, mut origin: Upgraded, silence: Duration) -> u64 {
    let early = io.take_pending();
    match &mut io.stream {
        Stream::Tcp(client) => {
            let (read, write) = client.split();
            pass(read, write, &mut origin, early, silence).await
        }
        Stream::Unix(client) => {
            let (read, write) = client.split();
            pass(read, write, &mut origin, early, silence).await
        }
    }
}

/// The two directions go on by themselves: a side that writes and does not read holds up nobody but itself.
async fn pass(
    from_client: impl AsyncRead + Unpin,
    to_client: impl AsyncWrite + Unpin,
    origin: &mut Upgraded,
    early: Vec<u8>,
    silence: Duration,
) -> u64 {
    let moved = Cell::new(Instant::now());
    let sent = Cell::new(0);
    let received = Cell::new(0);
    let (from_origin, to_origin) = tokio::io::split(origin);
    let silent = async {
        loop {
            tokio::time::sleep_until(moved.get() + silence).await;
            if moved.get().elapsed() >= silence {
                return;
            }
        }
    };
    tokio::select! {
        () = copy(from_client, to_origin, early, &moved, &received) => {}
        () = copy(from_origin, to_client, Vec::new(), &moved, &sent) => {}
        () = silent => {}
    }
    sent.get()
}

/// Passes `first`, then all that comes, until either end fails or closes.
async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    first: Vec<u8>,
    moved: &Cell<Instant>,
    count: &Cell<u64>,
) {
    if to.write_all(&first).await.is_err() {
        return;
    }
    drop(first);
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let Ok(read @ 1..) = from.read(&mut buffer).await else { return };
        moved.set(Instant::now());
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
        moved.set(Instant::now());
        count.set(count.get() + read as u64);
    }
}
