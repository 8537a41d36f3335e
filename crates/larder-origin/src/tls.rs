//! TLS on a connection to an origin: records in, plaintext out, and nginx's messages for failed handshakes.

use std::{
    fmt,
    io::{self, IoSlice},
    sync::Arc,
    task::{Context, Poll},
};

use larder_tls::{ClientConfig, ClientSession, SessionError, State};

use crate::{
    io_error::nginx_error,
    socket::{Came, Socket},
};

/// The TLS settings for an origin: `proxy_ssl_*`.
#[derive(Clone)]
pub struct Tls {
    /// The part that connections share.
    pub config: Arc<ClientConfig>,
    /// `proxy_ssl_name`, by default the host of `proxy_pass`: the name that the certificate must have. Without a port.
    pub name: Arc<str>,
}

impl PartialEq for Tls {
    /// Whether a connection with the one may be used for a request with the other.
    fn eq(&self, other: &Tls) -> bool {
        Arc::ptr_eq(&self.config, &other.config) && self.name == other.name
    }
}

impl Eq for Tls {}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Why a TLS handshake with an origin failed. The texts are those of nginx's error log.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// Its certificate was not accepted.
    #[error("upstream SSL certificate verify error: ({}:{reason})", openssl_code(reason))]
    Certificate {
        /// OpenSSL's text for the reason.
        reason: Box<str>,
    },
    /// Its certificate is for another host.
    #[error("upstream SSL certificate does not match \"{name}\"")]
    Name {
        /// The host that it should be for.
        name: Box<str>,
    },
    /// The two sides do not agree, such as on a version.
    #[error("SSL_do_handshake() failed (SSL: {0})")]
    Handshake(Box<str>),
    /// It does not speak TLS, but perhaps HTTP. The text is OpenSSL's, so that it can be found on the web.
    #[error("SSL_do_handshake() failed (SSL: wrong version number: the answer is not TLS)")]
    Else,
    /// It closed the connection.
    #[error("peer closed connection in SSL handshake")]
    Closed,
    /// The connection broke.
    #[error("peer closed connection in SSL handshake ({})", nginx_error(.0))]
    Broken(io::Error),
}

impl Tls {
    /// Explains why a session with this origin failed.
    pub(crate) fn blame(&self, error: SessionError) -> TlsError {
        match error {
            SessionError::Certificate(reason) if reason.starts_with("certificate does not match") => {
                TlsError::Name { name: self.name.as_ref().into() }
            }
            SessionError::Certificate(reason) => TlsError::Certificate { reason },
            error @ (SessionError::Alert(_)
            | SessionError::Refused(_)
            | SessionError::Handshake(_)
            | SessionError::NoProtocol(_)
            | SessionError::NoCipher(_)
            | SessionError::KeysExhausted
            | SessionError::Closed
            | SessionError::Internal(_)) => TlsError::Handshake(error.to_string().into()),
        }
    }
}

/// The number of a reason, as in `X509_V_ERR_*`. Without such a number it is 1, OpenSSL's "unspecified".
fn openssl_code(reason: &str) -> u32 {
    const CODES: [(&str, u32); 18] = [
        ("unable to get issuer certificate", 2),
        ("unable to get certificate CRL", 3),
        ("certificate signature failure", 7),
        ("CRL signature failure", 8),
        ("certificate is not yet valid", 9),
        ("certificate has expired", 10),
        ("CRL has expired", 12),
        ("self-signed certificate", 18),
        ("self-signed certificate in certificate chain", 19),
        ("unable to get local issuer certificate", 20),
        ("unable to verify the first certificate", 21),
        ("certificate chain too long", 22),
        ("certificate revoked", 23),
        ("invalid CA certificate", 24),
        ("path length constraint exceeded", 25),
        ("unsuitable certificate purpose", 26),
        ("certificate rejected", 28),
        ("unhandled critical extension", 34),
    ];
    CODES.iter().find(|(known, _)| *known == reason).map_or(1, |(_, code)| *code)
}

/// The TLS session on a connection, with its buffers.
pub(crate) struct Link {
    session: ClientSession,
    /// Received records; the last may be incomplete.
    incoming: Vec<u8>,
    /// Decrypted bytes, of which `taken` were read.
    plain: Vec<u8>,
    taken: usize,
    /// Whether the origin sends nothing more.
    ended: bool,
}

