//! A request without a client, which fills the cache: `larder_refill`, `larder_warm`.
//!
//! It is a GET of the page without cookies and credentials, and goes the way of every request: server, rewrites, location, key.
//! What it stores is what somebody unknown would have got, at the address of nobody in particular: where a password, a
//! certificate or `auth_request` is asked for, or `deny` holds for that address, it ends. It meets no limits, as nobody gets the
//! answer; purges nothing; and is in no access log.
//!
//! A page does not say where it came in. So a host is asked for only if it leads to one and the same server wherever larder
//! listens for that scheme: else a visitor could have an internal server asked, and its page stored in place of the public one.

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use larder_cache::{KeyRef, Zone};
use larder_conf::model::Purging;
use larder_http::{Time, status};
use larder_store::{BodyReader, Piece};
use larder_tls::VerifyMode;

use crate::context::Cx;
use crate::exchange::{CacheStatus, Client, Exchange, Purpose, Secured};
use crate::net::Inbound;
use crate::policy::directives;
use crate::refill::{Page, Reason, is_failure};
use crate::site::{Handler, Listener, Origin, Site, Target};
use crate::worker::Worker;

use super::{Content, Slow, Step, files, gate, receive};

/// What has come of a page.
pub enum Outcome {
    /// It was fetched to be stored there, under this key.
    Stored(Arc<Zone>, Vec<u8>),
    /// It was there already.
    There,
    /// It is not to be stored, for this reason.
    Unstored(String),
    /// It may not be asked for, for this reason.
    Unasked(&'static str),
    /// This origin rests, or has enough to do.
    Rests(usize),
    /// This origin has failed in this way, and rests from now on.
    Failed(usize, String),
}

impl Outcome {
    /// Whether the origin was asked.
    pub fn is_asked(&self) -> bool {
        match self {
            Self::Stored(..) | Self::Failed(..) | Self::Unstored(_) => true,
            Self::There | Self::Rests(_) | Self::Unasked(_) => false,
        }
    }
}

/// Fetches a page, and returns when it is whole.
pub async fn fetch(page: &Page, worker: &Rc<Worker>) -> Outcome {
    let cx = worker.cx();
    let Some((listener, host)) = way_of(page, cx.site()) else {
        return Outcome::Unasked(NOT_ONE_SERVER);
    };
    let purpose = Purpose::Refill(page.reason);
    match begin(&head(page, host), listener, purpose, worker, &cx) {
        Ok((step, mut ex)) => {
            let outcome = ask(step, &mut ex, &cx).await;
            worker.recycle(ex);
            outcome
        }
        Err(why) => Outcome::Unasked(why),
    }
}

/// The first step of a request with this head, of nobody in particular, which meets no limits. An error says why there is none.
pub fn begin(
    head: &[u8],
    listener: &Listener,
    purpose: Purpose,
    worker: &Rc<Worker>,
    cx: &Cx,
) -> Result<(Step, Box<Exchange>), &'static str> {
    let mut ex = worker.exchange(&Rc::new(client(listener, Some(NOBODY), cx.now())));
    ex.request.nested.purpose = purpose;
    match receive::begin_unseen(head, listener, &mut ex, cx, cx.now()) {
        Ok(step) if cx.server(&ex).verify == VerifyMode::Off => {
            ex.request.limits.req_asked = true;
            ex.request.limits.conn_asked = true;
            Ok((step, ex))
        }
        Ok(_) | Err(_) => {
            worker.recycle(ex);
            Err(NOT_FOR_ALL)
        }
    }
}

