//! Variables about the response.

use larder_http::{Coding, status};

use crate::context::Cx;
use crate::exchange::Choice;
use crate::exchange::Exchange;
use crate::variable::ResponseVar;

use super::append::{append_display, append_joined, append_some, append_text, named};

/// Appends the value; false if there is none.
pub fn append(var: ResponseVar, ex: &Exchange, out: &mut Vec<u8>) -> bool {
    match var {
        // As in nginx, the framing of chunks counts: everything but the head.
        ResponseVar::BodyBytesSent if ex.reply.framing.chunked => {
            append_display(ex.tally.sent.0.saturating_sub(ex.reply.framing.head_bytes), out)
        }
        ResponseVar::BodyBytesSent => append_display(ex.tally.sent.1, out),
        ResponseVar::BytesSent => append_display(ex.tally.sent.0, out),
        ResponseVar::RequestCompletion => append_text(if ex.tally.is_complete { "OK" } else { "" }, out),
        ResponseVar::Status => {
            let status = if ex.reply.status == 0 { ex.request.way.error_status.unwrap_or(0) } else { ex.reply.status };
            append_display(format_args!("{status:03}"), out)
        }
        ResponseVar::GzipRatio => append_ratio(Coding::Gzip, ex, out),
        ResponseVar::BrotliRatio => append_ratio(Coding::Brotli, ex, out),
        ResponseVar::ZstdRatio => append_ratio(Coding::Zstd, ex, out),
    }
}

/// Appends how much smaller the body became: two decimals as in nginx, and no value if it was not compressed.
fn append_ratio(coding: Coding, ex: &Exchange, out: &mut Vec<u8>) -> bool {
    match (ex.reply.choice, ex.tally.squeezed) {
        (Choice::Compress(chosen), Some((before, after @ 1..))) if chosen == coding => {
            let hundredths = before.saturating_mul(100) / after;
            append_display(format_args!("{}.{:02}", hundredths / 100, hundredths % 100), out)
        }
        _ => false,
    }
}

/// Appends a field of the response as it is sent; false if there is none.
pub fn append_sent(name: &str, ex: &Exchange, cx: &Cx, out: &mut Vec<u8>) -> bool {
    match name {
        // By the time nginx logs, it has let go of the connection, and says so.
        "connection" if ex.reply.status == status::SWITCHING_PROTOCOLS => append_text("upgrade", out),
        "connection" => {
            append_text(if ex.reply.framing.keep_alive && !ex.tally.is_logging { "keep-alive" } else { "close" }, out)
        }
        "keep-alive" => match cx.loc(ex).settings.connection.keepalive_header {
            Some(seconds) if ex.reply.framing.keep_alive => append_display(format_args!("timeout={seconds}"), out),
            _ => false,
        },
        "content-length" => match ex.reply.framing.length {
            Some(length) => append_display(length, out),
            None => false,
        },
        "transfer-encoding" if ex.reply.framing.chunked => append_text("chunked", out),
        // `map $sent_http_content_type $expires` reads the type before `charset` is added to it.
        "content-type" if !ex.reply.bare_type.is_empty() => append_some(Some(&ex.reply.bare_type), out),
        _ => append_joined(named(&ex.reply.fields, name), name, out),
    }
}
