//! TLS as clients meet it: names, certificates, versions, and what an operator does with files.

use std::os::unix::fs::PermissionsExt as _;

use larder_testkit::{Certificate, Certificates, Client, KeyKind, Lifetime, Response, Signal, Tls};

use crate::site::{Setup, Site, binary, eventually, get_on, text};

/// What stands for `{ONE}`. Older nginx has to be asked for TLS 1.3.
const ONE: &str = "ssl_certificate site.crt; ssl_certificate_key site.key; ssl_protocols TLSv1.2 TLSv1.3;";

/// An authority, and a folder with a certificate for `site.test` in `site.crt` and `site.key`.
pub fn certified() -> (Certificates, Setup) {
    let authority = Certificates::new("Larder Test Authority");
    let setup = with(Setup::new(), "site", &authority.server(&["site.test"]));
    (authority, setup.name("ONE", ONE))
}

/// Writes a certificate and its key.
pub fn with(setup: Setup, name: &str, certificate: &Certificate) -> Setup {
    setup.file(&format!("{name}.crt"), &certificate.pem).file(&format!("{name}.key"), &certificate.key_pem)
}

/// A site with one certificate, and who believes in it.
pub fn site(http: &str) -> (Site, Tls) {
    let (authority, setup) = certified();
    (setup.start(http), Tls::new("site.test", &authority))
}

pub fn client(site: &Site, tls: &Tls) -> Client {
    Client::connect_tls(site.setup().address(), tls)
        .unwrap_or_else(|error| panic!("{error}; error log:\n{}", site.server().error_log()))
}

/// What a GET of `/` answers on a connection of its own.
pub fn body(site: &Site, tls: &Tls) -> String {
    text(&get_on(&mut client(site, tls), "/"))
}

/// A GET for another server than the connection's.
pub fn get_of(client: &mut Client, host: &str, target: &str) -> Response {
    client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).unwrap();
    client.read_response("GET").unwrap()
}

/// Whether the server under test is nginx, of which less is expected.
pub fn is_nginx() -> bool {
    binary().file_name().is_some_and(|name| name == "nginx")
}

#[test]
fn each_name_has_its_certificate_and_the_default_server_has_the_others() {
    let authority = Certificates::new("authority");
    let (a, b) = (authority.server(&["a.test"]), authority.server(&["b.test", "*.b.test"]));
    let site = with(with(Setup::new(), "a", &a), "b", &b).start(
        "server { listen 127.0.0.1:{PORT} ssl; server_name a.test; return 200 \"a:$ssl_server_name\";
                  ssl_certificate a.crt; ssl_certificate_key a.key; }
         server { listen 127.0.0.1:{PORT} ssl default_server; server_name b.test *.b.test; return 200 \"b:$ssl_server_name\";
                  ssl_certificate b.crt; ssl_certificate_key b.key; }",
    );
    for (name, certificate) in [("a.test", &a), ("A.test", &a), ("b.test", &b), ("www.b.test", &b), ("c.test", &b)] {
        let mut client = client(&site, &Tls::new(name, &authority).unchecked());
        assert!(client.tls().unwrap().certificate == certificate.der, "{name}");
        let said = text(&get_of(&mut client, name, "/")).to_ascii_lowercase();
        let server = if certificate == &a { "a" } else { "b" };
        assert_eq!(said, format!("{server}:{}", name.to_ascii_lowercase()), "{name}");
    }
    let nameless = Tls::new("b.test", &authority).without_name();
    assert_eq!(text(&get_of(&mut client(&site, &nameless), "b.test", "/")), "b:");
    // The name of the request decides who answers, as long as no client is asked for a certificate.
    let mut other = client(&site, &Tls::new("a.test", &authority));
    assert_eq!(text(&get_of(&mut other, "b.test", "/")), "b:a.test");
}

