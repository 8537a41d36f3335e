//! Purges of selected pages, in memory.

use super::*;
use crate::entry::each;
use crate::tags::{TagFields, TagHash};
use crate::untagged::Untagged;

/// Finds itself.
pub(super) struct Word(pub(super) String);

impl Pattern for Word {
    fn text(&self) -> &str {
        &self.0
    }

    fn is_in(&self, text: &[u8]) -> Option<bool> {
        Some(text.windows(self.0.len()).any(|window| window == self.0.as_bytes()))
    }
}

pub(super) fn bytes(text: &str) -> Box<[u8]> {
    text.as_bytes().into()
}

pub(super) fn tags(tags: &[&str]) -> Selection {
    Selection::Tags(tags.iter().map(|tag| bytes(tag)).collect())
}

pub(super) fn uri(host: Option<&str>, uri: UriTest) -> Selection {
    Selection::Url { host: host.map(bytes), uri }
}

pub(super) fn purge(zone: &Arc<Zone>, selection: Selection, how: How, now: u64) -> Purged {
    zone.purge_selected(selection, how, at(now)).expect("it is short")
}

/// A selection, for messages.
pub(super) fn words(selection: &Selection, how: How) -> String {
    selection.words(how, &TagFields::default()).expect("it is short")
}

/// A zone with tags.
fn tagged_zone() -> Arc<Zone> {
    let zone = zone(1 << 20);
    zone.set_tag_fields(&["xkey"]);
    zone
}

/// A page with tags, with the URL that its key is, but for keys that begin with `-`.
pub(super) fn tagged(body: Body, key: &[u8], tags: &str, now: u64) -> Object {
    let page = page(body, now);
    let mut fields = page.fields.clone();
    fields.push(b"XKey", tags.as_bytes());
    let slash = key.iter().position(|byte| *byte == b'/').unwrap_or(key.len());
    let (host, uri) = key.split_at(slash);
    let hold = match key.starts_with(b"-") {
        true => Hold::default(),
        false => Hold::default().at(Url { is_https: true, host, uri }),
    };
    Object { fields, hold, ..page }
}

/// Stores a page with its key as its text, as [`tagged`] has it.
pub(super) fn store(worker: &mut Worker, key: &str, tags: &str, now: u64) {
    let zone = Arc::clone(&worker.zone);
    let permit = zone.permit(&mut worker.front, &KeyRef::new(key.as_bytes()), at(now)).expect("there is room");
    finish(&zone, permit, key, tags, now);
}

fn finish(zone: &Arc<Zone>, mut permit: Permit, key: &str, tags: &str, now: u64) {
    let (mut writer, body) = zone.body(key.as_bytes(), None, None);
    permit.begin(tagged(body, key.as_bytes(), tags, now));
    writer.append(Bytes::copy_from_slice(key.as_bytes())).expect("it is stored");
    writer.finish();
    permit.complete();
}

/// What a request comes to, as [`told`] says it, without the text.
pub(super) fn seen(worker: &mut Worker, key: &str, now: u64) -> &'static str {
    let rules = Rules::default();
    for _ in 0..4 {
        let mut verdict = worker.ask(key.as_bytes(), &rules, now);
        if let Verdict::Load(loading) = verdict {
            run(loading.run());
            verdict = worker.ask(key.as_bytes(), &rules, now);
        }
        let page = match verdict {
            Verdict::Hit(page) => (page, "hit"),
            Verdict::Stale { object, .. } => (object, "stale"),
            Verdict::Miss(Some(_)) => return "miss",
            verdict => panic!("{verdict:?}"),
        };
        let asking = Asking { url: b"/", fields: &Fields::new() };
        match worker.zone.banned(&page.0, &asking) {
            None => return page.1,
            Some(banned) => worker.zone.enforce(banned, &page.0.to_arc(), at(now)),
        }
    }
    panic!("{key} is banned again and again")
}

pub(super) const PAGES: [(&str, &str); 6] = [
    ("a.example/", "home"),
    ("a.example/news/1", "news one"),
    ("a.example/news/2", "news, two"),
    ("b.example/", "home"),
    ("b.example/news/1?x", ""),
    ("-c", "home"),
];

