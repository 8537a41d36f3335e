//! Bans of a zone that has a disk.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use larder_store::WordedBan;

use super::disks::{folder, on, open, over, put_under, with_one};
use super::*;

/// What a page is that is found under a key when the disks have been waited for: `banned`, or as [`find`] says it.
fn judged(worker: &mut Worker, key: &[u8]) -> String {
    let rules = Rules::default();
    let verdict = match worker.ask(key, &rules, 1) {
        Verdict::Load(loading) => {
            run(loading.run());
            worker.ask(key, &rules, 1)
        }
        verdict => verdict,
    };
    match verdict {
        Verdict::Hit(page) if bans::is_banned(&worker.zone, &page) => "banned".to_owned(),
        verdict => told(&verdict),
    }
}

fn reading_bans(worker: Worker) -> Worker {
    worker.zone.read_bans_by(bans::of_disk);
    worker
}

#[test]
fn a_ban_outlives_its_zone_and_knows_what_was_before_it_whatever_the_clock_said() {
    for (before, banned, after) in [(10, 20, 30), (30, 20, 10), (20, 20, 20)] {
        let folder = folder();
        let disk = open(folder.path());
        let mut worker = on(&disk);
        for (key, text) in [(&b"a"[..], "one"), (b"b", "two")] {
            put_under(key, &mut worker, &[], "", text, before);
        }
        worker.zone.ban(bans::of_text("one"), at(banned));
        // This one waits to be written when the ban is made, and that one comes later.
        put_under(b"c", &mut worker, &[], "", "one", after);
        assert_eq!(run(worker.zone.bans_kept()), Ok(()));
        assert!(disk.shelf.flush_blocking());
        let holds = |worker: &mut Worker, what: &str| {
            let seen = [&b"a"[..], b"b", b"c"].map(|key| judged(worker, key));
            assert_eq!(seen, ["banned", "hit two", "hit one"], "{what}, {before}, {banned}, {after}");
            let listed: Vec<_> = worker.zone.bans().into_iter().map(|ban| (ban.text, ban.made_at)).collect();
            assert_eq!(listed, [("one".to_owned(), at(banned))], "{what}");
        };
        holds(&mut worker, "the zone that made it");
        holds(&mut reading_bans(on(&disk)), "another zone over the same shelf");
        disk.shelf.stop();
        drop((worker, disk));
        let disk = open(folder.path());
        let mut worker = reading_bans(on(&disk));
        holds(&mut worker, "after a restart");
        // What is stored now is newer, and a ban of the same words takes the place of the first.
        put_under(b"a", &mut worker, &[], "", "one", 0);
        assert_eq!(judged(&mut worker, b"a"), "hit one");
        worker.zone.ban(bans::of_text("one"), at(banned + 1));
        assert_eq!([&b"a"[..], b"b", b"c"].map(|key| judged(&mut worker, key)), ["banned", "hit two", "banned"]);
        assert_eq!(worker.zone.bans().iter().map(|ban| ban.is_done).collect::<Vec<_>>(), [false, true]);
        assert!(disk.shelf.flush_blocking());
        disk.shelf.stop();
        drop((worker, disk));
        let disk = open(folder.path());
        assert_eq!(reading_bans(on(&disk)).zone.bans().len(), 1);
    }
}

#[test]
fn a_ban_is_on_all_shelves_once_and_spares_what_came_later_on_each() {
    for placing in [Placing::Hash, Placing::Mirror] {
        let folders = [folder(), folder()];
        let disks = folders.each_ref().map(|folder| open(folder.path()));
        let mut worker = over(placing, &[&disks[0], &disks[1]]);
        let keys: Vec<Vec<u8>> = (0..8).map(|number| format!("key {number}").into_bytes()).collect();
        keys[..4].iter().for_each(|key| put_under(key, &mut worker, &[], "", "one", 5));
        worker.zone.ban(bans::of_text("one"), at(5));
        keys[4..].iter().for_each(|key| put_under(key, &mut worker, &[], "", "one", 5));
        worker.zone.ban(bans::of_text("two"), at(5));
        for disk in &disks {
            assert!(disk.shelf.flush_blocking());
            disk.shelf.stop();
        }
        drop((worker, disks));
        let disks = folders.each_ref().map(|folder| open(folder.path()));
        let mut worker = reading_bans(over(placing, &[&disks[0], &disks[1]]));
        assert_eq!(worker.zone.bans().iter().map(|ban| &*ban.text).collect::<Vec<_>>(), ["two", "one"]);
        let seen: Vec<String> = keys.iter().map(|key| judged(&mut worker, key)).collect();
        assert_eq!(
            (&seen[..4], &seen[4..]),
            (&["banned"; 4].map(String::from)[..], &["hit one"; 4].map(String::from)[..])
        );
    }
}

#[test]
fn a_ban_on_disk_that_cannot_be_read_covers_what_was_before_it() {
    let folder = folder();
    let (disk, worker) = with_one(folder.path());
    worker.zone.ban(bans::of_text("two"), at(1));
    assert!(disk.shelf.flush_blocking());
    let mut worker = on(&disk);
    assert_eq!(judged(&mut worker, KEY), "banned");
    put_under(b"later", &mut worker, &[], "", "one", 0);
    assert_eq!(judged(&mut worker, b"later"), "hit one");
}

