//! Builds `http` and the blocks inside it.

use std::sync::Arc;

use crate::contexts::Contexts;
use crate::cx::Cx;
use crate::diagnostic::Diagnostic;
use crate::directives::{self, Action, BlockKind, DirectiveInfo, profile, rewrite};
use crate::level::{HttpParts, Level, Seen};
use crate::model::{
    AcmeAccount, At, Cluster, Http, LimitExcept, Listen, Location, LogEscape, LogFormat, Matcher, Rewrite, Server,
    ServerName, Upstream,
};
use crate::span::Span;
use crate::template;
use crate::tree::Directive;

use super::tls::Wishes;
use super::{admin, admit, apply, check, tls};

/// Builds `http` from its directives.
pub fn build(tree: &[&Directive], cx: &mut Cx<'_>) -> (Http, Option<AcmeAccount>) {
    let mut level = Level::http(&cx.options.prefix);
    let mut parts = HttpParts { log_formats: vec![combined()], ..HttpParts::default() };
    let inner = set_level(&mut level, tree, Some(&mut parts), cx);
    let mut servers = Vec::new();
    let mut wishes = Vec::new();
    for (info, directive) in inner {
        match info.action {
            Action::Block(BlockKind::Server) => {
                let (server, wish) = server(directive, &level, cx);
                servers.push(server);
                wishes.push(wish);
            }
            Action::Block(BlockKind::Upstream) => {
                let upstream = upstream(directive, cx);
                match parts.upstreams.iter().find(|known| known.name.value == upstream.name.value) {
                    Some(known) => cx.report(
                        Diagnostic::error(format!("duplicate upstream \"{}\"", upstream.name.value))
                            .at(upstream.name.span)
                            .related(known.name.span, "it is defined here already"),
                    ),
                    None => parts.upstreams.push(upstream),
                }
            }
            _ => {}
        }
    }
    check::references(&parts, cx);
    check::placements(&parts, cx);
    check::session_zones(&parts, cx);
    check::resolved_names(&parts.upstreams, &level.settings, cx);
    check::ports_of_tls_origins(&parts.upstreams, &servers, cx);
    check::servers(&servers, cx);
    admin::addresses(&servers, cx);
    tls::finish(&mut servers, &wishes, parts.acme.as_ref(), cx);
    let cluster = cluster(&mut parts, cx);
    let http = Http {
        settings: Arc::new(level.settings),
        servers,
        upstreams: parts.upstreams,
        cache_paths: parts.cache_paths,
        placements: parts.placements,
        memory_bytes: parts.memory_bytes,
        memory_total: parts.memory_total,
        cluster,
        log_formats: parts.log_formats,
        maps: parts.maps,
        geos: parts.geos,
        splits: parts.splits,
        charset_maps: parts.charset_maps,
        limit_req_zones: parts.limit_req_zones,
        limit_conn_zones: parts.limit_conn_zones,
    };
    (http, parts.acme)
}

/// `larder_cluster` with what `larder_cluster_away` and `larder_cluster_share` say.
fn cluster(parts: &mut HttpParts, cx: &mut Cx<'_>) -> Option<Cluster> {
    let (away, shelf) = (parts.cluster_away.take(), parts.cluster_shelf.take());
    let Some(mut cluster) = parts.cluster.take() else {
        let mut alone = |name: &str, span| {
            cx.report(Diagnostic::warning(format!("\"{name}\" has no effect without \"larder_cluster\"")).at(span));
        };
        if let Some(away) = away {
            alone("larder_cluster_away", away.span);
        }
        if let Some(shelf) = shelf.filter(|shelf| shelf.value.is_some()) {
            alone("larder_cluster_share", shelf.span);
        }
        return None;
    };
    cluster.away = away.map_or(cluster.away, |away| away.value);
    cluster.shelf = shelf.and_then(|shelf| shelf.value);
    Some(cluster)
}

