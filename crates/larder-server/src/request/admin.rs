//! The admin API: what a `listen` with `larder_admin` answers. Who may is settled before the body is read. No GET changes anything,
//! and what a page in a browser sends is refused ([`from_page`]).

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use larder_conf::model::LogLevel;
use larder_http::status;

use crate::context::Cx;
use crate::exchange::{Exchange, RequestBody};
use crate::purges::apis::{self, Api, Form, Said};
use crate::purges::deeds::{self, Deed};
use crate::purges::wanted::NO_TAGS;
use crate::purges::{Order, What, dialects, said};

use super::purge_from::{Purges, may_purge, nothing, told};
use super::{Slow, Step, counted, from_page, store};

/// What a request is for.
#[derive(Debug, PartialEq, Eq)]
enum Route {
    /// It purges in the words of an API.
    Purge(Api),
    /// It asks what is counted.
    Status,
    /// It purges in the words of plugins, by its method, whatever its path is.
    Plugin,
    /// Its path has no such method.
    NotAllowed(Api),
    /// Nothing is here.
    Unknown,
}

/// Finds out by method and path what a request is for. Everything that is at this listener begins here.
fn route(method: &[u8], target: &[u8]) -> Route {
    if dialects::is_purge_method(method) {
        // Fastly's older way to name one URL.
        let is_url = method == b"PURGE" && (target.starts_with(b"/http://") || target.starts_with(b"/https://"));
        return if is_url { Route::Purge(Api::FastlyUrl(target[1..].into())) } else { Route::Plugin };
    }
    if is_status(target) {
        return Route::Status;
    }
    match Api::find(target) {
        Some(api) if api.methods().iter().any(|known| known.as_bytes() == method) => Route::Purge(api),
        Some(api) => Route::NotAllowed(api),
        None => Route::Unknown,
    }
}

/// Answers, or says what is needed first.
pub fn handle(ex: &mut Exchange, cx: &Cx) -> Step {
    let route = route(crate::vars::method_name(ex), ex.asked.head.target());
    let form = match &route {
        Route::Purge(api) | Route::NotAllowed(api) => api.form(None, String::new()),
        Route::Plugin => Form::Text,
        Route::Unknown | Route::Status => Form::Own,
    };
    if let Some(why) = from_page::by_any_page(&ex.asked.head.fields) {
        return refused(status::FORBIDDEN, why, &form, ex, cx);
    }
    if cx.loc(ex).modules.purging.as_ref().is_some_and(|rule| !may_purge(rule, ex)) {
        let why = "neither the address nor a secret of this request is in \"larder_purge_from\" of this server";
        return refused(status::FORBIDDEN, why, &form, ex, cx);
    }
    let api = match route {
        Route::Purge(api) => api,
        Route::Plugin => return by_plugin(ex, cx),
        Route::Status => return counted::handle(ex, cx),
        Route::NotAllowed(api) => {
            let methods = api.methods().iter().chain(&METHODS_OF_PLUGINS).copied().collect::<Vec<_>>().join(", ");
            let step = refused(status::NOT_ALLOWED, &format!("the methods here are {methods}"), &form, ex, cx);
            ex.reply.fields.set("Allow", methods.as_bytes());
            return step;
        }
        Route::Unknown => return refused(status::NOT_FOUND, PATHS, &form, ex, cx),
    };
    let body = match &ex.request.body {
        RequestBody::Unread(_) => return Slow::ReadBody.into(),
        RequestBody::None => Bytes::new(),
        RequestBody::Memory(bytes) => bytes.clone(),
        // The settings of the server keep bodies in memory.
        RequestBody::File(..) | RequestBody::Passing(_) => {
            return refused(status::CONTENT_TOO_LARGE, "the body is too large", &form, ex, cx);
        }
    };
    by_api(&api, &body, ex, cx)
}

