//! What is decided about a request that an origin may answer: where its page is kept and by which key, whether a stale
//! one will do, what an answer leads to and how long it is kept.
//!
//! The steps ask at these points and do what the answer, a value, says. Nobody else reads the directives of a cache, but
//! for `*_cache_purge` (`request/purge.rs`), so another way to decide is one more arm of [`Policy`] and a file beside
//! [`directives`].
//!
//! | point                | asked by, in `request/` | answer                                                                  |
//! | -------------------- | ----------------------- | ----------------------------------------------------------------------- |
//! | [`ask`]              | `lookup.rs`             | [`Ask`]: which zone is looked at, under which key; or why none is       |
//! | [`rules`]            | `lookup.rs`             | `larder_cache::Rules`: who waits for whom, and for how long             |
//! | [`hit`], [`arriving`], [`miss`] | `lookup.rs`  | what is done with a fresh page, or without one: [`Found`], [`Turn`]      |
//! | [`stores`]           | `lookup.rs`             | whether the answer to a miss may be stored                              |
//! | [`on_stale`]         | `lookup.rs`             | [`OnStale`]: what is done with a page past its time                     |
//! | [`prepare`], [`limit`] | `fetch.rs`            | which origin is asked, and how long it may take; or a [`Detour`]         |
//! | [`question`]         | `fetch.rs`              | [`Question`]: what the origin is asked about the page                   |
//! | [`count_attempt`], [`counts`] | `fetch.rs`, `fill.rs` | what is counted of a backend                                    |
//! | [`received`]         | `answer.rs`             | nothing: its head is cleaned, and what it makes invalid is dropped      |
//! | [`judge`]            | `answer.rs`             | [`Judgement`]: what its answer leads to                                 |
//! | [`gathers`], [`recode`] | `answer.rs`          | whether its body is awaited, and what becomes of it                      |
//! | [`failure`], [`abandoned`] | `answer.rs`       | what takes the place of an answer that did not come                      |
//! | [`may_be_stale`]     | `answer.rs`             | whether a stale page is better than this failure                        |
//! | [`intercepts`]       | `lookup.rs`, `page.rs`  | whether an `error_page` takes the place of a stored page of this status |
//! | [`keep`]             | `fill.rs`               | [`Keep`]: what of the answer is stored, and until when                  |
//! | [`confirmed`]        | `answer.rs`             | [`Confirmed`]: what becomes of a page that the origin has confirmed     |
//! | [`shapes_responses`] | `mod.rs`                | whether `deliver` is asked at all                                       |
//! | [`deliver`], [`esi`] | `mod.rs`, `esi.rs`      | [`Delivery`]: after changes of the head; or elsewhere                   |
//! | [`restarts_max`], [`writes_requests`] | `mod.rs`, `fetch.rs` | how often a request begins anew; who writes the head for the origin |

mod behind;
pub mod directives;
pub mod litespeed;
pub mod rfc9111;
pub mod vcl;
#[cfg(test)]
mod written;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use larder_cache::{HitRef, Mark, Object, Rules, VaryKey};
use larder_http::ResponseHead;
use larder_http::{Fields, Time};
use larder_origin::{Attempt, FailKind, Fetch};

use crate::context::Cx;
use crate::directors::Counts;
use crate::exchange::{Cause, Exchange, RESTARTS_MAX};
use crate::site::{Origin, Policy, Rfc9111Policy, VclPolicy};

/// What the cache is asked. The key is `ex.upstream.cache_key`.
#[derive(Debug, PartialEq, Eq)]
pub enum Ask {
    /// What this zone has.
    Look(usize),
    /// Nothing, and what the origin answers may be stored in this zone.
    Refresh(usize),
    /// Nothing, for this reason.
    Pass(Cause),
    /// It cannot be asked, which the log says: 500.
    Refuse,
    /// Nothing; the policy leads elsewhere.
    Turn(Turn),
}

/// Where a policy leads in place of the usual next step.
#[derive(Debug, PartialEq, Eq)]
pub enum Turn {
    /// To the response in the exchange, with this body.
    Respond(Bytes),
    /// To the origin, past the cache, for this reason.
    Pass(Cause),
    /// To its own first question.
    Restart,
    /// To a 500 without more words.
    Fail,
    /// To a 400 without more words.
    Bad,
    /// To the end of the connection.
    Close,
    /// To a 504, as nothing is there and nothing is to be fetched.
    Absent,
}

