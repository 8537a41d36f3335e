//! Why a server and a location were found, and the others were not.

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::request::masked;
use crate::site::{Listener, Tree, VirtualServer};
use crate::vsl::Shown;

/// The server, the name by which it was found, and the names that come after it.
pub fn server(listener: &Listener, ex: &Exchange, cx: &Cx) -> String {
    let servers = &cx.site().servers;
    let host = &ex.request.host[..];
    let names = &listener.names;
    let mut found: Vec<(String, usize)> = Vec::new();
    if let Some(&server) = names.exact.get(host) {
        found.push((Shown(host).to_string(), server));
    }
    let suffixes = names.suffixes.iter().filter(|(suffix, _)| host.len() > suffix.len() && host.ends_with(suffix));
    found.extend(suffixes.map(|(suffix, server)| (format!("*{}", Shown(suffix)), *server)));
    let prefixes = names.prefixes.iter().filter(|(prefix, _)| host.len() > prefix.len() && host.starts_with(prefix));
    found.extend(prefixes.map(|(prefix, server)| (format!("{}*", Shown(prefix)), *server)));
    let regexes = names.regexes.iter().filter(|(named, _)| named.regex.is_match(host).unwrap_or(false));
    found.extend(regexes.map(|(_, server)| ("a regular expression".to_owned(), *server)));
    let own = &cx.server(ex).name;
    let name = if own.is_empty() { "_".to_owned() } else { Shown(own).to_string() };
    let mut found = found.into_iter();
    let by = match found.next() {
        Some((by, _)) => format!("by server_name {by}"),
        None => format!("the default of this address, as no server_name is {}", Shown(host)),
    };
    let others: Vec<String> = found
        .filter(|(_, server)| *server != ex.request.server)
        .map(|(by, server)| of_server(by, servers.get(server)))
        .take(OTHERS_MAX)
        .collect();
    let over = if others.is_empty() { String::new() } else { format!(", which comes before {}", others.join(", ")) };
    format!("{name}, {by}{over}")
}

fn of_server(by: String, server: Option<&VirtualServer>) -> String {
    let name = server.map_or_else(String::new, |server| Shown(&server.name).to_string());
    if name == by || name.is_empty() { by } else { format!("{by} of {name}") }
}

/// The location, and those beside it that match the URI, too, or were asked before it.
pub fn location(found: usize, uri: &[u8], ex: &Exchange, cx: &Cx) -> String {
    let locations = &cx.site().locations;
    let Some(own) = locations.get(found) else { return String::new() };
    let shown = masked::without_secrets(uri, ex, cx);
    let mut out = match &*own.matching.written {
        "" => format!("none, for {}: the server itself answers", Shown(&shown)),
        written => format!("{written}, for {}", Shown(&shown)),
    };
    if own.matching.named {
        return out;
    }
    let mut others = Vec::new();
    let root = cx.server(ex).root;
    beside(&locations[root].matching.inside, found, uri, cx, &mut others);
    if !others.is_empty() {
        others.truncate(OTHERS_MAX);
        out.push_str(&format!("; {}", others.join("; ")));
    }
    out
}

/// How many others are named.
const OTHERS_MAX: usize = 6;

fn beside(tree: &Tree, found: usize, uri: &[u8], cx: &Cx, others: &mut Vec<String>) {
    let locations = &cx.site().locations;
    let own = &locations[found].matching;
    let written = |location: usize| &*locations[location].matching.written;
    let prefixes = tree.prefixes.iter().filter(|(prefix, location)| *location != found && uri.starts_with(prefix));
    for (prefix, location) in prefixes {
        let is_around = !own.by_regex && own.prefix.len() > prefix.len() || own.exact;
        let why = match (own.by_regex, is_around) {
            (true, _) => "a regular expression comes before it",
            (false, true) => "a longer one does, too",
            (false, false) => "what is inside of it decides",
        };
        others.push(format!("\"{}\" matches, but {why}", written(*location)));
    }
    // They are asked in order, unless the prefix says `^~` or is all of the URI.
    let mut is_before = own.by_regex || !own.regex_stops && !own.exact;
    for (named, location) in &tree.regexes {
        if *location == found {
            is_before = false;
            continue;
        }
        let matches = named.regex.is_match(uri).unwrap_or(false);
        match (matches, is_before, own.by_regex) {
            (false, true, _) => others.push(format!("\"{}\" does not match", written(*location))),
            (true, false, true) => others.push(format!("\"{}\" matches, but comes later", written(*location))),
            (true, false, false) => others.push(format!("\"{}\" is not asked", written(*location))),
            _ => {}
        }
    }
}
