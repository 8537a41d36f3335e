//! The pools of php-fpm on this machine, for `larder_gate auto`: what packages have, read as the configuration is.

use std::path::{Path, PathBuf};

use larder_conf::model::Config;
use larder_conf::{Loader, Sources};
use larder_origin::Address;

use crate::doctor::php::origins;
use crate::doctor::php::pools::{self, PLACES, Pool};
use crate::serve::fpm;
use crate::serving::{FpmPool, Material};

/// Adds the pools to `material`, and their files, so that a process that has this configuration by a message has them too.
/// What cannot be read has no gate.
pub fn read(config: &Config, loader: &mut dyn Loader, sources: &mut Sources, material: &mut Material) {
    if origins::of(config).is_empty() {
        return;
    }
    let mut found = Vec::new();
    for pattern in PLACES {
        let files = loader.glob(pattern).unwrap_or_default();
        sources.add_glob(pattern, files.clone());
        for file in files.into_iter().take(FILES_MAX) {
            let bytes = loader.read(&file);
            if let Ok(bytes) = &bytes {
                found.extend(pools::parse(&file, &String::from_utf8_lossy(bytes)).pools);
            }
            material.add(file, bytes);
        }
    }
    let newest = newest(&found);
    let with_link = |pool: &Pool| {
        let mut known = known(pool)?;
        if Some(&pool.file) == newest.as_ref() && pool.name == USUAL_NAME {
            known.links.push(USUAL_LINK.into());
        }
        Some(known)
    };
    material.set_pools(found.iter().filter_map(with_link).collect());
}

/// The link that Debian's packages make beside their sockets, when a php-fpm starts.
const USUAL_LINK: &str = "/run/php/php-fpm.sock";
/// The pool that packages have.
const USUAL_NAME: &str = "www";

/// The file of the pool that [`USUAL_LINK`] will lead to: what `/etc/alternatives` has from the last time, or else the newest
/// version, as update-alternatives has it.
///
/// Source: `php-fpm-socket-helper` of Debian's php-common.
fn newest(pools: &[Pool]) -> Option<PathBuf> {
    let usual = || pools.iter().filter(|pool| pool.name == USUAL_NAME);
    let chosen = std::fs::read_link("/etc/alternatives/php-fpm.sock").ok();
    let is_chosen = |pool: &&Pool| chosen.as_ref().is_some_and(|chosen| is_at(pool, chosen));
    let by_version =
        || usual().filter_map(|pool| Some((version(&pool.file)?, pool))).max_by_key(|(version, _)| *version);
    usual().find(is_chosen).or_else(|| by_version().map(|(_, pool)| pool)).map(|pool| pool.file.clone())
}

fn is_at(pool: &Pool, socket: &Path) -> bool {
    matches!(pool.listen(), Some(fpm::Address::Unix(own)) if own == socket)
}

