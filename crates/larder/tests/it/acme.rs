//! Certificates that larder gets by itself, from a CA on this host: pebble, of Let's Encrypt.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use larder_testkit::{Certificates, Client, Folder, Response, Signal, Tls, free_port, text_of};

use crate::site::{Setup, Site, eventually, get_on, text};

/// A CA, its folder, and larder's state beside it, which outlives both.
pub struct Authority {
    folder: Folder,
    port: u16,
    processes: Vec<Child>,
}

impl Authority {
    /// A CA that is not running yet.
    pub fn new() -> Authority {
        let folder = Folder::new().expect("a temporary folder");
        let signer = Certificates::new("who signs the CA's own certificate");
        let certificate = signer.server(&["127.0.0.1"]);
        for (name, pem) in
            [("trusted.pem", signer.authority_pem()), ("ca.pem", certificate.pem), ("ca.key", certificate.key_pem)]
        {
            folder.write(name, pem).expect("the folder takes files");
        }
        Authority { folder, port: free_port(), processes: Vec::new() }
    }

    /// Starts it. It comes to the ports of `setup`: the first in the clear, the second by TLS.
    pub fn run(&mut self, setup: &Setup) {
        let path = |name| self.folder.join(name).display().to_string();
        let config = format!(
            r#"{{ "pebble": {{
                "listenAddress": "127.0.0.1:{}", "managementListenAddress": "127.0.0.1:{}",
                "certificate": {:?}, "privateKey": {:?}, "httpPort": {}, "tlsPort": {},
                "retryAfter": {{ "authz": 1, "order": 1 }}, "keyAlgorithm": "ecdsa",
                "profiles": {{
                    "default": {{ "description": "90 days", "validityPeriod": 7776000 }},
                    "short": {{ "description": "6 seconds", "validityPeriod": 6 }}
                }}
            }} }}"#,
            self.port,
            free_port(),
            path("ca.pem"),
            path("ca.key"),
            setup.address().port(),
            setup.other_address().port(),
        );
        let config = self.folder.write("pebble.json", config).expect("the folder takes files");
        let dns = format!("127.0.0.1:{}", free_port());
        let names = Command::new(program("pebble-challtestsrv"))
            .args(["-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", "", "-defaultIPv6", ""])
            .args(["-dnsserver", &dns, "-management", &format!("127.0.0.1:{}", free_port())])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.processes.push(names.expect("pebble-challtestsrv can be run"));
        let pebble = Command::new(program("pebble"))
            .args(["-dnsserver", &dns, "-config"])
            .arg(config)
            // Without the moods of a CA on the internet, which larder-acme's own tests have.
            .envs([("PEBBLE_VA_NOSLEEP", "1"), ("PEBBLE_WFE_NONCEREJECT", "0"), ("PEBBLE_AUTHZREUSE", "0")])
            .stdout(File::create(self.folder.join("log")).expect("the folder takes files"))
            .stderr(Stdio::null())
            .spawn();
        self.processes.push(pebble.expect("pebble can be run"));
        eventually("the CA to listen", || self.count("ACME directory available at") > 0);
    }

    /// Ends it.
    pub fn end(&mut self) {
        for mut process in self.processes.drain(..) {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// How often its log has `text`.
    fn count(&self, text: &str) -> usize {
        let log = fs::read(self.folder.join("log")).unwrap_or_default();
        text_of(&log).matches(text).count()
    }

    /// How many orders there were since its start.
    pub fn orders(&self) -> usize {
        self.count("Added order")
    }

    /// Where ACME clients begin.
    pub fn directory(&self) -> String {
        format!("https://127.0.0.1:{}/dir", self.port)
    }

    /// The certificate of who signed the CA's own, for ACME clients that talk to it.
    pub fn trusted(&self) -> PathBuf {
        self.folder.join("trusted.pem")
    }

    fn state(&self) -> PathBuf {
        self.folder.join("lib/acme")
    }

    /// `larder_acme_account` of this CA.
    fn account(&self) -> String {
        format!(
            "larder_acme_account email=admin@site.test directory=https://127.0.0.1:{}/dir trusted_certificate={} state={};",
            self.port,
            self.folder.join("trusted.pem").display(),
            self.state().display()
        )
    }

    /// An empty site whose `{ACCOUNT}` is at this CA.
    fn setup(&self) -> Setup {
        Setup::new().name("ACCOUNT", self.account())
    }

    /// Every file that larder keeps.
    fn kept(&self) -> Vec<PathBuf> {
        let list = |folder: &Path| -> Vec<PathBuf> {
            let entries = fs::read_dir(folder).expect("it was made");
            entries.map(|entry| entry.expect("it can be read").path()).collect()
        };
        list(&self.state()).iter().flat_map(|folder| list(folder)).collect()
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        self.end();
    }
}

/// Where a program of pebble's is: where `scripts/setup test` has it put, or in the folder `$PEBBLE_BIN`.
fn program(name: &str) -> PathBuf {
    let var = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let places = [
        var("PEBBLE_BIN"),
        var("GOBIN"),
        var("GOPATH").map(|path| path.join("bin")),
        var("HOME").map(|path| path.join("go/bin")),
        Some("/usr/local/bin".into()),
        Some("/usr/bin".into()),
    ];
    let found = places.into_iter().flatten().map(|place| place.join(name)).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("{name} is missing: run `scripts/setup test`, or name its folder in PEBBLE_BIN"))
}

