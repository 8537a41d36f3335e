//! One request and its response, from the head to the log line: what all steps share, sorted by how long it lives.
//!
//! | part         | redirect                       | restart              | subrequest     | refetch, slice        |
//! | ------------ | ------------------------------ | -------------------- | -------------- | --------------------- |
//! | [`Asked`]    | kept                           | kept                 | a copy         | a copy                |
//! | [`Request`]  | kept, with another URI         | kept                 | a GET of a URI | a copy                |
//! | [`Visit`]    | begun                          | kept, but for slices | begun          | a copy                |
//! | [`Upstream`] | kept until a location asks     | forgotten            | its own        | its own, with the key |
//! | [`Reply`]    | kept until another is laid out | forgotten            | its own        | its own               |
//! | [`Tally`]    | kept                           | kept                 | its own        | its own               |
//! | [`Eval`]     | kept                           | kept                 | shares values  | a copy                |
//! | [`Recording`]| kept                           | another begins       | its own        | its own, linked to it |
//!
//! Another request of the connection begins with nothing of it ([`Exchange::reset`]).
//!
//! Exchanges are pooled by their worker, so that a hit reuses the buffers of the one before.

mod asked;
mod cause;
mod client;
mod eval;
pub mod feed;
mod modules;
mod recording;
mod reply;
mod request;
mod slicing;
mod ssi;
mod tally;
mod upstream;
mod vcl;
mod visit;

use std::net::IpAddr;
use std::rc::Rc;

use larder_cache::{EachLine, vary};
use larder_http::Method;

pub use asked::Asked;
pub use cause::Cause;
pub use client::{Client, Secured, Tls};
pub use eval::{Eval, Evaluation, Refusal, Slot, Values};
pub use modules::{ModuleTask, Var, Vars};
pub use recording::Recording;
pub use reply::{Choice, Composed, Framing, Reply, Silent};
pub use request::{Limits, Nested, Purpose, Request, RequestBody, Sub, Uid, Way, url};
pub use slicing::{Place, Slice, SliceError, Slicing, place_in};
pub use ssi::SsiShared;
pub use tally::{Report, Reported, Tally};
pub use upstream::{CacheStatus, Part, Upstream};
pub use vcl::{AnswerTask, BodyUse, ClientTask, FetchTask, Stage, Top, VclState};
pub use visit::Visit;

/// How many times a URI may change in one exchange, as in nginx.
pub const URI_CHANGES_MAX: u8 = 10;
/// How many times a policy may begin a request anew, as in Varnish (`max_restarts`).
pub const RESTARTS_MAX: u8 = 4;
/// How deep subrequests may be nested, as in nginx.
pub const SUBREQUESTS_MAX: u8 = 51;
/// A pooled buffer that has grown larger than this is freed.
const KEPT_BYTES_MAX: usize = 64 * 1024;

/// One request and its response.
pub struct Exchange {
    /// What the client sent.
    pub asked: Asked,
    /// What is requested now, after redirects.
    pub request: Request,
    /// What this visit to a location knows.
    pub visit: Visit,
    /// What the cache and the origin have said.
    pub upstream: Upstream,
    /// The response that is being built.
    pub reply: Reply,
    /// Counts and guards, for limits and logs.
    pub tally: Tally,
    /// Values of variables, captures, and buffers.
    pub eval: Eval,
    /// What a VCL knows of it.
    pub vcl: VclState,
    /// What the transaction log is told of it.
    pub log: Recording,
}

impl Exchange {
    /// An exchange for the first request of a connection.
    pub fn new(client: Rc<Client>) -> Box<Self> {
        Self::of(Asked::new(client), Request::default())
    }

    fn of(asked: Asked, request: Request) -> Box<Self> {
        Box::new(Self {
            asked,
            request,
            visit: Visit::default(),
            upstream: Upstream::default(),
            reply: Reply::default(),
            tally: Tally::default(),
            eval: Eval::default(),
            vcl: VclState::default(),
            log: Recording::default(),
        })
    }

    /// Prepares the exchange for the next request of `client`; buffers keep their memory.
    pub fn reset(&mut self, client: &Rc<Client>) {
        let Self { asked, request, visit, upstream, reply, tally, eval, vcl, log } = self;
        asked.reset(client);
        request.reset();
        visit.reset();
        upstream.reset();
        reply.reset();
        tally.reset();
        eval.reset();
        vcl.reset();
        log.reset();
    }

    /// Releases what others may wait for: limits, files, fields of the origin. Buffers keep their memory.
    pub fn release(&mut self) {
        self.request.body = RequestBody::None;
        self.tally.guards.clear();
        self.tally.report = Reported::No;
        self.tally.attempts.clear();
        self.reply.upgraded = None;
        self.upstream.fields = None;
        self.vcl.page = None;
        self.log.reset();
    }