#[test]
fn a_purge_meets_the_pages_that_are_selected_and_no_others() {
    let all = "a.example/ a.example/news/1 a.example/news/2 b.example/ b.example/news/1?x -c";
    for (selection, met) in [
        (tags(&["news"]), "a.example/news/1 a.example/news/2"),
        (tags(&["one", "two", "one", "three"]), "a.example/news/1 a.example/news/2"),
        (tags(&["New"]), ""),
        (Selection::Key(bytes("a.example/")), "a.example/"),
        (Selection::KeyPrefix(bytes("a.example/n")), "a.example/news/1 a.example/news/2"),
        // One whose URL is unknown may be of any.
        (Selection::Host(bytes("B.example")), "b.example/ b.example/news/1?x -c"),
        (uri(None, UriTest::Is(bytes("/"))), "a.example/ b.example/ -c"),
        (uri(Some("A.Example"), UriTest::Is(bytes("/"))), "a.example/ -c"),
        (uri(None, UriTest::Like(bytes("/news/*"))), "a.example/news/1 a.example/news/2 b.example/news/1?x -c"),
        (uri(Some("b.example"), UriTest::Matches(Arc::new(Word("1".to_owned())))), "b.example/news/1?x -c"),
        (Selection::All, all),
    ] {
        for (how, becomes) in [(How::Hard, "miss"), (How::Soft, "stale")] {
            let zone = tagged_zone();
            let mut worker = Worker::new(&zone);
            PAGES.iter().for_each(|(key, tags)| store(&mut worker, key, tags, 0));
            // They are in the front of another worker as well.
            let mut other = Worker::new(&zone);
            assert!(PAGES.iter().all(|(key, _)| seen(&mut other, key, 0) == "hit"));
            let words = words(&selection, how);
            let met: Vec<&str> = met.split_whitespace().collect();
            let purged = purge(&zone, selection.clone(), how, 1);
            assert_eq!((purged.pages, purged.is_also_on_disk), (met.len(), false), "{words}");
            assert_eq!(zone.stats().purged, met.len() as u64, "{words}");
            for (key, _) in PAGES {
                assert_eq!(
                    zone.ended(&KeyRef::new(key.as_bytes())),
                    met.contains(&key).then_some(Ended::Purged),
                    "{words} {key} is remembered"
                );
                let expected = if met.contains(&key) { becomes } else { "hit" };
                assert_eq!([seen(&mut worker, key, 1), seen(&mut other, key, 1)], [expected; 2], "{words} {key}");
            }
            // What comes later is no more meant.
            PAGES.iter().for_each(|(key, tags)| store(&mut worker, key, tags, 1));
            assert!(PAGES.iter().all(|(key, _)| seen(&mut worker, key, 1) == "hit"), "{words}");
        }
    }
}

#[test]
fn a_page_that_was_purged_softly_is_served_while_one_request_fetches_it_anew() {
    let zone = tagged_zone();
    let mut worker = Worker::new(&zone);
    store(&mut worker, "a/", "home", 0);
    assert_eq!(purge(&zone, tags(&["home"]), How::Soft, 2).pages, 1);
    let first = worker.ask(b"a/", &lock(), 3);
    assert_eq!(told(&first), "stale a/ updating=false");
    let Verdict::Stale { object, permit: Some(permit), .. } = first else { panic!("{first:?}") };
    assert_eq!((object.stored_at, object.fresh_until), (at(0), at(2)));
    assert_eq!((object.stale_while_revalidate, object.stale_if_error), (secs(5), secs(20)));
    assert!(object.may_serve_while_revalidating(at(6)) && !object.may_serve_while_revalidating(at(7)));
    for _ in 0..3 {
        assert_eq!(told(&worker.ask(b"a/", &lock(), 3)), "stale a/ updating=true");
    }
    drop(object);
    finish(&zone, permit, "a/", "home", 3);
    assert_eq!(seen(&mut worker, "a/", 4), "hit");
}