/// What is done with a fresh page.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// It is delivered.
    Page,
    /// It counts as missing, and is fetched.
    Miss,
    /// The origin is asked whether it is still good.
    Ask,
    /// The policy leads elsewhere.
    Turn(Turn),
}

/// What takes the place of a fetch, or of its answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Detour {
    /// This answer, made here.
    Made(Box<ResponseHead>, Bytes),
    /// Another try.
    Again,
    /// Nothing: there is no answer.
    Fail,
}

/// What is done with a page past its time.
#[derive(Debug, PartialEq, Eq)]
pub enum OnStale {
    /// It is delivered, while another request fetches it.
    Deliver,
    /// It is delivered, and fetched in the background.
    DeliverAndRefetch,
    /// It is fetched for this request.
    Fetch,
    /// The request waits until the other one has fetched it.
    Wait,
    /// The policy leads elsewhere.
    Turn(Turn),
}

/// What the origin is asked about a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question {
    /// Whether the answer may still be stored.
    pub stores: bool,
    /// Whether a HEAD is asked as a GET, so that what is stored has its body.
    pub as_get: bool,
    /// Whether it is asked without the arguments that change no page, as its answer is for all.
    pub leaves_out: bool,
    /// What a stored page is revalidated by.
    pub validators: Validators,
}

/// What a stored page is revalidated by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validators {
    /// `If-Modified-Since`.
    pub last_modified: Option<Vec<u8>>,
    /// `If-None-Match`.
    pub etag: Option<Vec<u8>>,
    /// What is asked for of a page of which a part is stored.
    pub rest: Option<Rest>,
}

/// The rest of a page of which a part is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rest {
    /// `Range`.
    pub range: Vec<u8>,
    /// `If-Range`: the strong tag of the part.
    pub etag: Vec<u8>,
}

impl Validators {
    /// Whether there are none, so that a 304 is no answer to them.
    pub fn is_empty(&self) -> bool {
        self.last_modified.is_none() && self.etag.is_none()
    }
}

/// What an origin's answer leads to.
#[derive(Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The stored page, which it confirms.
    Confirmed,
    /// Another fetch: it confirms a page that is not there.
    Astray,
    /// The stored page in its place, though that is stale.
    Stale,
    /// Another URI or a named location: `X-Accel-Redirect`.
    Redirect {
        /// Where to.
        to: Vec<u8>,
        /// How long nobody waits for an answer of this key, as it is not to be shared.
        uncacheable_for: Duration,
    },
    /// Our own `error_page` of its status.
    ErrorPage,
    /// It is the response.
    Response,
    /// Something else takes its place.
    Instead(Detour),
}

/// Why a stale page may have to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Another request is fetching it.
    Updating,
    /// The origin gave no answer.
    Failed(FailKind),
    /// The origin answered with this status.
    Status(u16),
    /// The gate of the origin did not let the request in.
    Gate,
}

/// Whether an answer is stored.
pub enum Keep {
    /// It is.
    Until(Kept),
    /// It is not.
    Not {
        /// The reason, for `Cache-Status`.
        why: Cause,
        /// How long requests for this key do not wait for each other, as the answer is not shared. `None`: the next
        /// waiter tries.
        uncacheable_for: Option<Duration>,
    },
    /// It is not, but those who wait for it now get it: it says that the fetch has failed.
    Shared(Kept),
    /// It is not, and the cache remembers that under these times.
    Mark(Mark, Kept),
}

/// What becomes of a stored page that its origin has confirmed.
pub enum Confirmed {
    /// It stays, under these times; its fields, and which requests it answers, may have changed.
    Until {
        /// How long it is of use.
        lifetime: Lifetime,
        /// What has changed.
        changed: Option<(Fields, VaryKey)>,
    },
    /// It is for this request alone.
    Alone {
        /// Its fields.
        fields: Fields,
        /// What is kept instead; never the page.
        instead: Keep,
    },
}

/// What of an answer is stored.
pub struct Kept {
    /// How long it is of use.
    pub lifetime: Lifetime,
    /// The fields.
    pub fields: Fields,
    /// Which requests of its key it answers.
    pub vary: VaryKey,
    /// For a page with ESI: the URL that its includes are relative to.
    pub esi_base: Option<Box<[u8]>>,
}

