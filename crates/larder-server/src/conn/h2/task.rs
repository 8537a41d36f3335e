//! A request of HTTP/2 that cannot be answered where it is read.

use larder_conf::model::LogLevel;

use crate::conn::at_once::Rest;
use crate::conn::send::{self, SendError};
use crate::context::Cx;
use crate::exchange::{Exchange, RequestBody, feed};
use crate::net::h2::Handle;
use crate::net::sink::Sink;
use crate::net::{BodySource, Inbound};
use crate::request::deliver::{self, Outgoing};
use crate::request::wire::Wire;
use crate::request::{self, Slow, added_fields};

/// An exchange that has to wait.
pub struct Work {
    /// The request.
    pub exchange: Box<Exchange>,
    /// What it runs under.
    pub cx: Cx,
    /// What is left to do.
    pub what: What,
}

/// What is left to do.
pub enum What {
    /// Steps that wait.
    Steps(Slow),
    /// A response, of which nothing has been sent: the field block, and what follows.
    Send(Vec<u8>, Outgoing),
}

/// Does it, to the log line.
pub async fn run(work: Work, mut handle: Handle) {
    let Work { exchange: mut ex, cx, what } = work;
    let _running = cx.worker.seats.begin();
    cx.worker.stats.writing.add(1);
    let _admission = match &what {
        What::Steps(_) => Some(cx.worker.gate.admit().await),
        // What it takes has been taken.
        What::Send(..) => None,
    };
    // One that is cut off is reset, as it has not been finished.
    let _ = cx.local.while_valid(answer(what, &mut ex, &cx, &mut handle)).await;
    let patience = cx.loc(&ex).settings.connection.lingering_timeout;
    if let RequestBody::Passing(feed) = &mut ex.request.body
        && feed.lacks_only_its_end()
    {
        // The client has sent all and is about to say so; a reset would tell it that something was wrong.
        let _ = tokio::time::timeout(patience, feed.run(BodySource::Stream(&handle))).await;
    }
    drop(handle);
    cx.worker.stats.writing.sub(1);
    cx.local.logs.access(&mut ex, &cx);
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
        // The origin's failure is in the log already.
        Err(SendError::Incomplete(_)) => {}
    }
}
