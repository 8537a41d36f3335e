//! One fetch for all nodes: before a request asks the origin for a page, it looks whether another larder has it, or fetches it.
//!
//! ```text
//! miss, or stale and to be fetched -> ask -> a page that counts here -> the zone, which is asked again
//!                                       `-> the right to fetch it -> fetch -> `ForAll::store`
//!                                       `-> another node has that: look again, as long as the cache would wait
//!                                           (a page that could not be shared a moment ago: fetch, for this node alone)
//! ```
//! What goes wrong on the way, as a server that is slow, costs a fetch. The key of a page that varies has the names by which
//! it does; each variant is under a name of its own.

use std::sync::Arc;
use std::time::Duration;

use larder_cache::{Handed, HandedPage, Moment, Object, VaryKey};
use larder_cluster::{ALONE, Look, Outcome, PageName, Share, Take, Value};

use crate::context::Cx;
use crate::exchange::{Exchange, Part, Purpose, Slicing};
use crate::policy;

use super::for_all::{ForAll, name_of};
use super::plan::Storing;

/// A page that a request seeks at other nodes before it fetches it.
pub struct Sought {
    /// The right to store it.
    pub storing: Storing,
    /// The stale page that is here.
    pub stale: Option<Arc<Object>>,
}

/// Whether others are asked for the page before the origin is.
pub fn is_asked_for(storing: &Storing, ex: &Exchange, cx: &Cx) -> bool {
    let is_page = !matches!(ex.visit.slicing, Slicing::At(_)) && ex.upstream.part != Part::Asked;
    let is_kept = matches!(ex.request.nested.purpose, Purpose::Answer | Purpose::Refetch | Purpose::Refill(_));
    is_page
        && is_kept
        && ex.upstream.asks_of_nodes < ASKS_MAX
        && storing.has_permit()
        && cx.worker.shared.sharing.shelf().is_some()
}

/// What others have led to.
pub enum Asked {
    /// The page is in the zone.
    There,
    /// The origin is to be asked, for all or for this node alone.
    Fetch(Sought),
}

/// Asks the others.
pub async fn ask(sought: Sought, ex: &mut Exchange, cx: &Cx) -> Asked {
    ex.upstream.asks_of_nodes += 1;
    let Some(share) = cx.worker.shared.sharing.shelf() else { return Asked::Fetch(sought) };
    let (mut search, mut sought) = (Search::of(share, &sought, ex, cx), sought);
    loop {
        match search.next(sought, ex, cx).await {
            Next::There => {
                search.share.count(Outcome::Found);
                return Asked::There;
            }
            Next::Fetch(mut sought, for_all) => {
                sought.storing.fetch_for_all(for_all);
                return Asked::Fetch(sought);
            }
            Next::Wait(same) if cx.now() < search.until => {
                sought = same;
                search.wait().await;
            }
            Next::Wait(sought) => return Asked::Fetch(sought),
        }
    }
}

/// What a request looks for.
struct Search {
    share: Arc<Share>,
    zone: usize,
    first: PageName,
    /// Until when it waits for another node.
    until: larder_http::Time,
    pause: Duration,
    has_waited: bool,
}

enum Next {
    /// The page is in the zone.
    There,
    /// The origin is to be asked.
    Fetch(Sought, Option<Box<ForAll>>),
    /// Another node fetches it.
    Wait(Sought),
}

/// What is under a name.
enum Seen {
    Page(HandedPage, Duration),
    /// The names of what its variants differ by.
    Differs(Vec<Box<str>>),
    Nothing,
    /// What cannot be shared: nobody waits for it. So long this is known still.
    Alone(Duration),
    Skipped,
}

impl Seen {
    fn is_alone(&self) -> bool {
        matches!(self, Self::Alone(_))
    }
}

impl Search {
    fn of(share: Arc<Share>, sought: &Sought, ex: &Exchange, cx: &Cx) -> Self {
        let zone = sought.storing.zone();
        let rules = cx.origin(ex).map(|origin| policy::rules(origin, ex, cx.now())).unwrap_or_default();
        let time = if rules.lock { rules.lock_timeout } else { Duration::ZERO };
        let first = name_of(cx.zone(zone).name(), &ex.upstream.cache_key, &VaryKey::none());
        Self { share, zone, first, until: cx.now().plus(time), pause: PAUSE_MIN, has_waited: false }
    }

