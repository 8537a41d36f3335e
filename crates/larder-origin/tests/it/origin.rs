//! Origins that do what a test says, and fetches with short limits.

use std::{
    future::Future,
    net::SocketAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use larder_origin::{
    Address, AnswerBody, Balance, Fetch, FetchError, Group, Keepalive, Limits, Protocol, RequestBody, Retry,
    RetryRules, Server,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, UnixListener},
};

/// A connection as the origin sees it.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}
pub type Peer = Box<dyn Stream>;

/// A listener that runs a script for each connection.
pub struct Origin {
    pub address: Address,
    accepted: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Origin {
    /// `script` gets each connection and its number, from 0.
    pub async fn tcp<F: Future<Output = ()> + Send + 'static>(
        script: impl Fn(usize, Peer) -> F + Send + 'static,
    ) -> Origin {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = Address::Tcp(listener.local_addr().unwrap());
        let accepted = Arc::new(AtomicUsize::new(0));
        let counter = accepted.clone();
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let number = counter.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(script(number, Box::new(stream)));
            }
        });
        Origin { address, accepted, task }
    }

    /// The same on a Unix socket.
    pub async fn unix<F: Future<Output = ()> + Send + 'static>(
        path: &Path,
        script: impl Fn(usize, Peer) -> F + Send + 'static,
    ) -> Origin {
        let listener = UnixListener::bind(path).unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        let counter = accepted.clone();
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let number = counter.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(script(number, Box::new(stream)));
            }
        });
        Origin { address: Address::Unix(path.into()), accepted, task }
    }

    /// How many connections were made.
    pub fn connections(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An address where nobody listens.
pub fn nobody() -> Address {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    Address::Tcp(address)
}

/// Reads an HTTP request: its head, and a body by Content-Length or chunks as it came.
pub async fn read_http(peer: &mut Peer) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    loop {
        if let Some(head) = find(&text, b"\r\n\r\n") {
            let line = String::from_utf8_lossy(&text[..head]).to_lowercase();
            let whole = match line.split("content-length: ").nth(1) {
                Some(rest) => head + 4 + rest.split("\r\n").next().unwrap().parse::<usize>().unwrap(),
                None if line.contains("chunked") => find(&text, b"0\r\n\r\n").map_or(usize::MAX, |end| end + 5),
                None => head + 4,
            };
            if text.len() >= whole {
                return Some(text);
            }
        }
        if peer.read_buf(&mut text).await.ok()? == 0 {
            return None;
        }
    }
}

pub fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

/// A FastCGI request, as the origin got it.
#[derive(Debug, Default)]
pub struct CgiRequest {
    pub keep: bool,
    pub params: Vec<u8>,
    pub params_records: usize,
    pub body: Vec<u8>,
}

/// Reads a FastCGI request whole.
pub async fn read_fastcgi(peer: &mut Peer) -> Option<CgiRequest> {
    let mut request = CgiRequest::default();
    loop {
        let (kind, content) = read_record(peer).await?;
        match (kind, content.is_empty()) {
            (1, _) => request.keep = content[2] == 1,
            (4, false) => {
                request.params_records += 1;
                request.params.extend(content);
            }
            (5, false) => request.body.extend(content),
            (4, true) => {}
            (5, true) => return Some(request),
            (kind, _) => panic!("record {kind}"),
        }
    }
}

pub async fn read_record(peer: &mut Peer) -> Option<(u8, Vec<u8>)> {
    let mut head = [0; 8];
    peer.read_exact(&mut head).await.ok()?;
    assert_eq!((head[0], head[2], head[3]), (1, 0, 1));
    let len = u16::from_be_bytes([head[4], head[5]]) as usize;
    let mut content = vec![0; len + head[6] as usize];
    assert!(content.len() <= 65_535, "PHP refuses longer records");
    peer.read_exact(&mut content).await.ok()?;
    content.truncate(len);
    Some((head[1], content))
}

pub fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let padding = content.len().wrapping_neg() % 8;
    let [high, low] = (content.len() as u16).to_be_bytes();
    let mut record = vec![1, kind, 0, 1, high, low, padding as u8, 0];
    record.extend(content);
    record.extend(vec![0; padding]);
    record
}

pub fn stdout(text: impl AsRef<[u8]>) -> Vec<u8> {
    record(6, text.as_ref())
}

pub fn stderr(text: &str) -> Vec<u8> {
    record(7, text.as_bytes())
}

pub fn end() -> Vec<u8> {
    record(3, &[0; 8])
}

/// Writes, unless the peer is gone.
pub async fn write(peer: &mut Peer, bytes: impl AsRef<[u8]>) {
    let _ = peer.write_all(bytes.as_ref()).await;
    let _ = peer.flush().await;
}

/// A GET by HTTP, that may be repeated, with nginx's default rules.
pub fn get(group: &Arc<Group>) -> Fetch {
    Fetch {
        group: group.clone(),
        hash_key: Vec::new(),
        protocol: http("GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        body: RequestBody::None,
        limits: Limits {
            connect: Duration::from_secs(5),
            send: Duration::from_secs(5),
            read: Duration::from_secs(5),
            ..Limits::default()
        },
        tls: None,
        preface: None,
        retry: Retry { rules: RetryRules::default(), tries: 0, timeout: None, is_idempotent: true },
        keep: true,
        gate: larder_origin::gate::Asks::default(),
        method_is_head: false,
    }
}

pub fn http(head: &str) -> Protocol {
    Protocol::Http { head: Bytes::copy_from_slice(head.as_bytes()), upgrade: false }
}

/// A GET by FastCGI.
pub fn cgi(group: &Arc<Group>) -> Fetch {
    let params = larder_origin::fastcgi::encode_params([("REQUEST_METHOD", "GET"), ("SCRIPT_NAME", "/a.php")]);
    Fetch { protocol: Protocol::FastCgi { params, catch_stderr: Vec::new() }, ..get(group) }
}

/// All of a body.
pub async fn read_all(body: &mut AnswerBody) -> Result<Vec<u8>, FetchError> {
    let mut all = Vec::new();
    while let Some(piece) = body.next().await? {
        assert!(!piece.is_empty());
        all.extend(piece);
    }
    Ok(all)
}

/// A group of one origin that keeps connections.
pub fn keeping(origin: &Origin, idle_max: usize) -> Arc<Group> {
    let servers = vec![Server::new(origin.address.clone())];
    Group::new("a", servers, Balance::RoundRobin, Keepalive::of(idle_max))
}
