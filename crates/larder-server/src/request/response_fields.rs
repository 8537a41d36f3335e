//! Fields of an origin's answer as the client gets them: hidden ones left out, redirects and cookies rewritten.

use larder_conf::model::Settings;
use larder_http::{Fields, Known, KnownSet, Version, Written};

use crate::context::Cx;
use crate::exchange::{Exchange, Silent};
use crate::prepared::{CONTENT_TYPE, OWN, PreparedRules, is_own, written_name};
use crate::purges::by_origin;
use crate::site::{Backend, Find, Protocol, Redirect, Target};

use super::cookies;

/// Lays the fields of an answer out as the response of `ex`.
pub fn lay_out(fields: &Fields, backend: &Backend, ex: &mut Exchange, cx: &Cx) {
    ex.reply.fields.clear();
    ex.reply.location_is_ours = false;
    ex.reply.silent = silence(backend);
    push_accel_fields(fields, ex);
    let version = ex.asked.head.version;
    if ex.reply.fields.is_empty() && goes_as_it_is(fields, backend) {
        ex.reply.fields.copy_from(fields);
        ex.reply.fields.remove_known(if is_of_vcl(backend) { OWN_OF_VCL } else { OWN });
        leave_out_ours(backend, ex, cx);
        return apply_x_accel_settings(fields, backend, ex, cx);
    }
    let is_passed = |known, name: &[u8]| {
        // HTTP/2 has no upgrades (RFC 9113 §8.2.2).
        let is_upgrade = known == Known::Upgrade && version == Version::Http2;
        !is_own(known) && !backend.settings.hides.contains(known, name) && !is_upgrade
    };
    if MAY_BE_REWRITTEN.iter().any(|known| fields.contains_known(*known)) {
        for (known, name, value) in fields.iter_known().filter(|(known, name, _)| is_passed(*known, name)) {
            let name = if is_respelled(name, backend) { written_name(known, name) } else { name };
            match rewritten(known, value, backend, ex, cx) {
                Some(value) => {
                    ex.reply.location_is_ours |= known == Known::Location;
                    ex.reply.fields.push_known(known, name, &value);
                }
                None => ex.reply.fields.push_known(known, name, value),
            }
        }
    } else {
        ex.reply.fields.extend_from(fields, |known, name| match known {
            _ if !is_passed(known, name) => Written::Not,
            Known::ContentType if is_respelled(name, backend) => Written::Named(CONTENT_TYPE),
            _ => Written::AsItIs,
        });
    }
    leave_out_ours(backend, ex, cx);
    apply_x_accel_settings(fields, backend, ex, cx);
}

/// What is not laid out for a VCL: its number is added anew.
const OWN_OF_VCL: KnownSet = OWN.and(KnownSet::of(&[Known::XVarnish]));

/// Whether a client gets all fields of an answer, but for [`OWN`] ones: nothing is hidden, rewritten or respelled.
fn goes_as_it_is(fields: &Fields, backend: &Backend) -> bool {
    let is_changed = |known: &Known| fields.contains_known(*known);
    backend.settings.hides.is_empty()
        && !fields.contains_known(Known::Upgrade)
        && !MAY_BE_REWRITTEN.iter().any(is_changed)
        && (is_of_vcl(backend)
            || fields.iter_known().all(|(known, name, _)| known != Known::ContentType || !is_respelled(name, backend)))
}

/// Whether the name of a `Content-Type` is written anew. What a VCL has fetched keeps its own, as in Varnish.
fn is_respelled(name: &[u8], backend: &Backend) -> bool {
    name != CONTENT_TYPE.as_bytes() && !is_of_vcl(backend)
}

fn is_of_vcl(backend: &Backend) -> bool {
    matches!(&backend.protocol, Protocol::Http(parts) if parts.is_written)
}

/// Fields of an origin's answer that are for larder alone, where these directives are: what it purges, of pages from before they
/// were there too, and what larder says itself.
pub fn for_larder(settings: &Settings) -> impl Iterator<Item = &'static str> {
    let purges: &[&str] = if settings.purging.is_by_origin() { &by_origin::FIELDS } else { &[] };
    purges.iter().copied().chain((!settings.fields.explain_from.is_empty()).then_some(EXPLAIN))
}

/// Backends of a VCL hide nothing by themselves, as they are shared by locations.
fn leave_out_ours(backend: &Backend, ex: &mut Exchange, cx: &Cx) {
    if is_of_vcl(backend) {
        for name in for_larder(&cx.loc(ex).settings) {
            ex.reply.fields.remove(name);
        }
    }
}

/// The field of `larder_explain_from`.
pub const EXPLAIN: &str = "X-Larder-Explain";

/// The fields that [`rewritten`] may change.
const MAY_BE_REWRITTEN: [Known; 3] = [Known::Location, Known::Refresh, Known::SetCookie];

/// Whether the client gets this field of early hints: it is not hidden, and is not about the connection or framing. What an
/// origin purges by is for no client.
pub fn is_hint(known: Known, name: &[u8], backend: &Backend) -> bool {
    let purges = || by_origin::FIELDS.iter().any(|field| field.as_bytes().eq_ignore_ascii_case(name));
    !is_own(known) && !is_hop(name) && !backend.settings.hides.contains(known, name) && !purges()
}

