//! What has been done with a request, for `X-Larder-Explain`.

use crate::context::Cx;
use crate::exchange::{CacheStatus, Exchange};
use crate::vsl::Note;

use super::notes::{begin, notes};
use super::{advance, reasons, receive};

/// What has been done with a request, and why, in a sentence.
pub fn sentence(ex: &mut Exchange, cx: &Cx) -> String {
    match ex.upstream.cache_status {
        Some(CacheStatus::Hit) => {
            let left = ex.upstream.fresh_until.map_or(0, |until| until.since(cx.now()).as_secs());
            format!("a hit: fresh for {left} s more")
        }
        Some(CacheStatus::Stale) => "a stale hit".to_owned(),
        Some(CacheStatus::Updating) => "a stale hit: another request is fetching the page anew".to_owned(),
        Some(CacheStatus::Revalidated) => "a hit: the origin has confirmed it".to_owned(),
        None if cx.origin(ex).is_none() => "no cache is asked here".to_owned(),
        Some(CacheStatus::Miss | CacheStatus::Expired) if ex.upstream.status.is_none() => {
            format!("not cached: {}", reasons::NO_ANSWER)
        }
        _ if is_guarded(ex) => match walked(ex, cx) {
            Some(sentence) => sentence,
            None => format!("not cached: {}", reasons::of_answer(ex, cx)),
        },
        Some(CacheStatus::Miss | CacheStatus::Expired) if reasons::is_stored(ex) => {
            format!("a miss: {}; the answer is stored", reasons::of_answer(ex, cx))
        }
        Some(CacheStatus::Miss | CacheStatus::Expired | CacheStatus::Bypass) | None => {
            format!("not cached: {}", reasons::of_answer(ex, cx))
        }
    }
}

/// Whether a condition of the configuration has decided.
fn is_guarded(ex: &Exchange) -> bool {
    ex.upstream.cache_detail == "no_cache" || ex.upstream.cache_status == Some(CacheStatus::Bypass)
}

/// What has given the variable of the condition its value that has decided: `cookie a sets $skip=1 at site.conf:31`.
pub fn made_by(ex: &Exchange, cx: &Cx) -> Option<String> {
    let sentence = is_guarded(ex).then(|| walked(ex, cx)).flatten()?;
    let (made, _) = sentence.strip_prefix("not cached: ")?.split_once(", used by ")?;
    Some(made.to_owned())
}

/// Why a request is not answered from the cache, or not stored, by another walk of the same request: what a walk notes is not
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
    begin(&mut copy);
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
    last.filter(|sentence| sentence.starts_with("not cached: "))
}
