//! Where the address of a client comes from.

use ipnet::IpNet;

/// `set_real_ip_from` and `real_ip_*`.
#[derive(Clone, Debug)]
pub struct RealIp {
    /// `set_real_ip_from`.
    pub from: Vec<RealIpFrom>,
    /// `real_ip_header`, `X-Real-IP`; `proxy_protocol` as written when `proxy_protocol`.
    pub header: String,
    /// `real_ip_header proxy_protocol`: the address comes from the PROXY protocol header.
    pub proxy_protocol: bool,
    /// `real_ip_recursive`.
    pub recursive: bool,
}

impl Default for RealIp {
    fn default() -> Self {
        Self { from: Vec::new(), header: "X-Real-IP".to_owned(), proxy_protocol: false, recursive: false }
    }
}

/// `set_real_ip_from`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RealIpFrom {
    /// `unix:`.
    Unix,
    /// An address or a block.
    Net(IpNet),
}
