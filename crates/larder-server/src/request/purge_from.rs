//! Purging where visitors come in: `larder_purge_from`. What a request means is read by [`crate::purges`].
//!
//! A page goes by its key, where the location of the request makes keys; all else by what pages know of themselves, their
//! URL and their tags, in the zones of the server.

use bytes::Bytes;
use larder_cache::Selection;
use larder_conf::model::LogLevel;
use larder_http::{Fields, status};
use subtle::ConstantTimeEq;

use crate::access;
use crate::bans;
use crate::context::Cx;
use crate::exchange::{Exchange, RequestBody};
use crate::policy::directives;
use crate::purges::apis::Form;
use crate::purges::deeds::{self, Deed, Meant};
use crate::purges::{Order, What, Wrong, dialects, said};
use crate::script::Answer;
use crate::site::{Handler, Keeps, PurgeRule};
use crate::vsl::Plain;

use super::{Content, Response, Slow, Step, purge_site, store};

/// What is carried out for one request, all of it or nothing.
pub struct Purges {
    /// What is done.
    pub deeds: Vec<Deed>,
    /// What was asked for, for the log.
    pub said: String,
    /// How the client is told of it.
    pub form: Form,
}

/// A request that may not purge, unless another directive lets it.
pub struct Forbidden;

/// The step for a request that purges; `None` for every other request.
pub fn asked(ex: &mut Exchange, cx: &Cx) -> Option<Result<Step, Forbidden>> {
    let rule = cx.loc(ex).modules.purging.as_ref()?;
    let orders = orders(rule, ex)?;
    if !may_purge(rule, ex) {
        return dialects::is_purge_method(crate::vars::method_name(ex)).then_some(Err(Forbidden));
    }
    if matches!(ex.request.body, RequestBody::Unread(_)) {
        // A request that breaks off, or has another length than it says, purges nothing (RFC 9113 §8.1.1).
        return Some(Ok(Slow::ReadBody.into()));
    }
    let purges = orders.map_err(|wrong| wrong.to_string()).and_then(|orders| {
        purge_site::check(&orders, ex, cx)?;
        let said = said::of_orders(&orders);
        planned(orders, ex, cx).map(|deeds| Purges { deeds, said, form: Form::Text })
    });
    Some(Ok(match purges {
        Ok(purges) => Slow::PurgePages(Box::new(purges)).into(),
        Err(why) => nothing(&why, &Form::Text, ex, cx),
    }))
}

/// The answer to a request that may not purge.
pub fn refused(_: Forbidden, ex: &mut Exchange, cx: &Cx) -> Step {
    let why = if says_secret(&ex.asked.head.fields) { "the secret is another" } else { "it sent no secret" };
    let text = format_args!("access forbidden by \"larder_purge_from\": the client's address may not purge, and {why}");
    cx.local.logs.error(cx, ex, LogLevel::Error, text);
    let text = "403: this client may not purge (larder_purge_from)\n".to_owned();
    told(status::FORBIDDEN, text, &Form::Text, ex)
}

/// Whether the request purges, or would if it might.
pub fn is_asked(ex: &Exchange, cx: &Cx) -> bool {
    let Some(rule) = &cx.loc(ex).modules.purging else { return false };
    let may = || may_purge(rule, ex) || dialects::is_purge_method(crate::vars::method_name(ex));
    orders(rule, ex).is_some() && may()
}

/// Whether the request has a method of purges, and comes from someone who may not purge by the directive.
pub fn is_forbidden(ex: &Exchange, cx: &Cx) -> bool {
    let Some(rule) = &cx.loc(ex).modules.purging else { return false };
    !ex.is_sub() && dialects::is_purge_method(crate::vars::method_name(ex)) && !may_purge(rule, ex)
}

/// Whether this answer of a `return` looks to a purge as if it had purged.
pub fn is_lost(answer: &Answer, ex: &Exchange, cx: &Cx) -> bool {
    let is_success = match answer {
        Answer::Status(status) | Answer::Text(status, _) => (200..300).contains(status),
        Answer::Redirect(..) => false,
    };
    let is_purge = || !ex.is_sub() && dialects::is_purge_method(crate::vars::method_name(ex));
    is_success && cx.loc(ex).modules.purging.is_some() && is_purge()
}

