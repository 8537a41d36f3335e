//! Our end of connections to origins.

use crate::ends::{authority, clock};
use larder_tls::{
    CertifiedKey, ClientConfig, ClientOptions, ClientSession, Hello, Protocol, ServerConfig, ServerOptions, Session,
    SessionError, State, TicketKeys, Verify, VerifyMode,
};
use rcgen::{PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256};
use std::io::IoSlice;
use std::sync::Arc;

/// A question and its answer between our two ends. The plaintext each read, and the server's end.
fn converse(
    client: &mut ClientSession,
    config: &Arc<ServerConfig>,
) -> Result<(Vec<u8>, Vec<u8>, Session), SessionError> {
    let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
    let (mut question, mut answer) = (Vec::new(), Vec::new());
    // Written before there is a connection: it leaves when there is.
    client.write(&[IoSlice::new(b"question")], &mut to_server)?;
    let mut server: Option<Session> = None;
    for turn in 0.. {
        assert!(turn < 20, "the ends do not settle");
        if server.is_none() {
            let hello = Hello::read(&to_server).unwrap().expect("a whole ClientHello");
            server = Some(Session::accept(config, hello));
        }
        let session = server.as_mut().unwrap();
        let read = session.read(&mut to_server, &mut question, &mut to_client)?;
        to_server.drain(..read.consumed);
        if question == b"question" && answer.is_empty() {
            session.write(&[IoSlice::new(b"answer")], &mut to_client)?;
        }
        let read = client.read(&mut to_client, &mut answer, &mut to_server)?;
        to_client.drain(..read.consumed);
        if read.state == State::Open && answer == b"answer" && to_server.is_empty() {
            break;
        }
    }
    Ok((question, answer, server.unwrap()))
}

fn client(change: impl FnOnce(&mut ClientOptions)) -> Arc<ClientConfig> {
    let mut options = ClientOptions::new(clock());
    change(&mut options);
    ClientConfig::new(options).unwrap().0
}

fn trusting(der: &[u8]) -> Option<Verify> {
    Some(Verify { depth: 1, trusted: vec![der.to_vec()], ..Verify::default() })
}

#[test]
fn a_question_is_answered_in_both_versions() {
    let authority = authority("Authority");
    let (config, _) =
        ServerConfig::new(ServerOptions::new(vec![authority.certified("origin.example")], clock())).unwrap();
    for protocol in [Protocol::Tls12, Protocol::Tls13] {
        for send_server_name in [false, true] {
            let client = client(|options| {
                options.protocols = vec![protocol];
                options.send_server_name = send_server_name;
            });
            let mut session = ClientSession::connect(&client, "origin.example:8443");
            let (question, answer, server) = converse(&mut session, &config).unwrap();
            assert_eq!((&question[..], &answer[..]), (&b"question"[..], &b"answer"[..]));
            assert_eq!(session.protocol(), protocol.name());
            assert_eq!(session.certificates().len(), 1);
            assert_eq!(server.server_name(), send_server_name.then_some("origin.example"));
        }
    }
}

#[test]
fn an_origin_is_verified_when_asked() {
    let (ours, theirs) = (authority("Ours"), authority("Theirs"));
    let (certificate, key) = ours.leaf("origin.example", &PKCS_ECDSA_P256_SHA256);
    let own = CertifiedKey::from_der(vec![certificate.clone()], &key).unwrap();
    let unnamed = ours.leaf_with("origin.example", &PKCS_ECDSA_P256_SHA256, |params| params.subject_alt_names.clear());
    let unnamed = CertifiedKey::from_der(vec![unnamed.0], &unnamed.1).unwrap();
    for (key, verify, name, error) in [
        (&own, trusting(&ours.der), "origin.example", None),
        (&own, trusting(&ours.der), "Origin.Example:443", None),
        (&own, trusting(&certificate), "origin.example", None),
        (&own, None, "other.example", None),
        (&own, None, "not a host name", None),
        (&own, trusting(&theirs.der), "origin.example", Some("unable to verify the first certificate")),
        (&own, trusting(&ours.der), "other.example", Some("certificate does not match \"other.example\"")),
        (&own, trusting(&ours.der), "127.0.0.1", Some("certificate does not match \"127.0.0.1\"")),
        (&own, trusting(&ours.der), "not a host name", Some("certificate does not match \"name.invalid\"")),
        (&unnamed, trusting(&ours.der), "origin.example", None),
        (&unnamed, trusting(&ours.der), "other.example", Some("certificate does not match \"other.example\"")),
    ] {
        let (config, _) = ServerConfig::new(ServerOptions::new(vec![key.clone()], clock())).unwrap();
        let client = client(|options| options.verify = verify);
        let mut session = ClientSession::connect(&client, name);
        match (converse(&mut session, &config), error) {
            (Ok(_), None) => {}
            (Err(SessionError::Certificate(text)), Some(error)) => assert!(text.ends_with(error), "{text}"),
            (result, error) => panic!("{name}: {:?} instead of {error:?}", result.map(|_| ())),
        }
    }
}

#[test]
fn we_show_our_certificate_where_one_is_configured() {
    let authority = authority("Authority");
    let mut options = ServerOptions::new(vec![authority.certified("origin.example")], clock());
    options.verify =
        Verify { mode: VerifyMode::On, depth: 1, authorities: vec![authority.der.clone()], ..Verify::default() };
    let (config, _) = ServerConfig::new(options).unwrap();
    let (certificate, key) = authority.leaf("larder", &PKCS_RSA_SHA256);
    for (certificate, verdict) in
        [(Some(CertifiedKey::from_der(vec![certificate], &key).unwrap()), "SUCCESS"), (None, "NONE")]
    {
        let client = client(|options| options.certificate = certificate);
        let (_, _, server) = converse(&mut ClientSession::connect(&client, "origin.example"), &config).unwrap();
        assert_eq!(server.client_verdict().to_string(), verdict);
    }
}

#[test]
fn sessions_with_an_origin_are_resumed_unless_switched_off() {
    let authority = authority("Authority");
    let mut options = ServerOptions::new(vec![authority.certified("origin.example")], clock());
    options.tickets = Some(TicketKeys::random(300, clock()).unwrap());
    let (config, _) = ServerConfig::new(options).unwrap();
    for protocol in [Protocol::Tls12, Protocol::Tls13] {
        for session_reuse in [true, false] {
            let client = client(|options| {
                options.protocols = vec![protocol];
                options.session_reuse = session_reuse;
            });
            for is_resumed in [false, session_reuse, session_reuse] {
                let mut session = ClientSession::connect(&client, "origin.example");
                let (_, _, server) = converse(&mut session, &config).unwrap();
                assert_eq!((session.is_resumed(), server.is_resumed()), (is_resumed, is_resumed));
            }
        }
    }
}
