//! What is asked for now: where the request is in the configuration, its URI, its body. It outlives internal redirects,
//! which change it.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use larder_http::Method;

use crate::tempfile::Temp;

use super::feed::Feed;
use super::{SUBREQUESTS_MAX, SsiShared, emptied};

/// What is asked for now.
#[derive(Default)]
pub struct Request {
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
    /// How it came to its location.
    pub way: Way,
    /// The body of the request.
    pub body: RequestBody,
    /// What the chunks of the body took beside what is in them, bytes.
    pub chunk_bytes: u64,
    /// Whether the body was found too large already, so that an error page is not refused for it.
    pub body_refused: bool,
    /// What limits it.
    pub limits: Limits,
    /// Which request it lies in, and what it shares with those beside it.
    pub nested: Nested,
    /// `userid`: the number of the visitor, once it has been asked for.
    pub uid: Option<Box<Uid>>,
}

/// How a request came to its location.
#[derive(Clone, Debug, Default)]
pub struct Way {
    /// How many times the URI has changed, which may be [`URI_CHANGES_MAX`](super::URI_CHANGES_MAX) times.
    pub uri_changes: u8,
    /// Whether URI or arguments differ from what the client sent, so that origins get them written anew.
    pub uri_changed: bool,
    /// Whether it came by an internal redirect.
    pub internal: bool,
    /// Whether the URI is the one that the location was found by, so that `proxy_pass` may replace its beginning.
    pub path_is_the_locations: bool,
    /// Whether `try_files` found a name below the alias of a regular expression.
    pub alias_takes_uri: bool,
    /// Whether an `error_page` is being answered.
    pub error_page: bool,
    /// The status that an `error_page` keeps or sets.
    pub error_status: Option<u16>,
    /// How many times a policy has begun anew, which may be [`RESTARTS_MAX`](super::RESTARTS_MAX) times.
    pub restarts: u8,
}

/// What limits a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Whether `limit_conn` has been asked already.
    pub conn_asked: bool,
    /// Whether `limit_req` has.
    pub req_asked: bool,
    /// `$limit_conn_status`.
    pub conn_status: Option<&'static str>,
    /// `$limit_req_status`.
    pub req_status: Option<&'static str>,
    /// `set $limit_rate`, or `X-Accel-Limit-Rate`; bytes a second.
    pub rate: Option<u64>,
}

/// Requests inside requests.
#[derive(Clone, Debug, Default)]
pub struct Nested {
    /// What becomes of its answer.
    pub purpose: Purpose,
    /// What makes it a request inside another one; `None` for one that a client sent.
    pub sub: Option<Box<Sub>>,
    /// What the SSI pages of a request and of those inside it share.
    pub ssi: Option<Rc<SsiShared>>,
    /// What `config timefmt` said in this page.
    pub time_format: Option<Rc<[u8]>>,
}

/// What becomes of the answer to a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// Somebody gets it.
    #[default]
    Answer,
    /// It is a slice of a page that is being sent: anything else ends the page.
    Slice,
    /// It is only stored.
    Refetch,
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
    /// Whether only the head of the answer is wanted.
    pub head_only: bool,
}

/// `userid`: the number of a visitor, what came and what is given.
#[derive(Clone, Debug, Default)]
pub struct Uid {
    /// The cookie as it came; empty for none.
    pub cookie: Vec<u8>,
    /// What it holds.
    pub got: Option<[u8; 16]>,
    /// What is given.
    pub set: Option<[u8; 16]>,
    /// Whether the number that came is replaced by another.
    pub is_reset: bool,
    /// Whether it has been decided what is given.
    pub is_decided: bool,
}

impl Request {
    /// Forgets it. Buffers keep their room.
    pub(super) fn reset(&mut self) {
        *self = Self {
            host: emptied(&mut self.host),
            uri: emptied(&mut self.uri),
            args: emptied(&mut self.args),
            ..Self::default()
        };
    }

    /// The same for somebody else to ask. A body that is on its way stays here.
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

    /// A GET of `uri` inside this request, from the same server and with what has been read of the body
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
            uri,
            args,
            way: Way { uri_changed: true, internal: true, ..Way::default() },
            body: match &self.body {
                RequestBody::Unread(_) => RequestBody::None,
                body => body.again(),
            },
            body_refused: self.body_refused,
            // What one of them was limited by is not asked again.
            limits: Limits {
                conn_asked: self.limits.conn_asked,
                req_asked: self.limits.req_asked,
                ..Limits::default()
            },
            nested: Nested { sub: Some(Box::new(sub)), ssi: self.nested.ssi.clone(), ..Nested::default() },
            ..Self::default()
        }
    }
}

impl Nested {
    /// How many requests may lie inside this one, one in the other.
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
