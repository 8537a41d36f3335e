//! Checks that need the whole configuration: names that must exist, addresses that must not clash.

use std::collections::{HashMap, HashSet};

use crate::cx::{Cx, Reference};
use crate::diagnostic::Diagnostic;
use crate::directives;
use crate::level::{HttpParts, Level, show_pem};
use crate::model::{
    At, Balance, Handler, ListenAddress, Location, Matcher, OriginScheme, OriginSettings, Placement, PlacementRule,
    Rewrite, Server, ServerName, Settings, Sitemap, Upstream,
};
use crate::span::Span;
use crate::suggest;
use crate::template;

/// Checks the names that directives have referred to.
pub fn references(parts: &HttpParts, cx: &mut Cx<'_>) {
    for reference in std::mem::take(&mut cx.references) {
        let diagnostic = match reference {
            Reference::CacheZone(zone, directive) => {
                if let Some(diagnostic) = belongs_to_a_placement(&zone, parts) {
                    cx.report(diagnostic);
                    continue;
                }
                let paths = parts.cache_paths.iter().map(|path| path.zone.value.as_str());
                let names = paths.chain(parts.placements.iter().map(|placement| placement.zone.value.as_str()));
                // Which kind of zone it is does not matter to those of larder.
                let path = if directive == "larder_ban" { "*_cache" } else { directive };
                missing(&zone, names, |name| {
                    Diagnostic::error(format!("\"{directive}\" zone \"{name}\" is unknown"))
                        .label(format!("no \"{path}_path\" has \"keys_zone={name}:...\""))
                })
            }
            Reference::LimitReqZone(zone) => {
                let names = parts.limit_req_zones.iter().map(|known| known.name.value.as_str());
                missing(&zone, names, |name| {
                    Diagnostic::error(format!("zero size shared memory zone \"{name}\""))
                        .label(format!("no \"limit_req_zone\" has \"zone={name}:...\""))
                })
            }
            Reference::LimitConnZone(zone) => {
                let names = parts.limit_conn_zones.iter().map(|zone| zone.name.value.as_str());
                missing(&zone, names, |name| {
                    Diagnostic::error(format!("zero size shared memory zone \"{name}\""))
                        .label(format!("no \"limit_conn_zone\" has \"zone={name}:...\""))
                })
            }
            Reference::LogFormat(format) => {
                let names = parts.log_formats.iter().map(|known| known.name.value.as_str());
                missing(&format, names, |name| Diagnostic::error(format!("unknown log format \"{name}\"")))
            }
            Reference::CharsetMap(from, to, span) => {
                let known = parts.charset_maps.iter().any(|map| directives::charset::are_of_one_map(map, &from, &to));
                let message = || format!("no \"charset_map\" between the charsets \"{from}\" and \"{to}\"");
                (!known).then(|| Diagnostic::error(message()).at(span))
            }
            Reference::Group(address) => {
                let names = parts.upstreams.iter().map(|known| known.name.value.as_str());
                missing(&address, names, |name| {
                    Diagnostic::error(format!("no port in upstream \"{name}\""))
                        .label("this is neither host:port nor the name of an \"upstream\"")
                })
            }
        };
        if let Some(diagnostic) = diagnostic {
            cx.report(diagnostic);
        }
    }
}

/// An error for a zone that is a member of a placement: its folder belongs to that placement alone.
fn belongs_to_a_placement(zone: &At<String>, parts: &HttpParts) -> Option<Box<Diagnostic>> {
    let of_zone = |placement: &&Placement| placement.members.iter().any(|member| member.value == zone.value);
    let placement = parts.placements.iter().find(of_zone)?;
    Some(
        Diagnostic::error(format!("zone \"{}\" is a part of \"{}\"", zone.value, placement.zone.value))
            .at(zone.span)
            .related(placement.zone.span, "it is made a part here")
            .help(format!("use \"{}\"", placement.zone.value)),
    )
}

