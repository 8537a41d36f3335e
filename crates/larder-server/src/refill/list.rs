//! The pages that wait: each once, and no more than [`PAGES_MAX`] and [`BYTES_MAX`]. One page of a host is out at a time; of the
//! hosts that have none out, the page comes first that was asked for most.
//!
//! A page whose origin rests is put aside until that has rested, so that nobody looks through it again and again.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use larder_http::Time;

use super::Page;

/// The list.
#[derive(Default)]
pub(super) struct List {
    hosts: HashMap<Box<[u8]>, Queue>,
    /// Pages of origins that rest, and until when.
    aside: HashMap<usize, Aside>,
    /// Where each page is: its place, and the origin that it waits for.
    places: HashMap<Name, (Place, Option<usize>)>,
    bytes: usize,
    arrivals: u64,
}

/// The order: by hits, then by arrival.
type Place = (Reverse<u32>, u64);
/// Scheme, host, path and query.
type Name = (bool, Box<[u8]>, Box<[u8]>);
type Pages = BTreeMap<Place, Page>;

/// The pages of a host.
#[derive(Default)]
struct Queue {
    ready: Pages,
    /// Whether one of them is out.
    is_out: bool,
}

struct Aside {
    until: Time,
    pages: Pages,
}

impl List {
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// How many of them wait for an origin that rests or has enough to do.
    pub(super) fn resting(&self) -> usize {
        self.aside.values().map(|aside| aside.pages.len()).sum()
    }

    /// Whether a page with so many hits would be on it.
    pub(super) fn has_room(&self, hits: u32) -> bool {
        let is_full = self.places.len() >= PAGES_MAX || self.bytes + PAGE_BYTES_MAX > BYTES_MAX;
        !is_full || self.least().is_some_and(|((least, _), _)| hits > least.0)
    }

    /// The last of all, wherever it waits.
    fn least(&self) -> Option<(&Place, &Page)> {
        let ready = self.hosts.values().map(|queue| &queue.ready);
        let all = ready.chain(self.aside.values().map(|aside| &aside.pages));
        all.filter_map(BTreeMap::last_key_value).max_by_key(|(place, _)| **place)
    }

    /// Adds a page, of which the last ones that were asked for least make room. One that is there keeps the most hits.
    pub(super) fn add(&mut self, mut page: Page) {
        if bytes_of(&page) > PAGE_BYTES_MAX {
            return;
        }
        if let Some(old) = self.remove(&name_of(&page)) {
            if old.hits > page.hits {
                // The variant that was asked for more.
                (page.hits, page.fields) = (old.hits, old.fields);
            }
            if old.reason.urgency() > page.reason.urgency() {
                (page.reason, page.pass) = (old.reason, old.pass);
            }
        }
        while self.places.len() >= PAGES_MAX || self.bytes + bytes_of(&page) > BYTES_MAX {
            match self.least() {
                Some(((least, _), last)) if page.hits > least.0 => {
                    let name = name_of(last);
                    self.remove(&name);
                }
                _ => return,
            }
        }
        self.arrivals += 1;
        let place = (Reverse(page.hits), self.arrivals);
        self.bytes += bytes_of(&page);
        self.places.insert(name_of(&page), (place, None));
        self.queue(&page.host).ready.insert(place, page);
    }

    fn queue(&mut self, host: &[u8]) -> &mut Queue {
        self.hosts.entry(host.into()).or_default()
    }

    /// Takes the first page that waits neither for an origin nor for its host, whose pages wait until [`done`](Self::done). The
    /// error says when to ask again; `None` if the list is empty. `rest_of` says until when an origin rests, if it does.
    pub(super) fn take(&mut self, now: Time, rest_of: impl Fn(usize) -> Option<Time>) -> Option<Result<Page, Time>> {
        let rested: Vec<usize> =
            self.aside.iter().filter(|(_, aside)| aside.until <= now).map(|(origin, _)| *origin).collect();
        for origin in rested {
            self.back(origin);
        }
        while let Some((place, page)) = self.pop() {
            let name = name_of(&page);
            let waits_for = page.origin.and_then(|origin| Some((origin, rest_of(origin)?)));
            let Some((origin, until)) = waits_for else {
                self.places.remove(&name);
                self.bytes -= bytes_of(&page);
                self.queue(&page.host).is_out = true;
                return Some(Ok(page));
            };
            let aside = self.aside.entry(origin).or_insert_with(|| Aside { until, pages: BTreeMap::new() });
            aside.until = until;
            aside.pages.insert(place, page);
            self.places.insert(name, (place, Some(origin)));
        }
        let soon = now.plus(LOOK_AGAIN);
        let rested = self.aside.values().map(|aside| aside.until).min();
        (!self.is_empty()).then(|| Err(rested.map_or(soon, |until| until.min(soon).max(now))))
    }

