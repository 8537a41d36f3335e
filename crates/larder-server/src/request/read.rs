//! A request that larder makes to itself to read the answer: a sitemap. It asks as a [refill](super::refill) does, as nobody in
//! particular.

use std::rc::Rc;
use std::time::Duration;

use larder_http::status;

use crate::context::Cx;
use crate::exchange::{Exchange, Purpose};
use crate::net::Inbound;
use crate::site::{Handler, Listener};
use crate::worker::Worker;

use super::plan::Plan;
use super::refill::{SECURED_BEFORE, begin, first_lines};
use super::{Content, Step, files, gate, pieces, subrequest};

/// What an answer has.
pub enum Read {
    /// The body of a 200.
    Body(Vec<u8>),
    /// Where it is to be looked for instead: a path, or a URL.
    Moved(Vec<u8>),
    /// Nothing, as the origin has enough to do.
    Busy,
}

/// What is read, as a request asks for it.
pub struct Wanted<'a> {
    /// Path and query.
    pub uri: &'a str,
    /// The host, which leads to a server at the listener.
    pub host: &'a str,
    /// The port in `Host`.
    pub port: Option<u16>,
    /// Whether a proxy in front of larder would have said that it came by https.
    pub is_secured_before: bool,
}

/// Reads what is wanted. An error says what is wrong.
pub async fn read(wanted: &Wanted<'_>, listener: &Listener, worker: &Rc<Worker>) -> Result<Read, String> {
    let cx = worker.cx();
    let mut head = first_lines(b"GET ", wanted.uri.as_bytes(), wanted.host.as_bytes(), wanted.port);
    head.extend_from_slice(b"User-Agent: larder (sitemap)\r\n");
    if wanted.is_secured_before {
        head.extend_from_slice(SECURED_BEFORE);
    }
    head.extend_from_slice(b"\r\n");
    let (step, mut ex) = begin(&head, listener, Purpose::Read, worker, &cx)?;
    let read = tokio::time::timeout(TIME_MAX, answer(step, &mut ex, &cx)).await;
    worker.recycle(ex);
    read.unwrap_or_else(|_| Err(format!("it is not whole after {} s", TIME_MAX.as_secs())))
}

async fn answer(step: Step, ex: &mut Exchange, cx: &Cx) -> Result<Read, String> {
    let settled = super::run(step, ex, cx, Inbound::Nobody).await;
    let Some(response) = settled.and_then(|settled| settled.into_part()) else {
        return match cx.origin(ex).is_some_and(|origin| !gate::is_idle(&origin.backend, cx)) {
            true => Ok(Read::Busy),
            false => Err("not everybody may ask for it, or it is neither a file nor of an origin".to_owned()),
        };
    };
    match ex.reply.status {
        status::OK => body(response.content, ex, cx).await.map(Read::Body),
        moved if status::is_redirect(moved) => match ex.reply.fields.get("Location") {
            Some(to) => Ok(Read::Moved(to.to_vec())),
            None => Err(format!("the answer is a {moved} that does not say where to")),
        },
        other => Err(format!("the answer is a {other}")),
    }
}

async fn body(content: Content, ex: &mut Exchange, cx: &Cx) -> Result<Vec<u8>, String> {
    let (mut body, mut bytes) = (pieces::body_of(content, ex, cx), Vec::new());
    while let Some(piece) = body.next(cx).await? {
        if bytes.len() + piece.len() > BYTES_MAX {
            return Err(format!("it has more than {BYTES_MAX} bytes"));
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

/// `step`, if it is on the way to an answer that larder reads; else the end. It purges nothing.
pub fn only_of_reads(step: Step, ex: &mut Exchange, cx: &Cx) -> Step {
    match step {
        Step::Handle => match &cx.loc(ex).handler {
            Handler::Static => match files::serve(ex, cx) {
                Step::Deliver(response) => Step::Part(subrequest::lay_out(response, ex, cx)),
                step => step,
            },
            // Past the cache, which may have an older one.
            Handler::Origin(origin) if origin.policy.directives().is_some() && gate::is_idle(&origin.backend, cx) => {
                ex.upstream.reset();
                Plan::pass().into()
            }
            _ => Step::Abort,
        },
        Step::Deliver(response) => Step::Part(subrequest::lay_out(response, ex, cx)),
        Step::Route(_) | Step::Find | Step::Redirect(_) | Step::Restart | Step::Synth(_) | Step::Part(_) => step,
        _ => Step::Abort,
    }
}

/// How long an answer may take until its end.
const TIME_MAX: Duration = Duration::from_secs(120);
/// How long it may be: what a sitemap may have by its protocol.
const BYTES_MAX: usize = crate::refill::SITEMAP_BYTES_MAX;
