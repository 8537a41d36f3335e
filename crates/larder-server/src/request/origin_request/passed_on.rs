//! What of the client's request goes on to the origin: which fields, and the body.

use std::sync::Arc;

use larder_http::{Known, KnownSet};

use crate::exchange::{Exchange, RequestBody};
use crate::vars;

/// Fields that ask for a part of a page or for a condition on it. A fetch for the cache leaves them out, as it
/// needs the whole page.
pub const CONDITIONAL: KnownSet = KnownSet::of(&[
    Known::IfModifiedSince,
    Known::IfUnmodifiedSince,
    Known::IfNoneMatch,
    Known::IfMatch,
    Known::Range,
    Known::IfRange,
]);

/// How much of a page its origin is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// What the client asks for, under its conditions.
    AsAsked,
    /// The client's range, under our conditions.
    Range,
    /// All of it, or the rest, under our conditions.
    Whole,
}

impl Extent {
    /// Whether the conditions are ours.
    pub fn has_our_conditions(self) -> bool {
        self != Self::AsAsked
    }

    /// The client's fields that are left out.
    pub fn left_out(self) -> KnownSet {
        const CONDITIONS: KnownSet =
            KnownSet::of(&[Known::IfModifiedSince, Known::IfUnmodifiedSince, Known::IfNoneMatch, Known::IfMatch]);
        match self {
            Self::AsAsked => KnownSet::default(),
            Self::Range => CONDITIONS,
            Self::Whole => CONDITIONAL,
        }
    }
}

/// The client's fields that are left out: those of conditions that are ours, and cookies that change no page.
pub fn left_out(extent: Extent, ex: &Exchange) -> KnownSet {
    match vars::omits_cookies(ex) {
        true => extent.left_out().and(KnownSet::of(&[Known::Cookie])),
        false => extent.left_out(),
    }
}

/// The body for the origin; `announced` says that its head tells the length where that is known.
pub fn wire_body(body: &mut RequestBody, announced: bool) -> larder_origin::RequestBody {
    match body {
        RequestBody::None | RequestBody::Unread(_) => larder_origin::RequestBody::None,
        RequestBody::Memory(bytes) => larder_origin::RequestBody::Memory(bytes.clone()),
        RequestBody::File(temp, len) => larder_origin::RequestBody::File { file: Arc::clone(temp.file()), len: *len },
        RequestBody::Passing(feed) => feed.open(announced),
    }
}
