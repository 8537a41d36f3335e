//! Who fetches, who waits, and what becomes of it.

use std::thread;

use bytes::Bytes;

use super::*;

#[test]
fn one_refetch_of_a_stale_page_runs_whether_lock_is_on_or_not() {
    for rules in [Rules::default(), lock()] {
        let zone = zone(1 << 20);
        let mut worker = Worker::new(&zone);
        let mut other = Worker::new(&zone);
        worker.store(KEY, "one", 0);
        let mut permit = worker.permit(KEY, &rules, 20);
        for _ in 0..3 {
            assert_eq!(told(&other.ask(KEY, &rules, 21)), "stale one updating=true");
        }
        let (mut writer, body) = zone.body(KEY, None, None);
        permit.begin(page(body, 21));
        writer.append(Bytes::from_static(b"two")).expect("it is stored");
        assert_eq!(told(&other.ask(KEY, &rules, 21)), "stale one updating=true");
        writer.finish();
        permit.complete();
        assert_eq!(told(&other.ask(KEY, &rules, 22)), "hit two");

        let failed = worker.permit(KEY, &rules, 40);
        assert_eq!(told(&other.ask(KEY, &rules, 41)), "stale two updating=true");
        failed.failed();
        assert_eq!(told(&other.ask(KEY, &rules, 41)), "stale two updating=false");
    }
}

#[test]
fn a_body_that_fails_leaves_what_was_there() {
    let zone = zone(1 << 20);
    let mut worker = Worker::new(&zone);
    let rules = Rules::default();
    worker.store(KEY, "one", 0);
    let mut permit = worker.permit(KEY, &rules, 20);
    let (mut writer, body) = zone.body(KEY, None, None);
    permit.begin(page(body, 20));
    writer.append(Bytes::from_static(b"tw")).expect("it is stored");
    writer.fail("cut short".to_owned());
    drop(permit);
    assert_eq!(told(&worker.ask(KEY, &rules, 21)), "stale one updating=false");
    assert_eq!(zone.stats().withdrawn, 1);
}

#[test]
fn a_confirmed_page_keeps_its_body() {
    let zone = zone(1 << 20);
    let mut worker = Worker::new(&zone);
    let rules = Rules::default();
    let old = worker.store(KEY, "one", 0);
    let permit = worker.permit(KEY, &rules, 20);
    permit.freshen(&old, page(old.body.clone(), 20));
    assert_eq!(told(&worker.ask(KEY, &rules, 29)), "hit one");
    assert_eq!(told(&worker.ask(KEY, &rules, 30)), "stale one updating=false");
    assert_eq!(zone.stats().freshened, 1);
    drop(old);
    assert_eq!(zone.shelf().used(), zone.shelf().weight());
}

#[test]
fn without_lock_everyone_fetches_and_the_last_to_end_stays() {
    let zone = zone(1 << 20);
    let mut worker = Worker::new(&zone);
    let rules = Rules::default();
    let mut fetches = Vec::new();
    for text in ["one", "two"] {
        let mut permit = worker.permit(KEY, &rules, 0);
        let (mut writer, body) = zone.body(KEY, None, None);
        permit.begin(page(body, 0));
        writer.append(Bytes::from_static(text.as_bytes())).expect("it is stored");
        fetches.push((permit, writer));
    }
    let (second, writer) = fetches.pop().expect("there are two");
    writer.finish();
    second.complete();
    assert_eq!(told(&worker.ask(KEY, &rules, 0)), "hit two");
    let (first, writer) = fetches.pop().expect("there are two");
    writer.finish();
    first.complete();
    assert_eq!(told(&worker.ask(KEY, &rules, 0)), "hit one");
}

#[test]
fn a_page_that_ended_after_its_permit_is_found() {
    let zone = zone(1 << 20);
    let mut worker = Worker::new(&zone);
    let mut permit = worker.permit(KEY, &Rules::default(), 0);
    let (writer, body) = zone.body(KEY, None, None);
    permit.begin(page(body, 0));
    drop(permit);
    assert_eq!(told(&worker.ask(KEY, &Rules::default(), 0)), "miss");
    writer.finish();
    assert_eq!(told(&worker.ask(KEY, &Rules::default(), 0)), "hit ");
}

