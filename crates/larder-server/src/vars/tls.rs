//! `$ssl_*`: what TLS knows of a client, in the words of ngx_http_ssl_module.

use larder_tls::CertificateFacts;

use crate::clock;
use crate::exchange::{Client, Secured, Tls};

use super::{append_display, append_some, append_text};

macro_rules! tls {
    ($($variant:ident $name:literal),* $(,)?) => {
        /// Variables about TLS.
        #[allow(missing_docs)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum TlsVar { $($variant),* }

        impl TlsVar {
            /// Their names, for suggestions.
            pub const NAMES: &[&str] = &[$($name),*];

            /// The one of this name.
            pub fn of(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

tls! {
    AlpnProtocol "ssl_alpn_protocol", Cipher "ssl_cipher", Ciphers "ssl_ciphers", ClientCert "ssl_client_cert",
    ClientEscapedCert "ssl_client_escaped_cert", ClientFingerprint "ssl_client_fingerprint",
    ClientIssuer "ssl_client_i_dn", ClientIssuerLegacy "ssl_client_i_dn_legacy",
    ClientRawCert "ssl_client_raw_cert", ClientSubject "ssl_client_s_dn",
    ClientSubjectLegacy "ssl_client_s_dn_legacy", ClientSerial "ssl_client_serial", ClientEnd "ssl_client_v_end",
    ClientRemain "ssl_client_v_remain", ClientStart "ssl_client_v_start", ClientVerify "ssl_client_verify",
    Curve "ssl_curve", Curves "ssl_curves", EarlyData "ssl_early_data", Protocol "ssl_protocol",
    ServerName "ssl_server_name", SessionId "ssl_session_id", SessionReused "ssl_session_reused",
}

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

/// What the client's own certificate says.
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
