//! Gives groups of origins their gates: `larder_gate`, `queue`, or as many as the php-fpm of this machine has children.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use larder_conf::model::{self, At, GateLimit};
use larder_conf::{Diagnostic, Span};
use larder_origin::gate::{Gate, Limit, Rules};
use larder_origin::{Address, Group, Server};
use tokio::time::Instant;

use crate::material::{FpmPool, Material};
use crate::site::Gating;
use crate::text::Text;

use super::Builder;

/// What is wished of the gates of groups, by their places.
#[derive(Default)]
pub struct Wishes {
    of: BTreeMap<usize, Wish>,
    /// The `larder_gate`s outside `upstream` blocks that say something of a group, and those that say nothing of one that
    /// has its own.
    heard: BTreeSet<Span>,
    unheard: BTreeMap<Span, (usize, Span)>,
}

#[derive(Default)]
struct Wish {
    /// The `larder_gate` of its `upstream`, or of a location that asks it.
    gate: Option<At<model::Gate>>,
    /// Whether the `upstream` itself says it.
    is_own: bool,
    queue: Option<At<model::Queue>>,
    /// A `fastcgi_pass` to it that has no `larder_gate`.
    fastcgi: Option<Span>,
}

impl Wish {
    /// Where its `upstream` says who waits.
    fn own(&self) -> Option<Span> {
        let gate = self.gate.as_ref().filter(|_| self.is_own).map(|gate| gate.span);
        gate.or(self.queue.as_ref().map(|queue| queue.span))
    }
}

/// Gates that go on under other rules, once the configuration holds.
pub type Changes = Vec<(Arc<Gate>, Rules)>;

impl Builder {
    /// Notes what an `upstream` says.
    pub(super) fn wish_of_group(&mut self, group: usize, upstream: &model::Upstream) {
        let (gate, queue) = (upstream.gate.clone(), upstream.queue.clone());
        let wish = Wish { is_own: gate.is_some(), gate, queue, fastcgi: None };
        self.gates.of.insert(group, wish);
        if let Some(queue) = &upstream.queue
            && upstream.servers.iter().all(|server| server.max_conns == 0)
        {
            self.diagnostics.push(
                *Diagnostic::warning("\"queue\" has nobody wait, as no server of its \"upstream\" has \"max_conns\"")
                    .at(queue.span)
                    .help("write \"max_conns=N\" behind each server, or \"larder_gate N;\" in place of \"queue\""),
            );
        }
    }

    /// Notes what a location says that asks a group. Returns how its requests go through the gate.
    pub(super) fn wish_of_location(
        &mut self,
        group: Option<usize>,
        settings: &model::Settings,
        (is_fastcgi, span): (bool, Span),
        http: &model::Http,
    ) -> Gating {
        let class: Option<Text> = self.maybe(settings.gating.class.as_ref());
        let Some(group) = group else { return Gating { passes: false, class } };
        let said = settings.gating.gate.clone();
        let wish = self.gates.of.entry(group).or_default();
        let is_everywhere =
            |said: &At<model::Gate>| http.settings.gating.gate.as_ref().is_some_and(|of| of.span == said.span);
        match (&said, wish.own()) {
            (Some(said), Some(own)) if said.value.limit != GateLimit::Off => {
                if wish.gate.as_ref().is_none_or(|gate| gate.value != said.value) {
                    self.gates.unheard.insert(said.span, (group, own));
                }
            }
            (Some(said), _) => drop(self.gates.heard.insert(said.span)),
            (None, _) => {}
        }
        let mut conflict = None;
        let passes = match (said, &wish.gate) {
            (Some(said), _) if said.value.limit == GateLimit::Off => !is_everywhere(&said) && wish.queue.is_none(),
            (None, _) if is_fastcgi => {
                wish.fastcgi.get_or_insert(span);
                false
            }
            (None, _) => false,
            (Some(_), Some(_)) if wish.is_own => false,
            (Some(said), Some(known)) if known.value == said.value => false,
            (Some(said), Some(known)) if is_everywhere(&said) || is_everywhere(known) => {
                // The nearer one holds.
                if is_everywhere(known) {
                    wish.gate = Some(said);
                }
                false
            }
            (Some(said), Some(known)) => {
                conflict = Some((said.span, known.span));
                false
            }
            (Some(said), None) => {
                wish.gate = Some(said);
                false
            }
        };
        if let Some((here, there)) = conflict {
            let name = self.site.origins.groups[group].name().to_owned();
            self.diagnostics.push(
                *Diagnostic::error(format!("\"{name}\" has one gate, and \"larder_gate\" says two things of it"))
                    .at(here)
                    .related(there, "another location says this")
                    .help("say the same in both, or once in an \"upstream\" block"),
            );
        }
        Gating { passes, class }
    }

