//! `ssl_protocols` and `ssl_ecdh_curve`: nginx's words to what rustls offers.

use crate::error::{Notice, TlsError};
use crate::names;
use rustls::SupportedProtocolVersion;
use rustls::crypto::SupportedKxGroup;
use rustls::crypto::aws_lc_rs::kx_group;
use rustls::version::{TLS12, TLS13};

/// A version of the protocol, as `ssl_protocols` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// `SSLv2`
    Ssl2,
    /// `SSLv3`
    Ssl3,
    /// `TLSv1`
    Tls10,
    /// `TLSv1.1`
    Tls11,
    /// `TLSv1.2`
    Tls12,
    /// `TLSv1.3`
    Tls13,
}

impl Protocol {
    /// The word of `ssl_protocols`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ssl2 => "SSLv2",
            Self::Ssl3 => "SSLv3",
            Self::Tls10 => "TLSv1",
            Self::Tls11 => "TLSv1.1",
            Self::Tls12 => "TLSv1.2",
            Self::Tls13 => "TLSv1.3",
        }
    }

    fn version(self) -> Option<&'static SupportedProtocolVersion> {
        match self {
            Self::Ssl2 | Self::Ssl3 | Self::Tls10 | Self::Tls11 => None,
            Self::Tls12 => Some(&TLS12),
            Self::Tls13 => Some(&TLS13),
        }
    }
}

/// The versions of `protocols` that exist here; all of them when the list is empty.
pub(crate) fn versions(
    protocols: &[Protocol],
    directive: &'static str,
    notices: &mut Vec<Notice>,
) -> Result<Vec<&'static SupportedProtocolVersion>, TlsError> {
    if protocols.is_empty() {
        return Ok(vec![&TLS13, &TLS12]);
    }
    let mut versions: Vec<&'static SupportedProtocolVersion> = Vec::new();
    let mut dropped = Vec::new();
    for protocol in protocols {
        match protocol.version() {
            Some(version) if !versions.contains(&version) => versions.push(version),
            Some(_) => {}
            None => dropped.push(protocol.name()),
        }
    }
    if versions.is_empty() {
        return Err(TlsError::NoProtocol(dropped.join(" ").into()));
    }
    if !dropped.is_empty() {
        let text = format!("{} dropped, not offered by this TLS library", dropped.join(", "));
        notices.push(Notice { directive, text });
    }
    Ok(versions)
}

/// The groups of `ssl_ecdh_curve`, in its order. `None` and `auto` mean: the library's choice.
pub(crate) fn groups(
    curves: Option<&str>,
    notices: &mut Vec<Notice>,
) -> Result<Vec<&'static dyn SupportedKxGroup>, TlsError> {
    let automatic = || vec![kx_group::X25519MLKEM768, kx_group::X25519, kx_group::SECP256R1, kx_group::SECP384R1];
    let Some(text) = curves.filter(|text| !text.eq_ignore_ascii_case("auto")) else {
        return Ok(automatic());
    };
    let known = [
        kx_group::X25519MLKEM768,
        kx_group::X25519,
        kx_group::SECP256R1,
        kx_group::SECP384R1,
        kx_group::SECP256R1MLKEM768,
        kx_group::MLKEM768,
        kx_group::MLKEM1024,
    ];
    let mut groups: Vec<&'static dyn SupportedKxGroup> = Vec::new();
    let mut dropped = Vec::new();
    // OpenSSL 3.5 also takes `/` between lists, `?` before a name that may be unknown, `*` for a key share.
    for word in text.split([':', '/']).filter(|word| !word.is_empty()) {
        let name = word.trim_start_matches(['?', '*']);
        let number = names::group_number(name);
        match known.iter().find(|group| Some(u16::from(group.name())) == number) {
            Some(group) if !groups.iter().any(|present| present.name() == group.name()) => groups.push(*group),
            Some(_) => {}
            None if name.eq_ignore_ascii_case("auto") => groups.extend(automatic()),
            None => dropped.push(name),
        }
    }
    if groups.is_empty() {
        return Err(TlsError::NoCurve(text.into()));
    }
    if !dropped.is_empty() {
        let text = format!("{} dropped, not offered by this TLS library", dropped.join(", "));
        notices.push(Notice { directive: "ssl_ecdh_curve", text });
    }
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_protocols_are_dropped_and_none_left_is_an_error() {
        use Protocol::{Ssl3, Tls10, Tls12, Tls13};
        for (protocols, kept, noticed) in
            [(&[][..], 2, 0), (&[Tls12, Tls13], 2, 0), (&[Tls10, Ssl3, Tls12], 1, 1), (&[Tls13, Tls13], 1, 0)]
        {
            let mut notices = Vec::new();
            let versions = versions(protocols, "ssl_protocols", &mut notices).unwrap();
            assert_eq!((versions.len(), notices.len()), (kept, noticed), "{protocols:?}");
        }
        let mut notices = Vec::new();
        assert_eq!(
            versions(&[Ssl3, Tls10], "ssl_protocols", &mut notices).unwrap_err(),
            TlsError::NoProtocol("SSLv3 TLSv1".into())
        );
    }

    #[test]
    fn curves_keep_their_order_and_unknown_ones_are_named() {
        for (text, kept, dropped) in [
            ("auto", "4588 29 23 24", ""),
            ("prime256v1:secp384r1", "23 24", ""),
            ("secp521r1:X25519:P-256", "29 23", "secp521r1"),
            ("x25519mlkem768:x25519:x25519", "4588 29", ""),
            ("?X25519MLKEM768/prime256v1", "4588 23", ""),
        ] {
            let mut notices = Vec::new();
            let groups = groups(Some(text), &mut notices).unwrap();
            let numbers: Vec<String> = groups.iter().map(|group| u16::from(group.name()).to_string()).collect();
            assert_eq!(numbers.join(" "), kept, "{text}");
            assert_eq!(notices.iter().any(|notice| notice.text.starts_with(dropped)), !dropped.is_empty(), "{text}");
        }
        assert!(groups(Some("secp521r1"), &mut Vec::new()).is_err());
    }
}
