//! What `fastcgi_*` and `proxy_*` have in common: the names differ in their first word, the settings in their place in
//! the model.

use std::time::Duration;

use super::{address, http};
use crate::cx::{Cx, Reference};
use crate::diagnostic::{Diagnostic, Outcome};
use crate::level::Level;
use crate::model::{At, CacheValid, IgnoreHeaders, NextUpstream, OriginSettings, Store, UseStale};
use crate::tree::Directive;
use crate::{template, values};

/// The table for one first word; `$pick` finds the settings in a level.
macro_rules! shared_table {
    ($prefix:literal, $pick:ident) => {{
        use crate::directives::origin as o;
        use crate::directives::{Action, Args, HSL, ONE, directive, http, repeated};
        use crate::model::Store;
        const FLAG: Args = Args::Flag;
        const MANY: Args = Args::AtLeast(1);
        &[
            directive(
                concat!($prefix, "_connect_timeout"),
                HSL,
                ONE,
                Action::Level(|l, _, d| o::time(&mut l.$pick().connection.connect_timeout, d)),
            ),
            directive(
                concat!($prefix, "_send_timeout"),
                HSL,
                ONE,
                Action::Level(|l, _, d| o::time(&mut l.$pick().connection.send_timeout, d)),
            ),
            directive(
                concat!($prefix, "_read_timeout"),
                HSL,
                ONE,
                Action::Level(|l, _, d| o::time(&mut l.$pick().connection.read_timeout, d)),
            ),
            directive(
                concat!($prefix, "_buffer_size"),
                HSL,
                ONE,
                Action::Level(|l, _, d| o::buffer_size(l.$pick(), d)),
            ),
            directive(
                concat!($prefix, "_buffers"),
                HSL,
                Args::Between(2, 2),
                Action::Level(|l, _, d| o::buffers(l.$pick(), d)),
            ),
            directive(
                concat!($prefix, "_busy_buffers_size"),
                HSL,
                ONE,
                Action::Level(|l, _, d| o::busy_buffers(l.$pick(), d)),
            ),
            directive(
                concat!($prefix, "_max_temp_file_size"),
                HSL,
                ONE,
                Action::Level(|l, _, d| o::max_temp_file(l.$pick(), d)),
            ),
            directive(
                concat!($prefix, "_temp_path"),
                HSL,
                Args::Between(1, 4),
                Action::Level(|l, cx, d| o::temp_path(l.$pick(), cx, d)),
            ),
            directive(
                concat!($prefix, "_buffering"),
                HSL,
                FLAG,
                Action::Level(|l, _, d| o::flag(&mut l.$pick().response.buffering, d)),
            ),
            directive(
                concat!($prefix, "_request_buffering"),
                HSL,
                FLAG,
                Action::Level(|l, _, d| o::request_buffering(l.$pick(), d)),
            ),
            directive(
                concat!($prefix, "_ignore_client_abort"),
                HSL,
                FLAG,
                Action::Level(|l, _, d| o::flag(&mut l.$pick().ignore_client_abort, d)),
            ),
            directive(
                concat!($prefix, "_intercept_errors"),
                HSL,
                FLAG,
                Action::Level(|l, _, d| o::flag(&mut l.$pick().response.intercept_errors, d)),
            ),
            repeated(
                concat!($prefix, "_next_upstream"),
                HSL,
                MANY,
                Action::Level(|l, _, d| o::next_upstream(l.is_first, l.$pick(), d)),
            ),
            directive(
                concat!($prefix, "_next_upstream_tries"),
                HSL,
                ONE,
                Action::Level(|l, _, d| o::number(&mut l.$pick().next_upstream.tries, d)),
            ),
            directive(
                concat!($prefix, "_next_upstream_timeout"),
                HSL,
                ONE,
                Action::Level(|l, _, d| o::next_upstream_timeout(l.$pick(), d)),
            ),
            directive(
                concat!($prefix, "_pass_request_headers"),
                HSL,
                FLAG,
                Action::Level(|l, _, d| o::flag(&mut l.$pick().request.pass_headers, d)),
            ),
            directive(
                concat!($prefix, "_pass_request_body"),
                HSL,
                FLAG,
                Action::Level(|l, _, d| o::flag(&mut l.$pick().request.pass_body, d)),
            ),
            repeated(
                concat!($prefix, "_hide_header"),
                HSL,
                ONE,
                Action::Level(|l, _, d| o::header(l.is_first, &mut l.$pick().response.hide_headers, d)),
            ),
            repeated(
                concat!($prefix, "_pass_header"),
                HSL,
                ONE,
                Action::Level(|l, _, d| o::header(l.is_first, &mut l.$pick().response.pass_headers, d)),
            ),
            repeated(
                concat!($prefix, "_ignore_headers"),
                HSL,
                MANY,
                Action::Level(|l, _, d| o::ignore_headers(l.is_first, l.$pick(), d)),
            ),
            directive(concat!($prefix, "_limit_rate"), HSL, ONE, Action::Level(|l, _, d| o::limit_rate(l.$pick(), d))),
            directive(
                concat!($prefix, "_force_ranges"),
                HSL,
                FLAG,
                Action::Level(|l, _, d| o::flag(&mut l.$pick().response.force_ranges, d)),
            ),
            directive(
                concat!($prefix, "_socket_keepalive"),
                HSL,
                FLAG,
                Action::Level(|l, _, d| o::flag(&mut l.$pick().connection.socket_keepalive, d)),
            ),
            directive(
                concat!($prefix, "_bind"),
                HSL,
                Args::Between(1, 2),
                Action::Level(|l, cx, d| o::bind(l.$pick(), cx, d)),
            ),
            directive(
                concat!($prefix, "_cache"),
                HSL,
                ONE,
                Action::Level(|l, cx, d| {
                    o::not_both(concat!($prefix, "_store"), l, |l| !matches!(l.$pick().store, Store::Off), d)?;
                    o::cache(l.$pick(), cx, d, concat!($prefix, "_cache"))
                }),
            ),
            directive(
                concat!($prefix, "_store"),
                HSL,
                ONE,
                Action::Level(|l, _, d| {
                    o::not_both(concat!($prefix, "_cache"), l, |l| l.$pick().cache.zone.is_some(), d)?;
                    o::store(l.$pick(), d)
                }),
            ),
            directive(
                concat!($prefix, "_store_access"),
                HSL,
                Args::Between(1, 3),
                Action::Level(|l, _, d| o::store_access(l.$pick(), d)),
            ),
            directive(concat!($prefix, "_cache_key"), HSL, ONE, Action::Level(|l, _, d| o::cache_key(l.$pick(), d))),
            repeated(
                concat!($prefix, "_cache_valid"),
                HSL,
                MANY,
                Action::Level(|l, _, d| o::cache_valid(l.is_first, l.$pick(), d)),
            ),
            repeated(
                concat!($prefix, "_cache_bypass"),
                HSL,
                MANY,
                Action::Level(|l, _, d| http::templates(l.is_first, &mut l.$pick().cache.bypass, d)),
            ),
            repeated(
                concat!($prefix, "_no_cache"),
                HSL,
                MANY,
                Action::Level(|l, _, d| http::templates(l.is_first, &mut l.$pick().cache.no_cache, d)),
            ),
            repeated(
                concat!($prefix, "_cache_methods"),
                HSL,
                MANY,
                Action::Level(|l, _, d| o::cache_methods(l.is_first, l.$pick(), d)),
            ),
            directive(
                concat!($prefix, "_cache_min_uses"),
                HSL,
                ONE,
                Action::Level(|l, _, d| o::number(&mut l.$pick().cache.min_uses, d)),
            ),
            repeated(
                concat!($prefix, "_cache_use_stale"),
                HSL,
                MANY,
                Action::Level(|l, _, d| o::use_stale(l.is_first, l.$pick(), d)),
            ),
            directive(
                concat!($prefix, "_cache_background_update"),
                HSL,
                FLAG,
                Action::Level(|l, _, d| o::flag(&mut l.$pick().cache.background_update, d)),
            ),
            directive(
                concat!($prefix, "_cache_lock"),
                HSL,
                FLAG,
                Action::Level(|l, _, d| o::flag(&mut l.$pick().cache.lock, d)),
            ),
            directive(
                concat!($prefix, "_cache_lock_age"),
                HSL,
                ONE,
                Action::Level(|l, _, d| o::time(&mut l.$pick().cache.lock_age, d)),
            ),
            directive(
                concat!($prefix, "_cache_lock_timeout"),
                HSL,
                ONE,
                Action::Level(|l, _, d| o::time(&mut l.$pick().cache.lock_timeout, d)),
            ),
            directive(
                concat!($prefix, "_cache_revalidate"),
                HSL,
                FLAG,
                Action::Level(|l, _, d| o::flag(&mut l.$pick().cache.revalidate, d)),
            ),
            directive(
                concat!($prefix, "_cache_max_range_offset"),
                HSL,
                ONE,
                Action::Level(|l, _, d| o::max_range_offset(l.$pick(), d)),
            ),
        ]
    }};
}
pub(super) use shared_table;

