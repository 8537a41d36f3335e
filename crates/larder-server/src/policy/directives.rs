//! What nginx's directives decide, as ngx_http_upstream and ngx_http_file_cache do.

use std::time::Duration;

use larder_cache::litespeed::Storing;
use larder_cache::rfc9111::Said;
use larder_cache::{Ignore, Object, OriginTtl, Rules, origin_ttl};
use larder_conf::model::{LogLevel, OriginSettings, UseStale};
use larder_http::ResponseHead;
use larder_http::{Fields, Known, Method, Time, status};
use larder_origin::FailKind;

use crate::context::Cx;
use crate::exchange::{CacheStatus, Cause, Exchange};
use crate::profile::Standing;
use crate::site::{Backend, CachePolicy, Directives, LiteSpeed, Protocol, ZoneChoice};
use crate::target;
use crate::text::Text;
use crate::vars::profile;

use super::{Ask, Judgement, Keep, Kept, Lifetime, OnStale, Question, Validators, Why, litespeed};

/// How long nobody waits for an answer that was not to be shared.
pub const UNCACHEABLE_FOR: Duration = Duration::from_secs(10);

/// Method, zone, key, bypass: the order of ngx_http_upstream_cache.
pub fn ask(policy: &Directives, backend: &Backend, ex: &mut Exchange, cx: &Cx) -> Ask {
    let Some(cache) = &policy.cache else { return Ask::Pass(Cause::None) };
    if !caches_method(policy, ex) {
        return Ask::Pass(Cause::Method);
    }
    let zone = match zone(cache, ex, cx) {
        Ok(Some(zone)) => zone,
        Ok(None) => return Ask::Pass(Cause::None),
        Err(name) => {
            cx.local.logs.error(cx, ex, LogLevel::Error, format_args!("cache \"{name}\" not found"));
            return Ask::Refuse;
        }
    };
    target::note_proxy_host(backend, ex, cx);
    let is_personal = is_personal(ex, cx);
    make_key(cache, backend, ex, cx);
    match Text::any_true(&cache.bypass, ex, cx) || is_personal {
        true => Ask::Refresh(zone),
        false => Ask::Look(zone),
    }
}

/// Whether the profile of the location calls the page one visitor's. If it does not, notes whether its cookies mean anything.
fn is_personal(ex: &mut Exchange, cx: &Cx) -> bool {
    let (is_personal, omits) = profile::standing(ex, cx, |_, standing| match standing {
        Standing::Personal(_) => (true, false),
        Standing::ForAll { is_keyed } => (false, !is_keyed),
        Standing::File(_) => (false, true),
    })
    .unwrap_or_default();
    ex.upstream.omits_cookies = omits;
    is_personal
}

/// Whether an answer is a file, and not a page in its place.
fn is_file(status: u16, fields: &Fields) -> bool {
    let of_type = fields.get_known(Known::ContentType).map(<[u8]>::to_ascii_lowercase);
    status == status::OK && of_type.is_some_and(|of_type| memchr::memmem::find(&of_type, b"html").is_none())
}

/// The time that the profile gives to a file of which nothing else says one, with `lifetimes`.
pub fn time_of_file(status: u16, fields: &Fields, ex: &mut Exchange, cx: &Cx) -> Option<Duration> {
    if !cx.loc(ex).settings.profile.lifetimes || !is_file(status, fields) {
        return None;
    }
    profile::standing(ex, cx, |_, standing| match standing {
        Standing::File(row) => row.lifetime(),
        Standing::ForAll { .. } | Standing::Personal(_) => None,
    })?
}

fn caches_method(policy: &Directives, ex: &Exchange) -> bool {
    match ex.request.method {
        Method::Get | Method::Head => true,
        _ => {
            let name = crate::vars::method_name(ex);
            policy.settings.model.cache.methods.iter().any(|method| method.as_bytes() == name)
        }
    }
}

/// The zone of a request; `None` for `off`, and the name of one that there is not.
pub fn zone(cache: &CachePolicy, ex: &mut Exchange, cx: &Cx) -> Result<Option<usize>, String> {
    match &cache.zone {
        ZoneChoice::Fixed(index) => Ok(Some(*index)),
        ZoneChoice::Variable(text) => text.with(ex, cx, |_, name| {
            if name.is_empty() || name == b"off" {
                return Ok(None);
            }
            let name = String::from_utf8_lossy(name);
            cx.site().caches.names.get(&*name).copied().map(Some).ok_or_else(|| name.into_owned())
        }),
    }
}

