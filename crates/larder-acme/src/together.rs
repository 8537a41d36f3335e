//! How hosts for the same names keep one certificate: one orders, the others take what it got.
//!
//! ```text
//! due -> right taken? -no-> another orders: look again soon
//!          `-yes-> is a newer certificate there? -yes-> take it
//!                    `-no-> order -> put it there -> give up the right
//! ```
//! While nobody knows what the others do, a host waits, and at last orders by itself, not all at the same moment.

use crate::certificate::Certificate;
use crate::log::Level;
use crate::order::Order;
use crate::peers::{Away, Found, Peers, Right};
use crate::schedule::{alone_after, alone_at, chance, said};
use crate::shared::Shared;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// What a host may do whose certificate is due.
pub(crate) enum Turn {
    /// Order; with the right to, unless it is alone.
    Order(Option<Box<dyn Right>>),
    /// Use what another has ordered.
    Take(Box<Certificate>),
}

/// The hosts that serve the names of an order, as this one sees them.
pub(crate) struct Hosts {
    shared: Arc<Shared>,
    order: Order,
    /// Changes when the configuration is read anew: somebody may have mended what failed.
    reloads: watch::Receiver<Vec<Order>>,
    /// What was said last of the certificate that others have.
    said: Mutex<Option<String>>,
}

impl Hosts {
    /// Nobody has been asked yet.
    pub(crate) fn new(shared: Arc<Shared>, order: Order, reloads: watch::Receiver<Vec<Order>>) -> Self {
        Self { shared, order, reloads, said: Mutex::default() }
    }

    /// Waits until this host may order, or another has. `is_cut`: not until what failed a moment ago may be tried again, as
    /// somebody may have mended it.
    pub(crate) async fn turn(&self, current: Option<&Certificate>, failures: &mut u32, mut is_cut: bool) -> Turn {
        let (since, chance) = (Instant::now(), chance());
        let mut told = None;
        loop {
            let Some(peers) = self.shared.peers() else { return Turn::Order(None) };
            let (right, found) = match self.right_and_state(&*peers).await {
                Ok(asked) => asked,
                Err(Away) => {
                    let wait = self.until_alone(current, since, chance);
                    if wait.is_zero() {
                        return Turn::Order(None);
                    }
                    let fact =
                        "nobody knows whether another larder orders, as the server of \"larder_cluster\" is away";
                    self.say_once(&mut told, fact, &format!("; larder orders by itself in {}", said(wait)));
                    sleep(wait.min(self.shared.timing.look_every)).await;
                    continue;
                }
            };
            if let Some(newer) = self.newer(&found, current) {
                return Turn::Take(Box::new(newer));
            }
            *failures = (*failures).max(found.failures);
            match (right, found.wait) {
                (right, Some(wait)) if !is_cut => {
                    drop(right);
                    let fact = "the order has just failed at a larder of the cluster";
                    let wait = wait.min(FAILURE_MAX);
                    self.say_once(&mut told, fact, &format!("; next try in {}", said(wait)));
                    is_cut = tokio::select! {
                        is_cut = self.wait(wait) => is_cut,
                        () = self.may_be_tried(&*peers) => false,
                    };
                }
                (Some(right), _) => return Turn::Order(Some(right)),
                (None, _) => {
                    self.say_once(&mut told, "another larder orders the certificate", "; larder waits for it");
                    sleep(self.shared.timing.peers_every).await;
                }
            }
        }
    }

    /// Waits until no host is to wait any more: one has succeeded, or somebody has taken the failure back.
    async fn may_be_tried(&self, peers: &dyn Peers) {
        loop {
            sleep(self.shared.timing.look_every).await;
            if matches!(peers.look(self.name()).await, Ok(Found { wait: None, .. })) {
                return;
            }
        }
    }

    /// How long it is until this host orders though nobody knows what the others do.
    fn until_alone(&self, current: Option<&Certificate>, since: Instant, chance: f64) -> Duration {
        let now = self.shared.now();
        match current.map(Certificate::validity).filter(|validity| validity.not_after > now) {
            Some(validity) => alone_at(validity, chance).duration_since(now).unwrap_or_default(),
            None => alone_after(self.shared.timing.retry_first, chance).saturating_sub(since.elapsed()),
        }
    }

    /// The right first: what is there then no other host is about to replace.
    async fn right_and_state(&self, peers: &dyn Peers) -> Result<(Option<Box<dyn Right>>, Found), Away> {
        let right = peers.take(self.name()).await?;
        Ok((right, peers.look(self.name()).await?))
    }

    /// Waits until another host has a newer certificate, however long this one is to leave the CA alone; for ever without
    /// other hosts.
    pub(crate) async fn newer_comes(&self, current: Option<&Certificate>) -> Certificate {
        loop {
            sleep(self.look_every(current)).await;
            if let Some(newer) = self.exchange(current).await {
                return newer;
            }
        }
    }