pub fn time(place: &mut Duration, d: &Directive) -> Outcome {
    http::set(place, d.time(0))
}

pub fn flag(place: &mut bool, d: &Directive) -> Outcome {
    http::set(place, d.flag())
}

pub fn number(place: &mut u32, d: &Directive) -> Outcome {
    http::set(place, d.number32(0))
}

pub fn buffer_size(origin: &mut OriginSettings, d: &Directive) -> Outcome {
    match d.size(0)? {
        0 => Err(d.invalid(d.arg(0), "a size above zero")),
        bytes => http::set(&mut origin.buffers.head_bytes, Ok(bytes)),
    }
}

pub fn buffers(origin: &mut OriginSettings, d: &Directive) -> Outcome {
    (origin.buffers.count, origin.buffers.bytes) = d.buffers()?;
    Ok(())
}

pub fn busy_buffers(origin: &mut OriginSettings, d: &Directive) -> Outcome {
    http::set(&mut origin.buffers.busy_bytes, d.size(0).map(Some))
}

pub fn max_temp_file(origin: &mut OriginSettings, d: &Directive) -> Outcome {
    http::set(&mut origin.buffers.max_temp_file_bytes, d.offset(0))
}

pub fn temp_path(origin: &mut OriginSettings, cx: &mut Cx<'_>, d: &Directive) -> Outcome {
    http::set(&mut origin.buffers.temp_path, http::temp_path(cx, d).map(Some))
}

