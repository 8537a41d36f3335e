//! What RFC 9111 decides, where nginx's directives name the zone, the key and the exceptions.
//!
//! `*_cache_bypass`, `*_no_cache`, `*_cache_min_uses` and `*_cache_lock*` do what they always do. `*_cache_valid` gives a
//! lifetime to what states none, before heuristics do. `*_cache_use_stale` allows what the response itself does not
//! forbid. `X-Accel-Expires` is a targeted field (RFC 9213) that goes before all others, unless
//! `*_ignore_headers` names it.

use std::time::Duration;

use larder_cache::freshness::{Accel, accel_expires};
use larder_cache::rfc9111::{self, Asked, Response, Said, Storable};
use larder_cache::{KeyRef, Object, VaryKey, selecting};
use larder_conf::model::OriginSettings;
use larder_http::uri::reference;
use larder_http::{Fields, Known, KnownSet, Method, ResponseHead, Time, format_date, list};
use larder_origin::FailKind;

use crate::context::Cx;
use crate::exchange::{Exchange, Slicing};
use crate::site::{Backend, Rfc9111Policy};
use crate::target;

use super::directives::{self, UNCACHEABLE_FOR};
use super::{Ask, Confirmed, Found, Judgement, Keep, Kept, Lifetime, OnStale, Question, Turn, Validators, Why};

/// As the directives have it. Preconditions that only the origin can evaluate go to it (RFC 9111 §4.3.2).
pub fn ask(policy: &Rfc9111Policy, backend: &Backend, ex: &mut Exchange, cx: &Cx) -> Ask {
    const OF_ORIGIN: KnownSet = KnownSet::of(&[Known::IfMatch, Known::IfUnmodifiedSince]);
    let fields = &ex.asked.head.fields;
    let ask = match fields.may_have(OF_ORIGIN) && fields.iter_known().any(|(known, ..)| OF_ORIGIN.contains(known)) {
        true => Ask::Pass("a precondition that is the origin's"),
        false => directives::ask(&policy.directives, backend, ex, cx),
    };
    match ask {
        Ask::Pass(_) | Ask::Refresh(_) if asked(policy, ex).only_if_cached => Ask::Turn(Turn::Absent),
        ask => ask,
    }
}

/// What the request asks of caches, where that counts.
fn asked(policy: &Rfc9111Policy, ex: &Exchange) -> Asked {
    let fields = &ex.asked.head.fields;
    match policy.honours_requests && fields.contains_known(Known::CacheControl) {
        true => Asked::by(fields),
        false => Asked::default(),
    }
}

/// Whether a fresh page is fresh enough for the request (§5.2.1).
pub fn hit(policy: &Rfc9111Policy, object: &Object, ex: &Exchange, cx: &Cx) -> Found {
    let asked = asked(policy, ex);
    if asked == Asked::default() || !is_refused(policy, &asked, object, cx.now()) {
        return Found::Page;
    }
    match asked.only_if_cached {
        true => Found::Turn(Turn::Absent),
        false => Found::Ask,
    }
}

/// Whether who has waited for a page that another fetches may have it: not if that is never fresh (§4).
pub fn arriving(object: &Object, cx: &Cx) -> Found {
    if object.is_fresh(cx.now()) { Found::Page } else { Found::Miss }
}

fn is_refused(policy: &Rfc9111Policy, asked: &Asked, object: &Object, now: Time) -> bool {
    let is_immutable = asked.max_age.is_some() && Said::by(&object.fields, &policy.targets).immutable;
    asked.refuses(object.age(now), object.fresh_until.since(now), is_immutable)
}

/// `only-if-cached`: a page that is not there is not fetched (§5.2.1.7).
pub fn miss(policy: &Rfc9111Policy, ex: &Exchange) -> Option<Turn> {
    asked(policy, ex).only_if_cached.then_some(Turn::Absent)
}

