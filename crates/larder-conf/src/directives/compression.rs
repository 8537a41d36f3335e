//! Compression: `gzip`, Brotli, zstd. Read, and said once that it is not done.

use super::{Action, Args, DirectiveInfo, HSL, HSLI, ONE, repeated};

const C: Action = Action::Compression;
const MANY: Args = Args::AtLeast(1);
const TWO: Args = Args::Between(2, 2);

pub const TABLE: &[DirectiveInfo] = &[
    repeated("gzip", HSLI, Args::Flag, C),
    repeated("gzip_buffers", HSL, TWO, C),
    repeated("gzip_types", HSL, MANY, C),
    repeated("gzip_comp_level", HSL, ONE, C),
    repeated("gzip_window", HSL, ONE, C),
    repeated("gzip_hash", HSL, ONE, C),
    repeated("postpone_gzipping", HSL, ONE, C),
    repeated("gzip_no_buffer", HSL, Args::Flag, C),
    repeated("gzip_min_length", HSL, ONE, C),
    repeated("gzip_vary", HSL, Args::Flag, C),
    repeated("gzip_http_version", HSL, ONE, C),
    repeated("gzip_proxied", HSL, MANY, C),
    repeated("gzip_disable", HSL, MANY, C),
    repeated("gzip_static", HSL, ONE, C),
    repeated("gunzip", HSL, Args::Flag, C),
    repeated("gunzip_buffers", HSL, TWO, C),
    repeated("brotli", HSLI, Args::Flag, C),
    repeated("brotli_static", HSL, ONE, C),
    repeated("brotli_types", HSL, MANY, C),
    repeated("brotli_comp_level", HSL, ONE, C),
    repeated("brotli_buffers", HSL, TWO, C),
    repeated("brotli_window", HSL, ONE, C),
    repeated("brotli_min_length", HSL, ONE, C),
    repeated("zstd", HSLI, Args::Flag, C),
    repeated("zstd_static", HSL, ONE, C),
    repeated("zstd_types", HSL, MANY, C),
    repeated("zstd_comp_level", HSL, ONE, C),
    repeated("zstd_buffers", HSL, TWO, C),
    repeated("zstd_min_length", HSL, ONE, C),
    repeated("zstd_dict_file", HSL, ONE, C),
];
