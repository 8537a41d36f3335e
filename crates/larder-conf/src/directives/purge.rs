//! `fastcgi_cache_purge` and `proxy_cache_purge`, in the three forms that sites use: the cache purge module's
//! `ZONE KEY` in a location of its own, its `METHOD from ...` beside a cache, and NGINX Plus's conditions.

use super::{LOCATION, access};
use crate::build::{Cx, Level, Reference};
use crate::diagnostic::{Diagnostic, Outcome};
use crate::model::{At, CachePurge, Handler, OriginSettings, PurgeFrom};
use crate::template;
use crate::tree::Directive;

/// Whose cache it is.
#[derive(Clone, Copy)]
pub struct Whose {
    /// `fastcgi` or `proxy`.
    pub prefix: &'static str,
    /// `fastcgi_cache` or `proxy_cache`, for what names an unknown zone.
    pub cache: &'static str,
    /// Its settings in a level.
    pub settings: fn(&mut Level) -> &mut OriginSettings,
}

/// Reads the directive in the form that it has.
pub fn cache_purge(level: &mut Level, cx: &mut Cx<'_>, d: &Directive, whose: Whose) -> Outcome {
    let is_condition = template::as_literal(&d.template(0)?).is_none();
    match (is_condition, d.args.len()) {
        (true, _) => {
            let conditions = d.args.iter().map(template::of).collect::<Outcome<_>>()?;
            (whose.settings)(level).cache_purge = CachePurge::When(conditions);
            Ok(())
        }
        (false, 2) => separate_location(level, cx, d, whose),
        (false, _) => {
            (whose.settings)(level).cache_purge = by_method(cx, d)?;
            Ok(())
        }
    }
}

/// `ZONE KEY`: the location does nothing else.
fn separate_location(level: &mut Level, cx: &mut Cx<'_>, d: &Directive, whose: Whose) -> Outcome {
    let (name, prefix) = (&d.name.text, whose.prefix);
    if level.context != LOCATION {
        return Err(Diagnostic::error(format!("\"{name}\" (separate location syntax) is not allowed here"))
            .at(d.span())
            .help(format!("put \"{name} ZONE KEY\" into a location of its own, such as \"location ~ /purge(/.*)\"")));
    }
    for other in [format!("{prefix}_pass"), format!("{prefix}_store"), format!("{prefix}_cache")] {
        if let Some(place) = level.place(&other) {
            return Err(Diagnostic::error(format!("\"{name}\" is incompatible with \"{other}\""))
                .at(d.span())
                .related(place, "it stands here"));
        }
    }
    let zone = At { value: d.text(0).to_owned(), span: d.arg(0).span };
    cx.references.push(Reference::CacheZone(zone.clone(), whose.cache));
    level.handler = Handler::Purge { zone, key: d.template(1)? };
    Ok(())
}

/// `off`, or `on` or a method, and who may use it.
fn by_method(cx: &mut Cx<'_>, d: &Directive) -> Outcome<CachePurge> {
    let method = match d.text(0) {
        "off" => return Ok(CachePurge::Off),
        "on" => "PURGE",
        method => method,
    };
    let method = method.to_owned();
    let Some((from, who)) = d.args[1..].split_first() else {
        return Ok(CachePurge::Method { method, from: PurgeFrom::All });
    };
    if from.text != "from" {
        return Err(Diagnostic::error(format!("invalid parameter \"{}\", expected \"from\" keyword", from.text))
            .at(from.span)
            .label("a method is followed by \"from all\", or \"from\" and addresses"));
    }
    if who.first().is_some_and(|word| word.text == "all") {
        return Ok(CachePurge::Method { method, from: PurgeFrom::All });
    }
    let nets = who.iter().map(|word| access::network(cx, d, word)).collect::<Outcome<_>>()?;
    Ok(CachePurge::Method { method, from: PurgeFrom::Nets(nets) })
}
