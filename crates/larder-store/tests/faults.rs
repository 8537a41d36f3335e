//! Disks that fail: the shelf degrades, says so once, and works again. Long because a disk fails in many ways.
//!
//! And what was removed, or is to be cleared, while a shelf cannot write that down at once.

mod simulated;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use bytes::Bytes;
use larder_store::{
    DiskEvent, DiskLimits, DiskOptions, DiskShelf, DiskState, Hold, Page, PageBody, Skipped, Stored, StoredBody,
};
use simulated::{EIO, ENOSPC, EROFS, Kept, Op, Process, Rule, World};

struct Site {
    world: Arc<World>,
    process: Process,
    events: Arc<Mutex<Vec<DiskEvent>>>,
}

impl Site {
    fn new() -> Self {
        Self::with_bytes(1 << 20)
    }

    fn with_bytes(bytes_max: u64) -> Self {
        let world = World::new(bytes_max);
        Self { process: world.process(), world, events: Arc::default() }
    }

    fn open(&self) -> DiskShelf {
        let shelf = self.begin(&self.process);
        shelf.flush_blocking();
        shelf
    }

    /// Lets a process open the shelf, and does not wait for that.
    fn begin(&self, process: &Process) -> DiskShelf {
        let events = Arc::clone(&self.events);
        self.open_telling(process, move |event| events.lock().unwrap().push(event))
    }

    /// The same, with what it says told to another.
    fn open_telling(&self, process: &Process, told: impl Fn(DiskEvent) + Send + Sync + 'static) -> DiskShelf {
        let bytes_max = Some(self.world.bytes_max);
        let options = DiskOptions {
            dir: PathBuf::from("/shelf"),
            limits: DiskLimits { bytes_max, free_min: 0, inactive: Duration::from_secs(INACTIVE) },
            queue_bytes: 64 << 20,
            events: Arc::new(told),
        };
        DiskShelf::with_files(options, Arc::new(process.clone()))
    }

    /// The same disk for another process.
    fn another(&self) -> Self {
        Self { world: Arc::clone(&self.world), process: self.world.process(), events: Arc::default() }
    }

    fn is_clear_asked(&self) -> bool {
        self.world.names().iter().any(|name| name == Path::new(CLEAR_FILE))
    }

    fn fail(&self, op: Op, suffix: &'static str, errno: i32, times: u64) {
        self.process.fail(Rule { op, suffix, errno, times, after: 0 });
    }

    /// How often it was said that something does not work, and that it works again.
    fn said(&self) -> (usize, usize) {
        let events = self.events.lock().unwrap();
        let count = |is: fn(&DiskEvent) -> bool| events.iter().filter(|event| is(event)).count();
        (
            count(|event| matches!(event, DiskEvent::Degraded(_))),
            count(|event| matches!(event, DiskEvent::Recovered { .. })),
        )
    }
}

fn page(key: &str, body: impl Into<Bytes>) -> Page {
    Page {
        key: key.as_bytes().into(),
        variant: 0,
        head: Bytes::from_static(b"head"),
        body: PageBody::Memory(vec![body.into()]),
        expires_at: u64::MAX,
        cost_micros: 0,
        holds: None,
    }
}

fn store(shelf: &DiskShelf, key: &str, body: &'static str, now: u64) -> bool {
    shelf.store(page(key, body), now).is_ok() && shelf.flush_blocking()
}

fn read(shelf: &DiskShelf, key: &str, now: u64) -> Option<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let found = shelf.find(key.as_bytes(), now);
    let read: Vec<Stored> = runtime.block_on(shelf.read(key.as_bytes().into(), found, usize::MAX));
    match &read.first()?.body {
        StoredBody::Memory(body) => Some(String::from_utf8_lossy(body).into_owned()),
        StoredBody::Disk(_) => panic!("all of it was asked for"),
    }
}

/// Lets the shelf look after itself once.
fn tick(shelf: &DiskShelf, now: u64) {
    shelf.tick(now);
    shelf.flush_blocking();
}

/// Something done to a shelf.
type Deed = fn(&DiskShelf);

const SEGMENT: &str = ".segment";
const CLEAR_FILE: &str = "/shelf/larder.clear";
/// Seconds.
const INACTIVE: u64 = 100_000;