/// Whether the path is `/api` or below it, where `larder_status` answers.
fn is_status(target: &[u8]) -> bool {
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    path.strip_prefix(b"/api").is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

fn by_api(api: &Api, body: &[u8], ex: &mut Exchange, cx: &Cx) -> Step {
    let tag_fields = tag_fields(cx);
    let words = api.said(apis::Asked { fields: &ex.asked.head.fields, tag_fields: &tag_fields, body });
    let form = api.form(words.as_ref().ok(), id(ex, cx));
    let deeds = words.and_then(|words| match words {
        Said::Wanted(wanted) => {
            Ok((wanted.planned(&cx.site().caches.zones, &cx.site().caches.profiles)?, wanted.said()))
        }
        Said::Orders(orders) => planned(orders, ex, cx),
    });
    purged(deeds, form, ex, cx)
}

fn by_plugin(ex: &mut Exchange, cx: &Cx) -> Step {
    let tag_fields = tag_fields(cx);
    let orders = dialects::orders(dialects::Asked {
        method: crate::vars::method_name(ex),
        target: ex.asked.head.target(),
        fields: &ex.asked.head.fields,
        tag_fields: &tag_fields,
    });
    let orders = match orders {
        Some(orders) => orders.map_err(|wrong| wrong.to_string()),
        None => Err("the method says nothing".to_owned()),
    };
    let deeds = orders.and_then(|orders| planned(orders, ex, cx));
    purged(deeds, Form::Text, ex, cx)
}

/// What has to be done in all zones for what plugins say, and that in words. A page goes by its URL, as nothing here makes its key.
fn planned(orders: Vec<Order>, ex: &Exchange, cx: &Cx) -> Result<(Vec<Deed>, String), String> {
    let said = said::of_orders(&orders);
    let zones = &cx.site().caches.zones;
    let host = store::host_of(ex, cx);
    let mut all = Vec::new();
    for Order { what, how } in orders {
        let of_host = matches!(what, What::Page(_) | What::Host | What::Uri { of_host: true, .. });
        if of_host && ex.asked.head.target().starts_with(SOUIN) {
            return Err("keys of Souin name no page here: name tags, or flush".to_owned());
        }
        if of_host && host.is_empty() {
            return Err("the request names no host".to_owned());
        }
        if matches!(what, What::Tags(_)) && !zones.iter().any(|zone| zone.has_tags()) {
            return Err(NO_TAGS.to_owned());
        }
        for profile in &cx.site().caches.profiles {
            let Order { what: kept, how } = Order { what: what.clone(), how }.of_page(|url| profile.kept_target(url));
            if kept != what {
                all.extend(deeds::meant(kept, how, host)?);
            }
        }
        all.extend(deeds::meant(what, how, host)?);
    }
    Ok((deeds::in_zones(&all, zones), said))
}

fn purged(deeds: Result<(Vec<Deed>, String), String>, form: Form, ex: &mut Exchange, cx: &Cx) -> Step {
    match deeds {
        Ok((deeds, said)) => Slow::PurgePages(Box::new(Purges { deeds, said, form })).into(),
        Err(why) => nothing(&why, &form, ex, cx),
    }
}

fn refused(status: u16, why: &str, form: &Form, ex: &mut Exchange, cx: &Cx) -> Step {
    cx.local.logs.error(cx, ex, LogLevel::Error, format_args!("the admin API refuses the request: {why}"));
    told(status, form.refused(status, why), form, ex)
}

/// The fields of answers that have the tags of pages, anywhere.
fn tag_fields(cx: &Cx) -> Vec<Box<str>> {
    let mut fields: Vec<Box<str>> = Vec::new();
    for name in cx.site().locations.iter().flat_map(|loc| loc.settings.purging.tag_names()) {
        if !fields.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            fields.push(name.into());
        }
    }
    fields
}

/// A name for a purge that none had before on this machine, as long as its clock does not go back.
fn id(ex: &Exchange, cx: &Cx) -> String {
    static PURGES: AtomicU64 = AtomicU64::new(0);
    let number = PURGES.fetch_add(1, Ordering::Relaxed);
    format!("{}-{}-{number}", ex.asked.client.id, cx.now().0)
}

const METHODS_OF_PLUGINS: [&str; 4] = ["PURGE", "BAN", "URIBAN", "PURGEKEYS"];
const SOUIN: &[u8] = b"/souin-api/souin";
/// What there is, for those who look for something else.
const PATHS: &str = "there is GET /api/, POST /purge, POST /client/v4/zones/ID/purge_cache, POST /service/ID/purge/KEY, \
                     POST /service/ID/purge, POST /service/ID/purge_all, POST /purge/HOST/PATH, POST /souin-api/souin, \
                     and PURGE, BAN, URIBAN or PURGEKEYS with any path";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn method_and_path_say_what_a_request_is_for() {
        for (method, target, expected) in [
            ("POST", "/purge", Route::Purge(Api::Own)),
            ("GET", "/purge", Route::NotAllowed(Api::Own)),
            // On the port of a site a plugin purges so, and an image in a page could.
            ("GET", "/purge/page", Route::NotAllowed(Api::FastlyUrl((*b"page").into()))),
            ("PURGE", "/purge", Route::Plugin),
            ("PURGE", "/", Route::Plugin),
            ("BAN", "/https://a.example/", Route::Plugin),
            ("PURGE", "/https://a.example/b", Route::Purge(Api::FastlyUrl((*b"https://a.example/b").into()))),
            ("DELETE", "/client/v4/zones/1/purge_cache", Route::Purge(Api::Cloudflare((*b"1").into()))),
            ("DELETE", "/service/1/purge_all", Route::NotAllowed(Api::FastlyAll)),
            ("POST", "/", Route::Unknown),
            ("OPTIONS", "*", Route::Unknown),
            ("GET", "/api", Route::Status),
            ("GET", "/api?fields=", Route::Status),
            ("DELETE", "/api/9/connections", Route::Status),
            ("GET", "/apis", Route::Unknown),
            ("PURGE", "/api/page", Route::Plugin),
        ] {
            assert_eq!(route(method.as_bytes(), target.as_bytes()), expected, "{method} {target}");
        }
    }
}
