//! How a node is.

use std::time::Duration;

use crate::lag::Lag;
use crate::place::EntryId;
use crate::share::ShareCounts;

/// How a node is, as far as it knows itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The server, without the password.
    pub server: String,
    /// What the cluster is called.
    pub name: String,
    /// What the node is called now.
    pub node: String,
    /// Whether stored pages may be used.
    pub is_trusted: bool,
    /// How long ago it was last known that all purges of others are carried out; `None` if that never was.
    pub heard_ago: Option<Duration>,
    /// What is wrong with the server: it cannot be read, or takes nothing.
    pub fault: Option<String>,
    /// Whether what others purge is read.
    pub is_read: bool,
    /// The last entry of the log that was carried out.
    pub place: Option<String>,
    /// Purges of others that were carried out.
    pub carried: u64,
    /// Purges that were sent to others.
    pub sent: u64,
    /// Purges that wait to be sent.
    pub unsent: usize,
    /// What was counted of the shelf that all share; `None` without it.
    pub share: Option<ShareCounts>,
    /// All nodes, by name, as they were at the last look, which is taken once a second while the server is of use.
    pub nodes: Vec<NodeStatus>,
    /// How long ago that was; `None` before the first.
    pub looked_ago: Option<Duration>,
}

/// How a node is, as far as another knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStatus {
    /// What it is called.
    pub name: String,
    /// Whether it is the one that was asked.
    pub is_this: bool,
    /// For how long it has been away, if it is.
    pub away: Option<Duration>,
    /// The last entry of the log that it has carried out, or had when it was there last.
    pub place: Option<EntryId>,
    /// How far it is behind, if its place is known.
    pub lag: Option<Lag>,
}

impl Status {
    /// How far the node itself is behind; `None` if the server cannot be read, or nobody has looked yet.
    pub fn lag(&self) -> Option<Lag> {
        self.nodes.iter().find(|node| node.is_this && self.is_read)?.lag
    }
}
