//! Files that are served.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::Template;

/// Files that are served: `root`, `index`, `types` and the like.
#[derive(Clone, Debug)]
pub struct Files {
    /// `root`; `html` under the prefix unless told.
    pub root: Template,
    /// `index`; `index.html` unless told.
    pub index: Vec<Template>,
    /// `types`: extension (lower case, no dot) to type.
    pub types: Arc<HashMap<String, String>>,
    /// `default_type`, `text/plain`.
    pub default_type: String,
    /// `log_not_found`, on.
    pub log_not_found: bool,
    /// `open_file_cache`.
    pub open_cache: OpenFileCache,
    /// `disable_symlinks`.
    pub disable_symlinks: DisableSymlinks,
    /// `etag`, on.
    pub etag: bool,
    /// `autoindex`; `None` for off.
    pub autoindex: Option<Autoindex>,
    /// `sendfile`; read, and larder does what pays.
    pub sendfile: bool,
}

impl Files {
    /// nginx's defaults, apart from the folder and the name of an index.
    pub fn new(root: Template, index: Template) -> Self {
        Self {
            root,
            index: vec![index],
            types: Arc::new(types()),
            default_type: "text/plain".to_owned(),
            log_not_found: true,
            open_cache: OpenFileCache::default(),
            disable_symlinks: DisableSymlinks::Off,
            etag: true,
            autoindex: None,
            sendfile: false,
        }
    }
}

/// `open_file_cache` and its kin.
#[derive(Clone, Copy, Debug)]
pub struct OpenFileCache {
    /// `open_file_cache`: how many and how long unused; `None` for `off`.
    pub kept: Option<(usize, Duration)>,
    /// `open_file_cache_valid`, 60 s.
    pub valid: Duration,
    /// `open_file_cache_min_uses`, 1.
    pub min_uses: u32,
    /// `open_file_cache_errors`, off.
    pub errors: bool,
}

impl Default for OpenFileCache {
    fn default() -> Self {
        Self { kept: None, valid: Duration::from_secs(60), min_uses: 1, errors: false }
    }
}

fn types() -> HashMap<String, String> {
    [("html", "text/html"), ("gif", "image/gif"), ("jpg", "image/jpeg")]
        .map(|(extension, kind)| (extension.to_owned(), kind.to_owned()))
        .into()
}

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

impl Default for Autoindex {
    fn default() -> Self {
        Self { exact_size: true, localtime: false, format: AutoindexFormat::Html }
    }
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
