//! Certificates from a CA on this machine: pebble, with a DNS server for which every name is this machine.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use larder_testkit::{Certificates, Client, Folder, PATIENCE, ServerUnderTest, Tls, free_port};

use crate::server::{binary, is_nginx, program};

/// How often something is looked at that nobody announces.
const POLL: Duration = Duration::from_millis(20);
/// What names the CA in every certificate it gives out.
const ISSUER: &[u8] = b"Pebble Intermediate";
/// What pebble logs for each certificate it gives out.
const ISSUED: &str = "Issued certificate serial";

#[test]
fn a_certificate_is_obtained_by_http_and_served_and_kept() {
    is_obtained_and_kept("http-01");
}

#[test]
fn a_certificate_is_obtained_by_tls_and_served_and_kept() {
    is_obtained_and_kept("tls-alpn-01");
}

fn is_obtained_and_kept(challenge: &str) {
    // nginx of the distribution has no ACME.
    if is_nginx() {
        return;
    }
    let folder = Folder::new().expect("/tmp takes a folder");
    let (http_port, tls_port) = (free_port(), free_port());
    let ca = Ca::start(&folder, http_port, tls_port);
    let configuration = format!(
        "daemon off; worker_processes 2; pid nginx.pid; error_log error.log info; events {{}}
         http {{
            access_log off;
            client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
            larder_acme_account email=anna@example.org directory=https://localhost:{directory}/dir
                trusted_certificate={authority} state={state};
            server {{ listen 127.0.0.1:{http_port}; server_name site.test www.site.test; return 301 https://$host$request_uri; }}
            server {{ listen 127.0.0.1:{tls_port} ssl; server_name site.test www.site.test;
                      larder_acme {challenge}; return 200 here; }}
         }}",
        directory = ca.port,
        authority = ca.authority.display(),
        state = folder.join("acme").display(),
    );
    folder.write("nginx.conf", configuration).expect("the folder is ours");

    let server = start(&folder);
    let certificate = served(&server, tls_port);
    // As many handshakes as there are workers, and more: all of them have it.
    for _ in 0..8 {
        assert!(served(&server, tls_port) == certificate, "one certificate for all workers");
    }
    assert_eq!(ca.issued(), 1, "{}", ca.log());
    server.stop();

    let server = start(&folder);
    assert!(served(&server, tls_port) == certificate, "the certificate is there after a restart");
    assert_eq!(ca.issued(), 1, "nobody asked the CA again: {}", ca.log());
    drop(server);
}

fn start(folder: &Folder) -> ServerUnderTest {
    ServerUnderTest::start(&binary(), folder.path()).unwrap_or_else(|error| panic!("{error}"))
}

/// The certificate of the CA that is served for both names, waited for.
fn served(server: &ServerUnderTest, tls_port: u16) -> Vec<u8> {
    let nobody = Certificates::new("nobody");
    let started = Instant::now();
    loop {
        let certificates: Vec<Vec<u8>> = ["site.test", "www.site.test"]
            .into_iter()
            .filter_map(|name| {
                let tls = Tls::new(name, &nobody).unchecked();
                let client = Client::connect_tls(([127, 0, 0, 1], tls_port).into(), &tls).ok()?;
                Some(client.tls()?.certificate).filter(|der| der.windows(ISSUER.len()).any(|part| part == ISSUER))
            })
            .collect();
        if let [first, second] = &certificates[..]
            && first == second
        {
            return first.clone();
        }
        assert!(started.elapsed() < PATIENCE, "no certificate came:\n{}", server.error_log());
        sleep(POLL);
    }
}

/// A running pebble and its DNS server. Dropping it ends both.
struct Ca {
    children: Vec<Child>,
    port: u16,
    /// Who signed the certificate of the CA's own server.
    authority: PathBuf,
    log: PathBuf,
}

impl Ca {
    fn start(folder: &Folder, http_port: u16, tls_port: u16) -> Ca {
        let (port, management, dns, dns_management) = (free_port(), free_port(), free_port(), free_port());
        let authority = Certificates::new("the CA's own CA");
        let certificate = authority.server(&["localhost"]);
        let write = |name: &str, text: &str| folder.write(name, text).expect("the folder is ours");
        let authority = write("ca/authority.pem", &authority.authority_pem());
        let certificate_path = write("ca/ca.crt", &certificate.pem);
        let key_path = write("ca/ca.key", &certificate.key_pem);
        let config = format!(
            "{{\"pebble\": {{
                \"listenAddress\": \"127.0.0.1:{port}\", \"managementListenAddress\": \"127.0.0.1:{management}\",
                \"certificate\": \"{}\", \"privateKey\": \"{}\", \"httpPort\": {http_port}, \"tlsPort\": {tls_port},
                \"externalAccountBindingRequired\": false, \"retryAfter\": {{\"authz\": 1, \"order\": 1}},
                \"profiles\": {{\"default\": {{\"description\": \"90 days\", \"validityPeriod\": 7776000}}}}
             }}}}",
            certificate_path.display(),
            key_path.display(),
        );
        let config_path = write("ca/pebble.json", &config);
        let log = write("ca/log", "");
        let output = || std::fs::File::options().append(true).open(&log).expect("it was written above");
        let spawn = |command: &mut Command| command.stdin(Stdio::null()).spawn().expect("it is installed");
        let dns_server = spawn(
            Command::new(program("pebble-challtestsrv"))
                .args(["-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", "", "-defaultIPv6", ""])
                .args(["-dnsserver", &format!("127.0.0.1:{dns}")])
                .args(["-management", &format!("127.0.0.1:{dns_management}")])
                .stdout(Stdio::null())
                .stderr(Stdio::null()),
        );
        let pebble = spawn(
            Command::new(program("pebble"))
                .args(["-dnsserver", &format!("127.0.0.1:{dns}"), "-config"])
                .arg(&config_path)
                // It would wait up to 15 seconds before it looks, and takes the patience of clients to a test.
                .envs([("PEBBLE_VA_NOSLEEP", "1"), ("PEBBLE_WFE_NONCEREJECT", "10")])
                .stdout(output())
                .stderr(output()),
        );
        let ca = Ca { children: vec![dns_server, pebble], port, authority, log };
        let started = Instant::now();
        while !ca.log().contains("ACME directory available at") {
            assert!(started.elapsed() < PATIENCE, "pebble does not start: {}", ca.log());
            sleep(POLL);
        }
        ca
    }

    fn log(&self) -> String {
        read(&self.log)
    }

    /// How many certificates it has given out.
    fn issued(&self) -> usize {
        self.log().matches(ISSUED).count()
    }
}

impl Drop for Ca {
    fn drop(&mut self) {
        for child in &mut self.children {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}
