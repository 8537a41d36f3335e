//! A stored page as a response: its head is laid out for this request.

use std::sync::Arc;

use larder_cache::Object;
use larder_http::digits::{DIGITS_MAX, digits};
use larder_http::{Known, status};
use larder_store::BodyReader;

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::policy;
use crate::site::Backend;

use super::{Content, Ranges, Response, Step, Synth, response_fields};

/// A stored page that is to be delivered.
pub struct Page {
    object: Arc<Object>,
    /// For a body that still arrives: a reader that was there before the first byte. A body that finds no room is kept
    /// only for such readers.
    reader: Option<BodyReader>,
}

impl Page {
    /// A page of which the cache keeps the body.
    pub fn stored(object: Arc<Object>) -> Self {
        Self { object, reader: None }
    }

    /// A page that another request is fetching.
    pub fn arriving(object: Arc<Object>, reader: BodyReader) -> Self {
        Self { object, reader: Some(reader) }
    }

    /// What is stored.
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// What is stored, and the reader of what is still arriving.
    pub fn into_parts(self) -> (Arc<Object>, Option<BodyReader>) {
        (self.object, self.reader)
    }
}

/// Delivers a stored page.
pub fn deliver(page: Page, ex: &mut Exchange, cx: &Cx) -> Step {
    let Some(origin) = cx.origin(ex) else { return Step::Synth(Synth::Final(status::INTERNAL_SERVER_ERROR)) };
    let Page { object, reader } = page;
    ex.upstream.page = Arc::downgrade(&object);
    ex.upstream.fresh_until = Some(object.fresh_until);
    if policy::intercepts(origin, object.status, ex, cx) {
        return Step::Synth(Synth::Status(object.status));
    }
    lay_out(&object, &origin.backend, ex, cx);
    let last_modified = object.last_modified;
    let content = match (object.body.disk_len(), reader) {
        // The reader keeps the bytes that it has yet to read.
        (Some(len), _) => Content::Stream(object.body.reader(), Some(len)),
        (None, Some(reader)) if object.body.whole().is_none() => {
            Content::Stream(reader, object.fields.content_length())
        }
        (None, _) => Content::Object(object),
    };
    Step::Deliver(Response { last_modified, content, ranges: Ranges::Quiet, conditional: true })
}

/// `response` with its head in the exchange: that of a hit is laid out now, others have been.
pub fn laid_out(response: Response, ex: &mut Exchange, cx: &Cx) -> Response {
    let Content::Hit(object) = &response.content else { return response };
    if let Some(origin) = cx.origin(ex) {
        lay_out(object, &origin.backend, ex, cx);
    }
    Response {
        last_modified: object.last_modified,
        content: Content::Object(object.to_arc()),
        ranges: response.ranges,
        conditional: true,
    }
}

/// Lays the head of a stored page out as the response of `ex`.
pub fn lay_out(object: &Object, backend: &Backend, ex: &mut Exchange, cx: &Cx) {
    if let Some(rules) = &backend.prepared_by {
        // A page from a disk is prepared at its first use. Another worker or location may have done so meanwhile.
        object.prepared.get_or_init(|| rules.prepare(&object.fields, cx.site().speaks_http2));
    }
    ex.reply.status = object.status;
    ex.reply.reason.clear();
    ex.reply.reason.extend_from_slice(&object.reason);
    // `auth_request_set` of another location may read those of what `auth_request` asks.
    let is_asked_for_its_head = ex.request.nested.sub.as_ref().is_some_and(|sub| sub.head_only);
    if cx.loc(ex).fields.reads_fields || is_asked_for_its_head {
        ex.upstream.fields = Some(Arc::new(object.fields.clone()));
    }
    response_fields::lay_out(&object.fields, backend, ex, cx);
    if backend.is_rfc9111 {
        let mut room = [0; DIGITS_MAX];
        ex.reply.fields.set_sound(Known::Age, "Age", digits(object.age(cx.now()), &mut room));
    }
}
