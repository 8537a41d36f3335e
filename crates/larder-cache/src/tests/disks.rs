//! What a zone promises that has a disk.

use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};

use larder_store::{CLEAR_FILE, DiskEvent, DiskLimits, DiskOptions, DiskShelf, DiskState};
use parking_lot::Mutex;

use super::*;

/// A shelf, opened in a folder. Its thread can be held up at the end of a clear, and before one that a file asks for.
pub(super) struct Disk {
    pub(super) shelf: DiskShelf,
    /// Sent by a shelf that has cleared itself, or is about to, which waits for an answer.
    cleared: Receiver<()>,
    go_on: Sender<()>,
}

pub(super) fn open(folder: &Path) -> Disk {
    open_with(folder, 64 << 20)
}

fn open_with(folder: &Path, queue_bytes: usize) -> Disk {
    let ((told, opened), (at_clear, cleared)) = (mpsc::channel(), mpsc::channel());
    let (go_on, may_go_on) = mpsc::channel();
    let may_go_on = Mutex::new(may_go_on);
    let events = move |event| match event {
        DiskEvent::Opened { .. } => {
            let _ = told.send(());
        }
        DiskEvent::Clearing { .. } | DiskEvent::Cleared { .. } | DiskEvent::Emptied { .. } => {
            let _ = at_clear.send(());
            let _ = may_go_on.lock().recv();
        }
        _ => {}
    };
    let limits = DiskLimits { bytes_max: Some(128 << 20), free_min: 0, inactive: secs(600) };
    let shelf = DiskShelf::open(DiskOptions { dir: folder.to_owned(), limits, queue_bytes, events: Arc::new(events) });
    opened.recv().expect("it says that it is open");
    assert!(shelf.flush_blocking());
    Disk { shelf, cleared, go_on }
}

pub(super) fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// A zone with memory of its own over these shelves.
pub(super) fn over(placing: Placing, disks: &[&Disk]) -> Worker {
    weighted(placing, &disks.iter().map(|disk| (*disk, 1)).collect::<Vec<_>>())
}

fn weighted(placing: Placing, disks: &[(&Disk, u64)]) -> Worker {
    let members = disks.iter().enumerate().map(|(number, (disk, weight))| Member {
        shelf: disk.shelf.clone(),
        name: format!("/{number}"),
        weight: *weight,
    });
    let shelves = Shelves::new(placing, members.collect());
    Worker::new(&Zone::over("pages", Memory::new(16 << 20), secs(600), shelves))
}

pub(super) fn on(disk: &Disk) -> Worker {
    over(Placing::Hash, &[disk])
}

/// A shelf, and a zone over it with one page, which is on the disk as well.
pub(super) fn with_one(folder: &Path) -> (Disk, Worker) {
    let disk = open(folder);
    let mut worker = on(&disk);
    put(&mut worker, &[], "", "one", 0);
    assert!(disk.shelf.flush_blocking());
    (disk, worker)
}

/// What a lookup comes to when it has waited for the disks, as a word.
fn find(worker: &mut Worker, lines: &[(&str, &str)], now: u64) -> String {
    let rules = Rules::default();
    match worker.ask_with(KEY, lines, &rules, now) {
        Verdict::Load(loading) => {
            run(loading.run());
            told(&worker.ask_with(KEY, lines, &rules, now))
        }
        verdict => told(&verdict),
    }
}

/// Stores a page under [`KEY`], whatever is there.
fn put(worker: &mut Worker, lines: &[(&str, &str)], vary: &str, text: &str, now: u64) {
    put_under(KEY, worker, lines, vary, text, now);
}

pub(super) fn put_under(key: &[u8], worker: &mut Worker, lines: &[(&str, &str)], vary: &str, text: &str, now: u64) {
    let key = KeyRef::new(key);
    let zone = Arc::clone(&worker.zone);
    let mut permit = zone.permit(&mut worker.front, &key, at(now)).expect("there is room");
    let (mut writer, body) = zone.body(key.bytes(), None, None);
    permit.begin(varied(body, lines, vary, now));
    writer.append(Bytes::copy_from_slice(text.as_bytes())).expect("it is stored");
    writer.finish();
    permit.complete();
}

