//! The PROXY protocol, towards origins.

/// `larder_proxy_protocol`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyProtocol {
    /// Nothing is sent before the request.
    Off,
    /// `v1`: a line of text.
    V1,
    /// `v2`: binary.
    V2,
}