    /// Makes the gates, and returns those that were there before, with the rules that hold now.
    pub fn make_gates(&mut self, material: &Material) -> Changes {
        let mut changes = Changes::new();
        let Wishes { mut of, heard, unheard } = std::mem::take(&mut self.gates);
        for (said, (group, own)) in unheard.into_iter().filter(|(said, _)| !heard.contains(said)) {
            let name = self.site.origins.groups[group].name();
            self.diagnostics.push(
                *Diagnostic::warning(format!("this \"larder_gate\" says nothing: \"upstream {name}\" says who waits"))
                    .at(said)
                    .related(own, "which holds")
                    .help("leave one of them out; \"larder_gate off;\" lets the requests of a location pass by"),
            );
        }
        for (at, group) in self.site.origins.groups.clone().into_iter().enumerate() {
            let rules = of.remove(&at).and_then(|wish| self.rules_of(&group, &wish, material));
            let name = self.groups.iter().find(|(_, of)| Arc::ptr_eq(of, &group)).map(|(name, _)| name);
            let before = name.and_then(|name| self.groups_before.get(name)).and_then(|group| group.gate()).cloned();
            match (before, rules) {
                (Some(gate), Some(rules)) => {
                    changes.push((Arc::clone(&gate), rules));
                    group.set_gate(gate);
                }
                (Some(gate), None) => changes.push((gate, Rules::OPEN)),
                (None, Some(rules)) => group.set_gate(Gate::new(rules)),
                (None, None) => {}
            }
        }
        changes
    }

    fn rules_of(&mut self, group: &Group, wish: &Wish, material: &Material) -> Option<Rules> {
        if let Some(queue) = &wish.queue {
            return Some(rules(Limit::Servers, queue.value.most, Some(queue.value.timeout)));
        }
        let (gate, span, is_said) = match (&wish.gate, wish.fastcgi) {
            (Some(gate), _) => (gate.value, gate.span, true),
            (None, Some(span)) => (model::Gate::AUTO, span, false),
            (None, None) => return None,
        };
        let limit = match gate.limit {
            GateLimit::Off => return None,
            GateLimit::Fixed(limit) => Limit::Fixed(limit),
            GateLimit::Adaptive { min, max } => Limit::Adaptive { min, max },
            GateLimit::Auto => match children_of(group, material.pools()) {
                Ok((children, pools)) => {
                    if !is_said {
                        self.diagnostics.push(
                            *Diagnostic::notice(format!(
                                "at most {children} requests are at \"{}\" at once, as pm.max_children of {pools} says; \
                                 others wait",
                                group.name()
                            ))
                            .at(span)
                            .label("\"larder_gate off;\" sends all at once, as nginx does"),
                        );
                    }
                    Limit::Fixed(children)
                }
                Err(server) => {
                    if is_said {
                        let message = format!(
                            "\"larder_gate auto\" does not know how many children {server} has: there is no gate"
                        );
                        self.diagnostics.push(
                            *Diagnostic::warning(message)
                                .at(span)
                                .help("no pool file of a php-fpm on this machine names it; write \"larder_gate N;\""),
                        );
                    }
                    return None;
                }
            },
        };
        Some(rules(limit, gate.queue, gate.timeout))
    }
}

fn rules(limit: Limit, queue: u32, timeout: Option<Duration>) -> Rules {
    Rules { limit, queue_max: queue as usize, timeout }
}

/// How many children the php-fpm pools of a group have together, and which pools they are; or a server that is none that
/// is known.
fn children_of(group: &Group, pools: &[FpmPool]) -> Result<(u32, String), String> {
    let servers = group.servers(Instant::now());
    let mut found: Vec<&FpmPool> = Vec::new();
    for server in servers.iter().map(|of| &of.server).filter(|server| !server.down && !server.backup) {
        let pool = pools.iter().find(|pool| is_at(pool, server)).ok_or_else(|| server.address.to_string())?;
        if !found.iter().any(|known| std::ptr::eq(*known, pool)) {
            found.push(pool);
        }
    }
    let children = found.iter().fold(0u32, |sum, pool| sum.saturating_add(pool.children));
    if children == 0 {
        return Err(format!("\"{}\"", group.name()));
    }
    let shown: Vec<&str> = found.iter().map(|pool| pool.shown.as_str()).collect();
    Ok((children, shown.join(", ")))
}

