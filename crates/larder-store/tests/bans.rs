//! Bans and the room they take: their file counts like everything else, and none is lost where there is no room for it.

mod simulated;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use larder_store::{
    DiskEvent, DiskLimits, DiskOptions, DiskShelf, DiskState, Hold, Judge, NotKept, Page, PageBody, Stored, WordedBan,
};
use simulated::{Process, Random, World};

const MB: u64 = 1 << 20;
const BANS: &str = "/shelf/larder.bans";
const NEW_BANS: &str = "/shelf/larder.bans.new";

fn open(process: &Process, free_min: u64) -> DiskShelf {
    open_and_tell(process, free_min, |_| {})
}

fn open_and_tell(process: &Process, free_min: u64, tell: impl Fn(DiskEvent) + Send + Sync + 'static) -> DiskShelf {
    let options = DiskOptions {
        dir: PathBuf::from("/shelf"),
        limits: DiskLimits { free_min, ..limits(MB) },
        queue_bytes: 64 << 20,
        events: Arc::new(tell),
    };
    let shelf = DiskShelf::with_files(options, Arc::new(process.clone()));
    shelf.flush_blocking();
    shelf
}

fn limits(bytes_max: u64) -> DiskLimits {
    DiskLimits { bytes_max: Some(bytes_max), free_min: 0, inactive: Duration::from_secs(100_000) }
}

fn page(key: &str, len: usize) -> Page {
    Page {
        key: key.as_bytes().into(),
        variant: 0,
        head: Bytes::from_static(b"head"),
        body: PageBody::Memory(vec![vec![7; len].into()]),
        expires_at: u64::MAX,
        cost_micros: 0,
        holds: None,
    }
}

fn store(shelf: &DiskShelf, key: &str, len: usize) {
    shelf.store(page(key, len), 1000).expect("the queue is long");
    assert!(shelf.flush_blocking(), "{key}");
}

/// Stores pages of 20 KB until some had to leave; gives the number of the last.
fn fill(shelf: &DiskShelf) -> usize {
    let last = (0..1000).find(|number| {
        store(shelf, &format!("/page/{number}"), 20_000);
        shelf.stats().evicted > 0
    });
    last.expect("there is a limit")
}

fn is_there(shelf: &DiskShelf, key: &str) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let found = shelf.find(key.as_bytes(), 1000);
    !runtime.block_on(shelf.read(key.as_bytes().into(), found, usize::MAX)).is_empty()
}

fn has(world: &World, path: &str) -> bool {
    world.names().iter().any(|name| name == Path::new(path))
}

#[test]
fn bans_count_and_where_they_would_take_too_much_the_oldest_go_with_the_pages_before_them() {
    let world = World::new(MB);
    let shelf = open(&world.process(), 0);
    fill(&shelf);
    let mut longest = 0;
    for number in 0..60 {
        let prefix = format!("/{number:02}{}", "x".repeat(12_000));
        store(&shelf, &format!("{prefix}/page"), 100);
        shelf.ban(prefix.as_bytes(), 1000);
        assert!(shelf.flush_blocking(), "{number}");
        assert!(!is_there(&shelf, &format!("{prefix}/page")), "{number}");
        assert_eq!(world.overruns.load(Ordering::SeqCst), 0, "{number}");
        assert!(shelf.stats().bytes + 4096 >= world.used(), "{number}: {}, {}", shelf.stats().bytes, world.used());
        longest = longest.max(world.len(Path::new(BANS)).unwrap_or(0));
    }
    assert!((MB / 8 - 12_100..=MB / 8).contains(&longest), "{longest}");
    assert!(!is_there(&shelf, "/page/0"), "it was before the oldest");
}

#[test]
fn a_purge_by_a_beginning_finds_room_in_a_list_full_of_bans_in_words_and_costs_the_oldest_pages_alone() {
    let world = World::new(MB);
    let shelf = open(&world.process(), 0);
    store(&shelf, "/first", 100);
    // The list has 128 KB.
    for number in 0..12 {
        ban_worded(&shelf, 1 + number, &format!("{number:02}{}", "x".repeat(10_000)));
        store(&shelf, &format!("/{number}"), 100);
    }
    assert!(is_there(&shelf, "/first"));
    shelf.ban(format!("/0{}", "y".repeat(12_000)).as_bytes(), 1000);
    shelf.ban(b"/11", 1000);
    assert!(shelf.flush_blocking());
    let there: Vec<bool> = ["/first", "/1", "/10", "/11"].iter().map(|key| is_there(&shelf, key)).collect();
    assert_eq!(there, [false, true, true, false]);
    assert!(world.len(Path::new(BANS)).is_some_and(|bytes| bytes <= MB / 8));
}

