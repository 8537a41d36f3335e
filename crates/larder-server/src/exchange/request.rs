//! What is requested now: the location, the URI, the body. It outlives internal redirects, which change it.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use larder_http::Method;

use crate::filter::esi::Place;
use crate::refill::Reason;
use crate::tempfile::Temp;

use super::feed::Feed;
use super::{SUBREQUESTS_MAX, SsiShared};

/// What is requested now.
#[derive(Default)]
pub struct Request {
    /// The virtual server, by its place in the site.
    pub server: usize,
    /// The location, by its place in the site.
    pub location: usize,
    /// The current method: an `error_page` turns a POST into a GET.
    pub method: Method,
    /// The requested host in lower case, without port; empty if there is none.
    pub host: Vec<u8>,
    /// The path, decoded and normalised.
    pub uri: Vec<u8>,
    /// The query: what follows the `?`.
    pub args: Vec<u8>,
    /// How the request came to its location.
    pub way: Way,
    /// The request's body, as far as it was read.
    pub body: RequestBody,
    /// How many bytes the heads and ends of the body's chunks took.
    pub chunk_bytes: u64,
    /// Whether the body was refused as too large, so that the error page is not refused for it again.
    pub body_refused: bool,
    /// Limits that were checked or set.
    pub limits: Limits,
    /// Its place among subrequests, and what they share.
    pub nested: Nested,
    /// `userid`: the visitor's number, once it was read.
    pub uid: Option<Box<Uid>>,
}

/// How a request came to its location.
#[derive(Clone, Debug, Default)]
pub struct Way {
    /// How many times the URI has changed, at most [`URI_CHANGES_MAX`](super::URI_CHANGES_MAX).
    pub uri_changes: u8,
    /// Whether the path or the query differs from what the client sent, so that it is encoded anew for origins.
    pub uri_changed: bool,
    /// What it asks for, where that is not what the client has: of a subrequest, and of a redirect by an origin or to an
    /// error page. A VCL takes it.
    pub url: Option<Box<[u8]>>,
    /// Whether an internal redirect led here.
    pub internal: bool,
    /// Whether the URI is still the one that matched the location, so that `proxy_pass` may replace its beginning.
    pub path_is_the_locations: bool,
    /// Whether `try_files` found a name below the alias of a regular expression.
    pub alias_takes_uri: bool,
    /// Whether this is the request of an `error_page`.
    pub error_page: bool,
    /// Whether a gate has refused it: its error page waits at none.
    pub is_refused: bool,
    /// The status that the `error_page` keeps or sets.
    pub error_status: Option<u16>,
    /// How many times a policy has restarted the request, at most [`RESTARTS_MAX`](super::RESTARTS_MAX).
    pub restarts: u8,
}

/// Limits that were checked or set for a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Whether `limit_conn` was checked.
    pub conn_asked: bool,
    /// Whether `limit_req` was checked.
    pub req_asked: bool,
    /// `$limit_conn_status`.
    pub conn_status: Option<&'static str>,
    /// `$limit_req_status`.
    pub req_status: Option<&'static str>,
    /// `set $limit_rate` or `X-Accel-Limit-Rate`; bytes a second.
    pub rate: Option<u64>,
}

/// The place of a request among subrequests.
#[derive(Clone, Debug, Default)]
pub struct Nested {
    /// What its answer is for.
    pub purpose: Purpose,
    /// What makes it a subrequest; `None` for a client's own request.
    pub sub: Option<Box<Sub>>,
    /// What the SSI page of a request shares with its subrequests.
    pub ssi: Option<Rc<SsiShared>>,
    /// The format set by `config timefmt` in this page.
    pub time_format: Option<Rc<[u8]>>,
    /// Where in the markup around it the answer goes in, as includes of ESI stand.
    pub place: Place,
    /// Whether its answer, or that of a request around it, holds a slot at a gate until it is read: what is asked inside
    /// passes all gates by, as it would wait for itself.
    pub holds_slot: bool,
}

/// What the answer to a request is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// A client, or a page that includes it.
    #[default]
    Answer,
    /// A slice of a page that is being sent; an answer that is no slice ends the page.
    Slice,
    /// Only the cache.
    Refetch,
    /// Only the cache, for a page that nobody has asked for.
    Refill(Reason),
    /// Larder itself, which reads it.
    Read,
    /// A purge from the dashboard.
    Purge,
    /// Whether such a purge may be.
    MayPurge,
    /// Nobody: the request is walked through to explain it. Nothing is sent, counted or changed.
    Walk,
}

impl Purpose {
    /// Whether no client waits for the answer.
    pub fn is_background(self) -> bool {
        matches!(self, Self::Refetch | Self::Refill(_) | Self::Read)
    }
}

/// What makes a request a subrequest.
#[derive(Clone, Debug)]
pub struct Sub {
    /// How many levels of subrequests may still follow.
    pub nesting_left: u8,
    /// Whether a block of the page replaces an answer that is an error or empty (the `stub` of an SSI include).
    pub has_stub: bool,
    /// Whether the answer becomes the value of a variable.
    pub in_memory: bool,
    /// Whether only the head of the answer is wanted.
    pub head_only: bool,
}