/// Checks the zones that `larder_placement` names.
pub fn placements(parts: &HttpParts, cx: &mut Cx<'_>) {
    let mut taken: HashMap<&str, Span> = HashMap::new();
    for member in parts.placements.iter().flat_map(|placement| &placement.members) {
        let names = parts.cache_paths.iter().map(|path| path.zone.value.as_str());
        let unknown = missing(member, names, |name| {
            Diagnostic::error(format!("\"larder_placement\" zone \"{name}\" is unknown"))
                .label("no \"proxy_cache_path\" or \"fastcgi_cache_path\" defines it")
        });
        if let Some(diagnostic) = unknown {
            cx.report(diagnostic);
            continue;
        }
        let path = parts.cache_paths.iter().find(|path| path.zone.value == member.value && !path.on_disk);
        if let Some(path) = path {
            cx.report(
                Diagnostic::error(format!("zone \"{}\" has no disk to place pages on", member.value))
                    .at(member.span)
                    .related(path.zone.span, "\"larder_disk=off\" is here"),
            );
        }
        if let Some(first) = taken.insert(&member.value, member.span) {
            cx.report(
                Diagnostic::error(format!("zone \"{}\" is a part of two placements", member.value))
                    .at(member.span)
                    .related(first, "the other one is here"),
            );
        }
    }
    for placement in &parts.placements {
        placed_by_size(placement, parts, cx);
    }
}

/// Pages are distributed by size: a zone without one would get all of them.
fn placed_by_size(placement: &Placement, parts: &HttpParts, cx: &mut Cx<'_>) {
    if placement.rule == PlacementRule::Mirror && placement.members.len() == 2 {
        return;
    }
    let path_of = |member: &At<String>| parts.cache_paths.iter().find(|path| path.zone.value == member.value);
    let (sized, bare): (Vec<_>, Vec<_>) =
        placement.members.iter().filter_map(path_of).partition(|path| path.max_bytes.is_some());
    if let (Some(sized), Some(bare)) = (sized.first(), bare.first()) {
        cx.report(
            Diagnostic::error(format!("zone \"{}\" has no \"max_size\"", bare.zone.value))
                .at(bare.zone.span)
                .label(format!("\"{}\" shares out its pages by that", placement.zone.value))
                .related(sized.zone.span, "this one has it")
                .help("give \"max_size\" to each of them, or to none"),
        );
    }
}

fn missing<'a>(
    wanted: &At<String>,
    names: impl Iterator<Item = &'a str> + Clone,
    describe: impl FnOnce(&str) -> Box<Diagnostic>,
) -> Option<Box<Diagnostic>> {
    // Names of groups are compared as host names are.
    if names.clone().any(|name| name == wanted.value) {
        return None;
    }
    let diagnostic = describe(&wanted.value).at(wanted.span);
    Some(match suggest::nearest(&wanted.value, names) {
        Some(nearest) => diagnostic.help(format!("did you mean \"{nearest}\"?")),
        None => diagnostic,
    })
}

/// Checks that the caches of TLS sessions have names that no other zone has.
pub fn session_zones(parts: &HttpParts, cx: &mut Cx<'_>) {
    let others = parts.cache_paths.iter().map(|path| &path.zone);
    let others = others.chain(parts.placements.iter().map(|placement| &placement.zone));
    let others = others.chain(parts.limit_req_zones.iter().map(|zone| &zone.name));
    let others = others.chain(parts.limit_conn_zones.iter().map(|zone| &zone.name));
    for other in others {
        if let Some(span) = cx.session_zone(&other.value) {
            cx.report(
                Diagnostic::error(format!(
                    "the shared memory zone \"{}\" is already declared for a different use",
                    other.value
                ))
                .at(span)
                .related(other.span, "it is declared here"),
            );
        }
    }
}

