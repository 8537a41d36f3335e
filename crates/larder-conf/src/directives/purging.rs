//! Purging in the words of plugins: `larder_purge_from` says who may, `larder_cache_tags` by which tags; and the words of
//! LiteSpeed's plugins for the whole cache, `larder_litespeed`.

use super::{Action, Args, DirectiveInfo, HSL, access, directive, origin};
use crate::cx::Cx;
use crate::diagnostic::{Diagnostic, Outcome};
use crate::level::Level;
use crate::model::{CacheTags, PurgeRights, TAG_NAMES};
use crate::tree::{Directive, Word};

pub const TABLE: &[DirectiveInfo] = &[
    directive("larder_purge_from", HSL, Args::AtLeast(1), Action::Level(from)),
    directive("larder_cache_tags", HSL, Args::AtLeast(1), Action::Level(tags)),
    directive("larder_purge_by_origin", HSL, Args::Flag, Action::Level(by_origin)),
    directive("larder_litespeed", HSL, Args::Flag, Action::Level(litespeed)),
];

/// `ADDRESS|NETWORK|key=SECRET... [scheme=all]`, or `off`.
fn from(level: &mut Level, cx: &mut Cx<'_>, d: &Directive) -> Outcome {
    if d.args.len() == 1 && d.text(0) == "off" {
        level.purging().from = None;
        return Ok(());
    }
    let mut rights = PurgeRights { span: d.span(), nets: Vec::new(), secrets: Vec::new(), all_schemes: false };
    for word in &d.args {
        match word.text.split_once('=') {
            Some(("key", secret)) => rights.secrets.push(secret_of(word, secret, cx)?),
            Some(("scheme", "all")) => rights.all_schemes = true,
            Some(("scheme", _)) => {
                return Err(Diagnostic::error(format!("invalid parameter \"{}\"", word.text))
                    .at(word.span)
                    .label("write \"scheme=all\": a purge of a page then holds for http and https"));
            }
            _ if word.text == "unix:" => {
                return Err(Diagnostic::error("\"unix:\" is no network")
                    .at(word.span)
                    .label("clients of a unix socket have no address: give them a secret with \"key=\""));
            }
            _ => rights.nets.push(access::network(cx, d, word)?),
        }
    }
    if rights.nets.is_empty() && rights.secrets.is_empty() {
        return Err(Diagnostic::error("\"larder_purge_from\" names nobody who may purge")
            .at(d.name.span)
            .label("add an address, a network or \"key=\""));
    }
    level.purging().from = Some(rights);
    Ok(())
}

fn secret_of(word: &Word, secret: &str, cx: &mut Cx<'_>) -> Outcome<String> {
    let wrong = |label: &str| Err(Diagnostic::error("invalid secret").at(word.span).label(label));
    if secret.is_empty() {
        return wrong("a secret has at least one character");
    }
    // A variable would be what a visitor sends, as `$http_x_key`.
    if secret.contains('$') {
        return wrong("a secret has no variables, and no \"$\"");
    }
    if !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
        return wrong("a secret is sent in a field: it has printable characters of ASCII and no space");
    }
    if secret.len() < SECRET_BYTES_GOOD {
        cx.report(
            Diagnostic::warning(format!("a secret of {} characters can be guessed", secret.len()))
                .at(word.span)
                .help("take a longer one, as from \"openssl rand -hex 16\""),
        );
    }
    Ok(secret.to_owned())
}

/// `NAME... [show]`, or `show` alone, or `off`.
fn tags(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let (names, shown) = match d.args.split_last() {
        Some((last, names)) if last.text == "show" => (names, true),
        _ => (&*d.args, false),
    };
    let mut tags = CacheTags { names: Vec::new(), shown };
    for word in names {
        let is_name = !word.text.is_empty()
            && word.text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        if !is_name || word.text == "show" || word.text == "off" && d.args.len() > 1 {
            return Err(Diagnostic::error(format!("invalid field name \"{}\"", word.text))
                .at(word.span)
                .label("write names of fields such as \"Surrogate-Key\", \"show\" behind them, or \"off\" alone"));
        }
        if word.text != "off" {
            tags.names.push(word.text.clone());
        }
    }
    if names.is_empty() {
        tags.names = TAG_NAMES.map(str::to_owned).to_vec();
    }
    level.purging().tags = Some(tags);
    Ok(())
}

fn by_origin(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    origin::flag(&mut level.purging().by_origin, d)
}

fn litespeed(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    origin::flag(&mut level.purging().litespeed, d)
}

/// Shorter secrets are warned of.
const SECRET_BYTES_GOOD: usize = 16;
