//! A walk: the steps of a request that is explained, up to where something would be sent, waited for or changed.
//!
//! The steps are those of every request. What follows them is decided here: a lookup becomes a look
//! (`walk_cache.rs`), limits and subrequests are assumed to let the request pass, and a response ends it.

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::policy;
use crate::site::{Handler, Origin, PurgePolicy};
use crate::text::Text;
use crate::vars::append_filename;
use crate::vsl::{Plain, Shown};

use super::notes::{assume, say, verdict};
use super::purge::Standing;
use super::{Entrance, Slow, Step, Synth, ban, files, purge, purge_from, reasons, walk_cache};

/// What the machine may do next in a walk: nothing that leaves a trace.
pub fn only_of_walks(mut step: Step, ex: &mut Exchange, cx: &Cx) -> Step {
    loop {
        step = match step {
            Step::Route(_) | Step::Find | Step::Redirect(_) | Step::Abort => return step,
            Step::Synth(synth) => {
                // An `error_page` may lead on.
                verdict(answered(&synth), ex);
                return Step::Synth(synth);
            }
            Step::Handle => handle(ex, cx),
            // It leads to an end, or to another beginning, of which there is a bounded number.
            Step::Lookup => walk_cache::look(ex, cx),
            Step::Restart => restart(ex, cx),
            Step::Slow(slow) => assumed(slow, ex),
            // These are laid out: it has been said what they come from.
            Step::LookInZone(_) | Step::Page(_) | Step::Deliver(_) | Step::Send(_) | Step::Part(_) => Step::Abort,
        };
    }
}

fn answered(synth: &Synth) -> String {
    match synth {
        Synth::Status(status) | Synth::Final(status) => format!("answered by larder itself: {status}"),
        Synth::Redirect(status, to) => format!("answered by larder itself: {status} to {}", Shown(to)),
        Synth::Text(status, _) => format!("answered by larder itself: {status}, by \"return\""),
    }
}

/// Lets the location answer, or says how it would.
fn handle(ex: &mut Exchange, cx: &Cx) -> Step {
    if matches!(cx.loc(ex).handler, Handler::Admin) {
        verdict("answered by the admin API: no cache is asked", ex);
        return Step::Abort;
    }
    if let Some(sentence) = bans(ex, cx).or_else(|| purge(ex, cx)) {
        verdict(sentence, ex);
        return Step::Abort;
    }
    match &cx.loc(ex).handler {
        Handler::Origin(_) | Handler::Vcl(_) => return Step::Lookup,
        Handler::Static => {
            // An index may lead to another location.
            let step = files::serve(ex, cx);
            if matches!(step, Step::Deliver(_)) {
                let mut path = Vec::new();
                append_filename(ex, cx, &mut path);
                verdict(format!("a file, {}: no cache is asked", Shown(&path)), ex);
            }
            return step;
        }
        Handler::Purge { .. } => verdict(purges("by its location".to_owned()), ex),
        Handler::Mp4 | Handler::Flv => verdict("a film: no cache is asked", ex),
        Handler::StubStatus | Handler::Metrics | Handler::Admin | Handler::Status | Handler::EmptyGif => {
            verdict("answered by larder itself: no cache is asked", ex);
        }
    }
    Step::Abort
}

/// What a ban by the client comes to; `None` for a request that is none.
fn bans(ex: &mut Exchange, cx: &Cx) -> Option<String> {
    let (rule, found) = ban::looked_at(ex, cx)?;
    let own =
        cx.site().place(rule.span).map_or_else(|| "larder_ban".to_owned(), |place| format!("larder_ban at {place}"));
    let client = client(ex);
    Some(match found {
        Ok(()) => {
            let zone = cx.zone(rule.zone).name();
            format!("it bans pages of zone {zone}, as {client} may by {own}: this is not done in a walk")
        }
        Err(ban::Refused::Forbidden) => format!("answered by larder itself: 403, as {client} may not ban by {own}"),
        Err(ban::Refused::Unclear(why)) => format!("answered by larder itself: 400, by {own}: {}", Plain(&why)),
    })
}

