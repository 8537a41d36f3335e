//! The settings of nginx's smaller modules in one location.

use std::sync::Arc;

use crate::filter::needles::Needles;
use crate::modules::referer::Referers;
use crate::text::Text;

/// The settings of the smaller modules in one location.
#[derive(Default)]
pub struct Modules {
    /// `sub_filter`.
    pub sub: Option<SubFilter>,
    /// `source_charset`.
    pub source_charset: Option<Text>,
    /// `valid_referers`.
    pub referers: Option<Arc<Referers>>,
    /// `early_hints`: conditions of which one must be true.
    pub early_hints: Vec<Text>,
    /// `secure_link` and `secure_link_md5`.
    pub secure_link: Option<(Text, Text)>,
    /// The value of `$uid_reset`, if anything sets that variable.
    pub uid_reset: Option<Text>,
    /// Whether each response has to be laid out anew, as a module may change its fields or its body.
    pub changes_responses: bool,
}

/// `sub_filter` of a location.
pub struct SubFilter {
    /// Pairs: the text to find, and its replacement.
    pub pairs: Vec<(Text, Text)>,
    /// All texts to find, if none of them has variables.
    pub fixed: Option<Arc<Needles>>,
    /// `sub_filter_once`.
    pub once: bool,
}
