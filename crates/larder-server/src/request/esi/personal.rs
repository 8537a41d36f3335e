//! Pages of which not all may see the same.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use larder_cache::Object;
use larder_http::Known;

use crate::exchange::Exchange;
use crate::request::Content;

use super::Includes;
use super::read::Read;

/// How much of a stored page is looked through at once, if it is too long to be read as a whole before it is sent.
const LOOKED_AT_BYTES: u64 = 4 << 20;

/// Whether what a page shows may depend on who asks for it. The head goes out before a page is read that comes from its origin:
/// then nobody knows.
///
/// What it includes counts as far as it is known: it is in `copy` by now, or was seen at another delivery. A page that is
/// an include itself is told to the page around it.
pub fn is_personal(content: &Content, includes: &Includes, copy: &Exchange, ex: &Exchange) -> bool {
    let shared = copy.request.nested.ssi.as_deref();
    if !includes.is_by_directive {
        return false;
    }
    if ex.is_sub() {
        if let Some(shared) = shared.filter(|_| is_for_one(content, includes, ex)) {
            shared.has_personal();
        }
        return false;
    }
    shared.is_some_and(|shared| shared.is_personal.get()) || is_for_one(content, includes, ex)
}

fn is_for_one(content: &Content, includes: &Includes, ex: &Exchange) -> bool {
    let is_coded = ex.reply.fields.contains_known(Known::ContentEncoding);
    match (content.page(), content) {
        (Some(page), _) => match page.made::<Arc<Read>>().filter(|read| read.rules == includes.rules) {
            Some(read) => read.findings.has_variables || read.has_personal.load(Ordering::Relaxed),
            None => is_coded || of_a_long_page(page),
        },
        (None, Content::Bytes(bytes) | Content::Kept(bytes) | Content::Passed(bytes, _)) => {
            is_coded || may_have_variables(bytes)
        }
        (None, _) => true,
    }
}

/// Whether a page may have variables that is not read before it is sent; it is looked through once.
fn of_a_long_page(page: &Object) -> bool {
    struct MayHaveVariables(bool);
    if let Some(MayHaveVariables(may)) = page.made() {
        return *may;
    }
    let body = page.body.whole().filter(|body| body.len() <= LOOKED_AT_BYTES).and_then(|body| body.to_bytes().ok());
    let Some(body) = body else { return true };
    let may = may_have_variables(&body);
    page.keep_made(MayHaveVariables(may), 0);
    may
}

/// Each variable is written like this, in a test, too.
fn may_have_variables(body: &Bytes) -> bool {
    let has = |text: &[u8]| memchr::memmem::find(body, text).is_some();
    has(b"<esi:") && has(b"$(")
}
