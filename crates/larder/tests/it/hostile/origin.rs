//! A recording origin that reads strictly, on connections that are kept: HTTP/1.1 or FastCGI.
//!
//! What it reads is exactly one request after the other. Anything else is a fault in the [`Ledger`]: a byte too many, a
//! line that ends in LF alone, a length said twice.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::ledger::{Act, Asked, Ledger, Plan, page};

/// How an origin reads a request and writes a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Speaks {
    Http,
    FastCgi,
}

/// A listening origin.
pub struct Origin {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    speaks: Speaks,
    ledger: Arc<Ledger>,
    /// All open connections.
    open: Mutex<Vec<TcpStream>>,
    /// What waits for the client of the last raw answer to have it.
    late: Mutex<Option<(TcpStream, Vec<Act>)>>,
}

impl Origin {
    pub fn start(speaks: Speaks, ledger: &Arc<Ledger>) -> Origin {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("it listens");
        let shared =
            Arc::new(Shared { speaks, ledger: Arc::clone(ledger), open: Mutex::default(), late: Mutex::default() });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&accepting);
                shared.note(&stream);
                thread::spawn(move || {
                    // A larder that goes away ends its thread.
                    drop(shared.serve(&stream));
                    drop(stream.shutdown(Shutdown::Both));
                });
            }
        });
        Origin { address, shared }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes every connection, after a case that may have left bytes on one.
    pub fn hang_up(&self) {
        for stream in self.shared.open.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            drop(stream.shutdown(Shutdown::Both));
        }
    }

    /// The client has its answer: what was to come late leaves.
    pub fn send_late(&self) {
        let late = self.shared.late.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((stream, acts)) = late {
            drop(self.shared.act(&stream, &acts));
        }
    }
}

impl Shared {
    fn note(&self, stream: &TcpStream) {
        drop(stream.set_nodelay(true));
        if let Ok(stream) = stream.try_clone() {
            self.open.lock().unwrap_or_else(PoisonError::into_inner).push(stream);
        }
    }

