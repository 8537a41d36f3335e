//! A FastCGI origin that answers from a script.

mod record;

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::script::{Hold, Route, Script};
use record::{Kind, read_record, write_record};

/// A responder over TCP or a unix socket. It records every request, whole, before it answers.
#[derive(Debug)]
pub struct FastCgiOrigin {
    place: Place,
    script: Arc<Script<FastCgiReply, FastCgiSeen>>,
    connections: Arc<Mutex<Vec<Socket>>>,
    acceptor: Option<thread::JoinHandle<()>>,
}

/// What a responder sends for one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FastCgiReply {
    /// CGI header lines, an empty line, and the body. The body is left out where the request is a HEAD, as PHP does.
    pub stdout: Vec<u8>,
    /// Sent as STDERR records before STDOUT, one each.
    pub stderr: Vec<Vec<u8>>,
    /// The most bytes of STDOUT in one record, 1 to 65535.
    pub record_bytes_max: usize,
    /// How it ends.
    pub end: FastCgiEnd,
}

/// How a responder ends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastCgiEnd {
    /// END_REQUEST with this application status; the connection stays if the peer asked for that.
    Request(u32),
    /// The connection closes without END_REQUEST.
    Die,
    /// Nothing more comes, and the connection stays.
    Hang,
}

/// A request as a responder received it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FastCgiSeen {
    /// Names and values in order.
    pub params: Vec<(String, String)>,
    /// The request's body.
    pub stdin: Vec<u8>,
    /// Whether FCGI_KEEP_CONN was set.
    pub keeps_connection: bool,
    /// The connection it came on, counted from 0 since the responder started.
    pub connection: usize,
}

impl FastCgiSeen {
    /// The last parameter of this name: PHP takes the last.
    pub fn param(&self, name: &str) -> Option<&str> {
        self.params.iter().rev().find(|(have, _)| have == name).map(|(_, value)| value.as_str())
    }
}

impl FastCgiReply {
    /// This STDOUT in large records, and a proper end.
    pub fn new(stdout: impl Into<Vec<u8>>) -> FastCgiReply {
        FastCgiReply {
            stdout: stdout.into(),
            stderr: Vec::new(),
            record_bytes_max: 65_528,
            end: FastCgiEnd::Request(0),
        }
    }

    /// `text/html` with this body.
    pub fn html(body: &str) -> FastCgiReply {
        FastCgiReply::new(format!("Content-Type: text/html\r\n\r\n{body}"))
    }

    /// Adds a STDERR record.
    pub fn stderr(mut self, text: &str) -> FastCgiReply {
        self.stderr.push(text.as_bytes().to_vec());
        self
    }

    /// Splits STDOUT into records of at most `bytes`.
    pub fn split(mut self, bytes: usize) -> FastCgiReply {
        self.record_bytes_max = bytes;
        self
    }

    /// Sets how it ends.
    pub fn end(mut self, end: FastCgiEnd) -> FastCgiReply {
        self.end = end;
        self
    }
}

