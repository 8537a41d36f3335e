//! Purges of selected pages that are on disks.

use super::disks::{Disk, folder, on, open, over};
use super::selected::{Word, bytes, purge, seen, store, tagged, tags, uri, words};
use super::*;
use crate::entry::{Ask, each};
use crate::loading::{Loading, Reading};

fn read_purge(words: &str) -> Arc<dyn Condition<Object>> {
    let compile = |text: &str| Some(Arc::new(Word(text.to_owned())) as Arc<dyn Pattern>);
    Purge::of_disk(words, compile).unwrap_or_else(|| panic!("{words} are words of a purge"))
}

fn ready(worker: Worker) -> Worker {
    worker.zone.set_tag_fields(&["xkey"]);
    worker.zone.read_bans_by(read_purge);
    worker
}

fn tagged_on(disk: &Disk) -> Worker {
    ready(on(disk))
}

/// The shelf after a restart.
fn opened_anew(disk: Disk, folder: &tempfile::TempDir) -> Disk {
    disk.shelf.stop();
    drop(disk);
    open(folder.path())
}

fn selections() -> [(Selection, bool); 9] {
    [
        (tags(&["news"]), true),
        (tags(&["no", "news"]), true),
        (Selection::Key(bytes("a.example/news")), false),
        (Selection::KeyPrefix(bytes("a.example/n")), true),
        (Selection::Host(bytes("a.example")), true),
        (uri(None, UriTest::Is(bytes("/news"))), true),
        (uri(Some("a.example"), UriTest::Like(bytes("*ews"))), true),
        (uri(None, UriTest::Matches(Arc::new(Word("news".to_owned())))), true),
        (Selection::All, true),
    ]
}

/// Of three pages that are on a disk, in memory as well or not, one is purged, and comes again only as it should.
#[test]
fn a_purge_holds_for_pages_on_disk_and_outlives_a_restart() {
    for (selection, is_more) in selections() {
        for (how, expected) in [(How::Hard, "miss"), (How::Soft, "stale")] {
            for is_in_memory in [true, false] {
                let words = words(&selection, how);
                let (folder, is_all) = (folder(), matches!(selection, Selection::All));
                let disk = open(folder.path());
                let mut worker = tagged_on(&disk);
                store(&mut worker, "a.example/news", "news", 0);
                store(&mut worker, "b.example/", "home", 0);
                assert!(disk.shelf.flush_blocking());
                if !is_in_memory {
                    worker.zone.clear_memory();
                }
                let purged = purge(&worker.zone, selection.clone(), how, 1);
                let is_counted = is_in_memory || matches!((&selection, how), (Selection::Key(_), How::Hard));
                let pages = if is_counted { if is_all { 2 } else { 1 } } else { 0 };
                assert_eq!(purged.pages, pages, "{words} {is_in_memory}");
                assert_eq!(purged.is_also_on_disk, is_more || how == How::Soft, "{words}");
                assert_eq!(run(worker.zone.purge_kept(&purged)), Ok(()), "{words}");
                store(&mut worker, "a.example/news/later", "news", 2);
                let other = if is_all { expected } else { "hit" };
                let holds = |worker: &mut Worker, when: &str| {
                    let seen = ["a.example/news", "b.example/", "a.example/news/later"].map(|key| seen(worker, key, 3));
                    assert_eq!(seen, [expected, other, "hit"], "{words} {is_in_memory} {when}");
                };
                holds(&mut worker, "at once");
                assert!(disk.shelf.flush_blocking());
                worker.zone.clear_memory();
                holds(&mut worker, "out of memory");
                drop(worker);
                holds(&mut tagged_on(&disk), "of another zone");
                let disk = opened_anew(disk, &folder);
                holds(&mut tagged_on(&disk), "after a restart");
                let disk = opened_anew(disk, &folder);
                let mut worker = tagged_on(&disk);
                holds(&mut worker, "after another");
                store(&mut worker, "a.example/news", "news", 4);
                assert_eq!(seen(&mut worker, "a.example/news", 5), "hit", "{words}");
            }
        }
    }
}

