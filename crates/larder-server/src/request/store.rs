//! A stored page, made of an origin's answer and of what the policy decided to keep of it.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use larder_cache::{Came, Fetched, FetchedBy, Hold, Mark, Object, Prepared, Url, VaryKey};
use larder_http::{Fields, Known};
use larder_origin::Answer;
use larder_store::Body;

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::policy::{Kept, Lifetime};
use crate::site::Backend;
use crate::target;
use crate::typed_url::host_and_port;
use crate::variable::{RequestVar, Var};

use super::plan::Storing;

/// The object to store for `answer`.
pub fn object(answer: &Answer, body: Body, kept: Kept, backend: &Backend, ex: &Exchange, cx: &Cx) -> Object {
    let Kept { lifetime, fields, vary, esi_base } = kept;
    let (last_modified, etag) = validators(&fields);
    let header = ex.tally.attempts.last().and_then(|attempt| attempt.header).unwrap_or_default();
    Object {
        status: answer.head.status,
        reason: (&*answer.head.reason).into(),
        last_modified,
        etag,
        vary,
        cost_micros: u32::try_from(header.as_micros()).unwrap_or(u32::MAX),
        prepared: prepared_of(&fields, backend, cx),
        fields,
        body,
        stored_at: cx.now(),
        fresh_until: lifetime.fresh_until,
        stale_while_revalidate: lifetime.stale_while_revalidate,
        stale_if_error: lifetime.stale_if_error,
        hold: Hold::of_page(esi_base).at(url_of(backend, ex, cx, &mut Vec::new())).fetched(fetched(ex)),
    }
}

/// How the request came in.
fn came(ex: &Exchange) -> Came {
    let fields = &ex.asked.head.fields;
    let authority = fields.get_known(Known::Host).and_then(|host| str::from_utf8(host).ok()).unwrap_or_default();
    let host_port = host_and_port(authority).ok().and_then(|(_, port)| port).unwrap_or(0);
    let is_secured_before = fields.get("X-Forwarded-Proto").is_some_and(|proto| proto.eq_ignore_ascii_case(b"https"));
    let port = ex.asked.client.bound.tcp().map_or(0, |address| address.port());
    Came { port, host_port, is_secured_before }
}

fn fetched(ex: &Exchange) -> Fetched {
    let by = if ex.request.nested.purpose.is_background() { FetchedBy::Background } else { FetchedBy::Request };
    Fetched {
        from: ex.tally.attempts.last().map(|attempt| Arc::clone(&attempt.address)),
        by,
        is_confirmed: false,
        came: Some(came(ex)),
    }
}

/// What purges find a page by: as bans do, what a VCL has made of the client's URL, or where an origin or an error page has
/// led to, unless the key is of what the client has asked for. What the key does not have the first visitor may choose, and all
/// get the page: it is of every host.
fn url_of<'a>(backend: &Backend, ex: &'a Exchange, cx: &'a Cx, buffer: &'a mut Vec<u8>) -> Url<'a> {
    let cache = cx.origin(ex).and_then(|origin| origin.policy.directives()?.cache.as_ref());
    let names = |is_meant: fn(&Var) -> bool| cache.map(|cache| target::key_names(cache, backend, is_meant));
    let is_host = |var: &Var| match var {
        Var::Request(RequestVar::Host) => true,
        Var::Http(name) => name.eq_ignore_ascii_case("host"),
        _ => false,
    };
    let host = if names(is_host) == Some(false) { b"" } else { host_of(ex, cx) };
    let is_of_client =
        || !ex.is_sub() && names(|var| matches!(var, Var::Request(RequestVar::RequestUri))) == Some(true);
    let led_to = ex.request.way.url.as_deref().filter(|_| !is_of_client());
    let uri = led_to.unwrap_or(ex.asked.head.target());
    // An argument that no key has is in no URL either.
    let profile = cache.and(cx.loc(ex).profile.as_deref());
    let uri = match profile {
        None => uri,
        Some(profile) => {
            profile.append_kept_target(uri, buffer);
            &buffer[..]
        }
    };
    Url { is_https: ex.asked.client.is_secure(), host, uri }
}

