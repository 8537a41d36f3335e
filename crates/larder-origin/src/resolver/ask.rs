//! Asks name servers about one name: one after the other, again if one does not answer, and by TCP for a long answer.

use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, ReadBuf},
    net::{TcpStream, UdpSocket},
    time::{Instant, Sleep, sleep_until},
};

use super::{
    Report,
    wire::{self, Kind, NOT_FOUND, Reply, Service},
};
use crate::io_error::nginx_error;

/// The answers for a name, IPv4 and IPv6 together.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) v4: Vec<IpAddr>,
    pub(super) v6: Vec<IpAddr>,
    /// Another name to ask for, if there are no addresses.
    pub(super) alias: Option<String>,
    pub(super) services: Vec<Service>,
    /// The smallest of all records.
    pub(super) ttl: Duration,
}

/// The result of asking.
#[derive(Debug)]
pub(super) enum Asked {
    Found(Found),
    /// The name servers answered with this error code.
    Failed(u8),
    /// No request waits for the answer any more.
    Abandoned,
}

/// The running questions about one name.
struct Asking<'a> {
    name: &'a str,
    report: &'a Report,
    questions: Vec<Question>,
    /// One for each server that was asked, the last at the back. A late answer counts too.
    sockets: VecDeque<Link>,
    transfers: Vec<Transfer>,
    /// The last error code of a server.
    code: u8,
    /// How many more times it goes on to the next server at once after a refusal, without waiting for the alarm.
    refusals_left: usize,
    found: Found,
}

struct Question {
    kind: Kind,
    id: u16,
    bytes: Vec<u8>,
    by_tcp: bool,
    is_answered: bool,
}

struct Link {
    socket: UdpSocket,
    server: SocketAddr,
}

type Transfer = Pin<Box<dyn Future<Output = (SocketAddr, io::Result<Vec<u8>>)> + Send>>;

/// How long to wait for a server before the next one is asked.
const RESEND_AFTER: Duration = Duration::from_secs(5);
/// How long an answer by TCP may take.
const TCP_TIMEOUT: Duration = Duration::from_secs(5);
/// How many servers' late answers are waited for.
const SOCKETS_MAX: usize = 4;
/// As nginx: larger answers come by TCP.
const DATAGRAM_BYTES_MAX: usize = 4096;

/// Asks `servers`, from the one at `first` on, until there is an answer, or until `is_wanted` is false.
pub(super) async fn ask(
    name: &str,
    kinds: &[Kind],
    servers: &[SocketAddr],
    first: usize,
    report: &Report,
    is_wanted: impl Fn() -> bool,
) -> Asked {
    let mut questions = Vec::new();
    for &kind in kinds {
        let id = random() as u16;
        let Some(bytes) = wire::question(id, name, kind) else { return Asked::Failed(NOT_FOUND) };
        questions.push(Question { kind, id, bytes, by_tcp: false, is_answered: false });
    }
    let found = Found { ttl: Duration::MAX, ..Found::default() };
    let mut asking = Asking {
        name,
        report,
        questions,
        sockets: VecDeque::new(),
        transfers: Vec::new(),
        code: 0,
        refusals_left: servers.len().saturating_sub(1),
        found,
    };
    for round in first.. {
        // A server that cannot be sent to is skipped, each once a round.
        for detour in 0..servers.len() {
            let Some(&server) = servers.get((round + detour) % servers.len()) else { break };
            if asking.send(server).await {
                break;
            }
        }
        let mut alarm = std::pin::pin!(sleep_until(Instant::now() + RESEND_AFTER));
        if poll_fn(|cx| asking.poll(cx, alarm.as_mut())).await == Progress::Answered {
            return asking.outcome();
        }
        if servers.is_empty() || !is_wanted() {
            break;
        }
    }
    Asked::Abandoned
}

/// Whether there is an answer.
#[derive(PartialEq, Eq)]
enum Progress {
    Answered,
    /// The last server does not answer, or cannot be reached.
    Silent,
}

