//! Turns a configuration into running parts. Long because it visits every kind of block once, each in a short function.
//!
//! Reports the errors that the parser cannot see: a regular expression that does not compile, an unknown variable, a
//! missing zone or group. It reports all of them, not only the first.

mod acme;
mod modules;
mod names;
mod origins;
mod resolvers;
mod tags;
mod tls;
mod vcl;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use larder_conf::model::{self, Config, Matcher, Pattern, Rewrite, Settings, Template, TemplatePart};
use larder_conf::{Diagnostic, Severity, Span};
use larder_origin::Group;
use larder_origin::resolver::Resolver;

use crate::acme::AllIssued;
use crate::clock;
use crate::cluster;
use crate::counts::AllZones;
use crate::filter::charset::Charsets;
use crate::geo::Geo;
use crate::limit::{LimitConnZone, LimitReqZone};
use crate::log::main::MainLog;
use crate::map::{Map, MapError};
use crate::material::Material;
use crate::objects::Objects;
use crate::profile::Profile;
use crate::realip::Trusted;
use crate::regex::Regex;
use crate::request::added_fields;
use crate::resolvers::Followed;
use crate::site::*;
use crate::split::Split;
use crate::text::{Part, Text};
use crate::variable::{self, Var};
use crate::zones::ZonesKeeping;

/// What is kept from one configuration to the next.
#[derive(Default)]
pub struct Keeping {
    /// The cache zones.
    pub zones: ZonesKeeping,
    /// The main error log.
    pub main_log: MainLog,
    counted: AllZones,
    /// How many configurations there were.
    generation: u64,
    limit_reqs: HashMap<String, (u64, usize, Arc<LimitReqZone>)>,
    limit_conns: HashMap<String, (usize, Arc<LimitConnZone>)>,
    /// The groups whose names are being resolved, for the addresses known so far.
    followed: HashMap<String, Arc<Followed>>,
    /// What is known about the backends of VCLs, by the files of those.
    vcls: HashMap<PathBuf, Arc<Objects>>,
    vcl_groups: vcl::KeptGroups,
    /// The other groups, which have counted what the next ones go on with.
    groups: HashMap<String, Arc<Group>>,
    tls: tls::TlsKeeping,
}

impl Keeping {
    /// Nothing, but that so many configurations were served before.
    pub fn after(configurations: u32) -> Self {
        Self { generation: configurations.into(), ..Self::default() }
    }

    /// Certificates that larder orders itself.
    pub fn issued(&self) -> &AllIssued {
        &self.tls.issued
    }
}

/// What [`check`] finds.
#[derive(Debug, Default)]
pub struct Checked {
    /// What keeps the configuration from being served.
    pub errors: Vec<Diagnostic>,
    /// What is worth knowing.
    pub notices: Vec<Diagnostic>,
    /// The groups of origins, and whether each has a gate.
    pub gates: BTreeMap<String, bool>,
}

/// Checks a configuration that has been loaded.
pub fn check(config: &Config, material: &Material) -> Checked {
    let mut keeping = Keeping::default();
    let mut builder = Builder::new(config, keeping.main_log.clone());
    builder.build(config, material, &mut keeping);
    let mut found: Vec<Diagnostic> = Vec::new();
    for diagnostic in builder.diagnostics {
        // What several locations inherit is said once.
        if !found.contains(&diagnostic) {
            found.push(diagnostic);
        }
    }
    let (errors, notices) = found.into_iter().partition(|diagnostic| diagnostic.severity == Severity::Error);
    let mut gates = BTreeMap::new();
    for group in &builder.site.origins.groups {
        *gates.entry(group.name().to_owned()).or_default() |= group.gate().is_some();
    }
    Checked { errors, notices, gates }
}

/// Builds the running parts; zones of the same name are taken from `keeping` with their contents.
pub fn assemble(config: &Config, material: &Material, keeping: &mut Keeping) -> Result<Site, Vec<Diagnostic>> {
    let mut builder = Builder::new(config, keeping.main_log.clone());
    builder.vcl_groups.kept.clone_from(&keeping.vcl_groups);
    builder.counted_before = keeping.counted.clone();
    builder.groups_before.clone_from(&keeping.groups);
    builder.site.loaded.generation += keeping.generation;
    builder.build(config, material, keeping);
    let errors: Vec<_> =
        builder.diagnostics.into_iter().filter(|diagnostic| diagnostic.severity == Severity::Error).collect();
    if !errors.is_empty() {
        return Err(errors);
    }
    builder.gate_changes.into_iter().for_each(|(gate, rules)| gate.set_rules(rules));
    tags::tell_zones(&mut builder.site);
    let followed =
        builder.site.origins.followed.iter().map(|followed| (followed.group_name().to_owned(), Arc::clone(followed)));
    keeping.followed = followed.collect();
    keeping.vcl_groups = builder.vcl_groups.used;
    keeping.counted = builder.site.counted.clone();
    keeping.groups = builder.groups;
    keeping.generation = builder.site.loaded.generation;
    keeping.vcls = vcl::take_over(&builder.site.origins.vcls, &keeping.vcls);
    builder.site.caches.profiles = builder.profiles.into_iter().map(|(_, made)| made).collect();
    Ok(builder.site)
}

