//! Chains as OpenSSL judges them: certificates of version 1, authorities used as peers, revocation lists of version 1.
//!
//! webpki, which is asked first, reads certificates of version 3 only. Tools of every day still make others:
//! `openssl x509 -req` without an extension file, `openssl ca -gencrl` without a number.
//!
//! As with nginx, whose callback lets OpenSSL go on after an error, it is the last error found that counts.

use super::{
    CRL_EXPIRED, EXPIRED, FIRST_UNVERIFIED, NO_CRL, NO_ISSUER, NOT_YET_VALID, SELF_SIGNED, SELF_SIGNED_IN_CHAIN,
    UNREADABLE,
};
use rustls::pki_types::{CertificateDer, SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer};
use webpki::RawPublicKeyEntity;
use webpki::aws_lc_rs as algorithms;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::FromDer as _;
use x509_parser::revocation_list::CertificateRevocationList;
use x509_parser::x509::X509Version;

/// How many certificates a chain may have, whatever the depth.
const CHAIN_MAX: usize = 32;
/// How many issuers are tried in all: a peer chooses what it sends.
const ISSUERS_MAX: usize = 16;

/// What a certificate is shown for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Client,
    Server,
}

/// What a chain is judged by. Everything DER.
pub(super) struct Judge<'a> {
    /// Certificates that are trusted.
    pub(super) trusted: &'a [Vec<u8>],
    /// With any here, every certificate of a chain must be covered.
    pub(super) revocation_lists: &'a [Vec<u8>],
    /// How many authorities may stand between a certificate and one we trust.
    pub(super) depth: usize,
    pub(super) purpose: Purpose,
    /// Since 1970.
    pub(super) now_secs: i64,
}

/// Whether something is good; if not, OpenSSL's reason.
type Verdict = Result<(), &'static str>;

