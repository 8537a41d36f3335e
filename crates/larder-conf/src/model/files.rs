//! Files that are served.

use super::Template;

/// `disable_symlinks`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DisableSymlinks {
    /// All may be followed.
    Off,
    /// None may.
    On {
        /// `from=`: the part of the path that is not checked.
        from: Option<Template>,
    },
    /// Only where link and target have one owner.
    IfNotOwner {
        /// See above.
        from: Option<Template>,
    },
}

/// `autoindex on` and its forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Autoindex {
    /// `autoindex_exact_size`, on.
    pub exact_size: bool,
    /// `autoindex_localtime`, off.
    pub localtime: bool,
    /// `autoindex_format`.
    pub format: AutoindexFormat,
}

/// `autoindex_format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoindexFormat {
    /// A page.
    Html,
    /// `<list>`.
    Xml,
    /// An array.
    Json,
    /// A callback.
    Jsonp,
}