/// `purge_kept` alone, without a flush of the pages: the process dies then.
#[test]
fn what_was_kept_is_not_forgotten_when_nothing_else_is_written() {
    for selection in [tags(&["news"]), Selection::Key(bytes("a.example/news")), Selection::All] {
        for how in [How::Hard, How::Soft] {
            let (folder, copy) = (folder(), folder());
            let disk = open(folder.path());
            let mut worker = tagged_on(&disk);
            store(&mut worker, "a.example/news", "news", 0);
            assert!(disk.shelf.flush_blocking());
            let purged = purge(&worker.zone, selection.clone(), how, 1);
            assert_eq!(run(worker.zone.purge_kept(&purged)), Ok(()));
            for file in std::fs::read_dir(folder.path()).expect("it is a folder") {
                let file = file.expect("it can be read");
                std::fs::copy(file.path(), copy.path().join(file.file_name())).expect("it can be copied");
            }
            let disk = open(copy.path());
            let expected = if how == How::Hard { "miss" } else { "stale" };
            assert_eq!(seen(&mut tagged_on(&disk), "a.example/news", 2), expected, "{how:?}");
        }
    }
}

#[test]
fn what_is_on_its_way_when_others_are_purged_is_written_and_what_is_meant_is_not_or_as_stale() {
    for (tag, how, expected) in [
        ("other", How::Hard, ["hit", "hit"]),
        ("other", How::Soft, ["hit", "hit"]),
        ("news", How::Hard, ["miss", "miss"]),
        ("news", How::Soft, ["stale", "stale"]),
    ] {
        let folder = folder();
        let disk = open(folder.path());
        let mut worker = tagged_on(&disk);
        let zone = Arc::clone(&worker.zone);
        let key = KeyRef::new(b"a.example/");
        let mut permit = zone.permit(&mut worker.front, &key, at(0)).expect("there is room");
        let (mut writer, body) = zone.body(key.bytes(), None, None);
        purge(&zone, tags(&[tag]), how, 1);
        permit.begin(tagged(body, key.bytes(), "news", 2));
        writer.append(Bytes::from_static(b"new")).expect("it is stored");
        writer.finish();
        permit.complete();
        assert!(disk.shelf.flush_blocking());
        let now = seen(&mut worker, "a.example/", 3);
        let written = usize::from(expected[0] != "miss");
        drop((worker, zone));
        assert_eq!(disk.shelf.stats().objects, written, "{tag} {how:?}");
        // By itself: the ban is older than the record.
        assert_eq!([now, seen(&mut tagged_on(&disk), "a.example/", 3)], expected, "{tag} {how:?}");
    }
}

/// A page waits to be written in place of an older one when it is purged softly.
#[test]
fn a_page_that_waits_for_the_disk_is_written_as_stale_and_nothing_older_comes_back() {
    let folder = folder();
    let disk = open(folder.path());
    let mut worker = tagged_on(&disk);
    store(&mut worker, "a.example/", "news", 0);
    assert!(disk.shelf.flush_blocking());
    for round in 0..20 {
        store(&mut worker, "a.example/", "news", round * 3 + 1);
        assert_eq!(purge(&worker.zone, tags(&["news"]), How::Soft, round * 3 + 2).pages, 1);
        assert!(disk.shelf.flush_blocking());
        let mut other = tagged_on(&disk);
        assert_eq!(seen(&mut other, "a.example/", round * 3 + 3), "stale");
        let Verdict::Stale { object, .. } = other.ask(b"a.example/", &lock(), round * 3 + 3) else { panic!("stale") };
        assert_eq!((object.stored_at, object.fresh_until), (at(round * 3 + 1), at(round * 3 + 2)), "{round}");
        drop(object);
        worker = tagged_on(&disk);
    }
}

/// The older one has another tag, so that the ban does not cover it.
#[test]
fn nothing_older_comes_back_from_the_disk_in_place_of_a_page_that_was_purged_while_it_waited() {
    let folder = folder();
    let disk = open(folder.path());
    for round in 0..200 {
        let mut worker = tagged_on(&disk);
        store(&mut worker, "a.example/", "older", round);
        assert!(disk.shelf.flush_blocking());
        store(&mut worker, "a.example/", "newer", round);
        assert_eq!(purge(&worker.zone, tags(&["newer"]), How::Hard, round).pages, 1);
        worker.zone.clear_memory();
        assert_eq!(seen(&mut worker, "a.example/", round), "miss", "{round}");
        assert!(disk.shelf.flush_blocking());
        assert_eq!(seen(&mut tagged_on(&disk), "a.example/", round), "miss", "{round}");
    }
}

