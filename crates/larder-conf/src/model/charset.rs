//! Charsets: which one a page says it has, and what is converted.

use super::{At, Template};
use crate::span::Span;

/// `charset`, `source_charset` and their kin.
#[derive(Clone, Debug)]
pub struct Charset {
    /// `charset`; `None` for `off`.
    pub name: Option<Template>,
    /// `source_charset`; `None` for none.
    pub source: Option<Template>,
    /// `charset_types`; `*` stands for all.
    pub types: Vec<String>,
    /// `override_charset`.
    pub overrides: bool,
}

impl Default for Charset {
    fn default() -> Self {
        let types = [
            "text/html",
            "text/xml",
            "text/plain",
            "text/vnd.wap.wml",
            "application/javascript",
            "application/rss+xml",
        ];
        Self { name: None, source: None, types: types.map(str::to_owned).to_vec(), overrides: false }
    }
}

/// `charset_map`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CharsetMap {
    /// Where the block begins.
    pub span: Span,
    /// The charset of the first column.
    pub from: At<String>,
    /// That of the second.
    pub to: At<String>,
    /// A byte, and what it is in the other charset: one byte, or up to three of UTF-8.
    pub entries: Vec<(u8, Vec<u8>)>,
}

impl CharsetMap {
    /// Whether the second column is in UTF-8.
    pub fn is_to_utf8(&self) -> bool {
        self.to.value.eq_ignore_ascii_case("utf-8")
    }
}
