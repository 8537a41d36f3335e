//! Who comes in, under a clock that the test moves, and with threads.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn gate(limit: Limit, queue_max: usize, timeout: Duration) -> Arc<Gate> {
    Gate::new(Rules { limit, queue_max, timeout: Some(timeout) })
}

fn asks(class: Class) -> Asks {
    Asks { class, ..Asks::default() }
}

fn enter(gate: &Arc<Gate>, class: Class) -> Result<Entry, Why> {
    gate.enter(asks(class), SECOND, Instant::now()).map_err(|refusal| refusal.why)
}

fn slot(gate: &Arc<Gate>) -> Slot {
    match enter(gate, Class::NORMAL) {
        Ok(Entry::In(slot)) => slot,
        Ok(Entry::Waits(_)) | Err(_) => panic!("it is let in at once"),
    }
}

fn place(gate: &Arc<Gate>, class: Class) -> Place {
    match enter(gate, class) {
        Ok(Entry::Waits(place)) => place,
        Ok(Entry::In(_)) | Err(_) => panic!("it waits"),
    }
}

/// What has become of a waiter: `None` while it waits.
fn poll(place: &mut Place) -> Option<Result<Slot, Why>> {
    let mut task = Context::from_waker(Waker::noop());
    match place.poll(&mut task, Instant::now()) {
        Poll::Pending => None,
        Poll::Ready(ready) => Some(ready.map_err(|refusal| refusal.why)),
    }
}

fn state(gate: &Gate) -> (u32, u32) {
    let status = gate.status();
    (status.running, status.waiting_all())
}

