//! `resolver`, and the groups whose names it resolves.

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
    /// The resolver of a directive. Directives that say the same share one, and what it knows.
    pub(super) fn resolver(&mut self, wanted: &Arc<model::Resolver>) -> Option<Arc<Resolver>> {
        let says_the_same = |known: &model::Resolver| {
            let texts = |resolver: &model::Resolver| -> Vec<String> {
                resolver.servers.iter().map(|server| server.value.clone()).collect()
            };
            texts(known) == texts(wanted)
                && (known.valid, known.ipv4, known.ipv6) == (wanted.valid, wanted.ipv4, wanted.ipv6)
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
                // The others are asked in its place.
                false => self.warn(told, server.span),
            }
        }
        let (valid, ipv4, ipv6) = (wanted.valid, wanted.ipv4, wanted.ipv6);
        let options = ResolverOptions { servers, valid, ipv4, ipv6 };
        (!options.servers.is_empty()).then(|| Resolver::new(options, report(&self.site.logs.main)))
    }

    /// Has the names of a group followed that say `resolve`. Addresses known from before a reload are used at once.
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
        // That there is one was checked when the configuration was read.
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