#[test]
fn a_handshake_for_a_name_that_is_nobodys_can_be_refused() {
    let (site, tls) = site(
        "server { listen 127.0.0.1:{PORT} ssl default_server; ssl_reject_handshake on; }
         server { listen 127.0.0.1:{PORT} ssl; server_name site.test; {ONE} return 200 here; }",
    );
    assert_eq!(body(&site, &tls), "here");
    let authority = Certificates::new("nobody");
    for tls in [Tls::new("other.test", &authority).unchecked(), tls.without_name()] {
        let error = Client::connect_tls(site.setup().address(), &tls).unwrap_err();
        assert!(
            error.to_string().contains("UnrecogniseName") || error.to_string().contains("UnrecognisedName"),
            "{error}"
        );
    }
}

#[test]
fn a_client_gets_the_certificate_whose_signatures_it_can_check() {
    let authority = Certificates::new("authority");
    let rsa = authority.server_with(&["site.test"], KeyKind::Rsa, Lifetime::Days(30));
    let ecdsa = authority.server(&["site.test"]);
    let site = with(with(Setup::new(), "rsa", &rsa), "ecdsa", &ecdsa).start(
        "ssl_protocols TLSv1.2 TLSv1.3;
         server { listen 127.0.0.1:{PORT} ssl; return 200 $ssl_cipher;
                  ssl_certificate rsa.crt; ssl_certificate_key rsa.key;
                  ssl_certificate ecdsa.crt; ssl_certificate_key ecdsa.key; }",
    );
    let tls = Tls::new("site.test", &authority).unchecked();
    for (kind, certificate) in [(KeyKind::Ecdsa, &ecdsa), (KeyKind::Rsa, &rsa)] {
        for tls in [tls.clone().signed_by(kind).version_1_3(), tls.clone().signed_by(kind).version_1_2()] {
            let client = client(&site, &tls);
            assert!(
                client.tls().unwrap().certificate == certificate.der,
                "{kind:?} {:?}",
                client.tls().unwrap().cipher
            );
        }
    }
    assert!(client(&site, &tls).tls().unwrap().certificate == ecdsa.der, "who can check both gets the smaller one");
}

#[test]
fn versions_that_are_not_wanted_are_not_spoken() {
    for (directive, has_1_2, has_1_3) in [
        // Before 1.23.4, nginx did not.
        ("", true, !is_nginx()),
        ("ssl_protocols TLSv1.2;", true, false),
        ("ssl_protocols TLSv1.3;", false, true),
        ("ssl_protocols TLSv1 TLSv1.1 TLSv1.2 TLSv1.3;", true, true),
    ] {
        let (authority, setup) = certified();
        let site = setup
            .name("MORE", directive)
            .start("server { listen 127.0.0.1:{PORT} ssl; ssl_certificate site.crt; ssl_certificate_key site.key; {MORE} return 200 $ssl_protocol; }");
        let tls = Tls::new("site.test", &authority);
        for (tls, version, has) in
            [(tls.clone().version_1_2(), "TLSv1.2", has_1_2), (tls.clone().version_1_3(), "TLSv1.3", has_1_3)]
        {
            match Client::connect_tls(site.setup().address(), &tls) {
                Ok(mut client) => assert!(has && text(&get_on(&mut client, "/")) == version, "{directive} {version}"),
                Err(error) => assert!(!has, "{directive} {version}: {error}"),
            }
        }
    }
}

#[test]
fn variables_tell_what_was_agreed_on_and_in_the_clear_they_are_empty() {
    let (site, tls) = site(
        "log_format tls '$scheme|$https|$ssl_protocol|$ssl_cipher|$ssl_server_name|$ssl_session_reused|$server_port';
         access_log access.log tls;
         server { listen 127.0.0.1:{PORT} ssl; listen 127.0.0.1:{PORT2}; {ONE}
                  return 200 '$scheme|$https|$ssl_protocol|$ssl_cipher|$ssl_server_name|$ssl_session_reused|$server_port'; }",
    );
    let port = site.setup().address().port();
    for tls in [tls.clone().version_1_3(), tls.version_1_2()] {
        let mut client = client(&site, &tls);
        let facts = client.tls().unwrap();
        // rustls writes TLS13_AES_128_GCM_SHA256 and TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256.
        let cipher = match facts.cipher.strip_prefix("TLS13_") {
            Some(rest) => format!("TLS_{rest}"),
            None => {
                let name = facts.cipher.trim_start_matches("TLS_").replace("_WITH_", "_").replace("AES_", "AES");
                name.replace('_', "-")
            }
        };
        let said = format!("https|on|{}|{cipher}|site.test|.|{port}", facts.version);
        assert_eq!(text(&get_on(&mut client, "/")), said);
        site.wait_for_text("access.log", &format!("{said}\n"));
    }
    let mut plain = Client::connect(site.setup().other_address()).unwrap();
    assert_eq!(text(&get_on(&mut plain, "/")), format!("http||||||{}", site.setup().other_address().port()));
}