/// A client of the site's TLS port that looks at certificates itself.
fn tls(name: &str) -> Tls {
    Tls::new(name, &Certificates::new("nobody")).unchecked()
}

fn connect(site: &Site, name: &str) -> Client {
    Client::connect_tls(site.setup().other_address(), &tls(name))
        .unwrap_or_else(|error| panic!("{error}; error log:\n{}", site.server().error_log()))
}

/// The certificate that is shown for `name`, DER.
pub fn shown(site: &Site, name: &str) -> Vec<u8> {
    connect(site, name).tls().expect("it is TLS").certificate
}

/// Whether `text` is in a certificate: a name that it is for, or who has issued it.
fn says(certificate: &[u8], text: &str) -> bool {
    certificate.windows(text.len()).any(|window| window == text.as_bytes())
}

fn is_issued(certificate: &[u8]) -> bool {
    says(certificate, "Pebble Intermediate CA")
}

/// Waits until the certificate that is shown for `name` was issued by the CA, and is for `also` too.
pub fn issued(site: &Site, name: &str, also: &str) -> Vec<u8> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let certificate = shown(site, name);
        if is_issued(&certificate) && says(&certificate, also) {
            return certificate;
        }
        assert!(Instant::now() < deadline, "no certificate came; error log:\n{}", site.server().error_log());
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn get_challenge(site: &Site, token: &str) -> Response {
    site.get(&format!("/.well-known/acme-challenge/{token}"))
}

