//! `absolute_redirect` and its kin.

/// How redirects of our own are written.
#[derive(Clone, Debug)]
pub struct Redirects {
    /// `absolute_redirect`, on.
    pub absolute: bool,
    /// `server_name_in_redirect`, off.
    pub server_name: bool,
    /// `port_in_redirect`, on.
    pub port: bool,
}

impl Default for Redirects {
    fn default() -> Self {
        Self { absolute: true, server_name: false, port: true }
    }
}
