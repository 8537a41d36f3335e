//! Certificates that larder gets by itself (ACME, RFC 8555).

use std::path::PathBuf;

use super::{At, Secret};
use crate::span::Span;

/// `larder_acme_account`.
#[derive(Clone, Debug)]
pub struct AcmeAccount {
    /// `email=`, maybe several; without `mailto:`.
    pub emails: Vec<String>,
    /// `directory=`: the URL of the authority; Let's Encrypt's unless told.
    pub directory: At<String>,
    /// `key_type=`: what keys of certificates are made; `ecdsa` (P-256) unless told.
    pub key_type: AcmeKeyType,
    /// `state=`: the folder where account, keys and certificates are kept.
    pub state: At<PathBuf>,
    /// `trusted_certificate=`: PEM of who may have signed the authority's own certificate; the system's unless told.
    pub trusted_certificate: Option<At<PathBuf>>,
    /// `eab_kid=` and `eab_key=`: external account binding.
    pub eab: Option<AcmeEab>,
    /// `profile=`: which kind of certificate is asked for.
    pub profile: Option<At<String>>,
    /// Where it was written.
    pub span: Span,
}

/// External account binding (RFC 8555 §7.3.4).
#[derive(Clone, Debug)]
pub struct AcmeEab {
    /// `eab_kid=`: the name of the key.
    pub kid: String,
    /// `eab_key=`: the key, in base64url, its letters checked.
    pub key: Secret,
}

/// `key_type=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcmeKeyType {
    /// `ecdsa`, `ecdsa:256`.
    EcdsaP256,
    /// `ecdsa:384`.
    EcdsaP384,
    /// `rsa`, `rsa:2048`.
    Rsa2048,
    /// `rsa:3072`.
    Rsa3072,
    /// `rsa:4096`.
    Rsa4096,
}

/// `larder_acme` in a server that speaks TLS and has no certificate of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeOrder {
    /// The names of the server, which one certificate is for; at least one, none twice.
    pub names: Vec<At<String>>,
    /// How the authority is shown that the names are ours.
    pub challenge: AcmeChallenge,
    /// Where it was written.
    pub span: Span,
}

/// The argument of `larder_acme`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcmeChallenge {
    /// `on`: whichever works.
    Either,
    /// `http-01`: over plain HTTP, port 80.
    Http01,
    /// `tls-alpn-01`: in a handshake, port 443.
    TlsAlpn01,
}