struct Builder {
    site: Site,
    diagnostics: Vec<Diagnostic>,
    slots: HashMap<String, usize>,
    error_logs: HashMap<Vec<ErrorLogKey>, usize>,
    groups_by_place: HashMap<String, usize>,
    resolvers: Vec<(Arc<model::Resolver>, Option<Arc<Resolver>>)>,
    /// Profiles as they were read, and as they were made of that.
    profiles: Vec<(Arc<model::Profile>, Arc<Profile>)>,
    /// The names of the server that is being assembled.
    server_names: Vec<model::ServerName>,
    origins: origins::Making,
    gates: origins::Wishes,
    /// Gates of the configuration before, with the rules of this one.
    gate_changes: origins::Changes,
    vcl_groups: vcl::Groups,
    /// The zones of the configuration before this.
    counted_before: AllZones,
    /// The groups by what names them, and those of that configuration.
    groups: HashMap<String, Arc<Group>>,
    /// What other larders have too.
    share: model::ClusterShare,
    groups_before: HashMap<String, Arc<Group>>,
}

/// The compiled settings that an inner level inherits.
struct Level {
    files: FileParts,
    access: AccessParts,
    pace: Pace,
    fields: FieldParts,
    error_pages: Vec<(Vec<u16>, model::ErrorPageStatus, Text)>,
    compression: CompressionParts,
    logs: LocLogs,
    resolver: Option<Arc<Resolver>>,
    modules: Modules,
}

type ErrorLogKey = (model::LogTarget, model::LogLevel);

impl Builder {
    fn new(config: &Config, main_log: MainLog) -> Self {
        let site = Site {
            servers: Vec::new(),
            locations: Vec::new(),
            listeners: Vec::new(),
            variables: Variables::default(),
            origins: Origins::default(),
            caches: Caches::default(),
            counted: AllZones::default(),
            limits: LimitZones::default(),
            logs: SiteLogs {
                access: Vec::new(),
                sinks: Vec::new(),
                error: vec![config.main.error_log.clone()],
                main: main_log,
            },
            charsets: Charsets::new(&config.http.charset_maps),
            acme: None,
            speaks_http2: false,
            prefix: config.main.prefix.clone(),
            conf_prefix: config.main.conf_prefix.clone(),
            hostname: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            shutdown_timeout: config.main.worker_shutdown_timeout,
            lines: Arc::clone(&config.lines),
            loaded: Loaded { generation: 1, at: clock::now() },
            certificates: Vec::new(),
        };
        Self {
            site,
            diagnostics: Vec::new(),
            slots: HashMap::new(),
            error_logs: HashMap::new(),
            groups_by_place: HashMap::new(),
            resolvers: Vec::new(),
            profiles: Vec::new(),
            server_names: Vec::new(),
            origins: origins::Making::default(),
            gates: origins::Wishes::default(),
            gate_changes: origins::Changes::new(),
            vcl_groups: vcl::Groups::default(),
            counted_before: AllZones::default(),
            groups: HashMap::new(),
            share: model::ClusterShare::nothing(),
            groups_before: HashMap::new(),
        }
    }

    fn build(&mut self, config: &Config, material: &Material, keeping: &mut Keeping) {
        let http = &config.http;
        self.origins.material = material.clone();
        self.declare_variables(http);
        self.zones(http, keeping);
        self.cluster(http, material);
        self.limit_zones(http, keeping);
        self.upstreams(http, keeping);
        self.maps(http);
        self.geos(http);
        self.splits(http);
        let orders = acme::orders(self, http);
        for (index, (server, order)) in http.servers.iter().zip(&orders).enumerate() {
            self.server(server, http);
            if server.listens.iter().any(|listen| listen.ssl) {
                self.site.servers[index].tls = tls::server(self, server, order.as_ref(), material, &mut keeping.tls);
            }
        }
        self.gate_changes = self.make_gates(material);
        self.site.acme = acme::plan(self, config.acme.as_ref(), orders, material);
        names::listeners(self, http);
        self.check_named_locations(http);
    }

    fn error(&mut self, message: impl Into<String>, span: Span) {
        self.diagnostics.push(*Diagnostic::error(message).at(span));
    }

    fn warn(&mut self, message: impl Into<String>, span: Span) {
        self.diagnostics.push(*Diagnostic::warning(message).at(span));
    }

    // Variables.

    /// Gives a slot to every variable that the configuration defines. This comes first, as a variable may be used
    /// before it is defined.
    fn declare_variables(&mut self, http: &model::Http) {
        for (index, map) in http.maps.iter().enumerate() {
            for entry in &map.entries {
                if let model::MapKey::Regex(pattern) = &entry.key {
                    self.declare_groups(pattern);
                }
            }
            self.declare(&map.variable, UserVarSource::Map(index));
        }
        for (index, geo) in http.geos.iter().enumerate() {
            self.declare(&geo.variable, UserVarSource::Geo(index));
        }
        for (index, split) in http.splits.iter().enumerate() {
            self.declare(&split.variable, UserVarSource::Split(index));
        }
        for server in &http.servers {
            for name in &server.names {
                if let model::ServerName::Regex(pattern) = &name.value {
                    self.declare_groups(pattern);
                }
            }
            self.declare_script(&server.script);
            self.declare_location(&server.root);
        }
    }

