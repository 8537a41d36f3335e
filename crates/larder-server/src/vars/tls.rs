//! `$ssl_*`: what TLS knows about a client, in the words of ngx_http_ssl_module.

use larder_tls::CertificateFacts;

use crate::clock;
use crate::exchange::{Client, Secured, Tls};
use crate::variable::TlsVar;

use super::append::{append_display, append_some, append_text};

/// Appends the value; false when there is none, as for a client without TLS.
pub fn append(var: TlsVar, client: &Client, out: &mut Vec<u8>) -> bool {
    let Secured::Tls(tls) = &client.secured else { return false };
    let session = tls.session.borrow();
    match var {
        TlsVar::AlpnProtocol => append_some(session.alpn(), out),
        TlsVar::Cipher => append_text(session.cipher(), out),
        TlsVar::Ciphers => append_text(&session.hello().cipher_names(), out),
        TlsVar::Curve => append_text(session.curve(), out),
        TlsVar::Curves => append_text(&session.hello().group_names(), out),
        TlsVar::EarlyData => session.is_early() && append_text("1", out),
        TlsVar::Protocol => append_text(session.protocol(), out),
        TlsVar::ServerName => append_some(session.server_name().map(str::as_bytes), out),
        TlsVar::SessionId => append_text(&session.session_id(), out),
        TlsVar::SessionReused => append_text(if session.is_resumed() { "r" } else { "." }, out),
        TlsVar::ClientVerify => append_display(session.client_verdict(), out),
        TlsVar::ClientCert
        | TlsVar::ClientRawCert
        | TlsVar::ClientEscapedCert
        | TlsVar::ClientFingerprint
        | TlsVar::ClientIssuer
        | TlsVar::ClientIssuerLegacy
        | TlsVar::ClientSubject
        | TlsVar::ClientSubjectLegacy
        | TlsVar::ClientSerial
        | TlsVar::ClientStart
        | TlsVar::ClientEnd
        | TlsVar::ClientRemain => certificate(var, tls, out),
    }
}

/// Appends a part of the client's own certificate.
fn certificate(var: TlsVar, tls: &Tls, out: &mut Vec<u8>) -> bool {
    let session = tls.session.borrow();
    let Some(der) = session.client_certificates().first() else { return false };
    let text = match var {
        TlsVar::ClientCert => larder_tls::pem_indented(der),
        TlsVar::ClientRawCert => larder_tls::pem(der),
        TlsVar::ClientEscapedCert => larder_tls::pem_escaped(der),
        TlsVar::ClientFingerprint => larder_tls::fingerprint(der),
        _ => {
            let Ok(facts) = CertificateFacts::read(der) else { return false };
            match var {
                TlsVar::ClientIssuer => facts.issuer,
                TlsVar::ClientIssuerLegacy => facts.issuer_legacy,
                TlsVar::ClientSubject => facts.subject,
                TlsVar::ClientSubjectLegacy => facts.subject_legacy,
                TlsVar::ClientSerial => facts.serial,
                TlsVar::ClientStart => facts.start,
                TlsVar::ClientEnd => facts.end,
                _ => facts.days_left(clock::now().secs()).to_string(),
            }
        }
    };
    append_text(&text, out)
}