#[test]
fn a_file_system_without_room_is_said_once_and_when_there_is_room_again() {
    let site = Site::new();
    let shelf = site.open();
    let limits = |free_min| DiskLimits { bytes_max: Some(1 << 20), free_min, inactive: Duration::from_secs(100_000) };
    assert!(store(&shelf, "before", "a", 1000));
    shelf.adjust(limits(1 << 40));
    tick(&shelf, 1001);
    for now in 1002..1010 {
        assert!(!store(&shelf, "meanwhile", "b", now * 20));
    }
    assert_eq!(site.said(), (1, 0));
    shelf.adjust(limits(0));
    assert!(store(&shelf, "after", "c", 30_000));
    assert_eq!(site.said(), (1, 1));
    assert_eq!(read(&shelf, "after", 30_000).as_deref(), Some("c"));
}

#[test]
fn what_a_disk_does_not_take_is_owed_and_written_when_it_works_again() {
    const PAGES: u64 = 20;
    for (op, errno) in [(Op::Write, EIO), (Op::Write, EROFS), (Op::Write, ENOSPC), (Op::Create, ENOSPC)] {
        let site = Site::new();
        let shelf = site.open();
        site.fail(op, SEGMENT, errno, u64::MAX);
        let gone = Kept::new(|| page("gone", "body"));
        for number in 0..PAGES {
            // It is refused from where it is known that the disk does not work.
            let _ = shelf.store(Kept::new(move || page(&number.to_string(), vec![7; 10_000])).page(), 1000);
        }
        let _ = shelf.store(gone.page(), 1000);
        tick(&shelf, 1001);
        assert_eq!((shelf.stats().owed_pages, shelf.stats().objects), (PAGES + 1, 0), "{op:?} {errno}");
        gone.is_there.store(false, Ordering::SeqCst);
        tick(&shelf, 1002);
        assert_eq!(shelf.stats().objects, 0);
        site.process.heal();
        let mut now = 1010;
        while shelf.stats().owed_pages > 0 {
            now += 1;
            tick(&shelf, now);
        }
        for number in 0..PAGES {
            assert!(read(&shelf, &number.to_string(), now).is_some(), "{op:?} {errno}: {number}");
        }
        assert_eq!(read(&shelf, "gone", now), None);
    }
}

#[test]
fn what_is_lost_twice_and_for_its_own_sake_is_not_owed_for_ever() {
    let site = Site::new();
    let shelf = site.open();
    // A head that no segment of this shelf has room for, by the size that it turns out to have.
    let long = Kept::new(|| Page { head: Bytes::from(vec![1; 100_000]), ..page("long", "body") });
    let _ = shelf.store(long.page(), 1000);
    tick(&shelf, 1001);
    assert_eq!((shelf.stats().owed_pages, read(&shelf, "long", 1001)), (0, None));
}

#[test]
fn one_failed_write_costs_its_segment_and_nothing_is_said() {
    let site = Site::new();
    let shelf = site.open();
    assert!(store(&shelf, "before", "a", 1000));
    site.fail(Op::Write, SEGMENT, EIO, 1);
    assert!(!store(&shelf, "lost", "b", 1000));
    assert!(store(&shelf, "after", "c", 1000));
    let seen = ["before", "lost", "after"].map(|key| read(&shelf, key, 1000));
    assert_eq!(seen, [Some("a".into()), None, Some("c".into())]);
    assert_eq!((shelf.stats().write_errors, site.said()), (1, (0, 0)));
}

