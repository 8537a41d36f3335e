//! One request and its response, from the head to the log line: all that the steps share.
//!
//! Exchanges are pooled by their worker, so that a hit reuses the buffers of the one before.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use larder_conf::model::{AskedAbout, ListenAddress};
use larder_http::{Fields, Method, RequestHead, Time, proxy_protocol};
use larder_origin::Attempt;
use larder_tls::Session;

use crate::limit::ConnGuard;
use crate::regex::Captures;
use crate::request::Synth;
use crate::request::compose::Composed;
use crate::request::compress::Choice;
use crate::request::feed::Feed;
use crate::request::slice::Slicing;
use crate::request::ssi::Shared;
use crate::site::{Listener, Site, VirtualServer, listener_for};
use crate::tempfile::Temp;

/// What one connection's exchanges have in common.
pub struct Client {
    /// The number of the connection, for logs.
    pub id: u64,
    /// Who asks; `None` for a unix socket.
    pub peer: Option<SocketAddr>,
    /// The address that was connected to.
    pub local: Option<SocketAddr>,
    /// The address that is listened at.
    pub bound: ListenAddress,
    /// When it was accepted.
    pub began: Time,
    /// What a proxy said of it before the first byte.
    pub proxy: Option<Box<proxy_protocol::Header>>,
    /// Whether it is private.
    pub secured: Secured,
}

/// Whether a connection is private.
pub enum Secured {
    /// In the clear.
    Not,
    /// In the clear, where TLS was expected: all it gets is an error page.
    PlainOnTls,
    /// TLS.
    Tls(Box<Tls>),
}

/// What TLS knows of a client.
pub struct Tls {
    /// The session.
    pub session: Rc<RefCell<Session>>,
    /// The virtual server whose certificate it was shown, by its first name: places change with a reload.
    pub server: Box<[u8]>,
    /// By what its own certificate was judged.
    pub judge: Arc<ClientJudge>,
}

/// By what the certificates of clients are judged. Two that say the same judge alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientJudge {
    /// `ssl_client_certificate`.
    pub authorities: Option<PathBuf>,
    /// `ssl_trusted_certificate`.
    pub trusted: Option<PathBuf>,
    /// `ssl_crl`.
    pub revoked: Option<PathBuf>,
    /// `ssl_verify_depth`.
    pub depth: u32,
    /// `ssl_ocsp`.
    pub asks: Option<AskedAbout>,
}

impl Secured {
    /// By this session with `server`, whose handshake was that of `shown`.
    pub fn tls(session: Rc<RefCell<Session>>, server: &VirtualServer, shown: &VirtualServer) -> Self {
        Self::Tls(Box::new(Tls { session, server: server.name.clone(), judge: Arc::clone(&shown.judge) }))
    }
}

impl Client {
    /// The same with what TLS knows of it.
    pub fn with(&self, secured: Secured) -> Self {
        let Self { id, peer, local, bound, began, proxy, secured: _ } = self;
        Self { id: *id, peer: *peer, local: *local, bound: bound.clone(), began: *began, proxy: proxy.clone(), secured }
    }

    /// Where the connection was accepted, in the configuration of now; `None` when it listens there no more.
    pub fn listener<'a>(&self, site: &'a Site) -> Option<&'a Listener> {
        listener_for(&site.listeners, &self.bound, self.local).map(|place| &site.listeners[place])
    }

    /// Whether what is said cannot be overheard.
    pub fn is_secure(&self) -> bool {
        matches!(self.secured, Secured::Tls(_))
    }

    /// Who asks, for logs.
    pub fn address(&self) -> String {
        self.peer.map_or_else(|| "unix:".to_owned(), |peer| peer.ip().to_string())
    }
}

