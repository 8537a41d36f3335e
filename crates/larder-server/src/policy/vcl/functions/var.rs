//! The functions of the module `var` (varnish-modules): variables of a task, and those of the whole process.

use larder_vcl::run::{Failure, Text, Texts, Value};

use crate::exchange::Var;
use crate::policy::vcl::task::Run;

use super::{kept, unbuilt};

/// Calls one of them. Without a name nothing is set.
pub fn call(run: &mut Run<'_>, name: &str, args: &[Value], texts: &mut Texts<'_>) -> Result<Value, Failure> {
    match (name, args) {
        ("clear", []) => run.modules().0.vars.clear(),
        ("global_get", [Value::Text(key)]) => {
            let value = key.and_then(|key| run.cx.worker.shared.vmods.globals.get(texts.bytes(Some(key))));
            return kept(value.as_deref(), texts);
        }
        (_, [Value::Text(key)]) => return get(run, name, *key, texts),
        (_, [Value::Text(None), _]) => {}
        ("global_set", _) if run.ex.is_walk() => {}
        ("global_set", [Value::Text(key), Value::Text(value)]) => {
            let value = value.map(|value| texts.bytes(Some(value)));
            let set = run.cx.worker.shared.vmods.globals.set(texts.bytes(*key), value);
            set.map_err(|why| Failure::host(why.to_string()))?;
        }
        (_, [Value::Text(key), value]) => {
            let value = to_keep(name, *value, texts)?;
            let (modules, bytes_max) = run.modules();
            let set = modules.vars.set(texts.bytes(*key), value, bytes_max);
            set.map_err(|why| Failure::host(why.to_string()))?;
        }
        _ => return Err(unbuilt(&format!("var.{name}()"))),
    }
    Ok(Value::Nothing)
}

fn to_keep(name: &str, value: Value, texts: &Texts<'_>) -> Result<Var, Failure> {
    Ok(match (name, value) {
        ("set" | "set_string", Value::Text(text)) => Var::Text(texts.bytes(text).into()),
        ("set_int", Value::Int(number)) => Var::Int(number),
        ("set_real", Value::Real(number)) => Var::Real(number),
        ("set_duration", Value::Real(seconds)) => Var::Duration(seconds),
        ("set_ip", Value::Ip(address)) => Var::Ip(address),
        ("set_backend", Value::Id(backend)) => Var::Backend(backend),
        _ => return Err(unbuilt(&format!("var.{name}()"))),
    })
}

/// A variable. One that was not set, or has another type, is zero or is not there; of an address there is no such value,
/// so that it is a failure.
fn get(run: &mut Run<'_>, name: &str, key: Option<Text>, texts: &mut Texts<'_>) -> Result<Value, Failure> {
    let var = key.and_then(|key| run.modules().0.vars.get(texts.bytes(Some(key))));
    Ok(match (name, var) {
        ("get" | "get_string", Some(Var::Text(text))) => return kept(Some(&text[..]), texts),
        ("get" | "get_string", _) => Value::Text(None),
        ("get_int", Some(Var::Int(number))) => Value::Int(*number),
        ("get_int", _) => Value::Int(0),
        ("get_real", Some(Var::Real(number))) => Value::Real(*number),
        ("get_duration", Some(Var::Duration(seconds))) => Value::Real(*seconds),
        ("get_real" | "get_duration", _) => Value::Real(0.0),
        ("get_backend", Some(Var::Backend(backend))) => Value::Id(*backend),
        ("get_backend", _) => Value::Id(None),
        ("get_ip", Some(Var::Ip(address))) => Value::Ip(*address),
        ("get_ip", _) => return Err(Failure::host("var.get_ip(): it was not set")),
        _ => return Err(unbuilt(&format!("var.{name}()"))),
    })
}
