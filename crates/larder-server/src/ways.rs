//! Ways to the backends of VCLs: where a connection leads, and what it begins with.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use bytes::Bytes;
use larder_http::proxy_protocol::{Addresses, write_v2, write_v2_for};
use larder_origin::Address;
use larder_vcl::Policy;
use larder_vcl::policy::{Backend, Endpoint};

/// A way to a backend.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Way {
    /// Where a connection leads: to the backend, or to the one of its `.via`.
    pub address: Address,
    /// What each connection begins with: `.preamble`, or what a proxy has to know.
    pub preamble: Bytes,
}

impl Way {
    /// The way to a backend of `policy`; `None` if it or its proxy is `none`, or has no address.
    /// `address` finds those.
    pub fn to(backend: &Backend, policy: &Policy, address: &dyn Fn(&Endpoint) -> Option<Address>) -> Option<Self> {
        let own = address(backend.endpoint.as_ref()?)?;
        let Some(via) = backend.via else {
            return Some(Self { address: own, preamble: backend.preamble.clone().unwrap_or_default().into() });
        };
        let address = address(policy.backends.get(via.0)?.endpoint.as_ref()?)?;
        let preamble = match own {
            Address::Tcp(destination) => through(destination, backend.authority.as_deref()).into(),
            // A backend has .via or .path, not both.
            Address::Unix(_) => return None,
        };
        Some(Self { address, preamble })
    }
}

/// The header that tells a proxy where to connect to, and the name for TLS. A connection is not one client's, so the
/// source is no address, as in Varnish.
fn through(destination: SocketAddr, authority: Option<&str>) -> Vec<u8> {
    let source = match destination {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let source = SocketAddr::new(source, 0);
    let mut header = Vec::new();
    match authority {
        Some(authority) => write_v2_for(source, destination, authority.as_bytes(), &mut header),
        None => write_v2(&Addresses::Inet { source, destination }, &mut header),
    }
    header
}
