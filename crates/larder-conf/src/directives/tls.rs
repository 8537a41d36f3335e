//! `ssl_*`, and the kinds of arguments that it shares with `proxy_ssl_*`.

use std::path::PathBuf;
use std::time::Duration;

use super::{Action, Args, DirectiveInfo, HS, ONE, directive, http, openssl, repeated};
use crate::cx::Cx;
use crate::diagnostic::{Diagnostic, Outcome};
use crate::level::Level;
use crate::model::{
    AskedAbout, At, CertificateCache, PemSource, Secret, SharedSessions, TlsProtocols, TlsSessionCache, VerifyClient,
};
use crate::tree::{Directive, Word};
use crate::{template, values};

const FLAG: Args = Args::Flag;
const MANY: Args = Args::AtLeast(1);
const TWO: Args = Args::Between(2, 2);

pub const TABLE: &[DirectiveInfo] = &[
    directive("ssl", HS, FLAG, Action::Level(ssl)),
    repeated("ssl_certificate", HS, ONE, Action::Level(certificate)),
    repeated("ssl_certificate_key", HS, ONE, Action::Level(key)),
    directive(
        "ssl_certificate_cache",
        HS,
        Args::Between(1, 3),
        Action::Level(|l, _, d| http::set(&mut l.tls().tls.certificate_cache, certificate_cache(d))),
    ),
    directive(
        "ssl_certificate_compression",
        HS,
        FLAG,
        Action::Level(|_, cx, d| {
            if d.flag()? {
                cx.note_no_effect(&d.name.text, d.name.span, "certificates are sent as they are");
            }
            Ok(())
        }),
    ),
    directive(
        "ssl_password_file",
        HS,
        ONE,
        Action::Level(|l, cx, d| http::set(&mut l.tls().tls.password_file, file(cx, d).map(Some))),
    ),
    repeated("ssl_dhparam", HS, ONE, Action::Harmless("keys are agreed on over elliptic curves only")),
    directive("ssl_ecdh_curve", HS, ONE, Action::Level(curves)),
    repeated(
        "ssl_protocols",
        HS,
        MANY,
        Action::Level(|l, cx, d| {
            let before = (!l.is_first).then_some(l.tls.tls.protocols);
            http::set(&mut l.tls().tls.protocols, protocols(before, cx, d))
        }),
    ),
    directive("ssl_ciphers", HS, ONE, Action::Level(|l, _, d| http::set(&mut l.tls().tls.ciphers, text(d).map(Some)))),
    directive("ssl_buffer_size", HS, ONE, Action::Level(buffer_size)),
    directive("ssl_verify_client", HS, ONE, Action::Level(verify_client)),
    directive(
        "ssl_verify_depth",
        HS,
        ONE,
        Action::Level(|l, _, d| http::set(&mut l.tls().tls.verify_depth, d.number32(0))),
    ),
    directive(
        "ssl_client_certificate",
        HS,
        ONE,
        Action::Level(|l, cx, d| http::set(&mut l.tls().tls.client_certificate, file_or_none(cx, d))),
    ),
    directive(
        "ssl_trusted_certificate",
        HS,
        ONE,
        Action::Level(|l, cx, d| http::set(&mut l.tls().tls.trusted_certificate, file_or_none(cx, d))),
    ),
    directive("ssl_crl", HS, ONE, Action::Level(|l, cx, d| http::set(&mut l.tls().tls.crl, file_or_none(cx, d)))),
    directive(
        "ssl_prefer_server_ciphers",
        HS,
        FLAG,
        Action::Level(|l, _, d| http::set(&mut l.tls().tls.prefer_server_ciphers, d.flag())),
    ),
    repeated("ssl_session_cache", HS, Args::Between(1, 2), Action::Level(session_cache)),
    directive(
        "ssl_session_tickets",
        HS,
        FLAG,
        Action::Level(|l, _, d| http::set(&mut l.tls().tls.session_tickets, d.flag())),
    ),
    repeated(
        "ssl_session_ticket_key",
        HS,
        ONE,
        Action::Level(|l, cx, d| {
            let (is_first, key) = (l.is_first, file(cx, d)?);
            let keys = &mut l.tls().tls.session_ticket_keys;
            if is_first {
                keys.clear();
            }
            keys.push(key);
            Ok(())
        }),
    ),
    directive(
        "ssl_session_timeout",
        HS,
        ONE,
        Action::Level(|l, _, d| http::set(&mut l.tls().tls.session_timeout, d.time(0))),
    ),
    directive("ssl_stapling", HS, FLAG, Action::Level(|l, _, d| http::set(&mut l.tls().stapling, d.flag()))),
    directive(
        "ssl_stapling_file",
        HS,
        ONE,
        Action::Level(|l, cx, d| http::set(&mut l.tls().stapling_file, file_or_none(cx, d))),
    ),
    directive(
        "ssl_stapling_responder",
        HS,
        ONE,
        Action::Level(|l, _, d| {
            let word = d.arg(0);
            let url = At { value: word.text.clone(), span: word.span };
            http::set(&mut l.tls().stapling_responder, Ok((!word.text.is_empty()).then_some(url)))
        }),
    ),
    directive(
        "ssl_stapling_verify",
        HS,
        FLAG,
        Action::Level(|l, _, d| http::set(&mut l.tls().stapling_verify, d.flag())),
    ),
    directive(
        "ssl_ocsp",
        HS,
        ONE,
        Action::Level(|l, _, d| {
            let asked = http::choose(
                d,
                &[("off", None), ("on", Some(AskedAbout::Chain)), ("leaf", Some(AskedAbout::Certificate))],
            );
            http::set(&mut l.tls().ocsp, asked)
        }),
    ),
    directive("ssl_ocsp_responder", HS, ONE, Action::Level(ocsp_responder)),
    directive("ssl_ocsp_cache", HS, ONE, Action::Level(ocsp_cache)),
    directive("ssl_early_data", HS, FLAG, Action::Level(|l, _, d| http::set(&mut l.tls().tls.early_data, d.flag()))),
    repeated(
        "ssl_conf_command",
        HS,
        TWO,
        Action::Level(|l, cx, d| {
            let is_first = l.is_first;
            let level = l.tls();
            openssl::conf_command(is_first, &mut level.tls.ciphersuites, Some(&mut level.overrides), cx, d)
        }),
    ),
    directive(
        "ssl_reject_handshake",
        HS,
        FLAG,
        Action::Level(|l, _, d| http::set(&mut l.tls().tls.reject_handshake, d.flag())),
    ),
];