    /// Puts the request for a backend in the place of the client's, so that it is what is sent.
    pub fn wear_bereq(&mut self) {
        self.exchange_bereq();
    }

    /// Puts the client's request back.
    pub fn take_bereq_off(&mut self) {
        self.exchange_bereq();
    }

    fn exchange_bereq(&mut self) {
        let fetch = &mut self.vcl.fetch;
        std::mem::swap(&mut self.asked.head, &mut fetch.bereq);
        self.request.method = self.asked.head.method;
        if !fetch.has_body {
            // What a VCL keeps from its backend is kept from that of the location, too.
            std::mem::swap(&mut self.request.body, &mut fetch.unsent);
        }
    }

    /// The target of the request before a policy has changed it.
    pub fn client_target(&self) -> &[u8] {
        match self.vcl.is_changed {
            true => self.vcl.original.target(),
            false => self.asked.head.target(),
        }
    }

    /// Leaves the location by an internal redirect.
    pub fn leave(&mut self) {
        self.request.way.internal = true;
        self.visit.reset();
        self.vcl.origin = 0;
    }

    /// Begins anew at the first question to the policy of this location, with what has been changed of the request.
    pub fn restart(&mut self) {
        self.request.way.restarts = self.request.way.restarts.saturating_add(1);
        self.visit.slicing = Slicing::default();
        self.upstream.reset();
        self.begin_reply();
    }

    /// Forgets the response, but not whether the connection is kept.
    pub fn begin_reply(&mut self) {
        let keep_alive = self.reply.framing.keep_alive;
        self.reply.reset();
        self.reply.framing.keep_alive = keep_alive;
    }

    /// What tells the variants of a page apart: the fields of the request, but for cookies that change no page.
    pub fn selecting(&self) -> impl Fn(&str, EachLine<'_>) + '_ {
        let of_fields = larder_cache::selecting(&self.asked.head.fields);
        let omits = self.upstream.omits_cookies;
        move |name: &str, line: EachLine<'_>| {
            let is_cookie = || name.eq_ignore_ascii_case("cookie") || name.starts_with(vary::COOKIE);
            if !(omits && is_cookie()) {
                of_fields(name, line);
            }
        }
    }

    /// A copy for a refetch in the background: the same request, in the same location, for which no client waits.
    pub fn for_refetch(&self) -> Box<Self> {
        let mut copy = Self::of(self.asked.clone(), self.request.again());
        copy.visit = self.visit.clone();
        copy.upstream.cache_key.clone_from(&self.upstream.cache_key);
        copy.upstream.part = self.upstream.part;
        copy.upstream.omits_cookies = self.upstream.omits_cookies;
        copy.upstream.key_reads_ignored = self.upstream.key_reads_ignored;
        copy.eval = self.eval.again();
        copy.vcl = self.vcl.again();
        copy.log = self.log.again();
        copy
    }

    /// A copy for the task that composes the page while the response is being sent: the request, and what is known of
    /// the response so far.
    pub fn for_page(&self) -> Box<Self> {
        let mut copy = self.for_refetch();
        copy.upstream = self.upstream.clone();
        copy.tally.attempts.clone_from(&self.tally.attempts);
        copy.tally.report.clone_from(&self.tally.report);
        copy.reply.status = self.reply.status;
        copy.reply.fields.clone_from(&self.reply.fields);
        copy.eval.values = Rc::clone(&self.eval.values);
        copy
    }

    /// A subrequest (ngx_http_subrequest): a GET of `uri` with the client's connection and fields, from the first step
    /// on.
    ///
    /// It has the body as far as that was read, and shares the variables.
    pub fn inside(&self, uri: Vec<u8>, args: Vec<u8>) -> Box<Self> {
        let mut inner = Self::of(self.asked.clone(), self.request.inside(uri, args));
        inner.eval.values = Rc::clone(&self.eval.values);
        inner
    }

    /// Whether this is a subrequest.
    pub fn is_sub(&self) -> bool {
        self.request.nested.sub.is_some()
    }

    /// The client's address: the peer's, or what `real_ip_header` made of it.
    pub fn remote_ip(&self) -> Option<IpAddr> {
        self.asked.real_ip.map(|(ip, _)| ip).or_else(|| self.asked.client.peer.map(|peer| peer.ip()))
    }

    /// Gives the response the status that an `error_page` keeps or sets; false where none does.
    pub fn take_error_status(&mut self) -> bool {
        let Some(status) = self.request.way.error_status.take() else { return false };
        self.reply.status = status;
        self.reply.reason.clear();
        true
    }

