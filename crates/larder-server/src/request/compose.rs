//! A response that is put together of several: `ssi`, `add_before_body`, `add_after_body`.
//!
//! ```text
//! document -> Page: commands -> parts, in order -> Joiner -> a body that is sent as any origin's is
//!                   `- requests inside, at once -----^
//! ```
//! The page is read ahead of what has been sent, as far as a queue of parts allows, so that what it includes is asked
//! for at the same time; the answers wait where answers of origins wait, until it is their turn. What becomes of the
//! whole afterwards, such as compression, knows nothing of this.

mod join;

use std::rc::Rc;

use bytes::Bytes;
use larder_conf::model::LogLevel;
use larder_http::{Fields, Known};
use larder_store::{BodyReader, Spill};
use tokio::sync::{mpsc, oneshot, watch};

use crate::context::Cx;
use crate::exchange::{Composed, Exchange, SsiShared};
use crate::files::conditional::{self, Condition};
use crate::files::etag::weaken_etag;
use crate::net::Inbound;
use crate::site::{Around, Composing};
use crate::tempfile;

use super::source::{self, Source};
use super::{Content, Ranges, Response, page, ssi, subrequest};

/// How many parts may wait for their turn; the page is read no further then.
const PARTS_MAX: usize = 64;
/// How much of the whole may wait for the client.
const AHEAD_BYTES_MAX: usize = 64 * 1024;
/// How many requests may run inside one at a time, on all levels; beyond it a page waits for each that it asks for.
const INSIDE_MAX: usize = 256;

