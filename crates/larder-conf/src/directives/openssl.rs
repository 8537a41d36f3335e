//! `ssl_conf_command` and `proxy_ssl_conf_command`: OpenSSL's own settings, few of which apply to larder.

use crate::cx::Cx;
use crate::diagnostic::{Diagnostic, Outcome};
use crate::level::Overrides;
use crate::model::At;
use crate::tree::Directive;

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
