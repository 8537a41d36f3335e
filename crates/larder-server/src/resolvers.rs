//! Resolves names beside requests: groups whose servers are resolved again and again, and the log for errors of name
//! servers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use larder_conf::model::LogLevel;
use larder_origin::resolver::{Report, Resolver, ServiceResolution, Unresolved};
use larder_origin::{Address, Group, Server};
use parking_lot::Mutex;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::log::main::MainLog;

/// Makes a resolver report to `log`, which is open before the first question.
pub fn report(log: &MainLog) -> Report {
    let log = log.clone();
    Arc::new(move |line| log.write(LogLevel::Error, line))
}

/// A group with servers given by name; a name is resolved again when its answer expires.
pub struct Followed {
    group: Arc<Group>,
    /// Servers with fixed addresses.
    fixed: Vec<Server>,
    names: Vec<FollowedName>,
    resolver: Arc<Resolver>,
    timeout: Duration,
    log: MainLog,
}

/// A `server NAME resolve`.
pub struct FollowedName {
    /// The host name, as written.
    pub host: String,
    /// The port, if no service record gives it.
    pub port: u16,
    /// `service=`.
    pub service: Option<String>,
    /// The parameters of the `server` line; its address is a placeholder.
    pub template: Server,
    /// Guards the last answer. Not held across an await.
    pub found: Mutex<FoundServers>,
}

/// The addresses of a name.
#[derive(Clone, Default)]
pub struct FoundServers {
    servers: Vec<Server>,
    until: Option<Instant>,
}

/// The least time between two questions about a name.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// Starts to follow `all` on this worker.
pub fn follow(all: &[Arc<Followed>]) -> Vec<AbortHandle> {
    let mut tasks = Vec::new();
    for followed in all {
        for at in 0..followed.names.len() {
            let followed = Arc::clone(followed);
            tasks.push(tokio::task::spawn_local(async move { followed.run(at).await }).abort_handle());
        }
    }
    tasks
}

impl Followed {
    /// Follows the names of `group`, and begins with the addresses that `old` has found for the same names.
    pub fn new(
        group: Arc<Group>,
        fixed: Vec<Server>,
        names: Vec<FollowedName>,
        (resolver, timeout): (Arc<Resolver>, Duration),
        log: MainLog,
        old: Option<&Followed>,
    ) -> Arc<Followed> {
        for name in &names {
            let known = old.into_iter().flat_map(|old| &old.names);
            if let Some(known) = known.into_iter().find(|old| old.host == name.host && old.service == name.service) {
                let known = known.found.lock().clone();
                let servers = known.servers.into_iter().map(|server| name.inherit(server)).collect();
                *name.found.lock() = FoundServers { servers, until: known.until };
            }
        }
        let followed = Arc::new(Followed { group, fixed, names, resolver, timeout, log });
        followed.apply();
        followed
    }

    /// The name of the group.
    pub fn group_name(&self) -> &str {
        self.group.name()
    }

    /// Resolves one name again and again, for ever.
    async fn run(&self, at: usize) {
        let Some(name) = self.names.get(at) else { return };
        let mut until = name.found.lock().until;
        loop {
            if let Some(until) = until {
                tokio::time::sleep_until(until).await;
            }
            let (found, failure) = self.ask(name).await;
            let now = Instant::now();
            until = Some(match failure {
                // The name may still exist.
                Some(failure) if failure.code != Unresolved::NOT_FOUND => now + self.timeout.max(PAUSE_MIN),
                Some(failure) => self.take_found(name, Vec::new(), failure.until.max(now + PAUSE_MIN)),
                None => self.take_found(name, found.0, found.1.max(now + PAUSE_MIN)),
            });
        }
    }

    async fn ask(&self, name: &FollowedName) -> ((Vec<Server>, Instant), Option<Unresolved>) {
        let none = (Vec::new(), Instant::now());
        match &name.service {
            None => match self.resolver.resolve(&name.host, self.timeout).await {
                Ok(found) => {
                    let servers = found.addresses.iter().map(|&ip| name.at(SocketAddr::new(ip, name.port)));
                    ((servers.collect(), found.until), None)
                }
                Err(failure) => {
                    self.log.write(LogLevel::Error, &failure);
                    (none, Some(failure))
                }
            },
            Some(service) => match self.resolver.resolve_service(service, &name.host, self.timeout).await {
                Ok(found) => {
                    for missing in &found.missing {
                        let text = format_args!("{missing} while resolving service {service} of {}", name.host);
                        self.log.write(LogLevel::Error, text);
                    }
                    ((name.of_service(&found), found.until), None)
                }
                Err(failure) => {
                    let told = Unresolved { name: format!("service {service} of {}", name.host), ..failure.clone() };
                    self.log.write(LogLevel::Error, told);
                    (none, Some(failure))
                }
            },
        }
    }

    /// Takes what was found; those that stay keep their place.
    fn take_found(&self, name: &FollowedName, servers: Vec<Server>, until: Instant) -> Instant {
        let mut found = name.found.lock();
        let is_same = |a: &Server, b: &Server| {
            a.address == b.address && a.name == b.name && a.weight == b.weight && a.backup == b.backup
        };
        let mut kept: Vec<Server> =
            found.servers.iter().filter(|old| servers.iter().any(|new| is_same(old, new))).cloned().collect();
        let is_changed = kept.len() != found.servers.len() || kept.len() != servers.len();
        kept.extend(servers.into_iter().filter(|new| !found.servers.iter().any(|old| is_same(old, new))));
        *found = FoundServers { servers: kept, until: Some(until) };
        drop(found);
        if is_changed {
            self.apply();
        }
        until
    }

    fn apply(&self) {
        let mut servers = self.fixed.clone();
        for name in &self.names {
            servers.extend(name.found.lock().servers.iter().cloned());
        }
        self.group.replace(servers);
    }
}

impl FollowedName {
    /// A server at `address` with the parameters of the `server` line.
    fn at(&self, address: SocketAddr) -> Server {
        Server { address: Address::Tcp(address), ..self.template.clone() }
    }

    /// A server that another line of the same name has found, with the parameters of this one.
    fn inherit(&self, old: Server) -> Server {
        let Address::Tcp(mut address) = old.address else { return old };
        match self.service {
            None => {
                address.set_port(self.port);
                self.at(address)
            }
            Some(_) => {
                let weight = if self.template.weight == 1 { old.weight } else { self.template.weight };
                Server { name: old.name, backup: old.backup, weight, ..self.at(address) }
            }
        }
    }

    /// The servers of service records. Those with the best priority are asked first, the others are backups. A weight
    /// in the configuration wins over those of the records.
    fn of_service(&self, found: &ServiceResolution) -> Vec<Server> {
        let first = found.servers.iter().map(|server| server.priority).min();
        let servers = found.servers.iter().map(|server| Server {
            name: server.name.clone(),
            weight: if self.template.weight == 1 { server.weight.into() } else { self.template.weight },
            backup: Some(server.priority) != first,
            ..self.at(server.address)
        });
        servers.collect()
    }
}
