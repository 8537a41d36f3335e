//! Certificates from a real CA on this host: pebble, which refuses nonces now and then as real ones do.

mod ca;
mod host;
mod together;

use ca::EAB_KEY;
use host::{Host, Issued, order};
use larder_acme::{Challenge, ExternalAccount, Level};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};
use x509_parser::prelude::{FromDer, X509Certificate};

const DAY_SECONDS: u64 = 24 * 3600;

/// The names of a certificate, and its serial number.
fn facts(issued: &Issued) -> (Vec<String>, Vec<u8>) {
    let der = CertificateDer::from_pem_slice(issued.chain.as_bytes()).expect("it is a certificate");
    let (_, parsed) = X509Certificate::from_der(&der).expect("it is a certificate");
    let names = parsed.subject_alternative_name().expect("it has names").expect("it has names");
    let mut names: Vec<String> = names.value.general_names.iter().map(|name| name.to_string()).collect();
    names.sort();
    (names, parsed.raw_serial().to_vec())
}

fn serial(issued: &Issued) -> Vec<u8> {
    facts(issued).1
}

#[test]
fn a_certificate_is_obtained_by_http_01_and_kept_over_a_restart() {
    let host = Host::new();
    let mut ca = host.start_ca();
    let orders = [order(&["example.org", "www.example.org"], Challenge::Http01)];
    let mut running = host.spawn(&orders);
    let first = running.certificate(1);
    assert_eq!(first.names, ["example.org", "www.example.org"]);
    assert_eq!(facts(&first).0, ["DNSName(example.org)", "DNSName(www.example.org)"]);
    assert!(first.chain.matches("BEGIN CERTIFICATE").count() > 1, "the chain is there");
    let (level, line) = running.line("got a certificate");
    assert_eq!(level, Level::Notice);
    assert!(line.starts_with("acme: example.org (and 1 more): got a certificate, valid until "), "{line}");
    let (_, lines) = running.stop();
    assert!(host.responses.is_empty(), "no answer is left behind");
    assert!(lines.iter().all(|(level, _)| *level <= Level::Warn), "{lines:?}");

    let files = host.files();
    for path in &files {
        let mode = std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", path.display());
    }
    let folder = files[0].parent().expect("it is in a folder");
    for folder in [folder, folder.parent().expect("it is in the state directory")] {
        let mode = std::fs::metadata(folder).expect("it is there").permissions().mode() & 0o777;
        assert_eq!(mode, 0o700, "{}", folder.display());
    }
    let mut names: Vec<_> = files.iter().filter_map(|path| Some(path.file_name()?.to_string_lossy())).collect();
    names.sort();
    assert_eq!(names.len(), 3, "{names:?}");
    assert_eq!((&*names[0], &*names[2]), ("account.json", "lock"));

    // While the CA is away, so that only what is stored can be handed on.
    assert_eq!((ca.accounts(), ca.orders()), (1, 1));
    drop(ca);
    let running = host.spawn(&orders);
    let (certificates, lines) = running.stop();
    assert!(!certificates.is_empty(), "it is handed on before `spawn` returns");
    assert!(certificates.iter().all(|it| (&it.chain, &it.key) == (&first.chain, &first.key)));
    assert!(lines.is_empty(), "{lines:?}");
}

#[test]
fn a_certificate_is_obtained_by_tls_alpn_01() {
    let host = Host::new();
    let _ca = host.start_ca();
    let mut running = host.spawn(&[order(&["example.org", "127.0.0.1"], Challenge::TlsAlpn01)]);
    let issued = running.certificate(1);
    assert_eq!(facts(&issued).0, ["DNSName(example.org)", "IPAddress(7f:00:00:01)"]);
    running.stop();
}

#[test]
fn if_one_challenge_fails_the_other_is_tried() {
    let host = Host::new();
    host.http.is_another.store(true, Ordering::Relaxed);
    let mut ca = host.start_ca();
    let mut running = host.spawn(&[order(&["example.org"], Challenge::Either)]);
    running.certificate(1);
    let (level, line) = running.line("got another answer");
    assert_eq!(level, Level::Error, "there is no certificate, so visitors feel it");
    assert!(line.starts_with("acme: example.org: the CA got another answer than larder's at http://example.org/"));
    running.stop();
    assert_eq!(ca.orders(), 2);
}

