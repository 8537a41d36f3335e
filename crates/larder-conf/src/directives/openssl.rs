//! `ssl_conf_command` and `proxy_ssl_conf_command`: OpenSSL's own configuration, of which little means anything here.

use crate::cx::Cx;
use crate::diagnostic::{Diagnostic, Outcome};
use crate::model::{At, PemSource, Tls, TlsProtocols};
use crate::tree::{Directive, Word};

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
    fn take(&mut self, command: &str, value: &Word, cx: &Cx<'_>) -> bool {
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
    fn switch(&mut self, name: &str, on: bool) -> bool {
        match name.to_ascii_lowercase().as_str() {
            "sessionticket" => self.session_tickets = Some(on),
            "serverpreference" => self.prefer_server_ciphers = Some(on),
            _ => return false,
        }
        true
    }
}

/// `ssl_conf_command NAME VALUE`: OpenSSL's own configuration. `overrides` is where clients are meant, not origins.
pub fn conf_command(
    is_first: bool,
    suites: &mut Option<At<String>>,
    mut overrides: Option<&mut Overrides>,
    cx: &mut Cx<'_>,
    d: &Directive,
) -> Outcome {
    if is_first {
        *suites = None;
        if let Some(overrides) = &mut overrides {
            **overrides = Overrides::default();
        }
    }
    let (command, value) = (d.arg(0), d.arg(1));
    let is = |name: &str| command.text.eq_ignore_ascii_case(name);
    if is("Ciphersuites") {
        if value.text.is_empty() {
            return Err(d.invalid(value, "a list of names separated by \":\""));
        }
        *suites = Some(At { value: value.text.clone(), span: value.span });
        return Ok(());
    }
    // No version before TLSv1.2 is spoken anyway, and none after TLSv1.3.
    let is_so_anyway = (is("MinProtocol") && ["TLSv1", "TLSv1.1", "TLSv1.2"].contains(&value.text.as_str()))
        || (is("MaxProtocol") && value.text == "TLSv1.3");
    if is_so_anyway || HARMLESS_COMMANDS.iter().any(|name| is(name)) {
        cx.note_no_effect(&format!("{} {}", d.name.text, command.text), d.span(), "it changes nothing here");
        return Ok(());
    }
    if is("Options") {
        let mut options = value.text.split(',');
        return options.try_for_each(|option| conf_option(option.trim(), overrides.as_deref_mut(), cx, d));
    }
    if overrides.is_some_and(|overrides| overrides.take(&command.text, value, cx)) {
        return Ok(());
    }
    let advice = match command.text.to_ascii_lowercase().as_str() {
        "cipherstring" => "use \"ssl_ciphers\" or \"proxy_ssl_ciphers\"",
        "minprotocol" | "maxprotocol" | "protocol" => {
            "use \"ssl_protocols\" or \"proxy_ssl_protocols\" with TLSv1.2 and TLSv1.3"
        }
        "curves" | "groups" => "use \"ssl_ecdh_curve\"",
        "certificate" | "privatekey" => {
            "use \"ssl_certificate\" and \"ssl_certificate_key\", or those of \"proxy_ssl_\""
        }
        "verifycafile" | "clientcafile" | "requestcafile" => "use \"ssl_client_certificate\"",
        "verifymode" => "use \"ssl_verify_client\" or \"proxy_ssl_verify\"",
        _ => "remove it",
    };
    Err(unknown_command(&command.text, d).help(advice))
}

fn conf_option(option: &str, overrides: Option<&mut Overrides>, cx: &mut Cx<'_>, d: &Directive) -> Outcome {
    let name = option.trim_start_matches(['+', '-']);
    let is_taken_away = option.starts_with('-');
    let is = |known: &str| name.eq_ignore_ascii_case(known);
    let is_never_done = is_taken_away
        && ["ClientRenegotiation", "Compression", "UnsafeLegacyRenegotiation", "UnsafeLegacyServerConnect"]
            .into_iter()
            .any(is);
    if is_never_done || HARMLESS_OPTIONS.iter().any(|known| is(known)) {
        cx.note_no_effect(&format!("{} Options {option}", d.name.text), d.span(), "it changes nothing here");
        return Ok(());
    }
    if overrides.is_some_and(|overrides| overrides.switch(name, !is_taken_away)) {
        return Ok(());
    }
    let advice = match name.to_ascii_lowercase().as_str() {
        "sessionticket" => "use \"ssl_session_tickets\"",
        "serverpreference" => "use \"ssl_prefer_server_ciphers\"",
        _ => "remove it",
    };
    Err(unknown_command(&format!("Options {option}"), d).help(advice))
}

fn unknown_command(command: &str, d: &Directive) -> Box<Diagnostic> {
    Diagnostic::error(format!("\"{} {command}\" is not available in this version of larder", d.name.text))
        .at(d.span())
        .label("it configures OpenSSL, which larder does not use")
}

/// Switches of OpenSSL that change nothing here: what they switch is never done, or always done, or the
/// library's own business.
const HARMLESS_OPTIONS: &[&str] = &[
    "AllowNoDHEKEX",
    "AntiReplay",
    "Bugs",
    "CANames",
    "DHSingle",
    "ECDHSingle",
    "EmptyFragments",
    "EncryptThenMac",
    "ExtendedMasterSecret",
    "IgnoreUnexpectedEOF",
    "KTLS",
    "KTLSTxZerocopySendfile",
    "MiddleboxCompat",
    "NoRenegotiation",
    "NoResumptionOnRenegotiation",
    "PreferNoDHEKEX",
    "PrioritizeChaCha",
    "RxCertificateCompression",
    "StrictCertCheck",
    "TxCertificateCompression",
];

/// Commands that change nothing here either.
const HARMLESS_COMMANDS: &[&str] = &["NumTickets", "RecordPadding"];
