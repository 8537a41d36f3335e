//! The pages that wait: each once, those that were asked for most first, and no more than [`PAGES_MAX`].

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use larder_http::Time;

use super::Page;

/// The list.
#[derive(Default)]
pub(super) struct List {
    pages: BTreeMap<Place, Page>,
    places: HashMap<Name, Place>,
    arrivals: u64,
    /// Hosts that rest, and until when.
    resting: HashMap<Box<[u8]>, Time>,
}

/// The order: by hits, then by arrival.
type Place = (Reverse<u32>, u64);
/// Scheme, host, path and query.
type Name = (bool, Box<[u8]>, Box<[u8]>);

impl List {
    pub(super) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Whether a page with so many hits would be on it.
    pub(super) fn has_room(&self, hits: u32) -> bool {
        self.pages.len() < PAGES_MAX || self.pages.last_key_value().is_some_and(|((least, _), _)| hits > least.0)
    }

    /// Adds a page, of which the last one that was asked for least makes room. One that is there keeps the most hits.
    pub(super) fn add(&mut self, mut page: Page) {
        if page.uri.len() > URI_BYTES_MAX {
            return;
        }
        let name = name_of(&page);
        if let Some(old) = self.places.remove(&name).and_then(|place| self.pages.remove(&place))
            && old.hits > page.hits
        {
            // The variant that was asked for more.
            (page.hits, page.fields) = (old.hits, old.fields);
        }
        if !self.has_room(page.hits) {
            return;
        }
        if self.pages.len() >= PAGES_MAX
            && let Some((_, least)) = self.pages.pop_last()
        {
            self.places.remove(&name_of(&least));
        }
        self.arrivals += 1;
        let place = (Reverse(page.hits), self.arrivals);
        self.places.insert(name, place);
        self.pages.insert(place, page);
    }

    /// The first page whose host does not rest, or when the first rest ends; `None` if there is no page.
    pub(super) fn take(&mut self, now: Time) -> Option<Result<Page, Time>> {
        self.resting.retain(|_, until| *until > now);
        let mut first_end: Option<Time> = None;
        let mut found = None;
        for (place, page) in &self.pages {
            match self.resting.get(&page.host) {
                None => {
                    found = Some(*place);
                    break;
                }
                Some(until) => first_end = Some(first_end.map_or(*until, |first| first.min(*until))),
            }
        }
        let Some(page) = found.and_then(|place| self.pages.remove(&place)) else { return first_end.map(Err) };
        self.places.remove(&name_of(&page));
        Some(Ok(page))
    }

    /// Drops the pages that have come before.
    pub(super) fn drop_older(&mut self, than: Time) {
        let Self { pages, places, .. } = self;
        pages.retain(|_, page| {
            let stays = page.since >= than;
            if !stays {
                places.remove(&name_of(page));
            }
            stays
        });
    }

    pub(super) fn rest(&mut self, host: &[u8], until: Time) {
        self.resting.insert(host.into(), until);
    }
}

fn name_of(page: &Page) -> Name {
    (page.is_https, page.host.clone(), page.uri.clone())
}

/// How many pages wait at most.
pub(super) const PAGES_MAX: usize = 10_000;
/// Pages with longer URLs are not fetched again.
const URI_BYTES_MAX: usize = 8 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn page(host: &str, uri: &str, hits: u32) -> Page {
        Page {
            is_https: false,
            host: host.as_bytes().into(),
            uri: uri.as_bytes().into(),
            hits,
            fields: vec![("accept-language".into(), uri.as_bytes().into())],
            per_second: 1,
            tries: 0,
            since: Time(u64::from(hits)),
        }
    }

    fn taken(list: &mut List, now: u64) -> Option<String> {
        list.take(Time(now)).map(|next| match next {
            Ok(page) => format!("{} {}", String::from_utf8_lossy(&page.uri), page.hits),
            Err(until) => format!("wait until {}", until.0),
        })
    }

    #[test]
    fn those_that_were_asked_for_most_come_first_and_each_once() {
        let mut list = List::default();
        for (uri, hits) in [("/a", 1), ("/b", 5), ("/c", 5), ("/a", 9), ("/b", 2)] {
            list.add(page("h", uri, hits));
        }
        let all: Vec<_> = std::iter::from_fn(|| taken(&mut list, 0)).collect();
        assert_eq!(all, ["/a 9", "/c 5", "/b 5"]);
        assert!(list.places.is_empty() && list.is_empty());
    }

    #[test]
    fn those_that_were_asked_for_least_make_room() {
        let mut list = List::default();
        for number in 0..PAGES_MAX as u32 + 5 {
            list.add(page("h", &format!("/{number}"), number));
        }
        assert_eq!((list.pages.len(), list.places.len()), (PAGES_MAX, PAGES_MAX));
        assert!(!list.has_room(5) && list.has_room(6), "the least has 5");
        list.add(page("h", "/new", 5));
        assert_eq!(list.pages.last_key_value().map(|(place, _)| place.0.0), Some(5));
        assert_eq!(taken(&mut list, 0).as_deref(), Some("/10004 10004"));
        list.drop_older(Time(10_000));
        assert_eq!((list.pages.len(), list.places.len()), (4, 4));
    }

    #[test]
    fn the_pages_of_a_host_that_rests_wait() {
        let mut list = List::default();
        for (host, uri, hits) in [("slow", "/a", 9), ("fast", "/b", 1)] {
            list.add(page(host, uri, hits));
        }
        list.rest(b"slow", Time(50));
        let all = [10, 20, 49, 50, 51].map(|now| taken(&mut list, now).unwrap_or_default());
        assert_eq!(all, ["/b 1", "wait until 50", "wait until 50", "/a 9", ""]);
    }
}
