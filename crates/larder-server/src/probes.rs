//! Probes: asks the backends of VCLs again and again whether they are healthy.
//!
//! One worker asks for all, from the start of a configuration to its end. What an answer says is decided in
//! [`directors`](crate::directors).

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use larder_conf::model::LogLevel;
use larder_http::proxy_protocol::{self, Addresses};
use larder_origin::Address;
use larder_vcl::policy::{Backend, Probe, ProbeRequest};
use larder_vsl::Tag;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

use crate::clock;
use crate::directors::{Answer, Event, Window};
use crate::log::main::MainLog;
use crate::objects::Objects;
use crate::vsl::Hub;
use crate::ways::Way;

/// A backend with a probe.
pub struct Probed {
    /// Who is told what came of it.
    objects: Arc<Objects>,
    /// The number of the backend.
    backend: usize,
    /// Its name.
    name: String,
    way: Way,
    request: Vec<u8>,
    /// The version of the PROXY header.
    proxy_header: Option<u8>,
    probe: Probe,
    log: MainLog,
}

/// How much of an answer is kept: its first line is in there.
const KEPT_BYTES: usize = 128;
/// How much more of it is read at once.
const READ_BYTES: usize = 8192;

/// Begins to probe `all` on this worker.
pub fn follow(all: &[Arc<Probed>], log: &Arc<Hub>) -> Vec<AbortHandle> {
    let start = |probed: &Arc<Probed>| {
        let (probed, log) = (Arc::clone(probed), Arc::clone(log));
        tokio::task::spawn_local(async move { probed.run(&log).await }).abort_handle()
    };
    all.iter().map(start).collect()
}

impl Probed {
    /// A backend that is reached this way.
    pub fn new(
        objects: Arc<Objects>,
        (number, backend): (usize, &Backend),
        probe: &Probe,
        way: Way,
        log: MainLog,
    ) -> Arc<Self> {
        let request = match &probe.request {
            ProbeRequest::Raw(request) => request.clone(),
            ProbeRequest::Url(url) => {
                let host = backend.host_header.as_bytes();
                [b"GET ", &url[..], b" HTTP/1.1\r\nHost: ", host, b"\r\nConnection: close\r\n\r\n"].concat()
            }
        };
        Arc::new(Self {
            objects,
            backend: number,
            name: backend.name.clone(),
            way,
            request,
            proxy_header: backend.proxy_header,
            probe: probe.clone(),
            log,
        })
    }

    /// Probes the backend again and again, for ever.
    async fn run(&self, log: &Hub) {
        loop {
            let answer = self.ask().await;
            let now = clock::now().secs_f64();
            let changed = self.objects.directors.note(self.backend, answer, now);
            if log.is_heard()
                && let Some(window) = self.objects.directors.window(self.backend)
            {
                log.tell(Tag::BackendHealth, self.told(&window, changed.is_some()).as_bytes());
            }
            if let Some(window) = changed {
                self.log.write(LogLevel::Notice, self.change(&window));
            }
            tokio::time::sleep(self.probe.interval).await;
        }
    }

    /// What the transaction log is told of a probe.
    fn told(&self, window: &Window, is_changed: bool) -> String {
        let change = if is_changed { "Went" } else { "Still" };
        let health = if window.is_healthy() { "healthy" } else { "sick" };
        let Window { good, size, threshold, last, average, .. } = window;
        let (letters, took, average) = (window.letters(), last.took.as_secs_f64(), average.as_secs_f64());
        format!(
            "{} {change} {health} {letters} {good} {threshold} {size} {took:.6} {average:.6} \"{}\"",
            self.name, last.said
        )
    }

    fn change(&self, window: &Window) -> String {
        let health = if window.is_healthy() { "healthy" } else { "sick" };
        let Window { good, size, threshold, last, .. } = window;
        let (letters, took) = (window.letters(), last.took);
        format!(
            "the backend \"{}\" went {health}: {good} of its last {size} answers were good, and {threshold} have to be: \
             {letters} \"{}\" after {took:?}",
            self.name, last.said
        )
    }