    fn declare_location(&mut self, location: &model::Location) {
        if let Matcher::Regex(pattern) = &location.matcher {
            self.declare_groups(pattern);
        }
        for rule in &location.settings.proxy.cookie_domains {
            self.declare_rewriting(&rule.0);
        }
        for rule in &location.settings.proxy.cookie_paths {
            self.declare_rewriting(&rule.0);
        }
        for rule in &location.settings.proxy.cookie_flags {
            self.declare_rewriting(&rule.0);
        }
        if let model::ProxyRedirect::Rules(rules) = &location.settings.proxy.redirect {
            for rule in rules {
                if let model::ProxyRedirectRule::Replace(find, _) = rule {
                    self.declare_rewriting(find);
                }
            }
        }
        for (name, _) in &location.settings.subrequests.auth_request_set {
            if !matches!(name.as_str(), "args" | "limit_rate") {
                self.declare_set(name);
            }
        }
        self.declare_script(&location.script);
        for inside in &location.locations {
            self.declare_location(inside);
        }
        if let Some(except) = &location.limit_except {
            self.declare_location(&except.location);
        }
    }

    fn declare_rewriting(&mut self, find: &model::Rewriting) {
        if let model::Rewriting::Regex(pattern) = find {
            self.declare_groups(pattern);
        }
    }

    fn declare_script(&mut self, script: &[Rewrite]) {
        for op in script {
            match op {
                // `set` writes these two directly, without a slot.
                Rewrite::Set { name, .. } if matches!(name.as_str(), "args" | "limit_rate") => {}
                Rewrite::Set { name, .. } => {
                    self.declare_set(name);
                }
                Rewrite::If { condition, script, location } => {
                    if let model::Condition::Match { pattern, .. } = condition {
                        self.declare_groups(pattern);
                    }
                    self.declare_script(script);
                    if let Some(location) = location {
                        self.declare_location(location);
                    }
                }
                Rewrite::Rewrite { pattern, .. } => self.declare_groups(pattern),
                Rewrite::Return { .. } | Rewrite::Break => {}
            }
        }
    }

    /// Declares a variable of `set`.
    fn declare_set(&mut self, name: &str) -> usize {
        let slot = self.declare(name, UserVarSource::Set);
        self.site.variables.slots[slot].otherwise = variable::built_in(&self.site.variables.slots[slot].name);
        slot
    }

    /// Declares the named groups of an expression as variables. An expression that does not compile is reported where
    /// it is used.
    fn declare_groups(&mut self, pattern: &Pattern) {
        if !pattern.source.contains("(?") {
            return;
        }
        if let Ok(regex) = Regex::new(&pattern.source, pattern.caseless) {
            for (_, name) in regex.names() {
                self.declare(name, UserVarSource::Set);
            }
        }
    }

    fn declare(&mut self, name: &str, source: UserVarSource) -> usize {
        let name = name.to_ascii_lowercase();
        if let Some(&slot) = self.slots.get(&name) {
            // A `map` of that name wins over a `set`, which only overrides its value.
            if self.site.variables.slots[slot].source == UserVarSource::Set {
                self.site.variables.slots[slot].source = source;
            }
            return slot;
        }
        let slot = self.site.variables.slots.len();
        self.site.variables.slots.push(UserVar { name: name.clone(), source, otherwise: None });
        self.slots.insert(name, slot);
        slot
    }

    fn variable(&mut self, name: &str, span: Span) -> Option<Var> {
        if let Some(&slot) = self.slots.get(name) {
            return Some(Var::Slot(slot));
        }
        if let Some(var) = variable::built_in(name) {
            return Some(var);
        }
        let known = variable::names().chain(self.slots.keys().map(String::as_str));
        let near = larder_conf::nearest(name, known);
        let mut diagnostic = Diagnostic::error(format!("unknown \"{name}\" variable")).at(span);
        if let Some(near) = near {
            diagnostic = diagnostic.help(format!("did you mean \"${near}\"?"));
        }
        self.diagnostics.push(*diagnostic);
        None
    }

    fn text(&mut self, template: &Template) -> Text {
        let mut parts = Vec::with_capacity(template.parts.len());
        for part in &template.parts {
            match part {
                TemplatePart::Literal(text) => parts.push(Part::Literal(text.as_bytes().into())),
                TemplatePart::Capture(n) => parts.push(Part::Capture(*n)),
                TemplatePart::Variable(name) => {
                    if let Some(var) = self.variable(name, template.span) {
                        parts.push(Part::Var(var));
                    }
                }
            }
        }
        Text::new(parts)
    }

    fn texts(&mut self, templates: &[Template]) -> Vec<Text> {
        templates.iter().map(|template| self.text(template)).collect()
    }

    fn maybe(&mut self, template: Option<&Template>) -> Option<Text> {
        template.map(|template| self.text(template))
    }

    /// Compiles an expression whose named groups set variables.
    fn regex(&mut self, pattern: &Pattern) -> Option<NamedRegex> {
        let regex = self.compile(pattern)?;
        let names = regex.names().to_vec();
        let slots = names.into_iter().map(|(group, name)| (group, self.declare(&name, UserVarSource::Set))).collect();
        Some(NamedRegex { regex, slots })
    }

    /// Compiles an expression whose groups are read by number only.
    fn compile(&mut self, pattern: &Pattern) -> Option<Regex> {
        match Regex::new(&pattern.source, pattern.caseless) {
            Ok(regex) => Some(regex),
            Err(error) => {
                self.error(
                    format!("the regular expression \"{}\" does not compile: {error}", pattern.source),
                    pattern.span,
                );
                None
            }
        }
    }

    // Blocks of http.

