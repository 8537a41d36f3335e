//! `proxy_ssl_*`: what connections to origins behind `https://` are made with.

use std::collections::HashMap;
use std::sync::Arc;

use larder_tls::{ClientConfig, ClientOptions};
use parking_lot::Mutex;

use crate::text::Text;
use crate::tls::ByVariable;

/// `proxy_ssl_*` of a location, for origins behind `https://`.
pub struct OriginTls {
    /// What does not depend on the request.
    pub config: Arc<OriginTlsConfig>,
    /// `proxy_ssl_name`.
    pub name: Name,
}

/// Whose certificate is expected of an origin.
pub enum Name {
    /// The host of `proxy_pass`.
    Host,
    /// The same for every request.
    Fixed(Arc<str>),
    /// Another for every request.
    Variable(Text),
}

/// What connections to an origin have in common.
pub enum OriginTlsConfig {
    /// The same for every request.
    Fixed(Arc<ClientConfig>),
    /// It could not be made. The configuration that says so is never served.
    Broken,
    /// `proxy_ssl_certificate` with variables.
    Variable(Box<ByCertificate>),
}

/// A configuration for each certificate that comes out of variables.
pub struct ByCertificate {
    /// The certificate.
    pub certificate: ByVariable,
    /// Everything else.
    pub options: ClientOptions,
    /// Those that were made, by what was asked for.
    pub made: Mutex<HashMap<[Vec<u8>; 2], Made>>,
}

/// A configuration with a certificate that came from variables.
pub struct Made {
    /// The certificate and those with it, DER; none where the variables were empty.
    chain: Vec<Vec<u8>>,
    config: Arc<ClientConfig>,
}

/// How many configurations of certificates from variables are kept.
const MADE_MAX: usize = 256;

impl ByCertificate {
    /// The configuration with the certificate and the key that the variables have named.
    pub fn with(&self, asked: [Vec<u8>; 2]) -> Result<Arc<ClientConfig>, String> {
        let key = match &asked {
            // nginx shows nothing then.
            [certificate, key] if certificate.is_empty() || key.is_empty() => None,
            [certificate, key] => Some(self.certificate.load(certificate, key)?),
        };
        let chain: Vec<Vec<u8>> = key.iter().flat_map(|key| key.chain().map(<[u8]>::to_vec)).collect();
        let mut made = self.made.lock();
        if let Some(made) = made.get(&asked).filter(|made| made.chain == chain) {
            return Ok(Arc::clone(&made.config));
        }
        let options = ClientOptions { certificate: key, ..self.options.clone() };
        let (config, _) = ClientConfig::new(options).map_err(|error| error.to_string())?;
        if made.len() >= MADE_MAX {
            made.clear();
        }
        made.insert(asked, Made { chain, config: Arc::clone(&config) });
        Ok(config)
    }
}
