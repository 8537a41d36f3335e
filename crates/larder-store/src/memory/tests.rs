//! What a memory shelf promises.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use parking_lot::Mutex;

use super::*;

/// A page: a key, a reservation, and whether it was told to leave.
struct Page {
    seat: Seat,
    key: Vec<u8>,
    held: Mutex<Option<Reservation>>,
    busy: AtomicBool,
    left: AtomicUsize,
}

impl Kept for Page {
    fn key(&self) -> &[u8] {
        &self.key
    }
    fn weight(&self) -> usize {
        self.held.lock().as_ref().map_or(0, Reservation::bytes)
    }
    fn seat(&self) -> &Seat {
        &self.seat
    }
    fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed)
    }
    fn leave(&self) {
        self.left.fetch_add(1, Ordering::Relaxed);
        self.held.lock().take();
    }
}

/// A mixer that spreads numbers over all bits.
fn hash(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

fn shelf(bytes_max: u64) -> MemoryShelf<Page> {
    MemoryShelf::new(ShelfLimits { bytes_max })
}

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

fn get(shelf: &MemoryShelf<Page>, number: u64) -> Option<Arc<Page>> {
    shelf.get(hash(number), &key(number))
}

/// Whether it is here; no use of it.
fn holds(shelf: &MemoryShelf<Page>, number: u64) -> bool {
    shelf.inner.find(hash(number), &key(number)).is_some()
}

/// What a cache does on a miss. `None` when there is no room.
fn put(shelf: &MemoryShelf<Page>, number: u64, bytes: usize) -> Option<Arc<Page>> {
    let reservation = shelf.reserve(bytes)?;
    Some(shelf.get_or_insert_with(hash(number), &key(number), || {
        Arc::new(Page {
            seat: Seat::new(hash(number)),
            key: key(number).to_vec(),
            held: Mutex::new(Some(reservation)),
            busy: AtomicBool::new(false),
            left: AtomicUsize::new(0),
        })
    }))
}

/// A read, and on a miss a put. True for a hit.
fn read_through(shelf: &MemoryShelf<Page>, number: u64, bytes: usize) -> bool {
    get(shelf, number).is_some() || put(shelf, number, bytes).is_none()
}

#[test]
fn what_was_put_is_found_until_it_is_removed() {
    let shelf = shelf(1000);
    let page = put(&shelf, 1, 100).expect("it fits");
    assert!(Arc::ptr_eq(&page, &get(&shelf, 1).expect("it was put")));
    let again = put(&shelf, 1, 300).expect("it fits");
    assert!(Arc::ptr_eq(&page, &again), "the first stays");
    assert_eq!((shelf.len(), shelf.used(), shelf.weight()), (1, 100, 100));
    assert!(get(&shelf, 2).is_none());
    assert!(shelf.get(hash(1), b"other").is_none(), "the hash is not the key");

    let removed = shelf.remove(hash(1), &key(1)).expect("it was there");
    assert_eq!(removed.left.load(Ordering::Relaxed), 1);
    assert!(removed.seat.is_gone());
    assert!(shelf.remove(hash(1), &key(1)).is_none());
    assert!(get(&shelf, 1).is_none());
    assert_eq!((shelf.len(), shelf.used(), shelf.weight()), (0, 0, 0));
}

#[test]
fn what_is_kept_is_found_by_its_hash_alone_while_it_is_there() {
    let shelf = shelf(1000);
    let (page, _other) = (put(&shelf, 1, 100).expect("it fits"), put(&shelf, 2, 100).expect("it fits"));
    // Another key of the same hash.
    let same = shelf.get_or_insert_with(hash(1), b"same", || {
        Arc::new(Page {
            seat: Seat::new(hash(1)),
            key: b"same".to_vec(),
            held: Mutex::new(None),
            busy: AtomicBool::new(false),
            left: AtomicUsize::new(0),
        })
    });
    let all_at = |number| {
        let mut keys: Vec<_> = shelf.all_at(hash(number)).iter().map(|page| page.key.clone()).collect();
        keys.sort();
        keys
    };
    assert_eq!(all_at(1), [page.key.clone(), same.key.clone()]);
    assert_eq!((all_at(2).len(), all_at(3).len()), (1, 0));
    shelf.remove(hash(1), &key(1));
    assert_eq!(all_at(1), [b"same"]);
}

#[test]
fn a_scan_of_what_is_read_once_does_not_push_out_what_is_hot() {
    let shelf = shelf(1000 * 100);
    let hot = 0..500;
    for _ in 0..4 {
        for number in hot.clone() {
            read_through(&shelf, number, 100);
        }
    }
    for scanned in 0..20 * 1000 {
        read_through(&shelf, 1_000_000 + scanned, 100);
        // The hot set is read all the while, at a fifth of the rate of the scan.
        if scanned % 5 == 0 {
            get(&shelf, scanned / 5 % 500);
        }
    }
    let kept = hot.filter(|&number| get(&shelf, number).is_some()).count();
    // The bound on the steps of one eviction may cost a hot page now and then while the shelf fills up.
    assert!(kept >= 495, "{kept} of 500 stayed");
    assert!(shelf.used() <= 100_000);
}

#[test]
fn one_sweep_through_everything_leaves_the_hot_set_where_it_is() {
    // A crawler asks once for five times as many pages as fit, of all sizes and costs, and nobody else asks meanwhile.
    let shelf = shelf(1000 * 100);
    for round in 0..5 {
        for number in 0..500 {
            assert_eq!(read_through(&shelf, number, 100), round > 0, "half of the shelf is hot");
        }
    }
    for number in 0..5_000_u64 {
        let swept = put(&shelf, 1_000_000 + number, 20 + hash(number) as usize % 160).expect("it fits");
        swept.seat.set_cost_micros(1000 + hash(number + 7) as u32 % 100_000);
        shelf.reweigh(&swept);
    }
    let kept = (0..500).filter(|&number| holds(&shelf, number)).count();
    assert!(kept >= 495, "{kept} of 500 stayed");
    assert!(shelf.used() <= 100_000);
}

#[test]
fn what_was_wanted_of_old_leaves_when_nobody_wants_it_any_more() {
    let shelf = shelf(1000 * 100);
    for number in (0..500).cycle().take(100 * 500) {
        read_through(&shelf, number, 100);
    }
    // Other pages are in favour now: as many as fit, each of them asked for now and then.
    for round in 0..40 {
        for number in 0..900 {
            read_through(&shelf, 10_000 + number, 100);
        }
        if round == 0 {
            let old = (0..500).filter(|&number| holds(&shelf, number)).count();
            assert!(old >= 400, "{old} of 500: favourites do not leave at once");
        }
    }
    let old = (0..500).filter(|&number| holds(&shelf, number)).count();
    let new = (0..900).filter(|&number| holds(&shelf, 10_000 + number)).count();
    assert!(old <= 100 && new >= 890, "{old} old ones of 500, {new} new ones of 900");
}

#[test]
fn the_dear_and_the_small_stay_longer() {
    // Every page is asked for as often: one in four costs much to make, one in four is big.
    let shelf = shelf(400 * 250);
    let is_dear = |number: u64| number % 4 == 1;
    let is_big = |number: u64| number % 4 == 2;
    for _ in 0..10 {
        for number in 0..1000 {
            if get(&shelf, number).is_some() {
                continue;
            }
            let page = put(&shelf, number, if is_big(number) { 1000 } else { 200 }).expect("it fits");
            page.seat.set_cost_micros(if is_dear(number) { 400_000 } else { 20_000 });
            shelf.reweigh(&page);
        }
    }
    let kept = |wanted: &dyn Fn(u64) -> bool| (0..1000).filter(|&n| wanted(n) && holds(&shelf, n)).count();
    assert_eq!(kept(&is_dear), 250, "all of the dear");
    assert!(kept(&is_big) <= 25, "few of the big: {}", kept(&is_big));
    let others = kept(&|number| !is_dear(number) && !is_big(number));
    assert!(others >= 120, "the room that is left is for the others: {others}");
}

#[test]
fn an_unknown_cost_is_neither_dear_nor_cheap() {
    let shelf = shelf(300 * 100);
    for (numbers, micros) in [(0..100, 1_000_000), (100..200, 1_000), (200..300, 0)] {
        for number in numbers {
            let page = put(&shelf, number, 100).expect("it fits");
            page.seat.set_cost_micros(micros);
            shelf.reweigh(&page);
        }
    }
    for number in 1000..1150 {
        put(&shelf, number, 100).expect("it fits");
    }
    let kept = [0..100, 100..200, 200..300].map(|numbers| numbers.filter(|&n| holds(&shelf, n)).count());
    assert!(kept[0] == 100 && kept[1] == 0 && kept[2] >= 40, "dear, cheap, unknown: {kept:?}");
}

#[test]
fn what_comes_back_soon_counts_more_than_what_is_new() {
    let shelf = shelf(100 * 100);
    for number in 0..150 {
        read_through(&shelf, number, 100);
    }
    let gone = (0..150).find(|&n| get(&shelf, n).is_none()).expect("50 left");
    assert!(put(&shelf, gone, 100).is_some());
    assert_eq!(shelf.stats().returned, 1);
    for number in 1000..1180 {
        read_through(&shelf, number, 100);
    }
    assert!(get(&shelf, gone).is_some(), "a scan of 180 passes it by");
}

#[test]
fn more_hits_than_lru_on_a_skewed_load() {
    // Twice the pages that fit, one in three reads of a page that never comes again.
    let shelf = shelf(500 * 100);
    let mut lru: Vec<u64> = Vec::new();
    let (mut ours, mut theirs, mut reads) = (0, 0, 0);
    let mut state = 1_u64;
    for step in 0..40_000_u64 {
        state = hash(state);
        let u = (state >> 11) as f64 / (1_u64 << 53) as f64;
        let number = if step % 3 == 0 { 1_000_000 + step } else { (1000.0 * u * u * u) as u64 };
        reads += 1;
        ours += usize::from(read_through(&shelf, number, 100));
        match lru.iter().position(|&n| n == number) {
            Some(at) => {
                theirs += 1;
                lru.remove(at);
            }
            None if lru.len() == 500 => drop(lru.remove(0)),
            None => {}
        }
        lru.push(number);
    }
    assert!(ours > theirs, "{ours} of {reads} hits, LRU has {theirs}");
}

#[test]
fn what_is_at_work_stays_and_what_all_hold_cannot_make_room() {
    let shelf = shelf(1000);
    let pages: Vec<_> = (0..10).map(|n| put(&shelf, n, 100).expect("it fits")).collect();
    for page in &pages[..9] {
        page.busy.store(true, Ordering::Relaxed);
    }
    assert!(put(&shelf, 100, 100).is_some());
    assert!(pages[9].seat.is_gone(), "the only idle one left");
    get(&shelf, 100).expect("just put").busy.store(true, Ordering::Relaxed);
    assert!(put(&shelf, 101, 100).is_none());
    assert_eq!(shelf.stats().refused, 1);
}

#[test]
fn all_hot_is_still_room_for_one_more() {
    let shelf = shelf(1000);
    for number in 0..10 {
        put(&shelf, number, 100).expect("it fits");
    }
    for number in (0..10).cycle().take(50) {
        get(&shelf, number);
    }
    assert!(put(&shelf, 100, 100).is_some());
    assert_eq!(shelf.len(), 10);
}

#[test]
fn one_thing_cannot_take_the_whole_shelf_from_the_others() {
    let shelf = shelf(1000);
    let mut big = shelf.reserve(100).expect("it fits");
    for number in 0..9 {
        put(&shelf, number, 100).expect("it fits");
    }
    assert!(shelf.reserve(501).is_none());
    assert!(big.grow(400), "half is allowed");
    assert!(!big.grow(1));
    assert!(shelf.used() <= 1000);
    assert!(shelf.len() >= 4);
}

#[test]
fn weights_change_with_what_is_kept() {
    let shelf = shelf(1000);
    let page = put(&shelf, 1, 100).expect("it fits");
    assert!(page.held.lock().as_mut().is_some_and(|r| r.grow(250)));
    shelf.reweigh(&page);
    assert_eq!((shelf.used(), shelf.weight()), (350, 350));
    shelf.remove(hash(1), &key(1));
    shelf.reweigh(&page);
    assert_eq!((shelf.used(), shelf.weight()), (0, 0));
}

#[test]
fn a_smaller_limit_lets_go_at_once() {
    let shelf = shelf(1000);
    for number in 0..10 {
        put(&shelf, number, 100).expect("it fits");
    }
    shelf.adjust(ShelfLimits { bytes_max: 350 });
    assert_eq!((shelf.len(), shelf.used()), (3, 300));
    shelf.adjust(ShelfLimits { bytes_max: 1000 });
    assert!(put(&shelf, 50, 450).is_some());
}

#[test]
fn a_sweep_goes_round_and_takes_what_is_not_kept() {
    let shelf = shelf(1 << 20);
    for number in 0..1000 {
        put(&shelf, number, 10).expect("it fits");
    }
    let mut seen = HashSet::new();
    for _ in 0..10 {
        shelf.sweep(100, |page| {
            assert!(seen.insert(page.key.clone()), "none twice in a round");
            true
        });
    }
    assert_eq!(seen.len(), 1000);
    let odd = |page: &Page| page.key.last().is_some_and(|b| b % 2 == 1);
    let gone: usize = (0..11).map(|_| shelf.sweep(100, |page| odd(page))).sum();
    assert_eq!((gone, shelf.len(), shelf.used()), (500, 500, 5000));
    assert!(get(&shelf, 1).is_some() && get(&shelf, 2).is_none());
}

#[test]
fn no_race_passes_the_limit_and_all_bytes_come_back() {
    const LIMIT: u64 = 200_000;
    let shelf = Arc::new(shelf(LIMIT));
    let over = Arc::new(AtomicBool::new(false));
    let stop = Arc::new(AtomicBool::new(false));
    let watcher = {
        let (shelf, over, stop) = (Arc::clone(&shelf), Arc::clone(&over), Arc::clone(&stop));
        thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                over.fetch_or(shelf.used() > LIMIT, Ordering::Relaxed);
            }
        })
    };
    let workers: Vec<_> = (0..4_u64)
        .map(|worker| {
            let shelf = Arc::clone(&shelf);
            thread::spawn(move || {
                let mut pinned = Vec::new();
                let mut state = worker;
                for _ in 0..30_000 {
                    state = hash(state);
                    let number = state % 800;
                    match state >> 60 {
                        0 => drop(shelf.remove(hash(number), &key(number))),
                        1 => drop(shelf.sweep(8, |page| page.weight() % 7 != 0)),
                        2 => pinned.extend(shelf.reserve(number as usize)),
                        3 => pinned.clear(),
                        _ if get(&shelf, number).is_some() => {}
                        _ => drop(put(&shelf, number, 200 + number as usize)),
                    }
                    if pinned.len() > 20 {
                        pinned.clear();
                    }
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().expect("no worker panics");
    }
    stop.store(true, Ordering::Relaxed);
    watcher.join().expect("the watcher does not panic");
    assert!(!over.load(Ordering::Relaxed));
    let kept: usize = (0..800).filter_map(|n| get(&shelf, n)).map(|page| page.weight()).sum();
    assert_eq!((shelf.used(), shelf.weight()), (kept as u64, kept as u64));
    let found = (0..800).filter(|&n| get(&shelf, n).is_some()).count();
    assert_eq!(found, shelf.len(), "index and ladder hold the same");
}
