//! What would be done with a request, and why: `larder explain`. The request is walked through ([`walk`](crate::request::walk)): nothing is sent,
//! counted or changed.

mod question;
mod shown;
mod ways;

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;

use larder_conf::model::ListenAddress;

use crate::clock;
use crate::context::Cx;
use crate::exchange::{Client, Exchange, Secured};
use crate::misses::{Seen, Summary};
use crate::records::endpoint;
use crate::request::{advance, masked, notes, reasons, receive};
use crate::site::{Listener, Site};
use crate::vsl::{Audience, Fact, Facts, Note, Shown};
use crate::worker::Worker;

pub use question::Question;

/// What would be done with a request.
pub struct Explanation {
    /// In one sentence.
    pub sentence: String,
    /// How it comes to that.
    rows: Vec<Row>,
}

/// A step on the way.
struct Row {
    /// What it is about, in one word.
    what: String,
    text: String,
    /// Where it stands, as `FILE:LINE`.
    at: Option<String>,
    /// What programs are told beside.
    facts: Facts,
}

/// The same for a question as it comes in at the socket, in words for whoever gets a response.
pub fn in_words(question: &str, worker: &Rc<Worker>) -> Result<String, String> {
    let question = Question::parse(question)?;
    explain(&question, &worker.shared.misses.summary(clock::now()), Audience::Visitor, worker)
        .map(|explanation| explanation.as_text())
}

/// Walks a request through. `seen` is why others were no hits lately.
pub fn explain(
    question: &Question,
    seen: &Summary,
    audience: Audience,
    worker: &Rc<Worker>,
) -> Result<Explanation, String> {
    let cx = worker.cx();
    let (listener, remark) = listener_of(question, cx.site())?;
    let client = Rc::new(client(question, listener));
    let mut ex = worker.exchange(&client);
    notes::begin(&mut ex, audience);
    let counted = worker.stats.counted();
    let begun = receive::begin_unseen(&question.head(), listener, &mut ex, &cx, clock::now());
    match begun {
        Ok(step) => drop(advance(step, &mut ex, &cx)),
        Err(error) => notes::verdict(format!("answered with {}: {error}", error.status()), &ex),
    }
    worker.stats.put_back(&counted);
    let explanation = told(remark, listener, seen, &ex, &cx);
    worker.recycle(ex);
    Ok(explanation)
}

