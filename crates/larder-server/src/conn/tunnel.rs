//! After `101 Switching Protocols`: bytes both ways until one side ends, as for WebSocket.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use larder_origin::Upgraded;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::time::Instant;

use super::Io;
use super::stream::Stream;

/// How much is held in each direction.
const BUFFER_BYTES: usize = 16 * 1024;

/// Passes bytes both ways until a side closes, fails, or both are silent for `silence` (`proxy_read_timeout`).
///
/// Returns how many bytes went to the client.
pub async fn run(io: &mut Io, origin: Upgraded, silence: Duration) -> u64 {
    let early = io.take_pending();
    let moved = Cell::new(Instant::now());
    let sent = Cell::new(0);
    let received = Cell::new(0);
    let (from_origin, to_origin) = tokio::io::split(origin);
    let (from_client, to_client) = tokio::io::split(Both(&mut io.stream));
    let silent = async {
        loop {
            tokio::time::sleep_until(moved.get() + silence).await;
            if moved.get().elapsed() >= silence {
                return;
            }
        }
    };
    // The two directions go on by themselves: a side that writes and does not read holds up nobody but itself.
    tokio::select! {
        () = copy(from_client, to_origin, early, &moved, &received) => {}
        () = copy(from_origin, to_client, Vec::new(), &moved, &sent) => {}
        () = silent => {}
    }
    sent.get()
}

/// A client's stream as the two directions that tokio knows.
struct Both<'a>(&'a mut Stream);

impl AsyncRead for Both<'_> {
    fn poll_read(mut self: Pin<&mut Self>, task: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.0.poll_read(task, buf)
    }
}

impl AsyncWrite for Both<'_> {
    fn poll_write(self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(task))?;
            match self.0.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_flush(task)
    }

    fn poll_shutdown(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.0.poll_flush(task))?;
        self.0.shutdown_write();
        Poll::Ready(Ok(()))
    }
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
        if to.write_all(&buffer[..read]).await.is_err() || to.flush().await.is_err() {
            return;
        }
        moved.set(Instant::now());
        count.set(count.get() + read as u64);
    }
}
