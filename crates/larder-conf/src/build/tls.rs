//! TLS of a server, made of what its level says.

use std::collections::HashMap;

use crate::cx::Cx;
use crate::diagnostic::Diagnostic;
use crate::level::{Level, TlsLevel, show_pem};
use crate::model::{
    AcmeAccount, CertificatePair, ListenAddress, Ocsp, Server, Stapling, Tls, TlsSessionCache, VerifyClient,
};
use crate::span::Span;

use super::{acme, check};

/// What a server wants that is decided when all servers are known.
#[derive(Debug)]
pub struct Wishes {
    /// Whether certificates are named, well or not: what is wrong with them is one error and not two.
    has_certificates: bool,
    ssl_on: bool,
    acme: acme::Wish,
}

/// `ssl_*` of a server, and what it wants beside. `span` is the server's.
pub fn of_server(level: &Level, span: Span, cx: &mut Cx<'_>) -> (Tls, Wishes) {
    let own = &*level.tls;
    let mut tls = own.tls.clone();
    if let TlsSessionCache::Kept { shared, .. } = &mut tls.session_cache {
        shared.clone_from(&own.session_shared);
    }
    tls.stapling = stapling(own, cx);
    tls.ocsp =
        own.ocsp.map(|about| Ocsp { about, responder: own.ocsp_responder.clone(), cache: own.ocsp_cache.clone() });
    own.overrides.apply(&mut tls);
    let (mut certificates, mut keys_of) = (own.certificates.clone(), own.keys.clone());
    own.overrides.apply_pair(&mut certificates, &mut keys_of);
    let pairs = certificates.into_iter().zip(keys_of);
    tls.certificates = pairs.map(|(certificate, key)| CertificatePair { certificate, key }).collect();

    let names_certificates = !own.certificates.is_empty() || level.place("ssl_certificate").is_some();
    let has_identity = names_certificates || own.acme.is_some() || tls.reject_handshake;
    keys(level, cx);
    if has_identity {
        authorities(level, span, cx);
    } else if own.ssl_on {
        let place = level.place("ssl").unwrap_or(span);
        cx.report(Diagnostic::error("no \"ssl_certificate\" is defined for the \"ssl\" directive").at(place));
    }
    let wishes = Wishes {
        has_certificates: names_certificates || (own.ssl_on && !has_identity),
        ssl_on: own.ssl_on,
        acme: acme::Wish {
            challenge: own.acme.clone(),
            is_own: own.acme.is_some() && level.place("larder_acme").is_some(),
        },
    };
    (tls, wishes)
}

/// Each certificate has its key.
fn keys(level: &Level, cx: &mut Cx<'_>) {
    let own = &*level.tls;
    // A key that was wrong has had its error.
    let had_an_error = own.keys.is_empty() && level.place("ssl_certificate_key").is_some();
    if let Some(last) = own.certificates.last().filter(|_| own.keys.len() < own.certificates.len() && !had_an_error) {
        let shown = show_pem(last);
        cx.report_once(&format!("ssl_certificate_key {:?}", last.span()), || {
            Diagnostic::error(format!("no \"ssl_certificate_key\" is defined for certificate \"{shown}\""))
                .at(last.span())
        });
    }
}

/// Who asks for certificates of clients knows who may have signed them.
fn authorities(level: &Level, span: Span, cx: &mut Cx<'_>) {
    let tls = &level.tls.tls;
    if level.tls.ocsp.is_some() && tls.verify_client == VerifyClient::OptionalNoCa {
        let place = level.place("ssl_ocsp").unwrap_or(span);
        let text = "\"ssl_ocsp\" is incompatible with \"ssl_verify_client optional_no_ca\"";
        cx.report(Diagnostic::error(text).at(place));
    }
    match tls.verify_client {
        VerifyClient::On | VerifyClient::Optional => {}
        VerifyClient::Off | VerifyClient::OptionalNoCa => return,
    }
    if tls.client_certificate.is_none() && tls.trusted_certificate.is_none() {
        let place = level.place("ssl_verify_client").unwrap_or(span);
        cx.report(
            Diagnostic::error("no ssl_client_certificate or ssl_trusted_certificate for ssl_verify_client").at(place),
        );
    }
}

fn stapling(own: &TlsLevel, cx: &mut Cx<'_>) -> Option<Stapling> {
    if !own.stapling {
        return None;
    }
    if let Some(url) = &own.stapling_responder
        && !url.value.get(.."http://".len()).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http://"))
    {
        cx.report_once(&format!("ssl_stapling {:?}", url.span), || {
            Diagnostic::warning(format!(
                "\"ssl_stapling\" ignored, invalid URL prefix in OCSP responder \"{}\"",
                url.value
            ))
            .at(url.span)
            .label("it begins with http://")
        });
        return None;
    }
    Some(Stapling {
        file: own.stapling_file.clone(),
        responder: own.stapling_responder.clone(),
        verify: own.stapling_verify,
    })
}

/// Decides about TLS when all servers are known: what is spoken at each address, for which servers certificates
/// are ordered, and whether any lacks one.
pub fn finish(servers: &mut [Server], wishes: &[Wishes], account: Option<&AcmeAccount>, cx: &mut Cx<'_>) {
    share_protocols(servers, cx);
    old_ssl(servers, wishes);
    acme::finish(servers, wishes.iter().map(|wish| &wish.acme), account, cx);
    certificates(servers, wishes, cx);
}

