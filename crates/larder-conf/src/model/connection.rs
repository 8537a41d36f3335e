//! Connections to clients.

/// The browsers of `keepalive_disable`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeepaliveDisable {
    /// Internet Explorer up to 6, after a POST.
    pub msie6: bool,
    /// Safari on a Mac.
    pub safari: bool,
}

/// `lingering_close`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LingeringClose {
    /// Never wait for more data.
    Off,
    /// When a client may still be sending.
    On,
    /// Always.
    Always,
}