/// The format `combined`.
fn combined() -> LogFormat {
    let text = "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \
                \"$http_referer\" \"$http_user_agent\"";
    LogFormat {
        name: At { value: "combined".to_owned(), span: Span::NOWHERE },
        escape: LogEscape::Default,
        format: template::parse_template(text, Span::NOWHERE).expect("every dollar in it begins a name"),
    }
}

/// Applies the directives of a level. Returns those that come later: blocks, and the rewrite directives.
fn set_level<'t>(
    level: &mut Level,
    tree: &[&'t Directive],
    mut parts: Option<&mut HttpParts>,
    cx: &mut Cx<'_>,
) -> Vec<(&'static DirectiveInfo, &'t Directive)> {
    let mut later = Vec::new();
    for &directive in tree {
        let is_first = !level.seen.has(&directive.name.text);
        let Some(info) = admit(directive, level.context, &mut level.seen, cx) else {
            continue;
        };
        level.is_first = is_first;
        match (info.action, &mut parts) {
            (Action::Level(set), _) => apply(directive, cx, |cx| set(level, cx, directive)),
            (Action::Http(set), Some(parts)) => apply(directive, cx, |cx| set(parts, cx, directive)),
            _ => later.push((info, directive)),
        }
    }
    level.finish();
    check::level(level, cx);
    later
}

fn server(directive: &Directive, http: &Level, cx: &mut Cx<'_>) -> (Server, Wishes) {
    let mut level = http.inside(Contexts::SERVER, Matcher::Root);
    let inner = set_level(&mut level, &directive.children(), None, cx);
    let (script, locations) = script_and_locations(&inner, &mut level, cx);
    if level.listens.is_empty() {
        let port = if cx.options.is_root { 80 } else { 8000 };
        level.listens.push(Listen { span: directive.name.span, ..directives::listen_default(port) });
    }
    if level.names.is_empty() {
        level.names.push(At { value: ServerName::Exact(String::new()), span: directive.name.span });
    }
    admin::server(&mut level, cx);
    let client = level.client.clone();
    let http2 = level.http2;
    let (tls, wishes) = tls::of_server(&level, directive.name.span, cx);
    let (listens, names) = (std::mem::take(&mut level.listens), std::mem::take(&mut level.names));
    let first_name = level.first_name.take().unwrap_or_default();
    let status_zone = level.server_zone.take();
    check::locations(&locations, cx);
    let host = names.iter().find_map(|name| host_of(&name.value)).map(str::to_ascii_lowercase);
    check::sitemaps(&level, host.as_deref(), directive.name.span, cx);
    let server = Server {
        span: directive.name.span,
        listens,
        names,
        first_name,
        host,
        script,
        root: location_of(level, directive, Vec::new(), locations, cx),
        client,
        tls: Arc::new(tls),
        http2,
        status_zone,
        acme: None,
    };
    (server, wishes)
}

/// The name, if it is a host: `_` and the like are none.
fn host_of(name: &ServerName) -> Option<&str> {
    match name {
        ServerName::Exact(name) | ServerName::Dotted(name) => {
            Some(name.as_str()).filter(|name| name.contains('.') || *name == "localhost")
        }
        ServerName::Hostname | ServerName::Suffix(_) | ServerName::Prefix(_) | ServerName::Regex(_) => None,
    }
}

fn location(directive: &Directive, outer: &Level, cx: &mut Cx<'_>) -> Option<Location> {
    let matcher = match directives::location_matcher(directive, outer) {
        Ok(matcher) => matcher,
        Err(diagnostic) => {
            cx.report(diagnostic);
            return None;
        }
    };
    let mut level = outer.inside(Contexts::LOCATION, matcher);
    let inner = set_level(&mut level, &directive.children(), None, cx);
    directives::location_without_origin(&mut level);
    let limit_except = inner
        .iter()
        .find(|(info, _)| matches!(info.action, Action::Block(BlockKind::LimitExcept)))
        .and_then(|(_, directive)| limit_except(directive, &level, cx));
    let (script, locations) = script_and_locations(&inner, &mut level, cx);
    check::locations(&locations, cx);
    let mut location = location_of(level, directive, script, locations, cx);
    location.limit_except = limit_except;
    Some(location)
}

