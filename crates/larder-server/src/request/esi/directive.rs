//! `larder_esi`: ESI without a VCL, by the type of a page or by what its origin says of it.
//!
//! Source: Edge Architecture Specification (W3C note of 2001), `Surrogate-Control` and `Surrogate-Capability`.

use std::rc::Rc;
use std::sync::Arc;

use larder_cache::litespeed::has_esi;
use larder_conf::model::Esi;
use larder_http::{Fields, Known, list, status};

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::filter::esi::Rules;
use crate::request::Content;
use crate::request::compose::parts::OnError;

use super::Includes;
use super::read::Read;

/// How deep includes may lie in each other, as in Varnish.
const DEPTH_MAX: u32 = 5;

/// Whether a page is to be read is known, whatever it begins with; and all includes are answered here.
const RULES: Rules = Rules { reads_any: true, reads_tags: false, takes_https: true, removes_bom: false, is_full: true };

/// What origins are told that larder can do with their pages, as a field of a request.
pub const CAPABILITY: (&str, &[u8]) = ("Surrogate-Capability", b"larder=\"ESI/1.0\"");

/// The types of pages that are read.
const TYPES: [&[u8]; 4] = [b"text/html", b"application/xhtml+xml", b"text/xml", b"application/xml"];

/// What a response includes; `None` if it goes out as it is.
pub fn includes(content: &Content, ex: &mut Exchange, cx: &Cx) -> Option<Includes> {
    if !reads(content, ex, cx) {
        return None;
    }
    let base: Box<[u8]> = ex.asked.head.target().into();
    // From here on it is one of a page with ESI.
    let of_the_page = Rc::from(&base[..]);
    ex.reply.esi_base = Some(base);
    let (depth_max, on_error) = (DEPTH_MAX, OnError::Skip);
    Some(Includes { base: of_the_page, rules: RULES, depth_max, is_by_directive: true, on_error })
}

/// Whether a response is read for ESI; not if it is known that there is none in it.
pub fn reads(content: &Content, ex: &Exchange, cx: &Cx) -> bool {
    let page = content.page();
    let is_plain = page.and_then(|page| page.made::<Arc<Read>>()).is_some_and(|read| read.is_plain());
    // Of an answer at hand what the origin said is hidden in the response.
    let fields = match page {
        Some(page) => &page.fields,
        None => ex.upstream.fields.as_deref().unwrap_or(&ex.reply.fields),
    };
    let status = match content {
        Content::Hit(page) => page.status,
        _ => ex.reply.status,
    };
    let settings = &cx.loc(ex).settings;
    let esi = settings.subrequests.esi;
    let is_of_litespeed = || esi != Esi::Off && settings.purging.litespeed && has_esi(fields);
    // A part of a page begins and ends anywhere.
    !is_plain && status != status::PARTIAL_CONTENT && (is_meant(esi, fields) || is_of_litespeed())
}

/// Whether a page with these fields is to be read.
fn is_meant(esi: Esi, fields: &Fields) -> bool {
    let is_said = || fields.get_all("Surrogate-Control").flat_map(list::members).any(says_esi);
    let has_type = || {
        let content_type = fields.get_known(Known::ContentType).unwrap_or_default();
        let bare = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        TYPES.iter().any(|own| own.eq_ignore_ascii_case(bare))
    };
    match esi {
        Esi::Off => false,
        Esi::On => has_type() || is_said(),
        Esi::Surrogate => is_said(),
    }
}

/// Whether a directive of `Surrogate-Control` is `content` and names ESI.
fn says_esi(member: &[u8]) -> bool {
    let Some(value) = member.get(..8).filter(|name| name.eq_ignore_ascii_case(b"content=")).and(member.get(8..)) else {
        return false;
    };
    let value = value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let value = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value);
    value.split(u8::is_ascii_whitespace).any(|word| word.eq_ignore_ascii_case(b"ESI/1.0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_by_its_type_or_by_what_its_origin_says() {
        for (name, value, on, surrogate) in [
            ("Content-Type", "text/html", true, false),
            ("Content-Type", "Text/HTML; charset=utf-8", true, false),
            ("Content-Type", "application/xml", true, false),
            ("Content-Type", "text/plain", false, false),
            ("Surrogate-Control", "content=\"ESI/1.0\"", true, true),
            ("Surrogate-Control", "max-age=3600, Content=\"ESI/1.0 ESI-INV/1.0\"", true, true),
            ("surrogate-control", "content=ESI/1.0", true, true),
            ("Surrogate-Control", "content=\"ESI/1.0\";abc", true, true),
            ("Surrogate-Control", "no-store", false, false),
            ("Surrogate-Control", "content=\"ESI/1.01\"", false, false),
            ("Surrogate-Control", "content", false, false),
            ("X-Any", "content=\"ESI/1.0\"", false, false),
        ] {
            let fields: Fields = [(name, value)].into_iter().collect();
            let meant = [Esi::Off, Esi::On, Esi::Surrogate].map(|esi| is_meant(esi, &fields));
            assert_eq!(meant, [false, on, surrogate], "{name}: {value}");
        }
    }
}
