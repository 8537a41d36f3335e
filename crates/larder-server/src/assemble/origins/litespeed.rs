//! What applications are told of the cache, so that the plugins of LiteSpeed are active behind `larder_litespeed`, and what no
//! visitor may tell them in its place.

use larder_conf::model::{Esi, Settings};

use crate::text::Text;

use super::heads::GivenParam;

/// The field by which plugins know of a cache in front of them, and the one that names the variant in which it has the page.
const FIELDS: [&str; 2] = ["X-LSCACHE", "X-LSCACHE-Vary-Value"];
/// The same as parameters of FastCGI.
const PARAMS: [&str; 2] = ["HTTP_X_LSCACHE", "HTTP_X_LSCACHE_VARY_VALUE"];
/// What only a cache without ESI says of itself.
const EDITION: (&str, &str) = ("LSWS_EDITION", "Openlitespeed (larder)");

/// What the plugins look for; `None` where a cache does not do as they say. Where there is none at all, what a visitor
/// sends does no harm, and goes on as by nginx.
fn capability(settings: &Settings) -> Option<&'static str> {
    match (settings.purging.litespeed, settings.subrequests.esi) {
        (false, _) => None,
        (true, Esi::Off) => Some("on"),
        (true, Esi::On | Esi::Surrogate) => Some("on,esi"),
    }
}

/// Adds it to `proxy_set_header`, but for what that has.
pub fn tell_by_fields(set: &mut Vec<(&[u8], Text)>, settings: &Settings, has_cache: bool) {
    let capability = capability(settings);
    if capability.is_none() && !has_cache {
        return;
    }
    for (name, value) in FIELDS.into_iter().zip([capability.unwrap_or_default(), ""]) {
        if !set.iter().any(|(own, _)| own.eq_ignore_ascii_case(name.as_bytes())) {
            set.push((name.as_bytes(), Text::literal(value.as_bytes())));
        }
    }
}

/// Adds it to `fastcgi_param`, but for what that has.
pub fn tell_by_params(params: &mut Vec<GivenParam<'_>>, settings: &Settings, has_cache: bool) {
    let capability = capability(settings);
    if capability.is_none() && !has_cache {
        return;
    }
    let of_field = capability.filter(|_| settings.subrequests.esi != Esi::Off).unwrap_or_default();
    let mut told = vec![(PARAMS[0], of_field), (PARAMS[1], "")];
    if let Some(capability) = capability {
        told.push((FIELDS[0], capability));
        // With the field it is a LiteSpeed of another kind.
        if of_field.is_empty() {
            told.push(EDITION);
        }
    }
    for (name, value) in told {
        if !params.iter().any(|own| own.name == name.as_bytes()) {
            params.push(GivenParam {
                name: name.as_bytes(),
                value: Text::literal(value.as_bytes()),
                if_not_empty: false,
            });
        }
    }
}