pub fn next_upstream_timeout(origin: &mut OriginSettings, d: &Directive) -> Outcome {
    http::set(&mut origin.next_upstream.timeout, d.time(0).map(|time| (!time.is_zero()).then_some(time)))
}

pub fn request_buffering(origin: &mut OriginSettings, d: &Directive) -> Outcome {
    flag(&mut origin.request.buffering, d)
}

pub fn limit_rate(origin: &mut OriginSettings, d: &Directive) -> Outcome {
    http::set(&mut origin.response.limit_rate, http::rate(d).map(Some))
}

pub fn max_range_offset(origin: &mut OriginSettings, d: &Directive) -> Outcome {
    http::set(&mut origin.cache.max_range_offset, d.offset(0).map(Some))
}

pub fn cache_key(origin: &mut OriginSettings, d: &Directive) -> Outcome {
    http::set(&mut origin.cache.key, d.template(0).map(Some))
}

/// Adds a header name to a list.
pub fn header(is_first: bool, list: &mut Vec<String>, d: &Directive) -> Outcome {
    if is_first {
        list.clear();
    }
    list.push(d.text(0).to_ascii_lowercase());
    Ok(())
}

pub fn bind(origin: &mut OriginSettings, cx: &mut Cx<'_>, d: &Directive) -> Outcome {
    let transparent = match d.args.get(1) {
        None => false,
        Some(word) if word.text == "transparent" => true,
        Some(word) => return Err(d.invalid_parameter(word)),
    };
    origin.connection.bind_transparent = transparent && d.text(0) != "off";
    cx.binds_anywhere |= origin.connection.bind_transparent;
    origin.connection.bind = match d.text(0) {
        "off" => None,
        text => {
            let bind = d.template(0)?;
            if template::as_literal(&bind).is_some() {
                address::literal_address(text, 0)
                    .ok_or_else(|| Diagnostic::error(format!("invalid address \"{text}\"")).at(d.arg(0).span))?;
            }
            Some(bind)
        }
    };
    Ok(())
}

