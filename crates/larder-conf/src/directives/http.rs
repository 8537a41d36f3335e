//! The core of the http module, as far as it is neither a listener nor a location.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use super::{
    Action, Args, BlockKind, DirectiveInfo, HS, HSL, HSLI, HTTP, NONE, ONE, block, directive, log, origin, repeated,
    resolver,
};
use crate::build::{Cx, Level, children};
use crate::diagnostic::{Diagnostic, Outcome};
use crate::model::{BodyInFile, DisableSymlinks, IfModifiedSince, KeepaliveDisable, LingeringClose, ServerTokens};
use crate::tree::Directive;
use crate::{template, values};

pub const TABLE: &[DirectiveInfo] = &[
    block("server", HTTP, NONE, Action::Block(BlockKind::Server)),
    // What belongs to a server.
    directive("client_header_timeout", HS, ONE, Action::Level(|l, _, d| set(&mut l.client.header_timeout, d.time(0)))),
    directive(
        "client_header_buffer_size",
        HS,
        ONE,
        Action::Level(|l, _, d| set(&mut l.client.header_buffer_bytes, d.size(0))),
    ),
    directive(
        "large_client_header_buffers",
        HS,
        Args::Between(2, 2),
        Action::Level(|l, _, d| set(&mut l.client.large_header_buffers, d.buffers())),
    ),
    directive(
        "ignore_invalid_headers",
        HS,
        Args::Flag,
        Action::Level(|l, _, d| set(&mut l.client.ignore_invalid_headers, d.flag())),
    ),
    directive(
        "underscores_in_headers",
        HS,
        Args::Flag,
        Action::Level(|l, _, d| set(&mut l.client.underscores_in_headers, d.flag())),
    ),
    directive("merge_slashes", HS, Args::Flag, Action::Level(|l, _, d| set(&mut l.client.merge_slashes, d.flag()))),
    directive(
        "max_headers",
        HS,
        ONE,
        Action::Level(|l, _, d| set(&mut l.client.max_headers, d.number32(0).map(|n| n as usize))),
    ),
    repeated(
        "early_hints",
        HSL,
        Args::AtLeast(1),
        Action::Level(|l, _, d| {
            let is_first = l.is_first;
            origin::templates(is_first, &mut l.modules().early_hints, d)
        }),
    ),
    // Types.
    block("types", HSL, NONE, Action::Level(types)),
    directive(
        "default_type",
        HSL,
        ONE,
        Action::Level(|l, _, d| set(&mut l.settings.files.default_type, Ok(d.text(0).to_owned()))),
    ),
    // Request bodies.
    directive(
        "client_max_body_size",
        HSL,
        ONE,
        Action::Level(|l, _, d| {
            set(&mut l.settings.body.max_bytes, d.offset(0).map(|bytes| (bytes > 0).then_some(bytes)))
        }),
    ),
    directive(
        "client_body_buffer_size",
        HSL,
        ONE,
        Action::Level(|l, _, d| set(&mut l.settings.body.buffer_bytes, d.size(0))),
    ),
    directive("client_body_timeout", HSL, ONE, Action::Level(|l, _, d| set(&mut l.settings.body.timeout, d.time(0)))),
    directive(
        "client_body_temp_path",
        HSL,
        Args::Between(1, 4),
        Action::Level(|l, cx, d| {
            l.settings.body.temp_levels = temp_levels(d)?;
            set(&mut l.settings.body.temp_path, temp_path(cx, d).map(Some))
        }),
    ),
    directive(
        "client_body_in_file_only",
        HSL,
        ONE,
        Action::Level(|l, _, d| {
            let choices = [("off", BodyInFile::Off), ("on", BodyInFile::On), ("clean", BodyInFile::Clean)];
            set(&mut l.settings.body.in_file_only, choose(d, &choices))
        }),
    ),
    // Connections.
    directive(
        "keepalive_timeout",
        HSL,
        Args::Between(1, 2),
        Action::Level(|l, _, d| {
            l.settings.connection.keepalive_timeout = d.time(0)?;
            l.settings.connection.keepalive_header = None;
            if d.args.len() == 2 {
                l.settings.connection.keepalive_header = Some(d.time(1)?.as_secs());
            }
            Ok(())
        }),
    ),
    directive(
        "keepalive_requests",
        HSL,
        ONE,
        Action::Level(|l, _, d| set(&mut l.settings.connection.keepalive_requests, d.number(0))),
    ),
    directive(
        "keepalive_time",
        HSL,
        ONE,
        Action::Level(|l, _, d| set(&mut l.settings.connection.keepalive_time, d.time(0))),
    ),
    directive(
        "keepalive_disable",
        HSL,
        Args::Between(1, 2),
        Action::Level(|l, _, d| {
            let disable = &mut l.settings.connection.keepalive_disable;
            *disable = KeepaliveDisable::default();
            for word in &d.args {
                match word.text.as_str() {
                    "none" => {}
                    "msie6" => disable.msie6 = true,
                    "safari" => disable.safari = true,
                    _ => return Err(d.invalid(word, "\"none\", \"msie6\" or \"safari\"")),
                }
            }
            Ok(())
        }),
    ),
    directive(
        "send_timeout",
        HSL,
        ONE,
        Action::Level(|l, _, d| set(&mut l.settings.connection.send_timeout, d.time(0))),
    ),
    directive(
        "lingering_close",
        HSL,
        ONE,
        Action::Level(|l, _, d| {
            let choices =
                [("off", LingeringClose::Off), ("on", LingeringClose::On), ("always", LingeringClose::Always)];
            set(&mut l.settings.connection.lingering_close, choose(d, &choices))
        }),
    ),
    directive(
        "lingering_time",
        HSL,
        ONE,
        Action::Level(|l, _, d| set(&mut l.settings.connection.lingering_time, d.time(0))),
    ),
    directive(
        "lingering_timeout",
        HSL,
        ONE,
        Action::Level(|l, _, d| set(&mut l.settings.connection.lingering_timeout, d.time(0))),
    ),
    directive(
        "reset_timedout_connection",
        HSL,
        Args::Flag,
        Action::Level(|l, _, d| set(&mut l.settings.connection.reset_timedout, d.flag())),
    ),
    directive("limit_rate", HSLI, ONE, Action::Level(|l, _, d| set(&mut l.settings.limits.rate, rate(d).map(Some)))),
    directive(
        "limit_rate_after",
        HSLI,
        ONE,
        Action::Level(|l, _, d| set(&mut l.settings.limits.rate_after, rate(d).map(Some))),
    ),
    // Answers.
    directive(
        "recursive_error_pages",
        HSL,
        Args::Flag,
        Action::Level(|l, _, d| set(&mut l.settings.errors.recursive, d.flag())),
    ),
    directive(
        "log_not_found",
        HSL,
        Args::Flag,
        Action::Level(|l, _, d| set(&mut l.settings.files.log_not_found, d.flag())),
    ),
    directive(
        "log_subrequest",
        HSL,
        Args::Flag,
        Action::Level(|l, _, d| set(&mut l.settings.logs.subrequests, d.flag())),
    ),
    directive(
        "server_tokens",
        HSL,
        ONE,
        Action::Level(|l, _, d| {
            let choices = [("on", ServerTokens::On), ("off", ServerTokens::Off), ("build", ServerTokens::Build)];
            set(&mut l.settings.fields.server_tokens, choose(d, &choices))
        }),
    ),
    directive("etag", HSL, Args::Flag, Action::Level(|l, _, d| set(&mut l.settings.files.etag, d.flag()))),
    directive(
        "if_modified_since",
        HSL,
        ONE,
        Action::Level(|l, _, d| {
            let choices =
                [("off", IfModifiedSince::Off), ("exact", IfModifiedSince::Exact), ("before", IfModifiedSince::Before)];
            set(&mut l.settings.parts.if_modified_since, choose(d, &choices))
        }),
    ),
    directive(
        "max_ranges",
        HSL,
        ONE,
        Action::Level(|l, _, d| set(&mut l.settings.parts.max_ranges, d.number32(0).map(Some))),
    ),
    directive(
        "slice",
        HSL,
        ONE,
        Action::Level(|l, _, d| set(&mut l.settings.parts.slice_bytes, d.size(0).map(|n| n as u64))),
    ),
    directive(
        "chunked_transfer_encoding",
        HSL,
        Args::Flag,
        Action::Level(|l, _, d| set(&mut l.settings.connection.chunked_transfer_encoding, d.flag())),
    ),
    directive(
        "absolute_redirect",
        HSL,
        Args::Flag,
        Action::Level(|l, _, d| set(&mut l.settings.redirects.absolute, d.flag())),
    ),
    directive(
        "server_name_in_redirect",
        HSL,
        Args::Flag,
        Action::Level(|l, _, d| set(&mut l.settings.redirects.server_name, d.flag())),
    ),
    directive(
        "port_in_redirect",
        HSL,
        Args::Flag,
        Action::Level(|l, _, d| set(&mut l.settings.redirects.port, d.flag())),
    ),
    repeated(
        "error_log",
        HSL,
        Args::AtLeast(1),
        Action::Level(|l, cx, d| {
            let log = log::error_log(cx, d)?;
            l.list(|s| &mut s.logs.error).push(log);
            Ok(())
        }),
    ),
    // Files.
    directive("sendfile", HSLI, Args::Flag, Action::Level(|l, _, d| set(&mut l.settings.files.sendfile, d.flag()))),
    directive("open_file_cache", HSL, Args::Between(1, 2), Action::Level(open_file_cache)),
    directive(
        "open_file_cache_valid",
        HSL,
        ONE,
        Action::Level(|l, _, d| set(&mut l.settings.files.open_cache.valid, d.time(0))),
    ),
    directive(
        "open_file_cache_min_uses",
        HSL,
        ONE,
        Action::Level(|l, _, d| set(&mut l.settings.files.open_cache.min_uses, d.number32(0))),
    ),
    directive(
        "open_file_cache_errors",
        HSL,
        Args::Flag,
        Action::Level(|l, _, d| set(&mut l.settings.files.open_cache.errors, d.flag())),
    ),
    directive("disable_symlinks", HSL, Args::Between(1, 2), Action::Level(disable_symlinks)),
    // Names.
    directive(
        "resolver",
        HSL,
        Args::AtLeast(1),
        Action::Level(|l, _, d| set(&mut l.settings.resolving.resolver, resolver::resolver(d).map(Some))),
    ),
    directive("resolver_timeout", HSL, ONE, Action::Level(|l, _, d| set(&mut l.settings.resolving.timeout, d.time(0)))),
    directive(
        "larder_cache_status",
        HSL,
        Args::Flag,
        Action::Level(|l, _, d| set(&mut l.settings.fields.cache_status, d.flag())),
    ),
];