#[test]
fn the_oldest_segments_make_room_for_a_ban() {
    let world = World::new(MB);
    let shelf = open(&world.process(), 0);
    let mut last = fill(&shelf);
    for number in 0..20 {
        // Each in turn meets the shelf with another room left.
        last += 1;
        store(&shelf, &format!("/page/{last}"), 20_000);
        shelf.ban(format!("/other/{number}{}", "x".repeat(5000)).as_bytes(), 1000);
        assert!(shelf.flush_blocking(), "{number}");
        assert!(is_there(&shelf, &format!("/page/{last}")), "{number}");
        assert_eq!(world.overruns.load(Ordering::SeqCst), 0, "{number}");
    }
    shelf.ban(format!("/page/{last}").as_bytes(), 1000);
    assert!(shelf.flush_blocking());
    shelf.stop();
    let shelf = open(&world.process(), 0);
    assert!(!is_there(&shelf, &format!("/page/{last}")));
    assert!(is_there(&shelf, &format!("/page/{}", last - 1)));
}

/// A shelf with pages under `/a` and `/b`, and a ban of `/a` for which its file system has no room.
fn with_a_ban_without_room(world: &World, process: &Process) -> DiskShelf {
    let shelf = open(process, 65_536);
    store(&shelf, "/a", 100);
    store(&shelf, "/b", 100);
    // Others have taken the rest of the file system.
    world.total.store(world.used() + 65_536, Ordering::SeqCst);
    shelf.ban(b"/a", 1000);
    assert!(!shelf.flush_blocking(), "it is not durable");
    shelf
}

#[test]
fn a_ban_for_which_there_is_no_room_holds_all_the_same() {
    let world = World::new(MB);
    let process = world.process();
    let shelf = with_a_ban_without_room(&world, &process);
    assert!(!is_there(&shelf, "/a") && is_there(&shelf, "/b"));
    process.kill();
    shelf.stop();
    let process = world.process();
    let shelf = open(&process, 0);
    assert_eq!((shelf.state(), is_there(&shelf, "/a")), (DiskState::Serving, false));
}

#[test]
fn a_ban_without_room_is_noted_when_there_is_some() {
    let world = World::new(MB);
    let process = world.process();
    let shelf = with_a_ban_without_room(&world, &process);
    world.total.store(1 << 40, Ordering::SeqCst);
    shelf.tick(1001);
    assert!(shelf.flush_blocking() && has(&world, BANS));
    process.kill();
    shelf.stop();
    let shelf = open(&world.process(), 65_536);
    assert_eq!((is_there(&shelf, "/a"), is_there(&shelf, "/b")), (false, true));
}

#[test]
fn bans_that_come_together_are_written_once() {
    let world = World::new(MB);
    let process = world.process();
    let shelf = open(&process, 0);
    for number in 0..100 {
        store(&shelf, &format!("/{number:02}"), 100);
    }
    let let_go = hold(&shelf);
    let renames = process.renames();
    for number in 0..99 {
        shelf.ban(format!("/{number:02}").as_bytes(), 1000);
    }
    let_go.send(()).expect("the writer waits");
    assert!(shelf.flush_blocking());
    assert_eq!(process.renames() - renames, 1);
    process.kill();
    shelf.stop();
    let shelf = open(&world.process(), 0);
    for number in 0..100 {
        assert_eq!(is_there(&shelf, &format!("/{number:02}")), number == 99, "{number}");
    }
}

#[test]
fn bans_that_come_together_and_do_not_fit_clear_the_shelf_once() {
    let world = World::new(MB);
    let process = world.process();
    let (told, events) = channel();
    let shelf = open_and_tell(&process, 0, move |event| drop(told.send(event)));
    store(&shelf, "/a", 100);
    let let_go = hold(&shelf);
    for number in 0..100 {
        shelf.ban(format!("/{number:02}{}", "x".repeat(12_000)).as_bytes(), 1000);
    }
    let_go.send(()).expect("the writer waits");
    assert!(shelf.flush_blocking());
    let is_cleared = |event: &DiskEvent| matches!(event, DiskEvent::Cleared { .. });
    assert_eq!(events.try_iter().filter(is_cleared).count(), 1);
    store(&shelf, "/b", 100);
    assert_eq!((is_there(&shelf, "/a"), is_there(&shelf, "/b")), (false, true));
}