/// Checks settings of a level that depend on each other.
pub fn level(level: &Level, cx: &mut Cx<'_>) {
    for (origin, prefix) in [(&level.settings.fastcgi.origin, "fastcgi"), (&level.settings.proxy.origin, "proxy")] {
        let sizes = ["buffers", "buffer_size", "busy_buffers_size"];
        let place = sizes.into_iter().find_map(|size| level.place(&format!("{prefix}_{size}")));
        if let Some(place) = place {
            buffers(origin, prefix, place, cx);
        }
    }
    origin_tls(level, cx);
    charsets(level, cx);
    referers(level, cx);
    // A VCL makes its own keys.
    let needs_key = matches!(level.handler, Handler::FastCgi(_)) && level.settings.modules.vcl.file.is_none();
    let fastcgi = &level.settings.fastcgi.origin;
    if let (true, Some(cache), None) = (needs_key, &fastcgi.cache.zone, &fastcgi.cache.key) {
        let span = cache.span;
        cx.report_once(&format!("fastcgi_cache_key {span:?}"), || {
            Diagnostic::error("no \"fastcgi_cache_key\" for \"fastcgi_cache\"")
                .at(span)
                .label("all pages would share one key")
                .help("add fastcgi_cache_key \"$scheme$request_method$host$request_uri\";")
        });
    }
}

/// Checks that a conversion has a `charset_map`, if both charsets are written out.
fn charsets(level: &Level, cx: &mut Cx<'_>) {
    let Some(place) = level.place("source_charset").or_else(|| level.place("charset")) else { return };
    let settings = &level.settings;
    let (Some(from), Some(to)) = (&settings.modules.charset.source, &settings.modules.charset.name) else { return };
    if let (Some(from), Some(to)) = (template::as_literal(from), template::as_literal(to))
        && !from.eq_ignore_ascii_case(to)
    {
        cx.references.push(Reference::CharsetMap(from.to_owned(), to.to_owned(), place));
    }
}

/// Checks `valid_referers`: with `none` and `blocked` alone, a browser that sends a `Referer` is always refused.
fn referers(level: &Level, cx: &mut Cx<'_>) {
    let Some(place) = level.place("valid_referers") else { return };
    let Some(referers) = &level.settings.modules.referers else { return };
    if (referers.none || referers.blocked) && referers.names.is_empty() && !referers.server_names {
        let message = "the \"none\" or \"blocked\" referers are specified in the \"valid_referers\" directive \
                       without any valid referer";
        cx.report(Diagnostic::error(message).at(place));
    }
}

/// Checks nginx's rules for a level that asks origins by TLS.
fn origin_tls(level: &Level, cx: &mut Cx<'_>) {
    let Handler::Proxy(pass) = &level.handler else {
        return;
    };
    match level.handler.origin_scheme() {
        Some(OriginScheme::Https | OriginScheme::Variable) => {}
        Some(OriginScheme::Http) | None => return,
    }
    let tls = &level.settings.proxy.tls;
    if tls.verify && tls.trusted_certificate.is_none() {
        let place = level.place("proxy_ssl_verify").unwrap_or(pass.span);
        cx.report_once(&format!("proxy_ssl_verify {:?}", pass.span), || {
            Diagnostic::error("no proxy_ssl_trusted_certificate for proxy_ssl_verify")
                .at(place)
                .help("name the authorities to trust, such as /etc/ssl/certs/ca-certificates.crt")
        });
    }
    if let (Some(certificate), None) = (&level.origin_certificate, &level.origin_key) {
        cx.report_once(&format!("proxy_ssl_certificate_key {:?}", pass.span), || {
            let shown = show_pem(certificate);
            Diagnostic::error(format!("no \"proxy_ssl_certificate_key\" is defined for certificate \"{shown}\""))
                .at(certificate.span())
        });
    }
}