/// What a purge by the client comes to; `None` for a request that is none.
fn purge(ex: &mut Exchange, cx: &Cx) -> Option<String> {
    let loc = cx.loc(ex);
    let place = loc.settings.purging.from.as_ref().and_then(|from| cx.site().place(from.span));
    let own = place.map_or_else(|| "larder_purge_from".to_owned(), |place| format!("larder_purge_from at {place}"));
    let (is_asked, is_forbidden) = (purge_from::is_asked(ex, cx), purge_from::is_forbidden(ex, cx));
    if is_asked && !is_forbidden {
        return Some(purges(format!("as {} may by {own}", client(ex))));
    }
    let prefix = loc.handler.origin().map_or("*", |origin| reasons::prefix(&origin.backend.protocol));
    let directive = format!("{prefix}_cache_purge");
    match purge::standing_of(&loc.handler, ex) {
        Some(Standing::Purges) => return Some(purges(format!("as {} may by {directive}", client(ex)))),
        Some(Standing::Forbidden) => return Some(refused(&directive, ex)),
        Some(Standing::Asks) | None => {}
    }
    match &loc.handler {
        Handler::Origin(origin) if is_condition_true(origin, ex, cx) => Some(purges(format!("by {directive}"))),
        _ => is_asked.then(|| refused(&own, ex)),
    }
}

fn purges(why: String) -> String {
    format!("it purges pages, {why}: this is not done in a walk")
}

fn refused(directive: &str, ex: &Exchange) -> String {
    format!("answered by larder itself: 403, as {} may not purge by {directive}", client(ex))
}

fn client(ex: &Exchange) -> String {
    ex.remote_ip().map_or_else(|| "the client".to_owned(), |ip| ip.to_string())
}

/// Whether the request is one of those that `*_cache_purge` has purge by a condition.
fn is_condition_true(origin: &Origin, ex: &mut Exchange, cx: &Cx) -> bool {
    let Some(cache) = origin.policy.directives().and_then(|policy| policy.cache.as_ref()) else { return false };
    match &cache.purge {
        Some(PurgePolicy::When(conditions)) => Text::any_true(conditions, ex, cx),
        Some(PurgePolicy::Method(_)) | None => false,
    }
}

fn restart(ex: &mut Exchange, cx: &Cx) -> Step {
    ex.restart();
    if ex.request.way.restarts > policy::restarts_max(cx.origin(ex)) {
        verdict("answered with 503: too many restarts", ex);
        return Step::Abort;
    }
    say("restart", String::new(), None, ex);
    Step::Lookup
}

/// What follows if a step that waits lets the request pass.
fn assumed(slow: Slow, ex: &mut Exchange) -> Step {
    match slow {
        Slow::Ask(_) => {
            assume("auth_request", ex);
            ex.visit.auth_asked = true;
            Step::Route(Entrance::Limits)
        }
        Slow::Verify(_) => {
            assume("auth_basic", ex);
            ex.visit.authorized = true;
            Step::Route(Entrance::Limits)
        }
        Slow::Refuse(_) => {
            verdict("answered by larder itself: 401, after auth_delay", ex);
            Step::Abort
        }
        // Whether a token is of an order under way is not explained: the site answers all others.
        Slow::Challenge(_) => Step::Route(Entrance::Server),
        Slow::Delay(_)
        | Slow::Ban(_)
        | Slow::ReadBody
        | Slow::Wait(_)
        | Slow::Hold(_)
        | Slow::Share(_)
        | Slow::Load(_)
        | Slow::Purge(_)
        | Slow::PurgePages(_)
        | Slow::PurgeUrl(_)
        | Slow::PurgeFirst(_)
        | Slow::Known(_)
        | Slow::Film(_)
        | Slow::Fetch(_)
        | Slow::Gather(_)
        | Slow::Form(_) => Step::Abort,
    }
}
