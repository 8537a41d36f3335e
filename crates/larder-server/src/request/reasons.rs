//! Why a request was no hit, in words that say what to change. Only requests that had to ask an origin come here.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};

use larder_cache::{KeyRef, Object, too_large};
use larder_conf::model::Template;
use larder_conf::profiles;
use larder_http::{Fields, Known, Method, list, status};
use larder_vcl::program::At;
use larder_vcl::steps::Step as VclStep;

use crate::context::Cx;
use crate::exchange::{CacheStatus, Cause, Exchange, Purpose};
use crate::misses::Example;
use crate::profile::{Profile, Standing};
use crate::script::NAME_BYTES_MAX;
use crate::site::{CachePolicy, Directives, Policy, Protocol, Rfc9111Policy, VclPolicy};
use crate::text::{Text, written};
use crate::vars::profile;
use crate::vsl::Shown;

use super::{Slow, Step};

/// Notes for `larder why` a request whose origin has answered, with `next` to come of it. `made_by` says what has given the
/// variable of its condition its value; it is asked once a minute for each reason.
pub fn note(next: &Step, ex: &mut Exchange, cx: &Cx, made_by: fn(&Exchange, &Cx) -> Option<String>) {
    let is_over = !matches!(next, Step::Slow(Slow::Fetch(_) | Slow::PurgeFirst(_) | Slow::Gather(_)));
    let is_counted = ex.request.nested.purpose == Purpose::Answer;
    let refused_in = ex.upstream.refused_in.take();
    if !is_over || !is_counted && refused_in.is_none() {
        return;
    }
    let reason = match ex.upstream.status {
        Some(_) => of_answer(ex, cx),
        None => without_answer(ex).into(),
    };
    if let Some(zone) = refused_in {
        let reason = match ex.upstream.cache_status {
            Some(CacheStatus::Bypass) if ex.upstream.status.is_some() => of_refusal(ex, cx),
            _ => reason.clone(),
        };
        let (key, status) = (KeyRef::new(&ex.upstream.cache_key), ex.upstream.status);
        let is_passing = ex.upstream.cache_detail.is_passing() || status.is_none_or(|status| status >= 500);
        cx.zone(zone).remember_refusal(&key, status, &reason, is_passing, cx.now());
    }
    if !is_counted {
        return;
    }
    let mut misses = cx.worker.misses.lock();
    let mut place = misses.lend();
    write_place(&mut place, ex, cx);
    misses.note(place, &reason, cx.stats().hits.get(), cx.now(), || example(ex, made_by(ex, cx)));
}

/// The reason where an origin has failed.
pub const NO_ANSWER: &str = "the origin gave no answer";

/// The reason where no origin has answered.
pub fn without_answer(ex: &Exchange) -> &'static str {
    if ex.upstream.cache_detail == Cause::Gate { Cause::Gate.words() } else { NO_ANSWER }
}

/// The server and the location of a request; behind a VCL that serves alone, its host.
pub fn place(ex: &Exchange, cx: &Cx) -> String {
    let mut place = String::new();
    write_place(&mut place, ex, cx);
    place
}

fn write_place(out: &mut String, ex: &Exchange, cx: &Cx) {
    let server = cx.server(ex);
    // Writing to memory does not fail.
    let _ = match server.takes_raw {
        true => write!(out, "{}", Shown(ex.asked.head.fields.get_known(Known::Host).unwrap_or_default())),
        false => {
            let name = if server.name.is_empty() { &b"_"[..] } else { &server.name };
            write!(out, "{} {}", Shown(name), cx.loc(ex).matching.written)
        }
    };
}

fn example(ex: &Exchange, made_by: Option<String>) -> Example {
    let method = ex.asked.head.method_name();
    let mut example = String::new();
    if method != b"GET" {
        // Writing to memory does not fail.
        let _ = write!(example, "{} ", Shown(method));
    }
    let _ = write!(example, "{}", Shown(ex.client_target()));
    let scheme = if ex.asked.client.is_secure() { "https" } else { "http" };
    let site = format!("{scheme}://{}", Shown(ex.asked.head.fields.get_known(Known::Host).unwrap_or_default()));
    Example { url: example.into(), site: site.into(), made_by: made_by.unwrap_or_default().into() }
}

