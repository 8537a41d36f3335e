//! The charset of a response, as its `Content-Type` names it (ngx_http_charset_filter).

use std::sync::Arc;

use larder_conf::model::LogLevel;
use larder_http::{Known, status};

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::filter::charset::Table;
use crate::site::Loc;

/// Chooses the charset of a response whose fields are laid out, and names it in `Content-Type`. Returns the table to
/// convert the body by, if it has to be converted.
pub fn choose_and_label(loc: &Loc, ex: &mut Exchange, cx: &Cx) -> Option<Arc<Table>> {
    let forced = ex.reply.charset.clone();
    if forced.is_none() && loc.fields.charset.is_none() {
        return None;
    }
    let content_type = ex.reply.fields.get_known(Known::ContentType)?;
    let (bare, own) = split(content_type);
    let own = own.map(<[u8]>::to_vec);
    let charsets = &cx.site().charsets;
    let wanted = match forced {
        Some(forced) => {
            if charsets.find(&forced).is_none() {
                let name = String::from_utf8_lossy(&forced);
                let message = format_args!("unknown charset \"{name}\" to override");
                cx.local.logs.error(cx, ex, LogLevel::Error, message);
                return None;
            }
            forced
        }
        None => {
            let types = &loc.settings.modules.charset.types;
            let is_listed = types.iter().any(|listed| listed == "*" || listed.as_bytes().eq_ignore_ascii_case(bare));
            let applies = if own.is_some() { loc.settings.modules.charset.overrides } else { is_listed };
            let text = loc.fields.charset.as_ref().filter(|_| applies)?;
            let wanted = text.value(ex, cx).into_boxed_slice();
            if wanted.is_empty() || &*wanted == b"off" {
                return None;
            }
            // nginx spells a charset as it was first written.
            let known = charsets.find(&wanted).filter(|_| text.constant().is_some());
            known.and_then(|known| charsets.name(known)).map(Box::from).unwrap_or(wanted)
        }
    };
    let source = match own {
        Some(own) => own,
        None => match &loc.modules.source_charset {
            Some(source) => source.value(ex, cx),
            None => {
                label(&wanted, ex);
                return None;
            }
        },
    };
    let table = match (charsets.find(&source), charsets.find(&wanted)) {
        (Some(from), Some(to)) if from != to => charsets.table(from, to),
        (Some(_), Some(_)) => {
            label(&wanted, ex);
            return None;
        }
        (None, None) if source.eq_ignore_ascii_case(&wanted) => {
            label(&wanted, ex);
            return None;
        }
        (Some(_), None) | (None, Some(_) | None) => None,
    };
    if table.is_some() && ex.reply.fields.get_known(Known::ContentEncoding).is_some_and(|coding| !coding.is_empty()) {
        return None;
    }
    let Some(table) = table else {
        let (source, wanted) = (String::from_utf8_lossy(&source), String::from_utf8_lossy(&wanted));
        let message = format_args!("no \"charset_map\" between the charsets \"{source}\" and \"{wanted}\"");
        cx.local.logs.error(cx, ex, LogLevel::Error, message);
        return None;
    };
    label(&wanted, ex);
    Some(Arc::clone(table))
}

/// Names the charset of a type, in place of the one that it names.
fn label(charset: &[u8], ex: &mut Exchange) {
    // As nginx: a browser may keep the charset of a redirect for the page it leads to.
    if matches!(ex.reply.status, status::MOVED_PERMANENTLY | status::MOVED_TEMPORARILY) {
        return;
    }
    let Some(content_type) = ex.reply.fields.get_known(Known::ContentType) else { return };
    ex.reply.bare_type.clear();
    ex.reply.bare_type.extend_from_slice(content_type);
    let value = [up_to_charset(content_type), b"; charset=", charset].concat();
    ex.reply.fields.set("Content-Type", &value);
}

/// The type alone, and the charset that a `Content-Type` names.
fn split(content_type: &[u8]) -> (&[u8], Option<&[u8]>) {
    let bare = content_type.split(|&byte| byte == b';').next().unwrap_or(b"").trim_ascii();
    let rest = &content_type[up_to_charset(content_type).len()..];
    let named = rest.iter().position(|&byte| byte == b'=').map(|at| &rest[at + 1..]);
    let named = named.map(|name| name.strip_prefix(b"\"").unwrap_or(name));
    let named = named.map(|name| name.strip_suffix(b"\"").unwrap_or(name));
    (bare, named.filter(|name| !name.is_empty()))
}

/// What stands before the parameter `charset`, without the `;`.
fn up_to_charset(content_type: &[u8]) -> &[u8] {
    const NAME: &[u8] = b"charset=";
    let begins = |at: &usize| {
        let rest = content_type[at + 1..].trim_ascii_start();
        rest.get(..NAME.len()).is_some_and(|name| name.eq_ignore_ascii_case(NAME))
    };
    let at = memchr::memchr_iter(b';', content_type).find(begins);
    &content_type[..at.unwrap_or(content_type.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_type_names_its_charset() {
        for (value, bare, charset) in [
            ("text/html", "text/html", None),
            ("text/html; charset=utf-8", "text/html", Some("utf-8")),
            ("text/html;Charset=\"utf-8\"", "text/html", Some("utf-8")),
            ("text/html; level=1; charset=a", "text/html", Some("a")),
            ("text/html; charset=", "text/html", None),
            ("text/html; xcharset=a", "text/html", None),
        ] {
            assert_eq!(split(value.as_bytes()), (bare.as_bytes(), charset.map(str::as_bytes)), "{value}");
        }
    }
}