async fn ask(step: Step, ex: &mut Exchange, cx: &Cx) -> Outcome {
    let settled = tokio::time::timeout(HEAD_TIME_MAX, super::run(step, ex, cx, Inbound::Nobody)).await;
    let settled = settled.ok().flatten();
    let refill = &cx.worker.shared.refill;
    let Some(origin) = cx.origin(ex).map(|origin| place_of(origin, cx)) else {
        return Outcome::Unasked(why_not(ex, cx));
    };
    let is_asked = ex.upstream.status.is_some() || !ex.tally.attempts.is_empty();
    if !is_asked {
        return match (refill.resting(origin, cx.now()), ex.upstream.cache_status) {
            (_, Some(CacheStatus::Hit | CacheStatus::Updating)) => Outcome::There,
            (Some(_), Some(CacheStatus::Miss | CacheStatus::Expired | CacheStatus::Bypass)) => Outcome::Rests(origin),
            (_, Some(_)) if !ex.upstream.cache_detail.words().is_empty() => {
                Outcome::Unstored(format!("it is not to be stored: {}", ex.upstream.cache_detail.words()))
            }
            (_, _) => Outcome::Unasked(why_not(ex, cx)),
        };
    }
    let failed = |why: String| {
        refill.failed(origin, cx.now());
        Outcome::Failed(origin, why)
    };
    match ex.upstream.status {
        None => return failed("the origin gave no answer".to_owned()),
        Some(status) if is_failure(status) => {
            return failed(format!("the origin answered with {status}"));
        }
        Some(_) => {}
    }
    let is_stored = ex.upstream.cache_status == Some(CacheStatus::Revalidated) || ex.upstream.is_stored;
    let Some(zone) = zone(ex, cx).filter(|_| is_stored) else {
        refill.succeeded(origin);
        // Nobody waits for the rest of it.
        let words = ex.upstream.cache_detail.words();
        return Outcome::Unstored(match (words.is_empty(), ex.upstream.status) {
            (true, Some(status)) if status::is_redirect(status) => "the origin leads from it to itself".to_owned(),
            (_, status) => format!("it is not to be stored: {words}, status {}", status.unwrap_or_default()),
        });
    };
    let key = ex.upstream.cache_key.clone();
    let response = settled.and_then(|settled| settled.into_part());
    let is_whole = match response.map(|response| response.content) {
        Some(Content::Stream(mut body, _)) => {
            tokio::time::timeout(BODY_TIME_MAX, read(&mut body)).await.unwrap_or(Whole::Late)
        }
        Some(_) | None => Whole::Yes,
    };
    match is_whole {
        Whole::Yes => {
            refill.succeeded(origin);
            Outcome::Stored(zone, key)
        }
        Whole::Unstored => Outcome::Unstored("it is not stored: it is too large".to_owned()),
        Whole::Broken => failed("its body breaks off".to_owned()),
        Whole::Late => failed(format!("it is not whole after {} s", BODY_TIME_MAX.as_secs())),
    }
}

/// What has come of a body.
enum Whole {
    Yes,
    Broken,
    /// It turned out not to be kept.
    Unstored,
    Late,
}

async fn read(body: &mut BodyReader) -> Whole {
    loop {
        match body.next(PIECE_BYTES).await {
            Piece::Data(_) | Piece::File { .. } if !body.is_stored() => return Whole::Unstored,
            Piece::Data(_) | Piece::File { .. } => {}
            Piece::End => return Whole::Yes,
            Piece::Pending | Piece::Failed(_) => return Whole::Broken,
        }
    }
}

/// Notes for the refill that a visitor's fetch got no answer. What an origin answers is its own matter: anybody can ask for what
/// it refuses.
pub fn note_failure(ex: &Exchange, cx: &Cx) {
    if ex.request.nested.purpose == Purpose::Answer
        && ex.upstream.status.is_none()
        && let Some(origin) = cx.origin(ex)
    {
        cx.worker.shared.refill.visitor_failed(place_of(origin, cx), cx.now());
    }
}

/// What tells an origin from others: its group, where that is written out.
fn place_of(origin: &Origin, cx: &Cx) -> usize {
    match &origin.backend.target {
        Target::Group { group, .. } => {
            cx.site().origins.groups.get(*group).map_or(0, |group| Arc::as_ptr(group).cast::<()>() as usize)
        }
        Target::Variable(_) | Target::Files => std::ptr::from_ref(origin).cast::<()>() as usize,
    }
}

/// The zone of the location.
fn zone(ex: &mut Exchange, cx: &Cx) -> Option<Arc<Zone>> {
    let cache = cx.origin(ex)?.policy.directives()?.cache.as_ref()?;
    let zone = directives::zone(cache, ex, cx).ok().flatten()?;
    Some(Arc::clone(cx.zone(zone)))
}

/// Whether a page that was fetched is there still. One that was purged meanwhile is not.
pub fn is_there(zone: &Zone, key: &[u8]) -> bool {
    zone.may_have(&KeyRef::new(key))
}

/// Why the request ended before it came to an origin.
fn why_not(ex: &Exchange, cx: &Cx) -> &'static str {
    let loc = cx.loc(ex);
    let is_cached = |origin: &Origin| origin.policy.directives().is_some_and(|policy| policy.cache.is_some());
    match &loc.handler {
        _ if !is_wanted(ex.request.nested.purpose, &loc.settings.purging) => {
            "its location has neither larder_warm nor larder_refill"
        }
        Handler::Origin(origin) if is_cached(origin) => NOT_FOR_ALL,
        _ => "its location stores no pages",
    }
}

