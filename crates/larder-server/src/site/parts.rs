//! The compiled parts of a location's settings, grouped by the module that reads them.

use crate::regex::Regex;
use crate::text::Text;

use super::script::SetTarget;

/// Where a location's files are.
pub struct FileParts {
    /// `root`.
    pub root: Text,
    /// `alias`.
    pub alias: Option<Text>,
    /// How many bytes of the URI the alias replaces; `None` for all.
    pub alias_replaces: Option<usize>,
    /// `index`.
    pub index: Vec<Text>,
    /// `from=` of `disable_symlinks`.
    pub links_from: Option<Text>,
}

/// Who has access to a location, and how often.
pub struct AccessParts {
    /// `limit_except`: the methods that it does not concern, and the location for all others.
    pub limit_except: Option<(Vec<String>, usize)>,
    /// `auth_basic`: realm and user file.
    pub auth_basic: Option<(Text, Option<Text>)>,
    /// `limit_req`: zone, burst and delay; the last two in requests.
    pub limit_reqs: Vec<(usize, u64, Option<u64>)>,
    /// `limit_conn`: zone and number of connections.
    pub limit_conns: Vec<(usize, u32)>,
}

/// The subrequests that a location makes.
pub struct Subrequests {
    /// The parts that pages are composed of; `None` if pages are sent as they are.
    pub composing: Option<Box<Composing>>,
    /// `auth_request`.
    pub auth_request: Option<Box<AuthRequest>>,
    /// `mirror`: the paths that get copies of requests.
    pub mirrors: Vec<Box<[u8]>>,
}

/// How pages are composed: `ssi`, `add_before_body`, `add_after_body`.
pub struct Composing {
    /// Whether pages are searched for SSI commands.
    pub ssi: bool,
    /// What is added before and after the page.
    pub around: Around,
}

/// What is added before and after a page.
#[derive(Clone, Debug, Default)]
pub struct Around {
    /// The path of what comes before it.
    pub before: Option<Box<[u8]>>,
    /// The path of what comes after it.
    pub after: Option<Box<[u8]>>,
}

/// `auth_request`.
pub struct AuthRequest {
    /// The path of the subrequest that decides.
    pub uri: Box<[u8]>,
    /// `auth_request_set`: what is set, and to which value.
    pub sets: Vec<(SetTarget, Text)>,
}

/// The rate of responses.
pub struct Pace {
    /// `limit_rate`.
    pub limit_rate: Option<Text>,
    /// `limit_rate_after`.
    pub limit_rate_after: Option<Text>,
}

/// How header fields are changed: those of responses, and by edits also those of requests.
pub struct FieldParts {
    /// `charset`.
    pub charset: Option<Text>,
    /// `add_header`; the flag is `always`.
    pub add_headers: Vec<(Box<[u8]>, Text, bool)>,
    /// `add_trailer`; the flag is `always`.
    pub add_trailers: Vec<(Box<[u8]>, Text, bool)>,
    /// `more_set_headers` and the like.
    pub edits: Edits,
    /// The variable of `expires`, if it has one.
    pub expires: Option<Text>,
    /// Whether headers or logs read fields of the response or of the origin, so that a hit must lay them out.
    pub reads_fields: bool,
    /// Whether responses may say what the cache did.
    pub tells_cache: bool,
}

/// `more_set_headers`, `more_set_input_headers` and the like.
#[derive(Default)]
pub struct Edits {
    /// Edits of requests.
    pub request: Vec<Edit>,
    /// Edits of responses.
    pub response: Vec<Edit>,
}

/// An edit of a header field.
pub struct Edit {
    /// The field's name, or the beginning of its name ([`EditChange::ClearAllThatBegin`]).
    pub name: Box<str>,
    /// What is done to the field.
    pub change: EditChange,
    /// The statuses of responses that are changed; empty for all.
    pub statuses: Vec<u16>,
    /// The media types of messages that are changed; empty for all.
    pub types: Vec<Box<[u8]>>,
}

/// What is done to a field.
pub enum EditChange {
    /// It gets this value, and stays only once.
    Set(Text),
    /// As [`Set`](Self::Set), if the field is there.
    Replace(Text),
    /// One more field with this value.
    Append(Text),
    /// It is removed.
    Clear,
    /// All fields that begin with the name are removed.
    ClearAllThatBegin,
}

/// How bodies are compressed.
pub struct CompressionParts {
    /// Whether any response may be compressed or decompressed here.
    pub compresses: bool,
    /// Expressions of `gzip_disable`.
    pub gzip_disable: Vec<Regex>,
}

/// The logs of a location.
pub struct LocLogs {
    /// `access_log`: the log, by its place in the site, and the condition of `if=`.
    pub access: Vec<(usize, Option<Text>)>,
    /// The error logs, by their place in the site.
    pub error: usize,
}
