//! What certificates say, as OpenSSL and nginx print it.

use crate::ends::{NOW, authority, params};
use larder_tls::{CertificateFacts, fingerprint, pem, pem_certificates, pem_escaped, pem_indented};
use rcgen::{DnType, DnValue, KeyPair, PKCS_ECDSA_P256_SHA256, SanType};

#[test]
fn names_are_written_as_rfc_2253_and_as_of_old() {
    let utf8 = |text: &str| DnValue::Utf8String(text.into());
    let printable = |text: &str| DnValue::PrintableString(text.try_into().unwrap());
    for (parts, rfc2253, oneline) in [
        (vec![(DnType::CommonName, utf8("example"))], "CN=example", "/CN=example"),
        (
            vec![
                (DnType::CountryName, printable("DE")),
                (DnType::OrganizationName, utf8("A, B & Co. <x>")),
                (DnType::CommonName, utf8(" #lead \"quote\" trail ")),
            ],
            r#"CN=\ #lead \"quote\" trail\ ,O=A\, B & Co. \<x\>,C=DE"#,
            r#"/C=DE/O=A, B & Co. <x>/CN= #lead "quote" trail "#,
        ),
        (vec![(DnType::CommonName, utf8("Jürgen"))], r"CN=J\C3\BCrgen", r"/CN=J\xC3\xBCrgen"),
        (
            vec![(DnType::CommonName, DnValue::BmpString("Łódź".try_into().unwrap()))],
            r"CN=\C5\81\C3\B3d\C5\BA",
            r"/CN=\x01A\x00\xF3\x00d\x01z",
        ),
        (vec![(DnType::CustomDnType(vec![1, 2, 3, 4]), utf8("ab"))], "1.2.3.4=#0C026162", "/1.2.3.4=ab"),
        (
            vec![(DnType::CustomDnType(vec![1, 2, 840, 113549, 1, 9, 1]), utf8("a@b"))],
            "emailAddress=a@b",
            "/emailAddress=a@b",
        ),
        (vec![], "", ""),
    ] {
        let mut params = params("", &[]);
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, value) in parts {
            params.distinguished_name.push(kind, value);
        }
        let der = params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec();
        let facts = CertificateFacts::read(&der).unwrap();
        assert_eq!((facts.subject.as_str(), facts.subject_legacy.as_str()), (rfc2253, oneline));
        assert_eq!(facts.issuer, facts.subject);
        assert!(facts.is_self_issued);
    }
}

#[test]
fn a_certificate_by_openssl_reads_as_openssl_prints_it() {
    // openssl x509 -nameopt RFC2253, -nameopt compat and -fingerprint say the same.
    let pem = include_bytes!("../keys/names.pem");
    let der = &pem_certificates(pem).unwrap()[0];
    let facts = CertificateFacts::read(der).unwrap();
    assert_eq!(facts.subject, r#"CN=\ #lead \"quote\" trail \;\\\ ,UID=u+OU=a,O=A\, B & Co. \<x\>,C=DE"#);
    assert_eq!(facts.subject_legacy, r#"/C=DE/O=A, B & Co. <x>/OU=a+UID=u/CN= #lead "quote" trail ;\ "#);
    assert_eq!((facts.serial.as_str(), facts.start.as_str()), ("AB0C", "Nov 22 01:26:35 2026 GMT"));
    assert_eq!(fingerprint(der), "86a1a8975f11756babc62d564f834a4bf525c6cc");
}

#[test]
fn serials_times_and_names_are_read() {
    let (der, _) = authority("Authority").leaf_with("example.com", &PKCS_ECDSA_P256_SHA256, |params| {
        params.serial_number = Some(vec![0x00, 0xab, 0x0c].into());
        params.not_before = rcgen::date_time_ymd(2025, 2, 3);
        params.subject_alt_names.push(SanType::IpAddress("192.0.2.1".parse().unwrap()));
        params.subject_alt_names.push(SanType::IpAddress("2001:db8::1".parse().unwrap()));
    });
    let facts = CertificateFacts::read(&der).unwrap();
    assert_eq!(facts.serial, "AB0C");
    assert_eq!(facts.start, "Feb  3 00:00:00 2025 GMT");
    assert_eq!(facts.end, "Jan  1 00:00:00 2030 GMT");
    assert_eq!((facts.not_before, facts.not_after), (1_738_540_800, 1_893_456_000));
    assert_eq!(facts.names, ["example.com", "192.0.2.1", "2001:db8::1"]);
    assert_eq!((facts.issuer.as_str(), facts.is_self_issued), ("CN=Authority", false));
    for (now, days) in
        [(NOW, 1310), (1_893_456_000 - 86_400, 1), (1_893_456_000 - 86_399, 0), (1_893_456_001, 0), (u64::MAX, 0)]
    {
        assert_eq!(facts.days_left(now), days, "{now}");
    }
}

#[test]
fn a_certificate_in_pem_is_itself_again() {
    for length in [0, 1, 2, 3, 47, 48, 49, 700] {
        let der: Vec<u8> = (0..length).map(|byte| byte as u8).collect();
        let text = pem(&der);
        assert_eq!(pem_certificates(text.as_bytes()).unwrap(), std::slice::from_ref(&der));
        assert_eq!(pem_indented(&der).replace("\n\t", "\n"), text.trim_end());
        assert!(pem_escaped(&[0xfb, 0xff]).ends_with("%0A%2B%2F8%3D%0A-----END%20CERTIFICATE-----%0A"));
    }
    assert_eq!(fingerprint(b"abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
}

#[test]
fn a_damaged_certificate_is_an_error() {
    let (der, _) = authority("Authority").leaf("example.com", &PKCS_ECDSA_P256_SHA256);
    for length in 0..der.len() {
        assert!(CertificateFacts::read(&der[..length]).is_err());
    }
    for index in 0..der.len() {
        let mut damaged = der.clone();
        damaged[index] ^= 0xff;
        let _ = CertificateFacts::read(&damaged);
    }
}
