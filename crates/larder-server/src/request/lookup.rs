//! What the cache says: the nginx directives around the verdict of `larder_cache`.
//!
//! Order as in ngx_http_upstream_cache: method, zone, key, bypass, then the zone's verdict.

use std::sync::Arc;
use std::time::Duration;

use larder_cache::{KeyRef, Loading, Object, Verdict, Waiter, Woken};
use larder_conf::model::LogLevel;
use larder_http::{Known, Method};
use larder_store::BodyState;

use crate::context::Cx;
use crate::exchange::{CacheStatus, Exchange};
use crate::site::{CachePolicy, OriginPolicy, ZoneChoice};
use crate::target;
use crate::text::Text;

use super::ahead::{self, Arriving};
use super::page::{self, Page};
use super::plan::{Plan, Storing};
use super::{Content, Ranges, Response, Slow, Step, Synth, refetch};

/// A request that waits for another's fetch.
pub struct Waiting {
    waiter: Waiter,
    zone: usize,
}

/// A request that waits for a disk.
pub struct LoadingOf {
    loading: Loading,
    zone: usize,
}

/// Asks the cache, if it may be asked.
pub fn lookup(ex: &mut Exchange, cx: &Cx) -> Step {
    let Some(policy) = cx.origin(ex) else { return Step::Synth(Synth::Final(500)) };
    // What an earlier location's cache said is not about this one.
    ex.upstream.reset();
    let Some(cache) = &policy.cache else { return pass() };
    if !caches_method(policy, ex) {
        ex.upstream.cache_detail = "method";
        return pass();
    }
    let index = match zone(cache, ex, cx) {
        Ok(Some(index)) => index,
        Ok(None) => return pass(),
        Err(name) => {
            cx.local.logs.error(cx, ex, LogLevel::Error, format_args!("cache \"{name}\" not found"));
            return Step::Synth(Synth::Status(500));
        }
    };
    target::note_proxy_host(policy, ex, cx);
    make_key(policy, cache, ex, cx);
    if Text::any_true(&cache.bypass, ex, cx) {
        ex.upstream.cache_status = Some(CacheStatus::Bypass);
        ex.upstream.cache_detail = "bypass";
        // Told not to look; what comes may still be stored, in place of what is there.
        let storing = Storing::unasked(index);
        return Slow::Fetch(Box::new(Plan { storing: Some(storing), stale: None })).into();
    }
    Step::Look(index)
}

/// Does what the zone says of the key.
pub fn look(index: usize, ex: &mut Exchange, cx: &Cx) -> Step {
    let Some(policy) = cx.origin(ex) else { return Step::Synth(Synth::Final(500)) };
    let zone = cx.zone(index);
    let model = &policy.settings.model;
    let rules = super::plan::rules(policy, ex, cx.now());
    let key = KeyRef::new(&ex.upstream.cache_key);
    let verdict = {
        let request = larder_cache::selecting(&ex.asked.head.fields);
        zone.lookup(&mut cx.local.fronts[index].borrow_mut(), &key, &request, &rules, cx.now())
    };
    match verdict {
        Verdict::Hit(object) if object.body.whole().is_none() && !object.body.is_here() => {
            lost(index, &object.to_arc(), ex, cx)
        }
        Verdict::Hit(object) if object.body.whole().is_none() => {
            ex.upstream.cache_status = Some(CacheStatus::Hit);
            cx.stats().hits.add(1);
            Step::Page(Page::stored(object.to_arc()))
        }
        Verdict::Hit(object) => {
            ex.upstream.cache_status = Some(CacheStatus::Hit);
            ex.upstream.fresh_until = Some(object.fresh_until);
            cx.stats().hits.add(1);
            if let Some(step) = page::intercepted(object.status, policy, ex, cx) {
                return step;
            }
            Step::Deliver(Response {
                content: Content::Hit(object),
                last_modified: None,
                ranges: Ranges::Quiet,
                conditional: true,
            })
        }
        Verdict::Stale { object, permit, .. } => {
            if object.body.whole().is_none() && !object.body.is_here() {
                drop(permit);
                return lost(index, &object.to_arc(), ex, cx);
            }
            stale(index, object.to_arc(), permit, policy, ex, cx)
        }
        Verdict::Miss(None) => {
            ex.upstream.cache_status = Some(CacheStatus::Miss);
            ex.upstream.cache_detail = "no room";
            cx.stats().misses.add(1);
            pass()
        }
        Verdict::Miss(Some(permit)) => {
            ex.upstream.cache_status = Some(CacheStatus::Miss);
            ex.upstream.cache_detail = "not stored yet";
            cx.stats().misses.add(1);
            let storing = Storing::new(permit, index);
            Slow::Fetch(Box::new(Plan {
                storing: range_allows(model.cache_max_range_offset, ex).then_some(storing),
                stale: None,
            }))
            .into()
        }
        Verdict::Wait(waiter) => {
            ex.upstream.cache_status = Some(CacheStatus::Miss);
            ex.upstream.lock_until.get_or_insert(cx.now().plus(model.cache_lock_timeout));
            Slow::Wait(Box::new(Waiting { waiter, zone: index })).into()
        }
        Verdict::Load(loading) => Slow::Load(Box::new(LoadingOf { loading, zone: index })).into(),
        Verdict::Scarce => {
            ex.upstream.cache_status = Some(CacheStatus::Miss);
            ex.upstream.cache_detail = "asked for too seldom";
            cx.stats().misses.add(1);
            pass()
        }
    }
}