/// One request and its response.
pub struct Exchange {
    /// The request as it came.
    pub head: RequestHead,
    /// The connection it came by.
    pub client: Rc<Client>,
    /// Which request of its connection this is, from 1.
    pub number: u64,
    /// When the first byte of its head came.
    pub started: Time,
    /// The virtual server.
    pub server: usize,
    /// The location.
    pub location: usize,
    /// The method that counts now: `error_page` turns a POST into a GET.
    pub method: Method,
    /// The host asked for, lower case, without port; empty when there is none.
    pub host: Vec<u8>,
    /// The path, decoded and normal.
    pub uri: Vec<u8>,
    /// What follows the `?`.
    pub args: Vec<u8>,
    /// Whether `uri` or `args` differ from what the client sent, so that origins get them written anew.
    pub uri_changed: bool,
    /// How many more times the URI may change before it counts as a loop.
    pub changes_left: u8,
    /// Whether it came here by an internal redirect.
    pub internal: bool,
    /// What the groups of the last regular expression took.
    pub captures: Captures,
    /// Values of variables, shared with the requests inside this one.
    pub values: Rc<RefCell<Values>>,
    /// How deep variables ask for each other.
    pub depth: u8,
    /// Whether every pattern and variable so far could be evaluated.
    pub evaluation: Evaluation,
    /// Buffers to borrow.
    pub scratch: Vec<Vec<u8>>,
    /// The body of the request.
    pub body: RequestBody,
    /// What the chunks of the body took beside what is in them, bytes.
    pub chunk_bytes: u64,
    /// The response.
    pub out: ResponseParts,
    /// Whether an `error_page` is being answered.
    pub error_page: bool,
    /// The status that an `error_page` keeps or sets.
    pub error_status: Option<u16>,
    /// What the cache did; `None` when it was not asked.
    pub cache_status: Option<CacheStatus>,
    /// Why, for `Cache-Status`.
    pub cache_detail: &'static str,
    /// Until when the stored page is fresh that is delivered, for `Cache-Status`.
    pub fresh_until: Option<Time>,
    /// The key that was looked up, for `Cache-Status` and logs.
    pub cache_key: Vec<u8>,
    /// What was tried at origins.
    pub attempts: Vec<Attempt>,
    /// Fields of the origin's answer, or of the object's.
    pub origin_fields: Option<Fields>,
    /// Status of the origin's answer.
    pub origin_status: Option<u16>,
    /// Host and port of `proxy_pass`, for `$proxy_host`.
    pub proxy_host: Vec<u8>,
    /// `$remote_addr` as `real_ip_header` has it.
    pub real_ip: Option<(IpAddr, u16)>,
    /// Whether the connection is kept after this.
    pub keep_alive: bool,
    /// `set $limit_rate`, or `X-Accel-Limit-Rate`; bytes a second.
    pub limit_rate: Option<u64>,
    /// Bytes sent: all, and of the body.
    pub sent: (u64, u64),
    /// Connection limits held.
    pub guards: Vec<ConnGuard>,
    /// Whether `limit_conn` and `limit_req` have been asked already.
    pub limited: (bool, bool),
    /// What the task that takes the body from the origin has counted.
    pub report: Option<Rc<crate::pump::Report>>,
    /// The connection to an origin that has switched protocols.
    pub upgraded: Option<larder_origin::Upgraded>,
    /// Fields that X-Accel-Redirect brings along, for the response it leads to.
    pub accel_fields: Option<Fields>,
    /// Whether all of the response has been sent.
    pub is_complete: bool,
    /// Whether the log lines are being written.
    pub is_logging: bool,
    /// Whether the body was found too large already, so that an error page is not refused for it.
    pub body_refused: bool,
    /// Whether the URI is the one that the location was found by, so that `proxy_pass` may replace its beginning.
    pub path_is_the_locations: bool,
    /// Whether `try_files` found a name below the alias of a regular expression.
    pub alias_takes_uri: bool,
    /// `$limit_req_status`.
    pub limit_req_status: Option<&'static str>,
    /// `$limit_conn_status`.
    pub limit_conn_status: Option<&'static str>,
    /// Which slice of its page is asked for.
    pub slicing: Slicing,
    /// When it stops waiting for another's fetch.
    pub lock_until: Option<Time>,
    /// Whether the password has been checked for this location.
    pub authorized: bool,
    /// Whether `auth_request` has been asked for this location.
    pub auth_asked: bool,
    /// Whether the request has been mirrored from this location.
    pub mirrored: bool,
    /// What makes it a request inside another one; `None` for one that a client sent.
    pub sub: Option<Box<Sub>>,
    /// What the SSI pages of a request and of those inside it share.
    pub ssi: Option<Rc<Shared>>,
    /// What `config timefmt` said in this page.
    pub time_format: Option<Rc<[u8]>>,
    /// What is known of a body that is put together of several; `None` for others.
    pub composed: Option<Rc<Composed>>,
    /// What becomes of the body on its way out.
    pub choice: Choice,
    /// Whether a file that was compressed beforehand lies beside the one that is asked for.
    pub has_packed: bool,
    /// Bytes of the body before and after it was compressed, for `$gzip_ratio`.
    pub squeezed: Option<(u64, u64)>,
    /// Whether the head could not be read, so that what follows it is not to be trusted.
    pub head_is_bad: bool,
    /// What the smaller modules remember of it.
    pub by_modules: crate::modules::State,
}

