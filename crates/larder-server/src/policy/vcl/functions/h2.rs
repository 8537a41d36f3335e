//! The functions of the module `h2`.
//!
//! What larder does against rapid resets is its own, and the same for all connections. The settings are therefore those
//! that Varnish begins with, and to set one changes nothing.

use larder_http::Version;
use larder_vcl::run::{Failure, Value};

use crate::policy::vcl::task::Run;

use super::unbuilt;

/// Calls one of them. Without HTTP/2 each setting is -1.
pub fn call(run: &Run<'_>, name: &str) -> Result<Value, Failure> {
    let is_h2 = run.ex.asked.head.version == Version::Http2;
    Ok(match (name, is_h2) {
        ("is", _) => Value::Bool(is_h2),
        ("rapid_reset_limit", true) => Value::Int(100),
        ("rapid_reset_limit", false) => Value::Int(-1),
        ("rapid_reset", true) => Value::Real(1.0),
        ("rapid_reset_period", true) => Value::Real(60.0),
        ("rapid_reset_budget", true) => Value::Real(100.0),
        ("rapid_reset" | "rapid_reset_period" | "rapid_reset_budget", false) => Value::Real(-1.0),
        _ => return Err(unbuilt(&format!("h2.{name}()"))),
    })
}
