//! The parsers of this crate, for `larder-fuzz`.

use larder_http::ResponseHead;

use crate::download::Download;
use crate::error::FetchError;
use crate::piece::{Piece, Reuse};
use crate::{fastcgi, http};

pub use crate::resolver::fuzzing::{dns_question, dns_reply};

/// The result of parsing a response.
#[derive(Debug, PartialEq, Eq)]
pub struct Told {
    /// Its head.
    pub head: Option<ResponseHead>,
    /// Its body, as far as it arrived.
    pub body: Vec<u8>,
    /// Whether it ended, and then whether the connection may be kept. `Err` if it is invalid.
    pub end: Result<Option<bool>, ()>,
    /// Its error output.
    pub stderr: Vec<String>,
}

impl Told {
    /// Panics if this result, of a response in pieces, differs from `whole`.
    ///
    /// One difference is allowed: bytes after a response close its connection only if they have arrived by then.
    pub fn assert_same(mut self, whole: Told) {
        assert!(whole.end != Ok(Some(true)) || self.end == whole.end, "kept as a whole, closed in pieces");
        if self.end == Ok(Some(true)) && whole.end == Ok(Some(false)) {
            self.end = whole.end;
        }
        assert_eq!(self, whole);
    }
}

/// The default size of the buffer for a head.
const HEAD_BYTES_MAX: usize = 4096;

/// Reads an HTTP response that comes in these pieces, and then the end of the connection.
pub fn http(pieces: &[&[u8]], is_head: bool) -> Told {
    read(Download::Http(http::Response::new(HEAD_BYTES_MAX, is_head, false)), pieces)
}

/// Reads a FastCGI response that comes in these pieces, and then the end of the connection.
pub fn fastcgi(pieces: &[&[u8]], is_head: bool) -> Told {
    read(Download::FastCgi(fastcgi::Response::new(HEAD_BYTES_MAX, None, is_head)), pieces)
}

fn read(mut download: Download, pieces: &[&[u8]]) -> Told {
    let mut told = Told { head: None, body: Vec::new(), end: Ok(None), stderr: Vec::new() };
    let mut buffer = Vec::new();
    let mut result = Ok(None);
    for piece in pieces {
        if matches!(result, Ok(None)) {
            buffer.extend_from_slice(piece);
            result = step(&mut download, &mut buffer, &mut told);
        }
    }
    told.stderr = download.take_stderr();
    told.end = match result {
        Ok(Some(reuse)) => Ok(Some(reuse == Reuse::Keep)),
        Ok(None) => download.closed().map(|()| None).map_err(drop),
        Err(_) => Err(()),
    };
    told
}

/// Reads as far as the buffer goes.
fn step(download: &mut Download, buffer: &mut Vec<u8>, told: &mut Told) -> Result<Option<Reuse>, FetchError> {
    let mut at = 0;
    if told.head.is_none() {
        told.head = download.head(buffer, &mut at)?;
    }
    while told.head.is_some() {
        match download.body(buffer, &mut at)? {
            Piece::Data(piece) => told.body.extend_from_slice(&buffer[piece]),
            Piece::More => break,
            Piece::End(reuse) => return Ok(Some(reuse)),
        }
    }
    buffer.drain(..at);
    Ok(None)
}