    /// Whether the request is only walked through, so that nothing may come of it.
    pub fn is_walk(&self) -> bool {
        self.request.nested.purpose == Purpose::Walk
    }

    /// Whether larder asks for it by itself, without a client.
    pub fn is_unasked(&self) -> bool {
        matches!(self.request.nested.purpose, Purpose::Refill(_) | Purpose::Read)
    }

    /// Whether it fills the cache without a client.
    pub fn is_refill(&self) -> bool {
        matches!(self.request.nested.purpose, Purpose::Refill(_))
    }

    /// Whether only a head is asked for.
    pub fn is_head(&self) -> bool {
        self.request.method == Method::Head
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use larder_conf::model::ListenAddress;
    use larder_http::Time;

    use super::*;

    fn client() -> Rc<Client> {
        Rc::new(Client {
            id: 1,
            peer: None,
            local: None,
            bound: ListenAddress::Unix("/run/a.sock".into()),
            began: Time(0),
            proxy: None,
            secured: Secured::Not,
            xid: Cell::default(),
            log: RefCell::default(),
            ids: None,
        })
    }

    /// An exchange in the middle of its life: every part holds something.
    fn busy(client: &Rc<Client>) -> Box<Exchange> {
        let mut ex = Exchange::new(Rc::clone(client));
        ex.asked.number = 3;
        ex.request.uri.extend_from_slice(b"/a");
        ex.request.way.error_page = true;
        ex.request.limits.conn_asked = true;
        ex.request.body = RequestBody::Memory("a=b".into());
        ex.visit.authorized = true;
        ex.visit.proxy_host.extend_from_slice(b"origin");
        ex.upstream.cache_status = Some(CacheStatus::Hit);
        ex.upstream.cache_key.extend_from_slice(b"key");
        ex.reply.status = 200;
        ex.reply.fields.push(b"X", b"1");
        ex.tally.sent = (10, 5);
        let value = ex.eval.keep(b"value");
        ex.eval.set_slot(0, value);
        ex
    }

    /// What each part holds: number, URI, body, authorized, cache status, status, bytes sent, variable.
    fn shown(ex: &Exchange) -> String {
        format!(
            "{} {} {} {} {:?} {} {} {:?}",
            ex.asked.number,
            String::from_utf8_lossy(&ex.request.uri),
            matches!(ex.request.body, RequestBody::Memory(_)),
            ex.visit.authorized,
            ex.upstream.cache_status,
            ex.reply.status,
            ex.tally.sent.0,
            ex.eval.slot(0),
        )
    }

    #[test]
    fn each_part_holds_as_long_as_it_says() {
        let client = client();
        let ex = busy(&client);
        assert_eq!(shown(&ex), "3 /a true true Some(Hit) 200 10 Value(0, 5)");
        let mut left = busy(&client);
        left.leave();
        assert_eq!(shown(&left), "3 /a true false Some(Hit) 200 10 Value(0, 5)");
        assert!(left.request.way.internal && left.visit.proxy_host.is_empty());
        assert_eq!(shown(&ex.for_refetch()), "3 /a true true None 0 0 Value(0, 5)");
        assert_eq!(ex.for_refetch().upstream.cache_key, b"key");
        assert_eq!(shown(&ex.for_page()), "3 /a true true Some(Hit) 200 0 Value(0, 5)");
        let mut restarted = busy(&client);
        restarted.reply.framing.keep_alive = true;
        restarted.restart();
        assert!(restarted.reply.framing.keep_alive);
        assert_eq!(shown(&restarted), "3 /a true true None 0 10 Value(0, 5)");
        assert_eq!(restarted.visit.proxy_host, b"origin");
        assert!(restarted.upstream.cache_key.is_empty() && restarted.reply.fields.is_empty());
        let inner = ex.inside(b"/b".to_vec(), Vec::new());
        assert_eq!(shown(&inner), "3 /b true false None 0 0 Value(0, 5)");
        assert!(inner.is_sub() && inner.request.limits.conn_asked && !inner.request.way.error_page);
        let mut again = busy(&client);
        again.reset(&client);
        assert_eq!(shown(&again), "0  false false None 0 0 Unset");
        assert!(again.reply.fields.is_empty() && again.upstream.cache_key.capacity() > 0);
    }

    #[test]
    fn a_refetch_has_variables_of_its_own_and_a_request_inside_shares_them() {
        let ex = busy(&client());
        let (mut refetch, mut inner) = (ex.for_refetch(), ex.inside(b"/b".to_vec(), Vec::new()));
        refetch.eval.set_slot(0, Slot::Absent);
        assert_eq!(ex.eval.slot(0), Slot::Value(0, 5));
        inner.eval.set_slot(0, Slot::Absent);
        assert_eq!(ex.eval.slot(0), Slot::Absent);
    }
}