/// Keeps the writer where it is until it is told to go on.
fn hold(shelf: &DiskShelf) -> Sender<()> {
    let (let_go, held) = channel();
    let (told, is_held) = channel();
    let holds: Option<Box<dyn Hold>> = Some(Box::new(Held(told, held)));
    shelf.store(Page { holds, ..page("/held", 100) }, 1000).expect("the queue is long");
    is_held.recv().expect("it is written soon");
    let_go
}

/// The writer drops it when it has written the page.
struct Held(Sender<()>, Receiver<()>);

impl Hold for Held {}

impl Drop for Held {
    fn drop(&mut self) {
        // When the test is over, there is nobody to tell and nothing to wait for.
        let _ = self.0.send(());
        let _ = self.1.recv();
    }
}

#[test]
fn what_a_killed_process_left_of_bans_is_taken_away() {
    let world = World::new(MB);
    let shelf = open(&world.process(), 0);
    store(&shelf, "/a", 100);
    shelf.stop();
    world.put(Path::new(NEW_BANS), &[7; 5000]);
    let shelf = open(&world.process(), 0);
    assert!(!has(&world, NEW_BANS) && is_there(&shelf, "/a"));
}

/// The number of the first ban in words since a page was written: `Some(None)` if there is none, `None` without a page.
fn first_ban(shelf: &DiskShelf, key: &str) -> Option<Option<u64>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let found = shelf.find(key.as_bytes(), 1000);
    let read = runtime.block_on(shelf.read(key.as_bytes().into(), found, usize::MAX));
    read.first().map(|stored| stored.first_ban)
}

fn ban_worded(shelf: &DiskShelf, number: u64, words: &str) {
    shelf.ban_worded(WordedBan { number, made_at: 5, words: words.into() }, true);
}

/// Numbers the bans that the disk had.
fn take_over(shelf: &DiskShelf) -> Vec<String> {
    let (mut number, mut words) = (1000, Vec::new());
    shelf.belong_to(1, Weak::<Told>::new());
    shelf.number_bans(1, |ban| {
        words.push(ban.words.to_string());
        number -= 1;
        number
    });
    words
}

/// Says what it was told to say.
struct Told(AtomicBool);