fn told(remark: Option<String>, listener: &Listener, seen: &Summary, ex: &Exchange, cx: &Cx) -> Explanation {
    let mut rows = Vec::new();
    let mut row = |what: &str, text: String, at: Option<String>, facts: Facts| {
        rows.push(Row { what: what.to_owned(), text, at, facts });
    };
    let remark = remark.map_or_else(String::new, |remark| format!(" ({remark})"));
    row("listener", format!("{}{remark}", endpoint(&listener.address)), None, Facts::new());
    if !cx.server(ex).takes_raw {
        row("server", ways::server(listener, ex, cx), None, Facts::new());
    }
    let mut sentence = String::new();
    let mut is_known = false;
    for note in notes::notes(ex) {
        match note {
            Note::Location(..) if cx.server(ex).takes_raw => {}
            Note::Location(location, uri) => {
                row("location", ways::location(location, &uri, ex, cx), None, Facts::new())
            }
            Note::Holds { condition, cookie, at } => {
                let cookie = cookie.map_or_else(String::new, |cookie| format!(", by the cookie {cookie}"));
                let condition = masked::condition(&condition, ex);
                row("if", format!("({condition}) holds{cookie}"), cx.site().place(at), Facts::new());
            }
            Note::Left => {}
            Note::Set { slot, value, at, .. } => {
                let name = &cx.site().variables.slots[slot].name;
                let text = format!("${name} is \"{}\"", masked::in_row(&value, ex, cx));
                let own = masked::as_fact(&value, ex, cx);
                let facts = vec![("variable", Fact::Text(format!("${name}"))), ("value", own)];
                row("set", text, cx.site().place(at), facts);
            }
            Note::Said { what, text, at } => {
                let text = masked::without_secrets(text.as_bytes(), ex, cx);
                row(what, String::from_utf8_lossy(&text).into_owned(), at, Facts::new());
            }
            Note::Told { what, text, at, facts } => {
                is_known |= matches!(what, "page" | "last answer");
                row(what, text, at, facts);
            }
            Note::Verdict(verdict) => {
                if !sentence.is_empty() {
                    row("answer", std::mem::take(&mut sentence), None, Facts::new());
                }
                sentence = verdict;
            }
        }
    }
    let place = reasons::place(ex, cx);
    let is_told = |seen: &&Seen| seen.place == place && !reasons::is_to_ask(&seen.reason);
    let refused: Vec<&Seen> = seen.rows.iter().filter(is_told).collect();
    let own = Shown(ex.client_target()).to_string();
    let other = refused.iter().find(|seen| reasons::is_refusal(&seen.reason) && *seen.example.url != *own);
    // What is known of the page itself says more.
    if let Some(Seen { example, reason, .. }) = other.filter(|_| sentence.starts_with("a miss: ") && !is_known) {
        sentence.push_str(&format!("; others here were lately not stored, such as {}: {reason}", example.url));
    }
    for seen in refused.iter().take(LATELY_MAX) {
        let facts = vec![
            ("count", Fact::number(seen.count)),
            ("reason", Fact::Text(seen.reason.clone())),
            ("example", Fact::Text(seen.example.url.to_string())),
        ];
        row("lately", format!("{} times {}, such as {}", seen.count, seen.reason, seen.example.url), None, facts);
    }
    if refused.len() > LATELY_MAX {
        row("lately", format!("and {} more, which larder why tells", refused.len() - LATELY_MAX), None, Facts::new());
    }
    if sentence.is_empty() {
        "the way of the request could not be followed to its end".clone_into(&mut sentence);
    }
    Explanation { sentence, rows }
}

/// How many reasons of other requests are shown.
const LATELY_MAX: usize = 5;

/// The listener at which the request would come in, and what is to be said about that.
fn listener_of<'a>(question: &Question, site: &'a Site) -> Result<(&'a Listener, Option<String>), String> {
    let is_at = |listener: &&Listener| match &listener.address {
        ListenAddress::Tcp(address) => address.port() == question.port(),
        ListenAddress::Unix(_) => false,
    };
    let is_like = |listener: &&Listener| listener.tls == question.tls;
    let all = || site.listeners.iter();
    if let Some(listener) = all().filter(is_like).find(is_at) {
        return Ok((listener, None));
    }
    let remark = format!(
        "nobody listens at port {} {}",
        question.port(),
        if question.tls { "with TLS" } else { "in the clear" }
    );
    let named = all().filter(is_like).find(|listener| listener.names.exact.contains_key(question.host.as_bytes()));
    let other = named.or_else(|| all().find(is_like)).or_else(|| all().next());
    other.map(|listener| (listener, Some(remark))).ok_or_else(|| "this server listens nowhere".to_owned())
}

fn client(question: &Question, listener: &Listener) -> Client {
    let local = match &listener.address {
        ListenAddress::Tcp(address) if address.ip().is_unspecified() => {
            Some(SocketAddr::new(std::net::Ipv4Addr::LOCALHOST.into(), address.port()))
        }
        ListenAddress::Tcp(address) => Some(*address),
        ListenAddress::Unix(_) => None,
    };
    Client {
        id: 0,
        peer: Some(SocketAddr::new(question.from, 0)),
        ids: None,
        local,
        bound: listener.address.clone(),
        began: clock::now(),
        proxy: None,
        secured: if listener.tls { Secured::Said } else { Secured::Not },
        xid: Cell::new(1),
        log: RefCell::default(),
    }
}
