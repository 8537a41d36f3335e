//! `resolver`: resolves names by asking name servers, and caches the answers for their TTL.
//!
//! ```text
//! resolve -> known? -> addresses, turned round so that each is the first now and then
//!              `----> asked already? wait for that answer : a task asks (ask.rs), and all who came meanwhile wait
//! ```
//! The rules are nginx's. IPv4 and IPv6 are asked for at once, and a failure of one is a failure of the name. Failures
//! are not cached. If a server does not answer within 5 s, the next is asked. A request waits up to `resolver_timeout`;
//! when no request waits any more, the question is given up. One resolver serves all workers of the process.

mod ask;
mod counts;
pub(crate) mod fuzzing;
#[cfg(test)]
mod tests;
mod wire;

use std::{
    collections::HashMap,
    fmt,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

use ask::{Asked, Found, ask, random};
pub use counts::{ResolverCounts, ResolverSums};
use wire::{Kind, NOT_FOUND, code_text};

/// Called with complaints about name servers, each a line in nginx's words.
pub type Report = Arc<dyn Fn(&str) + Send + Sync>;

/// The parameters of `resolver`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolverOptions {
    /// The name servers, asked in turn.
    pub servers: Vec<SocketAddr>,
    /// `valid=`: how long an answer is cached, whatever its TTL.
    pub valid: Option<Duration>,
    /// Whether IPv4 addresses are asked for.
    pub ipv4: bool,
    /// Whether IPv6 addresses are asked for.
    pub ipv6: bool,
}

/// Asks name servers, and caches their answers.
pub struct Resolver {
    options: ResolverOptions,
    report: Report,
    counts: Arc<ResolverCounts>,
    /// Not held across an await.
    state: Mutex<State>,
}

struct State {
    names: HashMap<(Sort, String), Entry>,
    /// The server for the next name.
    next_server: usize,
}

/// Whether a name is that of a host or a service; they are cached separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Sort {
    Host,
    Service,
}

/// The state of a name in the cache.
///
/// ```text
/// (absent) --asked for--> Asking --answer--> Known --its time is over--> Asking
///    ^---- a failure, nobody waits --'
/// ```
enum Entry {
    Known(Arc<Known>),
    /// A task is asking. Each waiting request has a clone of this receiver.
    Asking(watch::Receiver<Option<Result<Arc<Known>, u8>>>),
}

struct Known {
    found: Found,
    until: Instant,
}

/// The addresses of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// At least one.
    pub addresses: Vec<IpAddr>,
    /// When they expire.
    pub until: Instant,
}

/// The servers of a service, by its SRV records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceResolution {
    /// The servers that have an address.
    pub servers: Vec<ServiceServer>,
    /// Names of servers without an address, and why.
    pub missing: Vec<Unresolved>,
    /// How long they hold.
    pub until: Instant,
}

/// One server of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceServer {
    /// Where it listens.
    pub address: SocketAddr,
    /// Its name.
    pub name: String,
    /// Servers with the lowest priority number are asked first.
    pub priority: u16,
    /// Its share among servers of the same priority.
    pub weight: u16,
}

/// Why a name has no addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} could not be resolved ({code}: {})", code_text(*.code))]
pub struct Unresolved {
    /// What was asked for.
    pub name: String,
    /// What the server said, [`Unresolved::NOT_FOUND`] or [`Unresolved::TIMED_OUT`].
    pub code: u8,
    /// When to ask again, for names that are refreshed by a timer.
    pub until: Instant,
}

impl Unresolved {
    /// There is no such name, or it has no addresses.
    pub const NOT_FOUND: u8 = NOT_FOUND;
    /// There was no answer in time.
    pub const TIMED_OUT: u8 = 110;
}

/// How many CNAMEs are followed.
const ALIASES_MAX: usize = 50;
/// How many names are cached before expired ones are dropped; visitors may make names up.
const NAMES_MAX: usize = 10_000;
/// After a failure, names that are refreshed by a timer are asked for again after this time.
const FAILURE_KEPT: Duration = Duration::from_secs(10);
/// Servers of one service.
const SERVICE_SERVERS_MAX: usize = 256;

impl Resolver {
    /// A resolver with an empty cache, which counts there.
    pub fn new(options: ResolverOptions, report: Report, counts: Arc<ResolverCounts>) -> Arc<Resolver> {
        let state = State { names: HashMap::new(), next_server: 0 };
        Arc::new(Resolver { options, report, counts, state: Mutex::new(state) })
    }

