//! Full handshakes: versions, suites, groups, certificates, ALPN, and how they fail.

use crate::ends::{TLS12, TLS13, authority, clock, ends, site};
use larder_tls::{ACME_TLS, CertifiedKey, Protocol, ServerConfig, ServerOptions, Session, SessionError, State};
use rustls::{AlertDescription, ClientConfig, HandshakeKind};
use std::sync::Arc;

#[test]
fn both_versions_shake_hands_whatever_the_wire_cuts() {
    for versions in [TLS12, TLS13] {
        for piece in [usize::MAX, 4096, 100, 7, 1] {
            let site = site(|_| {});
            let mut ends = ends(&Arc::new(site.client(versions)), &site.config);
            ends.piece = piece;
            ends.converse();
            let session = ends.server();
            let is_13 = versions == TLS13;
            assert_eq!(session.protocol(), if is_13 { "TLSv1.3" } else { "TLSv1.2" });
            assert_eq!(
                session.cipher(),
                if is_13 { "TLS_AES_256_GCM_SHA384" } else { "ECDHE-ECDSA-AES256-GCM-SHA384" }
            );
            assert_eq!(session.curve(), if is_13 { "X25519MLKEM768" } else { "X25519" });
            assert_eq!(session.server_name(), Some("example.com"));
            assert_eq!(session.alpn(), None);
            assert!(!session.is_resumed() && !session.had_early_data());
            assert_eq!(session.client_verdict().to_string(), "NONE");
            let groups =
                if is_13 { "X25519MLKEM768:X25519:prime256v1:secp384r1" } else { "X25519:prime256v1:secp384r1" };
            assert_eq!(session.hello().group_names(), groups);
        }
    }
}

#[test]
fn every_suite_carries_data_both_ways() {
    for (protocol, ciphers, tls13) in [
        (Protocol::Tls13, None, Some("TLS_AES_128_GCM_SHA256")),
        (Protocol::Tls13, None, Some("TLS_AES_256_GCM_SHA384")),
        (Protocol::Tls13, None, Some("TLS_CHACHA20_POLY1305_SHA256")),
        (Protocol::Tls12, Some("ECDHE-ECDSA-AES128-GCM-SHA256"), None),
        (Protocol::Tls12, Some("ECDHE-ECDSA-AES256-GCM-SHA384"), None),
        (Protocol::Tls12, Some("ECDHE-ECDSA-CHACHA20-POLY1305"), None),
    ] {
        let site = site(|options| {
            options.protocols = vec![protocol];
            options.ciphers = ciphers.map(str::to_owned);
            options.tls13_ciphers = tls13.map(str::to_owned);
        });
        let mut ends = ends(&Arc::new(site.client(rustls::ALL_VERSIONS)), &site.config);
        ends.converse();
        ends.converse();
        assert_eq!(ends.server().cipher(), ciphers.or(tls13).unwrap());
        assert_eq!(ends.server().protocol(), protocol.name());
    }
}

#[test]
fn a_group_the_client_did_not_guess_costs_a_retry() {
    let site = site(|options| options.curves = Some("secp384r1".into()));
    let mut ends = ends(&Arc::new(site.client(TLS13)), &site.config);
    ends.converse();
    assert_eq!(ends.client.handshake_kind(), Some(HandshakeKind::FullWithHelloRetryRequest));
    assert_eq!(ends.server().curve(), "secp384r1");
}