#[test]
fn what_is_being_fetched_is_not_stored_or_is_stored_as_stale() {
    let selections = [
        tags(&["home"]),
        Selection::Host(bytes("a")),
        uri(None, UriTest::Like(bytes("/*"))),
        Selection::KeyPrefix(bytes("a")),
        Selection::Key(bytes("a/")),
        Selection::All,
    ];
    for selection in selections {
        for (how, expected) in [(How::Hard, "miss"), (How::Soft, "stale")] {
            let words = words(&selection, how);
            for has_begun in [false, true] {
                let zone = tagged_zone();
                let mut worker = Worker::new(&zone);
                let mut permit = worker.permit(b"a/", &lock(), 0);
                let (mut writer, body) = zone.body(b"a/", None, None);
                let mut object = Some(tagged(body, b"a/", "home", 0));
                if has_begun {
                    permit.begin(object.take().expect("it has not begun"));
                }
                assert_eq!(purge(&zone, selection.clone(), how, 1).pages, 0, "{words}");
                if let Some(object) = object {
                    permit.begin(object);
                }
                writer.append(Bytes::from_static(b"a/")).expect("it is stored");
                writer.finish();
                permit.complete();
                // Without a look at bans: it is so in memory.
                let verdict = told(&worker.ask(b"a/", &lock(), 1));
                assert_eq!(verdict.split(' ').next(), Some(expected), "{words} {has_begun}");
                assert_eq!(seen(&mut worker, "a/", 1), expected, "{words} {has_begun}");
            }
        }
    }
}

/// As for a bypassed cache: the answer is there before there is a permit.
#[test]
fn what_is_fetched_without_a_permit_is_met_as_well() {
    for selection in [Selection::Key(bytes("a/")), Selection::KeyPrefix(bytes("a")), Selection::All, tags(&["newer"])] {
        for (how, expected) in [(How::Hard, "miss"), (How::Soft, "stale")] {
            let zone = tagged_zone();
            let mut worker = Worker::new(&zone);
            store(&mut worker, "a/", "older", 0);
            let before = zone.moment();
            purge(&zone, selection.clone(), how, 1);
            let after = zone.moment();
            for (began, expected) in [(before, expected), (after, "hit")] {
                let permit = zone.permit(&mut worker.front, &KeyRef::new(b"a/"), at(2));
                let mut permit = permit.expect("there is room");
                permit.fetched_since(began);
                finish(&zone, permit, "a/", "newer", 2);
                assert_eq!(seen(&mut worker, "a/", 3), expected, "{}", words(&selection, how));
            }
        }
    }
}

#[test]
fn a_304_gives_a_page_the_tags_of_its_new_fields_and_leaves_its_url() {
    let zone = tagged_zone();
    let mut worker = Worker::new(&zone);
    let confirmed = |worker: &mut Worker, purged: Option<&str>| {
        store(worker, "a/", "old both", 0);
        let verdict = worker.ask(b"a/", &lock(), 20);
        let Verdict::Stale { object, permit: Some(permit), .. } = verdict else { panic!("{verdict:?}") };
        if let Some(tag) = purged {
            assert_eq!(purge(&worker.zone, tags(&[tag]), How::Soft, 21).pages, 1);
        }
        let (object, new) = (object.to_arc(), tagged(Body::of(Bytes::new(), None), b"-", "both new", 21));
        permit.freshen(&object, Object { body: object.body.clone(), ..new });
        let verdict = told(&worker.ask(b"a/", &lock(), 21));
        assert!(verdict.starts_with(if purged.is_some() { "stale" } else { "hit" }), "{verdict}");
    };
    for (selection, met) in
        [(tags(&["old"]), 0), (tags(&["both"]), 1), (tags(&["new"]), 1), (Selection::Host(bytes("b")), 0)]
    {
        confirmed(&mut worker, None);
        assert_eq!(purge(&zone, selection, How::Hard, 22).pages, met);
        assert_eq!(seen(&mut worker, "a/", 22), if met == 1 { "miss" } else { "hit" });
    }
    // What is asked for before a purge is no confirmation after it.
    confirmed(&mut worker, Some("both"));
}

#[test]
fn pages_of_before_have_the_tags_of_fields_that_are_named_later() {
    let zone = zone(1 << 20);
    let mut worker = Worker::new(&zone);
    store(&mut worker, "a/", "home", 0);
    store(&mut worker, "b/", "other", 0);
    assert_eq!(purge(&zone, tags(&["home"]), How::Hard, 1).pages, 0);
    assert_eq!([seen(&mut worker, "a/", 1), seen(&mut worker, "b/", 1)], ["hit"; 2]);
    zone.set_tag_fields(&["xkey"]);
    purge(&zone, tags(&["home"]), How::Hard, 1);
    assert_eq!([seen(&mut worker, "a/", 1), seen(&mut worker, "b/", 1)], ["miss", "hit"]);
    zone.set_tag_fields(&[]);
    purge(&zone, tags(&["other"]), How::Hard, 1);
    assert_eq!(seen(&mut worker, "b/", 1), "hit");
}