impl FastCgiOrigin {
    /// Listens on a free port of 127.0.0.1.
    pub fn start_tcp() -> io::Result<FastCgiOrigin> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let place = Place::Tcp(listener.local_addr()?);
        Ok(FastCgiOrigin::start(place, move || Ok(Socket::Tcp(listener.accept()?.0))))
    }

    /// Listens on a unix socket that everybody may connect to.
    pub fn start_unix(path: &Path) -> io::Result<FastCgiOrigin> {
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666))?;
        let place = Place::Unix(path.to_owned());
        Ok(FastCgiOrigin::start(place, move || Ok(Socket::Unix(listener.accept()?.0))))
    }

    fn start(place: Place, next: impl Fn() -> io::Result<Socket> + Send + 'static) -> FastCgiOrigin {
        let script = Script::new();
        let connections = Arc::new(Mutex::new(Vec::new()));
        let acceptor = thread::spawn({
            let (script, connections) = (Arc::clone(&script), Arc::clone(&connections));
            move || accept(next, &script, &connections)
        });
        FastCgiOrigin { place, script, connections, acceptor: Some(acceptor) }
    }

    /// What `fastcgi_pass` takes: `127.0.0.1:9000` or `unix:/path`.
    pub fn address(&self) -> String {
        match &self.place {
            Place::Tcp(address) => address.to_string(),
            Place::Unix(path) => format!("unix:{}", path.display()),
        }
    }

    /// From now on requests with this SCRIPT_NAME (or `*`) get this reply.
    pub fn answer(&self, route: impl Into<Route>, reply: FastCgiReply) {
        self.script.answer(route.into(), reply);
    }

    /// They get this when what was told before is used up; the last reply stays.
    pub fn answer_then(&self, route: impl Into<Route>, reply: FastCgiReply) {
        self.script.answer_then(route.into(), reply);
    }

    /// Requests with this SCRIPT_NAME (`*`: all that have no hold of their own) are recorded, then wait.
    pub fn hold(&self, script_name: &str) -> Hold {
        self.script.hold(script_name);
        let (script, name) = (Arc::clone(&self.script), script_name.to_owned());
        Hold::new(move || script.release(&name))
    }

    /// Everything asked so far, in order of arrival.
    pub fn requests(&self) -> Vec<FastCgiSeen> {
        self.script.seen()
    }

    /// How many requests there were.
    pub fn count(&self) -> usize {
        self.script.seen().len()
    }

    /// Waits until `count` requests have arrived; `false` when patience ran out.
    pub fn wait_for(&self, count: usize) -> bool {
        self.script.wait_for(count)
    }

    /// Forgets what was asked and starts the script anew.
    pub fn rewind(&self) {
        self.script.rewind();
    }
}

impl Drop for FastCgiOrigin {
    fn drop(&mut self) {
        self.script.stop();
        // The acceptor sits in accept(); a connection is what wakes it. A removed socket file lets nobody in: then the
        // thread is left behind rather than waited for.
        let is_woken = match &self.place {
            Place::Tcp(address) => TcpStream::connect_timeout(address, Duration::from_secs(1)).is_ok(),
            Place::Unix(path) => UnixStream::connect(path).is_ok(),
        };
        if let Some(acceptor) = self.acceptor.take().filter(|_| is_woken) {
            drop(acceptor.join());
        }
        for socket in self.connections.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            drop(socket.shutdown(Shutdown::Both));
        }
    }
}

fn accept(
    next: impl Fn() -> io::Result<Socket>,
    script: &Arc<Script<FastCgiReply, FastCgiSeen>>,
    connections: &Mutex<Vec<Socket>>,
) {
    for connection in 0.. {
        let socket = next();
        if script.is_stopped() {
            return;
        }
        let Ok(socket) = socket else { continue };
        if let Ok(clone) = socket.try_clone() {
            connections.lock().unwrap_or_else(PoisonError::into_inner).push(clone);
        }
        let script = Arc::clone(script);
        // A peer that goes away ends its thread; that is no event for the test.
        thread::spawn(move || drop(serve(socket, connection, &script)));
    }
}

fn serve(mut socket: Socket, connection: usize, script: &Script<FastCgiReply, FastCgiSeen>) -> io::Result<()> {
    while let Some((id, seen)) = read_request(&mut socket, connection)? {
        let keeps_connection = seen.keeps_connection;
        let is_head = seen.param("REQUEST_METHOD") == Some("HEAD");
        let name = seen.param("SCRIPT_NAME").unwrap_or_default().to_owned();
        let params = seen.params.clone();
        let reply = script
            .exchange(&name, |want| params.iter().any(|(name, _)| name == want), seen)
            .unwrap_or_else(|| FastCgiReply::new("Status: 404 Not Found\r\n\r\nnothing is scripted here\n"));
        socket.write_all(&reply_bytes(&reply, id, is_head))?;
        match reply.end {
            FastCgiEnd::Request(_) if keeps_connection => {}
            FastCgiEnd::Request(_) | FastCgiEnd::Die => return socket.shutdown(Shutdown::Both),
            FastCgiEnd::Hang => {
                drop(io::copy(&mut socket, &mut io::sink()));
                return Ok(());
            }
        }
    }
    Ok(())
}

