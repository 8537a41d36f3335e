//! Puts a VCL in front of a location: its backends become origins.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use larder_conf::Span;
use larder_conf::model::{self, IgnoreHeaders, NextUpstream, NextUpstreamSettings, OriginSettings, ProxyProtocol};
use larder_origin::gate::{Gate, Limit, Rules};
use larder_origin::{Address, Balance, Group, Keepalive, Server};
use larder_vcl::parameters::Parameters;
use larder_vcl::policy::{self, Endpoint};

use sha2::{Digest, Sha256};

use crate::objects::Objects;
use crate::probes::Probed;
use crate::request::response_fields;
use crate::site::*;
use crate::target::addresses;
use crate::ways::Way;

use super::Builder;
use super::origins::{retry_rules, targets};

/// How many idle connections a backend keeps.
const KEPT_MAX: usize = 64;
/// The most bytes of the head of an answer: `http_resp_size`.
const HEAD_BYTES: usize = 32 * 1024;

/// What answers at a location with a VCL. `own` is what answers without it.
///
/// `name` is the location itself, or that around a block of an `if`.
pub fn handler(
    builder: &mut Builder,
    location: &model::Location,
    name: &model::Location,
    http: &model::Http,
    own: Handler,
) -> Handler {
    let settings = &location.settings.modules.vcl;
    let Some(file) = &settings.file else { return own };
    let Some(vcl) = builder.origins.material.vcl(&file.value).cloned() else {
        builder.error(format!("the VCL \"{}\" was not read", file.value.display()), file.span);
        return own;
    };
    let Some(labelled) = labelled(builder, settings, &vcl) else { return own };
    let all = || std::iter::once(&vcl).chain(labelled.iter().map(|(_, vcl)| vcl));
    let keeps_bodies = all().any(|vcl| vcl.keeps_bodies());
    let own = match own {
        Handler::Origin(origin) => Some(origin.backend),
        Handler::Static if location.says_where_files_are() || location.answers_by_itself() => {
            Some(Arc::new(files(keeps_bodies)))
        }
        Handler::Static if all().all(|vcl| vcl.policy.default_backend.is_some()) => None,
        // What no location of a server takes.
        Handler::Static if matches!(location.matcher, model::Matcher::Root) => return Handler::Static,
        Handler::Static => {
            let message = "a VCL without a backend needs something behind it: give the location a \"root\" of files or a \
                           \"proxy_pass\", or the VCL a backend; \"vcl off;\" takes the VCL away";
            builder.error(message, if location.span == Span::NOWHERE { file.span } else { location.span });
            return Handler::Static;
        }
        // What larder answers by itself has nothing to cache.
        other => return other,
    };
    let parts = Parts {
        parameters: Arc::new(parameters(builder, settings)),
        names: Arc::new(names(settings, &builder.site.hostname)),
        zone: zone(builder, location),
        targets: match location.settings.caching.mode {
            model::CacheMode::Nginx => None,
            model::CacheMode::Rfc9111 { .. } => Some(targets(&location.settings)),
        },
        place: place(builder, location, name),
        keeps_bodies,
        own,
        location,
        http,
        span: file.span,
    };
    let mut labels = Vec::with_capacity(labelled.len());
    let mut next = parts.places(&vcl);
    for (_, vcl) in &labelled {
        labels.push(next);
        next += parts.places(vcl);
    }
    let mut origins: Vec<Origin> = Vec::with_capacity(next);
    parts.add(builder, &vcl, labels.into(), &mut origins);
    use_vcl(builder, settings, &file.value, &vcl);
    for (file, vcl) in &labelled {
        // Only the VCL of the location gives requests to others.
        parts.add(builder, vcl, Arc::default(), &mut origins);
        use_vcl(builder, settings, file, vcl);
    }
    // What has a label is ready to be given requests: its backends are probed.
    for (_, file) in &settings.labels {
        if let Some(vcl) = builder.origins.material.vcl(&file.value).cloned() {
            use_vcl(builder, settings, &file.value, &vcl);
        }
    }
    Handler::Vcl(origins.into())
}

