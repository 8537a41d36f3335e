//! Passes bytes both ways after `101 Switching Protocols`, as for WebSocket, until one side ends.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use larder_origin::Upgraded;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::time::Instant;

use crate::net::Io;
use crate::net::stream::Stream;

/// The size of each direction's buffer.
const BUFFER_BYTES: usize = 16 * 1024;

/// The timeouts of both sides.
pub struct Limits {
    /// `proxy_read_timeout`: no byte moves, while neither side is slow to take any.
    pub silence: Duration,
    /// `proxy_send_timeout`: the origin takes nothing.
    pub to_origin: Duration,
    /// `send_timeout`: the client takes nothing.
    pub to_client: Duration,
}

/// How much was passed, and how the tunnel ended.
pub struct Passed {
    /// Bytes to the client.
    pub to_client: u64,
    /// Bytes to the origin.
    pub to_origin: u64,
    /// Why it ended.
    pub end: End,
}

/// Why a tunnel ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A side closed its connection or the connection broke. As with nginx, the end of one direction ends both.
    Closed,
    /// No byte moved, or the origin took nothing, for too long.
    OriginTimedOut,
    /// The client took nothing for too long.
    ClientTimedOut,
}

/// Passes bytes both ways until a side closes, fails, or times out.
pub async fn run(io: &mut Io, origin: Upgraded, limits: &Limits) -> Passed {
    let early = io.take_pending();
    let moved = Cell::new(Instant::now());
    let is_client_full = Cell::new(false);
    let (sent, received) = (Cell::new(0), Cell::new(0));
    let (from_origin, to_origin) = tokio::io::split(origin);
    let (from_client, to_client) = tokio::io::split(Both(&mut io.stream));
    let up = Way { limit: limits.to_origin, late: End::OriginTimedOut, moved: &moved, is_full: None, count: &received };
    let is_full = Some(&is_client_full);
    let down = Way { limit: limits.to_client, late: End::ClientTimedOut, moved: &moved, is_full, count: &sent };
    let silent = async {
        loop {
            tokio::time::sleep_until(moved.get() + limits.silence).await;
            // While the client takes nothing, we do not read from the origin, so the origin cannot be late.
            if is_client_full.get() {
                moved.set(Instant::now());
            } else if moved.get().elapsed() >= limits.silence {
                return End::OriginTimedOut;
            }
        }
    };
    // The two directions are independent: a side that writes and does not read blocks only itself.
    let end = tokio::select! {
        end = up.copy(from_client, to_origin, early) => end,
        end = down.copy(from_origin, to_client, Vec::new()) => end,
        end = silent => end,
    };
    Passed { to_client: sent.get(), to_origin: received.get(), end }
}

/// A client's stream behind tokio's traits for reading and writing.
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

/// One direction of the tunnel.
struct Way<'a> {
    /// How long one write may take.
    limit: Duration,
    /// What is reported if it takes longer.
    late: End,
    /// When a byte last moved, in either direction.
    moved: &'a Cell<Instant>,
    /// Whether a write waits; kept for writes to the client only.
    is_full: Option<&'a Cell<bool>>,
    count: &'a Cell<u64>,
}

impl Way<'_> {
    /// Writes `first`, then all that arrives, until either side fails or closes.
    async fn copy(&self, mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, first: Vec<u8>) -> End {
        if let Err(end) = self.write(&mut to, &first).await {
            return end;
        }
        drop(first);
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let Ok(read @ 1..) = from.read(&mut buffer).await else { return End::Closed };
            self.moved.set(Instant::now());
            if let Err(end) = self.write(&mut to, &buffer[..read]).await {
                return end;
            }
        }
    }

    async fn write(&self, to: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> Result<(), End> {
        self.note_full(true);
        let mut left = bytes;
        while !left.is_empty() {
            let written = self.in_time(to.write(left)).await?;
            if written == 0 {
                return Err(End::Closed);
            }
            self.count.set(self.count.get() + written as u64);
            left = &left[written..];
        }
        self.in_time(to.flush()).await?;
        self.note_full(false);
        Ok(())
    }

    async fn in_time<T>(&self, writing: impl Future<Output = io::Result<T>>) -> Result<T, End> {
        let written = tokio::time::timeout(self.limit, writing).await.map_err(|_| self.late)?;
        self.moved.set(Instant::now());
        written.map_err(|_| End::Closed)
    }

    fn note_full(&self, full: bool) {
        if let Some(is_full) = self.is_full {
            is_full.set(full);
        }
    }
}
