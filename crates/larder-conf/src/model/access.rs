//! Who is let in.

use std::time::Duration;

use ipnet::IpNet;

use super::Template;

/// Who is let in: `allow`, `deny`, `auth_basic*`, `satisfy`.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// `allow` and `deny`, in order.
    pub rules: Vec<AccessRule>,
    /// `satisfy any`.
    pub satisfy_any: bool,
    /// `auth_basic`; `None` for `off`.
    pub auth_basic: Option<Template>,
    /// `auth_basic_user_file`.
    pub auth_basic_user_file: Option<Template>,
    /// `auth_delay`, 0.
    pub auth_delay: Duration,
}

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