/// `ssl on`, which nginx 1.25 took away.
fn ssl(level: &mut Level, cx: &mut Cx<'_>, d: &Directive) -> Outcome {
    let is_on = d.flag()?;
    cx.report(
        Diagnostic::warning("the \"ssl\" directive is deprecated, use the \"listen ... ssl\" directive instead")
            .at(d.span()),
    );
    level.tls().ssl_on = is_on;
    Ok(())
}

fn certificate(level: &mut Level, cx: &mut Cx<'_>, d: &Directive) -> Outcome {
    let source = pem(cx, d)?;
    if let Some(acme) = level.place("larder_acme")
        && level.tls.acme.is_some()
    {
        return Err(not_both(d.span()).related(acme, "it is ordered here"));
    }
    let is_first = level.is_first;
    let tls = level.tls();
    if is_first {
        // A certificate of one's own is nearer than an order that is inherited.
        tls.acme = None;
        tls.certificates.clear();
    }
    tls.certificates.push(source);
    Ok(())
}

/// A level has one or the other.
pub fn not_both(span: crate::Span) -> Box<Diagnostic> {
    Diagnostic::error("\"ssl_certificate\" and \"larder_acme\" exclude each other")
        .at(span)
        .help("remove \"larder_acme\" to serve the certificate that is there, or remove \"ssl_certificate\" to get one")
}

fn key(level: &mut Level, cx: &mut Cx<'_>, d: &Directive) -> Outcome {
    let source = key_pem(cx, d)?;
    let is_first = level.is_first;
    let keys = &mut level.tls().keys;
    if is_first {
        keys.clear();
    }
    keys.push(source);
    Ok(())
}

/// The same as [`pem`], for a key.
pub fn key_pem(cx: &Cx<'_>, d: &Directive) -> Outcome<PemSource> {
    let word = d.arg(0);
    match word.text.split_once(':') {
        Some((scheme @ ("engine" | "store"), _)) => {
            Err(Diagnostic::error(format!("keys in \"{scheme}:\" are not available in this version of larder"))
                .at(word.span)
                .help("keep the key in a file that only root can read"))
        }
        _ => pem(cx, d),
    }
}