fn is_hop(name: &[u8]) -> bool {
    [&b"upgrade"[..], b"proxy-connection", b"te", b"trailer"].iter().any(|hop| hop.eq_ignore_ascii_case(name))
}

/// Fields that X-Accel-Redirect took along come before those of the response it led to, whose `Content-Type` wins.
fn push_accel_fields(fields: &Fields, ex: &mut Exchange) {
    let Some(accel_fields) = &ex.reply.accel_fields else { return };
    for (known, name, value) in accel_fields.iter_known() {
        if known != Known::ContentType || !fields.contains_known(Known::ContentType) {
            ex.reply.fields.push_known(known, name, value);
        }
    }
}

/// Applies `X-Accel-Limit-Rate` and `X-Accel-Charset`, by which an origin sets the pace and the charset of a response.
pub fn apply_x_accel_settings(fields: &Fields, backend: &Backend, ex: &mut Exchange, cx: &Cx) {
    let ignored = backend.settings.model.ignore_headers;
    if !ignored.x_accel_limit_rate
        && let Some(rate) = fields.get_known(Known::XAccelLimitRate)
    {
        ex.request.limits.rate = crate::limit::parse_rate(rate);
    }
    if cx.site().charsets.are_used
        && !ignored.x_accel_charset
        && let Some(charset) = fields.get_known(Known::XAccelCharset)
    {
        ex.reply.charset = (!charset.is_empty()).then(|| charset.into());
    }
}

/// The rules by which the fields of stored pages are prepared once for all requests of a location. `None` where each
/// request lays them out: a charset is added to the type, or `proxy_pass_header` leaves `Server` or, but by RFC 9111,
/// `Date` to the origin.
pub fn prepared_rules(backend: &Backend, adds_charset: bool) -> Option<PreparedRules> {
    let silent = silence(backend);
    if silent.server || silent.date && !backend.is_rfc9111 || adds_charset {
        return None;
    }
    let rewrites_cookies = match &backend.protocol {
        Protocol::Http(parts) => cookies::are_rewritten(parts),
        Protocol::FastCgi(_) => false,
    };
    let hidden = backend.settings.hidden.iter().map(|name| &name[..]);
    Some(PreparedRules::new(hidden, rewrites_cookies, backend.is_rfc9111))
}

/// Which of `Server` and `Date` `proxy_pass_header` leaves to the origin, even if it sends none. FastCGI never hides
/// them, and larder adds those that are missing.
fn silence(backend: &Backend) -> Silent {
    match backend.protocol {
        Protocol::Http(_) => {
            let is_passed = |known| !backend.settings.hides.contains_known(known);
            Silent { server: is_passed(Known::Server), date: is_passed(Known::Date) }
        }
        Protocol::FastCgi(_) => Silent::default(),
    }
}

fn rewritten(known: Known, value: &[u8], backend: &Backend, ex: &mut Exchange, cx: &Cx) -> Option<Vec<u8>> {
    let Protocol::Http(parts) = &backend.protocol else { return None };
    match known {
        Known::Location => redirect(value, &parts.redirects, backend, ex, cx),
        Known::Refresh => {
            let at = find_ignore_case(value, b"url=")? + 4;
            let url = redirect(&value[at..], &parts.redirects, backend, ex, cx)?;
            Some([&value[..at], &url].concat())
        }
        Known::SetCookie if cookies::are_rewritten(parts) => cookies::rewritten(value, parts, ex, cx),
        _ => None,
    }
}

fn find_ignore_case(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window.eq_ignore_ascii_case(what))
}

/// `proxy_redirect`: the first rule that matches.
fn redirect(url: &[u8], rules: &[Redirect], backend: &Backend, ex: &mut Exchange, cx: &Cx) -> Option<Vec<u8>> {
    rules.iter().find_map(|rule| match rule {
        Redirect::Default => default_redirect(url, backend, ex, cx),
        Redirect::Replace(Find::Text(from), to) => {
            let from = from.value(ex, cx);
            let rest = url.strip_prefix(&from[..])?;
            Some([&to.value(ex, cx)[..], rest].concat())
        }
        Redirect::Replace(Find::Regex(regex), to) => {
            crate::vars::pattern::matches(regex, url, ex, cx).then(|| to.value(ex, cx))
        }
    })
}

/// `proxy_redirect default`: the URL of `proxy_pass` becomes the prefix of the location.
fn default_redirect(url: &[u8], backend: &Backend, ex: &Exchange, cx: &Cx) -> Option<Vec<u8>> {
    let Target::Group { host, uri, .. } = &backend.target else { return None };
    let loc = cx.loc(ex);
    let from = [backend.scheme().prefix(), &host[..], uri.as_deref().unwrap_or(b"/")].concat();
    let to: &[u8] = if uri.is_some() { &loc.matching.prefix } else { b"/" };
    let rest = url.strip_prefix(&from[..])?;
    Some([to, rest].concat())
}
