//! Builds the groups of origins, and how `fastcgi_pass` and `proxy_pass` ask them.

mod gate;
mod heads;
mod litespeed;
mod tls;

use std::sync::Arc;

use bytes::Bytes;
use ipnet::IpNet;
use larder_cache::litespeed::FIELDS;
use larder_conf::model::{self, Template};
use larder_conf::{Span, as_literal};
use larder_origin::{Address, Balance, Group, Keepalive, LeastTime, RetryRules, Server, Until};

use crate::request::response_fields;
use crate::site::origin_head::SetFields;
use crate::site::*;
use crate::target::{addresses, split_authority};
use crate::text::Text;

use super::{Builder, Keeping};

pub use gate::{Changes, Wishes};
pub use tls::Making;

/// Fields of an origin's answer that only larder reads (nginx's lists of hidden headers).
const ALWAYS_HIDDEN: [&str; 6] =
    ["status", "x-accel-expires", "x-accel-redirect", "x-accel-limit-rate", "x-accel-buffering", "x-accel-charset"];
/// Further fields that `proxy_pass` hides.
const HIDDEN_OF_HTTP: [&str; 3] = ["date", "server", "x-pad"];
/// What an origin says to `larder_esi`.
const HIDDEN_OF_ESI: [&str; 1] = ["surrogate-control"];

