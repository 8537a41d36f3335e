//! What a worker keeps for itself of one configuration.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use larder_cache::Front;
use larder_origin::Group;
use tokio::sync::Notify;

use crate::counts::Counts;
use crate::files::cache::FileCache;
use crate::logs::Logs;
use crate::site::Site;

/// A worker's own part of a configuration.
pub struct Local {
    /// The running parts of the configuration, shared with the other workers.
    pub site: Arc<Site>,
    /// The front of each cache zone: this worker's own table from keys to entries.
    pub fronts: Vec<RefCell<Front>>,
    /// What it counts by zone.
    pub counts: Counts,
    /// The open files and buffers of the logs.
    pub logs: Logs,
    /// `open_file_cache`, one for each pair of limits.
    pub files: RefCell<HashMap<(usize, u64), FileCache>>,
    /// Groups that were made for addresses from variables.
    pub groups: RefCell<HashMap<Vec<u8>, KnownGroup>>,
    /// The end of requests under this configuration: `worker_shutdown_timeout` after a reload.
    pub end: End,
}

/// Cuts off what still runs under a replaced configuration.
#[derive(Default)]
pub struct End {
    is_come: Cell<bool>,
    told: Notify,
}

impl End {
    /// Cuts off what still runs.
    pub fn come(&self) {
        self.is_come.set(true);
        self.told.notify_waiters();
    }

    async fn wait(&self) {
        let told = self.told.notified();
        if !self.is_come.get() {
            told.await;
        }
    }
}

impl Local {
    /// Does `work`; `None` if it was cut off, as the configuration was replaced too long ago.
    pub async fn while_valid<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        if self.site.shutdown_timeout.is_none() {
            return Some(work.await);
        }
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.end.wait() => None,
        }
    }
}

/// The group of an address that variables gave.
pub struct KnownGroup {
    /// The group; `None` if the name could not be resolved.
    pub group: Option<Arc<Group>>,
    /// Until when this holds.
    pub until: larder_http::Time,
}

/// How many groups from variables a worker keeps before it forgets all of them.
pub const VARIABLE_GROUPS_MAX: usize = 1024;
