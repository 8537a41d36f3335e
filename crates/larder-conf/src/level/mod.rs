//! A level: the directives in one pair of braces, with what they inherit.

mod http;
mod overrides;
mod seen;
mod tls;

use std::sync::Arc;

use crate::contexts::Contexts;
use crate::model::At;
use crate::model::{
    AddHeader, Autoindex, Caching, CertificatePair, ClientLimits, Compression, FastCgi, Files, Gating, Handler, Http2,
    Listen, Matcher, Modules, OriginSettings, PemSource, Proxy, Purging, ServerName, Settings, Subrequests, Template,
    TryFiles,
};
use crate::span::Span;
use crate::template;

pub use self::http::HttpParts;
pub use self::overrides::Overrides;
pub use self::seen::Seen;
pub use self::tls::{TlsLevel, show_pem};

/// A level while its directives are applied.
#[derive(Debug)]
pub struct Level {
    /// The kind of block.
    pub context: Contexts,
    /// The settings that it inherits and passes on.
    pub settings: Settings,
    /// The settings of servers on request heads, likewise.
    pub client: ClientLimits,
    /// `ssl_*`.
    pub tls: Arc<TlsLevel>,
    /// `http2_*`.
    pub http2: Http2,
    /// `proxy_ssl_certificate`; forms a pair with `origin_key`.
    pub origin_certificate: Option<PemSource>,
    /// `proxy_ssl_certificate_key`.
    pub origin_key: Option<PemSource>,
    /// `autoindex`; the `autoindex_*` settings are kept even when it is off.
    pub autoindex_on: bool,
    /// `autoindex_*`.
    pub autoindex: Autoindex,
    /// `add_header_inherit`.
    pub header_inheritance: HeaderInheritance,
    /// `add_trailer_inherit`.
    pub trailer_inheritance: HeaderInheritance,
    /// Which requests the location matches.
    pub matcher: Matcher,
    /// What answers the location's requests.
    pub handler: Handler,
    /// `try_files`.
    pub try_files: Option<TryFiles>,
    /// `internal`.
    pub internal: bool,
    /// `alias`.
    pub alias: Option<Template>,
    /// How many bytes of the URI the alias replaces; `None` for all.
    pub alias_replaces: Option<usize>,
    /// `status_zone` of a server.
    pub server_zone: Option<String>,
    /// `listen`.
    pub listens: Vec<Listen>,
    /// `server_name`.
    pub names: Vec<At<ServerName>>,
    /// The first of `names`.
    pub first_name: Option<String>,
    /// Whether the directive being applied is the first of its name in this level.
    pub is_first: bool,
    /// Whether this level has `access_log off`, which silences all its access logs.
    pub access_log_off: bool,
    /// The directives that the level has had.
    pub seen: Seen,
    inherited_headers: Vec<AddHeader>,
    inherited_trailers: Vec<AddHeader>,
}

/// `add_header_inherit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderInheritance {
    /// Inherit if the level has no headers of its own.
    On,
    /// Inherit nothing.
    Off,
    /// Inherit, and add the level's own headers.
    Merge,
}

impl Level {
    /// The level of `http`.
    pub fn http(prefix: &std::path::Path) -> Self {
        Self {
            context: Contexts::HTTP,
            settings: Settings::new(files(prefix)),
            client: ClientLimits::default(),
            tls: Arc::new(TlsLevel::new()),
            http2: Http2::default(),
            origin_certificate: None,
            origin_key: None,
            autoindex_on: false,
            autoindex: Autoindex::default(),
            header_inheritance: HeaderInheritance::On,
            trailer_inheritance: HeaderInheritance::On,
            matcher: Matcher::Root,
            handler: Handler::Static,
            try_files: None,
            internal: false,
            alias: None,
            alias_replaces: None,
            server_zone: None,
            listens: Vec::new(),
            names: Vec::new(),
            first_name: None,
            is_first: true,
            access_log_off: false,
            seen: Seen::default(),
            inherited_headers: Vec::new(),
            inherited_trailers: Vec::new(),
        }
    }

    /// A level inside this one.
    pub fn inside(&self, context: Contexts, matcher: Matcher) -> Self {
        // An `if` or `limit_except` block is the same location with other settings.
        let is_same_location = context == Contexts::IF_IN_LOCATION || context == Contexts::LIMIT_EXCEPT;
        Self {
            context,
            settings: self.settings.clone(),
            client: self.client.clone(),
            tls: self.tls.clone(),
            http2: self.http2,
            origin_certificate: self.origin_certificate.clone(),
            origin_key: self.origin_key.clone(),
            autoindex_on: self.autoindex_on,
            autoindex: self.autoindex,
            header_inheritance: self.header_inheritance,
            trailer_inheritance: self.trailer_inheritance,
            matcher,
            handler: if is_same_location { self.handler.clone() } else { Handler::Static },
            try_files: None,
            internal: is_same_location && self.internal,
            alias: self.alias.clone(),
            alias_replaces: self.alias_replaces,
            server_zone: None,
            listens: Vec::new(),
            names: Vec::new(),
            first_name: None,
            is_first: true,
            access_log_off: false,
            seen: Seen::default(),
            inherited_headers: self.settings.fields.add_headers.clone(),
            inherited_trailers: self.settings.fields.add_trailers.clone(),
        }
    }

