//! Banning by request: `larder_ban`.

use std::sync::Arc;

use bytes::Bytes;
use larder_cache::{Condition, Object};
use larder_conf::model::LogLevel;
use larder_http::status;

use crate::bans;
use crate::context::Cx;
use crate::exchange::{Exchange, RequestBody};
use crate::purges::said;
use crate::site::BanRule;
use crate::vsl::{Plain, Shown};

use super::{Content, Response, Slow, Step, Synth, purge};

/// What is to be banned.
pub struct Ban {
    /// The zone.
    zone: usize,
    /// Which of its pages.
    condition: Arc<dyn Condition<Object>>,
}

/// The step for a request that bans; `None` for every other request.
pub fn asked(ex: &mut Exchange, cx: &Cx) -> Option<Step> {
    let rule = rule(ex, cx)?;
    if !purge::is_from(rule.from.as_deref(), ex) {
        return Some(Step::Synth(Synth::Status(status::FORBIDDEN)));
    }
    if matches!(ex.request.body, RequestBody::Unread(_)) {
        return Some(Slow::ReadBody.into());
    }
    Some(match condition(rule, ex, cx) {
        Ok(condition) => Slow::Ban(Box::new(Ban { zone: rule.zone, condition })).into(),
        Err(why) => {
            let why = Plain(&why).to_string();
            cx.local.logs.error(cx, ex, LogLevel::Error, format_args!("\"larder_ban\": {why}"));
            told(status::BAD_REQUEST, &why, ex)
        }
    })
}

/// What a request asks to ban, in a walk: where, and whether it may and can be understood. `None` for one that does not ban.
pub fn looked_at<'a>(ex: &mut Exchange, cx: &'a Cx) -> Option<(&'a BanRule, Result<(), Refused>)> {
    let rule = rule(ex, cx)?;
    let is_allowed = purge::is_from(rule.from.as_deref(), ex);
    let found = match is_allowed {
        true => condition(rule, ex, cx).map(drop).map_err(Refused::Unclear),
        false => Err(Refused::Forbidden),
    };
    Some((rule, found))
}

/// Why a request does not ban.
pub enum Refused {
    /// Its client may not.
    Forbidden,
    /// What it says is no condition, as the text says.
    Unclear(String),
}

/// The rule of a request that bans.
fn rule<'a>(ex: &Exchange, cx: &'a Cx) -> Option<&'a BanRule> {
    let rule = cx.loc(ex).modules.ban.as_ref()?;
    // A subrequest has the method of its client's request.
    (!ex.is_sub() && crate::vars::method_name(ex) == &rule.method[..]).then_some(rule)
}

fn condition(rule: &BanRule, ex: &mut Exchange, cx: &Cx) -> Result<Arc<dyn Condition<Object>>, String> {
    let text = rule.text.value(ex, cx);
    match str::from_utf8(&text) {
        Ok(text) => bans::of_text(text).map_err(|refused| refused.to_string()),
        Err(_) => Err("it is not UTF-8".to_owned()),
    }
}

/// Whether the request has the method of bans, and comes from an address that may not ban.
pub fn is_forbidden(ex: &Exchange, cx: &Cx) -> bool {
    let Some(rule) = &cx.loc(ex).modules.ban else { return false };
    crate::vars::method_name(ex) == &rule.method[..] && !purge::is_from(rule.from.as_deref(), ex)
}

/// Bans it, and says so when its disks have noted it, or cannot.
pub async fn ban(ban: Ban, ex: &mut Exchange, cx: &Cx) -> Step {
    let zone = Arc::clone(cx.zone(ban.zone));
    let text = ban.condition.text().to_owned();
    zone.ban(ban.condition, cx.now());
    match bans::kept(&[zone]).await {
        Ok(()) => {
            let said = said::shortened([Shown(text.as_bytes())]);
            cx.local.logs.error(cx, ex, LogLevel::Info, format_args!("banned: {said}"));
            let mut answer = format!("Banned: {}", Plain(&text));
            if let Some(known) = cx.worker.shared.sharing.known().await {
                answer.push_str(&format!("\n{}", Plain(&known.text())));
            }
            told(status::OK, &answer, ex)
        }
        Err(why) => {
            cx.local.logs.error(cx, ex, LogLevel::Error, format_args!("\"larder_ban\": {why}"));
            told(status::INTERNAL_SERVER_ERROR, &why.to_string(), ex)
        }
    }
}

/// An answer in plain text.
fn told(status: u16, text: &str, ex: &mut Exchange) -> Step {
    ex.reply.status = status;
    ex.reply.fields.set("Content-Type", b"text/plain");
    Step::Deliver(Response::own(Content::Bytes(Bytes::from(format!("{text}\n")))))
}
