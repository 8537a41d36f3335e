//! The functions of the module `xkey` (varnish-modules).

use std::time::Duration;

use larder_cache::{How, Selection, Shorter};
use larder_vcl::run::{Failure, Texts, Value};

use crate::policy::vcl::task::Run;
use crate::vmods::tags;

use super::unbuilt;

/// Calls one of them. Returns how many pages were purged.
pub fn call(run: &mut Run<'_>, name: &str, args: &[Value], texts: &Texts<'_>) -> Result<Value, Failure> {
    let shorter = match name {
        "purge" => None,
        "softpurge" => Some(Shorter { ttl: Duration::ZERO, grace: None, keep: None }),
        _ => return Err(unbuilt(&format!("xkey.{name}()"))),
    };
    let [Value::Text(tags)] = args else { return Err(unbuilt(&format!("xkey.{name}()"))) };
    let tags = texts.bytes(*tags);
    let how = if shorter.is_some() { How::Soft } else { How::Hard };
    let selection = Selection::Tags(tags::split(tags).map(Box::from).collect());
    run.ex.tally.has_purged |= run.cx.worker.shared.sharing.is_shared();
    for zone in &run.cx.site().caches.zones {
        zone.tell_purge_as(&selection, how, &tags::FIELDS);
    }
    let purged = run.cx.worker.shared.vmods.tags.purge(tags, shorter, run.cx.now());
    Ok(Value::Int(i64::try_from(purged).unwrap_or(i64::MAX)))
}
