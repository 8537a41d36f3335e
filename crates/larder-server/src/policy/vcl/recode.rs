//! `beresp.do_stream`, `do_gzip` and `do_gunzip`: answers that are whole before they go on.

use std::iter;
use std::sync::Arc;

use bytes::Bytes;
use larder_compress::Effort;
use larder_http::{Coding, Fields, Known, ResponseHead};

use crate::exchange::Exchange;
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
    !fetch.is_pipe && (!answer.do_stream || answer.do_gzip || answer.do_gunzip)
}

/// Packs or unpacks a body as the VCL says, and says so in its head.
pub fn recode(policy: &VclPolicy, head: &mut ResponseHead, body: Bytes, ex: &Exchange) -> Result<Bytes, String> {
    // Clients without gzip would find out too late.
    let is_checked = policy.parameters.http_gzip_support;
    let answer = &ex.vcl.fetch.answer;
    let coding = head.fields.get_known(Known::ContentEncoding);
    let is_gzip = coding.is_some_and(|coding| Coding::parse(coding) == Some(Coding::Gzip));
    let is_plain = coding.is_none();
    let fields = Arc::make_mut(&mut head.fields);
    if body.is_empty() {
        fields.remove("Content-Encoding");
        return Ok(body);
    }
    let made: Vec<u8> = match (answer.do_gunzip && is_gzip, answer.do_gzip && is_plain) {
        (true, _) => {
            fields.remove("Content-Encoding");
            unpacked(&body)?
        }
        (false, true) => {
            fields.set("Content-Encoding", b"gzip");
            let packed = larder_compress::compress(iter::once(&body[..]), Coding::Gzip, Effort::Quick(GZIP_LEVEL));
            packed.map_err(|error| format!("the body cannot be packed: {error}"))?
        }
        (false, false) => {
            if is_gzip && is_checked {
                unpacked(&body)?;
            }
            announce(fields, body.len());
            return Ok(body);
        }
    };
    weaken_tag(fields);
    vary_by_coding(fields);
    announce(fields, made.len());
    Ok(made.into())
}

fn unpacked(body: &[u8]) -> Result<Vec<u8>, String> {
    let unpacked = larder_compress::restore(iter::once(body), Coding::Gzip, UNPACKED_BYTES_MAX);
    unpacked.map_err(|error| format!("the body cannot be unpacked: {error}"))
}

fn announce(fields: &mut Fields, bytes: usize) {
    if fields.contains_known(Known::ContentLength) {
        fields.set("Content-Length", bytes.to_string().as_bytes());
    }
}

/// Adds `Accept-Encoding` to `Vary`.
fn vary_by_coding(fields: &mut Fields) {
    let names = fields.get_known(Known::Vary).unwrap_or_default();
    if larder_http::list::members(names).any(|name| name.eq_ignore_ascii_case(b"accept-encoding")) {
        return;
    }
    let all = if names.is_empty() { b"Accept-Encoding".to_vec() } else { [names, b", Accept-Encoding"].concat() };
    fields.set("Vary", &all);
}
