//! A range that begins far beyond what has arrived of a page.
//!
//! A request for a part of a page that is being fetched gets it from that fetch, as it arrives. But a viewer who jumps
//! into the middle of a film must not wait for the first half: if the origin is known to serve ranges, larder passes
//! the request to it and does not store the answer.

use larder_cache::Object;
use larder_http::{ByteRange, Fields, Known, Method, Ranges, status};
use larder_store::{Body, BodyState};

use crate::context::Cx;
use crate::exchange::{Exchange, Slicing};
use crate::files::conditional;
use crate::site::{Backend, Protocol};

use super::compress::{self, Facts};

/// How far beyond what has arrived a range may begin and be waited for.
const WAIT_BYTES_MAX: u64 = 1024 * 1024;

/// A page that is being fetched.
pub struct Arriving<'a> {
    /// The status of its answer.
    pub status: u16,
    /// Its fields, as the origin sent them.
    pub fields: &'a Fields,
    /// `Last-Modified`.
    pub last_modified: Option<u64>,
    /// Its body so far.
    pub body: &'a Body,
}

impl<'a> Arriving<'a> {
    /// One that is to be stored.
    pub fn of(object: &'a Object) -> Self {
        let Object { status, fields, last_modified, body, .. } = object;
        Self { status: *status, fields, last_modified: *last_modified, body }
    }
}

/// Whether the request is passed: its range begins far beyond what has arrived of `page`, and the origin serves
/// ranges.
pub fn is_passed(page: &Arriving<'_>, backend: &Backend, ex: &Exchange, cx: &Cx) -> bool {
    let BodyState::Filling { so_far } = page.body.state() else { return false };
    page.status == status::OK
        && serves_ranges(page.fields)
        && goes_on(backend, ex)
        && page
            .fields
            .content_length()
            .and_then(|total| range_of(page, total, ex, cx))
            .is_some_and(|range| range.start > so_far.saturating_add(WAIT_BYTES_MAX))
}

fn serves_ranges(page: &Fields) -> bool {
    page.get_known(Known::AcceptRanges).is_some_and(|units| units.eq_ignore_ascii_case(b"bytes"))
}

/// Whether the origin would be asked for just the range by a passed request.
pub fn goes_on(backend: &Backend, ex: &Exchange) -> bool {
    let has_conditions = ex.asked.head.fields.iter_known().any(|(known, _, _)| {
        matches!(known, Known::IfModifiedSince | Known::IfUnmodifiedSince | Known::IfNoneMatch | Known::IfMatch)
    });
    let is_plain = ex.request.method == Method::Get
        && ex.request.way.error_status.is_none()
        && !matches!(ex.visit.slicing, Slicing::At(_));
    is_plain && !has_conditions && passes_ranges(backend)
}

/// Whether the origin gets the client's `Range` and `If-Range` as they are.
pub fn passes_ranges(backend: &Backend) -> bool {
    let sets = match &backend.protocol {
        Protocol::Http(parts) => {
            [Known::Range, Known::IfRange].iter().any(|name| parts.set.names.contains_known(*name))
        }
        Protocol::FastCgi(parts) => {
            let fields = &parts.params.fields;
            fields.contains(Known::Range, b"Range") || fields.contains(Known::IfRange, b"If-Range")
        }
    };
    backend.settings.model.request.pass_headers && !sets
}

/// The range of a page of this length that the response has; `None` for no range, several, or a response that is
/// compressed.
fn range_of(page: &Arriving<'_>, total: u64, ex: &Exchange, cx: &Cx) -> Option<ByteRange> {
    // A compressed response goes out whole.
    let facts = Facts { status: page.status, fields: page.fields, length: Some(total) };
    range_asked(page.fields, page.last_modified, total, ex, cx)
        .filter(|_| compress::choose(&facts, ex, cx).shape().is_none())
}

/// The range of a page of this length, with these fields, that is asked for; `None` for no range or several.
pub fn range_asked(page: &Fields, last_modified: Option<u64>, total: u64, ex: &Exchange, cx: &Cx) -> Option<ByteRange> {
    if cx.loc(ex).settings.parts.max_ranges == Some(0) {
        return None;
    }
    let fields = &ex.asked.head.fields;
    let asked = fields.get_known(Known::Range)?;
    let etag = page.get_known(Known::Etag);
    let applies = match cx.origin(ex).is_some_and(|origin| origin.policy.is_rfc9111()) {
        true => conditional::range_applies_strongly(fields, last_modified, etag),
        false => conditional::range_applies(fields, last_modified, etag),
    };
    if !applies {
        return None;
    }
    match larder_http::parse_ranges(asked, total, Some(1)) {
        Ranges::Ok(ranges) => ranges.into_iter().next(),
        Ranges::None | Ranges::Unsatisfiable => None,
    }
}
