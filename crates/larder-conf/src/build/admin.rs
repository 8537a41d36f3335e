//! `listen ... larder_admin`: a server that answers by the admin API alone.

use std::sync::Arc;

use crate::cx::Cx;
use crate::diagnostic::Diagnostic;
use crate::level::Level;
use crate::model::{BodyInFile, Handler, Listen, ListenAddress, Server};

use super::check::show;

/// Makes a server one of the admin API if its `listen` says so, and reports what has no use in it.
pub fn server(level: &mut Level, cx: &mut Cx<'_>) {
    let Some(admin) = level.listens.iter().find(|listen| listen.admin).cloned() else { return };
    if let Some(other) = level.listens.iter().find(|listen| !listen.admin) {
        cx.report(
            Diagnostic::error(format!("a server of the admin API listens at {} without \"larder_admin\"", {
                show(&other.address)
            }))
            .at(other.span)
            .related(admin.span, "the admin API answers here")
            .help("give the admin API a server of its own"),
        );
    }
    for (name, help) in USELESS {
        if let Some(place) = level.place(name) {
            cx.report(
                Diagnostic::error(format!("\"{name}\" has no use in a server of the admin API"))
                    .at(place)
                    .related(admin.span, "the admin API answers every request that comes here")
                    .help(*help),
            );
        }
    }
    let has_own_rights = level.place("larder_purge_from").is_some();
    if !has_own_rights {
        // What lets plugins purge where visitors come in is not meant for operators.
        level.purging().from = None;
    }
    let names_who = has_own_rights && level.settings.purging.from.is_some();
    if let Some(open) = level.listens.iter().find(|listen| listen.admin && !names_who && !is_of_this_machine(listen)) {
        let address = show(&open.address);
        let place = level.place("larder_purge_from").filter(|_| level.settings.purging.from.is_none());
        let diagnostic = Diagnostic::error(format!("everybody who reaches {address} could purge"))
            .at(open.span)
            .label("\"larder_admin\" at an address of the network needs \"larder_purge_from\" in its server")
            .help("add \"larder_purge_from ADDRESS... key=SECRET\", or listen at 127.0.0.1 or at a unix socket");
        cx.report(match place {
            Some(place) => diagnostic.related(place, "this names nobody"),
            None => diagnostic,
        });
    }
    level.handler = Handler::Admin;
    // What is inherited and would answer in its place.
    level.settings.errors.pages.clear();
    level.settings.subrequests = Arc::default();
    level.settings.modules = Arc::default();
    let body = &mut level.settings.body;
    (body.max_bytes, body.buffer_bytes) = (Some(BODY_BYTES_MAX as u64), BODY_BYTES_MAX);
    body.in_file_only = BodyInFile::Off;
}

/// Reports addresses of the admin API at which another server listens as well.
pub fn addresses(servers: &[Server], cx: &mut Cx<'_>) {
    let all = || servers.iter().enumerate().flat_map(|(at, server)| server.listens.iter().map(move |own| (at, own)));
    for (at, admin) in all().filter(|(_, listen)| listen.admin) {
        let is_other = |(other, listen): &(usize, &Listen)| {
            // Of two that are alike the later one is reported.
            *other != at && listen.address == admin.address && (!listen.admin || *other < at)
        };
        if let Some((_, other)) = all().find(is_other) {
            cx.report(
                Diagnostic::error(format!("another server listens at {} too", show(&admin.address)))
                    .at(admin.span)
                    .related(other.span, "it stands here")
                    .help("give the admin API an address of its own"),
            );
        }
    }
}

/// Whether only programs on this machine reach it.
fn is_of_this_machine(listen: &Listen) -> bool {
    match &listen.address {
        ListenAddress::Tcp(address) => address.ip().to_canonical().is_loopback(),
        ListenAddress::Unix(_) => true,
    }
}

/// How many bytes the body of a request may have. It is held in memory.
const BODY_BYTES_MAX: usize = 1 << 20;

const ELSEWHERE: &str = "put it into another server";
const OF_PAGES: &str = "put it where the pages are cached: into \"http\", their server or their location";
/// Directives that would have no effect, and what to do instead.
const USELESS: &[(&str, &str)] = &[
    ("location", ELSEWHERE),
    ("if", ELSEWHERE),
    ("return", ELSEWHERE),
    ("rewrite", ELSEWHERE),
    ("set", ELSEWHERE),
    ("break", ELSEWHERE),
    ("error_page", "the API tells its errors itself: leave it out"),
    ("try_files", ELSEWHERE),
    ("vcl", ELSEWHERE),
    ("auth_request", "use \"allow\" and \"deny\", \"auth_basic\" or \"larder_purge_from\""),
    ("mirror", ELSEWHERE),
    ("add_before_body", ELSEWHERE),
    ("add_after_body", ELSEWHERE),
    ("larder_ban", "send the ban to the API"),
    ("larder_cache_tags", OF_PAGES),
    ("larder_purge_by_origin", OF_PAGES),
    ("client_max_body_size", "the API takes at most 1 MB: leave it out"),
    ("client_body_in_file_only", "the API keeps bodies in memory: leave it out"),
];
