//! Asks both servers, one request after the other, no faster than it may.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::answer::{Answer, Server, is_redirect};
use super::compare::{Comparison, Difference, Others, compare, is_cached};
use super::once::Once;
use super::report::{Elsewhere, Pair, Report};
use super::sources::Sink;
use super::wanted::{MARK_ARGUMENT, Seen, Wanted};

/// Takes requests from a source to the one who compares.
#[derive(Clone)]
pub struct Queue {
    /// Where they go.
    pub to: SyncSender<Wanted>,
    /// Where the others are counted.
    pub report: Arc<Mutex<Report>>,
    /// Whether a full queue is waited for, as of a log that is there already.
    pub waits: bool,
    /// Our own requests, where lines do not show whose they are.
    pub echoes: Option<Arc<Mutex<Echoes>>>,
    /// What is not sent.
    pub once: Arc<Once>,
}

/// Requests that we have sent and whose lines have not come yet, where lines do not show whose they are.
#[derive(Debug, Default)]
pub struct Echoes {
    /// Sums of their targets, which are short where a target may be long.
    targets: HashMap<u64, u32>,
    hasher: RandomState,
}

impl Echoes {
    fn sent(&mut self, target: &[u8]) {
        // Lines that never come, such as of locations without a log, are forgotten.
        if self.targets.len() >= ECHOES_MAX {
            self.targets.clear();
        }
        *self.targets.entry(self.hasher.hash_one(target)).or_default() += 1;
    }

    /// Whether a line is of one of them, which is then accounted for.
    fn came(&mut self, target: &[u8]) -> bool {
        let sum = self.hasher.hash_one(target);
        let Some(count) = self.targets.get_mut(&sum) else { return false };
        *count -= 1;
        if *count == 0 {
            self.targets.remove(&sum);
        }
        true
    }
}

impl Sink for Queue {
    fn take(&mut self, seen: Seen) -> bool {
        let wanted = match seen {
            Seen::Wanted(wanted) => wanted,
            Seen::Unsafe => {
                lock(&self.report).unsafe_requests += 1;
                return true;
            }
            Seen::Refused => {
                lock(&self.report).refused += 1;
                return true;
            }
            Seen::Echo => {
                lock(&self.report).echoes += 1;
                return true;
            }
            Seen::Unreadable => {
                lock(&self.report).unreadable += 1;
                return true;
            }
        };
        if !self.waits && self.echoes.as_ref().is_some_and(|echoes| lock(echoes).came(&wanted.target)) {
            lock(&self.report).echoes += 1;
            return true;
        }
        if self.once.has(&wanted.target) {
            lock(&self.report).skipped += 1;
            return true;
        }
        if self.waits {
            return self.to.send(wanted).is_ok();
        }
        match self.to.try_send(wanted) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => {
                lock(&self.report).dropped += 1;
                true
            }
            Err(TrySendError::Disconnected(_)) => false,
        }
    }

    fn missed(&mut self) {
        lock(&self.report).dropped += 1;
    }
}

/// What compares.
pub struct Replay {
    /// The server that runs.
    pub old: Server,
    /// larder.
    pub new: Server,
    /// What came of it.
    pub report: Arc<Mutex<Report>>,
    /// Told of what is sent to the old server.
    pub echoes: Option<Arc<Mutex<Echoes>>>,
    /// Pages a second.
    pub rate: NonZeroU32,
    /// How many are compared; all if `None`.
    pub requests: Option<u64>,
    /// Tells what is asked past the cache of the old server from all else, and from another run.
    pub mark: u64,
    /// How many pages have been asked for past its cache.
    pub fresh: AtomicU64,
}

impl Replay {
    /// Compares until no more requests come, or enough have been compared.
    pub fn run(&self, from: &Receiver<Wanted>) {
        let pause = Duration::from_secs(1) / self.rate.get();
        let mut next = Instant::now();
        let mut has_complained = false;
        while let Ok(wanted) = from.recv() {
            thread::sleep(next.saturating_duration_since(Instant::now()));
            next = next.max(Instant::now()) + pause;
            if let Err(why) = self.one(&wanted) {
                lock(&self.report).old_silent += 1;
                if !has_complained {
                    eprintln!("larder shadow: the old server at {} does not answer: {why}", self.old.address);
                    has_complained = true;
                }
            }
            let answered = lock(&self.report).answered();
            if self.requests.is_some_and(|requests| answered >= requests) {
                return;
            }
        }
    }

    /// Compares one page. `Err` says why the old server did not answer.
    fn one(&self, wanted: &Wanted) -> Result<(), String> {
        let old = self.ask_old(wanted)?;
        let new = self.new.ask(wanted);
        let comparison = match &new {
            Ok(new) => self.compared(wanted, &old, new),
            Err(why) => {
                let old = format!("status {}", old.status);
                let difference = Difference { what: "answer".to_owned(), old, new: format!("none: {why}") };
                Comparison { differences: vec![difference], changing: Vec::new() }
            }
        };
        let new = new.unwrap_or_default();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let target = text(&wanted.target);
        let host = text(wanted.host.as_deref().unwrap_or(&self.old.host));
        if comparison.differences.is_empty()
            && let Some(elsewhere) = leads_elsewhere(wanted, &old, self.old.tls.is_some(), &host)
        {
            lock(&self.report).redirected(&format!("{host}{target}"), elsewhere);
            return Ok(());
        }
        let page = target.split('?').next().unwrap_or_default();
        lock(&self.report).add(Pair {
            page: format!("{host}{}", page.chars().take(PAGE_CHARS_MAX).collect::<String>()),
            comparison: &comparison,
            cache: new.field("cache-status"),
            took: [old.took, new.took],
            target,
        });
        Ok(())
    }

