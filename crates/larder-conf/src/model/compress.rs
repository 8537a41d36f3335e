//! Compression: gzip, Brotli and zstd.

use super::Pattern;

/// What holds at a level about compression.
#[derive(Clone, Debug)]
pub struct Compression {
    /// `gzip_*`.
    pub gzip: Gzip,
    /// `brotli_*`.
    pub brotli: Brotli,
    /// `zstd_*`.
    pub zstd: Zstd,
    /// `gunzip`, off: unpack what is stored or sent as gzip for clients that cannot.
    pub gunzip: bool,
    /// `gzip_vary`, off: send `Vary: Accept-Encoding` where the answer depends on it, whatever the coding.
    pub vary: bool,
    /// `larder_compress_private`, on: whether answers that are for one client alone are compressed.
    pub private: bool,
    /// `larder_compress_stored`, on: whether the forms of a stored page are made once and kept.
    pub stored: bool,
}

impl Default for Compression {
    fn default() -> Self {
        Self {
            gzip: Gzip::default(),
            brotli: Brotli::default(),
            zstd: Zstd::default(),
            gunzip: false,
            vary: false,
            private: true,
            stored: true,
        }
    }
}

/// `gzip` and `gzip_*`.
#[derive(Clone, Debug)]
pub struct Gzip {
    /// `gzip`, off.
    pub enabled: bool,
    /// `gzip_comp_level`, 1: 1 to 9.
    pub level: u8,
    /// `gzip_min_length`, 20: answers whose length is known to be less stay as they are.
    pub min_bytes: u64,
    /// `gzip_types`.
    pub types: MediaTypes,
    /// `gzip_http_version`, 1.1: whether HTTP/1.0 is enough. This and the next two decide about `gzip_static` and
    /// `gunzip` too, and as in nginx not about Brotli and zstd.
    pub http_1_0: bool,
    /// `gzip_proxied`, off: what of the answers to requests with `Via` is compressed.
    pub proxied: GzipProxied,
    /// `gzip_disable`: whose `User-Agent` gets no gzip.
    pub disable: Vec<GzipDisable>,
    /// `gzip_static`, off.
    pub files: StaticForms,
}

impl Default for Gzip {
    fn default() -> Self {
        Self {
            enabled: false,
            level: 1,
            min_bytes: MIN_BYTES,
            types: MediaTypes::default(),
            http_1_0: false,
            proxied: GzipProxied { off: true, ..GzipProxied::default() },
            disable: Vec::new(),
            files: StaticForms::Off,
        }
    }
}

/// `brotli` and `brotli_*`, as in ngx_brotli.
#[derive(Clone, Debug)]
pub struct Brotli {
    /// `brotli`, off.
    pub enabled: bool,
    /// `brotli_comp_level`, 6: 0 to 11.
    pub level: u8,
    /// `brotli_window`, 512k: the base 2 logarithm of it, 10 to 24.
    pub window_log: u8,
    /// `brotli_min_length`, 20.
    pub min_bytes: u64,
    /// `brotli_types`.
    pub types: MediaTypes,
    /// `brotli_static`, off.
    pub files: StaticForms,
}

impl Default for Brotli {
    fn default() -> Self {
        Self {
            enabled: false,
            level: 6,
            window_log: 19,
            min_bytes: MIN_BYTES,
            types: MediaTypes::default(),
            files: StaticForms::Off,
        }
    }
}

/// `zstd` and `zstd_*`, as in zstd-nginx-module.
#[derive(Clone, Debug)]
pub struct Zstd {
    /// `zstd`, off.
    pub enabled: bool,
    /// `zstd_comp_level`, 1: from -131072 to 22, without 0.
    pub level: i32,
    /// `zstd_min_length`, 20.
    pub min_bytes: u64,
    /// `zstd_types`.
    pub types: MediaTypes,
    /// `zstd_static`, off.
    pub files: StaticForms,
}

impl Default for Zstd {
    fn default() -> Self {
        Self { enabled: false, level: 1, min_bytes: MIN_BYTES, types: MediaTypes::default(), files: StaticForms::Off }
    }
}

/// `*_types`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MediaTypes {
    /// `*`.
    All,
    /// These, in lower case; `text/html` is always one of them.
    Listed(Vec<String>),
}

impl Default for MediaTypes {
    fn default() -> Self {
        Self::Listed(vec!["text/html".to_owned()])
    }
}

impl MediaTypes {
    /// Whether a media type is meant: the value of `Content-Type`, whose parameters do not count.
    pub fn contain(&self, content_type: &str) -> bool {
        match self {
            Self::All => true,
            Self::Listed(types) => {
                let bare = content_type.split(';').next().unwrap_or_default().trim();
                types.iter().any(|known| known.eq_ignore_ascii_case(bare))
            }
        }
    }
}

/// `gzip_static`, `brotli_static`, `zstd_static`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaticForms {
    /// Files are sent as they are.
    Off,
    /// A file with `.gz`, `.br` or `.zst` behind its name is sent in its place to clients that take it.
    On,
    /// The same to all clients.
    Always,
}

/// `gzip_proxied`. The field names are nginx's words; `off` decides whatever else is set.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct GzipProxied {
    pub off: bool,
    pub expired: bool,
    pub no_cache: bool,
    pub no_store: bool,
    pub private: bool,
    pub no_last_modified: bool,
    pub no_etag: bool,
    pub auth: bool,
    pub any: bool,
}

/// One argument of `gzip_disable`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GzipDisable {
    /// `msie6`: Internet Explorer 4, 5.5 and 6 without SV1.
    Msie6,
    /// A regular expression, without case.
    Pattern(Pattern),
}

/// What is smaller is not compressed, unless told.
const MIN_BYTES: u64 = 20;