/// What makes a request one inside another.
#[derive(Clone, Debug)]
pub struct Sub {
    /// How many more may lie inside this one, one in the other.
    pub nesting_left: u8,
    /// Whether a block of the page stands in for an answer that is an error or empty.
    pub has_stub: bool,
    /// Whether the answer goes to a variable.
    pub in_memory: bool,
    /// Whether nobody wants more than the head of the answer.
    pub head_only: bool,
}

/// Values of variables with a slot, and of those that are made once a request.
#[derive(Clone, Debug, Default)]
pub struct Values {
    slots: Vec<Slot>,
    /// Where the values are.
    arena: Vec<u8>,
    /// What `$request_id` is, once somebody asked.
    pub request_id: Option<[u8; 32]>,
}

impl Values {
    /// Forgets them, and keeps the room.
    fn clear(&mut self) {
        self.slots.clear();
        self.arena.clear();
        self.arena.shrink_to(KEPT_BYTES_MAX);
        self.request_id = None;
    }

    /// The bytes of a value.
    pub fn bytes(&self, slot: Slot) -> Option<&[u8]> {
        match slot {
            Slot::Value(start, end) => self.arena.get(start as usize..end as usize),
            Slot::Unset | Slot::Absent => None,
        }
    }
}

/// The value of a variable with a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Slot {
    /// Nobody has asked yet.
    #[default]
    Unset,
    /// There is none.
    Absent,
    /// Bytes `start` to `end` of the arena.
    Value(u32, u32),
}

/// Whether what decides about a request could be evaluated: a pattern that reaches its limit and a variable that asks for
/// itself say nothing, and a request that they should have judged is refused instead of let through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Evaluation {
    /// It could.
    #[default]
    Sound,
    /// Something could not, and the request has yet to be refused.
    Failed,
    /// It has been refused; an `error_page` may be on its way.
    Refused,
    /// The same on the way to the `error_page`.
    FailedAgain,
    /// It has been refused for good, and only fields of the error page can still fail.
    Over,
}

impl Evaluation {
    /// Notes that something could not be evaluated.
    pub fn fail(&mut self) {
        *self = match *self {
            Self::Sound | Self::Failed => Self::Failed,
            Self::Refused | Self::FailedAgain => Self::FailedAgain,
            Self::Over => Self::Over,
        };
    }

    /// Whether the request has yet to be refused.
    pub fn has_failed(self) -> bool {
        matches!(self, Self::Failed | Self::FailedAgain)
    }

    /// The answer to a request that has yet to be refused; its `error_page` is asked for once.
    pub fn refuse(&mut self) -> Option<Synth> {
        let (next, answer) = match *self {
            Self::Failed => (Self::Refused, Synth::Status(500)),
            Self::FailedAgain => (Self::Over, Synth::Final(500)),
            Self::Sound | Self::Refused | Self::Over => return None,
        };
        *self = next;
        Some(answer)
    }
}

/// The body of a request.
#[derive(Default)]
pub enum RequestBody {
    /// There is none.
    #[default]
    None,
    /// This many bytes follow the head, or chunks when not known.
    Unread(Option<u64>),
    /// In memory.
    Memory(Bytes),
    /// In a file.
    File(Arc<Temp>, u64),
    /// On its way from the client to an origin.
    Passing(Box<Feed>),
}

impl RequestBody {
    /// The same body for another request; what is on its way goes to one only.
    pub fn again(&self) -> Self {
        match self {
            Self::None | Self::Passing(_) => Self::None,
            Self::Unread(bytes) => Self::Unread(*bytes),
            Self::Memory(bytes) => Self::Memory(bytes.clone()),
            Self::File(temp, bytes) => Self::File(Arc::clone(temp), *bytes),
        }
    }

    /// Takes the body that is on its way, if it is.
    pub fn take_feed(&mut self) -> Option<Box<Feed>> {
        match std::mem::take(self) {
            Self::Passing(feed) => Some(feed),
            other @ (Self::None | Self::Unread(_) | Self::Memory(_) | Self::File(..)) => {
                *self = other;
                None
            }
        }
    }
}