#[test]
fn a_protocol_is_chosen_from_those_that_are_offered() {
    let (site, tls) = site("server { listen 127.0.0.1:{PORT} ssl; {ONE} return 200 here; }");
    for (offered, chosen) in [(&["http/1.1"][..], "http/1.1"), (&["x", "http/1.1"], "http/1.1"), (&[], "")] {
        let mut client = client(&site, &tls.clone().alpn(offered));
        assert_eq!(client.tls().unwrap().alpn, chosen, "{offered:?}");
        assert_eq!(text(&get_on(&mut client, "/")), "here", "{offered:?}");
    }
    let error = Client::connect_tls(site.setup().address(), &tls.alpn(&["acme-tls/1"])).unwrap_err();
    assert!(error.to_string().contains("NoApplicationProtocol"), "{error}");
}

#[test]
fn a_reload_brings_the_new_certificate_and_open_connections_stay() {
    let (authority, setup) = certified();
    let site = setup.start("server { listen 127.0.0.1:{PORT} ssl; {ONE} return 200 here; }");
    let tls = Tls::new("site.test", &authority);
    let mut old = client(&site, &tls);
    let before = old.tls().unwrap().certificate;
    get_on(&mut old, "/");
    let renewed = authority.server(&["site.test"]);
    std::fs::write(site.setup().path("site.crt"), &renewed.pem).unwrap();
    std::fs::write(site.setup().path("site.key"), &renewed.key_pem).unwrap();
    assert!(client(&site, &tls).tls().unwrap().certificate == before, "files count when they are read");
    site.signal(Signal::Hup);
    eventually("the renewed certificate", || client(&site, &tls).tls().unwrap().certificate == renewed.der);
    // nginx closes a connection that idles when its worker goes.
    if !is_nginx() {
        assert_eq!(text(&get_on(&mut old, "/")), "here");
    }
}

#[test]
fn what_looks_unchanged_outlives_a_reload_where_that_is_told() {
    let authority = Certificates::new("authority");
    let [a, b, renewed] = [["a.test"], ["b.test"], ["a.test"]].map(|names| authority.server(&names));
    let site = with(with(Setup::new(), "a", &a), "b", &b)
        .main("daemon off; ssl_object_cache_inheritable on;")
        .start(
            "server { listen 127.0.0.1:{PORT} ssl; server_name a.test; ssl_certificate a.crt; ssl_certificate_key a.key; }
             server { listen 127.0.0.1:{PORT} ssl; server_name b.test; ssl_certificate b.crt; ssl_certificate_key b.key; }",
        );
    let shown = |name| client(&site, &Tls::new(name, &authority).unchecked()).tls().unwrap().certificate;
    let files = [("crt", &renewed.pem), ("key", &renewed.key_pem)];
    for (kind, pem) in files {
        // Another file in the place of one; the other is the same, and says that nothing happened to it.
        let [a, b, new] = ["a", "b", "new"].map(|name| site.setup().path(&format!("{name}.{kind}")));
        std::fs::write(&new, pem).unwrap();
        std::fs::rename(&new, &a).unwrap();
        let before = std::fs::metadata(&b).unwrap().modified().unwrap();
        std::fs::write(&b, pem).unwrap();
        std::fs::File::options().write(true).open(&b).unwrap().set_modified(before).unwrap();
    }
    site.reload();
    assert!(shown("a.test") == renewed.der && shown("b.test") == b.der);
    for (kind, _) in files {
        let b = std::fs::File::options().write(true).open(site.setup().path(&format!("b.{kind}"))).unwrap();
        b.set_modified(std::time::UNIX_EPOCH).unwrap();
    }
    site.reload();
    assert!(shown("b.test") == renewed.der);
}

