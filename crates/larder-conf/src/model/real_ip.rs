//! Where the address of a client comes from.

use ipnet::IpNet;

/// `set_real_ip_from`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RealIpFrom {
    /// `unix:`.
    Unix,
    /// An address or a block.
    Net(IpNet),
}
