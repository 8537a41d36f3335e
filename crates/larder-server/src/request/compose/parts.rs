//! The parts of a composed page while they are made: bytes of the document, and the answers of subrequests.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use larder_compress::Segment;
use larder_conf::model::LogLevel;
use larder_http::{Known, KnownSet, status};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use crate::context::Cx;
use crate::exchange::{Composed, Exchange, SsiShared};
use crate::net::Inbound;
use crate::request::origin_request::passed_on::CONDITIONAL;
use crate::request::pieces::{Pieces, body_of};
use crate::request::{Content, Response, Slow, lay_out_inside, subrequest};

/// How many requests may run inside one at a time, on all levels; beyond it a page waits for each that it asks for.
const INSIDE_MAX: usize = 256;

/// A part of the whole.
pub enum Part {
    /// Bytes of the document.
    Bytes(Bytes),
    /// The same, in gzip.
    Packed(Arc<Segment>),
    /// The answer of a subrequest, and the channel that tells its page when it is through.
    Answer(oneshot::Receiver<Result<Answer, String>>, Option<oneshot::Sender<()>>, OnError),
    /// What goes in if nothing of it fails.
    Attempt(Box<Attempt>),
    /// The whole ends here, incomplete.
    Failed(String),
}

/// How many parts may wait for their turn; the page is read no further then.
pub const PARTS_MAX: usize = 64;

/// Parts of which all go in or none.
pub struct Attempt {
    /// The parts.
    pub parts: mpsc::Receiver<Part>,
    /// What else goes in.
    pub except: Except,
    /// Counts what is kept of them.
    pub shared: Rc<SsiShared>,
}

/// Makes what goes in for an attempt that has failed, for this reason.
pub type Except = Box<dyn FnOnce(String, mpsc::Sender<Part>) -> Pin<Box<dyn Future<Output = ()>>>>;

/// How long a page waits for an answer before it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Not at all.
    No,
    /// This long; when one has taken longer, the page waits for none any more.
    AtMost(Duration),
    /// Until it is through.
    ToTheEnd,
}

/// What becomes of an answer that is an error, or that breaks off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// What there is of it goes in.
    Show,
    /// It is left out: an error whole, and of an answer that breaks off what has not come.
    Skip,
    /// The whole ends with it.
    End,
}

/// A request inside.
pub enum Inner {
    /// It has not begun.
    New(Box<Exchange>),
    /// How far it is.
    Begun(Pending),
}

/// A request inside that has begun.
pub enum Pending {
    /// It waits.
    Slow(Box<Exchange>, Slow),
    /// Its response is there.
    Answer(Box<Exchange>, Response),
    /// There is no response, for this reason.
    Failed(String),
}

/// What stands in for an answer.
pub enum Fallback {
    /// Nothing.
    None,
    /// This, for one that is an error or empty.
    Stub(Bytes),
    /// The answer to another request, for one that is an error.
    Other(Box<Exchange>),
}

/// The answer to a request inside.
pub struct Answer {
    /// The request, whose response is laid out.
    pub ex: Box<Exchange>,
    /// What it brings.
    pub body: Pieces,
    /// Counts it until it is through.
    pub counted: Counted,
}

/// Counts a request inside until its answer is through.
pub struct Counted(Rc<SsiShared>);

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
    /// Shared with the sender of the whole.
    pub composed: Rc<Composed>,
    /// Where its parts go, in order.
    pub parts: mpsc::Sender<Part>,
    /// Closes when the whole is given up.
    pub leave: watch::Receiver<()>,
    /// Whether an answer has taken longer than the page waits.
    pub is_slow: bool,
}

impl Page {
    /// Puts the answer to a request for `uri` here.
    pub async fn add(&mut self, uri: &[u8]) -> Result<(), Unwanted> {
        match subrequest::begin(&self.ex, uri, b"", &self.cx) {
            Some(inner) => self.include(Inner::New(inner), Fallback::None, Wait::No, OnError::Show).await,
            None => Err(self.fail("a subrequest could not be made".to_owned()).await),
        }
    }

    /// Takes the document over as it is.
    pub async fn copy(&mut self, mut document: Pieces) -> Result<(), Unwanted> {
        loop {
            match document.next(&self.cx).await {
                Ok(Some(bytes)) => self.text(bytes).await?,
                Ok(None) => return Ok(()),
                Err(why) => return Err(self.cut_off(why).await),
            }
        }
    }

    /// The document broke off: so does the whole.
    pub async fn cut_off(&mut self, why: String) -> Unwanted {
        self.composed.is_cut_off.set(true);
        self.fail(why).await
    }

    /// Adds bytes to the whole.
    pub async fn text(&mut self, bytes: Bytes) -> Result<(), Unwanted> {
        self.parts.send(Part::Bytes(bytes)).await.map_err(|_| Unwanted)
    }

    /// Adds text that is in gzip.
    pub async fn packed(&mut self, segment: Arc<Segment>) -> Result<(), Unwanted> {
        self.parts.send(Part::Packed(segment)).await.map_err(|_| Unwanted)
    }

    /// Ends the whole before its end.
    pub async fn fail(&mut self, why: String) -> Unwanted {
        let _ = self.parts.send(Part::Failed(why)).await;
        Unwanted
    }