/// `step`, if it is on the way to a page that is stored; else the end.
pub fn only_of_refills(step: Step, ex: &mut Exchange, cx: &Cx) -> Step {
    let is_asked = ex.upstream.status.is_some() || !ex.tally.attempts.is_empty();
    match step {
        // An error page is no page to be stored, and what is there stays that of its origin.
        Step::Route(_) | Step::Find | Step::Redirect(_) | Step::Restart | Step::Handle | Step::Synth(_) if is_asked => {
            Step::Abort
        }
        Step::Slow(Slow::Wait(_)) => {
            // A visitor's fetch brings it.
            ex.upstream.cache_status = Some(CacheStatus::Updating);
            Step::Abort
        }
        Step::Handle => handle(ex, cx),
        Step::Slow(Slow::Fetch(plan)) if plan.storing.is_some() && may_ask(ex, cx) => plan.into(),
        Step::Deliver(response) => Step::Part(response),
        Step::Route(_)
        | Step::Find
        | Step::Redirect(_)
        | Step::Restart
        | Step::Lookup
        | Step::LookInZone(_)
        | Step::Synth(_)
        | Step::Part(_)
        | Step::Slow(Slow::Load(_) | Slow::Share(_) | Slow::Gather(_) | Slow::PurgeFirst(_)) => step,
        Step::Slow(_) | Step::Page(_) | Step::Send(_) | Step::Abort => Step::Abort,
    }
}

/// Whether the origin neither rests nor has enough to do, which makes it rest for a moment.
fn may_ask(ex: &Exchange, cx: &Cx) -> bool {
    let Some(origin) = cx.origin(ex) else { return false };
    let (refill, place) = (&cx.worker.shared.refill, place_of(origin, cx));
    if !gate::is_idle(&origin.backend, cx) {
        refill.busy(place, cx.now());
    }
    refill.resting(place, cx.now()).is_none()
}

/// Whether a location wants pages that are fetched for this reason.
fn is_wanted(purpose: Purpose, purging: &Purging) -> bool {
    match purpose {
        Purpose::Refill(Reason::Purged) => purging.refill.is_some(),
        Purpose::Refill(Reason::Ahead(_)) => purging.warm.as_ref().is_some_and(|warm| warm.ahead_percent.is_some()),
        Purpose::Refill(Reason::Named) => purging.warm.is_some(),
        _ => false,
    }
}

/// The answer of a location that wants the page; an index may lead to one.
fn handle(ex: &mut Exchange, cx: &Cx) -> Step {
    let loc = cx.loc(ex);
    match &loc.handler {
        Handler::Static => files::serve(ex, cx),
        Handler::Origin(origin)
            if is_wanted(ex.request.nested.purpose, &loc.settings.purging)
                && loc.settings.parts.slice_bytes == 0
                && origin.policy.directives().is_some_and(|policy| policy.cache.is_some()) =>
        {
            Step::Lookup
        }
        _ => Step::Abort,
    }
}

/// Where requests for a page come in, and its host: where the one did that it was made for, or else as [`way_to`] says.
fn way_of<'a>(page: &'a Page, site: &'a Site) -> Option<(&'a Listener, &'a [u8])> {
    match page.came {
        Some(came) if !page.host.is_empty() => {
            let is_its = |listener: &Listener| {
                listener.tls == page.is_https && port_of(listener).unwrap_or_default() == came.port
            };
            Some((way_by(is_its, &page.host, site)?, &page.host))
        }
        Some(_) | None => way_to(page.is_https, &page.host, site),
    }
}

/// Where a request for the page would come in, and its host. `None` unless that leads to one server at all listeners of its
/// scheme. A page of every host, whose key has none, is asked for by the name of the only server.
pub fn way_to<'a>(is_https: bool, host: &'a [u8], site: &'a Site) -> Option<(&'a Listener, &'a [u8])> {
    let all = || site.listeners.iter().filter(|listener| listener.tls == is_https);
    let first = all().next()?;
    let host = match host {
        b"" => {
            let is_alone = |listener: &Listener| listener.names.servers().all(|server| server == first.default);
            let is_only = all().all(|listener| listener.default == first.default && is_alone(listener));
            let name = &*site.servers[first.default].name;
            // `_` and the like are no hosts.
            let is_host = name.contains(&b'.') && first.names.exact.contains_key(name);
            Some(name).filter(|_| is_only && is_host)?
        }
        host => host,
    };
    Some((way_by(|listener| listener.tls == is_https, host, site)?, host))
}

/// Of these listeners the one at the usual port, or the first; `None` unless the host leads to one server at all of them.
fn way_by<'a>(is_meant: impl Fn(&Listener) -> bool, host: &[u8], site: &'a Site) -> Option<&'a Listener> {
    let all = || site.listeners.iter().filter(|listener| is_meant(listener));
    let is_usual = |listener: &&Listener| port_of(listener) == Some(usual_port(listener));
    let listener = all().find(is_usual).or_else(|| all().next())?;
    all().all(|other| server_at(other, host) == server_at(listener, host)).then_some(listener)
}

