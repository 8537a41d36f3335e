//! Who makes a form, who waits for it, what it counts for, and how it goes.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use larder_http::Coding;

use super::*;

const GZIP: Shape = Shape::Coded(Coding::Gzip);

fn new_form(text: &str) -> NewForm {
    NewForm {
        bytes: Bytes::copy_from_slice(text.as_bytes()),
        prepared: Some(Prepared { rules: 1, lines: (*b"Content-Encoding: gzip\r\n").into(), block: Box::default() }),
    }
}

fn form_text(form: &Form) -> String {
    let whole = form.body.whole().expect("a form is whole");
    String::from_utf8(whole.to_vec().expect("it is in memory")).expect("it was text")
}

/// A state in a word, with the text of what is there.
fn shown(state: &FormState) -> String {
    match state {
        FormState::None => "none".to_owned(),
        FormState::Making(_) => "making".to_owned(),
        FormState::Ready(form) => format!("ready {}", form_text(form)),
        FormState::Unwanted => "unwanted".to_owned(),
        FormState::NoRoom => "no room".to_owned(),
    }
}

fn waiter(object: &Object) -> FormWaiter {
    match object.form(GZIP) {
        FormState::Making(waiter) => waiter,
        state => panic!("nothing to wait for: {state:?}"),
    }
}

/// A page of a zone that holds nothing else.
fn stored(len: usize) -> (Arc<Zone>, Worker, Arc<Object>) {
    let zone = zone(1 << 20);
    let mut worker = Worker::new(&zone);
    let object = worker.store(KEY, &"x".repeat(len), 0);
    (zone, worker, object)
}

fn make(object: &Object, text: &str) -> Finished {
    object.claim_form(GZIP).expect("nobody else makes it").finish(new_form(text))
}

/// What the zone counts is what its entries weigh.
fn assert_accounts(zone: &Zone) {
    assert_eq!(zone.shelf().used(), zone.shelf().weight());
}

#[test]
fn a_form_is_made_once_and_found_by_all() {
    let (zone, mut worker, object) = stored(1000);
    let before = zone.stats().bytes;
    assert_eq!(shown(&object.form(Coding::Gzip)), "none");
    let permit = object.claim_form(GZIP).expect("nobody has it");
    assert_eq!((permit.made(), permit.is_late()), (Made::Quick, false));
    assert_eq!(permit.body().whole().map(|whole| whole.len()), Some(1000));
    assert!(object.claim_form(GZIP).is_none());
    assert_eq!(shown(&object.form(GZIP)), "making");
    assert_eq!(shown(&object.form(Coding::Brotli)), "none", "each shape is for itself");
    assert_eq!(permit.finish(new_form("small")), Finished::Kept);
    let Verdict::Hit(hit) = worker.ask(KEY, &Rules::default(), 1) else { panic!("it is fresh") };
    let FormState::Ready(form) = hit.form(GZIP) else { panic!("it was made") };
    assert_eq!((form_text(&form).as_str(), form.made), ("small", Made::Quick));
    assert!(form.prepared.is_some());
    assert!(object.claim_form(GZIP).is_none());
    assert!(zone.stats().bytes > before + "small".len() as u64 + 24);
    assert_eq!(zone.stats().forms, 1);
    assert_accounts(&zone);
}

#[test]
fn of_many_who_come_at_once_one_makes_it_and_all_get_it() {
    let (zone, _worker, object) = stored(1000);
    let (start, made) = (Barrier::new(8), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                start.wait();
                let got = match (object.claim_form(GZIP), object.form(GZIP)) {
                    (Some(permit), _) => {
                        made.fetch_add(1, Ordering::Relaxed);
                        thread::yield_now();
                        permit.finish(new_form("small"));
                        let FormState::Ready(form) = object.form(GZIP) else { panic!("it was made") };
                        form.to_arc()
                    }
                    (None, FormState::Making(waiter)) => run(waiter.wait(secs(60))).expect("it is made"),
                    (None, FormState::Ready(form)) => form.to_arc(),
                    (None, state) => panic!("another makes it: {state:?}"),
                };
                assert_eq!(form_text(&got), "small");
            });
        }
    });
    assert_eq!(made.load(Ordering::Relaxed), 1);
    assert_accounts(&zone);
}

