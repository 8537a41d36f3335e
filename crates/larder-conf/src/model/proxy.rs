//! `proxy_*`.

use super::{OriginSettings, OriginTls, Pattern, ProxyProtocol, Template};

/// `proxy_*`.
#[derive(Clone, Debug)]
pub struct Proxy {
    /// What it shares with `fastcgi_*`.
    pub origin: OriginSettings,
    /// `proxy_http_version`: whether it is 1.1, as nginx has it by default since 1.29.7.
    pub http_1_1: bool,
    /// `proxy_set_header`, in order.
    pub set_headers: Vec<(String, Template)>,
    /// `proxy_set_body`.
    pub set_body: Option<Template>,
    /// `proxy_method`.
    pub method: Option<Template>,
    /// `proxy_redirect`.
    pub redirect: ProxyRedirect,
    /// `proxy_cookie_domain`, in order.
    pub cookie_domains: Vec<(Rewriting, Template)>,
    /// `proxy_cookie_path`, in order.
    pub cookie_paths: Vec<(Rewriting, Template)>,
    /// `proxy_cookie_flags`, in order: which cookies, and the flags they get or lose.
    pub cookie_flags: Vec<(Rewriting, Vec<Template>)>,
    /// `proxy_ssl_*`, for origins behind `https://`.
    pub tls: OriginTls,
    /// `larder_proxy_protocol`, off.
    pub proxy_protocol: ProxyProtocol,
}

impl Default for Proxy {
    fn default() -> Self {
        Self {
            origin: OriginSettings::default(),
            http_1_1: true,
            set_headers: Vec::new(),
            set_body: None,
            method: None,
            redirect: ProxyRedirect::Rules(vec![ProxyRedirectRule::Default]),
            cookie_domains: Vec::new(),
            cookie_paths: Vec::new(),
            cookie_flags: Vec::new(),
            tls: OriginTls::default(),
            proxy_protocol: ProxyProtocol::Off,
        }
    }
}

/// `proxy_redirect`.
#[derive(Clone, Debug)]
pub enum ProxyRedirect {
    /// `off`.
    Off,
    /// Rules in order; the first that matches is applied.
    Rules(Vec<ProxyRedirectRule>),
}

/// One `proxy_redirect`.
#[derive(Clone, Debug)]
pub enum ProxyRedirectRule {
    /// `default`: from the URL of `proxy_pass` to the location.
    Default,
    /// From and to.
    Replace(Rewriting, Template),
}

/// What is looked for by `proxy_redirect`, `proxy_cookie_domain` and `proxy_cookie_path`.
#[derive(Clone, Debug)]
pub enum Rewriting {
    /// A text.
    Text(Template),
    /// A regular expression.
    Regex(Pattern),
}
