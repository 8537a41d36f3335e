//! Which location answers: server rewrites, the search for a location, its rewrites, limits, access, `try_files`.
//!
//! The phases and their order are nginx's (ngx_http_core_module): a URI that a rewrite changed leads back to the
//! search, at most [`URI_CHANGES_MAX`](crate::exchange::URI_CHANGES_MAX) times.

use larder_conf::model::LogLevel;
use larder_http::{Known, Method, status};

use crate::context::Cx;
use crate::exchange::{Exchange, RequestBody, URI_CHANGES_MAX};
use crate::locations::{self, Found};
use crate::records;
use crate::script::{self, Answer, Ran};
use crate::site::{Loc, TryFallback};
use crate::vsl::Shown;

use super::{Entrance, Step, Synth, access, more_headers, purge_from};

/// Finds the location and asks everything that stands before its handler.
pub fn route(entrance: Entrance, ex: &mut Exchange, cx: &Cx) -> Step {
    match entrance {
        Entrance::Server => {
            ex.request.location = cx.server(ex).root;
            if !ex.request.way.internal {
                access::find_real_ip(ex, cx);
            }
            match script::run(&cx.loc(ex).script, ex, cx) {
                Ran::Answer(answer) => answered(answer, ex, cx),
                Ran::Through(is_changed) | Ran::Stopped(is_changed) => {
                    if is_changed {
                        records::rewritten(ex, format_args!("rewrite {}", Shown(&ex.request.uri)));
                    }
                    find_and_enter(ex, cx)
                }
            }
        }
        Entrance::Named(name) => {
            ex.request.location = cx.server(ex).root;
            let Some(&location) = cx.server(ex).named.get(&name) else {
                cx.local.logs.error(
                    cx,
                    ex,
                    LogLevel::Error,
                    format_args!("could not find named location \"{}\"", String::from_utf8_lossy(&name)),
                );
                return Step::Synth(Synth::Status(status::INTERNAL_SERVER_ERROR));
            };
            ex.request.location = location;
            enter(ex, cx)
        }
        Entrance::Limits => guard(ex, cx),
    }
}

/// Looks for the location of the URI, and enters it.
pub fn find_and_enter(ex: &mut Exchange, cx: &Cx) -> Step {
    let site = cx.site();
    let root = cx.server(ex).root;
    match locations::find(root, ex, cx) {
        Found::At(location) => ex.request.location = location,
        Found::Slash(location) => {
            ex.request.location = location;
            let mut url = Vec::with_capacity(ex.request.uri.len() + 1 + ex.request.args.len());
            larder_http::escape_uri(&site.locations[location].matching.prefix, larder_http::Escape::Uri, &mut url);
            if !ex.request.args.is_empty() {
                url.push(b'?');
                url.extend_from_slice(&ex.request.args);
            }
            return Step::Synth(Synth::Redirect(status::MOVED_PERMANENTLY, url));
        }
    }
    let loc = cx.loc(ex);
    if loc.matching.internal && !ex.request.way.internal {
        return Step::Synth(Synth::Status(status::NOT_FOUND));
    }
    ex.request.way.path_is_the_locations = true;
    if let Some(limit) = loc.settings.body.max_bytes
        && !ex.request.body_refused
        && let RequestBody::Unread(Some(bytes)) = ex.request.body
        && bytes > limit
    {
        cx.local.logs.error(
            cx,
            ex,
            LogLevel::Error,
            format_args!("client intended to send too large body: {bytes} bytes"),
        );
        ex.request.body_refused = true;
        return Step::Synth(Synth::Status(status::CONTENT_TOO_LARGE));
    }
    enter(ex, cx)
}

/// Runs the location's rewrites; goes on to the limits, or back to the search.
fn enter(ex: &mut Exchange, cx: &Cx) -> Step {
    records::location(ex, cx);
    match script::run(&cx.loc(ex).script, ex, cx) {
        Ran::Answer(answer) => answered(answer, ex, cx),
        Ran::Through(false) | Ran::Stopped(false) => {
            more_headers::request(ex, cx);
            guard(ex, cx)
        }
        Ran::Through(true) | Ran::Stopped(true) => {
            if !may_change_uri(ex, cx) {
                return Step::Synth(Synth::Final(status::INTERNAL_SERVER_ERROR));
            }
            records::rewritten(ex, format_args!("rewrite {}", Shown(&ex.request.uri)));
            Step::Find
        }
    }
}