    fn zones(&mut self, http: &model::Http, keeping: &mut Keeping) {
        for (name, zone) in keeping.zones.zones(http) {
            self.site.caches.names.insert(name, self.site.caches.zones.len());
            self.site.counted.caches.place(zone.name(), &self.counted_before.caches);
            self.site.caches.zones.push(zone);
        }
        self.site.counted.caches.place("", &self.counted_before.caches);
        self.site.counted.tls = Arc::clone(&self.counted_before.tls);
    }

    fn cluster(&mut self, http: &model::Http, material: &Material) {
        let Some(cluster) = &http.cluster else { return };
        let ca = match &cluster.ca {
            None => None,
            Some(file) => {
                let Some(_) = tls::authorities(self, Some(file), "trusted certificate", material) else { return };
                tls::read(self, file, "trusted certificate", material)
            }
        };
        self.site.caches.cluster = Some(cluster::settings(cluster, ca));
        self.share = cluster.share;
        self.site.caches.shares_limits = cluster.share.limits;
        self.site.caches.shares_certificates = cluster.share.acme;
    }

    fn limit_zones(&mut self, http: &model::Http, keeping: &mut Keeping) {
        for zone in &http.limit_req_zones {
            let name = zone.name.value.clone();
            let state = match keeping.limit_reqs.get(&name) {
                Some((rate, bytes, state)) if *rate == zone.rate_milli && *bytes == zone.bytes => Arc::clone(state),
                _ => Arc::new(LimitReqZone::new(zone.bytes, zone.rate_milli)),
            };
            keeping.limit_reqs.insert(name.clone(), (zone.rate_milli, zone.bytes, Arc::clone(&state)));
            let key = self.text(&zone.key);
            self.site.limits.requests.push(LimitPart { name, key, state });
        }
        for zone in &http.limit_conn_zones {
            let name = zone.name.value.clone();
            let state = match keeping.limit_conns.get(&name) {
                Some((bytes, state)) if *bytes == zone.bytes => Arc::clone(state),
                _ => Arc::new(LimitConnZone::new(zone.bytes)),
            };
            keeping.limit_conns.insert(name.clone(), (zone.bytes, Arc::clone(&state)));
            let key = self.text(&zone.key);
            self.site.limits.connections.push(LimitPart { name, key, state });
        }
    }

    fn maps(&mut self, http: &model::Http) {
        for map in &http.maps {
            let source = self.text(&map.source);
            let mut regexes = Vec::new();
            for entry in &map.entries {
                if let model::MapKey::Regex(pattern) = &entry.key
                    && let Some(regex) = self.regex(pattern)
                {
                    regexes.push(regex);
                }
            }
            let values = map.entries.iter().map(|entry| self.text(&entry.value)).collect();
            let default = self.maybe(map.default.as_ref()).unwrap_or_default();
            let table = match Map::new(map.hostnames, map.entries.iter().map(|entry| &entry.key)) {
                Ok(table) => table,
                Err(error) => {
                    let (MapError::Invalid { entry, .. } | MapError::Conflict { entry, .. }) = &error;
                    let span = map.entries.get(*entry).map_or(map.span, |entry| entry.span);
                    self.error(error.to_string(), span);
                    Map::default()
                }
            };
            let span = map.default.as_ref().map_or(map.span, |default| default.span);
            let (spans, volatile) = (map.entries.iter().map(|entry| entry.span).collect(), map.volatile);
            self.site.variables.maps.push(MapPart { source, table, regexes, values, default, volatile, spans, span });
        }
    }

    fn geos(&mut self, http: &model::Http) {
        for geo in &http.geos {
            let source = self.maybe(geo.source.as_ref());
            let values = geo.nets.iter().map(|(_, value)| value).chain(geo.ranges.iter().map(|(_, _, value)| value));
            let values = values.map(|value| value.as_bytes().into()).collect();
            self.site.variables.geos.push(GeoPart {
                source,
                table: Geo::new(geo),
                values,
                default: geo.default.as_bytes().into(),
                span: geo.span,
                proxies: (!geo.proxies.is_empty()).then(|| Trusted::nets(geo.proxies.clone())),
                recursive: geo.proxy_recursive,
                volatile: geo.volatile,
            });
        }
    }

    fn splits(&mut self, http: &model::Http) {
        for split in &http.splits {
            let source = self.text(&split.source);
            let values = split.parts.iter().map(|(_, value)| self.text(value)).collect();
            self.site.variables.splits.push(SplitPart {
                source,
                table: Split::new(split.parts.iter().map(|(share, _)| *share)),
                values,
            });
        }
    }

    // Servers and locations.

    fn server(&mut self, server: &model::Server, http: &model::Http) {
        let index = self.site.servers.len();
        self.server_names = server.names.iter().map(|name| name.value.clone()).collect();
        let mut named = HashMap::new();
        let vcl = &server.root.settings.modules.vcl;
        vcl::check_raw(self, server);
        self.site.servers.push(VirtualServer {
            name: server.first_name.as_bytes().into(),
            host: server.host.as_deref().map(Box::from),
            root: 0,
            locations: 0..0,
            named: HashMap::new(),
            zone: server
                .status_zone
                .as_ref()
                .map(|name| self.site.counted.servers.place(name, &self.counted_before.servers)),
            client: server.client.clone(),
            unfolds: vcl.file.is_some(),
            takes_raw: vcl.file.is_some() && vcl.raw_requests,
            http2: server.http2,
            verify: tls::verify_mode(server.tls.verify_client),
            judge: Arc::new(tls::client_judge(&server.tls)),
            tls: None,
        });
        let first = self.site.locations.len();
        let root = self.location(&server.root, None, http, &mut named);
        let script = self.script(&server.script, None, http, &mut named);
        self.site.locations[root].script = script;
        self.site.servers[index].root = root;
        self.site.servers[index].named = named;
        self.site.servers[index].locations = first..self.site.locations.len();
    }

