//! `beresp.do_stream`, `do_gzip`, `do_gunzip` and `do_esi`: answers that are whole before they go on.

use std::iter;
use std::sync::Arc;

use bytes::Bytes;
use larder_compress::Effort;
use larder_conf::model::LogLevel;
use larder_http::{Coding, Fields, Known, ResponseHead, status};

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::filter::esi;
use crate::site::VclPolicy;

use super::headers::weaken_tag;

/// The longest body that comes out of gzip.
const UNPACKED_BYTES_MAX: usize = 64 << 20;
/// Varnish's `gzip_level`.
const GZIP_LEVEL: u32 = 6;

/// Whether the body has to be whole before it goes on.
pub fn gathers(ex: &Exchange) -> bool {
    let fetch = &ex.vcl.fetch;
    let answer = &fetch.answer;
    !fetch.is_pipe && (!answer.do_stream || answer.do_gzip || answer.do_gunzip || answer.do_esi)
}

/// Packs or unpacks a body as the VCL says, and says so in its head. Finds out whether there is ESI in it.
pub fn recode(
    policy: &VclPolicy,
    head: &mut ResponseHead,
    body: Bytes,
    ex: &mut Exchange,
    cx: &Cx,
) -> Result<Bytes, String> {
    if ex.vcl.fetch.answer.do_esi && !body.is_empty() {
        look_for_esi(policy, head, &body, ex, cx)?;
    }
    // Clients without gzip would find out too late.
    let is_checked = policy.parameters.http_gzip_support;
    let answer = &ex.vcl.fetch.answer;
    let is_gzip = is_gzip(head);
    let is_plain = !head.fields.contains_known(Known::ContentEncoding);
    let fields = Arc::make_mut(&mut head.fields);
    if body.is_empty() {
        fields.remove("Content-Encoding");
        return Ok(body);
    }
    // A part of a page is no stream of its own.
    let is_part = head.status == status::PARTIAL_CONTENT;
    let made: Vec<u8> = match (answer.do_gunzip && is_gzip && !is_part, answer.do_gzip && is_plain && !is_part) {
        (true, _) => {
            fields.remove("Content-Encoding");
            unpack(&body)?
        }
        (false, true) => {
            fields.set_sound(Known::ContentEncoding, "Content-Encoding", b"gzip");
            let packed = larder_compress::compress(iter::once(&body[..]), Coding::Gzip, Effort::Quick(GZIP_LEVEL));
            packed.map_err(|error| format!("the body cannot be packed: {error}"))?
        }
        (false, false) => {
            if is_gzip && is_checked && !answer.do_esi && !is_part {
                unpack(&body)?;
            }
            if answer.do_esi && is_gzip {
                // It is put together of other bytes at each delivery.
                weaken_tag(fields);
            }
            announce(fields, body.len());
            return Ok(body);
        }
    };
    weaken_tag(fields);
    if answer.do_gzip {
        vary_by_coding(fields);
    }
    announce(fields, made.len());
    Ok(made.into())
}

/// Notes whether a body has ESI. What is broken in it is logged.
fn look_for_esi(
    policy: &VclPolicy,
    head: &ResponseHead,
    body: &Bytes,
    ex: &mut Exchange,
    cx: &Cx,
) -> Result<(), String> {
    if head.status == status::PARTIAL_CONTENT {
        return Err("a part of a page (206) cannot be read for ESI".to_owned());
    }
    let found = match is_gzip(head) {
        true => esi::look(&unpack(body)?.into(), super::esi_rules(policy)),
        false => esi::look(body, super::esi_rules(policy)),
    };
    if let Some(fault) = found.first_fault {
        let faults = found.faults;
        cx.local.logs.error(cx, ex, LogLevel::Warn, format_args!("ESI: {fault}; {faults} faults in the page"));
    }
    let fetch = &mut ex.vcl.fetch;
    fetch.answer.esi_base = found.has_esi.then(|| fetch.bereq.target().into());
    Ok(())
}

/// Whether a body is in gzip.
pub fn is_gzip(head: &ResponseHead) -> bool {
    let coding = head.fields.get_known(Known::ContentEncoding);
    coding.is_some_and(|coding| Coding::parse(coding) == Some(Coding::Gzip))
}

fn unpack(body: &[u8]) -> Result<Vec<u8>, String> {
    let unpacked = larder_compress::restore(iter::once(body), Coding::Gzip, UNPACKED_BYTES_MAX);
    unpacked.map_err(|error| format!("the body cannot be unpacked: {error}"))
}

fn announce(fields: &mut Fields, bytes: usize) {
    if fields.contains_known(Known::ContentLength) {
        fields.set_sound(Known::ContentLength, "Content-Length", bytes.to_string().as_bytes());
    }
}

/// Adds `Accept-Encoding` to `Vary`: there is another form of the page.
pub fn vary_by_coding(fields: &mut Fields) {
    let names = fields.get_known(Known::Vary).unwrap_or_default();
    if larder_http::list::members(names).any(|name| name.eq_ignore_ascii_case(b"accept-encoding")) {
        return;
    }
    if names.is_empty() {
        return fields.set_sound(Known::Vary, "Vary", b"Accept-Encoding");
    }
    let all = [names, b", Accept-Encoding"].concat();
    fields.set("Vary", &all);
}
