//! The ways out of the client's side: `vcl_pass`, `vcl_synth`, another beginning, a failure.

use bytes::Bytes;
use larder_conf::model::LogLevel;
use larder_http::digits::{DIGITS_MAX, digits};
use larder_http::{Fields, Known, KnownSet, status};
use larder_vcl::functions::reasons::reason as reason_of;
use larder_vcl::steps::{Action, Step};
use larder_vsl::Tag;

use crate::context::Cx;
use crate::exchange::{Cause, Exchange};
use crate::policy::Turn;
use crate::records;
use crate::site::VclPolicy;

use super::headers::roll_back;
use super::labels;
use super::run::{Ended, run};

/// `vcl_pass`
pub fn passes(policy: &VclPolicy, ex: &mut Exchange, cx: &Cx) -> Turn {
    let ended = run(policy, Step::Pass, ex, cx);
    match ended.action {
        Action::Fetch => {
            cx.stats().passes.add(1);
            ex.vcl.fetch.reset();
            ex.vcl.fetch.is_uncacheable = true;
            ex.vcl.page = None;
            Turn::Pass(Cause::Pass)
        }
        _ => turned(policy, ended, ex, cx),
    }
}

/// The ways out that all subs of the client's side have.
pub fn turned(policy: &VclPolicy, ended: Ended, ex: &mut Exchange, cx: &Cx) -> Turn {
    match ended.action {
        Action::Synth => synth(policy, ended.status, ended.reason, ex, cx),
        Action::Restart if u32::from(ex.request.way.restarts) >= policy.parameters.max_restarts => {
            if let Some(open) = &ex.log.client {
                open.put(Tag::VclError, b"Too many restarts");
            }
            cx.local.logs.told_error(cx, ex, LogLevel::Error, format_args!("Too many restarts"));
            ex.request.way.restarts = ex.request.way.restarts.saturating_add(1);
            synth(policy, status::SERVICE_UNAVAILABLE, None, ex, cx)
        }
        Action::Restart => Turn::Restart,
        Action::Vcl => {
            cx.local.logs.error(cx, ex, LogLevel::Error, format_args!("{}", labels::refusal(ex)));
            synth(policy, status::SERVICE_UNAVAILABLE, None, ex, cx)
        }
        _ => failed(policy, ex, cx),
    }
}

/// The VCL could not be evaluated: the request is as it came, and is answered by a 503.
pub fn failed(policy: &VclPolicy, ex: &mut Exchange, cx: &Cx) -> Turn {
    roll_back(ex);
    ex.reply.framing.keep_alive = false;
    synth(policy, status::SERVICE_UNAVAILABLE, Some(b"VCL failed".to_vec()), ex, cx)
}

/// The fetch was given up without an answer.
pub fn abandoned(policy: &VclPolicy, ex: &mut Exchange, cx: &Cx) -> Turn {
    // Who is piped has no response of ours.
    if ex.vcl.fetch.pipe.is_some() {
        return Turn::Close;
    }
    synth(policy, status::SERVICE_UNAVAILABLE, None, ex, cx)
}

/// `vcl_synth`
fn synth(policy: &VclPolicy, status: u16, reason: Option<Vec<u8>>, ex: &mut Exchange, cx: &Cx) -> Turn {
    cx.stats().synths.add(1);
    ex.begin_reply();
    ex.vcl.page = None;
    ex.vcl.body.clear();
    ex.vcl.client.filters = None;
    ex.reply.status = status;
    ex.reply.reason = reason.unwrap_or_default();
    ex.reply.fields.set("Date", &larder_http::format_date(cx.now().secs()));
    ex.reply.fields.set("Server", b"larder");
    ex.reply.fields.set("X-Varnish", digits(ex.vcl.client.xid, &mut [0; DIGITS_MAX]));
    records::response(ex);
    let ended = run(policy, Step::Synth, ex, cx);
    if says_close(&ex.asked.head.fields) {
        // The client has said so, or the VCL for it.
        ex.reply.framing.keep_alive = false;
    }
    match ended.action {
        // An include has what was made so far.
        Action::Fail if ex.vcl.client.esi_level == 0 => {
            ex.begin_reply();
            Turn::Fail
        }
        Action::Restart if u32::from(ex.request.way.restarts) <= policy.parameters.max_restarts => {
            turned(policy, ended, ex, cx)
        }
        _ => {
            finish(ex);
            Turn::Respond(Bytes::from(std::mem::take(&mut ex.vcl.body)))
        }
    }
}

fn says_close(fields: &Fields) -> bool {
    fields.get_known(Known::Connection).is_some_and(|told| told.eq_ignore_ascii_case(b"close"))
}

/// What the delivery says of a message, whatever a VCL has said.
const FRAMING: KnownSet = KnownSet::of(&[Known::Connection, Known::ContentLength, Known::TransferEncoding]);

/// Makes what a VCL has written a response of HTTP.
pub fn finish(ex: &mut Exchange) {
    if says_close(&ex.reply.fields) {
        ex.reply.framing.keep_alive = false;
    }
    ex.reply.fields.remove_known(FRAMING);
    ex.reply.silent.server = true;
    // Varnish's own statuses above 999 are told without their first digits.
    if ex.reply.status > 999 {
        ex.reply.status %= 1000;
    }
    if ex.reply.reason.is_empty() {
        ex.reply.reason.extend_from_slice(reason_of(ex.reply.status).as_bytes());
    }
}
