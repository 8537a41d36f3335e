//! The arguments of [`fetch`](crate::fetch).

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

use crate::{gate::Asks, group::Group, limits::Limits, request_body::RequestBody, tls::Tls};

/// What to fetch, from whom, and under which limits. The request is already serialised for its protocol.
#[derive(Debug)]
pub struct Fetch {
    /// The origins that may be asked.
    pub group: Arc<Group>,
    /// What `ip_hash` and `hash` choose by; other methods ignore it.
    ///
    /// For `ip_hash` it is the address of the client: four octets, of which the first three count, or sixteen.
    pub hash_key: Vec<u8>,
    /// The protocol, and the request in it.
    pub protocol: Protocol,
    /// The body of the request.
    pub body: RequestBody,
    /// Timeouts and sizes.
    pub limits: Limits,
    /// TLS below the protocol. A kept connection is only used for requests with the same settings.
    pub tls: Option<Tls>,
    /// What each connection begins with, before TLS: a PROXY header. A kept connection is only used for requests with
    /// the same one.
    pub preface: Option<Bytes>,
    /// When to ask another origin.
    pub retry: Retry,
    /// Whether to keep the connection for the next fetch, if the protocol and the group allow it.
    pub keep: bool,
    /// How it goes through the gate of the group, if that has one.
    pub gate: Asks,
    /// Whether the request is a HEAD, so that the response has no body, whatever its head says.
    pub method_is_head: bool,
}

/// The protocol an origin speaks, and the request in it.
#[derive(Clone, Debug)]
pub enum Protocol {
    /// FastCGI, in the role of a responder.
    FastCgi {
        /// The parameters, from [`fastcgi::encode_params`](crate::fastcgi::encode_params).
        params: Bytes,
        /// `fastcgi_catch_stderr`: texts that make the response invalid if they are in stderr.
        catch_stderr: Vec<Vec<u8>>,
    },
    /// HTTP/1.0 or 1.1.
    Http {
        /// The request line and all fields, including the empty line.
        head: Bytes,
        /// Whether a 101 may turn the connection into a tunnel.
        upgrade: bool,
    },
}

/// When another origin is asked after one failed.
#[derive(Clone, Copy, Debug)]
pub struct Retry {
    /// `*_next_upstream`.
    pub rules: RetryRules,
    /// `*_next_upstream_tries`, 0 for as many as there are origins.
    pub tries: u32,
    /// `*_next_upstream_timeout`: no new attempt after this time.
    pub timeout: Option<Duration>,
    /// Whether the method may be repeated: not POST, LOCK or PATCH.
    pub is_idempotent: bool,
}

/// The words of `*_next_upstream`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryRules {
    /// `error`.
    pub error: bool,
    /// `timeout`.
    pub timeout: bool,
    /// `invalid_header`.
    pub invalid_header: bool,
    /// `non_idempotent`.
    pub non_idempotent: bool,
    /// The statuses of `http_500` and so on.
    pub statuses: Statuses,
}

/// Some of the statuses that `*_next_upstream` knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statuses(u8);

impl Statuses {
    /// Each has a bit.
    const KNOWN: [u16; 7] = [500, 502, 503, 504, 403, 404, 429];

    /// Whether it is one of them.
    pub fn contains(self, status: u16) -> bool {
        self.0 & Statuses::bit(status) != 0
    }

    fn bit(status: u16) -> u8 {
        Statuses::KNOWN.iter().position(|known| *known == status).map_or(0, |at| 1 << at)
    }
}

impl FromIterator<u16> for Statuses {
    /// Those that `*_next_upstream` knows.
    fn from_iter<I: IntoIterator<Item = u16>>(statuses: I) -> Statuses {
        Statuses(statuses.into_iter().fold(0, |bits, status| bits | Statuses::bit(status)))
    }
}

impl Default for RetryRules {
    /// nginx's default: `error timeout`.
    fn default() -> Self {
        RetryRules {
            error: true,
            timeout: true,
            invalid_header: false,
            non_idempotent: false,
            statuses: Statuses::default(),
        }
    }
}

impl Default for Limits {
    /// nginx's defaults: 60 s each, and 4k.
    fn default() -> Self {
        let minute = Duration::from_secs(60);
        Limits {
            connect: minute,
            send: minute,
            read: minute,
            read_body: minute,
            head_bytes_max: 4096,
            bind: None,
            line_bytes_max: None,
            unfolds: false,
            tcp_keepalive: false,
        }
    }
}
