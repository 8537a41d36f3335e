//! Where an origin is, and what a request to it is made of.

use std::sync::Arc;

use larder_conf::model;

use crate::prepared::PreparedRules;
use crate::regex::Regex;
use crate::text::{Part, Text};

use super::origin_tls::OriginTls;
use super::variables::NamedRegex;

/// Where an origin is, and how it is asked.
pub struct Backend {
    /// Where.
    pub target: Target,
    /// In which protocol.
    pub protocol: Protocol,
    /// `*_bind`: the address of ours that it is asked from.
    pub bind: Option<Text>,
    /// `*_limit_rate`: how fast an answer is taken.
    pub limit_rate: Option<Text>,
    /// What the protocols have in common.
    pub settings: Arc<OriginShared>,
    /// How the fields of stored pages are laid out; `None` where that is done for each request.
    pub prepared_by: Option<PreparedRules>,
}

impl Backend {
    /// The scheme of the target, as far as it is written out.
    pub fn scheme(&self) -> Scheme {
        match (&self.protocol, &self.target) {
            (Protocol::Http(parts), Target::Group { .. }) => parts.scheme,
            (Protocol::Http(_), Target::Variable(text)) => match text.parts().first() {
                Some(Part::Literal(start)) => Scheme::split(start).0,
                Some(Part::Var(_) | Part::Capture(_)) | None => Scheme::Http,
            },
            (Protocol::FastCgi(_), _) => Scheme::Http,
        }
    }
}

/// Settings and what is derived from them once.
pub struct OriginShared {
    /// As they were read.
    pub model: model::OriginSettings,
    /// Fields of the origin that are not passed on; lower case.
    pub hidden: Vec<Box<[u8]>>,
}

/// Where an origin is.
pub enum Target {
    /// A group.
    Group {
        /// Its place in the site.
        group: usize,
        /// Host as written in `proxy_pass`, for `$proxy_host` and the default `Host`.
        host: Box<[u8]>,
        /// The URI in `proxy_pass`, in place of the location's prefix.
        uri: Option<Box<[u8]>>,
    },
    /// A URL or address that comes from variables.
    Variable(Text),
}

/// The protocol of an origin, with what its requests are made of.
pub enum Protocol {
    /// FastCGI.
    FastCgi(FastCgiParts),
    /// HTTP.
    Http(HttpParts),
}

/// Whether an HTTP origin is spoken to in TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `http://`.
    Http,
    /// `https://`.
    Https,
}

impl Scheme {
    /// The scheme of a URL, in any case, and what follows it.
    pub fn of(url: &[u8]) -> Option<(Self, &[u8])> {
        let [http, https] = [Self::Http, Self::Https].map(Self::prefix);
        match url {
            _ if starts_ignoring_case(url, http) => Some((Self::Http, &url[http.len()..])),
            _ if starts_ignoring_case(url, https) => Some((Self::Https, &url[https.len()..])),
            _ => None,
        }
    }

    /// The scheme of a URL that came from variables, and what follows it. One without is logged when it is asked.
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

    /// The port that is meant where none is written.
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
    /// Names, values, and whether an empty value is left out.
    pub params: Vec<(Box<[u8]>, Text, bool)>,
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
    /// `proxy_set_header`.
    pub headers: Vec<(Box<[u8]>, Text)>,
    /// `proxy_set_body`.
    pub body: Option<Text>,
    /// `proxy_method`.
    pub method: Option<Text>,
    /// HTTP/1.1.
    pub http_1_1: bool,
    /// Of a target that is written out; one from variables says it itself.
    pub scheme: Scheme,
    /// `proxy_ssl_*`, where it may be wanted.
    pub tls: Option<OriginTls>,
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
    /// From the URL of `proxy_pass` to the prefix of the location.
    Default,
    /// From and to.
    Replace(Find, Text),
}

/// What a rewriting of a field looks for.
pub enum Find {
    /// A text, at the beginning.
    Text(Text),
    /// An expression.
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
