//! What a disk shelf does, on the file system of this machine.

mod real;
mod simulated;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use larder_store::{
    DiskBody, DiskEvent, DiskLimits, DiskOptions, DiskShelf, DiskState, Found, Hold, Inspect, KeySet, Page, PageBody,
    Ready, Skipped, Stored, StoredBody,
};
use real::{MB, Site, body_of, bytes, du, page, read, wait};
use tempfile::TempDir;

#[test]
fn a_page_is_found_as_it_was_stored_also_after_a_restart() {
    let site = Site::new(64 * MB);
    let shelf = site.open();
    for (number, len) in [0, 1, 100, 4096, 70_000, 262_144, 262_145, 3_000_000].into_iter().enumerate() {
        shelf.store(page(&format!("key {number}"), 3, bytes(len, number as u64)), 1000).expect("there is room");
    }
    assert!(shelf.flush_blocking());
    for restarted in [false, true] {
        let shelf = if restarted {
            shelf.stop();
            site.open()
        } else {
            shelf.clone()
        };
        for (number, len) in [0, 1, 100, 4096, 70_000, 262_144, 262_145, 3_000_000].into_iter().enumerate() {
            let key = format!("key {number}");
            let stored = read(&shelf, &key, 1001);
            assert_eq!(stored.len(), 1, "{key}, restarted: {restarted}");
            assert_eq!(body_of(&stored[0]), &bytes(len, number as u64), "{key}");
            assert_eq!(stored[0].head, format!("head of {key}"));
            let Stored { stored_at, expires_at, cost_micros, variant, .. } = stored[0];
            assert_eq!((stored_at, expires_at, cost_micros, variant), (1000, 1_000_000, 77, 3));
        }
        assert!(shelf.find(b"another key", 1001).is_empty());
    }
}

#[test]
fn a_page_is_found_after_a_crash() {
    let site = Site::new(16 * MB);
    let shelf = site.open();
    shelf.store(page("a", 0, bytes(1000, 1)), 1000).expect("there is room");
    shelf.store(page("b", 0, bytes(500_000, 2)), 1000).expect("there is room");
    shelf.remove(b"a", None, 1000);
    shelf.store(page("c", 0, bytes(1000, 3)), 1000).expect("there is room");
    assert!(shelf.flush_blocking());
    let copy = TempDir::new().expect("a folder");
    for entry in std::fs::read_dir(site.dir.path()).expect("the folder is there").flatten() {
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).expect("it is copied");
    }
    drop(shelf);
    let crashed = Site { dir: copy, events: Arc::default(), limits: site.limits };
    for _ in 0..2 {
        let shelf = crashed.open();
        assert_eq!(shelf.stats().objects, 2);
        assert!(read(&shelf, "a", 1001).is_empty());
        assert_eq!(body_of(&read(&shelf, "b", 1001)[0]), &bytes(500_000, 2));
        assert_eq!(body_of(&read(&shelf, "c", 1001)[0]), &bytes(1000, 3));
        shelf.stop();
    }
}

#[test]
fn the_newest_variant_comes_first_and_a_newer_page_takes_the_place_of_an_older() {
    let site = Site::new(16 * MB);
    let shelf = site.open();
    for (variant, body) in [(1, "one"), (2, "two"), (3, "three"), (2, "two again")] {
        shelf.store(page("key", variant, body), 1000).expect("there is room");
    }
    assert!(shelf.flush_blocking());
    let stored = read(&shelf, "key", 1001);
    let seen: Vec<_> = stored.iter().map(|stored| (stored.variant, body_of(stored).clone())).collect();
    assert_eq!(seen, [(2, "two again".into()), (3, "three".into()), (1, "one".into())]);
}

#[test]
fn what_is_removed_is_gone_at_once_and_for_good() {
    let site = Site::new(16 * MB);
    let shelf = site.open();
    for variant in 0..3 {
        shelf.store(page("a", variant, "old"), 1000).expect("there is room");
        shelf.store(page("b", variant, "old"), 1000).expect("there is room");
    }
    assert!(shelf.flush_blocking());
    // In the queue, not written: removed as well.
    shelf.store(page("a", 4, "queued"), 1000).expect("there is room");
    shelf.remove(b"a", None, 1000);
    assert_eq!(shelf.remove(b"b", Some(1), 1000), 1);
    assert!(shelf.find(b"a", 1000).is_empty());
    assert_eq!(shelf.find(b"b", 1000).len(), 2);
    shelf.store(page("a", 5, "new"), 1000).expect("there is room");
    assert!(shelf.flush_blocking());
    shelf.stop();
    let shelf = site.open();
    let variants = |key| read(&shelf, key, 1001).iter().map(|stored| stored.variant).collect::<Vec<_>>();
    assert_eq!(variants("a"), [5]);
    let mut left = variants("b");
    left.sort_unstable();
    assert_eq!(left, [0, 2]);
}

