//! Certificates of clients: who is asked for one, who is believed, and what is said about it.

use larder_testkit::{Certificates, Http2Client, Http2Request, Tls};

use crate::site::{Site, get_on, text};
use crate::tls::{body, certified, client, get_of};

/// A site that asks clients for certificates, with the authority of those and the one of the site.
fn asking(verify: &str) -> (Site, Tls, Certificates) {
    let (authority, setup) = certified();
    let clients = Certificates::new("Client Authority");
    let site = setup.file("clients.pem", clients.authority_pem()).name("VERIFY", verify).start(
        "server { listen 127.0.0.1:{PORT} ssl; {ONE} {VERIFY} ssl_client_certificate clients.pem;
                  return 200 '$ssl_client_verify|$ssl_client_s_dn|$ssl_client_i_dn|$ssl_client_serial|$ssl_client_v_remain'; }",
    );
    (site, Tls::new("site.test", &authority), clients)
}

#[test]
fn a_client_certificate_is_asked_for_as_told() {
    let others = Certificates::new("Nobody's Authority");
    for (verify, without, of_others) in [
        ("ssl_verify_client on;", Err("No required SSL certificate was sent"), Err("The SSL certificate error")),
        ("ssl_verify_client optional;", Ok("NONE||||"), Err("The SSL certificate error")),
        ("ssl_verify_client optional_no_ca;", Ok("NONE||||"), Ok("FAILED:")),
        ("ssl_verify_client off;", Ok("NONE||||"), Ok("NONE||||")),
    ] {
        let (site, tls, clients) = asking(verify);
        let anna = clients.client("anna");
        for tls in [tls.clone().version_1_3(), tls.version_1_2()] {
            for (tls, wanted) in [(tls.clone(), without), (tls.clone().identity(&others.client("otto")), of_others)] {
                let mut client = client(&site, &tls);
                let response = get_on(&mut client, "/");
                match wanted {
                    Ok(start) => {
                        assert!(response.status == 200 && text(&response).starts_with(start), "{verify} {response:?}")
                    }
                    Err(words) => {
                        assert!(response.status == 400 && text(&response).contains(words), "{verify} {response:?}");
                        assert!(!response.keeps_connection(), "{verify}");
                    }
                }
            }
            let said = body(&site, &tls.identity(&anna));
            if verify.ends_with("off;") {
                assert_eq!(said, "NONE||||");
                continue;
            }
            let serial = format!("{:X}", anna.serial);
            let known = format!("SUCCESS|CN=anna,O=Larder Tests|CN=Client Authority,O=Larder Tests|{serial}|");
            assert!(said.starts_with(&known), "{verify} {said}, {known}");
            assert!(matches!(said.strip_prefix(&known), Some("29" | "30")), "{verify} {said}");
        }
    }
}

#[test]
fn errors_with_client_certificates_have_pages_of_their_own_and_the_revoked_are_refused() {
    let (authority, setup) = certified();
    let clients = Certificates::new("Client Authority");
    let (anna, carl) = (clients.client("anna"), clients.client("carl"));
    let site = setup
        .file("clients.pem", clients.authority_pem())
        .file("revoked.pem", clients.revocation_list(&[&carl]))
        .start(
            "server { listen 127.0.0.1:{PORT} ssl; {ONE}
                ssl_verify_client on; ssl_client_certificate clients.pem; ssl_crl revoked.pem;
                error_page 495 /bad; error_page 496 = /none;
                location / { return 200 welcome; }
                location = /bad { return 403 'bad $ssl_client_verify'; }
                location = /none { return 403 'none $ssl_client_verify'; } }",
        );
    let tls = Tls::new("site.test", &authority);
    let others = Certificates::new("other").client("otto");
    for (tls, status, words) in [
        (tls.clone(), 403, "none NONE"),
        (tls.clone().identity(&others), 400, "bad FAILED:"),
        (tls.clone().identity(&carl), 400, "bad FAILED:certificate revoked"),
        (tls.identity(&anna), 200, "welcome"),
    ] {
        let response = get_on(&mut client(&site, &tls), "/");
        assert_eq!(response.status, status, "{words}: {}", text(&response));
        assert!(text(&response).starts_with(words), "{words}: {}", text(&response));
    }
}

#[test]
fn a_client_certificate_shown_to_one_server_opens_no_other() {
    let (authority, setup) = certified();
    let clients = Certificates::new("Client Authority");
    let site = setup.file("clients.pem", clients.authority_pem()).start(
        "{ONE}
         server { listen 127.0.0.1:{PORT} ssl; server_name open.test; return 200 open; }
         server { listen 127.0.0.1:{PORT} ssl; server_name site.test; return 200 closed;
                  ssl_verify_client on; ssl_client_certificate clients.pem; }",
    );
    // Greeted as the open one, the connection asks for the closed one.
    let open = Tls::new("open.test", &authority).unchecked();
    let mut client_of_open = client(&site, &open);
    assert_eq!(text(&get_of(&mut client_of_open, "open.test", "/")), "open");
    assert_eq!(get_of(&mut client_of_open, "site.test", "/").status, 421);
    // What asks nobody for a certificate is there for those who have shown one.
    let closed = Tls::new("site.test", &authority).identity(&clients.client("anna"));
    let mut client_of_closed = client(&site, &closed);
    assert_eq!(text(&get_of(&mut client_of_closed, "site.test", "/")), "closed");
    assert_eq!(text(&get_of(&mut client_of_closed, "open.test", "/")), "open");
}