#[test]
fn a_stored_page_outlives_its_zone_and_its_shelf() {
    let folder = folder();
    let disk = open(folder.path());
    put(&mut on(&disk), &[], "", "one", 0);
    assert!(disk.shelf.flush_blocking());
    assert_eq!(find(&mut on(&disk), &[], 1), "hit one");
    disk.shelf.stop();
    let disk = open(folder.path());
    let mut worker = on(&disk);
    assert_eq!(find(&mut worker, &[], 1), "hit one");
    assert_eq!(find(&mut worker, &[], 11), "stale one updating=false");
    assert_eq!(worker.zone.stats().loaded, 1);
    assert_eq!(find(&mut on(&disk), &[], 700), "miss", "nobody used it for longer than `inactive`");
}

#[test]
fn variants_come_back_and_answer_their_own_requests() {
    let folder = folder();
    let disk = open(folder.path());
    let (de, fr) = ([("Accept-Language", "de")], [("Accept-Language", "fr")]);
    let mut worker = on(&disk);
    put(&mut worker, &de, "Accept-Language", "Hallo", 0);
    put(&mut worker, &fr, "Accept-Language", "Salut", 1);
    put(&mut worker, &de, "Accept-Language", "Moin", 2);
    disk.shelf.stop();
    let disk = open(folder.path());
    let mut worker = on(&disk);
    for (lines, expected) in [(&de[..], "hit Moin"), (&fr, "hit Salut"), (&[], "miss")] {
        assert_eq!(find(&mut worker, lines, 3), expected, "{lines:?}");
    }
    assert_eq!(worker.zone.purge(&KeyRef::new(KEY), at(3)), 2);
}

#[test]
fn a_confirmed_page_has_its_new_times_on_disk() {
    let folder = folder();
    let (disk, mut worker) = with_one(folder.path());
    // From memory, and as a page that came from the disk.
    for now in [100, 200] {
        let Verdict::Stale { object, permit: Some(permit), .. } = worker.ask(KEY, &Rules::default(), now) else {
            panic!("it is stale at {now}");
        };
        let old = object.to_arc();
        drop(object);
        permit.freshen(&old, page(old.body.clone(), now));
        assert!(disk.shelf.flush_blocking());
        worker = on(&disk);
        assert_eq!(find(&mut worker, &[], now + 9), "hit one");
        assert_eq!(find(&mut worker, &[], now + 10), "stale one updating=false");
    }
}

#[test]
fn a_purge_holds_after_the_shelf_is_opened_anew() {
    let folder = folder();
    let (disk, _worker) = with_one(folder.path());
    let mut other = on(&disk);
    assert_eq!(other.zone.purge(&KeyRef::new(KEY), at(1)), 1, "it is on disk, and not in this memory");
    assert_eq!(find(&mut other, &[], 1), "miss");
    disk.shelf.stop();
    let disk = open(folder.path());
    assert_eq!(find(&mut on(&disk), &[], 1), "miss");
}

#[test]
fn a_shortened_page_is_so_on_disk_too() {
    let shorter = Shorter { ttl: Duration::ZERO, grace: None, keep: None };
    for (is_read, expected) in [(true, "stale one updating=false"), (false, "miss")] {
        let folder = folder();
        let (disk, mut worker) = with_one(folder.path());
        assert_eq!(find(&mut worker, &[], 1), "hit one");
        let other = on(&disk);
        let zone = if is_read { &worker.zone } else { &other.zone };
        assert_eq!(zone.shorten(&KeyRef::new(KEY), shorter, |_| true, at(1)), 1);
        assert!(disk.shelf.flush_blocking());
        assert_eq!(find(&mut on(&disk), &[], 1), expected);
        disk.shelf.stop();
        let disk = open(folder.path());
        assert_eq!(find(&mut on(&disk), &[], 1), expected, "after it is opened anew");
    }
}

#[test]
fn a_purge_of_what_is_stored_takes_what_is_on_disk() {
    let folder = folder();
    let (disk, mut worker) = with_one(folder.path());
    let mut other = on(&disk);
    assert_eq!(
        other.zone.purge_variants(&KeyRef::new(KEY), |_| true, at(1)),
        1,
        "it is on disk, and not in this memory"
    );
    assert_eq!(find(&mut other, &[], 1), "miss");
    assert_eq!(worker.zone.purge_variants(&KeyRef::new(KEY), |_| true, at(1)), 1, "it is in this memory");
    assert_eq!(find(&mut worker, &[], 1), "miss");
}

