//! Keeps one order's certificate: obtains it, waits until it should be renewed, and so on for ever.
//!
//! ```text
//! no certificate -> obtain --it came--> wait until due --due--> obtain ...
//!                    ^  `-- failed --> wait (doubling, or as the CA says) --'
//! ```
//! A wait for a day is measured by the host's clock, which may be set meanwhile, so it is looked at every minute; a
//! wait after a failure is measured by a clock that cannot be set.

use crate::attempt::{Attempt, account};
use crate::certificate::Certificate;
use crate::failure::{Failure, Next};
use crate::log::Level;
use crate::order::Order;
use crate::peers::Right;
use crate::schedule::{Window, ask_again_after, backoff, chance, kept_at_least, obeyed, renew_at, renew_in, said};
use crate::shared::{Shared, Status};
use crate::together::{Hosts, Turn, lost};
use instant_acme::CertificateIdentifier;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

/// Keeps the certificate of one order.
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    order: Order,
    hosts: Hosts,
}

impl Keeper {
    /// One that has done nothing yet.
    pub(crate) fn new(shared: Arc<Shared>, order: Order, reloads: watch::Receiver<Vec<Order>>) -> Self {
        let hosts = Hosts::new(Arc::clone(&shared), order.clone(), reloads);
        Self { shared, order, hosts }
    }

    /// Runs until it is aborted.
    pub(crate) async fn run(self) {
        // Another process may have renewed it while this one waited for the right to order.
        let mut certificate = self.shared.stored(&self.order);
        let mut hold = Duration::ZERO;
        loop {
            let newer = match &certificate {
                Some(certificate) => self.wait_until_due(certificate, hold).await,
                None => None,
            };
            let came = match newer {
                Some(newer) => Came::Taken(newer),
                None => self.obtain(certificate.as_ref()).await,
            };
            let (came, held) = match came {
                Came::Ordered(certificate, right) => {
                    self.hosts.publish(&certificate).await;
                    drop(right);
                    let held = self.hold(&certificate);
                    (certificate, held)
                }
                // No sign of a CA that wants an order a minute.
                Came::Taken(certificate) => {
                    self.take(&certificate, "took the certificate of another larder");
                    (certificate, Duration::ZERO)
                }
            };
            (certificate, hold) = (Some(came), held);
        }
    }

    /// Waits until `certificate`, which came just now if there is a `hold`, should be renewed, or another host has a newer
    /// one.
    async fn wait_until_due(&self, certificate: &Certificate, hold: Duration) -> Option<Certificate> {
        let validity = certificate.validity();
        let timing = &self.shared.timing;
        let held_until = Instant::now() + hold;
        let mut due = renew_at(validity, chance());
        let mut window = None;
        let mut ask_at = Instant::now() + timing.first_ask_within.mul_f64(chance());
        loop {
            if let Some(newer) = self.hosts.exchange(Some(certificate)).await {
                return Some(newer);
            }
            let now = self.shared.now();
            let held = held_until.saturating_duration_since(Instant::now());
            self.shared.note(&self.order, |status| {
                status.not_after = Some(validity.not_after);
                status.next_attempt = Some(due.max(now + held));
            });
            let wait = due.duration_since(now).unwrap_or_default().max(held);
            if wait.is_zero() {
                return None;
            }
            if Instant::now() < ask_at {
                let asked = ask_at.saturating_duration_since(Instant::now());
                sleep(wait.min(asked).min(timing.look_every)).await;
                continue;
            }
            let mut again = timing.ask_every;
            if let Some(id) = certificate.renewal_id()
                && let Some((suggested, after)) = self.ask(id).await
            {
                again = ask_again_after(after);
                if window != Some(suggested) {
                    window = Some(suggested);
                    due = renew_in(suggested, validity, chance());
                }
            }
            ask_at = Instant::now() + again;
        }
    }