fn reply_bytes(reply: &FastCgiReply, id: u16, is_head: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in &reply.stderr {
        write_record(&mut bytes, Kind::Stderr, id, line);
    }
    let stdout = if is_head { head_of(&reply.stdout) } else { &reply.stdout };
    for piece in stdout.chunks(reply.record_bytes_max.clamp(1, 65_535)) {
        write_record(&mut bytes, Kind::Stdout, id, piece);
    }
    if let FastCgiEnd::Request(status) = reply.end {
        write_record(&mut bytes, Kind::Stdout, id, b"");
        let [a, b, c, d] = status.to_be_bytes();
        write_record(&mut bytes, Kind::EndRequest, id, &[a, b, c, d, 0, 0, 0, 0]);
    }
    bytes
}

/// A CGI response through its empty line.
fn head_of(stdout: &[u8]) -> &[u8] {
    let end = stdout.windows(4).position(|window| window == b"\r\n\r\n").map_or(stdout.len(), |at| at + 4);
    stdout.get(..end).unwrap_or(stdout)
}

/// The next request and its id; `None` when the peer closed between two.
fn read_request(socket: &mut Socket, connection: usize) -> io::Result<Option<(u16, FastCgiSeen)>> {
    let mut params = Vec::new();
    let mut seen = FastCgiSeen { params: Vec::new(), stdin: Vec::new(), keeps_connection: false, connection };
    while let Some(record) = read_record(socket)? {
        match record.kind {
            Some(Kind::BeginRequest) => {
                seen.keeps_connection = record.content.get(2).is_some_and(|flags| flags & 1 == 1)
            }
            Some(Kind::Params) => params.extend_from_slice(&record.content),
            Some(Kind::Stdin) if record.content.is_empty() => {
                seen.params = record::params(&params)?;
                return Ok(Some((record.id, seen)));
            }
            Some(Kind::Stdin) => seen.stdin.extend_from_slice(&record.content),
            Some(Kind::AbortRequest | Kind::EndRequest | Kind::Stdout | Kind::Stderr) | None => {
                return Err(io::Error::other("a record that no web server sends"));
            }
        }
    }
    Ok(None)
}

#[derive(Debug)]
enum Place {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    fn try_clone(&self) -> io::Result<Socket> {
        Ok(match self {
            Socket::Tcp(stream) => Socket::Tcp(stream.try_clone()?),
            Socket::Unix(stream) => Socket::Unix(stream.try_clone()?),
        })
    }

    fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.shutdown(how),
            Socket::Unix(stream) => stream.shutdown(how),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.read(buffer),
            Socket::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.write(bytes),
            Socket::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_responder_records_params_and_body_and_splits_its_reply() {
        let folder = crate::Folder::new().unwrap();
        let path = folder.join("f.sock");
        let origin = FastCgiOrigin::start_unix(&path).unwrap();
        origin.answer("/a.php", FastCgiReply::html("hello").stderr("warn").split(3));
        let mut request = Vec::new();
        write_record(&mut request, Kind::BeginRequest, 1, &[0, 1, 1, 0, 0, 0, 0, 0]);
        write_record(&mut request, Kind::Params, 1, b"\x0b\x06SCRIPT_NAME/a.php");
        write_record(&mut request, Kind::Params, 1, b"");
        write_record(&mut request, Kind::Stdin, 1, b"body");
        write_record(&mut request, Kind::Stdin, 1, b"");
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(&request).unwrap();
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        loop {
            let record = read_record(&mut stream).unwrap().unwrap();
            match record.kind {
                Some(Kind::Stdout) => {
                    assert!(record.content.len() <= 3);
                    stdout.extend(record.content);
                }
                Some(Kind::Stderr) => stderr.extend(record.content),
                _ => break,
            }
        }
        assert_eq!(stdout, b"Content-Type: text/html\r\n\r\nhello");
        assert_eq!(stderr, b"warn");
        let seen = origin.requests();
        assert_eq!((seen[0].param("SCRIPT_NAME"), &seen[0].stdin[..]), (Some("/a.php"), &b"body"[..]));
        assert!(seen[0].keeps_connection);
    }
}
