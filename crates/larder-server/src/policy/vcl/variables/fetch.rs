//! `bereq` and `beresp`: the request to a backend, and its answer.

use std::borrow::Cow;

use larder_vcl::functions::reasons::reason as reason_of;
use larder_vcl::run::{Failure, Texts, Value};
use larder_vcl::steps::{Step, Steps};
use larder_vcl::vars::Variable;

use crate::exchange::{Exchange, Purpose};

use super::super::filters;
use super::super::task::Run;
use super::{boolean, misfit, of_first_line, real, status, text};

/// The value of a variable of a fetch; `None` if it is not one.
pub fn get(run: &Run<'_>, variable: Variable, texts: &mut Texts<'_>) -> Result<Option<Value>, Failure> {
    use Variable as V;
    let fetch = &run.ex.vcl.fetch;
    let set = &run.policy.parameters;
    Ok(Some(match variable {
        V::BereqMethod => return text(fetch.bereq.method_name(), texts),
        V::BereqUrl => return text(fetch.bereq.target(), texts),
        V::BereqProto => return text(b"HTTP/1.1", texts),
        V::BereqXid => Value::Int(fetch.xid as i64),
        V::BereqRetries => Value::Int(fetch.retries.into()),
        V::BereqTime => Value::Real(fetch.started),
        V::BereqBackend => Value::Id(fetch.backend),
        V::BereqConnectTimeout => Value::Real(fetch.connect_timeout.unwrap_or(set.connect_timeout)),
        V::BereqFirstByteTimeout => Value::Real(fetch.first_byte_timeout.unwrap_or(set.first_byte_timeout)),
        V::BereqBetweenBytesTimeout => Value::Real(fetch.between_bytes_timeout.unwrap_or(set.between_bytes_timeout)),
        V::BereqUncacheable => Value::Bool(fetch.is_uncacheable),
        V::BereqIsBgfetch => Value::Bool(run.ex.request.nested.purpose == Purpose::Refetch),
        V::BereqIsHitmiss => Value::Bool(run.ex.vcl.client.is_hitmiss),
        V::BereqIsHitpass => Value::Bool(run.ex.vcl.client.is_hitpass),
        V::BereqTrace => Value::Bool(false),
        V::BereqRetryConnect => Value::Bool(true),
        V::BerespBackend => Value::Id(fetch.resolved),
        V::BerespBackendName => {
            let name = fetch.resolved.and_then(|backend| run.policy.vcl.objects.directors.name(backend));
            Value::Text(name.map(|name| texts.keep(name.as_bytes())).transpose()?)
        }
        _ => return answer(run, variable, texts),
    }))
}

fn answer(run: &Run<'_>, variable: Variable, texts: &mut Texts<'_>) -> Result<Option<Value>, Failure> {
    use Variable as V;
    let fetch = &run.ex.vcl.fetch;
    let answer = &fetch.answer;
    filters::check_open(answer, variable)?;
    Ok(Some(match variable {
        V::BerespStatus => Value::Int(fetch.beresp.status.into()),
        V::BerespReason => return text(&reason(run.ex), texts),
        V::BerespProto => return text(b"HTTP/1.1", texts),
        V::BerespTtl => Value::Real(answer.fresh_until.max(answer.origin) - run.now),
        V::BerespGrace => Value::Real(answer.grace),
        V::BerespKeep => Value::Real(answer.keep),
        V::BerespAge => Value::Real(run.now - answer.origin),
        V::BerespTime => Value::Real(answer.time),
        V::BerespUncacheable => Value::Bool(answer.is_uncacheable),
        V::BerespDoGzip => Value::Bool(answer.do_gzip),
        V::BerespDoGunzip => Value::Bool(answer.do_gunzip),
        V::BerespDoEsi => Value::Bool(answer.do_esi),
        V::BerespDoStream => Value::Bool(answer.do_stream),
        V::BerespFilters => return text(&filters::of_answer(run.policy, run.ex), texts),
        V::BerespWas304 => Value::Bool(answer.was_304),
        V::BerespStorage => Value::Id(Some(0)),
        V::BerespStorageHint => return text(b"s0", texts),
        V::BerespTransitBuffer => Value::Bytes(0),
        _ => return Ok(None),
    }))
}

