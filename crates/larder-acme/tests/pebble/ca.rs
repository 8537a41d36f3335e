//! A CA of our own: pebble, and the DNS server that makes every name lead to this host.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// What a CA wants, and where it asks.
pub struct Wish {
    pub http_port: u16,
    pub tls_port: u16,
    pub is_eab_required: bool,
}

/// Where a CA listens and how it is known, which stays when it is started again.
pub struct Place {
    pub port: u16,
    pub management_port: u16,
    /// PEM of the certificate that signs its HTTPS certificate.
    pub trusted: String,
    folder: TempDir,
}

/// A running CA.
pub struct Pebble {
    processes: [Child; 2],
    lines: Receiver<String>,
    seen: Vec<String>,
}

/// The key of the external account `kid-1`.
pub const EAB_KEY: &str = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";

impl Place {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder for a test");
        let ca_key = KeyPair::generate().expect("a key can be made");
        let mut ca = CertificateParams::default();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let trusted = ca.self_signed(&ca_key).expect("a certificate can be made").pem();
        let key = KeyPair::generate().expect("a key can be made");
        let leaf = CertificateParams::new(["127.0.0.1".to_string()]).expect("it is an address");
        let leaf = leaf.signed_by(&key, &Issuer::new(ca, ca_key)).expect("a certificate can be made");
        std::fs::write(folder.path().join("cert.pem"), leaf.pem()).expect("a test can write");
        std::fs::write(folder.path().join("key.pem"), key.serialize_pem()).expect("a test can write");
        Self { port: free_port(), management_port: free_port(), trusted, folder }
    }

    pub fn directory(&self) -> String {
        format!("https://127.0.0.1:{}/dir", self.port)
    }

    /// Starts something in the CA's place that gives one answer, whatever it is asked; how often it was asked.
    pub fn start_answering(&self, answer: &'static str) -> Arc<AtomicUsize> {
        let read = |name| std::fs::read(self.folder.path().join(name)).expect("it was written");
        let cert = CertificateDer::from_pem_slice(&read("cert.pem")).expect("it was made here");
        let key = PrivateKeyDer::from_pem_slice(&read("key.pem")).expect("it was made here");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.expect("the provider has suites").with_no_client_auth().with_single_cert(vec![cert], key);
        let config = Arc::new(config.expect("the key fits"));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.port)).expect("the port is free");
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let connection = rustls::ServerConnection::new(config.clone()).expect("it is in order");
                let mut stream = rustls::StreamOwned::new(connection, stream);
                let mut request = [0; 4096];
                if stream.read(&mut request).is_ok_and(|bytes| bytes > 0) {
                    count.fetch_add(1, Ordering::Relaxed);
                    let _ = stream.write_all(answer.as_bytes()).and_then(|()| stream.flush());
                }
            }
        });
        asked
    }

    /// Starts a CA that knows of nothing that was before.
    pub fn start(&self, wish: &Wish) -> Pebble {
        let config = serde_json::json!({ "pebble": {
            "listenAddress": format!("127.0.0.1:{}", self.port),
            "managementListenAddress": format!("127.0.0.1:{}", self.management_port),
            "certificate": self.folder.path().join("cert.pem"),
            "privateKey": self.folder.path().join("key.pem"),
            "httpPort": wish.http_port,
            "tlsPort": wish.tls_port,
            "externalAccountBindingRequired": wish.is_eab_required,
            "externalAccountMACKeys": { "kid-1": EAB_KEY },
            "domainBlocklist": ["blocked.example"],
            "retryAfter": { "authz": 1, "order": 1 },
            "keyAlgorithm": "ecdsa",
            "profiles": {
                "default": { "description": "90 days", "validityPeriod": 7_776_000 },
                "seconds": { "description": "6 seconds", "validityPeriod": 6 },
            },
        }});
        let config_path = self.folder.path().join("pebble.json");
        std::fs::write(&config_path, config.to_string()).expect("a test can write");

        let dns_port = free_port();
        let dns = Command::new(program("pebble-challtestsrv"))
            .args(["-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", "", "-defaultIPv6", ""])
            .args(["-dnsserver", &format!("127.0.0.1:{dns_port}")])
            .args(["-management", &format!("127.0.0.1:{}", free_port())])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("pebble-challtestsrv starts");
        let mut pebble = Command::new(program("pebble"))
            .args(["-dnsserver", &format!("127.0.0.1:{dns_port}")])
            .arg("-config")
            .arg(&config_path)
            .env("PEBBLE_VA_NOSLEEP", "1")
            .env("PEBBLE_WFE_NONCEREJECT", "15")
            .env("PEBBLE_AUTHZREUSE", "0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("pebble starts");
        let stdout = pebble.stdout.take().expect("it was asked for");
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        let mut started = Pebble { processes: [dns, pebble], lines, seen: Vec::new() };
        started.wait_for("ACME directory available at");
        started
    }
}

impl Pebble {
    /// Waits until the CA has logged `text`.
    pub fn wait_for(&mut self, text: &str) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !self.seen.iter().any(|line| line.contains(text)) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => self.seen.push(line),
                Err(_) => panic!("pebble did not log `{text}`, but:\n{}", self.seen.join("\n")),
            }
        }
    }

    /// How many orders were made.
    pub fn orders(&mut self) -> usize {
        self.count("Added order")
    }

    /// How many accounts were made.
    pub fn accounts(&mut self) -> usize {
        self.count("accounts in memory")
    }

    /// How many lines of its log have `text`. Pebble logs before it answers.
    pub fn count(&mut self, text: &str) -> usize {
        // The pipe and the thread behind it may be late.
        while let Ok(line) = self.lines.recv_timeout(Duration::from_millis(200)) {
            self.seen.push(line);
        }
        self.seen.iter().filter(|line| line.contains(text)).count()
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Where a program of pebble's is: in the folder `$PEBBLE_BIN`, or where `go install` puts it.
fn program(name: &str) -> PathBuf {
    let var = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let places = [
        var("PEBBLE_BIN"),
        var("GOBIN"),
        var("GOPATH").map(|path| path.join("bin")),
        var("HOME").map(|path| path.join("go/bin")),
        Some("/usr/local/bin".into()),
    ];
    places.into_iter().flatten().map(|place| place.join(name)).find(|path| path.exists()).unwrap_or_else(|| {
        panic!(
            "{name} is missing: run `go install github.com/letsencrypt/pebble/v2/cmd/pebble@v2.10.1 \
             github.com/letsencrypt/pebble/v2/cmd/pebble-challtestsrv@v2.10.1`, or name its folder in PEBBLE_BIN"
        )
    })
}

/// A port that nobody has. It is below those that systems give to outgoing connections, and no two tests of a process
/// get the same.
pub fn free_port() -> u16 {
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    let first = 10_000 + u16::try_from(std::process::id() % 200).expect("it is below 200") * 100;
    for _ in 0..1000 {
        let port = first + TAKEN.fetch_add(1, Ordering::Relaxed) % 1000;
        // The DNS server listens on both.
        let is_free = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        if is_free && UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("no port from {first} on is free")
}
