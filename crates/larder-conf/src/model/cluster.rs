//! What several larders share.

use std::path::PathBuf;
use std::time::Duration;

use super::{At, Secret};
use crate::span::Span;

/// `larder_cluster`, with `larder_cluster_away` and `larder_cluster_share`.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// The servers in the order in which they are tried, or the Sentinels.
    pub servers: Vec<ClusterServer>,
    /// `rediss://`.
    pub tls: bool,
    /// The user; the one called `default` unless told.
    pub user: Option<String>,
    /// The password.
    pub password: Option<Secret>,
    /// The number of the database, 0 unless told.
    pub database: u32,
    /// `sentinel=`: what Sentinels call the primary.
    pub sentinel: Option<String>,
    /// `ca=`: PEM of who may have signed the server's certificate; the system's unless told.
    pub ca: Option<At<PathBuf>>,
    /// `name=`: what all keys begin with, `larder` unless told.
    pub name: String,
    /// `node=`: what this larder is called, the name of the machine unless told.
    pub node: String,
    /// `timeout=`: how long a purge waits until all nodes know it, a second unless told.
    pub timeout: Duration,
    /// `share=`: what nodes share beside purges.
    pub share: ClusterShare,
    /// `larder_cluster_away`.
    pub away: ClusterAway,
    /// `larder_cluster_share`; `None` for `off`.
    pub shelf: Option<ClusterShelf>,
    /// Where it was written.
    pub span: Span,
}

/// A server of `larder_cluster`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterServer {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
}

/// `share=`: what nodes share beside purges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterShare {
    /// `tickets`: the keys of TLS session tickets.
    pub tickets: bool,
    /// `limits`: what `limit_req` counts.
    pub limits: bool,
    /// `acme`: certificates of `larder_acme`, and answers to the challenges of the CA.
    pub acme: bool,
}

impl ClusterShare {
    /// `off`.
    pub const fn nothing() -> Self {
        Self { tickets: false, limits: false, acme: false }
    }
}

impl Default for ClusterShare {
    fn default() -> Self {
        Self { tickets: true, limits: false, acme: false }
    }
}

/// `larder_cluster_away`: what pages may do that were stored before the server was lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClusterAway {
    /// `serve`: what they did before.
    #[default]
    Serve,
    /// `stale=TIME`: they are stale after this time.
    Stale(Duration),
    /// `bypass`: nothing.
    Bypass,
}

/// `larder_cluster_share`: what pages several larders fetch once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterShelf {
    /// How large one may be as it is shared, in bytes.
    pub bytes: usize,
    /// `deadline=`: how long a request waits for the server.
    pub deadline: Duration,
}
