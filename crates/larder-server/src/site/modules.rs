//! What the smaller modules of nginx are told in one location.

use std::sync::Arc;

use crate::filter::needles::Needles;
use crate::modules::referer::Referers;
use crate::text::Text;

/// What the smaller modules are told in one location.
#[derive(Default)]
pub struct Modules {
    /// `sub_filter`.
    pub sub: Option<SubFilter>,
    /// `source_charset`.
    pub source_charset: Option<Text>,
    /// `valid_referers`.
    pub referers: Option<Arc<Referers>>,
    /// `early_hints`: of these one has to be true.
    pub early_hints: Vec<Text>,
    /// `secure_link` and `secure_link_md5`.
    pub secure_link: Option<(Text, Text)>,
    /// What `$uid_reset` is made by.
    pub uid_reset: Option<Text>,
    /// Whether a response has to be laid out anew each time, as its fields or its body may differ.
    pub changes_responses: bool,
}

/// `sub_filter` of a location.
pub struct SubFilter {
    /// What is looked for, and what takes its place.
    pub pairs: Vec<(Text, Text)>,
    /// All that is looked for, where none of it has variables.
    pub fixed: Option<Arc<Needles>>,
    /// `sub_filter_once`.
    pub once: bool,
}