/// Why the request was no hit, after its origin has answered.
pub fn of_answer(ex: &mut Exchange, cx: &Cx) -> Cow<'static, str> {
    by_bypass(ex, cx).map_or_else(|| of_refusal(ex, cx), Cow::from)
}

/// The condition by which the cache was not asked.
fn by_bypass(ex: &mut Exchange, cx: &Cx) -> Option<String> {
    if ex.upstream.cache_status != Some(CacheStatus::Bypass) {
        return None;
    }
    let origin = cx.origin(ex)?;
    let policy = origin.policy.directives()?;
    let cache = policy.cache.as_ref()?;
    match guard(&cache.bypass, &policy.settings.model.cache.bypass, ex, cx) {
        Some(guard) => Some(format!("{}_cache_bypass {guard}", prefix(&origin.backend.protocol))),
        None => by_profile(ex, cx),
    }
}

/// Why the profile of the location has it asked past the cache.
pub fn by_profile(ex: &mut Exchange, cx: &Cx) -> Option<String> {
    profile::standing(ex, cx, |profile, standing| match standing {
        Standing::Personal(why) => Some(format!("profile {}: {why}", profile.name)),
        Standing::File(_) | Standing::ForAll { .. } => None,
    })?
}

/// Why the answer is not stored, or was not there before.
fn of_refusal(ex: &mut Exchange, cx: &Cx) -> Cow<'static, str> {
    let Some(origin) = cx.origin(ex) else { return ex.upstream.cache_detail.words().into() };
    match (origin.policy.directives(), &origin.policy) {
        (Some(_), Policy::Rfc9111(policy)) if ex.upstream.cache_detail == Cause::Over => over(policy, ex).into(),
        (Some(_), Policy::Rfc9111(policy)) if ex.upstream.cache_detail == Cause::EachTime => {
            each_time(policy, ex, cx).into()
        }
        (Some(policy), _) => by_directives(policy, prefix(&origin.backend.protocol), ex, cx),
        (None, Policy::Vcl(policy)) => by_vcl(policy, ex, cx),
        (None, _) => ex.upstream.cache_detail.words().into(),
    }
}

/// The first word of the directives of an origin.
pub fn prefix(protocol: &Protocol) -> &'static str {
    match protocol {
        Protocol::Http(_) => "proxy",
        Protocol::FastCgi(_) => "fastcgi",
    }
}

fn by_directives(policy: &Directives, prefix: &str, ex: &mut Exchange, cx: &Cx) -> Cow<'static, str> {
    let Some(cache) = &policy.cache else { return "no cache in this location".into() };
    match ex.upstream.cache_detail {
        Cause::None if ex.upstream.cache_status.is_none() => format!("{prefix}_cache is off for it").into(),
        Cause::None => "fetched beside another request".into(),
        // Visitors may name any method.
        Cause::Method if Method::of(ex.asked.head.method_name()) == Method::Other => "its method is not cached".into(),
        Cause::Method => format!("{} is not cached", Shown(ex.asked.head.method_name())).into(),
        Cause::NoCache => no_cache(cache, policy, prefix, ex, cx).into(),
        Cause::Profile => by_profile(ex, cx).map_or_else(|| Cause::Profile.words().into(), Cow::from),
        Cause::NoLifetime => {
            let status = ex.upstream.status.unwrap_or_default();
            format!("no lifetime: the answer says none, and {prefix}_cache_valid has none for {status}").into()
        }
        Cause::Status => {
            let status = ex.upstream.status.unwrap_or_default();
            format!("status {status}: it says no time, and is not stored without").into()
        }
        Cause::Authorization => "Authorization of the request: the answer does not say that others may have it".into(),
        Cause::TooSeldom => {
            let uses = policy.settings.model.cache.min_uses;
            format!("asked for too seldom ({prefix}_cache_min_uses {uses})").into()
        }
        Cause::TooLarge => too_large_by(ex),
        Cause::Stale => EXPIRED.into(),
        Cause::Purged => purged(ex),
        Cause::NotStoredYet => not_yet(ex, cx),
        Cause::SetCookie => with_cookies(ex),
        Cause::Other("Expires") => "Expires: it does not lie ahead".into(),
        Cause::Other("X-Accel-Expires") => "X-Accel-Expires: 0".into(),
        Cause::Other("Cache-Control: max-age") => "Cache-Control: max-age without whole seconds".into(),
        cause => cause.words().into(),
    }
}

