//! Pages of which not all may see the same.

use std::sync::Arc;

use bytes::Bytes;
use larder_cache::Object;
use larder_http::Known;

use crate::exchange::Exchange;
use crate::request::Content;

use super::Includes;
use super::at_once::AtOnce;
use super::read::{Part, Read};

/// How much of a stored page is looked through at once, if it is too long to be read as a whole before it is sent.
const LOOKED_AT_BYTES: u64 = 4 << 20;

/// Whether what a page shows may depend on who asks for it. The head goes out before a page is read that comes from its origin,
/// and before an include is there that has to be waited for: then nobody knows.
///
/// What was put together at once is in `made`, and what its includes have told in `copy`. A page that is an include itself
/// is told to the page around it.
pub fn is_personal(content: &Content, made: &AtOnce, includes: &Includes, copy: &Exchange, ex: &Exchange) -> bool {
    let shared = copy.request.nested.ssi.as_deref();
    if !includes.is_by_directive {
        return false;
    }
    if ex.is_sub() {
        if let Some(shared) = shared.filter(|_| is_for_one(content, made, includes, ex)) {
            shared.is_personal.set(true);
        }
        return false;
    }
    shared.is_some_and(|shared| shared.is_personal.get()) || is_for_one(content, made, includes, ex)
}

fn is_for_one(content: &Content, made: &AtOnce, includes: &Includes, ex: &Exchange) -> bool {
    let is_coded = ex.reply.fields.contains_known(Known::ContentEncoding);
    match (content.page(), content) {
        (Some(page), _) => match page.made::<Arc<Read>>().filter(|read| read.rules == includes.rules) {
            Some(read) => read.findings.has_variables || has_unknown(made, read),
            None => is_coded || of_a_long_page(page),
        },
        (None, Content::Bytes(bytes) | Content::Kept(bytes) | Content::Passed(bytes, _)) => {
            is_coded || may_differ(bytes)
        }
        (None, _) => true,
    }
}

/// Whether a page that was read has includes that nobody has asked for yet, or that are not there yet.
fn has_unknown(made: &AtOnce, read: &Read) -> bool {
    match made {
        AtOnce::Whole(_) | AtOnce::Plain => false,
        AtOnce::Begun(begun) => begun.has_includes(),
        AtOnce::Not => read.parts.iter().any(Part::is_include),
    }
}

/// Whether a page may be for one visitor that is not read before it is sent; it is looked through once.
fn of_a_long_page(page: &Object) -> bool {
    struct MayDiffer(bool);
    if let Some(MayDiffer(may)) = page.made() {
        return *may;
    }
    let body = page.body.whole().filter(|body| body.len() <= LOOKED_AT_BYTES).and_then(|body| body.to_bytes().ok());
    let Some(body) = body else { return true };
    let may = may_differ(&body);
    page.keep_made(MayDiffer(may), 0);
    may
}

/// Each variable is written like this, in a test, too; and of an include nobody knows yet what it brings.
fn may_differ(body: &Bytes) -> bool {
    let has = |text: &[u8]| memchr::memmem::find(body, text).is_some();
    has(b"<esi:include") || has(b"<esi:") && has(b"$(")
}
