//! Which client may: its address as a trusted proxy tells it, limits, `allow` and `deny`, passwords.

use std::os::unix::ffi::OsStrExt as _;

use larder_conf::model::LogLevel;
use larder_http::proxy_protocol::Addresses;
use larder_http::{Known, status};

use crate::access::{FORBIDDEN_TEXT, Peer, Verdict, check};
use crate::auth::{self, AuthError, Claim};
use crate::context::Cx;
use crate::exchange::Exchange;
use crate::limit::{
    CONN_KEY_BYTES_MAX, LimitReq, Outcome, REQ_KEY_BYTES_MAX, ReqVerdict, excess_text, limit_conn, limit_req,
};
use crate::realip::{self, Trusted};
use crate::site::LimitPart;

use super::{Entrance, Slow, Step, Synth, notes};

/// The client as access rules see it.
fn peer(ex: &Exchange) -> Peer {
    ex.remote_ip().map_or(Peer::Unix, Peer::Ip)
}

/// Takes the client's address from the field that `real_ip_header` names, when the peer is trusted.
/// Asked at the server's level and, as in nginx, again at the location's; found once, it stays.
pub fn find_real_ip(ex: &mut Exchange, cx: &Cx) {
    let settings = &cx.loc(ex).settings;
    if settings.real_ip.from.is_empty() || ex.asked.real_ip.is_some() {
        return;
    }
    let trusted = Trusted::new(&settings.real_ip.from);
    if settings.real_ip.proxy_protocol {
        if let Some(header) = &ex.asked.client.proxy
            && let Addresses::Inet { source, .. } = header.addresses
            && trusted.contains(peer(ex))
        {
            ex.asked.real_ip = Some((source.ip(), source.port()));
        }
        return;
    }
    let name = &settings.real_ip.header;
    // Only X-Forwarded-For is a list over several lines; of any other field the first line counts.
    let lines = if name.eq_ignore_ascii_case("X-Forwarded-For") { usize::MAX } else { 1 };
    let values: Vec<&[u8]> = ex.asked.head.fields.get_all(name).take(lines).collect();
    let told = realip::forwarded(peer(ex), &trusted, values.into_iter(), settings.real_ip.recursive);
    if let Some(told) = told {
        ex.asked.real_ip = Some((told.ip, told.port.unwrap_or(0)));
    }
}

/// Asks `limit_req` and `limit_conn`, once a request. `None` lets it pass. One that is delayed holds no connection
/// limit meanwhile, as in nginx.
pub fn limits(ex: &mut Exchange, cx: &Cx) -> Option<Step> {
    let access = &cx.loc(ex).access;
    if !ex.request.limits.req_asked && !access.limit_reqs.is_empty() {
        ex.request.limits.req_asked = true;
        if ex.is_walk() {
            notes::assume("limit_req", ex);
            return limits(ex, cx);
        }
        if let Some(step) = limit_requests(ex, cx) {
            return Some(step);
        }
    }
    if !ex.request.limits.conn_asked && !access.limit_conns.is_empty() {
        ex.request.limits.conn_asked = true;
        if ex.is_walk() {
            notes::assume("limit_conn", ex);
            return None;
        }
        return limit_connections(ex, cx);
    }
    None
}

fn limit_connections(ex: &mut Exchange, cx: &Cx) -> Option<Step> {
    let site = cx.site();
    let loc = cx.loc(ex);
    let keys: Vec<Vec<u8>> =
        loc.access.limit_conns.iter().map(|&(zone, _)| site.limits.connections[zone].key.value(ex, cx)).collect();
    for (&(zone, _), key) in loc.access.limit_conns.iter().zip(&keys) {
        complain_of_length(key, CONN_KEY_BYTES_MAX, &site.limits.connections[zone].name, ex, cx);
    }
    let limits = loc
        .access
        .limit_conns
        .iter()
        .zip(&keys)
        .map(|(&(zone, most), key)| (&site.limits.connections[zone].state, &key[..], most));
    match limit_conn(limits) {
        Ok(guards) => {
            // Where no limit was about it, another location may ask again.
            ex.request.limits.conn_asked = !guards.is_empty();
            ex.request.limits.conn_status = (!guards.is_empty()).then_some("PASSED");
            ex.tally.guards = guards;
            for (&(zone, _), _) in loc.access.limit_conns.iter().zip(&keys).filter(|(_, key)| !key.is_empty()) {
                site.limits.connections[zone].state.outcomes.add(Outcome::Passed);
            }
            None
        }
        Err((which, refusal)) => {
            let LimitPart { name: zone, state, .. } = &site.limits.connections[loc.access.limit_conns[which].0];
            let is_dry = loc.settings.limits.conn.dry_run;
            state.outcomes.add(if is_dry { Outcome::RejectedDry } else { Outcome::Rejected });
            let dry = if is_dry { ", dry run," } else { "" };
            cx.local.logs.error(
                cx,
                ex,
                loc.settings.limits.conn.log_level,
                format_args!("{refusal}{dry} by zone \"{zone}\""),
            );
            ex.request.limits.conn_status = Some(if dry.is_empty() { "REJECTED" } else { "REJECTED_DRY_RUN" });
            (!is_dry).then_some(Step::Synth(Synth::Status(loc.settings.limits.conn.status)))
        }
    }
}