/// What becomes of a response whose head has been changed.
#[derive(Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It is delivered.
    Go,
    /// It is delivered with this head, and parts of it if `has_ranges`. Its conditions have been looked at.
    Shaped {
        /// Whether ranges of it may be asked for.
        has_ranges: bool,
    },
    /// The client has its body already: 304.
    NotModified,
    /// It is dropped, and the policy leads elsewhere.
    Turn(Turn),
}

/// How long a stored page is of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// When it stops being fresh.
    pub fresh_until: Time,
    /// How long after that it may be delivered while one fetch runs.
    pub stale_while_revalidate: Duration,
    /// How long after that it may be delivered when the origin fails.
    pub stale_if_error: Duration,
}

impl Lifetime {
    /// One that is over.
    pub fn over(now: Time) -> Self {
        Self { fresh_until: now, stale_while_revalidate: Duration::ZERO, stale_if_error: Duration::ZERO }
    }
}

/// What the cache is asked about a request. Writes the key.
pub fn ask(origin: &Origin, ex: &mut Exchange, cx: &Cx) -> Ask {
    match &origin.policy {
        Policy::Directives(policy) => directives::ask(policy, &origin.backend, ex, cx),
        Policy::Rfc9111(policy) => rfc9111::ask(policy, &origin.backend, ex, cx),
        Policy::Vcl(policy) => vcl::ask(policy, ex, cx),
        #[cfg(test)]
        Policy::Written => written::ask(ex),
    }
}

/// How requests of a key wait for each other.
pub fn rules(origin: &Origin, ex: &Exchange, now: Time) -> Rules {
    match &origin.policy {
        Policy::Directives(policy) => directives::rules(policy, ex, now),
        Policy::Rfc9111(policy) => rfc9111::rules(policy, ex, now),
        Policy::Vcl(_) => vcl::rules(ex),
        #[cfg(test)]
        Policy::Written => written::rules(),
    }
}

/// The time by which a page is found fresh or stale.
pub fn time_of_lookup(origin: &Origin, ex: &Exchange, cx: &Cx) -> Time {
    match &origin.policy {
        Policy::Directives(_) | Policy::Rfc9111(_) => cx.now(),
        Policy::Vcl(_) => vcl::time_of_lookup(ex),
        #[cfg(test)]
        Policy::Written => cx.now(),
    }
}

/// What is done with a fresh page, or with what stands in the place of one.
pub fn hit(origin: &Origin, object: &HitRef, ex: &mut Exchange, cx: &Cx) -> Found {
    match &origin.policy {
        Policy::Directives(_) => Found::Page,
        Policy::Rfc9111(policy) => rfc9111::hit(policy, object, ex, cx),
        Policy::Vcl(policy) => vcl::hit(policy, &object.to_arc(), ex, cx),
        #[cfg(test)]
        Policy::Written => Found::Page,
    }
}

/// The same for a page that a walk has found ([`walk`](crate::request::walk)).
pub fn looked_at(origin: &Origin, object: &Arc<Object>, ex: &mut Exchange, cx: &Cx) -> Found {
    match &origin.policy {
        Policy::Directives(_) => Found::Page,
        Policy::Rfc9111(policy) => rfc9111::hit(policy, object, ex, cx),
        Policy::Vcl(policy) => vcl::hit(policy, object, ex, cx),
        #[cfg(test)]
        Policy::Written => Found::Page,
    }
}

/// The same for a page that another request is fetching.
pub fn arriving(origin: &Origin, object: &Arc<Object>, ex: &mut Exchange, cx: &Cx) -> Found {
    match &origin.policy {
        Policy::Directives(_) => Found::Page,
        Policy::Rfc9111(_) => rfc9111::arriving(object, cx),
        Policy::Vcl(policy) => vcl::hit(policy, object, ex, cx),
        #[cfg(test)]
        Policy::Written => Found::Page,
    }
}

/// Where a request for a page that is not there goes; `None` if the page is fetched.
pub fn miss(origin: &Origin, ex: &mut Exchange, cx: &Cx) -> Option<Turn> {
    match &origin.policy {
        Policy::Directives(_) => None,
        Policy::Rfc9111(policy) => rfc9111::miss(policy, ex),
        Policy::Vcl(policy) => vcl::miss(policy, ex, cx),
        #[cfg(test)]
        Policy::Written => None,
    }
}

