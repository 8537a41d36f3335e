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
//! | [`stores`]           | `lookup.rs`             | whether the answer to a miss may be stored                              |
//! | [`on_stale`]         | `lookup.rs`             | [`OnStale`]: what is done with a page past its time                     |
//! | [`question`]         | `fetch.rs`              | [`Question`]: what the origin is asked about the page                   |
//! | [`judge`]            | `answer.rs`             | [`Judgement`]: what its answer leads to                                 |
//! | [`may_be_stale`]     | `answer.rs`             | whether a stale page is better than this failure                        |
//! | [`intercepts`]       | `lookup.rs`, `page.rs`  | whether an `error_page` takes the place of a stored page of this status |
//! | [`keep`]             | `fill.rs`               | [`Keep`]: what of the answer is stored, and until when                  |
//! | [`confirmed`]        | `answer.rs`             | [`Lifetime`]: how long a page is of use that the origin has confirmed   |
//! | [`shapes_responses`] | `mod.rs`                | whether `deliver` is asked at all                                       |
//! | [`deliver`]          | `mod.rs`                | [`Delivery`]: after changes of the head; or begin anew                  |

pub mod directives;
#[cfg(test)]
mod written;

use std::time::Duration;

use larder_cache::{Object, Rules, VaryKey};
use larder_http::ResponseHead;
use larder_http::{Fields, Time};
use larder_origin::FailKind;

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::site::{Origin, Policy};

/// What the cache is asked. The key is `ex.upstream.cache_key`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// What this zone has.
    Look(usize),
    /// Nothing, and what the origin answers may be stored in this zone.
    Refresh(usize),
    /// Nothing, for this reason.
    Pass(&'static str),
    /// It cannot be asked, which the log says: 500.
    Refuse,
}

/// What is done with a page past its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnStale {
    /// It is delivered, while another request fetches it.
    Deliver,
    /// It is delivered, and fetched in the background.
    DeliverAndRefetch,
    /// It is fetched for this request.
    Fetch,
}

/// What the origin is asked about a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question {
    /// Whether the answer may still be stored.
    pub stores: bool,
    /// Whether a HEAD is asked as a GET, so that what is stored has its body.
    pub as_get: bool,
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
}

impl Validators {
    /// Whether there are none, so that a 304 is no answer to them.
    pub fn is_empty(&self) -> bool {
        self.last_modified.is_none() && self.etag.is_none()
    }
}

/// What an origin's answer leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The stored page, which it confirms.
    Confirmed,
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
}

/// Whether an answer is stored.
pub enum Keep {
    /// It is.
    Until(Kept),
    /// It is not.
    Not {
        /// The reason, for `Cache-Status`.
        why: &'static str,
        /// How long requests for this key do not wait for each other, as the answer is not shared. `None`: the next
        /// waiter tries.
        uncacheable_for: Option<Duration>,
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
}

/// What becomes of a response whose head has been changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It is delivered.
    Go,
    /// It is dropped, and the request, which has been changed, begins anew at its location.
    Restart,
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

/// What the cache is asked about a request. Writes the key.
pub fn ask(origin: &Origin, ex: &mut Exchange, cx: &Cx) -> Ask {
    match &origin.policy {
        Policy::Directives(policy) => directives::ask(policy, &origin.backend, ex, cx),
        #[cfg(test)]
        Policy::Written => written::ask(ex),
    }
}

/// How requests of a key wait for each other.
pub fn rules(origin: &Origin, ex: &Exchange, now: Time) -> Rules {
    match &origin.policy {
        Policy::Directives(policy) => directives::rules(policy, ex, now),
        #[cfg(test)]
        Policy::Written => written::rules(),
    }
}

/// Whether what a miss brings may be stored.
pub fn stores(origin: &Origin, ex: &Exchange) -> bool {
    match &origin.policy {
        Policy::Directives(policy) => directives::stores(policy, ex),
        #[cfg(test)]
        Policy::Written => written::stores(),
    }
}

/// What is done with a stale page. `is_updating`: another request is fetching it.
pub fn on_stale(origin: &Origin, object: &Object, is_updating: bool, now: Time) -> OnStale {
    match &origin.policy {
        Policy::Directives(policy) => directives::on_stale(policy, object, is_updating, now),
        #[cfg(test)]
        Policy::Written => written::on_stale(object, is_updating, now),
    }
}

/// Whether a stale page may be delivered.
pub fn may_be_stale(origin: &Origin, object: &Object, why: Why, now: Time) -> bool {
    match &origin.policy {
        Policy::Directives(policy) => directives::may_be_stale(policy, object, why, now),
        #[cfg(test)]
        Policy::Written => written::may_be_stale(object, now),
    }
}

/// What the origin is asked about the page. `stale` is the stored one; `stores` says that there is a right to store.
pub fn question(origin: &Origin, stale: Option<&Object>, stores: bool, ex: &mut Exchange, cx: &Cx) -> Question {
    match &origin.policy {
        Policy::Directives(policy) => directives::question(policy, &origin.backend, stale, stores, ex, cx),
        #[cfg(test)]
        Policy::Written => written::question(stores, ex),
    }
}

/// What the answer leads to. `stale` is the stored page, `validators` what was asked about it.
pub fn judge(
    origin: &Origin,
    answer: &ResponseHead,
    stale: Option<&Object>,
    validators: &Validators,
    ex: &Exchange,
    cx: &Cx,
) -> Judgement {
    match &origin.policy {
        Policy::Directives(policy) => directives::judge(policy, answer, stale, validators, ex, cx),
        #[cfg(test)]
        Policy::Written => written::judge(),
    }
}

/// Whether a status goes to our own `error_page`, be it an origin's or that of a stored page.
pub fn intercepts(origin: &Origin, status: u16, ex: &Exchange, cx: &Cx) -> bool {
    match &origin.policy {
        Policy::Directives(policy) => directives::intercepts(policy, status, ex, cx),
        #[cfg(test)]
        Policy::Written => written::intercepts(),
    }
}

/// What of an answer is stored.
pub fn keep(origin: &Origin, answer: &ResponseHead, ex: &mut Exchange, cx: &Cx) -> Keep {
    match &origin.policy {
        Policy::Directives(policy) => directives::keep(policy, answer, ex, cx),
        #[cfg(test)]
        Policy::Written => written::keep(answer, cx.now()),
    }
}

/// Whether heads of responses are to be shown to [`deliver`], which costs a hit its quick way.
pub fn shapes_responses(origin: &Origin) -> bool {
    match &origin.policy {
        // `add_header` and its kin are added as the head is written.
        Policy::Directives(_) => false,
        #[cfg(test)]
        Policy::Written => true,
    }
}

/// Changes the head of a response of the cache or the origin, which is in `ex`.
pub fn deliver(origin: &Origin, ex: &mut Exchange) -> Delivery {
    match &origin.policy {
        Policy::Directives(policy) => directives::deliver(policy, ex),
        #[cfg(test)]
        Policy::Written => written::deliver(ex),
    }
}

/// How long a stored page is of use that the origin has confirmed by a 304 with these fields.
pub fn confirmed(origin: &Origin, confirmation: &Fields, object: &Object, now: Time) -> Lifetime {
    match &origin.policy {
        Policy::Directives(policy) => directives::confirmed(policy, confirmation, object, now),
        #[cfg(test)]
        Policy::Written => written::confirmed(now),
    }
}
