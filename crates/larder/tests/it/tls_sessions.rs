//! Sessions that go on where another connection left off, and what is sent before anything is agreed on.

use larder_testkit::{Certificates, Client, Frame, FrameKind, Signal, Tls, text_of};

use crate::site::{Site, eventually, get, get_on, text};
use crate::tls::{body, certified, client, is_nginx, site};

/// Answers `r` on a connection that resumed a session, else `.`.
const SAYS: &str = "server { listen 127.0.0.1:{PORT} ssl; {ONE} {MORE} return 200 $ssl_session_reused; }";

fn says(more: &str) -> (Site, Tls) {
    site(&SAYS.replace("{MORE}", more))
}

/// Two visits, the second of which could resume the first one's session; what the second is told.
fn twice(site: &Site, tls: &Tls) -> String {
    assert_eq!(body(site, tls), ".");
    let mut again = client(site, tls);
    let is_resumed = again.tls().unwrap().is_resumed;
    let said = text(&get_on(&mut again, "/"));
    assert_eq!(said, if is_resumed { "r" } else { "." });
    said
}

#[test]
fn a_session_is_resumed_by_ticket_or_by_cache_as_told() {
    for (more, by_ticket, by_number) in [
        ("", "r", "."),
        ("ssl_session_tickets off;", ".", "."),
        ("ssl_session_cache shared:one:1m;", "r", "r"),
        ("ssl_session_cache shared:one:1m; ssl_session_tickets off;", ".", "r"),
        ("ssl_session_cache none; ssl_session_tickets off;", ".", "."),
    ] {
        let (site, tls) = says(more);
        let old = tls.clone().version_1_2();
        assert_eq!(twice(&site, &old.clone().resuming_by_number()), by_number, "1.2 by number: {more}");
        if by_number == "." {
            assert_eq!(twice(&site, &old.resuming()), by_ticket, "1.2 by ticket: {more}");
        }
        let by_either = if by_number == "r" { "r" } else { by_ticket };
        assert_eq!(twice(&site, &tls.version_1_3().resuming()), by_either, "1.3: {more}");
    }
}

#[test]
fn a_session_lasts_as_long_as_told() {
    let (site, tls) = says("ssl_session_timeout 1s;");
    for tls in [tls.clone().version_1_2().resuming(), tls.version_1_3().resuming()] {
        assert_eq!(body(&site, &tls), ".");
        // Time itself is what is tested.
        std::thread::sleep(std::time::Duration::from_millis(2200));
        assert_eq!(body(&site, &tls), ".", "{tls:?}");
    }
}

#[test]
fn tickets_outlive_a_reload() {
    for (more, is_for_nginx) in [("ssl_session_ticket_key ticket.key;", true), ("", false)] {
        if is_nginx() && !is_for_nginx {
            continue;
        }
        let (authority, setup) = certified();
        let setup = setup.file("ticket.key", (0..48_u8).collect::<Vec<u8>>()).name("MORE", more);
        let site = setup.start(SAYS);
        for tls in [Tls::new("site.test", &authority).version_1_2(), Tls::new("site.test", &authority).version_1_3()] {
            let tls = tls.resuming();
            assert_eq!(body(&site, &tls), ".", "{more}");
            site.setup().configure(&SAYS.replace("return 200", "add_header X-New yes; return 200"));
            site.signal(Signal::Hup);
            eventually("the new configuration", || {
                get_on(&mut client(&site, &Tls::new("site.test", &authority)), "/").field("X-New").is_some()
            });
            assert_eq!(body(&site, &tls), "r", "{more}");
            site.setup().configure(SAYS);
            site.signal(Signal::Hup);
            eventually("the old configuration", || {
                get_on(&mut client(&site, &Tls::new("site.test", &authority)), "/").field("X-New").is_none()
            });
        }
    }
}

#[test]
fn a_ticket_of_a_key_that_was_replaced_is_good_while_the_key_is_listed() {
    let (authority, setup) = certified();
    let key = |first: u8| (first..first + 80).collect::<Vec<u8>>();
    // Each worker takes a new configuration when it comes to it: of several, one may have it and another not yet.
    let setup = setup.one_worker().file("old.key", key(0)).file("new.key", key(100));
    let site = setup.start(&SAYS.replace("{MORE}", "ssl_session_ticket_key old.key; add_header X-Step 1;"));
    let tls = Tls::new("site.test", &authority).version_1_2().resuming();
    let plain = Tls::new("site.test", &authority);
    assert_eq!(body(&site, &tls), ".");
    for (step, keys, said) in [
        ("2", "ssl_session_ticket_key new.key; ssl_session_ticket_key old.key;", "r"),
        ("3", "ssl_session_ticket_key new.key;", "r"),
        ("4", "ssl_session_ticket_key old.key;", "."),
    ] {
        site.setup().configure(&SAYS.replace("{MORE}", &format!("{keys} add_header X-Step {step};")));
        site.signal(Signal::Hup);
        eventually("the next step", || get_on(&mut client(&site, &plain), "/").field("X-Step") == Some(step));
        assert_eq!(body(&site, &tls), said, "{keys}");
    }
}

