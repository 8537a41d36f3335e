//! A request without a client, which fills the cache: `larder_refill`.
//!
//! It is a GET of the page without cookies and credentials, and goes the way of every request: server, rewrites, location, key.
//! What it stores is what somebody unknown would have got. It meets no limits and no `allow` and `deny`, as nobody gets the
//! answer; where a password, a certificate or `auth_request` is asked for, and where it would purge, it ends. No access log has it.

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

use larder_cache::{KeyRef, Zone};
use larder_conf::model::ListenAddress;
use larder_http::Time;
use larder_store::Piece;
use larder_tls::VerifyMode;

use crate::context::Cx;
use crate::exchange::{CacheStatus, Client, Exchange, Purpose, Secured};
use crate::net::Inbound;
use crate::policy::directives;
use crate::refill::Page;
use crate::site::{Handler, Listener, Origin, Site, Target};
use crate::worker::Worker;

use super::{Content, Slow, Step, files, reasons, receive};

/// What has come of a page.
pub enum Outcome {
    /// It was fetched to be stored there, under this key.
    Stored(Arc<Zone>, Vec<u8>),
    /// It was there already.
    There,
    /// It is not to be stored, or no location answers for it that refills.
    Unstored,
    /// Its origin rests until then.
    Rests(Time),
    /// Its origin has failed, and rests until then.
    Failed(Time),
}

/// Fetches a page, and returns when it is whole.
pub async fn fetch(page: &Page, worker: &Rc<Worker>) -> Outcome {
    let cx = worker.cx();
    let Some(listener) = listener_for(page, cx.site()) else { return Outcome::Unstored };
    let mut ex = worker.exchange(&Rc::new(client(listener, cx.now())));
    ex.request.nested.purpose = Purpose::Refill;
    let outcome = match receive::begin_unseen(&head(page, listener), listener, &mut ex, &cx, cx.now()) {
        Ok(step) if cx.server(&ex).verify == VerifyMode::Off => {
            ex.request.limits.req_asked = true;
            ex.request.limits.conn_asked = true;
            ask(step, &mut ex, &cx).await
        }
        Ok(_) | Err(_) => Outcome::Unstored,
    };
    worker.recycle(ex);
    outcome
}

async fn ask(step: Step, ex: &mut Exchange, cx: &Cx) -> Outcome {
    let settled = super::run(step, ex, cx, Inbound::Nobody).await;
    let is_whole = match settled.and_then(|settled| settled.into_part()).map(|response| response.content) {
        // Of a failure nothing more is waited for.
        Some(_) if has_failed(ex) => false,
        Some(Content::Stream(mut body, _)) => loop {
            match body.next(PIECE_BYTES).await {
                Piece::Data(_) | Piece::File { .. } => {}
                Piece::End => break true,
                Piece::Pending | Piece::Failed(_) => break false,
            }
        },
        Some(_) | None => true,
    };
    let refill = &cx.worker.shared.refill;
    let Some(origin) = cx.origin(ex).map(|origin| place_of(origin, cx)) else { return Outcome::Unstored };
    let is_asked = ex.upstream.status.is_some() || !ex.tally.attempts.is_empty();
    if !is_asked {
        return match (refill.resting(origin, cx.now()), ex.upstream.cache_status) {
            (_, Some(CacheStatus::Hit | CacheStatus::Updating)) => Outcome::There,
            (Some(until), Some(CacheStatus::Miss | CacheStatus::Expired | CacheStatus::Bypass)) => {
                Outcome::Rests(until)
            }
            (_, _) => Outcome::Unstored,
        };
    }
    if has_failed(ex) || !is_whole {
        return Outcome::Failed(refill.failed(origin, cx.now()));
    }
    refill.succeeded(origin);
    let is_stored = ex.upstream.cache_status == Some(CacheStatus::Revalidated) || reasons::is_stored(ex);
    match zone(ex, cx).filter(|_| is_stored) {
        Some(zone) => Outcome::Stored(zone, ex.upstream.cache_key.clone()),
        None => Outcome::Unstored,
    }
}

/// Notes for the refill that a visitor's fetch has failed.
pub fn note_failure(ex: &Exchange, cx: &Cx) {
    if ex.request.nested.purpose == Purpose::Answer
        && has_failed(ex)
        && let Some(origin) = cx.origin(ex)
    {
        cx.worker.shared.refill.visitor_failed(place_of(origin, cx), cx.now());
    }
}

