//! The connections of the CLI.

use std::cell::Cell;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use larder_server::clock;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_local;
use tokio::time::timeout;

use super::super::workdir::random_letters;
use super::commands::{self, Verb};
use super::protocol::{self, Answer, Status, banner, challenge_text, expected_answer};
use super::words::Lines;
use crate::oserror::CallFailed;

/// A command for the process, and where its answer goes.
pub struct Order {
    /// What it asks for.
    pub verb: Verb,
    /// Its words, the command first.
    pub words: Vec<String>,
    /// Who waits for the answer.
    pub reply: oneshot::Sender<Answer>,
}

/// What clients have to know.
#[derive(Clone, Debug)]
pub struct Secret {
    /// The file of it, which is read again if that is possible.
    pub path: PathBuf,
    /// What was in it at the start.
    pub bytes: Vec<u8>,
}

impl Secret {
    /// Reads it.
    pub fn read(path: PathBuf) -> Result<Secret, CallFailed> {
        let bytes = std::fs::read(&path).map_err(|error| CallFailed::on("open", path.display(), error))?;
        Ok(Secret { path, bytes })
    }

    fn current(&self) -> Vec<u8> {
        std::fs::read(&self.path).unwrap_or_else(|_| self.bytes.clone())
    }
}

/// What all connections have in common.
pub struct Desk {
    /// The secret, if there is one.
    pub secret: Option<Secret>,
    /// The storage, for the banner.
    pub storage: String,
    /// Where orders go.
    pub orders: mpsc::Sender<Order>,
    /// How many connections there are.
    pub open: Cell<usize>,
}

/// Listens at these addresses, each `HOST:PORT`, `:PORT` or `HOST`.
pub fn listen(places: &[String]) -> Result<Vec<TcpListener>, CallFailed> {
    let mut listeners = Vec::new();
    for place in places {
        let failed = |call| move |error: io::Error| CallFailed::to(call, place, error);
        let addresses = addresses(place).map_err(failed("getaddrinfo"))?;
        let mut refused = None;
        let before = listeners.len();
        for address in addresses {
            match bind(address) {
                Ok(listener) => listeners.push(listener),
                Err(error) => refused = Some(error),
            }
        }
        // A name may have an address of a family that this machine does not speak.
        if let (Some(error), true) = (refused, listeners.len() == before) {
            return Err(failed("bind")(error));
        }
    }
    Ok(listeners)
}