/// The response as the steps build it.
#[derive(Debug, Default)]
pub struct ResponseParts {
    /// The status.
    pub status: u16,
    /// The reason as the origin gave it.
    pub reason: Vec<u8>,
    /// Whether `Location` is our own, so that a path in it is made a URL.
    pub location_is_ours: bool,
    /// The length that was announced.
    pub length: Option<u64>,
    /// Whether the body went in chunks.
    pub chunked: bool,
    /// How long the head is, where the body went in chunks.
    pub head_bytes: u64,
    /// The Content-Type before `charset` adds to it, while `expires` and `add_header` are worked out; else empty.
    pub bare_type: Vec<u8>,
    /// What we do not say by ourselves.
    pub silent: Silent,
    /// Fields, without those that deliver writes itself: Server, Date, Content-Length, Connection, Transfer-Encoding.
    pub fields: Fields,
}

/// Fields that are the origin's by `proxy_pass_header`: where it says nothing, nothing is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Silent {
    /// `Server`.
    pub server: bool,
    /// `Date`.
    pub date: bool,
}

/// What the cache did, in nginx's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheStatus {
    /// Not there, or not usable.
    Miss,
    /// Told not to look.
    Bypass,
    /// There, but too old, so fetched.
    Expired,
    /// Too old, and delivered as it is.
    Stale,
    /// Too old, delivered as it is, and somebody refetches.
    Updating,
    /// Too old, and the origin says it is still the same.
    Revalidated,
    /// There.
    Hit,
}

impl CacheStatus {
    /// As `$upstream_cache_status` has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Miss => "MISS",
            Self::Bypass => "BYPASS",
            Self::Expired => "EXPIRED",
            Self::Stale => "STALE",
            Self::Updating => "UPDATING",
            Self::Revalidated => "REVALIDATED",
            Self::Hit => "HIT",
        }
    }
}

/// How many times a URI may change in one exchange, as in nginx.
pub const URI_CHANGES_MAX: u8 = 10;
/// How many requests may lie in each other, as in nginx.
pub const SUBREQUESTS_MAX: u8 = 51;
/// A pooled buffer larger than this is let go.
const KEPT_BYTES_MAX: usize = 64 * 1024;

impl Exchange {
    /// A new one.
    pub fn new(client: Rc<Client>) -> Box<Self> {
        Box::new(Self {
            head: RequestHead::new(),
            client,
            number: 0,
            started: Time(0),
            server: 0,
            location: 0,
            method: Method::Get,
            host: Vec::new(),
            uri: Vec::new(),
            args: Vec::new(),
            uri_changed: false,
            changes_left: URI_CHANGES_MAX,
            internal: false,
            captures: Captures::default(),
            values: Rc::default(),
            depth: 0,
            evaluation: Evaluation::default(),
            scratch: Vec::new(),
            body: RequestBody::None,
            chunk_bytes: 0,
            out: ResponseParts::default(),
            error_page: false,
            error_status: None,
            cache_status: None,
            cache_detail: "",
            fresh_until: None,
            cache_key: Vec::new(),
            attempts: Vec::new(),
            origin_fields: None,
            origin_status: None,
            proxy_host: Vec::new(),
            real_ip: None,
            keep_alive: false,
            limit_rate: None,
            sent: (0, 0),
            report: None,
            guards: Vec::new(),
            limited: (false, false),
            authorized: false,
            auth_asked: false,
            mirrored: false,
            sub: None,
            ssi: None,
            time_format: None,
            composed: None,
            slicing: Slicing::default(),
            lock_until: None,
            upgraded: None,
            accel_fields: None,
            is_complete: false,
            is_logging: false,
            body_refused: false,
            path_is_the_locations: false,
            alias_takes_uri: false,
            limit_req_status: None,
            limit_conn_status: None,
            choice: Choice::default(),
            has_packed: false,
            squeezed: None,
            head_is_bad: false,
            by_modules: crate::modules::State::default(),
        })
    }