#[test]
fn max_size_holds_at_every_moment_and_the_oldest_leave() {
    let site = Site::new(2 * MB);
    let shelf = site.open();
    let mut most = 0;
    for number in 0..600_u64 {
        shelf.store(page(&format!("key {number}"), 0, bytes(20_000, number)), 1000).expect("the queue is long");
        if number % 5 == 0 {
            shelf.flush_blocking();
        }
        most = most.max(du(site.dir.path()));
        assert!(most <= 2 * MB, "{most}");
    }
    assert!(shelf.flush_blocking());
    let stats = shelf.stats();
    assert!(most > MB, "{most}");
    assert!(stats.evicted > 400, "{stats:?}");
    assert!(read(&shelf, "key 0", 1001).is_empty());
    assert_eq!(body_of(&read(&shelf, "key 599", 1001)[0]), &bytes(20_000, 599));
}

#[test]
fn a_page_that_is_used_stays_while_others_leave() {
    let site = Site::new(2 * MB);
    let shelf = site.open();
    shelf.store(page("small", 0, bytes(5000, 1)), 1000).expect("the queue is long");
    shelf.store(page("renewed", 0, bytes(30_000, 2)), 1000).expect("the queue is long");
    assert!(shelf.flush_blocking());
    // Its head is in another segment than its body.
    for number in 0..10_u64 {
        shelf.store(page(&format!("between {number}"), 0, bytes(20_000, number)), 1000).expect("the queue is long");
    }
    let found = shelf.find(b"renewed", 1000);
    let stored = wait(shelf.read(b"renewed"[..].into(), found, 0)).remove(0);
    let StoredBody::Disk(body) = stored.body else { panic!("it is long") };
    shelf.store(Page { body: PageBody::Disk(body), ..page("renewed", 0, "") }, 1000).expect("the queue is long");
    assert!(shelf.flush_blocking());
    for number in 0..600_u64 {
        for key in ["small", "renewed"] {
            assert!(!shelf.find(key.as_bytes(), 1000).is_empty(), "{key} after {number}");
        }
        shelf.store(page(&format!("key {number}"), 0, bytes(20_000, number)), 1000).expect("the queue is long");
        assert!(shelf.flush_blocking());
    }
    assert!(shelf.stats().reinserted > 0);
    assert_eq!(body_of(&read(&shelf, "small", 1001)[0]), &bytes(5000, 1));
    assert_eq!(body_of(&read(&shelf, "renewed", 1001)[0]), &bytes(30_000, 2));
}

#[test]
fn a_long_body_is_sent_from_the_file() {
    let site = Site::new(64 * MB);
    let shelf = site.open();
    let whole = bytes(1_000_000, 9);
    shelf.store(page("big", 0, whole.clone()), 1000).expect("there is room");
    assert!(shelf.flush_blocking());
    let found = shelf.find(b"big", 1000);
    // The head alone is asked for.
    let stored = wait(shelf.read(b"big"[..].into(), found, 0)).remove(0);
    let StoredBody::Disk(body) = stored.body else { panic!("it is long") };
    assert_eq!(body.len(), 1_000_000);
    let pinned = body.pin().expect("it is here");
    assert!(matches!(pinned.ready(0, 1000), Ready::Cold), "nobody has verified it");
    let (mut sent, mut at) = (Vec::new(), 0);
    while at < pinned.len() {
        match pinned.ready(at, 100_000) {
            Ready::Cold => drop(wait(pinned.warm(at)).expect("it is right")),
            Ready::File { file, offset, len } => {
                let mut part = vec![0; len];
                std::os::unix::fs::FileExt::read_exact_at(&*file, &mut part, offset).expect("it is there");
                sent.extend(part);
                at += len as u64;
            }
            Ready::End => panic!("it ends at {at}"),
        }
    }
    assert!(matches!(pinned.ready(at, 1), Ready::End));
    assert_eq!(sent, whole);
    // The same body under a new head takes no room of its own.
    let written = shelf.stats().written;
    let head = Page { body: PageBody::Disk(body.clone()), head: "fresh".into(), ..page("big", 0, "") };
    shelf.store(head, 2000).expect("there is room");
    assert!(shelf.flush_blocking());
    assert!(shelf.stats().written - written < 10_000);
    let again = read(&shelf, "big", 2000).remove(0);
    assert_eq!((again.head.as_ref(), body_of(&again)), (&b"fresh"[..], &whole));
    shelf.clear();
    assert!(shelf.flush_blocking());
    assert!(!body.is_here());
    assert!(shelf.stats().lingering > 0 || shelf.stats().bytes > 0, "it is pinned and counts");
    drop((pinned, again));
    assert!(body.pin().is_none());
    assert_eq!(shelf.stats().bytes, 0);
}