    /// Probes it once.
    async fn ask(&self) -> Answer {
        let began = Instant::now();
        let end = began + self.probe.timeout;
        let mut answer = Answer::default();
        let connecting = async {
            match &self.way.address {
                Address::Tcp(address) => TcpStream::connect(address).await.map(|stream| {
                    let local = stream.local_addr().ok();
                    (Box::new(stream) as Box<dyn Stream>, local)
                }),
                Address::Unix(path) => {
                    UnixStream::connect(path).await.map(|stream| (Box::new(stream) as Box<dyn Stream>, None))
                }
            }
        };
        let (mut stream, local) = match timeout_at(end, connecting).await.unwrap_or_else(|_| Err(late())) {
            Ok(connected) => connected,
            Err(error) => {
                answer.said = format!("cannot connect: {error}");
                return answer;
            }
        };
        answer.events.push(match &self.way.address {
            Address::Tcp(SocketAddr::V4(_)) => Event::Ipv4,
            Address::Tcp(SocketAddr::V6(_)) => Event::Ipv6,
            Address::Unix(_) => Event::Unix,
        });
        let request = [self.greeting(local), self.request.clone()].concat();
        let sending = timeout_at(end, stream.write_all(&request)).await;
        if let Err(error) = sending.unwrap_or_else(|_| Err(late())) {
            answer.events.push(Event::SendFailed);
            answer.said = format!("cannot send: {error}");
            return answer;
        }
        answer.events.push(Event::Sent);
        self.listen(&mut stream, (began, end), &mut answer).await;
        answer
    }

    /// What a connection of the backend begins with, and the PROXY header. Both of its addresses are ours, as in
    /// Varnish: there is no client.
    fn greeting(&self, local: Option<SocketAddr>) -> Vec<u8> {
        let mut header = self.way.preamble.to_vec();
        match self.proxy_header {
            None => {}
            Some(1) => {
                let addresses = local.map_or(Addresses::Unknown, |local| Addresses::inet(local, local));
                proxy_protocol::write_v1(&addresses, &mut header);
            }
            Some(_) => proxy_protocol::write_v2(&Addresses::Unknown, &mut header),
        }
        header
    }

    /// Reads the answer to its end. Where the backend may keep the connection, the end of the time is that, too.
    async fn listen(&self, stream: &mut Box<dyn Stream>, (began, end): (Instant, Instant), answer: &mut Answer) {
        let mut kept = Vec::new();
        let mut bytes = [0; READ_BYTES];
        loop {
            match timeout_at(end, stream.read(&mut bytes)).await {
                Ok(Ok(0)) => break,
                Ok(Ok(count)) => kept.extend_from_slice(&bytes[..count.min(KEPT_BYTES - kept.len())]),
                Err(_) if !self.probe.expect_close => break,
                Ok(Err(error)) => return cut_off(answer, &error),
                Err(_) => return cut_off(answer, &late()),
            }
        }
        if kept.is_empty() {
            answer.said = "an empty response".to_owned();
            return;
        }
        answer.took = began.elapsed();
        answer.events.push(Event::Received);
        let line = kept.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
        if status(line) == Some(self.probe.expected_response) {
            answer.events.push(Event::Happy);
        }
        answer.said = String::from_utf8_lossy(line).into_owned();
    }
}

trait Stream: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> Stream for S {}

fn cut_off(answer: &mut Answer, error: &io::Error) {
    answer.events.push(Event::ReceiveFailed);
    answer.said = format!("cannot read the answer: {error}");
}

fn late() -> io::Error {
    io::ErrorKind::TimedOut.into()
}

