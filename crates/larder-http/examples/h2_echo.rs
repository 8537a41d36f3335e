//! A server that answers every request over HTTP/2 without TLS: for conformance tests of the codec.
//!
//! `cargo run --release -p larder-http --example h2_echo -- 127.0.0.1:8080`; a GET is answered with 1 KiB, or as
//! many bytes as the path says (`/100000`), a request with a body with that body.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{SystemTime, UNIX_EPOCH};

use larder_http::h2::{Config, Connection, ErrorCode, Event, StreamId, hpack};
use larder_http::{RequestHead, Time};

fn main() -> io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".into());
    let listener = TcpListener::bind(&address)?;
    println!("listening on {address}");
    for stream in listener.incoming() {
        let stream = stream?;
        std::thread::spawn(move || serve(stream));
    }
    Ok(())
}

/// An answer that is being sent.
struct Answer {
    body: Vec<u8>,
    sent: usize,
    /// Whether the request is complete, so that the answer may begin.
    is_ready: bool,
    is_begun: bool,
    status: u16,
}

fn serve(mut socket: TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let mut out = Vec::new();
    let mut connection = Connection::new(&Config::default(), &mut out);
    let mut head = RequestHead::new();
    let mut answers: BTreeMap<StreamId, Answer> = BTreeMap::new();
    let mut input = Vec::new();
    let mut chunk = vec![0; 64 * 1024];
    loop {
        send(&mut connection, &mut answers, &mut out);
        socket.write_all(&out)?;
        out.clear();
        if connection.is_draining() && connection.open_streams() == 0 {
            return linger(&mut socket);
        }
        let count = socket.read(&mut chunk)?;
        if count == 0 {
            return Ok(());
        }
        input.extend_from_slice(&chunk[..count]);
        let mut rest = &input[..];
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64);
        loop {
            match connection.next(&mut rest, &mut head, &mut out, Time(now)) {
                Ok(Some(event)) => take(event, &head, &mut connection, &mut answers, &mut out),
                Ok(None) => break,
                Err(error) => {
                    println!("{error}");
                    socket.write_all(&out)?;
                    return linger(&mut socket);
                }
            }
        }
        let left = rest.len();
        input.drain(..input.len() - left);
    }
}

/// Closes after the client has: what it sends until then must not turn the end into a reset of the transport, which
/// would take our last frames with it.
fn linger(socket: &mut TcpStream) -> io::Result<()> {
    socket.shutdown(std::net::Shutdown::Write)?;
    let mut chunk = [0; 4096];
    while socket.read(&mut chunk)? > 0 {}
    Ok(())
}

fn take(
    event: Event<'_>,
    head: &RequestHead,
    connection: &mut Connection,
    answers: &mut BTreeMap<StreamId, Answer>,
    out: &mut Vec<u8>,
) {
    match event {
        Event::Head { stream, ends, refused } => {
            let len = String::from_utf8_lossy(head.target().get(1..).unwrap_or_default()).parse();
            let body = if ends { vec![b'x'; len.unwrap_or(1024)] } else { Vec::new() };
            let status = refused.map_or(200, |error| larder_http::sent_status(error.status()));
            answers.insert(stream, Answer { body, sent: 0, is_ready: ends, is_begun: false, status });
        }
        Event::Data { stream, data, ends } => {
            if let Some(answer) = answers.get_mut(&stream) {
                answer.body.extend_from_slice(data);
                answer.is_ready = ends;
            }
            connection.consumed(stream, data.len(), out);
        }
        Event::Trailers { stream } => {
            if let Some(answer) = answers.get_mut(&stream) {
                answer.is_ready = true;
            }
        }
        Event::WrongLength { stream } => {
            connection.reset(stream, ErrorCode::PROTOCOL_ERROR, out);
        }
        Event::Reset { stream, code } => {
            if code != ErrorCode::CANCEL {
                println!("stream {} was reset with {}", stream.0, code.0);
            }
            answers.remove(&stream);
            connection.release(stream);
        }
        Event::Window | Event::GoAway => {}
    }
}

/// Sends as much as may be sent.
fn send(connection: &mut Connection, answers: &mut BTreeMap<StreamId, Answer>, out: &mut Vec<u8>) {
    let mut block = Vec::new();
    let mut streams: Vec<StreamId> = answers.iter().filter(|(_, answer)| answer.is_ready).map(|(id, _)| *id).collect();
    streams.sort_by(|&a, &b| connection.order(a, b));
    for stream in streams {
        let Some(answer) = answers.get_mut(&stream) else { continue };
        if !std::mem::replace(&mut answer.is_begun, true) {
            block.clear();
            hpack::encode_status(answer.status, &mut block);
            hpack::encode_lines(
                format!("Server: larder\r\nContent-Length: {}\r\n", answer.body.len()).as_bytes(),
                &mut block,
            );
            connection.send_head(stream, &block, answer.body.is_empty(), out);
        }
        answer.sent += connection.send_data(stream, &answer.body[answer.sent..], true, out);
        if answer.sent == answer.body.len() {
            answers.remove(&stream);
        }
    }
}