/// Whether a reason is one to ask an origin, and none not to store its answer.
pub fn is_to_ask(reason: &str) -> bool {
    let reason = reason.strip_prefix(HIT_FOR_MISS).unwrap_or(reason);
    let causes = [Cause::NotStoredYet.words(), Cause::Purged.words(), Cause::Unsure.words(), EXPIRED, EACH_TIME];
    causes.iter().any(|words| reason.starts_with(words))
        || reason.ends_with(FOR_OTHERS)
        || reason == Cause::ByRequest.words()
}

/// Whether a reason is one not to store the answer: that of a bypass leaves open whether it was.
pub fn is_refusal(reason: &str) -> bool {
    !is_to_ask(reason) && !reason.contains("_cache_bypass ")
}

const EXPIRED: &str = "expired";
/// How the reason begins of a page that is never fresh.
const EACH_TIME: &str = "confirmed for each request";
/// What stands before the reason of an answer that replaces such a mark.
pub const HIT_FOR_MISS: &str = "hit-for-miss, then ";
/// How the reason ends of a page that is there for other requests.
const FOR_OTHERS: &str = " (stored for other values)";

/// Which field has ended the time of an answer that is never fresh.
fn over(policy: &Rfc9111Policy, ex: &Exchange) -> String {
    let Some(fields) = &ex.upstream.fields else { return Cause::Over.words().to_owned() };
    let what = ended_by(policy, fields);
    // Others are not asked about again.
    let has_status = matches!(ex.upstream.status, Some(status::OK | status::PARTIAL_CONTENT));
    if has_status { format!("{what}{NO_VALIDATOR}") } else { what }
}

/// Why the origin is asked about a page that is never fresh.
fn each_time(policy: &Rfc9111Policy, ex: &Exchange, cx: &Cx) -> String {
    let request = ex.selecting();
    let page = variant(ex, cx, |object| object.vary.matches(&request));
    page.map_or_else(|| EACH_TIME.to_owned(), |page| of_never_fresh(policy, &page))
}

/// The same of a page that was found.
pub fn of_never_fresh(policy: &Rfc9111Policy, page: &Object) -> String {
    format!("{EACH_TIME}: {}", ended_by(policy, &page.fields))
}

/// The field by which a page or an answer has no time.
fn ended_by(policy: &Rfc9111Policy, fields: &Fields) -> String {
    let ignored = policy.directives.settings.model.ignore_headers;
    let target = || policy.targets.iter().find(|name| fields.contains(name));
    let is_no_cache = |line| list::members(line).any(|member| member.eq_ignore_ascii_case(b"no-cache"));
    match () {
        () if !ignored.x_accel_expires && fields.contains_known(Known::XAccelExpires) => {
            "X-Accel-Expires: it does not lie ahead".to_owned()
        }
        () if ignored.cache_control => by_expires(fields),
        () if let Some(name) = target() => match fields.get_all(name).any(is_no_cache) {
            true => format!("{name}: no-cache"),
            false => format!("{name}: its max-age is over"),
        },
        () if fields.all_known(Known::CacheControl).any(is_no_cache) => "Cache-Control: no-cache".to_owned(),
        () => by_max_age(fields).unwrap_or_else(|| by_expires(fields)),
    }
}

/// How the reason ends of what has no time, and could be confirmed.
pub const NO_VALIDATOR: &str = ", and no ETag or Last-Modified";

