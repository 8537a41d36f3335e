//! `ssl_*` of the servers: reads keys from their files, compiles settings, reports errors with their place.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use larder_acme::Order;
use larder_conf::model::{self, At, CertificateCache, CertificatePair, PemSource, TlsSessionCache, VerifyClient};
use larder_conf::{Diagnostic, Span};
use larder_tls::{
    CertifiedKey, Clock, Notice, OcspQuestion, Protocol, ServerConfig, ServerOptions, SessionCache, TicketKeys,
    TlsError, Verify, VerifyMode,
};
use parking_lot::Mutex;

use crate::acme::AllIssued;
use crate::clock;
use crate::material::Material;
use crate::ocsp::{ClientStatus, Responder};
use crate::site::CertificateEnd;
use crate::staple::Staple;
use crate::tls::{ByVariable, Certificate, ClientJudge, ServerTls};

use super::Builder;

/// How much early data a client may send, as in nginx.
const EARLY_DATA_BYTES_MAX: u32 = 16 * 1024;

/// What is kept across a reload, so that sessions can be resumed.
#[derive(Default)]
pub struct TlsKeeping {
    pub(super) issued: AllIssued,
    tickets: Option<Arc<TicketKeys>>,
    caches: HashMap<String, (usize, Arc<SessionCache>)>,
}

/// The clock that the TLS library reads.
pub(super) fn clock() -> Clock {
    Clock::new(|| clock::now().secs())
}

/// Builds the TLS part of a server that listens with `ssl`. Errors are reported; then there is `None`.
pub(super) fn server(
    builder: &mut Builder,
    server: &model::Server,
    order: Option<&Order>,
    material: &Material,
    keeping: &mut TlsKeeping,
) -> Option<Arc<ServerTls>> {
    let tls = &server.tls;
    if tls.certificates.is_empty() && order.is_none() && !tls.reject_handshake {
        // The default server's settings are used instead, as in nginx.
        return None;
    }
    let passwords = passwords(builder, tls.password_file.as_ref(), material)?;
    let mut certificates = Vec::new();
    let mut staples = Vec::new();
    let mut which = Certificate::Configured;
    for pair in &tls.certificates {
        if pair.has_variables() {
            which = Certificate::ByVariable(Box::new(variable(builder, pair, &passwords, tls.certificate_cache)));
            continue;
        }
        certificates.push(configured(builder, tls, pair, &passwords, material, &mut staples)?);
    }
    if let Some(order) = order {
        match keeping.issued.of(order) {
            Ok(issued) => which = Certificate::Issued(issued),
            Err(error) => {
                builder.error(error.to_string(), server.span);
                return None;
            }
        }
    }
    let mut options = ServerOptions::new(certificates, clock());
    if matches!(which, Certificate::ByVariable(_)) {
        options.context = tls.certificates.iter().map(|pair| named(&pair.certificate)).collect();
    }
    options.protocols = protocols(tls.protocols);
    options.ciphers = tls.ciphers.as_ref().map(|ciphers| ciphers.value.clone());
    options.tls13_ciphers = tls.ciphersuites.as_ref().map(|suites| suites.value.clone());
    options.curves = tls.curves.as_ref().map(|curves| curves.value.clone());
    options.prefer_server_ciphers = tls.prefer_server_ciphers;
    options.session_cache = session_cache(builder, &tls.session_cache, keeping);
    options.session_timeout_seconds = tls.session_timeout.as_secs();
    options.tickets = tickets(builder, tls, material, keeping, server.span)?;
    options.early_data_bytes_max = if tls.early_data { EARLY_DATA_BYTES_MAX } else { 0 };
    options.verify = verify(builder, tls, material)?;
    options.record_bytes_max = tls.buffer_bytes;
    let ocsp = tls.ocsp.as_ref().map(|ocsp| {
        let responder = ocsp.responder.as_ref().and_then(|responder| Responder::of(&responder.value));
        ClientStatus::new(ocsp.about, responder, ocsp.cache.as_ref().map(|cache| cache.bytes))
    });
    let span = tls.certificates.first().map_or(server.span, |pair| pair.certificate.span());
    options.alpn = vec![b"http/1.1".to_vec(), b"http/1.0".to_vec(), b"http/0.9".to_vec()];
    let without_http2 = config(builder, options.clone(), tls, span, true)?;
    options.alpn.insert(0, b"h2".to_vec());
    let with_http2 = config(builder, options, tls, span, false)?;
    Some(Arc::new(ServerTls {
        rejects: tls.reject_handshake,
        with_http2,
        without_http2,
        certificate: which,
        staples,
        ocsp,
    }))
}

