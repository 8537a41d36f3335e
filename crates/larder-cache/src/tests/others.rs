//! Purges that other caches are told of.

use parking_lot::Mutex;

use super::selected::{PAGES, Word, bytes, seen, store, tags, uri};
use super::*;

/// Notes what it is told.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Others for Notes {
    fn purged(&self, zone: &str, words: &str) {
        self.0.lock().push(format!("{zone}: {words}"));
    }
}

/// A zone with pages with tags, and what others are told of it.
fn told_zone() -> (Worker, Arc<Notes>) {
    let zone = zone(1 << 20);
    zone.set_tag_fields(&["xkey"]);
    let notes = Arc::new(Notes::default());
    zone.tell_others(Some(Arc::clone(&notes) as Arc<dyn Others>));
    let mut worker = Worker::new(&zone);
    PAGES.iter().for_each(|(key, tags)| store(&mut worker, key, tags, 0));
    (worker, notes)
}

fn compile(text: &str) -> Option<Arc<dyn Pattern>> {
    (text != "(").then(|| Arc::new(Word(text.to_owned())) as Arc<dyn Pattern>)
}

/// What requests of all pages come to.
fn all_seen(worker: &mut Worker) -> Vec<&'static str> {
    PAGES.iter().map(|(key, _)| seen(worker, key, 2)).collect()
}

#[test]
fn a_purge_is_told_once_and_elsewhere_does_the_same_however_often() {
    type Wish = Box<dyn Fn(&Arc<Zone>) -> bool>;
    let mut wishes: Vec<(Wish, &str)> = vec![
        (Box::new(|zone| zone.purge(&KeyRef::new(b"a.example/"), at(1)) > 0), "purge hard key a.example/"),
        (Box::new(|zone| zone.purge_prefix(b"a.", at(1)) > 0), "purge hard prefix a."),
        (Box::new(|zone| zone.purge_prefix(b"", at(1)) > 0), "purge hard all"),
    ];
    for (selection, words) in [
        (Selection::Key(bytes("b.example/")), "key b.example/"),
        (Selection::KeyPrefix(bytes("a.example/n")), "prefix a.example/n"),
        (Selection::Host(bytes("b.example")), "host b.example"),
        (tags(&["news"]), "tag xkey news"),
        (uri(None, UriTest::Is(bytes("/"))), "url * is /"),
        (uri(Some("a.example"), UriTest::Like(bytes("/news/*"))), "url a.example like /news/*"),
        (uri(None, UriTest::Matches(Arc::new(Word("1".to_owned())))), "url * ~ 1"),
        (Selection::All, "all"),
    ] {
        for (how, which) in [(How::Hard, "hard"), (How::Soft, "soft")] {
            let selection = selection.clone();
            let wish = move |zone: &Arc<Zone>| zone.purge_selected(selection.clone(), how, at(1)).is_ok();
            wishes.push((Box::new(wish), format!("purge {which} {words}").leak()));
        }
    }
    for (wish, words) in wishes {
        let (mut here, notes) = told_zone();
        let (mut there, notes_there) = told_zone();
        assert!(wish(&here.zone));
        assert_eq!(*notes.0.lock(), [format!("pages: {words}")]);
        for _ in 0..2 {
            there.zone.carry_out(words, compile, at(1), at(1));
        }
        assert_eq!(all_seen(&mut there), all_seen(&mut here), "{words}");
        assert!(notes_there.0.lock().is_empty(), "{words}");
    }
}

/// Notes the moment of its zone at which it is told.
struct Moments(std::sync::Weak<Zone>, Mutex<Vec<Moment>>);

impl Others for Moments {
    fn purged(&self, _: &str, _: &str) {
        self.1.lock().extend(self.0.upgrade().map(|zone| zone.moment()));
    }
}

