//! What lies below a request to an origin: TLS, and a header of the PROXY protocol.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use larder_conf::model::{LogLevel, ProxyProtocol};
use larder_http::proxy_protocol::{Addresses, write_v1, write_v2};
use larder_origin::Tls;
use larder_tls::{ClientConfig, ClientOptions};
use parking_lot::Mutex;

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::request::{Step, Synth};
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

impl OriginTls {
    /// TLS with the origin of `ex`, whose `$proxy_host` is set.
    pub fn of(&self, ex: &mut Exchange, cx: &Cx) -> Result<Tls, Step> {
        let config = match self.config.of(ex, cx) {
            Ok(config) => config,
            Err(why) => {
                cx.local.logs.error(cx, ex, LogLevel::Error, format_args!("{why}"));
                return Err(Step::Synth(Synth::Status(500)));
            }
        };
        let name = match &self.name {
            Name::Host => String::from_utf8_lossy(&ex.visit.proxy_host).into(),
            Name::Fixed(name) => Arc::clone(name),
            Name::Variable(text) => String::from_utf8_lossy(&text.value(ex, cx)).into(),
        };
        Ok(Tls { config, name })
    }
}

impl OriginTlsConfig {
    fn of(&self, ex: &mut Exchange, cx: &Cx) -> Result<Arc<ClientConfig>, String> {
        match self {
            Self::Fixed(config) => Ok(Arc::clone(config)),
            Self::Broken => Err("no proxy_ssl configuration".to_owned()),
            Self::Variable(by_certificate) => by_certificate.of(ex, cx),
        }
    }
}

impl ByCertificate {
    fn of(&self, ex: &mut Exchange, cx: &Cx) -> Result<Arc<ClientConfig>, String> {
        let asked = [self.certificate.certificate.value(ex, cx), self.certificate.key.value(ex, cx)];
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

/// The header of the PROXY protocol that a connection for `ex` begins with.
pub fn preface(version: ProxyProtocol, ex: &Exchange) -> Option<Bytes> {
    let write = match version {
        ProxyProtocol::Off => return None,
        ProxyProtocol::V1 => write_v1,
        ProxyProtocol::V2 => write_v2,
    };
    let source = ex.asked.real_ip.map(|(ip, port)| SocketAddr::new(ip, port)).or(ex.asked.client.peer);
    let addresses = match (source, ex.asked.client.local) {
        (Some(source), Some(destination)) => Addresses::inet(source, destination),
        (None, _) | (_, None) => Addresses::Unknown,
    };
    let mut header = Vec::new();
    write(&addresses, &mut header);
    Some(header.into())
}
