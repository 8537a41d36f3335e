//! Certificates that larder orders itself (ACME): the orders, and the certificates that were issued.
//!
//! ```text
//! configuration -> Plan -> Issuing -> the thread of larder-acme -> the CA
//!                            |           `-> Responses <- handshakes and requests of the CA
//! handshakes <- Issued <- AllIssued <- certificates, as they come, of the CA or another larder of the cluster
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use larder_acme::{Account, Handle, Hooks, Level, Order, Responses, Timing};
use larder_conf::model::LogLevel;
use larder_tls::{CertifiedKey, KeyError};
use parking_lot::Mutex;

use crate::acme_sharing::AcmeSharing;
use crate::clock;
use crate::log::main::MainLog;

/// The certificates that a configuration orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The account, and the folder where its certificates are stored.
    pub account: Account,
    /// The orders: one for each set of names, none twice.
    pub orders: Vec<Order>,
}

/// The certificate of an order: a placeholder until one is issued, then the latest.
pub struct Issued(ArcSwap<Held>);

struct Held {
    key: CertifiedKey,
    is_placeholder: bool,
}

/// Why even a placeholder could not be made.
#[derive(Debug, thiserror::Error)]
pub enum NoPlaceholder {
    /// Making it failed.
    #[error(transparent)]
    Made(#[from] larder_acme::PlaceholderError),
    /// The TLS library refuses it.
    #[error(transparent)]
    Key(#[from] KeyError),
}

impl Issued {
    fn placeholder(names: &[String]) -> Result<Self, NoPlaceholder> {
        let made = larder_acme::placeholder(names, clock::system_time())?;
        let key = CertifiedKey::from_pem(made.cert_pem.as_bytes(), made.key_pem.as_bytes(), &[])?;
        Ok(Self(ArcSwap::from_pointee(Held { key, is_placeholder: true })))
    }

    /// The certificate for a handshake that begins now.
    pub fn current(&self) -> CertifiedKey {
        self.0.load().key.clone()
    }

    fn is_placeholder(&self) -> bool {
        self.0.load().is_placeholder
    }
}

/// The certificates of all orders, by their names. They outlive a reload.
#[derive(Clone, Default)]
pub struct AllIssued(Arc<Mutex<HashMap<Vec<String>, Arc<Issued>>>>);

impl AllIssued {
    /// The certificate of `order`; a new order gets a placeholder.
    pub fn of(&self, order: &Order) -> Result<Arc<Issued>, NoPlaceholder> {
        if let Some(known) = self.0.lock().get(order.names()) {
            return Ok(Arc::clone(known));
        }
        let issued = Arc::new(Issued::placeholder(order.names())?);
        self.0.lock().insert(order.names().to_vec(), Arc::clone(&issued));
        Ok(issued)
    }

    /// Stores an issued certificate. One whose names are no longer ordered is dropped.
    fn take(&self, names: &[String], chain_pem: &[u8], key_pem: &[u8]) -> Result<(), KeyError> {
        let key = CertifiedKey::from_pem(chain_pem, key_pem, &[])?;
        if let Some(issued) = self.0.lock().get(names) {
            issued.0.store(Arc::new(Held { key, is_placeholder: false }));
        }
        Ok(())
    }

    /// Forgets the certificates of all other orders. Old configurations keep theirs while they are in use.
    fn keep_only(&self, orders: &[Order]) {
        self.0.lock().retain(|names, _| orders.iter().any(|order| order.names() == names));
    }

    fn is_placeholder(&self, order: &Order) -> bool {
        self.0.lock().get(order.names()).is_some_and(|issued| issued.is_placeholder())
    }
}

/// Controls the ACME thread, which runs while a configuration orders certificates.
pub struct Issuing {
    responses: Arc<Responses>,
    issued: AllIssued,
    others: Arc<AcmeSharing>,
    log: MainLog,
    running: Mutex<Option<Handle>>,
}

impl Issuing {
    /// Nothing is ordered yet. Certificates will go to `issued`, answers to the CA's challenges to `responses`, both to
    /// `others`.
    pub fn new(responses: Arc<Responses>, issued: AllIssued, others: Arc<AcmeSharing>, log: MainLog) -> Self {
        Self { responses, issued, others, log, running: Mutex::default() }
    }

    /// Orders and renews the certificates of `plan` from now on. Stored certificates are in place when this returns; it
    /// does not wait for the CA.
    pub fn follow(&self, plan: Option<&Plan>) {
        let mut running = self.running.lock();
        let Some(Plan { account, orders }) = plan else {
            *running = None;
            self.issued.keep_only(&[]);
            return;
        };
        self.issued.keep_only(orders);
        match running.take() {
            Some(handle) if handle.account() == account => {
                handle.reconfigure(orders.clone());
                *running = Some(handle);
            }
            other => {
                // The old thread may hold what the new one needs: the lock of a state directory.
                if let Some(old) = other {
                    old.stop();
                }
                *running = self.spawn(account.clone(), orders.clone());
            }
        }
        for order in orders.iter().filter(|order| self.issued.is_placeholder(order)) {
            let names = order.names().join(", ");
            let text =
                format!("acme: {names}: no certificate yet; a self-signed one is in its place until the CA issues it");
            self.log.write(LogLevel::Notice, text);
        }
    }

    /// Ends the thread without waiting for it.
    pub fn end(&self) {
        *self.running.lock() = None;
    }

    fn spawn(&self, account: Account, orders: Vec<Order>) -> Option<Handle> {
        let (issued, log) = (self.issued.clone(), self.log.clone());
        let (lines, others) = (self.log.clone(), Arc::clone(&self.others));
        let hooks = Hooks {
            on_certificate: Box::new(move |names, chain, key| {
                if let Err(error) = issued.take(names, chain, key) {
                    let names = names.join(", ");
                    log.write(LogLevel::Error, format!("acme: {names}: its certificate cannot be used: {error}"));
                }
            }),
            on_log: Box::new(move |level, text| lines.write(log_level(level), text)),
            now: Box::new(clock::system_time),
            find_peers: Box::new(move || others.peers()),
            timing: Timing::default(),
        };
        larder_acme::spawn(account, orders, Arc::clone(&self.responses), hooks)
            .inspect_err(|error| {
                let text = format!("acme: no thread for certificates: {error}; nothing is ordered until a reload");
                self.log.write(LogLevel::Alert, text);
            })
            .ok()
    }
}

fn log_level(level: Level) -> LogLevel {
    match level {
        Level::Info => LogLevel::Info,
        Level::Notice => LogLevel::Notice,
        Level::Warn => LogLevel::Warn,
        Level::Error => LogLevel::Error,
    }
}

#[cfg(test)]
mod tests {
    use larder_acme::Challenge;

    use super::*;

    fn order(names: &[&str]) -> Order {
        Order::new(names, Challenge::Either).expect("the names are in order")
    }

    fn made(names: &[&str]) -> (CertifiedKey, larder_acme::Placeholder) {
        let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
        let made = larder_acme::placeholder(&names, clock::system_time()).expect("the names are in order");
        (
            CertifiedKey::from_pem(made.cert_pem.as_bytes(), made.key_pem.as_bytes(), &[]).expect("it was just made"),
            made,
        )
    }

    fn chain(key: &CertifiedKey) -> Vec<Vec<u8>> {
        key.chain().map(<[u8]>::to_vec).collect()
    }

    #[test]
    fn a_placeholder_stands_until_a_certificate_comes_and_the_latest_stays() {
        let (all, order) = (AllIssued::default(), order(&["a.example", "www.a.example"]));
        let issued = all.of(&order).expect("it can be made");
        assert!(all.is_placeholder(&order));
        for _ in 0..2 {
            let (key, made) = made(&["a.example", "www.a.example"]);
            all.take(order.names(), made.cert_pem.as_bytes(), made.key_pem.as_bytes()).expect("it is sound");
            assert_eq!(chain(&issued.current()), chain(&key));
            assert!(!all.is_placeholder(&order));
        }
        let before = chain(&issued.current());
        all.take(order.names(), b"damaged", b"damaged").expect_err("it is not sound");
        assert_eq!(chain(&issued.current()), before);
    }

    #[test]
    fn orders_of_the_same_names_share_a_certificate_which_stays_as_long_as_it_is_wanted() {
        let all = AllIssued::default();
        let (one, two) = (order(&["a.example", "b.example"]), order(&["B.example", "a.example"]));
        let issued = all.of(&one).expect("it can be made");
        assert!(Arc::ptr_eq(&issued, &all.of(&two).expect("it is there")));
        all.keep_only(std::slice::from_ref(&two));
        assert!(Arc::ptr_eq(&issued, &all.of(&one).expect("it is there")));
        all.keep_only(&[]);
        let (_, made) = made(&["a.example"]);
        all.take(one.names(), made.cert_pem.as_bytes(), made.key_pem.as_bytes())
            .expect("nobody wants it, which is fine");
        assert!(issued.is_placeholder());
        assert!(!Arc::ptr_eq(&issued, &all.of(&one).expect("it can be made")));
    }
}