    /// How often a host looks for what others have: visitors wait for one that has no valid certificate.
    fn look_every(&self, current: Option<&Certificate>) -> Duration {
        let timing = &self.shared.timing;
        let is_valid = current.is_some_and(|current| current.validity().not_after > self.shared.now());
        if is_valid { timing.look_every } else { timing.look_every.min(timing.peers_every * LOOKS_WITHOUT) }
    }

    /// Gives the others what this host has, or takes what is newer.
    pub(crate) async fn exchange(&self, current: Option<&Certificate>) -> Option<Certificate> {
        let peers = self.shared.peers()?;
        let found = peers.look(self.name()).await.ok()?;
        let newer = self.newer(&found, current);
        if let Some(current) = current.filter(|_| newer.is_none())
            && found.certificate.as_deref() != Some(&current.file_text())
        {
            // Whoever orders tells it: nothing is lost if it is not told now.
            let _ = self.put(&*peers, current).await;
        }
        newer
    }

    /// Gives all hosts the certificate that just came.
    pub(crate) async fn publish(&self, certificate: &Certificate) {
        let Some(peers) = self.shared.peers() else { return };
        if self.put(&*peers, certificate).await.is_err() || peers.succeed(self.name()).await.is_err() {
            let fact = "the other larders get the certificate when the server of \"larder_cluster\" is back";
            self.shared.log.say(Level::Warn, &self.order.label(), fact);
        }
    }

    /// Tells all hosts of a failure, so that they do not run into the same.
    pub(crate) async fn tell_failure(&self, failures: u32, wait: Duration) {
        if let Some(peers) = self.shared.peers() {
            // Away: then they know nothing of this host's orders anyway.
            let _ = peers.fail(self.name(), failures, wait).await;
        }
    }

    /// Waits, but not on if the configuration is read anew: people do that after mending what failed. Whether it was.
    pub(crate) async fn wait(&self, wait: Duration) -> bool {
        let mut reloads = self.reloads.clone();
        reloads.mark_unchanged();
        let least = wait.min(self.shared.timing.retry_first);
        sleep(least).await;
        tokio::select! {
            () = sleep(wait - least) => false,
            // An end of the reloads is the end of the thread, which aborts this.
            Ok(()) = reloads.changed() => true,
        }
    }

    async fn put(&self, peers: &dyn Peers, certificate: &Certificate) -> Result<(), Away> {
        let left = certificate.validity().not_after.duration_since(self.shared.now());
        match left {
            Ok(left) => peers.put(self.name(), certificate.file_text(), left).await,
            Err(_) => Ok(()),
        }
    }

    /// The certificate that was found, if it is as good as one from a file, valid, and newer than this host's.
    fn newer(&self, found: &Found, current: Option<&Certificate>) -> Option<Certificate> {
        let text = found.certificate.as_ref()?;
        let why = match Certificate::from_file(text) {
            Ok(certificate) if certificate.covers(self.order.names()) => {
                let (now, validity) = (self.shared.now(), certificate.validity());
                // The clock of this host may be behind, but that is no reason to give up what is valid.
                let has_valid = current.is_some_and(|current| current.validity().not_after > now);
                let ahead = if has_valid { Duration::ZERO } else { CLOCKS_DIFFER_MAX };
                let is_valid = validity.not_after > now && validity.not_before <= now + ahead;
                let is_newer = current.is_none_or(|current| certificate.rank() > current.rank());
                return (is_valid && is_newer).then_some(certificate);
            }
            Ok(_) => "it is not for all names of the order".to_owned(),
            Err(error) => error.to_string(),
        };
        let fact = format!("what the cluster has as its certificate is not used: {why}");
        self.say_once(&mut self.said.lock(), &fact, "");
        None
    }

    /// Says a fact, unless it was the last one.
    fn say_once(&self, told: &mut Option<String>, fact: &str, more: &str) {
        if told.as_deref() != Some(fact) {
            self.shared.log.say(Level::Notice, &self.order.label(), &format!("{fact}{more}"));
            *told = Some(fact.to_owned());
        }
    }

    /// What hosts call the order: certificates of two CAs are two.
    fn name(&self) -> String {
        format!("{}:{}", self.shared.store.folder_name(), self.order.id())
    }
}

/// Until another host takes over an order whose right this one has; for ever without one.
pub(crate) async fn lost(right: Option<&dyn Right>, every: Duration) {
    let Some(right) = right else { return std::future::pending().await };
    loop {
        sleep(every).await;
        // Nobody else gets it from a server that is away.
        if right.keep().await == Ok(false) {
            return;
        }
    }
}

/// After how many times `peers_every` a host looks that has no valid certificate, however long it is to leave the CA alone.
const LOOKS_WITHOUT: u32 = 5;
/// A certificate from further in the future was made by nobody's right clock.
const CLOCKS_DIFFER_MAX: Duration = Duration::from_secs(600);
/// How long a failure of another host is waited for at most: as long as a CA may have it wait.
const FAILURE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
