//! What holds at a level.

use std::sync::Arc;

use super::{
    Access, Caching, ClientBody, ClientConnection, Compression, ErrorPages, FastCgi, FieldSettings, Files, Gating,
    Limits, Logs, Modules, Parts, Profiled, Proxy, Purging, RealIp, Redirects, Resolving, Subrequests,
};

/// What holds at a level: all that `http`, `server` and `location` have in common, inherited.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Files that are served: `root`, `index`, `types` and the like.
    pub files: Files,
    /// What becomes of the body of a request: `client_body_*`.
    pub body: ClientBody,
    /// How long a connection to a client lasts, and how it is written to.
    pub connection: ClientConnection,
    /// `error_page` and `recursive_error_pages`.
    pub errors: ErrorPages,
    /// Fields that are added to a response, or changed.
    pub fields: FieldSettings,
    /// How redirects of our own are written.
    pub redirects: Redirects,
    /// How much of a page is sent: conditions, ranges, slices.
    pub parts: Parts,
    /// Who is let in: `allow`, `deny`, `auth_basic*`, `satisfy`.
    pub access: Access,
    /// `limit_req*`, `limit_conn*` and `limit_rate*`.
    pub limits: Limits,
    /// `access_log` and `error_log`.
    pub logs: Logs,
    /// `set_real_ip_from` and `real_ip_*`.
    pub real_ip: RealIp,
    /// `resolver` and `resolver_timeout`.
    pub resolving: Resolving,
    /// `fastcgi_*`.
    pub fastcgi: Arc<FastCgi>,
    /// `proxy_*`.
    pub proxy: Arc<Proxy>,
    /// `gzip`, `brotli`, `zstd` and their kind.
    pub compression: Arc<Compression>,
    /// SSI, `add_*_body`, `auth_request`, `mirror`.
    pub subrequests: Arc<Subrequests>,
    /// By which rules pages are cached: `larder_cache_mode`, `larder_targeted_cache_control`.
    pub caching: Arc<Caching>,
    /// Who purges pages, and by which tags: `larder_purge_from`, `larder_cache_tags`, `larder_purge_by_origin`,
    /// `larder_litespeed`.
    pub purging: Arc<Purging>,
    /// How many requests are at the origins at once: `larder_gate`, `larder_gate_class`.
    pub gating: Arc<Gating>,
    /// What is known of the application: `larder_profile`.
    pub profile: Profiled,
    /// What the smaller modules are told: `sub_filter`, `userid` and the like.
    pub modules: Arc<Modules>,
}

impl Settings {
    /// nginx's defaults, with these files.
    pub fn new(files: Files) -> Self {
        Self {
            files,
            body: ClientBody::default(),
            connection: ClientConnection::default(),
            errors: ErrorPages::default(),
            fields: FieldSettings::default(),
            redirects: Redirects::default(),
            parts: Parts::default(),
            access: Access::default(),
            limits: Limits::default(),
            logs: Logs::default(),
            real_ip: RealIp::default(),
            resolving: Resolving::default(),
            fastcgi: Arc::default(),
            proxy: Arc::default(),
            compression: Arc::default(),
            subrequests: Arc::default(),
            caching: Arc::default(),
            purging: Arc::default(),
            gating: Arc::default(),
            profile: Profiled::default(),
            modules: Arc::default(),
        }
    }
}
