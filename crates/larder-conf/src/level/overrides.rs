//! What `ssl_conf_command` says in place of directives.

use crate::cx::Cx;
use crate::model::{At, PemSource, Tls, TlsProtocols};
use crate::tree::Word;

/// What commands say in place of directives. They hold however far out they stand: OpenSSL is told them last.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// `Options SessionTicket`.
    session_tickets: Option<bool>,
    /// `Options ServerPreference`.
    prefer_server_ciphers: Option<bool>,
    /// `CipherString`.
    ciphers: Option<At<String>>,
    /// `Groups`, or `Curves`.
    curves: Option<At<String>>,
    /// `MinProtocol`: whether TLS 1.2 is left out.
    without_tls1_2: bool,
    /// `MaxProtocol`: whether TLS 1.3 is left out.
    without_tls1_3: bool,
    /// `Certificate`.
    certificate: Option<PemSource>,
    /// `PrivateKey`.
    key: Option<PemSource>,
}

impl Overrides {
    /// Puts a certificate, or a key, in the place of the first one.
    pub fn apply_pair(&self, certificates: &mut [PemSource], keys: &mut [PemSource]) {
        if let (Some(own), Some(first)) = (&self.certificate, certificates.first_mut()) {
            *first = own.clone();
        }
        if let (Some(own), Some(first)) = (&self.key, keys.first_mut()) {
            *first = own.clone();
        }
    }

    /// Puts the rest in the place of what directives said.
    pub fn apply(&self, tls: &mut Tls) {
        tls.session_tickets = self.session_tickets.unwrap_or(tls.session_tickets);
        tls.prefer_server_ciphers = self.prefer_server_ciphers.unwrap_or(tls.prefer_server_ciphers);
        if self.ciphers.is_some() {
            tls.ciphers.clone_from(&self.ciphers);
        }
        if self.curves.is_some() {
            tls.curves.clone_from(&self.curves);
        }
        let TlsProtocols { tls1_2, tls1_3 } = tls.protocols;
        tls.protocols = TlsProtocols { tls1_2: tls1_2 && !self.without_tls1_2, tls1_3: tls1_3 && !self.without_tls1_3 };
    }

    /// Takes a command that has a directive of its own; false when it is none of those.
    pub fn take(&mut self, command: &str, value: &Word, cx: &Cx<'_>) -> bool {
        let text = || Some(At { value: value.text.clone(), span: value.span });
        let file = || {
            let path = cx.conf_path(&value.text);
            Some(PemSource::File(At { value: path, span: value.span }))
        };
        match (command.to_ascii_lowercase().as_str(), value.text.as_str()) {
            ("minprotocol", "TLSv1.3") => self.without_tls1_2 = true,
            ("maxprotocol", "TLSv1.2") => self.without_tls1_3 = true,
            ("cipherstring", list) if !list.is_empty() && !list.contains('@') => self.ciphers = text(),
            ("groups" | "curves", list) if !list.is_empty() => self.curves = text(),
            ("certificate", path) if !path.is_empty() => self.certificate = file(),
            ("privatekey", path) if !path.is_empty() => self.key = file(),
            _ => return false,
        }
        true
    }

    /// Takes a switch of `Options`; false when it is none with a directive of its own.
    pub fn switch(&mut self, name: &str, on: bool) -> bool {
        match name.to_ascii_lowercase().as_str() {
            "sessionticket" => self.session_tickets = Some(on),
            "serverpreference" => self.prefer_server_ciphers = Some(on),
            _ => return false,
        }
        true
    }
}