/// Writes the key of a request to `ex.upstream.cache_key`.
pub fn make_key(cache: &CachePolicy, backend: &Backend, ex: &mut Exchange, cx: &Cx) {
    let mut key = std::mem::take(&mut ex.upstream.cache_key);
    key.clear();
    ex.eval.leaves_out = cx.loc(ex).profile.is_some();
    ex.eval.reads_ignored = false;
    match &cache.key {
        Some(text) => text.append(ex, cx, &mut key),
        None => target::append_default_key(backend, ex, cx, &mut key),
    }
    ex.eval.leaves_out = false;
    ex.upstream.key_reads_ignored = ex.eval.reads_ignored;
    ex.upstream.cache_key = key;
}

/// A key with the method in it means the page that a GET has made.
pub fn as_of_a_get<T>(ex: &mut Exchange, make: impl FnOnce(&mut Exchange) -> T) -> T {
    as_of(Method::Get, ex, make)
}

/// The keys of the page of a request: that of a GET, and that of a HEAD where it has one of its own. The last one stays in
/// `ex.upstream.cache_key`.
pub fn page_keys(cache: &CachePolicy, backend: &Backend, ex: &mut Exchange, cx: &Cx) -> Vec<Vec<u8>> {
    target::note_proxy_host(backend, ex, cx);
    let of = |method| {
        as_of(method, ex, |ex| {
            make_key(cache, backend, ex, cx);
            ex.upstream.cache_key.clone()
        })
    };
    let mut keys = [Method::Get, Method::Head].map(of).to_vec();
    keys.dedup();
    keys
}

/// A key with the method in it means the page that this method has made, GET or HEAD.
fn as_of<T>(method: Method, ex: &mut Exchange, make: impl FnOnce(&mut Exchange) -> T) -> T {
    let sent = std::mem::replace(&mut ex.request.method, method);
    let made = make(ex);
    ex.request.method = sent;
    made
}

/// `*_cache_min_uses`, `*_cache_lock` and its times.
pub fn rules(policy: &Directives, ex: &Exchange, now: Time) -> Rules {
    let model = &policy.settings.model;
    Rules {
        min_uses: model.cache.min_uses,
        lock: model.cache.lock,
        lock_age: model.cache.lock_age,
        // A request that has waited before waits no longer than the time that is left.
        lock_timeout: ex.upstream.lock_until.map_or(model.cache.lock_timeout, |until| until.since(now)),
        ignore_vary: model.ignore_headers.vary && policy.litespeed == LiteSpeed::Off,
    }
}

/// `*_cache_max_range_offset`: a range that begins beyond it is passed on and not stored.
pub fn stores(policy: &Directives, ex: &Exchange) -> bool {
    let Some(limit) = policy.settings.model.cache.max_range_offset else { return true };
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

/// `*_cache_background_update`.
pub fn on_stale(policy: &Directives, object: &Object, is_updating: bool, now: Time) -> OnStale {
    match may_be_stale(policy, object, Why::Updating, now) {
        true if is_updating => OnStale::Deliver,
        true if policy.settings.model.cache.background_update => OnStale::DeliverAndRefetch,
        true | false => OnStale::Fetch,
    }
}

/// `*_cache_use_stale`, and what the page itself said when it was stored (RFC 5861).
pub fn may_be_stale(policy: &Directives, object: &Object, why: Why, now: Time) -> bool {
    let model = &policy.settings.model;
    match why {
        Why::Gate => {
            let covers = |why| allows_stale(model.cache.use_stale, Says::of(object, now), why);
            let is_said =
                [Why::Failed(FailKind::Error), Why::Failed(FailKind::Timeout), Why::Status(503), Why::Updating];
            is_said.into_iter().any(covers) || model.ignore_headers.cache_control || !forbids_stale(object)
        }
        Why::Updating | Why::Failed(_) | Why::Status(_) => {
            allows_stale(model.cache.use_stale, Says::of(object, now), why)
        }
    }
}

/// Whether a page says of itself that it may not be stale, or that it is for one visitor.
fn forbids_stale(object: &Object) -> bool {
    let said = Said::by(&object.fields, &[]);
    said.forbids_stale() || said.private
}

/// What a page that is stale now says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Says {
    while_revalidating: bool,
    if_error: bool,
}