/// `max-stale` of the request, `stale-while-revalidate` of the page, `*_cache_use_stale updating`.
pub fn on_stale(policy: &Rfc9111Policy, object: &Object, is_updating: bool, ex: &Exchange, cx: &Cx) -> OnStale {
    let now = cx.now();
    let asked = asked(policy, ex);
    let cache = &policy.directives.settings.model.cache;
    let may_wait = !asked.no_cache && !Said::by(&object.fields, &policy.targets).forbids_stale();
    let by_page = object.may_serve_while_revalidating(now);
    match may_wait && asked.max_age.is_none_or(|max| object.age(now) <= max) {
        true if asked.takes_stale(object.staleness(now)) => OnStale::Deliver,
        true if is_updating && (by_page || cache.use_stale.updating) => OnStale::Deliver,
        true if by_page || cache.use_stale.updating && cache.background_update => OnStale::DeliverAndRefetch,
        true | false if asked.only_if_cached => OnStale::Turn(Turn::Absent),
        true | false => OnStale::Fetch,
    }
}

/// While the origin cannot be reached (§4.2.4), or by `stale-if-error` (RFC 5861 §4), or by `*_cache_use_stale`; never if
/// the page forbids it.
pub fn may_be_stale(policy: &Rfc9111Policy, object: &Object, why: Why, ex: &Exchange, now: Time) -> bool {
    if Said::by(&object.fields, &policy.targets).forbids_stale() {
        return false;
    }
    let by_request = asked(policy, ex)
        .stale_if_error
        .is_some_and(|seconds| object.is_fresh(now) || object.staleness(now) < Duration::from_secs(seconds));
    match why {
        Why::Failed(FailKind::Error | FailKind::Timeout | FailKind::InvalidHeader) => true,
        Why::Status(500 | 502 | 503 | 504) if by_request => true,
        Why::Status(_) | Why::Updating => directives::may_be_stale(&policy.directives, object, why, now),
    }
}

/// A page that has a validator is always to be confirmed (§4.3.1).
pub fn question(
    policy: &Rfc9111Policy,
    backend: &Backend,
    stale: Option<&Object>,
    stores: bool,
    ex: &mut Exchange,
    cx: &Cx,
) -> Question {
    directives::question_about(&policy.directives, backend, stale, stores, ex, cx)
}

/// Takes fields of the connection out of an answer, dates it, and drops what it makes invalid.
pub fn received(policy: &Rfc9111Policy, backend: &Backend, answer: &mut ResponseHead, ex: &mut Exchange, cx: &Cx) {
    drop_nominated(answer);
    if !answer.fields.contains_known(Known::Date) {
        // RFC 9110 §6.6.1.
        std::sync::Arc::make_mut(&mut answer.fields).push(b"Date", &format_date(cx.now().secs()));
    }
    let is_safe = matches!(ex.request.method, Method::Get | Method::Head | Method::Options | Method::Trace);
    if !is_safe && (200..400).contains(&answer.status) {
        invalidate(policy, backend, &answer.fields, ex, cx);
    }
}

/// Leaves out the fields that `Connection` names (RFC 9110 §7.6.1), but for those that every message has a use for: an
/// answer is not to lose what keeps it out of the cache.
fn drop_nominated(answer: &mut ResponseHead) {
    const KEPT: KnownSet = KnownSet::of(&[
        Known::Age,
        Known::CacheControl,
        Known::CdnCacheControl,
        Known::Connection,
        Known::ContentEncoding,
        Known::ContentLength,
        Known::ContentRange,
        Known::ContentType,
        Known::Date,
        Known::Etag,
        Known::Expires,
        Known::LastModified,
        Known::Location,
        Known::SetCookie,
        Known::SurrogateControl,
        Known::TransferEncoding,
        Known::Upgrade,
        Known::Vary,
    ]);
    if !answer.fields.contains_known(Known::Connection) {
        return;
    }
    let mut named = larder_http::Names::default();
    for token in answer.fields.all_known(Known::Connection).flat_map(list::members) {
        if !KEPT.contains(Known::of(token)) {
            named.insert(token);
        }
    }
    if answer.fields.contains_any(&named) {
        std::sync::Arc::make_mut(&mut answer.fields).remove_all(&named);
    }
}