    /// Assembles a location and those inside it. `around` is the location that contains this `if` or `limit_except`
    /// block, which takes its name.
    fn location(
        &mut self,
        location: &model::Location,
        around: Option<&model::Location>,
        http: &model::Http,
        named: &mut HashMap<Box<[u8]>, usize>,
    ) -> usize {
        let name = around.unwrap_or(location);
        let script = self.script(&location.script, Some(name), http, named);
        let handler = self.handler(location, http);
        let handler = vcl::handler(self, location, name, http, handler);
        let level = self.level(&location.settings, http);
        let try_files = location.try_files.as_ref().map(|tries| self.try_files(tries));
        let alias = self.maybe(location.alias.as_ref());
        let auth_request = self.auth_request(&location.settings);
        let limit_except = location
            .limit_except
            .as_ref()
            .map(|except| (except.methods.clone(), self.location(&except.location, Some(name), http, named)));
        let matching = matching(location, name, &handler);
        let zone = location.settings.modules.status_zone.as_ref();
        let zone = zone.map(|name| self.site.counted.locations.place(name, &self.counted_before.locations));
        let Level { files, access, pace, fields, error_pages, compression, logs, resolver, modules } = level;
        let loc = Loc {
            matching,
            settings: Arc::clone(&location.settings),
            handler,
            script,
            try_files,
            files: FileParts { alias, alias_replaces: location.alias_replaces, ..files },
            access: AccessParts { limit_except, ..access },
            subrequests: Subrequests {
                composing: Self::composing(&location.settings),
                auth_request,
                mirrors: location.settings.subrequests.mirrors.iter().map(|uri| uri.as_bytes().into()).collect(),
            },
            pace,
            fields,
            error_pages,
            compression,
            logs,
            resolver,
            modules,
            profile: self.profile(&location.settings.profile),
            zone,
        };
        let index = self.site.locations.len();
        self.site.locations.push(loc);
        if let Matcher::Named(name) = &location.matcher {
            named.insert(name.as_bytes().into(), index);
        }
        let tree = self.tree(&location.locations, http, named);
        self.site.locations[index].matching.inside = tree;
        index
    }

    /// The profile of a location; locations that inherit the same one share it.
    fn profile(&mut self, profiled: &model::Profiled) -> Option<Arc<Profile>> {
        let model = profiled.profile.as_ref()?;
        if let Some((_, made)) = self.profiles.iter().find(|(known, _)| Arc::ptr_eq(known, model)) {
            return Some(Arc::clone(made));
        }
        let made = Arc::new(Profile::new(model));
        self.profiles.push((Arc::clone(model), Arc::clone(&made)));
        Some(made)
    }

    /// Sorts the locations inside one by how they are found.
    fn tree(
        &mut self,
        locations: &[model::Location],
        http: &model::Http,
        named: &mut HashMap<Box<[u8]>, usize>,
    ) -> Tree {
        let mut tree = Tree::default();
        for inside in locations {
            let place = self.location(inside, None, http, named);
            match &inside.matcher {
                Matcher::Exact(path) => {
                    if self.site.locations[place].matching.auto_redirect {
                        tree.slashes.push((path.as_bytes().into(), place));
                    }
                    tree.exact.insert(path.as_bytes().into(), place);
                }
                Matcher::Prefix { path, .. } => tree.prefixes.push((path.as_bytes().into(), place)),
                Matcher::Regex(pattern) => {
                    if let Some(regex) = self.regex(pattern) {
                        tree.regexes.push((regex, place));
                    }
                }
                Matcher::Named(_) | Matcher::Root => {}
            }
        }
        tree.prefixes.sort_by(|(a, _), (b, _)| b.len().cmp(&a.len()).then(a.cmp(b)));
        tree
    }

    fn handler(&mut self, location: &model::Location, http: &model::Http) -> Handler {
        match &location.handler {
            model::Handler::Static => Handler::Static,
            model::Handler::Mp4 => Handler::Mp4,
            model::Handler::Flv => Handler::Flv,
            model::Handler::StubStatus => Handler::StubStatus,
            model::Handler::Metrics => Handler::Metrics,
            model::Handler::Admin => Handler::Admin,
            model::Handler::Status => Handler::Status,
            model::Handler::EmptyGif => Handler::EmptyGif,
            model::Handler::Purge { zone, key, by } => match self.site.caches.names.get(&zone.value) {
                Some(&zone) => {
                    Handler::Purge { zone, key: self.maybe(key.as_ref()), by: by.as_ref().map(origins::method_purge) }
                }
                None => {
                    self.error(format!("cache zone \"{}\" is unknown", zone.value), zone.span);
                    Handler::Static
                }
            },
            model::Handler::FastCgi(pass) => self.fastcgi(pass, &location.settings, http),
            model::Handler::Proxy(pass) => self.proxy(pass, location, http),
        }
    }

