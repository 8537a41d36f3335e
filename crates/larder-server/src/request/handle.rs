//! The location's handler: files, an origin, or one of the small answers.

use bytes::Bytes;
use larder_http::{Method, status};

use crate::context::Cx;
use crate::exchange::{Exchange, RequestBody};
use crate::metrics;
use crate::site::Handler;

use super::purge::Standing;
use super::{
    Content, Response, Slow, Step, Synth, admin, ban, counted, files, film, mirror, purge, purge_from, request_body,
};

/// A transparent picture of one pixel, as `empty_gif` sends it.
const EMPTY_GIF: &[u8] = b"GIF89a\x01\x00\x01\x00\x80\x01\x00\x00\x00\x00\xff\xff\xff!\xf9\x04\x01\x00\x00\x01\x00,\
\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02L\x01\x00;";

/// Answers, or says what is needed first.
pub fn handle(ex: &mut Exchange, cx: &Cx) -> Step {
    if matches!(cx.loc(ex).handler, Handler::Admin) {
        return admin::handle(ex, cx);
    }
    if !(mirror::is_copied(ex, cx) && is_forbidden_purge(ex, cx))
        && let Some(step) = mirror::mirror(ex, cx)
    {
        return step;
    }
    if let Some(step) = ban::asked(ex, cx) {
        return step;
    }
    match purge_from::asked(ex, cx) {
        None => {}
        Some(Ok(step)) => return step,
        Some(Err(forbidden)) => return unless_allowed(forbidden, ex, cx),
    }
    match &cx.loc(ex).handler {
        Handler::Static => files::serve(ex, cx),
        Handler::Mp4 => film::mp4(ex, cx),
        Handler::Flv => film::flv(ex, cx),
        Handler::Purge { zone, key, by } => purge::without_origin(*zone, key.as_ref(), by.as_ref(), ex, cx),
        Handler::Origin(origin) if let Some(step) = purge::asked(origin, ex, cx) => step,
        Handler::Origin(_) | Handler::Vcl(_) => match ex.request.body {
            RequestBody::Unread(_) => Slow::ReadBody.into(),
            RequestBody::None if request_body::is_read_though_empty(ex, cx) => {
                ex.request.body = RequestBody::Unread(Some(0));
                Slow::ReadBody.into()
            }
            RequestBody::None | RequestBody::Memory(_) | RequestBody::File(..) | RequestBody::Passing(_) => {
                Step::Lookup
            }
        },
        Handler::Admin => admin::handle(ex, cx),
        Handler::StubStatus => counters(stub_status(cx), "text/plain", ex),
        Handler::Status => counted::handle(ex, cx),
        Handler::Metrics => counters(metrics::page(cx), metrics::CONTENT_TYPE, ex),
        Handler::EmptyGif => {
            if !matches!(ex.request.method, Method::Get | Method::Head) {
                return Step::Synth(Synth::Status(status::NOT_ALLOWED));
            }
            ex.reply.status = status::OK;
            ex.reply.fields.set("Content-Type", b"image/gif");
            // The date that nginx gives its picture.
            let last_modified = 23_349_600;
            ex.reply.fields.set("Last-Modified", &larder_http::format_date(last_modified));
            Step::Deliver(Response {
                content: Content::Bytes(Bytes::from_static(EMPTY_GIF)),
                last_modified: Some(last_modified),
                ranges: super::Ranges::No,
                conditional: true,
            })
        }
    }
}

/// Whether the request is to purge or to ban, and will be refused.
fn is_forbidden_purge(ex: &Exchange, cx: &Cx) -> bool {
    let standing = purge::standing_of(&cx.loc(ex).handler, ex);
    ban::is_forbidden(ex, cx)
        || standing == Some(Standing::Forbidden)
        || purge_from::is_forbidden(ex, cx) && standing != Some(Standing::Purges)
}

/// Refuses the request, unless `*_cache_purge` lets it purge.
fn unless_allowed(forbidden: purge_from::Forbidden, ex: &mut Exchange, cx: &Cx) -> Step {
    match &cx.loc(ex).handler {
        Handler::Purge { zone, key, by } => purge::without_origin(*zone, key.as_ref(), by.as_ref(), ex, cx),
        handler => match handler.origin().and_then(|origin| purge::asked(origin, ex, cx)) {
            Some(step) => step,
            None => purge_from::refused(forbidden, ex, cx),
        },
    }
}

/// `stub_status`: nginx's page of counters, to the byte.
fn stub_status(cx: &Cx) -> String {
    let all = cx.worker.shared_stats();
    format!(
        "Active connections: {} \nserver accepts handled requests\n {} {} {} \nReading: {} Writing: {} Waiting: {} \n",
        all.active, all.accepted, all.accepted, all.requests, all.reading, all.writing, all.waiting
    )
}

/// A page of counters.
fn counters(text: String, content_type: &str, ex: &mut Exchange) -> Step {
    if !matches!(ex.request.method, Method::Get | Method::Head) {
        return Step::Synth(Synth::Status(status::NOT_ALLOWED));
    }
    ex.reply.status = status::OK;
    ex.reply.fields.set("Content-Type", content_type.as_bytes());
    Step::Deliver(Response::own(Content::Bytes(Bytes::from(text))))
}
