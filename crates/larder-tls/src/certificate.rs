//! What a certificate says, in words: for expiry warnings, for `check`, and for nginx's `$ssl_client_*`.

use std::fmt::Write;
use x509_parser::certificate::X509Certificate;
use x509_parser::der_parser::asn1_rs::{Any, Tag};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;
use x509_parser::x509::X509Name;

/// A certificate that cannot be read, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CertificateError(pub(crate) Box<str>);

/// What a certificate says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateFacts {
    /// Whose it is, as RFC 2253 writes names and nginx's `$ssl_client_s_dn` shows them.
    pub subject: String,
    /// Who signed it, likewise.
    pub issuer: String,
    /// The subject the way OpenSSL wrote it once: `/C=DE/CN=example`.
    pub subject_legacy: String,
    /// The issuer likewise.
    pub issuer_legacy: String,
    /// The serial number, in upper case hexadecimal.
    pub serial: String,
    /// The first second it is valid in, since 1970.
    pub not_before: i64,
    /// The last second it is valid in, since 1970.
    pub not_after: i64,
    /// `not_before` as OpenSSL prints it: `Feb  3 00:55:52 2015 GMT`.
    pub start: String,
    /// `not_after` likewise.
    pub end: String,
    /// The host names and addresses it is for.
    pub names: Vec<String>,
    /// Whether the subject signed it itself.
    pub is_self_issued: bool,
}

impl CertificateFacts {
    /// Reads a certificate in DER.
    pub fn read(der: &[u8]) -> Result<Self, CertificateError> {
        let (_, certificate) =
            X509Certificate::from_der(der).map_err(|error| CertificateError(error.to_string().into()))?;
        let validity = certificate.validity();
        let names = certificate.subject_alternative_name().ok().flatten();
        Ok(Self {
            subject: rfc2253(certificate.subject()),
            issuer: rfc2253(certificate.issuer()),
            subject_legacy: oneline(certificate.subject()),
            issuer_legacy: oneline(certificate.issuer()),
            serial: serial(certificate.raw_serial()),
            not_before: validity.not_before.timestamp(),
            not_after: validity.not_after.timestamp(),
            start: printed(&validity.not_before),
            end: printed(&validity.not_after),
            names: names.map(|names| names.value.general_names.iter().filter_map(host).collect()).unwrap_or_default(),
            is_self_issued: certificate.subject().as_raw() == certificate.issuer().as_raw(),
        })
    }

    /// Whether it expires so soon after `now`, seconds since 1970, that it should have been renewed: within two weeks, or in
    /// the last sixth of a short life. One that has expired does, too.
    pub fn ends_soon(&self, now: i64) -> bool {
        const SOON_SECONDS: i64 = 14 * 24 * 60 * 60;
        let life = self.not_after.saturating_sub(self.not_before);
        self.not_after.saturating_sub(now) < SOON_SECONDS.min(life / 6)
    }

    /// Whole days until it expires, as `$ssl_client_v_remain` counts: 0 on the last day and after.
    pub fn days_left(&self, now: u64) -> u64 {
        let left = self.not_after.saturating_sub_unsigned(now);
        (left / 86_400).max(0).unsigned_abs()
    }
}

/// The SubjectPublicKeyInfo of a certificate, DER.
pub(crate) fn public_key(der: &[u8]) -> Option<&[u8]> {
    X509Certificate::from_der(der).ok().map(|(_, certificate)| certificate.tbs_certificate.subject_pki.raw)
}

/// The fingerprint of a certificate, as `$ssl_client_fingerprint`: SHA-1 in lower case hexadecimal.
pub fn fingerprint(der: &[u8]) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY, der);
    digest.as_ref().iter().fold(String::with_capacity(40), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Base64, with what would mean something else in a path percent-encoded.
pub fn base64_escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 3 / 2);
    base64(bytes, &mut text);
    text.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D")
}

fn base64(bytes: &[u8], text: &mut String) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= group.len() { digit as char } else { '=' });
        }
    }
}

/// A certificate in PEM, as `$ssl_client_raw_cert`.
pub fn pem(der: &[u8]) -> String {
    let mut text = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in der.chunks(48) {
        base64(line, &mut text);
        text.push('\n');
    }
    text.push_str("-----END CERTIFICATE-----\n");
    text
}