    /// When the CA would like the certificate `id` to be renewed, and when to ask again (RFC 9773). A CA that cannot
    /// be asked, or has no opinion, is no reason for a log line: the certificate is renewed in time anyway.
    async fn ask(&self, id: &CertificateIdentifier<'static>) -> Option<(Window, Duration)> {
        let asking = async {
            let _turn = self.shared.turns.acquire().await.ok()?;
            let (account, _) = account(&self.shared).await.ok()?;
            account.renewal_info(id).await.ok()
        };
        let (info, after) = timeout(ASK_MAX, asking).await.ok()??;
        let suggested = info.suggested_window;
        let window = Window::of_timestamps(suggested.start.unix_timestamp(), suggested.end.unix_timestamp())?;
        Some((window, after))
    }

    /// Tries until there is a certificate.
    async fn obtain(&self, current: Option<&Certificate>) -> Came {
        tokio::select! {
            certificate = self.order(current) => certificate,
            newer = self.hosts.newer_comes(current) => Came::Taken(newer),
        }
    }

    async fn order(&self, current: Option<&Certificate>) -> Came {
        let mut is_cut = false;
        let mut failures = 0u32;
        let mut soon = 0;
        self.wait_as_asked().await;
        loop {
            self.shared.note(&self.order, |status| status.next_attempt = None);
            let right = match self.hosts.turn(current, &mut failures, is_cut).await {
                Turn::Take(certificate) => return Came::Taken(*certificate),
                Turn::Order(right) => right,
            };
            let failure = match self.attempt(current, failures, right.as_deref()).await {
                Ok(certificate) => {
                    self.take(&certificate, "got a certificate");
                    return Came::Ordered(certificate, right);
                }
                Err(failure) => failure,
            };
            let is_soon = failure.next == Next::Soon && soon < SOON_MAX;
            soon = if is_soon { soon + 1 } else { 0 };
            failures = if is_soon { failures } else { failures.saturating_add(1) };
            let wait = if is_soon { SOON } else { self.wait_after(failures, failure.next) };
            match is_soon {
                true => self.shared.log.say(Level::Info, &self.order.label(), &failure.text),
                false => {
                    self.say(current, &failure, wait);
                    self.hosts.tell_failure(failures, wait).await;
                }
            }
            // Others try first: what failed may be a matter of this host.
            let wait = if right.is_some() { wait + self.shared.timing.peers_every * 5 } else { wait };
            drop(right);
            self.shared.note(&self.order, |status| {
                status.failures = failures;
                status.last_error = Some(failure.text.clone());
                status.next_attempt = Some(self.shared.now() + wait);
            });
            match failure.next {
                Next::NotBefore(_) => {
                    if let Err(error) = self.shared.store.save_wait(&self.order, self.shared.now() + wait) {
                        self.shared.log.say(Level::Warn, &self.order.label(), &error.to_string());
                    }
                    sleep(wait).await;
                    is_cut = false;
                }
                Next::Soon | Next::Later | Next::LaterForChallenges => is_cut = self.hosts.wait(wait).await,
            }
        }
    }

    /// Waits for what is left of a wait that the CA asked for when another process or an earlier one spoke with it.
    async fn wait_as_asked(&self) {
        let now = self.shared.now();
        let Some(until) = self.shared.store.wait(&self.order) else {
            return;
        };
        let Ok(wait) = until.duration_since(now).map(obeyed) else {
            return;
        };
        let fact = format!("the CA wants to be left alone; next try in {}", said(wait));
        self.shared.log.say(Level::Notice, &self.order.label(), &fact);
        self.shared.note(&self.order, |status| {
            status.last_error = Some("the CA wants to be left alone".into());
            status.next_attempt = Some(now + wait);
        });
        sleep(wait).await;
    }