    /// What the answers come to. The old server is asked again if they differ, and then past its cache: perhaps it never
    /// says the same.
    fn compared(&self, wanted: &Wanted, old: &Answer, new: &Answer) -> Comparison {
        let first = compare(old, Others::default(), new);
        if first.differences.is_empty() {
            return first;
        }
        let Ok(again) = self.ask_old(wanted) else { return first };
        let second = compare(old, Others { again: Some(&again), fresh: None }, new);
        let is_settled = second.differences.is_empty() || old.status != new.status || is_cached(&again) == Some(false);
        if is_settled || self.fresh.fetch_add(1, Ordering::Relaxed) >= FRESH_MAX {
            return second;
        }
        match self.ask_past_cache(wanted) {
            Ok(fresh) => compare(old, Others { again: Some(&again), fresh: Some(&fresh) }, new),
            Err(_) => second,
        }
    }

    /// Asks the old server with an argument that no application knows and that no cache has a page of.
    fn ask_past_cache(&self, wanted: &Wanted) -> Result<Answer, String> {
        let argument = format!("{MARK_ARGUMENT}{:x}-{}", self.mark, self.fresh.load(Ordering::Relaxed));
        let mut target = wanted.target.clone();
        target.push(if target.contains(&b'?') { b'&' } else { b'?' });
        target.extend_from_slice(argument.as_bytes());
        let mut answer = self.ask_old(&Wanted { target, ..wanted.clone() })?;
        // The page may link to itself.
        for before in ["?", "&amp;", "&#038;", "&#38;", "&", "%3F", "%26", ""] {
            answer.forget(&format!("{before}{argument}"));
        }
        Ok(answer)
    }

    fn ask_old(&self, wanted: &Wanted) -> Result<Answer, String> {
        if let Some(echoes) = &self.echoes {
            lock(echoes).sent(&wanted.target);
        }
        self.old.ask(wanted).map_err(|error| error.to_string())
    }
}

/// Where an answer leads, if the visitor got a page: `wanted` came from somewhere else than it is asked at. Where that is
/// not known, a redirect to another scheme or host shows it.
fn leads_elsewhere(wanted: &Wanted, old: &Answer, is_secure: bool, host: &str) -> Option<Elsewhere> {
    let elsewhere = Elsewhere::of(old.location()?, is_secure, host);
    let got_page = wanted.status.map_or(elsewhere.is_another_site(), |status| !is_redirect(status));
    got_page.then_some(elsewhere)
}

/// What is behind a lock. A thread that panics leaves counts, which hold.
pub fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

const ECHOES_MAX: usize = 10_000;
/// How many pages are asked for past the old server's cache, which may keep each.
const FRESH_MAX: u64 = 500;
const PAGE_CHARS_MAX: usize = 200;

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::super::wanted::seen;
    use super::*;

    fn get(target: &str) -> Seen {
        seen(b"GET", target.as_bytes(), None, Vec::new())
    }

    #[test]
    fn what_we_sent_is_known_by_its_path_and_only_once() {
        let (to, from) = mpsc::sync_channel(8);
        let echoes = Arc::new(Mutex::new(Echoes::default()));
        let report = Arc::<Mutex<Report>>::default();
        let mut queue = Queue {
            to,
            report: Arc::clone(&report),
            waits: false,
            echoes: Some(Arc::clone(&echoes)),
            once: Arc::new(Once::new(&[])),
        };
        lock(&echoes).sent(b"/a");
        for _ in 0..2 {
            assert!(queue.take(get("/a")));
        }
        assert_eq!((lock(&report).echoes, from.try_iter().count()), (1, 1));
        for number in 0..2 * ECHOES_MAX {
            lock(&echoes).sent(number.to_string().as_bytes());
        }
        assert!(lock(&echoes).targets.len() <= ECHOES_MAX);
    }

    #[test]
    fn what_comes_too_fast_or_may_change_something_is_counted() {
        let (to, from) = mpsc::sync_channel(1);
        let report = Arc::<Mutex<Report>>::default();
        let once = Arc::new(Once::new(&["/track/".to_owned()]));
        let mut queue = Queue { to, report: Arc::clone(&report), waits: false, echoes: None, once };
        for target in ["/?add%2Dto-cart=7", "/Track/7", "/wp-cron.php", "/LogOut", "/a", "/b", "/c"] {
            assert!(queue.take(get(target)), "{target}");
        }
        let report = lock(&report).clone();
        assert_eq!((report.skipped, report.dropped), (4, 2));
        drop(from);
        assert!(!queue.take(get("/d")), "nobody compares any more");
    }
}
