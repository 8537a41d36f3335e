//! `limit_req`, `limit_conn` and `limit_rate`.

use super::{Action, Args, DirectiveInfo, HSL, HSLI, HTTP, ONE, directive, http, log, repeated};
use crate::cx::{Cx, Reference};
use crate::diagnostic::{Diagnostic, Outcome};
use crate::level::{HttpParts, Level};
use crate::model::{At, LimitConnZone, LimitReq, LimitReqZone, LogLevel};
use crate::tree::{Directive, Word};
use crate::values;

pub const TABLE: &[DirectiveInfo] = &[
    repeated("limit_req_zone", HTTP, Args::Between(3, 3), Action::Http(limit_req_zone)),
    repeated("limit_req", HSL, Args::Between(1, 3), Action::Level(limit_req)),
    directive(
        "limit_req_log_level",
        HSL,
        ONE,
        Action::Level(|l, _, d| http::set(&mut l.settings.limits.req.log_level, level(d))),
    ),
    directive(
        "limit_req_status",
        HSL,
        ONE,
        Action::Level(|l, _, d| http::set(&mut l.settings.limits.req.status, status(d))),
    ),
    directive(
        "limit_req_dry_run",
        HSL,
        Args::Flag,
        Action::Level(|l, _, d| http::set(&mut l.settings.limits.req.dry_run, d.flag())),
    ),
    repeated("limit_conn_zone", HTTP, Args::Between(2, 2), Action::Http(limit_conn_zone)),
    repeated("limit_conn", HSL, Args::Between(2, 2), Action::Level(limit_conn)),
    directive(
        "limit_conn_log_level",
        HSL,
        ONE,
        Action::Level(|l, _, d| http::set(&mut l.settings.limits.conn.log_level, level(d))),
    ),
    directive(
        "limit_conn_status",
        HSL,
        ONE,
        Action::Level(|l, _, d| http::set(&mut l.settings.limits.conn.status, status(d))),
    ),
    directive(
        "limit_conn_dry_run",
        HSL,
        Args::Flag,
        Action::Level(|l, _, d| http::set(&mut l.settings.limits.conn.dry_run, d.flag())),
    ),
    directive(
        "limit_rate",
        HSLI,
        ONE,
        Action::Level(|l, _, d| http::set(&mut l.settings.limits.rate, http::rate(d).map(Some))),
    ),
    directive(
        "limit_rate_after",
        HSLI,
        ONE,
        Action::Level(|l, _, d| http::set(&mut l.settings.limits.rate_after, http::rate(d).map(Some))),
    ),
];

/// The least that nginx takes for a zone, eight pages.
const ZONE_BYTES_MIN: usize = 8 * 4096;

fn level(d: &Directive) -> Outcome<LogLevel> {
    let levels = log::LEVELS.iter().filter(|(name, _)| matches!(*name, "info" | "notice" | "warn" | "error"));
    http::choose(d, &levels.copied().collect::<Vec<_>>())
}

fn status(d: &Directive) -> Outcome<u16> {
    match d.number(0).ok().and_then(|n| u16::try_from(n).ok()) {
        Some(status @ 400..=599) => Ok(status),
        _ => Err(d.invalid(d.arg(0), "a status from 400 to 599")),
    }
}

/// `zone=name:size`.
fn zone(word: &Word, value: &str) -> Outcome<(At<String>, usize)> {
    let parsed = value.split_once(':').and_then(|(name, size)| Some((name, values::size(size)?)));
    let Some((name, bytes)) = parsed.filter(|(name, _)| !name.is_empty()) else {
        return Err(Diagnostic::error(format!("invalid zone size \"{}\"", word.text))
            .at(word.span)
            .label("a zone is zone=name:size, such as zone=one:10m"));
    };
    match bytes >= ZONE_BYTES_MIN {
        true => Ok((At { value: name.to_owned(), span: word.span }, bytes)),
        false => Err(Diagnostic::error(format!("zone \"{}\" is too small", word.text))
            .at(word.span)
            .label("it must have 32k or more")),
    }
}

fn must_have_zone(d: &Directive) -> Box<Diagnostic> {
    Diagnostic::error(format!("\"{}\" must have \"zone\" parameter", d.name.text)).at(d.span())
}