#[test]
fn with_lock_the_others_stream_from_the_one_fetch() {
    let zone = zone(1 << 20);
    let mut worker = Worker::new(&zone);
    let mut permit = worker.permit(KEY, &lock(), 0);
    let waiters: Vec<_> = (0..3)
        .map(|_| waiter_of(Worker::new(&zone).ask(KEY, &lock(), 0)))
        .map(|waiter| {
            thread::spawn(move || {
                run(async {
                    match waiter.wait().await {
                        Woken::Filling { object, reader } => {
                            assert_eq!(object.status, 200);
                            read_all(reader).await
                        }
                        woken => panic!("{woken:?}"),
                    }
                })
            })
        })
        .collect();
    let (mut writer, body) = zone.body(KEY, None, None);
    permit.begin(page(body, 0));
    writer.append(Bytes::from_static(b"first ")).expect("it is stored");
    let late = waiter_of(worker.ask(KEY, &lock(), 0));
    let Woken::Filling { reader, .. } = run(late.wait()) else {
        panic!("the head is there");
    };
    writer.append(Bytes::from_static(b"second")).expect("it is stored");
    writer.finish();
    for waiter in waiters {
        assert_eq!(waiter.join().expect("no panic"), Ok("first second".to_owned()));
    }
    assert_eq!(run(read_all(reader)), Ok("first second".to_owned()));
    permit.complete();
    assert_eq!(told(&worker.ask(KEY, &lock(), 1)), "hit first second");
}

#[test]
fn a_permit_given_back_wakes_all_and_the_next_gets_it() {
    let zone = zone(1 << 20);
    let mut worker = Worker::new(&zone);
    let permit = worker.permit(KEY, &lock(), 0);
    let waiters: Vec<_> = (0..5).map(|_| waiter_of(worker.ask(KEY, &lock(), 0))).collect();
    let threads: Vec<_> =
        waiters.into_iter().map(|waiter| thread::spawn(move || matches!(run(waiter.wait()), Woken::Ready))).collect();
    drop(permit);
    for thread in threads {
        assert!(thread.join().expect("no panic"));
    }
    let next = worker.ask(KEY, &lock(), 0);
    assert_eq!(told(&next), "miss");
    assert_eq!(told(&worker.ask(KEY, &lock(), 0)), "wait");
}

#[test]
fn what_is_not_to_be_stored_is_fetched_by_all_at_once() {
    let zone = zone(1 << 20);
    let mut worker = Worker::new(&zone);
    let permit = worker.permit(KEY, &lock(), 0);
    let waiters: Vec<_> = (0..3).map(|_| waiter_of(worker.ask(KEY, &lock(), 0))).collect();
    permit.uncacheable(Duration::from_secs(10), at(1));
    for waiter in waiters {
        assert!(matches!(run(waiter.wait()), Woken::Uncacheable));
    }
    let first = worker.ask(KEY, &lock(), 2);
    assert_eq!((told(&first), told(&worker.ask(KEY, &lock(), 10))), ("miss".to_owned(), "miss".to_owned()));
    let permit = worker.permit(KEY, &lock(), 11);
    assert_eq!(told(&worker.ask(KEY, &lock(), 11)), "wait", "the memory of it is over");
    drop(permit);
    // Meanwhile it became storable: the first to store ends the memory too.
    worker.permit(KEY, &lock(), 20).uncacheable(Duration::from_secs(10), at(20));
    worker.store(KEY, "one", 21);
    assert_eq!(told(&worker.ask(KEY, &lock(), 22)), "hit one");
}

#[test]
fn one_who_waits_gives_up_in_time() {
    let zone = zone(1 << 20);
    let mut worker = Worker::new(&zone);
    let soon = Duration::from_millis(20);
    let late = secs(60);
    let _permit = worker.permit(KEY, &lock(), 0);
    let patient = Rules { lock_timeout: soon, lock_age: late, ..lock() };
    let waiter = waiter_of(worker.ask(KEY, &patient, 0));
    assert!(matches!(run(waiter.wait()), Woken::GaveUp));
    let waiter = waiter_of(worker.ask(KEY, &Rules { lock_age: soon, ..lock() }, 0));
    assert!(matches!(run(waiter.wait()), Woken::Ready));
    let never = Rules { lock_timeout: Duration::ZERO, ..lock() };
    assert_eq!(told(&worker.ask(KEY, &never, 0)), "miss unstored");
}