    /// Finds the addresses of a host, within `timeout`; zero is no limit. Needs a tokio runtime with time and I/O.
    pub async fn resolve(self: &Arc<Self>, name: &str, timeout: Duration) -> Result<Resolution, Unresolved> {
        let deadline = deadline(timeout);
        let (known, was_known) = self.find(Sort::Host, name, deadline).await?;
        Ok(Resolution { addresses: addresses(&known.found, was_known), until: known.until })
    }

    /// Finds the servers of `service` at `name`, within `timeout`: `http` stands for `_http._tcp`.
    pub async fn resolve_service(
        self: &Arc<Self>,
        service: &str,
        name: &str,
        timeout: Duration,
    ) -> Result<ServiceResolution, Unresolved> {
        let deadline = deadline(timeout);
        let name = name.trim_end_matches('.');
        let whole = match service.contains('.') {
            true => format!("{service}.{name}"),
            false => format!("_{service}._tcp.{name}"),
        };
        let (known, _) = self.find(Sort::Service, &whole, deadline).await?;
        let mut services = known.found.services.clone();
        services.sort_by_key(|service| service.priority);
        let mut resolution = ServiceResolution { servers: Vec::new(), missing: Vec::new(), until: known.until };
        for service in services.into_iter().take(SERVICE_SERVERS_MAX) {
            match self.find(Sort::Host, &service.target, deadline).await {
                Ok((host, was_known)) => {
                    resolution.until = resolution.until.min(host.until);
                    resolution.servers.extend(addresses(&host.found, was_known).into_iter().map(|ip| ServiceServer {
                        address: SocketAddr::new(ip, service.port),
                        name: service.target.clone(),
                        priority: service.priority,
                        weight: service.weight,
                    }));
                }
                Err(error) => resolution.missing.push(error),
            }
        }
        match (resolution.servers.is_empty(), resolution.missing.first()) {
            // The first of them says why there is no server at all.
            (true, Some(error)) => Err(Unresolved { name: whole, ..error.clone() }),
            _ => Ok(resolution),
        }
    }

    /// Follows CNAMEs from `name` to addresses or servers. Also returns whether they were cached.
    async fn find(
        self: &Arc<Self>,
        sort: Sort,
        name: &str,
        deadline: Instant,
    ) -> Result<(Arc<Known>, bool), Unresolved> {
        let asked_for = name.trim_end_matches('.');
        let failed = |code| Unresolved { name: asked_for.to_owned(), code, until: self.failure_until() };
        let mut name = asked_for.to_ascii_lowercase();
        for _ in 0..=ALIASES_MAX {
            let (known, was_known) = match timeout_at(deadline, self.look(sort, &name)).await {
                Ok(Ok(known)) => known,
                Ok(Err(code)) => return Err(failed(code)),
                Err(_) => return Err(failed(Unresolved::TIMED_OUT)),
            };
            let Found { v4, v6, services, alias, .. } = &known.found;
            match alias {
                Some(alias) if v4.is_empty() && v6.is_empty() && services.is_empty() => name.clone_from(alias),
                _ => return Ok((known, was_known)),
            }
        }
        Err(failed(NOT_FOUND))
    }

    /// The answer for one name, asked for if it is not cached. Also returns whether it was cached.
    async fn look(self: &Arc<Self>, sort: Sort, name: &str) -> Result<(Arc<Known>, bool), u8> {
        loop {
            let mut answer = match self.known_or_asking(sort, name) {
                Entry::Known(known) => return Ok((known, true)),
                Entry::Asking(answer) => answer,
            };
            // If the task ended with its worker, there is no answer; then another one asks.
            if let Ok(answer) = answer.wait_for(Option::is_some).await
                && let Some(answer) = &*answer
            {
                return answer.clone().map(|known| (known, false));
            }
        }
    }

