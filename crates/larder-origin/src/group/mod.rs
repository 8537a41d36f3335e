//! A group: origins under one balancing rule, and what is known of their health.
//!
//! The rules are nginx's. An origin that failed `max_fails` times is left alone for `fail_timeout`; then one
//! request tries it, and its success makes the origin whole again. When none may be asked the fetch fails with
//! "no live upstreams". The only origin of a group is never marked down.

mod choose;
mod hash;
#[cfg(test)]
mod tests;
mod times;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, RwLock};
use tokio::time::Instant;

use crate::{
    address::Address,
    pool::{Keepalive, Pool},
};
pub(crate) use choose::{Pick, Turn};
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
    /// `backup`: asked when no other may be.
    pub backup: bool,
    /// `down`: never asked.
    pub down: bool,
    /// As configured. Addresses of one name share their place under `hash consistent`.
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

    /// Whether what is known of one holds for the other.
    fn is_same(&self, other: &Server) -> bool {
        self.address == other.address
            && self.name == other.name
            && self.weight == other.weight
            && self.backup == other.backup
    }
}

/// How a group chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balance {
    /// In turn, by weight, smoothly.
    RoundRobin,
    /// The fewest running for its weight.
    LeastConn,
    /// The shortest estimate of when it is done, for its weight.
    LeastTime(LeastTime),
    /// By the address of the client.
    IpHash,
    /// By a key.
    Hash {
        /// By a ring, so that a change of the group moves few keys.
        consistent: bool,
    },
    /// By chance, by weight.
    Random {
        /// Of two picked, the one with fewer running.
        two: bool,
    },
}

/// Origins under one balancing rule, shared by all workers of the process.
pub struct Group {
    name: String,
    balance: Balance,
    /// Replaced as a whole when names of its servers lead elsewhere. Not held across an await.
    members: RwLock<Arc<Members>>,
    pool: Arc<Pool>,
}

/// The servers of a group for a while. A fetch keeps to those it began with.
struct Members {
    servers: Vec<Server>,
    primary: Tier,
    backup: Tier,
    /// What is known of each of `servers`, in their order. Not held across an await.
    state: Mutex<State>,
}

/// The servers that are asked first, or those that are asked then.
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

/// What is known of a server.
#[derive(Clone, Debug, Default)]
struct Peer {
    weight_current: i64,
    weight_effective: i64,
    /// Shared with those who took the place of these members, where the server stayed.
    running: Running,
    fails: u32,
    times: Times,
    failed_at: Option<Instant>,
    checked_at: Option<Instant>,
}

impl Peer {
    /// The same for new members: fetches that are not done yet end with the old ones.
    fn for_new_members(mut self) -> Self {
        self.times.forget_inflight();
        self
    }
}

/// Fetches a server is busy with.
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
        let members = RwLock::new(Arc::new(Members::new(servers, balance, |_| None)));
        Arc::new(Group { name: name.into(), balance, members, pool: Pool::new(keepalive) })
    }

    /// From now on these are its servers. What is known of those that stay, kept connections included, stays too.
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

    /// One origin, as for an address in `proxy_pass` or `fastcgi_pass`. It keeps no connections, as in nginx.
    pub fn single(address: Address) -> Arc<Group> {
        Group::new(address.to_string(), vec![Server::new(address)], Balance::RoundRobin, Keepalive::NONE)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
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
        Members { servers, primary, backup, state: Mutex::new(state) }
    }

    fn is_single(&self) -> bool {
        self.servers.len() == 1
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
