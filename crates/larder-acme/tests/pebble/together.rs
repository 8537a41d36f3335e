//! Several hosts for the same names.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use larder_acme::{Asked, Away, Challenge, Found, Peers, Right};

use crate::host::{Host, order};

/// What hosts share, in memory.
#[derive(Default)]
pub struct Together {
    is_away: AtomicBool,
    /// Whether others have the right to order, though nobody takes it from this host.
    is_lost: Arc<AtomicBool>,
    is_taken: Arc<AtomicBool>,
    found: Mutex<Found>,
    offered: Mutex<Vec<String>>,
}

struct Taken {
    is_taken: Arc<AtomicBool>,
    is_lost: Arc<AtomicBool>,
}

impl Together {
    fn asked<T: Send + 'static>(&self, answer: impl FnOnce(&Self) -> T) -> Asked<'_, T> {
        let answer = if self.is_away.load(Ordering::Relaxed) { Err(Away) } else { Ok(answer(self)) };
        Box::pin(async move { answer })
    }
}

impl Peers for Together {
    fn look(&self, _: String) -> Asked<'_, Found> {
        self.asked(|all| all.found.lock().unwrap().clone())
    }

    fn put(&self, _: String, certificate: Vec<u8>, _: Duration) -> Asked<'_, ()> {
        self.asked(|all| all.found.lock().unwrap().certificate = Some(certificate))
    }

    fn fail(&self, _: String, failures: u32, wait: Duration) -> Asked<'_, ()> {
        self.asked(|all| {
            let mut found = all.found.lock().unwrap();
            (found.failures, found.wait) = (failures, Some(wait));
        })
    }

    fn succeed(&self, _: String) -> Asked<'_, ()> {
        self.asked(|all| {
            let mut found = all.found.lock().unwrap();
            (found.failures, found.wait) = (0, None);
        })
    }

    fn take(&self, _: String) -> Asked<'_, Option<Box<dyn Right>>> {
        self.asked(|all| {
            let is_free = !all.is_taken.swap(true, Ordering::Relaxed);
            let (is_taken, is_lost) = (Arc::clone(&all.is_taken), Arc::clone(&all.is_lost));
            is_free.then(|| Box::new(Taken { is_taken, is_lost }) as Box<dyn Right>)
        })
    }

    fn offer(&self, challenge: String, _: Vec<u8>) -> Asked<'_, ()> {
        self.asked(|all| all.offered.lock().unwrap().push(challenge))
    }
}

impl Right for Taken {
    fn keep(&self) -> Asked<'_, bool> {
        let is_kept = !self.is_lost.load(Ordering::Relaxed);
        Box::pin(async move { Ok(is_kept) })
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.is_taken.store(false, Ordering::Relaxed);
    }
}

fn host(together: &Arc<Together>) -> Host {
    let mut host = Host::new();
    host.peers = Some(Arc::clone(together) as Arc<dyn Peers>);
    host.timing.peers_every = Duration::from_millis(50);
    host.timing.keep_every = Duration::from_millis(50);
    host
}

#[test]
fn a_host_that_knows_nothing_of_the_others_orders_after_a_while_and_tells_them_later() {
    let together = Arc::<Together>::default();
    together.is_away.store(true, Ordering::Relaxed);
    let host = host(&together);
    let mut ca = host.start_ca();
    let mut running = host.spawn(&[order(&["example.org"], Challenge::Http01)]);
    running
        .line("nobody knows whether another larder orders, as the server of \"larder_cluster\" is away; larder orders");
    let issued = running.certificate(1);
    running.line("no other larder can answer the CA");
    running.line("the other larders get the certificate when");
    together.is_away.store(false, Ordering::Relaxed);
    let kept = || together.found.lock().unwrap().certificate.clone().unwrap_or_default();
    running.wait_until("the certificate among all", || String::from_utf8_lossy(&kept()).contains(&issued.chain));
    running.stop();
    assert_eq!(ca.orders(), 1);
}

#[test]
fn a_certificate_that_is_due_is_kept_without_the_others_until_a_sixth_of_its_time_is_left() {
    let together = Arc::<Together>::default();
    let mut host = host(&together);
    host.account.profile = Some("default".into());
    let mut ca = host.start_ca();
    let orders = [order(&["example.org"], Challenge::Http01)];
    let mut running = host.spawn(&orders);
    running.certificate(1);
    running.stop();
    assert!(!together.offered.lock().unwrap().is_empty());
    // At 65 of 90 days it is due, at 76 nobody waits for the others any more.
    together.is_away.store(true, Ordering::Relaxed);
    host.ahead_seconds.store(65 * 24 * 3600, Ordering::Relaxed);
    let mut running = host.spawn(&orders);
    let (_, line) = running.line("larder orders by itself in ");
    assert!(line.ends_with(" days"), "{line}");
    assert_eq!(ca.orders(), 1);
    host.ahead_seconds.store(76 * 24 * 3600, Ordering::Relaxed);
    running.line("got a certificate");
    running.stop();
    assert_eq!(ca.orders(), 2);
}