/// The fields that are hidden beside [`ALWAYS_HIDDEN`].
fn hidden_of(of_protocol: &[&'static str], settings: &model::Settings) -> Vec<&'static str> {
    let of_esi: &[&str] = if settings.subrequests.esi == model::Esi::Off { &[] } else { &HIDDEN_OF_ESI };
    let of_litespeed: &[&str] = if settings.purging.litespeed { &FIELDS } else { &[] };
    [of_protocol, of_esi, of_litespeed].concat()
}

/// The failures after which the next origin is asked: `*_next_upstream`.
pub(super) fn retry_rules(on: model::NextUpstream) -> RetryRules {
    let statuses = [
        (on.http_500, 500),
        (on.http_502, 502),
        (on.http_503, 503),
        (on.http_504, 504),
        (on.http_403, 403),
        (on.http_404, 404),
        (on.http_429, 429),
    ];
    RetryRules {
        error: on.error,
        timeout: on.timeout,
        invalid_header: on.invalid_header,
        non_idempotent: on.non_idempotent,
        statuses: statuses.iter().filter(|(on, _)| *on).map(|(_, status)| *status).collect(),
    }
}

/// No `proxy_set_header`.
pub(super) fn no_set_fields() -> SetFields {
    heads::set_fields(Vec::new())
}

/// The origin of a `server` line at one of its addresses.
pub(super) fn at(address: Address, server: &model::UpstreamServer) -> Server {
    Server {
        address,
        weight: server.weight,
        max_fails: server.max_fails,
        fail_timeout: server.fail_timeout,
        max_conns: server.max_conns,
        backup: server.backup,
        down: server.down,
        name: server.address.value.clone(),
    }
}

impl Builder {
    pub(super) fn upstreams(&mut self, http: &model::Http, keeping: &mut Keeping) {
        for upstream in &http.upstreams {
            let mut servers = Vec::new();
            for server in upstream.servers.iter().filter(|server| !server.resolve) {
                let found = addresses(&server.address.value, Some(Scheme::Http.port()));
                if found.is_empty() {
                    // A name that does not resolve is a problem of this origin, not of the whole site.
                    let name = &server.address.value;
                    let message = format!("host not found in upstream \"{name}\": it counts as down");
                    self.warn(message, server.address.span);
                }
                servers.extend(found.into_iter().map(|address| at(address, server)));
            }
            let (balance, hash_by) = match &upstream.balance {
                model::Balance::RoundRobin => (Balance::RoundRobin, HashBy::Nothing),
                model::Balance::LeastConn => (Balance::LeastConn, HashBy::Nothing),
                &model::Balance::LeastTime { last_byte, inflight } => {
                    let until = if last_byte { Until::LastByte } else { Until::Header };
                    (Balance::LeastTime(LeastTime { until, inflight }), HashBy::Nothing)
                }
                model::Balance::IpHash => (Balance::IpHash, HashBy::Address),
                model::Balance::Hash(key, consistent) => {
                    (Balance::Hash { consistent: *consistent }, HashBy::Text(self.text(key)))
                }
                model::Balance::Random { two } => (Balance::Random { two: *two }, HashBy::Nothing),
            };
            let keepalive = Keepalive {
                idle_max: upstream.keepalive,
                requests: upstream.keepalive_requests,
                timeout: upstream.keepalive_timeout,
                time: upstream.keepalive_time,
            };
            self.site.origins.names.insert(upstream.name.value.clone(), self.site.origins.groups.len());
            let group = Group::new(upstream.name.value.clone(), servers.clone(), balance, keepalive);
            self.follow(&group, servers, upstream, http, keeping);
            self.count_on(&upstream.name.value, &group);
            self.site.origins.groups.push(group);
            self.wish_of_group(self.site.origins.groups.len() - 1, upstream);
            self.site.origins.hash_by.push(hash_by);
        }
    }

    /// The group of an address without variables: an `upstream`, or a group of that single address.
    fn group(&mut self, place: &str, port: Option<u16>, keep: bool, span: Span) -> usize {
        if let Some(&group) = self.site.origins.names.get(place) {
            return group;
        }
        let name = format!("{place} {port:?} {keep}");
        if let Some(&group) = self.groups_by_place.get(&name) {
            return group;
        }
        let found = addresses(place, port);
        if found.is_empty() {
            self.warn(format!("host not found in upstream \"{place}\": it counts as down"), span);
        }
        let servers = found.into_iter().map(|address| Server { name: place.to_owned(), ..Server::new(address) });
        let servers = servers.collect();
        let keepalive = if keep { Keepalive::of(KEPT_MAX) } else { Keepalive::NONE };
        let made = Group::new(place.to_owned(), servers, Balance::RoundRobin, keepalive);
        self.count_on(&name, &made);
        let group = self.site.origins.groups.len();
        self.site.origins.groups.push(made);
        self.site.origins.hash_by.push(HashBy::Nothing);
        self.groups_by_place.insert(name, group);
        group
    }

    /// What the group of that name has counted before is not lost.
    fn count_on(&mut self, name: &str, group: &Arc<Group>) {
        if let Some(before) = self.groups_before.get(name) {
            group.count_on(before);
        }
        self.groups.insert(name.to_owned(), Arc::clone(group));
    }

    pub(super) fn fastcgi(&mut self, pass: &Template, settings: &model::Settings, http: &model::Http) -> Handler {
        let fastcgi = &settings.fastcgi;
        let target = match as_literal(pass) {
            Some(place) => {
                let group = self.group(place, None, false, pass.span);
                let asked = &mut self.site.origins.php_status;
                // The first location says it for all.
                if let Some(path) = &fastcgi.php_status
                    && asked.iter().all(|(known, _)| *known != group)
                {
                    asked.push((group, path.clone()));
                }
                Target::Group { group, host: place.as_bytes().into(), uri: None }
            }
            None => Target::Variable(self.text(pass)),
        };
        let params = fastcgi.params.iter().map(|param| heads::GivenParam {
            name: param.name.as_bytes(),
            value: self.text(&param.value),
            if_not_empty: param.if_not_empty,
        });
        let mut params: Vec<_> = params.collect();
        litespeed::tell_by_params(&mut params, settings, fastcgi.origin.cache.zone.is_some());
        let params = heads::params(params);
        let split = fastcgi.split_path_info.as_ref().and_then(|pattern| self.compile(pattern));
        let protocol = Protocol::FastCgi(FastCgiParts {
            params,
            index: fastcgi.index.as_ref().map(|index| index.as_bytes().into()),
            split,
            keep: fastcgi.keep_conn,
            catch_stderr: fastcgi.catch_stderr.iter().map(|text| text.clone().into_bytes()).collect(),
        });
        self.origin(target, protocol, &fastcgi.origin, &[], (settings, pass.span), http)
    }

    pub(super) fn proxy(&mut self, pass: &Template, location: &model::Location, http: &model::Http) -> Handler {
        let proxy = &location.settings.proxy;
        let mut scheme = Scheme::Http;
        let target = match as_literal(pass) {
            Some(url) => {
                let (written, rest) = Scheme::of(url.as_bytes()).unwrap_or((Scheme::Http, url.as_bytes()));
                scheme = written;
                let rest = &url[url.len() - rest.len()..];
                let (place, uri) = split_authority(rest.as_bytes());
                let place = &rest[..place.len()];
                let group = self.group(place, Some(scheme.port()), false, pass.span);
                Target::Group { group, host: place.as_bytes().into(), uri: uri.map(Into::into) }
            }
            None => Target::Variable(self.text(pass)),
        };
        let redirects = match &proxy.redirect {
            model::ProxyRedirect::Off => Vec::new(),
            model::ProxyRedirect::Rules(rules) => rules.iter().filter_map(|rule| self.redirect(rule)).collect(),
        };
        let set = proxy.set_headers.iter().map(|(name, value)| (name.as_bytes(), self.text(value)));
        let mut set: Vec<_> = set.collect();
        litespeed::tell_by_fields(&mut set, &location.settings, proxy.origin.cache.zone.is_some());
        let set = heads::set_fields(set);
        let host_line = match &target {
            Target::Group { host, .. } => Some(heads::host_line(host)),
            Target::Variable(_) | Target::Files => None,
        };
        let may_be_tls = scheme == Scheme::Https || matches!(target, Target::Variable(_));
        let protocol = Protocol::Http(HttpParts {
            is_written: false,
            preamble: Bytes::new(),
            scheme,
            tls: may_be_tls.then(|| tls::origin_tls(self, &proxy.tls, pass.span)),
            proxy_protocol: proxy.proxy_protocol,
            set,
            host_line,
            body: self.maybe(proxy.set_body.as_ref()),
            method: self.maybe(proxy.method.as_ref()),
            http_1_1: proxy.http_1_1,
            redirects,
            cookie_domains: self.cookie_rules(&proxy.cookie_domains),
            cookie_paths: self.cookie_rules(&proxy.cookie_paths),
            cookie_flags: proxy
                .cookie_flags
                .iter()
                .filter_map(|(find, flags)| Some((self.find(find)?, self.texts(flags))))
                .collect(),
        });
        self.origin(target, protocol, &proxy.origin, &HIDDEN_OF_HTTP, (&location.settings, pass.span), http)
    }

    fn origin(
        &mut self,
        target: Target,
        protocol: Protocol,
        model: &model::OriginSettings,
        hidden_of_protocol: &[&'static str],
        (location, span): (&model::Settings, Span),
        http: &model::Http,
    ) -> Handler {
        let caching = &location.caching;
        let is_rfc9111 = caching.mode != model::CacheMode::Nginx;
        let adds_charset = location.modules.charset.name.is_some();
        let is_passed = |name: &str| model.response.pass_headers.iter().any(|passed| passed.eq_ignore_ascii_case(name));
        let mut hidden_tags = location.purging.hidden_names();
        hidden_tags.retain(|name| !is_passed(name));
        let hidden: Vec<Box<[u8]>> = ALWAYS_HIDDEN
            .iter()
            .chain(&hidden_of(hidden_of_protocol, location))
            // The age of a page counts from its date.
            .filter(|name| !(is_rfc9111 && **name == "date"))
            .filter(|name| !is_passed(name))
            .map(|name| Box::from(name.as_bytes()))
            .chain(hidden_tags.iter().map(|name| Box::from(name.as_bytes())))
            .chain(response_fields::for_larder(location).map(|name| Box::from(name.as_bytes())))
            .chain(model.response.hide_headers.iter().map(|name| Box::from(name.as_bytes())))
            .collect();
        let cache = model.cache.zone.as_ref().and_then(|zone| self.cache(zone, model, http));
        let settings = Arc::new(OriginShared {
            model: model.clone(),
            hides: hidden.iter().collect(),
            hidden,
            retried: retry_rules(model.next_upstream.on),
        });
        let group = match target {
            Target::Group { group, .. } => Some(group),
            Target::Variable(_) | Target::Files => None,
        };
        let is_fastcgi = matches!(protocol, Protocol::FastCgi(_));
        let gating = self.wish_of_location(group, location, (is_fastcgi, span), http);
        let mut backend = Backend {
            target,
            protocol,
            bind: self.maybe(model.connection.bind.as_ref()),
            limit_rate: self.maybe(model.response.limit_rate.as_ref()).filter(|text| text.constant() != Some(b"0")),
            settings: Arc::clone(&settings),
            prepared_by: None,
            is_rfc9111,
            gating,
        };
        backend.prepared_by = response_fields::prepared_rules(&backend, adds_charset);
        let store = match &model.store {
            model::Store::Off => None,
            model::Store::Root => Some(StorePath::Root),
            model::Store::Path(path) => Some(StorePath::Text(self.text(path))),
        };
        let litespeed = match location.purging.litespeed {
            true => LiteSpeed::On { reads_esi: location.subrequests.esi != model::Esi::Off },
            false => LiteSpeed::Off,
        };
        let directives = Directives { settings, cache, store, litespeed };
        let policy = match caching.mode {
            model::CacheMode::Nginx => Policy::Directives(directives),
            model::CacheMode::Rfc9111 { honours_requests } => {
                Policy::Rfc9111(Rfc9111Policy { directives, honours_requests, targets: targets(location) })
            }
        };
        Handler::Origin(Box::new(Origin { backend: Arc::new(backend), policy }))
    }

    fn cache(&mut self, zone: &Template, model: &model::OriginSettings, _http: &model::Http) -> Option<CachePolicy> {
        let choice = match as_literal(zone) {
            Some(name) => match self.site.caches.names.get(name) {
                Some(&index) => ZoneChoice::Fixed(index),
                None => {
                    self.error(
                        format!("\"{name}\" cache zone is unknown: no *_cache_path has keys_zone={name}:..."),
                        zone.span,
                    );
                    return None;
                }
            },
            None => ZoneChoice::Variable(self.text(zone)),
        };
        Some(CachePolicy {
            zone: choice,
            key: self.maybe(model.cache.key.as_ref()),
            bypass: self.texts(&model.cache.bypass),
            no_cache: self.texts(&model.cache.no_cache),
            purge: match &model.cache.purge {
                model::CachePurge::Off => None,
                model::CachePurge::When(conditions) => Some(PurgePolicy::When(self.texts(conditions))),
                model::CachePurge::Method(by) => Some(PurgePolicy::Method(method_purge(by))),
            },
        })
    }

    fn redirect(&mut self, rule: &model::ProxyRedirectRule) -> Option<Redirect> {
        Some(match rule {
            model::ProxyRedirectRule::Default => Redirect::Default,
            model::ProxyRedirectRule::Replace(find, to) => Redirect::Replace(self.find(find)?, self.text(to)),
        })
    }

    fn cookie_rules(&mut self, rules: &[(model::Rewriting, Template)]) -> Vec<(Find, Text)> {
        rules.iter().filter_map(|(find, to)| Some((self.find(find)?, self.text(to)))).collect()
    }

    fn find(&mut self, find: &model::Rewriting) -> Option<Find> {
        Some(match find {
            model::Rewriting::Text(text) => Find::Text(self.text(text)),
            model::Rewriting::Regex(pattern) => Find::Regex(self.regex(pattern)?),
        })
    }
}

/// `larder_targeted_cache_control`.
pub(super) fn targets(settings: &model::Settings) -> Arc<[Box<str>]> {
    settings.caching.targets.iter().map(|name| name.as_str().into()).collect()
}

/// How many idle connections are kept by a group without an `upstream` block.
const KEPT_MAX: usize = 32;

/// Which requests purge by their method, and what.
pub(super) fn method_purge(by: &model::MethodPurge) -> MethodPurge {
    MethodPurge { method: by.method.as_bytes().into(), drops: by.drops, from: networks(&by.from) }
}

/// The client networks that may drop pages; `None` for all.
pub(super) fn networks(from: &model::PurgeFrom) -> Option<Vec<IpNet>> {
    match from {
        model::PurgeFrom::All => None,
        model::PurgeFrom::Nets(nets) => Some(nets.clone()),
    }
}
