//! Whether a response is compressed, and how: `gzip`, `brotli`, `zstd`, `gunzip`.
//!
//! The rules are those of ngx_http_gzip_filter and ngx_http_gunzip_filter; brotli and zstd follow the modules that people
//! use. A stored page is compressed once, off the workers, into a form that is kept with it; everything else is
//! compressed as it passes.

use std::time::Duration;

use bytes::Bytes;
use larder_cache::{FormPermit, FormState, FormWaiter, Made, NewForm, Object, Prepared};
use larder_compress::{Effort, Params};
use larder_conf::model::{Compression, GzipDisable, MediaTypes};
use larder_http::{Accepted, Coding, Fields, Known, Version, status};
use larder_store::Place;

use crate::context::Cx;
use crate::exchange::{CacheStatus, Choice, Exchange};
use crate::files::etag::weaken_etag;
use crate::policy;
use crate::site::{Handler, Loc};

use super::{Content, Response, Slow, Step, page};

/// A longer body is compressed as it passes and not kept compressed: that would take seconds.
const FORM_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// How long a request waits for a form before it takes the body as it is.
const PATIENCE: Duration = Duration::from_secs(2);
/// The highest level while a client waits: above it, brotli and zstd take longer than they save. A page that is used
/// often is compressed harder later.
const QUICK_BROTLI_MAX: u32 = 5;
/// See [`QUICK_BROTLI_MAX`].
const QUICK_ZSTD_MAX: u32 = 9;

/// What is known of a response whose form is to be chosen.
pub struct Facts<'a> {
    /// The status.
    pub status: u16,
    /// Its fields.
    pub fields: &'a Fields,
    /// The length of the body, when it is known.
    pub length: Option<u64>,
}

/// Chooses the form of a response to `ex`.
pub fn choose(facts: &Facts<'_>, ex: &Exchange, cx: &Cx) -> Choice {
    let loc = cx.loc(ex);
    let config = &*loc.settings.compression;
    if ex.vcl.client.unpacks && is_gzip(facts) {
        return Choice::Restore(Coding::Gzip);
    }
    if ex.reply.composed.as_ref().is_some_and(|composed| composed.is_packed) {
        return Choice::Compress(Coding::Gzip);
    }
    if !loc.compression.compresses {
        return Choice::AsItIs;
    }
    if let Some(coded) = facts.fields.get_known(Known::ContentEncoding).filter(|value| !value.is_empty()) {
        return restore(coded, facts, config, loc, ex);
    }
    if !matches!(facts.status, status::OK | status::FORBIDDEN | status::NOT_FOUND) {
        return Choice::AsItIs;
    }
    let Some(content_type) = facts.fields.get_known(Known::ContentType) else { return Choice::AsItIs };
    let Ok(content_type) = std::str::from_utf8(content_type) else { return Choice::AsItIs };
    let fits = |enabled: bool, min: u64, types: &MediaTypes| {
        enabled && facts.length.is_none_or(|length| length >= min) && types.contain(content_type)
    };
    // Of codings that the client likes equally, the first here wins: brotli makes pages smallest.
    let can = [
        (Coding::Brotli, fits(config.brotli.enabled, config.brotli.min_bytes, &config.brotli.types)),
        (Coding::Zstd, fits(config.zstd.enabled, config.zstd.min_bytes, &config.zstd.types)),
        (Coding::Gzip, fits(config.gzip.enabled, config.gzip.min_bytes, &config.gzip.types)),
    ];
    if !can.iter().any(|(_, can)| *can) {
        return Choice::AsItIs;
    }
    if !config.private && is_private(facts.fields, ex) {
        return Choice::AsItIs;
    }
    let Some(accepted) = accepted(ex) else { return Choice::AsItIsHere };
    let mut best = None;
    for (coding, _) in can.into_iter().filter(|(_, can)| *can) {
        if coding == Coding::Gzip && !gzip_allowed(facts.fields, config, loc, ex) {
            continue;
        }
        if let Some(weight) = accepted.accepts(coding)
            && best.is_none_or(|(most, _)| weight > most)
        {
            best = Some((weight, coding));
        }
    }
    best.map_or(Choice::AsItIsHere, |(_, coding)| Choice::Compress(coding))
}

/// What the client accepts; `None` when it does not say.
fn accepted(ex: &Exchange) -> Option<Accepted> {
    let mut values = ex.asked.head.fields.all_known(Known::AcceptEncoding).peekable();
    values.peek()?;
    Some(Accepted::parse(values))
}