    fn serve(&self, stream: &TcpStream) -> io::Result<()> {
        let mut incoming = Incoming { stream, bytes: Vec::new() };
        loop {
            let read = match self.speaks {
                Speaks::Http => http_request(&mut incoming),
                Speaks::FastCgi => fastcgi_request(&mut incoming),
            };
            let asked = match read {
                Ok(Some(asked)) => asked,
                Ok(None) => return Ok(()),
                Err(Fault(what)) => {
                    self.ledger.fault(self.name(), what);
                    return Ok(());
                }
            };
            if !incoming.bytes.is_empty() {
                self.ledger.fault(self.name(), format!("bytes behind a request: {:?}", incoming.shown()));
                return Ok(());
            }
            let Some((id, plan)) = self.ledger.arrived(self.name(), &asked) else {
                return Ok(());
            };
            match plan {
                Plan::Page => (&*stream).write_all(&self.answer(&id, &asked))?,
                Plan::Raw(acts) => {
                    if !self.act(stream, &acts)? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Does these acts, those before the first late one now; whether the connection stays.
    fn act(&self, stream: &TcpStream, acts: &[Act]) -> io::Result<bool> {
        let mut stream = stream;
        for (at, act) in acts.iter().enumerate() {
            match act {
                Act::Send(bytes) => stream.write_all(bytes)?,
                Act::Close => {
                    stream.shutdown(Shutdown::Write)?;
                    return Ok(false);
                }
                Act::Late(bytes) => {
                    let rest = [&[Act::Send(bytes.clone())], &acts[at + 1..]].concat();
                    *self.late.lock().unwrap_or_else(PoisonError::into_inner) = Some((stream.try_clone()?, rest));
                    return Ok(true);
                }
            }
        }
        Ok(true)
    }

    fn answer(&self, id: &str, asked: &Asked) -> Vec<u8> {
        let body = page(id, asked);
        let sent: &[u8] = if asked.method == "HEAD" { b"" } else { &body };
        let len = body.len();
        match self.speaks {
            Speaks::Http => [format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n").as_bytes(), sent].concat(),
            Speaks::FastCgi => {
                let head = format!("Content-Type: text/html\r\nContent-Length: {len}\r\n\r\n");
                [record(6, &[head.as_bytes(), sent].concat()), record(6, b""), record(3, &[0; 8])].concat()
            }
        }
    }

    fn name(&self) -> &'static str {
        match self.speaks {
            Speaks::Http => "web",
            Speaks::FastCgi => "php",
        }
    }
}

/// One FastCGI record of request 1.
pub fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(content.len()).expect("short enough for a record").to_be_bytes();
    [&[1, kind, 0, 1, high, low, 0, 0], content].concat()
}

/// Something that no server may send.
struct Fault(String);

struct Incoming<'s> {
    stream: &'s TcpStream,
    bytes: Vec<u8>,
}

impl Incoming<'_> {
    /// Reads once more; `false` at the end.
    fn more(&mut self) -> bool {
        let mut buffer = [0; 16 << 10];
        match self.stream.read(&mut buffer) {
            Ok(count @ 1..) => {
                self.bytes.extend(&buffer[..count]);
                true
            }
            Ok(0) | Err(_) => false,
        }
    }

    /// Takes so many bytes; `None` when the peer left before.
    fn take(&mut self, count: usize) -> Option<Vec<u8>> {
        while self.bytes.len() < count {
            if !self.more() {
                return None;
            }
        }
        Some(self.bytes.drain(..count).collect())
    }

    /// Takes a line without its CR LF; `None` when the peer left before its end.
    fn line(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        let at = loop {
            match self.bytes.iter().position(|byte| *byte == b'\n') {
                Some(at) => break at,
                None if self.more() => {}
                None => return Ok(None),
            }
        };
        let line: Vec<u8> = self.bytes.drain(..=at).collect();
        match line.strip_suffix(b"\r\n") {
            Some(line) if !line.iter().any(|byte| matches!(byte, 0 | b'\r')) => Ok(Some(line.to_vec())),
            Some(_) | None => Err(Fault(format!("a line that two may end differently: {:?}", shown(&line)))),
        }
    }

    fn shown(&self) -> String {
        shown(&self.bytes)
    }
}

fn shown(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(300)].escape_ascii().to_string()
}

/// One request with its body; `None` when the peer left, which it may between two and within a body.
fn http_request(incoming: &mut Incoming<'_>) -> Result<Option<Asked>, Fault> {
    if incoming.bytes.is_empty() && !incoming.more() {
        return Ok(None);
    }
    let half = |what: &str| Fault(format!("half a head, {what}"));
    let line = incoming.line()?.ok_or_else(|| half("its first line"))?;
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let (method, target) = match words[..] {
        [method, target, b"HTTP/1.1" | b"HTTP/1.0"] if is_token(method) && is_target(target) => (method, target),
        _ => return Err(Fault(format!("a malformed request line: {:?}", shown(&line)))),
    };
    let mut fields = Vec::new();
    loop {
        let line = incoming.line()?.ok_or_else(|| half("its fields"))?;
        if line.is_empty() {
            break;
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(0);
        let (name, value) = line.split_at(colon);
        if !is_token(name) {
            return Err(Fault(format!("a malformed field: {:?}", shown(&line))));
        }
        fields.push((text(name), text(value[1..].trim_ascii())));
    }
    let asked = Asked { method: text(method), target: target.to_vec(), host: one(&fields, "Host")?, fields };
    let (length, coding) = (one(&asked.fields, "Content-Length")?, one(&asked.fields, "Transfer-Encoding")?);
    let is_number = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    let is_whole = match (&length[..], &coding[..]) {
        ("", "") => true,
        (_, "") if is_number => incoming.take(length.parse().unwrap_or(usize::MAX)).is_some(),
        ("", "chunked") => chunked_body(incoming)?,
        _ => return Err(Fault(format!("two lengths, or none: {length:?}, {coding:?}"))),
    };
    Ok(is_whole.then_some(asked))
}

/// Reads a chunked body, strictly: `false` when the peer left within it.
fn chunked_body(incoming: &mut Incoming<'_>) -> Result<bool, Fault> {
    loop {
        let Some(line) = incoming.line()? else {
            return Ok(false);
        };
        let size = std::str::from_utf8(&line).ok().filter(|size| size.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let size = size.and_then(|size| usize::from_str_radix(size, 16).ok());
        let size = size.ok_or_else(|| Fault(format!("a malformed chunk size: {:?}", shown(&line))))?;
        if size > 0 && incoming.take(size).is_none() {
            return Ok(false);
        }
        match incoming.line()? {
            Some(line) if line.is_empty() => {}
            Some(line) => return Err(Fault(format!("a chunk that does not end, or a trailer: {:?}", shown(&line)))),
            None => return Ok(false),
        }
        if size == 0 {
            return Ok(true);
        }
    }
}

/// The value of a field that may come once, or nothing.
fn one(fields: &[(String, String)], name: &str) -> Result<String, Fault> {
    let mut values = fields.iter().filter(|(have, _)| have.eq_ignore_ascii_case(name)).map(|(_, value)| value);
    match (values.next(), values.next()) {
        (first, None) => Ok(first.cloned().unwrap_or_default()),
        (_, Some(_)) => Err(Fault(format!("{name} came twice"))),
    }
}

fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte))
}

