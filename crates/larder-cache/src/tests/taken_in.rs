//! Pages of another cache.

use super::selected::{purge, seen, tagged, tags, uri};
use super::*;

const PAGE: &str = "a.example/news/1";

/// A zone that keeps what it purges.
fn sharing() -> Worker {
    let zone = zone(1 << 20);
    zone.set_tag_fields(&["xkey"]);
    zone.keep_purges();
    Worker::new(&zone)
}

/// Takes in the page of another cache that was fetched at this moment and second. The permit, if it is not taken.
fn take_in(worker: &mut Worker, since: Moment, then: u64, now: u64) -> Result<(), Permit> {
    let permit = worker.permit(PAGE.as_bytes(), &Rules::default(), now);
    permit.take_in(tagged(body(worker), PAGE.as_bytes(), "news front", then), since, at(now))
}

/// A whole body.
fn body(worker: &Worker) -> Body {
    let (mut writer, body) = worker.zone.body(PAGE.as_bytes(), Some(5), None);
    writer.append(Bytes::from_static(b"other")).expect("there is room");
    writer.finish();
    body
}

#[test]
fn a_page_of_another_cache_is_a_page() {
    let mut worker = sharing();
    let since = worker.zone.moment();
    assert!(take_in(&mut worker, since, 0, 1).is_ok());
    assert_eq!(told(&worker.ask(PAGE.as_bytes(), &Rules::default(), 1)), "hit other");
    purge(&worker.zone, tags(&["front"]), How::Hard, 2);
    assert_eq!(seen(&mut worker, PAGE, 2), "miss");
}

#[test]
fn a_purge_since_its_fetch_means_it_and_one_before_does_not() {
    let hard: [Selection; 8] = [
        Selection::All,
        Selection::Key((*b"a.example/news/1").into()),
        Selection::KeyPrefix((*b"a.example/").into()),
        Selection::Host((*b"a.example").into()),
        tags(&["news"]),
        uri(None, UriTest::Begins((*b"/news/").into())),
        Selection::KeyPrefix((*b"b.example/").into()),
        tags(&["shop"]),
    ];
    for (at, selection) in hard.into_iter().enumerate() {
        let is_meant = at < 6;
        for how in [How::Hard, How::Soft] {
            let mut worker = sharing();
            let before = worker.zone.moment();
            purge(&worker.zone, selection.clone(), how, 1);
            let after = worker.zone.moment();
            let taken = take_in(&mut worker, before, 0, 2);
            assert_eq!(taken.is_err(), is_meant && how == How::Hard, "{at} {how:?}");
            drop(taken);
            let expected = match (is_meant, how) {
                (true, How::Hard) => "miss",
                (true, How::Soft) => "stale",
                (false, _) => "hit",
            };
            assert_eq!(seen(&mut worker, PAGE, 2), expected, "{at} {how:?}");
            if expected != "hit" {
                assert!(take_in(&mut worker, after, 0, 2).is_ok());
                assert_eq!(seen(&mut worker, PAGE, 2), "hit", "{at} {how:?}");
            }
        }
    }
}

#[test]
fn a_hundred_purges_of_other_keys_do_not_mean_it() {
    let mut worker = sharing();
    let since = worker.zone.moment();
    for number in 0..5000 {
        worker.zone.purge(&KeyRef::new(format!("a.example/{number}").as_bytes()), at(1));
    }
    assert!(take_in(&mut worker, since, 0, 1).is_ok());
    assert_eq!(seen(&mut worker, PAGE, 1), "hit");
}

#[test]
fn who_waits_gets_a_fresh_page_and_looks_again_for_a_stale_one() {
    for (then, expected) in [(15, "hit"), (0, "stale")] {
        let mut worker = sharing();
        let since = worker.zone.moment();
        let permit = worker.permit(PAGE.as_bytes(), &lock(), 20);
        let waiter = waiter_of(worker.ask(PAGE.as_bytes(), &lock(), 20));
        let page = tagged(body(&worker), PAGE.as_bytes(), "", then);
        assert!(permit.take_in(page, since, at(20)).is_ok());
        match run(waiter.wait()) {
            Woken::Filling { object, .. } => assert_eq!((text(&object), expected), ("other".to_owned(), "hit")),
            Woken::Ready => assert_eq!(expected, "stale"),
            other => panic!("{other:?}"),
        }
        assert_eq!(seen(&mut worker, PAGE, 20), expected);
    }
}

#[test]
fn a_stale_page_does_not_take_the_place_of_another() {
    let mut worker = sharing();
    let since = worker.zone.moment();
    assert!(take_in(&mut worker, since, 0, 1).is_ok());
    purge(&worker.zone, tags(&["news"]), How::Soft, 2);
    for (since, then, is_taken) in
        [(since, 2, false), (worker.zone.moment(), 0, false), (worker.zone.moment(), 15, true)]
    {
        assert_eq!(take_in(&mut worker, since, then, 20).is_ok(), is_taken, "{then}");
        assert_eq!(seen(&mut worker, PAGE, 20), if is_taken { "hit" } else { "stale" });
    }
}

#[test]
fn a_page_for_which_there_is_no_room_is_not_taken_in() {
    let mut worker = sharing();
    let since = worker.zone.moment();
    let permit = worker.permit(PAGE.as_bytes(), &Rules::default(), 0);
    let body = Body::of(Bytes::from_static(b"other"), None);
    assert!(permit.take_in(page(body, 0), since, at(0)).is_err());
    assert_eq!(seen(&mut worker, PAGE, 0), "miss");
}
