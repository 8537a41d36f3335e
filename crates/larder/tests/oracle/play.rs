//! Plays a case before one server and writes down what happened.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use larder_testkit::{
    Certificate, Certificates, Client, ClientError, FastCgiOrigin, Folder, Hold, Origin, PATIENCE, Response,
    ServerUnderTest, Signal, StartError, Tls, free_port, text_of,
};

use crate::case::{Case, Part, Request, Step};
use crate::date;
use crate::program::Program;
use crate::script;
use crate::transcript::{Exchange, Transcript};

/// Origins of each kind that a case may use.
const ORIGINS: usize = 3;
/// How long `until` tries, and how often.
const UNTIL_LIMIT: Duration = Duration::from_secs(10);
const UNTIL_PAUSE: Duration = Duration::from_millis(20);
/// How long a server may be silent where an answer is due. No case makes it wait longer than a second or two.
const SILENCE_MAX: Duration = Duration::from_secs(6);
/// Where {CERT} and {KEY} are, below the folder.
const CERT_FILE: &str = "tls/certificate.pem";
const KEY_FILE: &str = "tls/key.pem";
/// How long the server may take to close what it said it would close.
const CLOSE_LIMIT: Duration = Duration::from_secs(8);

/// The folder, the ports and the origins of one case. Both servers play on it, one after the other.
pub struct Stage {
    // Origins come first, so that they are dropped before the folder of their sockets.
    origins: Vec<Origin>,
    fastcgi: Vec<FastCgiOrigin>,
    folder: Folder,
    sockets: Folder,
    ports: [u16; 2],
    dead_port: u16,
    /// The certificate of {CERT}, where the case has TLS.
    identity: Option<(Certificates, Certificate)>,
    /// Seconds since 1970 when the stage was set: {DATE} is the same for both.
    now: i64,
}

impl Stage {
    /// Starts the origins that the case names, with their scripts.
    pub fn set(case: &Case) -> io::Result<Stage> {
        let sockets = Folder::new()?;
        let count = if case.needs_origins() { ORIGINS } else { 0 };
        let origins = (0..count).map(|_| Origin::start()).collect::<io::Result<Vec<_>>>()?;
        let mut fastcgi = Vec::new();
        if case.mentions("{FCGI") {
            fastcgi.push(FastCgiOrigin::start_tcp()?);
            fastcgi.push(FastCgiOrigin::start_unix(&sockets.join("f"))?);
        }
        let ports = [free_port(), free_port()];
        let identity = case.mentions("{CERT}").then(|| {
            let authority = Certificates::new("oracle");
            let certificate = authority.server(&["localhost"]);
            (authority, certificate)
        });
        let dead_port = free_port();
        let now = date::now();
        let stage = Stage { folder: Folder::new()?, sockets, ports, dead_port, origins, fastcgi, identity, now };
        let fill = |text: &str| stage.fill(text);
        for (number, origin) in stage.origins.iter().enumerate() {
            for entry in case.origin.iter().filter(|entry| script::is_for(entry, number + 1)) {
                let answer = script::answer(entry, &fill).map_err(io::Error::other)?;
                origin.answer_then(script::route(entry), answer);
            }
        }
        for origin in &stage.fastcgi {
            for entry in &case.fastcgi {
                origin.answer_then(script::route(entry), script::reply(entry, &fill).map_err(io::Error::other)?);
            }
        }
        Ok(stage)
    }

    fn fill(&self, text: &str) -> String {
        let mut text = text
            .replace("{PORT}", &format!("127.0.0.1:{}", self.ports[0]))
            .replace("{PORT2}", &format!("127.0.0.1:{}", self.ports[1]))
            .replace("{NUMBER}", &self.ports[0].to_string())
            .replace("{NUMBER2}", &self.ports[1].to_string())
            .replace("{DEAD_PORT}", &self.dead_port.to_string())
            .replace("{DEAD}", &format!("127.0.0.1:{}", self.dead_port))
            .replace("{CERT}", &self.folder.join(CERT_FILE).display().to_string())
            .replace("{KEY}", &self.folder.join(KEY_FILE).display().to_string())
            .replace("{ROOT}", &self.folder.join("www").display().to_string())
            .replace("{DIR}", &self.folder.path().display().to_string())
            .replace("{FCGI_SOCK}", &self.sockets.join("f").display().to_string());
        for (name, origin) in ["ORIGIN", "ORIGIN2", "ORIGIN3"].iter().zip(&self.origins) {
            text = text.replace(&format!("{{{name}}}"), &origin.address().to_string());
            text = text.replace(&format!("{{{name}_PORT}}"), &origin.address().port().to_string());
        }
        if let Some(origin) = self.fastcgi.first() {
            text = text.replace("{FCGI}", &origin.address());
        }
        date::fill(&text, self.now)
    }

