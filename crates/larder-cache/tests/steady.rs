//! A hit allocates nothing: alone in its process, so that nothing else is counted.

use std::time::Duration;

use bytes::Bytes;
use larder_cache::{
    FormState, Front, Hold, KeyRef, NewForm, Object, Rules, VaryKey, Verdict, Zone, ZoneLimits, selecting,
};
use larder_http::{Coding, Fields, Time};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<std::alloc::System> = &INSTRUMENTED_SYSTEM;

const NOW: Time = Time(1_800_000_000_000);

#[test]
fn a_hit_allocates_nothing_with_a_form_or_without() {
    let limits = ZoneLimits { bytes_max: 1 << 20, inactive: Duration::from_secs(600) };
    let zone = Zone::new("pages", limits);
    let (mut front, rules, request) = (Front::new(), Rules::default(), Fields::new());
    let key = KeyRef::new(b"https example.org /");
    let Verdict::Miss(Some(mut permit)) = zone.lookup(&mut front, &key, &selecting(&request), &rules, NOW) else {
        panic!("the zone is empty");
    };
    let (mut writer, body) = zone.body(b"key", Some(1000), None);
    let object = permit.begin(Object {
        status: 200,
        reason: (*b"OK").into(),
        fields: Fields::new(),
        body,
        stored_at: NOW,
        fresh_until: NOW.plus(Duration::from_secs(60)),
        stale_while_revalidate: Duration::ZERO,
        stale_if_error: Duration::ZERO,
        last_modified: None,
        etag: None,
        vary: VaryKey::none(),
        cost_micros: 0,
        prepared: Default::default(),
        hold: Hold::default(),
    });
    writer.append(Bytes::from(vec![b'x'; 1000])).expect("it is stored");
    writer.finish();
    permit.complete();
    let mut hits = |count: usize, len: u64| {
        for _ in 0..count {
            let Verdict::Hit(hit) = zone.lookup(&mut front, &key, &selecting(&request), &rules, NOW) else {
                panic!("it is fresh");
            };
            let sent = match hit.form(Coding::Gzip) {
                FormState::Ready(form) => {
                    form.wants_hard();
                    form.body.whole().map(|whole| whole.len())
                }
                _ => hit.body.whole().map(|whole| whole.len()),
            };
            assert_eq!(sent, Some(len));
        }
    };
    for len in [1000, 300] {
        hits(1, len);
        let before = Region::new(ALLOCATOR);
        hits(100, len);
        assert_eq!(before.change().allocations, 0, "{len}");
        if let Some(permit) = object.claim_form(Coding::Gzip) {
            permit.finish(NewForm { bytes: Bytes::from(vec![b'y'; 300]), prepared: None });
        }
    }
}
