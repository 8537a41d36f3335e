//! A response that is put together of several: `ssi`, `add_before_body`, `add_after_body`, and ESI.
//!
//! ```text
//! document -> Page: commands -> parts, in order -> Joiner -> a body that is sent as any origin's is
//!                   `- requests inside, at once -----^
//! ```
//! Larder reads a page with SSI ahead of what it has sent, as far as the queue of parts allows, so that its includes are
//! fetched at the same time. Their answers are buffered like any origin's until it is their turn. Later steps, such as
//! compression, see one body.

mod join;
pub mod parts;

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use larder_http::{Fields, Known, status};
use larder_store::{BodyReader, Spill};
use tokio::sync::{mpsc, watch};

use crate::context::Cx;
use crate::exchange::{Composed, Exchange};
use crate::files::etag::weaken_etag;
use crate::site::{Around, Composing};
use crate::tempfile;

use super::esi::at_once::{AtOnce, Begun};
use super::pieces::{self, Pieces};
use super::{Content, Ranges, Response, esi, page, ssi};
use parts::{PARTS_MAX, Page};

/// How much of the whole may wait for the client.
const AHEAD_BYTES_MAX: usize = 64 * 1024;
/// Makes `response` the whole that its location asks for; another response goes on as it is.
pub fn compose(response: Response, ex: &mut Exchange, cx: &Cx) -> Response {
    if let Some(includes) = esi::of(&response.content, ex, cx) {
        return compose_esi(response, includes, ex, cx);
    }
    let loc = cx.loc(ex);
    let Some(composing) = &loc.subrequests.composing else { return response };
    let is_sub = ex.is_sub();
    if ex.request.nested.sub.as_ref().is_some_and(|sub| sub.head_only) || matches!(response.content, Content::NoBody) {
        return response;
    }
    let response = page::laid_out(response, ex, cx);
    let Work { parses, adds } = work(&response.content, ex, cx);
    if !parses && !adds {
        return response;
    }
    let settings = &loc.settings.subrequests;
    let mut last_modified = response.last_modified;
    if !is_sub {
        ex.reply.fields.remove("Accept-Ranges");
        if parses && !settings.ssi.last_modified {
            ex.reply.fields.remove("Last-Modified");
            ex.reply.fields.remove("ETag");
            last_modified = None;
        } else {
            weaken_etag(&mut ex.reply.fields);
        }
    }
    let source = pieces::body_of(response.content, ex, cx);
    let reading = if parses { Reading::Ssi } else { Reading::Copied };
    let copy = page_of(ex, false);
    let content = composed(source, reading, composing.filter(adds), (Composed::default(), copy), ex, cx);
    Response { content, last_modified, ranges: Ranges::No, conditional: false }
}

/// Makes `response` the whole that its includes make of it. Where its origin sent gzip, and the client takes it, so is
/// the whole.
fn compose_esi(response: Response, includes: esi::Includes, ex: &mut Exchange, cx: &Cx) -> Response {
    let response = page::laid_out(response, ex, cx);
    let is_packed = esi::packs(ex);
    let mut copy = page_of(ex, true);
    if let Content::Object(page) = &response.content {
        copy.upstream.page = Arc::downgrade(page);
    }
    let made = match ex.is_head() {
        true => AtOnce::Not,
        false => esi::at_once(&response.content, is_packed, &includes, &copy, ex, cx),
    };
    if let AtOnce::Plain = made {
        ex.reply.esi_base = None;
        return response;
    }
    ex.reply.is_personal = esi::is_personal(&response.content, &made, &includes, &copy, ex);
    let last_modified = esi::adapt(&mut ex.reply.fields, &includes, response.last_modified);
    let (source, reading) = match made {
        AtOnce::Whole(bytes) => {
            if !is_packed {
                pieces::restore_head(&response.content, ex, cx);
            }
            ex.reply.composed = Some(Rc::default());
            // In chunks, as Varnish sends it.
            let content = Content::Passed(bytes, None);
            return Response { content, last_modified, ranges: Ranges::No, conditional: false };
        }
        AtOnce::Begun(begun) => {
            if !is_packed {
                pieces::restore_head(&response.content, ex, cx);
            }
            (Pieces::new(Content::Empty, ex), Reading::Begun(includes, begun))
        }
        AtOnce::Not | AtOnce::Plain => (pieces::body_of(response.content, ex, cx), Reading::Esi(includes)),
    };
    // What has begun in gzip goes on so.
    let is_packed = is_packed && matches!(reading, Reading::Esi(_));
    let state = Composed { has_head_first: true, is_packed, ..Composed::default() };
    let content = composed(source, reading, Around::default(), (state, copy), ex, cx);
    Response { content, last_modified, ranges: Ranges::No, conditional: false }
}

