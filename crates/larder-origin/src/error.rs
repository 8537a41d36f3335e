//! Why a fetch brought no response, or only a part of it.

use std::io;

use larder_http::ResponseError;

use crate::{address::Address, gate::Refusal, io_error::nginx_error, resolver::Unresolved, tls::TlsError};

/// Why a fetch failed. The texts are those of nginx's error log, if it has one.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The origin could not be reached.
    #[error("connect(){} failed ({}) while connecting to upstream", to(origin), nginx_error(source))]
    Connect {
        /// Its address. Not where a machine has answered over TCP: nginx does not name it then.
        origin: Option<String>,
        /// What the system said.
        source: io::Error,
    },
    /// Connecting took longer than `*_connect_timeout`.
    #[error("upstream timed out (110: Connection timed out) while connecting to upstream")]
    ConnectTimeout,
    /// Connecting and the TLS handshake together took longer than `*_connect_timeout`.
    #[error("upstream timed out (110: Connection timed out) while SSL handshaking to upstream")]
    TlsTimeout,
    /// The TLS handshake failed.
    #[error("{0} while SSL handshaking to upstream")]
    Tls(#[from] TlsError),
    /// The origin read nothing of the request for `*_send_timeout`.
    #[error("upstream timed out (110: Connection timed out) while sending request to upstream")]
    SendTimeout,
    /// The origin sent nothing for `*_read_timeout`, before its head was complete.
    #[error("upstream timed out (110: Connection timed out) while reading response header from upstream")]
    HeadTimeout,
    /// The origin sent nothing for `*_read_timeout` in the middle of the body.
    #[error("upstream timed out (110: Connection timed out) while reading upstream")]
    BodyTimeout,
    /// The connection broke while the request was being sent, before any response.
    #[error(
        "{}() failed ({}) while sending request to upstream",
        call_of(source, "writev", "SSL_write"),
        nginx_error(source)
    )]
    Send {
        /// What the system said.
        source: io::Error,
    },
    /// The connection broke while the response was being read.
    #[error(
        "{}() failed ({}) while reading {}upstream",
        call_of(source, "recv", "SSL_read"),
        nginx_error(source),
        header_from(*before_head)
    )]
    Receive {
        /// What the system said.
        source: io::Error,
        /// Whether the head was not complete.
        before_head: bool,
    },
    /// The origin closed the connection.
    #[error("upstream prematurely closed connection while reading {}upstream", header_from(*before_head))]
    Closed {
        /// Whether the head was not complete.
        before_head: bool,
    },
    /// The head of the response is larger than `*_buffer_size`.
    #[error(
        "upstream sent too big header ({what}; the limit is {limit} bytes) while reading response header from upstream"
    )]
    HeadTooBig {
        /// The largest field so far, and its size.
        what: String,
        /// The limit, bytes.
        limit: usize,
    },
    /// The head of the response cannot be read.
    #[error("{0} while reading response header from upstream")]
    InvalidHead(#[from] ResponseError),
    /// A text of `fastcgi_catch_stderr` was found in stderr.
    #[error("FastCGI sent \"{pattern}\" in stderr, which fastcgi_catch_stderr refuses")]
    CaughtStderr {
        /// The text that was found.
        pattern: String,
    },
    /// The body is shorter than announced.
    #[error("upstream prematurely closed connection while reading upstream ({what})")]
    Incomplete {
        /// What is missing.
        what: &'static str,
    },
    /// The origin violated its protocol.
    #[error("{what} while reading {}upstream", header_from(*before_head))]
    Protocol {
        /// What it did.
        what: String,
        /// Whether the head was not complete.
        before_head: bool,
    },
    /// All servers of the group are down or busy: nginx's "no live upstreams".
    #[error("no live upstreams while connecting to upstream")]
    NoLiveOrigin,
    /// The gate of the group did not let it in.
    #[error("the request {0} while connecting to upstream")]
    Gate(Refusal),
    /// The name of the origin has no addresses.
    #[error(transparent)]
    Unresolved(#[from] Unresolved),
    /// The body of the request could not be read from the client or its file. That is not the origin's failure.
    #[error("the request body could not be read ({})", nginx_error(.0))]
    Body(#[source] io::Error),
    /// The file that is the body of the answer could not be read, or has become shorter.
    #[error("the file could not be read ({})", nginx_error(.0))]
    File(#[source] io::Error),
}

/// The kind of a failure, in the words of `*_next_upstream` and `*_cache_use_stale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailKind {
    /// `error`: a 502.
    Error,
    /// `timeout`: a 504.
    Timeout,
    /// `invalid_header`: a 502.
    InvalidHeader,
}

impl FetchError {
    /// A connection could not be made.
    pub(crate) fn connecting(address: &Address, source: io::Error) -> FetchError {
        match source.kind() {
            io::ErrorKind::TimedOut => FetchError::ConnectTimeout,
            io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset | io::ErrorKind::HostUnreachable
                if matches!(address, Address::Tcp(_)) =>
            {
                FetchError::Connect { origin: None, source }
            }
            _ => FetchError::Connect { origin: Some(address.to_string()), source },
        }
    }

    /// Which word of `*_next_upstream` and `*_cache_use_stale` covers it.
    pub fn kind(&self) -> FailKind {
        match self {
            FetchError::ConnectTimeout
            | FetchError::TlsTimeout
            | FetchError::SendTimeout
            | FetchError::HeadTimeout
            | FetchError::BodyTimeout => FailKind::Timeout,
            FetchError::HeadTooBig { .. }
            | FetchError::InvalidHead(_)
            | FetchError::CaughtStderr { .. }
            | FetchError::Protocol { before_head: true, .. } => FailKind::InvalidHeader,
            FetchError::Connect { .. }
            | FetchError::Tls(_)
            | FetchError::Send { .. }
            | FetchError::Receive { .. }
            | FetchError::Closed { .. }
            | FetchError::Incomplete { .. }
            | FetchError::Protocol { before_head: false, .. }
            | FetchError::NoLiveOrigin
            | FetchError::Gate(_)
            | FetchError::Unresolved(_)
            | FetchError::Body(_)
            | FetchError::File(_) => FailKind::Error,
        }
    }

    /// The status that nginx answers for it; `None` if it is not the origin's failure.
    pub(crate) fn status(&self) -> Option<u16> {
        match self {
            FetchError::Body(_) | FetchError::File(_) => None,
            FetchError::Gate(_) => Some(503),
            error if error.kind() == FailKind::Timeout => Some(504),
            _ => Some(502),
        }
    }

    /// Whether the connection broke or was closed. False if something was wrong with the response.
    pub(crate) fn is_broken(&self) -> bool {
        matches!(self, FetchError::Send { .. } | FetchError::Receive { .. } | FetchError::Closed { .. })
    }

    /// Whether it came before any byte of the request had gone out.
    pub fn is_before_request(&self) -> bool {
        matches!(
            self,
            FetchError::Connect { .. }
                | FetchError::ConnectTimeout
                | FetchError::TlsTimeout
                | FetchError::Tls(_)
                | FetchError::NoLiveOrigin
                | FetchError::Gate(_)
                | FetchError::Unresolved(_)
        )
    }

    /// Whether it is the origin's failure, which counts for `max_fails`, and after which another server may be asked.
    pub(crate) fn is_origins(&self) -> bool {
        !matches!(
            self,
            FetchError::Body(_)
                | FetchError::File(_)
                | FetchError::NoLiveOrigin
                | FetchError::Gate(_)
                | FetchError::Unresolved(_)
        )
    }
}

/// The call that nginx would have made: one of OpenSSL's where the fault is in TLS.
fn call_of(error: &io::Error, plain: &'static str, tls: &'static str) -> &'static str {
    if error.get_ref().is_some_and(|inner| inner.is::<larder_tls::SessionError>()) { tls } else { plain }
}

/// ` to ADDRESS`.
fn to(origin: &Option<String>) -> String {
    origin.as_ref().map_or_else(String::new, |origin| format!(" to {origin}"))
}

fn header_from(before_head: bool) -> &'static str {
    if before_head { "response header from " } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_in_the_words_of_nginx() {
        let refused = || io::Error::from_raw_os_error(111);
        for (error, told, kind) in [
            (
                FetchError::Connect { origin: Some("unix:/run/php.sock".into()), source: refused() },
                "connect() to unix:/run/php.sock failed (111: Connection refused) while connecting to upstream",
                FailKind::Error,
            ),
            (
                FetchError::Closed { before_head: true },
                "upstream prematurely closed connection while reading response header from upstream",
                FailKind::Error,
            ),
            (
                FetchError::Receive { source: io::Error::from_raw_os_error(104), before_head: false },
                "recv() failed (104: Connection reset by peer) while reading upstream",
                FailKind::Error,
            ),
            (
                FetchError::HeadTimeout,
                "upstream timed out (110: Connection timed out) while reading response header from upstream",
                FailKind::Timeout,
            ),
            (FetchError::NoLiveOrigin, "no live upstreams while connecting to upstream", FailKind::Error),
        ] {
            assert_eq!(error.to_string(), told);
            assert_eq!(error.kind(), kind, "{told}");
        }
    }
}
