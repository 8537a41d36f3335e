//! Pages under bans.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// Holds for pages of one text, and counts how often it was asked.
pub(super) struct OfText {
    text: &'static str,
    asked: AtomicU32,
    is_timeless: bool,
    asks_request: bool,
    effect: Effect,
}

impl OfText {
    /// One that looks at no request.
    pub(super) fn of_page(text: &'static str) -> Self {
        let effect = Effect::Drop;
        Self { text, asked: AtomicU32::new(0), is_timeless: false, asks_request: false, effect }
    }
}

impl Condition<Object> for OfText {
    fn text(&self) -> &str {
        self.text
    }

    fn is_timeless(&self) -> bool {
        self.is_timeless
    }

    fn asks_request(&self) -> bool {
        self.asks_request
    }

    fn effect(&self) -> Effect {
        self.effect
    }

    fn holds(&self, page: &Object, request: &Asking<'_>, _: Time) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed);
        (request.url == b"/" || !self.asks_request) && text(page) == self.text
    }
}

/// What a disk has kept of [`OfText`].
pub(super) fn of_disk(words: &str) -> Arc<dyn Condition<Object>> {
    match words {
        "one" => of_text("one"),
        "two" => of_text("two"),
        other => panic!("{other} was not banned"),
    }
}

pub(super) fn of_text(text: &'static str) -> Arc<OfText> {
    Arc::new(OfText { is_timeless: true, asks_request: true, ..OfText::of_page(text) })
}

pub(super) fn is_banned(zone: &Zone, page: &Object) -> bool {
    zone.banned(page, &Asking { url: b"/", fields: &Fields::new() }).is_some()
}

#[test]
fn a_ban_covers_the_pages_before_it_for_which_it_holds() {
    let zone = zone(1 << 20);
    let mut worker = Worker::new(&zone);
    let (one, two) = (worker.store(b"a", "one", 0), worker.store(b"b", "two", 0));
    let ban = of_text("one");
    zone.ban(Arc::clone(&ban) as Arc<dyn Condition<Object>>, at(1));
    let later = worker.store(b"c", "one", 1);
    assert_eq!([&one, &two, &later].map(|page| is_banned(&zone, page)), [true, false, false]);
    assert_eq!(ban.asked.load(Ordering::Relaxed), 2, "the page that came later is not asked");
    assert!(!is_banned(&zone, &two));
    assert_eq!(ban.asked.load(Ordering::Relaxed), 2, "a page is tested once");
    zone.enforce(Banned::Gone, &one, at(2));
    assert_eq!(
        (told(&worker.ask(b"a", &lock(), 2)), told(&worker.ask(b"b", &lock(), 2))),
        ("miss".into(), "hit two".into())
    );
    assert_eq!(zone.stats().purged, 1);
}

#[test]
fn what_was_being_fetched_when_a_ban_was_made_is_tested_but_not_by_the_ban_of_who_fetched_it() {
    for (spared, expected) in [(None, true), (Some((1, 1)), false), (Some((2, 2)), true)] {
        let zone = zone(1 << 20);
        let spared = spared.map(|(first, last)| (zone.newest_ban() + first, zone.newest_ban() + last));
        let mut worker = Worker::new(&zone);
        let mut permit = worker.permit(KEY, &Rules::default(), 0);
        zone.ban(of_text("one"), at(1));
        if let Some((first, last)) = spared {
            permit.spare(first..=last);
        }
        let (mut writer, body) = zone.body(KEY, None, None);
        let page = permit.begin(page(body, 2));
        writer.append(Bytes::from_static(b"one")).expect("it is stored");
        writer.finish();
        permit.complete();
        assert_eq!(is_banned(&zone, &page), expected, "{spared:?}");
    }
}

