//! `fastcgi_cache_path` and `proxy_cache_path`, and larder's own `larder_memory` and `larder_placement`.

use std::time::Duration;

use super::{Action, Args, DirectiveInfo, HTTP, ONE, directive, repeated};
use crate::cx::Cx;
use crate::diagnostic::{Diagnostic, Outcome};
use crate::level::HttpParts;
use crate::model::{At, CachePath, MemoryTotal, Placement, PlacementRule};
use crate::tree::{Directive, Word};
use crate::values;

pub const TABLE: &[DirectiveInfo] = &[
    repeated("fastcgi_cache_path", HTTP, Args::AtLeast(2), Action::Http(cache_path)),
    repeated("proxy_cache_path", HTTP, Args::AtLeast(2), Action::Http(cache_path)),
    directive("larder_memory", HTTP, ONE, Action::Http(memory)),
    directive("larder_memory_total", HTTP, ONE, Action::Http(memory_total)),
    repeated("larder_placement", HTTP, Args::AtLeast(4), Action::Http(placement)),
];

/// The parameters that matter here; those for the loader and the manager are read too.
const PARAMETERS: &[&str] =
    &["keys_zone", "levels", "inactive", "max_size", "min_free", "use_temp_path", "larder_memory", "larder_disk"];

/// The least memory that pages can be kept in.
const MEMORY_BYTES_MIN: u64 = 1 << 20;

/// The least that a process of a few workers can do anything with.
const TOTAL_BYTES_MIN: u64 = 16 << 20;

/// The least that nginx takes for a zone, two pages.
const ZONE_BYTES_MIN: usize = 2 * 4096;

fn cache_path(http: &mut HttpParts, cx: &mut Cx<'_>, d: &Directive) -> Outcome {
    let text = d.text(0);
    let path = match text {
        "/" => cx.path(text),
        _ => cx.path(text.strip_suffix('/').unwrap_or(text)),
    };
    let mut zone = None;
    let mut cache = CachePath {
        path,
        zone: At { value: String::new(), span: d.span() },
        keys_bytes: 0,
        max_bytes: None,
        min_free_bytes: None,
        inactive: Duration::from_secs(600),
        memory_bytes: None,
        on_disk: true,
    };
    // The zone is there all the same: who uses it has done nothing wrong.
    let mut wrong = None;
    for word in &d.args[1..] {
        match word.text.strip_prefix("keys_zone=") {
            Some(value) => zone = Some(keys_zone(word, value)?),
            None => wrong = wrong.or(parameter(&mut cache, d, word).err()),
        }
    }
    let Some((name, bytes)) = zone else {
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        let message = format!("\"{}\" must have \"keys_zone\" parameter", d.name.text);
        return Err(Diagnostic::error(message).at(d.span()).help("add keys_zone=name:10m"));
    };
    if let Some(known) = http.cache_paths.iter().find(|known| known.zone.value == name.value) {
        return Err(twice(&name, &known.zone));
    }
    if let Some(known) = http.cache_paths.iter().find(|known| known.path == cache.path) {
        return Err(Diagnostic::error(format!("the path \"{}\" is used by two caches", cache.path.display()))
            .at(d.arg(0).span)
            .related(known.zone.span, "the other one is here"));
    }
    if let Some(known) = http.placements.iter().find(|known| known.zone.value == name.value) {
        return Err(twice(&name, &known.zone));
    }
    http.cache_paths.push(CachePath { zone: name, keys_bytes: bytes, ..cache });
    wrong.map_or(Ok(()), Err)
}

/// A parameter of a path other than its zone.
fn parameter(cache: &mut CachePath, d: &Directive, word: &Word) -> Outcome {
    let wrong = |what: &str| Diagnostic::error(format!("invalid {what} \"{}\"", word.text)).at(word.span);
    let Some((name, value)) = word.text.split_once('=') else {
        return Err(d.unknown_parameter(word, PARAMETERS));
    };
    match name {
        "levels" if is_levels(value) => {}
        "levels" => {
            return Err(Diagnostic::error(format!("invalid \"levels\" \"{}\"", word.text))
                .at(word.span)
                .label("up to three numbers, each 1 or 2, such as levels=1:2"));
        }
        "inactive" => {
            cache.inactive = values::time(value).ok_or_else(|| wrong("inactive value").label(must_be(values::TIME)))?;
        }
        "max_size" => {
            let bytes = values::offset(value);
            cache.max_bytes = Some(bytes.unwrap_or_default());
            bytes.ok_or_else(|| wrong("max_size value").label(must_be(values::OFFSET)))?;
        }
        "min_free" => {
            let bytes = values::offset(value);
            let bytes = bytes.ok_or_else(|| wrong("min_free value").label(must_be(values::OFFSET)))?;
            cache.min_free_bytes = Some(bytes);
        }
        "use_temp_path" | "larder_disk" => {
            let is_on = match value {
                "on" => true,
                "off" => false,
                _ => {
                    return Err(Diagnostic::error(format!(
                        "invalid {name} value \"{}\", it must be \"on\" or \"off\"",
                        word.text
                    ))
                    .at(word.span));
                }
            };
            cache.on_disk = if name == "larder_disk" { is_on } else { cache.on_disk };
        }
        "larder_memory" => {
            cache.memory_bytes =
                Some(memory_bytes(value).ok_or_else(|| wrong("larder_memory value").label(must_be(MEMORY)))?)
        }
        "loader_files" | "manager_files" if values::number(value).is_some() => {}
        "loader_sleep" | "loader_threshold" | "manager_sleep" | "manager_threshold"
            if values::time(value).is_some() => {}
        "loader_files" | "manager_files" | "loader_sleep" | "loader_threshold" | "manager_sleep"
        | "manager_threshold" => return Err(wrong(&format!("{name} value"))),
        "purger" if value == "off" => {}
        "purger" | "purger_files" | "purger_sleep" | "purger_threshold" => {
            return Err(Diagnostic::error(format!("\"{name}\" is not available in this version of larder"))
                .at(word.span)
                .label("it belongs to NGINX Plus")
                .help("remove it"));
        }
        _ => return Err(d.unknown_parameter(word, PARAMETERS)),
    }
    Ok(())
}

