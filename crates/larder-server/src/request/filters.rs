//! Which filters a response goes through, and what they make of its fields.

use std::sync::Arc;

use larder_conf::model::MediaTypes;
use larder_http::{Fields, Known, status};

use crate::context::Cx;
use crate::exchange::{Choice, Exchange};
use crate::files::etag::weaken_etag;
use crate::filter::charset::Table;
use crate::filter::needles::Needles;
use crate::filter::sub::Substitution;
use crate::site::{Loc, SubFilter};

/// What is done to the body of one response.
#[derive(Default)]
pub struct Filters {
    /// `sub_filter`.
    pub sub: Option<Substitution>,
    /// From one charset to another.
    pub charset: Option<Arc<Table>>,
}

impl Filters {
    /// The filters of a response whose fields are laid out. `length` is that of its body, if known. `sub_filter` skips
    /// a body that stays compressed as the origin sent it.
    pub fn choose(
        charset: Option<Arc<Table>>,
        length: Option<u64>,
        choice: Choice,
        ex: &mut Exchange,
        cx: &Cx,
    ) -> Self {
        let loc = cx.loc(ex);
        let came_encoded = ex.reply.fields.get_known(Known::ContentEncoding).is_some_and(|coding| !coding.is_empty());
        let is_encoded = came_encoded && !matches!(choice, Choice::Restore(_));
        let sub = match !is_encoded && substitutes(loc, ex, length) {
            true => loc.modules.sub.as_ref().and_then(|rules| rules.begin(ex, cx)),
            false => None,
        };
        Self { sub, charset }
    }

    /// Whether the body stays as it is.
    pub fn is_empty(&self) -> bool {
        self.sub.is_none() && self.charset.is_none()
    }

    /// Whether as many bytes come out as went in, each in its place, so that ranges can be cut.
    pub fn keeps_length(&self) -> bool {
        self.sub.is_none() && self.charset.as_ref().is_none_or(|table| matches!(**table, Table::Bytes(_)))
    }

    /// Makes the validators those of the changed body.
    pub fn adapt(&self, loc: &Loc, fields: &mut Fields) {
        if self.sub.is_none() {
            return;
        }
        if loc.settings.modules.sub_filter.last_modified {
            weaken_etag(fields);
        } else {
            fields.remove("Last-Modified");
            fields.remove("ETag");
        }
    }
}

/// Whether `sub_filter` may change the response, by its type.
pub fn substitutes(loc: &Loc, ex: &Exchange, length: Option<u64>) -> bool {
    length != Some(0)
        && !matches!(ex.reply.status, status::NO_CONTENT | status::NOT_MODIFIED)
        && searches(loc, &ex.reply.fields)
}

/// Whether a filter of this location may change a page with these fields. Such a page is not kept compressed.
pub fn may_change(loc: &Loc, fields: &Fields, cx: &Cx) -> bool {
    cx.site().charsets.has_tables() || searches(loc, fields)
}

/// Whether `sub_filter` is for bodies of this type.
fn searches(loc: &Loc, fields: &Fields) -> bool {
    if loc.modules.sub.is_none() {
        return false;
    }
    match &loc.settings.modules.sub_filter.types {
        MediaTypes::All => true,
        types @ MediaTypes::Listed(_) => {
            let content_type = fields.get_known(Known::ContentType);
            let content_type = content_type.and_then(|value| std::str::from_utf8(value).ok());
            content_type.is_some_and(|content_type| types.contain(content_type))
        }
    }
}

impl SubFilter {
    /// What is done to the body of one response; `None` when there is nothing to look for.
    pub fn begin(&self, ex: &mut Exchange, cx: &Cx) -> Option<Substitution> {
        if let Some(needles) = &self.fixed {
            let values = self.pairs.iter().map(|(_, value)| value.value(ex, cx)).collect();
            return Some(Substitution::new(Arc::clone(needles), values, self.once));
        }
        let (mut words, mut values) = (Vec::new(), Vec::new());
        for (word, value) in &self.pairs {
            let word = word.value(ex, cx);
            if !word.is_empty() {
                words.push(word.into_boxed_slice());
                values.push(value.value(ex, cx));
            }
        }
        Some(Substitution::new(Needles::new(words)?, values, self.once))
    }
}
