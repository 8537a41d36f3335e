//! Probes: their fields, and what they are if they are not given.

use std::time::Duration;

use larder_source::{Diagnostic, Span};

use super::cx::Cx;
use super::fields;
use crate::ast::{Field, FieldValue};
use crate::policy::{Probe, ProbeRequest};

/// The widest window: Varnish keeps one bit for each answer.
const WINDOW_MAX: u64 = 64;

const FIELDS: [&str; 9] =
    ["url", "request", "expected_response", "timeout", "interval", "window", "threshold", "initial", "expect_close"];

/// A probe of these fields.
pub fn probe(cx: &mut Cx, name: Option<&str>, span: Span, fields: &[Field]) -> Probe {
    let mut probe = Probe {
        name: name.map(str::to_owned),
        span,
        request: ProbeRequest::Url(b"/".to_vec()),
        expected_response: 200,
        timeout: Duration::from_secs(2),
        interval: Duration::from_secs(5),
        window: 8,
        threshold: 3,
        initial: 0,
        expect_close: true,
    };
    let mut request: Option<Span> = None;
    let mut window: Option<(u64, Span)> = None;
    let mut threshold: Option<(u64, Span)> = None;
    let mut initial = None;
    fields::each(cx, fields, &FIELDS, |cx, name, field| {
        match name {
            "url" | "request" => {
                if let Some(first) = request.replace(field.name.span) {
                    let message = "a probe asks for .url or sends .request, not both";
                    return cx.fail(Diagnostic::error(message).at(field.name.span).related(first, "the other is here"));
                }
                probe.request = match name {
                    "url" => ProbeRequest::Url(fields::text(cx, field)?.to_vec()),
                    _ => ProbeRequest::Raw(lines(cx, field)?),
                };
            }
            "expected_response" => probe.expected_response = status(cx, field)?,
            // Zero is what Varnish takes for "not given", here too.
            "timeout" => set(&mut probe.timeout, fields::duration(cx, field)?),
            "interval" => set(&mut probe.interval, fields::duration(cx, field)?),
            "window" => window = Some((fields::count(cx, field)?, field.span)),
            "threshold" => threshold = Some((fields::count(cx, field)?, field.span)),
            "initial" => initial = Some(fields::count(cx, field)?),
            _ => probe.expect_close = fields::flag(cx, field)?,
        }
        Some(())
    });
    count_answers(cx, &mut probe, window, threshold);
    let least = u64::from(probe.threshold.saturating_sub(1));
    probe.initial = small(initial.unwrap_or(least).min(u64::from(probe.threshold)));
    probe
}

/// How many answers count, and how many of them have to be good.
fn count_answers(cx: &mut Cx, probe: &mut Probe, window: Option<(u64, Span)>, threshold: Option<(u64, Span)>) {
    let (window, threshold, span) = match (window, threshold) {
        (None, None) => return,
        (Some((_, span)), None) => {
            return cx.report(Diagnostic::error("a .window needs a .threshold").at(span));
        }
        (None, Some((threshold, span))) => (threshold.saturating_add(1), threshold, span),
        (Some((window, span)), Some(_)) if window > WINDOW_MAX => {
            return cx.report(Diagnostic::error(format!(".window is at most {WINDOW_MAX}")).at(span));
        }
        (Some((window, _)), Some((threshold, span))) => (window, threshold, span),
    };
    if threshold > WINDOW_MAX {
        return cx.report(Diagnostic::error(format!(".threshold is at most {WINDOW_MAX}")).at(span));
    }
    if threshold > window {
        return cx.report(Diagnostic::error(".threshold is greater than .window").at(span));
    }
    // Zero is what Varnish takes for "not given".
    if window > 0 {
        probe.window = small(window);
    }
    if threshold > 0 {
        probe.threshold = small(threshold);
    }
}

fn set(place: &mut Duration, given: Duration) {
    if !given.is_zero() {
        *place = given;
    }
}

fn small(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn status(cx: &mut Cx, field: &Field) -> Option<u16> {
    match u16::try_from(fields::count(cx, field)?) {
        Ok(status @ 100..=999) => Some(status),
        _ => fields::wrong(cx, field, "a status of three digits"),
    }
}

/// The lines of a request, with their ends and the empty line.
fn lines(cx: &mut Cx, field: &Field) -> Option<Vec<u8>> {
    let FieldValue::Texts(lines) = &field.value else {
        return fields::wrong(cx, field, "strings");
    };
    let mut request = Vec::new();
    for line in lines {
        request.extend_from_slice(line);
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    Some(request)
}