impl Says {
    fn of(object: &Object, now: Time) -> Self {
        Self { while_revalidating: object.may_serve_while_revalidating(now), if_error: object.may_serve_if_error(now) }
    }
}

fn allows_stale(directive: UseStale, says: Says, why: Why) -> bool {
    match why {
        Why::Updating => directive.updating || says.while_revalidating,
        Why::Failed(FailKind::Error) => directive.error || says.if_error,
        Why::Failed(FailKind::Timeout) => directive.timeout || says.if_error,
        Why::Failed(FailKind::InvalidHeader) => directive.invalid_header || says.if_error,
        Why::Status(500) => directive.http_500 || says.if_error,
        Why::Status(502) => directive.http_502 || says.if_error,
        Why::Status(503) => directive.http_503 || says.if_error,
        Why::Status(504) => directive.http_504 || says.if_error,
        Why::Status(403) => directive.http_403,
        Why::Status(404) => directive.http_404,
        Why::Status(429) => directive.http_429,
        Why::Status(status) => status >= 500 && says.if_error,
        // Without a word of `*_cache_use_stale`: by what the page says.
        Why::Gate => says.if_error,
    }
}

/// `proxy_cache_convert_head`; `stale` is the stored page if it is to be confirmed.
pub fn question(
    policy: &Directives,
    backend: &Backend,
    stale: Option<&Object>,
    stores: bool,
    ex: &mut Exchange,
    cx: &Cx,
) -> Question {
    let asks_head = stores && ex.request.method == Method::Head && converts_head(backend);
    let is_known = cx.loc(ex).profile.is_some();
    let is_refused = stores && (asks_head || is_known) && is_refused(policy, ex, cx);
    let is_passed = asks_head && is_refused && matches!(backend.protocol, Protocol::FastCgi(_));
    Question {
        // What goes to the origin as it came is never stored, whatever is said when it has answered.
        stores: stores && !is_passed && !(is_known && is_refused),
        as_get: asks_head && !is_passed,
        leaves_out: stores && is_known && !is_refused,
        validators: validators(stale),
    }
}

/// Whether a HEAD is fetched as a GET, so that what is stored has its body.
///
/// nginx has a directive for `proxy_pass` only; with FastCGI it would store the empty answer to a HEAD. Where it is off
/// that is stored for `proxy_pass` too, so that the key has to tell HEAD from GET.
pub fn converts_head(backend: &Backend) -> bool {
    match backend.protocol {
        Protocol::Http(_) => backend.settings.model.cache.convert_head,
        Protocol::FastCgi(_) => true,
    }
}

/// Whether an answer is neither looked for nor stored, so that a HEAD of FastCGI may stay one: applications answer it
/// without making the page.
fn is_refused(policy: &Directives, ex: &mut Exchange, cx: &Cx) -> bool {
    if ex.upstream.cache_status != Some(CacheStatus::Bypass) {
        return false;
    }
    // By what is known before there is an answer: it is asked again when there is one.
    let known = ex.eval.known();
    let is_known = cx.loc(ex).profile.is_some();
    let no_cache = policy.cache.as_ref().map_or(&[][..], |cache| &cache.no_cache);
    let says_no = no_cache.iter().any(|text| {
        ex.eval.reads_answer = false;
        // With a profile the page is for all, and what depends on the answer is decided when it is there.
        text.is_true(ex, cx) && !(is_known && ex.eval.reads_answer)
    });
    let says_no = says_no || is_personal(ex, cx);
    let is_undecided = ex.eval.evaluation.has_failed();
    ex.eval.put_back(known);
    says_no || is_undecided
}

fn validators(stale: Option<&Object>) -> Validators {
    // Other statuses are no pages that a 304 could confirm.
    let is_page = |object: &&Object| matches!(object.status, status::OK | status::PARTIAL_CONTENT);
    let Some(object) = stale.filter(is_page) else { return Validators::default() };
    Validators {
        last_modified: object.fields.get_known(Known::LastModified).map(<[u8]>::to_vec),
        etag: object.fields.get_known(Known::Etag).map(<[u8]>::to_vec),
        rest: None,
    }
}

