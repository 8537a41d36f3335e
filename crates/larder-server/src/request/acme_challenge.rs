//! What a certificate authority asks to see that a name is ours (http-01, RFC 8555 §8.3).

use bytes::Bytes;
use larder_http::{Method, status};

use crate::context::Cx;
use crate::exchange::Exchange;

use super::{Content, Response, Step};

const PREFIX: &[u8] = b"/.well-known/acme-challenge/";

/// The answer to a challenge of ours that is under way; `None` for all other requests, such as those for the files of
/// another ACME client in the same folder.
///
/// The host and the port do not matter: what leads the authority here may have redirected it, and a token is a random
/// word that it chose.
pub fn answer(ex: &mut Exchange, cx: &Cx) -> Option<Step> {
    let challenges = &cx.worker.shared.challenges;
    if challenges.is_empty() || !matches!(ex.request.method, Method::Get | Method::Head) {
        return None;
    }
    let token = ex.request.uri.strip_prefix(PREFIX)?;
    let answer = challenges.http01(str::from_utf8(token).ok()?)?;
    ex.reply.status = status::OK;
    ex.reply.fields.set("Content-Type", b"application/octet-stream");
    Some(Step::Deliver(Response::own(Content::Bytes(Bytes::copy_from_slice(answer.as_bytes())))))
}