/// Whether what a miss brings may be stored.
pub fn stores(origin: &Origin, ex: &Exchange) -> bool {
    match &origin.policy {
        Policy::Directives(policy) | Policy::Rfc9111(Rfc9111Policy { directives: policy, .. }) => {
            directives::stores(policy, ex)
        }
        Policy::Vcl(_) => true,
        #[cfg(test)]
        Policy::Written => written::stores(),
    }
}

/// What is done with a stale page. `is_updating`: another request is fetching it.
pub fn on_stale(origin: &Origin, object: &Arc<Object>, is_updating: bool, ex: &mut Exchange, cx: &Cx) -> OnStale {
    match &origin.policy {
        Policy::Directives(policy) => directives::on_stale(policy, object, is_updating, cx.now()),
        Policy::Rfc9111(policy) => rfc9111::on_stale(policy, object, is_updating, ex, cx),
        Policy::Vcl(policy) => vcl::on_stale(policy, object, is_updating, ex, cx),
        #[cfg(test)]
        Policy::Written => written::on_stale(object, is_updating, cx.now()),
    }
}

/// Counts what came of asking an origin, by a request whose head has `head_bytes`.
pub fn count_attempt(origin: &Origin, attempt: &Attempt, head_bytes: u64, ex: &Exchange, cx: &Cx) {
    match &origin.policy {
        Policy::Directives(_) | Policy::Rfc9111(_) => {}
        Policy::Vcl(policy) => vcl::count_attempt(policy, attempt, head_bytes, ex, cx),
        #[cfg(test)]
        Policy::Written => {}
    }
}

/// Who counts what the origin of a fetch does, if anybody does.
pub fn counts(origin: &Origin, ex: &Exchange) -> Option<Arc<Counts>> {
    match &origin.policy {
        Policy::Directives(_) | Policy::Rfc9111(_) => None,
        Policy::Vcl(policy) => vcl::counts(policy, ex),
        #[cfg(test)]
        Policy::Written => None,
    }
}

/// The name of the backend that a fetch asks, where it has one.
pub fn backend_name<'a>(origin: &'a Origin, ex: &Exchange) -> Option<&'a str> {
    match &origin.policy {
        Policy::Directives(_) | Policy::Rfc9111(_) => None,
        Policy::Vcl(policy) => policy.vcl.objects.directors.name(ex.vcl.fetch.resolved?),
        #[cfg(test)]
        Policy::Written => None,
    }
}

/// Whether a stale page may be delivered.
pub fn may_be_stale(origin: &Origin, object: &Object, why: Why, ex: &Exchange, now: Time) -> bool {
    let why = match why {
        // What lets somebody in is stale only where the configuration says so.
        Why::Gate if ex.request.nested.sub.as_ref().is_some_and(|sub| sub.head_only) => Why::Failed(FailKind::Error),
        Why::Gate | Why::Updating | Why::Failed(_) | Why::Status(_) => why,
    };
    match &origin.policy {
        Policy::Directives(policy) => directives::may_be_stale(policy, object, why, now),
        Policy::Rfc9111(policy) => rfc9111::may_be_stale(policy, object, why, ex, now),
        Policy::Vcl(_) => false,
        #[cfg(test)]
        Policy::Written => written::may_be_stale(object, now),
    }
}

/// Makes a fetch ready before its origin is known, which this may choose. `stale` is the stored page.
pub fn prepare(origin: &Origin, stale: Option<&Object>, ex: &mut Exchange, cx: &Cx) -> Result<(), Detour> {
    match &origin.policy {
        Policy::Directives(_) | Policy::Rfc9111(_) => Ok(()),
        Policy::Vcl(policy) => vcl::prepare(policy, stale, ex, cx),
        #[cfg(test)]
        Policy::Written => Ok(()),
    }
}

