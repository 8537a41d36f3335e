//! Counts a handshake, whatever it comes to.

use std::cell::Cell;
use std::io;

use larder_tls::{ClientVerdict, Refusal, Session, SessionError};

use crate::context::Cx;
use crate::counts::TlsTraffic;
use crate::site::VirtualServer;
use crate::stats::Counter;

/// A handshake with a server, which counts as one that took too long if this is dropped before it is over.
pub struct Shake<'a> {
    server: &'a VirtualServer,
    cx: &'a Cx,
    is_over: bool,
    /// What is known of a failure.
    failure: Cell<Option<Failure>>,
}

#[derive(Clone, Copy)]
enum Failure {
    NoProtocol,
    NoCipher,
    CertificateRefused,
}

impl<'a> Shake<'a> {
    /// One that begins.
    pub fn begin(server: &'a VirtualServer, cx: &'a Cx) -> Self {
        Self { server, cx, is_over: false, failure: Cell::new(None) }
    }

    /// Notes why it fails.
    pub fn fails(&self, error: &io::Error) {
        let error = error.get_ref().and_then(|error| error.downcast_ref::<SessionError>());
        self.failure.set(match error {
            Some(SessionError::NoProtocol(_)) => Some(Failure::NoProtocol),
            Some(SessionError::NoCipher(_)) => Some(Failure::NoCipher),
            Some(error) if error.is_about_our_certificate() => Some(Failure::CertificateRefused),
            _ => None,
        });
    }

    /// It has led to this session, or to none.
    pub fn over(mut self, session: Option<&Session>) {
        self.is_over = true;
        let Some(session) = session else {
            self.count(|tls| &tls.failed);
            match self.failure.get() {
                Some(Failure::NoProtocol) => self.count(|tls| &tls.no_protocol),
                Some(Failure::NoCipher) => self.count(|tls| &tls.no_cipher),
                Some(Failure::CertificateRefused) => self.count(|tls| &tls.certificate_refused),
                None => {}
            }
            return;
        };
        self.count(|tls| &tls.done);
        if session.is_resumed() {
            self.count(|tls| &tls.resumed);
        }
        let verdict = session.client_verdict();
        match self.server.verify.refuses(verdict) {
            None => {}
            Some(Refusal::NoCertificate) => self.count(|tls| &tls.without_certificate),
            Some(Refusal::BadCertificate) => self.count(|tls| counter_of(tls, verdict)),
        }
    }

    fn count(&self, counter: impl Fn(&TlsTraffic) -> &Counter) {
        let counts = &self.cx.local.counts;
        counter(&counts.tls).add(1);
        if let Some(zone) = self.server.zone {
            counter(&counts.servers[zone].tls).add(1);
        }
    }
}

impl Drop for Shake<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.count(|tls| &tls.failed);
            self.count(|tls| &tls.timed_out);
        }
    }
}

/// What counts certificates of clients that are refused so, by OpenSSL's numbers.
fn counter_of(tls: &TlsTraffic, verdict: ClientVerdict) -> &Counter {
    match verdict.code() {
        9 | 10 => &tls.expired_certificates,
        23 => &tls.revoked_certificates,
        _ => &tls.bad_certificates,
    }
}
