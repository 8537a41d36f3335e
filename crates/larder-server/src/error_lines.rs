//! Writes lines of the error log about a request, with its circumstances.

use std::fmt;

use larder_conf::model::LogLevel;
use larder_http::Known;
use larder_vsl::Tag;

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::logs::{Context, Logs, Texts};
use crate::site::{Handler, Protocol, Target};
use crate::target;
use crate::vsl::{Note, Open};

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
        if let Some(open) = ex.log.now() {
            record(open, level, ex.log.fetch.is_some(), address.unwrap_or_default(), message);
        }
        self.write_error(cx, ex, level, address, message);
    }

    /// Logs what the transaction log has been told otherwise.
    pub fn told_error(&self, cx: &Cx, ex: &Exchange, level: LogLevel, message: fmt::Arguments<'_>) {
        self.write_error(cx, ex, level, None, message);
    }

    fn write_error(&self, cx: &Cx, ex: &Exchange, level: LogLevel, address: Option<&str>, message: fmt::Arguments<'_>) {
        let log = cx.loc(ex).logs.error;
        let Some(errors) = self.errors(log, level) else { return };
        if ex.is_walk() {
            if let Some(open) = &ex.log.client {
                open.note(|| Note::Said { what: "log", text: message.to_string(), at: None });
            }
            return;
        }
        let context = self.context(cx, ex, address.unwrap_or_default());
        context.with_circumstances(ex.asked.head.fields.get_known(Known::Referer), |circumstances| {
            errors.write(level, cx.now(), circumstances, message);
        });
    }

    /// The circumstances of an exchange, for [`Logs::write`].
    pub fn context(&self, cx: &Cx, ex: &Exchange, origin: &str) -> Context {
        let mut sent = Vec::new();
        let texts = Texts {
            server: &cx.server(ex).name,
            request: ex.asked.head.line(),
            upstream: upstream_url(cx, ex, origin, &mut sent),
            subrequest: ex.is_sub().then_some(&ex.request.uri),
            host: ex.asked.head.fields.get_known(Known::Host),
        };
        Context::new(cx.loc(ex).logs.error, ex.asked.client.id, ex.remote_ip(), texts)
    }
}

/// Tells the transaction log what the error log is told.
#[cold]
fn record(open: &Open, level: LogLevel, is_of_fetch: bool, address: &str, message: fmt::Arguments<'_>) {
    match level {
        LogLevel::Debug => {}
        LogLevel::Info | LogLevel::Notice | LogLevel::Warn => open.say(Tag::Notice, message),
        _ if is_of_fetch && !address.is_empty() => {
            open.say(Tag::FetchError, format_args!("{message}, upstream: {address}"));
        }
        _ if is_of_fetch => open.say(Tag::FetchError, message),
        _ => open.say(Tag::Error, message),
    }
}

/// The URL, in pieces. `sent` is for the target that the origin gets.
fn upstream_url<'a>(cx: &Cx, ex: &'a Exchange, origin: &'a str, sent: &'a mut Vec<u8>) -> [&'a [u8]; 4] {
    if origin.is_empty() {
        return Default::default();
    }
    let Handler::Origin(asked) = &cx.loc(ex).handler else {
        return [origin.as_bytes(), b"", b"", b""];
    };
    match asked.backend.protocol {
        Protocol::FastCgi(_) => [b"fastcgi://", origin.as_bytes(), b"", b""],
        Protocol::Http(_) => {
            let separator: &[u8] = if origin.starts_with("unix:") { b":" } else { b"" };
            match &asked.backend.target {
                Target::Group { uri, .. } => target::append_origin_uri(uri.as_deref(), ex, cx, sent),
                // What the variables were then is not known.
                Target::Variable(_) | Target::Files => sent.extend_from_slice(ex.asked.head.target()),
            }
            [asked.backend.scheme().prefix(), origin.as_bytes(), separator, sent]
        }
    }
}