#[test]
fn a_host_waits_while_another_orders_and_takes_what_comes_of_it() {
    let together = Arc::<Together>::default();
    let first = host(&together);
    let _ca = first.start_ca();
    let orders = [order(&["example.org"], Challenge::Http01)];
    let mut running = first.spawn(&orders);
    let issued = running.certificate(1);
    running.stop();
    let certificate = together.found.lock().unwrap().certificate.take();
    assert!(certificate.is_some());
    together.is_taken.store(true, Ordering::Relaxed);
    let mut second = host(&together);
    second.account.directory.clone_from(&first.account.directory);
    let mut running = second.spawn(&orders);
    running.line("another larder orders the certificate; larder waits for it");
    together.found.lock().unwrap().certificate = certificate;
    let taken = running.certificate(1);
    assert_eq!((taken.chain, taken.key), (issued.chain, issued.key));
    running.line("took the certificate of another larder, valid until");
    running.stop();
}

#[test]
fn a_copy_that_is_worse_takes_the_place_of_no_good_certificate() {
    let together = Arc::<Together>::default();
    let host = host(&together);
    let mut ca = host.start_ca();
    let mut running = host.spawn(&[order(&["example.org"], Challenge::Http01)]);
    running.certificate(1);
    let good = || together.found.lock().unwrap().certificate.clone().unwrap_or_default();
    running.wait_until("it is there", || !good().is_empty());
    let first = good();
    let more = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let key = rcgen::KeyPair::generate().unwrap();
    let mut future = rcgen::CertificateParams::new(["example.org".to_owned()]).unwrap();
    (future.not_before, future.not_after) = (rcgen::date_time_ymd(2100, 1, 1), rcgen::date_time_ymd(2101, 1, 1));
    let future = format!("{}{}", key.serialize_pem(), future.self_signed(&key).unwrap().pem());
    for (copy, said) in [
        (
            [&first[..], more].concat(),
            Some("what the cluster has as its certificate is not used: the certificate cannot be read"),
        ),
        // One more of the CA's: it is the same certificate.
        ([&first[..], &first[..]].concat(), None),
        (future.into_bytes(), None),
    ] {
        together.found.lock().unwrap().certificate = Some(copy);
        if let Some(said) = said {
            running.line(said);
        }
        running.wait_until("the good one in its place", || good() == first);
    }
    let (issued, _) = running.stop();
    assert_eq!((issued.len(), ca.orders()), (1, 1));
}

#[test]
fn a_host_without_a_certificate_takes_one_soon_while_it_leaves_the_ca_alone() {
    let together = Arc::<Together>::default();
    let first = host(&together);
    let ca = first.start_ca();
    let orders = [order(&["example.org"], Challenge::Http01)];
    let mut running = first.spawn(&orders);
    let issued = running.certificate(1);
    running.stop();
    let certificate = together.found.lock().unwrap().certificate.take();
    drop(ca);
    let mut second = host(&together);
    second.account.directory.clone_from(&first.account.directory);
    let hour = Duration::from_secs(3600);
    (second.timing.look_every, second.timing.retry_first, second.timing.retry_last) = (hour, hour, hour);
    let mut running = second.spawn(&orders);
    running.line("it has no certificate yet; next try in 60 min");
    together.found.lock().unwrap().certificate = certificate;
    let taken = running.certificate(1);
    assert_eq!((taken.chain, taken.key), (issued.chain, issued.key));
    running.stop();
}

#[test]
fn a_host_that_waits_after_a_failed_renewal_gives_the_others_what_it_has() {
    let together = Arc::<Together>::default();
    let mut host = host(&together);
    host.account.profile = Some("default".into());
    let ca = host.start_ca();
    let orders = [order(&["example.org"], Challenge::Http01)];
    let mut running = host.spawn(&orders);
    running.certificate(1);
    running.stop();
    drop(ca);
    let hour = Duration::from_secs(3600);
    (host.timing.retry_first, host.timing.retry_last) = (hour, hour);
    host.ahead_seconds.store(65 * 24 * 3600, Ordering::Relaxed);
    let mut running = host.spawn(&orders);
    running.line("its certificate is valid until ");
    let kept = together.found.lock().unwrap().certificate.take();
    running.wait_until("it there again", || together.found.lock().unwrap().certificate == kept);
    running.stop();
    assert!(kept.is_some());
}

#[test]
fn what_failed_at_one_host_no_other_tries_at_once() {
    let together = Arc::<Together>::default();
    let host = host(&together);
    // There is no CA at all.
    *together.found.lock().unwrap() = Found { certificate: None, failures: 4, wait: Some(Duration::from_millis(300)) };
    let mut running = host.spawn(&[order(&["example.org"], Challenge::Http01)]);
    running.line("the order has just failed at a larder of the cluster; next try in 0 s");
    together.found.lock().unwrap().wait = None;
    running.line("cannot connect to");
    running.wait_until("it counts", || together.found.lock().unwrap().failures == 5);
    running.stop();
    assert!(!together.is_taken.load(Ordering::Relaxed), "the right is given up");
}

#[test]
fn a_host_that_has_lost_the_right_stops() {
    let together = Arc::<Together>::default();
    together.is_lost.store(true, Ordering::Relaxed);
    let host = host(&together);
    host.http.holds.store(true, Ordering::Relaxed);
    let _ca = host.start_ca();
    let mut running = host.spawn(&[order(&["example.org"], Challenge::Http01)]);
    running.line("another larder of the cluster has taken over the order");
    assert!(running.certificates.is_empty());
    running.stop();
}
