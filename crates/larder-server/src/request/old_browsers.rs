//! Browsers that do not take well to kept connections: `keepalive_disable`.

use larder_conf::model::KeepaliveDisable;
use larder_http::{Known, Method};

use crate::exchange::Exchange;

/// Whether this browser's connection is better closed, as the directive has it.
///
/// Old versions of Internet Explorer may wait after the answer to a POST; old versions of Safari may send a POST by a
/// connection that is closed, and stall.
pub fn is_better_closed(disable: KeepaliveDisable, ex: &Exchange) -> bool {
    let msie6 = disable.msie6 && ex.asked.head.method == Method::Post;
    if !msie6 && !disable.safari {
        return false;
    }
    let Some(agent) = ex.asked.head.fields.get_known(Known::UserAgent) else { return false };
    match Browser::of(agent) {
        Browser::Msie6 => msie6,
        Browser::Safari => disable.safari,
        Browser::Other => false,
    }
}

/// A browser, as nginx tells them apart (ngx_http_process_user_agent).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Browser {
    /// Internet Explorer up to 6, without the second service pack of Windows XP.
    Msie6,
    /// Safari on a Mac.
    Safari,
    Other,
}

impl Browser {
    fn of(agent: &[u8]) -> Self {
        let find = |what: &[u8]| agent.windows(what.len()).position(|window| window == what);
        if find(b"Opera").is_some() {
            return Self::Other;
        }
        if let Some(at) = find(b"MSIE ").filter(|at| at + 7 < agent.len()) {
            let is_old = match agent[at + 5..] {
                [b'4' | b'5', b'.', ..] => true,
                [b'6', b'.', ref rest @ ..] => !rest.windows(3).any(|window| window == b"SV1"),
                _ => false,
            };
            return if is_old { Self::Msie6 } else { Self::Other };
        }
        let is_safari = find(b"Gecko/").is_none()
            && find(b"Chrome/").is_none()
            && find(b"Safari/").is_some()
            && find(b"Mac OS X").is_some();
        if is_safari { Self::Safari } else { Self::Other }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_are_told_apart_as_in_nginx() {
        for (agent, browser) in [
            ("Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)", Browser::Msie6),
            ("Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; SV1)", Browser::Other),
            ("Mozilla/4.0 (compatible; MSIE 5.5; Windows 98)", Browser::Msie6),
            ("Mozilla/4.0 (compatible; MSIE 7.0; Windows NT 6.0)", Browser::Other),
            ("Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1) Opera 8.5", Browser::Other),
            ("MSIE 5.", Browser::Other),
            (
                "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_5) AppleWebKit/534 Version/5.1 Safari/7534.48.3",
                Browser::Safari,
            ),
            ("Mozilla/5.0 (Macintosh; Intel Mac OS X) Chrome/120.0 Safari/537.36", Browser::Other),
            ("Mozilla/5.0 (Windows; U) Safari/533", Browser::Other),
            ("Mozilla/5.0 (Mac OS X) Gecko/20100101 Safari/1", Browser::Other),
            ("", Browser::Other),
        ] {
            assert_eq!(Browser::of(agent.as_bytes()), browser, "{agent}");
        }
    }
}
