//! Origins behind `https://`, and headers of the PROXY protocol towards origins.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::thread;

use larder_testkit::{Answer, Certificate, Certificates, Client, Front, FrontOptions, FrontSeen, Origin};

use crate::site::{Setup, eventually, get_on, text};

/// An origin in TLS, and who signed its certificate.
struct Secure {
    authority: Certificates,
    origin: Origin,
    front: Front,
}

/// The name in the certificate.
const NAME: &str = "origin.test";

fn secure(options: impl Fn(&Certificates, &Certificate) -> FrontOptions) -> Secure {
    let authority = Certificates::new("Authority of Origins");
    let certificate = authority.server(&[NAME]);
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page"));
    let front = Front::start(&options(&authority, &certificate), origin.address()).unwrap();
    Secure { authority, origin, front }
}

fn in_tls() -> Secure {
    secure(|_, certificate| FrontOptions::tls(certificate))
}

impl Secure {
    /// A folder in which `{ORIGIN}` is the origin and `ca.crt` the authority that signed its certificate.
    fn setup(&self) -> Setup {
        Setup::new()
            .one_worker()
            .name("ORIGIN", self.front.address())
            .file("ca.crt", self.authority.authority_pem())
            .file("other.crt", Certificates::new("Another Authority").authority_pem())
    }

    fn seen(&self) -> Vec<FrontSeen> {
        self.front.seen()
    }
}

/// Where an origin answers whatever comes as servers without TLS do.
fn without_tls() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
        }
    });
    address
}

/// A server whose locations are those.
fn server(locations: &str) -> String {
    format!("server {{ listen 127.0.0.1:{{PORT}}; proxy_http_version 1.1; {locations} }}")
}

#[test]
fn a_page_comes_in_tls_and_the_name_is_sent_when_that_is_on() {
    for (directives, name) in [
        ("", None),
        ("proxy_ssl_name a.test;", None),
        ("proxy_ssl_server_name on;", None), // The host is an address.
        ("proxy_ssl_server_name on; proxy_ssl_name a.test;", Some("a.test")),
        ("proxy_ssl_server_name on; proxy_ssl_name a.test:8443;", Some("a.test")),
        ("proxy_ssl_server_name on; proxy_ssl_name $arg_name;", Some("b.test")),
    ] {
        let secure = in_tls();
        let site =
            secure.setup().start(&server(&format!("location / {{ proxy_pass https://{{ORIGIN}}; {directives} }}")));
        let answer = site.get("/a?name=b.test");
        assert_eq!((answer.status, &*text(&answer)), (200, "page"), "{directives}:\n{}", site.server().error_log());
        assert_eq!(secure.seen()[0].name.as_deref(), name, "{directives}");
        let seen = &secure.origin.requests()[0];
        assert_eq!(seen.field("Host"), Some(&*secure.front.address().to_string()), "{directives}");
    }
}

#[test]
fn a_certificate_that_is_not_good_is_a_502_and_told() {
    let verify = "proxy_ssl_verify on;";
    for (directives, told) in [
        ("proxy_ssl_trusted_certificate ca.crt; proxy_ssl_name origin.test;", None),
        ("proxy_ssl_trusted_certificate ca.crt; proxy_ssl_name $arg_name;", None),
        (
            "proxy_ssl_trusted_certificate ca.crt; proxy_ssl_name b.test;",
            Some("upstream SSL certificate does not match \"b.test\" while SSL handshaking to upstream"),
        ),
        (
            "proxy_ssl_trusted_certificate other.crt; proxy_ssl_name origin.test;",
            Some(
                "upstream SSL certificate verify error: (21:unable to verify the first certificate) \
                  while SSL handshaking to upstream",
            ),
        ),
    ] {
        let secure = in_tls();
        let site = secure
            .setup()
            .start(&server(&format!("location / {{ proxy_pass https://{{ORIGIN}}; {verify} {directives} }}")));
        let answer = site.get("/?name=origin.test");
        assert_eq!(answer.status, if told.is_some() { 502 } else { 200 }, "{directives}");
        if let Some(told) = told {
            site.wait_for_log(told);
        }
    }
}

#[test]
fn an_origin_that_speaks_no_tls_is_a_502() {
    let site = Setup::new()
        .name("ORIGIN", without_tls())
        .start(&server("location / { proxy_pass https://{ORIGIN}; proxy_connect_timeout 5s; }"));
    assert_eq!(site.get("/").status, 502);
    site.wait_for_log("SSL_do_handshake() failed (SSL: ");
    site.wait_for_log("while SSL handshaking to upstream");
}