impl Judge for Told {
    fn is_banned(&self, _: &[u8], _: &[u8], _: u64) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

#[test]
fn bans_in_words_outlive_a_stop_and_a_kill_and_know_what_was_before_them() {
    for is_killed in [false, true] {
        let world = World::new(MB);
        let process = world.process();
        let shelf = open(&process, 0);
        shelf.belong_to(1, Weak::<Told>::new());
        store(&shelf, "/before", 100);
        // This one waits in the queue.
        shelf.store(page("/waits", 100), 1000).expect("the queue is long");
        ban_worded(&shelf, 7, "first");
        store(&shelf, "/between", 100);
        ban_worded(&shelf, 8, "second");
        store(&shelf, "/after", 100);
        let keys = ["/before", "/waits", "/between", "/after"];
        assert_eq!(keys.map(|key| first_ban(&shelf, key)), [Some(7), Some(7), Some(8), None].map(Some));
        if is_killed {
            process.kill();
        }
        shelf.stop();
        let shelf = open(&world.process(), 0);
        assert_eq!(take_over(&shelf), ["second", "first"], "{is_killed}");
        assert_eq!(keys.map(|key| first_ban(&shelf, key)), [Some(998), Some(998), Some(999), None].map(Some));
    }
}

#[test]
fn a_ban_in_words_without_room_holds_all_the_same() {
    for has_room_later in [false, true] {
        let world = World::new(MB);
        let process = world.process();
        let shelf = open(&process, 65_536);
        store(&shelf, "/a", 100);
        world.total.store(world.used() + 65_536, Ordering::SeqCst);
        ban_worded(&shelf, 7, "first");
        assert!(!shelf.flush_blocking(), "it is not durable");
        assert_eq!(first_ban(&shelf, "/a"), Some(Some(7)));
        if has_room_later {
            world.total.store(1 << 40, Ordering::SeqCst);
            shelf.tick(1001);
            assert!(shelf.flush_blocking() && has(&world, BANS));
        }
        process.kill();
        shelf.stop();
        let shelf = open(&world.process(), 0);
        // Where the ban is not known any more, the page is not there either.
        let expected: (Vec<String>, _) = match has_room_later {
            false => (Vec::new(), None),
            true => (vec!["first".to_owned()], Some(Some(999))),
        };
        assert_eq!((take_over(&shelf), first_ban(&shelf, "/a")), expected);
    }
}

#[test]
fn a_page_that_was_not_tested_by_a_ban_is_not_written_behind_it() {
    let world = World::new(MB);
    let shelf = open(&world.process(), 0);
    for (tested, expected) in [(6, false), (7, true)] {
        store(&shelf, "/a", 100);
        ban_worded(&shelf, 7, "first");
        let holds: Option<Box<dyn Hold>> = Some(Box::new(TestedBy(AtomicU64::new(tested))));
        shelf.store(Page { holds, ..page("/a", 200) }, 1000).expect("the queue is long");
        shelf.flush_blocking();
        // The older page is out of date all the same.
        assert_eq!(first_ban(&shelf, "/a"), expected.then_some(None), "{tested}");
    }
}

struct TestedBy(AtomicU64);

impl Hold for TestedBy {
    fn tested(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

#[test]
fn used_pages_are_carried_past_a_ban_if_it_does_not_mean_them() {
    for (is_banned, expected) in [(false, Some(None)), (true, None)] {
        let world = World::new(MB);
        let shelf = open(&world.process(), 0);
        let judge = Arc::new(Told(AtomicBool::new(is_banned)));
        let weak: Weak<dyn Judge> = Arc::downgrade(&judge) as Weak<dyn Judge>;
        shelf.belong_to(1, weak);
        store(&shelf, "/used", 100);
        ban_worded(&shelf, 7, "first");
        assert_eq!(first_ban(&shelf, "/used"), Some(Some(7)));
        fill(&shelf);
        assert!(shelf.stats().reinserted > 0 || is_banned);
        assert_eq!(first_ban(&shelf, "/used"), expected);
        // All that was before the ban has left.
        shelf.tick(1001);
        assert!(shelf.flush_blocking() && !has(&world, BANS));
        assert_eq!(shelf.first_ban(), None);
    }
}

#[test]
fn a_ban_that_becomes_a_clear_is_kept_when_that_is_done() {
    let world = World::new(MB);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let shelf = open(&world.process(), 0);
    // Another process, which waits for the folder.
    let waits = open(&world.process(), 0);
    assert_eq!((shelf.state(), waits.state()), (DiskState::Serving, DiskState::Waiting));
    let too_long = "x".repeat(MB as usize);
    ban_worded(&shelf, 7, &too_long);
    assert_eq!(runtime.block_on(shelf.bans_kept()), Ok(()));
    ban_worded(&waits, 7, &too_long);
    let kept = waits.bans_kept();
    shelf.stop();
    assert_eq!(runtime.block_on(kept), Ok(()));
    assert_eq!(waits.state(), DiskState::Serving);
}

#[test]
fn who_bans_is_told_what_stands_in_the_way_and_the_next_ban_brings_what_was_missed() {
    let world = World::new(MB);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let process = world.process();
    let (told, events) = channel();
    let shelf = open_and_tell(&process, 65_536, move |event| drop(told.send(event)));
    store(&shelf, "/a", 100);
    world.total.store(world.used() + 65_536, Ordering::SeqCst);
    ban_worded(&shelf, 7, "first");
    let fault = runtime.block_on(shelf.bans_kept()).expect_err("there is no room");
    let is_noted = has(&world, "/shelf/larder.removals-lost");
    assert!(is_noted && matches!(&fault, NotKept::Failed { file, is_noted: true, .. } if file == Path::new(BANS)));
    assert!(fault.to_string().starts_with("/shelf/larder.bans cannot be written ("), "{fault}");
    world.total.store(1 << 40, Ordering::SeqCst);
    ban_worded(&shelf, 8, "second");
    assert_eq!(runtime.block_on(shelf.bans_kept()), Ok(()));
    assert!(!has(&world, "/shelf/larder.removals-lost"));
    let said: Vec<_> = events.try_iter().filter(|event| !matches!(event, DiskEvent::Opened { .. })).collect();
    assert!(matches!(&said[..], [DiskEvent::Degraded(_), DiskEvent::Recovered { .. }]), "{said:?}");
    process.kill();
    shelf.stop();
    let shelf = open(&world.process(), 0);
    assert_eq!(take_over(&shelf), ["second", "first"]);
    assert_eq!(first_ban(&shelf, "/a"), Some(Some(998)));
}

#[test]
fn who_bans_waits_for_the_process_that_leaves_the_folder_and_is_told_if_its_own_ends_first() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    for is_left in [true, false] {
        let world = World::new(MB);
        let before = open(&world.process(), 0);
        store(&before, "/a", 100);
        let process = world.process();
        let shelf = open(&process, 0);
        assert_eq!(shelf.state(), DiskState::Waiting);
        ban_worded(&shelf, 7, "first");
        let kept = shelf.bans_kept();
        if is_left {
            before.stop();
            assert_eq!(runtime.block_on(kept), Ok(()));
            process.kill();
            shelf.stop();
            let shelf = open(&world.process(), 0);
            assert_eq!((take_over(&shelf), first_ban(&shelf, "/a")), (vec!["first".to_owned()], Some(Some(999))));
        } else {
            shelf.stop();
            assert_eq!(runtime.block_on(kept), Err(NotKept::Stopped("/shelf".into())));
            // The other process is asked to drop what this one has banned.
            assert!(has(&world, "/shelf/larder.clear"));
        }
    }
}

/// What is found under a key now, and read only when `then` is over.
fn read_after(shelf: &DiskShelf, key: &str, then: impl FnOnce()) -> Vec<Stored> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let found = shelf.find(key.as_bytes(), 1000);
    assert_eq!(found.len(), 1, "{key}");
    then();
    runtime.block_on(shelf.read(key.as_bytes().into(), found, usize::MAX))
}

#[test]
fn a_banned_page_that_was_found_is_not_read_after_its_ban_was_forgotten() {
    let ban_of_a: [fn(&DiskShelf); 2] = [|shelf| shelf.ban(b"/a", 1000), |shelf| ban_worded(shelf, 7, "first")];
    let forgets: [fn(&World, &DiskShelf); 3] = [
        |_, shelf| {
            fill(shelf);
            shelf.tick(1001);
        },
        |_, shelf| shelf.clear(),
        |world, shelf| {
            world.remove_all();
            shelf.tick(1001);
        },
    ];
    for (ban, forget) in ban_of_a.iter().flat_map(|ban| forgets.iter().map(move |forget| (ban, forget))) {
        let world = World::new(MB);
        let shelf = open(&world.process(), 0);
        let judge = Arc::new(Told(AtomicBool::new(true)));
        let weak: Weak<dyn Judge> = Arc::downgrade(&judge) as Weak<dyn Judge>;
        shelf.belong_to(1, weak);
        store(&shelf, "/a", 100);
        ban(&shelf);
        assert!(shelf.flush_blocking() && has(&world, BANS));
        let read = read_after(&shelf, "/a", || {
            forget(&world, &shelf);
            shelf.flush_blocking();
            assert!(!has(&world, BANS), "it is forgotten");
        });
        assert!(read.is_empty(), "{:?}", read[0].first_ban);
    }
}

/// A process stops at each of its operations in turn, and the power goes.
#[test]
fn a_ban_is_not_forgotten_before_it_is_sure_that_what_it_bans_has_left() {
    let mut has_forgotten = false;
    for (kill_at, seed) in (0..24).flat_map(|kill_at| (0..12).map(move |seed| (kill_at, seed))) {
        let world = World::new(MB);
        let shelf = open(&world.process(), 0);
        store(&shelf, "/a", 100);
        shelf.ban(b"/a", 1000);
        for number in 0.. {
            store(&shelf, &format!("/page/{number}"), 20_000);
            if world.segments() == 3 {
                break;
            }
        }
        shelf.stop();
        drop(shelf);
        assert!(has(&world, BANS));
        let process = world.process();
        process.kill_at(kill_at);
        let shelf = open(&process, 0);
        // The first segment leaves, and with it the ban.
        shelf.adjust(limits(world.used() - 4096));
        shelf.flush_blocking();
        has_forgotten |= !has(&world, BANS);
        process.kill();
        shelf.stop();
        drop(shelf);
        world.cut_power(&mut Random::new(seed));
        let shelf = open(&world.process(), 0);
        assert!(!is_there(&shelf, "/a"), "killed at {kill_at}, seed {seed}");
        shelf.stop();
    }
    assert!(has_forgotten);
}
