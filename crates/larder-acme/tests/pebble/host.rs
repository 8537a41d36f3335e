//! The host whose names are proven: responders for both challenges, and what the thread said and handed on.

use crate::ca::{Pebble, Place, Wish};
use larder_acme::{Account, Challenge, Handle, Hooks, Level, Order, Peers, Responses, Status, Timing, spawn};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;

/// A host, its CA, and its state directory, over several lives of the thread.
pub struct Host {
    pub place: Place,
    pub account: Account,
    pub responses: Arc<Responses>,
    /// How far the clock of the host is ahead.
    pub ahead_seconds: Arc<AtomicU64>,
    pub timing: Timing,
    pub http: Http01,
    pub wish: Wish,
    /// Other hosts for the same names.
    pub peers: Option<Arc<dyn Peers>>,
    state_dir: TempDir,
}

/// What came out of a running thread.
pub struct Running {
    pub handle: Handle,
    events: Receiver<Event>,
    pub certificates: Vec<Issued>,
    pub lines: Vec<(Level, String)>,
}

#[derive(Debug, Clone)]
pub struct Issued {
    pub names: Vec<String>,
    pub chain: String,
    pub key: String,
}

enum Event {
    Certificate(Issued),
    Line(Level, String),
}

const PATIENCE: Duration = Duration::from_secs(40);

impl Host {
    pub fn new() -> Self {
        let responses = Arc::new(Responses::new());
        let place = Place::new();
        let state_dir = tempfile::tempdir().expect("a folder for a test");
        let mut account = Account::new(state_dir.path().join("acme"));
        account.directory = place.directory();
        account.trusted = Some(place.trusted.clone().into_bytes());
        let http = Http01::start(responses.clone(), 0);
        let wish = Wish { http_port: http.port, tls_port: tls_alpn01(responses.clone()), is_eab_required: false };
        let timing = Timing {
            retry_first: Duration::from_millis(200),
            retry_last: Duration::from_secs(2),
            look_every: Duration::from_millis(100),
            ..Timing::default()
        };
        Self { place, account, responses, ahead_seconds: Arc::default(), timing, http, wish, peers: None, state_dir }
    }

    pub fn start_ca(&self) -> Pebble {
        self.place.start(&self.wish)
    }

    pub fn spawn(&self, orders: &[Order]) -> Running {
        let (send, events) = channel::<Event>();
        let (certificates, lines) = (Mutex::new(send.clone()), Mutex::new(send));
        let give = |to: &Mutex<Sender<Event>>, event| {
            // Nobody may be left to hear what the thread says at its end.
            let _ = to.lock().expect("nobody panics with it").send(event);
        };
        let ahead = self.ahead_seconds.clone();
        let peers = self.peers.clone();
        let hooks = Hooks {
            on_certificate: Box::new(move |names, chain, key| {
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("PEM is ASCII");
                let issued = Issued { names: names.to_vec(), chain: text(chain), key: text(key) };
                give(&certificates, Event::Certificate(issued));
            }),
            on_log: Box::new(move |level, line| give(&lines, Event::Line(level, line.into()))),
            now: Box::new(move || SystemTime::now() + Duration::from_secs(ahead.load(Ordering::Relaxed))),
            find_peers: Box::new(move || peers.clone()),
            timing: self.timing.clone(),
        };
        let handle = spawn(self.account.clone(), orders.to_vec(), self.responses.clone(), hooks);
        let handle = handle.expect("the system has threads");
        Running { handle, events, certificates: Vec::new(), lines: Vec::new() }
    }

    /// The files of the CA.
    pub fn files(&self) -> Vec<std::path::PathBuf> {
        let folder = std::fs::read_dir(self.state_dir.path().join("acme")).expect("it was made");
        let ca = folder.map(|entry| entry.expect("it can be read").path()).next().expect("it was made");
        let files = std::fs::read_dir(ca).expect("it can be read");
        files.map(|entry| entry.expect("it can be read").path()).collect()
    }

    pub fn file(&self, ending: &str) -> std::path::PathBuf {
        let found = self.files().into_iter().find(|path| path.to_string_lossy().ends_with(ending));
        found.unwrap_or_else(|| panic!("there is no {ending} among {:?}", self.files()))
    }
}

impl Running {
    /// Waits for the `count`th certificate.
    pub fn certificate(&mut self, count: usize) -> Issued {
        self.until(&format!("certificate {count}"), |it| it.certificates.get(count - 1).cloned())
    }

    /// Waits for a log line with `text`.
    pub fn line(&mut self, text: &str) -> (Level, String) {
        self.nth_line(1, text)
    }

    /// Waits for the `count`th log line with `text`.
    pub fn nth_line(&mut self, count: usize, text: &str) -> (Level, String) {
        self.until(text, |it| it.lines.iter().filter(|(_, line)| line.contains(text)).nth(count - 1).cloned())
    }

