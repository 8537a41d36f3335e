//! What lies below a request to an origin: TLS, and a header of the PROXY protocol.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use larder_conf::model::{LogLevel, ProxyProtocol};
use larder_http::proxy_protocol::{Addresses, write_v1, write_v2};
use larder_http::status;
use larder_origin::Tls;
use larder_tls::ClientConfig;

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::request::{Step, Synth};
use crate::site::origin_tls::{Name, OriginTls, OriginTlsConfig};
use crate::tls::ByVariable;

impl OriginTls {
    /// TLS with the origin of `ex`, whose `$proxy_host` is set.
    pub fn of(&self, ex: &mut Exchange, cx: &Cx) -> Result<Tls, Step> {
        let config = match self.config.of(ex, cx) {
            Ok(config) => config,
            Err(why) => {
                cx.local.logs.error(cx, ex, LogLevel::Error, format_args!("{why}"));
                return Err(Step::Synth(Synth::Status(status::INTERNAL_SERVER_ERROR)));
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
            Self::Variable(by_certificate) => {
                let ByVariable { certificate, key, .. } = &by_certificate.certificate;
                by_certificate.with([certificate.value(ex, cx), key.value(ex, cx)])
            }
        }
    }
}

/// What a connection for `ex` begins with: a preamble, then the header of the PROXY protocol.
pub fn preface(preamble: &Bytes, version: ProxyProtocol, ex: &Exchange) -> Option<Bytes> {
    let write = match version {
        ProxyProtocol::Off => return (!preamble.is_empty()).then(|| preamble.clone()),
        ProxyProtocol::V1 => write_v1,
        ProxyProtocol::V2 => write_v2,
    };
    let source = ex.asked.real_ip.map(|(ip, port)| SocketAddr::new(ip, port)).or(ex.asked.client.peer);
    let addresses = match (source, ex.asked.client.local) {
        (Some(source), Some(destination)) => Addresses::inet(source, destination),
        (None, _) | (_, None) => Addresses::Unknown,
    };
    let mut header = preamble.to_vec();
    write(&addresses, &mut header);
    Some(header.into())
}
