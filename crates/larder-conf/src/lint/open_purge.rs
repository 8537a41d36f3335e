//! Warns of purges that everybody may send.

use std::net::IpAddr;

use crate::diagnostic::Diagnostic;
use crate::model::{
    CachePurge, Handler, Http, ListenAddress, Location, Matcher, PurgeFrom, Rewrite, Server, VerifyClient,
};
use crate::span::Span;

use super::sources::{Sources, texts};
use super::{each_location, each_step, variables};

pub(super) fn lint(http: &Http, found: &mut Vec<Diagnostic>) {
    let sources = Sources::of(http);
    for server in http.servers.iter().filter(|server| !is_of_this_machine(server)) {
        each_location(&server.root, &mut |location| {
            if is_closed(location) || !is_asked(location) {
                return;
            }
            by_network(location, found);
            by_directive(server, location, &sources, found);
        });
    }
}

/// Whether nobody beyond this machine and its network reaches a server.
pub(super) fn is_of_this_machine(server: &Server) -> bool {
    server.listens.iter().all(|listen| match &listen.address {
        ListenAddress::Tcp(address) => match address.ip() {
            IpAddr::V4(address) => address.is_loopback() || address.is_private(),
            IpAddr::V6(address) => address.is_loopback(),
        },
        ListenAddress::Unix(_) => true,
    })
}

/// Whether a location keeps somebody out.
pub(super) fn is_closed(location: &Location) -> bool {
    let access = &location.settings.access;
    access.rules.iter().any(|rule| !rule.allow)
        || access.auth_basic.is_some()
        || location.settings.subrequests.auth_request.is_some()
}

/// Warns of a `larder_purge_from` that lets every visitor purge.
fn by_network(location: &Location, found: &mut Vec<Diagnostic>) {
    let Some(rights) = &location.settings.purging.from else { return };
    let Some(net) = rights.nets.iter().find(|net| net.prefix_len() == 0) else { return };
    found.push(
        *Diagnostic::warning(format!("everybody may purge here: \"larder_purge_from\" has {net}"))
            .at(rights.span)
            .label("one request empties the cache, and the origin makes all pages anew")
            .help("name the addresses that purge, or a secret with \"key=\"; or close the location by \"allow\" and \"deny\""),
    );
}

/// Whether a request may come to a location and find it answering by something else than a `return`.
fn is_asked(location: &Location) -> bool {
    let is_covered = matches!(location.matcher, Matcher::Root)
        && location.locations.iter().any(|inner| matches!(&inner.matcher, Matcher::Prefix { path, .. } if path == "/"));
    !is_covered && !location.script.iter().any(|step| matches!(step, Rewrite::Return { .. }))
}

/// Warns of a `*_cache_purge` that says not who may, where nothing else does.
fn by_directive(server: &Server, location: &Location, sources: &Sources, found: &mut Vec<Diagnostic>) {
    let is_out_of_reach =
        is_out_of_reach(server, location) || location.limit_except.is_some() || has_secret(&location.matcher);
    if is_out_of_reach || asks_who(&server.script, sources) || asks_who(&location.script, sources) {
        return;
    }
    let Some(Open { span, label, help }) = open_form(location, sources) else { return };
    found.push(*Diagnostic::warning("everybody may purge here: nothing says who").at(span).label(label).help(help));
}

/// Whether no request of a stranger gets to a location.
pub(super) fn is_out_of_reach(server: &Server, location: &Location) -> bool {
    let returns = |script: &[Rewrite]| script.iter().any(|step| matches!(step, Rewrite::Return { .. }));
    location.internal
        || matches!(location.matcher, Matcher::Named(_))
        || server.tls.verify_client != VerifyClient::Off
        || returns(&server.script)
}

/// A purge that lets all in.
struct Open {
    span: Span,
    label: &'static str,
    help: &'static str,
}

fn open_form(location: &Location, sources: &Sources) -> Option<Open> {
    let by_access = "add \"allow\" with the addresses that purge, as 127.0.0.1 and the server's own, and \"deny all\"";
    let of_location =
        |span| Open { span, label: "a key that ends in \"*\" drops all pages that begin so", help: by_access };
    let cache = match &location.handler {
        Handler::Purge { key: Some(key), by: None, .. } => return Some(of_location(key.span)),
        Handler::Purge { by: Some(by), .. } if by.from == PurgeFrom::All => return Some(of_location(by.span)),
        Handler::Proxy(_) => &location.settings.proxy.origin.cache,
        Handler::FastCgi(_) => &location.settings.fastcgi.origin.cache,
        _ => return None,
    };
    cache.zone.as_ref()?;
    match &cache.purge {
        CachePurge::Method(by) if by.from == PurgeFrom::All => Some(Open {
            span: by.span,
            label: "a visitor who sends this method drops pages",
            help: "name the addresses that purge, as \"from 127.0.0.1\"",
        }),
        CachePurge::When(conditions) => {
            let by_method = |name: &str| sources.leaves(name).iter().all(|leaf| *leaf == "request_method");
            let open =
                conditions.iter().find(|one| variables(one).next().is_some() && variables(one).all(by_method))?;
            Some(Open {
                span: open.span,
                label: "it asks for the method, and not for who sends it",
                help: "write \"PURGE $may_purge;\" in the \"map\", and a \"geo $may_purge\" with \"1\" for the addresses that purge",
            })
        }
        CachePurge::Off | CachePurge::Method(_) => None,
    }
}

/// Whether a script keeps somebody out by more than the address of the page.
pub(super) fn asks_who(script: &[Rewrite], sources: &Sources) -> bool {
    let mut is_asked = false;
    each_step(script, &mut |step| {
        let Rewrite::If { condition, script, .. } = step else { return };
        let leads_off = script.iter().any(|step| matches!(step, Rewrite::Return { .. } | Rewrite::Rewrite { .. }));
        let asked = texts(condition).into_iter().flat_map(variables);
        is_asked |= leads_off && asked.flat_map(|name| sources.leaves(name)).any(|leaf| !OF_PAGES.contains(&leaf));
    });
    is_asked
}

/// Whether a location has a name that cannot be guessed.
pub(super) fn has_secret(matcher: &Matcher) -> bool {
    let name = match matcher {
        Matcher::Prefix { path, .. } | Matcher::Exact(path) => path,
        Matcher::Regex(pattern) => &pattern.source,
        Matcher::Root | Matcher::Named(_) => return false,
    };
    let is_secret = |word: &str| {
        word.len() >= SECRET_BYTES_MIN && word.bytes().any(|byte| byte.is_ascii_digit()) || word.len() > WORD_BYTES_MAX
    };
    name.split(|letter: char| !letter.is_ascii_alphanumeric()).any(is_secret)
}

/// Variables that say which page is asked for, and nothing of who may purge it.
const OF_PAGES: [&str; 14] = [
    "scheme",
    "https",
    "host",
    "http_host",
    "server_name",
    "server_port",
    "uri",
    "request_uri",
    "args",
    "query_string",
    "request_filename",
    "document_root",
    "http_user_agent",
    "http_cookie",
];
/// A word with a digit is no word from so many letters on, and one without from one more than these.
const SECRET_BYTES_MIN: usize = 8;
const WORD_BYTES_MAX: usize = 16;
