//! What `larder_litespeed` makes of an origin's answer, whichever rules it is cached by.

use std::sync::Arc;

use larder_cache::VaryKey;
use larder_cache::litespeed::{SHARED_COOKIE, Storing, has_esi, storing, varies_by};
use larder_http::{Fields, Known, KnownSet, ResponseHead};

use crate::exchange::Exchange;
use crate::site::{Directives, LiteSpeed};

/// Gives the client the cookies that all get who see the page.
pub fn received(policy: &Directives, answer: &mut ResponseHead) {
    if policy.litespeed == LiteSpeed::Off || !answer.fields.contains(SHARED_COOKIE) {
        return;
    }
    let is_new = |cookie: &&[u8]| !answer.fields.all_known(Known::SetCookie).any(|own| own == *cookie);
    let new: Vec<Vec<u8>> = answer.fields.get_all(SHARED_COOKIE).filter(is_new).map(<[u8]>::to_vec).collect();
    let fields = Arc::make_mut(&mut answer.fields);
    new.iter().for_each(|cookie| fields.push(b"Set-Cookie", cookie));
}

/// Whether an answer with these fields is to be stored, as they say to LiteSpeed.
pub fn said(policy: &Directives, fields: &Fields) -> Storing {
    match (policy.litespeed, storing(fields)) {
        (LiteSpeed::Off, _) => Storing::Silent,
        (LiteSpeed::On { reads_esi: false }, Storing::ForAll(_) | Storing::Silent) if has_esi(fields) => {
            Storing::Not("X-LiteSpeed-Cache-Control: esi=on, and larder_esi is off")
        }
        (LiteSpeed::On { .. }, said) => said,
    }
}

/// Which requests of its key an answer with these fields answers, made for this request.
pub fn vary(policy: &Directives, fields: &Fields, ex: &Exchange) -> Result<VaryKey, &'static str> {
    let request = ex.selecting();
    let cookies = match policy.litespeed {
        LiteSpeed::Off => Vec::new(),
        LiteSpeed::On { .. } => varies_by(fields)?,
    };
    match policy.settings.model.ignore_headers.vary {
        true => Ok(VaryKey::of_cookies(cookies, &request)),
        false => VaryKey::of_both(fields, cookies, &request).ok_or("Vary: *"),
    }
}

/// Changes the fields that are stored of an answer that is for all: the cookies of its first visitor go, and those that all
/// are to get come.
pub fn share_cookies(policy: &Directives, answer: &Fields, stored: &mut Fields) {
    if matches!(said(policy, answer), Storing::ForAll(_)) {
        stored.remove_known(KnownSet::of(&[Known::SetCookie]));
        answer.get_all(SHARED_COOKIE).for_each(|cookie| stored.push(b"Set-Cookie", cookie));
    }
}