#[test]
fn the_best_of_several_certificates_is_shown() {
    let authority = authority("Test Authority");
    let rsa = authority.leaf("example.com", &rcgen::PKCS_RSA_SHA256);
    let ecdsa = authority.leaf("example.com", &rcgen::PKCS_ECDSA_P256_SHA256);
    let keys = [&rsa, &ecdsa].map(|(certificate, key)| CertifiedKey::from_der(vec![certificate.clone()], key).unwrap());
    for (versions, suites, shown) in
        [(TLS13, "", &ecdsa.0), (TLS12, "ECDSA RSA", &ecdsa.0), (TLS12, "RSA", &rsa.0), (TLS12, "ECDSA", &ecdsa.0)]
    {
        let (config, _) = ServerConfig::new(ServerOptions::new(keys.to_vec(), clock())).unwrap();
        let site = crate::ends::Site { authority: authority_again(&authority), config };
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        provider.cipher_suites.retain(|suite| {
            let name = format!("{:?}", suite.suite());
            (versions == TLS13 && name.starts_with("TLS13"))
                || suites.split(' ').any(|kind| name.contains(&format!("_{kind}_")))
        });
        let mut roots = rustls::RootCertStore::empty();
        roots.add(site.authority.der.clone().into()).unwrap();
        let client = ClientConfig::builder_with_details(Arc::new(provider), Arc::new(clock()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut ends = ends(&Arc::new(client), &site.config);
        ends.converse();
        assert_eq!(ends.client.peer_certificates().unwrap()[0].as_ref(), shown, "{suites}");
    }
}

/// Only the certificate of the authority matters to clients.
fn authority_again(authority: &crate::ends::Authority) -> crate::ends::Authority {
    let mut again = crate::ends::authority("Test Authority");
    again.der.clone_from(&authority.der);
    again
}

#[test]
fn alpn_is_the_servers_choice_and_nothing_in_common_is_an_alert() {
    for (server, client, agreed) in [
        (&["h2", "http/1.1"][..], &["http/1.1", "h2"][..], Ok(Some("h2"))),
        (&["h2", "http/1.1"], &["http/1.1"], Ok(Some("http/1.1"))),
        (&["h2", "http/1.1"], &[], Ok(None)),
        (&[], &["h2"], Ok(None)),
        (&["h2", "http/1.1"], &["spdy/3"], Err(())),
    ] {
        let bytes = |names: &[&str]| names.iter().map(|name| name.as_bytes().to_vec()).collect::<Vec<_>>();
        let site = site(|options| options.alpn = bytes(server));
        let mut config = site.client(TLS13);
        config.alpn_protocols = bytes(client);
        let mut ends = ends(&Arc::new(config), &site.config);
        match agreed {
            Ok(agreed) => {
                ends.converse();
                assert_eq!(ends.server().alpn(), agreed.map(str::as_bytes));
            }
            Err(()) => {
                let error = ends.settle().unwrap_err();
                assert_eq!(error, rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol));
            }
        }
    }
}

#[test]
fn a_connection_may_bring_its_own_certificate() {
    let site = site(|options| options.alpn = vec![b"h2".to_vec()]);
    let other = site.authority.certified("example.com");
    let shown: Vec<u8> = other.chain().next().unwrap().to_vec();
    let mut ends = ends(&Arc::new(site.client(TLS13)), &site.config);
    let config = site.config.clone();
    ends.accept = Box::new(move |hello| Session::accept_with(&config, hello, &other));
    ends.converse();
    assert_eq!(ends.client.peer_certificates().unwrap()[0].as_ref(), shown);
}

#[test]
fn a_validation_by_tls_alpn_is_a_handshake_with_its_own_protocol() {
    let site = site(|options| options.alpn = vec![b"h2".to_vec()]);
    let key = site.authority.certified("example.com");
    let mut client = site.client(TLS13);
    client.alpn_protocols = vec![ACME_TLS.to_vec()];
    let mut ends = ends(&Arc::new(client), &site.config);
    let config = site.config.clone();
    ends.accept = Box::new(move |hello| {
        assert!(hello.offers(ACME_TLS));
        Session::accept_acme(&config, hello, &key)
    });
    ends.settle().unwrap();
    assert_eq!(ends.server().alpn(), Some(ACME_TLS));
    assert_eq!(ends.client.tls13_tickets_received(), 0);
}

#[test]
fn nothing_in_common_is_an_alert() {
    let no_suite = site(|options| {
        options.protocols = vec![Protocol::Tls12];
        options.ciphers = Some("aRSA".into());
    });
    let only_13 = site(|options| options.protocols = vec![Protocol::Tls13]);
    for (site, versions, alert) in [
        (&no_suite, TLS12, AlertDescription::HandshakeFailure),
        (&only_13, TLS12, AlertDescription::ProtocolVersion),
        (&no_suite, TLS13, AlertDescription::ProtocolVersion),
    ] {
        let mut ends = ends(&Arc::new(site.client(versions)), &site.config);
        assert_eq!(ends.settle().unwrap_err(), rustls::Error::AlertReceived(alert));
        let is_told = match ends.error {
            Some(SessionError::NoProtocol(_)) => alert == AlertDescription::ProtocolVersion,
            Some(SessionError::NoCipher(_)) => alert == AlertDescription::HandshakeFailure,
            _ => false,
        };
        assert!(is_told, "{:?}", ends.error);
    }
}

#[test]
fn a_client_that_does_not_trust_us_says_so() {
    let site = site(|_| {});
    let stranger = self::site(|_| {});
    let mut ends = ends(&Arc::new(stranger.client(TLS13)), &site.config);
    ends.settle().unwrap_err();
    ends.carry_to_server();
    let error = ends.error.unwrap();
    assert!(matches!(error, SessionError::Alert("unknown CA" | "bad certificate" | "decrypt error")), "{error:?}");
}

#[test]
fn data_behind_the_finished_message_is_not_lost() {
    for versions in [TLS12, TLS13] {
        let site = site(|_| {});
        let mut ends = ends(&Arc::new(site.client(versions)), &site.config);
        std::io::Write::write_all(&mut ends.client.writer(), &[7; 50_000]).unwrap();
        ends.settle().unwrap();
        assert_eq!(ends.plain, [7; 50_000]);
        assert_eq!(ends.state, Some(State::Open));
    }
}

#[test]
fn an_ocsp_response_is_stapled() {
    let authority = authority("Test Authority");
    let key = authority.certified("example.com").with_ocsp(b"the response");
    let (config, _) = ServerConfig::new(ServerOptions::new(vec![key], clock())).unwrap();
    #[derive(Debug)]
    struct Watcher(std::sync::Mutex<Vec<u8>>, rustls::crypto::WebPkiSupportedAlgorithms);
    impl rustls::client::danger::ServerCertVerifier for Watcher {
        fn verify_server_cert(
            &self,
            _: &rustls::pki_types::CertificateDer<'_>,
            _: &[rustls::pki_types::CertificateDer<'_>],
            _: &rustls::pki_types::ServerName<'_>,
            ocsp: &[u8],
            _: rustls::pki_types::UnixTime,
        ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
            *self.0.lock().unwrap() = ocsp.to_vec();
            Ok(rustls::client::danger::ServerCertVerified::assertion())
        }
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &rustls::pki_types::CertificateDer<'_>,
            signature: &rustls::DigitallySignedStruct,
        ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
            rustls::crypto::verify_tls12_signature(message, certificate, signature, &self.1)
        }
        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &rustls::pki_types::CertificateDer<'_>,
            signature: &rustls::DigitallySignedStruct,
        ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
            rustls::crypto::verify_tls13_signature(message, certificate, signature, &self.1)
        }
        fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
            self.1.supported_schemes()
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let watcher = Arc::new(Watcher(Default::default(), provider.signature_verification_algorithms));
    let client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(rustls::ALL_VERSIONS)
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(watcher.clone())
        .with_no_client_auth();
    ends(&Arc::new(client), &config).converse();
    assert_eq!(*watcher.0.lock().unwrap(), b"the response");
}