#[test]
fn every_tag_means_a_page_with_too_many() {
    let zone = tagged_zone();
    let mut worker = Worker::new(&zone);
    let many: Vec<String> = (0..=TAGS_MAX).map(|number| format!("t{number}")).collect();
    store(&mut worker, "a/", &many.join(" "), 0);
    store(&mut worker, "b/", "t1", 0);
    assert_eq!(purge(&zone, tags(&["another"]), How::Soft, 1).pages, 1);
    assert_eq!([seen(&mut worker, "a/", 1), seen(&mut worker, "b/", 1)], ["stale", "hit"]);
    assert_eq!(purge(&zone, tags(&["t1"]), How::Hard, 1).pages, 2);
}

#[test]
fn the_index_of_tags_forgets_pages_that_leave() {
    let zone = tagged_zone();
    let mut worker = Worker::new(&zone);
    let len = || zone.tags_indexed().0;
    store(&mut worker, "a/", "one two", 0);
    store(&mut worker, "a/", "two three", 0);
    store(&mut worker, "b/", "two", 0);
    assert_eq!(len(), 3);
    purge(&zone, tags(&["three"]), How::Hard, 1);
    assert_eq!(len(), 1);
    zone.purge(&KeyRef::new(b"b/"), at(1));
    assert_eq!(len(), 0);
    store(&mut worker, "a/", "one", 1);
    zone.clear_memory();
    assert_eq!(len(), 0);
}

#[test]
fn what_is_sought_by_tag_is_all_variants_that_have_it() {
    let zone = tagged_zone();
    let mut worker = Worker::new(&zone);
    for (language, tag) in [("de", "home de"), ("en", "home en")] {
        let lines = [("Accept-Language", language)];
        let mut permit = permit_of(worker.ask_with(KEY, &lines, &Rules::default(), 0));
        let (writer, body) = zone.body(KEY, None, None);
        let mut object = varied(body, &lines, "Accept-Language", 0);
        object.fields.push(b"xkey", tag.as_bytes());
        permit.begin(object);
        writer.finish();
        permit.complete();
    }
    assert_eq!(purge(&zone, tags(&["de"]), How::Hard, 1).pages, 1);
    assert_eq!(zone.stats().objects, 1);
    assert_eq!(zone.tags_indexed().0, 2);
    assert_eq!(purge(&zone, tags(&["home"]), How::Hard, 1).pages, 1);
    assert_eq!(zone.stats().objects, 0);
}

#[test]
fn a_page_that_comes_before_the_index_has_forgotten_another_one_stays_in_it() {
    for (comes, is_gone) in [(false, false), (false, true), (true, false), (true, true)] {
        let zone = tagged_zone();
        let mut worker = Worker::new(&zone);
        store(&mut worker, "a.example/", "x y", 0);
        let (key, tag) = (KeyRef::new(b"a.example/"), TagHash::of(b"x"));
        let entry = zone.entry_there(&key).expect("it is there");
        let page = each(&entry.variants()).next().cloned().expect("there is one");
        let mut untagged = Untagged::default();
        assert!(zone.drop_from_memory(&page, &mut untagged, at(1)));
        if is_gone {
            zone.forget(&key);
        }
        if comes {
            store(&mut worker, "a.example/", "x", 2);
        }
        assert_eq!(zone.entries_of(tag).len(), 1, "{comes} {is_gone}: nothing is forgotten yet");
        zone.settle_tags(&mut untagged);
        let named = [tag, TagHash::of(b"y")].map(|tag| zone.entries_of(tag).len());
        assert_eq!(named, [usize::from(comes), 0], "{comes} {is_gone}");
        assert_eq!(purge(&zone, tags(&["x"]), How::Hard, 3).pages, usize::from(comes), "{comes} {is_gone}");
        assert_eq!(zone.tags_indexed().0, 0, "{comes} {is_gone}");
    }
}
