//! What a policy drops or shortens.

use super::*;

fn shorter(grace: Option<u64>, keep: Option<u64>) -> Shorter {
    Shorter { ttl: Duration::ZERO, grace: grace.map(secs), keep: keep.map(secs) }
}

#[test]
fn a_shortened_page_is_stale_at_once_and_loses_what_it_has_too_much() {
    for (by, grace, keep) in [
        (shorter(None, None), 5, 15),
        (shorter(Some(2), None), 2, 15),
        (shorter(Some(7), Some(3)), 5, 3),
        (shorter(Some(0), Some(90)), 0, 15),
    ] {
        let zone = zone(1 << 20);
        let mut worker = Worker::new(&zone);
        worker.store(KEY, "one", 0);
        assert_eq!(zone.shorten(&KeyRef::new(KEY), by, |_| true, at(1)), 1);
        let Verdict::Stale { object, .. } = worker.ask(KEY, &lock(), 1) else { panic!("it is stale") };
        assert_eq!(text(&object), "one");
        assert_eq!((object.stored_at, object.fresh_until), (at(0), at(1)));
        assert_eq!((object.stale_while_revalidate, object.stale_if_error), (secs(grace), secs(grace + keep)), "{by:?}");
    }
}

#[test]
fn a_page_that_is_stale_already_does_not_live_longer() {
    let zone = zone(1 << 20);
    let mut worker = Worker::new(&zone);
    let page = worker.store(KEY, "one", 0);
    page.count_hit(at(0));
    for now in [1, 3] {
        assert_eq!(zone.shorten(&KeyRef::new(KEY), shorter(None, None), |_| true, at(now)), 1);
        let Verdict::Stale { object, .. } = worker.ask(KEY, &lock(), now) else { panic!("it is stale") };
        assert_eq!((object.fresh_until, object.hits()), (at(1), 1));
    }
    assert_eq!(zone.shorten(&KeyRef::new(b"other"), shorter(None, None), |_| true, at(3)), 0);
}

#[test]
fn only_the_variants_that_are_meant_are_dropped_or_shortened() {
    let zone = zone(1 << 20);
    let mut worker = Worker::new(&zone);
    let lines = |language| [("Accept-Language", language)];
    let is_german = |object: &Object| text(object) == "eins";
    let told_of = |worker: &mut Worker, language| told(&worker.ask_with(KEY, &lines(language), &lock(), 1));
    for (language, text) in [("de", "eins"), ("en", "one")] {
        worker.store_with(KEY, &lines(language), "Accept-Language", text, 0);
    }
    assert_eq!(zone.shorten(&KeyRef::new(KEY), shorter(None, None), is_german, at(1)), 1);
    assert_eq!(told_of(&mut worker, "de"), "stale eins updating=false");
    assert_eq!(told_of(&mut worker, "en"), "hit one");
    assert_eq!(zone.purge_variants(&KeyRef::new(KEY), is_german, at(1)), 1);
    assert_eq!(told_of(&mut worker, "de"), "miss");
    assert_eq!(told_of(&mut worker, "en"), "hit one");
    assert!(zone.may_have(&KeyRef::new(KEY)));
    assert_eq!(zone.stats().objects, 1);
    assert_eq!(zone.purge_variants(&KeyRef::new(KEY), |_| true, at(1)), 1);
    assert_eq!(zone.stats().objects, 0);
    assert!(!zone.may_have(&KeyRef::new(KEY)));
}

#[test]
fn a_page_that_is_on_its_way_is_not_stored_after_a_purge_of_it() {
    for is_meant in [true, false] {
        let zone = zone(1 << 20);
        let mut worker = Worker::new(&zone);
        let mut permit = worker.permit(KEY, &lock(), 0);
        let (mut writer, body) = zone.body(KEY, None, None);
        permit.begin(page(body, 0));
        assert!(zone.may_have(&KeyRef::new(KEY)));
        assert_eq!(zone.purge_variants(&KeyRef::new(KEY), |_| is_meant, at(0)), usize::from(is_meant));
        writer.append(Bytes::from_static(b"one")).expect("it is stored");
        writer.finish();
        permit.complete();
        assert_eq!(told(&worker.ask(KEY, &lock(), 0)), if is_meant { "miss" } else { "hit one" });
    }
}