    /// The first page of the hosts that have none out.
    fn pop(&mut self) -> Option<(Place, Page)> {
        let free = self.hosts.iter().filter(|(_, queue)| !queue.is_out);
        let firsts = free.filter_map(|(host, queue)| Some((*queue.ready.first_key_value()?.0, host)));
        let host = firsts.min_by_key(|(place, _)| *place)?.1.clone();
        self.hosts.get_mut(&host)?.ready.pop_first()
    }

    /// The page of a host that was taken is through.
    pub(super) fn done(&mut self, host: &[u8]) {
        if let Some(queue) = self.hosts.get_mut(host) {
            queue.is_out = false;
            if queue.ready.is_empty() {
                self.hosts.remove(host);
            }
        }
    }

    /// The pages of an origin do not wait any more.
    fn back(&mut self, origin: usize) {
        let Some(aside) = self.aside.remove(&origin) else { return };
        for (place, page) in aside.pages {
            self.places.insert(name_of(&page), (place, None));
            self.queue(&page.host).ready.insert(place, page);
        }
    }

    fn remove(&mut self, name: &Name) -> Option<Page> {
        let (place, origin) = self.places.remove(name)?;
        let page = match origin {
            None => {
                let queue = self.hosts.get_mut(&name.1)?;
                let page = queue.ready.remove(&place);
                if queue.ready.is_empty() && !queue.is_out {
                    self.hosts.remove(&name.1);
                }
                page
            }
            Some(origin) => self.aside.get_mut(&origin).and_then(|aside| aside.pages.remove(&place)),
        };
        self.bytes -= page.as_ref().map_or(0, bytes_of);
        page
    }

    /// Drops the pages that have come before.
    pub(super) fn drop_older(&mut self, than: Time) {
        let asides = self.aside.values().flat_map(|aside| aside.pages.values());
        let ready = self.hosts.values().flat_map(|queue| queue.ready.values());
        let names: Vec<Name> = ready.chain(asides).filter(|page| page.since < than).map(name_of).collect();
        for name in names {
            self.remove(&name);
        }
        self.aside.retain(|_, aside| !aside.pages.is_empty());
    }
}

fn name_of(page: &Page) -> Name {
    (page.is_https, page.host.clone(), page.uri.clone())
}

/// What a page takes: with its name, its texts twice.
fn bytes_of(page: &Page) -> usize {
    let fields: usize = page.fields.iter().map(|(name, value)| name.len() + value.len()).sum();
    OVERHEAD_BYTES + 2 * (page.host.len() + page.uri.len()) + fields
}

/// How many pages wait at most.
pub(super) const PAGES_MAX: usize = 10_000;
/// How many bytes they take at most.
const BYTES_MAX: usize = 16 << 20;
/// When to ask again at the latest.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// A page that takes more is not fetched again.
const PAGE_BYTES_MAX: usize = 8 << 10;
/// A page and its places, without its texts.
const OVERHEAD_BYTES: usize = 400;

#[cfg(test)]
mod tests {
    use super::super::Reason;
    use super::*;

    fn page(host: &str, uri: &str, hits: u32) -> Page {
        Page {
            is_https: false,
            host: host.as_bytes().into(),
            uri: uri.as_bytes().into(),
            hits,
            fields: vec![("accept-language".into(), uri.as_bytes().into())],
            per_second: 1,
            reason: Reason::Purged,
            pass: None,
            tries: 0,
            since: Time(u64::from(hits)),
            origin: None,
            came: None,
        }
    }

    fn taken(list: &mut List, now: u64, rests: &[(usize, u64)]) -> Option<String> {
        let rest_of = |origin| rests.iter().find(|(one, until)| *one == origin && *until > now).map(|one| Time(one.1));
        list.take(Time(now), rest_of).map(|next| match next {
            Ok(page) => {
                list.done(&page.host);
                format!("{} {}", String::from_utf8_lossy(&page.uri), page.hits)
            }
            Err(until) => format!("wait until {}", until.0),
        })
    }

    #[test]
    fn those_that_were_asked_for_most_come_first_and_each_once() {
        let mut list = List::default();
        for (uri, hits) in [("/a", 1), ("/b", 5), ("/c", 5), ("/a", 9), ("/b", 2)] {
            list.add(page("h", uri, hits));
        }
        let all: Vec<_> = std::iter::from_fn(|| taken(&mut list, 0, &[])).collect();
        assert_eq!(all, ["/a 9", "/c 5", "/b 5"]);
        assert!(list.places.is_empty() && list.is_empty() && list.bytes == 0);
    }

