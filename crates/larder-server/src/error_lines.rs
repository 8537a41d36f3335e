//! Writes lines of the error log about a request, with its circumstances.

use std::fmt;

use larder_conf::model::LogLevel;
use larder_http::Known;

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::logs::{Context, Logs};
use crate::site::{Handler, Protocol};

impl Logs {
    /// Logs an error of an exchange.
    pub fn error(&self, cx: &Cx, ex: &Exchange, level: LogLevel, message: fmt::Arguments<'_>) {
        self.with_origin(cx, ex, level, None, message);
    }

    /// Logs an error of an exchange that involves the origin at `address`.
    pub fn origin_error(&self, cx: &Cx, ex: &Exchange, level: LogLevel, address: &str, message: fmt::Arguments<'_>) {
        self.with_origin(cx, ex, level, Some(address), message);
    }

    fn with_origin(&self, cx: &Cx, ex: &Exchange, level: LogLevel, address: Option<&str>, message: fmt::Arguments<'_>) {
        let log = cx.loc(ex).logs.error;
        let Some(errors) = self.errors(log, level) else { return };
        let context = self.context(cx, ex, address.unwrap_or_default());
        let circumstances = context.circumstances(ex.asked.head.fields.get_known(Known::Referer));
        errors.write(level, cx.now(), &circumstances, message);
    }

    /// The circumstances of an exchange, for [`Logs::write`].
    pub fn context(&self, cx: &Cx, ex: &Exchange, origin: &str) -> Context {
        Context {
            log: cx.loc(ex).logs.error,
            connection: ex.asked.client.id,
            client: ex.remote_ip().map_or_else(|| b"unix:".to_vec(), |ip| ip.to_string().into_bytes()),
            server: cx.server(ex).name.to_vec(),
            request: ex.asked.head.line().to_vec(),
            upstream: upstream_url(cx, ex, origin),
            subrequest: ex.is_sub().then(|| ex.request.uri.clone()),
            host: ex.asked.head.fields.get_known(Known::Host).map(<[u8]>::to_vec),
        }
    }
}

fn upstream_url(cx: &Cx, ex: &Exchange, origin: &str) -> Vec<u8> {
    if origin.is_empty() {
        return Vec::new();
    }
    let Handler::Origin(asked) = &cx.loc(ex).handler else {
        return origin.as_bytes().to_vec();
    };
    match asked.backend.protocol {
        Protocol::FastCgi(_) => format!("fastcgi://{origin}").into_bytes(),
        Protocol::Http(_) => {
            let separator: &[u8] = if origin.starts_with("unix:") { b":" } else { b"" };
            let scheme = asked.backend.scheme().prefix();
            [scheme, origin.as_bytes(), separator, ex.asked.head.target()].concat()
        }
    }
}