#[test]
fn a_challenge_that_fails_says_where_and_what_to_mend_and_is_tried_again_after_a_reload() {
    let mut host = Host::new();
    host.wish.http_port = ca::free_port();
    host.timing.retry_first = Duration::from_millis(500);
    host.timing.retry_last = Duration::from_secs(3600);
    let _ca = host.start_ca();
    let orders = [order(&["example.org"], Challenge::Http01)];
    let mut running = host.spawn(&orders);
    let (_, line) = running.line("the CA could not reach");
    for part in [
        "acme: example.org: the CA could not reach http://example.org/.well-known/acme-challenge/...: ",
        "connection refused",
        "port 80 of this host must reach larder",
        "it has no certificate yet; next try in 1 s",
    ] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    // 1, 2, 4, and now 8 seconds and more.
    running.nth_line(4, "the CA could not reach");
    running.until_next_attempt();
    let status = running.status();
    assert!(status.failures >= 4 && status.not_after.is_none(), "{status:?}");
    assert!(status.last_error.is_some_and(|error| error.contains("connection refused")));

    let _mended = host::Http01::start(host.responses.clone(), host.wish.http_port);
    let reloaded = Instant::now();
    running.handle.reconfigure(orders.to_vec());
    running.certificate(1);
    assert!(reloaded.elapsed() < Duration::from_secs(7), "it took {:?}", reloaded.elapsed());
    running.line("got a certificate");
    running.until_next_attempt();
    let status = running.status();
    assert_eq!((status.failures, status.last_error.clone()), (0, None));
    assert!(status.not_after.is_some() && status.next_attempt < status.not_after, "{status:?}");
    running.stop();
}

#[test]
fn a_short_certificate_is_renewed_in_time_again_and_again() {
    let mut host = Host::new();
    host.account.profile = Some("seconds".into());
    let mut ca = host.start_ca();
    let mut running = host.spawn(&[order(&["example.org"], Challenge::Http01)]);
    let issued = [1, 2, 3].map(|count| running.certificate(count));
    assert_ne!(serial(&issued[0]), serial(&issued[1]));
    assert_ne!(serial(&issued[1]), serial(&issued[2]));
    assert_ne!(issued[0].key, issued[1].key, "a new certificate has a new key");
    running.stop();
    assert_eq!(ca.accounts(), 1);
}

#[test]
fn an_old_certificate_is_renewed_at_the_start_and_a_clock_gone_wrong_makes_no_more_orders() {
    let mut host = Host::new();
    let mut ca = host.start_ca();
    let orders = [order(&["example.org"], Challenge::Http01)];
    let mut running = host.spawn(&orders);
    let first = running.certificate(1);
    running.stop();

    host.ahead_seconds.store(61 * DAY_SECONDS, Ordering::Relaxed);
    host.timing.retry_last = Duration::from_secs(3600);
    let mut running = host.spawn(&orders);
    assert_eq!(serial(&running.certificate(1)), serial(&first), "the old one serves meanwhile");
    // Once more by the thread, then the new one.
    assert_ne!(serial(&running.certificate(3)), serial(&first));
    let (level, line) = running.line("set the clock");
    assert_eq!(level, Level::Error, "{line}");
    let next = running.until_next_attempt();
    let now = SystemTime::now() + Duration::from_secs(61 * DAY_SECONDS);
    assert!(next > now + Duration::from_secs(3000), "it waits for as long as after many failures");
    running.stop();
    assert_eq!((ca.accounts(), ca.orders()), (1, 2));
}

#[test]
fn a_ca_that_is_down_is_asked_again_later() {
    let host = Host::new();
    let mut running = host.spawn(&[order(&["example.org"], Challenge::Http01)]);
    let (_, line) = running.line("cannot make an account");
    for part in ["cannot connect to 127.0.0.1 at 127.0.0.1:", "refused", "it has no certificate yet; next try in "] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    running.line("cannot make an account");
    let _ca = host.start_ca();
    running.certificate(1);
    running.stop();
}