    fn try_files(&mut self, tries: &model::TryFiles) -> TryFiles {
        let files = tries.files.iter().map(|file| {
            let mut file = file.clone();
            let wants_directory = strip_slash(&mut file);
            (self.text(&file), wants_directory)
        });
        let files = files.collect();
        let fallback = match &tries.fallback {
            model::TryFallback::Status(status) => TryFallback::Status(*status),
            model::TryFallback::Named(name) => TryFallback::Named(name.value.as_bytes().into()),
            model::TryFallback::Uri(uri) => TryFallback::Uri(self.text(uri)),
        };
        TryFiles { files, fallback }
    }

    fn script(
        &mut self,
        script: &[Rewrite],
        around: Option<&model::Location>,
        http: &model::Http,
        named: &mut HashMap<Box<[u8]>, usize>,
    ) -> Vec<Op> {
        let mut ops = Vec::with_capacity(script.len());
        for op in script {
            match op {
                Rewrite::Set { name, value } => {
                    let Some(target) = self.target(name, value.span) else { continue };
                    ops.push(Op::Set(target, self.text(value), value.span));
                }
                Rewrite::If { condition, script, location } => {
                    let written = Box::new(Written::of(condition));
                    let Some(condition) = self.condition(condition) else { continue };
                    let inside = self.script(script, around, http, named);
                    let location = location.as_ref().map(|location| self.location(location, around, http, named));
                    ops.push(Op::If(condition, inside, location, written));
                }
                Rewrite::Rewrite { pattern, replacement, append_args, flag } => {
                    let Some(regex) = self.regex(pattern) else { continue };
                    let replacement = self.text(replacement);
                    ops.push(Op::Rewrite(Box::new(RewriteOp {
                        regex,
                        replacement,
                        append_args: *append_args,
                        flag: *flag,
                        span: pattern.span,
                    })));
                }
                Rewrite::Return { status, text, span } => {
                    ops.push(Op::Return(*status, self.maybe(text.as_ref()), *span));
                }
                Rewrite::Break => ops.push(Op::Break),
            }
        }
        ops
    }

    /// What `set` or `auth_request_set` changes.
    fn target(&mut self, name: &str, span: Span) -> Option<SetTarget> {
        match name {
            "args" => Some(SetTarget::Args),
            "limit_rate" => Some(SetTarget::LimitRate),
            _ if !variable::may_be_set(name) && !variable::is_changeable(name) && !self.is_made_by_blocks(name) => {
                self.error(format!("the duplicate \"{name}\" variable"), span);
                None
            }
            _ => Some(SetTarget::Slot(self.declare(name, UserVarSource::Set))),
        }
    }

    fn composing(settings: &Settings) -> Option<Box<Composing>> {
        let subrequests = &settings.subrequests;
        let path = |path: &Option<String>| path.as_ref().map(|path| path.as_bytes().into());
        let around = Around { before: path(&subrequests.before_body), after: path(&subrequests.after_body) };
        let composes = subrequests.ssi.enabled || around.before.is_some() || around.after.is_some();
        composes.then(|| Box::new(Composing { ssi: subrequests.ssi.enabled, around }))
    }

    fn auth_request(&mut self, settings: &Settings) -> Option<Box<AuthRequest>> {
        let uri = settings.subrequests.auth_request.as_ref()?.as_bytes().into();
        let mut sets = Vec::new();
        for (name, value) in &settings.subrequests.auth_request_set {
            if let Some(target) = self.target(name, value.span) {
                sets.push((target, self.text(value)));
            }
        }
        Some(Box::new(AuthRequest { uri, sets }))
    }

    fn is_made_by_blocks(&self, name: &str) -> bool {
        self.slots.get(name).is_some_and(|&slot| self.site.variables.slots[slot].source != UserVarSource::Set)
    }

    fn condition(&mut self, condition: &model::Condition) -> Option<Condition> {
        Some(match condition {
            model::Condition::True(text) => Condition::True(self.text(text)),
            model::Condition::Equal { left, right, negate } => {
                Condition::Equal(self.text(left), self.text(right), *negate)
            }
            model::Condition::Match { left, pattern, negate } => {
                Condition::Match(self.text(left), self.regex(pattern)?, *negate)
            }
            model::Condition::File { test, path, negate } => Condition::File(*test, self.text(path), *negate),
        })
    }

    /// Compiles the settings of a level that inner levels inherit.
    fn level(&mut self, settings: &Settings, http: &model::Http) -> Level {
        let expires = match &settings.fields.expires {
            Some(model::Expires::Variable(text, _)) => Some(self.text(text)),
            _ => None,
        };
        let auth_basic = settings
            .access
            .auth_basic
            .as_ref()
            .map(|realm| (self.text(realm), self.maybe(settings.access.auth_basic_user_file.as_ref())));
        let add_headers = self.added(&settings.fields.add_headers);
        let access_logs: Vec<_> = settings.logs.access.iter().filter_map(|log| self.access_log(log, http)).collect();
        let edits = Edits {
            request: self.edits(&settings.fields.edits.request),
            response: self.edits(&settings.fields.edits.response),
        };
        let tells_cache = settings.fields.cache_status || !settings.fields.explain_from.is_empty();
        let reads_fields = self.reads_fields(&edits, &add_headers, &access_logs);
        let files = self.files(settings);
        self.site.charsets.are_used |= settings.modules.charset.name.is_some();
        let charset = self.maybe(settings.modules.charset.name.as_ref());
        let pace = Pace {
            limit_rate: self.maybe(settings.limits.rate.as_ref()).filter(|text| text.constant() != Some(b"0")),
            limit_rate_after: self.maybe(settings.limits.rate_after.as_ref()),
        };
        let resolver = settings.resolving.resolver.as_ref().and_then(|resolver| self.resolver(resolver));
        let pages = settings.errors.pages.iter();
        let error_pages = pages.map(|page| (page.statuses.clone(), page.answer, self.text(&page.target))).collect();
        let add_trailers = self.added(&settings.fields.add_trailers);
        let logs = LocLogs { access: access_logs, error: self.error_log(&settings.logs.error) };
        let limit_reqs = settings.limits.req.zones.iter();
        let limit_reqs =
            limit_reqs.filter_map(|limit| Some((self.limit_req(limit)?, limit.burst, limit.delay))).collect();
        let limit_conns = settings.limits.conn.zones.iter();
        let limit_conns = limit_conns.filter_map(|(zone, most)| Some((self.limit_conn(zone)?, *most))).collect();
        Level {
            files,
            access: AccessParts { limit_except: None, auth_basic, limit_reqs, limit_conns },
            pace,
            fields: FieldParts { charset, add_headers, add_trailers, edits, expires, reads_fields, tells_cache },
            error_pages,
            compression: self.compression(&settings.compression),
            logs,
            resolver,
            modules: modules::parts(self, settings),
        }
    }

