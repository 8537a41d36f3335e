//! What is known of a request for as long as it stays at one place.

use super::{Slicing, emptied};

/// What one visit to a location knows; an internal redirect begins another one.
#[derive(Clone, Default)]
pub struct Visit {
    /// Whether the password has been checked.
    pub authorized: bool,
    /// Whether `auth_request` has been asked.
    pub auth_asked: bool,
    /// Whether the request has been mirrored.
    pub mirrored: bool,
    /// Host and port of `proxy_pass`, for `$proxy_host`.
    pub proxy_host: Vec<u8>,
    /// Which slice of its page is asked for.
    pub slicing: Slicing,
}

impl Visit {
    /// Begins another one. Buffers keep their room.
    pub(super) fn reset(&mut self) {
        *self = Self { proxy_host: emptied(&mut self.proxy_host), ..Self::default() };
    }
}