/// A certificate from files, with its OCSP answer. If that has to be fetched, the certificate is added to `staples`.
fn configured(
    builder: &mut Builder,
    tls: &model::Tls,
    pair: &CertificatePair,
    passwords: &[Vec<u8>],
    material: &Material,
    staples: &mut Vec<Arc<Staple>>,
) -> Option<CertifiedKey> {
    let mut key = certificate(builder, pair, passwords, material)?;
    if let Some(file) = tls.stapling.as_ref().and_then(|stapling| stapling.file.as_ref()) {
        key = key.with_ocsp(&read(builder, file, "ssl_stapling_file", material)?);
    }
    warn_of_expiry(builder, &key, pair);
    if let Some(stapling) = tls.stapling.as_ref().filter(|stapling| stapling.file.is_none()) {
        let trusted = authorities(builder, tls.trusted_certificate.as_ref(), "trusted certificate", material)?;
        staples.extend(staple(builder, stapling, &key, pair, &trusted));
    }
    Some(key)
}

fn config(
    builder: &mut Builder,
    options: ServerOptions,
    tls: &model::Tls,
    span: Span,
    tells: bool,
) -> Option<Arc<ServerConfig>> {
    match ServerConfig::new(options) {
        Ok((config, notices)) => {
            for notice in notices.iter().filter(|_| tells) {
                builder.diagnostics.push(*Diagnostic::notice(notice.to_string()).at(place(tls, notice, span)));
            }
            Some(config)
        }
        Err(error) => {
            // The two configurations differ only in the protocols offered above TLS, so one report is enough.
            if tells {
                let (written, mend) = match &error {
                    TlsError::NoCipher(_) => {
                        (tls.ciphers.as_ref(), Some("remove this line: the ciphers that are left are all safe"))
                    }
                    TlsError::NoCurve(_) => (
                        tls.curves.as_ref(),
                        Some("add secp384r1 and X25519, or remove this line: a client takes the best that it knows"),
                    ),
                    _ => (None, None),
                };
                let said = Diagnostic::error(error.to_string()).at(written.map_or(span, |written| written.span));
                builder.diagnostics.push(match mend {
                    Some(mend) => *said.help(mend),
                    None => *said,
                });
            }
            None
        }
    }
}

/// The place of the directive that a notice is about.
fn place(tls: &model::Tls, notice: &Notice, otherwise: Span) -> Span {
    let written = match notice.directive {
        "ssl_ciphers" => tls.ciphers.as_ref(),
        "ssl_ecdh_curve" => tls.curves.as_ref(),
        "ssl_conf_command" => tls.ciphersuites.as_ref(),
        _ => None,
    };
    written.map_or(otherwise, |written| written.span)
}

/// The enabled versions of TLS.
pub(super) fn protocols(protocols: model::TlsProtocols) -> Vec<Protocol> {
    let known = [(protocols.tls1_2, Protocol::Tls12), (protocols.tls1_3, Protocol::Tls13)];
    known.into_iter().filter(|(spoken, _)| *spoken).map(|(_, protocol)| protocol).collect()
}

pub(super) fn verify_mode(mode: VerifyClient) -> VerifyMode {
    match mode {
        VerifyClient::Off => VerifyMode::Off,
        VerifyClient::On => VerifyMode::On,
        VerifyClient::Optional => VerifyMode::Optional,
        VerifyClient::OptionalNoCa => VerifyMode::OptionalNoCa,
    }
}

pub(super) fn client_judge(tls: &model::Tls) -> ClientJudge {
    let path = |file: &Option<At<std::path::PathBuf>>| file.as_ref().map(|file| file.value.clone());
    ClientJudge {
        authorities: path(&tls.client_certificate),
        trusted: path(&tls.trusted_certificate),
        revoked: path(&tls.crl),
        depth: tls.verify_depth,
        asks: tls.ocsp.as_ref().map(|ocsp| ocsp.about),
    }
}

/// Loads a certificate and its key; errors name their files.
pub(super) fn certificate(
    builder: &mut Builder,
    pair: &CertificatePair,
    passwords: &[Vec<u8>],
    material: &Material,
) -> Option<CertifiedKey> {
    let certificate = pem(builder, &pair.certificate, "certificate", material)?;
    let key = pem(builder, &pair.key, "certificate key", material)?;
    match CertifiedKey::from_pem(&certificate, &key, passwords) {
        Ok(key) => Some(key),
        Err(error) => {
            let is_certificates =
                matches!(error, larder_tls::KeyError::NoCertificate | larder_tls::KeyError::Certificate { .. });
            let (what, source) =
                if is_certificates { ("certificate", &pair.certificate) } else { ("certificate key", &pair.key) };
            builder.error(format!("cannot load {what} {}: {error}", name(source)), source.span());
            None
        }
    }
}