fn is_target(bytes: &[u8]) -> bool {
    bytes.starts_with(b"/") && bytes.iter().all(|byte| *byte > b' ' && *byte != 0x7f)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// One FastCGI request: BEGIN_REQUEST, parameters, body; `None` when the peer left.
fn fastcgi_request(incoming: &mut Incoming<'_>) -> Result<Option<Asked>, Fault> {
    if incoming.bytes.is_empty() && !incoming.more() {
        return Ok(None);
    }
    let (mut params, mut body) = (Vec::new(), 0);
    let mut wanted: &[u8] = &[1];
    loop {
        let Some(head) = incoming.take(8) else {
            return Ok(None);
        };
        let (kind, len) = (head[1], usize::from(u16::from_be_bytes([head[4], head[5]])));
        if head[0] != 1 || head[2..4] != [0, 1] || !wanted.contains(&kind) {
            return Err(Fault(format!("a record that has no place here: {:?}", shown(&head))));
        }
        let Some(content) = incoming.take(len + usize::from(head[6])) else {
            return Ok(None);
        };
        match (kind, len) {
            (1, _) if content[..3] != [0, 1, 1] => return Err(Fault("a connection that is not kept".to_owned())),
            (4, 0) => wanted = &[5],
            (1 | 4, _) => {
                params.extend_from_slice(if kind == 4 { &content[..len] } else { b"" });
                wanted = &[4];
            }
            (5, 0) => break,
            _ => body += len,
        }
    }
    let params = pairs(&params).ok_or_else(|| Fault("parameters that do not add up".to_owned()))?;
    let value = |name: &str| one(&params, name);
    let length = value("CONTENT_LENGTH")?;
    if !length.is_empty() && length != body.to_string() {
        return Err(Fault(format!("CONTENT_LENGTH {length:?} of a body of {body}")));
    }
    let mut names: Vec<&String> = params.iter().map(|(name, _)| name).collect();
    names.sort();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Fault(format!("{} came twice", twice[0])));
    }
    let target = value("REQUEST_URI")?.into_bytes();
    Ok(Some(Asked { method: value("REQUEST_METHOD")?, target, host: value("HTTP_HOST")?, fields: params }))
}

/// Names and values of parameters.
fn pairs(mut bytes: &[u8]) -> Option<Vec<(String, String)>> {
    fn length(bytes: &mut &[u8]) -> Option<usize> {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        if *first < 128 {
            return Some(usize::from(*first));
        }
        let (more, rest) = bytes.split_first_chunk::<3>()?;
        *bytes = rest;
        Some(u32::from_be_bytes([first & 127, more[0], more[1], more[2]]) as usize)
    }
    let mut pairs = Vec::new();
    while !bytes.is_empty() {
        let (name, value) = (length(&mut bytes)?, length(&mut bytes)?);
        let (pair, rest) = bytes.split_at_checked(name + value)?;
        pairs.push((text(&pair[..name]), text(&pair[name..])));
        bytes = rest;
    }
    Some(pairs)
}
