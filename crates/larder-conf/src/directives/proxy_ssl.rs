//! `proxy_ssl_*` and `larder_proxy_protocol`: TLS and the PROXY protocol towards an origin.

use super::{Action, Args, DirectiveInfo, HSL, ONE, directive, http, openssl, repeated, tls};
use crate::cx::Cx;
use crate::diagnostic::Outcome;
use crate::level::Level;
use crate::model::{OriginTls, ProxyProtocol};
use crate::tree::Directive;

const FLAG: Args = Args::Flag;

pub const TABLE: &[DirectiveInfo] = &[
    directive(
        "proxy_ssl_session_reuse",
        HSL,
        FLAG,
        Action::Level(|l, _, d| http::set(&mut of(l).session_reuse, d.flag())),
    ),
    repeated(
        "proxy_ssl_protocols",
        HSL,
        Args::AtLeast(1),
        Action::Level(|l, cx, d| {
            let before = (!l.is_first).then_some(l.settings.proxy.tls.protocols);
            http::set(&mut of(l).protocols, tls::protocols(before, cx, d))
        }),
    ),
    directive(
        "proxy_ssl_ciphers",
        HSL,
        ONE,
        Action::Level(|l, _, d| http::set(&mut of(l).ciphers, tls::text(d).map(Some))),
    ),
    directive("proxy_ssl_name", HSL, ONE, Action::Level(|l, _, d| http::set(&mut of(l).name, d.template(0).map(Some)))),
    directive("proxy_ssl_server_name", HSL, FLAG, Action::Level(|l, _, d| http::set(&mut of(l).server_name, d.flag()))),
    directive("proxy_ssl_verify", HSL, FLAG, Action::Level(|l, _, d| http::set(&mut of(l).verify, d.flag()))),
    directive(
        "proxy_ssl_verify_depth",
        HSL,
        ONE,
        Action::Level(|l, _, d| http::set(&mut of(l).verify_depth, d.number32(0))),
    ),
    directive(
        "proxy_ssl_trusted_certificate",
        HSL,
        ONE,
        Action::Level(|l, cx, d| http::set(&mut of(l).trusted_certificate, tls::file_or_none(cx, d))),
    ),
    directive("proxy_ssl_crl", HSL, ONE, Action::Level(|l, cx, d| http::set(&mut of(l).crl, tls::file_or_none(cx, d)))),
    directive("proxy_ssl_certificate", HSL, ONE, Action::Level(certificate)),
    directive("proxy_ssl_certificate_key", HSL, ONE, Action::Level(key)),
    directive(
        "proxy_ssl_certificate_cache",
        HSL,
        Args::Between(1, 3),
        Action::Level(|l, _, d| http::set(&mut of(l).certificate_cache, tls::certificate_cache(d))),
    ),
    directive(
        "proxy_ssl_password_file",
        HSL,
        ONE,
        Action::Level(|l, cx, d| http::set(&mut of(l).password_file, tls::file(cx, d).map(Some))),
    ),
    repeated(
        "proxy_ssl_conf_command",
        HSL,
        Args::Between(2, 2),
        Action::Level(|l, cx, d| {
            let is_first = l.is_first;
            openssl::conf_command(is_first, &mut of(l).ciphersuites, None, cx, d)
        }),
    ),
    directive(
        "larder_proxy_protocol",
        HSL,
        ONE,
        Action::Level(|l, _, d| {
            let versions = [("off", ProxyProtocol::Off), ("v1", ProxyProtocol::V1), ("v2", ProxyProtocol::V2)];
            http::set(&mut l.proxy().proxy_protocol, http::choose(d, &versions))
        }),
    ),
];

fn of(level: &mut Level) -> &mut OriginTls {
    &mut level.proxy().tls
}

fn certificate(level: &mut Level, cx: &mut Cx<'_>, d: &Directive) -> Outcome {
    level.origin_certificate = match d.text(0) {
        "" => None,
        _ => Some(tls::pem(cx, d)?),
    };
    Ok(())
}

fn key(level: &mut Level, cx: &mut Cx<'_>, d: &Directive) -> Outcome {
    level.origin_key = match d.text(0) {
        "" => None,
        _ => Some(tls::key_pem(cx, d)?),
    };
    Ok(())
}