#[test]
fn a_later_ban_of_the_same_words_takes_the_place_of_an_earlier_one_unless_its_time_counts() {
    for (is_timeless, done) in [(true, [false, true]), (false, [false, false])] {
        let zone = zone(1 << 20);
        let mut worker = Worker::new(&zone);
        let page = worker.store(KEY, "one", 0);
        let ban = || Arc::new(OfText { is_timeless, asks_request: true, ..OfText::of_page("two") });
        let first = ban();
        zone.ban(Arc::clone(&first) as Arc<dyn Condition<Object>>, at(1));
        let (before, second) = (zone.newest_ban(), zone.ban(ban(), at(2)));
        assert_eq!(second, before + 1);
        assert!(!is_banned(&zone, &page));
        assert_eq!(first.asked.load(Ordering::Relaxed), u32::from(!is_timeless));
        let listed = zone.bans();
        let shown: Vec<_> = listed.iter().map(|ban| (ban.made_at, ban.pages, ban.is_done)).collect();
        assert_eq!(shown, [(at(2), 1, done[0]), (at(1), 0, done[1])]);
        let done = u64::from(is_timeless);
        let (tested, asking) = (2 - done, 2);
        let expected = BanStats { bans: 2, done, asking, added: 2, replaced: done, tested, ..BanStats::default() };
        assert_eq!(zone.ban_stats(), expected);
    }
}

#[test]
fn pages_that_nobody_asks_for_are_tested_beforehand_and_bans_forgotten() {
    let of_page = |text| Arc::new(OfText::of_page(text));
    let zone = zone(1 << 20);
    let mut worker = Worker::new(&zone);
    let pages = [(&b"a"[..], "one"), (b"b", "two"), (b"c", "three"), (b"d", "four")];
    let pages = pages.map(|(key, text)| worker.store(key, text, 0));
    let list = || zone.bans().iter().rev().map(|ban| (ban.text.clone(), ban.pages)).collect::<Vec<_>>();
    zone.ban(of_page("one"), at(10));
    zone.ban(of_page("no page"), at(20));
    zone.ban(of_text("two"), at(30));
    zone.ban(of_page("three"), at(40));
    zone.ban(of_page("four"), at(50));
    // What is too young waits, and what looks at a request waits for one; what comes behind that is tested nevertheless.
    let lurked = zone.look_ahead(at(40), at(60), || true);
    assert_eq!(lurked, Lurked { tested: 4, dropped: 2, forgotten: 2 });
    assert_eq!(list(), [("two", 0), ("three", 0), ("four", 0)].map(|(text, pages)| (text.to_owned(), pages)));
    assert_eq!([&pages[0], &pages[2]].map(|page| zone.keeps(page)), [false; 2]);
    let stats = zone.ban_stats();
    assert_eq!((stats.bans, stats.asking, stats.added, stats.forgotten), (3, 1, 5, 2));
    assert_eq!((stats.tested_ahead, stats.dropped_ahead, stats.tested, stats.dropped), (10, 2, 0, 0));
    assert!(is_banned(&zone, &pages[1]) && is_banned(&zone, &pages[3]));
    // One that was tested by none of those that are forgotten is out of date.
    let old = worker.store(b"e", "five", 0);
    assert!(!is_banned(&zone, &old));
    let (mut writer, body) = zone.body(KEY, None, None);
    writer.append(Bytes::from_static(b"five")).expect("it is stored");
    writer.finish();
    assert!(is_banned(&zone, &page(body, 5)));
    // Who is told to stop stops.
    assert_eq!(zone.look_ahead(at(60), at(70), || false).forgotten, 0);
}

#[test]
fn a_ban_from_before_the_clock_was_set_back_does_not_wait_until_the_clock_is_there_again() {
    let zone = zone(1 << 20);
    let mut worker = Worker::new(&zone);
    worker.store(b"a", "one", 0);
    worker.store(b"b", "two", 0);
    zone.ban(Arc::new(OfText::of_page("one")), at(5000));
    zone.ban(Arc::new(OfText::of_page("three")), at(100));
    let lurked = zone.look_ahead(at(40), at(100), || true);
    assert_eq!(lurked, Lurked { tested: 2, dropped: 1, forgotten: 1 });
}

/// Holds for no page, and takes much memory.
struct Big;

impl Condition<Object> for Big {
    fn text(&self) -> &str {
        "big"
    }

    fn bytes(&self) -> usize {
        100 << 20
    }

    fn is_timeless(&self) -> bool {
        false
    }

    fn asks_request(&self) -> bool {
        true
    }

