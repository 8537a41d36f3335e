//! What an exchange knows for as long as it stays at one location.

use super::Slicing;

/// What one visit to a location knows; an internal redirect begins a new visit.
#[derive(Clone, Default)]
pub struct Visit {
    /// Whether the password was checked.
    pub authorized: bool,
    /// Whether the subrequest of `auth_request` was made.
    pub auth_asked: bool,
    /// Whether the copies for `mirror` were sent.
    pub mirrored: bool,
    /// Host and port in `proxy_pass`, for `$proxy_host`.
    pub proxy_host: Vec<u8>,
    /// Which slice of the page is requested.
    pub slicing: Slicing,
}

impl Visit {
    /// Begins a new visit. Buffers keep their memory.
    pub(super) fn reset(&mut self) {
        let Self { authorized, auth_asked, mirrored, proxy_host, slicing } = self;
        *authorized = false;
        *auth_asked = false;
        *mirrored = false;
        proxy_host.clear();
        *slicing = Slicing::default();
    }
}
