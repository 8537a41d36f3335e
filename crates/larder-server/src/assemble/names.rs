//! Builds the listeners: the addresses that are listened at, and the server of each host there.

use std::sync::Arc;

use larder_conf::model::{self, ListenAddress, ServerName};

use crate::site::{Listener, NameTable, NamedRegex};

use super::Builder;

/// Builds the listeners of all servers.
pub(super) fn listeners(builder: &mut Builder, http: &model::Http) {
    let mut listeners: Vec<Listener> = Vec::new();
    let mut has_default: Vec<bool> = Vec::new();
    for (index, server) in http.servers.iter().enumerate() {
        for listen in &server.listens {
            let place = match listeners.iter().position(|listener| listener.address == listen.address) {
                Some(place) => place,
                None => {
                    listeners.push(Listener {
                        address: listen.address.clone(),
                        default: index,
                        names: NameTable::default(),
                        by_host: false,
                        tls: false,
                        http2: false,
                        proxy_protocol: false,
                    });
                    has_default.push(false);
                    listeners.len() - 1
                }
            };
            // As in nginx, what one server says about the protocol holds for all servers at the address.
            listeners[place].tls |= listen.ssl;
            listeners[place].http2 |= listen.http2;
            listeners[place].proxy_protocol |= listen.proxy_protocol;
            if listen.is_default && !has_default[place] {
                listeners[place].default = index;
                has_default[place] = true;
            }
        }
    }
    for listener in &mut listeners {
        for (index, server) in http.servers.iter().enumerate() {
            if server.listens.iter().any(|listen| listen.address == listener.address) {
                add_names(builder, &mut listener.names, server, index, &listener.address);
            }
        }
        let by_length = |(a, _): &(Vec<u8>, usize), (b, _): &(Vec<u8>, usize)| b.len().cmp(&a.len());
        listener.names.suffixes.sort_by(by_length);
        listener.names.prefixes.sort_by(by_length);
        listener.by_host = listener.names.leads_away_from(listener.default);
    }
    builder.site.speaks_http2 =
        listeners.iter().any(|listener| listener.http2) || http.servers.iter().any(|server| server.http2.enabled);
    builder.site.listeners = listeners;
}

fn add_names(
    builder: &mut Builder,
    table: &mut NameTable,
    server: &model::Server,
    index: usize,
    address: &ListenAddress,
) {
    if server.names.is_empty() {
        table.exact.entry(Vec::new()).or_insert(index);
    }
    for name in &server.names {
        match &name.value {
            ServerName::Exact(exact) => add_exact(builder, table, exact, index, name.span, address),
            ServerName::Hostname => {
                let hostname = builder.site.hostname.to_ascii_lowercase();
                add_exact(builder, table, &hostname, index, name.span, address);
            }
            ServerName::Dotted(base) => {
                add_exact(builder, table, base, index, name.span, address);
                table.suffixes.push((format!(".{base}").into_bytes(), index));
            }
            ServerName::Suffix(suffix) => table.suffixes.push((suffix.clone().into_bytes(), index)),
            ServerName::Prefix(prefix) => table.prefixes.push((prefix.clone().into_bytes(), index)),
            ServerName::Regex(pattern) => {
                if let Some(regex) = builder.regex(pattern) {
                    let NamedRegex { regex, slots } = regex;
                    table.regexes.push((Arc::new(NamedRegex { regex, slots }), index));
                }
            }
        }
    }
}

fn add_exact(
    builder: &mut Builder,
    table: &mut NameTable,
    name: &str,
    index: usize,
    span: larder_conf::Span,
    address: &ListenAddress,
) {
    let there = *table.exact.entry(name.as_bytes().to_vec()).or_insert(index);
    if there != index {
        let shown = match address {
            ListenAddress::Tcp(address) => address.to_string(),
            ListenAddress::Unix(path) => format!("unix:{}", path.display()),
        };
        builder.warn(format!("conflicting server name \"{name}\" on {shown}, ignored"), span);
    }
}
