//! `mirror`: copies of a request go elsewhere, and what comes back is dropped (ngx_http_mirror_module).

use std::rc::Rc;

use larder_conf::model::LogLevel;

use crate::context::Cx;
use crate::exchange::{Exchange, RequestBody};
use crate::net::Inbound;
use crate::records;
use crate::worker::Worker;

use super::{Slow, Step, subrequest};

/// Whether the request has copies that are still to be sent.
pub fn is_copied(ex: &Exchange, cx: &Cx) -> bool {
    !cx.loc(ex).subrequests.mirrors.is_empty() && !ex.visit.mirrored && !ex.is_sub()
}

/// Sends the copies, once a location; first reads the body, where they are to have it.
pub fn mirror(ex: &mut Exchange, cx: &Cx) -> Option<Step> {
    let loc = cx.loc(ex);
    if !is_copied(ex, cx) {
        return None;
    }
    let has_body = loc.settings.subrequests.mirror_body;
    if has_body && matches!(ex.request.body, RequestBody::Unread(_)) {
        return Some(Slow::ReadBody.into());
    }
    ex.visit.mirrored = true;
    for uri in &loc.subrequests.mirrors {
        let Some(mut copy) = subrequest::begin(ex, uri, &ex.request.args, cx) else { continue };
        copy.request.method = ex.request.method;
        if !has_body {
            copy.request.body = RequestBody::None;
        }
        if let Some(sub) = &mut copy.request.nested.sub {
            sub.head_only = true;
        }
        records::begin_inside(ex, &mut copy, "mirror", cx);
        send(copy, cx);
    }
    None
}

/// Runs a copy in a task of its own: a slow mirror does not delay the client, and the copy goes on when the client
/// leaves.
fn send(mut copy: Box<Exchange>, cx: &Cx) {
    let Some(copied) = Copied::begin(cx) else {
        let why = format_args!("{COPIES_MAX} copies are on their way to mirrors: this one is dropped");
        return cx.local.logs.error(cx, &copy, LogLevel::Error, why);
    };
    let cx = cx.clone();
    let running = cx.worker.seats.begin();
    tokio::task::spawn_local(async move {
        let (_running, _copied) = (running, copied);
        // Its body is not read.
        drop(subrequest::run(&mut copy, &cx, Inbound::Nobody).await);
        subrequest::log(&mut copy, &cx);
    });
}

/// How many copies a worker has on their way at once; nobody waits for them, so nothing else bounds them.
const COPIES_MAX: usize = 1024;

/// Counts a copy that is on its way.
struct Copied(Rc<Worker>);

impl Copied {
    fn begin(cx: &Cx) -> Option<Self> {
        let count = cx.worker.mirrored.get();
        (count < COPIES_MAX).then(|| {
            cx.worker.mirrored.set(count + 1);
            Self(Rc::clone(&cx.worker))
        })
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        self.0.mirrored.set(self.0.mirrored.get().saturating_sub(1));
    }
}