#[test]
fn a_write_that_fails_while_the_next_batch_waits_costs_both_and_nothing_later() {
    // The slices of the page fill a batch each.
    let site = Site::with_bytes(256 << 20);
    let shelf = site.open();
    assert!(store(&shelf, "before", "a", 1000) && store(&shelf, "removed", "b", 1000));
    site.fail(Op::Write, SEGMENT, EIO, 1);
    shelf.remove(b"removed", None, 1000);
    struct Held(#[expect(dead_code)] Arc<()>);
    impl Hold for Held {}
    let holds = Arc::new(());
    let big = Page { holds: Some(Box::new(Held(Arc::clone(&holds)))), ..page("big", vec![7; 3 << 20]) };
    shelf.store(big, 1000).expect("the queue takes it");
    assert!(!shelf.flush_blocking(), "a page was lost");
    assert_eq!(Arc::strong_count(&holds), 1);
    assert!(shelf.flush_blocking(), "nothing was lost since");
    assert!(store(&shelf, "after", "c", 1000));
    let expected = [Some("a".to_owned()), None, None, Some("c".to_owned())];
    let seen = |shelf: &DiskShelf| ["before", "removed", "big", "after"].map(|key| read(shelf, key, 1000));
    assert_eq!(seen(&shelf), expected);
    assert_eq!((shelf.state(), shelf.stats().write_errors), (DiskState::Serving, 1));
    site.process.kill();
    shelf.stop();
    let site = Site { process: site.world.process(), ..site };
    assert_eq!(seen(&site.open()), expected, "after a crash");
}

#[test]
fn a_clock_that_is_set_back_takes_no_page_away() {
    for back in [INACTIVE / 16 + 1, 10 * INACTIVE, 999_000_000] {
        let site = Site::new();
        let shelf = site.open();
        tick(&shelf, 1_000_000_000);
        for (key, now) in [("old", 1_000_000_000), ("new", 1_000_050_000)] {
            tick(&shelf, now);
            assert!(store(&shelf, key, "a", now));
        }
        let now = 1_000_050_000 - back;
        for _ in 0..3 {
            tick(&shelf, now);
            // The time of a page that took long.
            assert!(store(&shelf, "slow", "b", 1_000_000_000));
        }
        assert_eq!(["old", "new"].map(|key| shelf.find(key.as_bytes(), now).len()), [1, 1], "{back}");
        // What nobody uses still goes.
        tick(&shelf, now + INACTIVE * 5 / 4);
        assert!(shelf.find(b"old", now + INACTIVE * 5 / 4).is_empty(), "{back}");
    }
}

#[test]
fn a_clock_that_is_set_back_makes_no_wait_longer() {
    let (before, after) = (1_000_000, 900_000);
    let site = Site::new();
    let shelf = site.open();
    tick(&shelf, before);
    for op in [Op::Allocate, Op::Write] {
        site.fail(op, SEGMENT, ENOSPC, u64::MAX);
    }
    assert!(!store(&shelf, "a", "a", before));
    site.process.heal();
    assert!(!store(&shelf, "a", "a", before), "a full disk is left alone for a while");
    tick(&shelf, after);
    assert!(store(&shelf, "a", "a", after));
    tick(&shelf, before);
    site.fail(Op::Write, SEGMENT, EROFS, 1);
    assert!(!store(&shelf, "b", "b", before));
    assert_eq!(shelf.state(), DiskState::ReadOnly);
    tick(&shelf, after);
    assert_eq!(shelf.state(), DiskState::Serving);
}

#[test]
fn a_folder_is_opened_when_another_lets_go_of_it_however_much_is_asked_for() {
    let site = Site::new();
    let first = site.open();
    assert!(store(&first, "kept", "a", 1000));
    let second = site.begin(&site.world.process());
    assert!(!second.flush_blocking());
    assert_eq!(second.state(), DiskState::Waiting);
    first.stop();
    // Each is a command for the writer, and the next comes at once.
    while second.state() != DiskState::Serving {
        tick(&second, 1000);
    }
    assert_eq!(read(&second, "kept", 1000), Some("a".into()));
}

#[test]
fn a_page_remade_again_and_again_while_another_has_the_folder_clears_nothing() {
    let site = Site::new();
    let first = site.open();
    for key in ["kept", "remade"] {
        assert!(store(&first, key, "old", 1000));
    }
    let second = site.begin(&site.world.process());
    assert!(!second.flush_blocking());
    for _ in 0..100_001 {
        assert_eq!(second.store(page("remade", "new"), 1000), Err(Skipped::Out));
    }
    first.stop();
    while second.state() != DiskState::Serving {
        std::thread::yield_now();
    }
    assert_eq!(["kept", "remade"].map(|key| read(&second, key, 1000)), [Some("old".into()), None]);
    assert!(store(&second, "remade", "new", 1000));
    second.stop();
    let third = site.open();
    let seen = ["kept", "remade"].map(|key| read(&third, key, 1000));
    assert_eq!(seen, [Some("old".into()), Some("new".into())]);
}

#[test]
fn three_failed_writes_end_the_writing_until_the_disk_is_well() {
    for (errno, times) in [(EIO, 3), (EROFS, 1)] {
        let site = Site::new();
        let shelf = site.open();
        assert!(store(&shelf, "before", "a", 1000));
        site.fail(Op::Write, SEGMENT, errno, u64::MAX);
        for _ in 0..times {
            assert!(!store(&shelf, "lost", "b", 1000));
        }
        assert_eq!((shelf.state(), site.said()), (DiskState::ReadOnly, (1, 0)), "{errno}");
        assert_eq!(read(&shelf, "before", 1000), Some("a".into()), "reading goes on");
        // A removal holds though it cannot be written.
        assert_eq!(shelf.remove(b"before", None, 1000), 1);
        assert_eq!(read(&shelf, "before", 1000), None);
        tick(&shelf, 1011);
        assert_eq!((shelf.state(), site.said()), (DiskState::ReadOnly, (1, 0)), "tried in vain, and not said again");
        site.process.heal();
        tick(&shelf, 1015);
        assert_eq!(shelf.state(), DiskState::ReadOnly, "not tried before ten seconds have passed");
        tick(&shelf, 1022);
        assert!(store(&shelf, "after", "c", 1022));
        assert_eq!((shelf.state(), site.said()), (DiskState::Serving, (1, 1)), "{errno}");
        shelf.stop();
        let shelf = site.open();
        let seen = ["before", "lost", "after"].map(|key| read(&shelf, key, 1023));
        assert_eq!(seen, [None, None, Some("c".into())], "{errno}");
    }
}

#[test]
fn a_removal_that_could_not_be_written_holds_after_a_crash() {
    let site = Site::new();
    let shelf = site.open();
    assert!(store(&shelf, "page", "a", 1000));
    site.fail(Op::Write, SEGMENT, EIO, u64::MAX);
    for _ in 0..3 {
        store(&shelf, "other", "b", 1000);
    }
    shelf.remove(b"page", None, 1000);
    shelf.flush_blocking();
    site.process.kill();
    shelf.stop();
    let site = Site { process: site.world.process(), ..site };
    let shelf = site.open();
    assert_eq!(read(&shelf, "page", 1000), None);
    assert!(store(&shelf, "page", "c", 1000));
    shelf.stop();
    assert_eq!(read(&site.open(), "page", 1000), Some("c".into()));
}

#[test]
fn a_full_disk_evicts_the_oldest_and_then_skips_for_a_while() {
    let site = Site::new();
    let shelf = site.open();
    assert!(store(&shelf, "a", "a", 1000));
    // Once: room is made, and the write is tried again.
    site.fail(Op::Allocate, SEGMENT, ENOSPC, 1);
    for number in 0..40 {
        let body = PageBody::Memory(vec![vec![7; 30_000].into()]);
        let key = format!("big {number}").into_bytes().into();
        let page = Page { key, body, variant: 0, head: Bytes::new(), expires_at: 9999, cost_micros: 0, holds: None };
        shelf.store(page, 1000).expect("the queue is long");
    }
    assert!(shelf.flush_blocking());
    assert_eq!(site.said(), (0, 0));
    // For good.
    site.fail(Op::Allocate, SEGMENT, ENOSPC, u64::MAX);
    site.fail(Op::Write, SEGMENT, ENOSPC, u64::MAX);
    assert!(!store(&shelf, "b", "b", 1000));
    assert!(!store(&shelf, "b", "b", 1001));
    assert_eq!((shelf.state(), site.said()), (DiskState::Serving, (1, 0)));
    site.process.heal();
    assert!(!store(&shelf, "b", "b", 1002), "not tried again at once");
    assert!(store(&shelf, "b", "b", 1011));
    assert_eq!(site.said(), (1, 1));
}

#[test]
fn eight_failed_reads_take_the_shelf_out_until_it_can_be_opened_again() {
    let site = Site::new();
    let shelf = site.open();
    for key in ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"] {
        assert!(store(&shelf, key, "a", 1000));
    }
    site.fail(Op::Read, SEGMENT, EIO, u64::MAX);
    for key in ["0", "1", "2", "3", "4", "5", "6", "7"] {
        assert!(!shelf.is_out());
        assert_eq!(read(&shelf, key, 1000), None);
    }
    assert!(shelf.is_out());
    assert!(shelf.find(b"8", 1000).is_empty());
    assert!(!store(&shelf, "b", "b", 1000));
    assert_eq!(site.said(), (1, 0));
    shelf.remove(b"9", None, 1000);
    site.process.heal();
    tick(&shelf, 1005);
    assert!(shelf.is_out());
    tick(&shelf, 1011);
    assert_eq!((shelf.state(), site.said()), (DiskState::Serving, (1, 1)));
    assert_eq!(read(&shelf, "8", 1011), Some("a".into()));
    assert_eq!(read(&shelf, "0", 1011), Some("a".into()));
    assert_eq!(read(&shelf, "9", 1011), None, "removed while it was out");
    shelf.stop();
    assert_eq!(read(&site.open(), "9", 1011), None);
}

