//! Keys of session tickets that `larder_cluster` shares, so that sessions are resumed at any larder.

use std::sync::Arc;
use std::time::Duration;

use larder_cluster::{Level, Settings, TICKET_PERIOD, TicketRing, TicketStart, TicketUser, Tickets};
use larder_conf::model::LogLevel;
use larder_tls::{SharedKeys, TicketKeys, TicketSecret};
use parking_lot::Mutex;

use crate::clock;
use crate::cluster::log_level;
use crate::log::main::MainLog;
use crate::site::Caches;

/// The keys that this process shares, if any.
#[derive(Default)]
pub struct TicketSharing(Mutex<Option<Running>>);

struct Running {
    settings: Settings,
    keys: Arc<TicketKeys>,
    /// Gives the keys what other nodes have.
    node: Tickets,
}

struct User {
    keys: Arc<TicketKeys>,
    log: MainLog,
}

impl TicketSharing {
    /// Shares what a configuration says.
    pub fn follow(&self, caches: &Caches, log: &MainLog) {
        let mut running = self.0.lock();
        let wanted = caches.cluster.as_ref().zip(caches.shared_tickets.as_ref());
        let is_so = |running: &Running| {
            wanted.is_some_and(|(settings, keys)| running.settings == *settings && Arc::ptr_eq(&running.keys, keys))
        };
        if running.as_ref().is_some_and(is_so) {
            return;
        }
        *running = None;
        let Some((settings, keys)) = wanted else { return };
        let user = Arc::new(User { keys: Arc::clone(keys), log: log.clone() });
        let start = TicketStart { settings: settings.clone(), user, clock: clock::since_boot, period: TICKET_PERIOD };
        match Tickets::start(start) {
            Ok(node) => *running = Some(Running { settings: settings.clone(), keys: Arc::clone(keys), node }),
            Err(error) => log.write(LogLevel::Alert, format_args!("cluster: a thread cannot be started: {error}")),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.node.end();
        self.keys.unshare();
    }
}

impl TicketUser for User {
    fn make(&self) -> Option<larder_cluster::TicketSecret> {
        TicketSecret::random().map(|secret| secret.bytes())
    }

    fn kept(&self) -> Duration {
        Duration::from_secs(self.keys.kept_seconds())
    }

    fn take(&self, ring: TicketRing<'_>) {
        let keys: Vec<TicketSecret> = ring.keys.iter().copied().map(TicketSecret::of).collect();
        self.keys.share(SharedKeys { is_made_by: ring.is_made_by, keys: &keys, now: ring.now.as_secs() });
    }

    fn say(&self, level: Level, line: &str) {
        self.log.write(log_level(level), line);
    }
}