/// A page whose body lay on a disk and has left it since: the zone is asked again without it.
fn lost(index: usize, object: &Arc<Object>, ex: &mut Exchange, cx: &Cx) -> Step {
    cx.zone(index).lost(object, cx.now());
    ex.upstream.lost_pages += 1;
    if ex.upstream.lost_pages > LOST_PAGES_MAX {
        ex.upstream.cache_status = Some(CacheStatus::Miss);
        ex.upstream.cache_detail = "lost by the disk";
        cx.stats().misses.add(1);
        return pass();
    }
    Step::Look(index)
}

/// How many pages of one key a disk may lose under a request before that is passed.
const LOST_PAGES_MAX: u8 = 8;

/// A page past its time: delivered while one fetch runs, or fetched for this request.
fn stale(
    index: usize,
    object: Arc<Object>,
    permit: Option<larder_cache::Permit>,
    policy: &OriginPolicy,
    ex: &mut Exchange,
    cx: &Cx,
) -> Step {
    let model = &policy.settings.model;
    let may_be_stale = model.cache_use_stale.updating || object.may_serve_while_revalidating(cx.now());
    match permit {
        None if may_be_stale => {
            ex.upstream.cache_status = Some(CacheStatus::Updating);
            cx.stats().stale.add(1);
            Step::Page(Page::stored(object))
        }
        Some(permit) if may_be_stale && model.cache_background_update => {
            ex.upstream.cache_status = Some(CacheStatus::Stale);
            cx.stats().stale.add(1);
            let plan = Plan { storing: Some(Storing::new(permit, index)), stale: Some(Arc::clone(&object)) };
            refetch::spawn(plan, ex, cx);
            Step::Page(Page::stored(object))
        }
        permit => {
            ex.upstream.cache_status = Some(CacheStatus::Expired);
            ex.upstream.cache_detail = "stale";
            cx.stats().misses.add(1);
            let storing = match permit {
                Some(permit) => Storing::new(permit, index),
                None => Storing::unasked(index),
            };
            Slow::Fetch(Box::new(Plan { storing: Some(storing), stale: Some(object) })).into()
        }
    }
}

/// Waits for a disk, and asks again.
pub async fn load(of: LoadingOf) -> Step {
    of.loading.run().await;
    Step::Look(of.zone)
}

