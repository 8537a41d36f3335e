//! What was found in the cache: `vcl_hit`, `vcl_miss`, and how long a page may be stale.

use std::sync::Arc;
use std::time::Duration;

use larder_cache::{Mark, Object, Rules};
use larder_http::Time;
use larder_vcl::steps::{Action, Step};
use larder_vsl::Tag;

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::policy::{Found, OnStale, Turn};
use crate::records;
use crate::site::VclPolicy;

use super::answer::note_tags;
use super::run::run;
use super::turns::{passes, turned};
use super::{now, seconds, variables};

/// Who waits for whom: all for the first, until it has an answer.
pub fn rules(ex: &Exchange) -> Rules {
    Rules {
        lock: !ex.vcl.client.ignore_busy,
        lock_age: FOREVER,
        lock_timeout: FOREVER,
        ignore_vary: ex.vcl.client.ignore_vary,
        ..Rules::default()
    }
}

/// When the request came: what was fresh then is, however long its subs and its waiting take.
pub fn time_of_lookup(ex: &Exchange) -> Time {
    ex.asked.started
}

/// As long as nobody lives.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// `vcl_hit` for a page that is fresh; or what a mark in its place stands for.
pub fn hit(policy: &VclPolicy, object: &Arc<Object>, ex: &mut Exchange, cx: &Cx) -> Found {
    match object.mark() {
        Mark::HitPass => {
            records::found(Tag::HitPass, object, ex, cx);
            ex.vcl.client.is_hitpass = true;
            ex.vcl.client.passed_by = None;
            cx.stats().hits_for_pass.add(1);
            return Found::Turn(passes(policy, ex, cx));
        }
        Mark::HitMiss => return hit_miss(policy, object, ex, cx),
        Mark::Page => {}
    }
    let max_age = ex.vcl.client.max_age.filter(|max_age| *max_age >= 0.0);
    if max_age.is_some_and(|max_age| variables::page::age(object, seconds(time_of_lookup(ex))) >= max_age) {
        return missed(policy, ex, cx);
    }
    match delivers(policy, object, ex, cx) {
        None => Found::Page,
        Some(turn) => Found::Turn(turn),
    }
}

fn hit_miss(policy: &VclPolicy, object: &Object, ex: &mut Exchange, cx: &Cx) -> Found {
    records::found(Tag::HitMiss, object, ex, cx);
    ex.vcl.client.is_hitmiss = true;
    cx.stats().hits_for_miss.add(1);
    missed(policy, ex, cx)
}

fn missed(policy: &VclPolicy, ex: &mut Exchange, cx: &Cx) -> Found {
    match miss(policy, ex, cx) {
        None => Found::Miss,
        Some(turn) => Found::Turn(turn),
    }
}

/// Runs `vcl_hit`; `None` if the page is delivered.
fn delivers(policy: &VclPolicy, object: &Arc<Object>, ex: &mut Exchange, cx: &Cx) -> Option<Turn> {
    if !ex.is_walk() && object.count_hit(now(ex, cx)) == 1 {
        // It may have come from a disk, where it was before this process began.
        note_tags(policy, &object.fields, ex, cx);
    }
    ex.vcl.page = Some(Arc::clone(object));
    records::found(Tag::Hit, object, ex, cx);
    let ended = run(policy, Step::Hit, ex, cx);
    match ended.action {
        Action::Deliver => {
            ex.vcl.client.is_hit = true;
            None
        }
        Action::Pass => {
            ex.vcl.client.is_hit = true;
            ex.vcl.client.passed_by = Some((Step::Hit, ended.at));
            Some(passes(policy, ex, cx))
        }
        _ => Some(turned(policy, ended, ex, cx)),
    }
}

/// `vcl_miss`; `None` if the page is fetched.
pub fn miss(policy: &VclPolicy, ex: &mut Exchange, cx: &Cx) -> Option<Turn> {
    ex.vcl.page = None;
    let ended = run(policy, Step::Miss, ex, cx);
    match ended.action {
        Action::Fetch => None,
        Action::Pass => {
            ex.vcl.client.passed_by = Some((Step::Miss, ended.at));
            Some(passes(policy, ex, cx))
        }
        _ => Some(turned(policy, ended, ex, cx)),
    }
}

/// A page past its time: delivered within its grace, which the request may shorten, and fetched otherwise.
pub fn on_stale(policy: &VclPolicy, object: &Arc<Object>, is_updating: bool, ex: &mut Exchange, cx: &Cx) -> OnStale {
    let has_waited = ex.vcl.client.waited_since.is_some_and(|since| object.stored_at >= since);
    let found = match object.mark() {
        Mark::HitMiss | Mark::HitPass => hit_miss(policy, object, ex, cx),
        Mark::Page if has_waited || is_in_grace(object, ex) => match delivers(policy, object, ex, cx) {
            None => Found::Page,
            Some(turn) => Found::Turn(turn),
        },
        Mark::Page if is_updating && !ex.vcl.client.ignore_busy => return OnStale::Wait,
        Mark::Page => missed(policy, ex, cx),
    };
    match found {
        Found::Page if is_updating || has_waited => OnStale::Deliver,
        Found::Page => OnStale::DeliverAndRefetch,
        Found::Miss | Found::Ask => OnStale::Fetch,
        Found::Turn(turn) => OnStale::Turn(turn),
    }
}

fn is_in_grace(object: &Object, ex: &Exchange) -> bool {
    let client = &ex.vcl.client;
    let mut grace = object.stale_while_revalidate;
    if let Some(asked) = client.grace.filter(|asked| *asked >= 0.0) {
        grace = grace.min(variables::span(asked));
    }
    let is_too_old = client.max_age.filter(|max_age| *max_age >= 0.0).is_some_and(|max_age| {
        variables::page::age(object, seconds(time_of_lookup(ex))) >= max_age + grace.as_secs_f64()
    });
    object.staleness(time_of_lookup(ex)) < grace && !is_too_old
}
