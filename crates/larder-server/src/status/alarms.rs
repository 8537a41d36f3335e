//! What somebody should look at, in sentences: for the dashboard and `larder top`.

use crate::context::Cx;
use crate::dash::Span;
use crate::php_status;

/// What is wrong now. Rates are those of `recent`, shares those of `minute`.
pub fn of(recent: &Span<'_>, minute: &Span<'_>, cx: &Cx) -> Vec<String> {
    let mut all = Vec::new();
    for zone in &cx.site().caches.zones {
        if let Some(rate) = recent.zone_per_second(zone.name(), |zone| zone.refused).filter(|rate| *rate > 0.0) {
            all.push(format!("{}: memory has no room for {rate:.1} pages a second", zone.name()));
        }
        let fetched = minute.zone_grown(zone.name(), |zone| zone.fetched);
        let wanted = minute.zone_grown(zone.name(), |zone| zone.evicted_wanted);
        all.extend(too_small(zone.name(), "memory", wanted, fetched));
        for (number, shelf) in zone.shelves().iter().enumerate() {
            let wanted = minute.disk_grown((zone.name(), number), |disk| disk.evicted_wanted);
            all.extend(too_small(zone.name(), &shelf.dir().display().to_string(), wanted, fetched));
        }
    }
    for (group, _) in cx.site().origins.gates() {
        let overflows = minute.overflows(group);
        if overflows > 0 {
            all.push(format!("{group}: {overflows} requests of the last minute found no turn at the gate"));
        }
    }
    if let Some(status) = cx.worker.shared.sharing.status()
        && let Some(fault) = status.fault
    {
        all.push(format!("larder_cluster: {} {fault}; purges that wait for it: {}", status.server, status.unsent));
    }
    for (at, pass) in cx.worker.shared.refill.passes.lock().iter().filter(|(_, pass)| pass.is_alarm) {
        let why = pass.trouble.as_deref().unwrap_or_default();
        all.push(format!("larder_warm: the sitemap {at} cannot be read: {why}"));
    }
    for (name, _, pool) in php_status::known(cx) {
        if let Some(waiting) = pool.waiting.filter(|waiting| *waiting > 0) {
            all.push(format!("{name}: {waiting} requests wait for a child of php-fpm"));
        }
    }
    all
}

/// That pages which were `wanted` again had left a place, out of those that were `fetched`; `None` if these are few.
fn too_small(zone: &str, place: &str, wanted: u64, fetched: u64) -> Option<String> {
    let is_much = wanted >= WANTED_MIN && wanted as f64 > fetched as f64 * WANTED_SHARE;
    let percent = (100 * wanted).div_ceil(fetched.max(wanted).max(1));
    is_much.then(|| {
        format!("{zone}: {place} is too small: {percent} % of what was fetched in the last minute had been there, still fresh")
    })
}

/// Fewer in a minute are no alarm.
const WANTED_MIN: u64 = 10;
/// Nor is a smaller share of what is fetched.
const WANTED_SHARE: f64 = 0.02;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_pages_that_were_still_wanted_are_no_alarm() {
        for (wanted, fetched, percent) in
            [(0, 0, None), (9, 9, None), (10, 500, None), (11, 500, Some(3)), (10, 10, Some(100)), (12, 10, Some(100))]
        {
            let expected = percent.map(|percent| {
                format!("pages: memory is too small: {percent} % of what was fetched in the last minute had been there, still fresh")
            });
            assert_eq!(too_small("pages", "memory", wanted, fetched), expected, "{wanted} of {fetched}");
        }
    }
}