fn reason(ex: &Exchange) -> Cow<'_, [u8]> {
    let beresp = &ex.vcl.fetch.beresp;
    match beresp.reason.is_empty() {
        true => reason_of(beresp.status).as_bytes().into(),
        false => Cow::Borrowed(&beresp.reason),
    }
}

/// Sets a variable of a fetch. False if it is not one.
pub fn set(run: &mut Run<'_>, variable: Variable, value: Value, texts: &mut Texts<'_>) -> Result<bool, Failure> {
    use Variable as V;
    let (step, now) = (run.step, run.now);
    let fetch = &mut run.ex.vcl.fetch;
    match variable {
        V::BereqMethod => {
            let target = fetch.bereq.target().to_vec();
            fetch.bereq.ask(of_first_line(variable, bytes(variable, value, texts)?)?, &target);
        }
        V::BereqUrl => {
            let method = fetch.bereq.method_name().to_vec();
            fetch.bereq.ask(&method, of_first_line(variable, bytes(variable, value, texts)?)?);
        }
        V::BereqProto | V::BereqTrace | V::BereqRetryConnect | V::BereqTaskDeadline => {}
        V::BereqBackend => match value {
            Value::Id(backend) => fetch.backend = backend,
            _ => return Err(misfit(variable)),
        },
        V::BereqConnectTimeout => fetch.connect_timeout = Some(real(variable, value)?),
        V::BereqFirstByteTimeout => fetch.first_byte_timeout = Some(real(variable, value)?),
        V::BereqBetweenBytesTimeout => fetch.between_bytes_timeout = Some(real(variable, value)?),
        V::BerespStatus => {
            fetch.beresp.status = status(variable, value)?;
            // The reason of the status.
            fetch.beresp.reason = Default::default();
        }
        V::BerespReason => {
            fetch.beresp.reason = of_first_line(variable, bytes(variable, value, texts)?)?.to_vec().into();
        }
        V::BerespBody => {
            run.ex.vcl.body.clear();
            run.ex.vcl.body.extend_from_slice(bytes(variable, value, texts)?);
        }
        V::BerespFilters => fetch.answer.filters = Some(bytes(variable, value, texts)?.to_vec()),
        _ => return set_answer(run.ex, variable, value, (step, now)),
    }
    Ok(true)
}

fn set_answer(ex: &mut Exchange, variable: Variable, value: Value, (step, now): (Step, f64)) -> Result<bool, Failure> {
    use Variable as V;
    let answer = &mut ex.vcl.fetch.answer;
    filters::check_open(answer, variable)?;
    match variable {
        V::BerespTtl => answer.fresh_until = now + real(variable, value)?.max(0.0),
        V::BerespGrace => answer.grace = real(variable, value)?.max(0.0),
        V::BerespKeep => answer.keep = real(variable, value)?.max(0.0),
        // What is not shared cannot be made so, as in Varnish.
        V::BerespUncacheable => answer.is_uncacheable |= boolean(variable, value)?,
        V::BerespDoGzip => answer.do_gzip = boolean(variable, value)?,
        V::BerespDoGunzip => answer.do_gunzip = boolean(variable, value)?,
        V::BerespDoStream => answer.do_stream = boolean(variable, value)?,
        V::BerespDoEsi => answer.do_esi = boolean(variable, value)?,
        V::BerespProto | V::BerespStorage | V::BerespStorageHint | V::BerespTransitBuffer => {}
        _ => return Ok(false),
    }
    debug_assert!(Steps::BACKEND.contains(step), "{}", step.name());
    Ok(true)
}

fn bytes<'a>(variable: Variable, value: Value, texts: &'a Texts<'_>) -> Result<&'a [u8], Failure> {
    match value {
        Value::Text(text) => Ok(texts.bytes(text)),
        Value::Blob(blob) => Ok(texts.bytes(Some(blob))),
        _ => Err(misfit(variable)),
    }
}
