//! Runs the sub of a step for a request.

use std::cell::Cell;

use larder_conf::model::LogLevel;
use larder_vcl::program::At;
use larder_vcl::run::{Machine, Value, Verdict};
use larder_vcl::steps::{Action, Step};
use larder_vsl::Tag;

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::site::VclPolicy;
use crate::vsl::{Note, Shown};

use super::task::{Run, log_of};
use super::variables::as_status;
use super::{directors, headers, now, seconds};

/// What a sub has returned.
#[derive(Debug, PartialEq)]
pub struct Ended {
    /// Where it leads.
    pub action: Action,
    /// The status of `synth` and `error`; 0 if it was not given.
    pub status: u16,
    /// The reason of them, or of `fail`.
    pub reason: Option<Vec<u8>>,
    /// How long `pass(DURATION)` is remembered.
    pub duration: Option<f64>,
    /// The label of `vcl`, by its number.
    pub label: Option<u32>,
    /// The instruction with which it ended.
    pub at: At,
}

impl Ended {
    /// One without values.
    pub fn plain(action: Action) -> Self {
        Self { action, status: 0, reason: None, duration: None, label: None, at: 0 }
    }
}

/// Runs the sub of a step. What cannot be evaluated is logged, and fails.
pub fn run(policy: &VclPolicy, step: Step, ex: &mut Exchange, cx: &Cx) -> Ended {
    // An answer is measured by the time at which its head was there.
    let now = match step {
        Step::BackendResponse | Step::BackendRefresh | Step::BackendError => ex.vcl.fetch.answer.time,
        _ => seconds(now(ex, cx)),
    };
    run_at(policy, step, now, ex, cx)
}

/// The same, where `now` is known.
pub fn run_at(policy: &VclPolicy, step: Step, now: f64, ex: &mut Exchange, cx: &Cx) -> Ended {
    let program = &policy.vcl.program;
    let Some(start) = program.of_step(step) else { return Ended::plain(Action::Fail) };
    let mut machine = ex.vcl.machine.take().unwrap_or_default();
    if ex.log.is_on() {
        tell_call(step, ex);
    }
    let mut host = Run { policy, step, ex, cx, url: Cell::new(None), now };
    let (modules, bytes_max) = host.modules();
    let bytes_max = bytes_max.saturating_sub(modules.taken_bytes);
    let result = machine.run(program, start, bytes_max, &mut host);
    let ended = match result {
        Ok(verdict) => ended(policy, &machine, verdict),
        Err(failure) => {
            let (reason, at) = (Some(failure.to_string().into_bytes()), machine.ended_at());
            Ended { reason, at, ..Ended::plain(Action::Fail) }
        }
    };
    ex.vcl.machine = Some(machine);
    directors::settle(policy, ex, cx);
    if ex.log.is_on() {
        tell_return(policy, step, &ended, ex);
    }
    if ended.action == Action::Fail {
        cx.stats().vcl_failures.add(1);
        let reason = ended.reason.as_deref().unwrap_or(b"return (fail)");
        let reason = String::from_utf8_lossy(reason);
        cx.local.logs.told_error(cx, ex, LogLevel::Error, format_args!("VCL failed in {}: {reason}", step.name()));
    }
    ended
}

/// Tells the transaction log that a sub is called.
#[cold]
fn tell_call(step: Step, ex: &Exchange) {
    let Some(open) = log_of(step, ex) else { return };
    let name = step.name();
    let name = name.strip_prefix("vcl_").unwrap_or(name);
    open.put_with(Tag::VclCall, |out| out.extend(name.bytes().map(|byte| byte.to_ascii_uppercase())));
}

/// Tells it what the sub has returned.
#[cold]
fn tell_return(policy: &VclPolicy, step: Step, ended: &Ended, ex: &Exchange) {
    let Some(open) = log_of(step, ex) else { return };
    open.note(|| {
        let vcl = &policy.vcl;
        let place = vcl.program.place_of(ended.at).and_then(|span| vcl.lines.of(span));
        let at = place.map(|(path, line)| format!("{}:{line}", path.display()));
        let mut text = format!("return ({})", ended.action.name());
        if ended.status > 0 {
            text.push_str(&format!(", status {}", ended.status));
        }
        if let Some(reason) = &ended.reason {
            text.push_str(&format!(", {}", Shown(reason)));
        }
        Note::Said { what: step.name(), text, at }
    });
    open.put(Tag::VclReturn, ended.action.name().as_bytes());
    if ended.action == Action::Fail {
        open.put(Tag::VclError, ended.reason.as_deref().unwrap_or(b"Failed from VCL"));
    }
}

fn ended(policy: &VclPolicy, machine: &Machine, verdict: Verdict) -> Ended {
    // Every sub of a step ends with the builtin one, which returns.
    let mut ended = Ended { at: machine.ended_at(), ..Ended::plain(verdict.action.unwrap_or(Action::Fail)) };
    for value in machine.values(verdict) {
        match *value {
            Value::Int(status) => match as_status(status) {
                Some(status) => ended.status = status,
                None => {
                    let reason = format!("the status {status} of {}()", ended.action.name());
                    return Ended { reason: Some(reason.into_bytes()), ..Ended::plain(Action::Fail) };
                }
            },
            Value::Text(Some(text)) => {
                let reason = machine.bytes(&policy.vcl.program, Some(text));
                if let Some(byte) = headers::foreign_byte(reason).filter(|_| ended.action != Action::Fail) {
                    let fault = format!("the reason of {}() would have the byte 0x{byte:02x}", ended.action.name());
                    return Ended { reason: Some(fault.into_bytes()), ..Ended::plain(Action::Fail) };
                }
                ended.reason = Some(reason.to_vec());
            }
            Value::Real(duration) => ended.duration = Some(duration),
            Value::Id(label) => ended.label = label,
            _ => {}
        }
    }
    ended
}