/// What the origin is asked about the page. `stale` is the stored one; `stores` says that there is a right to store.
pub fn question(origin: &Origin, stale: Option<&Object>, stores: bool, ex: &mut Exchange, cx: &Cx) -> Question {
    match &origin.policy {
        Policy::Directives(policy) => {
            let stale = stale.filter(|_| policy.settings.model.cache.revalidate);
            directives::question(policy, &origin.backend, stale, stores, ex, cx)
        }
        // A page that has a validator is always to be confirmed (RFC 9111 §4.3.1).
        Policy::Rfc9111(policy) => directives::question(&policy.directives, &origin.backend, stale, stores, ex, cx),
        Policy::Vcl(_) => vcl::question(stores),
        #[cfg(test)]
        Policy::Written => written::question(stores, ex),
    }
}

/// Takes note of an origin's answer before anything is made of it, and changes its head where a proxy has to.
pub fn received(origin: &Origin, answer: &mut ResponseHead, ex: &mut Exchange, cx: &Cx) {
    if let Some(policy) = origin.policy.directives() {
        litespeed::received(policy, answer);
    }
    if let Policy::Rfc9111(policy) = &origin.policy {
        rfc9111::received(policy, &origin.backend, answer, ex, cx);
    }
}

/// What the answer leads to, whose head this may change. `stale` is the stored page, `validators` what was asked about
/// it.
pub fn judge(
    origin: &Origin,
    answer: &mut ResponseHead,
    stale: Option<&Arc<Object>>,
    validators: &Validators,
    ex: &mut Exchange,
    cx: &Cx,
) -> Judgement {
    match &origin.policy {
        Policy::Directives(policy) => {
            directives::judge(policy, answer, stale.map(|stale| &**stale), validators, ex, cx)
        }
        Policy::Rfc9111(policy) => rfc9111::judge(policy, answer, stale.map(|stale| &**stale), validators, ex, cx),
        Policy::Vcl(policy) => match directives::led_elsewhere(answer, &origin.backend) {
            Some(redirect) => redirect,
            None => vcl::judge(policy, answer, stale, ex, cx),
        },
        #[cfg(test)]
        Policy::Written => written::judge(),
    }
}

/// Whether an answer has to be whole before it is delivered.
pub fn gathers(origin: &Origin, ex: &Exchange) -> bool {
    match &origin.policy {
        Policy::Vcl(_) => vcl::gathers(ex),
        Policy::Directives(_) | Policy::Rfc9111(_) => false,
        #[cfg(test)]
        Policy::Written => false,
    }
}

/// Changes the body of an answer that was gathered, and its head with it.
pub fn recode(
    origin: &Origin,
    head: &mut ResponseHead,
    body: Bytes,
    ex: &mut Exchange,
    cx: &Cx,
) -> Result<Bytes, String> {
    match &origin.policy {
        Policy::Vcl(policy) => vcl::recode(policy, head, body, ex, cx),
        Policy::Directives(_) | Policy::Rfc9111(_) => Ok(body),
        #[cfg(test)]
        Policy::Written => Ok(body),
    }
}

/// What decides about the includes of the response; `None` if it goes out as it is.
pub fn esi<'a>(origin: &'a Origin, ex: &Exchange) -> Option<&'a VclPolicy> {
    match &origin.policy {
        Policy::Vcl(policy) if ex.reply.esi_base.is_some() => Some(policy),
        _ => None,
    }
}

/// Changes how long a fetch may take, and may wait.
pub fn limit(origin: &Origin, request: &mut Fetch, ex: &Exchange) {
    if let Policy::Vcl(policy) = &origin.policy {
        request.gate.own = vcl::limit(policy, &mut request.limits, ex);
    }
}

/// What takes the place of an answer that did not come; `None` for a status of our own. `was_sent` says that the origin
/// may have got the request.
pub fn failure(origin: &Origin, was_sent: bool, ex: &mut Exchange, cx: &Cx) -> Option<Detour> {
    match &origin.policy {
        Policy::Directives(_) | Policy::Rfc9111(_) => None,
        Policy::Vcl(policy) => Some(vcl::failure(policy, was_sent, ex, cx)),
        #[cfg(test)]
        Policy::Written => None,
    }
}

/// Where a request goes whose fetch was given up.
pub fn abandoned(origin: &Origin, ex: &mut Exchange, cx: &Cx) -> Turn {
    match &origin.policy {
        Policy::Directives(_) | Policy::Rfc9111(_) => Turn::Fail,
        Policy::Vcl(policy) => vcl::abandoned(policy, ex, cx),
        #[cfg(test)]
        Policy::Written => Turn::Fail,
    }
}