fn limit_requests(ex: &mut Exchange, cx: &Cx) -> Option<Step> {
    let site = cx.site();
    let loc = cx.loc(ex);
    let keys: Vec<Vec<u8>> =
        loc.access.limit_reqs.iter().map(|&(zone, ..)| site.limits.requests[zone].key.value(ex, cx)).collect();
    for (&(zone, ..), key) in loc.access.limit_reqs.iter().zip(&keys) {
        complain_of_length(key, REQ_KEY_BYTES_MAX, &site.limits.requests[zone].name, ex, cx);
    }
    let limits: Vec<LimitReq<'_>> = loc
        .access
        .limit_reqs
        .iter()
        .zip(&keys)
        .map(|(&(zone, burst, delay), key)| LimitReq { zone: &site.limits.requests[zone].state, key, burst, delay })
        .collect();
    let dry = loc.settings.limits.req.dry_run;
    let how = if dry { ", dry run" } else { "" };
    let name = |which: usize| &site.limits.requests[loc.access.limit_reqs[which].0].name;
    let count = |which: usize, outcome| limits[which].zone.outcomes.add(outcome);
    // What the others of several have let pass is counted when none refuses.
    let passed = |but: Option<usize>| {
        let others = (0..limits.len()).filter(|at| Some(*at) != but && !limits[*at].key.is_empty());
        others.for_each(|at| count(at, Outcome::Passed));
    };
    match limit_req(&limits, cx.now()) {
        ReqVerdict::Unlimited => {
            ex.request.limits.req_asked = false;
            None
        }
        ReqVerdict::Pass => {
            passed(None);
            ex.request.limits.req_status = Some("PASSED");
            None
        }
        ReqVerdict::Delay { wait, excess, limit } => {
            passed(Some(limit));
            count(limit, if dry { Outcome::DelayedDry } else { Outcome::Delayed });
            ex.request.limits.req_status = Some(if dry { "DELAYED_DRY_RUN" } else { "DELAYED" });
            // nginx writes of delays one level below refusals.
            let level = one_less(loc.settings.limits.req.log_level);
            cx.local.logs.error(
                cx,
                ex,
                level,
                format_args!("delaying request{how}, excess: {}, by zone \"{}\"", excess_text(excess), name(limit)),
            );
            (!dry).then_some(Slow::Delay(wait).into())
        }
        ReqVerdict::Reject { excess, limit } => {
            count(limit, if dry { Outcome::RejectedDry } else { Outcome::Rejected });
            ex.request.limits.req_status = Some(if dry { "REJECTED_DRY_RUN" } else { "REJECTED" });
            let level = loc.settings.limits.req.log_level;
            cx.local.logs.error(
                cx,
                ex,
                level,
                format_args!("limiting requests{how}, excess: {} by zone \"{}\"", excess_text(excess), name(limit)),
            );
            (!dry).then_some(Step::Synth(Synth::Status(loc.settings.limits.req.status)))
        }
    }
}

/// A request whose key is too long is not limited; the log says so.
fn complain_of_length(key: &[u8], bytes_max: usize, zone: &str, ex: &Exchange, cx: &Cx) {
    if key.len() > bytes_max {
        let key = String::from_utf8_lossy(key);
        let told = format_args!("the value of the key of zone \"{zone}\" is more than {bytes_max} bytes: \"{key}\"");
        cx.local.logs.error(cx, ex, LogLevel::Error, told);
    }
}

/// The client has left while its request waited.
pub fn left(ex: &mut Exchange, cx: &Cx) -> Step {
    cx.local.logs.error(cx, ex, LogLevel::Info, format_args!("client prematurely closed connection"));
    ex.reply.status = status::CLIENT_CLOSED_REQUEST;
    Step::Abort
}

fn one_less(level: LogLevel) -> LogLevel {
    match level {
        LogLevel::Emerg | LogLevel::Alert | LogLevel::Crit | LogLevel::Error => LogLevel::Warn,
        LogLevel::Warn => LogLevel::Notice,
        LogLevel::Notice => LogLevel::Info,
        LogLevel::Info => LogLevel::Info,
        LogLevel::Debug => LogLevel::Debug,
    }
}