/// What the origin answered, and what there is in its place.
pub fn judge(
    policy: &Directives,
    answer: &ResponseHead,
    stale: Option<&Object>,
    validators: &Validators,
    ex: &Exchange,
    cx: &Cx,
) -> Judgement {
    let may_be_stale = |object: &Object| may_be_stale(policy, object, Why::Status(answer.status), cx.now());
    judge_by(policy, answer, stale, may_be_stale, validators, ex, cx)
}

/// The same by what `may_be_stale` says of the stale page.
pub fn judge_by(
    policy: &Directives,
    answer: &ResponseHead,
    stale: Option<&Object>,
    may_be_stale: impl Fn(&Object) -> bool,
    validators: &Validators,
    ex: &Exchange,
    cx: &Cx,
) -> Judgement {
    let facts = Facts {
        status: answer.status,
        asked_whether: !validators.is_empty(),
        has_stale: stale.is_some(),
        is_stale_better: stale.is_some_and(|object| object.body.is_here() && may_be_stale(object)),
        redirect: accel_redirect(&answer.fields, &policy.settings.model),
        has_error_page: intercepts(policy, answer.status, ex, cx),
    };
    facts.judge()
}

/// What an answer is judged by.
struct Facts<'a> {
    status: u16,
    /// Whether the origin was asked to confirm the stale page.
    asked_whether: bool,
    has_stale: bool,
    /// Whether the stale page may be delivered in its place, and a disk still has it.
    is_stale_better: bool,
    redirect: Option<&'a [u8]>,
    has_error_page: bool,
}

impl Facts<'_> {
    /// In the order of ngx_http_upstream.
    fn judge(&self) -> Judgement {
        match self.redirect {
            _ if self.has_stale && self.status == status::NOT_MODIFIED && self.asked_whether => Judgement::Confirmed,
            _ if self.is_stale_better => Judgement::Stale,
            Some(to) => Judgement::Redirect { to: to.to_vec(), uncacheable_for: UNCACHEABLE_FOR },
            None if self.has_error_page => Judgement::ErrorPage,
            None => Judgement::Response,
        }
    }
}

/// Where an origin's answer leads that a VCL is in front of: as nginx, before anything is made of it.
pub fn led_elsewhere(answer: &ResponseHead, backend: &Backend) -> Option<Judgement> {
    let to = accel_redirect(&answer.fields, &backend.settings.model)?;
    Some(Judgement::Redirect { to: to.to_vec(), uncacheable_for: UNCACHEABLE_FOR })
}

fn accel_redirect<'a>(fields: &'a Fields, model: &OriginSettings) -> Option<&'a [u8]> {
    if model.ignore_headers.x_accel_redirect {
        return None;
    }
    fields.get_known(Known::XAccelRedirect).filter(|uri| !uri.is_empty())
}

/// `*_intercept_errors`: from the cache too.
pub fn intercepts(policy: &Directives, status: u16, ex: &Exchange, cx: &Cx) -> bool {
    let pages = &cx.loc(ex).error_pages;
    status >= 300
        && policy.settings.model.response.intercept_errors
        && pages.iter().any(|(statuses, _, _)| statuses.contains(&status))
}

/// `*_no_cache`, X-Accel-Buffering, then the time: what the origin says (X-Accel-Expires, Cache-Control, Expires), and
/// only when it says nothing, `*_cache_valid`.
pub fn keep(policy: &Directives, answer: &ResponseHead, ex: &mut Exchange, cx: &Cx) -> Keep {
    match kept(policy, answer, ex, cx) {
        Ok(kept) => Keep::Until(kept),
        // After a failure the waiters must not all ask at once: the next one tries.
        Err(why) => Keep::Not { why, uncacheable_for: (answer.status < 500).then_some(UNCACHEABLE_FOR) },
    }
}

fn kept(policy: &Directives, answer: &ResponseHead, ex: &mut Exchange, cx: &Cx) -> Result<Kept, Cause> {
    let lifetime = lifetime(policy, answer, ex, cx)?;
    let mut fields = stored_fields(&answer.fields, &policy.settings.model);
    litespeed::share_cookies(policy, &answer.fields, &mut fields);
    let vary = litespeed::vary(policy, &answer.fields, ex)?;
    Ok(Kept { lifetime, fields, vary, esi_base: None })
}