/// Checks nginx's rules for the sizes of buffers, if `*_busy_buffers_size` is set.
fn buffers(origin: &OriginSettings, prefix: &str, place: Span, cx: &mut Cx<'_>) {
    let (count, bytes) = (origin.buffers.count, origin.buffers.bytes);
    let mut report = |text: String| cx.report(Diagnostic::error(text).at(place));
    if count < 2 {
        return report(format!("there must be at least 2 \"{prefix}_buffers\""));
    }
    let Some(busy) = origin.buffers.busy_bytes else {
        return;
    };
    if busy < origin.buffers.head_bytes.max(bytes) {
        report(format!(
            "\"{prefix}_busy_buffers_size\" must be equal to or greater than the maximum of the value of \
             \"{prefix}_buffer_size\" and one of the \"{prefix}_buffers\""
        ));
    } else if busy > (count - 1).saturating_mul(bytes) {
        report(format!(
            "\"{prefix}_busy_buffers_size\" must be less than the size of all \"{prefix}_buffers\" minus one buffer"
        ));
    }
}

/// Warns of a server whose sitemaps have no host.
pub fn sitemaps(level: &Level, host: Option<&str>, server: Span, cx: &mut Cx<'_>) {
    let sitemaps = level.settings.purging.warm.iter().flat_map(|warm| &warm.sitemaps);
    let own = sitemaps.filter(|sitemap| matches!(sitemap, Sitemap::Path { is_for_all: false, .. }));
    if host.is_none() && own.count() > 0 {
        cx.report(
            Diagnostic::warning(
                "\"sitemap=\" of \"larder_warm\" has no effect: no \"server_name\" of this server is a host",
            )
            .at(server)
            .help("write its URL, such as sitemap=https://example.com/sitemap.xml, and that host among the names"),
        );
    }
}

/// Warns of TLS origins at port 80: as in nginx, that is the default port of a server in a group.
pub fn ports_of_tls_origins(upstreams: &[Upstream], servers: &[Server], cx: &mut Cx<'_>) {
    let mut asked = Vec::new();
    for server in servers {
        tls_groups_in(&server.root, &mut asked);
    }
    for (name, span) in asked {
        let Some(upstream) = upstreams.iter().find(|known| known.name.value == name) else {
            continue;
        };
        if let Some(server) = upstream.servers.iter().find(|server| !directives::is_complete(&server.address.value)) {
            let address = &server.address;
            cx.report_once(&format!("port of {:?}", address.span), || {
                Diagnostic::warning(format!("no port in \"{}\": port 80 is asked over TLS", address.value))
                    .at(address.span)
                    .related(span, "TLS is asked for here")
                    .help(format!("write {}:443", address.value))
            });
        }
    }
}

fn tls_groups_in(location: &Location, asked: &mut Vec<(String, Span)>) {
    if let (Some(OriginScheme::Https), Handler::Proxy(pass)) = (location.handler.origin_scheme(), &location.handler)
        && let Some(url) = template::as_literal(pass)
    {
        let rest = &url["https://".len()..];
        let host = rest.split(['/', '?']).next().unwrap_or_default();
        asked.push((host.to_owned(), pass.span));
    }
    for step in &location.script {
        if let Rewrite::If { location: Some(inside), .. } = step {
            tls_groups_in(inside, asked);
        }
    }
    if let Some(limit) = &location.limit_except {
        tls_groups_in(&limit.location, asked);
    }
    location.locations.iter().for_each(|inside| tls_groups_in(inside, asked));
}

/// Checks that the locations of one level differ.
pub fn locations(locations: &[Location], cx: &mut Cx<'_>) {
    let mut seen: HashMap<(bool, &str), Span> = HashMap::new();
    for location in locations {
        let name = match &location.matcher {
            Matcher::Exact(path) => (true, path.as_str()),
            Matcher::Prefix { path, .. } => (false, path.as_str()),
            Matcher::Named(name) => (false, name.as_str()),
            Matcher::Regex(_) | Matcher::Root => continue,
        };
        if let Some(first) = seen.insert(name, location.span) {
            let diagnostic = match location.matcher {
                // nginx says nothing and takes the first.
                Matcher::Named(_) => Diagnostic::warning(format!("duplicate location \"{}\", ignored", name.1)),
                _ => Diagnostic::error(format!("duplicate location \"{}\"", name.1)),
            };
            cx.report(diagnostic.at(location.span).related(first, "it stands here already"));
        }
    }
}