/// Whether the client takes a file that was compressed beforehand.
pub fn takes(coding: Coding, ex: &Exchange, cx: &Cx) -> bool {
    let loc = cx.loc(ex);
    // The request that a VCL has written says in `Via` that it went through us.
    let is_ruled = coding == Coding::Gzip && !matches!(loc.handler, Handler::Vcl(_));
    accepted(ex).is_some_and(|accepted| accepted.accepts(coding).is_some())
        && (!is_ruled || gzip_allowed(&ex.reply.fields, &loc.settings.compression, loc, ex))
}

/// Whether a body is in gzip, and there is one.
fn is_gzip(facts: &Facts<'_>) -> bool {
    let coded = facts.fields.get_known(Known::ContentEncoding);
    coded.is_some_and(|coded| Coding::parse(coded) == Some(Coding::Gzip)) && facts.length != Some(0)
}

/// `gunzip` for a page with SSI or ESI, or one that is included: it is restored whatever the client accepts.
pub fn restored_for_parts(facts: &Facts<'_>, ex: &Exchange, cx: &Cx) -> Choice {
    // With a VCL, `http_gzip_support` says whether larder knows what gzip is.
    let has_vcl = cx.origin(ex).is_some_and(policy::shapes_responses);
    let is_of_esi = ex.reply.esi_base.is_some() || ex.vcl.client.esi_level > 0 && !has_vcl;
    if is_gzip(facts) && (ex.vcl.client.unpacks || is_of_esi) {
        return Choice::Restore(Coding::Gzip);
    }
    let config = &cx.loc(ex).settings.compression;
    let coded = facts.fields.get_known(Known::ContentEncoding).filter(|_| config.gunzip && facts.length != Some(0));
    coded.and_then(Coding::parse).map_or(Choice::AsItIs, Choice::Restore)
}

/// `gunzip`: a body that the origin compressed is restored for a client that does not accept its coding.
fn restore(coded: &[u8], facts: &Facts<'_>, config: &Compression, loc: &Loc, ex: &Exchange) -> Choice {
    let coding = Coding::parse(coded).filter(|_| config.gunzip && facts.length != Some(0));
    let Some(coding) = coding else { return Choice::AsItIs };
    let takes = accepted(ex).is_some_and(|accepted| accepted.accepts(coding).is_some());
    if takes && (coding != Coding::Gzip || gzip_allowed(facts.fields, config, loc, ex)) {
        Choice::AsItIsHere
    } else {
        Choice::Restore(coding)
    }
}

/// Whether this request may get gzip at all (ngx_http_gzip_ok), whatever it accepts.
fn gzip_allowed(fields: &Fields, config: &Compression, loc: &Loc, ex: &Exchange) -> bool {
    let gzip = &config.gzip;
    if ex.asked.head.version == Version::Http10 && !gzip.http_1_0 {
        return false;
    }
    if ex.asked.head.fields.contains_known(Known::Via) && !proxied_allowed(fields, config, ex) {
        return false;
    }
    if gzip.disable.is_empty() {
        return true;
    }
    let Some(agent) = ex.asked.head.fields.get_known(Known::UserAgent) else { return true };
    let is_old = gzip.disable.contains(&GzipDisable::Msie6) && is_msie6(agent);
    // A pattern that fails to run counts as matching: every client can read a body that is not compressed.
    !is_old && !loc.compression.gzip_disable.iter().any(|pattern| pattern.is_match(agent).unwrap_or(true))
}

/// `gzip_proxied`, in the order of ngx_http_gzip_ok.
fn proxied_allowed(fields: &Fields, config: &Compression, ex: &Exchange) -> bool {
    let proxied = config.gzip.proxied;
    if proxied.off {
        return false;
    }
    if proxied.any || proxied.auth && ex.asked.head.fields.contains_known(Known::Authorization) {
        return true;
    }
    if let Some(expires) = fields.get_known(Known::Expires) {
        let Some(expires) = larder_http::parse_date(expires).filter(|_| proxied.expired) else { return false };
        let date = fields.get_known(Known::Date).and_then(larder_http::parse_date);
        return expires < date.unwrap_or_else(|| crate::clock::now().secs());
    }
    let mut controls = fields.all_known(Known::CacheControl).peekable();
    if controls.peek().is_some() {
        return controls.any(|control| {
            [(proxied.no_cache, "no-cache"), (proxied.no_store, "no-store"), (proxied.private, "private")]
                .into_iter()
                .any(|(counts, word)| counts && has_word(control, word))
        });
    }
    !(proxied.no_last_modified && fields.contains_known(Known::LastModified)
        || proxied.no_etag && fields.contains_known(Known::Etag))
}

