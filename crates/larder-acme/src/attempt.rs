//! One try at a certificate: an order, its challenges, its certificate (RFC 8555 §7.4).
//!
//! ```text
//! stored order or new one --pending--> challenges --ready--> finalize --processing--> wait --valid--> certificate
//! ```
//! The order and the key of its certificate are stored as soon as the CA knows the order, so that whatever interrupts
//! this, the next try goes on with the same order.

use crate::account::KeyType;
use crate::certificate::Certificate;
use crate::client::Client;
use crate::failure::{Failure, finding, kind, leaves_order};
use crate::log::Level;
use crate::order::{Challenge, Order};
use crate::peers::{http01_name, tls_alpn01_name};
use crate::registration::Registration;
use crate::responses::{ChallengeCertificate, Offer, Responses, server_name_of};
use crate::shared::Shared;
use crate::store::OrderUnderWay;
use instant_acme::{
    AuthorizationState, AuthorizationStatus, CertificateIdentifier, ChallengeHandle, ChallengeStatus, ChallengeType,
    Error, Identifier, NewOrder, OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair, RsaKeySize};
use std::sync::Arc;
use std::time::Duration;

/// A try at the certificate of `order`.
pub(crate) struct Attempt<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) order: &'a Order,
    /// How many tries before this one failed in a row, which decides between challenges.
    pub(crate) failures: u32,
    /// The certificate to be replaced, which CAs count less strictly.
    pub(crate) replaces: Option<&'a CertificateIdentifier<'static>>,
}