/// The files of a location, as an origin.
fn files(keeps_bodies: bool) -> Backend {
    let mut model = OriginSettings::default();
    model.request.buffering = keeps_bodies;
    let mut made = Backend {
        target: Target::Files,
        protocol: Protocol::Http(http_parts(Bytes::new(), ProxyProtocol::Off)),
        bind: None,
        limit_rate: None,
        settings: shared(model),
        prepared_by: None,
        is_rfc9111: false,
        gating: Gating::default(),
    };
    made.prepared_by = response_fields::prepared_rules(&made, false);
    made
}

/// The VCLs of the labels that a VCL names, with their files; `None` after an error.
fn labelled(builder: &mut Builder, settings: &model::VclSettings, vcl: &Vcl) -> Option<Vec<(PathBuf, Arc<Vcl>)>> {
    let span = settings.file.as_ref()?.span;
    let mut found = Vec::with_capacity(vcl.policy.labels.len());
    for label in &vcl.policy.labels {
        let Some(file) = settings.labelled(label) else {
            let message = format!("the VCL names the label \"{label}\", which this location does not have");
            let help = format!("write \"vcl_label {label} FILE;\" there or in a block around it");
            builder.diagnostics.push(*larder_conf::Diagnostic::error(message).at(span).help(help));
            return None;
        };
        let Some(vcl) = builder.origins.material.vcl(&file.value).cloned() else {
            builder.error(format!("the VCL \"{}\" was not read", file.value.display()), file.span);
            return None;
        };
        found.push((file.value.clone(), vcl));
    }
    Some(found)
}

/// What the VCLs of a location have in common.
struct Parts<'a> {
    parameters: Arc<Parameters>,
    names: Arc<VclNames>,
    zone: Option<usize>,
    targets: Option<Arc<[Box<str>]>>,
    /// What each key ends with.
    place: Arc<[u8]>,
    /// Whether one of them reads bodies of requests: which one answers is not known before the first sub.
    keeps_bodies: bool,
    /// What answers at the location without a VCL.
    own: Option<Arc<Backend>>,
    /// What asks groups of servers as it asks its own.
    location: &'a model::Location,
    http: &'a model::Http,
    span: Span,
}

impl Parts<'_> {
    /// How many origins a VCL has.
    fn places(&self, vcl: &Vcl) -> usize {
        vcl.policy.backends.len() + usize::from(self.own.is_some())
    }

    /// Adds the backends of a VCL to the origins of the location, and behind them what answers without it.
    fn add(&self, builder: &mut Builder, vcl: &Arc<Vcl>, labels: Arc<[usize]>, origins: &mut Vec<Origin>) {
        let backends = &vcl.policy.backends;
        let default_backend = match &self.own {
            Some(_) => Some(backends.len()),
            // One that is declared to be `none` is no backend.
            None => vcl.policy.default_backend.map(|id| id.0).filter(|at| backends[*at].endpoint.is_some()),
        };
        let first = origins.len();
        let policy = || {
            Policy::Vcl(VclPolicy {
                vcl: Arc::clone(vcl),
                parameters: Arc::clone(&self.parameters),
                names: Arc::clone(&self.names),
                zone: self.zone,
                targets: self.targets.clone(),
                place: Arc::clone(&self.place),
                default_backend,
                first,
                labels: Arc::clone(&labels),
            })
        };
        for (number, backend) in backends.iter().enumerate() {
            let backend = match &backend.endpoint {
                Some(Endpoint::Upstream(name)) => self.upstream(builder, name, number, vcl),
                Some(Endpoint::Tcp { .. } | Endpoint::Unix(_)) | None => {
                    Arc::new(origin(builder, (number, backend), vcl, self))
                }
            };
            origins.push(Origin { backend, policy: policy() });
        }
        origins.extend(self.own.iter().map(|own| Origin { backend: Arc::clone(own), policy: policy() }));
    }
}

