//! Compression: `gzip_*` of nginx, `brotli_*` of ngx_brotli, `zstd_*` of zstd-nginx-module.

use super::{Action, Args, DirectiveInfo, HSL, HSLI, ONE, directive, http, repeated};
use crate::cx::Cx;
use crate::diagnostic::{Diagnostic, Outcome};
use crate::level::Level;
use crate::model::{GzipDisable, GzipProxied, MediaTypes, Pattern, StaticForms};
use crate::tree::Directive;
use crate::values;

const FLAG: Args = Args::Flag;
const MANY: Args = Args::AtLeast(1);
const TWO: Args = Args::Between(2, 2);
const BUFFERS: Action = Action::Harmless("compression has buffers of its own");

pub const TABLE: &[DirectiveInfo] = &[
    directive("gzip", HSLI, FLAG, Action::Level(|l, _, d| http::set(&mut l.compression().gzip.enabled, d.flag()))),
    repeated(
        "gzip_types",
        HSL,
        MANY,
        Action::Level(|l, cx, d| {
            let is_first = l.is_first;
            types(is_first, &mut l.compression().gzip.types, cx, d)
        }),
    ),
    directive(
        "gzip_comp_level",
        HSL,
        ONE,
        Action::Level(|l, _, d| http::set(&mut l.compression().gzip.level, level(d, 1, 9))),
    ),
    directive(
        "gzip_min_length",
        HSL,
        ONE,
        Action::Level(|l, _, d| http::set(&mut l.compression().gzip.min_bytes, min_length(d))),
    ),
    directive("gzip_vary", HSL, FLAG, Action::Level(|l, _, d| http::set(&mut l.compression().vary, d.flag()))),
    directive(
        "gzip_http_version",
        HSL,
        ONE,
        Action::Level(|l, _, d| {
            http::set(&mut l.compression().gzip.http_1_0, http::choose(d, &[("1.0", true), ("1.1", false)]))
        }),
    ),
    repeated("gzip_proxied", HSL, MANY, Action::Level(gzip_proxied)),
    repeated("gzip_disable", HSL, MANY, Action::Level(gzip_disable)),
    directive(
        "gzip_static",
        HSL,
        ONE,
        Action::Level(|l, _, d| http::set(&mut l.compression().gzip.files, static_forms(d))),
    ),
    directive("gunzip", HSL, FLAG, Action::Level(|l, _, d| http::set(&mut l.compression().gunzip, d.flag()))),
    repeated("gzip_buffers", HSL, TWO, BUFFERS),
    repeated("gzip_window", HSL, ONE, BUFFERS),
    repeated("gzip_hash", HSL, ONE, BUFFERS),
    repeated("gzip_no_buffer", HSL, FLAG, BUFFERS),
    repeated("postpone_gzipping", HSL, ONE, BUFFERS),
    repeated("gunzip_buffers", HSL, TWO, BUFFERS),
    directive("brotli", HSLI, FLAG, Action::Level(|l, _, d| http::set(&mut l.compression().brotli.enabled, d.flag()))),
    repeated(
        "brotli_types",
        HSL,
        MANY,
        Action::Level(|l, cx, d| {
            let is_first = l.is_first;
            types(is_first, &mut l.compression().brotli.types, cx, d)
        }),
    ),
    directive(
        "brotli_comp_level",
        HSL,
        ONE,
        Action::Level(|l, _, d| http::set(&mut l.compression().brotli.level, level(d, 0, 11))),
    ),
    directive(
        "brotli_min_length",
        HSL,
        ONE,
        Action::Level(|l, _, d| http::set(&mut l.compression().brotli.min_bytes, min_length(d))),
    ),
    directive("brotli_window", HSL, ONE, Action::Level(brotli_window)),
    directive(
        "brotli_static",
        HSL,
        ONE,
        Action::Level(|l, _, d| http::set(&mut l.compression().brotli.files, static_forms(d))),
    ),
    repeated("brotli_buffers", HSL, TWO, BUFFERS),
    directive("zstd", HSLI, FLAG, Action::Level(|l, _, d| http::set(&mut l.compression().zstd.enabled, d.flag()))),
    repeated(
        "zstd_types",
        HSL,
        MANY,
        Action::Level(|l, cx, d| {
            let is_first = l.is_first;
            types(is_first, &mut l.compression().zstd.types, cx, d)
        }),
    ),
    directive("zstd_comp_level", HSL, ONE, Action::Level(zstd_comp_level)),
    directive(
        "zstd_min_length",
        HSL,
        ONE,
        Action::Level(|l, _, d| http::set(&mut l.compression().zstd.min_bytes, min_length(d))),
    ),
    directive(
        "zstd_static",
        HSL,
        ONE,
        Action::Level(|l, _, d| http::set(&mut l.compression().zstd.files, static_forms(d))),
    ),
    repeated("zstd_buffers", HSL, TWO, BUFFERS),
    directive(
        "larder_compress_private",
        HSLI,
        FLAG,
        Action::Level(|l, _, d| http::set(&mut l.compression().private, d.flag())),
    ),
    directive(
        "larder_compress_stored",
        HSLI,
        FLAG,
        Action::Level(|l, _, d| http::set(&mut l.compression().stored, d.flag())),
    ),
];

