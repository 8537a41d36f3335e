//! How a node is.

use std::time::Duration;

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
    /// Why the server is of no use, if it is not.
    pub fault: Option<String>,
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
}
