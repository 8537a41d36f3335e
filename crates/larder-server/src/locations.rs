//! Which location a path belongs to.

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::site::Tree;
use crate::vars::pattern;

/// What the search for a location has found.
pub enum Found {
    /// This location.
    At(usize),
    /// The URI lacks the `/` at the end of this location's prefix.
    Slash(usize),
}

/// The location of the request's path, among those of its server, whose own level is `root`.
pub fn find(root: usize, ex: &mut Exchange, cx: &Cx) -> Found {
    find_in(&cx.site().locations[root].matching.inside, root, ex, cx)
}

/// Whether a request for `path` stays in the location where `ex` is.
pub fn stays(path: &[u8], ex: &mut Exchange, cx: &Cx) -> bool {
    location_of(path, ex, cx) == Some(ex.request.location)
}

/// Whether the location where `ex` is may answer for `path`. A named location, and a block of an `if`, answer for what the
/// path of the client leads to.
pub fn may_answer(path: &[u8], of_client: Option<&[u8]>, ex: &mut Exchange, cx: &Cx) -> bool {
    let there = location_of(path, ex, cx);
    there == Some(ex.request.location)
        || there.is_some() && of_client.is_some_and(|of_client| location_of(of_client, ex, cx) == there)
}

/// The location that a request for `path` comes to first.
pub fn location_of(path: &[u8], ex: &mut Exchange, cx: &Cx) -> Option<usize> {
    let root = cx.server(ex).root;
    let uri = std::mem::replace(&mut ex.request.uri, path.to_vec());
    let found = find(root, ex, cx);
    ex.request.uri = uri;
    match found {
        Found::At(location) => Some(location),
        _ => None,
    }
}

/// ngx_http_core_find_location: an exact match decides; else the longest prefix, with what lies inside it; then the
/// first regular expression, unless the prefix says `^~`; else the prefix.
fn find_in(tree: &Tree, outside: usize, ex: &mut Exchange, cx: &Cx) -> Found {
    let locations = &cx.site().locations;
    if let Some(&exact) = tree.exact.get(&ex.request.uri[..]) {
        return Found::At(exact);
    }
    let lacks_slash = |path: &[u8]| path.len() == ex.request.uri.len() + 1 && path.starts_with(&ex.request.uri);
    let mut slash = tree.slashes.iter().find(|(path, _)| lacks_slash(path)).map(|(_, location)| *location);
    let mut best = outside;
    let mut regex_stops = false;
    let mut inside = None;
    for (prefix, location) in &tree.prefixes {
        if ex.request.uri.starts_with(prefix) {
            best = *location;
            regex_stops = locations[best].matching.regex_stops;
            inside = Some(&locations[best].matching.inside);
            // A location of just this URI needs no redirect to the one with the slash.
            slash = slash.filter(|_| prefix.len() != ex.request.uri.len());
            break;
        }
        if locations[*location].matching.auto_redirect && lacks_slash(prefix) {
            slash = slash.or(Some(*location));
        }
    }
    if let Some(location) = slash {
        return Found::Slash(location);
    }
    if let Some(inside) = inside.filter(|inside| !inside.is_empty()) {
        match find_in(inside, best, ex, cx) {
            Found::At(location) if location != best => {
                // An exact or regular expression match inside is final; a longer prefix may still lose to an
                // expression out here.
                if locations[location].matching.exact || locations[location].matching.by_regex {
                    return Found::At(location);
                }
                best = location;
            }
            Found::At(_) => {}
            slash @ Found::Slash(_) => return slash,
        }
    }
    if !regex_stops {
        for (regex, location) in &tree.regexes {
            let uri = std::mem::take(&mut ex.request.uri);
            let matched = pattern::matches(regex, &uri, ex, cx);
            ex.request.uri = uri;
            if matched {
                return match &locations[*location].matching.inside {
                    inside if inside.is_empty() => Found::At(*location),
                    inside => find_in(inside, *location, ex, cx),
                };
            }
        }
    }
    Found::At(best)
}