#[test]
fn a_body_is_stored_from_a_memory_file_and_from_slices() {
    let site = Site::new(64 * MB);
    let shelf = site.open();
    let whole = bytes(700_000, 4);
    let mut file = tempfile::tempfile().expect("a file");
    std::io::Write::write_all(&mut file, &[b"skipped", &whole[..]].concat()).expect("it is written");
    let body = PageBody::File { file: Arc::new(file), offset: 7, len: 700_000 };
    shelf.store(Page { body, ..page("file", 0, "") }, 1000).expect("there is room");
    let (told, spans) = std::sync::mpsc::channel();
    for part in whole.chunks(shelf.slice_bytes()) {
        let told = told.clone();
        let done = Box::new(move |span| told.send(span).expect("the test listens"));
        shelf.store_slice(vec![Bytes::copy_from_slice(part)], done).expect("there is room");
    }
    assert!(shelf.flush_blocking());
    let spans = spans.try_iter().map(|span| span.expect("it is written")).collect();
    let body = DiskBody::new(&shelf, spans);
    assert_eq!((body.len(), body.is_here()), (700_000, true));
    shelf.store(Page { body: PageBody::Disk(body), ..page("slices", 0, "") }, 1000).expect("there is room");
    assert!(shelf.flush_blocking());
    for key in ["file", "slices"] {
        assert_eq!(body_of(&read(&shelf, key, 1000)[0]), &whole, "{key}");
    }
}

#[test]
fn a_read_without_waiting_takes_only_what_is_in_memory() {
    let site = Site::new(64 * MB);
    let shelf = site.open();
    shelf.store(page("key", 0, bytes(50_000, 1)), 1000).expect("there is room");
    assert!(shelf.flush_blocking());
    let found = shelf.find(b"key", 1000);
    // Warmed by the first, whatever the file system did before.
    assert_eq!(read(&shelf, "key", 1000).len(), 1);
    let stored = shelf.read_now(b"key", &found, usize::MAX).expect("it is in the page cache");
    assert_eq!(body_of(&stored[0]), &bytes(50_000, 1));
    assert!(shelf.read_now(b"none", &shelf.find(b"none", 1000), 1000).expect("nothing to wait for").is_empty());
    let other: Found = shelf.find(b"key", 1000);
    assert!(shelf.read_now(b"another", &other, 1000).expect("it is in memory").is_empty(), "the key is compared");
}

#[test]
fn pages_expire_and_go_when_they_are_not_used() {
    let site = Site::new(16 * MB);
    let shelf = site.open();
    shelf.store(Page { expires_at: 2000, ..page("short", 0, "body") }, 1000).expect("there is room");
    shelf.store(page("long", 0, "body"), 1000).expect("there is room");
    assert!(shelf.flush_blocking());
    assert_eq!(read(&shelf, "short", 1999).len(), 1);
    assert_eq!(read(&shelf, "short", 2000).len(), 0);
    assert_eq!(read(&shelf, "long", 2600).len(), 1);
    assert_eq!(shelf.find(b"long", 4200).len(), 1, "used 1600 s ago");
    assert!(shelf.find(b"long", 6000).is_empty(), "not used for 1800 s");
    for _ in 0..3 {
        shelf.tick(6001);
        shelf.flush_blocking();
    }
    assert_eq!((shelf.stats().segments, shelf.stats().objects), (0, 0));
}

