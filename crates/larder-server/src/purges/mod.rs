//! What is purged, in the words that plugins of content systems send.
//!
//! ```text
//! request -> dialects::orders -> Order: which pages (What), hard or soft
//!         -> request/purge_from.rs: the zones, and the keys of a page -> deeds::carry_out
//! larder purge, and apis -> wanted::Wanted -> ask/purge.rs, request/admin.rs: all zones -> deeds::carry_out
//! ```

pub mod apis;
pub mod by_origin;
pub mod deeds;
pub mod dialects;
mod fields;
mod patterns;
pub mod said;
pub mod wanted;

use larder_cache::How;

/// What is purged, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Which pages.
    pub what: What,
    /// Whether they are gone, or stale.
    pub how: How,
}

impl Order {
    /// The same, but that a page goes by its URL, in all schemes, and not by the key of the scheme in which this is asked.
    pub fn in_all_schemes(self) -> Self {
        match self.what {
            What::Page(page) => Self { what: What::Uri { of_host: true, uri: Uri::Is(page) }, ..self },
            _ => self,
        }
    }
}

impl Order {
    /// The same for the URL of a page as `kept` makes it of the one that is named.
    pub fn of_page(self, kept: impl FnOnce(&[u8]) -> Vec<u8>) -> Self {
        let what = match self.what {
            What::Page(page) => What::Page(kept(&page)),
            What::Uri { of_host, uri: Uri::Is(page) } => What::Uri { of_host, uri: Uri::Is(kept(&page)) },
            what @ (What::Uri { .. } | What::Host | What::Tags(_) | What::Ban(_) | What::All) => what,
        };
        Self { what, ..self }
    }
}

/// Which pages are purged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The page that a GET of this path and query finds, in all variants, on the host of the request.
    Page(Vec<u8>),
    /// Those whose host and URI are so, whatever their keys.
    Uri {
        /// The host is that of the request; else it is any.
        of_host: bool,
        /// What is asked of path and query.
        uri: Uri,
    },
    /// Those of the host of the request.
    Host,
    /// Those with one of these tags.
    Tags(Vec<Box<[u8]>>),
    /// Those that a ban of these words covers.
    Ban(Vec<String>),
    /// All.
    All,
}

/// What is asked of path and query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Uri {
    /// That it is this.
    Is(Vec<u8>),
    /// That it is this, where `*` stands for any bytes.
    Like(Vec<u8>),
    /// That it begins with this.
    Begins(Vec<u8>),
    /// That this regular expression is found in it.
    Matches(String),
}

/// Why a request purges nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// A field that has to name something names nothing.
    #[error("\"{0}\" is empty")]
    Empty(String),
    /// A field that has to say one thing, and has several lines.
    #[error("\"{0}\" is there twice: it says one thing, so send several requests")]
    Twice(String),
    /// A value that nobody knows.
    #[error("\"{field}: {value}\" is unknown: it may be {known}")]
    Unknown {
        /// The name of the field.
        field: &'static str,
        /// What it says.
        value: String,
        /// What it may say.
        known: &'static str,
    },
    /// A field that may say which pages, and is no field of this method.
    #[error("larder does not know the field \"{field}\" of a {method}, which may say which pages are meant")]
    UnknownField {
        /// Its name.
        field: String,
        /// The method.
        method: &'static str,
    },
    /// A field that there is, but that larder cannot follow.
    #[error("\"{0}\" is not supported: purge by tag, by page or all")]
    Unsupported(&'static str),
    /// Bytes where a text is needed.
    #[error("\"{0}\" is not UTF-8")]
    NotText(String),
    /// A soft ban.
    #[error("a ban is hard: purge softly by tag, by URL or all, or leave out the field that asks for soft")]
    SoftBan,
    /// Too many tags.
    #[error("at most {TAGS_MAX} tags can be purged at once: send them in several requests")]
    TooMany,
}

/// How many tags a request may name.
pub const TAGS_MAX: usize = 4096;
