//! A range that begins far beyond what has arrived of a page.
//!
//! A request for a part of a page that is being fetched gets it from that fetch, as it arrives. But a viewer who jumps
//! into the middle of a film must not wait for the first half: if the origin is known to serve ranges, larder passes
//! the request to it and does not store the answer.

use larder_cache::Object;
use larder_http::{Fields, Known, Method, Ranges, status};
use larder_store::{Body, BodyState};

use crate::context::Cx;
use crate::exchange::{Exchange, Slicing};
use crate::files::conditional;
use crate::site::{Backend, Protocol};

use super::compress::{self, Facts};

/// How far beyond what has arrived a range may begin and be waited for.
const WAIT_BYTES_MAX: u64 = 1024 * 1024;

/// Why such a request is passed, for `Cache-Status`.
pub const DETAIL: &str = "the range has not arrived";

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
        && may_ask(page.fields, backend, ex)
        && start_of_range(page, ex, cx).is_some_and(|start| start > so_far.saturating_add(WAIT_BYTES_MAX))
}

/// Whether the origin would answer a passed request with just the range.
fn may_ask(page: &Fields, backend: &Backend, ex: &Exchange) -> bool {
    let serves_ranges = page.get_known(Known::AcceptRanges).is_some_and(|units| units.eq_ignore_ascii_case(b"bytes"));
    let has_conditions = ex.asked.head.fields.iter_known().any(|(known, _, _)| {
        matches!(known, Known::IfModifiedSince | Known::IfUnmodifiedSince | Known::IfNoneMatch | Known::IfMatch)
    });
    let is_plain = ex.request.method == Method::Get
        && ex.request.way.error_status.is_none()
        && !matches!(ex.visit.slicing, Slicing::At(_));
    serves_ranges && is_plain && !has_conditions && passes_ranges(backend)
}

/// Whether the origin gets the client's `Range` as it is.
fn passes_ranges(backend: &Backend) -> bool {
    let sets = match &backend.protocol {
        Protocol::Http(parts) => parts.set.names.contains_known(Known::Range),
        Protocol::FastCgi(parts) => parts.params.fields.contains(Known::Range, b"Range"),
    };
    backend.settings.model.request.pass_headers && !sets
}

/// Where the range of the response begins; `None` for no range, several, or a response that is compressed.
fn start_of_range(page: &Arriving<'_>, ex: &Exchange, cx: &Cx) -> Option<u64> {
    let settings = &cx.loc(ex).settings;
    if settings.parts.max_ranges == Some(0) {
        return None;
    }
    let asked = ex.asked.head.fields.get_known(Known::Range)?;
    let total = page.fields.content_length()?;
    let etag = page.fields.get_known(Known::Etag);
    if !conditional::range_applies(&ex.asked.head.fields, page.last_modified, etag) {
        return None;
    }
    // A compressed response goes out whole.
    let facts = Facts { status: page.status, fields: page.fields, length: Some(total) };
    if compress::choose(&facts, ex, cx).shape().is_some() {
        return None;
    }
    match larder_http::parse_ranges(asked, total, Some(1)) {
        Ranges::Ok(ranges) => ranges.first().map(|range| range.start),
        Ranges::None | Ranges::Unsatisfiable => None,
    }
}