#[test]
fn a_purge_is_told_before_it_is_carried_out() {
    let zone = zone(1 << 20);
    let moments = Arc::new(Moments(Arc::downgrade(&zone), Mutex::default()));
    zone.tell_others(Some(Arc::clone(&moments) as Arc<dyn Others>));
    let before = |purge: &dyn Fn()| {
        let before = zone.moment();
        purge();
        assert_ne!(zone.moment(), before);
        assert_eq!(std::mem::take(&mut *moments.1.lock()), [before]);
    };
    before(&|| {
        _ = zone.purge(&KeyRef::new(b"a"), at(1));
    });
    before(&|| {
        _ = zone.purge_prefix(b"a", at(1));
    });
    before(&|| {
        _ = zone.ban(Arc::new(Unread("x".to_owned())), at(1));
    });
    for selection in [Selection::All, tags(&["a"])] {
        before(&|| {
            _ = zone.purge_selected(selection.clone(), How::Hard, at(1));
        });
        before(&|| {
            _ = zone.purge_selected(selection.clone(), How::Soft, at(1));
        });
    }
}

#[test]
fn a_ban_is_told_in_its_words_and_read_as_from_a_disk() {
    let (mut worker, notes) = told_zone();
    worker.zone.ban(Arc::new(Unread("obj.age > 1h".to_owned())), at(1));
    assert_eq!(*notes.0.lock(), ["pages: obj.age > 1h"]);
    worker.zone.read_bans_by(|words| Arc::new(Unread(words.to_owned())));
    let number = worker.zone.newest_ban();
    worker.zone.carry_out("obj.age > 2h", compile, at(0), at(1));
    assert_eq!(worker.zone.newest_ban(), number + 1);
    let texts: Vec<_> = worker.zone.bans().into_iter().map(|ban| (ban.text, ban.made_at)).collect();
    assert_eq!(texts[0], ("obj.age > 2h".to_owned(), at(0)));
    assert_eq!(all_seen(&mut worker), ["miss"; 6]);
    assert_eq!(notes.0.lock().len(), 1);
}

#[test]
fn words_that_cannot_be_read_mean_all_pages() {
    for words in ["purge hard moon", "purge", "purge hard url * ~ (", ""] {
        let (mut worker, _) = told_zone();
        worker.zone.carry_out(words, compile, at(1), at(1));
        assert_eq!(all_seen(&mut worker), ["miss"; 6], "{words}");
    }
}

#[test]
fn what_no_one_wished_is_not_told() {
    let (worker, notes) = told_zone();
    let key = KeyRef::new(b"a.example/");
    worker.zone.invalidate(&key, at(1));
    worker.zone.purge_variants(&key, |_| true, at(1));
    worker.zone.forget_all(|_| true);
    worker.zone.clear_memory();
    assert!(notes.0.lock().is_empty());
}

#[test]
fn a_key_that_is_too_long_to_be_told_is_told_by_its_start() {
    let (worker, notes) = told_zone();
    let key = vec![b'%'; 40 << 10];
    worker.zone.purge(&KeyRef::new(&key), at(1));
    let told = notes.0.lock().pop().expect("it is told");
    assert!(told.starts_with("pages: purge hard prefix %25%25"), "{}", &told[..40]);
    assert!(told.len() < 64 << 10);
}

#[test]
fn what_is_stale_as_purges_may_be_missed_is_told_from_what_is_purged() {
    let (mut worker, notes) = told_zone();
    let zone = Arc::clone(&worker.zone);
    let ended = || PAGES.map(|(key, _)| zone.ended(&KeyRef::new(key.as_bytes())));
    zone.count_as_stale(at(1));
    assert_eq!(ended(), PAGES.map(|_| Some(Ended::Unsure)));
    assert_eq!(all_seen(&mut worker), ["stale"; PAGES.len()]);
    assert!(notes.0.lock().is_empty(), "it is this cache's own affair");
    PAGES.iter().for_each(|(key, tags)| store(&mut worker, key, tags, 1));
    assert_eq!(ended(), [None; PAGES.len()]);
    assert!(zone.purge_selected(Selection::All, How::Soft, at(2)).is_ok());
    assert_eq!(ended(), PAGES.map(|_| Some(Ended::Purged)));
}
