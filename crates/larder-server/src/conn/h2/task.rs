//! Answers a request of HTTP/2 that has to wait for something.

use larder_conf::model::LogLevel;

use crate::conn::at_once::Rest;
use crate::conn::send::{self, SendError};
use crate::context::Cx;
use crate::counting;
use crate::exchange::{Exchange, RequestBody, feed};
use crate::net::h2::Handle;
use crate::net::sink::Sink;
use crate::net::{BodySource, Inbound};
use crate::records;
use crate::request::deliver::{self, Outgoing};
use crate::request::wire::Wire;
use crate::request::{self, Slow, added_fields};

/// An exchange that has to wait.
pub struct Work {
    /// The request and its response so far.
    pub exchange: Box<Exchange>,
    /// The worker, and the configuration under which the request began.
    pub cx: Cx,
    /// Where the work goes on.
    pub what: What,
}

/// Where the work of an exchange goes on.
pub enum What {
    /// Steps that have to wait.
    Steps(Slow),
    /// A response of which nothing has been sent: its field block and its body.
    Send(Vec<u8>, Outgoing),
}

/// Does the work, up to the log line.
pub async fn run(work: Work, mut handle: Handle) {
    let Work { exchange: mut ex, cx, what } = work;
    let _running = cx.worker.seats.begin();
    cx.worker.stats.writing.add(1);
    let _admission = match &what {
        What::Steps(_) => Some(cx.worker.gate.admit().await),
        // It holds its memory already and needs no admission.
        What::Send(..) => None,
    };
    // If it is cut off, the stream is reset, as it was not finished.
    let _ = cx.local.while_valid(answer(what, &mut ex, &cx, &mut handle)).await;
    let patience = cx.loc(&ex).settings.connection.lingering_timeout;
    if let RequestBody::Passing(feed) = &mut ex.request.body
        && feed.lacks_only_its_end()
    {
        // The client has sent the whole body and is about to end it; a reset would tell it that something went wrong.
        let _ = tokio::time::timeout(patience, feed.run(BodySource::Stream(&handle))).await;
    }
    drop(handle);
    cx.worker.stats.writing.sub(1);
    counting::finished(&ex, &cx);
    cx.local.logs.access(&mut ex, &cx);
    records::finished(&mut ex, &cx);
    cx.worker.recycle(ex);
}

async fn answer(what: What, ex: &mut Exchange, cx: &Cx, handle: &mut Handle) {
    let laid_out = match what {
        What::Send(head, outgoing) => Some((head, outgoing)),
        What::Steps(slow) => request::finish(slow, ex, cx, Inbound::Stream(handle)).await.map(|response| {
            let mut head = Vec::new();
            let outgoing = deliver::write(response, ex, cx, &mut head);
            (head, outgoing)
        }),
    };
    if let Some((head, outgoing)) = laid_out {
        send_response(&head, outgoing, ex, cx, handle).await;
    }
}

async fn send_response(head: &[u8], outgoing: Outgoing, ex: &mut Exchange, cx: &Cx, handle: &mut Handle) {
    let outgoing = match outgoing {
        Outgoing::Nothing => {
            ex.tally.sent.0 += handle.send_head(head, true);
            ex.tally.is_complete = true;
            return handle.finished();
        }
        Outgoing::Trailed(inner) => *inner,
        other => other,
    };
    handle.set_chunk(cx.loc(ex).settings.connection.http2_chunk_bytes);
    ex.tally.sent.0 += handle.send_head(head, false);
    let rest = Rest::unsent(&[], outgoing);
    let mut feed = ex.request.body.take_feed();
    let sending = send::rest(Sink::Stream(handle), rest, ex, cx);
    let sent = match feed.as_deref_mut() {
        None => sending.await,
        Some(feed) => feed::beside(feed, BodySource::Stream(handle), sending).await,
    };
    if let Some(feed) = feed {
        ex.request.body = RequestBody::Passing(feed);
    }
    match sent {
        Ok(()) => {
            let loc = cx.loc(ex);
            let trailers = added_fields::trailers(loc, ex.reply.status, Wire::Block, ex, cx);
            handle.finish(&trailers);
            ex.tally.is_complete = true;
        }
        Err(SendError::TimedOut) => {
            handle.timed_out();
            cx.local.logs.error(cx, ex, LogLevel::Info, format_args!("client timed out while sending to client"));
        }
        Err(error @ SendError::Io(_)) => {
            cx.local.logs.error(cx, ex, LogLevel::Info, format_args!("{error} while sending to client"));
        }
        Err(error @ SendError::File(_)) => {
            cx.local.logs.error(cx, ex, LogLevel::Alert, format_args!("{error} while sending response to client"));
        }
        // The origin's failure is in the log already.
        Err(SendError::Incomplete(_)) => {}
    }
}