    /// Runs a request inside, and puts its answer here; the page goes on when that is through, or as `wait` says.
    pub async fn include(
        &mut self,
        inner: Inner,
        fallback: Fallback,
        wait: Wait,
        on_error: OnError,
    ) -> Result<(), Unwanted> {
        let (answer, inside) = self.ask(inner, fallback);
        let wait = match wait {
            _ if inside > INSIDE_MAX => Wait::ToTheEnd,
            Wait::AtMost(_) if self.is_slow => Wait::No,
            wait => wait,
        };
        let (through, is_through) = oneshot::channel();
        let part = Part::Answer(answer, (wait != Wait::No).then_some(through), on_error);
        self.parts.send(part).await.map_err(|_| Unwanted)?;
        match wait {
            Wait::No => Ok(()),
            Wait::ToTheEnd => is_through.await.map_err(|_| Unwanted),
            Wait::AtMost(limit) => match timeout(limit, is_through).await {
                Ok(is_through) => is_through.map_err(|_| Unwanted),
                Err(_) => {
                    self.is_slow = true;
                    Ok(())
                }
            },
        }
    }

    /// Runs a request inside and returns what it brings: at most as much as its location allows. `None` for an error.
    pub async fn fetch(&mut self, mut inner: Box<Exchange>) -> Result<Option<Vec<u8>>, Unwanted> {
        if let Some(sub) = &mut inner.request.nested.sub {
            sub.in_memory = true;
        }
        let (answer, _) = self.ask(Inner::New(inner), Fallback::None);
        let answer = answer.await.unwrap_or_else(|_| Err("a subrequest was closed".to_owned()));
        let Answer { mut ex, mut body, counted: _counted } = match answer {
            Ok(answer) => answer,
            Err(why) => return Err(self.fail(why).await),
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

    /// Runs a subrequest in a task of its own, so that an answer is stored even if the client leaves. Returns where
    /// the answer comes, or why there is none, and how many run now.
    fn ask(&mut self, mut inner: Inner, fallback: Fallback) -> (oneshot::Receiver<Result<Answer, String>>, usize) {
        if let Inner::New(inner) = &mut inner {
            plain(inner);
            if let Some(sub) = &mut inner.request.nested.sub {
                sub.has_stub = matches!(fallback, Fallback::Stub(_));
            }
        }
        let counted = Counted::new(self.ex.request.nested.ssi.get_or_insert_default());
        let inside = counted.0.inside.get();
        let media_type = self.ex.reply.fields.get("Content-Type").map(<[u8]>::to_vec);
        let (through, answer) = oneshot::channel();
        let (cx, leave) = (self.cx.clone(), self.leave.clone());
        let running = cx.worker.seats.begin();
        tokio::task::spawn_local(async move {
            let _running = running;
            let mut answered = answered_by(inner, &cx, Inbound::Inside(&leave)).await;
            let stub = match fallback {
                Fallback::None => None,
                Fallback::Stub(stub) => Some(stub),
                Fallback::Other(mut other) => {
                    if !answered.as_ref().is_ok_and(|(inner, _)| is_good(inner.reply.status)) {
                        plain(&mut other);
                        answered = answered_by(Inner::New(other), &cx, Inbound::Inside(&leave)).await;
                    }
                    None
                }
            };
            let answer = match answered {
                Ok((inner, response)) => Ok(with_stub(response, stub, media_type, inner, counted, &cx).await),
                Err(why) => Err(why),
            };
            // The page may be given up by now.
            let _ = through.send(answer);
        });
        (answer, inside)
    }
}

/// Whether an answer goes in where errors do not.
pub fn is_good(status: u16) -> bool {
    matches!(status, status::OK | status::NO_CONTENT)
}

/// Logs that an answer is left out.
pub fn left_out(inner: &Exchange, cx: &Cx) {
    let status = inner.reply.status;
    cx.local.logs.error(cx, inner, LogLevel::Warn, format_args!("an include answers {status}, and is left out"));
}

/// A request inside, for the log.
pub fn named(inner: &Exchange) -> String {
    // One of SSI was asked for by its URI, in the client's request.
    let url = inner.request.way.url.as_deref().unwrap_or(inner.asked.head.target());
    format!("\"{}\"", String::from_utf8_lossy(url))
}

/// Runs a request inside to its end. An error says why there is no answer.
async fn answered_by(inner: Inner, cx: &Cx, from: Inbound<'_>) -> Result<(Box<Exchange>, Response), String> {
    let (inner, response) = match inner {
        Inner::New(mut inner) => {
            let response = subrequest::run(&mut inner, cx, from).await;
            (inner, response)
        }
        Inner::Begun(Pending::Slow(mut inner, slow)) => {
            let response = subrequest::go_on(slow, &mut inner, cx, from).await;
            (inner, response)
        }
        Inner::Begun(Pending::Answer(inner, response)) => (inner, Some(response)),
        Inner::Begun(Pending::Failed(why)) => return Err(why),
    };
    match response {
        Some(response) => Ok((inner, response)),
        None => Err(format!("{} was closed", named(&inner))),
    }
}

/// Takes ranges, conditions and `Accept-Encoding` off a subrequest: a page includes whole, plain answers.
pub fn plain(inner: &mut Exchange) {
    const NOT_INSIDE: KnownSet = CONDITIONAL.and(KnownSet::of(&[Known::AcceptEncoding]));
    inner.asked.head.fields.remove_known(NOT_INSIDE);
}

/// The answer, or the `stub` block when the answer is empty. The block goes through SSI like the answer would.
async fn with_stub(
    response: Response,
    stub: Option<Bytes>,
    media_type: Option<Vec<u8>>,
    mut ex: Box<Exchange>,
    counted: Counted,
    cx: &Cx,
) -> Answer {
    let mut body = body_of(response.content, &mut ex, cx);
    if let Some(stub) = stub
        && body.is_empty(cx).await
    {
        if let Some(media_type) = media_type {
            ex.reply.fields.set("Content-Type", &media_type);
        }
        let response = lay_out_inside(Response::own(Content::Bytes(stub)), &mut ex, cx);
        body = Pieces::new(response.content, &ex);
    }
    Answer { ex, body, counted }
}
