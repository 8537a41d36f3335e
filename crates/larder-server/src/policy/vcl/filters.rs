//! `beresp.filters` and `resp.filters`: what a body goes through, in Varnish's names.

use larder_http::{Known, status};
use larder_vcl::run::Failure;

use crate::exchange::Exchange;
use crate::site::VclPolicy;

use super::headers::takes_gzip;
use super::recode::is_gzip;

/// What the body of an answer goes through before it is stored; each name has a space in front.
pub fn of_answer(policy: &VclPolicy, ex: &Exchange) -> String {
    let (beresp, answer) = (&ex.vcl.fetch.beresp, &ex.vcl.fetch.answer);
    if beresp.fields.content_length() == Some(0) {
        return String::new();
    }
    let has_support = policy.parameters.http_gzip_support;
    let is_gzip = is_gzip(beresp);
    let packs = answer.do_gzip && has_support && !beresp.fields.contains_known(Known::ContentEncoding);
    let unpacks = answer.do_gunzip && has_support && is_gzip;
    let stays_gzip = is_gzip && !unpacks;
    listed(&[
        ("gunzip", unpacks || is_gzip && answer.do_esi),
        ("esi_gzip", answer.do_esi && (packs || stays_gzip)),
        ("esi", answer.do_esi && !packs && !stays_gzip),
        ("gzip", !answer.do_esi && packs),
        ("testgunzip", !answer.do_esi && stays_gzip),
    ])
}

/// What the body of the response goes through on its way to the client.
pub fn of_response(policy: &VclPolicy, ex: &Exchange) -> String {
    if let Some(fixed) = &ex.vcl.client.filters {
        return String::from_utf8_lossy(fixed).into_owned();
    }
    let parameters = &policy.parameters;
    let is_asked_in_part = ex.asked.head.fields.contains_known(Known::Range);
    let is_packed = ex.reply.fields.get_known(Known::ContentEncoding).is_some_and(|coding| coding == b"gzip");
    let does_esi = !ex.vcl.client.skips_esi && esi_base(ex).is_some();
    listed(&[
        ("esi", does_esi),
        ("gunzip", parameters.http_gzip_support && is_packed && !takes_gzip(ex)),
        ("range", is_asked_in_part && has_ranges(policy, ex)),
    ])
}

/// Whether ranges of the response are sent to who asks for them.
pub fn has_ranges(policy: &VclPolicy, ex: &Exchange) -> bool {
    match &ex.vcl.client.filters {
        Some(fixed) => words(fixed).any(|name| name == b"range"),
        // Of a page that is put together nobody knows the length.
        None => {
            let does_esi = !ex.vcl.client.skips_esi && esi_base(ex).is_some();
            policy.parameters.http_range_support && ex.reply.status == status::OK && !does_esi
        }
    }
}

/// Sets `resp.filters`: whether ESI is done and gzip unpacked is what it says from then on.
pub fn fix(list: &[u8], ex: &mut Exchange) -> Result<(), Failure> {
    if let Some(unknown) = words(list).find(|name| ![&b"esi"[..], b"gunzip", b"range"].contains(name)) {
        return Err(Failure::host(format!("there is no filter \"{}\"", String::from_utf8_lossy(unknown))));
    }
    ex.vcl.client.skips_esi = !words(list).any(|name| name == b"esi");
    ex.vcl.client.filters = Some(list.to_vec());
    Ok(())
}

/// Fails if `resp.filters` has said what `resp.do_esi` would.
pub fn check_free(ex: &Exchange) -> Result<(), Failure> {
    match ex.vcl.client.filters {
        None => Ok(()),
        Some(_) => Err(Failure::host("resp.filters are fixed: resp.do_esi")),
    }
}

/// The URL that includes are relative to, if the response is a page with ESI.
pub fn esi_base(ex: &Exchange) -> Option<&[u8]> {
    match &ex.vcl.page {
        Some(page) => page.esi_base(),
        None => ex.vcl.fetch.answer.esi_base.as_deref(),
    }
}

fn words(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

fn listed(filters: &[(&str, bool)]) -> String {
    filters.iter().filter(|(_, is_used)| *is_used).flat_map(|(name, _)| [" ", name]).collect()
}
