//! Who asks, and by which connection.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use larder_conf::model::ListenAddress;
use larder_http::{Time, proxy_protocol};
use larder_tls::Session;

use crate::site::{Listener, Site, VirtualServer, listener_for};
use crate::tls::ClientJudge;

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

    /// Whether the first thing that it says is a request of HTTP/1. One that came by an address that is listened at no
    /// more is told so there.
    pub fn begins_plainly(&self, site: &Site) -> bool {
        self.listener(site).is_none_or(|listener| {
            let http2 = listener.http2 || site.servers[listener.default].http2.enabled;
            !listener.tls && !http2 && !listener.proxy_protocol
        })
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