/// Puts a value where it belongs.
pub fn set<T>(place: &mut T, value: Outcome<T>) -> Outcome {
    *place = value?;
    Ok(())
}

/// One word of several.
pub fn choose<T: Copy>(d: &Directive, choices: &[(&str, T)]) -> Outcome<T> {
    let word = d.arg(0);
    let found = choices.iter().find(|(name, _)| word.text.eq_ignore_ascii_case(name));
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<String> = choices.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        d.invalid(word, &alternatives(&names))
    })
}

/// `"a", "b" or "c"`.
pub fn alternatives(names: &[String]) -> String {
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, first)) => format!("{} or {last}", first.join(", ")),
        None => String::new(),
    }
}

/// Bytes a second, or a variable with them.
pub fn rate(d: &Directive) -> Outcome<crate::model::Template> {
    let rate = d.template(0)?;
    match template::as_literal(&rate) {
        Some(text) if values::size(text).is_none() => Err(d.invalid(d.arg(0), values::SIZE)),
        Some(text) => Ok(template::literal(&values::size(text).unwrap_or(0).to_string(), rate.span)),
        None => Ok(rate),
    }
}

/// The levels of folders below a path for temporary files, by letters of the files' names.
fn temp_levels(d: &Directive) -> Outcome<[usize; 3]> {
    let mut levels = [0; 3];
    for (level, word) in levels.iter_mut().zip(&d.args[1..]) {
        *level = values::number(&word.text).and_then(|letters| usize::try_from(letters).ok()).unwrap_or(0);
        if *level == 0 {
            return Err(d.invalid(word, "a number of letters above zero"));
        }
    }
    let letters = levels.iter().fold(0, |sum: usize, letters| sum.saturating_add(*letters));
    match d.args.last() {
        Some(last) if letters > TEMP_NAME_LETTERS => Err(d.invalid(
            last,
            &format!("at most what the others leave of {TEMP_NAME_LETTERS}, as a name has no more letters"),
        )),
        Some(_) | None => Ok(levels),
    }
}

