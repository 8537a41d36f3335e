//! A configuration as it may run beside the server that it is of: at an address of its own, and with no file of its.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use larder_conf::model::{
    Config, ErrorLog, Handler, Listen, ListenAddress, Location, LogLevel, LogTarget, OriginSettings, Rewrite, Settings,
    Store, TransactionLogPlace, Workers,
};

/// Why a configuration cannot be tried beside its server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CannotTry {
    /// No server listens where the old one is asked.
    #[error("the configuration listens at {there}, and at no port {port} of --old")]
    NoPort { port: u16, there: String },
    /// It speaks TLS there and `--old` does not, or the other way round.
    #[error("the configuration {} TLS at {address}: write --old {}", if *.ssl { "speaks" } else { "speaks no" }, if *.ssl { "https://..." } else { "http://..." })]
    Scheme { address: SocketAddr, ssl: bool },
    /// The old server takes no request there without a PROXY header.
    #[error("{0} takes PROXY headers, so that only a proxy can ask there: name another address by --old")]
    ProxyProtocol(SocketAddr),
    /// Certificates would be ordered.
    #[error(
        "a server has \"larder_acme\": its certificate is of a larder that runs, which is to be tried by another port"
    )]
    Acme,
}

/// Changes it. Returns the address that larder is to believe it listens at, for a socket of any other.
pub fn adapt(
    config: &mut Config,
    scratch: &Path,
    old: SocketAddr,
    is_secure: bool,
) -> Result<ListenAddress, CannotTry> {
    let address = choose(config, old)?;
    let at = |listen: &&Listen| listen.address == ListenAddress::Tcp(address);
    let listens = || config.http.servers.iter().flat_map(|server| &server.listens).filter(at);
    if listens().any(|listen| listen.proxy_protocol) {
        return Err(CannotTry::ProxyProtocol(address));
    }
    let ssl = listens().any(|listen| listen.ssl);
    if ssl != is_secure {
        return Err(CannotTry::Scheme { address, ssl });
    }
    if config.http.servers.iter().any(|server| server.acme.is_some()) {
        return Err(CannotTry::Acme);
    }
    // As its visitors reach it: larder asks the system for the address of who came to a wildcard.
    let believed = ListenAddress::Tcp(SocketAddr::new(reached(address.ip(), old), address.port()));
    config.http.servers.retain_mut(|server| {
        server.listens.retain(|listen| listen.address == ListenAddress::Tcp(address));
        server.listens.iter_mut().for_each(|listen| listen.address.clone_from(&believed));
        !server.listens.is_empty()
    });
    let main = &mut config.main;
    main.pid = Some(scratch.join("larder.pid"));
    main.error_log = vec![ErrorLog { target: LogTarget::Stderr, level: LogLevel::Error }];
    main.transaction_log.place = TransactionLogPlace::Off;
    main.worker_processes = Workers::Count(1);
    main.working_directory = None;
    main.daemon = false;
    main.master_process = false;
    for (number, cache) in config.http.cache_paths.iter_mut().enumerate() {
        cache.path = scratch.join(format!("cache-{number}"));
        cache.max_bytes = Some(cache.max_bytes.unwrap_or(DISK_BYTES_MAX).min(DISK_BYTES_MAX));
        cache.memory_bytes = cache.memory_bytes.map(|bytes| bytes.min(MEMORY_BYTES_MAX));
    }
    // What is tried here purges nothing elsewhere.
    config.http.cluster = None;
    config.http.memory_bytes = Some(config.http.memory_bytes.unwrap_or(MEMORY_BYTES_MAX).min(MEMORY_BYTES_MAX));
    let quiet = |settings: &mut Arc<Settings>| quiet(Arc::make_mut(settings), scratch);
    quiet(&mut config.http.settings);
    for server in &mut config.http.servers {
        location(&mut server.root, &quiet);
        script(&mut server.script, &quiet);
    }
    Ok(believed)
}

/// The address of the configuration at which `old` is reached: itself, or the wildcard of its port.
fn choose(config: &Config, old: SocketAddr) -> Result<SocketAddr, CannotTry> {
    let listens = config.http.servers.iter().flat_map(|server| &server.listens);
    let mut tcp: Vec<SocketAddr> = listens.filter_map(|listen| listen.address.tcp()).collect();
    tcp.dedup();
    let at_port = || tcp.iter().copied().filter(|address| address.port() == old.port());
    let wildcard = |address: &SocketAddr| address.ip().is_unspecified() && address.is_ipv6() == old.is_ipv6();
    // The host of --old may lead here through another address, such as that of a router.
    let found =
        at_port().find(|address| *address == old).or_else(|| at_port().find(wildcard)).or_else(|| at_port().next());
    found.ok_or_else(|| {
        let there: Vec<String> = tcp.iter().map(SocketAddr::to_string).collect();
        CannotTry::NoPort {
            port: old.port(),
            there: if there.is_empty() { "no port".to_owned() } else { there.join(", ") },
        }
    })
}

fn reached(ip: IpAddr, old: SocketAddr) -> IpAddr {
    match (ip.is_unspecified(), old.is_ipv6()) {
        (false, _) => ip,
        (true, false) => Ipv4Addr::LOCALHOST.into(),
        (true, true) => Ipv6Addr::LOCALHOST.into(),
    }
}

