//! What RFC 9111 decides, where nginx's directives name the zone, the key and the exceptions.
//!
//! `*_cache_bypass`, `*_no_cache`, `*_cache_min_uses` and `*_cache_lock*` do what they always do. `*_cache_valid` gives a
//! lifetime to what states none, before heuristics do. `*_cache_use_stale` allows what the response itself does not
//! forbid. `X-Accel-Expires` is a targeted field (RFC 9213) that goes before all others, unless
//! `*_ignore_headers` names it.

use std::time::Duration;

use larder_cache::freshness::{Accel, accel_expires};
use larder_cache::litespeed::Storing;
use larder_cache::rfc9111::{self, Asked, Response, Said, Storable};
use larder_cache::{KeyRef, Object, Rules, Zone};
use larder_conf::model::OriginSettings;
use larder_http::uri::reference;
use larder_http::{Fields, Known, KnownSet, Method, ResponseHead, Time, format_date, list};
use larder_origin::FailKind;

use crate::context::Cx;
use crate::exchange::{Cause, Exchange, Part, RequestBody, Slicing};
use crate::site::{Backend, Rfc9111Policy};

use super::directives::{self, UNCACHEABLE_FOR};
use super::litespeed;
use super::{Ask, Confirmed, Found, Judgement, Keep, Kept, Lifetime, OnStale, Turn, Validators, Why};

/// As the directives have it. Preconditions that only the origin can evaluate go to it (RFC 9111 §4.3.2).
pub fn ask(policy: &Rfc9111Policy, backend: &Backend, ex: &mut Exchange, cx: &Cx) -> Ask {
    const OF_ORIGIN: KnownSet = KnownSet::of(&[Known::IfMatch, Known::IfUnmodifiedSince]);
    let fields = &ex.asked.head.fields;
    let is_of_cache = matches!(ex.request.method, Method::Get | Method::Head);
    let ask = match fields.may_have(OF_ORIGIN) && fields.iter_known().any(|(known, ..)| OF_ORIGIN.contains(known)) {
        true => Ask::Pass(Cause::Other("a precondition that is the origin's")),
        // Unsafe methods are always written through (§4).
        false if !is_of_cache => Ask::Pass(Cause::Method),
        // It means nothing (RFC 9110 §9.3.1), but the origin may heed it, and its answer would be everybody's.
        false if has_body(ex) => Ask::Pass(Cause::Other("a body")),
        false => directives::ask(&policy.directives, backend, ex, cx),
    };
    match ask {
        Ask::Pass(_) | Ask::Refresh(_) if asked(policy, ex).only_if_cached => Ask::Turn(Turn::Absent),
        ask => ask,
    }
}

/// Whether a body comes with the request. One of no bytes is none.
fn has_body(ex: &Exchange) -> bool {
    match &ex.request.body {
        RequestBody::None | RequestBody::Unread(Some(0)) => false,
        RequestBody::Memory(bytes) => !bytes.is_empty(),
        RequestBody::Unread(_) | RequestBody::File(..) | RequestBody::Passing(_) => true,
    }
}

/// As the directives have it. A request with `Authorization` neither waits for another nor has others wait for it: its
/// answer may be for one visitor (§3.5), and says nothing of the page that others get.
pub fn rules(policy: &Rfc9111Policy, ex: &Exchange, now: Time) -> Rules {
    let rules = directives::rules(&policy.directives, ex, now);
    Rules { lock: rules.lock && !ex.asked.head.fields.contains_known(Known::Authorization), ..rules }
}