    fn address(&self, port: usize) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.ports[port.clamp(1, 2) - 1]))
    }

    /// Starts this server on a fresh folder, plays the steps, stops it, and reads what it left.
    pub fn play(&self, case: &Case, program: &Program) -> io::Result<Transcript> {
        self.folder.clear()?;
        program.build(case, &self.folder, &|text| self.fill(text))?;
        if let Some((_, certificate)) = &self.identity {
            self.folder.write(CERT_FILE, &certificate.pem)?;
            self.folder.write(KEY_FILE, &certificate.key_pem)?;
        }
        self.origins.iter().for_each(Origin::rewind);
        self.fastcgi.iter().for_each(FastCgiOrigin::rewind);
        let mut server = match program.start(self.folder.path(), self.address(1), &self.fill(&case.main)) {
            Ok(server) => server,
            Err(StartError::Ended { output, .. }) => {
                return Ok(Transcript { refusal: Some(output), ..Transcript::default() });
            }
            Err(error) => return Err(io::Error::other(error)),
        };
        let mut run =
            Run { stage: self, server: &server, clients: [None, None], started: Vec::new(), holds: Vec::new() };
        let mut exchanges = Vec::new();
        for step in &case.steps {
            exchanges.extend(run.step(step)?);
        }
        drop(run);
        // A varnishd may listen before it has looked at its VCL.
        let is_silent = !exchanges.is_empty() && exchanges.iter().all(|exchange| exchange.outcome.is_err());
        if let Some(refusal) = server.last_words(if is_silent { SILENCE_MAX } else { Duration::ZERO }) {
            return Ok(Transcript { refusal: Some(refusal), ..Transcript::default() });
        }
        let origins = self.origins.iter().map(Origin::requests).collect();
        let fastcgi = self.fastcgi.iter().map(FastCgiOrigin::requests).collect();
        let folder = self.folder.path();
        server.stop();
        let read = |name: &str| std::fs::read(folder.join(name)).map(|bytes| text_of(&bytes));
        let logs = case.rules.logs.iter().map(|name| (name.clone(), read(name).unwrap_or_default())).collect();
        let error_log = read("error.log").unwrap_or_default();
        Ok(Transcript { refusal: None, exchanges, origins, fastcgi, logs, error_log })
    }
}

/// A case half played.
struct Run<'a> {
    stage: &'a Stage,
    server: &'a ServerUnderTest,
    /// The kept connection to each port.
    clients: [Option<Client>; 2],
    started: Vec<(Request, Result<Client, ClientError>)>,
    holds: Vec<(String, Vec<Hold>)>,
}

