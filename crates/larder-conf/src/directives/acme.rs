//! `larder_acme_account` and `larder_acme`: certificates that larder orders itself.

use super::{Action, Args, DirectiveInfo, HS, HTTP, ONE, directive, http, tls};
use crate::cx::Cx;
use crate::diagnostic::{Diagnostic, Outcome};
use crate::level::{HttpParts, Level};
use crate::model::{AcmeAccount, AcmeChallenge, AcmeEab, AcmeKeyType, At, Secret};
use crate::tree::{Directive, Word};

pub const TABLE: &[DirectiveInfo] = &[
    directive("larder_acme_account", HTTP, Args::AtLeast(0), Action::Http(account)),
    directive("larder_acme", HS, ONE, Action::Level(acme)),
];

const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";
const STATE: &str = "/var/lib/larder/acme";
const PARAMETERS: &[&str] =
    &["email", "directory", "key_type", "state", "trusted_certificate", "eab_kid", "eab_key", "profile"];

fn account(http: &mut HttpParts, cx: &mut Cx<'_>, d: &Directive) -> Outcome {
    let mut account = AcmeAccount {
        emails: Vec::new(),
        directory: At { value: LETS_ENCRYPT.to_owned(), span: d.span() },
        key_type: AcmeKeyType::EcdsaP256,
        state: At { value: STATE.into(), span: d.span() },
        trusted_certificate: None,
        eab: None,
        profile: None,
        span: d.span(),
    };
    let (mut kid, mut key) = (None, None);
    for word in &d.args {
        let Some((name, value)) = word.text.split_once('=') else {
            return Err(d.unknown_parameter(word, PARAMETERS));
        };
        if value.is_empty() && PARAMETERS.contains(&name) {
            return Err(d.invalid_parameter_value(word, "something"));
        }
        let here = |value: &str| At { value: value.to_owned(), span: word.span };
        match name {
            "email" => account.emails.push(email(d, word, value)?),
            "directory" => account.directory = here(directory(d, word, value)?),
            "key_type" => account.key_type = key_type(d, word, value)?,
            "state" => account.state = At { value: cx.path(value), span: word.span },
            "trusted_certificate" => {
                account.trusted_certificate = Some(At { value: cx.conf_path(value), span: word.span });
            }
            "eab_kid" => kid = Some(here(value)),
            "eab_key" => key = Some(eab_key(d, word, value)?),
            "profile" => account.profile = Some(here(value)),
            _ => return Err(d.unknown_parameter(word, PARAMETERS)),
        }
    }
    account.eab = match (kid, key) {
        (Some(kid), Some(key)) => Some(AcmeEab { kid: kid.value, key }),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => {
            return Err(Diagnostic::error("\"eab_kid\" and \"eab_key\" belong together")
                .at(d.span())
                .help("the authority hands out both for its external accounts"));
        }
    };
    http.acme = Some(account);
    Ok(())
}

fn email(d: &Directive, word: &Word, value: &str) -> Outcome<String> {
    let address = value.strip_prefix("mailto:").unwrap_or(value);
    let is_address = address.split_once('@').is_some_and(|(user, host)| !user.is_empty() && !host.is_empty())
        && !address.contains([',', ' ', '?']);
    match is_address {
        true => Ok(address.to_owned()),
        false => Err(d.invalid_parameter_value(word, "one address such as admin@example.org")),
    }
}

fn directory<'v>(d: &Directive, word: &Word, value: &'v str) -> Outcome<&'v str> {
    let host = value.strip_prefix("https://").unwrap_or_default();
    match host.is_empty() {
        false => Ok(value),
        true => Err(d.invalid_parameter_value(word, "the https:// URL of an ACME directory")),
    }
}

fn key_type(d: &Directive, word: &Word, value: &str) -> Outcome<AcmeKeyType> {
    Ok(match value {
        "ecdsa" | "ecdsa:256" => AcmeKeyType::EcdsaP256,
        "ecdsa:384" => AcmeKeyType::EcdsaP384,
        "rsa" | "rsa:2048" => AcmeKeyType::Rsa2048,
        "rsa:3072" => AcmeKeyType::Rsa3072,
        "rsa:4096" => AcmeKeyType::Rsa4096,
        _ => {
            let expected = "ecdsa, ecdsa:256, ecdsa:384, rsa, rsa:2048, rsa:3072 or rsa:4096";
            return Err(d.invalid_parameter_value(word, expected));
        }
    })
}

fn eab_key(d: &Directive, word: &Word, value: &str) -> Outcome<Secret> {
    let is_letter = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'+' | b'/' | b'=');
    match value.bytes().all(is_letter) {
        true => Ok(Secret(value.to_owned())),
        // The word is not repeated in the message: it is a secret.
        false => Err(Diagnostic::error(format!("invalid \"eab_key\" in \"{}\" directive", d.name.text))
            .at(word.span)
            .label("it must be base64url, as the authority hands it out")),
    }
}

fn acme(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let choices = [
        ("off", None),
        ("on", Some(AcmeChallenge::Either)),
        ("http-01", Some(AcmeChallenge::Http01)),
        ("tls-alpn-01", Some(AcmeChallenge::TlsAlpn01)),
    ];
    let Some(challenge) = http::choose(d, &choices)? else {
        level.tls().acme = None;
        return Ok(());
    };
    if let Some(certificate) = level.place("ssl_certificate") {
        return Err(tls::not_both(d.span()).related(certificate, "it is here"));
    }
    let tls = level.tls();
    // What is inherited is further away than what is ordered here.
    tls.certificates.clear();
    tls.acme = Some(At { value: challenge, span: d.span() });
    Ok(())
}
