//! A certificate authority of a test's own, and the certificates it gives out.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, RevokedCertParams,
    RsaKeySize, SerialNumber, SigningKey as _,
};

/// A day, in which lifetimes are told.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A certificate authority.
#[derive(Debug)]
pub struct Certificates {
    authority: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The certificate alone, as PEM.
    pub pem: String,
    /// Its key as PEM: PKCS#8.
    pub key_pem: String,
    /// The certificate as DER.
    pub der: Vec<u8>,
    /// The key as DER: PKCS#8.
    pub key_der: Vec<u8>,
    /// The serial number.
    pub serial: u64,
}

/// What a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// ECDSA over P-256.
    Ecdsa,
    /// RSA of 2048 bits.
    Rsa,
}

/// When a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// From two months ago, for this many days from now.
    Days(u32),
    /// For a quarter of a year, of which so many days are left.
    Ending(u32),
    /// It was, until yesterday.
    Over,
}

impl Certificates {
    /// A new authority with this common name.
    pub fn new(common_name: &str) -> Certificates {
        let mut params = CertificateParams::default();
        params.distinguished_name = named(common_name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        (params.not_before, params.not_after) = (epoch + days_from_now(-2), epoch + days_from_now(365));
        let authority = CertifiedIssuer::self_signed(params, key(KeyKind::Ecdsa)).expect("the parameters are sound");
        Certificates { authority }
    }

    /// The authority's own certificate, as PEM.
    pub fn authority_pem(&self) -> String {
        self.authority.pem()
    }

    /// The same as DER.
    pub fn authority_der(&self) -> Vec<u8> {
        self.authority.der().to_vec()
    }

    /// The authority's own certificate, for a server that shows it as if it were one of a server.
    pub fn own(&self) -> Certificate {
        let key = self.authority.key();
        Certificate {
            pem: self.authority.pem(),
            key_pem: key.serialize_pem(),
            der: self.authority_der(),
            key_der: key.serialize_der(),
            serial: 0,
        }
    }

    /// A certificate for a server with these names: ECDSA, a month.
    pub fn server(&self, names: &[&str]) -> Certificate {
        self.server_with(names, KeyKind::Ecdsa, Lifetime::Days(30))
    }

    /// A certificate for a server with these names, the first of which is its common name.
    pub fn server_with(&self, names: &[&str], kind: KeyKind, lifetime: Lifetime) -> Certificate {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let common_name = names.first().cloned().unwrap_or_default();
        let mut params = CertificateParams::new(names).expect("names of servers are ASCII");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(params, &common_name, kind, lifetime)
    }

    /// A certificate for a client with this common name.
    pub fn client(&self, common_name: &str) -> Certificate {
        let mut params = CertificateParams::default();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(params, common_name, KeyKind::Ecdsa, Lifetime::Days(30))
    }

    /// The same as tools make it that know of no extensions: of version 1. There is no PEM of it.
    pub fn client_of_version_1(&self, common_name: &str) -> Certificate {
        let mut certificate = self.client(common_name);
        let parts = parts_of_der(&certificate.der);
        let inner = parts_of_der(parts[0]);
        // The version and the extensions have tags of their own.
        let kept: Vec<&[u8]> = inner.into_iter().filter(|part| !matches!(part[0], 0xa0 | 0xa3)).collect();
        let signed = der(0x30, &kept.concat());
        let signature = self.authority.key().sign(&signed).expect("the authority can sign");
        let signature = der(3, &[&[0], &signature[..]].concat());
        certificate.der = der(0x30, &[&signed, parts[1], &signature].concat());
        certificate.pem = String::new();
        certificate
    }

    /// A list that revokes these certificates, as PEM.
    pub fn revocation_list(&self, revoked: &[&Certificate]) -> String {
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        let revoked = revoked.iter().map(|certificate| RevokedCertParams {
            serial_number: SerialNumber::from(certificate.serial),
            revocation_time: epoch + days_from_now(-1),
            reason_code: None,
            invalidity_date: None,
        });
        let params = CertificateRevocationListParams {
            this_update: epoch + days_from_now(-1),
            next_update: epoch + days_from_now(30),
            crl_number: SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = params.signed_by(&self.authority).expect("the authority may sign lists");
        list.pem().expect("a list can be written as PEM")
    }

    fn issue(
        &self,
        mut params: CertificateParams,
        common_name: &str,
        kind: KeyKind,
        lifetime: Lifetime,
    ) -> Certificate {
        let key = key(kind);
        let serial = serial_of(&key);
        params.serial_number = Some(SerialNumber::from(serial));
        params.distinguished_name = named(common_name);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let (from, to) = match lifetime {
            Lifetime::Days(days) => (-60, i64::from(days)),
            Lifetime::Ending(days) => (i64::from(days) - 90, i64::from(days)),
            Lifetime::Over => (-2, -1),
        };
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        (params.not_before, params.not_after) = (epoch + days_from_now(from), epoch + days_from_now(to));
        let certificate = params.signed_by(&key, &self.authority).expect("the parameters are sound");
        Certificate {
            pem: certificate.pem(),
            key_pem: key.serialize_pem(),
            der: certificate.der().to_vec(),
            key_der: key.serialize_der(),
            serial,
        }
    }
}

/// What a value of DER is made of.
fn parts_of_der(value: &[u8]) -> Vec<&[u8]> {
    let content = |value: &[u8]| match value[1] {
        0x81 => (3, usize::from(value[2])),
        0x82 => (4, usize::from(u16::from_be_bytes([value[2], value[3]]))),
        length => (2, usize::from(length)),
    };
    let mut parts = Vec::new();
    let mut rest = &value[content(value).0..];
    while !rest.is_empty() {
        let (head, length) = content(rest);
        let (part, others) = rest.split_at(head + length);
        parts.push(part);
        rest = others;
    }
    parts
}

/// A value of DER of less than 64 KB.
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).expect("certificates are small");
    let [high, low] = length.to_be_bytes();
    let head = match length {
        0..0x80 => vec![tag, low],
        0x80..0x100 => vec![tag, 0x81, low],
        _ => vec![tag, 0x82, high, low],
    };
    [&head[..], content].concat()
}

fn key(kind: KeyKind) -> KeyPair {
    match kind {
        KeyKind::Ecdsa => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256),
        KeyKind::Rsa => KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_2048),
    }
    .expect("a key can be made")
}

/// A serial number that is as unlike others as the key, and positive in DER without a leading zero.
fn serial_of(key: &KeyPair) -> u64 {
    let mut bytes = [0_u8; 8];
    for (byte, of_key) in bytes.iter_mut().zip(key.public_key_raw().iter().rev()) {
        *byte = *of_key;
    }
    (u64::from_be_bytes(bytes) & 0x3fff_ffff_ffff_ffff) | 0x4000_0000_0000_0000
}

fn named(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::OrganizationName, "Larder Tests");
    name.push(DnType::CommonName, common_name);
    name
}

/// Now and so many days, since the epoch.
fn days_from_now(days: i64) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let by = DAY * u32::try_from(days.unsigned_abs()).unwrap_or(u32::MAX);
    if days < 0 { now.saturating_sub(by) } else { now + by }
}