    /// Computes the settings that several directives decide together.
    pub fn finish(&mut self) {
        self.settings.files.autoindex = self.autoindex_on.then_some(self.autoindex);
        if self.access_log_off {
            self.settings.logs.access.clear();
        }
        if self.seen.has("proxy_ssl_certificate") || self.seen.has("proxy_ssl_certificate_key") {
            let pair = self.origin_certificate.clone().zip(self.origin_key.clone());
            self.proxy().tls.certificate = pair.map(|(certificate, key)| CertificatePair { certificate, key });
        }
        let has_own = self.seen.has("add_header");
        merge_headers(&mut self.settings.fields.add_headers, &self.inherited_headers, has_own, self.header_inheritance);
        let has_own = self.seen.has("add_trailer");
        merge_headers(
            &mut self.settings.fields.add_trailers,
            &self.inherited_trailers,
            has_own,
            self.trailer_inheritance,
        );
    }

    /// `fastcgi_*`.
    pub fn fastcgi(&mut self) -> &mut FastCgi {
        Arc::make_mut(&mut self.settings.fastcgi)
    }

    /// `proxy_*`.
    pub fn proxy(&mut self) -> &mut Proxy {
        Arc::make_mut(&mut self.settings.proxy)
    }

    /// `ssl_*`.
    pub fn tls(&mut self) -> &mut TlsLevel {
        Arc::make_mut(&mut self.tls)
    }

    /// `gzip`, `brotli`, `zstd`.
    pub fn compression(&mut self) -> &mut Compression {
        Arc::make_mut(&mut self.settings.compression)
    }

    /// SSI, `add_*_body`, `auth_request`, `mirror`.
    pub fn subrequests(&mut self) -> &mut Subrequests {
        Arc::make_mut(&mut self.settings.subrequests)
    }

    /// By which rules pages are cached.
    pub fn caching(&mut self) -> &mut Caching {
        Arc::make_mut(&mut self.settings.caching)
    }

    /// Who purges pages, and by which tags.
    pub fn purging(&mut self) -> &mut Purging {
        Arc::make_mut(&mut self.settings.purging)
    }

    /// How many requests are at the origins at once.
    pub fn gating(&mut self) -> &mut Gating {
        Arc::make_mut(&mut self.settings.gating)
    }

    /// The settings of the smaller modules.
    pub fn modules(&mut self) -> &mut Modules {
        Arc::make_mut(&mut self.settings.modules)
    }

    /// What `fastcgi_*` shares with `proxy_*`.
    pub fn fastcgi_origin(&mut self) -> &mut OriginSettings {
        &mut self.fastcgi().origin
    }

    /// What `proxy_*` shares with `fastcgi_*`.
    pub fn proxy_origin(&mut self) -> &mut OriginSettings {
        &mut self.proxy().origin
    }

    /// The list to add to; emptied if this is the first directive of its name in the level.
    pub fn list<'l, T>(&'l mut self, pick: impl FnOnce(&'l mut Settings) -> &'l mut Vec<T>) -> &'l mut Vec<T> {
        let is_first = self.is_first;
        let list = pick(&mut self.settings);
        if is_first {
            list.clear();
        }
        list
    }

    /// Sets `root`, which ends an inherited alias.
    pub fn set_root(&mut self, root: Template) {
        self.settings.files.root = root;
        self.alias = None;
        self.alias_replaces = None;
    }

    /// A place in the level, for messages about the whole level.
    pub fn place(&self, name: &str) -> Option<Span> {
        self.seen.first(name)
    }
}

/// The defaults: `root` is `html` below the prefix, `index` is `index.html`.
fn files(prefix: &std::path::Path) -> Files {
    let root = template::literal(&prefix.join("html").to_string_lossy(), Span::NOWHERE);
    Files::new(root, template::literal("index.html", Span::NOWHERE))
}

fn merge_headers(own: &mut Vec<AddHeader>, inherited: &[AddHeader], has_own: bool, how: HeaderInheritance) {
    match (how, has_own) {
        (HeaderInheritance::Merge, true) => {
            own.splice(0..0, inherited.iter().cloned());
        }
        (HeaderInheritance::Off, false) => own.clear(),
        (HeaderInheritance::On | HeaderInheritance::Off, _) | (HeaderInheritance::Merge, false) => {}
    }
}