    fn holds(&self, _: &Object, _: &Asking<'_>, _: Time) -> bool {
        false
    }
}

#[test]
fn beyond_their_memory_the_oldest_bans_go_with_the_pages_that_they_were_not_tried_on() {
    let zone = zone(1 << 20);
    let mut worker = Worker::new(&zone);
    let (before, tried) = (worker.store(b"a", "one", 0), worker.store(b"b", "one", 0));
    zone.ban(Arc::new(Big), at(1));
    zone.ban(Arc::new(Big), at(2));
    let later = worker.store(b"c", "one", 5);
    assert!(!is_banned(&zone, &tried));
    zone.ban(Arc::new(Big), at(9));
    assert_eq!(zone.bans().len(), 2);
    assert_eq!([&before, &tried, &later].map(|page| is_banned(&zone, page)), [true, false, false]);
}

/// A soft one that looks at no request.
fn soft(text: &'static str) -> Arc<OfText> {
    Arc::new(OfText { effect: Effect::EndFreshness, ..OfText::of_page(text) })
}

/// What a hit of a page comes to, at the time of the clock, when bans have made of it what they do.
fn look(worker: &mut Worker, key: &[u8], now: u64) -> String {
    let Verdict::Hit(page) = worker.ask(key, &lock(), now) else { return told(&worker.ask(key, &lock(), now)) };
    let Some(banned) = worker.zone.banned(&page, &Asking { url: b"/", fields: &Fields::new() }) else {
        return "hit".into();
    };
    worker.zone.enforce(banned, &page.to_arc(), at(now));
    drop(page);
    let verdict = worker.ask(key, &lock(), now);
    if let Verdict::Stale { object, .. } = &verdict {
        assert!(!is_banned(&worker.zone, object), "it is tested once");
    }
    told(&verdict)
}

#[test]
fn a_soft_ban_ends_the_freshness_of_the_pages_before_it() {
    for is_ahead in [false, true] {
        let zone = zone(1 << 20);
        let mut worker = Worker::new(&zone);
        worker.store(b"a", "one", 0);
        worker.store(b"b", "two", 0);
        for now in [2, 3] {
            zone.ban(soft("one"), at(now));
        }
        worker.store(b"c", "one", 3);
        if is_ahead {
            assert_eq!(zone.look_ahead(at(3), at(4), || true).dropped, 0);
        }
        let seen = [&b"a"[..], b"b", b"c"].map(|key| look(&mut worker, key, 4));
        assert_eq!(seen, ["stale one updating=false", "hit", "hit"], "{is_ahead}");
        let Verdict::Stale { object, .. } = worker.ask(b"a", &lock(), 4) else { panic!("it is stale") };
        // From the first on, and its grace goes on.
        assert_eq!((object.stored_at, object.fresh_until), (at(0), at(2)));
        assert_eq!((object.stale_while_revalidate, object.stale_if_error), (secs(5), secs(20)));
        let again = object.to_arc();
        zone.ban(soft("one"), at(5));
        assert!(is_banned(&zone, &again));
        zone.look_ahead(at(5), at(5), || true);
        assert!(zone.keeps(&again) && !is_banned(&zone, &again), "what is stale stays as it is");
        zone.ban(of_text("one"), at(6));
        zone.ban(soft("one"), at(6));
        let banned = zone.banned(&again, &Asking { url: b"/", fields: &Fields::new() });
        assert_eq!(banned, Some(Banned::Gone), "of two the stricter counts");
    }
}

#[test]
fn what_is_being_fetched_when_a_soft_ban_is_made_is_stored_as_stale() {
    for (text, expected) in [("one", "stale one updating=false"), ("two", "hit two")] {
        let zone = zone(1 << 20);
        let mut worker = Worker::new(&zone);
        let mut permit = worker.permit(KEY, &Rules::default(), 0);
        zone.ban(soft("one"), at(1));
        let (mut writer, body) = zone.body(KEY, None, None);
        permit.begin(page(body, 2));
        writer.append(Bytes::from_static(text.as_bytes())).expect("it is stored");
        writer.finish();
        permit.complete();
        assert_eq!(told(&worker.ask(KEY, &lock(), 2)), expected);
    }
}