#[test]
fn a_reload_with_a_key_that_does_not_fit_changes_nothing() {
    let (authority, setup) = certified();
    let site = setup.start("server { listen 127.0.0.1:{PORT} ssl; {ONE} return 200 here; }");
    let tls = Tls::new("site.test", &authority);
    std::fs::write(site.setup().path("site.key"), authority.server(&["site.test"]).key_pem).unwrap();
    site.signal(Signal::Hup);
    site.wait_for_log("key values mismatch");
    assert_eq!(body(&site, &tls), "here");
}

#[test]
fn keys_that_root_alone_can_read_serve_a_worker_that_is_not_root() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (authority, setup) = certified();
    let close = |setup: &Setup| {
        let owner = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(setup.path("site.key"), owner).unwrap();
    };
    close(&setup);
    let setup = setup.main("daemon off; worker_processes 2; user www-data;");
    let site = setup.start("server { listen 127.0.0.1:{PORT} ssl; {ONE} return 200 here; }");
    let tls = Tls::new("site.test", &authority);
    assert_eq!(body(&site, &tls), "here");
    // And again when they change while it runs.
    let renewed = authority.server(&["site.test"]);
    std::fs::write(site.setup().path("site.crt"), &renewed.pem).unwrap();
    std::fs::write(site.setup().path("site.key"), &renewed.key_pem).unwrap();
    close(site.setup());
    site.signal(Signal::Hup);
    eventually("the renewed certificate", || client(&site, &tls).tls().unwrap().certificate == renewed.der);
    assert_eq!(body(&site, &tls), "here");
}

#[test]
fn what_is_wrong_with_certificates_is_said_with_file_and_line() {
    let authority = Certificates::new("authority");
    let (a, b) = (authority.server(&["a.test"]), authority.server(&["b.test"]));
    let setup = with(with(Setup::new(), "a", &a), "b", &b)
        .file("empty.crt", "")
        .file("noise.key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
    for (lines, file, words) in [
        ("ssl_certificate a.crt; ssl_certificate_key b.key;", "b.key", "key values mismatch"),
        ("ssl_certificate a.crt; ssl_certificate_key none.key;", "none.key", "No such file"),
        ("ssl_certificate none.crt; ssl_certificate_key a.key;", "none.crt", "No such file"),
        ("ssl_certificate empty.crt; ssl_certificate_key a.key;", "empty.crt", ""),
        ("ssl_certificate a.key; ssl_certificate_key a.key;", "a.key", ""),
        ("ssl_certificate a.crt; ssl_certificate_key noise.key;", "noise.key", ""),
        ("ssl_certificate a.crt;", "", "no \"ssl_certificate_key\""),
    ] {
        setup.configure(&format!("server {{ listen 127.0.0.1:{{PORT}} ssl; {lines} return 200 here; }}"));
        let output = setup.larder(&["-t"]);
        let said = larder_testkit::text_of(&output.stderr);
        assert!(!output.status.success(), "{lines}");
        assert!(said.contains(file) && said.contains(words), "{lines}: {said}");
        assert!(is_nginx() || said.contains("nginx.conf:"), "{lines}: {said}");
    }
}

#[test]
fn a_certificate_that_has_ended_or_soon_will_is_served_with_a_warning() {
    for (lifetime, words) in [(Lifetime::Over, "expired"), (Lifetime::Ending(3), "expires")] {
        let authority = Certificates::new("authority");
        let certificate = authority.server_with(&["site.test"], KeyKind::Ecdsa, lifetime);
        let setup = with(Setup::new(), "site", &certificate).name("ONE", ONE);
        setup.configure("server { listen 127.0.0.1:{PORT} ssl; {ONE} return 200 here; }");
        let output = setup.larder(&["-t"]);
        let said = larder_testkit::text_of(&output.stderr);
        assert!(output.status.success(), "{said}");
        if !is_nginx() {
            assert!(said.contains("site.crt") && said.contains(words), "{said}");
        }
        let site = setup.start_as_written();
        assert_eq!(body(&site, &Tls::new("site.test", &authority).unchecked()), "here");
    }
}

#[test]
fn a_server_without_a_certificate_uses_that_of_the_default_server() {
    let authority = Certificates::new("authority");
    let default = authority.server(&["a.test", "b.test"]);
    let site = with(Setup::new(), "a", &default).start(
        "server { listen 127.0.0.1:{PORT} ssl default_server; server_name a.test; return 200 a;
                  ssl_certificate a.crt; ssl_certificate_key a.key; }
         server { listen 127.0.0.1:{PORT} ssl; server_name b.test; return 200 b; }",
    );
    for (name, server) in [("a.test", "a"), ("b.test", "b")] {
        let mut client = client(&site, &Tls::new(name, &authority));
        assert!(client.tls().unwrap().certificate == default.der, "{name}");
        assert_eq!(text(&get_of(&mut client, name, "/")), server, "{name}");
    }
}