/// A file, `data:`, or either out of variables.
pub fn pem(cx: &Cx<'_>, d: &Directive) -> Outcome<PemSource> {
    let word = d.arg(0);
    let source = d.template(0)?;
    if template::as_literal(&source).is_none() {
        return Ok(PemSource::Variable(source));
    }
    match word.text.strip_prefix("data:") {
        Some(pem) => Ok(PemSource::Data(At { value: Secret(pem.to_owned()), span: word.span })),
        None => file(cx, d).map(PemSource::File),
    }
}

/// A path, joined to the folder of the configuration.
pub fn file(cx: &Cx<'_>, d: &Directive) -> Outcome<At<PathBuf>> {
    let word = d.arg(0);
    match word.text.as_str() {
        "" => Err(d.invalid(word, "the path of a file")),
        text => Ok(At { value: cx.conf_path(text), span: word.span }),
    }
}

/// The same where `""` takes back what is inherited.
pub fn file_or_none(cx: &Cx<'_>, d: &Directive) -> Outcome<Option<At<PathBuf>>> {
    match d.text(0) {
        "" => Ok(None),
        _ => file(cx, d).map(Some),
    }
}

/// One word that is not empty.
pub fn text(d: &Directive) -> Outcome<At<String>> {
    let word = d.arg(0);
    match word.text.as_str() {
        "" => Err(d.invalid(word, "a list of names separated by \":\"")),
        text => Ok(At { value: text.to_owned(), span: word.span }),
    }
}

fn curves(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    level.tls().tls.curves = match d.text(0) {
        "auto" => None,
        _ => Some(text(d)?),
    };
    Ok(())
}

/// The versions in the arguments, beside those that a directive of the same level had named.
pub fn protocols(before: Option<TlsProtocols>, cx: &mut Cx<'_>, d: &Directive) -> Outcome<TlsProtocols> {
    let mut protocols = before.unwrap_or(TlsProtocols { tls1_2: false, tls1_3: false });
    for word in &d.args {
        let place = match word.text.to_ascii_lowercase().as_str() {
            "tlsv1.3" => &mut protocols.tls1_3,
            "tlsv1.2" => &mut protocols.tls1_2,
            "sslv2" | "sslv3" | "tlsv1" | "tlsv1.1" => {
                cx.report_once(&format!("old versions in {}", d.name.text), || {
                    Diagnostic::notice(format!(
                        "versions before TLSv1.2 in \"{}\" have no effect: they are not safe, and not spoken",
                        d.name.text
                    ))
                    .at(word.span)
                });
                continue;
            }
            _ => return Err(d.invalid(word, "\"TLSv1.2\" or \"TLSv1.3\"")),
        };
        if std::mem::replace(place, true) {
            cx.report(Diagnostic::warning(format!("duplicate value \"{}\"", word.text)).at(word.span));
        }
    }
    match protocols {
        TlsProtocols { tls1_2: false, tls1_3: false } => {
            Err(Diagnostic::error(format!("no protocol of \"{}\" is spoken by larder", d.name.text))
                .at(d.span())
                .help("add TLSv1.2 and TLSv1.3"))
        }
        spoken => Ok(spoken),
    }
}

fn buffer_size(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    // A record holds no more, however large nginx's buffer is.
    const RECORD_BYTES_MAX: usize = 16384;
    level.tls().tls.buffer_bytes = match d.size(0)? {
        0 => return Err(d.invalid(d.arg(0), "a size above zero")),
        bytes => bytes.min(RECORD_BYTES_MAX),
    };
    Ok(())
}

fn verify_client(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let verify = http::choose(
        d,
        &[
            ("off", VerifyClient::Off),
            ("on", VerifyClient::On),
            ("optional", VerifyClient::Optional),
            ("optional_no_ca", VerifyClient::OptionalNoCa),
        ],
    );
    http::set(&mut level.tls().tls.verify_client, verify)
}

fn ocsp_responder(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let word = d.arg(0);
    if !word.text.get(.."http://".len()).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http://")) {
        return Err(d.invalid(word, "a URL that begins with http://"));
    }
    http::set(&mut level.tls().ocsp_responder, Ok(Some(At { value: word.text.clone(), span: word.span })))
}