#[test]
fn a_client_certificate_counts_where_it_would_have_been_judged_alike() {
    let (authority, setup) = certified();
    let (ours, theirs) = (Certificates::new("Our Authority"), Certificates::new("Their Authority"));
    let site = setup
        .file("ours.pem", ours.authority_pem())
        .file("theirs.pem", theirs.authority_pem())
        .file("revoked.pem", ours.revocation_list(&[&ours.client("carl")]))
        .start(
            "http2 on;
             server { listen 127.0.0.1:{PORT} ssl; server_name a.test; {ONE} ssl_verify_client optional; ssl_client_certificate ours.pem;
                      return 200 a; }
             server { listen 127.0.0.1:{PORT} ssl; server_name b.test; {ONE} ssl_verify_client on; ssl_client_certificate theirs.pem;
                      return 200 b; }
             server { listen 127.0.0.1:{PORT} ssl; server_name c.test; {ONE} ssl_verify_client on; ssl_client_certificate ours.pem;
                      return 200 c; }
             server { listen 127.0.0.1:{PORT} ssl; server_name d.test; {ONE} ssl_verify_client on; ssl_client_certificate ours.pem;
                      ssl_crl revoked.pem; return 200 d; }
             server { listen 127.0.0.1:{PORT} ssl; server_name e.test; {ONE} return 200 e; }
             server { listen 127.0.0.1:{PORT} ssl; server_name f.test; ssl_verify_client on; ssl_client_certificate theirs.pem;
                      return 200 f; }
             server { listen 127.0.0.1:{PORT} ssl; server_name g.test; {ONE} ssl_verify_client optional; ssl_verify_depth 2;
                      ssl_client_certificate ours.pem; return 200 g; }",
        );
    let nameless = Tls::new("site.test", &authority).without_name();
    let anna = nameless.clone().identity(&ours.client("anna"));
    for (host, status) in [
        ("a.test", 200),
        ("b.test", 421),
        ("c.test", 200),
        ("d.test", 421),
        ("e.test", 200),
        ("f.test", 421),
        ("g.test", 421),
    ] {
        for tls in [anna.clone().version_1_3(), anna.clone().version_1_2()] {
            assert_eq!(get_of(&mut client(&site, &tls), host, "/").status, status, "{host}");
        }
        let mut by_http2 = Http2Client::connect_tls(site.setup().address(), &anna.clone().alpn(&["h2"])).unwrap();
        assert_eq!(by_http2.exchange(&Http2Request::get("/").authority(host)).unwrap().status, status, "{host}");
    }
    // Who has shown none is told so, or let in, as on a connection of its own.
    for (host, status) in [("b.test", 400), ("d.test", 400), ("f.test", 400), ("g.test", 200)] {
        assert_eq!(get_of(&mut client(&site, &nameless), host, "/").status, status, "{host}");
    }
    // One that shows another's certificate was not judged by its own authorities either.
    for (name, identity, status) in [
        ("b.test", theirs.client("otto"), 200),
        ("d.test", ours.client("anna"), 200),
        ("f.test", ours.client("anna"), 421),
    ] {
        let tls = Tls::new(name, &authority).unchecked().identity(&identity);
        assert_eq!(get_of(&mut client(&site, &tls), name, "/").status, status, "{name}");
    }
}

#[test]
fn a_client_certificate_of_version_1_is_as_good_as_others() {
    let (site, tls, clients) = asking("ssl_verify_client optional_no_ca;");
    let others = Certificates::new("Nobody's Authority");
    let (anna, otto) = (clients.client_of_version_1("anna"), others.client_of_version_1("otto"));
    for tls in [tls.clone().version_1_3(), tls.version_1_2()] {
        let said = body(&site, &tls.clone().identity(&anna));
        assert!(said.starts_with("SUCCESS|CN=anna,O=Larder Tests|CN=Client Authority,O=Larder Tests|"), "{said}");
        let said = body(&site, &tls.identity(&otto));
        assert!(said.starts_with("FAILED:unable to verify the first certificate|CN=otto"), "{said}");
    }
}

#[test]
fn a_server_that_shows_anothers_certificate_still_wants_one() {
    let (authority, setup) = certified();
    let clients = Certificates::new("Client Authority");
    let site = setup.file("clients.pem", clients.authority_pem()).start(
        "server { listen 127.0.0.1:{PORT} ssl; server_name open.test; {ONE} return 200 open; }
         server { listen 127.0.0.1:{PORT} ssl; server_name closed.test; ssl_verify_client on;
                  ssl_client_certificate clients.pem; return 200 closed; }",
    );
    let closed = Tls::new("closed.test", &authority).unchecked();
    let response = get_of(&mut client(&site, &closed), "closed.test", "/");
    assert_eq!(response.status, 400);
    assert!(text(&response).contains("No required SSL certificate was sent"), "{}", text(&response));
}
