//! Answers of our own: redirects, texts, error pages. Statuses go through `error_page` first.

use bytes::Bytes;
use larder_conf::model::{ErrorPageStatus, ServerTokens};
use larder_http::status::{error_note, error_title, sent_status};
use larder_http::{Known, Method, status};

use crate::context::Cx;
use crate::exchange::{Exchange, Silent, url};
use crate::purges::apis::Form;
use crate::site::Handler;

use super::{Content, Internal, Response, Step, Synth};

/// Statuses after which the connection is closed, as the rest of the request cannot be trusted (nginx's list).
const CLOSING: [u16; 7] = [
    status::BAD_REQUEST,
    status::CONTENT_TOO_LARGE,
    status::URI_TOO_LONG,
    status::CERT_ERROR,
    status::NO_CERT,
    status::PLAIN_TO_HTTPS,
    status::INTERNAL_SERVER_ERROR,
];

/// Turns an answer of our own into a response, or into what an `error_page` says.
pub fn synth(synth: Synth, ex: &mut Exchange, cx: &Cx) -> Step {
    let is_error = synth.status() >= 300 && synth.status() != status::CLOSE && !matches!(synth, Synth::Text(..));
    if is_error && ex.request.nested.sub.as_ref().is_some_and(|sub| sub.has_stub) {
        // A block of the page stands in for the error, and no `error_page`.
        ex.reply.status = status::OK;
        ex.reply.fields.clear();
        return Step::Deliver(Response::own(Content::Empty));
    }
    ex.reply.silent = Silent::default();
    match synth {
        // Also by `return 444`; logs have the status.
        Synth::Status(status) | Synth::Final(status) if gets_no_response(status) => {
            ex.reply.status = status;
            Step::Abort
        }
        Synth::Status(status) => special(status, ex, cx),
        Synth::Final(status) => page(status, ex, cx),
        Synth::Redirect(status, url) => {
            ex.reply.fields.set("Location", &url);
            ex.reply.location_is_ours = true;
            special(status, ex, cx)
        }
        Synth::Text(status, text) => {
            ex.reply.status = status;
            let content_type = super::files::content_type(ex, cx);
            // The origin's type stays after X-Accel-Redirect.
            if !content_type.is_empty() && !ex.reply.fields.contains("Content-Type") {
                ex.reply.fields.set("Content-Type", content_type.as_bytes());
            }
            Step::Deliver(Response::own(Content::Bytes(Bytes::from(text))))
        }
    }
}

/// The response to `synth` that no `error_page` takes: the built-in page.
pub fn built_in(synth: Synth, ex: &mut Exchange, cx: &Cx) -> Response {
    let status = synth.status();
    if let Synth::Redirect(_, url) = synth {
        ex.reply.fields.set("Location", &url);
    }
    built_in_page(status, ex, cx)
}

/// Whether larder closes the connection without a word: the configuration says so, or the client was too slow or has left.
fn gets_no_response(status: u16) -> bool {
    matches!(status, status::REQUEST_TIMEOUT | status::CLOSE | status::CLIENT_CLOSED_REQUEST)
}

/// ngx_http_special_response_handler.
fn special(status: u16, ex: &mut Exchange, cx: &Cx) -> Step {
    if CLOSING.contains(&status) || status == status::NOT_IMPLEMENTED {
        ex.reply.framing.keep_alive = false;
    }
    let loc = cx.loc(ex);
    if ex.request.way.error_page && !loc.settings.errors.recursive {
        return page(status, ex, cx);
    }
    let Some((_, answer, target)) = loc.error_pages.iter().find(|(statuses, _, _)| statuses.contains(&status)) else {
        return page(status, ex, cx);
    };
    let target = target.value(ex, cx);
    ex.request.way.error_page = true;
    let kept = match answer {
        // Clients get nginx's own codes as 400 (ngx_http_core_error_page).
        ErrorPageStatus::Keep => Some(if (status::HEAD_TOO_LARGE..=status::PLAIN_TO_HTTPS).contains(&status) {
            status::BAD_REQUEST
        } else {
            status
        }),
        ErrorPageStatus::OfTarget => None,
        ErrorPageStatus::Fixed(status) => Some(*status),
    };
    match target.first() {
        Some(b'/') => {
            ex.request.way.error_status = kept;
            forget_response(status, ex);
            // The page of an error is fetched by GET whatever the request was.
            if ex.request.method != Method::Head {
                ex.request.method = Method::Get;
            }
            let (path, args) = match target.iter().position(|&byte| byte == b'?') {
                Some(at) => (&target[..at], &target[at + 1..]),
                None => (&target[..], &b""[..]),
            };
            ex.request.way.url = Some(url(path, args));
            Step::Redirect(Internal::Literal(target))
        }
        Some(b'@') => {
            ex.request.way.error_status = kept;
            forget_response(status, ex);
            Step::Redirect(Internal::Named(target.into()))
        }
        _ => {
            // A URL: the client is sent there.
            let status = kept.filter(|status| status::is_redirect(*status)).unwrap_or(status::MOVED_TEMPORARILY);
            ex.reply.fields.set("Location", &target);
            ex.reply.location_is_ours = true;
            ex.request.way.error_status = None;
            page(status, ex, cx)
        }
    }
}