/// How long the names of temporary files are.
const TEMP_NAME_LETTERS: usize = 10;

/// A path with up to three levels of folders below, which larder does not need.
pub fn temp_path(cx: &Cx<'_>, d: &Directive) -> Outcome<std::path::PathBuf> {
    for word in &d.args[1..] {
        if values::number(&word.text).is_none_or(|letters| letters == 0) {
            return Err(d.invalid(word, "a number of letters above zero"));
        }
    }
    Ok(cx.path(d.text(0)))
}

fn types(level: &mut Level, cx: &mut Cx<'_>, d: &Directive) -> Outcome {
    let mut types = match level.is_first {
        true => HashMap::new(),
        false => HashMap::clone(&level.settings.files.types),
    };
    for entry in children(d) {
        if entry.block.is_some() {
            cx.report(
                Diagnostic::error("unexpected \"{\"").at(entry.name.span).label("a line is \"type extension...;\""),
            );
            continue;
        }
        for extension in &entry.args {
            let kind = entry.name.text.clone();
            let key = extension.text.to_ascii_lowercase();
            if let Some(old) = types.get(&key)
                && *old != kind
            {
                cx.report(
                    Diagnostic::warning(format!(
                        "duplicate extension \"{key}\", content type: \"{kind}\", previous content type: \"{old}\""
                    ))
                    .at(extension.span),
                );
            }
            types.insert(key, kind);
        }
    }
    level.settings.files.types = Arc::new(types);
    Ok(())
}