/// Checks a group of origins.
pub fn upstream(upstream: &Upstream, has_servers: bool, cx: &mut Cx<'_>) {
    let name = &upstream.name;
    if upstream.servers.is_empty() {
        // A group that has no servers because each had an error is no second error.
        if !has_servers {
            cx.report(Diagnostic::error("no servers are inside upstream").at(name.span));
        }
        return;
    }
    if upstream.servers.iter().all(|server| server.backup) {
        cx.report(
            Diagnostic::error(format!("no servers in upstream \"{}\"", name.value))
                .at(name.span)
                .label("all of them are \"backup\""),
        );
    }
    let has_no_backups = match upstream.balance {
        Balance::IpHash | Balance::Hash(..) | Balance::Random { .. } => true,
        Balance::RoundRobin | Balance::LeastConn | Balance::LeastTime { .. } => false,
    };
    if let Some(server) = upstream.servers.iter().find(|server| server.backup && has_no_backups) {
        cx.report(
            Diagnostic::error("balancing method does not support parameter \"backup\"")
                .at(server.address.span)
                .help("only round robin, \"least_conn\" and \"least_time\" have backups"),
        );
    }
}

/// Checks that names which are resolved at run time have a `resolver`.
pub fn resolved_names(upstreams: &[Upstream], http: &Settings, cx: &mut Cx<'_>) {
    if http.resolving.resolver.is_some() {
        return;
    }
    for upstream in upstreams.iter().filter(|upstream| upstream.resolver.is_none()) {
        if let Some(server) = upstream.servers.iter().find(|server| server.resolve) {
            let name = &upstream.name.value;
            cx.report(
                Diagnostic::error(format!("no resolver defined to resolve names at run time in upstream \"{name}\""))
                    .at(server.address.span)
                    .help("add \"resolver\" with the address of a name server to \"http\" or to the group"),
            );
        }
    }
}

/// Checks what servers share: addresses, names, and the named locations that they refer to.
pub fn servers(servers: &[Server], cx: &mut Cx<'_>) {
    listens(servers, cx);
    names(servers, cx);
    for server in servers {
        named_locations(server, cx);
    }
}

fn listens(servers: &[Server], cx: &mut Cx<'_>) {
    let mut defaults: HashMap<&ListenAddress, Span> = HashMap::new();
    let mut options: HashMap<&ListenAddress, Span> = HashMap::new();
    for server in servers {
        let mut own: HashMap<&ListenAddress, Span> = HashMap::new();
        for listen in &server.listens {
            let shown = show(&listen.address);
            if let Some(first) = own.insert(&listen.address, listen.span) {
                cx.report(
                    Diagnostic::error(format!("a duplicate listen {shown}"))
                        .at(listen.span)
                        .related(first, "the server listens there already"),
                );
                continue;
            }
            if listen.is_default
                && let Some(first) = defaults.insert(&listen.address, listen.span)
            {
                cx.report(
                    Diagnostic::error(format!("a duplicate default server for {shown}"))
                        .at(listen.span)
                        .related(first, "the first one is here"),
                );
            }
            if listen.has_options
                && let Some(first) = options.insert(&listen.address, listen.span)
            {
                cx.report(
                    Diagnostic::error(format!("duplicate listen options for {shown}"))
                        .at(listen.span)
                        .related(first, "they are given here")
                        .help("give the options of an address once; they hold for all servers that listen there"),
                );
            }
        }
    }
}

pub fn show(address: &ListenAddress) -> String {
    match address {
        ListenAddress::Tcp(address) => address.to_string(),
        ListenAddress::Unix(path) => format!("unix:{}", path.display()),
    }
}

