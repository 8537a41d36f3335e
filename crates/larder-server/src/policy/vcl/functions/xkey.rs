//! The functions of the module `xkey` (varnish-modules).

use std::time::Duration;

use larder_cache::Shorter;
use larder_vcl::run::{Failure, Texts, Value};

use crate::policy::vcl::task::Run;

use super::unbuilt;

/// Calls one of them. Returns how many pages were purged.
pub fn call(run: &Run<'_>, name: &str, args: &[Value], texts: &Texts<'_>) -> Result<Value, Failure> {
    let shorter = match name {
        "purge" => None,
        "softpurge" => Some(Shorter { ttl: Duration::ZERO, grace: None, keep: None }),
        _ => return Err(unbuilt(&format!("xkey.{name}()"))),
    };
    let [Value::Text(tags)] = args else { return Err(unbuilt(&format!("xkey.{name}()"))) };
    let purged = run.cx.worker.shared.vmods.tags.purge(texts.bytes(*tags), shorter, run.cx.now());
    Ok(Value::Int(i64::try_from(purged).unwrap_or(i64::MAX)))
}
