//! `auth_request`: another request says whether this one is allowed (ngx_http_auth_request_module).

use larder_conf::model::LogLevel;
use larder_http::{Known, status};

use crate::context::Cx;
use crate::exchange::{Exchange, RequestBody};
use crate::net::Inbound;
use crate::records;
use crate::script;
use crate::site::AuthRequest;

use super::access::{self, Ask};
use super::{Entrance, Step, Synth, subrequest};

/// Asks, and goes on or answers.
pub async fn ask(ask: Ask, ex: &mut Exchange, cx: &Cx, from: &Inbound<'_>) -> Step {
    ex.visit.auth_asked = true;
    let Some(auth) = &cx.loc(ex).subrequests.auth_request else {
        return Step::Route(Entrance::Limits);
    };
    let Some(mut inner) = subrequest::begin(ex, &auth.uri, b"", cx) else {
        return Step::Synth(Synth::Status(status::INTERNAL_SERVER_ERROR));
    };
    // The authorization server gets the fields only, also when the body has been read already.
    inner.request.body = RequestBody::None;
    if let Some(sub) = &mut inner.request.nested.sub {
        sub.head_only = true;
    }
    records::begin_inside(ex, &mut inner, "auth", cx);
    let Some(response) = subrequest::run(&mut inner, cx, from.of_inside()).await else {
        ex.reply.status = inner.reply.status;
        return Step::Abort;
    };
    drop(response);
    subrequest::log(&mut inner, cx);
    set_variables(auth, &mut inner, ex, cx);
    let step = decided(ask.refused, &inner, ex, cx);
    access::delayed(step, ex, cx)
}

/// Takes the values out of the answer at once, so that they are there after internal redirects too.
fn set_variables(auth: &AuthRequest, inner: &mut Exchange, ex: &mut Exchange, cx: &Cx) {
    for (target, value) in &auth.sets {
        let value = value.value(inner, cx);
        script::assign(target, &value, ex);
    }
}

fn decided(refused: Option<Step>, inner: &Exchange, ex: &mut Exchange, cx: &Cx) -> Step {
    let any = cx.loc(ex).settings.access.satisfy_any;
    let status = inner.reply.status;
    match status {
        200..300 => {
            if any {
                ex.reply.fields.remove("WWW-Authenticate");
            }
            ex.visit.authorized = true;
            Step::Route(Entrance::Limits)
        }
        // A 401 that was decided before stays one.
        status::UNAUTHORIZED | status::FORBIDDEN => match refused {
            Some(Step::Synth(Synth::Status(status::UNAUTHORIZED))) => Step::Synth(Synth::Status(status::UNAUTHORIZED)),
            _ => {
                if status == status::UNAUTHORIZED {
                    challenge(inner, ex);
                }
                Step::Synth(Synth::Status(status))
            }
        },
        _ => {
            cx.local.logs.error(cx, ex, LogLevel::Error, format_args!("auth request unexpected status: {status}"));
            Step::Synth(Synth::Status(status::INTERNAL_SERVER_ERROR))
        }
    }
}

/// Passes the answer's `WWW-Authenticate` to the client, also where the location hides it.
fn challenge(inner: &Exchange, ex: &mut Exchange) {
    ex.reply.fields.remove("WWW-Authenticate");
    let sent: Vec<_> = inner.reply.fields.all_known(Known::WwwAuthenticate).collect();
    let origin = inner.upstream.fields.as_ref().filter(|_| sent.is_empty());
    let challenges =
        sent.into_iter().chain(origin.into_iter().flat_map(|fields| fields.all_known(Known::WwwAuthenticate)));
    for challenge in challenges {
        ex.reply.fields.push(b"WWW-Authenticate", challenge);
    }
}