#[test]
fn early_data_is_a_request_and_says_so() {
    for (more, is_taken_wanted) in [("ssl_early_data on;", true), ("", false)] {
        let (site, tls) = site(
            &"server { listen 127.0.0.1:{PORT} ssl; {ONE} {MORE} return 200 '$request_uri:$ssl_early_data'; }"
                .replace("{MORE}", more),
        );
        let tls = tls.version_1_3().resuming().early();
        assert_eq!(body(&site, &tls), "/:");
        let early = get("/early");
        let (mut client, is_taken) = Client::connect_early(site.setup().address(), &tls, early.as_bytes()).unwrap();
        assert_eq!(is_taken, is_taken_wanted, "{more}");
        if is_taken {
            assert_eq!(client.read_response("GET").unwrap().body, b"/early:1");
        }
        assert_eq!(get_on(&mut client, "/late").body, b"/late:");
    }
}

/// Reads frames of HTTP/2 up to the first with a part of a body.
fn first_data(client: &mut Client) -> Vec<u8> {
    loop {
        let head = client.read_bytes(9).unwrap();
        let [a, b, c, kind, ..] = head[..] else { panic!("no frame: {head:?}") };
        let length = u32::from_be_bytes([0, a, b, c]);
        // A server that took the connection for HTTP/1 would be read as a frame of many megabytes.
        assert!(length <= 1 << 14, "no frame: {:?}", text_of(&head));
        let payload = client.read_bytes(length as usize).unwrap();
        if kind == FrameKind::Data as u8 {
            return payload;
        }
    }
}

#[test]
fn early_data_of_http_2_is_taken_for_what_it_is() {
    let (site, tls) = site(
        "server { listen 127.0.0.1:{PORT} ssl http2; {ONE} ssl_early_data on;
                  return 200 '$server_protocol:$request_uri:$ssl_early_data'; }",
    );
    let tls = tls.version_1_3().alpn(&["h2"]).resuming().early();
    let beginning = |path: &str| {
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        bytes.extend(Frame::settings(&[]).to_bytes());
        bytes.extend(Frame::get(1, path).to_bytes());
        bytes
    };
    let mut first = client(&site, &tls);
    first.send(&beginning("/first")).unwrap();
    assert_eq!(text_of(&first_data(&mut first)), "HTTP/2.0:/first:");
    let early = beginning("/early");
    let (mut client, is_taken) = Client::connect_early(site.setup().address(), &tls, &early).unwrap();
    assert!(is_taken);
    assert_eq!(client.tls().unwrap().alpn, "h2");
    // When the handshake had ended by then, it does not say that it came early.
    let said = text_of(&first_data(&mut client));
    assert!(said.starts_with("HTTP/2.0:/early:"), "{said}");
    client.send(&Frame::get(3, "/late").to_bytes()).unwrap();
    assert_eq!(text_of(&first_data(&mut client)), "HTTP/2.0:/late:");
}

#[test]
fn early_data_comes_from_the_client_whose_session_it_is() {
    let (authority, setup) = certified();
    let clients = Certificates::new("Client Authority");
    let site = setup.file("clients.pem", clients.authority_pem()).start(
        "server { listen 127.0.0.1:{PORT} ssl; {ONE} ssl_early_data on;
                  ssl_verify_client on; ssl_client_certificate clients.pem;
                  return 200 '$ssl_client_verify:$ssl_client_s_dn:$ssl_early_data'; }",
    );
    let anna = clients.client("anna");
    let tls = Tls::new("site.test", &authority).version_1_3().identity(&anna).resuming().early();
    let whole = body(&site, &tls);
    assert!(whole.starts_with("SUCCESS:") && whole.contains("anna"), "{whole}");
    let (mut client, is_taken) = Client::connect_early(site.setup().address(), &tls, get("/early").as_bytes()).unwrap();
    assert!(is_taken);
    let early = client.read_response("GET").unwrap();
    // When the handshake had ended by then, it does not say that it came early.
    assert!(early.status == 200 && text(&early).starts_with(&whole), "{early:?}");
    assert_eq!(text(&get_on(&mut client, "/late")), whole);
}