/// The host under which purges find the pages of this request.
pub fn host_of<'a>(ex: &'a Exchange, cx: &'a Cx) -> &'a [u8] {
    if ex.request.host.is_empty() { &cx.server(ex).name } else { &ex.request.host }
}

/// Gives an answer that is whole to those who wait for it, and keeps it for nobody else.
pub fn share(storing: Storing, answer: &Answer, bytes: Bytes, kept: Kept, backend: &Backend, ex: &Exchange, cx: &Cx) {
    let length = bytes.len() as u64;
    let (mut writer, body) = cx.zone(storing.zone()).body(&ex.upstream.cache_key, Some(length), None);
    // Without room for it the next of those who wait tries.
    let is_whole = writer.append(bytes).is_ok();
    writer.finish();
    if let Some(permit) = storing.permit(ex, cx).filter(|_| is_whole && body.whole().is_some()) {
        permit.share(object(answer, body, kept, backend, ex, cx));
    }
}

/// What stands in the place of a page that is not to be shared.
pub fn mark(mark: Mark, zone: usize, answer: &Answer, kept: Kept, backend: &Backend, ex: &Exchange, cx: &Cx) -> Object {
    let (writer, body) = cx.zone(zone).body(&ex.upstream.cache_key, Some(0), None);
    writer.finish();
    let hold = Hold::marked(mark).at(url_of(backend, ex, cx, &mut Vec::new())).fetched(fetched(ex));
    Object { hold, prepared: OnceLock::new(), ..object(answer, body, kept, backend, ex, cx) }
}

/// A copy of `object` that is fresh again, after the origin confirmed it: with other fields, and for other requests, if
/// those have changed.
pub fn freshen(
    object: &Object,
    lifetime: Lifetime,
    changed: Option<(Fields, VaryKey)>,
    backend: &Backend,
    cx: &Cx,
) -> Object {
    let prepared = match &changed {
        None => prepared_of_confirmed(object, backend, cx),
        Some((fields, _)) => prepared_of(fields, backend, cx),
    };
    let (last_modified, etag) = match &changed {
        None => (object.last_modified, object.etag.clone()),
        Some((fields, _)) => validators(fields),
    };
    let (fields, vary) = changed.unwrap_or_else(|| (object.fields.clone(), object.vary.clone()));
    Object {
        status: object.status,
        reason: object.reason.clone(),
        fields,
        body: object.body.clone(),
        stored_at: cx.now(),
        fresh_until: lifetime.fresh_until,
        stale_while_revalidate: lifetime.stale_while_revalidate,
        stale_if_error: lifetime.stale_if_error,
        last_modified,
        etag,
        vary,
        cost_micros: object.cost_micros,
        prepared,
        hold: Hold::of_page(object.esi_base().map(Box::from))
            .fetched(Fetched { is_confirmed: true, ..object.fetched().clone() }),
    }
}

/// `Last-Modified` and `ETag`.
fn validators(fields: &Fields) -> (Option<u64>, Option<Box<[u8]>>) {
    let last_modified = fields.get_known(Known::LastModified).and_then(larder_http::parse_date);
    (last_modified, fields.get_known(Known::Etag).map(Box::from))
}

fn prepared_of(fields: &Fields, backend: &Backend, cx: &Cx) -> OnceLock<Option<Prepared>> {
    match &backend.prepared_by {
        Some(rules) => OnceLock::from(rules.prepare(fields, cx.site().speaks_http2)),
        None => OnceLock::new(),
    }
}

/// A 304 leaves the stored fields of a page as they are, so their prepared form stays too. It is made anew if it
/// follows the rules of another location, or of before a reload.
fn prepared_of_confirmed(object: &Object, backend: &Backend, cx: &Cx) -> OnceLock<Option<Prepared>> {
    let Some(rules) = &backend.prepared_by else { return object.prepared.clone() };
    let with_block = cx.site().speaks_http2;
    match object.prepared.get() {
        Some(Some(made)) if rules.made(made) && !(with_block && made.block.is_empty()) => object.prepared.clone(),
        Some(_) | None => OnceLock::from(rules.prepare(&object.fields, with_block)),
    }
}