pub fn cache(origin: &mut OriginSettings, cx: &mut Cx<'_>, d: &Directive, name: &'static str) -> Outcome {
    let word = d.arg(0);
    if word.text.is_empty() {
        return Err(d.invalid(word, "the name of a zone or \"off\""));
    }
    origin.cache.zone = match word.text.as_str() {
        "off" => None,
        text => {
            origin.store = Store::Off;
            let zone = d.template(0)?;
            if template::as_literal(&zone).is_some() {
                let zone = At { value: text.to_owned(), span: word.span };
                cx.references.push(Reference::CacheZone(zone, name));
            }
            Some(zone)
        }
    };
    Ok(())
}

/// Of a cache and a store one level has one: the later is an error where both are turned on.
pub fn not_both(other: &str, level: &mut Level, is_on: impl Fn(&mut Level) -> bool, d: &Directive) -> Outcome {
    match level.place(other) {
        Some(place) if d.text(0) != "off" && is_on(level) => {
            Err(Diagnostic::error(format!("\"{}\" is incompatible with \"{other}\"", d.name.text))
                .at(d.span())
                .related(place, "it stands here"))
        }
        Some(_) | None => Ok(()),
    }
}

pub fn store(origin: &mut OriginSettings, d: &Directive) -> Outcome {
    origin.store = match d.text(0) {
        "off" => Store::Off,
        "" => return Err(Diagnostic::error("empty path").at(d.arg(0).span)),
        "on" => Store::Root,
        _ => Store::Path(d.template(0)?),
    };
    if !matches!(origin.store, Store::Off) {
        origin.cache.zone = None;
    }
    Ok(())
}

pub fn store_access(origin: &mut OriginSettings, d: &Directive) -> Outcome {
    let mut access = 0;
    let mut owner = 0o600;
    for word in &d.args {
        let wrong = || Diagnostic::error(format!("invalid value \"{}\"", word.text)).at(word.span);
        let Some((who, rights)) = word.text.split_once(':') else {
            return Err(wrong().label("it must be user:, group: or all: with r or rw"));
        };
        let shift = match who {
            "user" => {
                owner = 0;
                6
            }
            "group" => 3,
            "all" => 0,
            _ => return Err(wrong().label("it must begin with user:, group: or all:")),
        };
        let rights = match rights {
            "rw" => 6,
            "r" => 4,
            _ => return Err(wrong().label("it must end in r or rw")),
        };
        access |= rights << shift;
    }
    http::set(&mut origin.store_access, Ok(access | owner))
}

pub fn cache_valid(is_first: bool, origin: &mut OriginSettings, d: &Directive) -> Outcome {
    if is_first {
        origin.cache.valid.clear();
    }
    let Some((last, statuses)) = d.args.split_last() else {
        return Ok(());
    };
    let ttl = values::time(&last.text).ok_or_else(|| {
        Diagnostic::error(format!("invalid time value \"{}\"", last.text))
            .at(last.span)
            .label(format!("the last word must be {}", values::TIME))
    })?;
    if statuses.is_empty() {
        let valid = |status| CacheValid { status: Some(status), ttl, span: last.span };
        origin.cache.valid.extend([200, 301, 302].map(valid));
    }
    for word in statuses {
        let status = match word.text.as_str() {
            "any" => None,
            text => match values::number(text).and_then(|n| u16::try_from(n).ok()) {
                Some(status @ 100..=599) => Some(status),
                _ => {
                    return Err(Diagnostic::error(format!("invalid status \"{text}\""))
                        .at(word.span)
                        .label("it must be a status or \"any\""));
                }
            },
        };
        origin.cache.valid.push(CacheValid { status, ttl, span: word.span });
    }
    Ok(())
}

pub fn cache_methods(is_first: bool, origin: &mut OriginSettings, d: &Directive) -> Outcome {
    if is_first {
        origin.cache.methods.clear();
    }
    for word in &d.args {
        match word.text.to_ascii_uppercase().as_str() {
            method @ ("GET" | "HEAD" | "POST") => {
                // GET and HEAD are always cached.
                if method == "POST" && origin.cache.methods.is_empty() {
                    origin.cache.methods.push(method.to_owned());
                }
            }
            _ => return Err(d.invalid(word, "\"GET\", \"HEAD\" or \"POST\"")),
        }
    }
    Ok(())
}