#[test]
fn a_page_remade_while_the_shelf_is_out_does_not_come_back_old() {
    let site = Site::new();
    let shelf = site.open();
    for key in ["kept", "remade", "0", "1", "2", "3", "4", "5", "6", "7"] {
        assert!(store(&shelf, key, "old", 1000));
    }
    site.fail(Op::Read, SEGMENT, EIO, u64::MAX);
    for key in ["0", "1", "2", "3", "4", "5", "6", "7"] {
        assert_eq!(read(&shelf, key, 1000), None);
    }
    assert!(shelf.is_out());
    // The writer lets go of what it knows.
    tick(&shelf, 1000);
    assert_eq!(shelf.store(page("remade", "new"), 1000), Err(Skipped::Out));
    site.process.heal();
    tick(&shelf, 1010);
    assert_eq!(shelf.state(), DiskState::Serving);
    let seen = |shelf: &DiskShelf| ["kept", "remade"].map(|key| read(shelf, key, 1010));
    assert_eq!(seen(&shelf), [Some("old".into()), None]);
    shelf.stop();
    assert_eq!(seen(&site.open()), [Some("old".into()), None]);
}

#[test]
fn a_page_remade_while_the_shelf_is_opened_does_not_come_back_old() {
    let site = Site::new();
    let shelf = site.open();
    for key in ["kept", "refused", "taken"] {
        assert!(store(&shelf, key, "old", 1000));
    }
    shelf.stop();
    site.process.hold(Op::Open, SEGMENT);
    let shelf = site.begin(&site.process);
    assert_eq!(shelf.state(), DiskState::Opening);
    assert_eq!(shelf.store(page("refused", vec![7; 1 << 20]), 1000), Err(Skipped::TooBig));
    // One that is taken, and cannot be written after all.
    assert_eq!(shelf.store(page("taken", "new"), 1000), Ok(()));
    site.fail(Op::Open, SEGMENT, EIO, 1);
    site.process.release();
    shelf.flush_blocking();
    assert!(shelf.is_out());
    tick(&shelf, 1010);
    assert_eq!(shelf.state(), DiskState::Serving);
    let seen = |shelf: &DiskShelf| ["kept", "refused", "taken"].map(|key| read(shelf, key, 1010));
    assert_eq!(seen(&shelf), [Some("old".into()), None, None]);
    shelf.stop();
    assert_eq!(seen(&site.open()), [Some("old".into()), None, None]);
}