#[test]
fn a_clear_takes_everything_also_when_a_file_asks_for_it() {
    let site = Site::new(16 * MB);
    let shelf = site.open();
    for round in 0..2 {
        shelf.store(page("key", 0, "body"), 1000).expect("there is room");
        assert!(shelf.flush_blocking());
        assert_eq!(read(&shelf, "key", 1000).len(), 1);
        if round == 0 {
            shelf.clear();
            assert!(shelf.find(b"key", 1000).is_empty());
        } else {
            std::fs::write(site.dir.path().join("larder.clear"), "").expect("it is written");
            shelf.tick(1001);
            // The clear that it asks for comes after what waits.
            assert!(shelf.flush_blocking());
        }
        assert!(shelf.flush_blocking());
        assert!(shelf.find(b"key", 1000).is_empty());
        assert_eq!((shelf.stats().segments, shelf.stats().bytes), (0, 0));
        assert!(!site.dir.path().join("larder.clear").exists());
    }
    let cleared = |event: &&DiskEvent| matches!(event, DiskEvent::Cleared { .. });
    assert_eq!(site.events.lock().unwrap().iter().filter(cleared).count(), 2);
}

#[test]
fn a_ban_takes_what_was_stored_before_it_also_after_a_restart() {
    let site = Site::new(16 * MB);
    let shelf = site.open();
    let count = |shelf: &DiskShelf, key: &str| read(shelf, key, 1000).len();
    for key in ["/a/1", "/a/2", "/b"] {
        shelf.store(page(key, 0, "before"), 1000).expect("there is room");
    }
    // Also what waits to be written.
    shelf.ban(b"/a/", 1000);
    assert!(shelf.flush_blocking());
    shelf.store(page("/a/2", 0, "after"), 1000).expect("there is room");
    assert!(shelf.flush_blocking());
    let holds = |shelf: &DiskShelf| {
        assert_eq!((count(shelf, "/a/1"), count(shelf, "/b")), (0, 1));
        assert_eq!(body_of(&read(shelf, "/a/2", 1000)[0]), &Bytes::from("after"));
    };
    holds(&shelf);
    let seen = Inspect::open(site.dir.path()).expect("it is a shelf");
    let mut live = Vec::new();
    seen.records(|record| live.extend(record.live.then(|| record.key.to_vec()))).expect("it can be read");
    live.sort();
    assert_eq!(live, [b"/a/2".to_vec(), b"/b".to_vec()]);
    shelf.stop();
    let shelf = site.open();
    holds(&shelf);
    shelf.clear();
    assert!(shelf.flush_blocking());
    assert!(!site.dir.path().join("larder.bans").exists());
    shelf.store(page("/a/1", 0, "new"), 1000).expect("there is room");
    assert!(shelf.flush_blocking());
    assert_eq!(count(&shelf, "/a/1"), 1);
}

#[test]
fn bans_that_cannot_be_read_clear_the_shelf() {
    let site = Site::new(16 * MB);
    let shelf = site.open();
    shelf.store(page("/a", 0, "body"), 1000).expect("there is room");
    shelf.store(page("/b", 0, "body"), 1000).expect("there is room");
    shelf.ban(b"/a", 1000);
    assert!(shelf.flush_blocking());
    shelf.stop();
    std::fs::write(site.dir.path().join("larder.bans"), "damaged").expect("it is written");
    let shelf = site.open();
    assert_eq!((read(&shelf, "/a", 1000).len(), read(&shelf, "/b", 1000).len()), (0, 0));
}

#[test]
fn a_ban_is_forgotten_when_what_it_hides_has_left() {
    let site = Site::new(16 * MB);
    let shelf = site.open();
    shelf.store(page("/a", 0, "body"), 1000).expect("there is room");
    shelf.ban(b"/a", 1000);
    assert!(shelf.flush_blocking());
    assert!(site.dir.path().join("larder.bans").exists());
    for _ in 0..3 {
        shelf.tick(9001);
        shelf.flush_blocking();
    }
    assert_eq!(shelf.stats().segments, 0);
    assert!(!site.dir.path().join("larder.bans").exists());
    // What is stored after a restart comes after the ban, although no segment is there that says so.
    shelf.ban(b"/a", 9002);
    assert!(shelf.flush_blocking());
    shelf.stop();
    let shelf = site.open();
    shelf.store(page("/a", 0, "new"), 9003).expect("there is room");
    assert!(shelf.flush_blocking());
    assert_eq!(read(&shelf, "/a", 9003).len(), 1);
}

#[test]
fn the_shelf_waits_until_another_lets_go_of_the_folder() {
    let site = Site::new(16 * MB);
    let first = site.open();
    first.store(page("key", 0, "body"), 1000).expect("there is room");
    let second = DiskShelf::open(site.options());
    assert!(!second.flush_blocking());
    assert_eq!(second.state(), DiskState::Waiting);
    assert_eq!(second.store(page("other", 0, "body"), 1000), Err(Skipped::Out));
    first.stop();
    while second.state() != DiskState::Serving {
        std::thread::yield_now();
    }
    assert_eq!(read(&second, "key", 1000).len(), 1);
    let waited = |event: &&DiskEvent| matches!(event, DiskEvent::Waiting { .. });
    assert_eq!(site.events.lock().unwrap().iter().filter(waited).count(), 1);
}