/// Counts one more change of the URI; false when that was one too many.
pub fn may_change_uri(ex: &mut Exchange, cx: &Cx) -> bool {
    if ex.request.way.uri_changes >= URI_CHANGES_MAX {
        cx.local.logs.error(
            cx,
            ex,
            LogLevel::Error,
            format_args!(
                "rewrite or internal redirection cycle while processing \"{}\"",
                String::from_utf8_lossy(&ex.request.uri)
            ),
        );
        return false;
    }
    ex.request.way.uri_changes += 1;
    true
}

fn answered(answer: Answer, ex: &Exchange, cx: &Cx) -> Step {
    if purge_from::is_lost(&answer, ex, cx) {
        let why = "\"larder_purge_from\": nothing is purged: \"return\" answers before that";
        cx.local.logs.error(cx, ex, LogLevel::Error, format_args!("{why}"));
    }
    match &answer {
        Answer::Status(status) | Answer::Text(status, _) => records::rewritten(ex, format_args!("return {status}")),
        Answer::Redirect(status, url) => records::rewritten(ex, format_args!("return {status} {}", Shown(url))),
    }
    Step::Synth(match answer {
        Answer::Status(status) => Synth::Status(status),
        Answer::Redirect(status, url) => Synth::Redirect(status, url),
        Answer::Text(status, text) => Synth::Text(status, text),
    })
}

/// Limits, access rules, passwords, `try_files`.
fn guard(ex: &mut Exchange, cx: &Cx) -> Step {
    if let Some((methods, location)) = &cx.loc(ex).access.limit_except
        && !methods.iter().any(|method| allows(method, ex))
    {
        ex.request.location = *location;
    }
    access::find_real_ip(ex, cx);
    if let Some(step) = access::limits(ex, cx) {
        return step;
    }
    let is_allowed = ex.is_sub() || ex.visit.authorized && ex.visit.auth_asked;
    if !is_allowed && let Some(step) = access::access(ex, cx) {
        return access::delayed(step, ex, cx);
    }
    match &cx.loc(ex).try_files {
        Some(_) => try_files(ex, cx),
        None => Step::Handle,
    }
}

/// Whether `limit_except METHOD` leaves this request alone; GET stands for HEAD too.
fn allows(method: &str, ex: &Exchange) -> bool {
    let name = crate::vars::method_name(ex);
    method.as_bytes() == name || (method == "GET" && ex.request.method == Method::Head)
}

fn try_files(ex: &mut Exchange, cx: &Cx) -> Step {
    let loc = cx.loc(ex);
    let Some(tries) = &loc.try_files else { return Step::Handle };
    for (file, wants_directory) in &tries.files {
        let mut path = crate::vars::document_root(ex, cx);
        let root_bytes = path.len();
        let name = file.value(ex, cx);
        path.extend_from_slice(strip_alias(loc, &name, &ex.request.uri));
        let Some(is_dir) = crate::request::files::look(&path, ex, cx) else { continue };
        if is_dir != *wants_directory {
            continue;
        }
        take_found(loc, &path[root_bytes..], *wants_directory, ex);
        return Step::Handle;
    }
    match &tries.fallback {
        TryFallback::Status(status) => Step::Synth(Synth::Status(*status)),
        TryFallback::Named(name) => Step::Redirect(super::Internal::Named(name.clone())),
        TryFallback::Uri(uri) => {
            let uri = uri.value(ex, cx);
            Step::Redirect(super::Internal::Literal(uri))
        }
    }
}

/// With `alias`, what `try_files` names may begin with the location's prefix, which the alias stands for.
fn strip_alias<'a>(loc: &Loc, name: &'a [u8], uri: &[u8]) -> &'a [u8] {
    match (&loc.files.alias, loc.files.alias_replaces) {
        (Some(_), Some(bytes)) => uri.get(..bytes).and_then(|prefix| name.strip_prefix(prefix)).unwrap_or(name),
        _ => name,
    }
}

/// Makes what was found below the root or the alias the URI.
fn take_found(loc: &Loc, found: &[u8], is_dir: bool, ex: &mut Exchange) {
    match (&loc.files.alias, loc.files.alias_replaces) {
        (None, _) => ex.request.uri = found.to_vec(),
        (Some(_), Some(bytes)) => {
            ex.request.uri.truncate(bytes);
            ex.request.uri.extend_from_slice(found);
        }
        (Some(_), None) if is_dir => {}
        (Some(_), None) => {
            ex.request.uri = found.to_vec();
            ex.request.way.alias_takes_uri = true;
        }
    }
}

/// Whether the client waits for leave to send its body.
pub fn expects_continue(ex: &Exchange) -> bool {
    ex.asked.head.fields.get_known(Known::Expect).is_some_and(|value| value.eq_ignore_ascii_case(b"100-continue"))
}