#[test]
fn what_is_removed_while_the_shelf_is_out_holds_after_a_stop_and_after_a_crash() {
    let removals: [(&str, Deed); 4] = [
        ("a page", |shelf| assert_eq!(shelf.remove(b"9", None, 1000), 0)),
        ("a beginning", |shelf| shelf.ban(b"9", 1000)),
        ("everything", DiskShelf::clear),
        ("nothing", |_| {}),
    ];
    for (what, remove) in removals {
        for (is_killed, is_create_failing) in [(false, false), (true, false), (false, true)] {
            let site = Site::new();
            let shelf = site.open();
            assert!(store(&shelf, "9", "a", 1000));
            site.fail(Op::Read, SEGMENT, EIO, u64::MAX);
            while !shelf.is_out() {
                shelf.flush_blocking();
                assert!(store(&shelf, "other", "b", 1000));
                assert_eq!(read(&shelf, "other", 1000), None);
            }
            shelf.flush_blocking();
            if is_create_failing {
                site.fail(Op::Create, "removals-lost", EIO, u64::MAX);
            }
            remove(&shelf);
            shelf.flush_blocking();
            assert!(shelf.is_out());
            site.process.heal();
            if is_killed {
                site.process.kill();
            }
            shelf.stop();
            let site = site.another();
            let shelf = site.open();
            let expected = (what == "nothing").then(|| "a".to_owned());
            assert_eq!(read(&shelf, "9", 1000), expected, "{what}, {is_killed}, {is_create_failing}");
            // And only what was there then.
            assert!(store(&shelf, "9", "c", 1000));
            shelf.stop();
            assert_eq!(read(&site.open(), "9", 1000), Some("c".into()));
        }
    }
}