#[test]
fn a_permit_that_is_dropped_wakes_those_who_wait_and_another_tries() {
    let (_zone, _worker, object) = stored(1000);
    let permit = object.claim_form(GZIP).expect("nobody has it");
    let waiters: Vec<_> = (0..3).map(|_| waiter(&object)).chain([permit.waiter()]).collect();
    let threads: Vec<_> =
        waiters.into_iter().map(|waiter| thread::spawn(move || run(waiter.wait(secs(60))).is_none())).collect();
    drop(permit);
    for thread in threads {
        assert!(thread.join().expect("no panic"));
    }
    assert_eq!(shown(&object.form(GZIP)), "none");
    assert_eq!(make(&object, "small"), Finished::Kept);
}

#[test]
fn one_who_waits_too_long_goes_without() {
    let (_zone, _worker, object) = stored(1000);
    let permit = object.claim_form(GZIP).expect("nobody has it");
    assert!(run(waiter(&object).wait(Duration::from_millis(5))).is_none());
    let patient = waiter(&object);
    permit.finish(new_form("small"));
    assert!(run(patient.wait(Duration::ZERO)).is_some(), "what is there costs no patience");
}

#[test]
fn what_is_no_smaller_is_not_wanted_and_not_tried_again() {
    for (len, text, expected) in
        [(5, "12345", "unwanted"), (5, "123456", "unwanted"), (5, "1234", "ready 1234"), (0, "1", "unwanted")]
    {
        let (zone, _worker, object) = stored(len);
        let before = zone.stats().bytes;
        make(&object, text);
        assert_eq!(shown(&object.form(GZIP)), expected);
        assert!(object.claim_form(GZIP).is_none());
        assert_eq!(zone.stats().bytes == before, expected == "unwanted");
        assert_eq!(zone.stats().forms_unwanted, u64::from(expected == "unwanted"));
        assert_accounts(&zone);
    }
    let (_zone, _worker, object) = stored(1000);
    object.claim_form(GZIP).expect("nobody has it").unwanted();
    assert_eq!(shown(&object.form(GZIP)), "unwanted");
}

#[test]
fn a_restored_body_may_be_bigger() {
    let (zone, _worker, object) = stored(5);
    let permit = object.claim_form(Shape::Identity).expect("nobody has it");
    assert_eq!(permit.finish(new_form("much longer than it was")), Finished::Kept);
    assert_eq!(shown(&object.form(Shape::Identity)), "ready much longer than it was");
    assert_accounts(&zone);
}

#[test]
fn a_form_that_is_used_is_made_again_once() {
    let (zone, _worker, object) = stored(1000);
    assert!(object.claim_hard(GZIP).is_none(), "there is nothing to make again");
    make(&object, "quick one");
    let FormState::Ready(form) = object.form(GZIP) else { panic!("it was made") };
    let wants = |form: &Form| (0..100).filter(|_| form.wants_hard()).count();
    assert_eq!(wants(&form), 1);
    let permit = object.claim_hard(GZIP).expect("nobody has it");
    assert_eq!(permit.made(), Made::Hard);
    assert!(object.claim_hard(GZIP).is_none());
    assert_eq!(shown(&object.form(GZIP)), "ready quick one", "meanwhile the quick one is good");
    // Given back, it is asked for again later.
    drop(permit);
    assert_eq!(wants(&form), 1);
    assert_eq!(object.claim_hard(GZIP).map(|permit| permit.finish(new_form("hard"))), Some(Finished::Kept));
    assert_eq!(form_text(&form), "quick one", "who sends it keeps it");
    drop(form);
    let FormState::Ready(form) = object.form(GZIP) else { panic!("it was made") };
    assert_eq!((form_text(&form).as_str(), form.made, wants(&form)), ("hard", Made::Hard, 0));
    assert!(object.claim_hard(GZIP).is_none());
    drop(form);
    assert_accounts(&zone);
}

#[test]
fn a_hard_form_that_is_no_smaller_leaves_the_quick_one() {
    for is_made in [true, false] {
        let (zone, _worker, object) = stored(1000);
        make(&object, "as short");
        let permit = object.claim_hard(GZIP).expect("nobody has it");
        match is_made {
            true => assert_eq!(permit.finish(new_form("as long!")), Finished::Unwanted),
            false => permit.unwanted(),
        }
        assert_eq!(shown(&object.form(GZIP)), "ready as short");
        assert_accounts(&zone);
    }
}

/// A form of a big page for which nobody is made to leave: it is more than half of the zone.
fn make_too_big(object: &Object, shape: Shape) -> Finished {
    object.claim_form(shape).expect("nobody else makes it").finish(new_form(&"y".repeat(600_000)))
}