fn twice(name: &At<String>, known: &At<String>) -> Box<Diagnostic> {
    Diagnostic::error(format!("duplicate zone \"{}\"", name.value))
        .at(name.span)
        .related(known.span, "it is defined here already")
}

/// What a value for memory must be.
const MEMORY: &str = "a size of 1m or more, such as 512m or 2g";

fn memory_bytes(value: &str) -> Option<u64> {
    values::offset(value).filter(|&bytes| bytes >= MEMORY_BYTES_MIN)
}

/// `larder_memory SIZE`.
fn memory(http: &mut HttpParts, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    http.memory_bytes = Some(memory_bytes(d.text(0)).ok_or_else(|| d.invalid(d.arg(0), MEMORY))?);
    Ok(())
}

/// `larder_memory_total SIZE|off`.
fn memory_total(http: &mut HttpParts, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    http.memory_total = match d.text(0) {
        "off" => MemoryTotal::Off,
        size => values::offset(size)
            .filter(|&bytes| bytes >= TOTAL_BYTES_MIN)
            .map(MemoryTotal::Bytes)
            .ok_or_else(|| d.invalid(d.arg(0), "\"off\", or a size of 16m or more, such as 512m or 2g"))?,
    };
    Ok(())
}

/// `larder_placement NAME hash|mirror ZONE ZONE...`.
///
/// The zones it names are looked for when all are known.
fn placement(http: &mut HttpParts, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let at = |word: &Word| At { value: word.text.clone(), span: word.span };
    let zone = at(d.arg(0));
    let rule = match d.text(1) {
        "hash" => PlacementRule::Hash,
        "mirror" => PlacementRule::Mirror,
        _ => return Err(d.invalid(d.arg(1), "\"hash\" or \"mirror\"")),
    };
    let paths = http.cache_paths.iter().map(|known| &known.zone);
    let known = paths.chain(http.placements.iter().map(|known| &known.zone)).find(|known| known.value == zone.value);
    if let Some(known) = known {
        return Err(twice(&zone, known));
    }
    let mut members: Vec<At<String>> = Vec::new();
    for word in &d.args[2..] {
        if let Some(first) = members.iter().find(|member| member.value == word.text) {
            return Err(Diagnostic::error(format!("zone \"{}\" is named twice", word.text))
                .at(word.span)
                .related(first.span, "here first"));
        }
        members.push(at(word));
    }
    http.placements.push(Placement { zone, rule, members });
    Ok(())
}

fn must_be(what: &str) -> String {
    format!("it must be {what}")
}

/// Up to three of 1 and 2, with colons between them; or nothing.
fn is_levels(value: &str) -> bool {
    if value.is_empty() {
        return true;
    }
    let parts: Vec<&str> = value.split(':').collect();
    parts.len() <= 3 && parts.iter().all(|part| matches!(*part, "1" | "2"))
}

/// `name:size`.
fn keys_zone(word: &Word, value: &str) -> Outcome<(At<String>, usize)> {
    let parsed = value.split_once(':').and_then(|(name, size)| Some((name, values::size(size)?)));
    let message = match parsed.filter(|(name, _)| !name.is_empty()) {
        Some((name, bytes)) if bytes >= ZONE_BYTES_MIN => {
            return Ok((At { value: name.to_owned(), span: word.span }, bytes));
        }
        Some(_) => format!("keys zone \"{}\" is too small", word.text),
        None => format!("invalid keys zone size \"{}\"", word.text),
    };
    Err(Diagnostic::error(message)
        .at(word.span)
        .label("it is keys_zone=name:size with a size of 8k or more, such as keys_zone=pages:10m"))
}