/// `allow`, `deny`, `auth_basic` and `auth_request`, joined by `satisfy`. `None` lets the request pass.
pub fn access(ex: &mut Exchange, cx: &Cx) -> Option<Step> {
    let loc = cx.loc(ex);
    if ex.is_unasked() {
        // What it stores is for everybody: nothing that somebody unknown would not get.
        let asks = loc.access.auth_basic.is_some() || loc.subrequests.auth_request.is_some();
        let is_denied = check(&loc.settings.access.rules, peer(ex)) == Verdict::Denied;
        return (asks || is_denied).then_some(Step::Abort);
    }
    let asks = loc.subrequests.auth_request.is_some() && !ex.visit.auth_asked;
    if ex.visit.authorized {
        return asks.then(|| Slow::Ask(Box::new(Ask { refused: None })).into());
    }
    let by_address = check(&loc.settings.access.rules, peer(ex));
    let any = loc.settings.access.satisfy_any;
    let is_denied = match by_address {
        Verdict::Allowed if any => return None,
        Verdict::Denied if !any => return Some(forbidden(ex, cx)),
        Verdict::Denied => true,
        Verdict::Allowed | Verdict::NoRule => false,
    };
    let refused = match password(ex, cx) {
        Some(Asked::Granted) if any => return None,
        Some(Asked::Granted) => None,
        Some(Asked::Not(step @ Step::Slow(Slow::Verify(_)))) => return Some(step),
        Some(Asked::Not(step)) if !any => return Some(step),
        Some(Asked::Not(step)) => Some(step),
        // `auth_request` is asked last, and decides.
        None if is_denied && asks => Some(Step::Synth(Synth::Status(status::FORBIDDEN))),
        None if is_denied => Some(forbidden(ex, cx)),
        None => None,
    };
    match asks {
        true => Some(Slow::Ask(Box::new(Ask { refused })).into()),
        false => refused,
    }
}

/// A 401 goes out after `auth_delay`, so that its timing tells little about what was wrong.
pub fn delayed(step: Step, ex: &Exchange, cx: &Cx) -> Step {
    let delay = cx.loc(ex).settings.access.auth_delay;
    if delay.is_zero() || !matches!(step, Step::Synth(Synth::Status(status::UNAUTHORIZED))) {
        return step;
    }
    cx.local.logs.error(cx, ex, LogLevel::Info, format_args!("delaying unauthorized request"));
    Slow::Refuse(delay).into()
}

enum Asked {
    Granted,
    Not(Step),
}

fn forbidden(ex: &mut Exchange, cx: &Cx) -> Step {
    cx.local.logs.error(cx, ex, LogLevel::Error, format_args!("{FORBIDDEN_TEXT}"));
    Step::Synth(Synth::Status(status::FORBIDDEN))
}

/// Asks for a password; `None` where none is asked for.
fn password(ex: &mut Exchange, cx: &Cx) -> Option<Asked> {
    let (realm, file) = cx.loc(ex).access.auth_basic.as_ref()?;
    let realm = realm.value(ex, cx);
    if realm == b"off" {
        return None;
    }
    let file = file.as_ref()?.value(ex, cx);
    let path = cx.site().conf_prefix.join(std::ffi::OsStr::from_bytes(&file));
    Some(match auth::find(ex.asked.head.fields.get_known(Known::Authorization), &path) {
        Ok(claim) if claim.is_slow() => Asked::Not(Slow::Verify(Box::new(Verification { claim, realm })).into()),
        Ok(claim) => match claim.verify() {
            Ok(_) => Asked::Granted,
            Err(error) => Asked::Not(refused(&error, &realm, ex, cx)),
        },
        Err(error) => Asked::Not(refused(&error, &realm, ex, cx)),
    })
}

/// `auth_request`: a question that has to be asked, and what was decided without it.
pub struct Ask {
    /// With `satisfy any`: the refusal of the rules that were asked before.
    pub refused: Option<Step>,
}

/// A password whose check takes long.
pub struct Verification {
    claim: Claim,
    realm: Vec<u8>,
}

/// Checks a password on a thread made for that, so that the worker's other connections do not wait.
pub async fn verify(verification: Verification, ex: &mut Exchange, cx: &Cx) -> Step {
    let Verification { claim, realm } = verification;
    match tokio::task::spawn_blocking(move || claim.verify()).await {
        Ok(Ok(_)) => {
            ex.visit.authorized = true;
            // With `satisfy any` one is enough.
            ex.visit.auth_asked |= cx.loc(ex).settings.access.satisfy_any;
            Step::Route(Entrance::Limits)
        }
        Ok(Err(error)) => {
            let step = refused(&error, &realm, ex, cx);
            let loc = cx.loc(ex);
            match loc.settings.access.satisfy_any && loc.subrequests.auth_request.is_some() && !ex.visit.auth_asked {
                true => Slow::Ask(Box::new(Ask { refused: Some(step) })).into(),
                false => delayed(step, ex, cx),
            }
        }
        Err(_) => Step::Synth(Synth::Status(status::INTERNAL_SERVER_ERROR)),
    }
}

fn refused(error: &AuthError, realm: &[u8], ex: &mut Exchange, cx: &Cx) -> Step {
    cx.local.logs.error(cx, ex, error.level(), format_args!("{error}"));
    if error.status() == status::UNAUTHORIZED {
        ex.reply.fields.set("WWW-Authenticate", &auth::challenge(realm));
    }
    Step::Synth(Synth::Status(error.status()))
}