/// Media types beside `text/html`, which is always meant.
/// The types of a filter; `*` is all.
pub fn types(is_first: bool, types: &mut MediaTypes, cx: &mut Cx<'_>, d: &Directive) -> Outcome {
    if is_first {
        *types = MediaTypes::Listed(vec!["text/html".to_owned()]);
    }
    for word in &d.args {
        let MediaTypes::Listed(listed) = types else {
            return Ok(());
        };
        if word.text == "*" {
            *types = MediaTypes::All;
            return Ok(());
        }
        let kind = word.text.to_ascii_lowercase();
        if listed.contains(&kind) {
            cx.report(Diagnostic::warning(format!("duplicate MIME type \"{kind}\"")).at(word.span));
        } else {
            listed.push(kind);
        }
    }
    Ok(())
}

fn level(d: &Directive, min: u8, max: u8) -> Outcome<u8> {
    let level = u8::try_from(d.number(0)?).ok().filter(|level| (min..=max).contains(level));
    level.ok_or_else(|| out_of_bounds(d, &format!("value must be between {min} and {max}")))
}

fn out_of_bounds(d: &Directive, message: &str) -> Box<Diagnostic> {
    Diagnostic::error(message).at(d.arg(0).span).label(format!("in \"{}\"", d.name.text))
}

fn min_length(d: &Directive) -> Outcome<u64> {
    d.size(0).map(|bytes| bytes as u64)
}

fn static_forms(d: &Directive) -> Outcome<StaticForms> {
    http::choose(d, &[("off", StaticForms::Off), ("on", StaticForms::On), ("always", StaticForms::Always)])
}

fn gzip_proxied(level: &mut Level, cx: &mut Cx<'_>, d: &Directive) -> Outcome {
    let is_first = level.is_first;
    let proxied = &mut level.compression().gzip.proxied;
    if is_first {
        *proxied = GzipProxied::default();
    }
    for word in &d.args {
        let place = match word.text.to_ascii_lowercase().as_str() {
            "off" => &mut proxied.off,
            "expired" => &mut proxied.expired,
            "no-cache" => &mut proxied.no_cache,
            "no-store" => &mut proxied.no_store,
            "private" => &mut proxied.private,
            "no_last_modified" => &mut proxied.no_last_modified,
            "no_etag" => &mut proxied.no_etag,
            "auth" => &mut proxied.auth,
            "any" => &mut proxied.any,
            _ => {
                let words = "off, expired, no-cache, no-store, private, no_last_modified, no_etag, auth or any";
                return Err(d.invalid(word, words));
            }
        };
        if std::mem::replace(place, true) {
            cx.report(Diagnostic::warning(format!("duplicate value \"{}\"", word.text)).at(word.span));
        }
    }
    Ok(())
}

fn gzip_disable(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let is_first = level.is_first;
    let disable = &mut level.compression().gzip.disable;
    if is_first {
        // nginx inherits this one word whatever else a level says.
        disable.retain(|known| *known == GzipDisable::Msie6);
    }
    for word in &d.args {
        let rule = match word.text.as_str() {
            "msie6" => GzipDisable::Msie6,
            source => GzipDisable::Pattern(Pattern { source: source.to_owned(), caseless: true, span: word.span }),
        };
        if !disable.contains(&rule) {
            disable.push(rule);
        }
    }
    Ok(())
}

fn brotli_window(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let bytes = d.size(0)?;
    let log = (10..=24).find(|&log| bytes == 1 << log);
    level.compression().brotli.window_log = log
        .ok_or_else(|| d.invalid(d.arg(0), "1k, 2k, 4k, 8k, 16k, 32k, 64k, 128k, 256k, 512k, 1m, 2m, 4m, 8m or 16m"))?;
    Ok(())
}

fn zstd_comp_level(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    const LEVEL_MIN: i32 = -131_072;
    const LEVEL_MAX: i32 = 22;
    let word = d.arg(0);
    let number = |text: &str| values::number(text).and_then(|n| i32::try_from(n).ok());
    let number = match word.text.strip_prefix('-') {
        Some(digits) => number(digits).map(|n| -n),
        None => number(&word.text),
    };
    level.compression().zstd.level = match number {
        Some(0) | None => None,
        Some(number) => Some(number).filter(|number| (LEVEL_MIN..=LEVEL_MAX).contains(number)),
    }
    .ok_or_else(|| {
        let message = format!("zstd compress level must between {LEVEL_MIN} and {LEVEL_MAX} excluding 0");
        out_of_bounds(d, &message)
    })?;
    Ok(())
}