fn has_word(value: &[u8], word: &str) -> bool {
    value.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word.as_bytes()))
}

/// Internet Explorer 4, 5.5 and 6 without SV1, as nginx knows them.
fn is_msie6(agent: &[u8]) -> bool {
    let Some(at) = memchr::memmem::find(agent, b"MSIE ") else { return false };
    match &agent[at + 5..] {
        [b'4', b'.', ..] | [b'5', b'.', b'5', ..] => true,
        [b'6', b'.', rest @ ..] => memchr::memmem::find(rest, b"SV1").is_none(),
        _ => false,
    }
}

/// Whether a response may hold a secret of this visitor. An attacker who makes the browser repeat the request could
/// guess it by the compressed length (BREACH).
fn is_private(fields: &Fields, ex: &Exchange) -> bool {
    // A file is the same for everybody, and so is a page that is stored.
    let is_made_for_this = ex.upstream.status.is_some()
        && matches!(ex.upstream.cache_status, None | Some(CacheStatus::Miss | CacheStatus::Bypass));
    let asks_as_somebody =
        ex.asked.head.fields.contains_known(Known::Authorization) || ex.asked.head.fields.contains_known(Known::Cookie);
    is_made_for_this && asks_as_somebody
        || fields.contains_known(Known::SetCookie)
        || fields
            .all_known(Known::CacheControl)
            .any(|control| has_word(control, "private") || has_word(control, "no-store"))
}

/// The level for bodies that pass, and for pages while a client waits.
fn level(coding: Coding, config: &Compression) -> u32 {
    match coding {
        Coding::Gzip => u32::from(config.gzip.level),
        Coding::Brotli => u32::from(config.brotli.level).min(QUICK_BROTLI_MAX),
        Coding::Zstd => u32::try_from(config.zstd.level).unwrap_or(1).min(QUICK_ZSTD_MAX),
    }
}

/// The settings of a compressor for a body that passes.
pub fn params(coding: Coding, ex: &Exchange, cx: &Cx) -> Params {
    let config = &cx.loc(ex).settings.compression;
    let mut params = Params::new(coding, level(coding, config));
    if coding == Coding::Brotli {
        params.window_bits = config.brotli.window_log;
    }
    params
}

/// A request that waits for a form of its page.
pub struct Wait {
    waiter: FormWaiter,
    response: Response,
}

/// Has the compressed form of a stored page made if it is missing: the first request starts it on a thread, others
/// wait.
///
/// The error is the wait that comes before sending.
pub fn make_form(response: Response, ex: &mut Exchange, cx: &Cx) -> Result<Response, Step> {
    let loc = cx.loc(ex);
    if !loc.compression.compresses || ex.request.way.error_status.is_some() {
        return Ok(response);
    }
    let object: &Object = match &response.content {
        Content::Hit(object) => object,
        Content::Object(object) => object,
        _ => return Ok(response),
    };
    if super::filters::may_change(loc, &object.fields, cx) {
        return Ok(response);
    }
    let Some(length) = object.body.whole().map(|whole| whole.len()) else { return Ok(response) };
    let facts = Facts { status: object.status, fields: &object.fields, length: Some(length) };
    ex.reply.choice = choose(&facts, ex, cx);
    let kept = loc.settings.compression.stored && length <= FORM_BYTES_MAX;
    let Some(shape) = ex.reply.choice.shape().filter(|_| kept) else { return Ok(response) };
    let waiter = match object.form(shape) {
        FormState::Ready(form) => {
            if form.wants_hard()
                && let Some(permit) = object.claim_hard(shape)
            {
                cx.worker.shared.compressor.later(job(permit, object, ex, cx));
            }
            return Ok(response);
        }
        FormState::Unwanted | FormState::NoRoom => return Ok(response),
        FormState::Making(waiter) => waiter,
        FormState::None => {
            let Some(permit) = object.claim_form(shape) else { return Ok(response) };
            let waiter = permit.waiter();
            // A queue that is full drops the permit.
            if !cx.worker.shared.compressor.soon(job(permit, object, ex, cx)) {
                return Ok(response);
            }
            waiter
        }
    };
    // A hit borrows its page for this turn; a request that waits needs one of its own.
    let response = page::laid_out(response, ex, cx);
    Err(Slow::Form(Box::new(Wait { waiter, response })).into())
}

