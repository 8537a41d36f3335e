//! `proxy_ssl_*`: the TLS settings for origins behind `https://`.

use std::collections::HashMap;
use std::sync::Arc;

use larder_tls::{ClientConfig, ClientOptions};
use parking_lot::Mutex;

use crate::text::Text;
use crate::tls::ByVariable;

/// `proxy_ssl_*` of a location, for origins behind `https://`.
pub struct OriginTls {
    /// The settings that do not depend on the name.
    pub config: Arc<OriginTlsConfig>,
    /// `proxy_ssl_name`.
    pub name: Name,
}

/// Whose certificate the origin has to show.
pub enum Name {
    /// The host of `proxy_pass`.
    Host,
    /// This name, for every request.
    Fixed(Arc<str>),
    /// A name that variables give.
    Variable(Text),
}

/// The TLS settings of connections to an origin.
pub enum OriginTlsConfig {
    /// The same for every request.
    Fixed(Arc<ClientConfig>),
    /// They are unusable. A configuration with them reports that and never serves.
    Broken,
    /// `proxy_ssl_certificate` with variables.
    Variable(Box<ByCertificate>),
}

/// A set of TLS settings for each certificate that variables give.
pub struct ByCertificate {
    /// The variables of the certificate and its key.
    pub certificate: ByVariable,
    /// All other settings.
    pub options: ClientOptions,
    /// The settings that were made, by certificate and key as the variables gave them.
    pub made: Mutex<HashMap<[Vec<u8>; 2], Made>>,
}

/// The settings with one certificate that variables gave.
pub struct Made {
    /// The certificate and its chain, DER; empty if the variables were.
    chain: Vec<Vec<u8>>,
    config: Arc<ClientConfig>,
}

/// How many certificates from variables are kept.
const MADE_MAX: usize = 256;

impl ByCertificate {
    /// The settings with the certificate and the key that the variables gave.
    pub fn with(&self, asked: [Vec<u8>; 2]) -> Result<Arc<ClientConfig>, String> {
        let key = match &asked {
            // nginx shows no certificate then.
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