/// The same, and a page that is stale for a purge takes the place of the older one.
#[test]
fn a_page_that_was_purged_softly_while_it_waited_is_on_the_disk_in_place_of_an_older_one_with_another_tag() {
    let folder = folder();
    let disk = open(folder.path());
    for round in 0..200 {
        let mut worker = tagged_on(&disk);
        store(&mut worker, "a.example/", "older", round);
        assert!(disk.shelf.flush_blocking());
        store(&mut worker, "a.example/", "newer", round);
        assert_eq!(purge(&worker.zone, tags(&["newer"]), How::Soft, round).pages, 1);
        assert!(disk.shelf.flush_blocking());
        assert_eq!(seen(&mut tagged_on(&disk), "a.example/", round), "stale", "{round}");
    }
}

#[test]
fn nothing_is_read_from_the_disk_while_what_is_older_than_a_dropped_page_is_removed_there() {
    let folder = folder();
    let disk = open(folder.path());
    let mut worker = tagged_on(&disk);
    store(&mut worker, "a.example/", "older", 0);
    assert!(disk.shelf.flush_blocking());
    worker.zone.clear_memory();
    // Without a lookup: nobody has asked the disk.
    store(&mut worker, "a.example/", "newer", 0);
    let entry = worker.zone.entry_there(&KeyRef::new(b"a.example/")).expect("it is there");
    for is_lost in [false, true] {
        let newest = each(&entry.variants()).next().cloned().expect("there is one");
        let closed = if is_lost { entry.drop_variant(&newest) } else { entry.let_go(&newest) };
        assert!(closed.is_some());
        assert_eq!(seen(&mut worker, "a.example/", 1), "miss");
        drop(closed);
        // Here nothing was removed.
        assert_eq!(seen(&mut worker, "a.example/", 1), "hit");
    }
}

#[test]
fn what_is_being_read_while_a_newer_page_is_stored_and_purged_does_not_come_back() {
    for is_written in [false, true] {
        let folder = folder();
        let disk = open(folder.path());
        store(&mut tagged_on(&disk), "a.example/", "older", 0);
        assert!(disk.shelf.flush_blocking());
        let mut worker = tagged_on(&disk);
        let (zone, key) = (Arc::clone(&worker.zone), KeyRef::new(b"a.example/"));
        let entry = zone.entry(&key, at(1)).expect("there is room");
        let Ask::Read(over) = entry.ask_disk() else { panic!("nobody has asked the disk") };
        let found = zone.shelves().find(key.bytes(), at(1), 1 << 16, zone.newest_ban());
        assert!(found.is_some());
        entry.add_permit();
        let reading = Reading { zone: Arc::clone(&zone), entry, over, is_mine: true };
        store(&mut worker, "a.example/", "newer", 1);
        if is_written {
            assert!(disk.shelf.flush_blocking());
        }
        assert_eq!(purge(&zone, tags(&["newer"]), How::Hard, 2).pages, 1);
        run(Loading { reading, found }.run());
        assert_eq!(seen(&mut worker, "a.example/", 3), "miss", "{is_written}");
    }
}

#[test]
fn a_purge_is_on_every_disk_and_a_page_on_two_is_stale_on_both() {
    for placing in [Placing::Hash, Placing::Mirror] {
        let folders = [folder(), folder()];
        let disks = folders.each_ref().map(|folder| open(folder.path()));
        let mut worker = ready(over(placing, &[&disks[0], &disks[1]]));
        let keys: Vec<String> = (0..8).map(|number| format!("a.example/{number}")).collect();
        keys.iter().for_each(|key| store(&mut worker, key, "news", 0));
        assert!(disks.iter().all(|disk| disk.shelf.flush_blocking()));
        purge(&worker.zone, tags(&["news"]), How::Soft, 1);
        drop(worker);
        let disks = disks.into_iter().zip(&folders).map(|(disk, folder)| opened_anew(disk, folder));
        let disks: Vec<Disk> = disks.collect();
        let mut worker = ready(over(placing, &[&disks[0], &disks[1]]));
        assert!(keys.iter().all(|key| seen(&mut worker, key, 2) == "stale"), "{placing:?}");
        assert_eq!(worker.zone.bans().len(), 1);
    }
}