/// The certificate's name as written, which keeps sessions apart, as in nginx.
fn named(source: &PemSource) -> Vec<u8> {
    match source {
        PemSource::File(path) => bytes_of(&path.value).to_vec(),
        PemSource::Data(pem) => pem.value.0.clone().into_bytes(),
        PemSource::Variable(template) => format!("{:?}", template.parts).into_bytes(),
    }
}

fn name(source: &PemSource) -> String {
    source.path().map_or_else(|| "\"data:...\"".to_owned(), |path| format!("\"{}\"", path.display()))
}

fn pem(builder: &mut Builder, source: &PemSource, what: &str, material: &Material) -> Option<Vec<u8>> {
    match source {
        PemSource::File(path) => read(builder, path, what, material),
        PemSource::Data(pem) => Some(pem.value.0.clone().into_bytes()),
        // These are read during a handshake, when the client has named its server.
        PemSource::Variable(_) => Some(Vec::new()),
    }
}

pub(super) fn read(
    builder: &mut Builder,
    path: &At<std::path::PathBuf>,
    what: &str,
    material: &Material,
) -> Option<Vec<u8>> {
    match material.read(&path.value) {
        Ok(bytes) => Some(bytes),
        Err(error) => {
            builder.error(format!("cannot load {what} \"{}\": {error}", path.value.display()), path.span);
            None
        }
    }
}

/// The lines of a password file; the last one may lack its line feed.
pub(super) fn passwords(
    builder: &mut Builder,
    file: Option<&At<std::path::PathBuf>>,
    material: &Material,
) -> Option<Vec<Vec<u8>>> {
    let Some(file) = file else { return Some(Vec::new()) };
    let text = read(builder, file, "password file", material)?;
    let lines = text.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    Some(lines.filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect())
}

pub(super) fn variable(
    builder: &mut Builder,
    pair: &CertificatePair,
    passwords: &[Vec<u8>],
    cache: Option<CertificateCache>,
) -> ByVariable {
    let mut text = |source: &PemSource| match source {
        PemSource::Variable(template) => builder.text(template),
        PemSource::File(path) => crate::text::Text::literal(bytes_of(&path.value)),
        PemSource::Data(pem) => crate::text::Text::literal(format!("data:{}", pem.value.0).as_bytes()),
    };
    let (certificate, key) = (text(&pair.certificate), text(&pair.key));
    ByVariable {
        certificate,
        key,
        folder: builder.site.conf_prefix.clone(),
        passwords: passwords.to_vec(),
        cache,
        known: Mutex::default(),
    }
}

fn bytes_of(path: &Path) -> &[u8] {
    use std::os::unix::ffi::OsStrExt as _;
    path.as_os_str().as_bytes()
}

/// The certificate whose OCSP answer is to be fetched; `None` if its issuer or its responder is unknown.
fn staple(
    builder: &mut Builder,
    stapling: &model::Stapling,
    key: &CertifiedKey,
    pair: &CertificatePair,
    trusted: &[Vec<u8>],
) -> Option<Arc<Staple>> {
    let span = pair.certificate.span();
    let mut ignored = |why: String| builder.warn(format!("\"ssl_stapling\" ignored, {why}"), span);
    let name = name(&pair.certificate);
    let mut chain = key.chain();
    let own = chain.next()?;
    let Some(question) = OcspQuestion::new(own, chain.chain(trusted.iter().map(Vec::as_slice))) else {
        ignored(format!("issuer certificate not found for certificate {name}"));
        return None;
    };
    let url = stapling.responder.as_ref().map(|responder| responder.value.clone());
    let Some(url) = url.or_else(|| larder_tls::ocsp_responder(own)) else {
        ignored(format!("no OCSP responder URL in the certificate {name}"));
        return None;
    };
    let Some(responder) = Responder::of(&url) else {
        ignored(format!("invalid URL prefix in OCSP responder \"{url}\" in the certificate {name}"));
        return None;
    };
    Some(Arc::new(Staple::new(key.clone(), question, responder, stapling.verify)))
}

fn warn_of_expiry(builder: &mut Builder, key: &CertifiedKey, pair: &CertificatePair) {
    let facts = key.facts();
    let end = CertificateEnd { name: name(&pair.certificate).trim_matches('"').to_owned(), not_after: facts.not_after };
    if !builder.site.certificates.contains(&end) {
        builder.site.certificates.push(end);
    }
    let now = i64::try_from(clock::now().secs()).unwrap_or(i64::MAX);
    let left = facts.not_after - now;
    let name = name(&pair.certificate);
    let span = pair.certificate.span();
    if left < 0 {
        builder.warn(format!("the certificate {name} has expired ({}): browsers refuse it", facts.end), span);
    } else if facts.ends_soon(now) {
        let (count, unit) = if left >= 2 * 86_400 { (left / 86_400, "days") } else { (left / 3600, "hours") };
        builder.warn(format!("the certificate {name} expires in {count} {unit} ({})", facts.end), span);
    } else if facts.not_before > now {
        builder.warn(format!("the certificate {name} is not valid yet ({})", facts.start), span);
    }
}

