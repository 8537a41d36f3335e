//! What has been done with a request, for `X-Larder-Explain`.

use crate::context::Cx;
use crate::exchange::{CacheStatus, Cause, Exchange, Part};
use crate::site::Policy;
use crate::vsl::{Audience, Note};

use super::notes::{begin, notes};
use super::walk_cache::{BYPASSED, NOT_CACHED, THEN_STORED, USED_BY};
use super::{advance, reasons, receive};

/// What has been done with a request, and why, in a sentence.
pub fn sentence(ex: &mut Exchange, cx: &Cx) -> String {
    match ex.upstream.cache_status {
        Some(CacheStatus::Hit) => {
            let left = ex.upstream.fresh_until.map_or(0, |until| until.since(cx.now()).as_secs());
            format!("a hit: fresh for {left} s more")
        }
        Some(CacheStatus::Stale) if ex.upstream.cache_detail == Cause::Failed => match ex.upstream.status {
            Some(status) => format!("a stale page, as the origin answered with {status}"),
            None => "a stale page, as the origin gave no answer".to_owned(),
        },
        Some(CacheStatus::Stale) if ex.upstream.cache_detail == Cause::Gate => {
            "a stale page, as there was no turn at the gate".to_owned()
        }
        Some(CacheStatus::Stale) => "a stale hit".to_owned(),
        Some(CacheStatus::Updating) => "a stale hit: another request is fetching the page anew".to_owned(),
        Some(CacheStatus::Revalidated) if ex.upstream.cache_detail == Cause::EachTime => {
            format!("a hit: {}", reasons::of_answer(ex, cx))
        }
        Some(CacheStatus::Revalidated) => "a hit: the origin has confirmed it".to_owned(),
        None if cx.origin(ex).is_none() => "no cache is asked here".to_owned(),
        _ if ex.upstream.cache_detail == Cause::OnlyIfCached => answered_here(ex, cx),
        None if ex.upstream.status.is_none() && ex.tally.attempts.is_empty() => answered_here(ex, cx),
        _ if ex.upstream.status.is_none() => format!("not cached: {}", reasons::without_answer(ex)),
        _ if is_guarded(ex) => {
            let why = walked(ex, cx).unwrap_or_else(|| reasons::of_answer(ex, cx).into_owned());
            match ex.upstream.cache_status {
                Some(CacheStatus::Bypass) if ex.upstream.is_stored => format!("bypassed, and stored anew: {why}"),
                _ => format!("{NOT_CACHED}{why}"),
            }
        }
        Some(CacheStatus::Miss | CacheStatus::Expired) if ex.upstream.is_stored => {
            let what = if ex.upstream.part == Part::Asked { "the part" } else { "the answer" };
            format!("a miss: {}; {what} is stored", reasons::of_answer(ex, cx))
        }
        Some(CacheStatus::Miss | CacheStatus::Expired | CacheStatus::Bypass) | None => {
            format!("not cached: {}", reasons::of_answer(ex, cx))
        }
    }
}

/// An answer for which no origin was asked, though one would be.
fn answered_here(ex: &Exchange, cx: &Cx) -> String {
    let by = match cx.origin(ex).map(|origin| &origin.policy) {
        Some(Policy::Vcl(_)) => "the VCL",
        Some(_) | None => "larder",
    };
    let why = match ex.upstream.cache_detail {
        Cause::None => String::new(),
        cause => format!(", {}", cause.words()),
    };
    format!("answered by {by} itself: {}{why}", ex.reply.status)
}

/// Whether a condition of the configuration has decided.
fn is_guarded(ex: &Exchange) -> bool {
    matches!(ex.upstream.cache_detail, Cause::NoCache | Cause::Profile)
        || ex.upstream.cache_status == Some(CacheStatus::Bypass)
}

/// What has given the variable of the condition its value that has decided: `cookie a sets $skip=1 at site.conf:31`.
pub fn made_by(ex: &Exchange, cx: &Cx) -> Option<String> {
    let why = is_guarded(ex).then(|| walked(ex, cx)).flatten()?;
    let (made, _) = why.split_once(USED_BY)?;
    Some(made.to_owned())
}

/// Which condition has it not answered from the cache, or not stored, by another walk of the same request: what a walk notes is not
/// noted otherwise.
fn walked(ex: &Exchange, cx: &Cx) -> Option<String> {
    let listener = ex.asked.client.listener(cx.site())?;
    let head = &ex.asked.head;
    let mut text = [head.method_name(), b" ", head.target(), b" HTTP/1.1\r\n"].concat();
    for (name, value) in head.fields.iter() {
        text.extend_from_slice(&[name, b": ", value, b"\r\n"].concat());
    }
    text.extend_from_slice(b"\r\n");
    let mut copy = cx.worker.exchange(&ex.asked.client);
    begin(&mut copy, Audience::Visitor);
    let counted = cx.stats().counted();
    if let Ok(step) = receive::begin_unseen(&text, listener, &mut copy, cx, ex.asked.started) {
        drop(advance(step, &mut copy, cx));
    }
    cx.stats().put_back(&counted);
    let last = notes(&copy).into_iter().rev().find_map(|note| match note {
        Note::Verdict(sentence) => Some(sentence),
        Note::Location(..)
        | Note::Holds { .. }
        | Note::Left
        | Note::Set { .. }
        | Note::Said { .. }
        | Note::Told { .. } => None,
    });
    cx.worker.recycle(copy);
    let last = last?;
    let bypassed = || last.strip_prefix(BYPASSED)?.strip_suffix(THEN_STORED);
    last.strip_prefix(NOT_CACHED).or_else(bypassed).map(str::to_owned)
}
