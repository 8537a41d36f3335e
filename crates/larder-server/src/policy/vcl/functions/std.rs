//! The functions of `std` that need the request.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use larder_conf::model::LogLevel;
use larder_vcl::run::{Failure, Text, Texts, Value};
use larder_vcl::vars::{Headers, Variable};
use larder_vsl::Tag;

use crate::clock;
use crate::directors::Judge;
use crate::exchange::{BodyUse, ModuleTask, RequestBody};
use crate::policy::vcl::bans;
use crate::policy::vcl::headers::{Field, fields, lines, roll_back};
use crate::policy::vcl::task::Run;
use crate::policy::vcl::times::set_times;

use super::{kept, unbuilt};

/// Calls one of them.
pub fn call(run: &mut Run<'_>, name: &str, args: &[Value], texts: &mut Texts<'_>) -> Result<Value, Failure> {
    match (name, args) {
        ("log", [Value::Text(text)]) => {
            let text = texts.bytes(*text);
            if let Some(open) = run.log() {
                open.put(Tag::VclLog, text);
            }
            let text = String::from_utf8_lossy(text);
            run.cx.local.logs.told_error(run.cx, run.ex, LogLevel::Info, format_args!("VCL_Log: {text}"));
            Ok(Value::Nothing)
        }
        ("timestamp", [Value::Text(text)]) => {
            let text = String::from_utf8_lossy(texts.bytes(*text));
            if let Some(open) = run.log() {
                open.stamp(&text);
            }
            run.cx.local.logs.told_error(run.cx, run.ex, LogLevel::Info, format_args!("VCL_Log: {text}"));
            Ok(Value::Nothing)
        }
        ("syslog", [Value::Int(_), Value::Text(text)]) => {
            let text = String::from_utf8_lossy(texts.bytes(*text));
            run.cx.local.logs.error(run.cx, run.ex, LogLevel::Notice, format_args!("{text}"));
            Ok(Value::Nothing)
        }
        ("now", []) => Ok(Value::Real(super::super::seconds(run.cx.now()))),
        ("random", [Value::Real(low), Value::Real(high)]) => {
            let share = run.cx.worker.random() as f64 / u64::MAX as f64;
            Ok(Value::Real(low + (high - low) * share))
        }
        ("collect", [header, Value::Text(_)]) if has_one_line(run, *header) => Ok(Value::Nothing),
        ("collect", [header, Value::Text(separator)]) => {
            let field = Field::of(*header, run, texts)?;
            collect(run, &field, texts.bytes(*separator))?;
            Ok(Value::Nothing)
        }
        ("healthy", [Value::Id(backend)]) => {
            Ok(Value::Bool(backend.is_some_and(|backend| run.policy.vcl.objects.directors.is_healthy(backend))))
        }
        ("rollback", [Value::Message(message)]) => {
            rollback(run, *message);
            Ok(Value::Nothing)
        }
        ("cache_req_body", [Value::Bytes(most)]) => {
            let may_go = matches!(run.ex.vcl.client.body, BodyUse::Once | BodyUse::Kept);
            let is_kept = may_go && fits(&run.ex.request.body, *most);
            if is_kept {
                run.ex.vcl.client.body = BodyUse::Kept;
            }
            Ok(Value::Bool(is_kept))
        }
        ("late_100_continue" | "set_ip_tos", _) => Ok(Value::Nothing),
        ("syntax", [Value::Real(version)]) => {
            let is_41 = run.policy.vcl.policy.version == larder_vcl::policy::Version::V41;
            Ok(Value::Bool(*version <= if is_41 { 4.1 } else { 4.0 }))
        }
        ("rfc_ttl", []) => {
            rfc_ttl(run);
            Ok(Value::Nothing)
        }
        ("timed_call", []) => Ok(Value::Real(clock::steady().as_secs_f64())),
        ("timed_call", [Value::Real(start)]) => Ok(Value::Real(clock::steady().as_secs_f64() - start)),
        ("fileread", [Value::Text(path)]) => Ok(Value::Text(file(run, *path, texts)?)),
        ("blobread", [Value::Text(path)]) => match file(run, *path, texts)? {
            Some(bytes) => Ok(Value::Blob(bytes)),
            None => Ok(Value::Blob(texts.keep(b"")?)),
        },
        ("file_exists", [Value::Text(path)]) => Ok(Value::Bool(path_of(texts.bytes(*path)).exists())),
        ("ban", _) if run.ex.is_walk() => Ok(Value::Bool(true)),
        ("ban", [Value::Text(text)]) => {
            let expression = texts.bytes(*text).to_vec();
            let why = bans::ban(run, &expression);
            let is_banned = why.is_none();
            run.modules().0.ban_error = why;
            Ok(Value::Bool(is_banned))
        }
        ("ban_error", []) => kept(Some(run.modules().0.ban_error.as_deref().unwrap_or_default().as_bytes()), texts),
        ("getenv", [Value::Text(name)]) => {
            let value = run.policy.vcl.environment.get(OsStr::from_bytes(texts.bytes(*name)));
            kept(value.map(|value| value.as_bytes()), texts)
        }
        _ => Err(unbuilt(&format!("std.{name}()"))),
    }
}

/// The bytes of a file, which do not count as texts of the run.
fn file(run: &Run<'_>, path: Option<Text>, texts: &mut Texts<'_>) -> Result<Option<Text>, Failure> {
    let bytes = path.and_then(|path| run.policy.vcl.files.get(path_of(texts.bytes(Some(path)))));
    Ok(bytes.map(|bytes| texts.keep_uncounted(&bytes)).transpose()?)
}

fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// Whether there is nothing to collect.
fn has_one_line(run: &Run<'_>, header: Value) -> bool {
    let Value::Header(header) = header else { return false };
    lines(run, header).is_some_and(|count| count < 2)
}

/// Makes one line of all lines of a header.
fn collect(run: &mut Run<'_>, field: &Field, separator: &[u8]) -> Result<(), Failure> {
    let Some(lines) = fields(field.of, run.ex) else { return Ok(()) };
    let lines: Vec<&[u8]> = lines.get_all(&field.name).collect();
    if lines.len() < 2 {
        return Ok(());
    }
    let separator = if separator.is_empty() { b", " } else { separator };
    let joined = lines.join(separator);
    field.changed(run, &joined)?.set(&field.name, &joined);
    Ok(())
}

/// Makes the request what it was before the first sub.
fn rollback(run: &mut Run<'_>, message: Variable) {
    match message {
        Variable::Req => {
            roll_back(run.ex);
            run.url.set(None);
            run.ex.vcl.client.modules = ModuleTask::default();
        }
        Variable::Bereq => {
            let fetch = &mut run.ex.vcl.fetch;
            fetch.modules = ModuleTask::default();
            let original = std::mem::take(&mut fetch.original);
            fetch.bereq.copy_from(&original);
            fetch.original = original;
        }
        _ => {}
    }
    debug_assert!(fields(Headers::Req, run.ex).is_some());
}

/// Whether a body was kept whole, and is not larger than that.
fn fits(body: &RequestBody, most: i64) -> bool {
    let bytes = match body {
        RequestBody::None => 0,
        RequestBody::Memory(bytes) => bytes.len() as u64,
        RequestBody::File(_, bytes) => *bytes,
        RequestBody::Unread(_) | RequestBody::Passing(_) => return false,
    };
    i64::try_from(bytes).is_ok_and(|bytes| bytes <= most)
}

/// Sets the times of an answer as they are before the first sub sees it.
fn rfc_ttl(run: &mut Run<'_>) {
    set_times(run.policy, &mut run.ex.vcl.fetch, run.now);
}
