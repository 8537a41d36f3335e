//! What holds when a lookup meets the very moment in which a page becomes whole.

use std::sync::Barrier;
use std::thread;

use bytes::Bytes;

use super::*;

/// A page is begun by the verdict of `first` for each key, and finished while another worker looks: says how often
/// that one was sent out again.
fn second_fetches(prepare: impl Fn(&mut Worker, &[u8]), now: u64) -> usize {
    let zone = zone(64 << 20);
    let (mut worker, mut other) = (Worker::new(&zone), Worker::new(&zone));
    let mut sent_out = 0;
    for number in 0..ROUNDS {
        let key = format!("key {number}").into_bytes();
        prepare(&mut worker, &key);
        let mut permit = worker.permit(&key, &lock(), now);
        let (mut writer, body) = zone.body(KEY, None, None);
        permit.begin(page(body, now));
        writer.append(Bytes::from_static(b"page")).expect("it is stored");
        let start = Barrier::new(2);
        sent_out += thread::scope(|scope| {
            let looking = scope.spawn(|| {
                start.wait();
                (0..LOOKS)
                    .filter(|_| match other.ask(&key, &lock(), now) {
                        Verdict::Miss(_)
                        | Verdict::Stale { permit: Some(_), .. }
                        | Verdict::Load(_)
                        | Verdict::Scarce => true,
                        Verdict::Hit(_) | Verdict::Stale { permit: None, .. } | Verdict::Wait(_) => false,
                    })
                    .count()
            });
            start.wait();
            writer.finish();
            permit.complete();
            looking.join().expect("a lookup does not panic")
        });
    }
    sent_out
}

#[test]
fn nobody_is_sent_out_for_a_page_that_has_just_become_whole() {
    assert_eq!(second_fetches(|_, _| {}, 0), 0);
}

#[test]
fn nobody_is_sent_out_for_a_page_that_has_just_been_refetched() {
    assert_eq!(second_fetches(|worker, key| drop(worker.store(key, "old", 0)), 20), 0);
}

const ROUNDS: usize = 5000;
const LOOKS: usize = 50;
