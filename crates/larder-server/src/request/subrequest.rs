//! A request inside another one: from its URI to a response whose body is still to be read.
//!
//! It goes the way of every request, from the rewrites of the server on. But access rules are not asked, and
//! conditions, ranges and compression do not apply to its answer.

use std::future::Future;
use std::pin::Pin;

use larder_conf::model::LogLevel;

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::net::Inbound;
use crate::records;

use super::{Entrance, Response, Slow, Step, page};

/// A request for `uri` inside `outer`. `None` when too many lie in each other already, which the log says.
pub fn begin(outer: &Exchange, uri: &[u8], args: &[u8], cx: &Cx) -> Option<Box<Exchange>> {
    if outer.request.nested.left() == 0 {
        cx.local.logs.error(
            cx,
            outer,
            LogLevel::Error,
            format_args!("subrequests cycle while processing \"{}\"", String::from_utf8_lossy(uri)),
        );
        return None;
    }
    if outer.request.nested.sub.as_ref().is_some_and(|sub| sub.in_memory) {
        let uri = String::from_utf8_lossy(uri);
        cx.local.logs.error(cx, outer, LogLevel::Error, format_args!("nested in-memory subrequest \"{uri}\""));
        return None;
    }
    let mut inner = outer.inside(uri.to_vec(), args.to_vec());
    inner.asked.started = cx.now();
    Some(inner)
}

/// Runs it until there is a response, whose head is in `ex`; `None` when the whole request has to end.
///
/// The future is boxed, as requests lie in each other.
pub fn run<'a>(
    ex: &'a mut Exchange,
    cx: &'a Cx,
    from: Inbound<'a>,
) -> Pin<Box<dyn Future<Output = Option<Response>> + 'a>> {
    Box::pin(async move { super::run(Step::Route(Entrance::Server), ex, cx, from).await?.into_part() })
}

/// The same for one that waits.
pub fn go_on<'a>(
    slow: Slow,
    ex: &'a mut Exchange,
    cx: &'a Cx,
    from: Inbound<'a>,
) -> Pin<Box<dyn Future<Output = Option<Response>> + 'a>> {
    Box::pin(async move { super::finish(slow, ex, cx, from).await?.into_part() })
}

/// The last step of one: the response with its head in `ex`, to be put together where the location says so.
pub fn lay_out(response: Response, ex: &mut Exchange, cx: &Cx) -> Response {
    let response = page::laid_out(response, ex, cx);
    ex.take_error_status();
    response
}

/// Writes its log line, where its location asks for one.
pub fn log(ex: &mut Exchange, cx: &Cx) {
    records::finished(ex, cx);
    if cx.loc(ex).settings.logs.subrequests {
        ex.tally.is_complete = true;
        cx.local.logs.access(ex, cx);
    }
}
