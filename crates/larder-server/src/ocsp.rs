//! Asks OCSP responders whether certificates are revoked, for `ssl_ocsp` and `ssl_stapling`.

use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use larder_conf::model::{AskedAbout, LogLevel};
use larder_tls::{OcspQuestion, Session};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::clock;
use crate::log::main::MainLog;

/// The time limit for one question, from connecting to the whole answer.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// The largest answer that is accepted, bytes.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;
/// How long an answer is kept if it has no time of its own, seconds.
const KEPT_SECS: i64 = 3600;
/// How much of a cache one answer takes, bytes.
const KEPT_BYTES: usize = 256;

/// `ssl_ocsp` of a server.
pub struct ClientStatus {
    about: AskedAbout,
    responder: Option<Responder>,
    /// `ssl_ocsp_cache`.
    known: Option<Mutex<Known>>,
    known_max: usize,
}

/// Answers by question: whether the certificate is revoked, and until when the answer holds.
type Known = HashMap<Vec<u8>, (bool, i64)>;

/// The result of a question: good, or why not.
type Asked = Result<(), &'static str>;

const FAILED: &str = "certificate status request failed";
const REVOKED: &str = "certificate revoked";

impl ClientStatus {
    /// Asks `responder`, or the one that each certificate names; `cache_bytes` is the size of the cache for answers.
    pub fn new(about: AskedAbout, responder: Option<Responder>, cache_bytes: Option<usize>) -> Self {
        let known = cache_bytes.map(|_| Mutex::default());
        Self { about, responder, known, known_max: cache_bytes.unwrap_or(0) / KEPT_BYTES }
    }

    /// Checks a client's certificate after the handshake. It fails if it is revoked or if nobody can be asked. The
    /// reason goes to `log`.
    pub async fn check(&self, session: &Rc<std::cell::RefCell<Session>>, log: &MainLog) {
        let questions = session.borrow().ocsp_questions(self.about == AskedAbout::Certificate);
        for (question, certificate) in questions {
            if let Err(reason) = self.ask(&question, &certificate, log).await {
                session.borrow_mut().refuse_client(reason);
                return;
            }
        }
    }

    async fn ask(&self, question: &OcspQuestion, certificate: &[u8], log: &MainLog) -> Asked {
        let now_secs = i64::try_from(clock::now().secs()).unwrap_or(i64::MAX);
        let name = question.to_der();
        if let Some(known) = &self.known
            && let Some(&(is_revoked, _)) = known.lock().get(&name).filter(|(_, until)| *until > now_secs)
        {
            return if is_revoked { Err(REVOKED) } else { Ok(()) };
        }
        let named = || larder_tls::ocsp_responder(certificate).as_deref().and_then(Responder::of);
        let Some(responder) = self.responder.clone().or_else(named) else {
            return failed("no OCSP responder URL in the certificate", log);
        };
        let answer = match tokio::time::timeout(PATIENCE, responder.ask(question)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return failed(&error.to_string(), log),
            Err(_) => return failed("OCSP responder timed out", log),
        };
        let (is_revoked, until) = match question.check(&answer, true, now_secs) {
            Ok(until) => (false, until),
            Err(error) if error.is_revoked() => (true, None),
            Err(error) => return failed(&error.to_string(), log),
        };
        self.keep(name, is_revoked, until.unwrap_or(now_secs + KEPT_SECS));
        if is_revoked { Err(REVOKED) } else { Ok(()) }
    }

    fn keep(&self, name: Vec<u8>, is_revoked: bool, until: i64) {
        let Some(known) = &self.known else { return };
        let mut known = known.lock();
        if known.len() >= self.known_max {
            known.clear();
        }
        known.insert(name, (is_revoked, until));
    }
}

fn failed(why: &str, log: &MainLog) -> Asked {
    log.write(LogLevel::Error, format_args!("{why} while requesting certificate status"));
    Err(FAILED)
}

/// The parts of a responder's URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Responder {
    /// Its host name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The path, beginning with a slash.
    pub path: String,
}

impl Responder {
    /// Parses `http://host[:port][/path]`.
    pub fn of(url: &str) -> Option<Self> {
        let scheme = url.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("http://"))?;
        let rest = &url[scheme.len()..];
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = match authority.rsplit_once(':').filter(|(_, port)| !port.contains(']')) {
            Some((host, port)) => (host, port.parse().ok()?),
            None => (authority, 80),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let path = if path.is_empty() { "/" } else { path };
        (!host.is_empty()).then(|| Self { host: host.to_owned(), port, path: path.to_owned() })
    }

    /// Sends the question as nginx does, as a part of the path.
    pub async fn ask(&self, question: &OcspQuestion) -> io::Result<Vec<u8>> {
        let Self { host, port, path } = self;
        let mut socket = TcpStream::connect((host.as_str(), *port)).await?;
        let slash = if path.ends_with('/') { "" } else { "/" };
        let question = larder_tls::base64_escaped(&question.to_der());
        socket.write_all(format!("GET {path}{slash}{question} HTTP/1.0\r\nHost: {host}\r\n\r\n").as_bytes()).await?;
        let mut answer = Vec::new();
        socket.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await?;
        let invalid = || io::Error::other("OCSP responder sent invalid response");
        let end = memchr::memmem::find(&answer, b"\n\r\n").map(|at| at + 3);
        let end = end.or_else(|| memchr::memmem::find(&answer, b"\n\n").map(|at| at + 2)).ok_or_else(invalid)?;
        let status = answer.split(|&byte| byte == b' ').nth(1).unwrap_or_default();
        if !answer.starts_with(b"HTTP/1.") || !status.starts_with(b"200") {
            return Err(invalid());
        }
        Ok(answer.split_off(end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responders_are_named_by_urls() {
        let of = |host: &str, port, path: &str| Some(Responder { host: host.into(), port, path: path.into() });
        for (url, wanted) in [
            ("http://a.test", of("a.test", 80, "/")),
            ("HTTP://a.test/", of("a.test", 80, "/")),
            ("http://a.test:8080/b/c", of("a.test", 8080, "/b/c")),
            ("http://[::1]/b", of("::1", 80, "/b")),
            ("http://[::1]:81", of("::1", 81, "/")),
            ("https://a.test", None),
            ("http://", None),
            ("http://a.test:x/", None),
            ("é", None),
        ] {
            assert_eq!(Responder::of(url), wanted, "{url}");
        }
    }
}
