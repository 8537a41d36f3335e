//! What a shelf owes: pages that are in memory, and for which the disk had no time yet.

mod real;
mod simulated;

use std::sync::atomic::Ordering;

use larder_store::{DiskLimits, DiskOptions, DiskShelf, Inspect, Page, Skipped};
use real::{MB, Site, body_of, bytes, du, page, read};
use simulated::Kept;

fn wait_until_paid(shelf: &DiskShelf) {
    while shelf.stats().owed_pages > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn pages_that_come_faster_than_the_disk_are_written_later_and_the_newest_fill_the_shelf() {
    let site = Site::new(64 * MB);
    let shelf = DiskShelf::open(DiskOptions { queue_bytes: 1 << 20, ..site.options() });
    assert!(shelf.flush_blocking());
    let all = bytes(2 << 20, 1);
    let body = move |number: usize| all.slice(number * 1000..(1 << 20) + number * 1000);
    let mut most = 0;
    for number in 0..300 {
        let body = body.clone();
        let kept = Kept::new(move || page(&format!("key {number}"), 0, body(number)));
        assert_eq!(shelf.store(kept.page(), 1000), Err(Skipped::QueueFull));
        most = most.max(du(site.dir.path()));
    }
    while shelf.stats().owed_pages > 0 {
        most = most.max(du(site.dir.path()));
    }
    assert!(most <= 64 * MB, "{most} bytes");
    let there = |shelf: &DiskShelf| {
        let is_there = |number: &usize| {
            let read = read(shelf, &format!("key {number}"), 1000);
            assert!(read.iter().all(|page| body_of(page) == &body(*number)), "{number}");
            !read.is_empty()
        };
        (240..300).filter(is_there).count()
    };
    let count = there(&shelf);
    assert!(count >= 58, "{count} of the newest 60");
    shelf.stop();
    assert_eq!(there(&site.open()), count);
}

#[test]
fn what_is_not_there_any_more_is_not_owed_any_more() {
    let site = Site::new(64 * MB);
    let shelf = DiskShelf::open(DiskOptions { queue_bytes: 1000, ..site.options() });
    let [gone, stays] = ["gone", "stays"].map(|key| Kept::new(move || page(key, 0, bytes(2000, 1))));
    gone.is_there.store(false, Ordering::SeqCst);
    let expired = Kept::new(|| Page { expires_at: 1000, ..page("expired", 0, bytes(2000, 1)) });
    for kept in [&gone, &expired, &stays] {
        assert_eq!(shelf.store(kept.page(), 1000), Err(Skipped::QueueFull));
    }
    wait_until_paid(&shelf);
    assert_eq!((read(&shelf, "gone", 1000).len(), read(&shelf, "stays", 1000).len()), (0, 1));
    let stats = shelf.stats();
    assert_eq!((stats.stored, stats.skipped_queue, stats.owed_bytes), (1, 1, 0));
}

#[test]
fn who_looks_from_outside_is_told_how_much_is_owed_while_somebody_owes_it() {
    let site = Site::new(100_000);
    let shelf = site.open();
    let kept = Kept::new(|| page("a", 0, bytes(2000, 1)));
    let debt = || Inspect::open(site.dir.path()).expect("it is a shelf").debt().expect("it can be read");
    let tick = |now| {
        shelf.tick(now);
        shelf.flush_blocking();
    };
    // No segment fits in there.
    shelf.store(kept.page(), 1000).expect("there is room in the queue");
    tick(1001);
    assert_eq!(debt().map(|note| note.pages), Some(1));
    assert!(debt().is_some_and(|note| (2000..2100).contains(&note.bytes)));
    let note = std::fs::read(site.dir.path().join("larder.debt")).expect("it is there");
    shelf.adjust(DiskLimits { bytes_max: Some(64 * MB), ..site.limits });
    let mut now = 1001;
    while shelf.stats().owed_pages > 0 {
        now += 1;
        tick(now);
    }
    tick(now + 1);
    assert_eq!((debt(), site.dir.path().join("larder.debt").exists()), (None, false));
    assert_eq!(read(&shelf, "a", now).len(), 1);
    shelf.stop();
    // One that a process left that was killed.
    std::fs::write(site.dir.path().join("larder.debt"), note).expect("it can be written");
    assert_eq!(debt(), None);
    let shelf = site.open();
    shelf.tick(now + 2);
    assert!(shelf.flush_blocking());
    assert_eq!(debt(), None);
}
