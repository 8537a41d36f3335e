//! Fetches purged pages again, on the first worker: one at a time, and then a pause of as long as that took, so that the origin
//! has at least half of its time for visitors. Visitors' requests have their turn between two pages.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use larder_conf::model::LogLevel;
use larder_http::Time;

use crate::clock;
use crate::context::Cx;
use crate::refill::{Page, Refill};
use crate::request::refill::{self, Outcome};
use crate::site::{Keeps, Site};
use crate::vsl::Shown;
use crate::worker::Worker;

/// Has the zones of a configuration tell which pages are purged, where a location that keeps pages there wants them again.
pub fn follow(site: &Site, refill: &Arc<Refill>) {
    let zones = &site.caches.zones;
    let mut wishes: Vec<Option<u32>> = vec![None; zones.len()];
    for loc in &site.locations {
        let Some(pages) = loc.settings.purging.refill.map(|pages| pages.get()) else { continue };
        let mut wish = |zone: usize| {
            if let Some(wish) = wishes.get_mut(zone) {
                *wish = Some(wish.map_or(pages, |other| other.max(pages)));
            }
        };
        match loc.handler.keeps() {
            None => {}
            Some(Keeps::Zone(zone)) => wish(zone),
            // It may be any.
            Some(Keeps::Named(_)) => (0..zones.len()).for_each(wish),
        }
    }
    for (zone, wish) in zones.iter().zip(wishes) {
        zone.watch_purges(wish.map(|pages| refill.wish(pages)));
    }
}

/// Fetches what is on the list, for as long as the worker lives.
pub async fn run(worker: Rc<Worker>) {
    let refill = Arc::clone(&worker.shared.refill);
    loop {
        refill.come().await;
        // A purge, and a plugin with its many, tell of one page after the other.
        tokio::time::sleep(GATHERED_FOR).await;
        let began = clock::steady();
        let mut run = Run::default();
        while let Some(next) = refill.take(clock::now()) {
            if worker.seats.is_closing() {
                // The next process has pages of its own.
                return;
            }
            match next {
                Ok(page) => run.fetch(page, &refill, &worker).await,
                Err(until) => pause(until).await,
            }
        }
        let took = clock::steady().saturating_sub(began);
        worker.cx().local.logs.main(LogLevel::Info, format_args!("{} in {:.1} s", run.told(), took.as_secs_f64()));
    }
}

/// Waits, as visitors' failures may make a rest longer, for a second at most.
async fn pause(until: Time) {
    let rest = Duration::from_millis(until.0.saturating_sub(clock::now().0)).clamp(PAUSE_MIN, PAUSE_MAX);
    tokio::time::sleep(rest).await;
}

/// What has become of the pages that were on the list.
#[derive(Debug, Default, PartialEq, Eq)]
struct Run {
    stored: usize,
    there: usize,
    unstored: usize,
    failed: usize,
}

impl Run {
    async fn fetch(&mut self, mut page: Page, refill: &Refill, worker: &Rc<Worker>) {
        let began = clock::steady();
        page.tries = page.tries.saturating_add(1);
        // Nobody waits for it, so the end of the worker does not either.
        let outcome = tokio::select! {
            outcome = refill::fetch(&page, worker) => outcome,
            () = worker.seats.is_to_close() => return,
        };
        let took = clock::steady().saturating_sub(began);
        match outcome.is_asked() {
            true => {
                let between = Duration::from_secs(1) / page.per_second.max(1);
                tokio::time::sleep(took.min(PAUSE_OF_PAGE_MAX).max(between.saturating_sub(took))).await;
            }
            false => tokio::task::yield_now().await,
        }
        match outcome {
            Outcome::Stored(zone, key) if refill::is_there(&zone, &key) => self.stored += 1,
            // It was purged meanwhile.
            Outcome::Stored(..) => self.again(page, "it is purged again and again", refill, worker),
            Outcome::There => self.there += 1,
            Outcome::Unstored(why) => {
                self.unstored += 1;
                note(&page, &why, &worker.cx());
            }
            Outcome::Rests(origin) => {
                page.tries -= 1;
                refill.add([Page { origin: Some(origin), ..page }]);
            }
            Outcome::Failed(origin, why) => {
                self.again(Page { origin: Some(origin), ..page }, &why, refill, worker);
            }
        }
    }

    /// Has a page wait again, unless it was tried often enough.
    fn again(&mut self, page: Page, why: &str, refill: &Refill, worker: &Rc<Worker>) {
        if page.tries < TRIES_MAX {
            return refill.add([page]);
        }
        self.failed += 1;
        note(&page, why, &worker.cx());
    }

    fn told(&self) -> String {
        let Self { stored, there, unstored, failed } = self;
        let mut told = format!("refilled {stored} of {} pages", stored + there + unstored + failed);
        for (count, what) in [(there, "already there"), (unstored, "not to be stored"), (failed, "failed")] {
            if *count > 0 {
                told.push_str(&format!(", {count} {what}"));
            }
        }
        told
    }
}

/// Says why a page is not there again.
fn note(page: &Page, why: &str, cx: &Cx) {
    let scheme = if page.is_https { "https" } else { "http" };
    let (host, uri) = (Shown(&page.host), Shown(&page.uri));
    cx.local.logs.main(LogLevel::Info, format_args!("not refilled: {scheme}://{host}{uri}: {why}"));
}

/// How long a pause after a page is at most, so that a slow one does not hold up those of other sites.
const PAUSE_OF_PAGE_MAX: Duration = Duration::from_secs(5);
/// How often a page is tried whose origin fails, or that is purged again while it is fetched.
const TRIES_MAX: u8 = 3;
/// How long the pages of purges are gathered before the first is fetched, so that it is the one that was asked for most.
const GATHERED_FOR: Duration = Duration::from_millis(200);
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_told_in_words() {
        for (run, expected) in [
            (Run { stored: 120, ..Run::default() }, "refilled 120 of 120 pages"),
            (
                Run { stored: 1, there: 2, unstored: 3, failed: 4 },
                "refilled 1 of 10 pages, 2 already there, 3 not to be stored, 4 failed",
            ),
        ] {
            assert_eq!(run.told(), expected);
        }
    }
}
