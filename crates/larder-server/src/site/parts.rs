//! The compiled parts of a location's settings, by who reads them.

use crate::regex::Regex;
use crate::text::Text;

use super::script::SetTarget;

/// Where files are.
pub struct FileParts {
    /// `root`.
    pub root: Text,
    /// `alias`.
    pub alias: Option<Text>,
    /// How many bytes of the URI the alias stands for; `None` for all.
    pub alias_replaces: Option<usize>,
    /// `index`.
    pub index: Vec<Text>,
    /// `from=` of `disable_symlinks`.
    pub links_from: Option<Text>,
}

/// Who may, and how often.
pub struct AccessParts {
    /// `limit_except`: for other methods than these, another location.
    pub limit_except: Option<(Vec<String>, usize)>,
    /// `auth_basic`.
    pub auth_basic: Option<(Text, Option<Text>)>,
    /// `limit_req`: zone, burst and delay in requests.
    pub limit_reqs: Vec<(usize, u64, Option<u64>)>,
    /// `limit_conn`: zone and number.
    pub limit_conns: Vec<(usize, u32)>,
}

/// Requests that a location makes by itself.
pub struct Subrequests {
    /// What is put together with other responses here; `None` where nothing is.
    pub composing: Option<Box<Composing>>,
    /// `auth_request`.
    pub auth_request: Option<Box<AuthRequest>>,
    /// `mirror`: paths of where copies of requests go.
    pub mirrors: Vec<Box<[u8]>>,
}

/// How responses are put together: `ssi`, `add_before_body`, `add_after_body`.
pub struct Composing {
    /// Whether pages are read for commands.
    pub ssi: bool,
    /// What goes around them.
    pub around: Around,
}

/// What is put around the document.
#[derive(Clone, Debug, Default)]
pub struct Around {
    /// The path of what goes before it.
    pub before: Option<Box<[u8]>>,
    /// The path of what goes behind it.
    pub after: Option<Box<[u8]>>,
}

/// `auth_request`.
pub struct AuthRequest {
    /// Who is asked.
    pub uri: Box<[u8]>,
    /// `auth_request_set`.
    pub sets: Vec<(SetTarget, Text)>,
}

/// How fast responses go out.
pub struct Pace {
    /// `limit_rate`.
    pub limit_rate: Option<Text>,
    /// `limit_rate_after`.
    pub limit_rate_after: Option<Text>,
}

/// What becomes of the fields of responses, and by edits of those of requests.
pub struct FieldParts {
    /// `charset`.
    pub charset: Option<Text>,
    /// `add_header`.
    pub add_headers: Vec<(Box<[u8]>, Text, bool)>,
    /// `add_trailer`.
    pub add_trailers: Vec<(Box<[u8]>, Text, bool)>,
    /// `more_set_headers` and its kin.
    pub edits: Edits,
    /// The variable of `expires`.
    pub expires: Option<Text>,
    /// Whether headers or logs ask for fields of the response or of the origin, so that a hit must lay them out.
    pub reads_fields: bool,
}

/// What `more_set_headers`, `more_set_input_headers` and their kin do.
#[derive(Default)]
pub struct Edits {
    /// To requests.
    pub request: Vec<Edit>,
    /// To responses.
    pub response: Vec<Edit>,
}

/// A change of a field.
pub struct Edit {
    /// The name, or how it begins.
    pub name: Box<str>,
    /// What is done.
    pub change: EditChange,
    /// Only responses of these statuses; empty for all.
    pub statuses: Vec<u16>,
    /// Only messages of these types; empty for all.
    pub types: Vec<Box<[u8]>>,
}

/// What is done to a field.
pub enum EditChange {
    /// It gets this value, once.
    Set(Text),
    /// The same where it is there.
    Replace(Text),
    /// One more of this value.
    Append(Text),
    /// It is taken away.
    Clear,
    /// So is whatever begins with the name.
    ClearAllThatBegin,
}

/// In which form bodies go out.
pub struct CompressionParts {
    /// Whether any response may be compressed or restored here.
    pub compresses: bool,
    /// Expressions of `gzip_disable`.
    pub gzip_disable: Vec<Regex>,
}

/// Where a location's lines go.
pub struct LocLogs {
    /// `access_log`: log and condition.
    pub access: Vec<(usize, Option<Text>)>,
    /// Which of the site's error logs.
    pub error: usize,
}
