//! The files of a location as an origin: what the file handler answers becomes an answer that a policy judges and a
//! cache may keep. A body that nobody keeps goes to the client from its file.

use std::sync::Arc;

use bytes::Bytes;
use larder_http::{Fields, Method, ResponseHead, status};
use larder_origin::Answer;

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::files::conditional::{self, Condition};
use crate::locations;

use super::written_url::{self, Before, By};
use super::{Content, Internal, Ranges, Response, Step, Synth, files, route, synth};

/// Asks the files for what the policy has prepared. `revalidates` says that a stored page may be confirmed. An index
/// that another location serves is an error: the request goes there.
pub fn ask(revalidates: bool, ex: &mut Exchange, cx: &Cx) -> Result<Answer, Internal> {
    // What the response has so far is not the answer's.
    let fields = std::mem::take(&mut ex.reply.fields);
    let has_packed = std::mem::take(&mut ex.reply.has_packed);
    let refused = |status, ex: &mut Exchange| synth::built_in(Synth::Status(status), ex, cx);
    let answered = match written_url::wear(By::Path, ex, cx) {
        Err(status) => Ok(answer(refused(status, ex), revalidates, ex, cx)),
        Ok(before) => {
            let (uri, args) = (ex.request.uri.clone(), ex.request.args.clone());
            let served = match place(&before, ex, cx) {
                Ok(()) => serve(ex, cx),
                Err(status) => Ok(refused(status, ex)),
            };
            let answered = served.map(|response| answer(response, revalidates, ex, cx));
            (ex.request.uri, ex.request.args) = (uri, args);
            written_url::take_off(before, ex);
            answered
        }
    };
    ex.reply.fields = fields;
    ex.reply.has_packed = has_packed;
    answered
}

/// Says with which status a URL is refused that the VCL has made.
fn place(before: &Before, ex: &mut Exchange, cx: &Cx) -> Result<(), u16> {
    if before.is_changed {
        written_url::belongs(before, ex, cx)?;
    }
    let loc = cx.loc(ex);
    // An alias stands for the prefix of the location where it was written, and for nothing else.
    let replaced = loc.files.alias_replaces.unwrap_or(0).min(loc.matching.prefix.len());
    let is_outside = !ex.request.uri.starts_with(&loc.matching.prefix[..replaced]);
    let leaves = ex.request.uri.contains(&0) || ex.request.uri.split(|&byte| byte == b'/').any(|part| part == b"..");
    if is_outside || leaves {
        return Err(written_url::refused(&ex.request.uri, "is not among the files of its location", ex, cx));
    }
    Ok(())
}

/// What the file handler answers. It goes on to an index that is here too.
fn serve(ex: &mut Exchange, cx: &Cx) -> Result<Response, Internal> {
    loop {
        match files::serve(ex, cx) {
            Step::Deliver(response) => return Ok(response),
            Step::Synth(answer) => return Ok(synth::built_in(answer, ex, cx)),
            Step::Redirect(Internal::Path(path)) if locations::stays(&path, ex, cx) => {
                if !route::may_change_uri(ex, cx) {
                    return Ok(synth::built_in(Synth::Final(status::INTERNAL_SERVER_ERROR), ex, cx));
                }
                ex.request.uri = path;
            }
            Step::Redirect(to) => return Err(to),
            Step::Route(_)
            | Step::Find
            | Step::Handle
            | Step::Restart
            | Step::Lookup
            | Step::LookInZone(_)
            | Step::Page(_)
            | Step::Send(_)
            | Step::Part(_)
            | Step::Abort
            | Step::Slow(_) => {
                return Ok(synth::built_in(Synth::Final(status::INTERNAL_SERVER_ERROR), ex, cx));
            }
        }
    }
}

/// The response in the exchange as the answer of an origin.
fn answer(response: Response, revalidates: bool, ex: &mut Exchange, cx: &Cx) -> Answer {
    let mut fields = std::mem::take(&mut ex.reply.fields);
    if std::mem::take(&mut ex.reply.has_packed) {
        fields.set("Vary", b"Accept-Encoding");
    }
    let is_confirmed = revalidates && response.conditional && confirms(&response, &fields, ex, cx);
    let code = if is_confirmed { status::NOT_MODIFIED } else { ex.reply.status };
    let is_bodiless = is_confirmed || ex.request.method == Method::Head;
    if let Some(length) = response.content.length().filter(|_| !is_confirmed) {
        fields.set("Content-Length", length.to_string().as_bytes());
    }
    if response.ranges == Ranges::Announced {
        fields.set("Accept-Ranges", b"bytes");
    }
    let reason = larder_http::reason(code).as_bytes();
    let head =
        ResponseHead { status: code, reason: reason.into(), fields: Arc::new(fields), ..ResponseHead::default() };
    match response.content {
        Content::File(file, len) if !is_bodiless => Answer::of_file(head, file, len),
        Content::Bytes(bytes) | Content::Kept(bytes) if !is_bodiless => Answer::made(head, bytes),
        _ => Answer::made(head, Bytes::new()),
    }
}

/// Whether the file is the stored page, by the tag that the request has of that.
fn confirms(response: &Response, fields: &Fields, ex: &Exchange, cx: &Cx) -> bool {
    let asked = &ex.asked.head.fields;
    let since = cx.loc(ex).settings.parts.if_modified_since;
    let tag = fields.get("ETag");
    asked.contains("If-None-Match")
        && conditional::decide(asked, response.last_modified, tag, since) == Condition::NotModified
}