fn open_file_cache(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let mut max = None;
    let mut inactive = std::time::Duration::from_secs(60);
    for word in &d.args {
        let wrong = || {
            Diagnostic::error(format!("invalid \"open_file_cache\" parameter \"{}\"", word.text))
                .at(word.span)
                .label("it must be \"off\", \"max=number\" or \"inactive=time\"")
        };
        match word.text.split_once('=') {
            None if word.text == "off" => {
                level.settings.files.open_cache.kept = None;
                return Ok(());
            }
            Some(("max", value)) => {
                max = Some(
                    values::number(value).and_then(|n| usize::try_from(n).ok()).filter(|&n| n > 0).ok_or_else(wrong)?,
                );
            }
            Some(("inactive", value)) => inactive = values::time(value).ok_or_else(wrong)?,
            _ => return Err(wrong()),
        }
    }
    let max =
        max.ok_or_else(|| Diagnostic::error("\"open_file_cache\" must have the \"max\" parameter").at(d.span()))?;
    level.settings.files.open_cache.kept = Some((max, inactive));
    Ok(())
}

fn disable_symlinks(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let mut from = None;
    let mut how = None;
    for word in &d.args {
        match word.text.strip_prefix("from=") {
            Some(path) => from = Some(template::parse_template(path, word.span)?),
            None => how = Some(word),
        }
    }
    let Some(how) = how else {
        let message = "\"disable_symlinks\" must have \"off\", \"on\" or \"if_not_owner\" parameter";
        return Err(Diagnostic::error(message).at(d.span()));
    };
    level.settings.files.disable_symlinks = match (how.text.as_str(), from) {
        ("off", None) => DisableSymlinks::Off,
        ("off", Some(_)) => {
            return Err(Diagnostic::error("\"from=\" cannot be used with \"off\" parameter").at(d.span()));
        }
        ("on", from) => DisableSymlinks::On { from },
        ("if_not_owner", from) => DisableSymlinks::IfNotOwner { from },
        _ => return Err(d.invalid_parameter(how)),
    };
    Ok(())
}

/// A literal address, with or without a port.
pub fn literal_address(text: &str, default_port: u16) -> Option<SocketAddr> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return (address.port() != 0).then_some(address);
    }
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    bare.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, default_port))
}