/// An unsafe request that did not fail makes the stored page of its URL invalid, and those that `Location` and
/// `Content-Location` name on the same site (§4.4).
fn invalidate(policy: &Rfc9111Policy, backend: &Backend, answer: &Fields, ex: &mut Exchange, cx: &Cx) {
    let Some(cache) = &policy.directives.cache else { return };
    let Ok(Some(zone)) = directives::zone(cache, ex, cx) else { return };
    target::note_proxy_host(backend, ex, cx);
    let kept = std::mem::take(&mut ex.upstream.cache_key);
    directives::as_of_a_get(ex, |ex| directives::make_key(cache, backend, ex, cx));
    let key = std::mem::replace(&mut ex.upstream.cache_key, kept);
    let zone = cx.zone(zone);
    zone.purge(&KeyRef::new(&key), cx.now());
    let target = ex.asked.head.target();
    // A key in which the URL stands as it was asked for is that of another URL with that in its place.
    let Some(at) = memchr::memmem::rfind(&key, target).filter(|_| !target.is_empty()) else { return };
    for url in [Known::Location, Known::ContentLocation].into_iter().filter_map(|known| answer.get_known(known)) {
        if let Some(other) = same_site(url, target, ex) {
            let key = [&key[..at], &other, &key[at + target.len()..]].concat();
            zone.purge(&KeyRef::new(&key), cx.now());
        }
    }
}

/// The path and query of `url`, seen from `target`, if it is of the same origin: the same scheme, host and port.
fn same_site(url: &[u8], target: &[u8], ex: &Exchange) -> Option<Vec<u8>> {
    let url = &url[..memchr::memchr(b'#', url).unwrap_or(url.len())];
    let rest = match reference::scheme(url) {
        None => url,
        Some(scheme) => {
            let ours: &[u8] = if ex.asked.client.is_secure() { b"https" } else { b"http" };
            let rest = &url[scheme.len() + 1..];
            Some(rest).filter(|rest| scheme.eq_ignore_ascii_case(ours) && rest.starts_with(b"//"))?
        }
    };
    let Some(rest) = rest.strip_prefix(b"//") else { return Some(reference::target_from(target, rest)) };
    let (host, path) = rest.split_at(memchr::memchr2(b'/', b'?', rest).unwrap_or(rest.len()));
    let asked = ex.asked.head.fields.get_known(Known::Host).or(ex.asked.head.target_host())?;
    host.eq_ignore_ascii_case(asked).then(|| match path {
        [b'/', ..] => path.to_vec(),
        _ => [b"/", path].concat(),
    })
}

/// What of an answer is stored (§3).
pub fn keep(policy: &Rfc9111Policy, answer: &ResponseHead, ex: &mut Exchange, cx: &Cx) -> Keep {
    if asked(policy, ex).no_store {
        // The next who waits for the page has not asked for that.
        return Keep::Not { why: "Cache-Control: no-store of the request", uncacheable_for: None };
    }
    let kept = directives::may_keep(&policy.directives, answer, ex, cx)
        .and_then(|()| kept(policy, answer.status, &answer.fields, ex, cx));
    match kept {
        Ok(kept) => Keep::Until(kept),
        // After a failure the waiters must not all ask at once: the next one tries.
        Err(why) => Keep::Not { why, uncacheable_for: (answer.status < 500).then_some(UNCACHEABLE_FOR) },
    }
}

fn kept(policy: &Rfc9111Policy, status: u16, fields: &Fields, ex: &Exchange, cx: &Cx) -> Result<Kept, &'static str> {
    let model = &policy.directives.settings.model;
    let now = cx.now();
    let said = said(policy, fields, now)?;
    let request = &ex.asked.head.fields;
    let storable = rfc9111::storable(
        &said,
        &Response {
            status,
            fields,
            is_authorised: request.contains_known(Known::Authorization),
            delay: ex.tally.attempts.last().and_then(|attempt| attempt.header).unwrap_or_default(),
            now,
            configured: directives::configured(status, model),
            may_have_cookies: model.ignore_headers.set_cookie,
            is_slice: matches!(ex.visit.slicing, Slicing::At(_)),
        },
    )?;
    let vary = match model.ignore_headers.vary {
        true => VaryKey::none(),
        false => VaryKey::of(fields, &selecting(request)).ok_or("Vary: *")?,
    };
    let fields = stored_fields(fields, &said, storable.age, model);
    let Storable { fresh_until, stale_while_revalidate, stale_if_error, .. } = storable;
    let lifetime = Lifetime { fresh_until, stale_while_revalidate, stale_if_error };
    Ok(Kept { lifetime, fields, vary, esi_base: None })
}