impl Parts<'_> {
    /// A group of servers, which is asked as the location's own `fastcgi_pass` or `proxy_pass` would be; without either,
    /// by HTTP.
    fn upstream(&self, builder: &mut Builder, name: &str, number: usize, vcl: &Vcl) -> Arc<Backend> {
        let pass = |url: &str| larder_conf::literal(url, self.span);
        let group = builder.site.origins.names.get(name).copied();
        if let Some(group) = group.and_then(|group| builder.site.origins.groups.get(group)) {
            vcl.objects.directors.is_group(number, group);
        }
        let handler = match (&self.location.handler, &self.own) {
            (model::Handler::FastCgi(_), _) => builder.fastcgi(&pass(name), &self.location.settings, self.http),
            (model::Handler::Proxy(_), Some(own)) => {
                let scheme = match own.scheme() {
                    Scheme::Http => "http",
                    Scheme::Https => "https",
                };
                builder.proxy(&pass(&format!("{scheme}://{name}")), self.location, self.http)
            }
            _ => builder.proxy(&pass(&format!("http://{name}")), self.location, self.http),
        };
        match handler {
            Handler::Origin(origin) => origin.backend,
            _ => unreachable!("a pass without variables is an origin"),
        }
    }
}

/// Notes a VCL that is used, unless that has been done, with its backends that are probed.
fn use_vcl(builder: &mut Builder, settings: &model::VclSettings, file: &Path, vcl: &Arc<Vcl>) {
    if builder.site.origins.vcls.iter().any(|used| Arc::ptr_eq(&used.vcl, vcl)) {
        return;
    }
    let log = &builder.site.logs.main;
    let probed = vcl.policy.backends.iter().enumerate().filter_map(|(number, backend)| {
        let way = Way::to(backend, &vcl.policy, &address)?;
        let probe = vcl.policy.probe_of(backend)?;
        Some(Probed::new(Arc::clone(&vcl.objects), (number, backend), probe, way, log.clone()))
    });
    let probed = probed.collect();
    builder.site.origins.vcls.push(UsedVcl {
        file: file.to_owned(),
        name: settings.name_of(file).into(),
        vcl: Arc::clone(vcl),
        probed,
    });
}

/// Goes on with what is known about the backends of `old`, and returns what is known from now on. A VCL that was not
/// there before goes on with what the others know of the same backends.
pub fn take_over(used: &[UsedVcl], old: &HashMap<PathBuf, Arc<Objects>>) -> HashMap<PathBuf, Arc<Objects>> {
    let mut known = HashMap::new();
    for UsedVcl { file, vcl, .. } in used {
        let directors = &vcl.objects.directors;
        match old.get(file) {
            Some(old) if Arc::ptr_eq(old, &vcl.objects) => {}
            Some(old) => directors.take_over(&old.directors),
            None => old.values().for_each(|old| directors.learn_from(&old.directors)),
        }
        known.insert(file.clone(), Arc::clone(&vcl.objects));
    }
    known
}

fn names(settings: &model::VclSettings, hostname: &str) -> VclNames {
    let identity = settings.identity.as_deref().unwrap_or(hostname);
    VclNames {
        via: format!("1.1 {identity} (larder/{})", env!("CARGO_PKG_VERSION")).into_bytes().into(),
        identity: identity.into(),
        endpoints: settings
            .endpoints
            .iter()
            .map(|(name, address)| (name.as_str().into(), address.as_str().into()))
            .collect(),
    }
}

fn parameters(builder: &mut Builder, settings: &model::VclSettings) -> Parameters {
    let mut parameters = Parameters::default();
    for (name, value) in &settings.parameters {
        if let Err(why) = parameters.set(&name.value, value) {
            builder.error(why, name.span);
        }
    }
    let age = Duration::try_from_secs_f64(parameters.ban_lurker_age).unwrap_or(Duration::MAX);
    let least = &mut builder.site.caches.lurker_age;
    *least = Some(least.map_or(age, |least| least.min(age)));
    parameters
}