#[test]
fn a_ca_that_asks_to_be_left_alone_is_left_alone_over_a_reload_and_a_restart() {
    let host = Host::new();
    let asked = host.place.start_answering(
        "HTTP/1.1 503 Later\r\nRetry-After: 3600\r\nContent-Length: 6\r\nConnection: close\r\n\r\n<html>",
    );
    let orders = [order(&["example.org"], Challenge::Http01)];
    let mut running = host.spawn(&orders);
    let (_, line) = running.line("the CA answered 503");
    assert!(line.ends_with("it has no certificate yet; next try in 60 min"), "{line}");
    let next = running.until_next_attempt();
    assert!(next > SystemTime::now() + Duration::from_secs(3500), "{next:?}");
    running.handle.reconfigure(orders.to_vec());
    // Longer than any wait of its own would be.
    std::thread::sleep(Duration::from_secs(3));
    running.stop();

    let mut running = host.spawn(&orders);
    running.line("the CA wants to be left alone; next try in 60 min");
    running.stop();
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

#[test]
fn what_is_no_ca_is_told_so() {
    for (answer, fact) in [
        ("HTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\nno", "the CA answered 404 Not Found"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "the CA's answer is not what ACME says"),
        ("SSH-2.0-OpenSSH\r\n\r\n", "sent what is no HTTP response: it begins with `SSH-2.0-OpenSSH`"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2000000\r\n\r\n", "its body has more than 1048576 bytes"),
    ] {
        let host = Host::new();
        host.place.start_answering(answer);
        let mut running = host.spawn(&[order(&["example.org"], Challenge::Http01)]);
        running.line(fact);
        running.stop();
    }
}

#[test]
fn a_ca_that_is_not_trusted_is_not_spoken_with() {
    let mut host = Host::new();
    host.place.start_answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    host.account.trusted = None;
    let mut running = host.spawn(&[order(&["example.org"], Challenge::Http01)]);
    let (_, line) = running.line("cannot speak TLS with 127.0.0.1");
    assert!(line.contains("UnknownIssuer"), "{line}");
    running.stop();
}

#[test]
fn an_external_account_is_asked_for_and_used() {
    let mut host = Host::new();
    host.wish.is_eab_required = true;
    let mut ca = host.start_ca();
    let orders = [order(&["example.org"], Challenge::Http01)];
    let mut running = host.spawn(&orders);
    let (_, line) = running.line("externalAccountRequired");
    assert!(line.contains("configure the key id and the key that its web site hands out"), "{line}");
    running.stop();

    host.account.eab = Some(ExternalAccount::new("kid-1", EAB_KEY).expect("it is in order"));
    host.account.contact = vec!["ops@example.org".into()];
    let mut running = host.spawn(&orders);
    running.certificate(1);
    running.stop();
    assert_eq!(ca.count("Successful newAccount Binding"), 1);
}

#[test]
fn a_name_the_ca_refuses_does_not_hold_up_another_order() {
    let host = Host::new();
    let _ca = host.start_ca();
    let orders = [order(&["blocked.example"], Challenge::Http01), order(&["example.org"], Challenge::Http01)];
    let mut running = host.spawn(&orders);
    let (_, line) = running.line("rejectedIdentifier");
    assert!(line.starts_with("acme: blocked.example: the CA refuses to order a certificate: "), "{line}");
    assert!(line.contains("take that name out of the server"), "{line}");
    assert_eq!(running.certificate(1).names, ["example.org"]);
    running.stop();
}

#[test]
fn what_is_damaged_in_the_state_is_made_anew() {
    let host = Host::new();
    let mut ca = host.start_ca();
    let orders = [order(&["example.org"], Challenge::Http01)];
    let mut running = host.spawn(&orders);
    let first = running.certificate(1);
    running.stop();
    std::fs::write(host.file(".pem"), "-----BEGIN CERTIFICATE-----\nAAAA\n").expect("a test can write");
    std::fs::write(host.file("account.json"), "{\"directory\":1").expect("a test can write");

    let mut running = host.spawn(&orders);
    assert_ne!(serial(&running.certificate(1)), serial(&first));
    for ending in [".pem", "account.json"] {
        let (level, line) = running.line(&format!("{ending}.damaged and is made anew"));
        assert_eq!(level, Level::Warn, "{line}");
        host.file(&format!("{ending}.damaged"));
    }
    running.stop();
    assert_eq!((ca.accounts(), ca.orders()), (2, 2));
}

#[test]
fn an_account_the_ca_has_forgotten_is_made_anew() {
    let host = Host::new();
    let ca = host.start_ca();
    let orders = [order(&["example.org"], Challenge::Http01)];
    let mut running = host.spawn(&orders);
    running.certificate(1);
    running.stop();
    drop(ca);

    let mut ca = host.start_ca();
    host.ahead_seconds.store(61 * DAY_SECONDS, Ordering::Relaxed);
    let mut running = host.spawn(&orders);
    running.line("the CA does not know the account");
    running.line("got a certificate");
    running.stop();
    assert_eq!(ca.accounts(), 1);
}

#[test]
fn an_order_that_was_interrupted_goes_on_at_the_next_start() {
    let host = Host::new();
    let mut ca = host.start_ca();
    let orders = [order(&["example.org"], Challenge::Http01)];
    host.http.holds.store(true, Ordering::Relaxed);
    let running = host.spawn(&orders);
    let patience = Duration::from_secs(30);
    host.http.held.lock().expect("nobody panics with it").recv_timeout(patience).expect("the CA asks");
    // The CA is waiting for its answer; this process ends.
    running.stop();
    assert!(host.file(".order.json").exists());
    host.http.holds.store(false, Ordering::Relaxed);
    host.http.let_go.lock().expect("nobody panics with it").send(()).expect("it waits");

    let order_file = host.file(".order.json");
    let under_way = std::fs::read(&order_file).expect("a test can read");
    let mut running = host.spawn(&orders);
    let first = running.certificate(1);
    running.stop();

    // As if it had ended before the certificate was stored: the CA still has it, and we still have its key.
    std::fs::remove_file(host.file(".pem")).expect("it is there");
    std::fs::write(&order_file, &under_way).expect("a test can write");
    let mut running = host.spawn(&orders);
    let second = running.certificate(1);
    running.stop();
    assert_eq!((&second.chain, &second.key), (&first.chain, &first.key));
    assert!(!order_file.exists());
    assert_eq!((ca.accounts(), ca.orders()), (1, 1));

    // An order that the CA does not know is of no use.
    std::fs::remove_file(host.file(".pem")).expect("it is there");
    let url = host.place.directory().replace("/dir", "/my-order/none");
    let unknown = serde_json::json!({ "url": url, "key": "none" });
    std::fs::write(&order_file, unknown.to_string()).expect("a test can write");
    let mut running = host.spawn(&orders);
    assert_ne!(serial(&running.certificate(1)), serial(&first));
    running.stop();
    assert_eq!((ca.accounts(), ca.orders()), (1, 2));
}

#[test]
fn a_name_added_to_a_server_does_not_cost_the_others_their_certificate() {
    let host = Host::new();
    let _ca = host.start_ca();
    let small = order(&["example.org"], Challenge::Http01);
    let large = order(&["example.org", "www.example.org"], Challenge::Http01);
    let mut running = host.spawn(&[small]);
    let first = running.certificate(1);
    running.handle.reconfigure(vec![large.clone()]);
    let meanwhile = running.certificate(2);
    assert_eq!((meanwhile.names.as_slice(), &meanwhile.chain), (large.names(), &first.chain));
    let second = running.certificate(3);
    assert_eq!(facts(&second).0.len(), 2);
    assert_eq!(running.status().names, large.names(), "the smaller order is kept no more");
    running.handle.reconfigure(vec![large]);
    assert_eq!(running.certificate(4).chain, second.chain, "a reload hands on what is there");
    running.stop();
}

#[test]
fn the_ca_may_ask_for_an_early_renewal() {
    let mut host = Host::new();
    let mut ca = host.start_ca();
    let orders = [order(&["example.org"], Challenge::Http01)];
    let mut running = host.spawn(&orders);
    let first = running.certificate(1);
    running.stop();

    let leaf_end = first.chain.find("-----END CERTIFICATE-----\n").expect("it is PEM") + 26;
    let window = r#"{"suggestedWindow":{"start":"2020-01-01T00:00:00Z","end":"2020-01-02T00:00:00Z"}}"#;
    let body = serde_json::json!({ "Certificate": first.chain[..leaf_end], "ARIResponse": window });
    manage(&host, "/set-renewal-info/", &body.to_string());
    host.timing.first_ask_within = Duration::ZERO;
    let mut running = host.spawn(&orders);
    // Twice the old one: by `spawn`, and by the thread.
    assert_ne!(serial(&running.certificate(3)), serial(&first));
    running.stop();
    assert_eq!(ca.count("is a replacement of"), 1);
}

#[test]
fn two_processes_do_not_order_at_once() {
    let host = Host::new();
    let mut ca = host.start_ca();
    let orders = [order(&["example.org"], Challenge::Http01)];
    let mut one = host.spawn(&orders);
    one.certificate(1);
    let mut other = host.spawn(&orders);
    other.certificate(1);
    other.line("another process orders; larder waits for its end");
    other.stop();
    one.stop();
    assert_eq!(ca.orders(), 1);
}

/// Tells the CA something that only a test would.
fn manage(host: &Host, path: &str, body: &str) {
    let mut roots = rustls::RootCertStore::empty();
    let trusted = CertificateDer::from_pem_slice(host.place.trusted.as_bytes()).expect("it was made here");
    roots.add(trusted).expect("it was made here");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.expect("the provider has suites").with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("127.0.0.1").expect("it is an address");
    let connection = rustls::ClientConnection::new(Arc::new(config), name).expect("it is in order");
    let tcp = TcpStream::connect(("127.0.0.1", host.place.management_port)).expect("the CA runs");
    let mut stream = rustls::StreamOwned::new(connection, tcp);
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: ca\r\nUser-Agent: test\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(format!("{head}{body}").as_bytes()).expect("the CA listens");
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}