pub fn next_upstream(is_first: bool, origin: &mut OriginSettings, d: &Directive) -> Outcome {
    if is_first {
        origin.next_upstream.on = NextUpstream::default();
    }
    let next = &mut origin.next_upstream.on;
    for word in &d.args {
        let place = match word.text.to_ascii_lowercase().as_str() {
            // nginx reads the words of use_stale here too, and does nothing about them.
            "off" | "updating" => continue,
            "error" => &mut next.error,
            "timeout" => &mut next.timeout,
            "invalid_header" => &mut next.invalid_header,
            "non_idempotent" => &mut next.non_idempotent,
            "http_500" => &mut next.http_500,
            "http_502" => &mut next.http_502,
            "http_503" => &mut next.http_503,
            "http_504" => &mut next.http_504,
            "http_403" => &mut next.http_403,
            "http_404" => &mut next.http_404,
            "http_429" => &mut next.http_429,
            _ => {
                return Err(d.invalid(
                    word,
                    "error, timeout, invalid_header, non_idempotent, http_500, http_502, http_503, http_504, http_403, \
                     http_404, http_429 or off",
                ));
            }
        };
        *place = true;
    }
    Ok(())
}

pub fn use_stale(is_first: bool, origin: &mut OriginSettings, d: &Directive) -> Outcome {
    if is_first {
        origin.cache.use_stale = UseStale::default();
    }
    let stale = &mut origin.cache.use_stale;
    for word in &d.args {
        let place = match word.text.to_ascii_lowercase().as_str() {
            // nginx reads the words of next_upstream here too, and does nothing about them.
            "off" | "non_idempotent" => continue,
            "error" => &mut stale.error,
            "timeout" => &mut stale.timeout,
            "invalid_header" => &mut stale.invalid_header,
            "updating" => &mut stale.updating,
            "http_500" => &mut stale.http_500,
            "http_502" => &mut stale.http_502,
            "http_503" => &mut stale.http_503,
            "http_504" => &mut stale.http_504,
            "http_403" => &mut stale.http_403,
            "http_404" => &mut stale.http_404,
            "http_429" => &mut stale.http_429,
            _ => {
                return Err(d.invalid(
                    word,
                    "error, timeout, invalid_header, updating, http_500, http_502, http_503, http_504, http_403, http_404, \
                     http_429 or off",
                ));
            }
        };
        *place = true;
    }
    Ok(())
}

pub fn ignore_headers(is_first: bool, origin: &mut OriginSettings, d: &Directive) -> Outcome {
    if is_first {
        origin.ignore_headers = IgnoreHeaders::default();
    }
    let ignore = &mut origin.ignore_headers;
    for word in &d.args {
        let place = match word.text.to_ascii_lowercase().as_str() {
            "x-accel-redirect" => &mut ignore.x_accel_redirect,
            "x-accel-expires" => &mut ignore.x_accel_expires,
            "x-accel-limit-rate" => &mut ignore.x_accel_limit_rate,
            "x-accel-buffering" => &mut ignore.x_accel_buffering,
            "x-accel-charset" => &mut ignore.x_accel_charset,
            "expires" => &mut ignore.expires,
            "cache-control" => &mut ignore.cache_control,
            "set-cookie" => &mut ignore.set_cookie,
            "vary" => &mut ignore.vary,
            _ => {
                return Err(d.invalid(
                    word,
                    "X-Accel-Redirect, X-Accel-Expires, X-Accel-Limit-Rate, X-Accel-Buffering, X-Accel-Charset, \
                     Expires, Cache-Control, Set-Cookie or Vary",
                ));
            }
        };
        *place = true;
    }
    Ok(())
}

/// The handler of a level may be set once, and not to nothing.
pub fn check_pass(d: &Directive) -> Outcome {
    match d.text(0) {
        "" => Err(Diagnostic::error("no host in upstream \"\"").at(d.arg(0).span)),
        _ => Ok(()),
    }
}
