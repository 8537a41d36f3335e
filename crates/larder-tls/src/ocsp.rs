//! OCSP (RFC 6960): what is asked about a certificate, and what an answer is worth.

use aws_lc_rs::digest;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer as _;
use x509_parser::x509::AlgorithmIdentifier;

use crate::verify::is_signed;

/// How far clocks may differ, in seconds; OpenSSL is told the same by nginx.
const LEEWAY_SECS: i64 = 300;
/// SHA-1, as an AlgorithmIdentifier: what responders know certificates by.
const SHA1: &[u8] = &[0x30, 9, 6, 5, 0x2b, 14, 3, 2, 26, 5, 0];
const SEQUENCE: u8 = 0x30;
const OCTETS: u8 = 4;
const BITS: u8 = 3;
const ENUMERATED: u8 = 10;
const GENERALIZED_TIME: u8 = 0x18;

/// A question about a certificate.
#[derive(Clone, Debug)]
pub struct OcspQuestion {
    issuer: Vec<u8>,
    /// The hashes of the issuer's name and key, and the serial number.
    id: [Vec<u8>; 3],
}

/// Why an answer is worth nothing, in nginx's words where it has some.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OcspError(&'static str);

impl OcspError {
    /// Whether it is the certificate that is worth nothing.
    pub fn is_revoked(self) -> bool {
        self == REVOKED
    }
}

const REVOKED: OcspError = OcspError("certificate status \"revoked\" in the OCSP response");
const INVALID: OcspError = OcspError("OCSP responder sent invalid response");

impl OcspQuestion {
    /// The question about `certificate`, if its issuer is one of `authorities`. All DER.
    pub fn new<'a>(certificate: &[u8], mut authorities: impl Iterator<Item = &'a [u8]>) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
        authorities.find_map(|der| {
            let (_, issuer) = X509Certificate::from_der(der).ok()?;
            // Several may have the name, and some of them come from the client.
            let algorithm = certificate.signature_algorithm.algorithm.to_id_string();
            let (signed, signature) = (certificate.tbs_certificate.as_ref(), &certificate.signature_value.data);
            if issuer.subject().as_raw() != certificate.issuer().as_raw()
                || !is_signed(&issuer, &algorithm, signed, signature)
            {
                return None;
            }
            let sha1 = |bytes: &[u8]| digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref().to_vec();
            let key = sha1(&issuer.public_key().subject_public_key.data);
            let id = [sha1(issuer.subject().as_raw()), key, certificate.raw_serial().to_vec()];
            Some(Self { issuer: der.to_vec(), id })
        })
    }

    /// The request, DER.
    pub fn to_der(&self) -> Vec<u8> {
        let [name, key, serial] = &self.id;
        let id = der(SEQUENCE, &[SHA1, &der(OCTETS, &[name]), &der(OCTETS, &[key]), &der(2, &[serial])]);
        let list = der(SEQUENCE, &[&der(SEQUENCE, &[&id])]);
        der(SEQUENCE, &[&der(SEQUENCE, &[&list])])
    }

    /// Whether `answer` says that the certificate is good, and until when in seconds since 1970.
    ///
    /// It must be signed by the issuer, or by a certificate in it; with `is_strict` that one must be the issuer's, and
    /// for this purpose.
    pub fn check(&self, answer: &[u8], is_strict: bool, now_secs: i64) -> Result<Option<i64>, OcspError> {
        let basic = basic(answer)?;
        let mut parts = Der(basic);
        let data = parts.whole(SEQUENCE).ok_or(INVALID)?;
        let algorithm = parts.whole(SEQUENCE).ok_or(INVALID)?;
        let signature = parts.take(BITS).ok_or(INVALID)?.split_first().ok_or(INVALID)?.1;
        let certificates = parts.take(0xa0).and_then(|list| Der(list).take(SEQUENCE)).unwrap_or_default();
        let (_, algorithm) = AlgorithmIdentifier::from_der(algorithm).map_err(|_| INVALID)?;
        let algorithm = algorithm.algorithm.to_id_string();
        let (_, issuer) = X509Certificate::from_der(&self.issuer).map_err(|_| INVALID)?;
        let speaks = |signer: &X509Certificate<'_>| is_signed(signer, &algorithm, data, signature);
        if !speaks(&issuer)
            && !signers(certificates).any(|one| speaks(&one) && (!is_strict || may_speak(&one, &issuer, now_secs)))
        {
            return Err(OcspError("OCSP_basic_verify() failed"));
        }
        self.status(data, now_secs)
    }

    /// What the signed part says.
    fn status(&self, data: &[u8], now_secs: i64) -> Result<Option<i64>, OcspError> {
        let mut data = Der(Der(data).take(SEQUENCE).ok_or(INVALID)?);
        data.take(0xa0); // the version
        data.any().ok_or(INVALID)?; // who speaks
        data.take(GENERALIZED_TIME).ok_or(INVALID)?;
        let mut answers = Der(data.take(SEQUENCE).ok_or(INVALID)?);
        while let Some(one) = answers.take(SEQUENCE) {
            let mut one = Der(one);
            let mut id = Der(one.take(SEQUENCE).ok_or(INVALID)?);
            id.any().ok_or(INVALID)?;
            let found = [id.take(OCTETS), id.take(OCTETS), id.take(2)];
            if !found.iter().zip(&self.id).all(|(found, wanted)| *found == Some(wanted.as_slice())) {
                continue;
            }
            let (status, _) = one.any().ok_or(INVALID)?;
            let from = one.take(GENERALIZED_TIME).and_then(seconds).ok_or(INVALID)?;
            let until = match one.take(0xa0) {
                Some(until) => Some(Der(until).take(GENERALIZED_TIME).and_then(seconds).ok_or(INVALID)?),
                None => None,
            };
            return match status {
                0x80 if from > now_secs + LEEWAY_SECS || until.is_some_and(|until| until < now_secs - LEEWAY_SECS) => {
                    Err(OcspError("OCSP_check_validity() failed"))
                }
                0x80 => Ok(until),
                0xa1 => Err(REVOKED),
                _ => Err(OcspError("certificate status \"unknown\" in the OCSP response")),
            };
        }
        Err(OcspError("certificate status not found in the OCSP response"))
    }
}

