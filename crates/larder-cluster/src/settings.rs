//! What a node is told of its cluster.

use std::fmt;
use std::time::Duration;

/// The server, and what this node is called there.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// The server; several are tried one after the other, and are Sentinels if `sentinel` is set.
    pub servers: Vec<Server>,
    /// Whether it speaks TLS.
    pub tls: bool,
    /// The certificates that may have signed its own, in PEM; those of the system without.
    pub ca: Option<Vec<u8>>,
    /// The user; the one called `default` without.
    pub user: Option<String>,
    /// The password.
    pub password: Option<String>,
    /// The number of the database.
    pub database: u32,
    /// What Sentinels call the primary.
    pub sentinel: Option<String>,
    /// What the cluster is called: the second part of all keys.
    pub name: String,
    /// What this node is called.
    pub node: String,
    /// How long a purge waits until all nodes know it.
    pub timeout: Duration,
    /// What pages may do that were stored before the server was lost.
    pub away: Away,
    /// The shelf that all share, if there is one.
    pub share: Option<Shelf>,
}

/// The shelf that all share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shelf {
    /// How long a value may be, in bytes.
    pub bytes_max: usize,
    /// How long an answer of the server is waited for.
    pub deadline: Duration,
}

/// One server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
}

/// What pages may do while the server is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Away {
    /// What they did before.
    Serve,
    /// They are stale when this time is over, and again whenever it is over.
    Stale(Duration),
    /// Nothing: every request goes to the origin.
    Bypass,
}

impl Settings {
    /// The servers and the database, if it is not the first, as messages name them: without the password.
    pub fn shown(&self) -> String {
        let scheme = if self.tls { "rediss" } else { "redis" };
        let servers: Vec<String> = self.servers.iter().map(Server::to_string).collect();
        let database = if self.database == 0 { String::new() } else { format!("/{}", self.database) };
        format!("{scheme}://{}{database}", servers.join(","))
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("server", &self.shown()).field("name", &self.name).finish_non_exhaustive()
    }
}

/// How long after a word of the server a node may assume that it knows all purges, unless it is told to serve on.
pub const LEASE: Duration = Duration::from_secs(2);