/// What the request asks for; `None` for one that does not purge.
fn orders(rule: &PurgeRule, ex: &Exchange) -> Option<Result<Vec<Order>, Wrong>> {
    // A subrequest has the method of its client's request.
    if ex.is_sub() {
        return None;
    }
    let orders = dialects::orders(dialects::Asked {
        method: crate::vars::method_name(ex),
        target: ex.asked.head.target(),
        fields: &ex.asked.head.fields,
        tag_fields: &rule.tag_fields,
    })?;
    Some(match orders {
        Ok(orders) if rule.all_schemes => Ok(orders.into_iter().map(Order::in_all_schemes).collect()),
        orders => orders,
    })
}

/// Whether the client is in one of the networks, or knows a secret.
pub fn may_purge(rule: &PurgeRule, ex: &Exchange) -> bool {
    ex.remote_ip().is_some_and(|ip| access::is_in(&rule.nets, ip)) || knows_secret(&rule.secrets, &ex.asked.head.fields)
}

/// Whether a field says one of the secrets. How long that takes says nothing of them but their length.
fn knows_secret(secrets: &[Box<[u8]>], fields: &Fields) -> bool {
    said_secrets(fields).any(|said| secrets.iter().fold(false, |knows, secret| knows | bool::from(secret.ct_eq(said))))
}

/// Whether a field says anything that may be a secret.
fn says_secret(fields: &Fields) -> bool {
    said_secrets(fields).next().is_some()
}

fn said_secrets(fields: &Fields) -> impl Iterator<Item = &[u8]> {
    let named = SECRET_FIELDS.iter().flat_map(|name| fields.get_all(name));
    fields.get_all("Authorization").filter_map(bearer).chain(named)
}

fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(BEARER.len())?;
    scheme.eq_ignore_ascii_case(BEARER).then(|| token.trim_ascii())
}

const BEARER: &[u8] = b"Bearer ";
/// The fields in which plugins send a secret.
const SECRET_FIELDS: [&str; 5] = ["X-Larder-Key", "X-Purge-Key", "Fastly-Key", "X-Auth-Key", "X-Invalidate-Token"];

/// What has to be done for these orders. An error says why one of them cannot be carried out, and then none is.
pub fn planned(orders: Vec<Order>, ex: &mut Exchange, cx: &Cx) -> Result<Vec<Deed>, String> {
    let zones = zones(ex, cx)?;
    let host: Box<[u8]> = store::host_of(ex, cx).into();
    let profile = cx.loc(ex).profile.as_deref();
    let mut deeds = Vec::new();
    for order in orders {
        let Order { what, how } = match profile {
            Some(profile) => order.of_page(|url| profile.kept_target(url)),
            None => order,
        };
        if matches!(what, What::Page(_))
            && let Some(Keys { zone, keys }) = own_keys(ex, cx)?
        {
            let of_key = |key: Vec<u8>| Meant::Selected(Selection::Key(key.into()), how);
            let keys: Vec<Meant> = keys.into_iter().map(of_key).collect();
            deeds.extend(deeds::in_zones(&keys, [cx.zone(zone)]));
            continue;
        }
        if matches!(what, What::Tags(_)) && !zones.iter().any(|zone| cx.zone(*zone).has_tags()) {
            return Err(format!("no page of {} has tags: see \"larder_cache_tags\"", purge_site::server(ex, cx)));
        }
        deeds.extend(deeds::in_zones(&deeds::meant(what, how, &host)?, zones.iter().map(|zone| cx.zone(*zone))));
    }
    Ok(deeds)
}

/// The keys of the page that a GET of this request would get, and of what a HEAD would get, in the zone of its location.
/// `None` where pages are found in another way: behind a VCL, in slices, or where the location has no cache.
fn own_keys(ex: &mut Exchange, cx: &Cx) -> Result<Option<Keys>, String> {
    let loc = cx.loc(ex);
    let Handler::Origin(origin) = &loc.handler else { return Ok(None) };
    let Some(cache) = origin.policy.directives().and_then(|policy| policy.cache.as_ref()) else { return Ok(None) };
    let is_page = !ex.asked.head.target().starts_with(b"/purge/") || crate::vars::method_name(ex) != b"GET";
    if loc.settings.parts.slice_bytes > 0 || !is_page {
        return Ok(None);
    }
    let Some(zone) = directives::zone(cache, ex, cx).map_err(|name| format!("cache \"{name}\" not found"))? else {
        return Ok(None);
    };
    Ok(Some(Keys { zone, keys: directives::page_keys(cache, &origin.backend, ex, cx) }))
}