/// What an answer says, with `X-Accel-Expires` and but for `*_ignore_headers`.
fn said(policy: &Rfc9111Policy, fields: &Fields, now: Time) -> Result<Said, &'static str> {
    let ignored = policy.directives.settings.model.ignore_headers;
    let accel = match ignored.x_accel_expires {
        true => Accel::Silent,
        false => accel_expires(fields, now),
    };
    let lifetime = match accel {
        Accel::No => return Err("X-Accel-Expires"),
        Accel::Until(until) => Some(until.map(|until| until.since(now).as_secs())),
        Accel::Silent => None,
    };
    if let Some(max_age) = lifetime {
        return Ok(Said { max_age, is_targeted: true, ..Said::default() });
    }
    let mut said = match ignored.cache_control {
        true => Said::default(),
        false => Said::by(fields, &policy.targets),
    };
    said.is_targeted |= ignored.expires;
    Ok(said)
}

/// The fields that are stored: without those that belong to one visitor or one connection, and with the age that the
/// page had when it came (§3.1).
fn stored_fields(fields: &Fields, said: &Said, age: u64, model: &OriginSettings) -> Fields {
    const OF_PROXY: KnownSet =
        KnownSet::of(&[Known::Age, Known::ProxyAuthenticate, Known::ProxyAuthorization, Known::ProxyConnection]);
    let mut stored = directives::stored_fields(fields, model);
    stored.remove_known(OF_PROXY);
    stored.remove("Proxy-Authentication-Info");
    stored.remove_all(&said.withheld);
    if age > 0 {
        stored.push(b"Age", age.to_string().as_bytes());
    }
    stored
}

/// As the directives have it, but for what stale pages may do, and for a 304 that is about another page (§4.3.4).
pub fn judge(
    policy: &Rfc9111Policy,
    answer: &ResponseHead,
    stale: Option<&Object>,
    validators: &Validators,
    ex: &Exchange,
    cx: &Cx,
) -> Judgement {
    let may_be_stale = |object: &Object| may_be_stale(policy, object, Why::Status(answer.status), ex, cx.now());
    let judgement = directives::judge_by(&policy.directives, answer, stale, may_be_stale, validators, ex, cx);
    match (judgement, stale) {
        (Judgement::Confirmed, Some(object)) if !is_about(&answer.fields, object) => Judgement::Astray,
        (judgement, _) => judgement,
    }
}

/// Whether a 304 with these fields confirms this page: a strong entity tag, if it has one, is that of the page.
fn is_about(confirmation: &Fields, object: &Object) -> bool {
    match (confirmation.get_known(Known::Etag), &object.etag) {
        (Some(confirmed), Some(stored)) if !confirmed.starts_with(b"W/") => {
            confirmed == stored.strip_prefix(b"W/").unwrap_or(stored)
        }
        _ => true,
    }
}

/// The page with the fields of the 304, as if it had come anew (§4.3.4).
pub fn confirmed(
    policy: &Rfc9111Policy,
    confirmation: &ResponseHead,
    object: &Object,
    ex: &Exchange,
    cx: &Cx,
) -> Confirmed {
    let fields = rfc9111::updated(&object.fields, &confirmation.fields);
    match kept(policy, object.status, &fields, ex, cx) {
        Ok(kept) => Confirmed::Until { lifetime: kept.lifetime, changed: Some((kept.fields, kept.vary)) },
        Err(why) => Confirmed::Alone { fields, instead: Keep::Not { why, uncacheable_for: None } },
    }
}