    fn files(&mut self, settings: &Settings) -> FileParts {
        let links = match &settings.files.disable_symlinks {
            model::DisableSymlinks::Off => None,
            model::DisableSymlinks::On { from } | model::DisableSymlinks::IfNotOwner { from } => from.as_ref(),
        };
        FileParts {
            root: self.text(&settings.files.root),
            alias: None,
            alias_replaces: None,
            index: self.texts(&settings.files.index),
            links_from: self.maybe(links),
        }
    }

    fn compression(&mut self, config: &model::Compression) -> CompressionParts {
        let disabled = config.gzip.disable.iter();
        let gzip_disable = disabled.filter_map(|disable| match disable {
            model::GzipDisable::Pattern(pattern) => Some(self.regex(pattern)?.regex),
            model::GzipDisable::Msie6 => None,
        });
        CompressionParts { gzip_disable: gzip_disable.collect(), compresses: compresses(config) }
    }

    /// Whether headers or logs read fields of the response or of the origin.
    fn reads_fields(
        &self,
        edits: &Edits,
        add_headers: &[(Box<[u8]>, Text, bool)],
        access_logs: &[(usize, Option<Text>)],
    ) -> bool {
        // A replaced field is not among the serialised ones.
        !edits.response.is_empty()
            || add_headers.iter().any(|(name, ..)| added_fields::replaces(name))
            || add_headers.iter().any(|(_, text, _)| reads_fields(text.parts(), &self.site))
            || access_logs.iter().any(|(log, condition)| {
                reads_fields(&self.site.logs.access[*log].format, &self.site)
                    || condition.as_ref().is_some_and(|text| reads_fields(text.parts(), &self.site))
            })
    }

    fn added(&mut self, headers: &[model::AddHeader]) -> Vec<(Box<[u8]>, Text, bool)> {
        headers.iter().map(|header| (header.name.as_bytes().into(), self.text(&header.value), header.always)).collect()
    }

    fn edits(&mut self, edits: &[model::FieldEdit]) -> Vec<Edit> {
        let mut compile = |edit: &model::FieldEdit| Edit {
            name: edit.name.as_str().into(),
            change: match &edit.change {
                model::FieldChange::Set(value) => EditChange::Set(self.text(value)),
                model::FieldChange::Replace(value) => EditChange::Replace(self.text(value)),
                model::FieldChange::Append(value) => EditChange::Append(self.text(value)),
                model::FieldChange::Clear => EditChange::Clear,
                model::FieldChange::ClearAllThatBegin => EditChange::ClearAllThatBegin,
            },
            statuses: edit.statuses.clone(),
            types: edit.types.iter().map(|listed| listed.as_bytes().into()).collect(),
        };
        edits.iter().map(&mut compile).collect()
    }

    fn limit_req(&mut self, limit: &model::LimitReq) -> Option<usize> {
        let zone = &limit.zone;
        let found = self.site.limits.requests.iter().position(|part| part.name == zone.value);
        match found {
            Some(at) => self.site.limits.requests[at].state.has_burst(limit.burst),
            None => self.error(format!("zero size shared memory zone \"{}\"", zone.value), zone.span),
        }
        found
    }

    fn limit_conn(&mut self, zone: &model::At<String>) -> Option<usize> {
        let found = self.site.limits.connections.iter().position(|limit| limit.name == zone.value);
        if found.is_none() {
            self.error(format!("zero size shared memory zone \"{}\"", zone.value), zone.span);
        }
        found
    }

    fn error_log(&mut self, logs: &[model::ErrorLog]) -> usize {
        if logs.is_empty() || logs == &self.site.logs.error[0][..] {
            return 0;
        }
        let key: Vec<_> = logs.iter().map(|log| (log.target.clone(), log.level)).collect();
        let site = &mut self.site;
        *self.error_logs.entry(key).or_insert_with(|| {
            site.logs.error.push(logs.to_vec());
            site.logs.error.len() - 1
        })
    }