#[test]
fn a_purge_by_a_prefix_takes_what_is_in_memory_and_what_is_on_disk() {
    let folder = folder();
    let (disk, mut worker) = with_one(folder.path());
    let mut other = on(&disk);
    for prefix in [&KEY[..KEY.len() - 1], b"another"] {
        worker.zone.purge_prefix(prefix, at(1));
        assert_eq!(find(&mut worker, &[], 1), "miss", "in this memory");
        // Its own memory never had it.
        assert_eq!(find(&mut other, &[], 1), "miss", "on the disk");
    }
    put(&mut worker, &[], "", "two", 2);
    worker.zone.purge_prefix(b"another", at(3));
    assert_eq!(find(&mut worker, &[], 3), "hit two");
    assert!(disk.shelf.flush_blocking());
    disk.shelf.stop();
    let disk = open(folder.path());
    assert_eq!(find(&mut on(&disk), &[], 3), "hit two");
}

#[test]
fn a_purge_by_a_prefix_holds_against_lookups_that_read_the_disk_meanwhile() {
    let folder = folder();
    let disk = open(folder.path());
    for _ in 0..100 {
        put(&mut on(&disk), &[], "", "one", 0);
        assert!(disk.shelf.flush_blocking());
        let mut worker = on(&disk);
        let zone = Arc::clone(&worker.zone);
        let mut other = Worker::new(&zone);
        std::thread::scope(|scope| {
            let reading = scope.spawn(move || {
                for _ in 0..50 {
                    find(&mut other, &[], 1);
                }
            });
            zone.purge_prefix(b"", at(1));
            assert_eq!(find(&mut worker, &[], 1), "miss");
            reading.join().expect("a lookup does not panic");
        });
        assert_eq!(find(&mut worker, &[], 1), "miss");
    }
}

#[test]
fn a_purge_holds_against_lookups_that_read_the_disk_meanwhile() {
    let folder = folder();
    let disk = open(folder.path());
    for _ in 0..200 {
        put(&mut on(&disk), &[], "", "one", 0);
        assert!(disk.shelf.flush_blocking());
        let (mut worker, zone) = {
            let worker = on(&disk);
            let zone = Arc::clone(&worker.zone);
            (worker, zone)
        };
        let mut other = Worker::new(&zone);
        std::thread::scope(|scope| {
            let reading = scope.spawn(move || {
                for _ in 0..50 {
                    find(&mut other, &[], 1);
                }
            });
            zone.purge(&KeyRef::new(KEY), at(1));
            assert_eq!(find(&mut worker, &[], 1), "miss");
            reading.join().expect("a lookup does not panic");
        });
        assert_eq!(find(&mut worker, &[], 1), "miss");
    }
}

/// A page of 4 MB that is stored and complete while the shelf does nothing: it comes to the disk when `go_on` is told.
fn big_page_under_way(disk: &Disk, worker: &mut Worker) {
    disk.shelf.clear();
    disk.cleared.recv().expect("it clears itself");
    let mut permit = worker.permit(KEY, &Rules::default(), 1);
    let (mut writer, body) = worker.zone.body(KEY, Some(4 << 20), None);
    permit.begin(page(body.clone(), 1));
    for _ in 0..64 {
        writer.append(Bytes::from(vec![b'b'; 64 << 10])).expect("it is stored");
    }
    writer.finish();
    permit.complete();
    assert!(body.is_stored() && body.whole().is_none());
}

#[test]
fn a_purge_holds_against_a_page_that_is_still_being_written() {
    for purged in [false, true] {
        let folder = folder();
        let disk = open(folder.path());
        let mut worker = on(&disk);
        big_page_under_way(&disk, &mut worker);
        if purged {
            assert_eq!(worker.zone.purge(&KeyRef::new(KEY), at(1)), 1);
        }
        disk.go_on.send(()).expect("it waits for that");
        assert!(disk.shelf.flush_blocking());
        assert!(disk.shelf.flush_blocking(), "what was stored when the slices were written is written, too");
        let mut other = on(&disk);
        let is_there = match other.ask(KEY, &Rules::default(), 2) {
            Verdict::Load(loading) => {
                run(loading.run());
                matches!(other.ask(KEY, &Rules::default(), 2), Verdict::Hit(_))
            }
            verdict => matches!(verdict, Verdict::Hit(_)),
        };
        assert_eq!(is_there, !purged);
    }
}