#[test]
fn what_a_process_before_could_not_remove_is_gone_though_this_one_has_removals_of_its_own() {
    let site = Site::new();
    let shelf = site.open();
    assert!(store(&shelf, "page", "a", 1000));
    shelf.stop();
    site.world.put(Path::new("/shelf/larder.removals-lost"), b"");
    site.fail(Op::Read, "larder.shelf", EIO, u64::MAX);
    let shelf = site.open();
    assert!(shelf.is_out());
    shelf.remove(b"other", None, 1000);
    shelf.flush_blocking();
    site.process.heal();
    tick(&shelf, 1011);
    assert_eq!((shelf.state(), read(&shelf, "page", 1011)), (DiskState::Serving, None));
}

#[test]
fn what_is_purged_at_a_process_that_ends_waiting_clears_the_folder() {
    let purges: [(&str, Deed, bool); 4] = [
        ("a page", |shelf| assert_eq!(shelf.remove(b"/old", None, 1000), 0), true),
        ("a beginning", |shelf| shelf.ban(b"/", 1000), true),
        ("everything", DiskShelf::clear, true),
        ("nothing", |_| {}, false),
    ];
    for (what, purge, is_cleared) in purges {
        for has_holder in [true, false] {
            let site = Site::new();
            let first = site.open();
            assert!(store(&first, "/old", "old", 1000));
            let second = site.another().open();
            assert_eq!(second.state(), DiskState::Waiting);
            // What it made anew itself goes with it, and is no reason.
            assert_eq!(second.store(page("/old", "new"), 1000), Err(Skipped::Out));
            purge(&second);
            second.stop();
            assert_eq!(site.is_clear_asked(), is_cleared, "{what}");
            let shelf = if has_holder {
                tick(&first, 1001);
                // Comes after what the tick asks for.
                first.flush_blocking();
                first
            } else {
                first.stop();
                site.open()
            };
            assert_eq!(read(&shelf, "/old", 1001).is_none(), is_cleared, "{what}, {has_holder}");
            assert!(!site.is_clear_asked());
        }
    }
}

#[test]
fn a_clear_that_a_file_asks_for_takes_what_waits_to_be_written_too() {
    let site = Site::new();
    let ((told, opened), (go_on, may_go_on)) = (mpsc::channel(), mpsc::channel::<()>());
    let (events, may_go_on) = (Arc::clone(&site.events), Mutex::new(may_go_on));
    let shelf = site.open_telling(&site.process, move |event| {
        if matches!(event, DiskEvent::Opened { .. }) {
            told.send(()).expect("the test waits for it");
            may_go_on.lock().unwrap().recv().expect("the test sends it");
        }
        events.lock().unwrap().push(event);
    });
    opened.recv().expect("it says that it is open");
    // What is asked for now waits until its thread goes on: the tick, and behind it pages.
    site.world.put(Path::new(CLEAR_FILE), b"");
    shelf.tick(1001);
    for key in ["a", "b", "c"] {
        shelf.store(page(key, "old"), 1001).expect("there is room");
    }
    go_on.send(()).expect("it waits for that");
    // The first was asked for before the clear, which the tick puts at the end; the second after it.
    for _ in 0..2 {
        assert!(shelf.flush_blocking());
    }
    assert!(!site.is_clear_asked());
    assert!(["a", "b", "c"].iter().all(|key| shelf.find(key.as_bytes(), 1001).is_empty()));
    assert_eq!((shelf.stats().written, shelf.stats().segments), (0, 0), "nothing is written in vain");
    let events = std::mem::take(&mut *site.events.lock().unwrap());
    assert!(
        matches!(&events[..], [DiskEvent::Opened { .. }, DiskEvent::Clearing { .. }, DiskEvent::Cleared { .. }]),
        "{events:?}"
    );
    // What comes after it stays.
    assert!(store(&shelf, "new", "new", 1001));
    shelf.stop();
    let shelf = site.open();
    assert_eq!((shelf.stats().objects, read(&shelf, "new", 1001)), (1, Some("new".into())));
}

#[test]
fn a_disk_that_fails_is_taken_out_whatever_is_in_the_page_cache() {
    let site = Site::new();
    let shelf = site.open();
    for key in ["0", "1", "2", "3", "4", "5", "6", "7", "cached"] {
        assert!(store(&shelf, key, "a", 1000));
    }
    site.fail(Op::Read, SEGMENT, EIO, u64::MAX);
    for key in ["0", "1", "2", "3", "4", "5", "6", "7"] {
        read_cached(&site, &shelf, "cached");
        assert!(!shelf.is_out(), "{key}");
        assert_eq!(read(&shelf, key, 1000), None);
    }
    assert_eq!((shelf.is_out(), site.said()), (true, (1, 0)));
}

