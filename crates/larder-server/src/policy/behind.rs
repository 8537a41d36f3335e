//! What a larder behind this one says of a page that it answers with: one that is stale there is not fresh here, whatever its fields
//! say of its time. A soft purge makes a page stale that says that it is fresh.

use larder_http::{Fields, Known, Time, list};

use super::Lifetime;

/// A lifetime that is over if a larder behind this one says in `Cache-Status` (RFC 9211) that the page is stale. The member nearest
/// to this cache counts, which is the last.
pub fn cap(lifetime: &mut Lifetime, fields: &Fields, now: Time) {
    if !fields.contains_known(Known::CacheStatus) {
        return;
    }
    let nearest = fields.all_known(Known::CacheStatus).flat_map(list::members).last();
    if let Some(secs) = nearest.and_then(stale_for) {
        lifetime.fresh_until = lifetime.fresh_until.min(Time::from_secs(now.secs().saturating_sub(secs)));
    }
}

/// The fields of a page that a 304 has confirmed, if what they say of caches behind this one is another thing now.
pub fn confirmed(fields: &Fields, confirmation: &Fields) -> Option<Fields> {
    let lines = |fields: &Fields| fields.all_known(Known::CacheStatus).map(<[u8]>::to_vec).collect::<Vec<_>>();
    let is_there = fields.contains_known(Known::CacheStatus) || confirmation.contains_known(Known::CacheStatus);
    let said = is_there.then(|| lines(confirmation)).filter(|said| *said != lines(fields))?;
    let mut fields = fields.clone();
    fields.remove("Cache-Status");
    said.iter().for_each(|line| fields.push(b"Cache-Status", line));
    Some(fields)
}

/// For how many seconds the page has been stale at the larder whose member this is; `None` if it is fresh, or nothing is said.
fn stale_for(member: &[u8]) -> Option<u64> {
    let mut parameters = list::parts(member, b';');
    let name = parameters.next()?;
    if name != b"larder" && !name.starts_with(b"larder/") {
        return None;
    }
    let ttl = parameters.find_map(|parameter| parameter.strip_prefix(b"ttl="))?;
    let ttl: i64 = str::from_utf8(ttl).ok()?.parse().ok()?;
    (ttl <= 0).then(|| ttl.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_caches_behind_say_of_a_confirmed_page_is_what_they_said_last() {
        let of = |lines: &[&str]| {
            let mut fields = Fields::new();
            fields.push(b"ETag", b"1");
            lines.iter().for_each(|line| fields.push(b"Cache-Status", line.as_bytes()));
            fields
        };
        for (page, said, expected) in [
            (&["larder; ttl=-3"][..], &["larder; ttl=500"][..], Some(&["larder; ttl=500"][..])),
            (&["a", "b"], &["c", "d"], Some(&["c", "d"])),
            (&["larder; ttl=-3"], &[], Some(&[])),
            (&[], &["larder; ttl=1"], Some(&["larder; ttl=1"])),
            (&["a"], &["a"], None),
            (&[], &[], None),
        ] {
            let told = confirmed(&of(page), &of(said));
            let shown = told.map(|fields| {
                assert!(fields.contains_known(Known::Etag));
                let lines = fields.all_known(Known::CacheStatus).map(|line| String::from_utf8_lossy(line).into_owned());
                lines.collect::<Vec<_>>()
            });
            assert_eq!(
                shown.as_deref(),
                expected.map(|lines| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>()).as_deref()
            );
        }
    }

    #[test]
    fn the_nearest_larder_says_whether_a_page_is_stale() {
        let now = Time::from_secs(1000);
        for (lines, ttl) in [
            (&["larder; hit; ttl=540; key=\"a\"; detail=\"HIT\""][..], 60),
            (&["larder; hit; ttl=0; detail=\"STALE\""], 0),
            (&["larder/web1; hit; ttl=-3; key=\"a\""], -3),
            // The last one, in whatever line.
            (&["larder/a; hit; ttl=-3, larder/b; fwd=uri-miss; ttl=9"], 60),
            (&["larder/a; hit; ttl=9", "larder/b; hit; ttl=-9"], -9),
            // Others, and what is in a string.
            (&["nginx; hit; ttl=-3"], 60),
            (&["larder; hit; key=\"a; ttl=-3\""], 60),
            (&["larder; hit; key=\"a\\\"; ttl=-3, larder; ttl=-4\"; ttl=8"], 60),
            (&["larders; hit; ttl=-3"], 60),
            (&["larder; hit; ttl=-", ""], 60),
            (&["larder; hit; ttl=-99999999999999999999"], 60),
            (&["larder; hit; ttl=-999999999999999"], -1000),
        ] {
            let mut fields = Fields::new();
            lines.iter().for_each(|line| fields.push(b"Cache-Status", line.as_bytes()));
            let mut lifetime = Lifetime { fresh_until: now.plus(Duration::from_secs(60)), ..Lifetime::over(now) };
            cap(&mut lifetime, &fields, now);
            assert_eq!(lifetime.fresh_until.secs() as i64 - 1000, ttl, "{lines:?}");
        }
    }
}
