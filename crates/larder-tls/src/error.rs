//! Why a TLS session or a configuration cannot be.

use rustls::PeerIncompatible;

/// Why a TLS session ended before its time. The alert that says so to the peer is already in `out`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The peer ended it, for its own reasons.
    #[error("the peer sent the alert \"{0}\"")]
    Alert(&'static str),
    /// The peer broke the rules of an open connection; we answered with this alert.
    #[error("the peer sent a record we answer with the alert \"{0}\"")]
    Refused(&'static str),
    /// The handshake failed.
    #[error("{0}")]
    Handshake(Box<str>),
    /// It failed as there is no version of TLS that both speak.
    #[error("{0}")]
    NoProtocol(Box<str>),
    /// It failed as there is no cipher suite that both have.
    #[error("{0}")]
    NoCipher(Box<str>),
    /// The peer showed no certificate we accept.
    #[error("{0}")]
    Certificate(Box<str>),
    /// More records than one key may protect, and the protocol has no way to change it.
    #[error("the keys of the connection are used up")]
    KeysExhausted,
    /// The session is over; nothing more can be read or written.
    #[error("the TLS session is closed")]
    Closed,
    /// What should not be possible.
    #[error("internal error: {0}")]
    Internal(&'static str),
}

impl SessionError {
    /// Whether the peer has not accepted our certificate (RFC 8446 §6.2).
    pub fn is_about_our_certificate(&self) -> bool {
        let Self::Alert(name) = self else { return false };
        matches!(
            *name,
            "bad certificate"
                | "unsupported certificate"
                | "certificate revoked"
                | "certificate expired"
                | "certificate unknown"
                | "unknown CA"
        )
    }
}

impl From<rustls::Error> for SessionError {
    fn from(error: rustls::Error) -> Self {
        match error {
            rustls::Error::AlertReceived(alert) => Self::Alert(crate::alert::name(alert.into())),
            rustls::Error::InvalidCertificate(rustls::CertificateError::Other(reason)) => {
                Self::Certificate(reason.0.to_string().into())
            }
            rustls::Error::InvalidCertificate(error) => Self::Certificate(error.to_string().into()),
            rustls::Error::PeerIncompatible(PeerIncompatible::NoCipherSuitesInCommon) => {
                Self::NoCipher(error.to_string().into())
            }
            rustls::Error::PeerIncompatible(
                PeerIncompatible::ServerDoesNotSupportTls12Or13
                | PeerIncompatible::SupportedVersionsExtensionRequired
                | PeerIncompatible::Tls12NotOffered
                | PeerIncompatible::Tls12NotOfferedOrEnabled,
            ) => Self::NoProtocol(error.to_string().into()),
            error => Self::Handshake(error.to_string().into()),
        }
    }
}

/// Why a TLS configuration cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// `ssl_ciphers` leaves no cipher suite for the protocols.
    #[error("no cipher match in \"{0}\"")]
    NoCipher(Box<str>),
    /// `ssl_ecdh_curve` leaves no group.
    #[error(
        "no curve of \"{0}\" is offered by this TLS library; known are X25519MLKEM768, X25519, prime256v1 and secp384r1"
    )]
    NoCurve(Box<str>),
    /// `ssl_protocols` leaves no version.
    #[error("no protocol of \"{0}\" is offered by this TLS library; known are TLSv1.2 and TLSv1.3")]
    NoProtocol(Box<str>),
    /// A certificate of an authority that cannot be read.
    #[error("a certificate of an authority cannot be read: {0}")]
    Authority(Box<str>),
    /// A certificate revocation list that cannot be read.
    #[error("a certificate revocation list cannot be read: {0}")]
    Revocation(Box<str>),
    /// What the library refuses for reasons of its own.
    #[error("{0}")]
    Library(Box<str>),
}

/// Something an operator should know about a configuration that works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The directive it is about, as nginx names it: `ssl_ciphers`.
    pub directive: &'static str,
    /// The fact, without the directive's name.
    pub text: String,
}

impl std::fmt::Display for Notice {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: {}", self.directive, self.text)
    }
}
