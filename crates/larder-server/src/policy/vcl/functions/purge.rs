//! The functions of the module `purge`: they drop or shorten all variants of the page that is asked for.

use larder_cache::{How, KeyRef, Selection, Shorter, Zone};
use larder_http::Time;
use larder_vcl::run::{Failure, Value};

use crate::policy::vcl::task::Run;
use crate::policy::vcl::variables::span;

use super::unbuilt;

/// Calls one of them. Returns how many variants there were.
pub fn call(run: &mut Run<'_>, name: &str, args: &[Value]) -> Result<Value, Failure> {
    let Some(zone) = run.policy.zone else { return Ok(Value::Int(0)) };
    let (zone, now) = (run.cx.zone(zone), run.cx.now());
    let key = KeyRef::new(&run.ex.upstream.cache_key);
    let variants = match (name, args) {
        ("hard", []) => hard(zone, &key, now),
        ("soft", [Value::Real(ttl), Value::Real(grace), Value::Real(keep)]) => match shorter(*ttl, *grace, *keep) {
            Some(shorter) => {
                // Elsewhere it is stale at once, and keeps its grace.
                zone.tell_purge_as(&Selection::Key(key.bytes().into()), How::Soft, &[]);
                zone.shorten(&key, shorter, |_| true, now)
            }
            None => hard(zone, &key, now),
        },
        _ => return Err(unbuilt(&format!("purge.{name}()"))),
    };
    run.ex.tally.has_purged |= run.cx.worker.shared.sharing.is_shared();
    let stats = run.cx.stats();
    stats.purges.add(1);
    stats.purged.add(variants as u64);
    Ok(Value::Int(i64::try_from(variants).unwrap_or(i64::MAX)))
}

fn hard(zone: &Zone, key: &KeyRef<'_>, now: Time) -> usize {
    zone.tell_purge_as(&Selection::Key(key.bytes().into()), How::Hard, &[]);
    zone.purge_variants(key, |_| true, now)
}

/// What `purge.soft()` leaves of the times; `None` if that is nothing. A time below zero stays as it is.
fn shorter(ttl: f64, grace: f64, keep: f64) -> Option<Shorter> {
    let given = |seconds: f64| (seconds >= 0.0).then(|| span(seconds));
    let shorter = Shorter { ttl: span(ttl), grace: given(grace), keep: given(keep) };
    let is_nothing = ttl == 0.0 && grace == 0.0 && keep == 0.0;
    (!is_nothing).then_some(shorter)
}