#[test]
fn a_page_that_was_fetched_before_a_ban_and_stored_after_it_does_not_escape_it_by_way_of_the_disk() {
    let folder = folder();
    let disk = open(folder.path());
    let mut worker = on(&disk);
    let key = KeyRef::new(KEY);
    let mut permit = worker.zone.permit(&mut worker.front, &key, at(0)).expect("there is room");
    let (mut writer, body) = worker.zone.body(KEY, None, None);
    worker.zone.ban(bans::of_text("one"), at(1));
    permit.begin(varied(body, &[], "", 2));
    writer.append(Bytes::from_static(b"one")).expect("it is stored");
    writer.finish();
    permit.complete();
    assert_eq!(judged(&mut worker, KEY), "banned");
    assert!(disk.shelf.flush_blocking());
    assert_eq!(judged(&mut reading_bans(on(&disk)), KEY), "miss");
}

#[test]
fn a_zone_whose_shelf_belongs_to_another_by_now_takes_no_page_from_it_that_was_before_a_ban() {
    let folder = folder();
    let (disk, worker) = with_one(folder.path());
    put_under(b"kept", &mut on(&disk), &[], "", "two", 0);
    worker.zone.ban(bans::of_text("one"), at(1));
    put_under(b"later", &mut on(&disk), &[], "", "one", 0);
    assert!(disk.shelf.flush_blocking());
    let mut old = reading_bans(on(&disk));
    assert_eq!(judged(&mut old, b"later"), "hit one");
    let mut new = reading_bans(on(&disk));
    assert_eq!([KEY, b"kept", b"later"].map(|key| judged(&mut new, key)), ["banned", "hit two", "hit one"]);
    assert_eq!([KEY, b"kept"].map(|key| judged(&mut old, key)), ["miss", "miss"]);
}

#[test]
fn a_ban_is_forgotten_once_neither_memory_nor_a_shelf_needs_it() {
    let folder = folder();
    let (disk, worker) = with_one(folder.path());
    let of_page = |text| Arc::new(bans::OfText::of_page(text));
    worker.zone.ban(of_page("two"), at(1));
    worker.zone.ban(of_page("three"), at(2));
    assert!(disk.shelf.flush_blocking());
    assert_eq!(worker.zone.look_ahead(at(9), at(9), || true), Lurked { tested: 1, dropped: 0, forgotten: 0 });
    assert_eq!(disk.shelf.first_ban(), Some(worker.zone.newest_ban() - 1));
    // Everything on the disk is useless by then.
    for _ in 0..3 {
        disk.shelf.tick(1 << 40);
        disk.shelf.flush_blocking();
    }
    assert_eq!(disk.shelf.first_ban(), None);
    assert_eq!(worker.zone.look_ahead(at(9), at(9), || true), Lurked { tested: 0, dropped: 0, forgotten: 1 });
}

/// Holds for no page, and counts how often it is asked for its words.
struct Counted(String);

static WORDS_ASKED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static TAKES_OVER: RefCell<Option<Worker>> = const { RefCell::new(None) };
}

impl Condition<Object> for Counted {
    fn text(&self) -> &str {
        &self.0
    }

    fn words(&self) -> &str {
        WORDS_ASKED.fetch_add(1, Ordering::Relaxed);
        &self.0
    }

    fn is_timeless(&self) -> bool {
        true
    }

    fn asks_request(&self) -> bool {
        false
    }

    fn holds(&self, _: &Object, _: &Asking<'_>, _: Time) -> bool {
        false
    }
}

/// Reads a ban while requests go on.
fn counted(words: &str) -> Arc<dyn Condition<Object>> {
    TAKES_OVER.with_borrow_mut(|worker| {
        let worker = worker.as_mut().expect("it is there while bans are read");
        assert!(!worker.zone.is_any_ban_locked(), "pages cannot be tested");
        assert_eq!(worker.zone.shelves().iter().next().expect("there is one").first_ban(), Some(0));
        if words == "7" {
            assert_eq!(judged(worker, KEY), "miss", "it does not wait, and takes nothing that may be banned");
        }
    });
    Arc::new(Counted(words.to_owned()))
}

#[test]
fn to_take_over_bans_is_linear_and_holds_up_nobody_who_asks_for_pages() {
    const COUNT: u64 = 2000;
    let folder = folder();
    let (disk, _) = with_one(folder.path());
    for number in 1..=COUNT {
        let ban = WordedBan { number, made_at: 5, words: number.to_string().into() };
        disk.shelf.ban_worded(ban, true);
    }
    assert!(disk.shelf.flush_blocking());
    disk.shelf.stop();
    let disk = open(folder.path());
    let worker = on(&disk);
    let zone = Arc::clone(&worker.zone);
    zone.read_bans_by(counted);
    TAKES_OVER.set(Some(worker));
    assert_eq!(zone.ban_stats().bans, COUNT);
    let asked = WORDS_ASKED.load(Ordering::Relaxed);
    assert!(asked <= 4 * COUNT, "{asked} for {COUNT}");
    let mut worker = TAKES_OVER.take().expect("it was put there");
    assert_eq!(judged(&mut worker, KEY), "hit one");
}

/// It is tested when it has come, so that it need not be tested by bans of before when it is read.
#[test]
fn a_page_that_is_fetched_while_others_are_banned_goes_to_the_disk() {
    for (text, written) in [("one", 0), ("two", 1)] {
        let folder = folder();
        let disk = open(folder.path());
        let mut worker = on(&disk);
        let key = KeyRef::new(KEY);
        let mut permit = worker.zone.permit(&mut worker.front, &key, at(0)).expect("there is room");
        let (mut writer, body) = worker.zone.body(KEY, None, None);
        worker.zone.ban(Arc::new(bans::OfText::of_page("one")), at(1));
        permit.begin(varied(body, &[], "", 2));
        writer.append(Bytes::from_static(text.as_bytes())).expect("it is stored");
        writer.finish();
        permit.complete();
        assert!(disk.shelf.flush_blocking());
        assert_eq!(disk.shelf.stats().objects, written, "{text}");
    }
}
