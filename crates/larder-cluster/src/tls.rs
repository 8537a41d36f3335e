//! What is wrong with a server's TLS, with the mend.

use std::error::Error;
use std::io;
use std::sync::Arc;

use redis::RedisError;
use rustls::{AlertDescription, CertificateError};

/// What is wrong; `None` if a connection broke for another reason. It says the same each time.
pub(crate) fn why(error: &RedisError) -> Option<String> {
    Some(match of(error)? {
        rustls::Error::InvalidCertificate(error) => of_certificate(error),
        // Without a certificate: it wanted one.
        rustls::Error::AlertReceived(AlertDescription::CertificateRequired | AlertDescription::BadCertificate) => {
            "it demands a certificate of larder, which has none: write \"tls-auth-clients no\" into its redis.conf"
                .to_owned()
        }
        other => format!("its TLS fails: {other}"),
    })
}

/// Whether somebody answered who speaks TLS.
pub(crate) fn is_spoken(error: &RedisError) -> bool {
    matches!(of(error), Some(rustls::Error::InvalidCertificate(_) | rustls::Error::AlertReceived(_)))
}

/// Whether what came was no TLS.
pub(crate) fn is_none(error: &RedisError) -> bool {
    matches!(of(error), Some(rustls::Error::InvalidMessage(_)))
}

fn of_certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::UnknownIssuer => {
            "an unknown authority has signed its certificate: name the authority's file as \"ca=\" in \"larder_cluster\""
                .to_owned()
        }
        CertificateError::BadSignature => {
            "another has signed its certificate than \"ca=\" in \"larder_cluster\" has: if it was renewed, copy the new one there and \
             reload"
                .to_owned()
        }
        CertificateError::NotValidForName => {
            format!("its certificate is for another name: {OTHER_NAME}")
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let names: Vec<String> = presented.iter().map(|name| format!("\"{}\"", bare(name))).collect();
            let names = if names.is_empty() { "no name".to_owned() } else { names.join(", ") };
            format!("its certificate is for {names}, and not for \"{}\": {OTHER_NAME}", expected.to_str())
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired: renew it, unless the clock of this machine is wrong".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet: mend the clock of this machine, or that of the one where it was made"
                .to_owned()
        }
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            "its certificate is that of an authority: have it sign another one for the server, and name the file of the \
             authority as \"ca=\" in \"larder_cluster\""
                .to_owned()
        }
        other => format!("its certificate is not to be trusted: {other}"),
    }
}

/// `DnsName("redis.test")` without what surrounds the name.
fn bare(name: &str) -> &str {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(name);
    inner.trim_matches('"')
}

fn of(error: &RedisError) -> Option<&rustls::Error> {
    io_of(error)?.get_ref()?.downcast_ref()
}

/// What the system, or TLS over it, says of a connection that broke.
pub(crate) fn io_of(error: &RedisError) -> Option<&io::Error> {
    error.source()?.downcast_ref::<Arc<dyn Error + Send + Sync>>()?.downcast_ref()
}

const OTHER_NAME: &str = "call the server so in \"larder_cluster\", or give it a certificate for this name";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_certificate_are_bare() {
        for (name, expected) in
            [("DnsName(\"redis.test\")", "redis.test"), ("IpAddress(10.0.0.1)", "10.0.0.1"), ("other", "other")]
        {
            assert_eq!(bare(name), expected, "{name}");
        }
    }
}