#[test]
fn without_room_the_page_stays_and_the_form_does_not() {
    let (zone, mut worker, object) = stored(700_000);
    let permit = object.claim_form(GZIP).expect("nobody has it");
    let waiter = waiter(&object);
    assert_eq!(permit.finish(new_form(&"y".repeat(600_000))), Finished::NoRoom);
    assert!(run(waiter.wait(secs(60))).is_none());
    assert_eq!(shown(&object.form(GZIP)), "no room");
    assert!(object.claim_form(GZIP).is_none());
    assert_eq!((zone.stats().forms, zone.stats().forms_refused), (0, 1));
    assert!(matches!(worker.ask(KEY, &Rules::default(), 1), Verdict::Hit(_)));
    assert_accounts(&zone);
}

#[test]
fn a_confirmed_page_keeps_its_forms_and_tries_again_what_had_no_room() {
    let (zone, mut worker, old) = stored(700_000);
    make(&old, "small");
    assert_eq!(make_too_big(&old, Coding::Zstd.into()), Finished::NoRoom);
    let brotli = old.claim_form(Coding::Brotli).expect("nobody has it");
    let permit = worker.permit(KEY, &Rules::default(), 20);
    permit.freshen(&old, page(old.body.clone(), 20));
    drop(old);
    let Verdict::Hit(new) = worker.ask(KEY, &Rules::default(), 21) else { panic!("it is fresh again") };
    assert_eq!(shown(&new.form(GZIP)), "ready small");
    assert_eq!(shown(&new.form(Coding::Zstd)), "none");
    assert_eq!(shown(&new.form(Coding::Brotli)), "making");
    assert_eq!(brotli.finish(new_form("smaller")), Finished::Kept);
    assert_eq!(shown(&new.form(Coding::Brotli)), "ready smaller");
    drop(new);
    assert_accounts(&zone);
    // Another body has none of it.
    let other = worker.store(KEY, "another body", 50);
    assert_eq!(shown(&other.form(GZIP)), "none");
    assert_accounts(&zone);
}

#[test]
fn a_form_goes_with_its_page() {
    let (zone, mut worker, object) = stored(1000);
    make(&object, "small");
    let FormState::Ready(form) = object.form(GZIP) else { panic!("it was made") };
    let in_flight = form.to_arc();
    drop(form);
    let with_form = zone.stats().bytes;
    zone.purge(&KeyRef::new(KEY), at(0));
    assert_eq!(told(&worker.ask(KEY, &Rules::default(), 1)), "miss");
    drop(object);
    worker.front.tidy();
    let left = zone.stats().bytes;
    assert!(left > 5 && left < with_form - 1000, "what is being sent is counted until it is there: {left}");
    drop(in_flight);
    zone.purge(&KeyRef::new(KEY), at(0));
    worker.front.tidy();
    assert_eq!(zone.stats().bytes, 0);
}

#[test]
fn a_page_that_is_purged_while_its_form_is_made_does_not_come_back() {
    let (zone, mut worker, object) = stored(1000);
    let permit = object.claim_form(GZIP).expect("nobody has it");
    let waiter = waiter(&object);
    zone.purge(&KeyRef::new(KEY), at(0));
    assert!(permit.is_late());
    assert_eq!(told(&worker.ask(KEY, &Rules::default(), 1)), "miss");
    drop(object);
    assert_eq!(permit.finish(new_form("small")), Finished::Kept);
    let form = run(waiter.wait(secs(60))).expect("those who wait get it");
    assert_eq!(form_text(&form), "small");
    drop(form);
    zone.purge(&KeyRef::new(KEY), at(0));
    worker.front.tidy();
    assert_eq!(zone.stats().bytes, 0);
}

#[test]
fn only_whole_pages_that_are_kept_have_forms() {
    let zone = zone(1 << 20);
    let mut worker = Worker::new(&zone);
    let mut permit = worker.permit(KEY, &lock(), 0);
    let (mut writer, body) = zone.body(KEY, None, None);
    let object = permit.begin(page(body, 0));
    writer.append(Bytes::from_static(b"first ")).expect("it is stored");
    assert!(object.claim_form(GZIP).is_none(), "it is not whole");
    writer.finish();
    assert!(object.claim_form(GZIP).is_some());
    permit.complete();
    let loose = page(Body::of(Bytes::from_static(b"loose"), None), 0);
    assert!(loose.claim_form(GZIP).is_none(), "it is not kept");
    assert_eq!(shown(&loose.form(GZIP)), "none");
}

