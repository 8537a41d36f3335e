//! What one who only looks at a key sees, and leaves behind.

use super::*;

#[test]
fn a_look_shows_variants_fetches_and_refusals() {
    let zone = zone(1 << 20);
    let mut worker = Worker::new(&zone);
    let key = KeyRef::new(KEY);
    let seen = |zone: &Arc<Zone>, now| {
        let peek = zone.peek(&key, at(now));
        (peek.variants.len(), peek.misses, peek.is_being_fetched, peek.uncacheable_until.is_some(), peek.may_be_on_disk)
    };
    assert_eq!(seen(&zone, 0), (0, 0, false, false, false));
    let permit = worker.permit(KEY, &lock(), 0);
    assert_eq!(seen(&zone, 0), (0, 1, true, false, false));
    permit.uncacheable(secs(10), at(0));
    assert_eq!(seen(&zone, 9), (0, 1, false, true, false));
    assert_eq!(seen(&zone, 10), (0, 1, false, false, false));
    worker.store_with(KEY, &[("A", "1")], "A", "one", 11);
    worker.store_with(KEY, &[("A", "2")], "A", "two", 11);
    // The last one is whole, though no lookup has made it a variant yet.
    let variants = zone.peek(&key, at(12)).variants;
    let values: Vec<_> = variants.iter().flat_map(|object| object.vary.values()).collect();
    assert_eq!(values, [("a", &b"2"[..]), ("a", b"1")]);
}

#[test]
fn a_look_leaves_no_trace() {
    let zone = zone(1 << 20);
    let mut worker = Worker::new(&zone);
    worker.store(KEY, "one", 0);
    let Verdict::Hit(_) = worker.ask(KEY, &lock(), 1) else { panic!("it is there") };
    let before = zone.stats();
    for key in [KEY, b"another"] {
        for now in [1, 2, 100] {
            zone.peek(&KeyRef::new(key), at(now));
        }
    }
    assert_eq!(zone.stats(), before);
}
