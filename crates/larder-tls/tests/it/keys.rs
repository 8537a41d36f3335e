//! Keys and certificates in files: every form OpenSSL writes, and what is said about the ones that do not work.
//!
//! The files in `tests/keys` were made by OpenSSL 3.0; all but those named otherwise hold one P-256 key,
//! and the password is `secret`.

use larder_tls::{CertifiedKey, KeyError};
use std::path::Path;

fn file(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/keys").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn load(certificate: &str, key: &str, passwords: &[&str]) -> Result<CertifiedKey, KeyError> {
    let passwords: Vec<Vec<u8>> = passwords.iter().map(|password| password.as_bytes().to_vec()).collect();
    CertifiedKey::from_pem(&file(certificate), &file(key), &passwords)
}

#[test]
fn every_form_of_a_key_is_read() {
    for (certificate, key) in [
        ("certificate.pem", "sec1.pem"),
        ("certificate.pem", "pkcs8.pem"),
        ("certificate.pem", "with-parameters.pem"),
        ("trusted.pem", "sec1.pem"),
        ("version1.pem", "sec1.pem"),
        ("rsa-certificate.pem", "rsa-pkcs1.pem"),
        ("ed25519-certificate.pem", "ed25519.pem"),
    ] {
        let key = load(certificate, key, &[]).unwrap_or_else(|error| panic!("{key}: {error}"));
        assert!(key.facts().subject.ends_with(".example"));
    }
}

#[test]
fn an_encrypted_key_opens_with_the_password_that_fits() {
    for key in [
        "legacy-aes128.pem",
        "legacy-aes192.pem",
        "legacy-aes256.pem",
        "legacy-des3.pem",
        "pkcs8-aes256.pem",
        "pkcs8-des3.pem",
        "pkcs8-scrypt.pem",
    ] {
        assert!(load("certificate.pem", key, &["wrong", "", "secret"]).is_ok(), "{key}");
        assert_eq!(load("certificate.pem", key, &["wrong", "Secret"]).unwrap_err(), KeyError::WrongPassword, "{key}");
        assert_eq!(load("certificate.pem", key, &[]).unwrap_err(), KeyError::NeedsPassword, "{key}");
    }
}

#[test]
fn what_is_wrong_is_named() {
    for (certificate, key, message) in [
        ("sec1.pem", "sec1.pem", "no certificate in the file"),
        ("certificate.pem", "certificate.pem", "no private key in the file"),
        ("certificate.pem", "rsa-pkcs1.pem", "key values mismatch"),
        ("rsa-certificate.pem", "sec1.pem", "key values mismatch"),
        (
            "certificate.pem",
            "legacy-camellia128.pem",
            "CAMELLIA-128-CBC, which is not supported; convert it with: openssl pkcs8 -topk8",
        ),
        ("certificate.pem", "pkcs8-camellia.pem", "which is not supported; convert it"),
        ("certificate.pem", "pkcs8-v1-3des.pem", "which is not supported; convert it"),
        ("certificate.pem", "ed448.pem", "of a kind that is not supported"),
    ] {
        let error = load(certificate, key, &["secret"]).unwrap_err().to_string();
        assert!(error.contains(message), "{key}: {error}");
    }
}

#[test]
fn the_chain_keeps_the_order_of_its_file() {
    let text = [
        &b"some words\n"[..],
        &file("certificate.pem"),
        b"\r\nmore\n",
        &file("rsa-certificate.pem"),
        &file("sec1.pem"),
    ]
    .concat();
    let text_crlf = String::from_utf8(text.clone()).unwrap().replace('\n', "\r\n").into_bytes();
    for text in [text, text_crlf] {
        let key = CertifiedKey::from_pem(&text, &text, &[]).unwrap();
        assert_eq!(key.chain().count(), 2);
        assert_eq!(key.facts().subject, "CN=key.example");
    }
}

#[test]
fn a_damaged_file_is_an_error_and_never_more() {
    let (certificate, key) = (file("certificate.pem"), file("legacy-aes128.pem"));
    for length in 0..key.len() - 1 {
        assert!(CertifiedKey::from_pem(&certificate, &key[..length], &[b"secret".to_vec()]).is_err(), "{length}");
    }
    for length in 0..certificate.len() - 1 {
        assert!(CertifiedKey::from_pem(&certificate[..length], &key, &[b"secret".to_vec()]).is_err(), "{length}");
    }
    for index in 0..key.len() {
        let mut damaged = key.clone();
        damaged[index] ^= 0x11;
        let _ = CertifiedKey::from_pem(&certificate, &damaged, &[b"secret".to_vec()]);
    }
    for text in [
        "-----BEGIN CERTIFICATE-----",
        "-----BEGIN CERTIFICATE-----\nAA\n-----END KEY-----",
        "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n",
    ] {
        assert_eq!(
            CertifiedKey::from_pem(text.as_bytes(), b"", &[]).unwrap_err(),
            KeyError::Damaged("CERTIFICATE".into())
        );
    }
}