/// Waits for another's fetch; the waiter knows not to wait longer than `*_cache_lock_timeout`.
pub async fn wait(waiting: Waiting, ex: &mut Exchange, cx: &Cx) -> Step {
    let Some(policy) = cx.origin(ex) else { return Step::Synth(Synth::Final(500)) };
    match waiting.waiter.wait().await {
        Woken::Filling { object, .. } if is_held(&object, policy, ex, cx) => {
            hold(&object, policy.settings.model.cache_lock_age).await;
            Step::Look(waiting.zone)
        }
        Woken::Filling { object, .. } if ahead::is_far(&Arriving::of(&object), policy, ex, cx) => {
            ex.upstream.cache_status = Some(CacheStatus::Miss);
            ex.upstream.cache_detail = ahead::DETAIL;
            cx.stats().misses.add(1);
            pass()
        }
        Woken::Filling { object, reader } => {
            ex.upstream.cache_status = Some(CacheStatus::Hit);
            cx.stats().hits.add(1);
            Step::Page(Page::arriving(object, reader))
        }
        Woken::Ready if ex.upstream.lock_until.is_some_and(|until| until > cx.now()) => Step::Look(waiting.zone),
        Woken::Ready => pass(),
        Woken::Uncacheable | Woken::GaveUp => {
            ex.upstream.cache_status = Some(CacheStatus::Miss);
            cx.stats().misses.add(1);
            pass()
        }
    }
}

/// Whether who waits is to get a page that arrives when it is whole only: where another is sent out for it very soon,
/// he may get that one's instead, which he could not with a part of the first on his hands.
fn is_held(object: &Object, policy: &OriginPolicy, ex: &Exchange, cx: &Cx) -> bool {
    let is_impatient = policy.settings.model.cache_lock_age < HELD_MAX;
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

/// With a `*_cache_lock_age` of less a page is waited for whole.
const HELD_MAX: Duration = Duration::from_secs(1);
/// How often it is looked whether it is.
const LOOK_EVERY: Duration = Duration::from_millis(10);

fn pass() -> Step {
    Slow::Fetch(Box::new(Plan { storing: None, stale: None })).into()
}

fn caches_method(policy: &OriginPolicy, ex: &Exchange) -> bool {
    match ex.request.method {
        Method::Get | Method::Head => true,
        _ => {
            let name = crate::vars::method_name(ex);
            policy.settings.model.cache_methods.iter().any(|method| method.as_bytes() == name)
        }
    }
}

pub(super) fn zone(cache: &CachePolicy, ex: &mut Exchange, cx: &Cx) -> Result<Option<usize>, String> {
    match &cache.zone {
        ZoneChoice::Fixed(index) => Ok(Some(*index)),
        ZoneChoice::Variable(text) => text.with(ex, cx, |_, name| {
            if name.is_empty() || name == b"off" {
                return Ok(None);
            }
            let name = String::from_utf8_lossy(name);
            cx.site().zone_names.get(&*name).copied().map(Some).ok_or_else(|| name.into_owned())
        }),
    }
}

pub(super) fn make_key(policy: &OriginPolicy, cache: &CachePolicy, ex: &mut Exchange, cx: &Cx) {
    let mut key = std::mem::take(&mut ex.upstream.cache_key);
    key.clear();
    match &cache.key {
        Some(text) => text.append(ex, cx, &mut key),
        None => target::append_default_key(policy, ex, cx, &mut key),
    }
    ex.upstream.cache_key = key;
}

/// `*_cache_max_range_offset`: a range that begins beyond it is passed on and not stored.
fn range_allows(limit: Option<u64>, ex: &Exchange) -> bool {
    let Some(limit) = limit else { return true };
    let Some(range) = ex.asked.head.fields.get_known(Known::Range) else { return true };
    let Some(range) = range.strip_prefix(b"bytes=") else { return true };
    let first = range.split(|&byte| byte == b',').next().unwrap_or(b"").trim_ascii();
    let start: &[u8] = first.split(|&byte| byte == b'-').next().unwrap_or(b"");
    match std::str::from_utf8(start).ok().and_then(|start| start.parse::<u64>().ok()) {
        Some(start) => start < limit,
        // A suffix range begins somewhere at the end.
        None => false,
    }
}
