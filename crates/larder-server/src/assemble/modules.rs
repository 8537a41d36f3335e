//! Compiles the settings of the smaller modules.

use std::sync::Arc;

use larder_conf::model::{self, ServerName, Settings, Template, TemplatePart, UserIdMode};

use crate::filter::needles::Needles;
use crate::modules::referer::Referers;
use crate::site::{BanRule, Modules, PurgeRule, SubFilter};
use crate::text::{Part, Text};
use crate::variable::Var;

use super::{Builder, origins};

/// The settings of the smaller modules in a location of a server with these names.
pub fn parts(builder: &mut Builder, settings: &Settings) -> Modules {
    let modules = &settings.modules;
    for charset in [settings.modules.charset.name.as_ref(), modules.charset.source.as_ref()].into_iter().flatten() {
        if let Some(name) = literal(charset) {
            builder.site.charsets.add(name.as_bytes());
        }
    }
    let sub = sub_filter(builder, &modules.sub_filter);
    let gives_ids = matches!(modules.user_id.mode, UserIdMode::V1 | UserIdMode::On);
    let slot = builder.slots.get("uid_reset").copied().filter(|_| gives_ids);
    let link = &modules.secure_link;
    Modules {
        changes_responses: sub.is_some() || gives_ids,
        sub,
        early_hints: builder.texts(&modules.early_hints),
        source_charset: builder.maybe(modules.charset.source.as_ref()),
        referers: modules.referers.as_ref().map(|referers| Arc::new(self::referers(builder, referers))),
        secure_link: link
            .link
            .as_ref()
            .zip(link.md5.as_ref())
            .map(|(link, md5)| (builder.text(link), builder.text(md5))),
        ban: modules.ban.as_ref().and_then(|rule| ban(builder, rule)),
        purging: settings.purging.from.as_ref().map(purging),
        uid_reset: slot.map(|slot| Text::new(vec![Part::Var(Var::Slot(slot))])),
    }
}

fn ban(builder: &mut Builder, rule: &model::BanRule) -> Option<BanRule> {
    let Some(&zone) = builder.site.caches.names.get(&rule.zone.value) else {
        builder.error(format!("cache zone \"{}\" is unknown", rule.zone.value), rule.zone.span);
        return None;
    };
    let (method, text) = (rule.method.as_bytes().into(), builder.text(&rule.text));
    Some(BanRule { zone, span: rule.zone.span, method, text, from: origins::networks(&rule.from) })
}

fn purging(rights: &model::PurgeRights) -> PurgeRule {
    PurgeRule {
        nets: rights.nets.clone(),
        secrets: rights.secrets.iter().map(|secret| secret.as_bytes().into()).collect(),
        all_schemes: rights.all_schemes,
        tag_fields: Arc::default(),
    }
}

fn literal(template: &Template) -> Option<&str> {
    match template.parts.as_slice() {
        [TemplatePart::Literal(text)] => Some(text),
        _ => None,
    }
}

fn sub_filter(builder: &mut Builder, sub_filter: &model::SubFilter) -> Option<SubFilter> {
    let first = sub_filter.pairs.first()?;
    let pairs: Vec<_> =
        sub_filter.pairs.iter().map(|(word, value)| (builder.text(word), builder.text(value))).collect();
    let words: Option<Vec<Box<[u8]>>> = pairs.iter().map(|(word, _)| word.constant().map(Box::from)).collect();
    let fixed = words.and_then(Needles::new);
    if fixed.is_none() && pairs.iter().all(|(word, _)| word.constant().is_some()) {
        builder.error("the texts of \"sub_filter\" are too many or too long to be looked for at once", first.0.span);
    }
    Some(SubFilter { pairs, fixed, once: sub_filter.once })
}

fn referers(builder: &mut Builder, valid: &model::ValidReferers) -> Referers {
    let mut referers = Referers::default();
    (referers.none, referers.blocked) = (valid.none, valid.blocked);
    for (name, path) in &valid.names {
        referers.add(&name.value, path.as_deref());
    }
    for pattern in &valid.patterns {
        referers.patterns.extend(builder.compile(pattern));
    }
    if valid.server_names {
        for name in builder.server_names.clone() {
            match &name {
                ServerName::Regex(pattern) => referers.host_patterns.extend(builder.compile(pattern)),
                ServerName::Hostname => {
                    let hostname = builder.site.hostname.to_ascii_lowercase();
                    referers.add(&ServerName::Exact(hostname), None);
                }
                ServerName::Exact(_) | ServerName::Suffix(_) | ServerName::Prefix(_) | ServerName::Dotted(_) => {
                    referers.add(&name, None);
                }
            }
        }
    }
    referers
}
