//! One request and its response on a connection: sends and reads at the same time, and applies the timeouts.

use std::{
    io,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::BytesMut;
use larder_http::ResponseHead;
use tokio::time::Instant;

use crate::{
    connection::Connection,
    download::Download,
    error::FetchError,
    upload::{Upload, Waits},
};

/// A request that is being sent, and its response. Dropping it closes the connection.
pub(crate) struct Exchange {
    pub(crate) connection: Connection,
    pub(crate) upload: Upload,
    pub(crate) download: Download,
    /// Bytes that were read and not yet parsed.
    pub(crate) buffer: BytesMut,
    received_bytes: u64,
    /// How many bytes the head had.
    head_bytes: u64,
    send_limit: Duration,
    read_limit: Duration,
    /// When a byte was last sent or received, or when the upload last waited for the client.
    moved_at: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Head,
    Body,
}

/// The buffer for the first read; most heads and many pages fit.
const FIRST_READ_BYTES: usize = 16 << 10;
/// The buffer for further reads: a whole FastCGI record.
const READ_BYTES: usize = 64 << 10;
/// A smaller room in the buffer is not worth a read.
const READ_BYTES_MIN: usize = 4 << 10;

impl Exchange {
    pub(crate) fn new(
        connection: Connection,
        upload: Upload,
        download: Download,
        send_limit: Duration,
        read_limit: Duration,
    ) -> Exchange {
        Exchange {
            connection,
            upload,
            download,
            buffer: BytesMut::new(),
            received_bytes: 0,
            head_bytes: 0,
            send_limit,
            read_limit,
            moved_at: Instant::now(),
        }
    }

    /// Bytes the origin sent.
    pub(crate) fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    /// Sends the request, and reads until the response head is complete.
    pub(crate) fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<ResponseHead, FetchError>> {
        loop {
            if let Some(head) = self.download.head(&mut self.buffer)? {
                self.head_bytes = self.received_bytes.saturating_sub(self.buffer.len() as u64);
                return Poll::Ready(Ok(head));
            }
            if ready!(self.poll_read(cx, Phase::Head))? == 0 {
                return Poll::Ready(Err(match self.upload.take_broken() {
                    Some(source) => FetchError::Send { source },
                    None => FetchError::Closed { before_head: true },
                }));
            }
        }
    }

    /// Reads once more, and sends the rest of the request meanwhile. 0 bytes means the end.
    pub(crate) fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, FetchError>> {
        self.poll_read(cx, Phase::Body)
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, phase: Phase) -> Poll<Result<usize, FetchError>> {
        let sent = self.upload.poll(cx, &mut self.connection)?;
        // The task that reads from the client applies the timeout for a slow client.
        if sent.moved || sent.waits == Waits::ForClient {
            self.moved_at = Instant::now();
        }
        let room = self.make_room(phase);
        match self.connection.poll_read_into(cx, &mut self.buffer, room) {
            Poll::Ready(Ok(count)) => {
                self.received_bytes += count as u64;
                self.moved_at = Instant::now();
                Poll::Ready(Ok(count))
            }
            Poll::Ready(Err(source)) => Poll::Ready(Err(self.read_error(source, phase))),
            Poll::Pending => {
                // An origin may take long to begin, and many requests may wait for it meanwhile: hold no buffer.
                if self.received_bytes == 0 {
                    self.buffer = BytesMut::new();
                }
                if sent.waits == Waits::ForClient {
                    return Poll::Pending;
                }
                let (limit, late) = match (phase, sent.waits) {
                    (Phase::Head, Waits::ForOrigin) => (self.send_limit, FetchError::SendTimeout),
                    (Phase::Head, _) => (self.read_limit, FetchError::HeadTimeout),
                    // An origin may answer without reading the rest of the request; then only its answer has a timeout.
                    (Phase::Body, _) => (self.read_limit, FetchError::BodyTimeout),
                };
                ready!(self.connection.alarm.poll(cx, self.moved_at + limit));
                Poll::Ready(Err(late))
            }
        }
    }

    /// Makes room for a read, and returns how much to read.
    ///
    /// Bodies are read up to multiples of [`READ_BYTES`], so that each read fills whole pages of memory, in which a big
    /// body is kept and sent. (Not for FastCGI, where record headers are in between.)
    fn make_room(&mut self, phase: Phase) -> usize {
        let is_aligned = phase == Phase::Body && matches!(self.download, Download::Http(_));
        let beyond = if is_aligned { (self.received_bytes - self.head_bytes) as usize % READ_BYTES } else { 0 };
        let wanted = match READ_BYTES - beyond {
            _ if self.received_bytes == 0 => FIRST_READ_BYTES,
            little if little < READ_BYTES_MIN => little + READ_BYTES,
            wanted => wanted,
        };
        if self.buffer.capacity() - self.buffer.len() < READ_BYTES_MIN {
            self.buffer.reserve(wanted);
        }
        wanted
    }

    fn read_error(&mut self, source: io::Error, phase: Phase) -> FetchError {
        match self.upload.take_broken() {
            Some(source) if self.received_bytes == 0 => FetchError::Send { source },
            _ => FetchError::Receive { source, before_head: phase == Phase::Head },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, io::Write, net::TcpListener};

    use bytes::Bytes;

    use super::*;
    use crate::{
        address::Address,
        connection::Layers,
        http,
        limits::Limits,
        request::{Protocol, RequestBody},
    };

    #[tokio::test]
    async fn who_waits_for_an_origin_to_begin_holds_no_buffer() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = Address::Tcp(listener.local_addr().expect("it is bound"));
        let limits = Limits::default();
        let connection = Connection::open(&address, &Layers::default(), &limits, true).await.expect("it listens");
        let (mut origin, _) = listener.accept().expect("it is connected");
        let protocol = Protocol::Http { head: Bytes::from_static(b"GET / HTTP/1.1\r\n\r\n"), upgrade: false };
        let upload = Upload::new(&protocol, RequestBody::None, false);
        let download = Download::Http(http::Response::new(4096, false, false));
        let mut exchange = Exchange::new(connection, upload, download, limits.send, limits.read);
        poll_fn(|cx| {
            assert!(exchange.poll_head(cx).is_pending(), "the origin has said nothing");
            assert_eq!(exchange.buffer.capacity(), 0);
            Poll::Ready(())
        })
        .await;
        origin.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc").expect("larder reads");
        let head = poll_fn(|cx| exchange.poll_head(cx)).await.expect("it is a head");
        assert_eq!((head.status, &exchange.buffer[..]), (200, &b"abc"[..]));
    }
}
