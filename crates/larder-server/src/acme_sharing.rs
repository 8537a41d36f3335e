//! Certificates of `larder_acme`, and answers to challenges of the CA, that `larder_cluster` shares.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use larder_acme::{Asked, Away, ChallengeCertificate, Found, Peers, Right};
use larder_cluster::{Certificates, CertificatesAway, OrderRight, Settings};
use larder_conf::model::LogLevel;

use crate::cluster::log_level;
use crate::log::main::MainLog;

/// The other larders that order certificates and answer challenges with this one, if there are any.
#[derive(Default)]
pub struct AcmeSharing(ArcSwapOption<Running>);

struct Running {
    settings: Settings,
    others: Arc<Others>,
}

struct Others(Certificates);

struct OthersRight(OrderRight);

impl AcmeSharing {
    /// Shares as a configuration says; with nobody without settings.
    pub fn follow(&self, settings: Option<&Settings>, log: &MainLog) {
        let running = self.0.load();
        if running.as_ref().map(|running| &running.settings) == settings {
            return;
        }
        let Some(settings) = settings else {
            self.0.store(None);
            return;
        };
        let lines = log.clone();
        let say = Box::new(move |level, line: &str| lines.write(log_level(level), line));
        let others = Certificates::start(settings.clone(), say)
            .inspect_err(|error| {
                log.write(LogLevel::Alert, format_args!("cluster: a thread cannot be started: {error}"));
            })
            .ok();
        let running = others.map(|others| Running { settings: settings.clone(), others: Arc::new(Others(others)) });
        self.0.store(running.map(Arc::new));
    }

    /// The others of now.
    pub fn peers(&self) -> Option<Arc<dyn Peers>> {
        let running = self.0.load();
        running.as_ref().map(|running| Arc::clone(&running.others) as Arc<dyn Peers>)
    }

    /// Whether there are others.
    pub fn is_shared(&self) -> bool {
        self.0.load().is_some()
    }

    /// What another larder answers to the challenge http-01 with this token.
    pub async fn http01(&self, token: &str) -> Option<Vec<u8>> {
        self.answer(larder_acme::http01_name(token)?).await
    }

    /// What another larder answers to the challenge tls-alpn-01 for this server name.
    pub async fn tls_alpn01(&self, name: &str) -> Option<ChallengeCertificate> {
        let answer = self.answer(larder_acme::tls_alpn01_name(name)?).await?;
        ChallengeCertificate::from_bytes(&answer)
    }

    async fn answer(&self, challenge: String) -> Option<Vec<u8>> {
        let running = self.0.load_full()?;
        running.others.0.answer(&challenge).await
    }
}

impl Peers for Others {
    fn look(&self, order: String) -> Asked<'_, Found> {
        Box::pin(async move {
            let state = self.0.look(&order).await.map_err(away)?;
            Ok(Found { certificate: state.certificate, failures: state.failures, wait: state.wait })
        })
    }

    fn put(&self, order: String, certificate: Vec<u8>, time: Duration) -> Asked<'_, ()> {
        Box::pin(async move { self.0.put(&order, certificate, time).await.map_err(away) })
    }

    fn fail(&self, order: String, failures: u32, wait: Duration) -> Asked<'_, ()> {
        Box::pin(async move { self.0.fail(&order, failures, wait).await.map_err(away) })
    }

    fn succeed(&self, order: String) -> Asked<'_, ()> {
        Box::pin(async move { self.0.succeed(&order).await.map_err(away) })
    }

    fn take(&self, order: String) -> Asked<'_, Option<Box<dyn Right>>> {
        Box::pin(async move {
            let right = self.0.take(&order).await.map_err(away)?;
            Ok(right.map(|right| Box::new(OthersRight(right)) as Box<dyn Right>))
        })
    }

    fn offer(&self, challenge: String, answer: Vec<u8>) -> Asked<'_, ()> {
        Box::pin(async move { self.0.offer(&challenge, answer).await.map_err(away) })
    }
}

impl Right for OthersRight {
    fn keep(&self) -> Asked<'_, bool> {
        Box::pin(async move { self.0.keep().await.map_err(away) })
    }
}

fn away(_: CertificatesAway) -> Away {
    Away
}