/// Whether a status goes to our own `error_page`, be it an origin's or that of a stored page.
pub fn intercepts(origin: &Origin, status: u16, ex: &Exchange, cx: &Cx) -> bool {
    match &origin.policy {
        Policy::Directives(policy) | Policy::Rfc9111(Rfc9111Policy { directives: policy, .. }) => {
            directives::intercepts(policy, status, ex, cx)
        }
        Policy::Vcl(_) => false,
        #[cfg(test)]
        Policy::Written => written::intercepts(),
    }
}

/// What of an answer is stored.
pub fn keep(origin: &Origin, answer: &ResponseHead, ex: &mut Exchange, cx: &Cx) -> Keep {
    let mut keep = match &origin.policy {
        Policy::Directives(policy) => directives::keep(policy, answer, ex, cx),
        Policy::Rfc9111(policy) => rfc9111::keep(policy, answer, ex, cx),
        // It decides by itself.
        Policy::Vcl(policy) => return vcl::keep(policy, answer, ex, cx),
        #[cfg(test)]
        Policy::Written => written::keep(answer, cx.now()),
    };
    if let Keep::Until(kept) = &mut keep {
        behind::cap(&mut kept.lifetime, &answer.fields, cx.now());
    }
    keep
}

/// Whether heads of responses are to be shown to [`deliver`], which costs a hit its quick way.
pub fn shapes_responses(origin: &Origin) -> bool {
    match &origin.policy {
        // `add_header` and its kin are added as the head is written.
        Policy::Directives(_) | Policy::Rfc9111(_) => false,
        Policy::Vcl(_) => true,
        #[cfg(test)]
        Policy::Written => true,
    }
}

/// Changes the head of a response of the cache or the origin, which is in `ex`.
pub fn deliver(origin: &Origin, ex: &mut Exchange, cx: &Cx) -> Delivery {
    match &origin.policy {
        Policy::Directives(_) | Policy::Rfc9111(_) => Delivery::Go,
        Policy::Vcl(policy) => vcl::deliver(policy, ex, cx),
        #[cfg(test)]
        Policy::Written => written::deliver(ex),
    }
}

/// What becomes of a stored page that the origin has confirmed by a 304 with this head.
pub fn confirmed(
    origin: &Origin,
    confirmation: &ResponseHead,
    object: &Object,
    ex: &mut Exchange,
    cx: &Cx,
) -> Confirmed {
    let as_it_is = |lifetime| {
        let changed = behind::confirmed(&object.fields, &confirmation.fields);
        Confirmed::Until { lifetime, changed: changed.map(|fields| (fields, object.vary.clone())) }
    };
    let mut confirmed = match &origin.policy {
        Policy::Directives(policy) => {
            let of_file = directives::time_of_file(object.status, &object.fields, ex, cx);
            as_it_is(directives::confirmed(policy, &confirmation.fields, object, of_file, cx.now()))
        }
        Policy::Rfc9111(policy) => rfc9111::confirmed(policy, confirmation, object, ex, cx),
        Policy::Vcl(policy) => {
            return match vcl::keep(policy, confirmation, ex, cx) {
                Keep::Until(kept) => {
                    Confirmed::Until { lifetime: kept.lifetime, changed: Some((kept.fields, kept.vary)) }
                }
                instead => Confirmed::Alone { fields: Fields::clone(&confirmation.fields), instead },
            };
        }
        #[cfg(test)]
        Policy::Written => as_it_is(written::confirmed(cx.now())),
    };
    if let Confirmed::Until { lifetime, .. } = &mut confirmed {
        behind::cap(lifetime, &confirmation.fields, cx.now());
    }
    confirmed
}

/// How often a request may begin anew.
pub fn restarts_max(origin: Option<&Origin>) -> u8 {
    match origin.map(|origin| &origin.policy) {
        Some(Policy::Vcl(policy)) => u8::try_from(policy.parameters.max_restarts).unwrap_or(u8::MAX),
        _ => RESTARTS_MAX,
    }
}

/// Whether the request that a policy has prepared is sent as it is.
pub fn writes_requests(origin: &Origin) -> bool {
    matches!(origin.policy, Policy::Vcl(_))
}