    async fn attempt(
        &self,
        current: Option<&Certificate>,
        failures: u32,
        right: Option<&dyn Right>,
    ) -> Result<Certificate, Failure> {
        let replaces = current.and_then(Certificate::renewal_id);
        let attempt = Attempt { shared: &self.shared, order: &self.order, failures, replaces };
        let in_turn = async {
            let Ok(_turn) = self.shared.turns.acquire().await else {
                return Err(Failure::later("larder is stopping"));
            };
            let outcome = timeout(ATTEMPT_MAX, attempt.run()).await;
            outcome
                .unwrap_or_else(|_| Err(Failure::later(format!("the CA came to no end within {}", said(ATTEMPT_MAX)))))
        };
        tokio::select! {
            outcome = in_turn => outcome,
            () = lost(right, self.shared.timing.keep_every) => {
                Err(Failure::later("another larder of the cluster has taken over the order"))
            }
        }
    }

    /// How long to wait after the `failures`th failure in a row.
    fn wait_after(&self, failures: u32, next: Next) -> Duration {
        let timing = &self.shared.timing;
        let wait = |first| backoff(failures, first, timing.retry_last, chance());
        match next {
            Next::Soon | Next::Later => wait(timing.retry_first),
            Next::LaterForChallenges => wait(timing.retry_first * 2),
            Next::NotBefore(asked) => wait(timing.retry_first).max(obeyed(asked)),
        }
    }

    /// A certificate came, as `how` says: stores it and hands it on. It is used even if it cannot be stored.
    fn take(&self, certificate: &Certificate, how: &str) {
        let not_after = certificate.validity().not_after;
        if let Err(error) = self.shared.save_and_deliver(&self.order, certificate) {
            let fact = format!("the certificate came and is used, but not stored: {error}");
            self.shared.log.say(Level::Error, &self.order.label(), &fact);
        }
        let fact = format!("{how}, valid until {}", httpdate::fmt_http_date(not_after));
        self.shared.log.say(Level::Notice, &self.order.label(), &fact);
        self.shared.note(&self.order, |status| {
            *status = Status { names: status.names.clone(), not_after: Some(not_after), ..Status::default() };
        });
    }

    /// How long the certificate that just came is kept, whatever anyone says.
    fn hold(&self, certificate: &Certificate) -> Duration {
        let validity = certificate.validity();
        if renew_at(validity, 1.0) > self.shared.now() {
            return kept_at_least(validity);
        }
        let fact = format!(
            "the certificate that just came, valid from {} until {}, is due for renewal by the clock of this host; set \
             the clock",
            httpdate::fmt_http_date(validity.not_before),
            httpdate::fmt_http_date(validity.not_after)
        );
        self.shared.log.say(Level::Error, &self.order.label(), &fact);
        self.shared.timing.retry_last
    }

    /// Visitors feel it when there is no certificate, or when it ends soon.
    fn say(&self, current: Option<&Certificate>, failure: &Failure, wait: Duration) {
        let soon = self.shared.now() + self.shared.timing.retry_last;
        let is_felt = current.is_none_or(|certificate| {
            let validity = certificate.validity();
            validity.not_after.checked_sub(validity.lifetime() / 6).is_none_or(|late| late < soon)
        });
        let level = if is_felt { Level::Error } else { Level::Warn };
        let until = match current {
            Some(certificate) => {
                let not_after = httpdate::fmt_http_date(certificate.validity().not_after);
                format!("; its certificate is valid until {not_after}")
            }
            None => "; it has no certificate yet".into(),
        };
        let fact = format!("{}{until}; next try in {}", failure.text, said(wait));
        self.shared.log.say(level, &self.order.label(), &fact);
    }
}

/// Where a certificate comes from.
enum Came {
    /// From the CA, for this host. Others wait for it as long as the right is there.
    Ordered(Certificate, Option<Box<dyn Right>>),
    /// From another host.
    Taken(Certificate),
}

/// A CA that tries challenges and signs, each at its slowest, stays below this.
const ATTEMPT_MAX: Duration = Duration::from_secs(600);
const ASK_MAX: Duration = Duration::from_secs(60);

/// A used-up nonce is nobody's fault, but a CA that refuses every nonce is out of order.
const SOON: Duration = Duration::from_secs(1);
const SOON_MAX: u32 = 3;