/// A site where everything in the clear is redirected, as is usual.
const BY_HTTP: &str = "{ACCOUNT}
    server { listen 127.0.0.1:{PORT}; server_name site.test www.site.test; deny all;
             return 301 https://$host$request_uri; }
    server { listen 127.0.0.1:{PORT2} ssl; server_name site.test www.site.test; larder_acme http-01; return 200 here; }";

#[test]
fn a_certificate_comes_by_http_01_through_whatever_the_site_does_and_stays_over_a_restart() {
    let mut authority = Authority::new();
    let setup = authority.setup();
    authority.run(&setup);
    let site = setup.start(BY_HTTP);
    // Sessions and connections from before stay what they are.
    let mut before = connect(&site, "site.test");
    let certificate = issued(&site, "site.test", "www.site.test");
    assert_eq!(text(&get_on(&mut before, "/")), "here");
    assert_eq!(shown(&site, "www.site.test"), certificate);
    site.wait_for_log("[notice]");
    site.wait_for_log("acme: site.test (and 1 more): got a certificate, valid until ");
    assert_eq!(get_challenge(&site, "nobodys").status, 301, "the site answers what is not larder's");
    for path in authority.kept() {
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "{}", path.display());
    }
    assert_eq!(fs::metadata(authority.state()).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(fs::metadata(authority.folder.join("lib")).unwrap().permissions().mode() & 0o777, 0o755);
    assert_eq!(authority.orders(), 1);
    drop((before, site));

    authority.end();
    let site = authority.setup().start(BY_HTTP);
    assert_eq!(shown(&site, "site.test"), certificate, "the first client is shown what is stored");
    assert!(!site.server().error_log().contains("acme: "), "{}", site.server().error_log());
}

#[test]
fn a_certificate_comes_by_tls_alpn_01_without_a_port_in_the_clear() {
    let mut authority = Authority::new();
    // One process without a supervisor does all of it too.
    let setup = authority.setup().main("daemon off; master_process off; worker_processes 2;");
    authority.run(&setup);
    let site = setup.start(
        "{ACCOUNT} http2 on;
         server { listen 127.0.0.1:{PORT2} ssl default_server; ssl_reject_handshake on; }
         server { listen 127.0.0.1:{PORT2} ssl; server_name site.test; larder_acme on; return 200 here; }",
    );
    let certificate = issued(&site, "site.test", "site.test");
    let mut client = connect(&site, "site.test");
    assert_eq!(text(&get_on(&mut client, "/")), "here");
    assert_eq!(client.tls().unwrap().certificate, certificate);
    let resuming = tls("site.test").resuming();
    for is_resumed in [false, true] {
        let mut client = Client::connect_tls(site.setup().other_address(), &resuming).unwrap();
        assert_eq!(text(&get_on(&mut client, "/")), "here");
        assert_eq!(client.tls().unwrap().is_resumed, is_resumed);
    }
    // When no challenge is under way, nobody gets a handshake for that protocol.
    let challenge = tls("site.test").alpn(&["acme-tls/1"]);
    Client::connect_tls(site.setup().other_address(), &challenge).map(drop).unwrap_err();
    assert_eq!(authority.orders(), 1);
}

#[test]
fn a_reload_that_adds_a_name_orders_anew_and_serves_the_old_certificate_meanwhile() {
    let mut authority = Authority::new();
    let setup = authority.setup();
    authority.run(&setup);
    let config = |names: &str| {
        format!(
            "{{ACCOUNT}} server {{ listen 127.0.0.1:{{PORT}}; }}
             server {{ listen 127.0.0.1:{{PORT2}} ssl; server_name {names}; larder_acme on; return 200 here; }}"
        )
    };
    let site = setup.start(&config("site.test"));
    let first = issued(&site, "site.test", "site.test");
    let mut before = connect(&site, "site.test");
    site.change_to(&config("site.test shop.test"));
    assert!(is_issued(&shown(&site, "site.test")), "a visitor sees no placeholder");
    let second = issued(&site, "site.test", "shop.test");
    assert_ne!(first, second);
    assert_eq!(shown(&site, "shop.test"), second);
    assert_eq!(text(&get_on(&mut before, "/")), "here");
    assert_eq!((authority.orders(), authority.count("accounts in memory")), (2, 1));
    // Who goes back to the old names finds their certificate.
    site.change_to(&config("site.test"));
    assert_eq!(shown(&site, "site.test"), first);
    // And without orders there is no thread, and another certificate as before.
    site.change_to("server { listen 127.0.0.1:{PORT}; return 200 plain; }");
    assert_eq!(text(&site.get("/")), "plain");
}

#[test]
fn a_certificate_can_be_ordered_before_the_server_that_will_show_it_changes_over() {
    let mut authority = Authority::new();
    let bought = Certificates::new("certbot").server(&["site.test"]);
    let setup =
        authority.setup().name("PORT3", free_port()).file("old.crt", &bought.pem).file("old.key", &bought.key_pem);
    authority.run(&setup);
    let site = setup.start(
        "{ACCOUNT} server { listen 127.0.0.1:{PORT}; return 301 https://$host$request_uri; }
         server { listen 127.0.0.1:{PORT3} ssl; server_name site.test; larder_acme http-01; }
         server { listen 127.0.0.1:{PORT2} ssl; server_name site.test; ssl_certificate old.crt; ssl_certificate_key old.key; }",
    );
    assert_eq!(shown(&site, "site.test"), bought.der);
    site.wait_for_log("got a certificate");
    site.change_to("{ACCOUNT} server { listen 127.0.0.1:{PORT2} ssl; server_name site.test; larder_acme on; }");
    assert!(is_issued(&shown(&site, "site.test")));
    assert_eq!(authority.orders(), 1);
}

#[test]
fn a_renewed_certificate_is_shown_without_a_reload_and_connections_stay() {
    let mut authority = Authority::new();
    let setup = authority.setup();
    authority.run(&setup);
    let site =
        setup.start(&BY_HTTP.replace("{ACCOUNT}", &authority.account().replace(" state=", " profile=short state=")));
    let first = issued(&site, "site.test", "site.test");
    let mut before = connect(&site, "site.test");
    eventually("another certificate", || shown(&site, "site.test") != first);
    assert!(is_issued(&shown(&site, "site.test")));
    assert_eq!(text(&get_on(&mut before, "/")), "here");
    assert!(authority.orders() >= 2);
}

#[test]
fn keys_belong_to_whom_larder_serves_as() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let mut authority = Authority::new();
    let setup = authority.setup().main("daemon off; worker_processes 2; user www-data;");
    authority.run(&setup);
    let site = setup.start(BY_HTTP);
    issued(&site, "site.test", "www.site.test");
    let owner = fs::metadata(format!("/proc/{}", site.serving_process())).unwrap().uid();
    assert_ne!(owner, 0);
    let kept = authority.kept();
    assert!(kept.len() >= 3, "{kept:?}");
    for path in kept.iter().chain([&authority.state()]) {
        let metadata = fs::metadata(path).unwrap();
        let mode = if metadata.is_dir() { 0o700 } else { 0o600 };
        assert_eq!((metadata.uid(), metadata.mode() & 0o777), (owner, mode), "{}", path.display());
    }
}