#[test]
fn a_page_that_is_still_being_written_never_follows_the_one_that_replaced_it() {
    let folder = folder();
    let disk = open(folder.path());
    let mut worker = on(&disk);
    big_page_under_way(&disk, &mut worker);
    put(&mut worker, &[], "", "newer", 2);
    disk.go_on.send(()).expect("it waits for that");
    assert!(disk.shelf.flush_blocking() && disk.shelf.flush_blocking());
    assert_eq!(find(&mut on(&disk), &[], 3), "hit newer");
}

/// A shelf that has no time, and a zone over it, with a page that waits for the shelf and one that has no room to wait.
fn one_waits_and_another_is_owed(folder: &Path) -> (Disk, Worker) {
    let disk = open_with(folder, 10_000);
    let mut worker = on(&disk);
    put(&mut worker, &[], "", "one", 0);
    assert!(disk.shelf.flush_blocking());
    disk.shelf.clear();
    disk.cleared.recv().expect("it clears itself");
    put(&mut worker, &[], "", "two", 1);
    worker.store(b"long", &"long".repeat(10_000), 1);
    assert_eq!(disk.shelf.stats().owed_pages, 2);
    (disk, worker)
}

/// Lets a shelf go on, and waits until it owes nothing.
fn paid(disk: &Disk) {
    disk.go_on.send(()).expect("it waits for that");
    while disk.shelf.stats().owed_pages > 0 {
        std::thread::yield_now();
    }
    assert!(disk.shelf.flush_blocking());
}

/// What is found on the disk under a key.
fn find_on(disk: &Disk, key: &[u8]) -> String {
    let mut worker = on(disk);
    match worker.ask(key, &Rules::default(), 2) {
        Verdict::Load(loading) => {
            run(loading.run());
            told(&worker.ask(key, &Rules::default(), 2))
        }
        verdict => told(&verdict),
    }
}

#[test]
fn a_page_for_which_the_disk_has_no_time_comes_there_later() {
    let folder = folder();
    let (disk, mut worker) = one_waits_and_another_is_owed(folder.path());
    // It comes behind what is owed, though there is room for it to wait.
    worker.store(b"behind", "behind", 2);
    assert_eq!(disk.shelf.stats().owed_pages, 3);
    paid(&disk);
    assert_eq!(disk.shelf.stats().skipped_queue, 0);
    let check = |disk: &Disk| {
        assert_eq!(find_on(disk, KEY), "hit two");
        assert_eq!(find_on(disk, b"long"), format!("hit {}", "long".repeat(10_000)));
        assert_eq!(find_on(disk, b"behind"), "hit behind");
    };
    check(&disk);
    disk.shelf.stop();
    check(&open(folder.path()));
}

#[test]
fn what_is_owed_is_written_when_a_shelf_is_stopped() {
    let folder = folder();
    let (disk, worker) = one_waits_and_another_is_owed(folder.path());
    disk.go_on.send(()).expect("it waits for that");
    disk.shelf.stop();
    drop(worker);
    assert_eq!(find_on(&open(folder.path()), b"long"), format!("hit {}", "long".repeat(10_000)));
}

#[test]
fn what_left_memory_before_the_disk_had_time_is_not_written_and_nothing_older_comes_back() {
    // What becomes of the page while it is owed, and what is found of its key.
    type Deed = fn(&mut Worker);
    let deeds: [(Deed, &str); 5] = [
        (|worker| assert_eq!(worker.zone.purge(&KeyRef::new(b"long"), at(2)), 1), "miss"),
        (|worker| assert_eq!(worker.zone.purge_prefix(b"lo", at(2)), 1), "miss"),
        (|worker| assert_eq!(worker.zone.forget(&KeyRef::new(b"long")), 1), "miss"),
        (|worker| worker.zone.clear_memory(), "miss"),
        (|worker| put_under(b"long", worker, &[], "", "newer", 2), "hit newer"),
    ];
    for (deed, expected) in deeds {
        let folder = folder();
        let (disk, mut worker) = one_waits_and_another_is_owed(folder.path());
        deed(&mut worker);
        paid(&disk);
        assert_eq!(find_on(&disk, b"long"), expected);
        disk.shelf.stop();
        assert_eq!(find_on(&open(folder.path()), b"long"), expected);
    }
}