/// What the request asks of caches, where that counts: not for requests inside it, as the client knows of none.
fn asked(policy: &Rfc9111Policy, ex: &Exchange) -> Asked {
    let fields = &ex.asked.head.fields;
    match policy.honours_requests && !ex.is_sub() && fields.contains_known(Known::CacheControl) {
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
    let is_immutable = asked.max_age.is_some() && said_by_page(policy, object).immutable;
    asked.refuses(object.age(now), object.fresh_until.since(now), is_immutable)
}

/// `only-if-cached`: a page that is not there is not fetched (§5.2.1.7). `no-store`: it is fetched for this request alone,
/// and nobody waits for that.
pub fn miss(policy: &Rfc9111Policy, ex: &Exchange) -> Option<Turn> {
    let asked = asked(policy, ex);
    match asked.only_if_cached {
        true => Some(Turn::Absent),
        false => asked.no_store.then_some(Turn::Pass(Cause::NoStoreOfRequest)),
    }
}

/// What a stored page says, as it was read when it was stored.
fn said_by_page(policy: &Rfc9111Policy, object: &Object) -> Said {
    said(policy, &object.fields, object.stored_at).unwrap_or_else(|_| Said::by(&object.fields, &policy.targets))
}

/// `max-stale` of the request, `stale-while-revalidate` of the page, `*_cache_use_stale updating`.
pub fn on_stale(policy: &Rfc9111Policy, object: &Object, is_updating: bool, ex: &Exchange, cx: &Cx) -> OnStale {
    let now = cx.now();
    let asked = asked(policy, ex);
    let cache = &policy.directives.settings.model.cache;
    let may_wait = !asked.no_cache && !said_by_page(policy, object).forbids_stale();
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
    if object.is_fresh(now) && matches!(why, Why::Failed(_) | Why::Gate) {
        return true;
    }
    if said_by_page(policy, object).forbids_stale() {
        return false;
    }
    // What lets somebody in is no page that is better than none.
    let is_page = ex.request.nested.sub.as_ref().is_none_or(|sub| !sub.head_only);
    let by_request = asked(policy, ex)
        .stale_if_error
        .is_some_and(|seconds| object.is_fresh(now) || object.staleness(now) < Duration::from_secs(seconds));
    match why {
        Why::Failed(_) | Why::Gate if is_page && object.staleness(now) < AWAY_MAX => true,
        Why::Status(500 | 502 | 503 | 504) if by_request => true,
        // `stale-if-error` is about no other failures (RFC 5861 §4).
        Why::Status(501 | 505..) => false,
        Why::Gate => directives::may_be_stale(&policy.directives, object, Why::Failed(FailKind::Error), now),
        Why::Failed(_) | Why::Status(_) | Why::Updating => {
            directives::may_be_stale(&policy.directives, object, why, now)
        }
    }
}

/// How long after its time a page may be delivered because its origin cannot be reached.
const AWAY_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Takes fields of the connection out of an answer, dates it, and drops what it makes invalid.
pub fn received(policy: &Rfc9111Policy, backend: &Backend, answer: &mut ResponseHead, ex: &mut Exchange, cx: &Cx) {
    drop_nominated(policy, answer);
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
fn drop_nominated(policy: &Rfc9111Policy, answer: &mut ResponseHead) {
    const KEPT: KnownSet = rfc9111::RULING.and(KnownSet::of(&[
        Known::Connection,
        Known::SetCookie,
        Known::TransferEncoding,
        Known::Upgrade,
        Known::XAccelCharset,
        Known::XAccelLimitRate,
    ]));
    if !answer.fields.contains_known(Known::Connection) {
        return;
    }
    let mut named = larder_http::Names::default();
    for token in answer.fields.all_known(Known::Connection).flat_map(list::members) {
        let is_target = policy.targets.iter().any(|name| token.eq_ignore_ascii_case(name.as_bytes()));
        if !is_target && !KEPT.contains(Known::of(token)) {
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
    let own = std::mem::take(&mut ex.upstream.cache_key);
    for key in directives::page_keys(cache, backend, ex, cx) {
        drop_pages(&key, answer, cx.zone(zone), ex, cx);
    }
    ex.upstream.cache_key = own;
}

/// Drops the page of a key, and those of the URLs that an answer names.
fn drop_pages(key: &[u8], answer: &Fields, zone: &Zone, ex: &Exchange, cx: &Cx) {
    zone.invalidate(&KeyRef::new(key), cx.now());
    let target = ex.asked.head.target();
    // A key in which the URL stands as it was asked for, once or at its end, is that of another URL with that in its place.
    let Some(at) = memchr::memmem::rfind(key, target).filter(|_| !target.is_empty()) else { return };
    if at + target.len() != key.len() && memchr::memmem::find(key, target) != Some(at) {
        return;
    }
    for url in [Known::Location, Known::ContentLocation].into_iter().filter_map(|known| answer.get_known(known)) {
        if let Some(other) = same_site(url, target, ex) {
            let key = [&key[..at], &other, &key[at + target.len()..]].concat();
            zone.invalidate(&KeyRef::new(&key), cx.now());
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
    let usual: &[u8] = if ex.asked.client.is_secure() { b":443" } else { b":80" };
    let plain = |host| <[u8]>::strip_suffix(host, usual).unwrap_or(host);
    plain(host).eq_ignore_ascii_case(plain(asked)).then(|| match path {
        [b'/', ..] => path.to_vec(),
        _ => [b"/", path].concat(),
    })
}

/// What of an answer is stored (§3).
pub fn keep(policy: &Rfc9111Policy, answer: &ResponseHead, ex: &mut Exchange, cx: &Cx) -> Keep {
    if asked(policy, ex).no_store {
        // The next who waits for the page has not asked for that.
        return Keep::Not { why: Cause::NoStoreOfRequest, uncacheable_for: None };
    }
    let kept = directives::may_keep(&policy.directives, answer, ex, cx).and_then(|()| {
        let kept = kept(policy, answer.status, &answer.fields, ex, cx);
        if answer.status < 500 && kept.is_err() {
            forget(policy, ex, cx);
        }
        kept
    });
    match kept {
        Ok(kept) => Keep::Until(kept),
        Err(why) => {
            // After a failure the waiters must not all ask at once: the next one tries. Nor does the answer to one
            // visitor say that they may.
            let is_of_page = answer.status < 500 && !ex.asked.head.fields.contains_known(Known::Authorization);
            Keep::Not { why, uncacheable_for: is_of_page.then_some(UNCACHEABLE_FOR) }
        }
    }
}

/// Drops what is stored for this request and stale: its page is another now, or for one visitor. Not for the sake of a
/// request with `Authorization`, whose answer is its own.
fn forget(policy: &Rfc9111Policy, ex: &mut Exchange, cx: &Cx) {
    if ex.asked.head.fields.contains_known(Known::Authorization) {
        return;
    }
    let Some(cache) = &policy.directives.cache else { return };
    if let Ok(Some(zone)) = directives::zone(cache, ex, cx) {
        let request = ex.selecting();
        let key = KeyRef::new(&ex.upstream.cache_key);
        let now = cx.now();
        let is_meant = |object: &Object| !object.is_fresh(now) && object.vary.matches(&request);
        cx.zone(zone).purge_variants(&key, is_meant, now);
    }
}

fn kept(policy: &Rfc9111Policy, status: u16, fields: &Fields, ex: &mut Exchange, cx: &Cx) -> Result<Kept, Cause> {
    let model = &policy.directives.settings.model;
    let of_file = directives::time_of_file(status, fields, ex, cx);
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
            configured: directives::valid(status, model).or(of_file),
            may_have_cookies: model.ignore_headers.set_cookie
                || litespeed::said(&policy.directives, fields) != Storing::Silent,
            is_slice: matches!(ex.visit.slicing, Slicing::At(_)) || ex.upstream.part == Part::Asked,
        },
    )?;
    let vary = litespeed::vary(&policy.directives, fields, ex)?;
    let answer = fields;
    let mut fields = stored_fields(answer, &said, storable.age, model);
    litespeed::share_cookies(&policy.directives, answer, &mut fields);
    let Storable { fresh_until, stale_while_revalidate, stale_if_error, .. } = storable;
    let lifetime = Lifetime { fresh_until, stale_while_revalidate, stale_if_error };
    Ok(Kept { lifetime, fields, vary, esi_base: None })
}

/// What an answer says, to LiteSpeed before all others, with `X-Accel-Expires` and but for `*_ignore_headers`.
fn said(policy: &Rfc9111Policy, fields: &Fields, now: Time) -> Result<Said, &'static str> {
    match litespeed::said(&policy.directives, fields) {
        Storing::Silent => {}
        Storing::Not(why) => return Err(why),
        Storing::ForAll(ttl) => {
            let max_age = ttl.map(|ttl| ttl.as_secs());
            let (public, allows_authorised, is_targeted) = (true, true, true);
            return Ok(Said { max_age, public, allows_authorised, is_targeted, ..Said::default() });
        }
    }
    let ignored = policy.directives.settings.model.ignore_headers;
    let accel = match ignored.x_accel_expires {
        true => Accel::Silent,
        false => accel_expires(fields, now),
    };
    match accel {
        Accel::No => return Err("X-Accel-Expires"),
        Accel::Until(until) => {
            let max_age = until.map(|until| until.since(now).as_secs());
            return Ok(Said { max_age, is_targeted: true, ..Said::default() });
        }
        Accel::Silent => {}
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

/// Whether a 304 with these fields confirms this page: its entity tag, or without one its date, is that of the page if both
/// have one.
fn is_about(confirmation: &Fields, object: &Object) -> bool {
    let opaque = |tag| <[u8]>::strip_prefix(tag, b"W/").unwrap_or(tag);
    match (confirmation.get_known(Known::Etag), object.etag.as_deref()) {
        (Some(confirmed), Some(stored)) => opaque(confirmed) == opaque(stored),
        (Some(_), None) | (None, _) => {
            let modified = confirmation.get_known(Known::LastModified).and_then(larder_http::parse_date);
            modified.zip(object.last_modified).is_none_or(|(confirmed, stored)| confirmed == stored)
        }
    }
}

/// The page with the fields of the 304, as if it had come anew (§4.3.4).
pub fn confirmed(
    policy: &Rfc9111Policy,
    confirmation: &ResponseHead,
    object: &Object,
    ex: &mut Exchange,
    cx: &Cx,
) -> Confirmed {
    let mut fields = rfc9111::updated(&object.fields, &confirmation.fields);
    // What comes with a cookie may be one visitor's altogether: the cookie counts as in a page that comes anew.
    let has_cookies = rfc9111::take_over_cookies(&mut fields, &confirmation.fields);
    match kept(policy, object.status, &fields, ex, cx) {
        Ok(kept) => Confirmed::Until { lifetime: kept.lifetime, changed: Some((kept.fields, kept.vary)) },
        Err(why) => {
            if !has_cookies {
                forget(policy, ex, cx);
            }
            Confirmed::Alone { fields, instead: Keep::Not { why, uncacheable_for: None } }
        }
    }
}