impl Judge<'_> {
    /// Whether `leaf`, shown with `others`, is good.
    pub(super) fn check(&self, leaf: &[u8], others: &[CertificateDer<'_>]) -> Verdict {
        let leaf = read(leaf).ok_or(UNREADABLE)?;
        let trusted: Vec<X509Certificate<'_>> = self.trusted.iter().filter_map(|der| read(der)).collect();
        let others: Vec<X509Certificate<'_>> = others.iter().filter_map(|der| read(der)).collect();
        let (chain, mut verdict) = self.build(&leaf, &trusted, &others);
        verdict = later(verdict, self.check_extensions(&chain));
        if !self.revocation_lists.is_empty() {
            verdict = later(verdict, self.check_revocation(&chain));
        }
        verdict = later(verdict, self.check_signatures(&chain));
        later(verdict, check_constraints(&chain))
    }

    /// The way from `leaf` to a certificate we trust, as far as there is one.
    fn build<'c, 'a>(
        &self,
        leaf: &'c X509Certificate<'a>,
        trusted: &'c [X509Certificate<'a>],
        others: &'c [X509Certificate<'a>],
    ) -> (Vec<&'c X509Certificate<'a>>, Verdict) {
        let mut chain = vec![leaf];
        let mut tries_left = ISSUERS_MAX;
        loop {
            let last = chain[chain.len() - 1];
            let is_trusted = trusted.iter().any(|trusted| trusted.as_raw() == last.as_raw());
            let intermediates = chain.len().saturating_sub(2);
            if is_self_issued(last) {
                let verdict = match (is_trusted, chain.len()) {
                    (true, _) if intermediates > self.depth => Err("certificate chain too long"),
                    (true, _) => Ok(()),
                    (false, 1) => Err(SELF_SIGNED),
                    (false, _) => Err(SELF_SIGNED_IN_CHAIN),
                };
                return (chain, verdict);
            }
            let candidates: Vec<&X509Certificate<'_>> = trusted
                .iter()
                .chain(others)
                .filter(|issuer| issuer.subject().as_raw() == last.issuer().as_raw())
                .filter(|issuer| chain.iter().all(|known| known.as_raw() != issuer.as_raw()))
                .take(tries_left)
                .collect();
            tries_left -= candidates.len();
            // One with the right name and the wrong key is an error of its own, which the signatures bring to light.
            let signed = candidates.iter().find(|issuer| has_signed(issuer, last));
            match signed.or(candidates.first()) {
                Some(issuer) if chain.len() < CHAIN_MAX => chain.push(issuer),
                _ if is_trusted && intermediates > self.depth => return (chain, Err("certificate chain too long")),
                _ if is_trusted => return (chain, Ok(())),
                _ if chain.len() == 1 => return (chain, Err(FIRST_UNVERIFIED)),
                _ => return (chain, Err(NO_ISSUER)),
            }
        }
    }

    /// What the certificates may be used for.
    fn check_extensions(&self, chain: &[&X509Certificate<'_>]) -> Verdict {
        let mut verdict = Ok(());
        // Authorities so far that did not issue themselves.
        let mut below = 0;
        for (place, certificate) in chain.iter().enumerate() {
            let is_authority = place > 0;
            if certificate.extensions().iter().any(|extension| extension.critical && !is_known(extension)) {
                verdict = Err("unhandled critical extension");
            }
            if is_authority && !may_sign(certificate) {
                verdict = Err("invalid CA certificate");
            }
            if !self.is_fit(certificate, is_authority) {
                verdict = Err("unsuitable certificate purpose");
            }
            if !is_authority {
                continue;
            }
            let length_max = constraints(certificate).and_then(|constraints| constraints.path_len_constraint);
            if length_max.is_some_and(|length_max| below > length_max) {
                verdict = Err("path length constraint exceeded");
            }
            below += u32::from(!is_self_issued(certificate));
        }
        verdict
    }

    /// Whether a certificate may be shown for the purpose, or sign such ones.
    fn is_fit(&self, certificate: &X509Certificate<'_>, is_authority: bool) -> bool {
        let Ok(extended) = certificate.extended_key_usage() else { return false };
        let Ok(usage) = certificate.key_usage() else { return false };
        let allows = extended.is_none_or(|extended| match self.purpose {
            Purpose::Client => extended.value.client_auth,
            Purpose::Server => extended.value.server_auth,
        });
        let usable = usage.is_none_or(|usage| {
            let usage = usage.value;
            let signs = usage.digital_signature() || usage.key_agreement();
            is_authority || signs || self.purpose == Purpose::Server && usage.key_encipherment()
        });
        allows && usable
    }

    /// Every certificate must be on the good side of a list of its issuer.
    fn check_revocation(&self, chain: &[&X509Certificate<'_>]) -> Verdict {
        let lists: Vec<CertificateRevocationList<'_>> = self
            .revocation_lists
            .iter()
            .filter_map(|der| CertificateRevocationList::from_der(der).ok().map(|(_, list)| list))
            .collect();
        let mut verdict = Ok(());
        for (place, certificate) in chain.iter().enumerate() {
            let issuer = match chain.get(place + 1) {
                Some(issuer) => issuer,
                None if is_self_issued(certificate) => certificate,
                // Nobody is asked about an authority that is trusted by itself.
                None if place > 0 => continue,
                None => {
                    verdict = Err(NO_CRL);
                    continue;
                }
            };
            verdict = later(verdict, self.check_listed(certificate, issuer, &lists));
        }
        verdict
    }

    fn check_listed(
        &self,
        certificate: &X509Certificate<'_>,
        issuer: &X509Certificate<'_>,
        lists: &[CertificateRevocationList<'_>],
    ) -> Verdict {
        let mut verdict = Err(NO_CRL);
        for list in lists {
            // One that says it covers a part only does not speak for the others.
            let is_partial = list.extensions().iter().any(|extension| extension.critical);
            if is_partial || list.issuer().as_raw() != certificate.issuer().as_raw() {
                continue;
            }
            let found = self.check_list(certificate, issuer, list);
            // A list that revokes decides, else one that is good.
            if found == Err("certificate revoked") {
                return found;
            }
            if found.is_ok() || verdict == Err(NO_CRL) {
                verdict = found;
            }
        }
        verdict
    }

    fn check_list(
        &self,
        certificate: &X509Certificate<'_>,
        issuer: &X509Certificate<'_>,
        list: &CertificateRevocationList<'_>,
    ) -> Verdict {
        let algorithm = list.signature_algorithm.algorithm.to_id_string();
        let signed = list.tbs_cert_list.as_ref();
        if !is_signed(issuer, &algorithm, signed, &list.signature_value.data) {
            return Err("CRL signature failure");
        }
        if issuer.key_usage().ok().flatten().is_some_and(|usage| !usage.value.crl_sign()) {
            return Err("key usage does not include CRL signing");
        }
        if list.last_update().timestamp() > self.now_secs {
            return Err("CRL is not yet valid");
        }
        if list.next_update().is_some_and(|next| next.timestamp() < self.now_secs) {
            return Err(CRL_EXPIRED);
        }
        let serial = certificate.raw_serial();
        if list.iter_revoked_certificates().any(|revoked| revoked.raw_serial() == serial) {
            return Err("certificate revoked");
        }
        Ok(())
    }

    /// Signatures and times, from the trusted end on.
    fn check_signatures(&self, chain: &[&X509Certificate<'_>]) -> Verdict {
        let mut verdict = Ok(());
        for (place, certificate) in chain.iter().enumerate().rev() {
            if chain.get(place + 1).is_some_and(|issuer| !has_signed(issuer, certificate)) {
                verdict = Err("certificate signature failure");
            }
            let validity = certificate.validity();
            if validity.not_before.timestamp() > self.now_secs {
                verdict = Err(NOT_YET_VALID);
            } else if validity.not_after.timestamp() < self.now_secs {
                verdict = Err(EXPIRED);
            }
        }
        verdict
    }
}

/// What counts of two verdicts of which the second came later.
fn later(first: Verdict, second: Verdict) -> Verdict {
    if second.is_err() { second } else { first }
}

/// An authority may say for which names it signs. Only webpki reads that; here such a chain is not good.
fn check_constraints(chain: &[&X509Certificate<'_>]) -> Verdict {
    let is_constrained = |certificate: &&X509Certificate<'_>| {
        let is_constraint = |parsed: &ParsedExtension<'_>| matches!(parsed, ParsedExtension::NameConstraints(_));
        certificate.extensions().iter().any(|extension| is_constraint(extension.parsed_extension()))
    };
    if chain.iter().skip(1).any(is_constrained) { Err("permitted subtree violation") } else { Ok(()) }
}

fn read(der: &[u8]) -> Option<X509Certificate<'_>> {
    X509Certificate::from_der(der).ok().map(|(_, certificate)| certificate)
}

fn is_self_issued(certificate: &X509Certificate<'_>) -> bool {
    certificate.subject().as_raw() == certificate.issuer().as_raw()
}

/// Whether we know what an extension asks of us.
fn is_known(extension: &x509_parser::extensions::X509Extension<'_>) -> bool {
    matches!(
        extension.parsed_extension(),
        ParsedExtension::BasicConstraints(_)
            | ParsedExtension::KeyUsage(_)
            | ParsedExtension::ExtendedKeyUsage(_)
            | ParsedExtension::SubjectAlternativeName(_)
            | ParsedExtension::NameConstraints(_)
            | ParsedExtension::CertificatePolicies(_)
            | ParsedExtension::CRLDistributionPoints(_)
            | ParsedExtension::NSCertType(_)
    )
}

fn constraints<'a>(certificate: &'a X509Certificate<'_>) -> Option<&'a x509_parser::extensions::BasicConstraints> {
    certificate.basic_constraints().ok().flatten().map(|extension| extension.value)
}

/// Whether a certificate is one of an authority: OpenSSL's `X509_check_ca`. Those of version 1 say nothing about it,
/// and are taken if they are their own issuers.
fn may_sign(certificate: &X509Certificate<'_>) -> bool {
    let (Ok(usage), Ok(basic)) = (certificate.key_usage(), certificate.basic_constraints()) else { return false };
    match (&usage, &basic) {
        (Some(usage), _) if !usage.value.key_cert_sign() => false,
        (_, Some(basic)) => basic.value.ca,
        (Some(_), None) => true,
        (None, None) => certificate.version() == X509Version::V1 && is_self_issued(certificate),
    }
}

fn has_signed(issuer: &X509Certificate<'_>, certificate: &X509Certificate<'_>) -> bool {
    let algorithm = certificate.signature_algorithm.algorithm.to_id_string();
    is_signed(issuer, &algorithm, certificate.tbs_certificate.as_ref(), &certificate.signature_value.data)
}

/// Whether `signature` is that of `signer`.
pub(crate) fn is_signed(signer: &X509Certificate<'_>, algorithm: &str, message: &[u8], signature: &[u8]) -> bool {
    let key = SubjectPublicKeyInfoDer::from(signer.public_key().raw);
    let Ok(key) = RawPublicKeyEntity::try_from(&key) else { return false };
    let candidates: &[&dyn SignatureVerificationAlgorithm] = match algorithm {
        "1.2.840.113549.1.1.11" => {
            &[algorithms::RSA_PKCS1_2048_8192_SHA256, algorithms::RSA_PKCS1_2048_8192_SHA256_ABSENT_PARAMS]
        }
        "1.2.840.113549.1.1.12" => {
            &[algorithms::RSA_PKCS1_2048_8192_SHA384, algorithms::RSA_PKCS1_2048_8192_SHA384_ABSENT_PARAMS]
        }
        "1.2.840.113549.1.1.13" => {
            &[algorithms::RSA_PKCS1_2048_8192_SHA512, algorithms::RSA_PKCS1_2048_8192_SHA512_ABSENT_PARAMS]
        }
        "1.2.840.113549.1.1.10" => &[
            algorithms::RSA_PSS_2048_8192_SHA256_LEGACY_KEY,
            algorithms::RSA_PSS_2048_8192_SHA384_LEGACY_KEY,
            algorithms::RSA_PSS_2048_8192_SHA512_LEGACY_KEY,
        ],
        "1.2.840.10045.4.3.2" => {
            &[algorithms::ECDSA_P256_SHA256, algorithms::ECDSA_P384_SHA256, algorithms::ECDSA_P521_SHA256]
        }
        "1.2.840.10045.4.3.3" => {
            &[algorithms::ECDSA_P256_SHA384, algorithms::ECDSA_P384_SHA384, algorithms::ECDSA_P521_SHA384]
        }
        "1.2.840.10045.4.3.4" => {
            &[algorithms::ECDSA_P256_SHA512, algorithms::ECDSA_P384_SHA512, algorithms::ECDSA_P521_SHA512]
        }
        "1.3.101.112" => &[algorithms::ED25519],
        _ => &[],
    };
    candidates.iter().any(|algorithm| key.verify_signature(*algorithm, message, signature).is_ok())
}

#[cfg(test)]
mod tests;