/// Takes away what writes files of the site, asks others for more than the page, or lets anyone drop pages.
fn quiet(settings: &mut Settings, scratch: &Path) {
    settings.logs.access.clear();
    settings.logs.error.clear();
    settings.fields.cache_status = true;
    settings.body.temp_path = Some(scratch.join("body"));
    let origin = |origin: &mut OriginSettings, name: &str| {
        origin.buffers.temp_path = Some(scratch.join(name));
        origin.store = Store::Off;
    };
    origin(&mut Arc::make_mut(&mut settings.fastcgi).origin, "fastcgi");
    origin(&mut Arc::make_mut(&mut settings.proxy).origin, "proxy");
    Arc::make_mut(&mut settings.subrequests).mirrors.clear();
    let purging = Arc::make_mut(&mut settings.purging);
    purging.from = None;
    purging.refill = None;
}

/// Recursion is bounded, because the parser limits the depth of a configuration.
fn location(of: &mut Location, quiet: &dyn Fn(&mut Arc<Settings>)) {
    quiet(&mut of.settings);
    if let Handler::Purge { .. } = of.handler {
        of.handler = Handler::EmptyGif;
    }
    script(&mut of.script, quiet);
    if let Some(limited) = &mut of.limit_except {
        location(&mut limited.location, quiet);
    }
    of.locations.iter_mut().for_each(|inside| location(inside, quiet));
}

fn script(steps: &mut [Rewrite], quiet: &dyn Fn(&mut Arc<Settings>)) {
    for step in steps {
        if let Rewrite::If { script: inside, location: of, .. } = step {
            script(inside, quiet);
            if let Some(of) = of {
                location(of, quiet);
            }
        }
    }
}

/// What a cache may take: the machine has to go on with what it does.
const MEMORY_BYTES_MAX: u64 = 256 << 20;
const DISK_BYTES_MAX: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::super::tests::config;
    use super::*;
    use crate::levels;

    #[test]
    fn nothing_is_purged_in_a_cluster() {
        let mut config = config("larder_cluster redis://127.0.0.1; server { listen 127.0.0.1:80; }");
        assert!(config.http.cluster.is_some());
        adapt(&mut config, Path::new("/scratch"), "127.0.0.1:80".parse().unwrap(), false).unwrap();
        assert!(config.http.cluster.is_none());
    }

    #[test]
    fn larder_believes_that_it_is_where_the_old_server_is() {
        let two =
            "server { listen 80; } server { listen 127.0.0.1:80; } server { listen [::]:80; } server { listen 81; }";
        for (old, believed) in [
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("192.0.2.1:80", "127.0.0.1:80"),
            ("[::1]:80", "[::1]:80"),
            ("127.0.0.1:81", "127.0.0.1:81"),
        ] {
            let mut config = config(two);
            let address = adapt(&mut config, Path::new("/s"), old.parse().unwrap(), false).unwrap();
            assert_eq!(address, ListenAddress::Tcp(believed.parse().unwrap()), "{old}");
            assert_eq!(config.http.servers.len(), 1, "{old}: the others are the old server's");
        }
        for (http, old, said) in [
            (two, "127.0.0.1:82", "and at no port 82 of --old"),
            ("server { listen unix:/s; }", "127.0.0.1:80", "listens at no port, and"),
            ("server { listen 80 proxy_protocol; }", "127.0.0.1:80", "takes PROXY headers"),
        ] {
            let error = adapt(&mut config(http), Path::new("/s"), old.parse().unwrap(), false).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn no_file_of_the_site_is_written_and_nobody_is_told_twice() {
        let mut config = config(
            "access_log /var/log/a; error_log /var/log/e; proxy_cache_path /var/cache/p keys_zone=p:1m max_size=100g;
             client_body_temp_path /var/t; proxy_temp_path /var/u;
             server { listen 80; mirror /m; location / { proxy_pass http://127.0.0.1:1; proxy_store /srv/www$uri;
                      if ($arg_a) { access_log /var/log/i; } limit_except GET { access_log /var/log/l; deny all; } } }",
        );
        adapt(&mut config, Path::new("/scratch"), "127.0.0.1:80".parse().unwrap(), false).unwrap();
        for settings in levels::settings(&config) {
            assert!(settings.logs.access.is_empty() && settings.logs.error.is_empty());
            assert!(settings.subrequests.mirrors.is_empty() && settings.fields.cache_status);
            assert!(matches!(settings.proxy.origin.store, Store::Off));
            for path in [&settings.body.temp_path, &settings.proxy.origin.buffers.temp_path] {
                assert!(path.as_ref().is_some_and(|path| path.starts_with("/scratch")), "{path:?}");
            }
        }
        assert!(config.http.cache_paths.iter().all(|cache| cache.path.starts_with("/scratch")));
        assert_eq!(config.http.cache_paths[0].max_bytes, Some(DISK_BYTES_MAX));
        assert!(config.main.pid.is_some_and(|path| path.starts_with("/scratch")));
    }
}