/// Room for a read: the largest record, 2^14 bytes, what encryption adds, and its head (RFC 8446 §5.2, RFC 5246 §6.2.3).
const READ_BYTES: usize = 5 + (1 << 14) + 2048;

impl Link {
    pub(crate) fn new(tls: &Tls) -> Link {
        let session = ClientSession::connect(&tls.config, &tls.name);
        Link { session, incoming: Vec::new(), plain: Vec::new(), taken: 0, ended: false }
    }

    /// Processes the records that have arrived. True if the handshake is over. Appends what is to be sent to `records`,
    /// alerts included.
    pub(crate) fn advance(&mut self, records: &mut Vec<u8>) -> Result<bool, SessionError> {
        let read = self.session.read(&mut self.incoming, &mut self.plain, records)?;
        self.incoming.drain(..read.consumed);
        match read.state {
            State::Handshaking => Ok(false),
            State::Open => Ok(true),
            State::Closed => {
                self.ended = true;
                Ok(!self.session.is_handshaking())
            }
        }
    }

    /// Whether the first bytes that arrived may be a record (RFC 8446 §5.1).
    pub(crate) fn may_be_tls(&self) -> bool {
        self.incoming.first().is_none_or(|kind| (20..=23).contains(kind))
    }

    /// Reads records from the socket; 0 bytes means the end.
    pub(crate) fn poll_fill(&mut self, cx: &mut Context<'_>, socket: &mut Socket) -> Poll<io::Result<usize>> {
        self.incoming.reserve(READ_BYTES);
        let read = socket.poll_read_into(cx, &mut self.incoming);
        if read.is_pending() && self.incoming.is_empty() {
            // It may take long until something arrives: hold no buffer meanwhile.
            self.incoming = Vec::new();
        }
        read
    }

    /// Reads the records that have arrived, if any.
    pub(crate) fn fill_now(&mut self, socket: &Socket) {
        let held = self.incoming.len();
        self.incoming.resize(held + READ_BYTES, 0);
        let count = match socket.read_now(&mut self.incoming[held..]) {
            Came::Bytes(count) => count,
            Came::Nothing | Came::End => 0,
        };
        self.incoming.truncate(held + count);
    }

    /// Encrypts `pieces` and appends them to `records`.
    pub(crate) fn write(&mut self, pieces: &[IoSlice<'_>], records: &mut Vec<u8>) -> Result<(), SessionError> {
        self.session.write(pieces, records)
    }

    /// Says that nothing more will be written.
    pub(crate) fn close(&mut self, records: &mut Vec<u8>) {
        self.session.close(records);
    }

    /// The plaintext that was not yet read.
    pub(crate) fn plain(&self) -> &[u8] {
        &self.plain[self.taken..]
    }

    /// Marks `count` bytes of the plaintext as read.
    pub(crate) fn consume(&mut self, count: usize) {
        self.taken += count;
        debug_assert!(self.taken <= self.plain.len());
        if self.taken == self.plain.len() {
            self.plain.clear();
            self.taken = 0;
        }
    }

    /// The socket was closed. Many origins send no `close_notify` before, and as in nginx that is fine; but an
    /// incomplete record means that something is missing.
    pub(crate) fn end(&mut self) -> io::Result<()> {
        self.ended = true;
        if self.incoming.is_empty() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// Whether the origin sends nothing more.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended
    }

    /// Whether everything that arrived was read, and the session is open.
    pub(crate) fn is_idle(&self) -> bool {
        self.plain.is_empty() && !self.ended
    }

    /// Frees buffers that are not used now.
    pub(crate) fn shrink(&mut self) {
        self.incoming.shrink_to_fit();
        self.plain.shrink_to_fit();
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("session", &self.session).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_certificate_is_told_in_the_words_of_nginx() {
        for (reason, told) in [
            ("unable to get local issuer certificate", "20:unable to get local issuer certificate"),
            ("unable to verify the first certificate", "21:unable to verify the first certificate"),
            ("certificate has expired", "10:certificate has expired"),
            ("what nobody knows", "1:what nobody knows"),
        ] {
            let error = TlsError::Certificate { reason: reason.into() };
            assert_eq!(error.to_string(), format!("upstream SSL certificate verify error: ({told})"));
        }
    }
}