#[test]
fn what_was_made_anew_while_another_had_the_folder_does_not_come_back_old() {
    let site = Site::new(16 * MB);
    let first = site.open();
    for key in ["kept", "renewed", "purged"] {
        first.store(page(key, 0, "old"), 1000).expect("there is room");
    }
    let second = DiskShelf::open(site.options());
    assert!(!second.flush_blocking());
    assert_eq!(second.store(page("renewed", 0, "new"), 1000), Err(Skipped::Out));
    second.remove(b"purged", None, 1000);
    first.stop();
    while second.state() != DiskState::Serving {
        std::thread::yield_now();
    }
    let count = |shelf: &DiskShelf, key| read(shelf, key, 1000).len();
    for (key, expected) in [("kept", 1), ("renewed", 0), ("purged", 0)] {
        assert_eq!(count(&second, key), expected, "{key}");
    }
    assert!(second.flush_blocking());
    second.stop();
    let third = site.open();
    for (key, expected) in [("kept", 1), ("renewed", 0), ("purged", 0)] {
        assert_eq!(count(&third, key), expected, "{key}, after a restart");
    }
}

#[test]
fn files_of_others_are_left_alone() {
    let site = Site::new(16 * MB);
    let nginx = site.dir.path().join("9/c2");
    std::fs::create_dir_all(&nginx).expect("it is made");
    std::fs::write(nginx.join("b7f54b2df7773722d382f4809d650c29"), "KEY: ").expect("it is written");
    let shelf = site.open();
    shelf.store(page("key", 0, "body"), 1000).expect("there is room");
    shelf.clear();
    shelf.stop();
    assert!(nginx.join("b7f54b2df7773722d382f4809d650c29").exists());
    assert!(site.events.lock().unwrap().iter().any(|event| matches!(event, DiskEvent::Foreign { names: 1, .. })));
    // With a superblock that cannot be used nothing is touched at all.
    std::fs::write(site.dir.path().join("larder.shelf"), "another version").expect("it is written");
    let shelf = DiskShelf::open(site.options());
    shelf.flush_blocking();
    assert!(shelf.is_out());
}

#[test]
fn a_shelf_of_another_version_begins_afresh() {
    let site = Site::new(16 * MB);
    let shelf = site.open();
    shelf.store(page("key", 0, "body"), 1000).expect("there is room");
    shelf.stop();
    let superblock = site.dir.path().join("larder.shelf");
    let mut block = std::fs::read(&superblock).expect("it is there");
    block[8] = 9;
    std::fs::write(&superblock, block).expect("it is written");
    let shelf = site.open();
    assert!(shelf.find(b"key", 1000).is_empty());
    assert_eq!(shelf.stats().segments, 0);
    assert!(site.events.lock().unwrap().iter().any(|event| matches!(event, DiskEvent::Afresh { .. })));
    shelf.store(page("key", 0, "body"), 1000).expect("there is room");
    assert!(shelf.flush_blocking());
    assert_eq!(read(&shelf, "key", 1000).len(), 1);
}

#[test]
fn deleted_segments_and_a_deleted_folder_break_nothing() {
    let site = Site::new(MB);
    let shelf = site.open();
    for number in 0..20_u64 {
        shelf.store(page(&format!("key {number}"), 0, bytes(20_000, number)), 1000).expect("the queue is long");
    }
    assert!(shelf.flush_blocking());
    for entry in std::fs::read_dir(site.dir.path()).expect("the folder is there").flatten() {
        if entry.path().extension().is_some_and(|end| end == "segment") {
            std::fs::remove_file(entry.path()).expect("it is removed");
        }
    }
    for number in 0..60_u64 {
        shelf.store(page(&format!("key {number}"), 0, bytes(20_000, number)), 1000).expect("the queue is long");
    }
    assert!(shelf.flush_blocking());
    assert_eq!(body_of(&read(&shelf, "key 59", 1000)[0]), &bytes(20_000, 59));
    std::fs::remove_dir_all(site.dir.path()).expect("it is removed");
    for now in [1001, 1012, 1023] {
        shelf.tick(now);
        shelf.flush_blocking();
    }
    assert_eq!(shelf.state(), DiskState::Serving, "{:?}", site.events.lock().unwrap());
    shelf.store(page("key", 0, "body"), 1030).expect("there is room");
    assert!(shelf.flush_blocking());
    assert_eq!(read(&shelf, "key", 1030).len(), 1);
}

