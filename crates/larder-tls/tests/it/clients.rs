//! Client certificates: who is asked, what is said about them, and that none of it ends a handshake.

use crate::ends::{Authority, Ends, TLS12, TLS13, authority, clock, ends, site};
use larder_tls::{CertificateFacts, ClientVerdict, Refusal, ServerOptions, TicketKeys, Verify, VerifyMode};
use rcgen::{ExtendedKeyUsagePurpose, PKCS_ECDSA_P256_SHA256};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::sync::Arc;

/// A handshake of a client that shows `chain`, with a server that wants `verify`.
fn shown(
    versions: &[&'static rustls::SupportedProtocolVersion],
    chain: &[&Vec<u8>],
    key: &[u8],
    verify: Verify,
) -> Ends {
    shown_to(versions, chain, key, |options| options.verify = verify)
}

fn shown_to(
    versions: &[&'static rustls::SupportedProtocolVersion],
    chain: &[&Vec<u8>],
    key: &[u8],
    change: impl FnOnce(&mut ServerOptions),
) -> Ends {
    let site = site(change);
    let mut roots = rustls::RootCertStore::empty();
    roots.add(site.authority.der.clone().into()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_details(provider, Arc::new(clock()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots);
    let client = if chain.is_empty() {
        builder.with_no_client_auth()
    } else {
        let chain = chain.iter().map(|der| CertificateDer::from((*der).clone())).collect();
        builder.with_client_auth_cert(chain, PrivateKeyDer::try_from(key.to_vec()).unwrap()).unwrap()
    };
    let mut ends = ends(&Arc::new(client), &site.config);
    ends.converse();
    ends
}

fn wants(mode: VerifyMode, authority: &Authority) -> Verify {
    Verify { mode, depth: 1, authorities: vec![authority.der.clone()], ..Verify::default() }
}

#[test]
fn a_verdict_is_a_fact_and_the_mode_says_what_it_means() {
    use Refusal::{BadCertificate, NoCertificate};
    use VerifyMode::{On, Optional, OptionalNoCa};
    let (ours, theirs) = (authority("Ours"), authority("Theirs"));
    let (certificate, key) = ours.leaf("client", &PKCS_ECDSA_P256_SHA256);
    let none: &[&Vec<u8>] = &[];
    for versions in [TLS12, TLS13] {
        for (mode, trusted, chain, verdict, refusal) in [
            (On, &ours, &[&certificate][..], "SUCCESS", None),
            (On, &ours, none, "NONE", Some(NoCertificate)),
            (On, &theirs, &[&certificate], "FAILED:unable to verify the first certificate", Some(BadCertificate)),
            (Optional, &ours, none, "NONE", None),
            (Optional, &ours, &[&certificate], "SUCCESS", None),
            (Optional, &theirs, &[&certificate], "FAILED:unable to verify the first certificate", Some(BadCertificate)),
            (OptionalNoCa, &theirs, &[&certificate], "FAILED:unable to verify the first certificate", None),
            (OptionalNoCa, &theirs, none, "NONE", None),
        ] {
            let mut ends = shown(versions, chain, &key, wants(mode, trusted));
            let found = ends.server().client_verdict();
            assert_eq!((found.to_string().as_str(), mode.refuses(found)), (verdict, refusal), "{mode:?}");
            assert_eq!(ends.server().client_certificates().len(), chain.len());
        }
    }
}

#[test]
fn nobody_is_asked_who_need_not_show_anything() {
    let ours = authority("Ours");
    let (certificate, key) = ours.leaf("client", &PKCS_ECDSA_P256_SHA256);
    let mut ends = shown(TLS13, &[&certificate], &key, wants(VerifyMode::Off, &ours));
    assert_eq!(ends.server().client_verdict(), ClientVerdict::None);
    assert!(ends.server().client_certificates().is_empty());
}

#[test]
fn a_chain_may_be_as_deep_as_the_depth_says() {
    let root = authority("Root");
    let middle = root.sub("Middle");
    let low = middle.sub("Low");
    let (certificate, key) = low.leaf("client", &PKCS_ECDSA_P256_SHA256);
    let chain = [&certificate, &low.der, &middle.der];
    for (depth, verdict) in [
        (0, "FAILED:certificate chain too long"),
        (1, "FAILED:certificate chain too long"),
        (2, "SUCCESS"),
        (9, "SUCCESS"),
    ] {
        let verify = Verify { depth, ..wants(VerifyMode::On, &root) };
        let mut ends = shown(TLS13, &chain, &key, verify);
        assert_eq!(ends.server().client_verdict().to_string(), verdict, "depth {depth}");
    }
    // An authority in the middle is trusted as well as a root.
    let mut ends = shown(TLS13, &chain[..1], &key, wants(VerifyMode::On, &low));
    assert_eq!(ends.server().client_verdict(), ClientVerdict::Success);
}

#[test]
fn what_is_wrong_with_a_certificate_is_said_in_openssls_words() {
    let ours = authority("Ours");
    let leaf = |change: fn(&mut rcgen::CertificateParams)| ours.leaf_with("client", &PKCS_ECDSA_P256_SHA256, change);
    let revoking = |serials: &[u64]| Verify {
        revocation_lists: vec![ours.revocation_list(serials)],
        ..wants(VerifyMode::On, &ours)
    };
    let wants = || wants(VerifyMode::On, &ours);
    for ((certificate, key), verify, verdict, code) in [
        (
            leaf(|params| params.not_after = rcgen::date_time_ymd(2025, 6, 1)),
            wants(),
            "FAILED:certificate has expired",
            10,
        ),
        (
            leaf(|params| params.not_before = rcgen::date_time_ymd(2029, 6, 1)),
            wants(),
            "FAILED:certificate is not yet valid",
            9,
        ),
        (
            leaf(|params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]),
            wants(),
            "FAILED:unsuitable certificate purpose",
            26,
        ),
        (leaf(|params| params.serial_number = Some(7.into())), revoking(&[7]), "FAILED:certificate revoked", 23),
        (leaf(|params| params.serial_number = Some(8.into())), revoking(&[7]), "SUCCESS", 0),
    ] {
        let mut ends = shown(TLS13, &[&certificate], &key, verify);
        let found = ends.server().client_verdict();
        assert_eq!((found.to_string().as_str(), found.code()), (verdict, code));
    }
}

#[test]
fn a_self_signed_certificate_is_good_only_if_it_is_trusted_itself() {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = crate::ends::params("self", &[]).self_signed(&key).unwrap().der().to_vec();
    let ours = authority("Ours");
    let itself = Verify { mode: VerifyMode::On, trusted: vec![certificate.clone()], ..Verify::default() };
    for (verify, verdict) in
        [(itself, "SUCCESS"), (wants(VerifyMode::OptionalNoCa, &ours), "FAILED:self-signed certificate")]
    {
        let mode = verify.mode;
        let mut ends = shown(TLS13, &[&certificate], &key.serialize_der(), verify);
        let found = ends.server().client_verdict();
        assert_eq!(found.to_string(), verdict);
        assert_eq!(mode.refuses(found), None);
    }
}

#[test]
fn a_chain_that_leads_nowhere_is_described() {
    let (theirs, ours) = (authority("Theirs"), authority("Ours"));
    let low = theirs.sub("Low");
    let (certificate, key) = low.leaf("client", &PKCS_ECDSA_P256_SHA256);
    for (chain, verdict) in [
        (&[&certificate][..], "FAILED:unable to verify the first certificate"),
        (&[&certificate, &theirs.der], "FAILED:unable to verify the first certificate"),
        (&[&certificate, &low.der], "FAILED:unable to get local issuer certificate"),
        (&[&certificate, &low.der, &theirs.der], "FAILED:self-signed certificate in certificate chain"),
    ] {
        let mut ends = shown(TLS13, chain, &key, wants(VerifyMode::OptionalNoCa, &ours));
        let found = ends.server().client_verdict();
        assert_eq!(found.to_string(), verdict);
        assert_eq!(
            (VerifyMode::OptionalNoCa.refuses(found), VerifyMode::On.refuses(found)),
            (None, Some(Refusal::BadCertificate))
        );
    }
}

#[test]
fn a_long_chain_is_read_and_gets_no_ticket() {
    let ours = authority("Ours");
    let (certificate, key) = ours.leaf("client", &PKCS_ECDSA_P256_SHA256);
    for versions in [TLS12, TLS13] {
        for extra in [60, 120] {
            let padding: Vec<Vec<u8>> = (0..extra).map(|_| ours.der.clone()).collect();
            let chain: Vec<&Vec<u8>> = std::iter::once(&certificate).chain(&padding).collect();
            let mut ends = shown_to(versions, &chain, &key, |options| {
                options.verify = wants(VerifyMode::On, &ours);
                options.tickets = Some(TicketKeys::random(300, clock()).unwrap());
            });
            assert_eq!(ends.server().client_verdict(), ClientVerdict::Success);
            assert_eq!(ends.server().client_certificates().len(), extra + 1);
            assert_eq!(ends.client.tls13_tickets_received(), 0);
        }
    }
}

#[test]
fn a_resumed_session_remembers_the_clients_certificate() {
    let ours = authority("Ours");
    let (certificate, key) = ours.leaf("client", &PKCS_ECDSA_P256_SHA256);
    let site = site(|options| {
        options.verify = wants(VerifyMode::On, &ours);
        options.tickets = Some(TicketKeys::random(300, clock()).unwrap());
    });
    let mut roots = rustls::RootCertStore::empty();
    roots.add(site.authority.der.clone().into()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let client = rustls::ClientConfig::builder_with_details(provider, Arc::new(clock()))
        .with_protocol_versions(TLS13)
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![certificate.clone().into()], PrivateKeyDer::try_from(key).unwrap())
        .unwrap();
    let client = Arc::new(client);
    for is_resumed in [false, true] {
        let mut ends = ends(&client, &site.config);
        ends.converse();
        assert_eq!(ends.server().is_resumed(), is_resumed);
        assert_eq!(ends.server().client_verdict(), ClientVerdict::Success);
        assert_eq!(*ends.server().client_certificates()[0], certificate[..]);
        assert_eq!(CertificateFacts::read(&certificate).unwrap().subject, "CN=client");
    }
}