/// Keys in a zone.
struct Keys {
    zone: usize,
    keys: Vec<Vec<u8>>,
}

/// The zones in which the locations of this server keep pages; where a variable names one, it is the one of this request.
fn zones(ex: &mut Exchange, cx: &Cx) -> Result<Vec<usize>, String> {
    let mut zones = Vec::new();
    for loc in cx.site().locations.get(cx.server(ex).locations.clone()).unwrap_or_default() {
        let zone = match loc.handler.keeps() {
            None => None,
            Some(Keeps::Zone(zone)) => Some(zone),
            Some(Keeps::Named(cache)) => {
                directives::zone(cache, ex, cx).map_err(|name| format!("cache \"{name}\" not found"))?
            }
        };
        zones.extend(zone.filter(|zone| !zones.contains(zone)));
    }
    Ok(zones)
}

/// Does it, and says so when it holds everywhere, and disks have noted it, or cannot, and other larders know it.
pub async fn purge(purges: Purges, ex: &mut Exchange, cx: &Cx) -> Step {
    let Purges { deeds, said, form } = purges;
    let (noted, now) = (deeds::noted(&deeds), cx.now());
    let done = tokio::task::spawn_blocking(move || deeds::carry_out(deeds, now)).await;
    let mut done =
        match done.map_err(|error| error.to_string()).and_then(|done| done.map_err(|error| error.to_string())) {
            Ok(done) => done,
            Err(why) => return failed(&why, &form, ex, cx),
        };
    match bans::kept(&noted).await {
        Ok(()) => {
            done.known = cx.worker.shared.sharing.known().await;
            cx.local.logs.error(cx, ex, LogLevel::Info, format_args!("{}", said::line(&said, &done)));
            told(status::OK, form.done(&done), &form, ex)
        }
        Err(why) => failed(&why.to_string(), &form, ex, cx),
    }
}

/// The answer to a request that cannot be carried out.
pub fn nothing(why: &str, form: &Form, ex: &mut Exchange, cx: &Cx) -> Step {
    let why = Plain(why);
    cx.local.logs.error(cx, ex, LogLevel::Error, format_args!("nothing is purged: {why}"));
    told(status::BAD_REQUEST, form.refused(status::BAD_REQUEST, &format!("Nothing is purged: {why}")), form, ex)
}

fn failed(why: &str, form: &Form, ex: &mut Exchange, cx: &Cx) -> Step {
    cx.local.logs.error(cx, ex, LogLevel::Error, format_args!("a purge: {why}"));
    told(status::INTERNAL_SERVER_ERROR, form.refused(status::INTERNAL_SERVER_ERROR, why), form, ex)
}

/// An answer in this form.
pub fn told(status: u16, text: String, form: &Form, ex: &mut Exchange) -> Step {
    ex.reply.status = status;
    ex.reply.fields.set("Content-Type", form.content_type().as_bytes());
    Step::Deliver(Response::own(Content::Bytes(Bytes::from(text))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_taken_from_the_fields_of_plugins() {
        let secrets: Vec<Box<[u8]>> = vec![(*b"first").into(), (*b"second").into()];
        for (name, value, expected) in [
            ("Authorization", "Bearer second", true),
            ("authorization", "bearer  first ", true),
            ("Authorization", "Basic first", false),
            ("Authorization", "Bearer ", false),
            ("Authorization", "first", false),
            ("X-Larder-Key", "first", true),
            ("X-Purge-Key", "second", true),
            ("Fastly-Key", "first", true),
            ("X-Auth-Key", "first", true),
            ("x-invalidate-token", "first", true),
            ("X-Larder-Key", "firs", false),
            ("X-Larder-Key", "first1", false),
            ("X-Larder-Key", "", false),
            ("X-Key", "first", false),
        ] {
            let mut fields = Fields::new();
            fields.push(name.as_bytes(), value.as_bytes());
            assert_eq!(knows_secret(&secrets, &fields), expected, "{name}: {value}");
            assert!(!knows_secret(&[], &fields));
        }
    }
}