#[test]
fn one_more_may_fetch_when_the_first_takes_too_long() {
    let zone = zone(1 << 20);
    let mut worker = Worker::new(&zone);
    let slow = worker.permit(KEY, &lock(), 0);
    let waiter = waiter_of(worker.ask(KEY, &lock(), 4));
    let second = worker.permit(KEY, &lock(), 5);
    assert_eq!(told(&worker.ask(KEY, &lock(), 6)), "wait", "one more, not all");
    drop(slow);
    assert_eq!(told(&worker.ask(KEY, &lock(), 6)), "wait", "the second is still out");
    let mut second = second;
    let (writer, body) = zone.body(KEY, None, None);
    second.begin(page(body, 6));
    assert!(matches!(run(waiter.wait()), Woken::Filling { .. }));
    writer.finish();
    second.complete();
    assert_eq!(told(&worker.ask(KEY, &lock(), 7)), "hit ");
}

#[test]
fn one_more_may_fetch_when_a_body_comes_no_more() {
    let zone = zone(1 << 20);
    let mut worker = Worker::new(&zone);
    let rules = Rules { lock_age: Duration::from_secs(5), ..lock() };
    let mut permit = worker.permit(KEY, &rules, 0);
    let (mut writer, body) = zone.body(KEY, None, None);
    permit.begin(page(body, 0));
    for (second, grows, answer) in [
        (1, true, "wait"),
        (4, true, "wait"),
        (8, false, "wait"),
        (9, false, "miss"),
        (10, false, "wait"),
        (13, true, "wait"),
        (17, false, "wait"),
        (18, false, "miss"),
    ] {
        if grows {
            writer.append(Bytes::from_static(b"some")).expect("it is stored");
        }
        assert_eq!(told(&worker.ask(KEY, &rules, second)), answer, "at {second} s");
    }
}

#[test]
fn one_who_waits_for_another_variant_looks_again() {
    let zone = zone(1 << 20);
    let mut worker = Worker::new(&zone);
    let de = [("Accept-Language", "de")];
    let fr = [("Accept-Language", "fr")];
    let mut permit = permit_of(worker.ask_with(KEY, &de, &lock(), 0));
    let german = waiter_of(worker.ask_with(KEY, &de, &lock(), 0));
    let french = waiter_of(worker.ask_with(KEY, &fr, &lock(), 0));
    let (writer, body) = zone.body(KEY, None, None);
    permit.begin(varied(body, &de, "Accept-Language", 0));
    // Nothing was known of the Vary when they began to wait.
    assert!(matches!(run(german.wait()), Woken::Ready));
    assert!(matches!(run(french.wait()), Woken::Ready));
    let german = waiter_of(worker.ask_with(KEY, &de, &lock(), 0));
    assert!(matches!(run(german.wait()), Woken::Filling { .. }));
    let other = permit_of(worker.ask_with(KEY, &fr, &lock(), 0));
    writer.finish();
    permit.complete();
    drop(other);
    // Now it is known: those with the same values wait for each other only.
    let _other = permit_of(worker.ask_with(KEY, &fr, &lock(), 0));
    let _third = permit_of(worker.ask_with(KEY, &[("Accept-Language", "it")], &lock(), 0));
    assert_eq!(told(&worker.ask_with(KEY, &fr, &lock(), 0)), "wait");
}

#[test]
fn a_purged_page_does_not_come_back_by_a_fetch_from_before() {
    let zone = zone(1 << 20);
    let mut worker = Worker::new(&zone);
    worker.store(KEY, "old", 0);
    let mut permit = worker.permit(KEY, &lock(), 20);
    let (mut writer, body) = zone.body(KEY, None, None);
    assert_eq!(zone.purge(&KeyRef::new(KEY), at(0)), 1);
    assert_eq!(zone.purge(&KeyRef::new(KEY), at(0)), 0);
    let object = permit.begin(page(body, 20));
    writer.append(Bytes::from_static(b"old too")).expect("it is stored");
    writer.finish();
    permit.complete();
    assert_eq!(text(&object), "old too", "who fetched it delivers it");
    assert_eq!(told(&worker.ask(KEY, &lock(), 20)), "miss");
    assert_eq!(zone.stats().purged, 1);
}
