//! The settings of nginx's smaller modules in one location.

use std::sync::Arc;

use ipnet::IpNet;
use larder_conf::Span;

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
    /// `larder_ban`.
    pub ban: Option<BanRule>,
    /// `larder_purge_from`.
    pub purging: Option<PurgeRule>,
    /// Whether each response has to be laid out anew, as a module may change its fields or its body.
    pub changes_responses: bool,
}

/// `larder_ban` of a location.
pub struct BanRule {
    /// The place of the zone.
    pub zone: usize,
    /// Where the directive names it.
    pub span: Span,
    /// The method of requests that ban.
    pub method: Box<[u8]>,
    /// What the ban says.
    pub text: Text,
    /// The client networks that may ban; `None` for all.
    pub from: Option<Vec<IpNet>>,
}

/// `larder_purge_from` of a location, and what it needs to know.
pub struct PurgeRule {
    /// The client networks that may purge.
    pub nets: Vec<IpNet>,
    /// The secrets of others who may.
    pub secrets: Vec<Box<[u8]>>,
    /// Whether a page goes by its URL, in all schemes.
    pub all_schemes: bool,
    /// The fields that have the tags of pages in the zones of this server; known when all zones are.
    pub tag_fields: Arc<[Box<str>]>,
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
