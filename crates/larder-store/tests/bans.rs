//! Bans and the room they take: their file counts like everything else, and none is lost where there is no room for it.

mod simulated;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use bytes::Bytes;
use larder_store::{DiskEvent, DiskLimits, DiskOptions, DiskShelf, DiskState, Hold, Page, PageBody};
use simulated::{Process, World};

const MB: u64 = 1 << 20;
const BANS: &str = "/shelf/larder.bans";
const NEW_BANS: &str = "/shelf/larder.bans.new";

fn open(process: &Process, free_min: u64) -> DiskShelf {
    open_and_tell(process, free_min, |_| {})
}

fn open_and_tell(process: &Process, free_min: u64, tell: impl Fn(DiskEvent) + Send + Sync + 'static) -> DiskShelf {
    let options = DiskOptions {
        dir: PathBuf::from("/shelf"),
        limits: DiskLimits { bytes_max: Some(MB), free_min, inactive: Duration::from_secs(100_000) },
        queue_bytes: 64 << 20,
        events: Arc::new(tell),
    };
    let shelf = DiskShelf::with_files(options, Arc::new(process.clone()));
    shelf.flush_blocking();
    shelf
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
fn bans_count_and_where_they_would_take_too_much_the_shelf_is_cleared() {
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
    assert!(!is_there(&shelf, "/page/0"), "cleared on the way");
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
