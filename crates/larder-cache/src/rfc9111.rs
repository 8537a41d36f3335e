//! What a shared cache may store, and for how long, by RFC 9111; with stale responses by RFC 5861, and targeted fields
//! such as `CDN-Cache-Control` by RFC 9213.
//!
//! Where the RFC leaves the choice:
//!
//! - Of a directive that comes twice, the first counts; one whose seconds cannot be read means zero (§4.2.1).
//! - A response without explicit freshness is fresh for a tenth of its age by `Last-Modified`, for
//!   [`HEURISTIC_MAX`] at most (§4.2.2).
//! - `stale-while-revalidate` and `stale-if-error` beside `s-maxage` allow what `s-maxage` alone forbids (§5.2.2.10):
//!   an origin that says both means both.
//! - Of `private` and `no-cache` with names of fields, only these fields are kept out (§5.2.2.4, §5.2.2.7), unless one of
//!   them rules the cache.
//! - What is not well formed forbids what it mentions: `private; max-age=60` is private.

use std::time::Duration;

use larder_http::cache_control::{Directive, SECONDS_MAX, delta_seconds, directives};
use larder_http::dictionary::{Value, dictionary};
use larder_http::{Fields, Known, KnownSet, Names, Time, date::parse_exact_date, list::members, status};

/// The longest time for which a response is fresh by its age alone.
pub const HEURISTIC_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// What a response says to shared caches.
#[derive(Debug, Default)]
pub struct Said {
    /// `no-store`, unless `must-understand` takes it back.
    pub no_store: bool,
    /// `private` without names.
    pub private: bool,
    /// `no-cache` without names.
    pub no_cache: bool,
    /// `public`.
    pub public: bool,
    /// `must-revalidate`.
    pub must_revalidate: bool,
    /// `proxy-revalidate`.
    pub proxy_revalidate: bool,
    /// `immutable` (RFC 8246).
    pub immutable: bool,
    /// `s-maxage`, seconds.
    pub s_maxage: Option<u64>,
    /// `max-age`, seconds.
    pub max_age: Option<u64>,
    /// `stale-while-revalidate`, seconds.
    pub stale_while_revalidate: Option<u64>,
    /// `stale-if-error`, seconds.
    pub stale_if_error: Option<u64>,
    /// The fields that `private` and `no-cache` name.
    pub withheld: Names,
    /// Whether a targeted field says it, so that `Cache-Control` and `Expires` say nothing.
    pub is_targeted: bool,
    /// `must-understand`.
    pub must_understand: bool,
    /// Whether the answer to a request with `Authorization` may be stored (§3.5): `public`, `must-revalidate`,
    /// `s-maxage`.
    pub allows_authorised: bool,
}

impl Said {
    /// What these fields of a response say. Of the fields in `targets`, in lower case, the first that is a dictionary
    /// with members counts in place of `Cache-Control` and `Expires`.
    pub fn by(fields: &Fields, targets: &[Box<str>]) -> Self {
        let targeted = targets.iter().find_map(|name| {
            let mut lines = fields.get_all(name).peekable();
            lines.peek()?;
            dictionary(lines).filter(|members| !members.is_empty())
        });
        let mut said = Self::default();
        match targeted {
            Some(members) => {
                said.is_targeted = true;
                members.iter().for_each(|member| said.read_targeted(&member.key, &member.value, targets));
            }
            None => {
                let lines = fields.all_known(Known::CacheControl);
                lines.flat_map(directives).for_each(|directive| said.read(&directive, targets));
            }
        }
        said
    }

    fn read(&mut self, directive: &Directive<'_>, targets: &[Box<str>]) {
        if !directive.is_well_formed() {
            self.no_store |= directive.mentions("no-store");
            self.private |= directive.mentions("private");
            self.no_cache |= directive.mentions("no-cache");
        }
        let seconds = directive.seconds();
        // What cannot be read is as good as over (§4.2.1).
        let or_over = Some(seconds.unwrap_or(0));
        match () {
            () if directive.is("no-store") => self.no_store = true,
            () if directive.is("private") => self.private |= !self.withhold(directive.names(), targets),
            () if directive.is("no-cache") => self.no_cache |= !self.withhold(directive.names(), targets),
            () if directive.is("public") => (self.public, self.allows_authorised) = (true, true),
            () if directive.is("must-revalidate") => (self.must_revalidate, self.allows_authorised) = (true, true),
            () if directive.is("proxy-revalidate") => self.proxy_revalidate = true,
            () if directive.is("must-understand") => self.must_understand = true,
            () if directive.is("immutable") => self.immutable = true,
            () if directive.is_meant_as("s-maxage") => {
                self.allows_authorised |= seconds.is_some();
                self.s_maxage = self.s_maxage.or(or_over);
            }
            () if directive.is_meant_as("max-age") => self.max_age = self.max_age.or(or_over),
            () if directive.is("stale-while-revalidate") => {
                self.stale_while_revalidate = self.stale_while_revalidate.or(or_over);
            }
            () if directive.is("stale-if-error") => self.stale_if_error = self.stale_if_error.or(or_over),
            () => {}
        }
    }