/// The questions about a chain, whose own certificate comes first: about that alone, or about all but the top; each with
/// the certificate it is about.
pub(crate) fn questions<'a>(
    chain: &'a [Box<[u8]>],
    trusted: &'a [Vec<u8>],
    leaf_only: bool,
) -> Vec<(OcspQuestion, Vec<u8>)> {
    /// Longer chains are not good.
    const QUESTIONS_MAX: usize = 16;
    let Some((leaf, others)) = chain.split_first() else { return Vec::new() };
    let mut asked: Vec<(OcspQuestion, Vec<u8>)> = Vec::new();
    let mut current = leaf.to_vec();
    while asked.len() < if leaf_only { 1 } else { QUESTIONS_MAX } {
        let is_top =
            X509Certificate::from_der(&current).is_ok_and(|(_, one)| one.subject().as_raw() == one.issuer().as_raw());
        if is_top {
            break;
        }
        let authorities = trusted.iter().map(Vec::as_slice).chain(others.iter().map(|der| &**der));
        let Some(question) = OcspQuestion::new(&current, authorities) else { break };
        let issuer = question.issuer.clone();
        asked.push((question, std::mem::replace(&mut current, issuer)));
    }
    asked
}

/// Where a certificate says that it can be asked about.
pub fn ocsp_responder(certificate: &[u8]) -> Option<String> {
    const OCSP: &str = "1.3.6.1.5.5.7.48.1";
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    certificate.extensions().iter().find_map(|extension| {
        let ParsedExtension::AuthorityInfoAccess(access) = extension.parsed_extension() else { return None };
        access.iter().find_map(|access| match &access.access_location {
            GeneralName::URI(uri) if access.access_method.to_id_string() == OCSP => Some((*uri).to_owned()),
            _ => None,
        })
    })
}

/// The part of an answer that is signed, with its signature.
fn basic(answer: &[u8]) -> Result<&[u8], OcspError> {
    let mut answer = Der(Der(answer).take(SEQUENCE).ok_or(INVALID)?);
    if answer.take(ENUMERATED).ok_or(INVALID)? != [0] {
        return Err(OcspError("OCSP response not successful"));
    }
    let bytes = Der(answer.take(0xa0).ok_or(INVALID)?).take(SEQUENCE).ok_or(INVALID)?;
    let mut bytes = Der(bytes);
    bytes.any().ok_or(INVALID)?;
    let basic = bytes.take(OCTETS).ok_or(INVALID)?;
    Der(basic).take(SEQUENCE).ok_or(INVALID)
}

/// The certificates of a list.
fn signers(mut list: &[u8]) -> impl Iterator<Item = X509Certificate<'_>> {
    /// Who answers needs one.
    const SIGNERS_MAX: usize = 4;
    std::iter::from_fn(move || {
        let (rest, certificate) = X509Certificate::from_der(list).ok()?;
        list = rest;
        Some(certificate)
    })
    .take(SIGNERS_MAX)
}

