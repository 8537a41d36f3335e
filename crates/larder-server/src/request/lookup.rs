//! What the cache says, and what that leads to: a page, a wait, or a fetch.

use std::sync::Arc;
use std::time::Duration;

use larder_cache::{Asking, Banned, HitRef, KeyRef, Loading, Object, Verdict, Waiter, Woken, Zone};
use larder_http::{Time, status};
use larder_store::BodyState;

use crate::context::Cx;
use crate::exchange::{CacheStatus, Cause, Exchange, Part, Purpose};
use crate::policy::{self, Ask, Found, OnStale, Turn};
use crate::refill::Reason;
use crate::site::Origin;

use super::far_range::{self, Arriving};
use super::page::Page;
use super::plan::{Plan, Storing};
use super::share::{self, Asked, Sought};
use super::{Content, Ranges, Response, Slow, Step, Synth, gate, part, refetch};

/// A request that waits for another's fetch.
pub struct Waiting {
    waiter: Waiter,
    zone: usize,
}

/// A request that waits until another has fetched a page anew.
pub struct Held {
    object: Arc<Object>,
    zone: usize,
    since: Time,
}

/// A request that waits for a disk.
pub struct LoadingOf {
    loading: Loading,
    zone: usize,
}

/// Asks the cache, if it may be asked.
pub fn lookup(ex: &mut Exchange, cx: &Cx) -> Step {
    let Some(origin) = cx.origin(ex) else { return Step::Synth(Synth::Final(status::INTERNAL_SERVER_ERROR)) };
    // An earlier location may have set these.
    ex.upstream.reset();
    match policy::ask(origin, ex, cx) {
        Ask::Look(zone) if !cx.worker.shared.sharing.is_trusted() => untrusted(zone, origin, ex, cx),
        Ask::Look(zone) => Step::LookInZone(zone),
        Ask::Refresh(zone) => {
            ex.upstream.zone = Some(zone);
            ex.upstream.cache_status = Some(CacheStatus::Bypass);
            ex.upstream.cache_detail = Cause::Bypass;
            // `*_cache_bypass`: no lookup, but the answer may replace the stored page.
            Plan::new(Some(Storing::unasked(zone, cx)), None).into()
        }
        Ask::Pass(why) => {
            ex.upstream.cache_detail = why;
            Plan::pass().into()
        }
        Ask::Refuse => Step::Synth(Synth::Status(status::INTERNAL_SERVER_ERROR)),
        Ask::Turn(turn) => turned(turn, ex),
    }
}

/// Fetches a page without a look at what is stored, as others may have purged it. It takes the place of what is there.
fn untrusted(zone: usize, origin: &Origin, ex: &mut Exchange, cx: &Cx) -> Step {
    if let Some(turn) = policy::miss(origin, ex, cx) {
        return turned(turn, ex);
    }
    ex.upstream.zone = Some(zone);
    ex.upstream.cache_status = Some(CacheStatus::Bypass);
    ex.upstream.cache_detail = Cause::Cluster;
    count_miss(ex, cx);
    Plan::new(Some(Storing::unasked(zone, cx)), None).into()
}

/// Goes where a policy leads.
pub fn turned(turn: Turn, ex: &mut Exchange) -> Step {
    match turn {
        Turn::Respond(body) => Step::Deliver(Response::own(Content::Bytes(body))),
        Turn::Pass(why) => {
            ex.upstream.cache_detail = why;
            Plan::pass().into()
        }
        Turn::Restart => Step::Restart,
        Turn::Fail => Step::Synth(Synth::Final(status::INTERNAL_SERVER_ERROR)),
        Turn::Bad => Step::Synth(Synth::Final(status::BAD_REQUEST)),
        Turn::Close => Step::Abort,
        Turn::Absent => {
            ex.upstream.cache_detail = Cause::OnlyIfCached;
            Step::Synth(Synth::Status(status::GATEWAY_TIMEOUT))
        }
    }
}

