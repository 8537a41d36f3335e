//! The names of our keys.

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

impl Keys {
    /// Those of the cluster of this name.
    pub fn of(name: &str) -> Self {
        let prefix = format!("larder:{{{name}}}:");
        Self { log: format!("{prefix}log"), epoch: format!("{prefix}epoch"), nodes: format!("{prefix}nodes"), prefix }
    }

    /// How far a node has read.
    pub fn at(&self, node: &str) -> String {
        format!("{}at:{node}", self.prefix)
    }
}