#[test]
fn a_disk_that_takes_too_long_is_taken_out_though_it_gives_all_in_the_end() {
    let site = Site::new();
    let shelf = site.open();
    assert!(store(&shelf, "cached", "a", 1000));
    assert!(store(&shelf, "slow", "a", 1000));
    for slow in 1..=8 {
        read_cached(&site, &shelf, "cached");
        assert!(!shelf.is_out(), "{slow}");
        let read_before = shelf.stats().read;
        site.process.hold_reads(true);
        assert_eq!(read_in_vain(&shelf, "slow", 1000), 0);
        // It comes when nobody waits for it any more.
        site.process.hold_reads(false);
        while shelf.stats().read == read_before {
            std::thread::yield_now();
        }
    }
    assert_eq!((shelf.is_out(), shelf.stats().slow_reads, site.said()), (true, 8, (1, 0)));
}

#[test]
fn a_few_bad_sectors_take_no_disk_out() {
    let site = Site::new();
    let shelf = site.open();
    assert!(store(&shelf, "good", "a", 1000));
    for _ in 0..20 {
        assert!(store(&shelf, "bad", "a", 1000));
        site.fail(Op::Read, SEGMENT, EIO, 1);
        assert_eq!(read(&shelf, "bad", 1000), None);
        for _ in 0..10 {
            assert_eq!(read(&shelf, "good", 1000), Some("a".into()));
        }
    }
    assert_eq!((shelf.state(), shelf.stats().read_errors, site.said()), (DiskState::Serving, 20, (0, 0)));
}

/// Reads what is in the page cache, at once and by the threads of the shelf.
fn read_cached(site: &Site, shelf: &DiskShelf, key: &str) {
    site.process.set_in_memory(true);
    for _ in 0..20 {
        let at_once = shelf.read_now(key.as_bytes(), &shelf.find(key.as_bytes(), 1000), usize::MAX);
        assert_eq!(at_once.map(|read| read.len()), Some(1));
        assert_eq!(read(shelf, key, 1000), Some("a".into()));
    }
    site.process.set_in_memory(false);
}

/// Reads what does not come, with a clock that is at the end of the patience at once.
fn read_in_vain(shelf: &DiskShelf, key: &str, now: u64) -> usize {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().expect("a runtime");
    let found = shelf.find(key.as_bytes(), now);
    runtime.block_on(shelf.read(key.as_bytes().into(), found, usize::MAX)).len()
}

#[test]
fn damaged_records_are_misses_and_counted() {
    let site = Site::new();
    let shelf = site.open();
    for key in ["key", "head", "body"] {
        assert!(store(&shelf, key, "the body", 1000));
    }
    shelf.stop();
    let segment = site.world.names().into_iter().find(|name| name.extension().is_some_and(|end| end == "segment"));
    let segment = segment.expect("it was written");
    // Each was flushed, so each begins a block.
    for (block, at) in [(1, 64), (2, 69), (3, 75)] {
        site.world.damage(&segment, block * 4096 + at);
    }
    let shelf = site.open();
    for (number, key) in ["key", "head", "body"].into_iter().enumerate() {
        assert_eq!(shelf.find(key.as_bytes(), 1000).len(), 1);
        assert_eq!(read(&shelf, key, 1000), None, "{key}");
        assert_eq!(shelf.stats().corrupt, number as u64 + 1);
        assert!(shelf.find(key.as_bytes(), 1000).is_empty());
    }
}

#[test]
fn a_damaged_footer_is_made_up_for_by_the_records() {
    let site = Site::new();
    let shelf = site.open();
    for key in ["a", "b", "c"] {
        assert!(store(&shelf, key, "the body", 1000));
    }
    shelf.stop();
    for name in site.world.names() {
        if name.extension().is_some_and(|end| end == "segment") {
            site.world.damage(&name, (1 << 17) - 30);
        }
    }
    let shelf = site.open();
    for key in ["a", "b", "c"] {
        assert_eq!(read(&shelf, key, 1000), Some("the body".into()));
    }
}