/// Asks the zone for the key, and turns its verdict into the next step.
pub fn look_in_zone(index: usize, ex: &mut Exchange, cx: &Cx) -> Step {
    let Some(origin) = cx.origin(ex) else { return Step::Synth(Synth::Final(status::INTERNAL_SERVER_ERROR)) };
    let zone = cx.zone(index);
    ex.upstream.zone = Some(index);
    let now = policy::time_of_lookup(origin, ex, cx);
    let rules = policy::rules(origin, ex, now);
    let key = KeyRef::new(&ex.upstream.cache_key);
    let verdict = {
        let request = ex.selecting();
        zone.lookup(&mut cx.local.fronts[index].borrow_mut(), &key, &request, &rules, now)
    };
    if let Some((banned, object)) = banned_of(&verdict, zone, ex) {
        drop(verdict);
        return enforce(banned, index, &object, ex, cx);
    }
    match verdict {
        Verdict::Hit(object) if !part::answers(&object, origin, ex, cx) => other_part(index, None, origin, ex, cx),
        Verdict::Stale { object, permit, .. } if !part::answers(&object, origin, ex, cx) => {
            other_part(index, permit, origin, ex, cx)
        }
        Verdict::Hit(object) if object.body.whole().is_none() && !object.body.is_here() => {
            lost(index, &object.to_arc(), ex, cx)
        }
        Verdict::Hit(object) => match policy::hit(origin, &object, ex, cx) {
            Found::Page => hit(object, origin, ex, cx),
            Found::Miss => missed_anew(index, ex, cx),
            Found::Ask => asked_for_anew(index, object.to_arc(), ex, cx),
            Found::Turn(turn) => turned(turn, ex),
        },
        Verdict::Stale { object, permit, .. } => {
            if object.body.whole().is_none() && !object.body.is_here() {
                drop(permit);
                return lost(index, &object.to_arc(), ex, cx);
            }
            stale(index, object.to_arc(), permit, origin, ex, cx)
        }
        Verdict::Miss(None) => missed(Cause::NoRoom, origin, ex, cx),
        Verdict::Miss(Some(permit)) => {
            let is_part = ex.upstream.part == Part::Asked;
            let stores = is_part || policy::stores(origin, ex);
            match stores {
                true if is_part => {}
                true => {
                    let storing = Storing::new(permit, index);
                    return match share::is_asked_for(&storing, ex, cx) {
                        true => Slow::Share(Box::new(Sought { storing, stale: None })).into(),
                        false => absent(storing, ex, cx),
                    };
                }
                false => {
                    ex.upstream.cache_detail = Cause::Other("the range begins too far in");
                    if let Some(step) = part::instead(index, origin, ex) {
                        return step;
                    }
                }
            }
            if let Some(turn) = policy::miss(origin, ex, cx) {
                return turned(turn, ex);
            }
            ex.upstream.cache_status = Some(CacheStatus::Miss);
            count_miss(ex, cx);
            Plan::new(stores.then(|| Storing::new(permit, index)), None).into()
        }
        Verdict::Wait(waiter) => {
            ex.upstream.cache_status = Some(CacheStatus::Miss);
            ex.upstream.lock_until.get_or_insert(cx.now().plus(rules.lock_timeout));
            Slow::Wait(Box::new(Waiting { waiter, zone: index })).into()
        }
        Verdict::Load(loading) => Slow::Load(Box::new(LoadingOf { loading, zone: index })).into(),
        Verdict::Scarce => missed(Cause::TooSeldom, origin, ex, cx),
    }
}

/// Goes on when other nodes have been asked for the page.
pub fn after_seeking(zone: usize, asked: Asked, ex: &mut Exchange, cx: &Cx) -> Step {
    match asked {
        Asked::There => Step::LookInZone(zone),
        Asked::Fetch(Sought { storing, stale: None }) => absent(storing, ex, cx),
        Asked::Fetch(Sought { storing, stale }) if ex.request.nested.purpose == Purpose::Refetch => {
            Plan::new(Some(storing), stale).into()
        }
        Asked::Fetch(Sought { storing, stale: Some(object) }) => expired(object, storing, ex, cx),
    }
}

/// Fetches a page that is not there.
fn absent(storing: Storing, ex: &mut Exchange, cx: &Cx) -> Step {
    let Some(origin) = cx.origin(ex) else { return Step::Synth(Synth::Final(status::INTERNAL_SERVER_ERROR)) };
    let zone = storing.zone();
    ex.upstream.cache_detail = why_missing(cx.zone(zone), &KeyRef::new(&ex.upstream.cache_key));
    if let Some(turn) = policy::miss(origin, ex, cx) {
        return turned(turn, ex);
    }
    ex.upstream.cache_status = Some(CacheStatus::Miss);
    count_miss(ex, cx);
    let part = part::to_complete(zone, origin, ex, cx);
    Plan { storing: Some(storing), stale: None, part }.into()
}

