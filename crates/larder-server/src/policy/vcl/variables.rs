//! The variables: which part of a request each is.

pub mod client;
mod fetch;
pub mod page;

use std::net::SocketAddr;
use std::time::Duration;

use larder_vcl::run::{Failure, Texts, Value};
use larder_vcl::vars::Variable;
use larder_vsl::Tag;

use crate::exchange::BodyUse;
use crate::objects::parameter;
use crate::records;

use super::headers;
use super::task::Run;

/// The value of a variable.
pub fn get(run: &mut Run<'_>, variable: Variable, texts: &mut Texts<'_>) -> Result<Value, Failure> {
    if variable == Variable::Now {
        return Ok(Value::Real(run.now));
    }
    // In the order in which they are asked for most.
    if let Some(value) = page::get(run, variable, texts)? {
        return Ok(value);
    }
    if let Some(value) = client::get(run, variable, texts)? {
        return Ok(value);
    }
    if let Some(value) = fetch::get(run, variable, texts)? {
        return Ok(value);
    }
    parameter::get(&run.policy.parameters, variable).ok_or_else(|| unbuilt(variable))
}

/// Sets a variable.
pub fn set(run: &mut Run<'_>, variable: Variable, value: Value, texts: &mut Texts<'_>) -> Result<(), Failure> {
    if !client::set(run, variable, value, texts)? && !fetch::set(run, variable, value, texts)? {
        return Err(unbuilt(variable));
    }
    if run.ex.log.is_on() {
        tell(variable, run);
    }
    Ok(())
}

/// Tells the transaction log what a variable of a message is now.
#[cold]
fn tell(variable: Variable, run: &Run<'_>) {
    use Variable as V;
    let Some(open) = run.log() else { return };
    let (asked, reply, fetch) = (&run.ex.asked.head, &run.ex.reply, &run.ex.vcl.fetch);
    match variable {
        V::ReqMethod => open.put(Tag::ReqMethod, asked.method_name()),
        V::ReqUrl => open.put(Tag::ReqUrl, asked.target()),
        V::BereqMethod => open.put(Tag::BereqMethod, fetch.bereq.method_name()),
        V::BereqUrl => open.put(Tag::BereqUrl, fetch.bereq.target()),
        V::RespStatus => {
            open.note_status(reply.status);
            open.say(Tag::RespStatus, format_args!("{}", reply.status));
        }
        V::RespReason => open.put(Tag::RespReason, &reply.reason),
        V::BerespStatus => open.say(Tag::BerespStatus, format_args!("{}", fetch.beresp.status)),
        V::BerespReason => open.put(Tag::BerespReason, &fetch.beresp.reason),
        V::BerespTtl | V::BerespGrace | V::BerespKeep | V::BerespUncacheable => {
            records::fetch::ttl(records::fetch::VCL, run.now, run.ex);
        }
        _ => {}
    }
}

/// The part of a first line that a text is to be; a failure if it is empty or would end the line, or for a method that is
/// no token (RFC 9112 §3, RFC 9110 §9.1).
fn of_first_line(variable: Variable, text: &[u8]) -> Result<&[u8], Failure> {
    let name = variable.rule().name;
    if text.is_empty() {
        return Err(Failure::host(format!("{name} would be empty")));
    }
    if let (Variable::RespReason | Variable::BerespReason, Some(byte)) = (variable, headers::foreign_byte(text)) {
        return Err(Failure::host(format!("{name} would have the byte 0x{byte:02x}")));
    }
    if let Variable::ReqMethod | Variable::BereqMethod = variable
        && !headers::is_name(text)
    {
        return Err(Failure::host(format!("{name} would be no method: {}", text.escape_ascii())));
    }
    Ok(text)
}

/// Unsets a variable.
pub fn unset(run: &mut Run<'_>, variable: Variable) -> Result<(), Failure> {
    let (client, fetch) = (&mut run.ex.vcl.client, &mut run.ex.vcl.fetch);
    match variable {
        Variable::ReqGrace => client.grace = None,
        Variable::ReqTtl | Variable::ReqMaxAge => client.max_age = None,
        Variable::BereqConnectTimeout => fetch.connect_timeout = None,
        Variable::BereqFirstByteTimeout => fetch.first_byte_timeout = None,
        Variable::BereqBetweenBytesTimeout => fetch.between_bytes_timeout = None,
        Variable::BereqBody => {
            if fetch.has_body && client.body == BodyUse::Once {
                client.body = BodyUse::Dropped;
            }
            fetch.has_body = false;
            fetch.bereq.fields.remove("Content-Length");
            fetch.bereq.fields.remove("Transfer-Encoding");
        }
        Variable::SessTimeoutIdle
        | Variable::SessTimeoutLinger
        | Variable::SessSendTimeout
        | Variable::SessIdleSendTimeout
        | Variable::BereqTaskDeadline => {}
        _ => return Err(unbuilt(variable)),
    }
    Ok(())
}

fn unbuilt(variable: Variable) -> Failure {
    Failure::host(format!("{} is not built yet", variable.rule().name))
}

fn misfit(variable: Variable) -> Failure {
    Failure::host(format!("{} cannot be this", variable.rule().name))
}

fn text(bytes: &[u8], texts: &mut Texts<'_>) -> Result<Option<Value>, Failure> {
    Ok(Some(Value::Text(Some(texts.keep(bytes)?))))
}

fn real(variable: Variable, value: Value) -> Result<f64, Failure> {
    match value {
        Value::Real(number) => Ok(number),
        _ => Err(misfit(variable)),
    }
}

fn boolean(variable: Variable, value: Value) -> Result<bool, Failure> {
    match value {
        Value::Bool(value) => Ok(value),
        _ => Err(misfit(variable)),
    }
}

/// The status of a final response; as in Varnish, only the last three digits of a greater number are told.
pub fn as_status(number: i64) -> Option<u16> {
    u16::try_from(number).ok().filter(|status| status % 1000 >= 200)
}

fn status(variable: Variable, value: Value) -> Result<u16, Failure> {
    match value {
        Value::Int(number) if let Some(status) = as_status(number) => Ok(status),
        Value::Int(number) => Err(Failure::host(format!("{} cannot be {number}", variable.rule().name))),
        _ => Err(misfit(variable)),
    }
}

/// An address; that of a Unix socket is 0.0.0.0:0, as in Varnish.
fn ip(address: Option<SocketAddr>) -> Option<Value> {
    Some(Value::Ip(address.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)))))
}

/// Seconds as a span of time; those below zero are none.
pub fn span(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)
}
