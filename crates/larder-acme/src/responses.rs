//! What the CA is answered when it checks that a name is ours.

use parking_lot::RwLock;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The answers to challenges that are under way, shared with the workers.
///
/// A worker asks it for a request below `/.well-known/acme-challenge/`, and for a handshake that offers `acme-tls/1`
/// only. Nearly always it is empty, which one atomic load tells.
#[derive(Default)]
pub struct Responses {
    count: AtomicUsize,
    open: RwLock<Open>,
}

#[derive(Default)]
struct Open {
    http01: HashMap<String, Arc<str>>,
    tls_alpn01: HashMap<String, Arc<ChallengeCertificate>>,
}

/// The certificate that answers a tls-alpn-01 challenge (RFC 8737 §3). It proves nothing to anyone but the CA.
pub struct ChallengeCertificate {
    /// The certificate, DER.
    pub cert_der: Vec<u8>,
    /// Its key, PKCS#8 DER.
    pub key_der: Vec<u8>,
}

impl ChallengeCertificate {
    /// Both as bytes, for another host: the length of the certificate in four, it, and its key.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let length = u32::try_from(self.cert_der.len()).unwrap_or(u32::MAX);
        [&length.to_be_bytes()[..], &self.cert_der, &self.key_der].concat()
    }

    /// What another host has made of one.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (length, rest) = bytes.split_first_chunk()?;
        let (cert, key) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
        Some(Self { cert_der: cert.to_vec(), key_der: key.to_vec() })
    }
}

impl Responses {
    /// No challenge is under way.
    pub fn new() -> Self {
        Self::default()
    }

    /// The body for `GET /.well-known/acme-challenge/{token}`, of type `application/octet-stream`.
    ///
    /// The host of the request does not matter: a token is a random word that the CA chose, and a site that redirects
    /// to another host makes the CA ask there.
    pub fn http01(&self, token: &str) -> Option<Arc<str>> {
        if self.is_empty() {
            return None;
        }
        self.open.read().http01.get(token).cloned()
    }

    /// The certificate for a handshake with the server name `name` that offers the protocol `acme-tls/1`; `None` means
    /// that the handshake is refused.
    pub fn tls_alpn01(&self, name: &str) -> Option<Arc<ChallengeCertificate>> {
        if self.is_empty() {
            return None;
        }
        self.open.read().tls_alpn01.get(&name.to_ascii_lowercase()).cloned()
    }

    /// Whether no challenge is under way.
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Answers `token` until the offer is dropped.
    pub(crate) fn offer_http01(self: &Arc<Self>, token: &str, key_authorization: &str) -> Offer {
        self.change(|open| open.http01.insert(token.into(), key_authorization.into()).is_some());
        Offer { responses: self.clone(), challenge: OfferedChallenge::Http01 { token: token.into() } }
    }

    /// Answers handshakes for `name`, a host name or an address, until the offer is dropped.
    pub(crate) fn offer_tls_alpn01(self: &Arc<Self>, name: &str, certificate: ChallengeCertificate) -> Offer {
        let server_name = server_name_of(name);
        self.change(|open| open.tls_alpn01.insert(server_name.clone(), Arc::new(certificate)).is_some());
        Offer { responses: self.clone(), challenge: OfferedChallenge::TlsAlpn01 { server_name } }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Open) -> T) {
        let mut open = self.open.write();
        change(&mut open);
        self.count.store(open.http01.len() + open.tls_alpn01.len(), Ordering::Release);
    }
}

impl std::fmt::Debug for Responses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Responses").field("count", &self.count).finish_non_exhaustive()
    }
}

/// An answer that stands as long as this lives, so that an attempt leaves none behind however it ends.
pub(crate) struct Offer {
    responses: Arc<Responses>,
    challenge: OfferedChallenge,
}

enum OfferedChallenge {
    Http01 { token: String },
    TlsAlpn01 { server_name: String },
}

impl Drop for Offer {
    fn drop(&mut self) {
        self.responses.change(|open| match &self.challenge {
            OfferedChallenge::Http01 { token } => open.http01.remove(token).is_some(),
            OfferedChallenge::TlsAlpn01 { server_name } => open.tls_alpn01.remove(server_name).is_some(),
        });
    }
}

/// The server name that the CA sends for `name`: an address is asked for by its name in reverse DNS (RFC 8738 §6).
pub(crate) fn server_name_of(name: &str) -> String {
    match name.parse() {
        Ok(IpAddr::V4(address)) => {
            let [a, b, c, d] = address.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        Ok(IpAddr::V6(address)) => {
            let nibbles = address.octets().into_iter().rev().map(|byte| format!("{:x}.{:x}.", byte & 15, byte >> 4));
            nibbles.collect::<String>() + "ip6.arpa"
        }
        Err(_) => name.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_stands_as_long_as_its_offer() {
        let responses = Arc::new(Responses::new());
        assert_eq!(responses.http01("token"), None);
        let offer = responses.offer_http01("token", "token.thumb");
        assert_eq!(responses.http01("token").as_deref(), Some("token.thumb"));
        assert_eq!(responses.http01("another"), None);
        let certificate = ChallengeCertificate { cert_der: vec![1], key_der: vec![2] };
        let other = responses.offer_tls_alpn01("Example.org", certificate);
        assert_eq!(responses.tls_alpn01("EXAMPLE.org").map(|found| found.cert_der.clone()), Some(vec![1]));
        drop(offer);
        assert_eq!(responses.http01("token"), None);
        assert!(!responses.is_empty());
        drop(other);
        assert!(responses.tls_alpn01("example.org").is_none());
        assert!(responses.is_empty());
    }

    #[test]
    fn a_certificate_for_a_challenge_goes_to_another_host() {
        let bytes = ChallengeCertificate { cert_der: vec![1, 2, 3], key_der: vec![4] }.to_bytes();
        let again = ChallengeCertificate::from_bytes(&bytes).expect("it was made here");
        assert_eq!((again.cert_der, again.key_der), (vec![1, 2, 3], vec![4]));
        for cut in 0..7 {
            assert!(ChallengeCertificate::from_bytes(&bytes[..cut]).is_none(), "{cut}");
        }
    }

    #[test]
    fn an_address_is_asked_for_by_its_reverse_name() {
        for (name, server_name) in [
            ("Example.org", "example.org"),
            ("192.0.2.1", "1.2.0.192.in-addr.arpa"),
            ("2001:db8::1", "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa"),
        ] {
            assert_eq!(server_name_of(name), server_name);
        }
    }
}
