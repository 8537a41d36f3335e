//! The table of directives: the name of each, where it may stand, its arguments, and what it sets.
//!
//! As in nginx's documentation, each module has a file, with a table and the functions that the table names.

mod access;
mod acme;
mod address;
mod autoindex;
mod ban;
mod body;
mod browser;
mod cache_path;
mod caching;
pub(crate) mod charset;
mod cluster;
mod compression;
mod connection;
mod core;
mod fastcgi;
mod files;
mod film;
mod gate;
mod geo;
mod group;
mod harmless;
pub(crate) mod headers;
mod headers_more;
mod http;
mod http2;
mod limits;
mod listen;
mod location;
mod log;
mod map;
mod openssl;
mod origin;
mod parts;
pub(crate) mod profile;
mod proxy;
mod proxy_ssl;
mod purge;
mod purging;
mod realip;
mod redirects;
mod referer;
mod refused;
mod resolver;
pub mod rewrite;
mod row;
mod secure_link;
mod split_clients;
mod status;
mod sub_filter;
mod subrequests;
mod third_party;
mod tls;
mod userid;
mod vcl;
mod warm;

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::contexts::Contexts;
use crate::diagnostic::{Diagnostic, Outcome};
use crate::suggest;
use crate::tree::Directive;

pub use self::address::is_complete;
pub use self::listen::{is_name_or_wildcard, listen_default};
pub use self::location::{limited_methods, location_matcher};
pub use self::purge::location_without_origin;
pub(crate) use self::row::{Action, BlockKind};
pub use self::row::{Args, DirectiveInfo, Standing};
use self::row::{
    EVENTS, HS, HSL, HSLI, HTTP, LIMIT_EXCEPT, LOCATION, MAIN, NONE, ONE, Refusal, SERVER, UPSTREAM, block, directive,
    repeated,
};

static TABLES: [&[DirectiveInfo]; 50] = [
    core::TABLE,
    http::TABLE,
    files::TABLE,
    body::TABLE,
    connection::TABLE,
    redirects::TABLE,
    parts::TABLE,
    resolver::TABLE,
    listen::TABLE,
    location::TABLE,
    status::TABLE,
    rewrite::TABLE,
    access::TABLE,
    headers::TABLE,
    headers_more::TABLE,
    autoindex::TABLE,
    film::TABLE,
    charset::TABLE,
    cluster::TABLE,
    sub_filter::TABLE,
    referer::TABLE,
    userid::TABLE,
    secure_link::TABLE,
    browser::TABLE,
    log::TABLE,
    map::TABLE,
    geo::TABLE,
    split_clients::TABLE,
    limits::TABLE,
    realip::TABLE,
    group::TABLE,
    gate::TABLE,
    cache_path::TABLE,
    caching::TABLE,
    ban::TABLE,
    purging::TABLE,
    warm::TABLE,
    profile::TABLE,
    fastcgi::TABLE,
    fastcgi::SHARED,
    proxy::TABLE,
    proxy::SHARED,
    harmless::TABLE,
    compression::TABLE,
    tls::TABLE,
    http2::TABLE,
    proxy_ssl::TABLE,
    acme::TABLE,
    subrequests::TABLE,
    vcl::TABLE,
];

static BY_NAME: LazyLock<HashMap<&'static str, Vec<&'static DirectiveInfo>>> = LazyLock::new(|| {
    let mut by_name: HashMap<&'static str, Vec<&'static DirectiveInfo>> = HashMap::new();
    for info in TABLES.into_iter().flatten().chain(refused::TABLE).chain(third_party::TABLE) {
        by_name.entry(info.name).or_default().push(info);
    }
    by_name
});

/// What larder knows under `name`. Where a name means different things in different contexts, such as
/// `server`, the first of them.
pub fn find_directive(name: &str) -> Option<&'static DirectiveInfo> {
    by_name(name).first().copied()
}

fn by_name(name: &str) -> &'static [&'static DirectiveInfo] {
    BY_NAME.get(name).map_or(&[], Vec::as_slice)
}

/// The module that a name belongs to by how it begins, or for Lua by how it ends.
fn by_prefix(name: &str) -> Option<&'static DirectiveInfo> {
    if name.ends_with("_by_lua") || name.ends_with("_by_lua_block") || name.ends_with("_by_lua_file") {
        return Some(&refused::BY_LUA);
    }
    // An argument such as hls_1.example.org is no name.
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return None;
    }
    refused::PREFIXES.iter().chain(third_party::PREFIXES).find(|info| name.starts_with(info.name))
}

/// How larder stands to a name, also to one that it knows by how it begins or ends.
pub(crate) fn standing_of(name: &str) -> Option<Standing> {
    find_directive(name).or_else(|| by_prefix(name)).map(DirectiveInfo::standing)
}

