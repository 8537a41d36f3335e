//! `server_name`.

use super::Pattern;

/// A name in `server_name`, lower-cased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerName {
    /// `example.org`; also the empty name `""`.
    Exact(String),
    /// `*.example.org`: the suffix with its dot, `.example.org`. Does not match `example.org` itself.
    Suffix(String),
    /// `www.*`: the prefix with its dot, `www.`.
    Prefix(String),
    /// `.example.org`: that name (`example.org`) and every name below.
    Dotted(String),
    /// `~pattern`; captures become variables.
    Regex(Pattern),
    /// `$hostname`.
    Hostname,
}
