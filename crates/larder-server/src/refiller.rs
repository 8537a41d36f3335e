//! Fetches purged pages again, on the first worker: one at a time, and then a rest of as long as that took, so that the origin
//! has at least half of its time for visitors.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use larder_conf::model::LogLevel;
use larder_http::Time;

use crate::clock;
use crate::refill::{Page, Refill};
use crate::request::refill::{self, Outcome};
use crate::site::{Keeps, Site};
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
        let outcome = {
            let _running = worker.seats.begin();
            refill::fetch(&page, worker).await
        };
        let took = clock::steady().saturating_sub(began);
        if let Outcome::Stored(..) | Outcome::Unstored | Outcome::Failed(_) = outcome {
            let between = Duration::from_secs(1) / page.per_second.max(1);
            tokio::time::sleep(took.max(between.saturating_sub(took))).await;
        }
        match outcome {
            Outcome::Stored(zone, key) if refill::is_there(&zone, &key) => self.stored += 1,
            // It was purged meanwhile.
            Outcome::Stored(..) => self.again(page, refill),
            Outcome::There => self.there += 1,
            Outcome::Unstored => self.unstored += 1,
            Outcome::Rests(until) => {
                refill.rest_host(&page.host, until);
                page.tries -= 1;
                refill.add([page]);
            }
            Outcome::Failed(until) => {
                refill.rest_host(&page.host, until);
                self.again(page, refill);
            }
        }
    }

    /// Has a page wait again, unless it was tried often enough.
    fn again(&mut self, page: Page, refill: &Refill) {
        match page.tries < TRIES_MAX {
            true => refill.add([page]),
            false => self.failed += 1,
        }
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
