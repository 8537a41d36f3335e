//! `ssl_stapling`: regularly fetches OCSP answers about our own certificates (RFC 6066 §8).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use larder_conf::model::LogLevel;
use larder_tls::{CertifiedKey, OcspQuestion};

use crate::clock;
use crate::log::main::MainLog;
use crate::ocsp::{PATIENCE, Responder};

/// An answer is fetched again after this time; one that expires sooner, this long before it does.
const AGAIN_SECS: u64 = 3600;
/// The pause after a failure, and the least time between two attempts; seconds.
const PAUSE_SECS: u64 = 300;

/// A certificate whose OCSP answers are fetched.
pub struct Staple {
    /// The certificate, to which the answer is stapled.
    key: CertifiedKey,
    question: OcspQuestion,
    responder: Responder,
    is_strict: bool,
    /// When to fetch the next answer, in seconds since 1970. A task that fetches moves it on, so that only one does.
    due: AtomicU64,
    /// Until when the stapled answer holds, in seconds since 1970.
    until: AtomicU64,
}

impl Staple {
    /// Asks `responder` about the certificate of `key`, beginning with the first handshake; `is_strict` is
    /// `ssl_stapling_verify`.
    pub fn new(key: CertifiedKey, question: OcspQuestion, responder: Responder, is_strict: bool) -> Self {
        Self { key, question, responder, is_strict, due: AtomicU64::new(0), until: AtomicU64::new(0) }
    }

    /// Fetches an answer in the background if it is due; otherwise this costs one load. Errors go to `log`.
    pub fn look(self: &Arc<Self>, log: &MainLog) {
        let now = clock::now().secs();
        let due = self.due.load(Ordering::Relaxed);
        if now < due || self.due.compare_exchange(due, now + PAUSE_SECS, Ordering::Relaxed, Ordering::Relaxed).is_err()
        {
            return;
        }
        let (staple, log) = (Arc::clone(self), log.clone());
        tokio::task::spawn_local(async move { staple.ask(&log).await });
    }

    async fn ask(&self, log: &MainLog) {
        let asked = tokio::time::timeout(PATIENCE, self.responder.ask(&self.question)).await;
        let answer = asked.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let now = clock::now().secs();
        let checked = answer.map_err(|error| error.to_string()).and_then(|answer| {
            let until = self.question.check(&answer, self.is_strict, i64::try_from(now).unwrap_or(i64::MAX));
            until.map(|until| (answer, until)).map_err(|error| error.to_string())
        });
        match checked {
            Ok((answer, until)) => {
                self.key.staple(&answer);
                let over = until.map_or(u64::MAX, |until| u64::try_from(until).unwrap_or(0));
                let again = over.saturating_sub(PAUSE_SECS).min(now + AGAIN_SECS).max(now + PAUSE_SECS);
                self.due.store(again, Ordering::Relaxed);
                self.until.store(over, Ordering::Relaxed);
            }
            Err(why) => {
                // No answer is better than an expired one.
                if self.until.load(Ordering::Relaxed) < now {
                    self.key.staple(&[]);
                }
                let Responder { host, port, .. } = &self.responder;
                log.write(
                    LogLevel::Error,
                    format_args!("{why} while requesting certificate status, responder: {host}:{port}"),
                );
            }
        }
    }
}