#[test]
fn pages_of_segments_that_were_deleted_are_misses_from_the_next_look_on_and_it_is_said_which() {
    let site = Site::new(MB);
    let shelf = site.open();
    let store_all = |from: u64| {
        for number in from..from + 10 {
            shelf.store(page(&format!("key {number}"), 0, bytes(20_000, number)), 1000).expect("the queue is long");
        }
        assert!(shelf.flush_blocking());
    };
    let count = |shelf: &DiskShelf| {
        (0..20).filter(|number| !shelf.find(format!("key {number}").as_bytes(), 1000).is_empty()).count()
    };
    store_all(0);
    shelf.tick(1000);
    assert!(shelf.flush_blocking());
    assert_eq!(count(&shelf), 10);
    let mut segments: Vec<_> = std::fs::read_dir(site.dir.path())
        .expect("the folder is there")
        .map(|entry| entry.expect("it can be listed").path())
        .filter(|path| path.extension().is_some_and(|end| end == "segment"))
        .collect();
    segments.sort();
    assert!(segments.len() > 1);
    // Also that which is being written.
    for path in &segments[1..] {
        std::fs::remove_file(path).expect("it is removed");
    }
    shelf.tick(1001);
    assert!(shelf.flush_blocking());
    let left = count(&shelf);
    assert!((1..10).contains(&left), "{left} are in the segment that is there");
    assert_eq!(shelf.stats().segments, 1);
    let deleted: Vec<KeySet> = site.all(|event| match event {
        DiskEvent::Deleted { keys, .. } => Some(keys),
        _ => None,
    });
    for number in 0..10 {
        let key = format!("key {number}");
        let is_there = !shelf.find(key.as_bytes(), 1000).is_empty();
        assert_eq!(deleted.iter().any(|keys| keys.has(key.as_bytes())), !is_there, "{key}");
    }
    // What is stored from then on has a name again.
    store_all(10);
    assert_eq!(count(&shelf), left + 10);
    shelf.stop();
    assert_eq!(count(&site.open()), left + 10);
}

#[test]
fn a_limit_too_small_for_anything_is_said_once() {
    let site = Site::new(100_000);
    let shelf = site.open();
    for _ in 0..3 {
        shelf.store(page("key", 0, "body"), 1000).expect("the queue takes it");
        shelf.flush_blocking();
    }
    assert!(shelf.find(b"key", 1000).is_empty());
    let small = |event: &&DiskEvent| matches!(event, DiskEvent::TooSmall { bytes_max: 100_000, .. });
    assert_eq!(site.events.lock().unwrap().iter().filter(small).count(), 1);
}

#[test]
fn lower_limits_take_effect_and_min_free_is_kept() {
    let site = Site::new(8 * MB);
    let shelf = site.open();
    for number in 0..300_u64 {
        shelf.store(page(&format!("key {number}"), 0, bytes(20_000, number)), 1000).expect("the queue is long");
    }
    assert!(shelf.flush_blocking());
    assert!(shelf.stats().bytes > 4 * MB);
    shelf.adjust(DiskLimits { bytes_max: Some(MB), ..site.limits });
    assert!(shelf.flush_blocking());
    assert!(du(site.dir.path()) <= MB, "{}", du(site.dir.path()));
    shelf.adjust(DiskLimits { free_min: u64::MAX / 2, ..site.limits });
    shelf.flush_blocking();
    assert_eq!(shelf.stats().segments, 0);
    shelf.store(page("key", 0, "body"), 1000).expect("the queue takes it");
    shelf.flush_blocking();
    assert!(shelf.find(b"key", 1000).is_empty());
    assert!(shelf.stats().skipped_room > 0);
}

#[test]
fn a_full_queue_refuses_at_once_and_the_older_page_goes() {
    let site = Site::new(64 * MB);
    let shelf = DiskShelf::open(DiskOptions { queue_bytes: 1000, ..site.options() });
    shelf.store(page("key", 0, "old"), 1000).expect("there is room");
    assert!(shelf.flush_blocking());
    assert_eq!(shelf.store(page("key", 0, bytes(2000, 1)), 1000), Err(Skipped::QueueFull));
    assert!(shelf.find(b"key", 1000).is_empty());
    assert_eq!(shelf.stats().skipped_queue, 1);
}