    pub fn status(&self) -> Status {
        let mut all = self.handle.status();
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    /// Waits until the next try is a matter of waiting; when it is.
    pub fn until_next_attempt(&mut self) -> SystemTime {
        let deadline = Instant::now() + PATIENCE;
        loop {
            // A status has no event.
            match self.status().next_attempt {
                Some(next) => return next,
                None if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(20)),
                None => panic!("it tries for ever: {:?}", self.status()),
            }
        }
    }

    /// Waits for what has no event.
    pub fn wait_until(&self, what: &str, is_so: impl Fn() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_so() {
            assert!(Instant::now() < deadline, "{what}: {:#?}", self.lines);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Stops the thread and returns what it said and handed on.
    pub fn stop(mut self) -> (Vec<Issued>, Vec<(Level, String)>) {
        self.handle.stop();
        for event in self.events.try_iter() {
            match event {
                Event::Certificate(issued) => self.certificates.push(issued),
                Event::Line(level, line) => self.lines.push((level, line)),
            }
        }
        (self.certificates, self.lines)
    }

    fn until<T>(&mut self, what: &str, found: impl Fn(&Self) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = found(self) {
                return found;
            }
            match self.events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Event::Certificate(issued)) => self.certificates.push(issued),
                Ok(Event::Line(level, line)) => self.lines.push((level, line)),
                Err(_) => panic!("no {what} came, but {:#?} and {} certificates", self.lines, self.certificates.len()),
            }
        }
    }
}

pub fn order(names: &[&str], challenge: Challenge) -> Order {
    Order::new(names, challenge).expect("the names are in order")
}

/// What answers on port 80.
pub struct Http01 {
    pub port: u16,
    /// Whether it answers what is not larder's.
    pub is_another: Arc<AtomicBool>,
    /// Whether requests wait for `let_go`.
    pub holds: Arc<AtomicBool>,
    pub held: Mutex<Receiver<()>>,
    pub let_go: Mutex<Sender<()>>,
}

impl Http01 {
    pub fn start(responses: Arc<Responses>, port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("the port is free");
        let port = listener.local_addr().expect("it is bound").port();
        let (is_another, holds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let ((holding, held), (let_go, going)) = (channel(), channel::<()>());
        let (another, hold) = (is_another.clone(), holds.clone());
        std::thread::spawn(move || {
            // The CA asks several times, and what held the first request may have ended what would answer the others.
            let mut last: Option<(String, Arc<str>)> = None;
            for stream in listener.incoming().map_while(Result::ok) {
                let token = requested_token(&stream).unwrap_or_default();
                let again = last.take().filter(|(asked, _)| *asked == token).map(|(_, answer)| answer);
                let answer = responses.http01(&token).or(again);
                last = answer.clone().map(|answer| (token, answer));
                if hold.load(Ordering::Relaxed) {
                    let _ = holding.send(());
                    let _ = going.recv_timeout(PATIENCE);
                }
                let body = if another.load(Ordering::Relaxed) { Some("<html>nginx".into()) } else { answer };
                let (status, body) = body.map_or(("404 Not Found", "".into()), |body| ("200 OK", body));
                let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
                let _ = (&stream).write_all(head.as_bytes()).and_then(|()| (&stream).write_all(body.as_bytes()));
            }
        });
        Self { port, is_another, holds, held: Mutex::new(held), let_go: Mutex::new(let_go) }
    }
}

fn requested_token(stream: &TcpStream) -> Option<String> {
    let mut lines = BufReader::new(stream).lines();
    let request = lines.next()?.ok()?;
    let _fields = lines.map_while(Result::ok).take_while(|line| !line.is_empty()).count();
    Some(request.strip_prefix("GET /.well-known/acme-challenge/")?.split(' ').next()?.to_string())
}

#[derive(Debug)]
struct Challenged(Arc<Responses>);

impl ResolvesServerCert for Challenged {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let found = self.0.tls_alpn01(hello.server_name()?)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(found.key_der.clone()));
        let key = rustls::crypto::aws_lc_rs::sign::any_supported_type(&key).expect("it was made by us");
        Some(Arc::new(CertifiedKey::new(vec![CertificateDer::from(found.cert_der.clone())], key)))
    }
}

/// What answers on port 443; the port.
fn tls_alpn01(responses: Arc<Responses>) -> u16 {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.expect("the provider has suites").with_no_client_auth();
    let mut config = config.with_cert_resolver(Arc::new(Challenged(responses)));
    config.alpn_protocols = vec![b"acme-tls/1".to_vec()];
    let config = Arc::new(config);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there are ports");
    let port = listener.local_addr().expect("it is bound").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let connection = rustls::ServerConnection::new(config.clone()).expect("the configuration is in order");
            // The CA wants the handshake only, and hangs up.
            let _ = rustls::StreamOwned::new(connection, stream).read(&mut [0]);
        }
    });
    port
}