/// Makes `response` the whole that its location asks for; another response goes on as it is.
pub fn compose(response: Response, ex: &mut Exchange, cx: &Cx) -> Response {
    let loc = cx.loc(ex);
    let Some(composing) = &loc.subrequests.composing else { return response };
    let is_sub = ex.is_sub();
    if ex.request.nested.sub.as_ref().is_some_and(|sub| sub.head_only) || matches!(response.content, Content::Nothing) {
        return response;
    }
    let response = page::laid_out(response, ex, cx);
    let Work { parses, adds } = work(&response.content, ex, cx);
    if !parses && !adds || !is_sub && is_unchanged(&response, ex, cx) {
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
    let source = source::body_of(response.content, ex, cx);
    let composed = Rc::default();
    ex.reply.composed = Some(Rc::clone(&composed));
    let reader = if ex.is_head() {
        larder_store::Body::of(Bytes::new(), None).reader()
    } else {
        start(source, parses, composing.filter(adds), composed, ex, cx)
    };
    Response { content: Content::Stream(reader, None), last_modified, ranges: Ranges::No, conditional: false }
}

/// What there is to do to a response.
struct Work {
    /// It is read for commands.
    parses: bool,
    /// Something is put around it.
    adds: bool,
}

/// What of its location's work is for a response whose head is laid out: that depends on its type.
fn work(content: &Content, ex: &Exchange, cx: &Cx) -> Work {
    let loc = cx.loc(ex);
    let (Some(composing), Some(media_type)) = (&loc.subrequests.composing, media_type(&ex.reply.fields)) else {
        return Work { parses: false, adds: false };
    };
    let settings = &loc.settings.subrequests;
    let status = ex.request.way.error_status.unwrap_or(ex.reply.status);
    Work {
        parses: composing.ssi && !source::is_empty(content) && settings.ssi.types.contain(media_type),
        adds: !ex.is_sub() && status == 200 && composing.adds() && settings.addition_types.contain(media_type),
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

/// Whether the client has the document already: that is asked before it is put together.
fn is_unchanged(response: &Response, ex: &Exchange, cx: &Cx) -> bool {
    if !response.conditional || ex.reply.status != 200 || ex.request.way.error_status.is_some() {
        return false;
    }
    let settings = &cx.loc(ex).settings;
    let etag = ex.reply.fields.get_known(Known::Etag);
    matches!(
        conditional::decide(&ex.asked.head.fields, response.last_modified, etag, settings.parts.if_modified_since),
        Condition::NotModified
    )
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
fn start(document: Source, parses: bool, around: Around, composed: Rc<Composed>, ex: &Exchange, cx: &Cx) -> BodyReader {
    let spill = Spill { dir: tempfile::SYSTEM_DIR.into(), memory_bytes_max: AHEAD_BYTES_MAX, file_bytes_max: 0 };
    let (writer, body) = larder_store::body(None, Some(spill));
    let reader = body.reader();
    let mut copy = ex.for_page();
    copy.request.nested.ssi.get_or_insert_default();
    let cx = cx.clone();
    let running = cx.worker.seats.begin();
    tokio::task::spawn_local(async move {
        let _running = running;
        let (parts, incoming) = mpsc::channel(PARTS_MAX);
        // Dropped with this task: then nobody wants what is being made any more.
        let (_present, leave) = watch::channel(());
        let page = Page { ex: copy, cx: cx.clone(), composed, parts, leave };
        let making = async {
            page.make(document, parses, around).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            biased;
            () = join::join(writer, incoming, &cx) => {}
            () = making => {}
        }
    });
    reader
}

/// A part of the whole.
enum Part {
    Bytes(Bytes),
    /// What a request inside brings, and whom to tell when it is through.
    Answer(oneshot::Receiver<Option<Answer>>, Option<oneshot::Sender<()>>),
    /// The whole ends here, incomplete.
    Failed(String),
}

/// The answer to a request inside.
struct Answer {
    ex: Box<Exchange>,
    body: Source,
    _counted: Counted,
}

/// Counts a request inside until its answer is through.
struct Counted(Rc<SsiShared>);

impl Counted {
    fn new(shared: &Rc<SsiShared>) -> Self {
        shared.inside.set(shared.inside.get() + 1);
        Self(Rc::clone(shared))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.inside.set(self.0.inside.get().saturating_sub(1));
    }
}

/// Nobody reads the whole any more, or it has failed.
#[derive(Debug)]
pub struct Unwanted;

/// The page while its parts are made.
pub struct Page {
    /// The request, as the commands of the page see it.
    pub ex: Box<Exchange>,
    /// What it runs under.
    pub cx: Cx,
    composed: Rc<Composed>,
    parts: mpsc::Sender<Part>,
    leave: watch::Receiver<()>,
}

impl Page {
    async fn make(mut self, document: Source, parses: bool, around: Around) {
        if let Some(uri) = &around.before
            && self.add(uri).await.is_err()
        {
            return;
        }
        let made = match parses {
            true => ssi::run(&mut self, document).await,
            false => self.copy(document).await,
        };
        if let (Ok(()), Some(uri)) = (made, &around.after) {
            let _ = self.add(uri).await;
        }
    }

    async fn add(&mut self, uri: &[u8]) -> Result<(), Unwanted> {
        match subrequest::begin(&self.ex, uri, b"", &self.cx) {
            Some(inner) => self.include(inner, None, false).await,
            None => Err(self.fail("a subrequest could not be made".to_owned()).await),
        }
    }

    async fn copy(&mut self, mut document: Source) -> Result<(), Unwanted> {
        loop {
            match document.next(&self.cx).await {
                Ok(Some(bytes)) => self.text(bytes).await?,
                Ok(None) => return Ok(()),
                Err(why) => return Err(self.cut_off(why).await),
            }
        }
    }

    /// Ends the whole where the document has ended before its end.
    pub async fn cut_off(&mut self, why: String) -> Unwanted {
        self.composed.is_cut_off.set(true);
        self.fail(why).await
    }

    /// Adds bytes to the whole.
    pub async fn text(&mut self, bytes: Bytes) -> Result<(), Unwanted> {
        self.parts.send(Part::Bytes(bytes)).await.map_err(|_| Unwanted)
    }

    /// Ends the whole before its end.
    pub async fn fail(&mut self, why: String) -> Unwanted {
        let _ = self.parts.send(Part::Failed(why)).await;
        Unwanted
    }

    /// Runs a request inside, and puts its answer here; with `wait` the page goes on when that is through.
    ///
    /// `stub` stands in for an answer that is an error or empty.
    pub async fn include(&mut self, inner: Box<Exchange>, stub: Option<Bytes>, wait: bool) -> Result<(), Unwanted> {
        let (answer, inside) = self.ask(inner, stub);
        let wait = wait || inside > INSIDE_MAX;
        let (through, is_through) = oneshot::channel();
        self.parts.send(Part::Answer(answer, wait.then_some(through))).await.map_err(|_| Unwanted)?;
        if wait {
            is_through.await.map_err(|_| Unwanted)?;
        }
        Ok(())
    }

    /// Runs a request inside and returns what it brings: at most as much as its location allows. `None` for an error.
    pub async fn fetch(&mut self, mut inner: Box<Exchange>) -> Result<Option<Vec<u8>>, Unwanted> {
        if let Some(sub) = &mut inner.request.nested.sub {
            sub.in_memory = true;
        }
        let (answer, _) = self.ask(inner, None);
        let Ok(Some(Answer { mut ex, mut body, _counted })) = answer.await else {
            return Err(self.fail("a subrequest was closed".to_owned()).await);
        };
        let bytes_max = self.cx.loc(&ex).settings.subrequests.output_buffer_bytes;
        let mut value = Vec::new();
        // A body that breaks off is taken as far as it goes.
        while let Ok(Some(piece)) = body.next(&self.cx).await {
            value.extend_from_slice(&piece);
            if value.len() > bytes_max {
                let why = format!("too big subrequest response: {}", value.len());
                self.cx.local.logs.error(&self.cx, &ex, LogLevel::Error, format_args!("{why}"));
                return Err(self.fail(why).await);
            }
        }
        subrequest::log(&mut ex, &self.cx);
        Ok((ex.reply.status < 300).then_some(value))
    }

    /// Runs a request inside by a task of its own: who leaves the page takes no stored answer with him. Returns where
    /// the answer comes, and how many run now.
    fn ask(&mut self, mut inner: Box<Exchange>, stub: Option<Bytes>) -> (oneshot::Receiver<Option<Answer>>, usize) {
        plain(&mut inner);
        if let Some(sub) = &mut inner.request.nested.sub {
            sub.has_stub = stub.is_some();
        }
        let counted = Counted::new(self.ex.request.nested.ssi.get_or_insert_default());
        let inside = counted.0.inside.get();
        let media_type = self.ex.reply.fields.get("Content-Type").map(<[u8]>::to_vec);
        let (answered, answer) = oneshot::channel();
        let (cx, leave) = (self.cx.clone(), self.leave.clone());
        let running = cx.worker.seats.begin();
        tokio::task::spawn_local(async move {
            let _running = running;
            let answer = match subrequest::run(&mut inner, &cx, Inbound::Inside(&leave)).await {
                Some(response) => Some(with_stub(response, stub, media_type, inner, counted, &cx).await),
                None => None,
            };
            // The page may be given up by now.
            let _ = answered.send(answer);
        });
        (answer, inside)
    }
}

/// Makes a request one for a whole answer in plain form, whatever part or form of the page the client asked for.
fn plain(inner: &mut Exchange) {
    inner.asked.head.fields.retain(|known, _, _| {
        !matches!(
            known,
            Known::Range
                | Known::IfRange
                | Known::IfModifiedSince
                | Known::IfUnmodifiedSince
                | Known::IfMatch
                | Known::IfNoneMatch
                | Known::AcceptEncoding
        )
    });
}

/// The answer, or what stands in for it when it is empty: a block of the page, read as the answer of that location
/// would be.
async fn with_stub(
    response: Response,
    stub: Option<Bytes>,
    media_type: Option<Vec<u8>>,
    mut ex: Box<Exchange>,
    counted: Counted,
    cx: &Cx,
) -> Answer {
    let mut body = source::body_of(response.content, &mut ex, cx);
    if let Some(stub) = stub
        && body.is_empty(cx).await
    {
        if let Some(media_type) = media_type {
            ex.reply.fields.set("Content-Type", &media_type);
        }
        let response = compose(Response::own(Content::Bytes(stub)), &mut ex, cx);
        body = Source::new(response.content, &ex);
    }
    Answer { ex, body, _counted: counted }
}