#[test]
fn a_certificate_out_of_a_variable_outlives_its_files_for_as_long_as_told() {
    for (cache, outlives) in [("max=8 valid=1h", true), ("max=8 valid=1ms", false), ("off", false)] {
        let (authority, setup) = certified();
        let setup = setup.name("CACHE", cache).one_worker();
        let site = setup.start(
            "server { listen 127.0.0.1:{PORT} ssl; ssl_certificate_cache {CACHE}; return 200 here;
                      ssl_certificate {DIR}/${ssl_alpn_protocol}site.crt; ssl_certificate_key {DIR}/site.key; }",
        );
        let tls = Tls::new("site.test", &authority);
        assert_eq!(body(&site, &tls), "here", "{cache}");
        let address = site.setup().address();
        std::fs::remove_file(site.setup().path("site.crt")).unwrap();
        // What was looked at a moment ago counts for a moment.
        eventually(cache, || Client::connect_tls(address, &tls).is_ok() == outlives);
    }
}

#[test]
fn who_asks_for_a_certificate_that_cannot_be_had_is_told() {
    let (authority, setup) = certified();
    let site = setup.start(
        "server { listen 127.0.0.1:{PORT} ssl; return 200 here;
                  ssl_certificate {DIR}/$ssl_server_name.crt; ssl_certificate_key {DIR}/site.key; }",
    );
    let error = Client::connect_tls(site.setup().address(), &Tls::new("other.test", &authority)).unwrap_err();
    assert!(error.to_string().contains("InternalError"), "{error}");
    eventually("the log line", || site.server().error_log().contains("cannot load certificate"));
}

#[test]
fn of_one_kind_the_last_certificate_is_shown_and_commands_of_openssl_have_the_last_word() {
    let authority = Certificates::new("authority");
    let [first, last, other] = [(); 3].map(|()| authority.server(&["site.test"]));
    let setup = with(with(with(Setup::new(), "first", &first), "last", &last), "other", &other);
    let site = setup.start(
        "ssl_certificate first.crt; ssl_certificate_key first.key;
         ssl_certificate last.crt; ssl_certificate_key last.key;
         server { listen 127.0.0.1:{PORT} ssl; return 200 $ssl_protocol; }
         server { listen 127.0.0.1:{PORT2} ssl; return 200 $ssl_protocol;
                  ssl_certificate first.crt; ssl_certificate_key first.key;
                  ssl_conf_command Certificate other.crt; ssl_conf_command PrivateKey other.key;
                  ssl_conf_command MaxProtocol TLSv1.2; }",
    );
    let tls = Tls::new("site.test", &authority);
    for (address, shown, protocol) in
        [(site.setup().address(), &last, "TLSv1.3"), (site.setup().other_address(), &other, "TLSv1.2")]
    {
        let mut client = Client::connect_tls(address, &tls).unwrap();
        assert!(client.tls().unwrap().certificate == shown.der, "{protocol}");
        assert_eq!(text(&get_on(&mut client, "/")), protocol);
    }
}