fn session_cache(
    builder: &mut Builder,
    cache: &TlsSessionCache,
    keeping: &mut TlsKeeping,
) -> Option<Arc<SessionCache>> {
    let TlsSessionCache::Kept { builtin, shared } = cache else { return None };
    let Some(shared) = shared else {
        let sessions = builtin.unwrap_or(BUILTIN_SESSIONS);
        return Some(SessionCache::builtin(usize::try_from(sessions).unwrap_or(usize::MAX), clock()));
    };
    let name = &shared.name.value;
    if let Some((bytes, cache)) = keeping.caches.get(name) {
        if *bytes == shared.bytes {
            return Some(Arc::clone(cache));
        }
        // Reported at a reload only: a newly started server has no sessions to forget.
        builder.diagnostics.push(
            *Diagnostic::notice(format!("the session cache \"{name}\" changes its size: its sessions are forgotten"))
                .at(shared.name.span),
        );
    }
    let cache = SessionCache::new(shared.bytes, clock());
    keeping.caches.insert(name.clone(), (shared.bytes, Arc::clone(&cache)));
    Some(cache)
}

/// How many sessions `builtin` keeps by default, as OpenSSL.
const BUILTIN_SESSIONS: u64 = 20_480;

/// The keys of tickets: from files, or random ones that all servers share and that survive a reload. Of a cluster, too, if it
/// shares them.
#[allow(clippy::option_option, reason = "the outer one is whether all is well")]
fn tickets(
    builder: &mut Builder,
    tls: &model::Tls,
    material: &Material,
    keeping: &mut TlsKeeping,
    span: Span,
) -> Option<Option<Arc<TicketKeys>>> {
    if !tls.session_tickets {
        return Some(None);
    }
    let Some(first) = tls.session_ticket_keys.first() else {
        if keeping.tickets.is_none() {
            match TicketKeys::random(tls.session_timeout.as_secs(), clock()) {
                Ok(keys) => keeping.tickets = Some(keys),
                Err(error) => {
                    builder.error(error.to_string(), span);
                    return None;
                }
            }
        }
        if builder.share.tickets {
            builder.site.caches.shared_tickets.clone_from(&keeping.tickets);
        }
        return Some(keeping.tickets.clone());
    };
    let mut files = Vec::new();
    for file in &tls.session_ticket_keys {
        files.push(read(builder, file, "session ticket key", material)?);
    }
    match TicketKeys::from_files(&files, clock()) {
        Ok(keys) => Some(Some(keys)),
        Err(error) => {
            builder.error(format!("cannot use session ticket keys: {error}"), first.span);
            None
        }
    }
}

fn verify(builder: &mut Builder, tls: &model::Tls, material: &Material) -> Option<Verify> {
    let (named, trusted) = (tls.client_certificate.as_ref(), tls.trusted_certificate.as_ref());
    Some(Verify {
        mode: verify_mode(tls.verify_client),
        depth: tls.verify_depth,
        authorities: authorities(builder, named, "client certificate", material)?,
        trusted: authorities(builder, trusted, "trusted certificate", material)?,
        revocation_lists: revocation_lists(builder, tls.crl.as_ref(), material)?,
    })
}

/// The certificates in a file, DER; none without a file.
pub(super) fn authorities(
    builder: &mut Builder,
    file: Option<&At<std::path::PathBuf>>,
    what: &str,
    material: &Material,
) -> Option<Vec<Vec<u8>>> {
    list(builder, file, what, larder_tls::pem_certificates, material)
}

/// The revocation lists in a file, DER; none without a file.
pub(super) fn revocation_lists(
    builder: &mut Builder,
    file: Option<&At<std::path::PathBuf>>,
    material: &Material,
) -> Option<Vec<Vec<u8>>> {
    list(builder, file, "revocation list", larder_tls::pem_revocation_lists, material)
}

fn list(
    builder: &mut Builder,
    file: Option<&At<std::path::PathBuf>>,
    what: &str,
    parse: fn(&[u8]) -> Parsed,
    material: &Material,
) -> Option<Vec<Vec<u8>>> {
    let Some(file) = file else { return Some(Vec::new()) };
    let bytes = read(builder, file, what, material)?;
    match parse(&bytes) {
        Ok(list) if !list.is_empty() => Some(list),
        Ok(_) => {
            builder.error(format!("there is no {what} in \"{}\"", file.value.display()), file.span);
            None
        }
        Err(error) => {
            builder.error(format!("cannot load {what} \"{}\": {error}", file.value.display()), file.span);
            None
        }
    }
}

type Parsed = Result<Vec<Vec<u8>>, larder_tls::KeyError>;