    async fn wait(&mut self) {
        if !self.has_waited {
            self.has_waited = true;
            self.share.count(Outcome::Waited);
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }

    /// Looks once, and takes the right to fetch the page if it is not there.
    async fn next(&self, sought: Sought, ex: &Exchange, cx: &Cx) -> Next {
        let (name, seen) = self.find(ex).await;
        let mut is_alone = seen.is_alone();
        let sought = match self.judge(seen, sought, ex, cx).await {
            Ok(next) => return next,
            Err(sought) => sought,
        };
        // Read before the origin is asked. Without it nobody could tell what was purged since.
        let Some(began) = cx.worker.shared.sharing.place() else {
            self.share.count(Outcome::Skipped);
            return Next::Fetch(sought, None);
        };
        let Some(Take { lock, look }) = self.share.take(&name).await else {
            self.share.count(Outcome::Skipped);
            return Next::Fetch(sought, None);
        };
        let right =
            |lock| ForAll::new(Arc::clone(&self.share), lock, self.first.clone(), ex.upstream.cache_key.clone(), began);
        let for_all = lock.map(right);
        // It may have come since.
        let seen = seen_of(look, ex);
        is_alone |= seen.is_alone();
        match (self.judge(seen, sought, ex, cx).await, for_all) {
            (Ok(next), _) => next,
            (Err(sought), Some(for_all)) => {
                self.share.count(Outcome::Missing);
                Next::Fetch(sought, Some(for_all))
            }
            (Err(sought), None) if is_alone => Next::Fetch(sought, None),
            (Err(sought), None) => Next::Wait(sought),
        }
    }

    /// What is under the name of the page, or of its variant.
    async fn find(&self, ex: &Exchange) -> (PageName, Seen) {
        let seen = seen_of(self.share.look(&self.first).await, ex);
        let Seen::Differs(names) = seen else { return (self.first.clone(), seen) };
        let vary = VaryKey::with_names(names, &ex.selecting());
        let name = name_of(&self.first.zone, &ex.upstream.cache_key, &vary);
        let seen = seen_of(self.share.look(&name).await, ex);
        (name, seen)
    }

    /// What follows from what is there; the question itself if that is of no use.
    async fn judge(&self, seen: Seen, sought: Sought, ex: &Exchange, cx: &Cx) -> Result<Next, Sought> {
        match seen {
            Seen::Page(page, spent) => self.take_in(&page, spent, sought, ex, cx).await.map(|()| Next::There),
            Seen::Alone(left) if left >= ALONE / 2 => Ok(Next::Fetch(sought, None)),
            Seen::Skipped => {
                self.share.count(Outcome::Skipped);
                Ok(Next::Fetch(sought, None))
            }
            // Who sees the end of a mark near fetches for all, if nobody else does: it is renewed, or there is a page then.
            Seen::Nothing | Seen::Differs(_) | Seen::Alone(_) => Err(sought),
        }
    }

    /// Stores a page of another node, if it counts here and now.
    async fn take_in(
        &self,
        page: &HandedPage,
        spent: Duration,
        sought: Sought,
        ex: &Exchange,
        cx: &Cx,
    ) -> Result<(), Sought> {
        let Some((mut object, since)) = self.object(page, spent, &sought, ex, cx) else { return Err(sought) };
        let zone = cx.zone(self.zone);
        let (mut writer, body) = zone.body(&ex.upstream.cache_key, Some(page.body.len() as u64), None);
        writer.wait_for_disk().await;
        let is_whole = writer.append(page.body.clone()).is_ok();
        writer.finish();
        if !is_whole {
            return Err(sought);
        }
        object.body = body;
        let Sought { storing, stale } = sought;
        storing.take_in(object, since, cx.now()).map_err(|storing| Sought { storing, stale })
    }

    /// It without its body, and when its fetch would have begun here. `None` if it answers another request, is too old, or
    /// nobody knows what was purged since.
    fn object(
        &self,
        page: &HandedPage,
        spent: Duration,
        sought: &Sought,
        ex: &Exchange,
        cx: &Cx,
    ) -> Option<(Object, Moment)> {
        let now = cx.now();
        let head = page.object(spent, now)?;
        let origin = cx.origin(ex)?;
        let is_of_use = match &sought.stale {
            // That one is here already.
            Some(_) => head.is_fresh(now),
            None => head.is_fresh(now) || head.may_serve_while_revalidating(now) || head.may_serve_if_error(now),
        };
        let is_answer = policy::rules(origin, ex, now).ignore_vary || head.vary.matches(&ex.selecting());
        let began = page.began.parse().ok()?;
        let since = cx.worker.shared.sharing.moment_at(&self.first.zone, &began)?;
        (is_of_use && is_answer).then_some((head, since))
    }
}

/// What a look has found for a request.
fn seen_of(look: Look, ex: &Exchange) -> Seen {
    let value = match look {
        Look::There(value) => value,
        Look::Nothing => return Seen::Nothing,
        Look::Alone(left) => return Seen::Alone(left),
        Look::Skipped => return Seen::Skipped,
    };
    let Value { bytes, left } = value;
    match Handed::read(&bytes.into()) {
        Some(Handed::Page(page)) if page.key == ex.upstream.cache_key => {
            let spent = page.lasts.saturating_sub(left);
            Seen::Page(page, spent)
        }
        Some(Handed::Differs { key, names }) if key == ex.upstream.cache_key => Seen::Differs(names),
        // Damaged, of another version, or of another key with the same hash: it is overwritten.
        Some(_) | None => Seen::Nothing,
    }
}

/// How often a request asks others: what it gets the first time may be stale, and is to be fetched anew then.
const ASKS_MAX: u8 = 2;
/// How often a request looks whether another node has fetched the page.
const PAUSE_MIN: Duration = Duration::from_millis(4);
const PAUSE_MAX: Duration = Duration::from_millis(50);
