//! Static files: their media types, how they are opened, and their fields in responses.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Action, Args, DirectiveInfo, HSL, HSLI, NONE, ONE, block, directive, http};
use crate::cx::Cx;
use crate::diagnostic::{Diagnostic, Outcome};
use crate::level::Level;
use crate::model::DisableSymlinks;
use crate::tree::Directive;
use crate::{template, values};

pub const TABLE: &[DirectiveInfo] = &[
    block("types", HSL, NONE, Action::Level(types)),
    directive(
        "default_type",
        HSL,
        ONE,
        Action::Level(|l, _, d| http::set(&mut l.settings.files.default_type, Ok(d.text(0).to_owned()))),
    ),
    directive(
        "log_not_found",
        HSL,
        Args::Flag,
        Action::Level(|l, _, d| http::set(&mut l.settings.files.log_not_found, d.flag())),
    ),
    directive("etag", HSL, Args::Flag, Action::Level(|l, _, d| http::set(&mut l.settings.files.etag, d.flag()))),
    directive(
        "sendfile",
        HSLI,
        Args::Flag,
        Action::Level(|l, _, d| http::set(&mut l.settings.files.sendfile, d.flag())),
    ),
    directive("open_file_cache", HSL, Args::Between(1, 2), Action::Level(open_file_cache)),
    directive(
        "open_file_cache_valid",
        HSL,
        ONE,
        Action::Level(|l, _, d| http::set(&mut l.settings.files.open_cache.valid, d.time(0))),
    ),
    directive(
        "open_file_cache_min_uses",
        HSL,
        ONE,
        Action::Level(|l, _, d| http::set(&mut l.settings.files.open_cache.min_uses, d.number32(0))),
    ),
    directive(
        "open_file_cache_errors",
        HSL,
        Args::Flag,
        Action::Level(|l, _, d| http::set(&mut l.settings.files.open_cache.errors, d.flag())),
    ),
    directive("disable_symlinks", HSL, Args::Between(1, 2), Action::Level(disable_symlinks)),
];

fn types(level: &mut Level, cx: &mut Cx<'_>, d: &Directive) -> Outcome {
    let mut types = match level.is_first {
        true => HashMap::new(),
        false => HashMap::clone(&level.settings.files.types),
    };
    for entry in d.children() {
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
