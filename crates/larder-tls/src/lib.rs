//! TLS for larder: what rustls knows, under nginx's names.
//!
//! Bytes in, bytes out: no socket, no HTTP, no configuration model. [`Hello::read`] reads what a
//! client asks for, so that the right [`ServerConfig`] can be chosen; a [`Session`] then turns records
//! into plaintext and back in buffers that are lent to it. [`ClientSession`] is the other end, for
//! connections to origins. No type of rustls leaves this crate.

#![forbid(unsafe_code)]

mod alert;
mod cache;
mod certificate;
mod choices;
mod ciphers;
mod client;
mod clock;
mod config;
mod error;
mod facts;
mod hello;
mod key;
mod link;
mod names;
mod ocsp;
mod record;
mod session;
mod tickets;
mod verify;

pub use alert::{internal_error_alert, unrecognized_name_alert};
pub use cache::SessionCache;
pub use certificate::{
    CertificateError, CertificateFacts, base64_escaped, fingerprint, pem, pem_escaped, pem_indented,
};
pub use choices::Protocol;
pub use client::{ClientConfig, ClientOptions, ClientSession};
pub use clock::Clock;
pub use config::{ACME_TLS, ServerConfig, ServerOptions};
pub use error::{Notice, SessionError, TlsError};
pub use hello::{Hello, HelloError};
pub use key::{CertifiedKey, KeyError, pem_certificates, pem_revocation_lists};
pub use link::{Read, State};
pub use ocsp::{OcspError, OcspQuestion, ocsp_responder};
pub use session::Session;
pub use tickets::{SharedKeys, TICKET_SECRET_BYTES, TicketKeyError, TicketKeys, TicketSecret};
pub use verify::{ClientVerdict, Refusal, Verify, VerifyMode};