/// The status in the first line of an answer: `HTTP/` with any number, and the status.
fn status(line: &[u8]) -> Option<u16> {
    let (version, rest) = std::str::from_utf8(line).ok()?.strip_prefix("HTTP/")?.split_once(' ')?;
    let _: f64 = version.parse().ok()?;
    let rest = rest.trim_start();
    let digits = rest.find(|char: char| !char.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use larder_conf::Span;
    use tokio::net::TcpListener;

    use super::*;

    /// A probe that waits this long for an answer.
    fn probe(timeout_ms: u64, expect_close: bool) -> Probe {
        Probe {
            name: None,
            span: Span::NOWHERE,
            request: ProbeRequest::Raw(b"PING\r\n\r\n".to_vec()),
            expected_response: 200,
            timeout: Duration::from_millis(timeout_ms),
            interval: Duration::from_secs(5),
            window: 8,
            threshold: 3,
            initial: 2,
            expect_close,
        }
    }

    fn probed(address: SocketAddr, proxy_header: Option<u8>, probe: Probe) -> Probed {
        Probed {
            objects: Arc::default(),
            backend: 0,
            name: "b".to_owned(),
            way: Way { address: Address::Tcp(address), preamble: Bytes::new() },
            request: b"PING\r\n\r\n".to_vec(),
            proxy_header,
            probe,
            log: MainLog::default(),
        }
    }

    /// What comes of a probe if the backend answers this to what it gets, and closes or not; and what it got.
    async fn asked(says: &'static [u8], closes: bool, proxy_header: Option<u8>, probe: Probe) -> (Answer, Vec<u8>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let probed = probed(listener.local_addr().expect("it is bound"), proxy_header, probe);
        let backend = async {
            let (mut stream, _) = listener.accept().await.expect("the probe connects");
            let mut got = Vec::new();
            while !got.ends_with(b"PING\r\n\r\n") {
                stream.read_buf(&mut got).await.expect("the probe sends its request");
            }
            stream.write_all(says).await.expect("the probe is there");
            if !closes {
                // Until the probe goes.
                let _ = stream.read_buf(&mut Vec::new()).await;
            }
            got
        };
        tokio::join!(probed.ask(), backend)
    }

    #[tokio::test(flavor = "local")]
    async fn an_answer_is_good_if_it_is_whole_and_has_the_status() {
        const LONG: u64 = 30_000;
        const SHORT: u64 = 50;
        for (says, closes, timeout, expects_close, letters, said) in [
            (&b"HTTP/1.1 200 OK\r\n\r\nbody"[..], true, LONG, true, "4XRH", "HTTP/1.1 200 OK"),
            (b"HTTP/2 200\n", true, LONG, true, "4XRH", "HTTP/2 200"),
            (b"HTTP/1.1 404 Gone\r\n", true, LONG, true, "4XR", "HTTP/1.1 404 Gone"),
            (b"PONG 200 OK\r\n", true, LONG, true, "4XR", "PONG 200 OK"),
            (b"", true, LONG, true, "4X", "an empty response"),
            (b"HTTP/1.1 200 OK\r\n\r\n", false, SHORT, true, "4Xr", "cannot read the answer: timed out"),
            (b"HTTP/1.1 200 OK\r\n\r\n", false, SHORT, false, "4XRH", "HTTP/1.1 200 OK"),
            (b"", false, SHORT, false, "4X", "an empty response"),
        ] {
            let (answer, got) = asked(says, closes, None, probe(timeout, expects_close)).await;
            let found: String = answer.events.iter().map(|event| event.shown().0).collect();
            assert_eq!((found.as_str(), answer.said.as_str()), (letters, said), "{}", says.escape_ascii());
            assert_eq!(got, b"PING\r\n\r\n");
        }
    }

    #[tokio::test(flavor = "local")]
    async fn a_backend_that_wants_a_proxy_header_gets_one() {
        for (version, begins) in
            [(1, &b"PROXY TCP4 127.0.0.1 127.0.0.1 "[..]), (2, b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0PING")]
        {
            let (answer, got) = asked(b"HTTP/1.1 200 OK\r\n\r\n", true, Some(version), probe(30_000, true)).await;
            assert!(got.starts_with(begins), "{}", got.escape_ascii());
            assert!(answer.events.contains(&Event::Happy), "{answer:?}");
        }
    }

    #[tokio::test(flavor = "local")]
    async fn a_backend_that_is_not_there_is_told() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let probed = probed(listener.local_addr().expect("it is bound"), None, probe(30_000, true));
        drop(listener);
        let answer = probed.ask().await;
        assert!(answer.events.is_empty() && answer.said.starts_with("cannot connect: "), "{answer:?}");
    }

    #[test]
    fn statuses_are_read_as_varnish_reads_them() {
        for (line, expected) in [
            ("HTTP/1.1 200 OK", Some(200)),
            ("HTTP/1.0 503", Some(503)),
            ("HTTP/3  404x", Some(404)),
            ("HTTP/x 200", None),
            ("HTTP/1.1", None),
            ("HTTP/1.1 OK", None),
            ("200", None),
        ] {
            assert_eq!(status(line.as_bytes()), expected, "{line}");
        }
    }
}