#[test]
fn while_the_ca_is_away_a_placeholder_serves_and_the_log_says_what_is_missing() {
    let authority = Authority::new();
    let setup = authority.setup();
    setup.configure(BY_HTTP);
    let output = setup.larder(&["-t"]);
    assert!(output.status.success(), "a test asks no CA: {}", text_of(&output.stderr));
    let mut site = setup.start_as_written();
    assert!(!is_issued(&shown(&site, "site.test")));
    assert!(says(&shown(&site, "www.site.test"), "larder: no certificate yet"));
    assert_eq!(text(&get_on(&mut connect(&site, "site.test"), "/")), "here");
    site.wait_for_log("acme: site.test, www.site.test: no certificate yet; a self-signed one is in its place");
    site.wait_for_log("cannot connect to 127.0.0.1 at 127.0.0.1:");
    let log = site.server().error_log();
    let line = log.lines().find(|line| line.contains("cannot connect to 127.0.0.1")).expect("it was waited for");
    for part in ["[error]", "acme: site.test (and 1 more): ", "it has no certificate yet; next try in "] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    let told = Instant::now();
    site.signal(Signal::Quit);
    assert!(site.server_mut().wait().is_some_and(|status| status.success()));
    assert!(told.elapsed() < Duration::from_secs(5), "a CA that is away keeps nobody: {:?}", told.elapsed());
}

#[test]
fn another_acme_client_keeps_its_folder() {
    let authority = Authority::new();
    let site = authority.setup().file("certbot/.well-known/acme-challenge/its-token", "its answer").start(
        "{ACCOUNT}
         server { listen 127.0.0.1:{PORT}; server_name site.test;
                  location / { return 301 https://$host$request_uri; }
                  location ^~ /.well-known/acme-challenge/ { root {DIR}/certbot; } }
         server { listen 127.0.0.1:{PORT2} ssl; server_name site.test; larder_acme http-01; return 200 here; }",
    );
    assert_eq!(text(&get_challenge(&site, "its-token")), "its answer");
    assert_eq!(get_challenge(&site, "none").status, 404);
}

#[test]
fn what_is_wrong_with_an_account_is_said_before_anything_starts() {
    let authority = Authority::new();
    let setup = authority.setup();
    let long = (0..101).map(|number| format!("n{number}.site.test ")).collect::<String>();
    for (from, to, words) in [
        ("trusted.pem", "missing.pem", "missing.pem"),
        ("trusted.pem", "ca.key", "there is no trusted certificate in"),
        (" state=", " eab_kid=kid eab_key=c2VjcmV0 state=", "the key of the external account has 6 bytes"),
        ("server_name site.test www.site.test; larder", &format!("server_name {long}; larder"), "101 names"),
    ] {
        let http = setup.fill(BY_HTTP).replace(from, to);
        setup.configure(&http);
        let output = setup.larder(&["-t"]);
        let said = text_of(&output.stderr);
        assert!(!output.status.success(), "{to}");
        assert!(said.contains(words) && said.contains("nginx.conf:"), "{to}: {said}");
    }
}