/// The server that a host leads to at a listener.
pub fn server_at(listener: &Listener, host: &[u8]) -> usize {
    let named = listener.names.find(host, |name| name.regex.is_match(host).unwrap_or(false));
    named.unwrap_or(listener.default)
}

/// The port of a listener; `None` for a path.
pub fn port_of(listener: &Listener) -> Option<u16> {
    Some(listener.address.tcp()?.port())
}

/// The port that browsers ask by its scheme.
pub fn usual_port(listener: &Listener) -> u16 {
    if listener.tls { 443 } else { 80 }
}

/// Method, path and host of a request, a line each. The method ends with a space.
pub fn first_lines(method: &[u8], uri: &[u8], host: &[u8], port: Option<u16>) -> Vec<u8> {
    let mut head = Vec::new();
    for part in [method, uri, b" HTTP/1.1\r\nHost: ", host] {
        head.extend_from_slice(part);
    }
    if let Some(port) = port {
        head.extend_from_slice(format!(":{port}").as_bytes());
    }
    head.extend_from_slice(b"\r\n");
    head
}

/// The request: as the one that the page was made for, as far as that is known.
fn head(page: &Page, host: &[u8]) -> Vec<u8> {
    let port = page.came.map(|came| came.host_port).filter(|port| *port != 0);
    let mut head = first_lines(b"GET ", &page.uri, host, port);
    head.extend_from_slice(b"User-Agent: larder (refill)\r\n");
    let is_said = page.fields.iter().any(|(name, _)| &**name == "x-forwarded-proto");
    if page.came.is_some_and(|came| came.is_secured_before) && !is_said {
        head.extend_from_slice(SECURED_BEFORE);
    }
    for (name, value) in page.fields.iter().filter(|(_, value)| !value.is_empty()) {
        for part in [name.as_bytes(), b": ", value, b"\r\n"] {
            head.extend_from_slice(part);
        }
    }
    head.extend_from_slice(b"\r\n");
    head
}

/// Who asks: from this address, at this listener.
pub fn client(listener: &Listener, from: Option<IpAddr>, now: Time) -> Client {
    let local = listener.address.tcp();
    Client {
        id: 0,
        peer: from.map(|ip| SocketAddr::new(ip, 0)),
        ids: None,
        local,
        bound: listener.address.clone(),
        began: now,
        proxy: None,
        secured: if listener.tls { Secured::Said } else { Secured::Not },
        xid: Cell::new(0),
        log: RefCell::default(),
    }
}

/// What a proxy says in front of which visitors speak TLS.
pub const SECURED_BEFORE: &[u8] = b"X-Forwarded-Proto: https\r\n";
/// An address that nobody has (RFC 5737), so that no rule for one's own addresses gives it more than a visitor gets.
const NOBODY: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
/// Why a request is not made that leads to several servers, or to none.
pub const NOT_ONE_SERVER: &str = "its host does not lead to one server at all addresses of its scheme";
const NOT_FOR_ALL: &str = "not everybody may ask for it";
/// How long the head of an answer, and then its body, may take.
const HEAD_TIME_MAX: Duration = Duration::from_secs(60);
const BODY_TIME_MAX: Duration = Duration::from_secs(60);
/// How much of a body is looked at at once.
const PIECE_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use larder_cache::Came;

    use super::*;

    #[test]
    fn a_page_is_asked_for_as_by_somebody_unknown() {
        let fields = [("accept-language", "de"), ("cookie", "")];
        let page = Page {
            is_https: false,
            host: (*b"a.example").into(),
            uri: (*b"/b?c=%20").into(),
            hits: 1,
            fields: fields.map(|(name, value)| (name.into(), value.as_bytes().into())).into(),
            per_second: 1,
            reason: Reason::Purged,
            pass: None,
            tries: 0,
            since: Time(0),
            origin: None,
            came: None,
        };
        let expected = "GET /b?c=%20 HTTP/1.1\r\nHost: a.example\r\nUser-Agent: larder (refill)\r\n\
                        accept-language: de\r\n\r\n";
        assert_eq!(String::from_utf8(head(&page, b"a.example")).as_deref(), Ok(expected));
        // As whom it was made for.
        let came = Came { port: 80, host_port: 8080, is_secured_before: true };
        let expected = "GET /b?c=%20 HTTP/1.1\r\nHost: a.example:8080\r\nUser-Agent: larder (refill)\r\n\
                        X-Forwarded-Proto: https\r\naccept-language: de\r\n\r\n";
        let page = Page { came: Some(came), ..page };
        assert_eq!(String::from_utf8(head(&page, b"a.example")).as_deref(), Ok(expected));
    }
}