/// Fetches a stale page anew.
fn expired(object: Arc<Object>, storing: Storing, ex: &mut Exchange, cx: &Cx) -> Step {
    ex.upstream.cache_status = Some(CacheStatus::Expired);
    let ended = cx.zone(storing.zone()).ended(&KeyRef::new(&ex.upstream.cache_key));
    let is_rfc9111 = cx.origin(ex).is_some_and(|origin| origin.policy.is_rfc9111());
    ex.upstream.cache_detail = match ended {
        Some(ended) => Cause::of_end(ended),
        None if is_rfc9111 && object.is_never_fresh() => Cause::EachTime,
        None => Cause::Stale,
    };
    count_miss(ex, cx);
    Plan::new(Some(storing), Some(object)).into()
}

/// Delivers a page that is fresh.
fn hit(object: HitRef, origin: &Origin, ex: &mut Exchange, cx: &Cx) -> Step {
    ex.upstream.cache_status = Some(CacheStatus::Hit);
    if let Purpose::Refill(reason) = ex.request.nested.purpose {
        return match (reason, ex.upstream.zone) {
            (Reason::Ahead(until), Some(zone)) if object.fresh_until <= until => {
                asked_for_anew(zone, object.to_arc(), ex, cx)
            }
            _ => Step::Abort,
        };
    }
    cx.stats().hits.add(1);
    if cx.loc(ex).settings.purging.counts_hits {
        object.note_hit();
    }
    if object.body.whole().is_none() || ex.upstream.part == Part::Asked {
        return Step::Page(Page::stored(object.to_arc()));
    }
    ex.upstream.fresh_until = Some(object.fresh_until);
    if policy::intercepts(origin, object.status, ex, cx) {
        return Step::Synth(Synth::Status(object.status));
    }
    Step::Deliver(Response {
        content: Content::Hit(object),
        last_modified: None,
        ranges: Ranges::Quiet,
        conditional: true,
    })
}

/// Fetches a part of a page of which another part is there, whose place it takes.
fn other_part(index: usize, permit: Option<larder_cache::Permit>, origin: &Origin, ex: &mut Exchange, cx: &Cx) -> Step {
    if let Some(turn) = policy::miss(origin, ex, cx) {
        return turned(turn, ex);
    }
    match permit {
        None => missed_anew(index, ex, cx),
        Some(permit) => {
            ex.upstream.cache_status = Some(CacheStatus::Miss);
            count_miss(ex, cx);
            Plan::new(Some(Storing::new(permit, index)), None).into()
        }
    }
}

/// Fetches a page that is there and does not count. Nobody waits for it, and it takes the place of the other.
fn missed_anew(index: usize, ex: &mut Exchange, cx: &Cx) -> Step {
    ex.upstream.cache_status = Some(CacheStatus::Miss);
    count_miss(ex, cx);
    Plan::new(Some(Storing::unasked(index, cx)), None).into()
}

/// Asks the origin whether a fresh page is still good, as the request demands it. Nobody waits for the answer.
fn asked_for_anew(index: usize, object: Arc<Object>, ex: &mut Exchange, cx: &Cx) -> Step {
    ex.upstream.cache_status = Some(CacheStatus::Expired);
    ex.upstream.cache_detail = Cause::ByRequest;
    count_miss(ex, cx);
    Plan::new(Some(Storing::unasked(index, cx)), Some(object)).into()
}

/// Fetches a page that is not there; the origin's answer is not stored, for this reason.
fn missed(why: Cause, origin: &Origin, ex: &mut Exchange, cx: &Cx) -> Step {
    if let Some(turn) = policy::miss(origin, ex, cx) {
        return turned(turn, ex);
    }
    passed(why, ex, cx)
}

fn passed(why: Cause, ex: &mut Exchange, cx: &Cx) -> Step {
    ex.upstream.cache_status = Some(CacheStatus::Miss);
    ex.upstream.cache_detail = why;
    count_miss(ex, cx);
    Plan::pass().into()
}

/// A page whose body lay on a disk and has left it since: the zone is asked again without it.
fn lost(index: usize, object: &Arc<Object>, ex: &mut Exchange, cx: &Cx) -> Step {
    cx.zone(index).lost(object, cx.now());
    ex.upstream.lost_pages += 1;
    if ex.upstream.lost_pages > LOST_PAGES_MAX {
        return passed(Cause::Other("lost by the disk"), ex, cx);
    }
    Step::LookInZone(index)
}

/// What bans have made of a page that was found.
#[inline]
fn banned_of(verdict: &Verdict, zone: &Zone, ex: &Exchange) -> Option<(Banned, Arc<Object>)> {
    let (Verdict::Hit(object) | Verdict::Stale { object, .. }) = verdict else { return None };
    Some((banned(zone, object, ex)?, object.to_arc()))
}