/// `userid`: the visitor's number, as received and as set.
#[derive(Clone, Debug, Default)]
pub struct Uid {
    /// The cookie as received; empty if there is none.
    pub cookie: Vec<u8>,
    /// The number in it.
    pub got: Option<[u8; 16]>,
    /// The number that is set.
    pub set: Option<[u8; 16]>,
    /// Whether the received number is replaced.
    pub is_reset: bool,
    /// Whether `set` is decided.
    pub is_decided: bool,
}

impl Request {
    /// Forgets the request. Buffers keep their memory.
    pub(super) fn reset(&mut self) {
        let Self {
            server,
            location,
            method,
            host,
            uri,
            args,
            way,
            body,
            chunk_bytes,
            body_refused,
            limits,
            nested: Nested { purpose, sub, ssi, time_format, place, holds_slot },
            uid,
        } = self;
        *server = 0;
        *location = 0;
        *method = Method::default();
        host.clear();
        uri.clear();
        args.clear();
        *way = Way::default();
        *body = RequestBody::None;
        *chunk_bytes = 0;
        *body_refused = false;
        *limits = Limits::default();
        *purpose = Purpose::default();
        *sub = None;
        *ssi = None;
        *time_format = None;
        *place = Place::default();
        *holds_slot = false;
        *uid = None;
    }

    /// A copy for another request. A body that is being passed on stays here.
    pub(super) fn again(&self) -> Self {
        Self {
            host: self.host.clone(),
            uri: self.uri.clone(),
            args: self.args.clone(),
            way: self.way.clone(),
            body: self.body.again(),
            nested: self.nested.clone(),
            uid: self.uid.clone(),
            ..*self
        }
    }

    /// A GET of `uri` as a subrequest, at the same virtual server and with the body as far as it was read
    /// (ngx_http_subrequest).
    pub(super) fn inside(&self, uri: Vec<u8>, args: Vec<u8>) -> Self {
        let sub = Sub {
            nesting_left: self.nested.left().saturating_sub(1),
            has_stub: false,
            in_memory: false,
            head_only: false,
        };
        Self {
            server: self.server,
            location: self.location,
            method: Method::Get,
            host: self.host.clone(),
            way: Way {
                uri_changed: true,
                internal: true,
                url: Some(url(&uri, &args)),
                is_refused: self.way.is_refused,
                ..Way::default()
            },
            uri,
            args,
            body: match &self.body {
                RequestBody::Unread(_) => RequestBody::None,
                body => body.again(),
            },
            body_refused: self.body_refused,
            // A limit that one of the two has checked is not checked again.
            limits: Limits {
                conn_asked: self.limits.conn_asked,
                req_asked: self.limits.req_asked,
                ..Limits::default()
            },
            nested: Nested {
                sub: Some(Box::new(sub)),
                ssi: self.nested.ssi.clone(),
                place: self.nested.place,
                holds_slot: self.nested.holds_slot,
                ..Nested::default()
            },
            ..Self::default()
        }
    }
}

impl Nested {
    /// How many levels of subrequests may still follow.
    pub fn left(&self) -> u8 {
        self.sub.as_ref().map_or(SUBREQUESTS_MAX, |sub| sub.nesting_left)
    }
}

/// The body of a request.
#[derive(Default)]
pub enum RequestBody {
    /// There is none.
    #[default]
    None,
    /// It has not been read: this many bytes follow the head, or chunks if `None`.
    Unread(Option<u64>),
    /// In memory.
    Memory(Bytes),
    /// In a file of this length.
    File(Arc<Temp>, u64),
    /// It is being passed from the client to an origin.
    Passing(Box<Feed>),
}

impl RequestBody {
    /// The same body for another request; one that is being passed on goes to a single request.
    pub fn again(&self) -> Self {
        match self {
            Self::None | Self::Passing(_) => Self::None,
            Self::Unread(bytes) => Self::Unread(*bytes),
            Self::Memory(bytes) => Self::Memory(bytes.clone()),
            Self::File(temp, bytes) => Self::File(Arc::clone(temp), *bytes),
        }
    }

    /// How many bytes of it were read.
    pub fn read_bytes(&self) -> u64 {
        match self {
            Self::None | Self::Unread(_) => 0,
            Self::Memory(bytes) => bytes.len() as u64,
            Self::File(_, len) => *len,
            Self::Passing(feed) => feed.received(),
        }
    }

    /// Takes the body that is being passed on, if there is one.
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

/// A path and arguments as a URL.
pub fn url(uri: &[u8], args: &[u8]) -> Box<[u8]> {
    let mut target = Vec::with_capacity(uri.len() + args.len() + 1);
    larder_http::escape_uri(uri, larder_http::Escape::Uri, &mut target);
    if !args.is_empty() {
        target.push(b'?');
        target.extend_from_slice(args);
    }
    target.into()
}
