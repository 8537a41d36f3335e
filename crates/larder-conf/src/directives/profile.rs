//! `larder_profile`: what is known of the application behind a location.

use std::sync::Arc;

use super::{Action, Args, DirectiveInfo, HSL, directive};
use crate::cx::Cx;
use crate::diagnostic::{Diagnostic, Outcome};
use crate::level::Level;
use crate::model::{CacheTags, Handler, Named, Profile, Profiled, TAG_NAMES};
use crate::profiles;
use crate::template;
use crate::tree::{Directive, Word};

pub const TABLE: &[DirectiveInfo] = &[directive("larder_profile", HSL, Args::AtLeast(1), Action::Level(profile))];

/// `NAME|PATH|auto... [lifetimes]`, or `off`.
fn profile(level: &mut Level, cx: &mut Cx<'_>, d: &Directive) -> Outcome {
    if d.args.len() == 1 && d.text(0) == "off" {
        level.settings.profile = Profiled::default();
        return Ok(());
    }
    let mut named = Vec::new();
    let mut lifetimes = false;
    for (index, word) in d.args.iter().enumerate() {
        if d.args[..index].iter().any(|before| before.text == word.text) {
            return Err(Diagnostic::error(format!("\"{}\" is named twice", word.text)).at(word.span));
        }
        named.push(match word.text.as_str() {
            "lifetimes" => {
                lifetimes = true;
                continue;
            }
            "off" => {
                return Err(Diagnostic::error("\"off\" stands alone")
                    .at(word.span)
                    .label("it ends what outer levels have set"));
            }
            "auto" => Named::Auto(word.span),
            path if path.contains('/') => Named::Known(Arc::new(own(word, cx)?)),
            name => {
                let known = profiles::find(name).ok_or_else(|| profiles::unknown(name, word.span))?;
                Named::Known(Arc::new(profiles::known(known)))
            }
        });
    }
    if named.is_empty() {
        return Err(Diagnostic::error("\"lifetimes\" of no profile")
            .at(d.arg(0).span)
            .label("name the application before it, or write \"auto\""));
    }
    level.settings.profile = Profiled { named: named.into(), lifetimes, profile: None };
    Ok(())
}

/// The profile in a file.
fn own(word: &Word, cx: &mut Cx<'_>) -> Outcome<Profile> {
    let path = cx.conf_path(&word.text);
    let (file, text) = cx.read(&path).map_err(|error| {
        Diagnostic::error(format!("the profile {} cannot be read ({error})", path.display())).at(word.span)
    })?;
    let mut wrong = Vec::new();
    let shown = path.display().to_string();
    let written = profiles::read(&text, file, &shown, &mut wrong);
    let profile = profiles::own(&shown, &written, &mut wrong);
    wrong.into_iter().for_each(|one| cx.report(Box::new(one)));
    Ok(profile)
}

/// Makes one profile of those that are named, where an origin is asked: only there it is known in which folder `auto` is to
/// look.
pub fn finish(level: &mut Level, cx: &mut Cx<'_>) {
    if level.settings.profile.named.is_empty() || !matches!(level.handler, Handler::Proxy(_) | Handler::FastCgi(_)) {
        return;
    }
    let mut all: Vec<Arc<Profile>> = Vec::new();
    for named in Arc::clone(&level.settings.profile.named).iter() {
        match named {
            Named::Known(profile) => all.push(Arc::clone(profile)),
            Named::Auto(span) => all.extend(detected(level, *span, cx)),
        }
    }
    let profile = profiles::together(&all);
    if let Some(profile) = profile.as_ref().filter(|profile| !profile.tags.is_empty()) {
        add_tags(level, &profile.tags);
    }
    level.settings.profile.profile = profile;
}

/// The applications below the root of the level, which is said once a root.
fn detected(level: &Level, span: crate::Span, cx: &mut Cx<'_>) -> Vec<Arc<Profile>> {
    let Some(root) = template::as_literal(&level.settings.files.root) else {
        cx.report_once("larder_profile auto: variables", || {
            Diagnostic::notice("larder_profile auto does nothing: the root has variables")
                .at(span)
                .help(format!("name the application: {}", profiles::names()))
        });
        return Vec::new();
    };
    let root = cx.path(root).display().to_string();
    let found = profiles::detect(&mut |file| cx.has(&format!("{root}/{file}")));
    cx.report_once(&format!("larder_profile auto: {root}"), || {
        let shown: Vec<String> =
            found.iter().map(|found| format!("{} (it has {})", found.profile.name, found.by)).collect();
        match shown.is_empty() {
            false => Diagnostic::notice(format!("larder_profile auto finds in {root}: {}", shown.join(", "))).at(span),
            true => Diagnostic::notice(format!("larder_profile auto does nothing: no application was found in {root}"))
                .at(span)
                .help(format!("name one: {}", profiles::names())),
        }
    });
    found.iter().map(|found| Arc::new(profiles::known(found.profile))).collect()
}

/// Pages have tags in these fields, too, where nothing else is said.
fn add_tags(level: &mut Level, tags: &[String]) {
    let purging = &level.settings.purging;
    if purging.tags.is_some() || purging.tag_names().is_empty() {
        return;
    }
    let mut names: Vec<String> = TAG_NAMES.map(str::to_owned).to_vec();
    names.extend(
        tags.iter().filter(|tag| !names.iter().any(|name| name.eq_ignore_ascii_case(tag))).cloned().collect::<Vec<_>>(),
    );
    level.purging().tags = Some(CacheTags { names, shown: false });
}