/// Whether an origin that was asked gave no answer, or has too much to do, or fails.
fn has_failed(ex: &Exchange) -> bool {
    ex.upstream.status.is_none_or(|status| status >= 500 || status == TOO_MANY_REQUESTS)
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

/// `step`, if it is on the way to a page that is stored; else the end.
pub fn only_of_refills(step: Step, ex: &mut Exchange, cx: &Cx) -> Step {
    match step {
        Step::Handle => handle(ex, cx),
        Step::Slow(Slow::Fetch(plan)) if plan.storing.is_some() && !rests(ex, cx) => plan.into(),
        Step::Deliver(response) => Step::Part(response),
        Step::Route(_)
        | Step::Find
        | Step::Redirect(_)
        | Step::Restart
        | Step::Lookup
        | Step::LookInZone(_)
        | Step::Synth(_)
        | Step::Part(_)
        | Step::Slow(Slow::Load(_) | Slow::Gather(_) | Slow::PurgeFirst(_)) => step,
        Step::Slow(_) | Step::Page(_) | Step::Send(_) | Step::Abort => Step::Abort,
    }
}

fn rests(ex: &Exchange, cx: &Cx) -> bool {
    let rest = |origin: &Origin| cx.worker.shared.refill.resting(place_of(origin, cx), cx.now());
    cx.origin(ex).and_then(rest).is_some()
}

/// The answer of a location that refills; an index may lead to one.
fn handle(ex: &mut Exchange, cx: &Cx) -> Step {
    let loc = cx.loc(ex);
    match &loc.handler {
        Handler::Static => files::serve(ex, cx),
        Handler::Origin(origin)
            if loc.settings.purging.refill.is_some()
                && loc.settings.parts.slice_bytes == 0
                && origin.policy.directives().is_some_and(|policy| policy.cache.is_some()) =>
        {
            Step::Lookup
        }
        _ => Step::Abort,
    }
}

/// Where a request for the page would come in.
fn listener_for<'a>(page: &Page, site: &'a Site) -> Option<&'a Listener> {
    let all = || site.listeners.iter().filter(|listener| listener.tls == page.is_https);
    let is_usual = |listener: &&Listener| port_of(listener) == Some(usual_port(listener));
    let names = |listener: &&Listener| listener.names.exact.contains_key(&*page.host);
    let has_any = |listener: &&Listener| listener.by_host;
    all()
        .filter(names)
        .find(is_usual)
        .or_else(|| all().find(names))
        .or_else(|| all().filter(has_any).find(is_usual))
        .or_else(|| all().find(is_usual))
        .or_else(|| all().next())
}

fn port_of(listener: &Listener) -> Option<u16> {
    match &listener.address {
        ListenAddress::Tcp(address) => Some(address.port()),
        ListenAddress::Unix(_) => None,
    }
}

fn usual_port(listener: &Listener) -> u16 {
    if listener.tls { 443 } else { 80 }
}

fn head(page: &Page, listener: &Listener) -> Vec<u8> {
    let mut head = Vec::new();
    for part in [b"GET ", &*page.uri, b" HTTP/1.1\r\nHost: ", &page.host] {
        head.extend_from_slice(part);
    }
    if let Some(port) = port_of(listener).filter(|port| *port != usual_port(listener)) {
        head.extend_from_slice(format!(":{port}").as_bytes());
    }
    head.extend_from_slice(b"\r\nUser-Agent: larder (refill)\r\n");
    let is_wanted = |name: &str| !PRIVATE.contains(&name);
    for (name, value) in page.fields.iter().filter(|(name, value)| is_wanted(name) && !value.is_empty()) {
        for part in [name.as_bytes(), b": ", value, b"\r\n"] {
            head.extend_from_slice(part);
        }
    }
    head.extend_from_slice(b"\r\n");
    head
}

/// Fields that are not taken over from who was asked for a page: they say who that was, or are ours.
const PRIVATE: [&str; 6] = ["cookie", "authorization", "proxy-authorization", "host", "user-agent", "content-length"];

fn client(listener: &Listener, now: Time) -> Client {
    let local = match &listener.address {
        ListenAddress::Tcp(address) => Some(*address),
        ListenAddress::Unix(_) => None,
    };
    Client {
        id: 0,
        peer: Some(SocketAddr::new(NOBODY, 0)),
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

/// An address that nobody has (RFC 5737), so that no rule for one's own addresses gives it more than a visitor gets.
const NOBODY: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
/// Too Many Requests (RFC 6585): it has too much to do.
const TOO_MANY_REQUESTS: u16 = 429;
/// How much of a body is looked at at once.
const PIECE_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_asked_for_as_by_somebody_unknown() {
        let listener = Listener {
            address: ListenAddress::Tcp(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 8080)),
            default: 0,
            names: crate::site::NameTable::default(),
            by_host: false,
            tls: false,
            http2: false,
            proxy_protocol: false,
        };
        let fields = [("accept-language", "de"), ("cookie", "a=b"), ("authorization", "Basic x"), ("x-empty", "")];
        let page = Page {
            is_https: false,
            host: (*b"a.example").into(),
            uri: (*b"/b?c=%20").into(),
            hits: 1,
            fields: fields.map(|(name, value)| (name.into(), value.as_bytes().into())).into(),
            per_second: 1,
            tries: 0,
            since: Time(0),
        };
        let expected = "GET /b?c=%20 HTTP/1.1\r\nHost: a.example:8080\r\nUser-Agent: larder (refill)\r\n\
                        accept-language: de\r\n\r\n";
        assert_eq!(String::from_utf8(head(&page, &listener)).as_deref(), Ok(expected));
    }
}