fn lifetime(policy: &Directives, answer: &ResponseHead, ex: &mut Exchange, cx: &Cx) -> Result<Lifetime, Cause> {
    may_keep(policy, answer, ex, cx)?;
    let of_file = time_of_file(answer.status, &answer.fields, ex, cx);
    by_time(policy, answer.status, &answer.fields, of_file, cx.now())
}

/// Whether the configuration lets an answer be stored, whatever that says of its time; or why not.
pub fn may_keep(policy: &Directives, answer: &ResponseHead, ex: &mut Exchange, cx: &Cx) -> Result<(), Cause> {
    let Some(cache) = &policy.cache else { return Err(Cause::Other("no cache")) };
    if Text::any_true(&cache.no_cache, ex, cx) {
        return Err(Cause::NoCache);
    }
    if is_personal(ex, cx) {
        return Err(Cause::Profile);
    }
    if ex.upstream.sent_ignored {
        return Err(Cause::IgnoredArgument);
    }
    if ex.eval.evaluation.has_failed() {
        return Err(Cause::Undecided);
    }
    let model = &policy.settings.model;
    if !model.ignore_headers.x_accel_buffering
        && answer.fields.get_known(Known::XAccelBuffering).is_some_and(|value| value.eq_ignore_ascii_case(b"no"))
    {
        return Err(Cause::Other("x-accel-buffering"));
    }
    if !model.response.buffering {
        return Err(Cause::Other("buffering is off"));
    }
    Ok(())
}

/// `of_file` is what the profile says of a file.
fn by_time(
    policy: &Directives,
    status: u16,
    fields: &Fields,
    of_file: Option<Duration>,
    now: Time,
) -> Result<Lifetime, Cause> {
    let model = &policy.settings.model;
    match litespeed::said(policy, fields) {
        Storing::Silent => {}
        Storing::Not(why) => return Err(why.into()),
        Storing::ForAll(ttl) => {
            let ttl = ttl.or_else(|| configured(status, model)).ok_or(Cause::NoLifetime)?;
            return Ok(Lifetime { fresh_until: now.plus(ttl), ..Lifetime::over(now) });
        }
    }
    let ignored = model.ignore_headers;
    let ignore = Ignore {
        x_accel_expires: ignored.x_accel_expires,
        expires: ignored.expires,
        cache_control: ignored.cache_control,
        set_cookie: ignored.set_cookie,
        vary: ignored.vary,
    };
    match origin_ttl(fields, &ignore, now) {
        OriginTtl::NotCacheable(why) => Err(why.into()),
        OriginTtl::Ttl { fresh_until, stale_while_revalidate, stale_if_error } => {
            Ok(Lifetime { fresh_until, stale_while_revalidate, stale_if_error })
        }
        OriginTtl::Unset { stale_while_revalidate, stale_if_error } => {
            match valid(status, model).or(of_file).filter(|ttl| !ttl.is_zero()) {
                Some(ttl) => Ok(Lifetime { fresh_until: now.plus(ttl), stale_while_revalidate, stale_if_error }),
                None => Err(Cause::NoLifetime),
            }
        }
    }
}

/// The `*_cache_valid` for a status: the first that names it or `any`.
fn configured(status: u16, model: &OriginSettings) -> Option<Duration> {
    valid(status, model).filter(|ttl| !ttl.is_zero())
}

/// The same; zero where it says that nothing is stored.
pub fn valid(status: u16, model: &OriginSettings) -> Option<Duration> {
    let valid = model.cache.valid.iter().find(|valid| valid.status.is_none_or(|named| named == status))?;
    Some(valid.ttl)
}