    #[test]
    fn those_that_were_asked_for_least_make_room() {
        let mut list = List::default();
        for number in 0..PAGES_MAX as u32 + 5 {
            list.add(page("h", &format!("/{number}"), number));
        }
        assert_eq!((list.hosts[&b"h"[..]].ready.len(), list.len()), (PAGES_MAX, PAGES_MAX));
        assert!(!list.has_room(5) && list.has_room(6), "the least has 5");
        list.add(page("h", "/new", 5));
        assert_eq!(list.least().map(|(place, _)| place.0.0), Some(5));
        assert_eq!(taken(&mut list, 0, &[]).as_deref(), Some("/10004 10004"));
        list.drop_older(Time(10_000));
        assert_eq!((list.hosts[&b"h"[..]].ready.len(), list.len()), (4, 4));
    }

    #[test]
    fn bytes_are_bounded() {
        let mut list = List::default();
        list.add(page("h", &format!("/{}", "a".repeat(PAGE_BYTES_MAX)), 9));
        assert!(list.is_empty(), "too long");
        for number in 0..PAGES_MAX as u32 {
            list.add(page("h", &format!("/{number:02000}"), number));
        }
        assert!(list.bytes <= BYTES_MAX && list.len() > 2000 && list.len() < 5000, "{}", list.len());
        let most = format!("/{:02000} {}", PAGES_MAX - 1, PAGES_MAX - 1);
        assert_eq!(taken(&mut list, 0, &[]), Some(most), "the least have made room");
    }

    #[test]
    fn of_each_host_one_page_is_out_and_none_stops_the_others() {
        let mut list = List::default();
        for (host, uri, hits) in [("a", "/1", 9), ("a", "/2", 8), ("b", "/1", 2), ("b", "/2", 1)] {
            list.add(page(host, uri, hits));
        }
        let next = |list: &mut List| match list.take(Time(0), |_| None) {
            Some(Ok(page)) => format!("{}{}", String::from_utf8_lossy(&page.host), String::from_utf8_lossy(&page.uri)),
            Some(Err(until)) => format!("look at {}", until.0),
            None => "over".to_owned(),
        };
        assert_eq!([next(&mut list), next(&mut list), next(&mut list)], ["a/1", "b/1", "look at 1000"]);
        list.done(b"b");
        assert_eq!([next(&mut list), next(&mut list)], ["b/2", "look at 1000"]);
        list.done(b"b");
        list.done(b"a");
        assert_eq!([next(&mut list), next(&mut list)], ["a/2", "over"]);
        list.done(b"a");
        assert!(list.hosts.is_empty());
    }

    #[test]
    fn pages_of_an_origin_that_rests_make_room_for_others() {
        let mut list = List::default();
        for number in 0..PAGES_MAX {
            list.add(Page { origin: Some(1), ..page("down", &format!("/{number}"), 2) });
        }
        assert_eq!(taken(&mut list, 0, &[(1, 500)]).as_deref(), Some("wait until 500"));
        assert_eq!(list.resting(), PAGES_MAX);
        assert!(list.has_room(3) && !list.has_room(2));
        list.add(page("up", "/", 3));
        assert_eq!((taken(&mut list, 0, &[(1, 500)]).as_deref(), list.len()), (Some("/ 3"), PAGES_MAX - 1));
    }

    #[test]
    fn the_pages_of_an_origin_that_rests_wait() {
        let mut list = List::default();
        for (uri, hits, origin) in [("/a", 9, Some(1)), ("/b", 5, Some(2)), ("/c", 1, None), ("/d", 4, Some(1))] {
            list.add(Page { origin, ..page("h", uri, hits) });
        }
        let rests = [(1, 50)];
        let all: Vec<_> = [10, 20, 49].map(|now| taken(&mut list, now, &rests).unwrap_or_default()).into();
        assert_eq!(all, ["/b 5", "/c 1", "wait until 50"]);
        assert!(!list.is_empty());
        // One that is purged again meanwhile is there once.
        list.add(page("h", "/d", 20));
        let all: Vec<_> = [49, 50, 51].map(|now| taken(&mut list, now, &rests).unwrap_or_default()).into();
        assert_eq!(all, ["/d 20", "/a 9", ""]);
        assert!(list.is_empty() && list.bytes == 0);
    }
}
