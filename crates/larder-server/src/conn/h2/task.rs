//! A request of HTTP/2 that cannot be answered where it is read.

use larder_conf::model::LogLevel;

use crate::conn::Inbound;
use crate::conn::send::{self, Rest, SendError};
use crate::conn::sink::Sink;
use crate::context::Cx;
use crate::exchange::Exchange;
use crate::request::deliver::{self, Outgoing};
use crate::request::{self, Slow};

use super::Handle;

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
    let _running = cx.worker.exchange_begins();
    cx.worker.stats.writing.add(1);
    let laid_out = match what {
        What::Send(head, outgoing) => Some((head, outgoing)),
        What::Steps(slow) => request::finish(slow, &mut ex, &cx, Inbound::Stream(&handle)).await.map(|response| {
            let mut head = Vec::new();
            let outgoing = deliver::lay_out(response, &mut ex, &cx, &mut head);
            (head, outgoing)
        }),
    };
    if let Some((head, outgoing)) = laid_out {
        send_response(&head, outgoing, &mut ex, &cx, &mut handle).await;
    }
    drop(handle);
    cx.worker.stats.writing.sub(1);
    cx.local.logs.access(&mut ex, &cx);
    cx.worker.recycle(ex);
}

async fn send_response(head: &[u8], outgoing: Outgoing, ex: &mut Exchange, cx: &Cx, handle: &mut Handle) {
    let (outgoing, trailers) = match outgoing {
        Outgoing::Nothing => {
            ex.sent.0 += handle.send_head(head, true);
            ex.is_complete = true;
            return handle.finished();
        }
        Outgoing::Trailed(inner, trailers) => (*inner, trailers),
        Outgoing::Stream { reader, range, chunked, trailers } => {
            (Outgoing::Stream { reader, range, chunked, trailers: Vec::new() }, trailers)
        }
        Outgoing::Recoded { body, recoder, chunked, trailers } => {
            (Outgoing::Recoded { body, recoder, chunked, trailers: Vec::new() }, trailers)
        }
        other => (other, Vec::new()),
    };
    ex.sent.0 += handle.send_head(head, false);
    let rest = Rest::unsent(&[], outgoing);
    match send::rest(Sink::Stream(handle), rest, ex, cx).await {
        Ok(()) => {
            handle.finish(&trailers);
            ex.is_complete = true;
        }
        Err(SendError::TimedOut) => {
            cx.local.logs.error(cx, ex, LogLevel::Info, format_args!("client timed out while sending to client"));
        }
        Err(error @ SendError::Io(_)) => {
            cx.local.logs.error(cx, ex, LogLevel::Info, format_args!("{error} while sending to client"));
        }
        // The origin's failure is in the log already.
        Err(SendError::Incomplete(_)) => {}
    }
}