/// Whether `signer` may speak for `issuer` (RFC 6960 §4.2.2.2).
fn may_speak(signer: &X509Certificate<'_>, issuer: &X509Certificate<'_>, now_secs: i64) -> bool {
    let for_this = signer.extended_key_usage().ok().flatten().is_some_and(|usage| usage.value.ocsp_signing);
    let algorithm = signer.signature_algorithm.algorithm.to_id_string();
    let dates = signer.validity();
    let is_valid = (dates.not_before.timestamp()..=dates.not_after.timestamp()).contains(&now_secs);
    for_this && is_valid && is_signed(issuer, &algorithm, signer.tbs_certificate.as_ref(), &signer.signature_value.data)
}

/// Values of DER, one after the other.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The tag and content of the next value.
    fn any(&mut self) -> Option<(u8, &'a [u8])> {
        let (tag, head, length) = match *self.0 {
            [tag, length @ ..=0x7f, ..] => (tag, 2, usize::from(length)),
            [tag, 0x81, length, ..] => (tag, 3, usize::from(length)),
            [tag, 0x82, high, low, ..] => (tag, 4, usize::from(u16::from_be_bytes([high, low]))),
            _ => return None,
        };
        let content = self.0.get(head..head + length)?;
        self.0 = &self.0[head + length..];
        Some((tag, content))
    }

    /// The content of the next value if it has this tag; else that one stays.
    fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        if self.0.first() != Some(&tag) {
            return None;
        }
        self.any().map(|(_, content)| content)
    }

    /// The next value with its head.
    fn whole(&mut self, tag: u8) -> Option<&'a [u8]> {
        let before = self.0;
        self.take(tag)?;
        before.get(..before.len() - self.0.len())
    }
}

/// A value of DER, of less than 64 KB.
fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length = parts.iter().map(|part| part.len()).sum::<usize>().min(0xffff) as u16;
    let [high, low] = length.to_be_bytes();
    let mut value = match length {
        0..0x80 => vec![tag, low],
        0x80..0x100 => vec![tag, 0x81, low],
        _ => vec![tag, 0x82, high, low],
    };
    parts.iter().for_each(|part| value.extend_from_slice(part));
    value
}