/// Whether a directive has that name.
pub(crate) fn is_known(name: &str) -> bool {
    name == "include" || BY_NAME.contains_key(name) || by_prefix(name).is_some()
}

/// Whether a directive of that name may stand there.
pub(crate) fn stands_in(name: &str, context: Contexts) -> bool {
    by_name(name).iter().any(|info| info.contexts.contains(context))
}

/// Whether `name` could be a directive with this many arguments. One that is not known could.
pub(crate) fn could_be(name: &str, args: usize, has_block: bool) -> bool {
    let known = by_name(name);
    match (name, known) {
        ("include", _) => args == 1 && !has_block,
        (_, []) => true,
        _ => known.iter().any(|info| {
            matches!(info.action, Action::Refused(_)) || (info.args.accept(args) && info.is_block == has_block)
        }),
    }
}

/// What a directive is where it stands.
pub(crate) fn resolve(directive: &Directive, context: Contexts) -> Outcome<&'static DirectiveInfo> {
    let name = directive.name.text.as_str();
    let known = by_name(name);
    let Some(first) = known.first() else {
        return match by_prefix(name) {
            Some(info) => Ok(info),
            None => Err(unknown(directive, context)),
        };
    };
    // A refusal says more than "not here".
    if matches!(first.action, Action::Refused(_)) {
        return Ok(first);
    }
    let Some(info) = known.iter().find(|info| info.contexts.contains(context)) else {
        return Err(misplaced(directive, known, context));
    };
    check_shape(directive, info)?;
    Ok(info)
}

fn check_shape(directive: &Directive, info: &DirectiveInfo) -> Outcome {
    let name = &directive.name;
    match (info.is_block, &directive.block) {
        (false, Some(_)) => {
            return Err(Diagnostic::error(format!("directive \"{}\" is not terminated by \";\"", name.text))
                .at(directive.span())
                .label("it takes no \"{ }\""));
        }
        (true, None) => {
            return Err(
                Diagnostic::error(format!("directive \"{}\" has no opening \"{{\"", name.text)).at(directive.span())
            );
        }
        _ => {}
    }
    match info.args.accept(directive.args.len()) {
        true => Ok(()),
        false => {
            let given = match directive.args.len() {
                0 => "there is none".to_owned(),
                1 => "there is one".to_owned(),
                count => format!("there are {count}"),
            };
            Err(Diagnostic::error(format!("invalid number of arguments in \"{}\" directive", name.text))
                .at(directive.span())
                .label(format!("it takes {}; {given}", info.args.describe())))
        }
    }
}

fn misplaced(directive: &Directive, known: &[&DirectiveInfo], context: Contexts) -> Box<Diagnostic> {
    let name = &directive.name;
    let allowed = known.iter().fold(Contexts(0), |all, info| all.or(info.contexts));
    Diagnostic::error(format!("\"{}\" directive is not allowed here", name.text))
        .at(name.span)
        .label(format!("this is {}", context.describe()))
        .help(format!("it may stand in {}", allowed.describe()))
}

fn unknown(directive: &Directive, context: Contexts) -> Box<Diagnostic> {
    let name = &directive.name;
    let mut here: Vec<&str> = BY_NAME
        .iter()
        .filter(|(_, infos)| infos.iter().any(|info| info.contexts.contains(context)))
        .map(|(name, _)| *name)
        .collect();
    let mut everywhere: Vec<&str> = BY_NAME.keys().copied().collect();
    here.sort_unstable();
    everywhere.sort_unstable();
    let nearest =
        suggest::nearest(&name.text, here.into_iter()).or_else(|| suggest::nearest(&name.text, everywhere.into_iter()));
    let diagnostic = Diagnostic::error(format!("unknown directive \"{}\"", name.text)).at(name.span);
    match nearest {
        Some(nearest) => diagnostic.help(format!("did you mean \"{nearest}\"?")),
        None => diagnostic.label("neither nginx nor larder has a directive of this name"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_listed_once_a_context() {
        for (name, infos) in BY_NAME.iter() {
            for (at, info) in infos.iter().enumerate() {
                for other in &infos[at + 1..] {
                    assert_eq!(info.contexts.0 & other.contexts.0, 0, "{name} is listed twice");
                }
            }
        }
    }

    #[test]
    fn the_standing_of_what_people_use() {
        for (name, standing) in [
            ("fastcgi_cache", Some(Standing::Built)),
            ("proxy_cache_lock_age", Some(Standing::Built)),
            ("use", Some(Standing::Harmless)),
            ("gzip", Some(Standing::Built)),
            ("ssl_protocols", Some(Standing::Built)),
            ("http2_push", Some(Standing::Harmless)),
            ("sub_filter", Some(Standing::Built)),
            ("no_such_directive", None),
        ] {
            assert_eq!(find_directive(name).map(DirectiveInfo::standing), standing, "{name}");
        }
    }
}
