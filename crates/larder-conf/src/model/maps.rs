//! Blocks that make variables: `map`, `geo`, `split_clients`.

use ipnet::IpNet;

use super::{Pattern, Template};
use crate::span::Span;

/// `map`.
#[derive(Clone, Debug)]
pub struct Map {
    /// Where it begins.
    pub span: Span,
    /// What is looked up.
    pub source: Template,
    /// The variable it makes, without the dollar.
    pub variable: String,
    /// `hostnames`.
    pub hostnames: bool,
    /// `volatile`.
    pub volatile: bool,
    /// `default`; empty unless told.
    pub default: Option<Template>,
    /// The entries, in order, includes read in.
    pub entries: Vec<MapEntry>,
}

/// A line in a `map`.
#[derive(Clone, Debug)]
pub struct MapEntry {
    /// What the source is compared with.
    pub key: MapKey,
    /// What the variable becomes.
    pub value: Template,
    /// Where it is.
    pub span: Span,
}

/// The left side of a line in a `map`.
#[derive(Clone, Debug)]
pub enum MapKey {
    /// A string, compared without case.
    Text(String),
    /// A regular expression.
    Regex(Pattern),
}

/// `geo`.
#[derive(Clone, Debug)]
pub struct Geo {
    /// Where it begins.
    pub span: Span,
    /// The address; `$remote_addr` unless told.
    pub source: Option<Template>,
    /// The variable it makes, without the dollar.
    pub variable: String,
    /// `default`.
    pub default: String,
    /// `proxy`: whose `X-Forwarded-For` is believed.
    pub proxies: Vec<IpNet>,
    /// `proxy_recursive`.
    pub proxy_recursive: bool,
    /// Blocks and values; the longest prefix decides.
    pub nets: Vec<(IpNet, String)>,
    /// `volatile`: looked up each time.
    pub volatile: bool,
    /// With `ranges`: first and last IPv4 or IPv6 address, both inclusive; the last one written decides.
    pub ranges: Vec<(std::net::IpAddr, std::net::IpAddr, String)>,
}

/// `split_clients`.
#[derive(Clone, Debug)]
pub struct SplitClients {
    /// Where it begins.
    pub span: Span,
    /// What is hashed.
    pub source: Template,
    /// The variable it makes, without the dollar.
    pub variable: String,
    /// Hundredths of a percent (1 to 10000) and values, in order; `None` for `*`, the rest.
    pub parts: Vec<(Option<u32>, Template)>,
}