#[test]
fn a_certificate_of_ours_is_shown_and_may_come_from_variables() {
    let secure = secure(|authority, certificate| FrontOptions::tls(certificate).only_for(authority).version_1_2());
    let (one, two) = (secure.authority.client("one"), secure.authority.client("two"));
    let site = secure
        .setup()
        .file("one.pem", one.pem.clone() + &one.key_pem)
        .file("two.pem", two.pem.clone() + &two.key_pem)
        .start(&server(
            "proxy_ssl_certificate one.pem; proxy_ssl_certificate_key one.pem;
             proxy_ssl_session_reuse off; # nginx resumes a session whoever made it.
             location / { proxy_pass https://{ORIGIN}; }
             location /by/ { proxy_pass https://{ORIGIN};
                 proxy_ssl_certificate $arg_who.pem; proxy_ssl_certificate_key $arg_who.pem; }
             location /without/ { proxy_pass https://{ORIGIN};
                 proxy_ssl_certificate $arg_nothing; proxy_ssl_certificate_key $arg_nothing; }",
        ));
    for (target, status) in [("/", 200), ("/by/?who=two", 200), ("/by/?who=one", 200), ("/without/", 502)] {
        assert_eq!(site.get(target).status, status, "{target}:\n{}", site.server().error_log());
    }
    assert_eq!(site.get("/by/?who=none").status, 500);
    let shown: Vec<Vec<u8>> = secure.seen().into_iter().map(|seen| seen.certificate).collect();
    assert!(shown == [one.der.clone(), two.der, one.der]);
}

#[test]
fn connections_and_sessions_are_used_again() {
    let secure = in_tls();
    let site = secure.setup().start(&format!(
        "upstream kept {{ server {{ORIGIN}}; keepalive 4; }} proxy_set_header Connection '';\n{}",
        server(
            "location / { proxy_pass https://kept; }
             location /anew/ { proxy_pass https://{ORIGIN}; proxy_set_header Connection close; }
             location /alone/ { proxy_pass https://{ORIGIN}; proxy_set_header Connection close;
                 proxy_ssl_session_reuse off; }"
        )
    ));
    for _ in 0..3 {
        assert_eq!(site.get("/").status, 200);
    }
    assert_eq!(secure.seen().len(), 1);
    for (target, resumed) in [("/anew/", true), ("/alone/", false)] {
        let before = secure.seen().len();
        for _ in 0..3 {
            assert_eq!(site.get(target).status, 200);
        }
        let seen: Vec<bool> = secure.seen()[before..].iter().map(|seen| seen.is_resumed).collect();
        assert_eq!(seen.len(), 3, "{target}");
        assert_eq!(seen[2], resumed, "{target}");
    }
}

#[test]
fn the_next_origin_is_asked_when_a_handshake_fails() {
    let (secure, plain) = (in_tls(), without_tls());
    let site = secure.setup().name("PLAIN", plain).start(&format!(
        "upstream two {{ server {{PLAIN}} max_fails=1 fail_timeout=1h; server {{ORIGIN}}; }}
         log_format tried '$upstream_addr $upstream_status'; access_log access.log tried;\n{}",
        server("location / { proxy_pass https://two; }")
    ));
    for _ in 0..3 {
        assert_eq!(site.get("/").status, 200);
    }
    let (bad, good) = (plain, secure.front.address());
    site.wait_for_text("access.log", &format!("{bad}, {good} 502, 200\n{good} 200\n{good} 200\n"));
}

#[test]
fn bodies_of_any_size_go_both_ways() {
    let secure = in_tls();
    let page: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    secure.origin.answer("*", Answer::ok(page.clone()));
    let site = secure.setup().start(&server(
        "client_max_body_size 0;
         location / { proxy_pass https://{ORIGIN}; }
         location /stream/ { proxy_pass https://{ORIGIN}; proxy_request_buffering off; proxy_buffering off; }",
    ));
    for target in ["/", "/stream/"] {
        let mut request =
            format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", page.len())
                .into_bytes();
        request.extend(&page);
        let answer = site.exchange("POST", request);
        assert!(answer.body == page, "{target}");
    }
    assert!(secure.origin.requests().iter().all(|seen| seen.body == page));
}

#[test]
fn a_scheme_may_come_from_a_variable_and_is_part_of_the_key_and_of_redirects() {
    let secure = in_tls();
    let location = format!("https://{}/x", secure.front.address());
    secure.origin.answer("/redirect", Answer::status("302 Found").field("Location", &location).body(""));
    secure.origin.answer("/page", Answer::ok("page").field("Cache-Control", "max-age=60"));
    let site = secure.setup().start(&format!(
        "proxy_cache_path {{DIR}}/cache keys_zone=pages:1m;\n{}",
        server(
            "set $scheme_of_origin https;
             location / { proxy_pass https://{ORIGIN}; add_header X-Port $proxy_port; }
             location /by/ { proxy_pass $scheme_of_origin://{ORIGIN}$request_uri; }
             location /page { proxy_pass https://{ORIGIN}; proxy_cache pages;
                 add_header X-Cache $upstream_cache_status; }"
        )
    ));
    assert_eq!(site.get("/by/").status, 200);
    let redirect = site.get("/redirect");
    let ours = format!("http://site.test:{}/x", site.setup().address().port());
    assert_eq!(redirect.field("Location"), Some(&*ours));
    for cached in ["MISS", "HIT"] {
        assert_eq!(site.get("/page").field("X-Cache"), Some(cached));
    }
}

#[test]
fn a_tunnel_goes_in_tls() {
    let secure = in_tls();
    let raw = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nfirst";
    secure.origin.answer("*", Answer::raw(raw));
    let site = secure.setup().start(&server(
        "location / { proxy_pass https://{ORIGIN};
             proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; }",
    ));
    let mut client = site.client();
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n").unwrap();
    let answer = client.read_to_end().unwrap();
    assert!(larder_testkit::text_of(&answer).starts_with("HTTP/1.1 101 "));
    assert!(answer.ends_with(b"\r\n\r\nfirst"));
}

#[test]
fn an_origin_is_told_the_client_by_the_proxy_protocol() {
    for (version, over_tls) in [("v1", false), ("v2", false), ("v1", true), ("off", true)] {
        let secure = secure(|_, certificate| FrontOptions {
            proxy_protocol: version != "off",
            certificate: over_tls.then(|| certificate.clone()),
            ..FrontOptions::proxy_protocol()
        });
        let scheme = if over_tls { "https" } else { "http" };
        let site = secure.setup().start(&format!(
            "upstream kept {{ server {{ORIGIN}}; keepalive 4; }} proxy_set_header Connection '';\n{}",
            server(&format!("larder_proxy_protocol {version}; location / {{ proxy_pass {scheme}://kept; }}"))
        ));
        let port = site.setup().address().port();
        let (mut one, mut two) = (site.client(), site.client());
        for turn in 0..3 {
            let client = if turn == 1 { &mut two } else { &mut one };
            assert_eq!(get_on(client, "/").status, 200, "{version}:\n{}", site.server().error_log());
        }
        let headers: Vec<Vec<u8>> = secure.seen().into_iter().map(|seen| seen.header).collect();
        let expected = |client: &Client| header(version, client.local_address().unwrap().port(), port);
        match version {
            "off" => assert_eq!(headers, [b""]),
            _ => assert!(headers == [expected(&one), expected(&two)], "{version}: {headers:?}"),
        }
    }
}

/// The header for a client at this port of 127.0.0.1.
fn header(version: &str, source: u16, destination: u16) -> Vec<u8> {
    if version == "v1" {
        return format!("PROXY TCP4 127.0.0.1 127.0.0.1 {source} {destination}\r\n").into_bytes();
    }
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x7f\0\0\x01\x7f\0\0\x01".to_vec();
    header.extend(source.to_be_bytes());
    header.extend(destination.to_be_bytes());
    header
}

#[test]
fn files_of_proxy_ssl_that_cannot_be_used_are_told_with_their_place() {
    let authority = Certificates::new("authority");
    let (one, two) = (authority.client("one"), authority.client("two"));
    for (directives, told) in [
        ("proxy_ssl_certificate none.crt; proxy_ssl_certificate_key none.crt;", "none.crt"),
        ("proxy_ssl_certificate one.crt; proxy_ssl_certificate_key two.key;", "key values mismatch"),
        ("proxy_ssl_verify on; proxy_ssl_trusted_certificate one.key;", "one.key"),
    ] {
        let setup = Setup::new().file("one.crt", &one.pem).file("one.key", &one.key_pem).file("two.key", &two.key_pem);
        setup.configure(&server(&format!("location / {{ proxy_pass https://127.0.0.1:1; {directives} }}")));
        let checked = setup.larder(&["-t"]);
        let said = String::from_utf8_lossy(&checked.stderr);
        assert!(!checked.status.success(), "{directives}: {said}");
        assert!(said.contains(told), "{directives}: {said}");
    }
}

#[test]
fn an_idle_connection_that_the_origin_closes_is_not_used() {
    let secure = in_tls();
    let site = secure.setup().start(&format!(
        "upstream kept {{ server {{ORIGIN}}; keepalive 4; }} proxy_set_header Connection '';\n{}",
        server("location / { proxy_pass https://kept; }")
    ));
    assert_eq!(site.get("/").status, 200);
    assert_eq!(secure.seen().len(), 1);
    let Secure { authority: _, origin, front } = secure;
    let address = front.address();
    drop((front, origin));
    eventually("the origin is gone", || site.get("/").status == 502);
    assert_eq!(site.get("/").status, 502, "{address}");
}
