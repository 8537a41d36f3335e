//! `$modern_browser`, `$ancient_browser` and `$msie` (ngx_http_browser_module).

use larder_conf::model::{Browser, Browsers};

/// How a browser is classified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `$modern_browser` has a value.
    Modern,
    /// `$ancient_browser` has.
    Ancient,
}

/// How a browser is found in `User-Agent`: where the search begins, the text, and how far behind it the version is.
fn mask(browser: Browser) -> (usize, &'static [u8], usize) {
    match browser {
        Browser::Opera => (0, b"Opera", b"Opera ".len()),
        Browser::Msie => (b"Mozilla/4.0 (compatible; ".len(), b"MSIE ", b"MSIE ".len()),
        Browser::Gecko => (b"Mozilla/5.0 (".len(), b"rv:", b"rv:".len()),
        Browser::Safari => (b"Mozilla/5.0 (".len(), b"Safari/", b"Safari/".len()),
        Browser::Konqueror => (b"Mozilla/5.0 (compatible; ".len(), b"Konqueror/", b"Konqueror/".len()),
    }
}

/// Classifies the sender of this `User-Agent`.
pub fn kind(browsers: &Browsers, agent: Option<&[u8]>) -> Kind {
    let unlisted = if browsers.unlisted_is_modern { Kind::Modern } else { Kind::Ancient };
    let Some(agent) = agent else { return unlisted };
    if !browsers.modern.is_empty() {
        for (browser, least) in in_order(browsers) {
            let (skip, name, behind) = mask(browser);
            let found = agent.get(skip..).and_then(|rest| Some(skip + memchr::memmem::find(rest, name)?));
            let Some(version) = found.and_then(|at| agent.get(at + behind..)).filter(|version| !version.is_empty())
            else {
                continue;
            };
            return if is_at_least(version, least) { Kind::Modern } else { Kind::Ancient };
        }
        if !browsers.unlisted_is_modern {
            return Kind::Ancient;
        }
    }
    let is_ancient = browsers.netscape4 && is_netscape4(agent)
        || browsers.ancient.iter().any(|text| memchr::memmem::find(agent, text.as_bytes()).is_some());
    if is_ancient { Kind::Ancient } else { unlisted }
}

/// The listed modern browsers in order of search. Opera also pretends to be others: if it is not listed, it is ancient.
fn in_order(browsers: &Browsers) -> impl Iterator<Item = (Browser, u64)> {
    let opera =
        (!browsers.modern.iter().any(|(browser, _)| *browser == Browser::Opera)).then_some((Browser::Opera, u64::MAX));
    let mut all: Vec<_> = opera.into_iter().chain(browsers.modern.iter().copied()).collect();
    all.sort_by_key(|(browser, _)| *browser);
    all.into_iter()
}

/// Whether the version at the beginning of `text` is at least `least`, with the configuration's weights of its numbers.
fn is_at_least(text: &[u8], least: u64) -> bool {
    let (mut version, mut part, mut scale) = (0u64, 0u64, 1_000_000u64);
    for &byte in text {
        match byte {
            b'0'..=b'9' => part = part.saturating_mul(10).saturating_add(u64::from(byte - b'0')),
            b'.' => {
                version = version.saturating_add(part.saturating_mul(scale));
                part = 0;
                scale /= 100;
            }
            _ => break,
        }
    }
    version.saturating_add(part.saturating_mul(scale)) >= least
}

fn is_netscape4(agent: &[u8]) -> bool {
    agent.len() > b"Mozilla/4.72 ".len() && agent.starts_with(b"Mozilla/") && matches!(agent.get(8), Some(b'1'..=b'4'))
}

/// Whether it is Internet Explorer, for `$msie`.
pub fn is_msie(agent: &[u8]) -> bool {
    let found = memchr::memmem::find(agent, b"MSIE ");
    found.is_some_and(|at| at + 7 < agent.len()) && memchr::memmem::find(agent, b"Opera").is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn browsers(modern: &[(Browser, u64)], unlisted_is_modern: bool) -> Browsers {
        Browsers {
            modern: modern.to_vec(),
            unlisted_is_modern,
            ancient: vec!["Links".to_owned()],
            netscape4: true,
            modern_value: "1".to_owned(),
            ancient_value: "1".to_owned(),
        }
    }

    #[test]
    fn browsers_are_modern_from_a_version_on() {
        let listed = [(Browser::Msie, 5_050_000), (Browser::Gecko, 1_000_000), (Browser::Safari, 2_000_000)];
        for (agent, unlisted, kind_wanted) in [
            (None, false, Kind::Ancient),
            (None, true, Kind::Modern),
            (Some("Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)"), false, Kind::Modern),
            (Some("Mozilla/4.0 (compatible; MSIE 5.5; Windows 98)"), false, Kind::Modern),
            (Some("Mozilla/4.0 (compatible; MSIE 5.0; Windows 98)"), false, Kind::Ancient),
            (Some("Mozilla/4.0 (compatible; MSIE 6.0; X11) Opera 7.50"), false, Kind::Ancient),
            (Some("Mozilla/5.0 (X11; U; Linux i686; rv:1.7.8) Gecko/2005 Firefox/1.0.4"), false, Kind::Modern),
            (Some("Mozilla/5.0 (Macintosh) AppleWebKit/125.2 (KHTML) Safari/125.7"), false, Kind::Modern),
            (Some("curl/8"), false, Kind::Ancient),
            (Some("curl/8"), true, Kind::Modern),
            (Some("Links (2.1)"), true, Kind::Ancient),
            (Some("Mozilla/4.76 [en] (X11)"), true, Kind::Ancient),
            (Some(""), true, Kind::Modern),
        ] {
            let found = kind(&browsers(&listed, unlisted), agent.map(str::as_bytes));
            assert_eq!(found, kind_wanted, "{agent:?} {unlisted}");
        }
    }

    #[test]
    fn opera_is_not_internet_explorer() {
        for (agent, msie) in [
            ("Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)", true),
            ("Mozilla/4.0 (compatible; MSIE 6.0; X11) Opera 7.50", false),
            ("MSIE 6", false),
            ("curl/8", false),
        ] {
            assert_eq!(is_msie(agent.as_bytes()), msie, "{agent}");
        }
    }
}
