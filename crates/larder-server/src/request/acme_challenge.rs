//! What a certificate authority asks to see that a name is ours (http-01, RFC 8555 §8.3).

use bytes::Bytes;
use larder_http::{Method, status};

use crate::context::Cx;
use crate::exchange::Exchange;

use super::{Content, Entrance, Response, Slow, Step};

const PREFIX: &[u8] = b"/.well-known/acme-challenge/";

/// The answer to a challenge of ours that is under way, or the way to it if another larder may have that; `None` for all
/// other requests, such as those for the files of another ACME client in the same folder.
///
/// The host and the port do not matter: what leads the authority here may have redirected it, and a token is a random
/// word that it chose.
pub fn answer(ex: &mut Exchange, cx: &Cx) -> Option<Step> {
    let (challenges, others) = (&cx.worker.shared.challenges, &cx.worker.shared.acme_sharing);
    let may_be_ours = !challenges.is_empty() || others.is_shared();
    if !may_be_ours || !matches!(ex.request.method, Method::Get | Method::Head) {
        return None;
    }
    let token = str::from_utf8(ex.request.uri.strip_prefix(PREFIX)?).ok()?;
    if let Some(answer) = challenges.http01(token) {
        return Some(deliver(answer.as_bytes(), ex));
    }
    let may_be_theirs = others.is_shared() && larder_acme::http01_name(token).is_some();
    may_be_theirs.then(|| Slow::Challenge(token.into()).into())
}

/// Answers as another larder says that has the order; otherwise the site does.
pub async fn ask(token: &str, ex: &mut Exchange, cx: &Cx) -> Step {
    match cx.worker.shared.acme_sharing.http01(token).await {
        Some(answer) => deliver(&answer, ex),
        None => Step::Route(Entrance::Server),
    }
}

fn deliver(answer: &[u8], ex: &mut Exchange) -> Step {
    ex.reply.status = status::OK;
    ex.reply.fields.set("Content-Type", b"application/octet-stream");
    Step::Deliver(Response::own(Content::Bytes(Bytes::copy_from_slice(answer))))
}
