//! Fetches pages without a visitor, on the first worker: one of a host at a time, and then a pause of as long as that took, so that
//! the origin has at least half of its time for visitors. Pages of a few hosts are fetched at once, so that a slow one does not
//! hold up the others.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use larder_conf::model::LogLevel;
use larder_http::Time;
use tokio::sync::Semaphore;

use crate::clock;
use crate::context::Cx;
use crate::refill::{End, Page, Reason, Refill, Sums};
use crate::request::refill::{self, Outcome};
use crate::site::Site;
use crate::vsl::Shown;
use crate::worker::Worker;

/// Has the zones of a configuration tell which pages are purged, where a location that keeps pages there wants them again.
pub fn follow(site: &Site, refill: &Arc<Refill>) {
    let wishes = site.wishes_by_zone(|loc| Some(loc.settings.purging.refill?.get()), u32::max);
    for (zone, wish) in site.caches.zones.iter().zip(wishes) {
        zone.watch_purges(wish.map(|pages| refill.wish(pages)));
    }
}

/// Fetches what is on the list, for as long as the worker lives.
pub async fn run(worker: Rc<Worker>) {
    let refill = Arc::clone(&worker.shared.refill);
    let lanes = Arc::new(Semaphore::new(LANES));
    let mut run = None;
    let mut report = Report { told: refill.tallies.ahead.sums(), at: clock::steady() };
    loop {
        refill.come().await;
        // A purge, and a plugin with its many, tell of one page after the other.
        tokio::time::sleep(GATHERED_FOR).await;
        let (began, before) = *run.get_or_insert_with(|| (clock::steady(), refill.tallies.purged.sums()));
        while let Some(next) = refill.take(clock::now()) {
            if worker.seats.is_closing() {
                // The next process has pages of its own.
                return;
            }
            match next {
                Ok(page) => {
                    // The semaphore is never closed.
                    let Ok(lane) = Arc::clone(&lanes).acquire_owned().await else { return };
                    let (refill, worker) = (Arc::clone(&refill), Rc::clone(&worker));
                    tokio::task::spawn_local(async move {
                        let host = page.host.clone();
                        fetch(page, &refill, &worker).await;
                        refill.done(&host);
                        drop(lane);
                    });
                }
                Err(until) => pause(until, &refill).await,
            }
            report.tell(&refill, &worker);
        }
        // Pages that are out may come back.
        while lanes.available_permits() < LANES && refill.waiting() == 0 {
            pause(Time(clock::now().0 + 1000), &refill).await;
        }
        if refill.waiting() > 0 {
            continue;
        }
        run = None;
        let run = refill.tallies.purged.sums().since(&before);
        if run.all() > 0 {
            let took = clock::steady().saturating_sub(began);
            worker.cx().local.logs.main(LogLevel::Info, format_args!("{} in {:.1} s", told(&run), took.as_secs_f64()));
        }
    }
}

/// Waits, as visitors' failures may make a rest longer, for a second at most, and only until a page has come or is through.
async fn pause(until: Time, refill: &Refill) {
    let rest = Duration::from_millis(until.0.saturating_sub(clock::now().0)).clamp(PAUSE_MIN, PAUSE_MAX);
    let _ = tokio::time::timeout(rest, refill.moves()).await;
}

async fn fetch(mut page: Page, refill: &Refill, worker: &Rc<Worker>) {
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
        Outcome::Stored(zone, key) if refill::is_there(&zone, &key) => count(&page, End::Stored, refill),
        // It was purged meanwhile.
        Outcome::Stored(..) => again(page, "it is purged again and again", refill, worker),
        Outcome::There => count(&page, End::There, refill),
        Outcome::Unstored(why) => {
            count(&page, End::Unstored, refill);
            note(&page, &why, &worker.cx());
        }
        Outcome::Unasked(why) => {
            count(&page, End::Unstored, refill);
            note(&page, why, &worker.cx());
        }
        Outcome::Rests(origin) => {
            page.tries -= 1;
            refill.add([Page { origin: Some(origin), ..page }]);
        }
        Outcome::Failed(origin, why) => again(Page { origin: Some(origin), ..page }, &why, refill, worker),
    }
}

/// Has a page wait again, unless it was tried often enough.
fn again(page: Page, why: &str, refill: &Refill, worker: &Rc<Worker>) {
    if page.tries < TRIES_MAX {
        return refill.add([page]);
    }
    count(&page, End::Failed, refill);
    note(&page, why, &worker.cx());
}

/// Counts what has become of a page.
fn count(page: &Page, end: End, refill: &Refill) {
    refill.tallies.of(page.reason).add(end);
    if let Some(pass) = &page.pass {
        pass.add(end);
    }
}

/// What was said of pages that were fetched before they were stale.
struct Report {
    told: Sums,
    /// When, as steady time.
    at: Duration,
}

impl Report {
    /// Says what came since the last time, once a minute at most.
    fn tell(&mut self, refill: &Refill, worker: &Rc<Worker>) {
        let now = clock::steady();
        let after = now.saturating_sub(self.at);
        if after < REPORT_EVERY {
            return;
        }
        let sums = refill.tallies.ahead.sums();
        let new = sums.since(&self.told);
        if new.all() > 0 {
            let (stored, rest) = (new.stored, new.rest());
            let line =
                format_args!("warmed {stored} pages before they were stale{rest} in {:.0} s", after.as_secs_f64());
            worker.cx().local.logs.main(LogLevel::Info, line);
        }
        *self = Self { told: sums, at: now };
    }
}

fn told(run: &Sums) -> String {
    format!("refilled {} of {} pages{}", run.stored, run.all(), run.rest())
}

/// Says why a page is not there.
fn note(page: &Page, why: &str, cx: &Cx) {
    let scheme = if page.is_https { "https" } else { "http" };
    let (host, uri) = (Shown(&page.host), Shown(&page.uri));
    let what = match page.reason {
        Reason::Purged => "refilled",
        Reason::Ahead(_) | Reason::Named => "warmed",
    };
    cx.local.logs.main(LogLevel::Info, format_args!("not {what}: {scheme}://{host}{uri}: {why}"));
}

/// How long a pause after a page is at most, so that a slow one does not hold up those of other sites.
const PAUSE_OF_PAGE_MAX: Duration = Duration::from_secs(5);
/// How often a page is tried whose origin fails, or that is purged again while it is fetched.
const TRIES_MAX: u8 = 3;
/// How long the pages of purges are gathered before the first is fetched, so that it is the one that was asked for most.
const GATHERED_FOR: Duration = Duration::from_millis(200);
/// How often it is told what was fetched before it was stale.
const REPORT_EVERY: Duration = Duration::from_secs(60);
/// Of how many hosts pages are fetched at once.
const LANES: usize = 4;
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_told_in_words() {
        for (run, expected) in [
            (Sums { stored: 120, ..Sums::default() }, "refilled 120 of 120 pages"),
            (
                Sums { stored: 1, there: 2, unstored: 3, failed: 4 },
                "refilled 1 of 10 pages, 2 already there, 3 not to be stored, 4 failed",
            ),
        ] {
            assert_eq!(told(&run), expected);
        }
    }
}
