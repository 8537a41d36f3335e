//! What the keepers share: the account, the store, who takes certificates, and how it stands with each order.

use crate::account::Account;
use crate::certificate::Certificate;
use crate::log::Log;
use crate::order::Order;
use crate::peers::{FindPeers, Peers};
use crate::responses::Responses;
use crate::schedule::Timing;
use crate::store::{Store, StoreError};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::sync::Semaphore;

/// What the keepers share.
pub(crate) struct Shared {
    pub(crate) account: Account,
    pub(crate) store: Store,
    pub(crate) responses: Arc<Responses>,
    pub(crate) log: Log,
    pub(crate) timing: Timing,
    /// Held while an account is looked for and made.
    pub(crate) registering: tokio::sync::Mutex<()>,
    /// How many keepers may speak to the CA at once.
    pub(crate) turns: Semaphore,
    pub(crate) now: Box<dyn Fn() -> SystemTime + Send + Sync>,
    pub(crate) on_certificate: Box<OnCertificate>,
    pub(crate) find_peers: Box<FindPeers>,
    /// Held from reading or writing a certificate until it is handed on, so that no old one is handed on last.
    pub(crate) delivery: Mutex<()>,
    /// By the id of the order. Not held while anything else is called.
    pub(crate) statuses: Mutex<BTreeMap<String, Status>>,
}

impl Shared {
    pub(crate) fn now(&self) -> SystemTime {
        (self.now)()
    }

    /// The other hosts, if there are any.
    pub(crate) fn peers(&self) -> Option<Arc<dyn Peers>> {
        (self.find_peers)()
    }

    /// The stored certificate of `order`, handed on.
    pub(crate) fn stored(&self, order: &Order) -> Option<Certificate> {
        let _delivery = self.delivery.lock();
        let certificate = self.store.certificate(order)?;
        self.deliver(order, &certificate);
        Some(certificate)
    }

    /// A certificate that came. It is handed on even if it cannot be stored.
    pub(crate) fn save_and_deliver(&self, order: &Order, certificate: &Certificate) -> Result<(), StoreError> {
        let _delivery = self.delivery.lock();
        let saved = self.store.save_certificate(order, certificate);
        self.deliver(order, certificate);
        saved
    }

    /// Changes what is said of `order`.
    pub(crate) fn note(&self, order: &Order, change: impl FnOnce(&mut Status)) {
        let new = || Status { names: order.names().to_vec(), ..Status::default() };
        change(self.statuses.lock().entry(order.id()).or_insert_with(new));
    }

    /// Hands on what is stored for `orders`: an order's own certificate, or else the one with the most of its names, so
    /// that a name added to a server does not cost the others theirs.
    pub(crate) fn deliver_stored(&self, orders: &[Order]) {
        let _delivery = self.delivery.lock();
        let mut all = None;
        for order in orders {
            if let Some(certificate) = self.store.certificate(order) {
                self.deliver(order, &certificate);
                continue;
            }
            let now = self.now();
            let all: &Vec<Certificate> = all.get_or_insert_with(|| self.store.certificates());
            let usable = all.iter().filter(|it| it.covered(order.names()) > 0 && it.validity().not_after > now);
            if let Some(best) = usable.max_by_key(|it| (it.covered(order.names()), it.validity().not_after)) {
                self.deliver(order, best);
            }
        }
    }

    fn deliver(&self, order: &Order, certificate: &Certificate) {
        (self.on_certificate)(order.names(), certificate.chain_pem(), certificate.key_pem());
    }
}

/// Takes a certificate: the names of its [`Order`], the chain as PEM, the key as PEM.
///
/// It is called by [`spawn`](crate::spawn) and [`Handle::reconfigure`](crate::Handle::reconfigure) for what is stored, before they return, and later by the
/// thread; perhaps with the same certificate again, and with an older one that does not cover every name while the
/// order's own is not there. It must not call the [`Handle`](crate::Handle).
pub type OnCertificate = dyn Fn(&[String], &[u8], &[u8]) + Send + Sync;

/// How it stands with one order, for a status page.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    /// What the certificate is for.
    pub names: Vec<String>,
    /// Until when the certificate is valid, if there is one.
    pub not_after: Option<SystemTime>,
    /// When the next try or renewal is; `None` while one runs or waits for its turn.
    pub next_attempt: Option<SystemTime>,
    /// How many tries failed since the last that did not.
    pub failures: u32,
    /// Why the last of them failed.
    pub last_error: Option<String>,
}