#[inline]
fn banned(zone: &Zone, object: &Object, ex: &Exchange) -> Option<Banned> {
    let head = &ex.asked.head;
    zone.banned(object, &Asking { url: head.target(), fields: &head.fields })
}

/// Whether bans leave nothing of a page that arrives to a request: it is dropped, or is stale and has no grace.
fn is_banned(zone: &Zone, object: &Object, ex: &Exchange, cx: &Cx) -> bool {
    match banned(zone, object, ex) {
        None => false,
        Some(Banned::Gone) => true,
        Some(Banned::Stale(stale)) => cx.now().since(stale.since) >= object.stale_while_revalidate,
    }
}

/// A page is what bans have made of it, and the zone is asked again.
fn enforce(banned: Banned, index: usize, object: &Arc<Object>, ex: &mut Exchange, cx: &Cx) -> Step {
    cx.zone(index).enforce(banned, object, cx.now());
    ex.upstream.lost_pages += 1;
    match cx.origin(ex) {
        Some(origin) if ex.upstream.lost_pages > LOST_PAGES_MAX => missed(Cause::Other("banned"), origin, ex, cx),
        Some(_) | None => Step::LookInZone(index),
    }
}

/// How many pages of one key a disk may lose, or bans may cover, during a request before the request is passed.
const LOST_PAGES_MAX: u8 = 8;

/// A stale page: delivered while a refetch runs (`*_cache_background_update`), or fetched by this request.
fn stale(
    index: usize,
    object: Arc<Object>,
    permit: Option<larder_cache::Permit>,
    origin: &Origin,
    ex: &mut Exchange,
    cx: &Cx,
) -> Step {
    let what = match ex.is_refill() && permit.is_some() {
        // Nobody waits for it, and it is to be there anew.
        true => OnStale::Fetch,
        false => policy::on_stale(origin, &object, permit.is_none(), ex, cx),
    };
    let (status, step) = match (what, permit) {
        (OnStale::Turn(turn), _) => return turned(turn, ex),
        (OnStale::Wait, _) => return Slow::Hold(Box::new(Held { object, zone: index, since: cx.now() })).into(),
        (OnStale::Deliver, None) => (CacheStatus::Updating, Step::Page(Page::stored(object))),
        (OnStale::Deliver, Some(_)) => (CacheStatus::Stale, Step::Page(Page::stored(object))),
        (OnStale::DeliverAndRefetch, Some(permit)) => {
            refetch::spawn(Storing::new(permit, index), Arc::clone(&object), ex, cx);
            (CacheStatus::Stale, Step::Page(Page::stored(object)))
        }
        (OnStale::DeliverAndRefetch | OnStale::Fetch, permit) => {
            let storing = match permit {
                Some(permit) => Storing::new(permit, index),
                None => Storing::unasked(index, cx),
            };
            return match share::is_asked_for(&storing, ex, cx) {
                true => Slow::Share(Box::new(Sought { storing, stale: Some(object) })).into(),
                false => expired(object, storing, ex, cx),
            };
        }
    };
    ex.upstream.cache_status = Some(status);
    cx.stats().stale.add(1);
    step
}

/// Counts a request whose origin is asked; one without a client counts as a fetch in the background.
fn count_miss(ex: &Exchange, cx: &Cx) {
    let stats = cx.stats();
    if ex.is_refill() { &stats.refetches } else { &stats.misses }.add(1);
}