    /// Whether names were given, which are withheld from then on. Those that rule the cache cannot be.
    fn withhold(&mut self, names: Option<Vec<&[u8]>>, targets: &[Box<str>]) -> bool {
        let rules = |name: &&[u8]| {
            RULING.contains(Known::of(name))
                || targets.iter().any(|target| name.eq_ignore_ascii_case(target.as_bytes()))
        };
        match names {
            Some(names) if !names.iter().any(rules) => {
                names.iter().for_each(|name| self.withheld.insert(name));
                true
            }
            Some(_) | None => false,
        }
    }

    /// A member of a targeted field. One of the wrong type says nothing, unless it forbids (RFC 9213 §2.1).
    fn read_targeted(&mut self, key: &str, value: &Value, targets: &[Box<str>]) {
        let seconds = match value {
            Value::Integer(seconds) => u64::try_from(*seconds).ok().map(|seconds| seconds.min(SECONDS_MAX)),
            _ => None,
        };
        let is_set = *value != Value::Boolean(false);
        let is_true = *value == Value::Boolean(true);
        let names = || match value {
            Value::String(names) => {
                Some(members(names.as_bytes()).collect::<Vec<_>>()).filter(|names| !names.is_empty())
            }
            _ => None,
        };
        match key {
            "no-store" => self.no_store = is_set,
            "private" => self.private = is_set && !self.withhold(names(), targets),
            "no-cache" => self.no_cache = is_set && !self.withhold(names(), targets),
            "public" => {
                self.public = is_true;
                self.allows_authorised |= is_true;
            }
            "must-revalidate" => {
                self.must_revalidate = is_set;
                self.allows_authorised |= is_true;
            }
            "proxy-revalidate" => self.proxy_revalidate = is_set,
            "must-understand" => self.must_understand = is_true,
            "immutable" => self.immutable = is_true,
            "s-maxage" => {
                self.s_maxage = seconds;
                self.allows_authorised |= seconds.is_some();
            }
            "max-age" => self.max_age = seconds,
            "stale-while-revalidate" => self.stale_while_revalidate = seconds,
            "stale-if-error" => self.stale_if_error = seconds,
            _ => {}
        }
    }

    /// Whether it may never be delivered stale, not even while the origin cannot be reached (§4.2.4).
    pub fn forbids_stale(&self) -> bool {
        let is_allowed = self.stale_while_revalidate.is_some() || self.stale_if_error.is_some();
        self.must_revalidate || self.proxy_revalidate || self.no_cache || self.s_maxage.is_some() && !is_allowed
    }
}

/// The fields that rule the cache, or say what a page is: they stay with it.
pub const RULING: KnownSet = KnownSet::of(&[
    Known::Age,
    Known::CacheControl,
    Known::CdnCacheControl,
    Known::ContentEncoding,
    Known::ContentLength,
    Known::ContentRange,
    Known::ContentType,
    Known::Date,
    Known::Etag,
    Known::Expires,
    Known::LastModified,
    Known::Location,
    Known::SurrogateControl,
    Known::Vary,
    Known::XAccelBuffering,
    Known::XAccelExpires,
    Known::XAccelRedirect,
]);

/// A response and what surrounds it.
pub struct Response<'a> {
    /// Its status.
    pub status: u16,
    /// Its fields.
    pub fields: &'a Fields,
    /// Whether its request had `Authorization`.
    pub is_authorised: bool,
    /// How long it took to answer.
    pub delay: Duration,
    /// When it came.
    pub now: Time,
    /// How long it is fresh if it does not say so itself, by configuration; zero if it is not to be stored then.
    pub configured: Option<Duration>,
    /// Whether `Set-Cookie` may be stored for everybody.
    pub may_have_cookies: bool,
    /// Whether a part of a page was asked for, as its key says.
    pub is_slice: bool,
}

