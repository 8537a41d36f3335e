//! The server's end of a TLS connection.

use crate::alert;
use crate::config::ServerConfig;
use crate::error::SessionError;
use crate::hello::Hello;
use crate::key::CertifiedKey;
use crate::link::{Link, Read};
use crate::ocsp::OcspQuestion;
use crate::verify::ClientVerdict;
use rustls::server::UnbufferedServerConnection;
use std::io::IoSlice;
use std::sync::Arc;

/// The server's end of a TLS connection: bytes in, bytes out; whoever holds it owns the socket.
pub struct Session {
    link: Link<UnbufferedServerConnection>,
    config: Arc<ServerConfig>,
    hello: Box<Hello>,
    verdict: ClientVerdict,
    /// Whether somebody else than the chain has refused the client.
    is_refused: bool,
}

impl Session {
    /// A session with the client that sent `hello`. Its bytes still go to [`Session::read`].
    pub fn accept(config: &Arc<ServerConfig>, hello: Hello) -> Self {
        Self::new(config, hello, config.rustls.clone())
    }

    /// The same with a certificate for this connection only: one whose name comes from a variable.
    pub fn accept_with(config: &Arc<ServerConfig>, hello: Hello, key: &CertifiedKey) -> Self {
        Self::new(config, hello, config.with_certificate(key))
    }

    /// A session that validates the host by tls-alpn-01 and then has nothing to say.
    pub fn accept_acme(config: &Arc<ServerConfig>, hello: Hello, key: &CertifiedKey) -> Self {
        Self::new(config, hello, config.for_acme(key))
    }

    fn new(config: &Arc<ServerConfig>, hello: Hello, rustls: Arc<rustls::ServerConfig>) -> Self {
        Self {
            link: Link::new(UnbufferedServerConnection::new(rustls), config.record_bytes_max),
            config: config.clone(),
            hello: Box::new(hello),
            verdict: ClientVerdict::None,
            is_refused: false,
        }
    }

    /// Works on the records in `incoming`, in place. Plaintext goes to the end of `plain`, what must be sent to the end of `out`.
    ///
    /// The bytes that are not used must come again, as they are now, with more behind them. With early data plaintext
    /// comes before the handshake is over. After an error `out` holds the alert to send, and the session is over.
    pub fn read(&mut self, incoming: &mut [u8], plain: &mut Vec<u8>, out: &mut Vec<u8>) -> Result<Read, SessionError> {
        let was_handshaking = self.link.is_handshaking();
        if was_handshaking && self.hello.is_outdated() {
            out.extend_from_slice(&alert::plain(alert::PROTOCOL_VERSION));
            self.link.end();
            return Err(SessionError::NoProtocol("unsupported protocol: the client speaks no TLS from 1.2 on".into()));
        }
        let read = self.link.read(incoming, plain, out);
        // Early data is answered before the handshake is over.
        if was_handshaking && (!self.link.is_handshaking() || self.link.facts().early_data) {
            self.judge();
        }
        read
    }

    /// Encrypts `slices`, gathered into records, to the end of `out`.
    ///
    /// During the handshake the plaintext waits inside until it may leave; with early data it may at once.
    pub fn write(&mut self, slices: &[IoSlice<'_>], out: &mut Vec<u8>) -> Result<(), SessionError> {
        self.link.write(slices, out)
    }

    /// Says that no more data follows. Reading goes on.
    pub fn close(&mut self, out: &mut Vec<u8>) {
        self.link.close(out);
    }

    /// The handshake is over: what is the client's certificate worth?
    fn judge(&mut self) {
        if self.is_refused {
            // With early data it is asked more than once, and who has been refused stays so.
            return;
        }
        if let Some(authorities) = &self.config.authorities {
            self.verdict = authorities.judge_client(&self.link.facts().peer_certificates, &self.config.clock);
        }
    }

    /// Plaintext that was written and waits for the handshake to go on: more of the client's records have to be read.
    pub fn queued_bytes(&self) -> usize {
        self.link.queued_bytes()
    }

    /// Whether the handshake goes on.
    pub fn is_handshaking(&self) -> bool {
        self.link.is_handshaking()
    }

    /// `$ssl_protocol`: `TLSv1.3`. Empty before the handshake is over, as what follows.
    pub fn protocol(&self) -> &'static str {
        self.link.facts().protocol()
    }

    /// `$ssl_cipher`, in OpenSSL's names.
    pub fn cipher(&self) -> &'static str {
        self.link.facts().cipher()
    }

    /// `$ssl_curve`.
    pub fn curve(&self) -> &'static str {
        self.link.facts().group()
    }

    /// What the client offered: `$ssl_ciphers`, `$ssl_curves`, `$ssl_server_name`.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// `$ssl_server_name`.
    pub fn server_name(&self) -> Option<&str> {
        self.hello.server_name.as_deref()
    }

    /// `$ssl_alpn_protocol`.
    pub fn alpn(&self) -> Option<&[u8]> {
        self.link.facts().alpn()
    }

    /// `$ssl_session_reused`: `r` or `.`.
    pub fn is_resumed(&self) -> bool {
        self.link.facts().is_resumed
    }

    /// `$ssl_session_id`, hexadecimal. In TLS 1.3 only a session that goes on has one: a digest of its ticket.
    pub fn session_id(&self) -> String {
        match self.hello.session {
            Some(session) if self.is_resumed() && self.protocol() == "TLSv1.3" => crate::facts::hexadecimal(&session),
            _ => self.link.facts().session_id(),
        }
    }

    /// `$ssl_early_data`: what was read so far may be a replay, for the handshake is not over.
    pub fn is_early(&self) -> bool {
        self.link.is_handshaking() && self.link.facts().early_data
    }

    /// Whether any data came before the handshake was over.
    pub fn had_early_data(&self) -> bool {
        self.link.facts().early_data
    }

    /// The client's certificates, its own first, DER.
    pub fn client_certificates(&self) -> &[Box<[u8]>] {
        &self.link.facts().peer_certificates
    }

    /// `$ssl_client_verify`. What to do about it, [`crate::VerifyMode::refuses`] says.
    pub fn client_verdict(&self) -> ClientVerdict {
        self.verdict
    }

    /// What is to be asked about the client's certificate, if it is good so far: each question with the certificate it
    /// is about.
    pub fn ocsp_questions(&self, leaf_only: bool) -> Vec<(OcspQuestion, Vec<u8>)> {
        match (&self.config.authorities, self.verdict) {
            (Some(authorities), ClientVerdict::Success) => {
                crate::ocsp::questions(&self.link.facts().peer_certificates, authorities.trusted(), leaf_only)
            }
            _ => Vec::new(),
        }
    }

    /// The client's certificate is worth nothing after all, for this reason.
    pub fn refuse_client(&mut self, reason: &'static str) {
        self.verdict = ClientVerdict::Failed(reason);
        self.is_refused = true;
    }

    /// The configuration it was accepted with.
    pub fn config(&self) -> &Arc<ServerConfig> {
        &self.config
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Session")
            .field("server_name", &self.hello.server_name)
            .field("protocol", &self.protocol())
            .field("cipher", &self.cipher())
            .finish_non_exhaustive()
    }
}
