//! Other hosts that serve the same names: what one of them has ordered all have, and all answer the CA.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// What the hosts know together. Orders and challenges have names, which are safe in any key.
pub trait Peers: Send + Sync {
    /// How it stands with an order.
    fn look(&self, order: String) -> Asked<'_, Found>;

    /// Gives all hosts a certificate, with its key, for so long.
    fn put(&self, order: String, certificate: Vec<u8>, time: Duration) -> Asked<'_, ()>;

    /// Tells all that an order failed, so often in a row, and how long none should try again.
    fn fail(&self, order: String, failures: u32, wait: Duration) -> Asked<'_, ()>;

    /// Tells all that an order did not fail.
    fn succeed(&self, order: String) -> Asked<'_, ()>;

    /// Takes the right to order; `None` while another host has it.
    fn take(&self, order: String) -> Asked<'_, Option<Box<dyn Right>>>;

    /// Has all hosts answer a challenge for as long as a CA may take.
    fn offer(&self, challenge: String, answer: Vec<u8>) -> Asked<'_, ()>;
}

/// The right to order. It ends when this is dropped, and soon after it is kept no more.
pub trait Right: Send + Sync {
    /// Keeps it. False if another host has it now.
    fn keep(&self) -> Asked<'_, bool>;
}

/// An answer that takes a while.
pub type Asked<'a, T> = Pin<Box<dyn Future<Output = Result<T, Away>> + Send + 'a>>;

/// The hosts of now; `None` if this one is alone.
pub type FindPeers = dyn Fn() -> Option<std::sync::Arc<dyn Peers>> + Send + Sync;

/// Nobody knows what the other hosts do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Away;

/// How it stands with an order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// What a host has put there.
    pub certificate: Option<Vec<u8>>,
    /// How often in a row the order failed, at any host.
    pub failures: u32,
    /// How long none should try again.
    pub wait: Option<Duration>,
}

/// What hosts call the http-01 challenge with this token. `None` for what no CA sends: a token has 128 random bits at
/// least, in base64url (RFC 8555 §8.3).
pub fn http01_name(token: &str) -> Option<String> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_well_formed = TOKEN_BYTES.contains(&token.len()) && token.bytes().all(is_token);
    is_well_formed.then(|| format!("http-01:{token}"))
}

/// What hosts call the tls-alpn-01 challenge for this server name. `None` for what names no host.
pub fn tls_alpn01_name(server_name: &str) -> Option<String> {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    let is_well_formed = (1..=253).contains(&server_name.len()) && server_name.bytes().all(is_of_name);
    is_well_formed.then(|| format!("tls-alpn-01:{}", server_name.to_ascii_lowercase()))
}

const TOKEN_BYTES: std::ops::RangeInclusive<usize> = 22..=256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_ca_may_ask_for_has_a_name() {
        let token = "LoqXcYV8q5ONbJQxbmR7SCTNo3tiAXDfowyjxAjEuX0";
        assert_eq!(http01_name(token), Some(format!("http-01:{token}")));
        for wrong in ["", "short", &token.replace('V', "/"), &token.replace('V', "}"), &"a".repeat(257)] {
            assert_eq!(http01_name(wrong), None, "{wrong}");
        }
        assert_eq!(tls_alpn01_name("A.example").as_deref(), Some("tls-alpn-01:a.example"));
        for wrong in ["", "a:b", "a b", &"a".repeat(254)] {
            assert_eq!(tls_alpn01_name(wrong), None, "{wrong}");
        }
    }
}
