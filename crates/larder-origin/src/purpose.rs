//! What a connection is for: where it leads, and what is spoken on it.

use bytes::Bytes;

use crate::{address::Address, limits::Bind, tls::Tls};

/// Which requests may use a kept connection: those with the same purpose.
#[derive(Debug)]
pub(crate) struct Purpose {
    /// Where the origin listens. As in nginx, servers with the same address share connections.
    server: Address,
    /// Our address, if `*_bind` sets one.
    bind: Option<Bind>,
    /// FastCGI or HTTP.
    speaks: Speaks,
    /// TLS and the PROXY header below that.
    layers: Layers,
}

/// What a request needs of a connection: the parts of a [`Purpose`].
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) server: &'a Address,
    pub(crate) bind: Option<Bind>,
    pub(crate) speaks: Speaks,
    pub(crate) layers: &'a Layers,
    /// Whether the request can be sent again if the connection is dead.
    pub(crate) may_resend: bool,
}

impl Wanted<'_> {
    pub(crate) fn to_purpose(self) -> Purpose {
        let Wanted { server, bind, speaks, layers, may_resend: _ } = self;
        Purpose { server: server.clone(), bind, speaks, layers: layers.clone() }
    }

    pub(crate) fn is_met_by(self, purpose: &Purpose) -> bool {
        self.speaks == purpose.speaks
            && *self.server == purpose.server
            && self.bind == purpose.bind
            && *self.layers == purpose.layers
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    FastCgi,
    Http,
}

impl Purpose {
    /// Whether it is for FastCGI with this server.
    pub(crate) fn is_fastcgi_of(&self, server: &Address) -> bool {
        self.speaks == Speaks::FastCgi && self.server == *server
    }
}

/// What is between a request and the socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layers {
    /// Sent before all else, TLS included.
    pub(crate) preface: Option<Bytes>,
    pub(crate) tls: Option<Tls>,
}