/// Waits for the form, then sends the response.
pub async fn wait(wait: Wait) -> Step {
    let Wait { waiter, response } = wait;
    // Without it the body is compressed as it passes.
    let _ = waiter.wait(PATIENCE).await;
    Step::Send(response)
}

/// What makes a form, on a thread of its own.
fn job(permit: FormPermit, object: &Object, ex: &Exchange, cx: &Cx) -> crate::compressor::Job {
    let config = &cx.loc(ex).settings.compression;
    let choice = ex.reply.choice;
    let effort = match (permit.made(), choice) {
        (Made::Quick, Choice::Compress(coding)) => Effort::Quick(level(coding, config)),
        _ => Effort::Hard,
    };
    let prepared = head(object, choice, ex, cx);
    count(choice, cx);
    Box::new(move || {
        if permit.made() == Made::Hard && permit.is_late() {
            return;
        }
        let made = permit.body().whole().and_then(|whole| match whole.place() {
            Place::Pieces(pieces) => recoded(pieces.iter().map(|piece| &piece[..]), choice, effort),
            Place::Buffers(pieces) => recoded(pieces.iter().map(|piece| &piece[..]), choice, effort),
            // It is in memory, but not in ours.
            Place::File { .. } => recoded(std::iter::once(&whole.to_vec().ok()?[..]), choice, effort),
        });
        match made {
            Some(bytes) => drop(permit.finish(NewForm { bytes: Bytes::from(bytes), prepared })),
            None => permit.unwanted(),
        }
    })
}

/// A body in another form, in memory. `None` when there is none, or it cannot be made.
fn recoded<'a>(pieces: impl Iterator<Item = &'a [u8]> + Clone, choice: Choice, effort: Effort) -> Option<Vec<u8>> {
    match choice {
        Choice::AsItIs | Choice::AsItIsHere => None,
        Choice::Compress(coding) => larder_compress::compress(pieces, coding, effort).ok(),
        Choice::Restore(coding) => larder_compress::restore(pieces, coding, FORM_BYTES_MAX as usize).ok(),
    }
}

/// The fields of a page as they go with a form of it, where they are the same for every request.
fn head(object: &Object, choice: Choice, ex: &Exchange, cx: &Cx) -> Option<Prepared> {
    let mut fields = object.fields.clone();
    adapt(&mut fields, choice);
    cx.origin(ex)?.backend.prepared_by.as_ref()?.prepare(&fields, cx.site().speaks_http2)
}

/// Counts that a body is made another form of.
pub fn count(choice: Choice, cx: &Cx) {
    let stats = cx.stats();
    match choice {
        Choice::Compress(Coding::Gzip) => stats.packed.add(1),
        Choice::Restore(Coding::Gzip) => stats.unpacked.add(1),
        Choice::Compress(_) | Choice::Restore(_) | Choice::AsItIs | Choice::AsItIsHere => {}
    }
}

/// Makes the fields those of another form: no ranges, a weak validator, the coding.
pub fn adapt(fields: &mut Fields, choice: Choice) {
    match choice {
        Choice::AsItIs | Choice::AsItIsHere => return,
        Choice::Compress(coding) => fields.set("Content-Encoding", coding.name().as_bytes()),
        Choice::Restore(_) => drop(fields.remove("Content-Encoding")),
    }
    fields.remove("Accept-Ranges");
    weaken_etag(fields);
}

/// Compresses or restores a body that is short and in memory. `None` when that fails: it goes out as it is.
pub fn at_once(body: &[u8], choice: Choice, ex: &Exchange, cx: &Cx) -> Option<Bytes> {
    let effort = match choice {
        Choice::Compress(coding) => Effort::Quick(level(coding, &cx.loc(ex).settings.compression)),
        Choice::AsItIs | Choice::AsItIsHere | Choice::Restore(_) => Effort::Hard,
    };
    count(choice, cx);
    recoded(std::iter::once(body), choice, effort).map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_internet_explorers_are_known() {
        for (agent, old) in [
            ("Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)", true),
            ("Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; SV1)", false),
            ("Mozilla/4.0 (compatible; MSIE 5.5; Windows 98)", true),
            ("Mozilla/4.0 (compatible; MSIE 5.0; Windows 98)", false),
            ("Mozilla/4.0 (compatible; MSIE 4.01; Windows 95)", true),
            ("Mozilla/4.0 (compatible; MSIE 7.0; Windows NT 6.0)", false),
            ("curl/8", false),
            ("MSIE ", false),
        ] {
            assert_eq!(is_msie6(agent.as_bytes()), old, "{agent}");
        }
    }
}
