//! The VCLs of a configuration: read, checked and compiled.

use std::net::{IpAddr, ToSocketAddrs};
use std::path::PathBuf;

use larder_conf::model::{Config, VclUse};
use larder_conf::{Diagnostic, Loader, Severity, Sources};
use larder_server::clock;
use larder_server::objects::Surroundings;
use larder_server::regex::Regex;
use larder_server::site::Vcl;
use larder_vcl::Options;
use larder_vcl::parameters::{self, Parameters};

use crate::hostname::hostname;

/// Reads a VCL with its includes, which become a part of `sources`. Returns it with warnings, or else all that is wrong with it.
pub fn read(
    used: &VclUse,
    config: &Config,
    loader: &mut dyn Loader,
    sources: &mut Sources,
) -> Result<(Vcl, Vec<Diagnostic>), Vec<Diagnostic>> {
    let options = options(used, config);
    let mut rejected = |found: Vec<Diagnostic>, files: Sources| {
        let mut found = renumbered(found, sources.absorb(files));
        for diagnostic in &mut found {
            // Without a place of its own it is about the file as a whole.
            diagnostic.span = diagnostic.span.or(Some(used.file.span));
        }
        found
    };
    let is_regex = |pattern: &str| Regex::new(pattern, false).map(drop);
    let mut loaded = match larder_vcl::load(&used.file.value, &options, loader, &is_regex) {
        Ok(loaded) => loaded,
        Err(failed) => return Err(rejected(failed.diagnostics, failed.sources)),
    };
    let (files, mut said) = (std::mem::take(&mut loaded.sources), std::mem::take(&mut loaded.notices));
    match Vcl::new(loaded, &addresses_of, &surroundings(used)) {
        Ok((mut vcl, notices)) => {
            said.extend(notices);
            if vcl.reads_environment() {
                vcl.environment = std::env::vars_os().collect();
            }
            Ok((vcl, renumbered(said, sources.absorb(files))))
        }
        Err(errors) => Err(rejected(errors, files)),
    }
}

/// What `vcl_init` knows. A parameter that is wrong is reported with the location.
fn surroundings(used: &VclUse) -> Surroundings {
    let mut parameters = Parameters::default();
    for (name, value) in &used.parameters {
        let _ = parameters.set(&name.value, value);
    }
    let hostname = hostname();
    let identity = used.identity.clone().unwrap_or_else(|| hostname.clone());
    Surroundings { hostname, identity, parameters, now: clock::now().secs_f64() }
}

fn renumbered(mut found: Vec<Diagnostic>, by: u32) -> Vec<Diagnostic> {
    found.retain(|diagnostic| diagnostic.severity != Severity::NoEffect);
    found.iter_mut().for_each(|diagnostic| diagnostic.renumber(by));
    found
}

/// What the configuration says to the VCL.
fn options(used: &VclUse, config: &Config) -> Options {
    let last = |wanted: &str| {
        let found = used.parameters.iter().rev().find(|(name, _)| name.value == wanted);
        found.map(|(_, value)| value.as_str())
    };
    let vcl_path = last("vcl_path").unwrap_or(parameters::VCL_PATH);
    // What is wrong with a flag is said with the other parameters.
    let flag = last("vcc_feature").and_then(|list| parameters::flag(list, "err_unref").ok().flatten());
    let is_off = last("vcc_err_unref").is_some_and(|value| parameters::switch(value) == Ok(false));
    let mut storages: Vec<String> = config.http.cache_paths.iter().map(|path| path.zone.value.clone()).collect();
    storages.push("Transient".to_owned());
    Options {
        vcl_path: parameters::folders(vcl_path).into_iter().collect::<Vec<PathBuf>>(),
        storages,
        has_other_backends: used.has_handler,
        allows_unused: is_off || flag == Some(false),
        labels: used.labels.clone(),
        upstreams: config.http.upstreams.iter().map(|upstream| upstream.name.value.clone()).collect(),
    }
}

/// The addresses of a name, as the system knows them.
pub fn addresses_of(name: &str) -> Vec<IpAddr> {
    (name, 0).to_socket_addrs().map_or_else(|_| Vec::new(), |all| all.map(|address| address.ip()).collect())
}
