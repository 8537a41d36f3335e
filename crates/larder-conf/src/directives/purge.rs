//! `fastcgi_cache_purge` and `proxy_cache_purge`, in the three forms that sites use: the cache purge module's `ZONE
//! KEY` in a location of its own, its `METHOD [purge_all] from ...` beside a cache, and the conditions of NGINX Plus.

use super::{LOCATION, access};
use crate::cx::{Cx, Reference};
use crate::diagnostic::{Diagnostic, Outcome};
use crate::level::Level;
use crate::model::{At, CachePurge, Drops, Handler, MethodPurge, OriginSettings, PurgeFrom};
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
            (whose.settings)(level).cache.purge = CachePurge::When(conditions);
            Ok(())
        }
        (false, 2) => separate_location(level, cx, d, whose),
        (false, _) => {
            (whose.settings)(level).cache.purge = by_method(cx, d)?;
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
            let help = match d.text(1) {
                "purge_all" => format!("write \"{name} {} purge_all from ADDRESS\", or \"from all\"", d.text(0)),
                _ => format!(
                    "put \"{name} ZONE KEY\" into a location of its own, or write \"{name} PURGE from ADDRESS\" here"
                ),
            };
            return Err(Diagnostic::error(format!("\"{name}\" is incompatible with \"{other}\""))
                .at(d.span())
                .related(place, "it stands here")
                .help(help));
        }
    }
    let zone = At { value: d.text(0).to_owned(), span: d.arg(0).span };
    cx.references.push(Reference::CacheZone(zone.clone(), whose.cache));
    level.handler = Handler::Purge { zone, key: Some(d.template(1)?), by: None };
    Ok(())
}

/// A location that has a cache, a method that purges, and nobody to ask: it is there for purging alone.
pub fn location_without_origin(level: &mut Level) {
    if !matches!(level.handler, Handler::Static) {
        return;
    }
    for (prefix, origin) in [("fastcgi", &level.settings.fastcgi.origin), ("proxy", &level.settings.proxy.origin)] {
        let (CachePurge::Method(by), Some(zone)) = (&origin.cache.purge, &origin.cache.zone) else { continue };
        let key = origin.cache.key.clone();
        // The default key of "proxy_cache" begins with whom is asked.
        let can_be = key.is_some() || by.drops == Drops::Zone;
        if let (Some(_), Some(name), true) =
            (level.place(&format!("{prefix}_cache_purge")), template::as_literal(zone), can_be)
        {
            let zone = At { value: name.to_owned(), span: zone.span };
            level.handler = Handler::Purge { zone, key, by: Some(by.clone()) };
            return;
        }
    }
}

/// `off`, or `on` or a method, what it drops, and who may use it.
fn by_method(cx: &mut Cx<'_>, d: &Directive) -> Outcome<CachePurge> {
    let method = match d.text(0) {
        "off" => return Ok(CachePurge::Off),
        "on" => "PURGE",
        method => method,
    };
    if !method.bytes().all(|byte| byte.is_ascii_uppercase() || matches!(byte, b'-' | b'_')) {
        cx.report(
            Diagnostic::warning(format!("no request has the method \"{method}\", so that none purges"))
                .at(d.arg(0).span)
                .help("name a method, as PURGE, or a variable that is \"1\" for requests that purge"),
        );
    }
    let method = method.to_owned();
    let (drops, rest) = match &d.args[1..] {
        [all, rest @ ..] if all.text == "purge_all" => (Drops::Zone, rest),
        rest => (Drops::Page, rest),
    };
    let by = |from| Ok(CachePurge::Method(MethodPurge { method, drops, from, span: d.span() }));
    let Some((from, who)) = rest.split_first() else {
        return by(PurgeFrom::All);
    };
    if from.text != "from" {
        return Err(Diagnostic::error(format!("invalid parameter \"{}\", expected \"from\" keyword", from.text))
            .at(from.span)
            .label("a method is followed by \"from all\", or \"from\" and addresses, and \"purge_all\" before them"));
    }
    if who.first().is_some_and(|word| word.text == "all") {
        return by(PurgeFrom::All);
    }
    let nets = who.iter().map(|word| access::network(cx, d, word)).collect::<Outcome<_>>()?;
    by(PurgeFrom::Nets(nets))
}
