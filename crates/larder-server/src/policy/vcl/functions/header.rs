//! The functions of the module `header` (varnish-modules): headers by their lines, and by names that a VCL makes up.

use larder_http::Fields;
use larder_vcl::functions::replace;
use larder_vcl::policy::RegexId;
use larder_vcl::run::{Failure, Texts, Value};
use larder_vcl::vars::Headers;

use crate::objects::texts::{find_at, matches};
use crate::policy::vcl::headers::{Field, fields, fields_mut, is_name, of_message};
use crate::policy::vcl::task::Run;

use super::{kept, unbuilt};

/// Calls one of them.
pub fn call(run: &mut Run<'_>, name: &str, args: &[Value], texts: &mut Texts<'_>) -> Result<Value, Failure> {
    match (name, args) {
        ("append", [header, Value::Text(text)]) => {
            let field = Field::of(*header, run, texts)?;
            append(run, &field, texts.bytes(*text))?;
        }
        ("copy", [from, to]) => {
            let (from, to) = (Field::of(*from, run, texts)?, Field::of(*to, run, texts)?);
            for line in lines(run, &from) {
                append(run, &to, &line)?;
            }
        }
        ("get", [header, Value::Regex(regex)]) => {
            let field = Field::of(*header, run, texts)?;
            for line in lines(run, &field) {
                if is_meant(run, *regex, &line)? {
                    return kept(Some(&line[..]), texts);
                }
            }
            return Ok(Value::Text(None));
        }
        ("remove", [header, Value::Regex(regex)]) => {
            let field = Field::of(*header, run, texts)?;
            remove(run, &field, *regex)?;
        }
        ("regsub", [Value::Message(message), Value::Regex(regex), Value::Text(with), Value::Bool(all)]) => {
            let of = of_message(*message).ok_or_else(no_message)?;
            substitute(run, of, (*regex, *all), texts.bytes(*with))?;
        }
        ("dyn", [Value::Message(message), Value::Text(name)]) => {
            return Ok(Value::NamedHeader(of_message(*message).ok_or_else(no_message)?, *name));
        }
        _ => return Err(unbuilt(&format!("header.{name}()"))),
    }
    Ok(Value::Nothing)
}

fn no_message() -> Failure {
    Failure::host("this is no message")
}

fn append(run: &mut Run<'_>, field: &Field, value: &[u8]) -> Result<(), Failure> {
    if !field.name.is_empty() {
        field.changed(run, value)?.push(field.name.as_bytes(), value.trim_ascii());
    }
    Ok(())
}

/// The values of all lines of a header, in order.
fn lines(run: &Run<'_>, field: &Field) -> Vec<Vec<u8>> {
    let fields = fields(field.of, run.ex);
    fields.map(|fields| fields.get_all(&field.name).map(<[u8]>::to_vec).collect()).unwrap_or_default()
}

/// Whether a function is to do something with this line. An empty one matches nothing, as in the module.
fn is_meant(run: &Run<'_>, regex: RegexId, line: &[u8]) -> Result<bool, Failure> {
    Ok(!line.is_empty() && matches(&run.policy.vcl.regexes, regex, line)?)
}

fn remove(run: &mut Run<'_>, field: &Field, regex: RegexId) -> Result<(), Failure> {
    let mut stays = Vec::new();
    for line in lines(run, field) {
        stays.push(!is_meant(run, regex, &line)?);
    }
    if stays.iter().all(|stays| *stays) {
        return Ok(());
    }
    let mut stays = stays.into_iter();
    let name = field.name.as_bytes();
    field.changed(run, b"")?.retain(|_, own, _| !own.eq_ignore_ascii_case(name) || stays.next().unwrap_or(true));
    Ok(())
}

/// Rewrites each line `Name: value` of a message that a regular expression matches. A failure if what comes out is no
/// such line.
fn substitute(run: &mut Run<'_>, of: Headers, (regex, all): (RegexId, bool), with: &[u8]) -> Result<(), Failure> {
    let Some(before) = fields(of, run.ex) else { return Ok(()) };
    let (mut after, mut rewritten) = (Fields::new(), Vec::new());
    for (name, value) in before.iter() {
        let line = [name, b": ", value].concat();
        let mut made = Vec::new();
        let find = |text: &[u8], from| find_at(&run.policy.vcl.regexes, regex, text, from);
        if replace::replace(&line, with, all, find, &mut made)? {
            let (new_name, value) = split(&made)?;
            after.push(new_name, value);
            rewritten.push((name.to_vec(), value.to_vec()));
            rewritten.push((new_name.to_vec(), value.to_vec()));
        } else {
            after.push(name, value);
        }
    }
    // Neither what was there nor what is there may be one that can be read only.
    for (name, value) in &rewritten {
        let field = Field { of, name: String::from_utf8_lossy(name).into() };
        field.changed(run, value)?;
    }
    match fields_mut(of, run.ex) {
        Some(fields) if !rewritten.is_empty() => *fields = after,
        Some(_) | None => {}
    }
    Ok(())
}

/// A line as name and value.
fn split(line: &[u8]) -> Result<(&[u8], &[u8]), Failure> {
    let colon = line.iter().position(|byte| *byte == b':');
    let parts = colon.map(|at| (&line[..at], line[at + 1..].trim_ascii()));
    parts
        .filter(|(name, _)| is_name(name))
        .ok_or_else(|| Failure::host(format!("header.regsub() makes no header: \"{}\"", line.escape_ascii())))
}