/// Refuses `vcl_raw_requests` where a path that has no normal form could lead past a rule, or out of a folder: it is for a
/// server whose only location is `/`, without rewrites, and where backends of a VCL answer.
pub fn check_raw(builder: &mut Builder, server: &model::Server) {
    let vcl = &server.root.settings.modules.vcl;
    let (Some(file), true) = (&vcl.file, vcl.raw_requests) else { return };
    let is_plain = |location: &model::Location| {
        matches!(&location.matcher, model::Matcher::Prefix { path, .. } if path == "/")
            && location.locations.is_empty()
            && matches!(location.handler, model::Handler::Static)
            && !location.says_where_files_are()
            && location.try_files.is_none()
            && location.script.is_empty()
            && location.settings.modules.vcl.file.is_some()
    };
    if !server.script.is_empty() || server.root.locations.len() != 1 || !server.root.locations.iter().all(is_plain) {
        let message = "\"vcl_raw_requests\" needs a server with one location, \"location / { }\", without rewrites, for which \
                       a backend of a VCL answers: a path that has no normal form could lead past other rules";
        builder.error(message, file.span);
    }
}

/// What keeps the pages of a location apart from those that another one has under the same URL: the name of its server, its
/// own, and what answers there. So whom one of them lets in sees no page of the other, and neither replaces the other's.
/// `larder varnishd` has one location.
fn place(builder: &Builder, location: &model::Location, name: &model::Location) -> Arc<[u8]> {
    if location.settings.modules.vcl.raw_requests {
        return Arc::default();
    }
    let server = builder.site.servers.last().map_or(&b""[..], |server| &server.name);
    let own = match &name.matcher {
        model::Matcher::Exact(path) => format!("= {path}"),
        model::Matcher::Prefix { path, .. } => path.clone(),
        model::Matcher::Regex(pattern) => format!("~ {}", pattern.source),
        model::Matcher::Named(name) => name.clone(),
        model::Matcher::Root => String::new(),
    };
    let behind = match &location.handler {
        model::Handler::Proxy(pass) | model::Handler::FastCgi(pass) => larder_conf::show_template(pass),
        _ => String::new(),
    };
    let digest = Sha256::digest([server, b"\0", own.as_bytes(), b"\0", behind.as_bytes()].concat());
    // Eight bytes are enough for the locations of one configuration.
    digest[..8].into()
}

/// The cache of the location: that of what answers there without the VCL.
fn zone(builder: &Builder, location: &model::Location) -> Option<usize> {
    let model = match &location.handler {
        model::Handler::FastCgi(_) => &location.settings.fastcgi.origin,
        _ => &location.settings.proxy.origin,
    };
    let name = larder_conf::as_literal(model.cache.zone.as_ref()?)?;
    builder.site.caches.names.get(name).copied()
}

/// A backend of a VCL, as an origin.
fn origin(builder: &mut Builder, (number, backend): (usize, &policy::Backend), vcl: &Vcl, parts: &Parts) -> Backend {
    let way = Way::to(backend, &vcl.policy, &address);
    if way.is_none() && backend.endpoint.is_some() {
        builder.warn(format!("the backend \"{}\" has no address: it counts as down", backend.name), parts.span);
    }
    let preamble = way.as_ref().map_or_else(Bytes::new, |way| way.preamble.clone());
    let servers = group_of(&mut builder.vcl_groups, backend, way);
    vcl.objects.directors.is_group(number, &servers);
    let origins = &mut builder.site.origins;
    let known = origins.groups.iter().position(|known| Arc::ptr_eq(known, &servers));
    let group = known.unwrap_or_else(|| {
        origins.groups.push(servers);
        origins.hash_by.push(HashBy::Nothing);
        origins.groups.len() - 1
    });
    let host: Box<[u8]> = backend.host_header.as_bytes().into();
    let mut made = Backend {
        target: Target::Group { group, host, uri: None },
        protocol: Protocol::Http(http_parts(preamble, proxy_protocol(backend))),
        bind: None,
        limit_rate: None,
        settings: settings(backend, parts),
        prepared_by: None,
        is_rfc9111: false,
        gating: Gating::default(),
    };
    made.prepared_by = response_fields::prepared_rules(&made, false);
    made
}

