//! `mirror`: copies of a request go elsewhere, and what comes back is dropped (ngx_http_mirror_module).

use crate::conn::Inbound;
use crate::context::Cx;
use crate::exchange::{Exchange, RequestBody};

use super::{Step, subrequest};

/// Sends the copies, once a location; first reads the body, where they are to have it.
pub fn mirror(ex: &mut Exchange, cx: &Cx) -> Option<Step> {
    let loc = &cx.site().locations[ex.location];
    if loc.mirrors.is_empty() || ex.mirrored || ex.is_sub() {
        return None;
    }
    let has_body = loc.settings.subrequests.mirror_body;
    if has_body && matches!(ex.body, RequestBody::Unread(_)) {
        return Some(Step::ReadBody);
    }
    ex.mirrored = true;
    for uri in &loc.mirrors {
        let Some(mut copy) = subrequest::begin(ex, uri, &ex.args, cx) else { continue };
        copy.method = ex.method;
        if !has_body {
            copy.body = RequestBody::None;
        }
        if let Some(sub) = &mut copy.sub {
            sub.head_only = true;
        }
        send(copy, cx);
    }
    None
}

/// Runs a copy on its own: neither a slow mirror nor a client that leaves is in the way of the other.
fn send(mut copy: Box<Exchange>, cx: &Cx) {
    let cx = cx.clone();
    let running = cx.worker.exchange_begins();
    tokio::task::spawn_local(async move {
        let _running = running;
        // Its body is not read.
        drop(subrequest::run(&mut copy, &cx, Inbound::Nobody).await);
        subrequest::log(&mut copy, &cx);
    });
}