/// The copy of a request that its page has, for commands or for ESI.
fn page_of(ex: &Exchange, is_esi: bool) -> Box<Exchange> {
    let mut copy = ex.for_page();
    copy.request.nested.ssi.get_or_insert_default();
    if is_esi {
        esi::prepare(&mut copy, ex);
    }
    copy
}

/// The body of the whole; a HEAD has none.
fn composed(
    source: Pieces,
    reading: Reading,
    around: Around,
    (state, copy): (Composed, Box<Exchange>),
    ex: &mut Exchange,
    cx: &Cx,
) -> Content {
    let state = Rc::new(state);
    ex.reply.composed = Some(Rc::clone(&state));
    let reader = match ex.is_head() {
        true => larder_store::Body::of(Bytes::new(), None).reader(),
        false => start(source, reading, around, state, copy, cx),
    };
    Content::Stream(reader, None)
}

/// How the document is read.
enum Reading {
    /// As it is.
    Copied,
    /// For commands of SSI.
    Ssi,
    /// For ESI.
    Esi(esi::Includes),
    /// It was read, and has begun.
    Begun(esi::Includes, Box<Begun>),
}

/// What there is to do to a response.
struct Work {
    /// It is read for commands.
    parses: bool,
    /// Something is put around it.
    adds: bool,
}

/// Which of `ssi`, `add_before_body` and `add_after_body` apply to a response, by its media type and status.
fn work(content: &Content, ex: &Exchange, cx: &Cx) -> Work {
    let loc = cx.loc(ex);
    let (Some(composing), Some(media_type)) = (&loc.subrequests.composing, media_type(&ex.reply.fields)) else {
        return Work { parses: false, adds: false };
    };
    let settings = &loc.settings.subrequests;
    let status = ex.request.way.error_status.unwrap_or(ex.reply.status);
    Work {
        parses: composing.ssi && !pieces::is_empty(content) && settings.ssi.types.contain(media_type),
        adds: !ex.is_sub() && status == status::OK && composing.adds() && settings.addition_types.contain(media_type),
    }
}

/// Whether [`compose`] will make something else of a response whose head is laid out.
pub fn will_compose(content: &Content, ex: &Exchange, cx: &Cx) -> bool {
    let Work { parses, adds } = work(content, ex, cx);
    parses || adds
}

fn media_type(fields: &Fields) -> Option<&str> {
    let value = fields.get_known(Known::ContentType).filter(|value| !value.is_empty())?;
    std::str::from_utf8(value).ok()
}

impl Composing {
    fn adds(&self) -> bool {
        self.around.before.is_some() || self.around.after.is_some()
    }

    fn filter(&self, adds: bool) -> Around {
        if adds { self.around.clone() } else { Around::default() }
    }
}

/// Starts the tasks that make the whole; returns where it can be read.
fn start(
    document: Pieces,
    mut reading: Reading,
    around: Around,
    composed: Rc<Composed>,
    copy: Box<Exchange>,
    cx: &Cx,
) -> BodyReader {
    let system_dir = Path::new(tempfile::SYSTEM_DIR);
    let spill = Spill { dir: system_dir.into(), system_dir, memory_bytes_max: AHEAD_BYTES_MAX, file_bytes_max: 0 };
    let (writer, body) = larder_store::body(None, Some(spill));
    let reader = body.reader();
    let joined = match &mut reading {
        Reading::Begun(_, begun) => begun.joined.take(),
        Reading::Copied | Reading::Ssi | Reading::Esi(_) => None,
    };
    let cx = cx.clone();
    let running = cx.worker.seats.begin();
    tokio::task::spawn_local(async move {
        let _running = running;
        let (parts, incoming) = mpsc::channel(PARTS_MAX);
        // Dropped with this task, which tells the parts that the page is given up.
        let (_present, leave) = watch::channel(());
        let page = Page { ex: copy, cx: cx.clone(), composed, parts, leave, is_slow: false };
        let making = async {
            make(page, document, reading, around).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            biased;
            () = join::join(writer, joined, incoming, &cx) => {}
            () = making => {}
        }
    });
    reader
}

/// Makes the parts: what goes before the document, the document, and what goes behind it.
async fn make(mut page: Page, document: Pieces, reading: Reading, around: Around) {
    if let Some(uri) = &around.before
        && page.add(uri).await.is_err()
    {
        return;
    }
    let made = match reading {
        Reading::Copied => page.copy(document).await,
        Reading::Ssi => ssi::run(&mut page, document).await,
        Reading::Esi(includes) => esi::run(&mut page, document, &includes).await,
        Reading::Begun(includes, begun) => esi::go_on(&mut page, *begun, &includes).await,
    };
    if let (Ok(()), Some(uri)) = (made, &around.after) {
        let _ = page.add(uri).await;
    }
}
