//! Looks for pages that are asked for often and are soon stale, so that they are fetched anew before a visitor has to wait:
//! `ahead=` of `larder_warm`.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use larder_cache::{Object, Zone};
use larder_http::Time;
use parking_lot::Mutex;

use crate::clock;
use crate::refill::{Page, Reason, Refill, is_for_all};
use crate::site::{Loc, Site};

/// How often it looks at least, and how many times as long as a look takes it rests.
const INTERVAL: Duration = Duration::from_secs(1);
const REST: u32 = 49;
/// How many pages of a zone it tells of at once.
const PAGES_MAX: usize = 2000;
/// How much nicer than a worker the thread runs (setpriority(2)).
const NICENESS: i32 = 15;

/// What it looks after.
pub struct Ahead {
    /// Guards what is looked after. Not held while it looks.
    zones: Mutex<Vec<Followed>>,
    refill: Arc<Refill>,
}

#[derive(Clone)]
struct Followed {
    zone: Arc<Zone>,
    wish: Wish,
}

/// What the locations that keep pages in a zone wish; where they wish different things, the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wish {
    percent: u8,
    hits: u32,
    per_second: u32,
}

impl Ahead {
    /// Starts the thread, which ends when nobody holds the value any more.
    pub fn start(refill: Arc<Refill>) -> Arc<Ahead> {
        let ahead = Arc::new(Ahead { zones: Mutex::default(), refill });
        let weak = Arc::downgrade(&ahead);
        // If no thread can be started, pages are fetched when they are asked for.
        let _ = thread::Builder::new().name("ahead".into()).spawn(move || run(&weak));
        ahead
    }

    /// Looks after the zones of this configuration from now on.
    pub fn follow(&self, site: &Site) {
        let wish = |loc: &Loc| {
            let warm = loc.settings.purging.warm.as_ref()?;
            Some(Wish { percent: warm.ahead_percent?, hits: warm.hits, per_second: warm.per_second.get() })
        };
        let (zones, wishes) = (&site.caches.zones, site.wishes_by_zone(wish, Wish::or));
        let followed =
            zones.iter().zip(wishes).filter_map(|(zone, wish)| Some(Followed { zone: zone.clone(), wish: wish? }));
        *self.zones.lock() = followed.collect();
    }
}

impl Wish {
    fn or(self, other: Self) -> Self {
        Self {
            percent: self.percent.max(other.percent),
            hits: self.hits.min(other.hits),
            per_second: self.per_second.max(other.per_second),
        }
    }

    /// Whether a page is fetched anew now, as the next look is only after `interval`.
    fn means(self, page: &Object, interval: Duration, now: Time) -> bool {
        page.hits() >= self.hits
            && !page.is_updating()
            && is_due(page.stored_at, page.fresh_until, self.percent, interval, now)
    }
}

/// Whether a page has come to the last part of its life: so much of it, two looks at least, and half of it at most.
fn is_due(stored_at: Time, fresh_until: Time, percent: u8, interval: Duration, now: Time) -> bool {
    let life = fresh_until.since(stored_at);
    let part = (life * u32::from(percent) / 100).max(interval * 2).min(life / 2);
    now < fresh_until && fresh_until.since(now) <= part
}

fn run(ahead: &Weak<Ahead>) {
    // On Linux this sets the priority of this thread alone. If it fails, the thread still works.
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICENESS);
    let mut interval = INTERVAL;
    loop {
        thread::sleep(interval);
        let Some((refill, zones)) = ahead.upgrade().map(|ahead| (ahead.refill.clone(), ahead.zones.lock().clone()))
        else {
            return;
        };
        let began = clock::steady();
        for Followed { zone, wish } in zones {
            let now = clock::now();
            let due = zone.due(PAGES_MAX, |page| wish.means(page, interval, now));
            let due = due.into_iter().filter(is_for_all);
            refill.add(due.map(|page| {
                let reason = Reason::Ahead(page.fresh_until);
                Page::of(page, reason, wish.per_second, now)
            }));
        }
        interval = (clock::steady().saturating_sub(began) * REST).max(INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_due_in_the_last_part_of_its_life() {
        let secs = |secs: u64| Time(secs * 1000);
        for (life, percent, interval, now, expected) in [
            (3600, 10, 1, 3239, false),
            (3600, 10, 1, 3240, true),
            (3600, 10, 1, 3599, true),
            // It is stale.
            (3600, 10, 1, 3600, false),
            (3600, 1, 1, 3563, false),
            (3600, 1, 1, 3564, true),
            // No look is missed: where one is far from the next, and where a life is short.
            (3600, 10, 300, 2999, false),
            (3600, 10, 300, 3000, true),
            (10, 10, 1, 7, false),
            (10, 10, 1, 8, true),
            (3, 10, 1, 1, false),
            (3, 10, 1, 2, true),
            (0, 10, 1, 0, false),
        ] {
            let found = is_due(secs(0), secs(life), percent, Duration::from_secs(interval), secs(now));
            assert_eq!(found, expected, "{life} {percent} {interval} {now}");
        }
    }

    #[test]
    fn of_different_wishes_the_most_holds() {
        let few = Wish { percent: 5, hits: 3, per_second: 9 };
        let many = Wish { percent: 10, hits: 7, per_second: 2 };
        assert_eq!(few.or(many), Wish { percent: 10, hits: 3, per_second: 9 });
    }
}