#[test]
fn an_older_page_never_comes_back_when_the_newer_was_not_written() {
    for is_written in [false, true] {
        let folder = folder();
        let disk = open_with(folder.path(), 10_000);
        let mut worker = on(&disk);
        put(&mut worker, &[], "", "one", 0);
        if is_written {
            assert!(disk.shelf.flush_blocking());
        }
        put(&mut worker, &[], "", &"two".repeat(10_000), 1);
        worker.zone.clear_memory();
        while disk.shelf.stats().owed_pages > 0 {
            std::thread::yield_now();
        }
        assert!(disk.shelf.flush_blocking());
        assert_ne!(find(&mut on(&disk), &[], 2), "hit one");
        disk.shelf.stop();
        let disk = open(folder.path());
        assert_ne!(find(&mut on(&disk), &[], 2), "hit one");
    }
}

#[test]
fn a_page_that_was_replaced_by_one_that_varies_is_gone_from_the_disk_too() {
    let folder = folder();
    let disk = open(folder.path());
    let mut worker = on(&disk);
    let (de, fr) = ([("Accept-Language", "de")], [("Accept-Language", "fr")]);
    worker.store(KEY, "for all", 0);
    // A refetch, as that one is stale.
    worker.store_with(KEY, &de, "Accept-Language", "Hallo", 20);
    assert!(disk.shelf.flush_blocking());
    let mut other = on(&disk);
    assert_eq!(find(&mut other, &de, 21), "hit Hallo");
    assert_eq!(find(&mut other, &fr, 21), "miss");
}

#[test]
fn the_newest_of_several_disks_is_found_whichever_is_asked_first() {
    for newer in [0, 1] {
        let folders = [folder(), folder()];
        let disks = [open(folders[0].path()), open(folders[1].path())];
        put(&mut over(Placing::Mirror, &[&disks[0], &disks[1]]), &[], "", "one", 0);
        assert!(disks.iter().all(|disk| disk.shelf.flush_blocking()));
        // The other one was away.
        put(&mut on(&disks[newer]), &[], "", "two", 1);
        assert!(disks[newer].shelf.flush_blocking());
        let mut worker = over(Placing::Mirror, &[&disks[0], &disks[1]]);
        let Verdict::Hit(object) = (match worker.ask(KEY, &Rules::default(), 2) {
            Verdict::Load(loading) => {
                run(loading.run());
                worker.ask(KEY, &Rules::default(), 2)
            }
            verdict => verdict,
        }) else {
            panic!("it is there");
        };
        assert_eq!(object.stored_at, at(1), "{newer}");
    }
}

#[test]
fn a_page_that_was_removed_or_replaced_elsewhere_does_not_come_back_with_its_place() {
    let (first, second) = (folder(), folder());
    let (first, second) = (open(first.path()), open(second.path()));
    let flush = || assert!(first.shelf.flush_blocking() && second.shelf.flush_blocking());
    // By weight, all pages go to one of them.
    let at_first = || weighted(Placing::Hash, &[(&first, 1 << 60), (&second, 1)]);
    let at_second = || weighted(Placing::Hash, &[(&first, 1), (&second, 1 << 60)]);
    put(&mut at_first(), &[], "", "one", 0);
    flush();
    assert_eq!(find(&mut at_first(), &[], 1), "hit one");
    assert_eq!(find(&mut at_second(), &[], 1), "miss");
    at_second().zone.purge(&KeyRef::new(KEY), at(1));
    assert_eq!(find(&mut at_first(), &[], 1), "miss", "it was purged while its place was elsewhere");
    put(&mut at_first(), &[], "", "two", 2);
    flush();
    put(&mut at_second(), &[], "", "three", 3);
    flush();
    assert_eq!(find(&mut at_first(), &[], 3), "miss", "it was replaced while its place was elsewhere");
    assert_eq!(find(&mut at_second(), &[], 3), "hit three");
    put(&mut over(Placing::Mirror, &[&first, &second]), &[], "", "four", 4);
    flush();
    assert_eq!(find(&mut at_first(), &[], 4), "hit four");
    assert_eq!(find(&mut at_second(), &[], 4), "hit four");
}

/// Fetches a page for which there is no room, under [`KEY`], with nobody to read it.
fn put_roomless(worker: &mut Worker, now: u64) {
    let zone = Arc::clone(&worker.zone);
    let mut permit = zone.permit(&mut worker.front, &KeyRef::new(KEY), at(now)).expect("it is small");
    let (mut writer, body) = zone.body(KEY, None, None);
    let _most = zone.reserve(15 << 20).expect("there is nothing else in memory");
    permit.begin(varied(body, &[], "", now));
    assert!(writer.append(Bytes::from(vec![b'x'; 2 << 20])).is_err());
    drop((writer, permit));
}