    fn known_or_asking(self: &Arc<Self>, sort: Sort, name: &str) -> Entry {
        let mut state = self.state.lock();
        let now = Instant::now();
        match state.names.get(&(sort, name.to_owned())) {
            Some(Entry::Known(known)) if known.until > now => return Entry::Known(Arc::clone(known)),
            Some(Entry::Asking(answer)) => return Entry::Asking(answer.clone()),
            Some(Entry::Known(_)) | None => {}
        }
        if state.names.len() >= NAMES_MAX {
            let is_of_use = |entry: &Entry| match entry {
                Entry::Known(known) => known.until > now,
                Entry::Asking(_) => true,
            };
            state.names.retain(|_, entry| is_of_use(entry));
            if state.names.len() >= NAMES_MAX {
                state.names.retain(|_, entry| matches!(entry, Entry::Asking(_)));
            }
        }
        let first = state.next_server;
        state.next_server = (first + 1) % self.options.servers.len().max(1);
        let (teller, answer) = watch::channel(None);
        state.names.insert((sort, name.to_owned()), Entry::Asking(answer.clone()));
        drop(state);
        let question = Question { resolver: Arc::clone(self), sort, name: name.to_owned(), teller };
        tokio::spawn(question.ask(first));
        Entry::Asking(answer)
    }

    fn failure_until(&self) -> Instant {
        Instant::now() + self.options.valid.unwrap_or(FAILURE_KEPT)
    }
}

/// A running question. If it is dropped without an answer, the next request asks for the name again.
struct Question {
    resolver: Arc<Resolver>,
    sort: Sort,
    name: String,
    teller: watch::Sender<Option<Result<Arc<Known>, u8>>>,
}

impl Question {
    async fn ask(self, first: usize) {
        let ResolverOptions { servers, valid, ipv4, ipv6 } = &self.resolver.options;
        let kinds: Vec<Kind> = match self.sort {
            Sort::Host => [(Kind::A, *ipv4), (Kind::Aaaa, *ipv6)].iter().filter(|kind| kind.1).map(|k| k.0).collect(),
            Sort::Service => vec![Kind::Srv],
        };
        let counts = &self.resolver.counts;
        counts.asked(self.sort);
        loop {
            let is_wanted = || self.teller.receiver_count() > 1;
            let answer = match ask(&self.name, &kinds, servers, first, &self.resolver.report, is_wanted).await {
                Asked::Found(found) => {
                    counts.answered(0);
                    let until = Instant::now() + valid.unwrap_or(found.ttl.min(TTL_MAX));
                    Ok(Arc::new(Known { found, until }))
                }
                Asked::Failed(code) => {
                    counts.answered(code);
                    Err(code)
                }
                Asked::Abandoned => {
                    let mut state = self.resolver.state.lock();
                    // A waiting request has cloned its receiver under this lock.
                    if is_wanted() && !servers.is_empty() {
                        continue;
                    }
                    state.names.remove(&(self.sort, self.name.clone()));
                    counts.timed_out();
                    return;
                }
            };
            let mut state = self.resolver.state.lock();
            let key = (self.sort, self.name.clone());
            match &answer {
                Ok(known) => state.names.insert(key, Entry::Known(Arc::clone(known))),
                Err(_) => state.names.remove(&key),
            };
            drop(state);
            self.teller.send_replace(Some(answer));
            return;
        }
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        let mut state = self.resolver.state.lock();
        let key = (self.sort, self.name.clone());
        if let Some(Entry::Asking(answer)) = state.names.get(&key)
            && answer.same_channel(&self.teller.subscribe())
        {
            state.names.remove(&key);
        }
    }
}

/// The longest TTL; more is a mistake (RFC 8767 §4).
const TTL_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// When a wait ends that begins now. As in nginx, zero means no limit.
fn deadline(timeout: Duration) -> Instant {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
    Instant::now() + if timeout.is_zero() { YEAR } else { timeout.min(YEAR) }
}

/// All addresses, in nginx's order. For requests that waited for the answer: the order of the name server, IPv4 first.
/// For later requests, each family is rotated, and either may come first, so that the load spreads.
fn addresses(found: &Found, was_known: bool) -> Vec<IpAddr> {
    let (mut v4, mut v6) = (found.v4.clone(), found.v6.clone());
    let turn = |list: &mut Vec<IpAddr>| {
        if was_known && list.len() > 1 {
            let by = random() as usize % list.len();
            list.rotate_left(by);
        }
    };
    turn(&mut v4);
    turn(&mut v6);
    v4.append(&mut v6);
    turn(&mut v4);
    v4
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").field("options", &self.options).finish_non_exhaustive()
    }
}
