//! The smaller modules of nginx: variables and fields of their own, compiled once for each location.

pub mod browser;
pub mod random_index;
pub mod referer;
pub mod secure_link;
pub mod userid;

use std::sync::Arc;

use crate::filter::sub::Rules;
use crate::text::Text;

/// What the smaller modules are told in one location.
#[derive(Default)]
pub struct Parts {
    /// `sub_filter`.
    pub sub: Option<Rules>,
    /// `source_charset`.
    pub source_charset: Option<Text>,
    /// `valid_referers`.
    pub referers: Option<Arc<referer::Referers>>,
    /// `early_hints`: of these one has to be true.
    pub early_hints: Vec<Text>,
    /// `secure_link` and `secure_link_md5`.
    pub secure_link: Option<(Text, Text)>,
    /// What `$uid_reset` is made by.
    pub uid_reset: Option<Text>,
    /// Whether a response has to be laid out anew each time, as its fields or its body may differ.
    pub changes_responses: bool,
}
