//! How the request came in that a page was made for.

/// How a request came in, as far as a page may be made for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Came {
    /// The port that was listened at; 0 for none.
    pub port: u16,
    /// The port in its `Host`; 0 for none.
    pub host_port: u16,
    /// Whether a proxy said that it had come to it by https: `X-Forwarded-Proto`.
    pub is_secured_before: bool,
}