fn limit_req_zone(parts: &mut HttpParts, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let key = d.template(0)?;
    let mut found = None;
    let mut rate_milli = 1000;
    for word in &d.args[1..] {
        match word.text.split_once('=') {
            Some(("zone", value)) => found = Some(zone(word, value)?),
            Some(("rate", value)) => {
                rate_milli = rate(value).ok_or_else(|| {
                    Diagnostic::error(format!("invalid rate \"{}\"", word.text))
                        .at(word.span)
                        .label("a rate is rate=10r/s or rate=30r/m")
                })?;
            }
            _ => return Err(d.invalid_parameter(word)),
        }
    }
    let (name, bytes) = found.ok_or_else(|| must_have_zone(d))?;
    if let Some(known) = parts.limit_req_zones.iter().find(|known| known.name.value == name.value) {
        return Err(bound_already(d, &name, known.name.span));
    }
    parts.limit_req_zones.push(LimitReqZone { name, key, bytes, rate_milli });
    Ok(())
}

fn bound_already(d: &Directive, name: &At<String>, first: crate::span::Span) -> Box<Diagnostic> {
    Diagnostic::error(format!("{} \"{}\" is already bound to key", d.name.text, name.value))
        .at(name.span)
        .related(first, "it is defined here")
}

/// Without a unit it is by the second, as nginx takes it.
fn rate(value: &str) -> Option<u64> {
    let (number, scale) = match value.strip_suffix("r/s") {
        Some(number) => (number, 1),
        None => value.strip_suffix("r/m").map_or((value, 1), |number| (number, 60)),
    };
    let rate = values::number(number).filter(|&n| n > 0)?.checked_mul(1000)? / scale;
    Some(rate)
}

fn limit_req(level: &mut Level, cx: &mut Cx<'_>, d: &Directive) -> Outcome {
    let mut zone = None;
    let mut limit = (0, Some(0));
    for word in &d.args {
        let number = |value: &str, what: &str| {
            values::number(value)
                .filter(|&n| n > 0)
                .ok_or_else(|| Diagnostic::error(format!("invalid {what} value \"{}\"", word.text)).at(word.span))
        };
        match word.text.split_once('=') {
            Some(("zone", name)) => zone = Some(At { value: name.to_owned(), span: word.span }),
            Some(("burst", value)) => limit.0 = number(value, "burst")?,
            Some(("delay", value)) => limit.1 = Some(number(value, "delay")?),
            None if word.text == "nodelay" => limit.1 = None,
            _ => return Err(d.invalid_parameter(word)),
        }
    }
    let zone = zone.filter(|zone| !zone.value.is_empty()).ok_or_else(|| must_have_zone(d))?;
    let list = level.list(|s| &mut s.limits.req.zones);
    if list.iter().any(|known| known.zone.value == zone.value) {
        return Err(d.duplicate());
    }
    cx.references.push(Reference::LimitReqZone(zone.clone()));
    list.push(LimitReq { zone, burst: limit.0, delay: limit.1 });
    Ok(())
}

fn limit_conn_zone(parts: &mut HttpParts, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let (key, word) = (d.template(0)?, d.arg(1));
    let Some(value) = word.text.strip_prefix("zone=") else {
        return Err(d.invalid_parameter(word));
    };
    let (name, bytes) = zone(word, value)?;
    if let Some(known) = parts.limit_conn_zones.iter().find(|known| known.name.value == name.value) {
        return Err(bound_already(d, &name, known.name.span));
    }
    parts.limit_conn_zones.push(LimitConnZone { name, key, bytes });
    Ok(())
}

fn limit_conn(level: &mut Level, cx: &mut Cx<'_>, d: &Directive) -> Outcome {
    let (zone, word) = (d.arg(0), d.arg(1));
    let zone = At { value: zone.text.clone(), span: zone.span };
    let number = match values::number(&word.text) {
        None | Some(0) => {
            return Err(Diagnostic::error(format!("invalid number of connections \"{}\"", word.text)).at(word.span));
        }
        Some(number) => {
            u16::try_from(number).map_err(|_| Diagnostic::error("connection limit must be less 65536").at(word.span))?
        }
    };
    let list = level.list(|s| &mut s.limits.conn.zones);
    if list.iter().any(|(known, _)| known.value == zone.value) {
        return Err(d.duplicate());
    }
    cx.references.push(Reference::LimitConnZone(zone.clone()));
    list.push((zone, number.into()));
    Ok(())
}