#[test]
fn permits_and_forms_may_go_to_another_thread() {
    fn goes<T: Send + 'static>() {}
    goes::<FormPermit>();
    goes::<FormRef>();
    goes::<FormWaiter>();
    goes::<Arc<Form>>();
}

#[test]
fn makers_readers_refetches_and_purges_leave_nothing_behind() {
    const LIMIT: u64 = 60_000;
    let zone = zone(LIMIT);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for number in 0..4_u64 {
            let (zone, over) = (&zone, &over);
            scope.spawn(move || run(hammer(zone, number, over)));
        }
    });
    assert!(!over.load(Ordering::Relaxed));
    let stats = zone.stats();
    assert!(stats.forms > 0 && stats.forms_unwanted > 0 && stats.evicted > 0 && stats.freshened > 0, "{stats:?}");
    let mut reserved = 0;
    zone.shelf().sweep(usize::MAX, |entry| {
        reserved += entry.weight() as u64;
        true
    });
    assert_eq!(zone.shelf().used(), reserved);
    zone.memory().adjust(0);
    assert_eq!((zone.stats().entries, zone.stats().bytes), (0, 0));
}

/// A worker that does with pages and their forms what may be done, in a random order.
async fn hammer(zone: &Arc<Zone>, number: u64, over: &AtomicBool) {
    let mut worker = Worker::new(zone);
    let mut random = random(number);
    for step in 0..6000_u64 {
        over.fetch_or(zone.stats().bytes > zone.stats().bytes_max, Ordering::Relaxed);
        let key = format!("/{}", random(8) * random(4));
        // Often enough past the time of a page.
        let now = step / 4;
        match worker.ask(key.as_bytes(), &Rules::default(), now) {
            Verdict::Hit(hit) => use_form(&hit, &key, &mut random).await,
            Verdict::Stale { object, permit: Some(permit), .. } if random(2) == 0 => {
                let old = object.to_arc();
                permit.freshen(&old, page(old.body.clone(), now));
            }
            Verdict::Miss(Some(permit)) | Verdict::Stale { permit: Some(permit), .. } => {
                let mut permit = permit;
                let text = key.clone() + &"x".repeat(random(5000) as usize);
                permit.begin(page(Body::of(Bytes::from(text.clone()), zone.reserve(text.len())), now));
            }
            Verdict::Miss(None) | Verdict::Stale { .. } | Verdict::Wait(_) | Verdict::Load(_) | Verdict::Scarce => {}
        }
        if random(100) == 0 {
            zone.purge(&KeyRef::new(key.as_bytes()), at(0));
        }
    }
}

async fn use_form(hit: &HitRef, key: &str, random: &mut impl FnMut(u64) -> u64) {
    let shape = Shape::Coded(Coding::ALL[random(3) as usize]);
    let permit = match hit.form(shape) {
        FormState::Ready(form) => {
            assert!(form_text(&form).starts_with(key), "a form of another page");
            match form.wants_hard() {
                true => hit.claim_hard(shape),
                false => None,
            }
        }
        FormState::Making(waiter) => {
            if let Some(form) = waiter.wait(Duration::from_micros(50)).await {
                assert!(form_text(&form).starts_with(key), "a form of another page");
            }
            None
        }
        FormState::None => hit.claim_form(shape),
        FormState::Unwanted | FormState::NoRoom => None,
    };
    let Some(permit) = permit else { return };
    tokio::task::yield_now().await;
    let len = random(1500) as usize;
    match random(8) {
        0 => drop(permit),
        1 => permit.unwanted(),
        _ => {
            permit.finish(new_form(&(key.to_owned() + &"y".repeat(len))));
        }
    }
}

fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed + 1;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    }
}

#[test]
fn what_is_made_of_a_body_is_kept_and_counted_once_a_type() {
    let (zone, _worker, object) = stored(1000);
    let before = zone.shelf().used();
    assert_eq!(object.made::<u8>(), None);
    assert!(object.keep_made(7_u8, 500) && object.keep_made("text", 0));
    assert!(!object.keep_made(8_u8, 500), "the first stays");
    assert_eq!((object.made::<u8>(), object.made::<&str>(), object.made::<u16>()), (Some(&7), Some(&"text"), None));
    assert!(zone.shelf().used() >= before + 500);
    assert_accounts(&zone);
    assert!(!object.keep_made(9_u16, 2 << 20), "there is no room for it");
    assert_eq!(object.made::<u16>(), None);
    drop(zone);
}
