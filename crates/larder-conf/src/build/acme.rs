//! `larder_acme`: the names for which each server orders certificates.

use std::net::IpAddr;

use crate::cx::Cx;
use crate::diagnostic::Diagnostic;
use crate::model::{AcmeAccount, AcmeChallenge, AcmeOrder, At, ListenAddress, Server, ServerName};

/// What a server wishes by `larder_acme`.
#[derive(Debug)]
pub struct Wish {
    /// How it is shown that the names are ours; `None` for `off`.
    pub challenge: Option<At<AcmeChallenge>>,
    /// Whether `larder_acme` stands in the server itself, and is not `off`.
    pub is_own: bool,
}

/// Orders what the servers wish, once it is known which of them speak TLS.
pub fn finish<'w>(
    servers: &mut [Server],
    wishes: impl Iterator<Item = &'w Wish>,
    account: Option<&AcmeAccount>,
    cx: &mut Cx<'_>,
) {
    for (server, wish) in servers.iter_mut().zip(wishes) {
        if let Some(challenge) = &wish.challenge {
            server.acme = order(server, challenge, wish.is_own, cx);
        }
    }
    let Some(first) = servers.iter().find_map(|server| server.acme.as_ref()) else {
        return;
    };
    if account.is_none() {
        cx.report(
            Diagnostic::error("\"larder_acme\" needs \"larder_acme_account\" in \"http\"")
                .at(first.span)
                .help("add larder_acme_account email=admin@example.org; with an address of yours"),
        );
    }
    reachable(servers, cx);
}

/// The order of a server. A server that only inherits `larder_acme` and has no name to certify orders nothing.
fn order(server: &Server, challenge: &At<AcmeChallenge>, is_own: bool, cx: &mut Cx<'_>) -> Option<AcmeOrder> {
    if !server.listens.iter().any(|listen| listen.ssl) {
        if is_own {
            cx.report(
                Diagnostic::warning("\"larder_acme\" has no effect: the server has no \"listen ... ssl\"")
                    .at(challenge.span),
            );
        }
        return None;
    }
    let mut names: Vec<At<String>> = Vec::new();
    let mut has_errors = false;
    for name in &server.names {
        match certifiable(&name.value, &cx.options.hostname) {
            Ok(None) => {}
            Ok(Some(text)) if names.iter().any(|known| known.value == text) => {}
            Ok(Some(text)) => names.push(At { value: text, span: name.span }),
            Err(why) => {
                has_errors = true;
                cx.report(
                    Diagnostic::error(format!("\"larder_acme\" cannot get a certificate for {why}"))
                        .at(name.span)
                        .related(challenge.span, "it is ordered here")
                        .help("list the names one by one, or use \"ssl_certificate\" in this server"),
                );
            }
        }
    }
    if names.is_empty() && is_own && !has_errors {
        cx.report(
            Diagnostic::error("\"larder_acme\" needs a \"server_name\" to get a certificate for")
                .at(challenge.span)
                .related(server.span, "this server has none"),
        );
    }
    (!names.is_empty()).then_some(AcmeOrder { names, challenge: challenge.value, span: challenge.span })
}

/// A name that an authority can certify; `None` for a name that means no host at all.
fn certifiable(name: &ServerName, hostname: &str) -> Result<Option<String>, &'static str> {
    let name = match name {
        ServerName::Exact(name) => name.clone(),
        ServerName::Hostname => hostname.to_ascii_lowercase(),
        ServerName::Suffix(_) | ServerName::Prefix(_) | ServerName::Dotted(_) => return Err("a wildcard"),
        ServerName::Regex(_) => return Err("a regular expression"),
    };
    let name = name.strip_suffix('.').unwrap_or(&name);
    // RFC 1035 §2.3.4.
    const NAME_BYTES_MAX: usize = 253;
    const LABEL_BYTES_MAX: usize = 63;
    let is_label = |label: &str| {
        (1..=LABEL_BYTES_MAX).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    match name {
        "" | "_" => Ok(None),
        _ if name.contains('*') => Err("a wildcard"),
        _ if !name.is_ascii() => Err("a name that is not ASCII; write it as in DNS, with \"xn--\""),
        _ if name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok() => Err("an address"),
        _ if !name.contains('.') => Err("a name without a dot, which nobody outside can look up"),
        _ if name.len() > NAME_BYTES_MAX || !name.split('.').all(is_label) => Err("what is no host name"),
        _ => Ok(Some(name.to_owned())),
    }
}

/// Checks that the authority can reach a server: it connects to fixed ports, maybe by way of a proxy.
fn reachable(servers: &[Server], cx: &mut Cx<'_>) {
    let listens_at = |port: u16, ssl: bool| {
        let mut listens = servers.iter().flat_map(|server| &server.listens);
        listens.any(|l| l.ssl == ssl && matches!(&l.address, ListenAddress::Tcp(a) if a.port() == port))
    };
    let (http, https) = (listens_at(80, false), listens_at(443, true));
    for order in servers.iter().filter_map(|server| server.acme.as_ref()) {
        let (is_reached, ports) = match order.challenge {
            AcmeChallenge::Either => (http || https, "port 80 or 443"),
            AcmeChallenge::Http01 => (http, "port 80"),
            AcmeChallenge::TlsAlpn01 => (https, "port 443"),
        };
        if !is_reached {
            cx.report_once(&format!("larder_acme {ports}"), || {
                Diagnostic::notice(format!("the authority comes to {ports}, where no server listens"))
                    .at(order.span)
                    .help("this is fine where something in front forwards it to here")
            });
        }
    }
}
