//! The names of our keys.

use std::sync::Arc;

/// The keys of a cluster.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    /// What all begin with.
    pub prefix: String,
    /// The stream.
    pub log: String,
    /// What tells servers apart.
    pub epoch: String,
    /// The nodes.
    pub nodes: String,
}

/// What a page of the shelf that all share is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageName {
    /// The zone.
    pub zone: Arc<str>,
    /// A hash of its key, and of what it varies by.
    pub hash: u128,
}

/// What is limited.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LimitName {
    /// The zone of the limit.
    pub zone: Arc<str>,
    /// A hash of who is limited.
    pub hash: u128,
}

impl Keys {
    /// Those of the cluster of this name.
    pub fn of(name: &str) -> Self {
        let prefix = format!("larder:{{{name}}}:");
        Self { log: format!("{prefix}log"), epoch: format!("{prefix}epoch"), nodes: format!("{prefix}nodes"), prefix }
    }

    /// A page of the shelf that all share.
    pub fn page(&self, page: &PageName) -> String {
        format!("{}page:{}:{:032x}", self.prefix, page.zone, page.hash)
    }

    /// Who fetches it.
    pub fn lock(&self, page: &PageName) -> String {
        format!("{}lock:{}:{:032x}", self.prefix, page.zone, page.hash)
    }

    /// The key of the session tickets of a period.
    pub fn ticket(&self, period: u64) -> String {
        format!("{}tickets:{period}", self.prefix)
    }

    /// How much was let through.
    pub fn limit(&self, name: &LimitName) -> String {
        format!("{}limits:{}:{:032x}", self.prefix, name.zone, name.hash)
    }

    /// What all keys of certificates begin with, with a `*` behind it.
    pub fn acme(&self) -> String {
        format!("{}acme:*", self.prefix)
    }

    /// The answer to a challenge of a certificate authority.
    pub fn challenge(&self, challenge: &str) -> String {
        format!("{}acme:challenge:{challenge}", self.prefix)
    }

    /// The certificate of an order, with its private key.
    pub fn certificate(&self, order: &str) -> String {
        format!("{}acme:certificate:{order}", self.prefix)
    }

    /// Who orders it.
    pub fn order_lock(&self, order: &str) -> String {
        format!("{}acme:lock:{order}", self.prefix)
    }

    /// How often ordering it failed.
    pub fn order_failures(&self, order: &str) -> String {
        format!("{}acme:failures:{order}", self.prefix)
    }

    /// There as long as nobody should try again.
    pub fn order_wait(&self, order: &str) -> String {
        format!("{}acme:wait:{order}", self.prefix)
    }

    /// How far a node has read.
    pub fn at(&self, node: &str) -> String {
        format!("{}at:{node}", self.prefix)
    }
}
