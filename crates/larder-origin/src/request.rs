//! What is asked of [`fetch`](crate::fetch).

use std::{fs::File, io, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::{group::Group, limits::Limits, tls::Tls};

/// What to fetch. The request is already serialised in the terms of its protocol.
#[derive(Debug)]
pub struct Fetch {
    /// Who may be asked.
    pub group: Arc<Group>,
    /// What `ip_hash` and `hash` choose by; ignored by the rest.
    ///
    /// For `ip_hash` the address of the client: four octets, of which the first three count, or sixteen.
    pub hash_key: Vec<u8>,
    /// The protocol, and the request in it.
    pub protocol: Protocol,
    /// The body of the request.
    pub body: RequestBody,
    /// How long and how much.
    pub limits: Limits,
    /// TLS below the protocol. A connection is kept for requests that ask for the same.
    pub tls: Option<Tls>,
    /// What each connection begins with, before TLS: a header of the PROXY protocol. A connection is kept for requests
    /// with the same one.
    pub preface: Option<Bytes>,
    /// When to ask another origin.
    pub retry: Retry,
    /// Keep the connection for the next fetch, if the protocol and the group allow it.
    pub keep: bool,
    /// Whether the request is a HEAD, whose response has no body whatever its head says.
    pub method_is_head: bool,
}

/// The protocol an origin speaks, and the request in it.
#[derive(Clone, Debug)]
pub enum Protocol {
    /// FastCGI, in the role of a responder.
    FastCgi {
        /// The parameters, from [`fastcgi::encode_params`](crate::fastcgi::encode_params).
        params: Bytes,
        /// `fastcgi_catch_stderr`: texts that make the response invalid when they are in the error output.
        catch_stderr: Vec<Vec<u8>>,
    },
    /// HTTP/1.0 or 1.1.
    Http {
        /// The request line and all fields, through the empty line.
        head: Bytes,
        /// Whether a 101 may turn the connection into a tunnel.
        upgrade: bool,
    },
}

/// The body of a request.
#[derive(Debug)]
pub enum RequestBody {
    /// There is none.
    None,
    /// All of it, in memory.
    Memory(Bytes),
    /// All of it, in a file.
    File {
        /// Read from its start, wherever its cursor is.
        file: Arc<File>,
        /// How much of it, bytes.
        len: u64,
    },
    /// It comes as the client sends it. Once anything was taken from `rx`, the request cannot be sent again.
    Stream {
        /// What has come already; goes out with the head.
        first: Bytes,
        /// What comes behind it. An error fails the fetch, and so does a closed channel before the end.
        rx: mpsc::Receiver<io::Result<BodyPiece>>,
        /// How many bytes it is in all, `first` among them. `None` is sent chunked by HTTP/1.1; FastCGI ends its
        /// input by itself.
        len: Option<u64>,
    },
}

/// A piece of a body that comes as the client sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyPiece {
    /// Some of it.
    Bytes(Bytes),
    /// That was all. Said outright, so that a sender that is dropped never makes a part look like the whole.
    End,
}

/// When another origin is asked after one failed.
#[derive(Clone, Debug)]
pub struct Retry {
    /// `*_next_upstream`.
    pub rules: RetryRules,
    /// `*_next_upstream_tries`, 0 for as many as there are origins.
    pub tries: u32,
    /// `*_next_upstream_timeout`: no new attempt after that long.
    pub timeout: Option<Duration>,
    /// Whether the method may be repeated: not POST, LOCK or PATCH.
    pub is_idempotent: bool,
}

/// The words of `*_next_upstream`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryRules {
    /// `error`.
    pub error: bool,
    /// `timeout`.
    pub timeout: bool,
    /// `invalid_header`.
    pub invalid_header: bool,
    /// `non_idempotent`.
    pub non_idempotent: bool,
    /// The statuses of `http_500` and its kind.
    pub statuses: Vec<u16>,
}

impl Default for RetryRules {
    /// nginx's own: `error timeout`.
    fn default() -> Self {
        RetryRules { error: true, timeout: true, invalid_header: false, non_idempotent: false, statuses: Vec::new() }
    }
}

impl Default for Limits {
    /// nginx's own: 60 s each, and 4k.
    fn default() -> Self {
        let minute = Duration::from_secs(60);
        Limits { connect: minute, send: minute, read: minute, head_bytes_max: 4096, bind: None, tcp_keepalive: false }
    }
}

impl RequestBody {
    /// The same body once more, if it can be sent more than once.
    pub(crate) fn again(&self) -> Option<RequestBody> {
        match self {
            RequestBody::None => Some(RequestBody::None),
            RequestBody::Memory(bytes) => Some(RequestBody::Memory(bytes.clone())),
            RequestBody::File { file, len } => Some(RequestBody::File { file: file.clone(), len: *len }),
            RequestBody::Stream { .. } => None,
        }
    }
}
