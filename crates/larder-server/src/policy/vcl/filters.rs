//! `beresp.filters` and `resp.filters`: what a body goes through, in Varnish's names.

use larder_http::{Known, ResponseHead, status};
use larder_vcl::run::Failure;
use larder_vcl::vars::Variable;

use crate::exchange::{AnswerTask, Exchange};
use crate::site::VclPolicy;

use super::headers::{is_gzip, takes_gzip};

/// What the body of an answer can go through before it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Unpacks what is in gzip.
    Gunzip,
    /// Makes sure that what is in gzip can be unpacked.
    TestGunzip,
    /// Packs what is in no coding.
    Gzip,
    /// Looks for ESI.
    Esi,
    /// Looks for ESI, then packs.
    EsiGzip,
}

impl Filter {
    const ALL: [Self; 5] = [Self::Gunzip, Self::TestGunzip, Self::Gzip, Self::Esi, Self::EsiGzip];

    fn name(self) -> &'static str {
        match self {
            Self::Gunzip => "gunzip",
            Self::TestGunzip => "testgunzip",
            Self::Gzip => "gzip",
            Self::Esi => "esi",
            Self::EsiGzip => "esi_gzip",
        }
    }
}

/// `beresp.filters` as a VCL reads it: what it has set, or what larder would do, with a space before each name.
pub fn of_answer(policy: &VclPolicy, ex: &Exchange) -> Vec<u8> {
    match &ex.vcl.fetch.answer.filters {
        Some(fixed) => fixed.clone(),
        None => chosen(policy, &ex.vcl.fetch.beresp, &ex.vcl.fetch.answer)
            .flat_map(|filter| [" ", filter.name()])
            .collect::<String>()
            .into(),
    }
}

/// What the body of an answer goes through, in order. Fails with the name of a filter that there is not.
pub fn through(policy: &VclPolicy, head: &ResponseHead, answer: &AnswerTask) -> Result<Vec<Filter>, String> {
    let Some(fixed) = &answer.filters else { return Ok(chosen(policy, head, answer).collect()) };
    let named = |word: &[u8]| {
        let known = Filter::ALL.into_iter().find(|filter| filter.name().as_bytes() == word);
        known.ok_or_else(|| {
            let names = Filter::ALL.map(Filter::name).join(", ");
            format!("beresp.filters: there is no filter \"{}\"; there are {names}", String::from_utf8_lossy(word))
        })
    };
    words(fixed).map(named).collect()
}

/// What `beresp.do_gzip` and its kin make an answer go through (Varnish, vcl-var(7), `beresp.filters`).
fn chosen(policy: &VclPolicy, head: &ResponseHead, answer: &AnswerTask) -> impl Iterator<Item = Filter> {
    let has_body = head.fields.content_length() != Some(0);
    let has_support = policy.parameters.http_gzip_support;
    let is_gzip = is_gzip(head);
    let packs = answer.do_gzip && has_support && !head.fields.contains_known(Known::ContentEncoding);
    let unpacks = answer.do_gunzip && has_support && is_gzip;
    let ends_packed = packs || is_gzip && !unpacks;
    let does_esi = answer.do_esi;
    [
        (Filter::Gunzip, unpacks || is_gzip && does_esi),
        (Filter::EsiGzip, does_esi && ends_packed),
        (Filter::Esi, does_esi && !ends_packed),
        (Filter::Gzip, !does_esi && packs),
        (Filter::TestGunzip, !does_esi && !packs && ends_packed),
    ]
    .into_iter()
    .filter(move |(_, is_used)| has_body && *is_used)
    .map(|(filter, _)| filter)
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

/// Fails if `beresp.filters` was set and the variable is one that filters follow from (vcl-var(7), `beresp.filters`).
pub fn check_open(answer: &AnswerTask, variable: Variable) -> Result<(), Failure> {
    let (Variable::BerespDoEsi | Variable::BerespDoGzip | Variable::BerespDoGunzip) = variable else { return Ok(()) };
    match answer.filters {
        None => Ok(()),
        Some(_) => Err(Failure::host(format!("beresp.filters are fixed: {}", variable.rule().name))),
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
