//! A group (nginx's `upstream`): origins under one balancing rule, and their health.
//!
//! The rules are nginx's. An origin that failed `max_fails` times gets no requests for `fail_timeout`; then one request
//! tests it, and if that succeeds, the origin is healthy again. If no origin may be asked, the fetch fails with "no
//! live upstreams". The only origin of a group is never marked down.

mod choose;
mod counts;
mod hash;
#[cfg(test)]
mod tests;
mod times;

use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, RwLock};
use tokio::time::Instant;

use crate::{
    address::Address,
    gate::Gate,
    pool::{Keepalive, Pool},
};
pub(crate) use choose::{Pick, Turn};
use counts::Counts;
pub use counts::{BOUNDS_MILLIS, ServerCounts};
use hash::Ring;
use times::Times;
pub use times::{LeastTime, Until};

/// An origin of a group.
#[derive(Clone, Debug)]
pub struct Server {
    /// Where it listens.
    pub address: Address,
    /// `weight=`, 1.
    pub weight: u32,
    /// `max_fails=`, 1; 0 never counts.
    pub max_fails: u32,
    /// `fail_timeout=`, 10 s.
    pub fail_timeout: Duration,
    /// `max_conns=`, 0 for no limit.
    pub max_conns: u32,
    /// `backup`: only asked if no other server may be.
    pub backup: bool,
    /// `down`: never asked.
    pub down: bool,
    /// The name in the configuration. All addresses of a name share its points under `hash consistent`.
    pub name: String,
}

impl Server {
    /// A server with the defaults of nginx.
    pub fn new(address: Address) -> Server {
        Server {
            name: address.to_string(),
            address,
            weight: 1,
            max_fails: 1,
            fail_timeout: Duration::from_secs(10),
            max_conns: 0,
            backup: false,
            down: false,
        }
    }

    /// Whether both are the same server, so that the health of one applies to the other.
    fn is_same(&self, other: &Server) -> bool {
        self.address == other.address
            && self.name == other.name
            && self.weight == other.weight
            && self.backup == other.backup
    }
}

/// A server of a group, and how it does.
#[derive(Clone, Debug)]
pub struct ServerStatus {
    /// The server.
    pub server: Server,
    /// Whether it is asked.
    pub state: ServerState,
    /// How many fetches it is busy with.
    pub running: u32,
    /// What was counted.
    pub counts: ServerCounts,
}

/// Whether a server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerState {
    /// It is.
    Up,
    /// It is not, as the configuration says so.
    Down,
    /// It failed too often, and is only tested after `fail_timeout`.
    Unavailable,
}

/// How a group chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balance {
    /// Smooth weighted round robin.
    RoundRobin,
    /// `least_conn`: the fewest running requests for the weight.
    LeastConn,
    /// `least_time`: the shortest estimated time for the weight.
    LeastTime(LeastTime),
    /// `ip_hash`: by the address of the client.
    IpHash,
    /// `hash`: by a key.
    Hash {
        /// By a ring, so that adding or removing a server moves few keys.
        consistent: bool,
    },
    /// `random`: by chance and weight.
    Random {
        /// Of two random servers, the one with fewer running requests.
        two: bool,
    },
}

/// Origins under one balancing rule, shared by all workers of the process.
pub struct Group {
    name: String,
    balance: Balance,
    /// Replaced as a whole when names of its servers get other addresses. Not held across an await.
    members: RwLock<Arc<Members>>,
    pool: Arc<Pool>,
    gate: OnceLock<Arc<Gate>>,
}

/// The servers of a group at a time. A fetch uses the ones that it began with.
struct Members {
    servers: Vec<Server>,
    /// The address of each as text.
    shown: Vec<Arc<str>>,
    /// How many fetches each is busy with, as in `state`.
    running: Vec<Running>,
    /// What is counted of each, as in `state`.
    counts: Vec<Arc<Counts>>,
    primary: Tier,
    backup: Tier,
    /// The state of each of `servers`, in the same order. Not held across an await.
    state: Mutex<State>,
}