#[test]
fn a_page_is_out_of_date_when_a_newer_one_finds_no_room() {
    let folder = folder();
    let (disk, mut worker) = with_one(folder.path());
    assert_eq!(find(&mut worker, &[], 1), "hit one");
    put_roomless(&mut worker, 2);
    assert_eq!(find(&mut worker, &[], 2), "miss", "in memory");
    let mut worker = on(&disk);
    assert_eq!(find(&mut worker, &[], 2), "miss", "on the disk");
    put(&mut worker, &[], "", "two", 3);
    assert!(disk.shelf.flush_blocking());
    // Its own memory has never had it.
    let mut other = on(&disk);
    put_roomless(&mut other, 4);
    assert_eq!(find(&mut other, &[], 4), "miss", "it was on the disk alone");
    disk.shelf.stop();
    let disk = open(folder.path());
    assert_eq!(find(&mut on(&disk), &[], 5), "miss", "opened anew");
}

#[test]
fn one_reads_and_the_others_wait() {
    let folder = folder();
    let disk = open(folder.path());
    put(&mut on(&disk), &[], "", "one", 0);
    // Then its segment is read from the disk, not from what the writer knows.
    disk.shelf.stop();
    let disk = open(folder.path());
    let mut worker = on(&disk);
    let rules = Rules::default();
    let load = |verdict| match verdict {
        Verdict::Load(loading) => Some(loading),
        verdict => {
            assert_eq!(told(&verdict), "hit one");
            None
        }
    };
    // Where it is in memory nobody has to wait.
    let Some(first) = load(worker.ask(KEY, &rules, 1)) else { return };
    let second = load(worker.ask(KEY, &rules, 1)).expect("the first has not read yet");
    let third = load(worker.ask(KEY, &rules, 1)).expect("the first has not read yet");
    // One that leaves hands the reading to the next.
    drop(first);
    run(async { tokio::join!(second.run(), third.run()) });
    let reader = load(worker.ask(KEY, &rules, 1)).expect("nobody has read yet");
    let waiter = load(worker.ask(KEY, &rules, 1)).expect("nobody has read yet");
    run(async { tokio::join!(waiter.run(), reader.run()) });
    assert_eq!(told(&worker.ask(KEY, &rules, 1)), "hit one");
    assert_eq!(worker.zone.stats().loaded, 1);
}

#[test]
fn a_page_whose_body_is_lost_is_not_found_again() {
    let folder = folder();
    let (disk, _worker) = with_one(folder.path());
    let mut other = on(&disk);
    assert_eq!(find(&mut other, &[], 1), "hit one");
    let Verdict::Hit(object) = other.ask(KEY, &Rules::default(), 1) else { panic!("it is there") };
    let object = object.to_arc();
    other.zone.lost(&object, at(1));
    assert_eq!(find(&mut other, &[], 1), "miss");
    // What came in its place is not lost with it.
    put(&mut other, &[], "", "two", 2);
    other.zone.lost(&object, at(2));
    assert!(disk.shelf.flush_blocking());
    assert_eq!(find(&mut other, &[], 3), "hit two");
    assert_eq!(find(&mut on(&disk), &[], 3), "hit two");
}

/// A page under `a`, and what fills one under `b`.
fn one_there_and_another_under_way(disk: &Disk) -> (Worker, Permit, BodyWriter) {
    let mut worker = on(disk);
    worker.store(b"a", "one", 0);
    let mut permit = worker.permit(b"b", &Rules::default(), 0);
    let (writer, body) = worker.zone.body(b"b", None, None);
    permit.begin(page(body, 0));
    (worker, permit, writer)
}

#[test]
fn what_is_cleared_is_not_found_and_what_was_under_way_is_not_stored() {
    let folder = folder();
    let disk = open(folder.path());
    let (worker, permit, mut writer) = one_there_and_another_under_way(&disk);
    disk.go_on.send(()).expect("it will wait for that");
    disk.shelf.clear();
    disk.cleared.recv().expect("it clears itself");
    worker.zone.clear_memory();
    writer.append(Bytes::from_static(b"late")).expect("somebody may want it");
    writer.finish();
    permit.complete();
    assert!(disk.shelf.flush_blocking());
    for mut worker in [Worker::new(&worker.zone), on(&disk)] {
        for key in [&b"a"[..], b"b"] {
            assert_eq!(told(&worker.ask(key, &Rules::default(), 1)), "miss");
        }
    }
    assert_eq!(worker.zone.stats().entries, 2, "those that were asked for just now");
}