/// What is wrong with the time that `Cache-Control` gives.
fn by_max_age(fields: &Fields) -> Option<String> {
    let members = || fields.all_known(Known::CacheControl).flat_map(list::members);
    let find = |name: &'static str| {
        members().find_map(|member| {
            let start = member.get(..name.len()).filter(|start| start.eq_ignore_ascii_case(name.as_bytes()))?;
            let value = member[start.len()..].trim_ascii_start().strip_prefix(b"=")?;
            Some((name, value.trim_ascii()))
        })
    };
    let (name, value) = find("s-maxage").or_else(|| find("max-age"))?;
    Some(match value {
        b"0" => format!("Cache-Control: {name}=0"),
        _ if value.iter().all(u8::is_ascii_digit) => format!("Cache-Control: {name}, which its age is above"),
        _ => format!("Cache-Control: {name} without whole seconds"),
    })
}

fn by_expires(fields: &Fields) -> String {
    match () {
        () if fields.contains_known(Known::Expires) => "Expires: it does not lie ahead".to_owned(),
        () if fields.contains_known(Known::Age) => "Age: it is above the time that the answer has".to_owned(),
        () => "it says no time".to_owned(),
    }
}

fn no_cache(cache: &CachePolicy, policy: &Directives, prefix: &str, ex: &mut Exchange, cx: &Cx) -> String {
    match guard(&cache.no_cache, &policy.settings.model.cache.no_cache, ex, cx) {
        Some(guard) => format!("{prefix}_no_cache {guard}"),
        None => format!("{prefix}_no_cache"),
    }
}

/// The first text that is true, as it is written, with its place.
fn guard(texts: &[Text], templates: &[Template], ex: &mut Exchange, cx: &Cx) -> Option<String> {
    let (_, template) = texts.iter().zip(templates).find(|(text, _)| text.is_true(ex, cx))?;
    let place = cx.site().place(template.span).map_or_else(String::new, |place| format!(" at {place}"));
    Some(format!("{}{place}", written(template)))
}

/// An answer that has said how long it is.
fn too_large_by(ex: &Exchange) -> Cow<'static, str> {
    match ex.upstream.fields.as_ref().and_then(|fields| fields.content_length()) {
        Some(bytes) => too_large(bytes).into(),
        None => Cause::TooLarge.words().into(),
    }
}

fn purged(ex: &Exchange) -> Cow<'static, str> {
    match ex.upstream.cache_status {
        Some(CacheStatus::Expired) => "purged (softly)".into(),
        _ => "purged".into(),
    }
}

/// Why a page was not there that could have been: it varies, or its URL is seldom the same.
fn not_yet(ex: &Exchange, cx: &Cx) -> Cow<'static, str> {
    if let Some(names) = varies_by(ex, cx) {
        return format!("Vary: {names}{FOR_OTHERS}").into();
    }
    let target = ex.asked.head.target();
    let Some(at) = memchr::memchr(b'?', target) else { return NOT_STORED_YET.into() };
    let query = &target[at + 1..];
    // What no key has makes no URLs differ.
    match cx.loc(ex).profile.as_deref() {
        Some(profile) if !profile.keeps_some(query) => NOT_STORED_YET.into(),
        Some(_) => format!("{NOT_STORED_YET} (URL with a query)").into(),
        None => format!("{NOT_STORED_YET} (URL with {})", arguments(query)).into(),
    }
}

const NOT_STORED_YET: &str = "not stored yet";

/// The fields by which the stored pages of the key vary, if there are some and none is for this request.
pub fn varies_by(ex: &Exchange, cx: &Cx) -> Option<String> {
    let request = ex.selecting();
    variant(ex, cx, |object| !object.vary.matches(&request)).map(|object| object.vary.shown())
}

/// The first of the stored pages of the key that is such.
fn variant(ex: &Exchange, cx: &Cx, is_such: impl Fn(&Object) -> bool) -> Option<Arc<Object>> {
    let key = KeyRef::new(&ex.upstream.cache_key);
    let mut zones = cx.site().caches.zones.iter();
    zones.find_map(|zone| zone.peek(&key, cx.now()).variants.into_iter().find(|object| is_such(object)))
}

