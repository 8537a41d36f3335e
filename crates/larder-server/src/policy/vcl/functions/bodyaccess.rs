//! The functions of the module `bodyaccess` (varnish-modules), for bodies that were kept whole.

use std::borrow::Cow;
use std::os::unix::fs::FileExt;

use larder_conf::model::LogLevel;
use larder_vcl::run::{Failure, Texts, Value};
use larder_vcl::steps::Step;
use sha2::{Digest, Sha256};

use crate::exchange::RequestBody;
use crate::objects::texts::matches;
use crate::policy::vcl::task::Run;

use super::unbuilt;

/// A larger body is not looked at: it would have to be read from its file on the worker.
const BODY_BYTES_MAX: u64 = 16 << 20;
/// How much of a body is written to the log.
const LOGGED_BYTES_MAX: usize = 64 << 10;

/// Calls one of them. A body that is not there, or was not kept, is an error in the log, and -1.
pub fn call(run: &mut Run<'_>, name: &str, args: &[Value], texts: &Texts<'_>) -> Result<Value, Failure> {
    let wanted = match name {
        "len_req_body" | "rematch_req_body" => Some(Step::Recv),
        "hash_req_body" => Some(Step::Hash),
        _ => None,
    };
    let why = match (len(&run.ex.request.body), wanted) {
        (None, _) => "Unbuffered req.body".to_owned(),
        (Some(_), Some(step)) if step != run.step => format!("{name} can only be used in {}", step.name()),
        (Some(len), _) if name == "len_req_body" => return Ok(Value::Int(i64::try_from(len).unwrap_or(i64::MAX))),
        (Some(len), _) if len > BODY_BYTES_MAX => return Err(Failure::host(format!("{name}: the body is too long"))),
        (Some(_), _) => return look(run, name, args, texts),
    };
    run.cx.local.logs.error(run.cx, run.ex, LogLevel::Error, format_args!("VCL_Error: {why}"));
    Ok(if name.starts_with("len") || name.starts_with("rematch") { Value::Int(-1) } else { Value::Nothing })
}

fn look(run: &mut Run<'_>, name: &str, args: &[Value], texts: &Texts<'_>) -> Result<Value, Failure> {
    let body = bytes(&run.ex.request.body).map_err(|error| Failure::host(format!("the body: {error}")))?;
    match (name, args) {
        ("rematch_req_body", [Value::Regex(regex)]) => {
            return Ok(Value::Int(matches(&run.policy.vcl.regexes, *regex, &body)?.into()));
        }
        ("hash_req_body", []) => {
            let digest = Sha256::digest(&body);
            // As hash_data() does; of a body only its digest, so that a key stays short.
            run.ex.upstream.cache_key.extend_from_slice(&digest);
            run.ex.upstream.cache_key.push(b'#');
        }
        ("log_req_body", [Value::Text(prefix), Value::Int(length)]) => {
            let prefix = String::from_utf8_lossy(texts.bytes(*prefix));
            let body = &body[..body.len().min(LOGGED_BYTES_MAX)];
            let length = usize::try_from(*length).ok().filter(|length| *length > 0).unwrap_or(body.len());
            for part in body.chunks(length.max(1)) {
                let text = format_args!("{prefix}{}", part.escape_ascii());
                run.cx.local.logs.error(run.cx, run.ex, LogLevel::Info, text);
            }
        }
        _ => return Err(unbuilt(&format!("bodyaccess.{name}()"))),
    }
    Ok(Value::Nothing)
}

/// The length of a body that was kept.
fn len(body: &RequestBody) -> Option<u64> {
    match body {
        RequestBody::Memory(bytes) => Some(bytes.len() as u64),
        RequestBody::File(_, bytes) => Some(*bytes),
        RequestBody::None | RequestBody::Unread(_) | RequestBody::Passing(_) => None,
    }
}

fn bytes(body: &RequestBody) -> std::io::Result<Cow<'_, [u8]>> {
    match body {
        RequestBody::Memory(bytes) => Ok(Cow::Borrowed(bytes)),
        RequestBody::File(temp, len) => {
            let mut read = vec![0; usize::try_from(*len).unwrap_or(0)];
            temp.file().read_exact_at(&mut read, 0)?;
            Ok(Cow::Owned(read))
        }
        RequestBody::None | RequestBody::Unread(_) | RequestBody::Passing(_) => Ok(Cow::Borrowed(b"")),
    }
}