/// The version in `/etc/php/8.2/fpm/pool.d/www.conf`.
fn version(file: &Path) -> Option<(u32, u32)> {
    let name = file.strip_prefix("/etc/php").ok()?.components().next()?.as_os_str().to_str()?;
    let (major, minor) = name.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// How many pool files are read of each place.
const FILES_MAX: usize = 1000;

/// A pool whose place and size are known.
fn known(pool: &Pool) -> Option<FpmPool> {
    let listen = match pool.listen()? {
        fpm::Address::Unix(path) => Address::Unix(path),
        fpm::Address::Tcp(address) => Address::Tcp(address),
    };
    let children = u32::try_from(pool.children_max()?).ok()?;
    Some(FpmPool { listen, links: Vec::new(), children, shown: pool.shown() })
}

#[cfg(test)]
mod tests {
    use larder_conf::MemoryLoader;

    use super::*;
    use crate::configuration::{Configuration, Surroundings};
    use crate::paths::DefaultLog;

    fn load(site: &str, pool: &str) -> Configuration {
        let surroundings = Surroundings {
            conf_file: "/c".into(),
            conf_prefix: "/".into(),
            prefix: "/p".into(),
            globals: None,
            is_root: true,
            hostname: "h".to_owned(),
            error_log: DefaultLog::File("/e".into()),
        };
        let file = "/etc/php/8.2/fpm/pool.d/www.conf";
        let mut files = MemoryLoader::new();
        files.add("/c", format!("events {{}} http {{ {site} }}"));
        files.add(file, pool).add_glob(PLACES[0], vec![file.into()]);
        Configuration::from_memory(surroundings, files).expect("it is well-formed")
    }

    #[test]
    fn a_known_pool_is_a_gate_and_is_told_of() {
        const POOL: &str = "[www]\nlisten = /nowhere/php.sock\npm.max_children = 5\n";
        let here = "fastcgi_pass unix:/nowhere/php.sock;";
        let said = "at most 5 requests are at \"unix:/nowhere/php.sock\" at once, as pm.max_children of pool www";
        let unknown = "\"larder_gate auto\" does not know how many children";
        for (site, pool, expected) in [
            (format!("server {{ location / {{ {here} }} }}"), POOL, Some(said)),
            (format!("server {{ location / {{ {here} }} location /a {{ {here} }} }}"), POOL, Some(said)),
            (format!("larder_gate off; server {{ location / {{ {here} }} }}"), POOL, None),
            (format!("server {{ location / {{ larder_gate 9; {here} }} }}"), POOL, None),
            (format!("server {{ location / {{ larder_gate auto; {here} }} }}"), POOL, None),
            (format!("server {{ location / {{ {here} }} }}"), "[www]\nlisten = /nowhere/php.sock\n", None),
            (format!("larder_gate auto; server {{ location / {{ {here} }} }}"), "[www]\nlisten = 9\n", Some(unknown)),
            ("server { location / { fastcgi_pass unix:/other.sock; } }".to_owned(), POOL, None),
            (
                "upstream php { server unix:/nowhere/php.sock; } server { location / { fastcgi_pass php; } }"
                    .to_owned(),
                POOL,
                Some("at most 5 requests are at \"php\" at once"),
            ),
        ] {
            let notices: Vec<String> = load(&site, pool).notices.into_iter().map(|one| one.message).collect();
            match expected {
                Some(expected) => {
                    assert!(notices.len() == 1 && notices[0].starts_with(expected), "{site}: {notices:?}");
                }
                None => assert!(notices.is_empty(), "{site}: {notices:?}"),
            }
        }
    }

    #[test]
    fn the_link_of_debian_leads_to_the_newest_version() {
        let pool = |file: &str| pools::parse(Path::new(file), "[www]\nlisten = /run/php.sock").pools.remove(0);
        let files =
            ["/etc/php/8.4/fpm/pool.d/www.conf", "/etc/php/8.10/fpm/pool.d/www.conf", "/etc/php-fpm.d/www.conf"];
        for (files, expected) in [(&files[..], Some(files[1])), (&files[..1], Some(files[0])), (&files[2..], None)] {
            let pools: Vec<Pool> = files.iter().map(|file| pool(file)).collect();
            assert_eq!(newest(&pools), expected.map(PathBuf::from));
        }
        let here = "server { location / { fastcgi_pass unix:/run/php/php-fpm.sock; } }";
        let notices = load(here, "[www]\nlisten = /nowhere/php.sock\npm.max_children = 5\n").notices;
        let has_link = Path::new(USUAL_LINK).symlink_metadata().is_ok();
        assert_eq!(notices.len(), usize::from(!has_link), "{notices:?}");
    }

    #[test]
    fn what_says_nothing_of_a_gate_is_told() {
        const OWN: &str = "upstream a { server 127.0.0.1:1; larder_gate 4; } upstream b { server 127.0.0.1:2; }";
        let nothing = "this \"larder_gate\" says nothing: \"upstream a\" says who waits";
        for (site, expected) in [
            (format!("{OWN} server {{ location / {{ larder_gate 5; proxy_pass http://a; }} }}"), Some(nothing)),
            (format!("{OWN} server {{ larder_gate 5; location / {{ proxy_pass http://a; }} }}"), Some(nothing)),
            (format!("{OWN} server {{ location / {{ larder_gate 4; proxy_pass http://a; }} }}"), None),
            (format!("{OWN} server {{ location / {{ larder_gate off; proxy_pass http://a; }} }}"), None),
            (
                "upstream a { server 127.0.0.1:1 max_conns=1; queue 9; }
                 server { location / { larder_gate 5; proxy_pass http://a; } }"
                    .to_owned(),
                Some(nothing),
            ),
            // It is for the other group.
            (
                format!(
                    "{OWN} server {{ larder_gate 5; location / {{ proxy_pass http://a; }}
                     location /b {{ proxy_pass http://b; }} }}"
                ),
                None,
            ),
            // What `http` says is for groups of which nothing nearer says anything.
            (
                "larder_gate 4; server { location / { larder_gate 5; proxy_pass http://127.0.0.1:1; }
                 location /a { proxy_pass http://127.0.0.1:1; } }"
                    .to_owned(),
                None,
            ),
            (
                "upstream a { server 127.0.0.1:1; queue 9; }".to_owned(),
                Some("\"queue\" has nobody wait, as no server of its \"upstream\" has \"max_conns\""),
            ),
            ("upstream a { server 127.0.0.1:1; server 127.0.0.1:2 max_conns=1; queue 9; }".to_owned(), None),
        ] {
            let notices: Vec<String> = load(&site, "").notices.into_iter().map(|one| one.message).collect();
            assert_eq!(notices, Vec::from_iter(expected), "{site}");
        }
    }

    #[test]
    fn the_serving_process_knows_the_pools_from_the_message() {
        let configuration = load(
            "server { location / { fastcgi_pass unix:/nowhere/php.sock; } }",
            "[www]\nlisten = /nowhere/php.sock\npm.max_children = 5\n",
        );
        let message = crate::control::Configure {
            workers: 1,
            respawned: 0,
            reloads: 0,
            account: None,
            surroundings: configuration.surroundings.clone(),
            files: Vec::new(),
            globs: Vec::new(),
            listeners: Vec::new(),
            logs: Vec::new(),
            has_log_socket: false,
            has_ask_socket: false,
        };
        let mut loader = message.with_files(&configuration.sources, &configuration.material).loader();
        let again = Configuration::by_loader(configuration.surroundings.clone(), &mut loader).expect("the same");
        assert_eq!(again.material.pools(), configuration.material.pools());
        assert_eq!(again.material.pools().len(), 1);
    }
}