/// Drops the fields of the failed response, except those that its status needs: the challenges of a 401, the
/// `Location` of a redirect, the `Content-Range` of a 416.
fn forget_response(status: u16, ex: &mut Exchange) {
    let belongs = |known: Known| match status {
        status::UNAUTHORIZED => known == Known::WwwAuthenticate,
        status::MOVED_PERMANENTLY..=status::PERMANENT_REDIRECT => known == Known::Location,
        status::RANGE_NOT_SATISFIABLE => known == Known::ContentRange,
        status::SERVICE_UNAVAILABLE => known == Known::RetryAfter,
        _ => false,
    };
    ex.reply.fields.retain(|known, _, _| belongs(known));
    ex.reply.reason.clear();
    ex.upstream.status = None;
}

/// The built-in page of a status, as nginx writes it.
fn page(status: u16, ex: &mut Exchange, cx: &Cx) -> Step {
    Step::Deliver(built_in_page(status, ex, cx))
}

fn built_in_page(status: u16, ex: &mut Exchange, cx: &Cx) -> Response {
    if CLOSING.contains(&status) || status == status::NOT_IMPLEMENTED {
        ex.reply.framing.keep_alive = false;
    }
    // nginx's own codes for bad requests and TLS mishaps are told to the client as 400.
    ex.reply.status = sent_status(status);
    ex.reply.reason.clear();
    ex.request.way.error_status = None;
    let has_page = status >= 400 || (300..309).contains(&status) && status != status::NOT_MODIFIED;
    let Some(title) = error_title(status).filter(|_| has_page) else {
        return Response::own(Content::Empty);
    };
    if matches!(cx.loc(ex).handler, Handler::Admin) {
        let form = Form::Own;
        ex.reply.fields.set("Content-Type", form.content_type().as_bytes());
        return Response::own(Content::Bytes(Bytes::from(form.refused(status, title))));
    }
    ex.reply.fields.set("Content-Type", b"text/html");
    let tokens = cx.loc(ex).settings.fields.server_tokens;
    Response::own(Content::Bytes(Bytes::from(html(title, status, tokens))))
}

fn html(title: &str, status: u16, tokens: ServerTokens) -> String {
    let server = server_name(tokens);
    // The heading is the status that is sent; title and note tell what it stands for.
    let heading = error_title(sent_status(status)).unwrap_or(title);
    let note = error_note(status).map(|note| format!("<center>{note}</center>\r\n")).unwrap_or_default();
    format!(
        "<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n<center><h1>{heading}</h1></center>\r\n{note}<hr><center>{server}</center>\r\n</body>\r\n</html>\r\n"
    )
}

/// The field `Server` as HTTP/1 writes it.
pub fn server_line(tokens: ServerTokens) -> &'static str {
    match tokens {
        ServerTokens::Off => "Server: larder\r\n",
        ServerTokens::On | ServerTokens::Build => concat!("Server: larder/", env!("CARGO_PKG_VERSION"), "\r\n"),
    }
}

/// What we call ourselves.
pub fn server_name(tokens: ServerTokens) -> &'static str {
    match tokens {
        ServerTokens::Off => "larder",
        ServerTokens::On | ServerTokens::Build => concat!("larder/", env!("CARGO_PKG_VERSION")),
    }
}