#[tokio::test(start_paused = true)]
async fn so_many_run_and_the_next_in_order_has_the_turn_of_each_that_ends() {
    let gate = gate(Limit::Fixed(2), 10, SECOND);
    let (one, two) = (slot(&gate), slot(&gate));
    let mut crawler = place(&gate, Class::LOW);
    let mut visitor = place(&gate, Class::NORMAL);
    let mut buyer = place(&gate, Class::HIGH);
    assert_eq!(state(&gate), (2, 3));
    drop(one);
    assert!(poll(&mut crawler).is_none() && poll(&mut visitor).is_none());
    let three = poll(&mut buyer).expect("its turn").expect("let in");
    drop((two, three));
    let (four, five) = (poll(&mut visitor).unwrap().unwrap(), poll(&mut crawler).unwrap().unwrap());
    assert_eq!(state(&gate), (2, 0));
    drop((four, five));
    assert_eq!(state(&gate), (0, 0));
    let counts = gate.status().counts;
    assert_eq!((counts.admitted, counts.waited, counts.left), (5, 3, 0));
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_and_a_better_class_takes_the_last_place() {
    let gate = gate(Limit::Fixed(1), 2, SECOND);
    let running = slot(&gate);
    let (mut low, mut normal) = (place(&gate, Class::LOW), place(&gate, Class::NORMAL));
    assert_eq!(enter(&gate, Class::LOW).err(), Some(Why::Full));
    assert_eq!(enter(&gate, Class::BACKGROUND).err(), Some(Why::Full));
    let mut second = place(&gate, Class::NORMAL);
    assert_eq!(poll(&mut low).unwrap().err(), Some(Why::Displaced));
    let high = place(&gate, Class::HIGH);
    assert_eq!(poll(&mut second).unwrap().err(), Some(Why::Displaced));
    assert!(poll(&mut normal).is_none());
    drop((low, second, high, running));
    assert!(poll(&mut normal).unwrap().is_ok());
    let counts = gate.status().counts;
    assert_eq!((counts.refused, counts.displaced, counts.left, counts.expired), (2, 2, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn who_leaves_gives_up_its_place_or_its_turn() {
    let gate = gate(Limit::Fixed(1), 10, SECOND);
    let running = slot(&gate);
    let (first, mut second, third) =
        (place(&gate, Class::NORMAL), place(&gate, Class::NORMAL), place(&gate, Class::NORMAL));
    drop(first);
    assert_eq!(state(&gate), (1, 2));
    // The second is called and goes without having heard it.
    drop(running);
    assert_eq!(state(&gate), (1, 1));
    drop(third);
    drop(poll(&mut second).unwrap().unwrap());
    assert_eq!(state(&gate), (0, 0));
    let running = slot(&gate);
    let (called, mut next) = (place(&gate, Class::NORMAL), place(&gate, Class::NORMAL));
    drop(running);
    drop(called);
    assert!(poll(&mut next).unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_time_to_wait_counts_from_arrival() {
    let gate = gate(Limit::Fixed(1), 10, 2 * SECOND);
    let running = slot(&gate);
    let (mut first, mut background) = (place(&gate, Class::NORMAL), place(&gate, Class::BACKGROUND));
    assert!(poll(&mut first).is_none() && poll(&mut background).is_none());
    tokio::time::advance(SECOND + SECOND / 10).await;
    assert!(poll(&mut first).is_none());
    assert_eq!(poll(&mut background).unwrap().err(), Some(Why::Expired), "visitors may wait for its page");
    tokio::time::advance(SECOND).await;
    assert_eq!(poll(&mut first).unwrap().err(), Some(Why::Expired));
    assert_eq!(state(&gate), (1, 0));
    // Who is called at the last moment comes in.
    let mut last = place(&gate, Class::NORMAL);
    assert!(poll(&mut last).is_none());
    tokio::time::advance(3 * SECOND).await;
    drop(running);
    assert!(poll(&mut last).unwrap().is_ok());
    assert_eq!(gate.status().counts.expired, 2);
}

#[tokio::test(start_paused = true)]
async fn without_a_word_of_it_one_waits_as_long_as_an_origin_may_be_silent() {
    let gate = Gate::new(Rules { limit: Limit::Fixed(1), queue_max: 10, timeout: None });
    let _running = slot(&gate);
    let Ok(Entry::Waits(mut waits)) = gate.enter(asks(Class::NORMAL), 60 * SECOND, Instant::now()) else {
        panic!("it waits");
    };
    assert!(poll(&mut waits).is_none());
    tokio::time::advance(59 * SECOND).await;
    assert!(poll(&mut waits).is_none());
    tokio::time::advance(2 * SECOND).await;
    assert_eq!(poll(&mut waits).unwrap().err(), Some(Why::Expired));
}

#[tokio::test(start_paused = true)]
async fn who_is_refused_is_told_when_those_before_have_had_their_turns() {
    let gate = gate(Limit::Fixed(4), 100, SECOND);
    assert_eq!(gate.state.lock().refusal(Why::Full).retry_after, SECOND, "nothing is known yet");
    let slots: Vec<Slot> = (0..4).map(|_| slot(&gate)).collect();
    tokio::time::advance(SECOND).await;
    let mut given_up = slots;
    let mut slots = given_up.split_off(2);
    drop(given_up);
    tokio::time::advance(SECOND).await;
    slots.iter_mut().for_each(Slot::done);
    drop(slots);
    let _slots: Vec<Slot> = (0..4).map(|_| slot(&gate)).collect();
    let _places: Vec<Place> = (0..39).map(|_| place(&gate, Class::NORMAL)).collect();
    assert_eq!(gate.state.lock().refusal(Why::Full).retry_after, 20 * SECOND, "40 turns of 2 s, 4 at a time");
}

#[tokio::test(start_paused = true)]
async fn who_finds_no_free_server_waits_where_it_was() {
    let gate = gate(Limit::Servers, 10, SECOND);
    let now = Instant::now();
    let (running, late) = (slot(&gate), slot(&gate));
    let stall = |slot, is_full| gate.stall(slot, asks(Class::NORMAL), SECOND, now, || is_full);
    let Ok(Entry::In(late)) = stall(late, false) else { panic!("a server is free by now") };
    let Ok(Entry::Waits(mut first)) = stall(late, true) else { panic!("none is") };
    let mut second = place(&gate, Class::NORMAL);
    assert_eq!(state(&gate), (1, 2));
    gate.freed();
    let slot = poll(&mut first).unwrap().unwrap();
    assert!(poll(&mut second).is_none(), "one server is free, one has a turn");
    let Ok(Entry::Waits(mut first)) = stall(slot, true) else { panic!("somebody else had it") };
    drop(running);
    assert!(poll(&mut second).is_none());
    drop(poll(&mut first).unwrap().unwrap());
    drop(poll(&mut second).unwrap().unwrap());
    let counts = gate.status().counts;
    assert_eq!((state(&gate), counts.admitted, counts.waited), ((0, 0), 3, 2));
    assert_eq!(counts.waits.iter().sum::<u64>(), 2);
}

#[tokio::test(start_paused = true)]
async fn other_rules_hold_at_once_and_keep_who_waits() {
    let gate = gate(Limit::Fixed(1), 10, SECOND);
    let running = slot(&gate);
    let (mut one, mut two) = (place(&gate, Class::NORMAL), place(&gate, Class::NORMAL));
    gate.set_rules(Rules { limit: Limit::Fixed(3), queue_max: 0, timeout: None });
    let slots = (poll(&mut one).unwrap().unwrap(), poll(&mut two).unwrap().unwrap());
    assert_eq!(enter(&gate, Class::HIGH).err(), Some(Why::Full));
    gate.set_rules(Rules { limit: Limit::Fixed(1), queue_max: 1, timeout: None });
    let mut three = place(&gate, Class::NORMAL);
    drop(slots);
    assert!(poll(&mut three).is_none(), "one still runs");
    drop(running);
    assert!(poll(&mut three).unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn who_is_hurried_has_the_place_it_would_have_had_in_the_better_class() {
    let gate = gate(Limit::Fixed(1), 10, 60 * SECOND);
    let running = slot(&gate);
    let (mut crawler, mut background) = (place(&gate, Class::LOW), place(&gate, Class::BACKGROUND));
    let (mut visitor, mut last) = (place(&gate, Class::NORMAL), place(&gate, Class::LOW));
    crawler.hurry().as_one_of(Class::NORMAL);
    crawler.hurry().as_one_of(Class::LOW);
    background.hurry().as_one_of(Class::LOW);
    let waiting = gate.status().waiting;
    assert_eq!((waiting[5], waiting[8], waiting[10]), (2, 2, 0));
    assert!(poll(&mut background).is_none());
    pass(2 * SECOND).await;
    assert!(poll(&mut background).is_none(), "somebody waits for it");
    drop(running);
    for place in [&mut crawler, &mut visitor, &mut background] {
        drop(poll(place).expect("its turn").expect("let in"));
    }
    // Who is called already, or goes, is not called again.
    let hurry = last.hurry();
    hurry.as_one_of(Class::HIGH);
    hurry.at_once();
    let slot = poll(&mut last).unwrap().unwrap();
    hurry.at_once();
    assert_eq!(state(&gate), (1, 0));
    drop((slot, last));
    hurry.as_one_of(Class::HIGH);
    assert_eq!(state(&gate), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn who_keeps_others_out_while_it_waits_comes_in_at_once() {
    let gate = gate(Limit::Fixed(1), 10, SECOND);
    let running = slot(&gate);
    let (mut one, mut two) = (place(&gate, Class::LOW), place(&gate, Class::HIGH));
    one.hurry().at_once();
    let slot = poll(&mut one).unwrap().unwrap();
    assert_eq!(state(&gate), (2, 1));
    drop(running);
    assert!(poll(&mut two).is_none(), "one is still in");
    drop(slot);
    assert!(poll(&mut two).is_some());
}

/// Waits until the gate has looked at what has had its time.
async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
}

/// A request that has its answer, and goes, after so many milliseconds.
async fn answered(gate: &Arc<Gate>, millis: u64) {
    let mut slot = slot(gate);
    tokio::time::sleep(Duration::from_millis(millis)).await;
    slot.answered(Instant::now());
}

const ADAPTIVE: Limit = Limit::Adaptive { min: 1, max: 200 };

#[tokio::test(start_paused = true)]
async fn answers_that_never_end_do_not_keep_a_gate_from_learning() {
    for has_head in [false, true] {
        let gate = gate(ADAPTIVE, 10, 60 * SECOND);
        let mut long: Vec<Slot> = (0..3).map(|_| slot(&gate)).collect();
        if has_head {
            long.iter_mut().for_each(|slot| slot.answered(Instant::now()));
        }
        let mut visitor = place(&gate, Class::NORMAL);
        assert!(poll(&mut visitor).is_none(), "it learns with three");
        pass(SECOND + SECOND / 5).await;
        drop(poll(&mut visitor).expect("its turn").expect("let in"));
        for _ in 0..60 {
            answered(&gate, 10).await;
        }
        assert!(gate.status().limit.is_some_and(|limit| limit > 3), "{:?}", gate.status());
    }
}

#[tokio::test(start_paused = true)]
async fn a_steady_gate_full_of_long_answers_lets_others_in_a_few_at_a_time() {
    let gate = gate(ADAPTIVE, 100, 600 * SECOND);
    for _ in 0..50 {
        answered(&gate, 10).await;
    }
    let limit = gate.status().limit.expect("it has one");
    let long: Vec<Slot> = (0..limit).map(|_| slot(&gate)).collect();
    let mut visitors: Vec<Place> = (0..9).map(|_| place(&gate, Class::NORMAL)).collect();
    pass(4 * SECOND).await;
    assert_eq!(state(&gate), (limit, 9), "they may be slow");
    pass(2 * SECOND).await;
    // Nobody answers: it learns, and who is in is put aside.
    assert_eq!(state(&gate), (limit + 3, 6));
    pass(60 * SECOND).await;
    assert!(visitors.iter_mut().all(|visitor| poll(visitor).is_some()));
    drop(long);
}

#[tokio::test(start_paused = true)]
async fn to_learn_again_those_who_are_in_have_some_usual_times_to_leave() {
    let gate = gate(ADAPTIVE, 100, 600 * SECOND);
    for _ in 0..50 {
        answered(&gate, 100).await;
    }
    pass(60 * SECOND).await;
    // At the end of a window it is time to learn.
    let mut slots: Vec<Slot> = (0..3).map(|_| slot(&gate)).collect();
    tokio::time::sleep(SECOND / 10).await;
    slots.iter_mut().for_each(|slot| slot.answered(Instant::now()));
    for _ in 0..2 {
        answered_beside(&gate, &mut slots).await;
    }
    assert_eq!(gate.status().limit, Some(3), "{:?}", gate.status());
    let mut visitor = place(&gate, Class::NORMAL);
    assert!(poll(&mut visitor).is_none());
    pass(SECOND / 5).await;
    assert!(poll(&mut visitor).is_none(), "those who were in before may leave yet");
    pass(SECOND / 2).await;
    assert!(poll(&mut visitor).is_some(), "they are put aside");
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_answers_change_holds_at_once() {
    let gate = gate(ADAPTIVE, 100, 600 * SECOND);
    let all_at_once = async || {
        let mut slots: Vec<Slot> = (0..gate.status().limit.unwrap()).map(|_| slot(&gate)).collect();
        tokio::time::sleep(SECOND / 10).await;
        slots.iter_mut().for_each(|slot| slot.answered(Instant::now()));
        slots
    };
    for _ in 0..40 {
        drop(all_at_once().await);
    }
    let before = gate.status().limit;
    assert!(before > Some(5), "{before:?}");
    pass(60 * SECOND).await;
    let slots = all_at_once().await;
    assert_eq!(gate.status().limit, Some(3), "it learns, though nobody has left");
    drop(slots);
}

/// One of those who are in goes, and another has its answer in its place.
async fn answered_beside(gate: &Arc<Gate>, slots: &mut Vec<Slot>) {
    drop(slots.pop());
    let mut slot = slot(gate);
    tokio::time::sleep(SECOND / 10).await;
    slot.answered(Instant::now());
    slots.push(slot);
}

/// What a simple gate would do, with lists in place of all else.
#[derive(Default)]
struct Model {
    limit: usize,
    queue_max: usize,
    running: Vec<usize>,
    waiting: Vec<(Class, usize)>,
    turns: u64,
    shared: Option<Class>,
}

impl Model {
    fn next(&mut self) {
        while self.running.len() < self.limit && !self.waiting.is_empty() {
            self.turns += 1;
            let first = self.waiting.iter().map(|(class, _)| *class).min().unwrap();
            let mut class = first;
            if self.turns.is_multiple_of(line::SHARE_EVERY) {
                let behind: Vec<Class> = Class::all().filter(|class| *class > first).collect();
                let waits = |class: &&Class| self.waiting.iter().any(|(of, _)| of == *class);
                let after = behind.iter().filter(waits).find(|class| self.shared.is_some_and(|last| **class > last));
                if let Some(chosen) = after.or_else(|| behind.iter().find(waits)) {
                    class = *chosen;
                    self.shared = Some(*chosen);
                }
            }
            let at = self.waiting.iter().position(|(of, _)| *of == class).unwrap();
            self.running.push(self.waiting.remove(at).1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_gate_does_what_a_simple_one_would_in_any_order_of_events() {
    for seed in 1..=300u64 {
        let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut draw = |below: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random >> 33) as usize % below
        };
        let mut model = Model { limit: 1 + draw(4), queue_max: draw(12), ..Model::default() };
        let gate = gate(Limit::Fixed(model.limit as u32), model.queue_max, SECOND);
        let mut slots: Vec<(usize, Slot)> = Vec::new();
        let mut places: Vec<(usize, Place)> = Vec::new();
        for number in 0..200 {
            match draw(5) {
                0..=2 => {
                    let class = [Class::HIGH, Class::NORMAL, Class::LOW, Class::BACKGROUND][draw(4)];
                    let has_room = model.waiting.len() < model.queue_max;
                    let may_run = model.waiting.is_empty() && model.running.len() < model.limit;
                    let last = model.waiting.iter().map(|(of, _)| *of).max();
                    match enter(&gate, class) {
                        Ok(Entry::In(slot)) => {
                            assert!(may_run, "seed {seed}");
                            model.running.push(number);
                            slots.push((number, slot));
                        }
                        Ok(Entry::Waits(place)) => {
                            assert!(!may_run, "seed {seed}");
                            if !has_room {
                                let last = last.filter(|last| *last > class).expect("somebody is behind it");
                                let at = model.waiting.iter().rposition(|(of, _)| *of == last).unwrap();
                                let (_, gone) = model.waiting.remove(at);
                                let at = places.iter().position(|(of, _)| *of == gone).unwrap();
                                assert_eq!(poll(&mut places.remove(at).1).unwrap().err(), Some(Why::Displaced));
                            }
                            model.waiting.push((class, number));
                            places.push((number, place));
                        }
                        Err(why) => {
                            assert_eq!(why, Why::Full);
                            assert!(!may_run && !has_room && last.is_none_or(|last| last <= class), "seed {seed}");
                        }
                    }
                }
                3 if !slots.is_empty() => {
                    let (gone, slot) = slots.remove(draw(slots.len()));
                    drop(slot);
                    model.running.retain(|of| *of != gone);
                    model.next();
                }
                _ if !places.is_empty() => {
                    let (gone, place) = places.remove(draw(places.len()));
                    drop(place);
                    model.waiting.retain(|(_, of)| *of != gone);
                    // Who had a turn hands it on.
                    model.running.retain(|of| *of != gone);
                    model.next();
                }
                _ => {}
            }
            // Some hear of their turns at once, others later.
            let hears = draw(2) == 0;
            let (called, waiting): (Vec<_>, Vec<_>) =
                places.into_iter().partition(|(of, _)| hears && model.running.contains(of));
            places = waiting;
            for (of, mut place) in called {
                slots.push((of, poll(&mut place).expect("its turn").expect("let in")));
            }
            assert_eq!(state(&gate), (model.running.len() as u32, model.waiting.len() as u32), "seed {seed}");
        }
    }
}

/// Workers as they are: a runtime each, requests that come and go in all of them, and one gate.
#[test]
fn no_turn_is_lost_and_no_limit_is_passed_between_threads() {
    const LIMIT: u32 = 3;
    const WORKERS: usize = 4;
    const REQUESTS: usize = 400;
    let gate = gate(Limit::Fixed(LIMIT), 10_000, 3600 * SECOND);
    let (running, answered, given_up) = (AtomicU32::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let request = async |number: usize| {
        let class = [Class::HIGH, Class::NORMAL, Class::LOW][number % 3];
        let mut place = match gate.enter(asks(class), SECOND, Instant::now()).expect("there is room") {
            Entry::In(slot) => {
                running.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                running.fetch_sub(1, Ordering::SeqCst);
                answered.fetch_add(1, Ordering::SeqCst);
                drop(slot);
                return;
            }
            Entry::Waits(place) => place,
        };
        if number.is_multiple_of(5) {
            // It leaves, with or without having had its turn.
            let once = std::future::poll_fn(|task| Poll::Ready(place.poll(task, Instant::now()).is_ready()));
            let was_called = once.await;
            tokio::task::yield_now().await;
            drop((place, was_called));
            given_up.fetch_add(1, Ordering::SeqCst);
            return;
        }
        let slot = std::future::poll_fn(|task| place.poll(task, Instant::now())).await.expect("its turn comes");
        assert!(running.fetch_add(1, Ordering::SeqCst) < LIMIT);
        tokio::task::yield_now().await;
        running.fetch_sub(1, Ordering::SeqCst);
        answered.fetch_add(1, Ordering::SeqCst);
        drop(slot);
    };
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            let request = &request;
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    let all = (0..REQUESTS).map(|at| request(worker + at * WORKERS));
                    futures_of(all).await;
                });
            });
        }
    });
    assert_eq!(answered.into_inner() + given_up.into_inner(), (WORKERS * REQUESTS) as u64);
    assert_eq!(state(&gate), (0, 0));
}

/// Polls all until all are ready.
async fn futures_of<F: Future<Output = ()>>(all: impl Iterator<Item = F>) {
    let mut left: Vec<Pin<Box<F>>> = all.map(Box::pin).collect();
    std::future::poll_fn(|task| {
        left.retain_mut(|future| future.as_mut().poll(task).is_pending());
        if left.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