    /// Makes it ready for the next request of `client`; buffers keep their room.
    pub fn reset(&mut self, client: &Rc<Client>) {
        self.head.clear();
        if !Rc::ptr_eq(&self.client, client) {
            self.client = Rc::clone(client);
        }
        self.host.clear();
        self.uri.clear();
        self.args.clear();
        self.uri_changed = false;
        self.changes_left = URI_CHANGES_MAX;
        self.internal = false;
        self.captures.clear();
        match Rc::get_mut(&mut self.values) {
            Some(values) => values.get_mut().clear(),
            // A request inside the last one still runs.
            None => self.values = Rc::default(),
        }
        self.depth = 0;
        self.evaluation = Evaluation::default();
        self.scratch.retain(|buffer| buffer.capacity() <= KEPT_BYTES_MAX);
        self.body = RequestBody::None;
        self.chunk_bytes = 0;
        self.out.status = 0;
        self.out.reason.clear();
        self.out.location_is_ours = false;
        self.out.bare_type.clear();
        self.out.length = None;
        self.out.chunked = false;
        self.out.silent = Silent::default();
        self.accel_fields = None;
        self.is_complete = false;
        self.is_logging = false;
        self.body_refused = false;
        self.path_is_the_locations = false;
        self.alias_takes_uri = false;
        self.limit_req_status = None;
        self.limit_conn_status = None;
        self.out.fields.clear();
        self.error_page = false;
        self.error_status = None;
        self.cache_status = None;
        self.cache_detail = "";
        self.fresh_until = None;
        self.cache_key.clear();
        self.attempts.clear();
        self.origin_fields = None;
        self.origin_status = None;
        self.proxy_host.clear();
        self.real_ip = None;
        self.keep_alive = false;
        self.limit_rate = None;
        self.sent = (0, 0);
        self.report = None;
        self.guards.clear();
        self.limited = (false, false);
        self.authorized = false;
        self.auth_asked = false;
        self.mirrored = false;
        self.sub = None;
        self.ssi = None;
        self.time_format = None;
        self.composed = None;
        self.slicing = Slicing::default();
        self.lock_until = None;
        self.choice = Choice::default();
        self.has_packed = false;
        self.squeezed = None;
        self.head_is_bad = false;
        self.by_modules = crate::modules::State::default();
    }

    /// Lets go of what others may wait for: limits, files, fields of the origin. Buffers keep their room.
    pub fn release(&mut self) {
        self.body = RequestBody::None;
        self.guards.clear();
        self.report = None;
        self.upgraded = None;
        self.attempts.clear();
        self.origin_fields = None;
    }

    /// A copy for a refetch in the background: the same request, at the same place, with nobody waiting.
    ///
    /// Every field is named, so that a new one asks whether it is part of the request.
    pub fn for_refetch(&self) -> Box<Self> {
        let Self {
            head,
            client,
            number,
            started,
            server,
            location,
            method,
            host,
            uri,
            args,
            uri_changed,
            changes_left,
            internal,
            captures,
            values,
            depth: _,
            evaluation: _,
            scratch: _,
            body,
            chunk_bytes,
            out: _,
            error_page,
            error_status: _,
            cache_status: _,
            cache_detail: _,
            fresh_until: _,
            cache_key,
            attempts: _,
            origin_fields: _,
            origin_status: _,
            proxy_host,
            real_ip,
            keep_alive: _,
            limit_rate,
            sent: _,
            guards: _,
            limited: _,
            report: _,
            upgraded: _,
            accel_fields: _,
            is_logging: _,
            is_complete: _,
            body_refused,
            path_is_the_locations,
            alias_takes_uri,
            limit_req_status,
            limit_conn_status,
            slicing,
            lock_until: _,
            authorized,
            auth_asked,
            mirrored,
            sub,
            ssi,
            time_format,
            composed: _,
            choice: _,
            has_packed: _,
            squeezed: _,
            head_is_bad: _,
            by_modules: _,
        } = self;
        let mut copy = Self::new(Rc::clone(client));
        copy.head.clone_from(head);
        copy.number = *number;
        copy.started = *started;
        copy.server = *server;
        copy.location = *location;
        copy.method = *method;
        copy.host.clone_from(host);
        copy.uri.clone_from(uri);
        copy.args.clone_from(args);
        copy.uri_changed = *uri_changed;
        copy.changes_left = *changes_left;
        copy.internal = *internal;
        copy.captures.clone_from(captures);
        copy.values = Rc::new(values.as_ref().clone());
        copy.body = body.again();
        copy.chunk_bytes = *chunk_bytes;
        copy.error_page = *error_page;
        copy.cache_key.clone_from(cache_key);
        copy.proxy_host.clone_from(proxy_host);
        copy.real_ip = *real_ip;
        copy.limit_rate = *limit_rate;
        copy.body_refused = *body_refused;
        copy.path_is_the_locations = *path_is_the_locations;
        copy.alias_takes_uri = *alias_takes_uri;
        copy.limit_req_status = *limit_req_status;
        copy.limit_conn_status = *limit_conn_status;
        copy.slicing.clone_from(slicing);
        copy.authorized = *authorized;
        copy.auth_asked = *auth_asked;
        copy.mirrored = *mirrored;
        copy.sub.clone_from(sub);
        copy.ssi.clone_from(ssi);
        copy.time_format.clone_from(time_format);
        copy
    }