/// A certificate in PEM whose lines but the first begin with a tab, as `$ssl_client_cert`: fit for a header field of old.
pub fn pem_indented(der: &[u8]) -> String {
    pem(der).trim_end().replace('\n', "\n\t")
}

/// A certificate in PEM, percent-encoded, as `$ssl_client_escaped_cert`.
pub fn pem_escaped(der: &[u8]) -> String {
    let pem = pem(der);
    let mut text = String::with_capacity(pem.len() * 5 / 4);
    for byte in pem.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            text.push(byte as char);
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

/// As OpenSSL's `XN_FLAG_RFC2253`: the last part first, `,` between parts and `+` inside of one.
fn rfc2253(name: &X509Name<'_>) -> String {
    let parts: Vec<(usize, _)> = name
        .iter_rdn()
        .enumerate()
        .flat_map(|(index, part)| part.iter().map(move |attribute| (index, attribute)))
        .collect();
    let mut text = String::new();
    let mut before = None;
    for (index, attribute) in parts.into_iter().rev() {
        if let Some(before) = before {
            text.push(if before == index { '+' } else { ',' });
        }
        before = Some(index);
        let oid = attribute.attr_type().to_id_string();
        let (label, is_known) = match short_name(&oid) {
            Some(label) => (label, true),
            None => (oid.as_str(), false),
        };
        text.push_str(label);
        text.push('=');
        match decoded(attribute.attr_value()).filter(|_| is_known) {
            Some(value) => escape(&value, &mut text),
            None => dump(attribute.attr_value(), &mut text),
        }
    }
    text
}

/// RFC 2253 §2.4, with control characters and everything beyond ASCII as `\XX`.
fn escape(value: &str, text: &mut String) {
    let last = value.chars().count().saturating_sub(1);
    for (index, char) in value.chars().enumerate() {
        let at_edge = (index == 0 && matches!(char, ' ' | '#')) || (index == last && char == ' ');
        match char {
            ',' | '+' | '"' | '\\' | '<' | '>' | ';' => text.extend(['\\', char]),
            char if at_edge => text.extend(['\\', char]),
            ' '..='~' => text.push(char),
            char => {
                for byte in char.encode_utf8(&mut [0; 4]).bytes() {
                    let _ = write!(text, "\\{byte:02X}");
                }
            }
        }
    }
}

/// A value of a kind without a text form: `#` and its DER.
fn dump(value: &Any<'_>, text: &mut String) {
    text.push('#');
    let constructed = if value.header.is_constructed() { 0x20 } else { 0 };
    let tag = (value.header.tag().0 & 0x1f) as u8 | constructed | (value.header.class() as u8) << 6;
    let length = value.data.len();
    let _ = match length {
        0..0x80 => write!(text, "{tag:02X}{length:02X}"),
        0x80..0x100 => write!(text, "{tag:02X}81{length:02X}"),
        _ => write!(text, "{tag:02X}82{length:04X}"),
    };
    for byte in value.data {
        let _ = write!(text, "{byte:02X}");
    }
}

/// As OpenSSL's `X509_NAME_oneline`: `/` before each part, `+` inside of one.
fn oneline(name: &X509Name<'_>) -> String {
    let mut text = String::new();
    for part in name.iter_rdn() {
        for (index, attribute) in part.iter().enumerate() {
            let oid = attribute.attr_type().to_id_string();
            text.push(if index == 0 { '/' } else { '+' });
            text.push_str(short_name(&oid).unwrap_or(&oid));
            text.push('=');
            for byte in attribute.attr_value().data {
                if (b' '..=b'~').contains(byte) {
                    text.push(*byte as char);
                } else {
                    let _ = write!(text, "\\x{byte:02X}");
                }
            }
        }
    }
    text
}

/// A string of any of ASN.1's kinds.
fn decoded(value: &Any<'_>) -> Option<String> {
    let bytes = value.data;
    match value.header.tag() {
        Tag::Utf8String | Tag::PrintableString | Tag::Ia5String | Tag::NumericString | Tag::VisibleString => {
            Some(String::from_utf8_lossy(bytes).into_owned())
        }
        Tag::T61String => Some(bytes.iter().map(|byte| char::from(*byte)).collect()),
        Tag::BmpString => {
            let units = bytes.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
            Some(char::decode_utf16(units).map(|char| char.unwrap_or(char::REPLACEMENT_CHARACTER)).collect())
        }
        Tag::UniversalString => bytes
            .chunks_exact(4)
            .map(|four| char::from_u32(u32::from_be_bytes([four[0], four[1], four[2], four[3]])))
            .collect(),
        _ => None,
    }
}

fn short_name(oid: &str) -> Option<&'static str> {
    Some(match oid {
        "2.5.4.3" => "CN",
        "2.5.4.4" => "SN",
        "2.5.4.5" => "serialNumber",
        "2.5.4.6" => "C",
        "2.5.4.7" => "L",
        "2.5.4.8" => "ST",
        "2.5.4.9" => "street",
        "2.5.4.10" => "O",
        "2.5.4.11" => "OU",
        "2.5.4.12" => "title",
        "2.5.4.13" => "description",
        "2.5.4.15" => "businessCategory",
        "2.5.4.17" => "postalCode",
        "2.5.4.41" => "name",
        "2.5.4.42" => "GN",
        "2.5.4.43" => "initials",
        "2.5.4.44" => "generationQualifier",
        "2.5.4.46" => "dnQualifier",
        "2.5.4.65" => "pseudonym",
        "2.5.4.97" => "organizationIdentifier",
        "1.2.840.113549.1.9.1" => "emailAddress",
        "1.2.840.113549.1.9.2" => "unstructuredName",
        "0.9.2342.19200300.100.1.1" => "UID",
        "0.9.2342.19200300.100.1.25" => "DC",
        "1.3.6.1.4.1.311.60.2.1.1" => "jurisdictionL",
        "1.3.6.1.4.1.311.60.2.1.2" => "jurisdictionST",
        "1.3.6.1.4.1.311.60.2.1.3" => "jurisdictionC",
        _ => return None,
    })
}