#[test]
fn what_is_being_fetched_is_stored_after_a_purge_of_what_is_stored() {
    let zone = zone(1 << 20);
    let mut worker = Worker::new(&zone);
    worker.store(KEY, "one", 0);
    let mut permit = worker.permit(KEY, &lock(), 20);
    assert_eq!(zone.purge_variants(&KeyRef::new(KEY), |_| true, at(20)), 1);
    let (mut writer, body) = zone.body(KEY, None, None);
    permit.begin(page(body, 20));
    writer.append(Bytes::from_static(b"two")).expect("it is stored");
    writer.finish();
    permit.complete();
    assert_eq!(told(&worker.ask(KEY, &lock(), 20)), "hit two");
    assert_eq!(zone.purge_variants(&KeyRef::new(KEY), |_| true, at(20)), 1);
    assert_eq!(zone.purge_variants(&KeyRef::new(KEY), |_| true, at(20)), 0);
    assert_eq!(told(&worker.ask(KEY, &lock(), 20)), "miss");
}

/// As for a bypassed cache: the answer is there before there is a permit.
#[test]
fn what_is_fetched_without_a_permit_is_not_stored_after_a_purge_of_its_key() {
    let fetched = |worker: &mut Worker, key: &[u8], began| {
        let zone = Arc::clone(&worker.zone);
        let mut permit = zone.permit(&mut worker.front, &KeyRef::new(key), at(2)).expect("there is room");
        permit.fetched_since(began);
        permit.begin(page(Body::of(Bytes::from_static(b"two"), zone.reserve(3)), 2));
        drop(permit);
        told(&worker.ask(key, &lock(), 3))
    };
    for prefix in [None, Some(&b"a"[..]), Some(b"")] {
        let zone = zone(1 << 20);
        let mut worker = Worker::new(&zone);
        worker.store(b"a", "one", 0);
        let before = zone.moment();
        match prefix {
            None => assert_eq!(zone.purge(&KeyRef::new(b"a"), at(1)), 1),
            Some(prefix) => {
                zone.purge_prefix(prefix, at(1));
            }
        }
        let after = zone.moment();
        assert_eq!(fetched(&mut worker, b"a", before), "miss", "{prefix:?}");
        assert_eq!(fetched(&mut worker, b"a", after), "hit two", "{prefix:?}");
    }
    let zone = zone(1 << 20);
    let mut worker = Worker::new(&zone);
    let began = zone.moment();
    zone.purge(&KeyRef::new(b"a"), at(1));
    // One in a thousand keys shares the place of another.
    let hits = (0..8).filter(|number| fetched(&mut worker, format!("b{number}").as_bytes(), began) == "hit two");
    assert!(hits.count() > 4, "other keys are not meant");
}

#[test]
fn a_purge_of_a_page_means_the_part_of_it_that_is_kept_alone() {
    let part = [KEY, PART].concat();
    let of_key = || Selection::Key(KEY.into());
    let zone = zone(1 << 20);
    let mut worker = Worker::new(&zone);
    for (number, (purge, after)) in [
        (None, "miss"),
        (Some((of_key(), How::Hard)), "miss"),
        (Some((of_key(), How::Soft)), "stale part updating=false"),
        (Some((Selection::KeyPrefix(KEY.into()), How::Hard)), "miss"),
        (Some((Selection::Key(b"other"[..].into()), How::Hard)), "hit part"),
    ]
    .into_iter()
    .enumerate()
    {
        zone.clear_memory();
        worker.store(&part, "part", 0);
        worker.store(b"other key", "other", 0);
        match purge {
            None => assert_eq!(zone.purge(&KeyRef::new(KEY), at(1)), 1),
            Some((selection, how)) => {
                zone.purge_selected(selection, how, at(1)).expect("it is short");
            }
        }
        assert_eq!(told(&worker.ask(&part, &Rules::default(), 1)), after, "purge {number}");
        assert_eq!(told(&worker.ask(b"other key", &Rules::default(), 1)), "hit other");
    }
    // One that is being fetched for nobody in particular is not stored.
    zone.clear_memory();
    let began = zone.moment();
    zone.purge(&KeyRef::new(KEY), at(1));
    let mut permit = zone.permit(&mut worker.front, &KeyRef::new(&part), at(1)).expect("there is room");
    permit.fetched_since(began);
    assert_eq!(permit.since(), began);
    permit.begin(page(Body::of(Bytes::from_static(b"old"), zone.reserve(3)), 1));
    drop(permit);
    assert_eq!(told(&worker.ask(&part, &Rules::default(), 2)), "miss");
}
