//! Which site a purge means: that of the server it comes in at, and not that of another one without a word.

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::purges::{Order, What};
use crate::site::{Keeps, Listener, Loc};
use crate::vsl::Shown;

/// An error says why the pages that these orders mean are likely to be another server's: none is cached here, or no server
/// has the name that is asked for, and the default one does not know the pages of another that takes purges.
pub fn check(orders: &[Order], ex: &Exchange, cx: &Cx) -> Result<(), String> {
    let own = keeps(ex.request.server, cx);
    if own.is_empty() {
        return Err(format!("no location of {} has a cache", server(ex, cx)));
    }
    if !orders.iter().any(is_of_all_hosts) || is_named(ex, cx) {
        return Ok(());
    }
    let takes_purges = |server: usize| locations(server, cx).iter().any(|loc| loc.modules.purging.is_some());
    let has_others = |server: usize| keeps(server, cx).iter().any(|zone| !own.contains(zone));
    let mut servers = listener(ex, cx).into_iter().flat_map(|listener| listener.names.servers());
    let is_other = |server: &usize| *server != ex.request.server && takes_purges(*server) && has_others(*server);
    match servers.find(is_other) {
        None => Ok(()),
        Some(other) => Err(format!(
            "no \"server_name\" is \"{}\", so that {} was asked, which does not know the pages of \"{}\": add the name to \
             the server that is meant, or let that listen for purges at an address of its own",
            Shown(&ex.request.host),
            server(ex, cx),
            Shown(&cx.site().servers[other].name),
        )),
    }
}

/// The server of this request, in words.
pub fn server(ex: &Exchange, cx: &Cx) -> String {
    match &*cx.server(ex).name {
        b"" => "the default server".to_owned(),
        name => format!("the server \"{}\"", Shown(name)),
    }
}

/// Whether an order means pages of whatever host.
fn is_of_all_hosts(order: &Order) -> bool {
    match order.what {
        What::Page(_) | What::Uri { of_host: true, .. } | What::Host => false,
        What::Uri { of_host: false, .. } | What::Tags(_) | What::Ban(_) | What::All => true,
    }
}

/// Whether a server has the name that is asked for.
fn is_named(ex: &Exchange, cx: &Cx) -> bool {
    let host = &ex.request.host;
    listener(ex, cx)
        .is_none_or(|listener| listener.names.find(host, |regex| regex.regex.is_match(host).unwrap_or(false)).is_some())
}

fn listener<'a>(ex: &Exchange, cx: &'a Cx) -> Option<&'a Listener> {
    ex.asked.client.listener(cx.site())
}

/// The zones in which the locations of a server keep pages; `None` stands for any.
fn keeps(server: usize, cx: &Cx) -> Vec<Option<usize>> {
    let mut zones = Vec::new();
    for loc in locations(server, cx) {
        let zone = match loc.handler.keeps() {
            None => continue,
            Some(Keeps::Zone(zone)) => Some(zone),
            Some(Keeps::Named(_)) => None,
        };
        if !zones.contains(&zone) {
            zones.push(zone);
        }
    }
    zones
}

fn locations(server: usize, cx: &Cx) -> &[Loc] {
    cx.site().locations.get(cx.site().servers[server].locations.clone()).unwrap_or_default()
}