/// The time that a 304 gives to the stored page: its own, else that of the page's head counted anew. Confirmed, and
/// forbidden to keep: good for this answer only.
pub fn confirmed(
    policy: &Directives,
    confirmation: &Fields,
    object: &Object,
    of_file: Option<Duration>,
    now: Time,
) -> Lifetime {
    let ignored = policy.settings.model.ignore_headers;
    let ignore = Ignore {
        x_accel_expires: ignored.x_accel_expires,
        expires: ignored.expires,
        cache_control: ignored.cache_control,
        set_cookie: true,
        vary: true,
    };
    if litespeed::said(policy, confirmation) != Storing::Silent {
        return by_time(policy, object.status, confirmation, of_file, now).unwrap_or(Lifetime::over(now));
    }
    let lifetime = match origin_ttl(confirmation, &ignore, now) {
        OriginTtl::Unset { .. } => by_time(policy, object.status, &object.fields, of_file, now),
        OriginTtl::Ttl { fresh_until, stale_while_revalidate, stale_if_error } => {
            Ok(Lifetime { fresh_until, stale_while_revalidate, stale_if_error })
        }
        OriginTtl::NotCacheable(why) => Err(why.into()),
    };
    lifetime.unwrap_or(Lifetime::over(now))
}

/// The fields that are stored: what concerns this connection alone is left out, and a cookie, which belongs to one
/// visitor, unless `*_pass_header Set-Cookie` asks for it.
pub fn stored_fields(fields: &Fields, model: &OriginSettings) -> Fields {
    let keeps_cookies = model.response.pass_headers.iter().any(|name| name == "set-cookie");
    let mut stored = Fields::new();
    for (known, name, value) in fields.iter_known() {
        let dropped = match known {
            Known::Connection
            | Known::KeepAlive
            | Known::TransferEncoding
            | Known::Upgrade
            | Known::Te
            | Known::Trailer => true,
            Known::SetCookie => !keeps_cookies,
            _ => false,
        };
        if !dropped {
            stored.push(name, value);
        }
    }
    stored
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Says = Says { while_revalidating: false, if_error: false };

    #[test]
    fn a_stale_page_does_where_the_directive_or_the_page_itself_allows_it() {
        let directive = UseStale { http_500: true, http_404: true, error: true, ..UseStale::default() };
        let page = Says { if_error: true, ..NOTHING };
        let updating = Says { while_revalidating: true, ..NOTHING };
        for (why, by_directive, by_page) in [
            (Why::Status(500), true, true),
            (Why::Status(404), true, false),
            (Why::Status(502), false, true),
            (Why::Status(501), false, true),
            (Why::Status(200), false, false),
            (Why::Status(418), false, false),
            (Why::Failed(FailKind::Error), true, true),
            (Why::Failed(FailKind::Timeout), false, true),
            (Why::Failed(FailKind::InvalidHeader), false, true),
            (Why::Updating, false, false),
        ] {
            assert_eq!(allows_stale(directive, NOTHING, why), by_directive, "{why:?}");
            assert_eq!(allows_stale(UseStale::default(), page, why), by_page, "{why:?}");
            assert_eq!(allows_stale(UseStale::default(), updating, why), why == Why::Updating, "{why:?}");
        }
        assert!(allows_stale(UseStale { updating: true, ..UseStale::default() }, NOTHING, Why::Updating));
    }

    #[test]
    fn an_answer_is_judged_in_the_order_of_nginx() {
        let to = || Judgement::Redirect { to: b"/a".to_vec(), uncacheable_for: UNCACHEABLE_FOR };
        for (status, asked_whether, stale, redirect, has_error_page, judgement) in [
            (200, false, None, None, false, Judgement::Response),
            (304, true, Some(false), Some(&b"/a"[..]), true, Judgement::Confirmed),
            (304, true, Some(true), None, false, Judgement::Confirmed),
            (304, false, Some(false), None, false, Judgement::Response),
            (304, true, None, None, false, Judgement::Response),
            (503, true, Some(true), Some(&b"/a"[..]), true, Judgement::Stale),
            (503, true, None, Some(&b"/a"[..]), true, to()),
            (502, false, Some(false), Some(&b"/a"[..]), true, to()),
            (502, false, Some(false), None, true, Judgement::ErrorPage),
            (404, false, Some(false), None, false, Judgement::Response),
        ] {
            let (has_stale, is_stale_better) = (stale.is_some(), stale == Some(true));
            let facts = Facts { status, asked_whether, has_stale, is_stale_better, redirect, has_error_page };
            assert_eq!(facts.judge(), judgement, "{status} {asked_whether} {stale:?}");
        }
    }
}