/// The normal servers of a group, or its backups.
struct Tier {
    /// Places in `Members::servers`.
    members: Vec<usize>,
    weight_total: u32,
    ring: Option<Ring>,
}

struct State {
    peers: Vec<Peer>,
    /// The last number of a xorshift generator; balance needs no better.
    random: u64,
}

/// The state of a server: weights, failures, running requests.
#[derive(Clone, Debug, Default)]
struct Peer {
    weight_current: i64,
    weight_effective: i64,
    /// Shared with newer members, if the server is still among them.
    running: Running,
    /// Shared likewise, and with the servers of the next configuration.
    counts: Arc<Counts>,
    fails: u32,
    times: Times,
    failed_at: Option<Instant>,
    checked_at: Option<Instant>,
}

impl Peer {
    /// The state for new members. Running fetches end with the old members.
    fn for_new_members(mut self) -> Self {
        self.times.forget_inflight();
        self
    }
}

/// The number of fetches that a server is busy with.
#[derive(Clone, Debug, Default)]
struct Running(Arc<AtomicU32>);

impl Running {
    fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    fn one_more(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn one_less(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Group {
    /// A group of servers. A group without servers answers every fetch with "no live upstreams".
    pub fn new(name: impl Into<String>, servers: Vec<Server>, balance: Balance, keepalive: Keepalive) -> Arc<Group> {
        Group::gated(name, servers, balance, keepalive, None)
    }

    /// A group behind a gate, if there is one.
    pub fn gated(
        name: impl Into<String>,
        servers: Vec<Server>,
        balance: Balance,
        keepalive: Keepalive,
        gate: Option<Arc<Gate>>,
    ) -> Arc<Group> {
        let members = RwLock::new(Arc::new(Members::new(servers, balance, |_| None)));
        let gate = gate.map_or_else(OnceLock::new, OnceLock::from);
        Arc::new(Group { name: name.into(), balance, members, pool: Pool::new(keepalive), gate })
    }

    /// Replaces its servers. Servers that stay keep their state and their connections.
    pub fn replace(&self, servers: Vec<Server>) {
        let mut members = self.members.write();
        let new = {
            let state = members.state.lock();
            let known = |server: &Server| members.servers.iter().position(|old| old.is_same(server));
            Members::new(servers, self.balance, |server| {
                state.peers.get(known(server)?).cloned().map(Peer::for_new_members)
            })
        };
        *members = Arc::new(new);
    }

    /// A group of one origin, for an address in `proxy_pass` or `fastcgi_pass`. As in nginx, it keeps no connections.
    pub fn single(address: Address) -> Arc<Group> {
        Group::new(address.to_string(), vec![Server::new(address)], Balance::RoundRobin, Keepalive::NONE)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether one of its servers may be asked now: none of them is `down`, or rests after failures, or has as many
    /// requests as it may.
    pub fn is_up(&self, now: Instant) -> bool {
        let members = self.members.read();
        let state = members.state.lock();
        let may_be_asked = |at: usize| members.is_free(&state, at, now);
        (0..members.servers.len()).any(may_be_asked)
    }

    /// Goes on counting where the group `before` stands, with the servers that both have. To be called before it is used.
    pub fn count_on(&self, before: &Group) {
        let before = before.members();
        let mut members = self.members.write();
        let Some(members) = Arc::get_mut(&mut members) else { return };
        let Members { servers, counts, state, .. } = members;
        for ((server, counts), peer) in servers.iter().zip(counts).zip(&mut state.get_mut().peers) {
            let is_same = |old: &&Server| old.address == server.address && old.name == server.name;
            let known = before.servers.iter().zip(&before.counts).find(|(old, _)| is_same(old));
            if let Some((_, known)) = known {
                counts.clone_from(known);
                peer.counts.clone_from(known);
            }
        }
    }

    /// Its servers, and how each does.
    pub fn servers(&self, now: Instant) -> Vec<ServerStatus> {
        let members = self.members();
        let state = members.state.lock();
        let status = |(server, peer): (&Server, &Peer)| ServerStatus {
            server: server.clone(),
            state: match server {
                _ if server.down => ServerState::Down,
                _ if !members.is_single() && server.max_fails > 0 && peer.fails >= server.max_fails => {
                    ServerState::Unavailable
                }
                _ => ServerState::Up,
            },
            running: peer.running.get(),
            counts: peer.counts.read(now),
        };
        members.servers.iter().zip(&state.peers).map(status).collect()
    }

    /// Its gate.
    pub fn gate(&self) -> Option<&Arc<Gate>> {
        self.gate.get()
    }

    /// Gives it a gate, if it has none. To be called before it is used.
    pub fn set_gate(&self, gate: Arc<Gate>) {
        self.gate.get_or_init(|| gate);
    }

    /// How many fetches wait for one of its servers.
    pub fn waiting(&self) -> usize {
        self.gate().map_or(0, |gate| gate.status().waiting_all() as usize)
    }

    /// How many fetches each of its servers is busy with.
    pub fn running(&self) -> Vec<u32> {
        self.members().state.lock().peers.iter().map(|peer| peer.running.get()).collect()
    }

    /// How many idle connections are kept now.
    pub fn idle(&self) -> usize {
        self.pool.len()
    }

    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    fn members(&self) -> Arc<Members> {
        Arc::clone(&self.members.read())
    }
}

impl Members {
    fn new(servers: Vec<Server>, balance: Balance, known: impl Fn(&Server) -> Option<Peer>) -> Members {
        let primary = Tier::new(&servers, false, balance);
        let backup = Tier::new(&servers, true, balance);
        let fresh = |server: &Server| Peer { weight_effective: i64::from(server.weight), ..Peer::default() };
        let peer = |server: &Server| known(server).unwrap_or_else(|| fresh(server));
        let state = State { peers: servers.iter().map(peer).collect(), random: seed() };
        let running = state.peers.iter().map(|peer| peer.running.clone()).collect();
        let counts = state.peers.iter().map(|peer| Arc::clone(&peer.counts)).collect();
        let shown = servers.iter().map(|server| server.address.to_string().into()).collect();
        Members { servers, shown, running, counts, primary, backup, state: Mutex::new(state) }
    }

    fn is_single(&self) -> bool {
        self.servers.len() == 1
    }

    /// Whether a server may be asked now. The failures of the only one do not count.
    fn is_free(&self, state: &State, at: usize, now: Instant) -> bool {
        let (server, peer) = (&self.servers[at], &state.peers[at]);
        let resting = !self.is_single()
            && server.max_fails > 0
            && peer.fails >= server.max_fails
            && peer.checked_at.is_some_and(|checked| now.duration_since(checked) <= server.fail_timeout);
        let is_full = server.max_conns > 0 && peer.running.get() >= server.max_conns;
        !server.down && !resting && !is_full
    }
}

impl Tier {
    fn new(servers: &[Server], backup: bool, balance: Balance) -> Tier {
        let members: Vec<usize> = (0..servers.len()).filter(|at| servers[*at].backup == backup).collect();
        let weights = members.iter().map(|at| servers[*at].weight);
        let weight_total = weights.fold(0u32, u32::saturating_add);
        let ring = matches!(balance, Balance::Hash { consistent: true })
            .then(|| Ring::new(members.iter().map(|at| (servers[*at].name.as_str(), servers[*at].weight))));
        Tier { members, weight_total, ring }
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("name", &self.name).field("balance", &self.balance).finish_non_exhaustive()
    }
}

/// A start for the generator of `random`, different in every process; never 0.
fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0u8) | 1
}