fn names(servers: &[Server], cx: &mut Cx<'_>) {
    wildcards(servers, cx);
    let mut known: HashMap<(&ListenAddress, String), (usize, Span)> = HashMap::new();
    for (at, server) in servers.iter().enumerate() {
        for listen in &server.listens {
            for name in &server.names {
                let shown = match &name.value {
                    ServerName::Regex(_) => continue,
                    ServerName::Exact(name) => name.clone(),
                    ServerName::Suffix(suffix) => format!("*{suffix}"),
                    ServerName::Prefix(prefix) => format!("{prefix}*"),
                    ServerName::Dotted(name) => format!(".{name}"),
                    ServerName::Hostname => "$hostname".to_owned(),
                };
                let (first, span) = *known.entry((&listen.address, shown.clone())).or_insert((at, name.span));
                if span != name.span {
                    let address = show(&listen.address);
                    let why =
                        if first == at { "the server has this name already" } else { "this server has it already" };
                    cx.report(
                        Diagnostic::warning(format!("conflicting server name \"{shown}\" on {address}, ignored"))
                            .at(name.span)
                            .related(span, why),
                    );
                }
            }
        }
    }
}

/// Warns of a name with a `*` in the middle, which matches nothing. A server that is alone at its address gets all
/// requests anyway.
fn wildcards(servers: &[Server], cx: &mut Cx<'_>) {
    let at_address = |address: &ListenAddress| {
        servers.iter().filter(|server| server.listens.iter().any(|listen| listen.address == *address)).count()
    };
    for server in servers {
        for name in &server.names {
            let ServerName::Exact(text) = &name.value else {
                continue;
            };
            if text.is_empty() || directives::is_name_or_wildcard(text) {
                continue;
            }
            let shared = server.listens.iter().find(|listen| at_address(&listen.address) > 1);
            let diagnostic = match shared {
                Some(listen) => {
                    let address = show(&listen.address);
                    Diagnostic::error(format!("invalid server name or wildcard \"{text}\" on {address}"))
                }
                None => Diagnostic::warning(format!("server name \"{text}\" matches nothing")),
            };
            cx.report(
                diagnostic
                    .at(name.span)
                    .label("a \"*\" stands for whole labels at one end, as in *.example.org and www.example.*")
                    .help("for anything else use a regular expression: ~^www\\d+\\.example\\.org$"),
            );
        }
    }
}

/// Warns of a fallback to a location that does not exist: in nginx that is a 500 when a request first needs it.
fn named_locations(server: &Server, cx: &mut Cx<'_>) {
    let defined: HashSet<&str> = server
        .root
        .locations
        .iter()
        .filter_map(|location| match &location.matcher {
            Matcher::Named(name) => Some(name.as_str()),
            Matcher::Exact(_) | Matcher::Prefix { .. } | Matcher::Regex(_) | Matcher::Root => None,
        })
        .collect();
    let mut wanted = Vec::new();
    wanted_in(&server.root, &mut wanted);
    wanted.sort_by_key(|name| name.span);
    wanted.dedup();
    for name in wanted {
        if !defined.contains(name.value.as_str()) {
            let diagnostic = Diagnostic::warning(format!("could not find named location \"{}\"", name.value))
                .at(name.span)
                .label("requests that come here are answered 500");
            // An `error_page` that many servers inherit is reported once.
            let nearest = suggest::nearest(&name.value, defined.iter().copied()).map(str::to_owned);
            cx.report_once(&format!("named {:?}", name.span), || match nearest {
                Some(nearest) => diagnostic.help(format!("did you mean \"{nearest}\"?")),
                None => diagnostic,
            });
        }
    }
}

fn wanted_in(location: &Location, wanted: &mut Vec<At<String>>) {
    use crate::model::TryFallback;
    if let Some(try_files) = &location.try_files
        && let TryFallback::Named(name) = &try_files.fallback
    {
        wanted.push(name.clone());
    }
    for page in &location.settings.errors.pages {
        if let Some(text) = template::as_literal(&page.target)
            && text.starts_with('@')
        {
            wanted.push(At { value: text.to_owned(), span: page.target.span });
        }
    }
    for step in &location.script {
        if let Rewrite::If { location: Some(inside), .. } = step {
            wanted_in(inside, wanted);
        }
    }
    for inside in &location.locations {
        wanted_in(inside, wanted);
    }
}