impl Asking<'_> {
    /// Sends the questions that are not answered yet. False if that is not possible.
    async fn send(&mut self, server: SocketAddr) -> bool {
        let mut sent = true;
        let mut link = None;
        for question in self.questions.iter().filter(|question| !question.is_answered) {
            if question.by_tcp {
                self.transfers.push(Box::pin(transfer(server, question.bytes.clone())));
                continue;
            }
            if link.is_none() {
                link = match open(server).await {
                    Ok(socket) => Some(Link { socket, server }),
                    Err(error) => {
                        self.complain(&format!("connect() failed ({})", nginx_error(&error)), server);
                        return false;
                    }
                };
            }
            if let Some(link) = &link
                && let Err(error) = link.socket.send(&question.bytes).await
            {
                self.complain(&format!("send() failed ({})", nginx_error(&error)), server);
                sent = false;
            }
        }
        if let Some(link) = link {
            if self.sockets.len() >= SOCKETS_MAX {
                self.sockets.pop_front();
            }
            self.sockets.push_back(link);
        }
        sent
    }

    fn poll(&mut self, cx: &mut Context<'_>, alarm: Pin<&mut Sleep>) -> Poll<Progress> {
        let mut is_refused = false;
        let mut at = 0;
        while let Some(link) = self.sockets.get(at) {
            let server = link.server;
            let mut bytes = [0; DATAGRAM_BYTES_MAX];
            let mut buffer = ReadBuf::new(&mut bytes);
            match link.socket.poll_recv(cx, &mut buffer) {
                Poll::Ready(Ok(())) => self.take(buffer.filled(), false, server),
                Poll::Ready(Err(error)) => {
                    self.complain(&format!("recv() failed ({})", nginx_error(&error)), server);
                    self.sockets.remove(at);
                    is_refused = true;
                }
                Poll::Pending => at += 1,
            }
        }
        let mut transfers = std::mem::take(&mut self.transfers);
        transfers.retain_mut(|transfer| match transfer.as_mut().poll(cx) {
            Poll::Ready((server, Ok(bytes))) => {
                self.take(&bytes, true, server);
                false
            }
            Poll::Ready((server, Err(error))) => {
                self.complain(&format!("TCP exchange failed ({})", nginx_error(&error)), server);
                false
            }
            Poll::Pending => true,
        });
        // A message may have started transfers by TCP, which have to be polled.
        let is_new = !self.transfers.is_empty();
        self.transfers.append(&mut transfers);
        if self.questions.iter().all(|question| question.is_answered) {
            return Poll::Ready(Progress::Answered);
        }
        if is_new {
            cx.waker().wake_by_ref();
        }
        if alarm.poll(cx).is_ready() {
            return Poll::Ready(Progress::Silent);
        }
        // No name server listens there: there is nothing to wait for.
        if is_refused && self.sockets.is_empty() && self.refusals_left > 0 {
            self.refusals_left -= 1;
            return Poll::Ready(Progress::Silent);
        }
        Poll::Pending
    }

    /// Uses a message, if it answers one of the questions.
    fn take(&mut self, message: &[u8], by_tcp: bool, server: SocketAddr) {
        let reply = match wire::read(message, by_tcp) {
            Ok(reply) => reply,
            Err(error) => {
                let name = match &error {
                    wire::WireError::Code { id, .. } if self.questions.iter().any(|question| question.id == *id) => {
                        format!(", name:\"{}\"", self.name)
                    }
                    _ => String::new(),
                };
                return self.complain(&format!("{error}{name}"), server);
            }
        };
        let expected = |question: &&mut Question| question.kind == reply.kind && !question.is_answered;
        let is_named = reply.name == self.name;
        let Some(question) = self.questions.iter_mut().find(expected).filter(|_| is_named) else {
            return self.complain(&format!("unexpected DNS response for {}", reply.name), server);
        };
        if question.id != reply.id {
            let expect = question.id;
            let told = format!("wrong ident {} in DNS response for {}, expect {expect}", reply.id, reply.name);
            return self.complain(&told, server);
        }
        if reply.is_truncated {
            if !question.by_tcp {
                question.by_tcp = true;
                let bytes = question.bytes.clone();
                self.transfers.push(Box::pin(transfer(server, bytes)));
            }
            return;
        }
        question.is_answered = true;
        self.add(reply);
    }

    fn add(&mut self, reply: Reply) {
        if reply.code != 0 {
            self.code = reply.code;
            return;
        }
        let found = &mut self.found;
        if reply.is_empty {
            // The other family may have led to another name; as in nginx, the last answer counts.
            found.alias = None;
            return;
        }
        found.ttl = found.ttl.min(Duration::from_secs(reply.ttl.into()));
        match reply.kind {
            Kind::A => found.v4 = reply.addresses,
            Kind::Aaaa => found.v6 = reply.addresses,
            Kind::Srv => found.services = reply.services,
        }
        found.alias = reply.alias.or(found.alias.take());
    }

    /// The result for both families. As in nginx, a failure of one family is a failure.
    fn outcome(self) -> Asked {
        let Found { v4, v6, alias, services, .. } = &self.found;
        match self.code {
            0 if v4.is_empty() && v6.is_empty() && services.is_empty() && alias.is_none() => Asked::Failed(NOT_FOUND),
            0 => Asked::Found(self.found),
            code => Asked::Failed(code),
        }
    }

    fn complain(&self, what: &str, server: SocketAddr) {
        (self.report)(&format!("{what} while resolving, resolver: {server}"));
    }
}

/// A new socket for each name, so that a forged answer has to guess its port too, not only the question's id.
async fn open(server: SocketAddr) -> io::Result<UdpSocket> {
    let any: IpAddr = if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(server).await?;
    Ok(socket)
}

/// Sends a question by TCP and reads the answer.
async fn transfer(server: SocketAddr, question: Vec<u8>) -> (SocketAddr, io::Result<Vec<u8>>) {
    let exchange = async {
        let mut stream = TcpStream::connect(server).await?;
        let length = u16::try_from(question.len()).map_err(io::Error::other)?;
        let framed = [&length.to_be_bytes()[..], &question].concat();
        stream.write_all(&framed).await?;
        let length = stream.read_u16().await?;
        let mut answer = vec![0; usize::from(length)];
        stream.read_exact(&mut answer).await?;
        Ok(answer)
    };
    let result = tokio::time::timeout(TCP_TIMEOUT, exchange).await;
    (server, result.unwrap_or_else(|_| Err(io::Error::from_raw_os_error(rustix::io::Errno::TIMEDOUT.raw_os_error()))))
}

/// A number that nobody can guess: a hash with keys from the system's random bytes.
pub(super) fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    use std::sync::atomic::{AtomicU64, Ordering};
    static COUNT: AtomicU64 = AtomicU64::new(0);
    RandomState::new().hash_one(COUNT.fetch_add(1, Ordering::Relaxed))
}