/// `20260102030405Z` as seconds since 1970.
fn seconds(time: &[u8]) -> Option<i64> {
    let (digits, zone) = time.split_at_checked(14)?;
    if zone != b"Z" || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = |at: usize, len: usize| digits[at..at + len].iter().fold(0_i64, |n, d| n * 10 + i64::from(d - b'0'));
    let (year, month, day) = (number(0, 4), number(4, 2), number(6, 2));
    // Days since 1970 in the proleptic Gregorian calendar, years beginning in March.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1 - 719_468;
    Some(days * 86_400 + number(8, 2) * 3600 + number(10, 2) * 60 + number(12, 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, KeyPair, SigningKey as _};

    #[test]
    fn times_are_read() {
        for (text, wanted) in [
            (&b"19700101000000Z"[..], Some(0)),
            (b"20000229123456Z", Some(951_827_696)),
            (b"20251122080000Z", Some(1_763_798_400)),
            (b"20251122080000", None),
            (b"2025112208000xZ", None),
            (b"", None),
        ] {
            assert_eq!(seconds(text), wanted, "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn foreign_bytes_are_no_answer() {
        let issuer = rcgen::generate_simple_self_signed(vec!["a.test".to_owned()]).expect("it is sound");
        let certificate = issuer.cert.der().to_vec();
        let question = OcspQuestion::new(&certificate, [certificate.as_slice()].into_iter()).expect("it is its own");
        assert_eq!(question.to_der().first(), Some(&SEQUENCE));
        assert_eq!(question.check(&[0x30, 3, 10, 1, 1], false, 0), Err(OcspError("OCSP response not successful")));
        let mut bytes = vec![0x30, 0x82, 0, 40, 10, 1, 0, 0xa0, 0x82, 0, 30, 0x30, 20];
        bytes.resize(64, 0x30);
        for len in 0..bytes.len() {
            assert!(question.check(&bytes[..len], false, 0).is_err(), "{len}");
        }
        assert_eq!(ocsp_responder(&certificate), None);
    }

    /// An answer about `question`, signed by `signer`, with these certificates.
    fn answer(question: &OcspQuestion, status: &[u8], dates: [&str; 2], signer: &KeyPair, with: &[&[u8]]) -> Vec<u8> {
        let [name, key, serial] = &question.id;
        let id = der(SEQUENCE, &[SHA1, &der(OCTETS, &[name]), &der(OCTETS, &[key]), &der(2, &[serial])]);
        let [from, until] = dates.map(|date| der(GENERALIZED_TIME, &[date.as_bytes()]));
        let one = der(SEQUENCE, &[&id, status, &from, &der(0xa0, &[&until])]);
        let who = der(0xa2, &[&der(OCTETS, &[&[7; 20]])]);
        let data = der(SEQUENCE, &[&who, &from, &der(SEQUENCE, &[&one])]);
        let signature = signer.sign(&data).expect("the key can sign");
        let ecdsa = [0x30, 10, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
        let with = der(0xa0, &[&der(SEQUENCE, with)]);
        let basic = der(SEQUENCE, &[&data, &ecdsa, &der(BITS, &[&[0], &signature]), &with]);
        let bytes = der(SEQUENCE, &[&[6, 9, 0x2b, 6, 1, 5, 5, 7, 0x30, 1, 1], &der(OCTETS, &[&basic])]);
        der(SEQUENCE, &[&[10, 1, 0], &der(0xa0, &[&bytes])])
    }

    fn key() -> KeyPair {
        KeyPair::generate().expect("a key can be made")
    }

    #[test]
    fn an_answer_counts_if_it_is_about_the_certificate_and_its_issuer_stands_behind_it() {
        let named = |name: &str| {
            let mut params = CertificateParams::default();
            params.distinguished_name.push(DnType::CommonName, name);
            params
        };
        let authority = CertifiedIssuer::self_signed(named("authority"), key()).expect("it is sound");
        let signed = |params: CertificateParams, key: &KeyPair| {
            params.signed_by(key, &authority).expect("it is sound").der().to_vec()
        };
        let question = |name: &str| {
            let own = signed(named(name), &key());
            OcspQuestion::new(&own, [&authority.der()[..]].into_iter()).expect("the issuer is there")
        };
        let (anna, otto) = (question("anna"), question("otto"));
        let (helper, stranger) = (key(), key());
        let mut charged = named("helper");
        charged.extended_key_usages = vec![ExtendedKeyUsagePurpose::OcspSigning];
        let (charged, uncharged) = (signed(charged, &helper), signed(named("helper"), &helper));
        const NOW: [&str; 2] = ["20250101000000Z", "20260101000000Z"];
        const OVER: [&str; 2] = ["20240101000000Z", "20250101000000Z"];
        const GOOD: &[u8] = &[0x80, 0];
        const UNTIL: Result<Option<i64>, &str> = Ok(Some(1_767_225_600));
        let own = authority.key();
        let failed = Err("OCSP_basic_verify() failed");
        for (case, answer, strict, lax) in [
            ("good", answer(&anna, GOOD, NOW, own, &[]), UNTIL, UNTIL),
            (
                "revoked",
                answer(&anna, &[0xa1, 2, 0x18, 0], NOW, own, &[]),
                Err("certificate status \"revoked\" in the OCSP response"),
                Err("certificate status \"revoked\" in the OCSP response"),
            ),
            (
                "unknown",
                answer(&anna, &[0x82, 0], NOW, own, &[]),
                Err("certificate status \"unknown\" in the OCSP response"),
                Err("certificate status \"unknown\" in the OCSP response"),
            ),
            (
                "over",
                answer(&anna, GOOD, OVER, own, &[]),
                Err("OCSP_check_validity() failed"),
                Err("OCSP_check_validity() failed"),
            ),
            (
                "about another",
                answer(&otto, GOOD, NOW, own, &[]),
                Err("certificate status not found in the OCSP response"),
                Err("certificate status not found in the OCSP response"),
            ),
            ("by who is charged with it", answer(&anna, GOOD, NOW, &helper, &[&charged]), UNTIL, UNTIL),
            ("by another of the issuer's", answer(&anna, GOOD, NOW, &helper, &[&uncharged]), failed, UNTIL),
            ("by a stranger", answer(&anna, GOOD, NOW, &stranger, &[&charged]), failed, failed),
        ] {
            let now_secs = 1_750_000_000;
            let said = |is_strict| anna.check(&answer, is_strict, now_secs).map_err(|error| error.0);
            assert_eq!((said(true), said(false)), (strict, lax), "{case}");
            for len in 0..answer.len() {
                assert!(anna.check(&answer[..len], false, now_secs).is_err(), "{case}, {len} bytes");
            }
        }
    }
}