#[test]
fn what_was_under_way_when_a_file_asked_for_a_clear_is_not_stored_either() {
    let folder = folder();
    let disk = open(folder.path());
    let (worker, permit, mut writer) = one_there_and_another_under_way(&disk);
    std::fs::write(folder.path().join(CLEAR_FILE), "").expect("it is written");
    disk.shelf.tick(1);
    disk.cleared.recv().expect("it is about to clear itself");
    assert!(disk.shelf.find(b"a", 1).is_empty());
    worker.zone.clear_memory();
    disk.go_on.send(()).expect("it waits for that");
    disk.cleared.recv().expect("it clears itself");
    // Behind the clear in the queue.
    writer.append(Bytes::from_static(b"late")).expect("somebody may want it");
    writer.finish();
    permit.complete();
    worker.zone.clear_memory();
    assert!(folder.path().join(CLEAR_FILE).exists(), "who waits for that is told last");
    disk.go_on.send(()).expect("it waits for that");
    assert!(disk.shelf.flush_blocking());
    assert!(!folder.path().join(CLEAR_FILE).exists());
    for mut worker in [Worker::new(&worker.zone), on(&disk)] {
        for key in [&b"a"[..], b"b"] {
            assert_eq!(told(&worker.ask(key, &Rules::default(), 1)), "miss");
        }
    }
}

#[test]
fn what_waits_to_be_written_when_a_folder_is_emptied_does_not_come_back_and_what_comes_then_stays() {
    let folder = folder();
    let disk = open(folder.path());
    let mut worker = on(&disk);
    let store = |worker: &mut Worker, key: &[u8]| worker.store(key, "one", 0);
    store(&mut worker, b"written");
    assert!(disk.shelf.flush_blocking());
    // It waits at the end of the clear, so that what is stored then waits too.
    disk.shelf.clear();
    disk.cleared.recv().expect("it clears itself");
    store(&mut worker, b"waits");
    for entry in std::fs::read_dir(folder.path()).expect("it is there") {
        std::fs::remove_file(entry.expect("it can be listed").path()).expect("it is ours");
    }
    disk.go_on.send(()).expect("it waits for that");
    disk.cleared.recv().expect("it sees that it was emptied");
    worker.zone.clear_memory();
    store(&mut worker, b"after");
    disk.go_on.send(()).expect("it waits for that");
    while disk.shelf.state() != DiskState::Serving {
        std::thread::yield_now();
    }
    assert!(disk.shelf.flush_blocking());
    for mut worker in [Worker::new(&worker.zone), on(&disk)] {
        for (key, expected) in [(&b"written"[..], "miss"), (b"waits", "miss"), (b"after", "hit one")] {
            let verdict = match worker.ask(key, &Rules::default(), 1) {
                Verdict::Load(loading) => {
                    run(loading.run());
                    worker.ask(key, &Rules::default(), 1)
                }
                verdict => verdict,
            };
            assert_eq!(told(&verdict), expected, "{}", String::from_utf8_lossy(key));
        }
    }
}

#[test]
fn a_page_that_waits_to_be_written_stays_in_memory_until_it_is() {
    let folder = folder();
    let disk = open(folder.path());
    let mut worker = on(&disk);
    disk.shelf.clear();
    disk.cleared.recv().expect("it clears itself");
    worker.store(KEY, "one", 0);
    for number in 0..2000 {
        let key = format!("key {number}").into_bytes();
        // Until all memory is held by what waits.
        let Verdict::Miss(Some(mut permit)) = worker.ask(&key, &Rules::default(), 1) else { break };
        let room = worker.zone.reserve(20_000);
        permit.begin(page(Body::of(Bytes::from(vec![b'x'; 20_000]), room), 1));
    }
    assert_eq!(told(&worker.ask(KEY, &Rules::default(), 1)), "hit one");
    disk.go_on.send(()).expect("it waits for that");
    assert!(disk.shelf.flush_blocking());
}