/// The group that a backend is. One of the same name and way is the same one, in another location, another VCL or the
/// last configuration: its connections are counted together, and idle ones stay.
fn group_of(groups: &mut Groups, backend: &policy::Backend, way: Option<Way>) -> Arc<Group> {
    let key = (backend.name.clone(), way.clone(), backend.max_connections);
    let new = || {
        let max_conns = backend.max_connections.and_then(|most| u32::try_from(most).ok()).unwrap_or(0);
        let server = way.map(|way| Server { max_conns, max_fails: 0, ..Server::new(way.address) });
        // How many wait, and how long, each VCL says for its requests.
        let rules = Rules { limit: Limit::Servers, queue_max: 0, timeout: None };
        let gate = (max_conns > 0).then(|| Gate::new(rules));
        let servers = server.into_iter().collect();
        Group::gated(backend.name.clone(), servers, Balance::RoundRobin, Keepalive::of(KEPT_MAX), gate)
    };
    let group = groups.used.get(&key).or_else(|| groups.kept.get(&key)).cloned().unwrap_or_else(new);
    groups.used.insert(key, Arc::clone(&group));
    group
}

/// The groups that backends of VCLs are.
#[derive(Default)]
pub struct Groups {
    /// Those of the last configuration.
    pub kept: KeptGroups,
    /// Those of this one.
    pub used: KeptGroups,
}

/// Groups by name, way and number of connections.
pub type KeptGroups = HashMap<(String, Option<Way>, Option<u64>), Arc<Group>>;

/// Where it listens. Of several addresses of a name the first counts, those of IPv4 before others, as in Varnish.
fn address(endpoint: &Endpoint) -> Option<Address> {
    match endpoint {
        // It has several, and is no way by itself.
        Endpoint::Upstream(_) => None,
        Endpoint::Unix(path) => Some(Address::Unix(path.into())),
        Endpoint::Tcp { host, port } => {
            let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
            let found = addresses(&format!("{host}:{port}"), None);
            let is_v4 = |address: &&Address| matches!(address, Address::Tcp(address) if address.is_ipv4());
            found.iter().find(is_v4).or(found.first()).cloned()
        }
    }
}

fn proxy_protocol(backend: &policy::Backend) -> ProxyProtocol {
    match backend.proxy_header {
        Some(1) => ProxyProtocol::V1,
        Some(_) => ProxyProtocol::V2,
        None => ProxyProtocol::Off,
    }
}

fn http_parts(preamble: Bytes, proxy_protocol: ProxyProtocol) -> HttpParts {
    HttpParts {
        is_written: true,
        preamble,
        set: super::origins::no_set_fields(),
        host_line: None,
        body: None,
        method: None,
        http_1_1: true,
        scheme: Scheme::Http,
        tls: None,
        proxy_protocol,
        redirects: Vec::new(),
        cookie_domains: Vec::new(),
        cookie_paths: Vec::new(),
        cookie_flags: Vec::new(),
    }
}

fn settings(backend: &policy::Backend, parts: &Parts) -> Arc<OriginShared> {
    let parameters = &parts.parameters;
    let span = |told: Option<Duration>, parameter: f64| told.unwrap_or_else(|| Duration::from_secs_f64(parameter));
    let mut model = OriginSettings::default();
    model.connection.connect_timeout = span(backend.connect_timeout, parameters.connect_timeout);
    model.connection.read_timeout = span(backend.first_byte_timeout, parameters.first_byte_timeout);
    // What a VCL keeps of a body is kept before its first sub.
    model.request.buffering = parts.keeps_bodies;
    model.buffers.head_bytes = HEAD_BYTES;
    // A kept connection that was closed meanwhile is replaced; there is no other backend to try.
    model.next_upstream =
        NextUpstreamSettings { on: NextUpstream { error: true, ..NextUpstream::default() }, tries: 0, timeout: None };
    shared(model)
}

/// Settings with what is derived from them. No field of an answer is for larder.
fn shared(mut model: OriginSettings) -> Arc<OriginShared> {
    model.ignore_headers = IgnoreHeaders::ALL;
    let retried = retry_rules(model.next_upstream.on);
    Arc::new(OriginShared { model, hidden: Vec::new(), hides: std::iter::empty::<&[u8]>().collect(), retried })
}
