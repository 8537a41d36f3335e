//! What the smaller modules of nginx are told: those that few locations use, kept together so that settings stay small.

use std::time::Duration;

use super::{At, BanRule, Charset, MediaTypes, Pattern, ServerName, Template, VclSettings};

/// The settings of the smaller modules at one level.
#[derive(Clone, Debug, Default)]
pub struct Modules {
    /// `sub_filter*`.
    pub sub_filter: SubFilter,
    /// `charset`, `source_charset` and their kin.
    pub charset: Charset,
    /// `valid_referers`; `None` where there is none, and every referrer is valid.
    pub referers: Option<ValidReferers>,
    /// `userid*`.
    pub user_id: UserId,
    /// `secure_link*`.
    pub secure_link: SecureLink,
    /// `modern_browser`, `ancient_browser`.
    pub browsers: Browsers,
    /// `random_index`.
    pub random_index: bool,
    /// `early_hints`: of these one has to be true.
    pub early_hints: Vec<Template>,
    /// `mp4_*`.
    pub mp4: Mp4,
    /// `open_log_file_cache`; `None` for `off`.
    pub log_file_cache: Option<LogFileCache>,
    /// `vcl`, `vcl_parameter`.
    pub vcl: VclSettings,
    /// `larder_ban`; `None` for `off`.
    pub ban: Option<BanRule>,
    /// `status_zone` of a location; `None` for `off`.
    pub status_zone: Option<String>,
}

/// `mp4_buffer_size` and its kin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mp4 {
    /// `mp4_buffer_size`: how much is there for a `moov` anyway.
    pub buffer_bytes: usize,
    /// `mp4_max_buffer_size`: a larger `moov` is refused.
    pub max_buffer_bytes: usize,
    /// `mp4_start_key_frame`.
    pub start_key_frame: bool,
}

impl Default for Mp4 {
    fn default() -> Self {
        Self { buffer_bytes: 512 * 1024, max_buffer_bytes: 10 * 1024 * 1024, start_key_frame: false }
    }
}

/// `open_log_file_cache`, for logs whose names have variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogFileCache {
    /// `max=`: how many are remembered.
    pub max: usize,
    /// `inactive=`: how long one is remembered unused.
    pub inactive: Duration,
    /// `min_uses=`: one that is written to less often is closed again.
    pub min_uses: u64,
    /// `valid=`: how long before it is looked for again.
    pub valid: Duration,
}

/// `sub_filter` and its kin.
#[derive(Clone, Debug)]
pub struct SubFilter {
    /// What is looked for, without case, and what takes its place; in order.
    pub pairs: Vec<(Template, Template)>,
    /// `sub_filter_types`, `text/html`.
    pub types: MediaTypes,
    /// `sub_filter_once`, on.
    pub once: bool,
    /// `sub_filter_last_modified`, off.
    pub last_modified: bool,
}

impl Default for SubFilter {
    fn default() -> Self {
        Self { pairs: Vec::new(), types: MediaTypes::default(), once: true, last_modified: false }
    }
}

/// `valid_referers`.
#[derive(Clone, Debug, Default)]
pub struct ValidReferers {
    /// `none`: a request without the field is valid.
    pub none: bool,
    /// `blocked`: one whose field begins with no scheme is valid.
    pub blocked: bool,
    /// `server_names`: the names of the server are valid.
    pub server_names: bool,
    /// Names and wildcards, with what the path must begin with.
    pub names: Vec<(At<ServerName>, Option<String>)>,
    /// Expressions, matched without case against what follows the scheme.
    pub patterns: Vec<Pattern>,
    /// Whether `patterns` are those of the level around, which hold where a level has none of its own.
    pub inherits_patterns: bool,
}

/// `userid` and its kin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserId {
    /// `userid`.
    pub mode: UserIdMode,
    /// `userid_service`; `None` for the address of the server.
    pub service: Option<u32>,
    /// `userid_name`, `uid`.
    pub name: String,
    /// `userid_domain`; empty for `none`.
    pub domain: String,
    /// `userid_path`, `/`.
    pub path: String,
    /// `userid_expires`.
    pub expires: UserIdExpires,
    /// `userid_flags`.
    pub flags: UserIdFlags,
    /// `userid_p3p`; empty for `none`.
    pub p3p: String,
    /// `userid_mark`; `None` for `off`.
    pub mark: Option<u8>,
}

impl Default for UserId {
    fn default() -> Self {
        Self {
            mode: UserIdMode::Off,
            service: None,
            name: "uid".to_owned(),
            domain: String::new(),
            path: "/".to_owned(),
            expires: UserIdExpires::Off,
            flags: UserIdFlags::default(),
            p3p: String::new(),
            mark: None,
        }
    }
}

/// Whether visitors are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserIdMode {
    /// No.
    Off,
    /// A number that comes is logged, and none is given.
    Log,
    /// Yes, by version 1.
    V1,
    /// Yes, by version 2.
    On,
}

/// How long a browser keeps its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserIdExpires {
    /// Until it is closed.
    Off,
    /// Until the end of 2037.
    Max,
    /// This long.
    After(Duration),
}

/// `userid_flags`. The field names are nginx's words.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserIdFlags {
    pub secure: bool,
    pub httponly: bool,
    pub samesite_strict: bool,
    pub samesite_lax: bool,
    pub samesite_none: bool,
}

/// `secure_link` and its kin.
#[derive(Clone, Debug, Default)]
pub struct SecureLink {
    /// `secure_link`: the checksum and perhaps the time it holds until.
    pub link: Option<Template>,
    /// `secure_link_md5`: what the checksum is of.
    pub md5: Option<Template>,
    /// `secure_link_secret`.
    pub secret: Option<String>,
}

/// `modern_browser`, `ancient_browser` and their values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Browsers {
    /// Browsers that are modern from this version on; six digits a part, as nginx counts.
    pub modern: Vec<(Browser, u64)>,
    /// `modern_browser unlisted`.
    pub unlisted_is_modern: bool,
    /// Texts that make a browser ancient.
    pub ancient: Vec<String>,
    /// `ancient_browser netscape4`.
    pub netscape4: bool,
    /// `modern_browser_value`, `1`.
    pub modern_value: String,
    /// `ancient_browser_value`, `1`.
    pub ancient_value: String,
}

impl Default for Browsers {
    fn default() -> Self {
        Self {
            modern: Vec::new(),
            unlisted_is_modern: false,
            ancient: Vec::new(),
            netscape4: false,
            modern_value: "1".to_owned(),
            ancient_value: "1".to_owned(),
        }
    }
}

/// A browser that `modern_browser` knows, in the order in which they are looked for.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Browser {
    Opera,
    Msie,
    Gecko,
    Safari,
    Konqueror,
}
