//! The client's connection: its addresses, what a proxy said about it, and its TLS session.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use larder_conf::model::ListenAddress;
use larder_http::{Time, proxy_protocol};
use larder_tls::Session;

use crate::site::{Listener, Site, VirtualServer, listener_for};
use crate::tls::ClientJudge;
use crate::vsl::Open;
use crate::xid;

/// What all exchanges of one connection have in common.
pub struct Client {
    /// The number of the connection, for logs.
    pub id: u64,
    /// The client's address; `None` for a unix socket.
    pub peer: Option<SocketAddr>,
    /// The numbers of the user and the group of the client, at a unix socket.
    pub ids: Option<(u32, u32)>,
    /// The address that the client connected to.
    pub local: Option<SocketAddr>,
    /// The address that we listen at; it may be a wildcard.
    pub bound: ListenAddress,
    /// When the connection was accepted.
    pub began: Time,
    /// What a proxy said about it: the header of the PROXY protocol.
    pub proxy: Option<Box<proxy_protocol::Header>>,
    /// Whether the connection is encrypted.
    pub secured: Secured,
    /// Its number where a VCL counts, or the transaction log is told; 0 until then.
    pub xid: Cell<u64>,
    /// What the transaction log is told of it, from the first request for which anybody listens.
    pub log: RefCell<Option<Rc<Open>>>,
}

/// Whether a connection is encrypted.
pub enum Secured {
    /// In the clear.
    Not,
    /// In the clear, at an address with TLS: all it gets is an error page.
    PlainOnTls,
    /// TLS.
    Tls(Box<Tls>),
    /// There is no connection, and the request that is walked through is meant to have come by TLS.
    Said,
}

/// What TLS knows about a client.
pub struct Tls {
    /// The TLS session, for variables.
    pub session: Rc<RefCell<Session>>,
    /// The virtual server of the handshake, by its first name, as places change with a reload.
    pub server: Box<[u8]>,
    /// What the client's own certificate was checked against.
    pub judge: Arc<ClientJudge>,
}

impl Secured {
    /// TLS by this session with `server`; the handshake showed the certificate of `shown`.
    pub fn tls(session: Rc<RefCell<Session>>, server: &VirtualServer, shown: &VirtualServer) -> Self {
        Self::Tls(Box::new(Tls { session, server: server.name.clone(), judge: Arc::clone(&shown.judge) }))
    }
}

impl Client {
    /// A copy of the client with this state of encryption.
    pub fn with(&self, secured: Secured) -> Self {
        let Self { id, peer, ids, local, bound, began, proxy, secured: _, xid, log } = self;
        let (bound, proxy, xid, log) = (bound.clone(), proxy.clone(), xid.clone(), log.clone());
        Self { id: *id, peer: *peer, ids: *ids, local: *local, bound, began: *began, proxy, secured, xid, log }
    }

    /// The listener that accepted the connection, in the current configuration; `None` if that no longer listens there.
    pub fn listener<'a>(&self, site: &'a Site) -> Option<&'a Listener> {
        listener_for(&site.listeners, &self.bound, self.local).map(|place| &site.listeners[place])
    }

    /// Whether the connection begins with a request of HTTP/1. So does one at an address that is no longer listened at,
    /// to be told that.
    pub fn begins_plainly(&self, site: &Site) -> bool {
        self.listener(site).is_none_or(|listener| {
            let http2 = listener.http2 || site.servers[listener.default].http2.enabled;
            !listener.tls && !http2 && !listener.proxy_protocol
        })
    }

    /// Its number, taken when something of it needs one.
    pub fn number(&self) -> u64 {
        if self.xid.get() == 0 {
            self.xid.set(xid::next());
        }
        self.xid.get()
    }

    /// Tells the transaction log that the connection has ended. Exchanges that are kept for others know it still.
    pub fn end_log(&self) {
        self.log.take();
    }

    /// Whether the connection is encrypted.
    pub fn is_secure(&self) -> bool {
        matches!(self.secured, Secured::Tls(_) | Secured::Said)
    }

    /// The client's address for logs.
    pub fn address(&self) -> String {
        self.peer.map_or_else(|| "unix:".to_owned(), |peer| peer.ip().to_string())
    }
}