/// Whether a server is this pool, and no pool of another machine.
fn is_at(pool: &FpmPool, server: &Server) -> bool {
    match (&pool.listen, &server.address) {
        (Address::Unix(own), Address::Unix(asked)) => {
            let is_link = || pool.links.contains(&followed(asked)) && asked.symlink_metadata().is_err();
            own == asked || followed(own) == followed(asked) || is_link()
        }
        (Address::Tcp(own), Address::Tcp(asked)) => {
            let is_all = own.ip().is_unspecified() && is_loopback(asked.ip());
            own.port() == asked.port() && (own.ip() == asked.ip() || is_all)
        }
        (Address::Unix(_), Address::Tcp(_)) | (Address::Tcp(_), Address::Unix(_)) => false,
    }
}

/// The file that a path leads to, if it is there. `/var/run` is `/run` also before php-fpm has made its folder there.
fn followed(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| match path.strip_prefix("/var/run") {
        Ok(rest) => Path::new("/run").join(rest),
        Err(_) => path.to_owned(),
    })
}

fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use larder_origin::{Balance, Keepalive};

    use super::*;

    fn pool(listen: &str, children: u32) -> FpmPool {
        let listen = match listen.parse() {
            Ok(address) => Address::Tcp(address),
            Err(_) => Address::Unix(listen.into()),
        };
        FpmPool { listen, links: Vec::new(), children, shown: format!("pool of {children}") }
    }

    fn children(servers: &[Server], pools: &[FpmPool]) -> Result<u32, String> {
        let group = Group::new("php", servers.to_vec(), Balance::RoundRobin, Keepalive::NONE);
        children_of(&group, pools).map(|(children, _)| children)
    }

    #[test]
    fn a_link_that_is_not_there_yet_leads_where_it_will() {
        let unix = |path: &str| Server::new(Address::Unix(path.into()));
        let links = vec![PathBuf::from("/run/none/php-fpm.sock")];
        let pools = [pool("/run/none/php8.1.sock", 3), FpmPool { links, ..pool("/run/none/php8.2.sock", 5) }];
        for (asked, expected) in [
            ("/run/none/php-fpm.sock", Some(5)),
            ("/var/run/none/php-fpm.sock", Some(5)),
            ("/var/run/none/php8.1.sock", Some(3)),
            ("/run/none/other.sock", None),
        ] {
            assert_eq!(children(&[unix(asked)], &pools).ok(), expected, "{asked}");
        }
        // One that is there leads elsewhere.
        let there = std::env::current_exe().unwrap();
        let pools = [FpmPool { links: vec![there.canonicalize().unwrap()], ..pool("/run/none/php.sock", 5) }];
        assert!(children(&[unix(there.to_str().unwrap())], &pools).is_err());
    }

    #[test]
    fn only_pools_of_this_machine_say_how_many_there_may_be() {
        let unix = |path: &str| Server::new(Address::Unix(path.into()));
        let tcp = |address: &str| Server::new(Address::Tcp(address.parse().unwrap()));
        let pools = [pool("/run/php.sock", 5), pool("0.0.0.0:9000", 7), pool("10.0.0.1:9001", 9), pool("/none", 0)];
        for (servers, expected) in [
            (vec![unix("/run/php.sock")], Some(5)),
            (vec![unix("/run/other.sock")], None),
            (vec![tcp("127.0.0.1:9000")], Some(7)),
            (vec![tcp("[::1]:9000")], Some(7)),
            (vec![tcp("10.0.0.2:9000")], None),
            (vec![tcp("10.0.0.1:9001")], Some(9)),
            (vec![tcp("127.0.0.1:9001")], None),
            (vec![unix("/run/php.sock"), tcp("127.0.0.1:9000")], Some(12)),
            (vec![unix("/run/php.sock"), unix("/run/php.sock")], Some(5)),
            (vec![unix("/run/php.sock"), tcp("10.9.9.9:9000")], None),
            (vec![unix("/run/php.sock"), Server { backup: true, ..tcp("10.9.9.9:9000") }], Some(5)),
            (vec![unix("/none")], None),
            (vec![], None),
        ] {
            assert_eq!(children(&servers, &pools).ok(), expected, "{servers:?}");
        }
    }
}