/// Waits until the fetch of a page is over, and asks again.
pub async fn held(held: Held, ex: &mut Exchange, cx: &Cx) -> Step {
    let Some(origin) = cx.origin(ex) else { return Step::Synth(Synth::Final(status::INTERNAL_SERVER_ERROR)) };
    ex.upstream.waited_for = Some("stale");
    let shared = loop {
        let shared = held.object.shared_since(held.since);
        let shared = shared.filter(|object| object.vary.matches(&ex.selecting()));
        if shared.is_some() || !held.object.is_updating() {
            break shared;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    };
    let Some(object) = shared else {
        ex.vcl.client.waited_since = Some(held.since);
        return Step::LookInZone(held.zone);
    };
    match policy::arriving(origin, &object, ex, cx) {
        Found::Page => {
            ex.upstream.cache_status = Some(CacheStatus::Hit);
            cx.stats().hits.add(1);
            Step::Page(Page::stored(object))
        }
        Found::Miss => missed_anew(held.zone, ex, cx),
        Found::Ask => asked_for_anew(held.zone, object, ex, cx),
        Found::Turn(turn) => turned(turn, ex),
    }
}

/// Waits for a disk, and asks again.
pub async fn load(of: LoadingOf) -> Step {
    of.loading.run().await;
    Step::LookInZone(of.zone)
}

/// Waits for another request's fetch, at most for `*_cache_lock_timeout`.
pub async fn wait(waiting: Waiting, ex: &mut Exchange, cx: &Cx) -> Step {
    let Some(origin) = cx.origin(ex) else { return Step::Synth(Synth::Final(status::INTERNAL_SERVER_ERROR)) };
    let lock_age = policy::rules(origin, ex, cx.now()).lock_age;
    ex.upstream.waited_for = Some("uri-miss");
    if let Some(rank) = gate::rank(&origin.backend, ex, cx) {
        waiting.waiter.hurry(rank);
    }
    let woken = waiting.waiter.wait().await;
    cx.stats().woken.add(u64::from(!matches!(woken, Woken::GaveUp)));
    match woken {
        Woken::Filling { object, .. } if is_held(&object, lock_age, ex, cx) => {
            hold(&object, lock_age).await;
            Step::LookInZone(waiting.zone)
        }
        Woken::Filling { object, .. } if far_range::is_passed(&Arriving::of(&object), &origin.backend, ex, cx) => {
            ex.upstream.cache_detail = Cause::RangeNotThere;
            part::instead(waiting.zone, origin, ex).unwrap_or_else(|| passed(Cause::RangeNotThere, ex, cx))
        }
        Woken::Filling { object, .. } if !part::answers(&object, origin, ex, cx) => {
            other_part(waiting.zone, None, origin, ex, cx)
        }
        Woken::Filling { object, .. } if is_banned(cx.zone(waiting.zone), &object, ex, cx) => {
            match policy::miss(origin, ex, cx) {
                None => missed_anew(waiting.zone, ex, cx),
                Some(turn) => turned(turn, ex),
            }
        }
        Woken::Filling { object, reader } => {
            match policy::arriving(origin, &object, ex, cx) {
                Found::Page => {}
                Found::Miss => return missed_anew(waiting.zone, ex, cx),
                Found::Ask => return asked_for_anew(waiting.zone, object, ex, cx),
                Found::Turn(turn) => return turned(turn, ex),
            }
            ex.upstream.cache_status = Some(CacheStatus::Hit);
            cx.stats().hits.add(1);
            Step::Page(Page::arriving(object, reader))
        }
        Woken::Ready if ex.upstream.lock_until.is_some_and(|until| until > cx.now()) => Step::LookInZone(waiting.zone),
        Woken::Ready => Plan::pass().into(),
        Woken::GaveUp if gate::has_line(&origin.backend, cx) && ex.upstream.line_waits < LINE_WAITS_MAX => {
            // A fetch of its own would wait behind the one that it waits for.
            ex.upstream.line_waits += 1;
            ex.upstream.lock_until = None;
            Step::LookInZone(waiting.zone)
        }
        Woken::Uncacheable if part::leave(ex) => Step::LookInZone(waiting.zone),
        // A policy that has left a mark finds it.
        Woken::Uncacheable if policy::writes_requests(origin) => Step::LookInZone(waiting.zone),
        Woken::Uncacheable | Woken::GaveUp => missed(Cause::None, origin, ex, cx),
    }
}

/// Whether a waiter gets the page only when it is whole. With a short `*_cache_lock_age` a second fetch sets out soon,
/// and may be done first; a waiter that has a part of the first could not change over to it.
fn is_held(object: &Object, lock_age: Duration, ex: &Exchange, cx: &Cx) -> bool {
    let is_impatient = lock_age < HELD_MAX;
    is_impatient && object.body.whole().is_none() && ex.upstream.lock_until.is_some_and(|until| until > cx.now())
}

/// Waits until a page is whole, or its fetch has had its time.
async fn hold(object: &Object, lock_age: Duration) {
    let is_over = async {
        while matches!(object.body.state(), BodyState::Filling { .. }) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    let _ = tokio::time::timeout(lock_age, is_over).await;
}

/// How often a request waits for `*_cache_lock_timeout` while others wait at the gate of its origin: with the usual 5 s as
/// long as an origin may be silent.
const LINE_WAITS_MAX: u8 = 12;
/// With a shorter `*_cache_lock_age`, waiters get the page only when it is whole.
const HELD_MAX: Duration = Duration::from_secs(1);
/// How often a waiter looks whether the page is whole.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Why a page that may be stored is not there.
fn why_missing(zone: &Zone, key: &KeyRef<'_>) -> Cause {
    match zone.ended(key) {
        Some(ended) => Cause::of_end(ended),
        None if zone.is_too_large(key) => Cause::TooLarge,
        None => Cause::NotStoredYet,
    }
}