#[test]
fn a_folder_that_cannot_be_opened_is_tried_again() {
    let site = Site::new();
    site.fail(Op::Rename, "", EIO, u64::MAX);
    let shelf = site.open();
    assert!(shelf.is_out());
    assert_eq!(site.said(), (1, 0));
    site.process.heal();
    tick(&shelf, 1000);
    assert_eq!((shelf.state(), site.said()), (DiskState::Serving, (1, 1)));
    assert!(store(&shelf, "a", "a", 1000));
}

#[test]
fn more_removals_than_can_be_remembered_clear_the_shelf() {
    let site = Site::new();
    let shelf = site.open();
    assert!(store(&shelf, "kept", "a", 1000));
    site.fail(Op::Write, SEGMENT, EROFS, u64::MAX);
    assert!(!store(&shelf, "lost", "b", 1000));
    assert_eq!(shelf.state(), DiskState::ReadOnly);
    // A clear needs no writing of segments.
    for number in 0..100_001_u64 {
        shelf.remove(&number.to_le_bytes(), None, 1000);
    }
    shelf.flush_blocking();
    assert_eq!(read(&shelf, "kept", 1000), None);
    site.process.heal();
    tick(&shelf, 1011);
    assert!(store(&shelf, "new", "c", 1011));
    assert_eq!((shelf.state(), read(&shelf, "new", 1011)), (DiskState::Serving, Some("c".into())));
    assert_eq!(shelf.stats().objects, 1);
}

#[test]
fn a_shelf_that_is_stopped_takes_nothing() {
    let site = Site::new();
    let shelf = site.open();
    assert!(store(&shelf, "a", "a", 1000));
    shelf.stop();
    shelf.stop();
    assert!(!shelf.flush_blocking());
    assert!(shelf.find(b"a", 1000).is_empty());
    let page = Page {
        key: b"b"[..].into(),
        variant: 0,
        head: Bytes::new(),
        body: PageBody::Memory(Vec::new()),
        expires_at: 2000,
        cost_micros: 0,
        holds: None,
    };
    assert_eq!(shelf.store(page, 1000), Err(Skipped::Out));
    assert_eq!(shelf.remove(b"a", None, 1000), 0);
}

#[test]
fn what_is_removed_right_after_writing_works_again_does_not_come_back_with_the_pages_that_were_carried() {
    let site = Site::new();
    let shelf = site.open();
    let store_long = |key: &str, len| shelf.store(page(key, vec![7; len]), 1000).is_ok() && shelf.flush_blocking();
    let keys: Vec<String> = (0..300).map(|number| format!("page/{number}")).collect();
    assert!(keys.iter().all(|key| store_long(key, 5_000)));
    site.fail(Op::Sync, SEGMENT, EIO, 1);
    site.fail(Op::Create, SEGMENT, EIO, 2);
    assert!(!["first", "second", "third"].iter().any(|key| store_long(key, 10)));
    assert_eq!(shelf.state(), DiskState::ReadOnly);
    site.process.heal();
    // The next segment needs room, and the pages that leave for it were used.
    let bytes_max = Some(shelf.stats().bytes + 20_000);
    shelf.adjust(DiskLimits { bytes_max, free_min: 0, inactive: Duration::from_secs(INACTIVE) });
    shelf.flush_blocking();
    assert!(keys.iter().any(|key| read(&shelf, key, 1000).is_some()));
    let evicted = shelf.stats().evicted;
    tick(&shelf, 1020);
    assert_eq!((shelf.state(), shelf.stats().evicted > evicted), (DiskState::Serving, true));
    keys.iter().for_each(|key| _ = shelf.remove(key.as_bytes(), None, 1020));
    assert!((0..8).all(|number| store_long(&format!("other/{number}"), 20_000)));
    assert!(keys.iter().all(|key| read(&shelf, key, 1020).is_none()));
}

#[test]
fn what_a_disk_reads_and_writes_is_counted_where_it_is_waited_for() {
    let site = Site::new();
    let shelf = site.open();
    shelf.store(page("/a", "x".repeat(3000)), 100).expect("it fits");
    assert!(shelf.flush_blocking() && shelf.stats().write_times.count() > 0, "a batch");
    for (is_in_memory, reads) in [(true, 0), (false, 1)] {
        site.process.set_in_memory(is_in_memory);
        assert!(read(&shelf, "/a", 100).is_some() && shelf.stats().read_times.count() == reads, "{reads}");
    }
    assert!(shelf.stats().read_bytes > 3000);
}
