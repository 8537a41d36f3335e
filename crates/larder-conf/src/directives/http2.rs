//! `http2` and `http2_*`.

use super::{Action, Args, DirectiveInfo, HS, HSL, HTTP, ONE, directive, http, repeated};
use crate::diagnostic::Diagnostic;

const MEMORY: Action = Action::Harmless("memory is managed without buffers of that kind");
const NO_HTTP3: Action = Action::Harmless("HTTP/3 is not spoken yet");
const HTTP3: Action = Action::Lost("HTTP/3 is not spoken yet");

pub const TABLE: &[DirectiveInfo] = &[
    directive("http2", HS, Args::Flag, Action::Level(|l, _, d| http::set(&mut l.http2.enabled, d.flag()))),
    directive(
        "http2_max_concurrent_streams",
        HS,
        ONE,
        Action::Level(|l, _, d| http::set(&mut l.http2.max_concurrent_streams, d.number32(0))),
    ),
    directive(
        "http2_body_preread_size",
        HS,
        ONE,
        Action::Level(|l, _, d| {
            // The largest window there is.
            const WINDOW_BYTES_MAX: u32 = (1 << 31) - 1;
            let bytes = u32::try_from(d.size(0)?).ok().filter(|&bytes| bytes <= WINDOW_BYTES_MAX);
            l.http2.body_preread_bytes = bytes.ok_or_else(|| {
                Diagnostic::error(format!("the maximum body preread buffer size is {WINDOW_BYTES_MAX}"))
                    .at(d.arg(0).span)
            })?;
            Ok(())
        }),
    ),
    directive(
        "http2_chunk_size",
        HSL,
        ONE,
        Action::Level(|l, _, d| {
            // The largest frame there is.
            const FRAME_BYTES_MAX: usize = (1 << 24) - 1;
            l.settings.connection.http2_chunk_bytes = match d.size(0)? {
                0 => return Err(Diagnostic::error("the http2 chunk size cannot be zero").at(d.arg(0).span)),
                bytes => bytes.min(FRAME_BYTES_MAX),
            };
            Ok(())
        }),
    ),
    repeated("http2_recv_buffer_size", HTTP, ONE, MEMORY),
    repeated("http2_pool_size", HS, ONE, MEMORY),
    repeated("http2_streams_index_size", HS, ONE, MEMORY),
    repeated("http2_recv_timeout", HS, ONE, Action::Obsolete(Some("client_header_timeout"))),
    repeated("http2_idle_timeout", HS, ONE, Action::Obsolete(Some("keepalive_timeout"))),
    repeated("http2_max_requests", HS, ONE, Action::Obsolete(Some("keepalive_requests"))),
    repeated("http2_max_field_size", HS, ONE, Action::Obsolete(Some("large_client_header_buffers"))),
    repeated("http2_max_header_size", HS, ONE, Action::Obsolete(Some("large_client_header_buffers"))),
    repeated("http2_max_concurrent_pushes", HS, ONE, Action::Obsolete(None)),
    repeated("http2_push", HSL, ONE, Action::Obsolete(None)),
    repeated("http2_push_preload", HSL, Args::Flag, Action::Obsolete(None)),
    repeated("http3", HS, Args::Flag, HTTP3),
    repeated("http3_hq", HS, Args::Flag, HTTP3),
    repeated("http3_max_concurrent_streams", HS, ONE, NO_HTTP3),
    repeated("http3_stream_buffer_size", HS, ONE, NO_HTTP3),
    repeated("quic_retry", HS, Args::Flag, NO_HTTP3),
    repeated("quic_gso", HS, Args::Flag, NO_HTTP3),
    repeated("quic_host_key", HS, ONE, NO_HTTP3),
    repeated("quic_active_connection_id_limit", HS, ONE, NO_HTTP3),
];