#[test]
fn a_record_without_a_url_is_of_any_and_has_the_tags_of_its_fields() {
    for (selection, expected) in [
        (tags(&["news"]), "miss"),
        (tags(&["other"]), "hit"),
        (Selection::Host(bytes("b.example")), "miss"),
        (Selection::Key(bytes("-b")), "hit"),
    ] {
        let folder = folder();
        let disk = open(folder.path());
        store(&mut tagged_on(&disk), "-a", "news", 0);
        assert!(disk.shelf.flush_blocking());
        let mut worker = tagged_on(&disk);
        purge(&worker.zone, selection, How::Hard, 1);
        assert_eq!(seen(&mut worker, "-a", 1), expected);
    }
}

#[test]
fn bans_on_disk_are_listed_in_the_words_of_the_purge() {
    let folder = folder();
    let disk = open(folder.path());
    let worker = tagged_on(&disk);
    purge(&worker.zone, tags(&["news", "shop 42"]), How::Soft, 1);
    purge(&worker.zone, uri(Some("a.example"), UriTest::Matches(Arc::new(Word("^/x".to_owned())))), How::Hard, 2);
    purge(&worker.zone, tags(&["news", "shop 42"]), How::Soft, 3);
    assert!(disk.shelf.flush_blocking());
    let expected = ["purge soft tag xkey news shop%2042", "purge hard url a.example ~ ^/x"];
    for worker in [worker, tagged_on(&disk)] {
        let listed = worker.zone.bans();
        let shown: Vec<&str> = listed.iter().filter(|ban| !ban.is_done).map(|ban| &*ban.text).collect();
        assert_eq!(shown, expected);
    }
}

/// The process of before had tags in other fields, or that of after has none.
#[test]
fn a_purge_by_tag_means_the_fields_that_had_tags_when_it_was_made() {
    for (before, after) in [(&["xkey"][..], &[][..]), (&["xkey"], &["other"]), (&["a", "XKEY"], &["xkey"])] {
        let folder = folder();
        let disk = open(folder.path());
        let mut worker = tagged_on(&disk);
        worker.zone.set_tag_fields(before);
        store(&mut worker, "a.example/", "news", 0);
        store(&mut worker, "b.example/", "home", 0);
        assert!(disk.shelf.flush_blocking());
        worker.zone.clear_memory();
        purge(&worker.zone, tags(&["news"]), How::Hard, 1);
        drop(worker);
        let disk = opened_anew(disk, &folder);
        let mut worker = tagged_on(&disk);
        worker.zone.set_tag_fields(after);
        let seen = ["a.example/", "b.example/"].map(|key| seen(&mut worker, key, 2));
        assert_eq!(seen, ["miss", "hit"], "{before:?} {after:?}");
    }
}

#[test]
fn words_of_a_purge_that_cannot_be_read_mean_all_pages() {
    let compile = |_: &str| None;
    for words in ["purge hard url * ~ (", "purge later", "purge soft tag", "purge soft tag %ff a"] {
        let ban = Purge::of_disk(words, compile).expect("they are of a purge");
        let page = page(Body::of(Bytes::new(), None), 0);
        assert!(ban.holds(&page, &Asking { url: b"", fields: &Fields::new() }, at(1)), "{words}");
        assert_eq!((ban.effect(), ban.words()), (Effect::Drop, words));
    }
    assert!(Purge::of_disk("req.url ~ .", compile).is_none());
}

#[test]
fn a_page_that_a_disk_carries_on_is_judged_by_its_key_its_url_and_the_tags_of_its_fields() {
    let worker = Worker::new(&zone(1 << 20));
    let zone = &worker.zone;
    zone.set_tag_fields(&["xkey"]);
    for (selection, expected) in [
        (Selection::Key(bytes("a.example/")), [true, false]),
        (Selection::KeyPrefix(bytes("a.")), [true, false]),
        (tags(&["home"]), [true, false]),
        (Selection::Host(bytes("b.example")), [false, true]),
        (uri(None, UriTest::Like(bytes("/*"))), [true, true]),
    ] {
        let purged = purge(zone, selection.clone(), How::Soft, 1);
        assert_eq!(purged.pages, 0);
        let is_banned = |key: &str, tags: &str| {
            let page = tagged(Body::of(Bytes::new(), None), key.as_bytes(), tags, 0);
            let head = crate::fuzzing::head_of_object(&page);
            larder_store::Judge::is_banned(&**zone, key.as_bytes(), &head, zone.newest_ban())
        };
        let judged = [is_banned("a.example/", "home"), is_banned("b.example/", "other")];
        assert_eq!(judged, expected, "{}", words(&selection, How::Soft));
    }
}