#[test]
fn what_a_page_holds_is_dropped_when_it_is_written() {
    struct Told(std::sync::mpsc::Sender<()>);
    impl Hold for Told {}
    impl Drop for Told {
        fn drop(&mut self) {
            self.0.send(()).expect("the test listens");
        }
    }
    let site = Site::new(16 * MB);
    let shelf = site.open();
    let (told, dropped) = std::sync::mpsc::channel();
    shelf.store(Page { holds: Some(Box::new(Told(told))), ..page("key", 0, "body") }, 1000).expect("there is room");
    dropped.recv().expect("it is dropped");
    assert_eq!(read(&shelf, "key", 1000).len(), 1);
}

#[test]
fn a_folder_that_was_emptied_by_hand_is_a_shelf_again_and_what_comes_then_stays() {
    let site = Site::new(64 * MB);
    let shelf = site.open();
    shelf.store(page("before", 0, "old"), 1000).expect("there is room");
    assert!(shelf.flush_blocking());
    for entry in std::fs::read_dir(site.dir.path()).expect("it is there") {
        std::fs::remove_file(entry.expect("it can be listed").path()).expect("it is ours");
    }
    for now in [2000, 2061, 2122] {
        shelf.tick(now);
        // What was lost is no news here.
        let _ = shelf.flush_blocking();
    }
    assert_eq!(shelf.state(), DiskState::Serving);
    assert_eq!(read(&shelf, "before", 3000).len(), 0);
    shelf.store(page("after", 0, "new"), 3000).expect("there is room");
    assert!(shelf.flush_blocking());
    assert_eq!(shelf.stats().objects, 1);
    shelf.stop();
    let shelf = site.open();
    assert_eq!(read(&shelf, "after", 3000).len(), 1);
    shelf.stop();
    // Without it nobody knows what the segments are.
    std::fs::remove_file(site.dir.path().join("larder.shelf")).expect("it is there");
    let shelf = site.open();
    assert_eq!(read(&shelf, "after", 3000).len(), 0);
}

#[test]
fn an_emptied_folder_is_noticed_by_itself_and_what_waits_and_is_not_wanted_any_more_is_not_written() {
    struct Wanted(Arc<AtomicBool>);
    impl Hold for Wanted {
        fn is_wanted(&self) -> bool {
            self.0.load(Ordering::SeqCst)
        }
    }
    for with_folder in [false, true] {
        let site = Site::new(64 * MB);
        let folder = site.dir.path().join("shelf");
        let ((told, noticed), (go_on, may_go_on)) = (channel(), channel());
        let may_go_on = Mutex::new(may_go_on);
        let events = move |event: DiskEvent| {
            if matches!(event, DiskEvent::Emptied { .. }) {
                told.send(()).expect("the test listens");
                may_go_on.lock().unwrap().recv().expect("the test lets it go on");
            }
        };
        let shelf = DiskShelf::open(DiskOptions { dir: folder.clone(), events: Arc::new(events), ..site.options() });
        let is_wanted = Arc::new(AtomicBool::new(true));
        let store = |key: &str| {
            let holds: Option<Box<dyn Hold>> = Some(Box::new(Wanted(Arc::clone(&is_wanted))));
            shelf.store(Page { holds, ..page(key, 0, "body") }, 1000).expect("there is room");
        };
        store("before");
        assert!(shelf.flush_blocking());
        if with_folder {
            std::fs::remove_dir_all(&folder).expect("it is there");
        } else {
            for entry in std::fs::read_dir(&folder).expect("it is there") {
                std::fs::remove_file(entry.expect("it can be listed").path()).expect("it is ours");
            }
        }
        noticed.recv().expect("it looks by itself");
        assert!(shelf.find(b"before", 1000).is_empty());
        // The shelf is out at this moment, which is no reason to hold anything back.
        shelf.remove(b"removed", None, 1000);
        is_wanted.store(false, Ordering::SeqCst);
        go_on.send(()).expect("it waits for that");
        while shelf.state() != DiskState::Serving {
            std::thread::yield_now();
        }
        store("unwanted");
        assert!(shelf.flush_blocking());
        is_wanted.store(true, Ordering::SeqCst);
        store("after");
        assert!(shelf.flush_blocking());
        let there = |shelf: &DiskShelf| ["before", "unwanted", "after"].map(|key| read(shelf, key, 1000).len());
        assert_eq!(there(&shelf), [0, 0, 1]);
        shelf.stop();
        let shelf = DiskShelf::open(DiskOptions { dir: folder, ..site.options() });
        assert!(shelf.flush_blocking());
        assert_eq!(there(&shelf), [0, 0, 1]);
    }
}