    fn access_log(&mut self, log: &model::AccessLog, http: &model::Http) -> Option<(usize, Option<Text>)> {
        let condition = self.maybe(log.condition.as_ref());
        let format = http.log_formats.iter().find(|format| format.name.value == log.format.value);
        let Some(format) = format else {
            self.error(format!("unknown log format \"{}\"", log.format.value), log.format.span);
            return None;
        };
        let target = match &log.target {
            model::AccessLogTarget::Fixed(target) => {
                let buffer = log.buffer_bytes.map(|bytes| (bytes, log.flush));
                let sink = AccessSink { target: target.clone(), buffer, gzip: log.gzip };
                AccessLogTarget::Fixed(place_in(&mut self.site.logs.sinks, sink))
            }
            model::AccessLogTarget::Variable(text) => AccessLogTarget::Variable(self.text(text)),
        };
        let text = self.text(&format.format);
        let log = AccessLog { target, format: text.into_parts(), escape: format.escape };
        Some((place_in(&mut self.site.logs.access, log), condition))
    }

    fn check_named_locations(&mut self, http: &model::Http) {
        for (index, server) in http.servers.iter().enumerate() {
            let mut missing = Vec::new();
            find_missing(&server.root, &self.site.servers[index].named, &mut missing);
            for (name, span) in missing {
                self.warn(format!("no location \"{name}\" in this server, so that try_files ends in a 500"), span);
            }
        }
    }
}

/// Which requests match `location`, whose handler is `handler` and whose name is that of `name`.
fn matching(location: &model::Location, name: &model::Location, handler: &Handler) -> Matching {
    let (prefix, exact, regex_stops): (&str, bool, bool) = match &name.matcher {
        Matcher::Exact(path) => (path, true, false),
        Matcher::Prefix { path, regex_stops } => (path, false, *regex_stops),
        Matcher::Named(name) => (name, false, false),
        Matcher::Root | Matcher::Regex(_) => ("", false, false),
    };
    let is_prefix = matches!(location.matcher, Matcher::Prefix { .. });
    Matching {
        prefix: prefix.as_bytes().into(),
        regex_stops,
        exact,
        by_regex: matches!(name.matcher, Matcher::Regex(_)),
        named: matches!(name.matcher, Matcher::Named(_)),
        internal: location.internal,
        auto_redirect: (is_prefix || exact) && prefix.ends_with('/') && matches!(handler, Handler::Origin(_)),
        inside: Tree::default(),
        written: written(&name.matcher).into(),
    }
}

/// How a location is written.
fn written(matcher: &Matcher) -> String {
    match matcher {
        Matcher::Root => String::new(),
        Matcher::Exact(path) => format!("= {path}"),
        Matcher::Prefix { path, regex_stops: true } => format!("^~ {path}"),
        Matcher::Prefix { path, regex_stops: false } | Matcher::Named(path) => path.clone(),
        Matcher::Regex(pattern) => format!("{} {}", if pattern.caseless { "~*" } else { "~" }, pattern.source),
    }
}

/// Removes the `/` at the end, which asks for a directory.
fn strip_slash(file: &mut Template) -> bool {
    let Some(TemplatePart::Literal(text)) = file.parts.last_mut() else { return false };
    let had_slash = text.ends_with('/');
    if had_slash {
        text.pop();
        if text.is_empty() {
            file.parts.pop();
        }
    }
    had_slash
}

/// Finds named locations in `try_files` that do not exist.
fn find_missing(location: &model::Location, named: &HashMap<Box<[u8]>, usize>, missing: &mut Vec<(String, Span)>) {
    if let Some(model::TryFiles { fallback: model::TryFallback::Named(name), .. }) = &location.try_files
        && !named.contains_key(name.value.as_bytes())
    {
        missing.push((name.value.clone(), name.span));
    }
    for inside in &location.locations {
        find_missing(inside, named, missing);
    }
}

/// Whether any response may be compressed or decompressed.
fn compresses(config: &model::Compression) -> bool {
    config.gzip.enabled || config.brotli.enabled || config.zstd.enabled || config.gunzip
}

/// The place of `item` in the list, which has each only once.
fn place_in<T: PartialEq>(list: &mut Vec<T>, item: T) -> usize {
    list.iter().position(|there| *there == item).unwrap_or_else(|| {
        list.push(item);
        list.len() - 1
    })
}

fn reads_fields(parts: &[Part], site: &Site) -> bool {
    parts.iter().any(|part| match part {
        // A variable of `set` was set before the response was made.
        Part::Var(Var::Slot(slot)) => {
            let var = &site.variables.slots[*slot];
            var.source != UserVarSource::Set || var.otherwise.as_ref().is_some_and(variable::reads_fields)
        }
        Part::Var(var) => variable::reads_fields(var),
        Part::Literal(_) | Part::Capture(_) => false,
    })
}

/// The running parts of a configuration, for tests; panics with what is wrong with it.
#[cfg(test)]
pub fn site_of(text: &str) -> Site {
    let mut loader = larder_conf::MemoryLoader::new();
    loader.add("/site.conf", text.as_bytes().to_vec());
    let options = larder_conf::Options {
        prefix: "/tmp".into(),
        conf_prefix: "/tmp".into(),
        globals: None,
        is_root: false,
        hostname: "localhost".to_owned(),
    };
    let loaded = match larder_conf::load(std::path::Path::new("/site.conf"), &options, &mut loader) {
        Ok(loaded) => loaded,
        Err(failed) => panic!("{}", larder_conf::render(&failed.diagnostics, &failed.sources)),
    };
    match assemble(&loaded.config, &Material::new(), &mut Keeping::default()) {
        Ok(site) => site,
        Err(errors) => panic!("{errors:?}"),
    }
}