/// `off` or `shared:NAME:SIZE`.
fn ocsp_cache(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let word = d.arg(0);
    let cache = match word.text.strip_prefix("shared:").map(|rest| shared_sessions(word, rest)) {
        None if word.text == "off" => Ok(None),
        Some(Some(zone)) if zone.bytes >= SHARED_BYTES_MIN => Ok(Some(zone)),
        Some(Some(_)) => {
            return Err(Diagnostic::error(format!("OCSP cache \"{}\" is too small", word.text)).at(word.span));
        }
        None | Some(None) => {
            return Err(Diagnostic::error(format!("invalid OCSP cache \"{}\"", word.text))
                .at(word.span)
                .label("it must be off or shared:NAME:SIZE"));
        }
    };
    http::set(&mut level.tls().ocsp_cache, cache)
}

/// `off`, or `max=N [inactive=TIME] [valid=TIME]`.
pub fn certificate_cache(d: &Directive) -> Outcome<Option<CertificateCache>> {
    let mut cache = CertificateCache { max: 0, inactive: Duration::from_secs(10), valid: Duration::from_secs(60) };
    for word in &d.args {
        let time = |value: &str| values::time(value).ok_or_else(|| d.invalid_parameter_value(word, values::TIME));
        match (word.text.as_str(), word.text.split_once('=')) {
            ("off", _) => return Ok(None),
            (_, Some(("max", value))) => {
                let number = values::number(value).and_then(|n| usize::try_from(n).ok()).filter(|&n| n > 0);
                cache.max = number.ok_or_else(|| d.invalid_parameter_value(word, "a number above zero"))?;
            }
            (_, Some(("inactive", value))) => cache.inactive = time(value)?,
            (_, Some(("valid", value))) => cache.valid = time(value)?,
            _ => return Err(d.unknown_parameter(word, &["off", "max", "inactive", "valid"])),
        }
    }
    match cache.max {
        0 => Err(Diagnostic::error(format!("\"{}\" must have the \"max\" parameter", d.name.text)).at(d.span())),
        _ => Ok(Some(cache)),
    }
}

/// How many sessions OpenSSL keeps for a server unless told.
const BUILTIN_SESSIONS: u64 = 20480;
/// The least that nginx takes for a shared cache: eight pages.
const SHARED_BYTES_MIN: usize = 8 * 4096;

fn session_cache(level: &mut Level, cx: &mut Cx<'_>, d: &Directive) -> Outcome {
    let mut cache = (!level.is_first).then(|| level.tls.tls.session_cache.clone());
    let mut shared = level.tls.session_shared.clone();
    for word in &d.args {
        let wrong = || {
            Diagnostic::error(format!("invalid session cache \"{}\"", word.text))
                .at(word.span)
                .label("it must be off, none, builtin, builtin:SESSIONS or shared:NAME:SIZE")
        };
        match (word.text.as_str(), word.text.split_once(':')) {
            ("off", _) => cache = Some(TlsSessionCache::Off),
            ("none", _) => cache = Some(TlsSessionCache::None),
            ("builtin", _) => cache = Some(kept(Some(BUILTIN_SESSIONS))),
            (_, Some(("builtin", count))) => cache = Some(kept(Some(values::number(count).ok_or_else(wrong)?))),
            (_, Some(("shared", rest))) => {
                let zone = shared_sessions(word, rest).ok_or_else(wrong)?;
                if zone.bytes < SHARED_BYTES_MIN {
                    return Err(Diagnostic::error(format!("session cache \"{}\" is too small", word.text))
                        .at(word.span)
                        .label("it must have 32k or more"));
                }
                cx.add_session_zone(&zone)?;
                shared = Some(zone);
                cache.get_or_insert(kept(None));
            }
            _ => return Err(wrong()),
        }
    }
    let tls = level.tls();
    tls.session_shared = shared;
    if let Some(cache) = cache {
        tls.tls.session_cache = cache;
    }
    Ok(())
}

fn kept(builtin: Option<u64>) -> TlsSessionCache {
    TlsSessionCache::Kept { builtin, shared: None }
}

fn shared_sessions(word: &Word, text: &str) -> Option<SharedSessions> {
    let (name, size) = text.split_once(':').filter(|(name, _)| !name.is_empty())?;
    Some(SharedSessions { name: At { value: name.to_owned(), span: word.span }, bytes: values::size(size)? })
}
