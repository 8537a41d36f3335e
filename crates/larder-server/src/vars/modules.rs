//! Variables of the smaller modules.

use larder_http::Known;

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::modules::browser;
use crate::variable::ModuleVar;

use super::append::append_text;
use super::{pattern, secure_link, userid};

/// Appends the value; false if there is none.
pub fn append(var: ModuleVar, ex: &mut Exchange, cx: &Cx, out: &mut Vec<u8>) -> bool {
    match var {
        ModuleVar::InvalidReferer => {
            let referers = &cx.loc(ex).modules.referers;
            let referer = ex.asked.head.fields.get_known(Known::Referer);
            match referers.as_ref().map_or(Ok(true), |referers| referers.are_valid(referer)) {
                Ok(is_valid) => append_text(if is_valid { "" } else { "1" }, out),
                Err(error) => {
                    let referer = referer.unwrap_or_default().to_vec();
                    pattern::cannot_match(&error, &referer, ex, cx);
                    append_text("1", out)
                }
            }
        }
        ModuleVar::SecureLink => secure_link::append(ex, cx, out),
        ModuleVar::SecureLinkExpires => secure_link::append_expires(ex, cx, out),
        ModuleVar::ModernBrowser => append_browser(browser::Kind::Modern, ex, cx, out),
        ModuleVar::AncientBrowser => append_browser(browser::Kind::Ancient, ex, cx, out),
        ModuleVar::Msie => {
            let is_msie = ex.asked.head.fields.get_known(Known::UserAgent).is_some_and(browser::is_msie);
            append_text(if is_msie { "1" } else { "" }, out)
        }
        ModuleVar::UidGot => userid::append_got(ex, cx, out),
        ModuleVar::UidSet => userid::append_set(ex, cx, out),
        ModuleVar::UidReset => true,
    }
}

/// Appends the value of a kind of browser, if the client's is of that kind.
fn append_browser(kind: browser::Kind, ex: &Exchange, cx: &Cx, out: &mut Vec<u8>) -> bool {
    let browsers = &cx.loc(ex).settings.modules.browsers;
    if browser::kind(browsers, ex.asked.head.fields.get_known(Known::UserAgent)) != kind {
        return true;
    }
    append_text(
        match kind {
            browser::Kind::Modern => &browsers.modern_value,
            browser::Kind::Ancient => &browsers.ancient_value,
        },
        out,
    )
}
