//! The functions of the module `cookie`. Client and backend have cookies of their own.

use larder_vcl::functions::cookies::NoRoom;
use larder_vcl::policy::RegexId;
use larder_vcl::run::{Failure, Texts, Value};

use crate::objects::texts::matches;
use crate::policy::vcl::task::Run;
use crate::site::VclPolicy;

use super::{kept, unbuilt};

/// Calls one of them. A name or a value that is not there is empty, and an empty one is no cookie.
pub fn call(run: &mut Run<'_>, name: &str, args: &[Value], texts: &mut Texts<'_>) -> Result<Value, Failure> {
    let policy = run.policy;
    let (modules, bytes_max) = run.modules();
    let cookies = &mut modules.cookies;
    match (name, args) {
        ("clean", []) => cookies.clean(),
        ("delete", [Value::Text(name)]) => cookies.delete(texts.bytes(*name)),
        ("filter", [Value::Text(list)]) => cookies.select(texts.bytes(*list), false),
        ("keep", [Value::Text(list)]) => cookies.select(texts.bytes(*list), true),
        ("filter_re", [Value::Regex(regex)]) => {
            asked(policy, *regex, |is_match| cookies.retain(|name| !is_match(name)))?;
        }
        ("keep_re", [Value::Regex(regex)]) => asked(policy, *regex, |is_match| cookies.retain(is_match))?,
        ("get", [Value::Text(name)]) => return kept(cookies.get(texts.bytes(*name)), texts),
        ("get_re", [Value::Regex(regex)]) => {
            return kept(asked(policy, *regex, |is_match| cookies.find(is_match))?, texts);
        }
        ("get_string", []) => return kept(Some(&cookies.field()[..]), texts),
        ("isset", [Value::Text(name)]) => return Ok(Value::Bool(cookies.get(texts.bytes(*name)).is_some())),
        ("parse", [Value::Text(field)]) => cookies.parse(texts.bytes(*field), bytes_max).map_err(no_room)?,
        ("set", [Value::Text(name), Value::Text(value)]) => {
            cookies.set(texts.bytes(*name), texts.bytes(*value), bytes_max).map_err(no_room)?;
        }
        _ => return Err(unbuilt(&format!("cookie.{name}()"))),
    }
    Ok(Value::Nothing)
}

fn no_room(why: NoRoom) -> Failure {
    Failure::host(why.to_string())
}

/// What `ask` finds out with a regular expression. A failure if one match of it failed.
fn asked<T>(
    policy: &VclPolicy,
    regex: RegexId,
    ask: impl FnOnce(&mut dyn FnMut(&[u8]) -> bool) -> T,
) -> Result<T, Failure> {
    let mut failed = None;
    let found =
        ask(&mut |name| matches(&policy.vcl.regexes, regex, name).unwrap_or_else(|why| failed.replace(why).is_some()));
    failed.map_or(Ok(found), Err)
}