/// For how long a response is of use.
#[derive(Debug, PartialEq, Eq)]
pub struct Storable {
    /// How old it was when it came, seconds (§4.2.3).
    pub age: u64,
    /// Until when it is fresh; may be when it came.
    pub fresh_until: Time,
    /// How long after that it may be delivered while it is fetched anew.
    pub stale_while_revalidate: Duration,
    /// How long after that it may be delivered in place of an error.
    pub stale_if_error: Duration,
}

/// Whether a response that says this may be stored, and for how long it is of use (§3, §4.2). `Err` says why not.
pub fn storable(said: &Said, response: &Response<'_>) -> Result<Storable, &'static str> {
    let Response { status, fields, now, .. } = *response;
    if said.must_understand {
        if !understands(status) {
            return Err("Cache-Control: must-understand");
        }
    } else if said.no_store {
        return Err("Cache-Control: no-store");
    }
    if said.private {
        return Err("Cache-Control: private");
    }
    if status == status::NOT_MODIFIED || status == status::PARTIAL_CONTENT && !response.is_slice {
        return Err("a part of a page");
    }
    if response.is_authorised && !said.allows_authorised {
        return Err("Authorization");
    }
    if !response.may_have_cookies
        && fields.contains_known(Known::SetCookie)
        && !said.withheld.contains(Known::SetCookie, b"set-cookie")
    {
        return Err("Set-Cookie");
    }
    let age = age(fields, response.delay, now);
    let stated = lifetime(said, response);
    // Of other statuses no origin is asked whether they are still good.
    let has_validator = matches!(status, status::OK | status::PARTIAL_CONTENT)
        && (fields.contains_known(Known::Etag) || fields.contains_known(Known::LastModified));
    let is_heuristic = said.public || is_heuristically_cacheable(status);
    let lifetime = match (stated, response.configured) {
        (Some(lifetime), _) => lifetime,
        (None, Some(Duration::ZERO)) => return Err("no lifetime"),
        (None, Some(configured)) => configured,
        (None, None) if !is_heuristic => return Err("its status"),
        (None, None) => heuristic(fields, now).unwrap_or_default(),
    };
    let lifetime = if said.no_cache { Duration::ZERO } else { lifetime };
    let left = lifetime.saturating_sub(Duration::from_secs(age));
    let [stale_while_revalidate, stale_if_error] =
        match said.must_revalidate || said.proxy_revalidate || said.no_cache {
            true => [Duration::ZERO; 2],
            false => [said.stale_while_revalidate, said.stale_if_error]
                .map(|seconds| Duration::from_secs(seconds.unwrap_or(0))),
        };
    // Nobody could ever use it.
    if left.is_zero() && !has_validator && stale_while_revalidate.is_zero() && stale_if_error.is_zero() {
        return Err(match () {
            () if said.no_cache => "Cache-Control: no-cache",
            () if stated.is_some() || !lifetime.is_zero() => OVER,
            () => "no lifetime",
        });
    }
    Ok(Storable { age, fresh_until: now.plus(left), stale_while_revalidate, stale_if_error })
}

/// Why a response is not stored whose time was over when it came, and which has nothing to be confirmed by.
pub const OVER: &str = "its time is over";

/// The freshness lifetime that a response states (§4.2.1). `None` if it states none.
fn lifetime(said: &Said, response: &Response<'_>) -> Option<Duration> {
    if let Some(seconds) = said.s_maxage.or(said.max_age) {
        return Some(Duration::from_secs(seconds));
    }
    if said.is_targeted {
        return None;
    }
    let expires = response.fields.get_known(Known::Expires)?;
    let now = response.now.secs();
    let date = date(response.fields, now).unwrap_or(now);
    let seconds = parse_exact_date(expires, now).unwrap_or(0).saturating_sub(date);
    Some(Duration::from_secs(seconds))
}

fn date(fields: &Fields, now_secs: u64) -> Option<u64> {
    parse_exact_date(fields.get_known(Known::Date)?, now_secs)
}

/// A tenth of the time since the page was changed.
fn heuristic(fields: &Fields, now: Time) -> Option<Duration> {
    let now = now.secs();
    let modified = parse_exact_date(fields.get_known(Known::LastModified)?, now)?;
    let since = date(fields, now).unwrap_or(now).saturating_sub(modified);
    Some(Duration::from_secs(since / 10).min(HEURISTIC_MAX))
}

/// How old a response is when it comes, seconds: `corrected_initial_age` (§4.2.3).
pub fn age(fields: &Fields, delay: Duration, now: Time) -> u64 {
    let apparent = date(fields, now.secs()).map_or(0, |date| now.secs().saturating_sub(date));
    let corrected = age_value(fields).map_or(0, |age| age + delay.as_secs());
    apparent.max(corrected)
}

/// `Age`: the first member, if it is a number (§5.1).
pub fn age_value(fields: &Fields) -> Option<u64> {
    let line = fields.get_known(Known::Age)?;
    delta_seconds(members(line).next()?)
}

/// Statuses that may be stored without explicit freshness (RFC 9110 §15.1).
fn is_heuristically_cacheable(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

/// Statuses of which larder knows what they ask of a cache (§5.2.2.3).
fn understands(status: u16) -> bool {
    matches!(status, 200..=204 | 300..=303 | 307 | 308 | 400..=417 | 421..=426 | 428 | 429 | 431 | 451 | 500..=505)
}

/// What a request asks of caches (§5.2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// `no-cache`.
    pub no_cache: bool,
    /// `no-store`.
    pub no_store: bool,
    /// `only-if-cached`.
    pub only_if_cached: bool,
    /// `max-age`, seconds.
    pub max_age: Option<u64>,
    /// `min-fresh`, seconds.
    pub min_fresh: Option<u64>,
    /// `max-stale`, seconds; without a number, any.
    pub max_stale: Option<u64>,
    /// `stale-if-error`, seconds (RFC 5861 §4).
    pub stale_if_error: Option<u64>,
}

impl Asked {
    /// What these fields of a request ask. What cannot be read is not asked.
    pub fn by(fields: &Fields) -> Self {
        let mut asked = Self::default();
        for directive in fields.all_known(Known::CacheControl).flat_map(directives) {
            let seconds = directive.seconds();
            match () {
                () if directive.is("no-cache") => asked.no_cache = true,
                () if directive.is("no-store") => asked.no_store = true,
                () if directive.is("only-if-cached") => asked.only_if_cached = true,
                () if directive.is("max-age") => asked.max_age = asked.max_age.or(seconds),
                () if directive.is("min-fresh") => asked.min_fresh = asked.min_fresh.or(seconds),
                () if directive.is("max-stale") => {
                    let any = directive.argument == larder_http::cache_control::Argument::None;
                    asked.max_stale = asked.max_stale.or(if any { Some(u64::MAX) } else { seconds });
                }
                () if directive.is("stale-if-error") => asked.stale_if_error = asked.stale_if_error.or(seconds),
                () => {}
            }
        }
        asked
    }

    /// Whether a page of this age, in seconds, is too old for it. A page that is `immutable` is never for a reload, which
    /// asks by `max-age` (RFC 8246 §2.1).
    pub fn refuses(&self, age: u64, left: Duration, is_immutable: bool) -> bool {
        self.no_cache
            || self.max_age.is_some_and(|max| age > max || max == 0) && !is_immutable
            || self.min_fresh.is_some_and(|min| left < Duration::from_secs(min))
    }

    /// Whether a page that has been stale for so long will do.
    pub fn takes_stale(&self, staleness: Duration) -> bool {
        self.max_stale.is_some_and(|max| staleness <= Duration::from_secs(max))
    }
}

/// The fields of a stored page after the origin has confirmed it with others (§3.2, §4.3.4): what describes the body as
/// it is stored stays.
pub fn updated(stored: &Fields, confirmation: &Fields) -> Fields {
    let stays = |known| {
        matches!(
            known,
            Known::ContentLength
                | Known::ContentEncoding
                | Known::ContentRange
                | Known::TransferEncoding
                | Known::Connection
                | Known::KeepAlive
                | Known::SetCookie
        )
    };
    let mut fields = Fields::new();
    for (known, name, value) in stored.iter_known() {
        // The age and date of then say nothing of the confirmation.
        let is_of_then = matches!(known, Known::Age | Known::Date);
        let is_replaced = || {
            confirmation
                .iter_known()
                .any(|(other, other_name, _)| other == known && other_name.eq_ignore_ascii_case(name))
        };
        if stays(known) || !is_of_then && !is_replaced() {
            fields.push_known(known, name, value);
        }
    }
    for (known, name, value) in confirmation.iter_known().filter(|(known, _, _)| !stays(*known)) {
        fields.push_known(known, name, value);
    }
    fields
}

/// Has updated fields set the cookies that the confirmation sets, in place of others, and returns whether there are any.
pub fn take_over_cookies(fields: &mut Fields, confirmation: &Fields) -> bool {
    let mut cookies = confirmation.all_known(Known::SetCookie).peekable();
    if cookies.peek().is_none() {
        return false;
    }
    fields.remove("Set-Cookie");
    cookies.for_each(|cookie| fields.push(b"Set-Cookie", cookie));
    true
}

#[cfg(test)]
mod tests;
