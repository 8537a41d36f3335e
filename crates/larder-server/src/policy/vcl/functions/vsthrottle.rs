//! The functions of the module `vsthrottle` (varnish-modules).

use larder_vcl::run::{Failure, Texts, Value};

use crate::clock;
use crate::policy::vcl::task::Run;
use crate::vmods::Limit;

use super::unbuilt;

/// Calls one of them. Without a key everything is denied.
pub fn call(run: &Run<'_>, name: &str, args: &[Value], texts: &Texts<'_>) -> Result<Value, Failure> {
    let [Value::Text(key), Value::Int(number), Value::Real(period), Value::Real(block)] = args else {
        return Err(unbuilt(&format!("vsthrottle.{name}()")));
    };
    let limit = Limit { key: texts.bytes(*key), number: *number, period: *period, block: *block };
    let (throttle, now) = (&run.cx.worker.shared.vmods.throttle, clock::steady().as_secs_f64());
    Ok(match (name, key) {
        ("is_denied", None) => Value::Bool(true),
        ("is_denied", Some(_)) => Value::Bool(throttle.is_denied(&limit, now)),
        ("return_token", None) => Value::Nothing,
        ("return_token", Some(_)) => {
            throttle.return_token(&limit, now);
            Value::Nothing
        }
        ("remaining", None) => Value::Int(-1),
        ("remaining", Some(_)) => Value::Int(throttle.remaining(&limit, now)),
        ("blocked", None) => Value::Real(-1.0),
        ("blocked", Some(_)) => Value::Real(throttle.blocked(&limit, now)),
        _ => return Err(unbuilt(&format!("vsthrottle.{name}()"))),
    })
}