/// Builds the rewrite directives of a level, and the locations inside it.
fn script_and_locations(
    inner: &[(&'static DirectiveInfo, &Directive)],
    level: &mut Level,
    cx: &mut Cx<'_>,
) -> (Vec<Rewrite>, Vec<Location>) {
    let mut script = Vec::new();
    let mut locations = Vec::new();
    for &(info, directive) in inner {
        match info.action {
            Action::Script => script.extend(step(directive, level, cx)),
            Action::Block(BlockKind::Location) => locations.extend(location(directive, level, cx)),
            _ => {}
        }
    }
    (script, locations)
}

/// Builds one directive of the rewrite module.
fn step(directive: &Directive, level: &Level, cx: &mut Cx<'_>) -> Option<Rewrite> {
    if directive.name.text != "if" {
        let mut step = None;
        apply(directive, cx, |_| {
            step = Some(rewrite::step(directive)?);
            Ok(())
        });
        return step;
    }
    let condition = rewrite::condition(directive).map_err(|diagnostic| cx.report(diagnostic)).ok();
    let context = match level.context == Contexts::SERVER {
        true => Contexts::IF_IN_SERVER,
        false => Contexts::IF_IN_LOCATION,
    };
    let mut inside = level.inside(context, level.matcher.clone());
    let inner = set_level(&mut inside, &directive.children(), None, cx);
    let script = inner.iter().filter_map(|(_, directive)| step(directive, &inside, cx)).collect();
    let location = (context == Contexts::IF_IN_LOCATION).then(|| {
        inside.matcher = Matcher::Root;
        Box::new(location_of(inside, directive, Vec::new(), Vec::new(), cx))
    });
    Some(Rewrite::If { condition: condition?, script, location })
}

fn limit_except(directive: &Directive, outer: &Level, cx: &mut Cx<'_>) -> Option<LimitExcept> {
    let methods = directives::limited_methods(directive).map_err(|diagnostic| cx.report(diagnostic)).ok();
    let mut level = outer.inside(Contexts::LIMIT_EXCEPT, outer.matcher.clone());
    set_level(&mut level, &directive.children(), None, cx);
    level.matcher = Matcher::Root;
    let location = Box::new(location_of(level, directive, Vec::new(), Vec::new(), cx));
    Some(LimitExcept { methods: methods?, location })
}

fn location_of(
    mut level: Level,
    directive: &Directive,
    script: Vec<Rewrite>,
    locations: Vec<Location>,
    cx: &mut Cx<'_>,
) -> Location {
    profile::finish(&mut level, cx);
    Location {
        matcher: level.matcher,
        span: directive.name.span,
        settings: Arc::new(level.settings),
        handler: level.handler,
        script,
        try_files: level.try_files,
        internal: level.internal,
        alias: level.alias,
        alias_replaces: level.alias_replaces,
        limit_except: None,
        locations,
    }
}

fn upstream(directive: &Directive, cx: &mut Cx<'_>) -> Upstream {
    let name = directive.arg(0);
    let mut upstream = Upstream::new(At { value: name.text.clone(), span: name.span });
    let mut seen = Seen::default();
    for directive in directive.children() {
        let Some(info) = admit(directive, Contexts::UPSTREAM, &mut seen, cx) else {
            continue;
        };
        if let Action::Group(set) = info.action {
            apply(directive, cx, |cx| set(&mut upstream, cx, directive));
        }
    }
    let has_servers = directive.children().iter().any(|inside| inside.name.text == "server");
    check::upstream(&upstream, has_servers, cx);
    upstream
}
