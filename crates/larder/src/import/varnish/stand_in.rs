//! larder's own configuration in place of varnishd's options.

use std::path::Path;

use super::Asked;
use crate::hostname::hostname;
use crate::machine::Machine;
use crate::varnishd::listen::{self, Endpoint, Place};
use crate::varnishd::nginx_conf::{self, Facts};
use crate::varnishd::options::Serve;
use crate::varnishd::storages::{Kind, Storage};

/// The text, or why there is none.
pub fn write(machine: &Machine, serve: &Serve) -> Result<String, String> {
    let vcl = match &serve.source {
        Some(Asked::Files(paths)) => paths.last().map(|path| super::vcl(machine, path, serve)),
        Some(Asked::Backend(place)) => {
            return Err(format!("-b {place} has no VCL that a configuration could name: write one with this backend"));
        }
        None => None,
    };
    let endpoints = listen::resolve(&serve.endpoints).map_err(|error| error.to_string())?;
    let user = serve.jail.wanted();
    Ok(nginx_conf::write_below(
        HEAD,
        &Facts {
            endpoints: &endpoints,
            settings: &serve.settings,
            storages: &serve.storages,
            folder: Path::new("/var/cache/larder"),
            identity: &serve.identity.clone().unwrap_or_else(hostname),
            user: Some(&user),
            log: crate::paths::ERROR_LOG,
            vcl: vcl.as_deref(),
            labels: &[],
            names: &[],
        },
    ))
}

const HEAD: &[&str] = &[
    "# In place of varnishd and its options; made by `larder import varnish`. `larder -t -c FILE` checks it.",
    "pid /run/larder.pid;",
];

/// `:6081`, as a person reads it.
pub fn shown_place(endpoint: &Endpoint) -> String {
    let proxy = if endpoint.has_proxy_header { " with the PROXY protocol" } else { "" };
    match &endpoint.place {
        Place::Tcp { host: None, port } => format!("port {port}{proxy}"),
        Place::Tcp { host: Some(host), port } if host.contains(':') => format!("[{host}]:{port}{proxy}"),
        Place::Tcp { host: Some(host), port } => format!("{host}:{port}{proxy}"),
        Place::Unix { path, .. } => format!("{}{proxy}", path.display()),
    }
}

/// `s0, 256 MB of memory`.
pub fn shown_storage(storage: &Storage) -> String {
    let size =
        |bytes: &Option<u64>| bytes.map_or_else(|| "its share".to_owned(), |bytes| format!("{} MB", bytes >> 20));
    match &storage.kind {
        Kind::Memory { bytes } => format!("{} ({} of memory)", storage.name, size(bytes)),
        Kind::Disk { path, bytes } => format!("{} ({} on disk, {})", storage.name, size(bytes), path.display()),
    }
}
