//! What a level says about TLS, until a server is made of it.

use std::path::PathBuf;

use crate::model::{AcmeChallenge, AskedAbout, At, PemSource, SharedSessions, Tls};
use crate::template;

use super::overrides::Overrides;

/// `ssl_*` and `larder_acme` while directives are applied. Certificates and keys are two lists, inherited each on
/// its own, and become pairs in the server.
#[derive(Clone, Debug)]
pub struct TlsLevel {
    /// All that needs no other directive to be understood.
    pub tls: Tls,
    /// `ssl_certificate`, in order.
    pub certificates: Vec<PemSource>,
    /// `ssl_certificate_key`, in order.
    pub keys: Vec<PemSource>,
    /// `ssl_stapling`.
    pub stapling: bool,
    /// `ssl_stapling_file`.
    pub stapling_file: Option<At<PathBuf>>,
    /// `ssl_stapling_responder`.
    pub stapling_responder: Option<At<String>>,
    /// `ssl_stapling_verify`.
    pub stapling_verify: bool,
    /// The shared one of `ssl_session_cache`, inherited also where another kind is set.
    pub session_shared: Option<SharedSessions>,
    /// `ssl on`.
    pub ssl_on: bool,
    /// `larder_acme`; `None` for `off`.
    pub acme: Option<At<AcmeChallenge>>,
    /// `ssl_ocsp`.
    pub ocsp: Option<AskedAbout>,
    /// `ssl_ocsp_responder`.
    pub ocsp_responder: Option<At<String>>,
    /// `ssl_ocsp_cache`.
    pub ocsp_cache: Option<SharedSessions>,
    /// `ssl_conf_command`, what of it has directives too.
    pub overrides: Overrides,
}

impl TlsLevel {
    /// nginx's defaults.
    pub fn new() -> Self {
        Self {
            tls: Tls::default(),
            ocsp: None,
            ocsp_responder: None,
            ocsp_cache: None,
            certificates: Vec::new(),
            keys: Vec::new(),
            stapling: false,
            stapling_file: None,
            stapling_responder: None,
            stapling_verify: false,
            session_shared: None,
            ssl_on: false,
            acme: None,
            overrides: Overrides::default(),
        }
    }
}

/// Where PEM comes from, for messages.
pub fn show_pem(source: &PemSource) -> String {
    match source {
        PemSource::File(path) => path.value.display().to_string(),
        PemSource::Data(_) => "data:...".to_owned(),
        PemSource::Variable(template) => template::show(template),
    }
}
