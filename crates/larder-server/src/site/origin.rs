//! Where an origin is, and what requests to it are made of.

use std::sync::Arc;

use bytes::Bytes;
use larder_conf::model;
use larder_http::Names;
use larder_origin::RetryRules;

use crate::prepared::PreparedRules;
use crate::regex::Regex;
use crate::text::{Part, Text};

use super::origin_head::{Params, SetFields};
use super::origin_tls::OriginTls;
use super::variables::NamedRegex;

/// Where an origin is, and how it is asked.
pub struct Backend {
    /// The place of the origin.
    pub target: Target,
    /// Its protocol, and what requests are made of.
    pub protocol: Protocol,
    /// `*_bind`: the local address from which it is asked.
    pub bind: Option<Text>,
    /// `*_limit_rate`: how fast its answer is read.
    pub limit_rate: Option<Text>,
    /// The settings that all protocols have.
    pub settings: Arc<OriginShared>,
    /// How the fields of stored pages are laid out; `None` if that has to be done for each request.
    pub prepared_by: Option<PreparedRules>,
    /// Whether its pages are stored and reused by RFC 9111.
    pub is_rfc9111: bool,
    /// How its requests go through the gate of its group.
    pub gating: Gating,
}

/// How the requests of a location go through the gate of a group.
#[derive(Default)]
pub struct Gating {
    /// `larder_gate off`: they pass by.
    pub passes: bool,
    /// `larder_gate_class`.
    pub class: Option<Text>,
}

impl Backend {
    /// The scheme of the target as far as it is written out; [`Http`](Scheme::Http) if a variable gives it.
    pub fn scheme(&self) -> Scheme {
        match (&self.protocol, &self.target) {
            (Protocol::Http(parts), Target::Group { .. } | Target::Files) => parts.scheme,
            (Protocol::Http(_), Target::Variable(text)) => match text.parts().first() {
                Some(Part::Literal(start)) => Scheme::split(start).0,
                Some(Part::Var(_) | Part::Capture(_)) | None => Scheme::Http,
            },
            (Protocol::FastCgi(_), _) => Scheme::Http,
        }
    }
}

/// Settings, and what is derived from them once.
pub struct OriginShared {
    /// The settings as they were read.
    pub model: model::OriginSettings,
    /// The origin's fields that are not passed on; in lower case.
    pub hidden: Vec<Box<[u8]>>,
    /// The same, to be asked for each field.
    pub hides: Names,
    /// After which failures the next origin is asked.
    pub retried: RetryRules,
}

/// Where an origin is.
pub enum Target {
    /// A group of origins.
    Group {
        /// The group, by its place in the site.
        group: usize,
        /// The host in `proxy_pass`, for `$proxy_host` and the default `Host`.
        host: Box<[u8]>,
        /// The URI in `proxy_pass`, which replaces the location's prefix.
        uri: Option<Box<[u8]>>,
    },
    /// A URL or address that variables give.
    Variable(Text),
    /// The files of the location, which are asked without a connection.
    Files,
}

/// The protocol of an origin, and what its requests are made of.
pub enum Protocol {
    /// FastCGI.
    FastCgi(FastCgiParts),
    /// HTTP.
    Http(HttpParts),
}

/// Whether an HTTP origin is asked by TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `http://`.
    Http,
    /// `https://`.
    Https,
}

impl Scheme {
    /// Splits a URL into its scheme, in upper or lower case, and the rest.
    pub fn of(url: &[u8]) -> Option<(Self, &[u8])> {
        let [http, https] = [Self::Http, Self::Https].map(Self::prefix);
        match url {
            _ if starts_ignoring_case(url, http) => Some((Self::Http, &url[http.len()..])),
            _ if starts_ignoring_case(url, https) => Some((Self::Https, &url[https.len()..])),
            _ => None,
        }
    }

    /// As [`of`](Self::of), for a URL that variables give. One without a scheme is logged when the origin is asked.
    pub fn split(url: &[u8]) -> (Self, &[u8]) {
        Self::of(url).unwrap_or((Self::Http, url))
    }

    /// `http://` or `https://`.
    pub const fn prefix(self) -> &'static [u8] {
        match self {
            Self::Http => b"http://",
            Self::Https => b"https://",
        }
    }

    /// The default port.
    pub const fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

fn starts_ignoring_case(text: &[u8], start: &[u8]) -> bool {
    text.get(..start.len()).is_some_and(|found| found.eq_ignore_ascii_case(start))
}

/// What a FastCGI request is made of.
pub struct FastCgiParts {
    /// `fastcgi_param`.
    pub params: Params,
    /// `fastcgi_index`.
    pub index: Option<Box<[u8]>>,
    /// `fastcgi_split_path_info`.
    pub split: Option<Regex>,
    /// `fastcgi_keep_conn`.
    pub keep: bool,
    /// `fastcgi_catch_stderr`.
    pub catch_stderr: Vec<Vec<u8>>,
}

/// What an HTTP request to an origin is made of.
pub struct HttpParts {
    /// Whether the head that the policy has written is sent as it is.
    pub is_written: bool,
    /// `proxy_set_header`.
    pub set: SetFields,
    /// The line `Host` where `proxy_set_header` gives none; `None` if variables give the place.
    pub host_line: Option<Box<[u8]>>,
    /// `proxy_set_body`.
    pub body: Option<Text>,
    /// `proxy_method`.
    pub method: Option<Text>,
    /// Whether HTTP/1.1 is spoken; else HTTP/1.0.
    pub http_1_1: bool,
    /// The scheme of a target without variables; one with variables has its own.
    pub scheme: Scheme,
    /// `proxy_ssl_*`, where TLS is possible.
    pub tls: Option<OriginTls>,
    /// What each connection begins with, before all else.
    pub preamble: Bytes,
    /// `larder_proxy_protocol`.
    pub proxy_protocol: model::ProxyProtocol,
    /// `proxy_redirect`.
    pub redirects: Vec<Redirect>,
    /// `proxy_cookie_domain`.
    pub cookie_domains: Vec<(Find, Text)>,
    /// `proxy_cookie_path`.
    pub cookie_paths: Vec<(Find, Text)>,
    /// `proxy_cookie_flags`.
    pub cookie_flags: Vec<(Find, Vec<Text>)>,
}

/// One rule of `proxy_redirect`.
pub enum Redirect {
    /// From the URL in `proxy_pass` to the location's prefix.
    Default,
    /// From the first to the second.
    Replace(Find, Text),
}

/// The pattern of a field that is rewritten.
pub enum Find {
    /// A text at the beginning.
    Text(Text),
    /// A regular expression.
    Regex(NamedRegex),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_is_told_in_any_case() {
        for (url, scheme, rest) in [
            ("http://a/b", Some(Scheme::Http), "a/b"),
            ("https://a", Some(Scheme::Https), "a"),
            ("HTTPS://unix:/run/a.sock", Some(Scheme::Https), "unix:/run/a.sock"),
            ("httpx://a", None, ""),
            ("http:/a", None, ""),
            ("", None, ""),
        ] {
            assert_eq!(Scheme::of(url.as_bytes()), scheme.map(|scheme| (scheme, rest.as_bytes())), "{url}");
        }
    }
}
