//! A node of a cluster, in this process, that has no pages.

use super::{LoadError, cannot};
use crate::clock;
use larder_cluster::{Away, Carrier, Cluster, Heard, Level, Place, Server, Settings, Start, Trust};
use std::sync::Arc;
use std::time::Duration;

/// Joins the cluster of this name by a Redis at this port, as one that has read so far, and whose purges wait so long until they
/// are known.
pub fn join(
    port: u16,
    name: &str,
    node: &str,
    timeout: Duration,
    place: Option<Place>,
) -> Result<Arc<Cluster>, LoadError> {
    let settings = Settings {
        servers: vec![Server { host: "127.0.0.1".into(), port }],
        tls: false,
        ca: None,
        user: None,
        password: None,
        database: 0,
        sentinel: None,
        name: name.into(),
        node: node.into(),
        timeout,
        away: Away::Serve,
        share: None,
    };
    let trust = Arc::new(Trust::always(clock::since_boot));
    let start = Start { settings, carrier: Arc::new(Nobody), place, unsent: None, heard: Heard::default(), trust };
    Cluster::start(start).map_err(cannot("start a node"))
}

/// Who has no pages.
struct Nobody;

impl Carrier for Nobody {
    fn carry_out(&self, _: &str, _: &str, _: Duration) -> bool {
        false
    }

    fn tell(&self, _: &str, _: &str, _: Option<&str>) {}

    fn count_as_stale(&self) {}

    fn keep(&self, _: &Place) -> bool {
        true
    }

    fn note(&self, _: &dyn Fn() -> Option<Place>) {}

    fn say(&self, level: Level, line: &str) {
        if level == Level::Error {
            eprintln!("{line}");
        }
    }
}
