//! Builds the `resolver`s, and the groups whose names they resolve.

use std::net::SocketAddr;
use std::sync::Arc;

use larder_conf::Diagnostic;
use larder_conf::model::{self, Upstream};
use larder_origin::resolver::{Resolver, ResolverOptions};
use larder_origin::{Address, Group, Server};
use parking_lot::Mutex;

use crate::resolvers::{Followed, FollowedName, report};
use crate::site::Scheme;
use crate::target::addresses;

use super::{Builder, Keeping, origins};

const DNS_PORT: u16 = 53;

impl Builder {
    /// The resolver of a directive. Equal directives share one, and the names that it knows.
    pub(super) fn resolver(&mut self, wanted: &Arc<model::Resolver>) -> Option<Arc<Resolver>> {
        let says_the_same = |known: &model::Resolver| {
            let texts = |resolver: &model::Resolver| -> Vec<String> {
                resolver.servers.iter().map(|server| server.value.clone()).collect()
            };
            texts(known) == texts(wanted)
                && (known.valid, known.ipv4, known.ipv6) == (wanted.valid, wanted.ipv4, wanted.ipv6)
                && known.status_zone == wanted.status_zone
        };
        if let Some((_, resolver)) = self.resolvers.iter().find(|(known, _)| says_the_same(known)) {
            return resolver.clone();
        }
        let resolver = self.new_resolver(wanted);
        self.resolvers.push((Arc::clone(wanted), resolver.clone()));
        resolver
    }

    fn new_resolver(&mut self, wanted: &model::Resolver) -> Option<Arc<Resolver>> {
        let mut servers: Vec<SocketAddr> = Vec::new();
        let mut missing = Vec::new();
        for server in &wanted.servers {
            let found = addresses(&server.value, Some(DNS_PORT));
            if found.is_empty() {
                missing.push(server);
            }
            servers.extend(found.into_iter().filter_map(|address| match address {
                Address::Tcp(address) => Some(address),
                Address::Unix(_) => None,
            }));
        }
        for server in missing {
            let told = format!("host not found in resolver \"{}\"", server.value);
            match servers.is_empty() {
                true => self.diagnostics.push(*Diagnostic::error(told).at(server.span)),
                // The other name servers are asked instead.
                false => self.warn(told, server.span),
            }
        }
        let (valid, ipv4, ipv6) = (wanted.valid, wanted.ipv4, wanted.ipv6);
        let options = ResolverOptions { servers, valid, ipv4, ipv6 };
        let zone = wanted.status_zone.as_ref();
        let counts = zone.map(|name| self.site.counted.resolver(name, &self.counted_before)).unwrap_or_default();
        (!options.servers.is_empty()).then(|| Resolver::new(options, report(&self.site.logs.main), counts))
    }

    /// Follows the names of a group that say `resolve`. Addresses known before a reload are used at once.
    pub(super) fn follow(
        &mut self,
        group: &Arc<Group>,
        fixed: Vec<Server>,
        upstream: &Upstream,
        http: &model::Http,
        keeping: &mut Keeping,
    ) {
        let names: Vec<FollowedName> = upstream.servers.iter().filter(|server| server.resolve).map(name_of).collect();
        if names.is_empty() {
            return;
        }
        // The configuration was refused earlier if there is none.
        let Some(wanted) = upstream.resolver.as_ref().or(http.settings.resolving.resolver.as_ref()) else { return };
        let Some(resolver) = self.resolver(wanted) else { return };
        let timeout = upstream.resolver_timeout.unwrap_or(http.settings.resolving.timeout);
        let log = self.site.logs.main.clone();
        let old = keeping.followed.get(&upstream.name.value).cloned();
        let followed = Followed::new(Arc::clone(group), fixed, names, (resolver, timeout), log, old.as_deref());
        self.site.origins.followed.push(followed);
    }
}

fn name_of(server: &model::UpstreamServer) -> FollowedName {
    let written = &server.address.value;
    let (host, port) = match written.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().unwrap_or(Scheme::Http.port())),
        None => (written.as_str(), Scheme::Http.port()),
    };
    let nowhere = Address::Tcp(SocketAddr::from(([0, 0, 0, 0], port)));
    FollowedName {
        host: host.to_owned(),
        port,
        service: server.service.clone(),
        template: origins::at(nowhere, server),
        found: Mutex::default(),
    }
}
