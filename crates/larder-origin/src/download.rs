//! Parses a response: bytes of the read buffer in, a head and a body out. Opens nothing.

use larder_http::{Fields, ResponseHead};

use crate::{error::FetchError, fastcgi, http, piece::Piece};

/// The parser of a response, for one of the protocols.
pub(crate) enum Download {
    FastCgi(fastcgi::Response),
    Http(http::Response),
}

impl Download {
    /// The head, once it is complete. Reads `input` from `at`, which it moves.
    pub(crate) fn head(&mut self, input: &[u8], at: &mut usize) -> Result<Option<ResponseHead>, FetchError> {
        match self {
            Download::FastCgi(response) => response.head(input, at),
            Download::Http(response) => response.head(input, at),
        }
    }

    /// The next piece of the body, in `input` from `at`, which it moves.
    pub(crate) fn body(&mut self, input: &[u8], at: &mut usize) -> Result<Piece, FetchError> {
        match self {
            Download::FastCgi(response) => response.body(input, at),
            Download::Http(response) => response.body(input, at),
        }
    }

    /// How much of the body is to come, once the head is read. `None` if only its end will tell.
    pub(crate) fn content_length(&self) -> Option<u64> {
        match self {
            Download::FastCgi(response) => response.content_length(),
            Download::Http(response) => response.content_length(),
        }
    }

    /// Whether what follows the head is a tunnel, not a body.
    pub(crate) fn is_tunnel(&self) -> bool {
        match self {
            Download::FastCgi(_) => false,
            Download::Http(response) => response.is_tunnel(),
        }
    }

    /// The origin closed the connection. An error, unless that is the end of the body.
    pub(crate) fn closed(&mut self) -> Result<(), FetchError> {
        match self {
            Download::FastCgi(response) => Err(response.closed()),
            Download::Http(response) => response.closed(),
        }
    }

    /// Whether the origin says in `input` from `at`, which it moves, that it is done with the request. One of HTTP never
    /// says it of a request that was given up.
    pub(crate) fn is_done(&mut self, input: &[u8], at: &mut usize) -> Result<bool, FetchError> {
        match self {
            Download::FastCgi(response) => response.is_done(input, at),
            Download::Http(_) => {
                *at = input.len();
                Ok(false)
            }
        }
    }

    /// Frees what a response that is over holds.
    pub(crate) fn rest(&mut self) {
        match self {
            Download::FastCgi(response) => response.rest(),
            Download::Http(response) => response.rest(),
        }
    }

    pub(crate) fn take_stderr(&mut self) -> Vec<String> {
        match self {
            Download::FastCgi(response) => response.take_stderr(),
            Download::Http(_) => Vec::new(),
        }
    }

    pub(crate) fn take_notes(&mut self) -> Vec<String> {
        match self {
            Download::FastCgi(response) => response.take_notes(),
            Download::Http(response) => response.take_notes(),
        }
    }

    /// The trailers of a chunked body, once it is complete.
    pub(crate) fn take_trailers(&mut self) -> Option<Box<Fields>> {
        match self {
            Download::FastCgi(_) => None,
            Download::Http(response) => response.take_trailers(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of a response whose bytes arrive in these pieces.
    fn read(mut download: Download, pieces: &[&[u8]]) -> Result<(u16, Vec<u8>), FetchError> {
        let (mut buffer, mut head, mut body) = (Vec::new(), None, Vec::new());
        for piece in pieces {
            let mut at = 0;
            buffer.extend_from_slice(piece);
            if head.is_none() {
                head = download.head(&buffer, &mut at)?;
            }
            while let Some(head) = &head {
                match download.body(&buffer, &mut at)? {
                    Piece::Data(piece) => body.extend_from_slice(&buffer[piece]),
                    Piece::More => break,
                    Piece::End(_) => return Ok((head.status, body)),
                }
            }
            buffer.drain(..at);
        }
        download.closed()?;
        Ok((head.map_or(0, |head| head.status), body))
    }

    /// A reader and a response for it.
    type Sample = (fn() -> Download, Vec<u8>);

    fn samples() -> Vec<Sample> {
        let http = || Download::Http(http::Response::new(4096, false, false));
        let fastcgi = || Download::FastCgi(fastcgi::Response::new(4096, Some([b"Fatal".to_vec()].into()), false));
        let mut records = b"\x01\x06\0\x01\0\x1c\x04\0Content-Length: 9\r\n\r\nfive5\r\n\0\0\0\0".to_vec();
        records.extend(b"\x01\x07\0\x01\0\x03\0\0err");
        records.extend(b"\x01\x06\0\x01\0\x02\0\0ok");
        records.extend(b"\x01\x03\0\x01\0\x08\0\0\0\0\0\0\0\0\0\0");
        let chunked = b"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\n";
        let sized = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nSet-Cookie: a=b\r\n\r\nabc";
        vec![(fastcgi, records), (http, chunked.to_vec()), (http, sized.to_vec())]
    }

    #[test]
    fn a_response_reads_the_same_wherever_it_is_cut() {
        for (download, bytes) in samples() {
            let whole = read(download(), &[&bytes]).unwrap();
            assert_eq!(whole.0, 200);
            assert!(!whole.1.is_empty());
            for at in 0..bytes.len() {
                let cut = read(download(), &[&bytes[..at], &bytes[at..]]).unwrap();
                assert_eq!(cut, whole, "cut at {at}");
                assert!(read(download(), &[&bytes[..at]]).is_err(), "nothing is complete at {at}");
            }
        }
    }

    #[test]
    fn no_bytes_panic() {
        let mut random = 0x9e37_79b9_7f4a_7c15u64;
        let mut next = move |below: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random >> 33) as usize % below
        };
        for _ in 0..5000 {
            for (download, mut bytes) in samples() {
                for _ in 0..=next(4) {
                    let at = next(bytes.len());
                    match next(4) {
                        0 => bytes[at] = next(256) as u8,
                        1 => bytes.insert(at, next(256) as u8),
                        2 => drop(bytes.remove(at)),
                        _ => bytes.extend_from_within(at..),
                    }
                }
                let at = next(bytes.len());
                let _ = read(download(), &[&bytes[..at], &bytes[at..]]);
            }
        }
    }
}