#[test]
fn a_page_whose_body_begins_damaged_is_a_miss_also_when_it_stays_on_the_disk() {
    let site = Site::new(64 * MB);
    let shelf = site.open();
    let body = bytes(300_000, 7);
    shelf.store(page("big", 0, body.clone()), 1000).expect("there is room");
    assert!(shelf.flush_blocking());
    shelf.stop();
    let path = site.dir.path().join("0000000000000001.segment");
    let segment = std::fs::read(&path).expect("it is there");
    let at = segment.windows(64).position(|window| window == &body[..64]).expect("the body is in it");
    let file = std::fs::OpenOptions::new().write(true).open(path).expect("it is there");
    std::os::unix::fs::FileExt::write_all_at(&file, b"damaged", at as u64 + 1000).expect("it can be written");
    let shelf = site.open();
    assert!(shelf.flush_blocking());
    let found = shelf.find(b"big", 1000);
    assert!(!found.is_empty());
    assert_eq!(wait(shelf.read(b"big"[..].into(), found, 1000)).len(), 0);
    assert_eq!(shelf.stats().corrupt, 1);
}

#[test]
fn a_shelf_that_was_too_small_for_a_segment_stores_when_its_limit_is_raised() {
    let site = Site::new(100_000);
    let shelf = site.open();
    let store = |key: &str| {
        shelf.store(page(key, 0, "body"), 1000).expect("there is room in the queue");
        shelf.flush_blocking();
        read(&shelf, key, 1000).len()
    };
    assert_eq!(store("a"), 0);
    shelf.adjust(DiskLimits { bytes_max: Some(64 * MB), ..site.limits });
    assert_eq!(store("b"), 1);
}

/// Says what the write path costs: `cargo test --release -p larder-store --test disk -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn how_fast_it_writes() {
    let ticks = || {
        let stat = std::fs::read_to_string("/proc/self/stat").expect("it is there");
        let fields: Vec<_> = stat.rsplit(')').next().expect("it has fields").split_whitespace().collect();
        fields[11].parse::<u64>().expect("user time") + fields[12].parse::<u64>().expect("system time")
    };
    // Beside what is built, which is on a disk more often than the folder for temporary files.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("shelf");
    for (len, count) in [(10_000, 50_000_u64), (100_000, 8000), (1_000_000, 1000)] {
        let site = Site::new(2 << 30);
        let shelf = DiskShelf::open(DiskOptions { dir: folder.clone(), ..site.options() });
        assert!(shelf.flush_blocking());
        let body = bytes(len, 1);
        let (before, start) = (ticks(), std::time::Instant::now());
        for number in 0..count {
            let key = format!("key {number}");
            while shelf.store(page(&key, 0, body.clone()), 1000) == Err(Skipped::QueueFull) {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        assert!(shelf.flush_blocking());
        let (took, cpu) = (start.elapsed().as_secs_f64(), (ticks() - before) as f64 * 10_000.0);
        let mib = (len as u64 * count) as f64 / MB as f64;
        println!("{len} bytes a page: {:.0} MiB/s, {:.0} µs CPU a MiB", mib / took, cpu / mib);
        shelf.stop();
        std::fs::remove_dir_all(&folder).expect("it is there");
    }
}

#[test]
fn a_page_that_was_evicted_is_known_to_be_wanted_while_it_could_be_used() {
    let site = Site::new(MB);
    let shelf = site.open();
    let all: Vec<String> = (0..40).map(|number| format!("/{number}")).collect();
    for key in &all {
        shelf.store(page(key, 0, bytes(50_000, 1)), 100).expect("it fits");
        assert!(shelf.flush_blocking());
    }
    let gone: Vec<&String> = all.iter().filter(|key| !shelf.may_have(key.as_bytes())).rev().collect();
    assert!(gone.len() >= 4, "{gone:?}");
    let missed = |key: &str, now: u64| shelf.note_miss(key.as_bytes(), now);
    // It stays for `inactive`, 1600 seconds, after it can be used.
    assert_eq!([missed(gone[0], 998_399), missed(gone[0], 998_399)], [true, false], "once");
    assert!(!missed(gone[1], 998_400), "nobody could use it");
    shelf.remove(gone[2].as_bytes(), None, 200);
    assert!(!missed(gone[2], 300), "it would have been removed");
    assert!(!missed("/new", 300));
    assert_eq!(shelf.stats().evicted_wanted, 1);
    shelf.clear();
    assert!(!missed(gone[3], 300), "all would have been");
}