impl Run<'_> {
    fn step(&mut self, step: &Step) -> io::Result<Vec<Exchange>> {
        match step {
            Step::Request(request) => return Ok(vec![self.exchange(request)]),
            Step::Until(text, request) => return Ok(vec![self.until(text, request)]),
            Step::Connection { port, methods, parts } => return Ok(self.connection(*port, methods, parts)),
            Step::Finish => return Ok(self.finish()),
            Step::Start(request) => {
                let client = self.connect(request.port).and_then(|mut client| {
                    client.send(&self.filled(&request.bytes))?;
                    Ok(client)
                });
                self.started.push((request.clone(), client));
            }
            Step::Wait(time) => thread::sleep(*time),
            Step::Hold(path) => self.hold(path),
            Step::Release(path) => self.holds.retain(|(held, _)| held != path),
            Step::Seen(count) => self.wait_until_seen(*count)?,
            Step::Reconnect => self.clients = [None, None],
            Step::Signal(name) => {
                self.server.signal(if name == "HUP" { Signal::Hup } else { Signal::Usr1 })?;
            }
        }
        Ok(Vec::new())
    }

    fn exchange(&mut self, request: &Request) -> Exchange {
        if request.is_tls {
            let outcome = self.ask_by_tls(request).map_err(|error| error.to_string());
            return Exchange { label: request.label.clone(), outcome, closed: None };
        }
        let outcome = self.ask(request);
        let slot = &mut self.clients[request.port.clamp(1, 2) - 1];
        let mut closed = None;
        if !outcome.as_ref().is_ok_and(|response| response.keeps_connection() && response.status >= 200) {
            closed = slot.take().filter(|_| outcome.is_ok()).map(is_closed);
        }
        Exchange { label: request.label.clone(), outcome: outcome.map_err(|error| error.to_string()), closed }
    }

    /// Asks on the kept connection, and once more on a new one when that is found closed: a server may end a kept
    /// connection at any time, and nginx does so after some errors without a word.
    fn ask(&mut self, request: &Request) -> Result<Response, ClientError> {
        let slot = request.port.clamp(1, 2) - 1;
        let bytes = self.filled(&request.bytes);
        if let Some(mut client) = self.clients[slot].take() {
            match client.send(&bytes).and_then(|()| read_final(&mut client, &request.method)) {
                Err(ClientError::Closed | ClientError::Io(_)) => {}
                outcome => {
                    self.clients[slot] = Some(client);
                    return outcome;
                }
            }
        }
        let client = self.clients[slot].insert(self.connect(request.port)?);
        client.send(&bytes)?;
        read_final(client, &request.method)
    }

    /// Asks on a TLS connection of its own. Whom the certificate names is not what a case is about.
    fn ask_by_tls(&self, request: &Request) -> Result<Response, ClientError> {
        let (authority, _) =
            self.stage.identity.as_ref().ok_or_else(|| io::Error::other("TLS needs a config with {CERT}"))?;
        let head = text_of(&request.bytes);
        let host = head.lines().find_map(|line| line.strip_prefix("Host: ")).unwrap_or("localhost");
        let tls = Tls::new(host.split(':').next().unwrap_or(host), authority).unchecked();
        let mut client = Client::connect_tls(self.stage.address(request.port), &tls)?;
        client.set_patience(SILENCE_MAX);
        client.send(&self.filled(&request.bytes))?;
        read_final(&mut client, &request.method)
    }

    fn until(&mut self, text: &str, request: &Request) -> Exchange {
        let deadline = Instant::now() + UNTIL_LIMIT;
        loop {
            let exchange = self.exchange(request);
            let has = |response: &Response| {
                let head = response.fields.iter().map(|(name, value)| format!("{name}: {value}\n"));
                head.chain([response.status_line.clone()]).any(|line| line.contains(text))
            };
            if exchange.outcome.as_ref().is_ok_and(has) || Instant::now() >= deadline {
                return exchange;
            }
            thread::sleep(UNTIL_PAUSE);
        }
    }

    fn finish(&mut self) -> Vec<Exchange> {
        let started = std::mem::take(&mut self.started);
        let exchanges = started.into_iter().map(|(request, client)| {
            let outcome = client.and_then(|mut client| client.read_response(&request.method));
            Exchange {
                label: format!("(started) {}", request.label),
                outcome: outcome.map_err(|error| error.to_string()),
                closed: None,
            }
        });
        exchanges.collect()
    }

    /// Sends raw bytes, then reads responses until the server closes.
    fn connection(&mut self, port: usize, methods: &[String], parts: &[Part]) -> Vec<Exchange> {
        let mut exchanges = Vec::new();
        let mut client = match self.connect(port) {
            Ok(client) => client,
            Err(error) => {
                return vec![Exchange { label: "connect".into(), outcome: Err(error.to_string()), closed: None }];
            }
        };
        let mut methods = methods.iter().map(String::as_str).chain(std::iter::repeat("GET"));
        let mut number = 0;
        let mut read = |client: &mut Client| {
            number += 1;
            let outcome = client.read_response(methods.next().unwrap_or("GET"));
            Exchange {
                label: format!("(raw) response {number}"),
                outcome: outcome.map_err(|error| error.to_string()),
                closed: None,
            }
        };
        for part in parts {
            match part {
                // A server that refuses the first half may close before it has the second.
                Part::Bytes(bytes) => drop(client.send(&self.filled(bytes))),
                Part::Wait(time) => thread::sleep(*time),
                Part::Read => exchanges.push(read(&mut client)),
            }
        }
        loop {
            let exchange = read(&mut client);
            let is_last = exchange.outcome.is_err();
            if exchange.outcome.as_ref().is_ok_and(|response| !response.keeps_connection()) {
                drop(client.finish());
            }
            exchanges.push(exchange);
            if is_last {
                return exchanges;
            }
        }
    }

    fn connect(&self, port: usize) -> Result<Client, ClientError> {
        let mut client = Client::connect(self.stage.address(port))?;
        client.set_patience(SILENCE_MAX);
        Ok(client)
    }

    /// Placeholders in requests; bytes that are no UTF-8 have none.
    fn filled(&self, bytes: &[u8]) -> Vec<u8> {
        std::str::from_utf8(bytes).map_or_else(|_| bytes.to_vec(), |text| self.stage.fill(text).into_bytes())
    }

    fn hold(&mut self, path: &str) {
        let http = self.stage.origins.iter().map(|origin| origin.hold(path));
        let fastcgi = self.stage.fastcgi.iter().map(|origin| origin.hold(path));
        self.holds.push((path.to_owned(), http.chain(fastcgi).collect()));
    }

    fn wait_until_seen(&self, count: usize) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let seen = || {
            let http: usize = self.stage.origins.iter().map(Origin::count).sum();
            http + self.stage.fastcgi.iter().map(FastCgiOrigin::count).sum::<usize>()
        };
        while seen() < count {
            if Instant::now() >= deadline {
                return Err(io::Error::other(format!("the origins saw {} requests, not {count}", seen())));
            }
            thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}

/// The response after the interim one, where there is one.
fn read_final(client: &mut Client, method: &str) -> Result<Response, ClientError> {
    let response = client.read_response(method)?;
    if response.status == 100 { client.read_response(method) } else { Ok(response) }
}

/// Whether the server closes. We close first: a server that lingers for the rest of a request waits for that.
fn is_closed(mut client: Client) -> bool {
    drop(client.finish());
    client.is_closed_within(CLOSE_LIMIT)
}
