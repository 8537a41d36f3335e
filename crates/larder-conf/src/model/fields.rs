//! Fields of requests and responses.

use ipnet::IpNet;

use super::Template;

/// Fields that are added to a response, or changed.
#[derive(Clone, Debug)]
pub struct FieldSettings {
    /// `server_tokens`.
    pub server_tokens: ServerTokens,
    /// `add_header`, in order.
    pub add_headers: Vec<AddHeader>,
    /// `add_trailer`, in order.
    pub add_trailers: Vec<AddHeader>,
    /// `more_set_headers` and its kin.
    pub edits: Edits,
    /// `expires`.
    pub expires: Option<Expires>,
    /// `larder_cache_status on`: send `Cache-Status` (RFC 9211).
    pub cache_status: bool,
    /// `larder_explain_from`: the visitors who are told why by `X-Larder-Explain`; none unless told.
    pub explain_from: Vec<IpNet>,
}

impl Default for FieldSettings {
    fn default() -> Self {
        Self {
            server_tokens: ServerTokens::On,
            add_headers: Vec::new(),
            add_trailers: Vec::new(),
            edits: Edits::default(),
            expires: None,
            cache_status: false,
            explain_from: Vec::new(),
        }
    }
}

/// `server_tokens`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerTokens {
    /// With the version.
    On,
    /// Without it.
    Off,
    /// With the version and the build.
    Build,
}

/// `add_header` or `add_trailer`.
#[derive(Clone, Debug)]
pub struct AddHeader {
    /// As written.
    pub name: String,
    /// Nothing is added when it comes out empty.
    pub value: Template,
    /// With any status.
    pub always: bool,
}

/// What `more_set_headers`, `more_set_input_headers` and their kin do, those of the levels above first.
#[derive(Clone, Debug, Default)]
pub struct Edits {
    /// To the fields of a request, when the rewrites of its location are done.
    pub request: Vec<FieldEdit>,
    /// To the fields of a response of whatever status, before `add_header`.
    pub response: Vec<FieldEdit>,
}

/// A change of a field.
#[derive(Clone, Debug)]
pub struct FieldEdit {
    /// As written, without the `*`.
    pub name: String,
    /// What is done.
    pub change: FieldChange,
    /// `-s`: only responses of these statuses; empty for all.
    pub statuses: Vec<u16>,
    /// `-t`: only messages of these types; empty for all.
    pub types: Vec<String>,
}

/// What is done to a field.
#[derive(Clone, Debug)]
pub enum FieldChange {
    /// It gets this value, once; one that comes out empty takes it away.
    Set(Template),
    /// The same where it is there.
    Replace(Template),
    /// One more of this value.
    Append(Template),
    /// It is taken away.
    Clear,
    /// So is whatever begins with the name.
    ClearAllThatBegin,
}

/// `expires`.
#[derive(Clone, Debug)]
pub enum Expires {
    /// `epoch`.
    Epoch,
    /// `max`.
    Max,
    /// Seconds from now; negative is `no-cache`.
    After(i64),
    /// `modified +N`: seconds from the last modification.
    Modified(i64),
    /// `@15h30m`: seconds of the day.
    Daily(u32),
    /// A variable with one of the above, or `off`; whether `modified` stands before it.
    Variable(Template, bool),
}