impl Attempt<'_> {
    pub(crate) async fn run(&self) -> Result<Certificate, Failure> {
        let store = &self.shared.store;
        store.prepare()?;
        store.try_writing()?;
        let (account, client) = account(self.shared).await?;
        let (mut order, key_pem) = self.stored_or_new_order(&account, &client).await?;
        match self.certificate(&mut order, &key_pem).await {
            Ok(certificate) => Ok(certificate),
            Err(Stop::Refused(failure)) => {
                store.forget_order_under_way(self.order);
                Err(failure)
            }
            Err(Stop::Error(doing, error)) => {
                let answer = client.last_answer();
                let is_over = order.state().status == OrderStatus::Invalid;
                if is_over || !self.leaves_order(&error, &client) {
                    store.forget_order_under_way(self.order);
                }
                Err(Failure::of(doing, &error, answer.as_ref(), self.shared.now()))
            }
        }
    }

    async fn stored_or_new_order(
        &self,
        account: &instant_acme::Account,
        client: &Client,
    ) -> Result<(instant_acme::Order, String), Failure> {
        if let Some(stored) = self.shared.store.order_under_way(self.order) {
            match account.order(stored.url).await {
                Ok(mut order) => {
                    if order.state().status != OrderStatus::Invalid {
                        return Ok((order, stored.key_pem));
                    }
                    let findings = self.findings(&mut order).await;
                    if !findings.is_empty() {
                        self.shared.store.forget_order_under_way(self.order);
                        return Err(Failure::of_challenges(&findings));
                    }
                }
                Err(error) if self.leaves_order(&error, client) => {
                    return Err(self.failed("go on with the order", &error, client));
                }
                // The CA has forgotten it.
                Err(_) => {}
            }
            self.shared.store.forget_order_under_way(self.order);
        }

        let key = generate(self.shared.account.key_type).map_err(|error| Failure::later(error.to_string()))?;
        let order = self.new_order(account, client).await?;
        let under_way = OrderUnderWay { url: order.url().into(), key_pem: key.serialize_pem() };
        self.shared.store.save_order_under_way(self.order, &under_way)?;
        Ok((order, under_way.key_pem))
    }

    async fn new_order(
        &self,
        account: &instant_acme::Account,
        client: &Client,
    ) -> Result<instant_acme::Order, Failure> {
        let identifiers: Vec<Identifier> = self.order.names().iter().map(|name| identifier(name)).collect();
        let new = || match &self.shared.account.profile {
            Some(profile) => NewOrder::new(&identifiers).profile(profile),
            None => NewOrder::new(&identifiers),
        };
        // A wish only: a CA may trip over it, and then the order must come to something without.
        if let Some(replaces) = self.replaces.filter(|_| self.failures == 0) {
            match account.new_order(&new().replaces(replaces.clone())).await {
                Ok(order) => return Ok(order),
                Err(Error::Api(problem)) if matches!(kind(&problem), "badNonce" | "rateLimited") => {
                    return Err(self.failed("order a certificate", &Error::Api(problem), client));
                }
                // The CA knows nothing of replacing, or not that certificate: then it is an order as any other.
                Err(_) => {}
            }
        }
        match account.new_order(&new()).await {
            Ok(order) => Ok(order),
            Err(error) => {
                if matches!(&error, Error::Api(problem) if kind(problem) == "accountDoesNotExist") {
                    self.shared.store.set_account_aside("the CA does not know the account");
                }
                Err(self.failed("order a certificate", &error, client))
            }
        }
    }

    async fn certificate(&self, order: &mut instant_acme::Order, key_pem: &str) -> Result<Certificate, Stop> {
        let mut status = order.state().status;
        if status == OrderStatus::Pending {
            status = self.prove(order).await?;
        }
        let chain = match status {
            OrderStatus::Ready => {
                let request = self.signing_request(key_pem).map_err(Stop::Refused)?;
                order.finalize_csr(&request).await.map_err(|error| Stop::Error("sign the certificate", error))?;
                order.poll_certificate(&patience()).await
            }
            OrderStatus::Processing => order.poll_certificate(&patience()).await,
            OrderStatus::Valid => match order.certificate().await {
                Ok(Some(chain)) => Ok(chain),
                Ok(None) => Err(Error::Timeout(None)),
                Err(error) => Err(error),
            },
            OrderStatus::Pending | OrderStatus::Invalid => {
                return Err(Stop::Refused(Failure::later("the CA has ended the order; larder orders anew")));
            }
        };
        let chain = chain.map_err(|error| Stop::Error("hand out the certificate", error))?;
        let refused = |why: String| Stop::Refused(Failure::later(format!("the CA sent no certificate for us: {why}")));
        let certificate = Certificate::new(chain.as_bytes(), key_pem.as_bytes());
        let certificate = certificate.map_err(|error| refused(error.to_string()))?;
        match certificate.covers(self.order.names()) {
            true => Ok(certificate),
            false => Err(refused("it is not for all the names that were ordered".into())),
        }
    }

    /// Answers a challenge for each name that is not proven yet, and waits for the CA to try them.
    async fn prove(&self, order: &mut instant_acme::Order) -> Result<OrderStatus, Stop> {
        // They stand until the CA has come to an end.
        let mut offers: Vec<Offer> = Vec::new();
        let mut outcome = self.offer_all(order, &mut offers).await;
        if let Ok(true) = outcome {
            match order.poll_ready(&patience()).await {
                Ok(OrderStatus::Invalid) => outcome = Ok(false),
                Ok(status) => return Ok(status),
                Err(error) => outcome = Err(Stop::Error("try the challenges", error)),
            }
        }
        if let Err(Stop::Refused(_) | Stop::Error(_, Error::Timeout(_))) = outcome {
            return outcome.map(|_| OrderStatus::Pending);
        }
        let findings = self.findings(order).await;
        match outcome {
            _ if !findings.is_empty() => Err(Stop::Refused(Failure::of_challenges(&findings))),
            Err(stop) => Err(stop),
            Ok(_) => {
                Err(Stop::Refused(Failure::of_challenges(&["the CA ended the order and does not say why".into()])))
            }
        }
    }

    /// Whether every name is proven or has a challenge that the CA may try now.
    async fn offer_all(&self, order: &mut instant_acme::Order, offers: &mut Vec<Offer>) -> Result<bool, Stop> {
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization.map_err(|error| Stop::Error("say what is to be proven", error))?;
            match authorization.status {
                AuthorizationStatus::Valid => continue,
                AuthorizationStatus::Pending => {}
                AuthorizationStatus::Invalid
                | AuthorizationStatus::Revoked
                | AuthorizationStatus::Expired
                | AuthorizationStatus::Deactivated => return Ok(false),
            }
            let name = authorization.identifier().to_string();
            let chosen = self.choose(&authorization).and_then(|kind| authorization.challenge(kind));
            let Some(mut challenge) = chosen else {
                let fact = format!("the CA offers no challenge for {name} that larder may answer");
                return Err(Stop::Refused(Failure::later(fact)));
            };
            let (offer, name, answer) = offer(&self.shared.responses, &challenge).map_err(Stop::Refused)?;
            offers.push(offer);
            self.tell_peers(name, answer).await;
            // One that the CA is trying already, for an attempt before this, it must not be told of again.
            if challenge.status == ChallengeStatus::Pending {
                challenge.set_ready().await.map_err(|error| Stop::Error("try a challenge", error))?;
            }
        }
        Ok(true)
    }

    /// Has the other hosts answer too: the CA may ask any of them.
    async fn tell_peers(&self, name: Option<String>, answer: Vec<u8>) {
        let (Some(peers), Some(name)) = (self.shared.peers(), name) else { return };
        if peers.offer(name, answer).await.is_err() {
            let fact =
                "no other larder can answer the CA, as the server of \"larder_cluster\" is away or takes nothing";
            self.shared.log.say(Level::Warn, &self.order.label(), fact);
        }
    }

    /// The challenge to answer: one that the CA is trying already, or what the configuration allows, in turn.
    fn choose(&self, authorization: &AuthorizationState) -> Option<ChallengeType> {
        let wanted: &[ChallengeType] = match self.order.challenge() {
            Challenge::Http01 => &[ChallengeType::Http01],
            Challenge::TlsAlpn01 => &[ChallengeType::TlsAlpn01],
            Challenge::Either if self.failures.is_multiple_of(2) => &[ChallengeType::Http01, ChallengeType::TlsAlpn01],
            Challenge::Either => &[ChallengeType::TlsAlpn01, ChallengeType::Http01],
        };
        let offered = &authorization.challenges;
        let is_tried = |kind: &&ChallengeType| {
            offered.iter().any(|it| it.r#type == **kind && it.status == ChallengeStatus::Processing)
        };
        let is_offered = |kind: &&ChallengeType| offered.iter().any(|it| it.r#type == **kind);
        wanted.iter().find(is_tried).or_else(|| wanted.iter().find(is_offered)).cloned()
    }

    /// What the CA found when it tried the challenges, a line a name. A CA that does not answer, asked a few times,
    /// found nothing.
    async fn findings(&self, order: &mut instant_acme::Order) -> Vec<String> {
        for _ in 0..FINDINGS_ASKED {
            let findings = self.findings_now(order).await;
            if !findings.is_empty() {
                return findings;
            }
        }
        Vec::new()
    }

    async fn findings_now(&self, order: &mut instant_acme::Order) -> Vec<String> {
        let (mut findings, is_shared) = (Vec::new(), self.shared.peers().is_some());
        let mut authorizations = order.authorizations();
        while let Some(Ok(mut authorization)) = authorizations.next().await {
            if authorization.refresh().await.is_err() {
                break;
            }
            let name = authorization.identifier().to_string();
            let failed = authorization.challenges.iter().filter_map(|it| Some((it, it.error.as_ref()?)));
            findings.extend(failed.map(|(challenge, problem)| finding(&name, &challenge.r#type, problem, is_shared)));
        }
        findings
    }

    fn signing_request(&self, key_pem: &str) -> Result<Vec<u8>, Failure> {
        let made = || {
            let key = KeyPair::from_pem(key_pem)?;
            let mut params = CertificateParams::new(self.order.names())?;
            params.distinguished_name = DistinguishedName::new();
            params.serialize_request(&key).map(|request| request.der().to_vec())
        };
        made().map_err(|error: rcgen::Error| Failure::later(format!("cannot make a signing request: {error}")))
    }

    /// Whether the order may still come to something after `error`. One that failed often enough never will, since the
    /// CA itself was there each time.
    fn leaves_order(&self, error: &Error, client: &Client) -> bool {
        self.failures < TRIES_OF_AN_ORDER && leaves_order(error, client.last_answer().as_ref())
    }

    fn failed(&self, doing: &str, error: &Error, client: &Client) -> Failure {
        Failure::of(doing, error, client.last_answer().as_ref(), self.shared.now())
    }
}

/// Why an order came to no certificate.
enum Stop {
    /// The order is of no use any more.
    Refused(Failure),
    /// The CA, or the way there, failed while doing this; the order may still be of use.
    Error(&'static str, Error),
}

/// The account, and the connection to the CA that is used for it. One of these runs at a time, so that one account is
/// made.
pub(crate) async fn account(shared: &Shared) -> Result<(instant_acme::Account, Client), Failure> {
    let client = Client::new(shared.account.trusted.as_deref()).map_err(|error| Failure::later(error.to_string()))?;
    let _one = shared.registering.lock().await;
    let registration = Registration {
        settings: &shared.account,
        store: &shared.store,
        client: &client,
        log: &shared.log,
        now: shared.now(),
    };
    let account = registration.account().await?;
    Ok((account, client))
}

/// Has the workers answer `challenge`. With the name of the challenge and the answer for other hosts.
fn offer(
    responses: &Arc<Responses>,
    challenge: &ChallengeHandle<'_>,
) -> Result<(Offer, Option<String>, Vec<u8>), Failure> {
    let name = challenge.identifier().to_string();
    let key_authorization = challenge.key_authorization();
    if challenge.r#type == ChallengeType::Http01 {
        let answer = key_authorization.as_str();
        let offer = responses.offer_http01(&challenge.token, answer);
        return Ok((offer, http01_name(&challenge.token), answer.as_bytes().to_vec()));
    }
    let made = || {
        let mut params = CertificateParams::new([name.clone()])?;
        params.distinguished_name = DistinguishedName::new();
        params.custom_extensions = vec![CustomExtension::new_acme_identifier(key_authorization.digest().as_ref())];
        let key = KeyPair::generate()?;
        let cert_der = params.self_signed(&key)?.der().to_vec();
        Ok(ChallengeCertificate { cert_der, key_der: key.serialize_der() })
    };
    let certificate = made().map_err(|error: rcgen::Error| {
        Failure::later(format!("cannot make the certificate that answers the challenge for {name}: {error}"))
    })?;
    let answer = certificate.to_bytes();
    let offer = responses.offer_tls_alpn01(&name, certificate);
    Ok((offer, tls_alpn01_name(&server_name_of(&name)), answer))
}

fn generate(kind: KeyType) -> Result<KeyPair, rcgen::Error> {
    match kind {
        KeyType::EcdsaP256 => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256),
        KeyType::EcdsaP384 => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384),
        KeyType::Rsa2048 => KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_2048),
        KeyType::Rsa3072 => KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_3072),
        KeyType::Rsa4096 => KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_4096),
    }
}

