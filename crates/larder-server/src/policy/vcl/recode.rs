//! `beresp.do_stream`, `do_gzip`, `do_gunzip` and `do_esi`: answers that are whole before they go on.

use std::sync::Arc;
use std::{iter, mem};

use bytes::Bytes;
use larder_compress::Effort;
use larder_conf::model::LogLevel;
use larder_http::{Coding, Fields, Known, ResponseHead, status};

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::filter::esi;
use crate::records;
use crate::records::fetch::Recoded;
use crate::site::VclPolicy;

use super::filters::{self, Filter};
use super::headers::{is_gzip, weaken_tag};

/// The longest body that comes out of gzip.
const UNPACKED_BYTES_MAX: usize = 64 << 20;
/// Varnish's `gzip_level`.
const GZIP_LEVEL: u32 = 6;

/// Whether the body has to be whole before it goes on.
pub fn gathers(ex: &Exchange) -> bool {
    let fetch = &ex.vcl.fetch;
    let answer = &fetch.answer;
    let is_changed = match &answer.filters {
        Some(list) => !list.trim_ascii().is_empty(),
        None => answer.do_gzip || answer.do_gunzip || answer.do_esi,
    };
    fetch.pipe.is_none() && (!answer.do_stream || is_changed)
}

/// Packs or unpacks a body as the VCL says, and says so in its head. Finds out whether there is ESI in it.
pub fn recode(
    policy: &VclPolicy,
    head: &mut ResponseHead,
    mut body: Bytes,
    ex: &mut Exchange,
    cx: &Cx,
) -> Result<Bytes, String> {
    if body.is_empty() {
        Arc::make_mut(&mut head.fields).remove("Content-Encoding");
        return Ok(body);
    }
    // The body in gzip that the one at hand was unpacked from.
    let mut packed = None;
    for filter in filters::through(policy, head, &ex.vcl.fetch.answer)? {
        if filter == Filter::Esi || filter == Filter::EsiGzip {
            look_for_esi(policy, head, &body, ex, cx)?;
        }
        // A part of a page is no stream of its own.
        if head.status == status::PARTIAL_CONTENT {
            continue;
        }
        let (is_gzip, is_plain) = (is_gzip(head), !head.fields.contains_known(Known::ContentEncoding));
        let fields = Arc::make_mut(&mut head.fields);
        match filter {
            Filter::Gunzip if is_gzip => {
                fields.remove("Content-Encoding");
                let unpacked = Bytes::from(unpack(&body)?);
                cx.stats().unpacked.add(1);
                records::fetch::gzip(Recoded::Unpacked, body.len(), unpacked.len(), ex);
                packed = Some(mem::replace(&mut body, unpacked));
            }
            // Clients without gzip would find out too late.
            Filter::TestGunzip if is_gzip => {
                let unpacked = unpack(&body)?;
                cx.stats().tested_packed.add(1);
                records::fetch::gzip(Recoded::Tested, body.len(), unpacked.len(), ex);
                continue;
            }
            Filter::Gzip | Filter::EsiGzip if is_plain => {
                fields.set_sound(Known::ContentEncoding, "Content-Encoding", b"gzip");
                body = match packed.take() {
                    Some(packed) => packed,
                    None => {
                        let packed = pack(&body)?;
                        cx.stats().packed.add(1);
                        records::fetch::gzip(Recoded::Packed, body.len(), packed.len(), ex);
                        packed
                    }
                };
                vary_by_coding(fields);
            }
            _ => continue,
        }
        weaken_tag(fields);
    }
    announce(Arc::make_mut(&mut head.fields), body.len());
    Ok(body)
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
    let found = esi::look(body, super::esi_rules(policy));
    let is_markup = found.first_fault.as_deref() != Some(esi::NOT_MARKUP);
    cx.stats().esi_errors.add(if is_markup { found.faults } else { 0 });
    if let Some(told) = found.told() {
        let level = if is_markup { LogLevel::Warn } else { LogLevel::Info };
        cx.local.logs.error(cx, ex, level, format_args!("{told}"));
    }
    let fetch = &mut ex.vcl.fetch;
    fetch.answer.esi_base = found.has_esi.then(|| fetch.bereq.target().into());
    Ok(())
}

fn pack(body: &[u8]) -> Result<Bytes, String> {
    let packed = larder_compress::compress(iter::once(body), Coding::Gzip, Effort::Quick(GZIP_LEVEL));
    packed.map(Bytes::from).map_err(|error| format!("the body cannot be packed: {error}"))
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