fn addresses(place: &str) -> io::Result<Vec<SocketAddr>> {
    match place.strip_prefix(':') {
        Some(port) => format!("0.0.0.0:{port}").to_socket_addrs().map(Iterator::collect),
        None if place.parse::<std::net::IpAddr>().is_ok() || !place.contains(':') => {
            (place.trim_matches(['[', ']']), 0).to_socket_addrs().map(Iterator::collect)
        }
        None => place.to_socket_addrs().map(Iterator::collect),
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Accepts connections of a listener for ever.
pub async fn accept(listener: TcpListener, desk: Rc<Desk>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) if desk.open.get() < CONNECTIONS_MAX => {
                desk.open.set(desk.open.get() + 1);
                let desk = Rc::clone(&desk);
                spawn_local(async move {
                    // Whoever is gone hears no error.
                    let _ = Connection::new(stream, &desk).run().await;
                    desk.open.set(desk.open.get() - 1);
                });
            }
            Ok(_) => {}
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// Connects to a manager, which gives orders then, again and again for ever.
pub async fn call(manager: String, desk: Rc<Desk>) {
    loop {
        if let Ok(Ok(stream)) = timeout(CALL_PATIENCE, TcpStream::connect(&manager)).await {
            desk.open.set(desk.open.get() + 1);
            // A manager that has gone is called again.
            let _ = Connection::new(stream, &desk).run().await;
            desk.open.set(desk.open.get() - 1);
        }
        tokio::time::sleep(CALL_PAUSE).await;
    }
}

/// How long a manager may take to accept.
const CALL_PATIENCE: Duration = Duration::from_secs(10);
/// How long until it is called again.
const CALL_PAUSE: Duration = Duration::from_secs(1);

/// A connection, and whether it may give orders.
struct Connection<'a> {
    stream: TcpStream,
    desk: &'a Desk,
    /// `None` after the right answer.
    challenge: Option<String>,
    lines: Lines,
    received: Vec<u8>,
}

/// Whether a connection goes on.
#[derive(PartialEq, Eq)]
enum Next {
    Read,
    Close,
}

impl<'a> Connection<'a> {
    fn new(stream: TcpStream, desk: &'a Desk) -> Connection<'a> {
        Connection { stream, desk, challenge: None, lines: Lines::default(), received: Vec::new() }
    }

    async fn run(mut self) -> io::Result<()> {
        if self.desk.secret.is_some() {
            self.challenge = Some(random_letters()?);
        }
        let hello = match &self.challenge {
            Some(challenge) => Answer::new(Status::Auth, challenge_text(challenge)),
            None => Answer::ok(banner(&self.desk.storage)),
        };
        self.stream.write_all(&hello.bytes()).await?;
        loop {
            // The time for the secret is limited, that of an operator who may give orders is not.
            let more = match &self.challenge {
                Some(_) => timeout(self.patience(), self.read()).await.unwrap_or(Ok(Next::Close))?,
                None => self.read().await?,
            };
            if more == Next::Close || self.take_lines().await? == Next::Close {
                return Ok(());
            }
        }
    }

    /// How long the client may take to show that it knows the secret: less where many do not, so that one who does finds
    /// room.
    fn patience(&self) -> Duration {
        if self.desk.open.get() > CONNECTIONS_MAX / 2 { CROWDED_PATIENCE } else { AUTH_PATIENCE }
    }

    async fn read(&mut self) -> io::Result<Next> {
        let limit = if self.challenge.is_some() { AUTH_BYTES_MAX } else { LINE_BYTES_MAX };
        if self.received.len() >= limit || self.stream.read_buf(&mut self.received).await? == 0 {
            return Ok(Next::Close);
        }
        Ok(Next::Read)
    }

    /// Carries out what all lines that are here say.
    async fn take_lines(&mut self) -> io::Result<Next> {
        let received = std::mem::take(&mut self.received);
        let mut rest = &received[..];
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line = &rest[..end];
            rest = &rest[end + 1..];
            let answer = match self.lines.take(line) {
                None => continue,
                Some(Ok(words)) => self.answer(words).await,
                Some(Err(error)) => Answer::new(Status::Syntax, format!("{error}\n")),
            };
            self.stream.write_all(&answer.bytes()).await?;
            if answer.status == Status::Close {
                return Ok(Next::Close);
            }
        }
        self.received = rest.to_vec();
        Ok(Next::Read)
    }

    async fn answer(&mut self, words: Vec<String>) -> Answer {
        let verb = match (commands::verb(&words), &self.challenge) {
            (Ok(verb @ (Verb::Auth | Verb::Help | Verb::Ping | Verb::Quit)), _) => verb,
            (_, Some(challenge)) => return Answer::new(Status::Auth, challenge_text(challenge)),
            (Ok(verb), None) => verb,
            (Err(answer), None) => return answer,
        };
        match verb {
            Verb::Auth => self.authenticate(&words[1]),
            Verb::Help => commands::help(&words),
            Verb::Ping if words.get(1).is_some_and(|word| word == "-j") => {
                Answer::ok(protocol::json(2, &words, vec![json!("PONG")]))
            }
            Verb::Ping => Answer::ok(format!("PONG {} 1.0", clock::now().0 / 1000)),
            Verb::Quit => Answer::new(Status::Close, "Closing CLI connection"),
            Verb::Banner => Answer::ok(banner(&self.desk.storage)),
            verb => self.order(verb, words).await,
        }
    }

    fn authenticate(&mut self, given: &str) -> Answer {
        if let (Some(challenge), Some(secret)) = (&self.challenge, &self.desk.secret) {
            if !given.eq_ignore_ascii_case(&expected_answer(challenge, &secret.current())) {
                return Answer::new(Status::Close, "");
            }
            self.challenge = None;
        }
        Answer::ok(banner(&self.desk.storage))
    }

    async fn order(&self, verb: Verb, words: Vec<String>) -> Answer {
        let (reply, answer) = oneshot::channel();
        let gone = || Answer::new(Status::Close, "larder ends");
        match self.desk.orders.send(Order { verb, words, reply }).await {
            Ok(()) => answer.await.unwrap_or_else(|_| gone()),
            Err(_) => gone(),
        }
    }
}

const CONNECTIONS_MAX: usize = 64;
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const AUTH_PATIENCE: Duration = Duration::from_secs(60);
const CROWDED_PATIENCE: Duration = Duration::from_secs(2);
/// The longest line; a text may have many.
const LINE_BYTES_MAX: usize = 4 << 20;
/// How much a client may send before it has shown that it knows the secret.
const AUTH_BYTES_MAX: usize = 1024;