fn identifier(name: &str) -> Identifier {
    match name.parse() {
        Ok(address) => Identifier::Ip(address),
        Err(_) => Identifier::Dns(name.into()),
    }
}

/// How often a CA is asked what it found, if it refuses to say: it may refuse any request for its nonce.
const FINDINGS_ASKED: usize = 4;
/// With waits that double, this is a day.
const TRIES_OF_AN_ORDER: u32 = 10;

/// How long a CA may take to try challenges or to sign: some ask from several places, one after the other.
fn patience() -> RetryPolicy {
    RetryPolicy::new().initial_delay(Duration::from_millis(250)).backoff(1.5).timeout(Duration::from_secs(120))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_key_can_be_made_stored_and_read() {
        for kind in [KeyType::EcdsaP256, KeyType::EcdsaP384, KeyType::Rsa2048] {
            let key = generate(kind).expect("the library makes it");
            let again = KeyPair::from_pem(&key.serialize_pem()).expect("it was written by us");
            assert_eq!(again.public_key_pem(), key.public_key_pem(), "{kind:?}");
        }
    }

    #[test]
    fn an_address_is_ordered_as_one() {
        assert_eq!(identifier("example.org"), Identifier::Dns("example.org".into()));
        assert_eq!(identifier("::1"), Identifier::Ip("::1".parse().expect("it is an address")));
    }
}