/// What a query is about: the first of its names that is known to make URLs of one page differ, or that there is one. Visitors may
/// write any name: what is told is the row of the profile that knows it.
fn arguments(query: &[u8]) -> String {
    let tracking = query.split(|byte| *byte == b'&').find_map(|pair| COMMON.ignored_by(pair));
    tracking.map_or_else(|| "a query".to_owned(), |pattern| format!("?{pattern}="))
}

/// What tells where a visitor comes from, and changes no page.
static COMMON: LazyLock<Profile> =
    LazyLock::new(|| Profile::new(&profiles::find("common").map(profiles::known).unwrap_or_default()));

/// `Set-Cookie` with the names of the cookies.
fn with_cookies(ex: &Exchange) -> Cow<'static, str> {
    let words = Cause::SetCookie.words();
    let Some(fields) = &ex.upstream.fields else { return words.into() };
    format!("{words} ({})", cookie_names(fields).join(", ")).into()
}

/// The names of the cookies that an answer sets, each once, a few at most.
pub fn cookie_names(fields: &Fields) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for line in fields.all_known(Known::SetCookie) {
        let name = line.split(|byte| matches!(byte, b'=' | b';')).next().unwrap_or(line).trim_ascii();
        let name = Shown(name).cut(NAME_BYTES_MAX);
        if !names.contains(&name) && names.len() < NAMES_MAX {
            names.push(name);
        }
    }
    names
}

/// How many cookies are named.
const NAMES_MAX: usize = 4;

fn by_vcl(policy: &VclPolicy, ex: &Exchange, cx: &Cx) -> Cow<'static, str> {
    let client = &ex.vcl.client;
    let page: Cow<'static, str> = match ex.upstream.cache_detail {
        Cause::Pass => match client.passed_by {
            Some((step, at)) => format!("pass by {}", vcl_place(policy, step, at)).into(),
            None if client.is_hitpass => "hit-for-pass".into(),
            None => "pass".into(),
        },
        Cause::NoTtl => "the VCL gives it no time: beresp.ttl is 0 or less".into(),
        Cause::NotShared => match ex.upstream.fields.as_ref().map(|fields| cookie_names(fields)) {
            Some(names) if !names.is_empty() => {
                format!("beresp.uncacheable, with Set-Cookie ({})", names.join(", ")).into()
            }
            _ => "beresp.uncacheable".into(),
        },
        Cause::TooLarge => too_large_by(ex),
        Cause::Stale | Cause::EachTime => EXPIRED.into(),
        Cause::Purged => purged(ex),
        Cause::NotStoredYet => not_yet(ex, cx),
        Cause::None => "fetched anew".into(),
        cause => cause.words().into(),
    };
    if client.is_hitmiss { format!("{HIT_FOR_MISS}{page}").into() } else { page }
}

/// A sub and the line in it.
pub fn vcl_place(policy: &VclPolicy, step: VclStep, at: At) -> String {
    match policy.vcl.program.place_of(at).and_then(|span| policy.vcl.lines.of(span)) {
        Some((path, line)) => format!("{} at {}:{line}", step.name(), path.display()),
        None => step.name().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_campaigns_are_named() {
        for (query, expected) in [
            ("a=b", "a query"),
            ("", "a query"),
            ("a=b&utm_source=x&gclid=y", "?utm_*="),
            ("gclid", "?gclid="),
            ("x=gclid", "a query"),
            ("utm_12345=x", "?utm_*="),
            ("gclidx=x", "a query"),
        ] {
            assert_eq!(arguments(query.as_bytes()), expected, "{query}");
        }
    }

    #[test]
    fn cookies_are_named_once_and_without_their_values() {
        let mut fields = Fields::new();
        for value in ["PHPSESSID=secret; path=/", "a=1", "PHPSESSID=other", " b ", "c=1", "d=1", "e=1"] {
            fields.push(b"Set-Cookie", value.as_bytes());
        }
        assert_eq!(cookie_names(&fields), ["PHPSESSID", "a", "b", "c"]);
        let long = [("Set-Cookie", &*"x".repeat(4000))].into_iter().collect();
        assert_eq!(cookie_names(&long), [format!("{}...", "x".repeat(NAME_BYTES_MAX))]);
    }
}