    /// Whether it is a request inside another one.
    pub fn is_sub(&self) -> bool {
        self.sub.is_some()
    }

    /// How many requests may lie inside this one, one in the other.
    pub fn nesting_left(&self) -> u8 {
        self.sub.as_ref().map_or(SUBREQUESTS_MAX, |sub| sub.nesting_left)
    }

    /// A request inside this one: a GET of `uri` from the same client with the same fields, at the beginning of its way
    /// (ngx_http_subrequest).
    ///
    /// It knows the body as far as that has been read, and shares the variables.
    pub fn inside(&self, uri: Vec<u8>, args: Vec<u8>) -> Box<Self> {
        let mut inner = Self::new(Rc::clone(&self.client));
        inner.head.clone_from(&self.head);
        inner.number = self.number;
        inner.started = self.started;
        inner.server = self.server;
        inner.location = self.location;
        inner.host.clone_from(&self.host);
        inner.uri = uri;
        inner.args = args;
        inner.uri_changed = true;
        inner.internal = true;
        inner.values = Rc::clone(&self.values);
        inner.body = match &self.body {
            RequestBody::Unread(_) => RequestBody::None,
            body => body.again(),
        };
        inner.real_ip = self.real_ip;
        // What one of them was limited by is not asked again.
        inner.limited = self.limited;
        inner.body_refused = self.body_refused;
        inner.ssi.clone_from(&self.ssi);
        inner.sub = Some(Box::new(Sub {
            nesting_left: self.nesting_left().saturating_sub(1),
            has_stub: false,
            in_memory: false,
            head_only: false,
        }));
        inner
    }

    /// A copy for the one who puts the page together while the response is sent: the request, and what is known of the
    /// response so far.
    pub fn for_page(&self) -> Box<Self> {
        let mut copy = self.for_refetch();
        copy.values = Rc::clone(&self.values);
        copy.limited = self.limited;
        copy.error_status = self.error_status;
        copy.cache_status = self.cache_status;
        copy.cache_detail = self.cache_detail;
        copy.fresh_until = self.fresh_until;
        copy.attempts.clone_from(&self.attempts);
        copy.origin_fields.clone_from(&self.origin_fields);
        copy.origin_status = self.origin_status;
        copy.report.clone_from(&self.report);
        copy.out.status = self.out.status;
        copy.out.fields.clone_from(&self.out.fields);
        copy
    }

    /// The client's address: the peer's, or what `real_ip_header` made of it.
    pub fn remote_ip(&self) -> Option<IpAddr> {
        self.real_ip.map(|(ip, _)| ip).or_else(|| self.client.peer.map(|peer| peer.ip()))
    }

    /// Whether only a head is asked for.
    pub fn is_head(&self) -> bool {
        self.method == Method::Head
    }

    /// Stores a value and returns its place.
    pub fn keep(&mut self, value: &[u8]) -> Slot {
        let mut values = self.values.borrow_mut();
        let start = values.arena.len();
        values.arena.extend_from_slice(value);
        match (u32::try_from(start), u32::try_from(values.arena.len())) {
            (Ok(start), Ok(end)) => Slot::Value(start, end),
            _ => Slot::Absent,
        }
    }

    /// Sets the variable in `slot`.
    pub fn set_slot(&mut self, slot: usize, value: Slot) {
        let mut values = self.values.borrow_mut();
        if values.slots.len() <= slot {
            values.slots.resize(slot + 1, Slot::Unset);
        }
        values.slots[slot] = value;
    }

    /// The variable in `slot`.
    pub fn slot(&self, slot: usize) -> Slot {
        self.values.borrow().slots.get(slot).copied().unwrap_or_default()
    }
}
