//! `server`, its limits on request heads, and setters that many directives share.

use super::{Action, Args, BlockKind, DirectiveInfo, HS, HSL, HTTP, NONE, ONE, block, directive, repeated};
use crate::cx::Cx;
use crate::diagnostic::Outcome;
use crate::model::Template;
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
            templates(is_first, &mut l.modules().early_hints, d)
        }),
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

/// Adds templates to a list.
pub fn templates(is_first: bool, list: &mut Vec<Template>, d: &Directive) -> Outcome {
    if is_first {
        list.clear();
    }
    for word in &d.args {
        list.push(template::of(word)?);
    }
    Ok(())
}

/// Bytes a second, or a variable with them.
pub fn rate(d: &Directive) -> Outcome<Template> {
    let rate = d.template(0)?;
    match template::as_literal(&rate) {
        Some(text) if values::size(text).is_none() => Err(d.invalid(d.arg(0), values::SIZE)),
        Some(text) => Ok(template::literal(&values::size(text).unwrap_or(0).to_string(), rate.span)),
        None => Ok(rate),
    }
}

/// A path with up to three levels of folders below, which larder does not need.
pub fn temp_path(cx: &Cx<'_>, d: &Directive) -> Outcome<std::path::PathBuf> {
    for word in &d.args[1..] {
        if values::number(&word.text).is_none_or(|letters| letters == 0) {
            return Err(d.invalid(word, "a number of letters above zero"));
        }
    }
    Ok(cx.path(d.text(0)))
}