/// `ssl`, `http2` and `proxy_protocol` of an address while its `listen`s are read.
#[derive(Clone, Copy, Default)]
struct Protocols {
    /// What any of them has had, as bits.
    all: u8,
    has_options: bool,
    /// What the last one had that counts for comparing; `None` for the first.
    last: Option<u8>,
    changed: bool,
}

/// As in nginx all servers of an address speak what one of them asks for, and it warns where that may not have
/// been meant: it is fine that one `listen` says all and the others nothing.
fn share_protocols(servers: &mut [Server], cx: &mut Cx<'_>) {
    let mut addresses: HashMap<ListenAddress, Protocols> = HashMap::new();
    for listen in servers.iter().flat_map(|server| &server.listens) {
        let own = u8::from(listen.proxy_protocol) | u8::from(listen.ssl) << 1 | u8::from(listen.http2) << 2;
        let Some(known) = addresses.get_mut(&listen.address) else {
            let first = Protocols { all: own, has_options: listen.has_options, last: None, changed: false };
            addresses.insert(listen.address.clone(), first);
            continue;
        };
        let differs_from_last = known.last.is_some_and(|last| last != own);
        let before = known.all;
        known.has_options |= listen.has_options;
        let (is_odd, last) = if own | before != before {
            ((known.has_options && !listen.has_options) || known.changed || own | before != own, before)
        } else if own != before {
            (listen.has_options || differs_from_last, own)
        } else {
            ((listen.has_options && known.changed) || differs_from_last, own)
        };
        known.changed |= own != before;
        known.last = Some(last);
        known.all |= own;
        if is_odd {
            let address = check::show(&listen.address);
            cx.report(Diagnostic::warning(format!("protocol options redefined for {address}")).at(listen.span).label(
                "\"ssl\", \"http2\" and \"proxy_protocol\" hold for all servers that listen there, where one has them",
            ));
        }
    }
    for listen in servers.iter_mut().flat_map(|server| &mut server.listens) {
        if let Some(shared) = addresses.get(&listen.address) {
            listen.proxy_protocol = shared.all & 1 != 0;
            listen.ssl = shared.all & 2 != 0;
            listen.http2 = shared.all & 4 != 0;
        }
    }
}

/// The first server of each address, or the one that says to be the default, as places in the list.
fn defaults_of(servers: &[Server]) -> Vec<(ListenAddress, usize)> {
    let mut defaults: Vec<(ListenAddress, usize)> = Vec::new();
    let mut places: HashMap<&ListenAddress, usize> = HashMap::new();
    for (at, server) in servers.iter().enumerate() {
        for listen in &server.listens {
            match places.get(&listen.address) {
                None => {
                    places.insert(&listen.address, defaults.len());
                    defaults.push((listen.address.clone(), at));
                }
                Some(&place) if listen.is_default => defaults[place].1 = at,
                Some(_) => {}
            }
        }
    }
    defaults
}

/// `ssl on` in the default server of an address is an `ssl` of that address.
fn old_ssl(servers: &mut [Server], wishes: &[Wishes]) {
    for (address, default) in defaults_of(servers) {
        if wishes.get(default).is_some_and(|wish| wish.ssl_on) {
            let listens = servers.iter_mut().flat_map(|server| &mut server.listens);
            listens.filter(|listen| listen.address == address).for_each(|listen| listen.ssl = true);
        }
    }
}

/// Where a certificate is needed, there is one.
fn certificates(servers: &[Server], wishes: &[Wishes], cx: &mut Cx<'_>) {
    // An order that went wrong has had its error too.
    let has_one = |at: usize| {
        wishes.get(at).is_some_and(|wish| wish.has_certificates || wish.acme.is_own) || servers[at].acme.is_some()
    };
    for (address, default) in defaults_of(servers) {
        let here = |server: &&Server| server.listens.iter().any(|listen| listen.address == address);
        let is_tls = servers.iter().flat_map(|server| &server.listens).any(|l| l.address == address && l.ssl);
        if !is_tls || has_one(default) {
            continue;
        }
        // Without a certificate in the default server all others need theirs.
        let lacks = |at: &usize| !has_one(*at) && !servers[*at].tls.reject_handshake;
        let lacking = match servers[default].tls.reject_handshake {
            false => Some(&servers[default]),
            true => (0..servers.len()).filter(lacks).map(|at| &servers[at]).find(here),
        };
        if let Some(server) = lacking {
            cx.report_once(&format!("ssl_certificate {:?}", server.span), || {
                let diagnostic =
                    Diagnostic::error("no \"ssl_certificate\" is defined for the \"listen ... ssl\" directive")
                        .at(server.span)
                        .help(
                            "add ssl_certificate and ssl_certificate_key, or let larder get a certificate with \
                             \"larder_acme on\"",
                        );
                let listen = server.listens.iter().find(|listen| listen.address == address);
                match listen.filter(|listen| listen.span != server.span) {
                    Some(listen) => diagnostic.related(listen.span, "it listens with TLS here"),
                    None => diagnostic,
                }
            });
        }
    }
}
