//! Who is let in.

use ipnet::IpNet;

/// `allow` or `deny`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessRule {
    /// `allow`.
    pub allow: bool,
    /// Whom.
    pub who: AccessWho,
}

/// Whom an access rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessWho {
    /// `all`.
    All,
    /// `unix:`.
    Unix,
    /// An address or a block.
    Net(IpNet),
}
