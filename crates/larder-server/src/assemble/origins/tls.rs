//! `proxy_ssl_*`: builds the TLS settings of connections to origins behind `https://`.

use std::collections::HashMap;
use std::sync::Arc;

use larder_conf::model::{self, At};
use larder_conf::{Diagnostic, Span, as_literal};
use larder_tls::{ClientConfig, ClientOptions, Verify};
use parking_lot::Mutex;

use crate::assemble::Builder;
use crate::assemble::tls::{authorities, certificate, clock, passwords, protocols, revocation_lists, variable};
use crate::material::Material;
use crate::site::origin_tls::{ByCertificate, Name, OriginTls, OriginTlsConfig};

/// What is shared while origins are assembled.
#[derive(Default)]
pub struct Making {
    /// Certificates, keys and the like, as they were read.
    pub material: Material,
    /// Settings by their directives: locations that inherit the same ones share connections and sessions.
    configs: HashMap<String, Arc<OriginTlsConfig>>,
}

/// The TLS settings of a `proxy_pass` that is written at `pass`.
pub fn origin_tls(builder: &mut Builder, tls: &model::OriginTls, pass: Span) -> OriginTls {
    let key = key_of(tls);
    let known = builder.origins.configs.get(&key).cloned();
    let config = known.unwrap_or_else(|| {
        let config = Arc::new(config(builder, tls, pass).unwrap_or(OriginTlsConfig::Broken));
        builder.origins.configs.insert(key, Arc::clone(&config));
        config
    });
    let name = match &tls.name {
        None => Name::Host,
        Some(template) => match as_literal(template) {
            Some(name) => Name::Fixed(name.into()),
            None => Name::Variable(builder.text(template)),
        },
    };
    OriginTls { config, name }
}

/// A key that is equal for settings inherited from the same directives, and only for them.
fn key_of(tls: &model::OriginTls) -> String {
    // Most settings know the place of their directive; the rest are short.
    let model::OriginTls {
        session_reuse,
        protocols,
        ciphers,
        ciphersuites,
        name: _,
        server_name,
        verify,
        verify_depth,
        trusted_certificate,
        crl,
        certificate,
        certificate_cache,
        password_file,
    } = tls;
    format!(
        "{session_reuse} {protocols:?} {ciphers:?} {ciphersuites:?} {server_name} {verify} {verify_depth} \
         {trusted_certificate:?} {crl:?} {certificate:?} {certificate_cache:?} {password_file:?}"
    )
}

fn config(builder: &mut Builder, tls: &model::OriginTls, pass: Span) -> Option<OriginTlsConfig> {
    let material = builder.origins.material.clone();
    let mut options = ClientOptions::new(clock());
    options.verify = match tls.verify {
        true => Some(verify(builder, tls, &material)?),
        false => None,
    };
    options.send_server_name = tls.server_name;
    options.protocols = protocols(tls.protocols);
    options.ciphers = tls.ciphers.as_ref().map(|ciphers| ciphers.value.clone());
    options.tls13_ciphers = tls.ciphersuites.as_ref().map(|suites| suites.value.clone());
    options.session_reuse = tls.session_reuse;
    let passwords = passwords(builder, tls.password_file.as_ref(), &material)?;
    let by_variable = match &tls.certificate {
        Some(pair) if pair.has_variables() => Some(variable(builder, pair, &passwords, tls.certificate_cache)),
        Some(pair) => {
            options.certificate = Some(certificate(builder, pair, &passwords, &material)?);
            None
        }
        None => None,
    };
    let span = |written: Option<&At<String>>| written.map_or(pass, |written| written.span);
    match ClientConfig::new(options.clone()) {
        Ok((config, notices)) => {
            for notice in notices {
                let written = match notice.directive {
                    "proxy_ssl_ciphers" => tls.ciphers.as_ref(),
                    _ => tls.ciphersuites.as_ref(),
                };
                builder.diagnostics.push(*Diagnostic::notice(notice.to_string()).at(span(written)));
            }
            Some(match by_variable {
                None => OriginTlsConfig::Fixed(config),
                Some(certificate) => {
                    let made = Mutex::default();
                    OriginTlsConfig::Variable(Box::new(ByCertificate { certificate, options, made }))
                }
            })
        }
        Err(error) => {
            builder.error(error.to_string(), span(tls.ciphers.as_ref()));
            None
        }
    }
}

fn verify(builder: &mut Builder, tls: &model::OriginTls, material: &Material) -> Option<Verify> {
    Some(Verify {
        depth: tls.verify_depth,
        trusted: authorities(builder, tls.trusted_certificate.as_ref(), "trusted certificate", material)?,
        revocation_lists: revocation_lists(builder, tls.crl.as_ref(), material)?,
        ..Verify::default()
    })
}
