//! What a worker has of its own of one configuration.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use larder_cache::Front;
use larder_origin::Group;
use tokio::sync::Notify;

use crate::files::cache::FileCache;
use crate::logs::Logs;
use crate::site::Site;

/// A worker's own part of one configuration.
pub struct Local {
    /// The running parts, shared with the other workers.
    pub site: Arc<Site>,
    /// A front for each cache zone.
    pub fronts: Vec<RefCell<Front>>,
    /// Open files and buffers of the logs.
    pub logs: Logs,
    /// `open_file_cache` by its limits.
    pub files: RefCell<HashMap<(usize, u64), FileCache>>,
    /// Groups made for addresses that came from variables.
    pub groups: RefCell<HashMap<Vec<u8>, KnownGroup>>,
    /// Set when `worker_shutdown_timeout` is over, after a reload.
    pub end: End,
}

/// The end of what still runs under a configuration that another one has replaced.
#[derive(Default)]
pub struct End {
    is_come: Cell<bool>,
    told: Notify,
}

impl End {
    /// Ends it.
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
    /// Does `work`; `None` when it is cut off, because the configuration was replaced too long ago.
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

/// What a name from variables was found to be.
pub struct KnownGroup {
    /// The group of its address; `None` when it was not found.
    pub group: Option<Arc<Group>>,
    /// How long that is believed.
    pub until: larder_http::Time,
}

/// How many groups from variables a worker keeps before it starts anew.
pub const VARIABLE_GROUPS_MAX: usize = 1024;