/// As OpenSSL's `i2a_ASN1_INTEGER`: the magnitude, at least one byte.
fn serial(raw: &[u8]) -> String {
    let mut magnitude = raw.to_vec();
    let is_negative = raw.first().is_some_and(|first| first & 0x80 != 0);
    if is_negative {
        let mut carry = true;
        for byte in magnitude.iter_mut().rev() {
            let (sum, overflow) = (!*byte).overflowing_add(u8::from(carry));
            (*byte, carry) = (sum, overflow);
        }
    }
    let zeros = magnitude.iter().take_while(|byte| **byte == 0).count();
    let digits = &magnitude[zeros.min(magnitude.len().saturating_sub(1))..];
    let mut text = String::from(if is_negative { "-" } else { "" });
    for byte in digits {
        let _ = write!(text, "{byte:02X}");
    }
    text
}

/// As OpenSSL's `ASN1_TIME_print`.
fn printed(time: &ASN1Time) -> String {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let time = time.to_datetime();
    let month = MONTHS[usize::from(time.month() as u8 - 1).min(11)];
    let (hour, minute, second) = (time.hour(), time.minute(), time.second());
    format!("{month} {:2} {hour:02}:{minute:02}:{second:02} {} GMT", time.day(), time.year())
}

fn host(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => match bytes.len() {
            4 => <[u8; 4]>::try_from(*bytes).ok().map(|bytes| std::net::Ipv4Addr::from(bytes).to_string()),
            _ => <[u8; 16]>::try_from(*bytes).ok().map(|bytes| std::net::Ipv6Addr::from(bytes).to_string()),
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_ends_soon_in_two_weeks_or_a_sixth_of_its_life() {
        const DAY: i64 = 24 * 60 * 60;
        for (life, left, expected) in [(90, 15, false), (90, 13, true), (6, 2, false), (6, 0, true), (90, -1, true)] {
            let facts = CertificateFacts { not_before: 0, not_after: life * DAY, ..CertificateFacts::default() };
            assert_eq!(facts.ends_soon((life - left) * DAY), expected, "{left} of {life}");
        }
    }
}
