//! The fields of a purge that may say which pages are meant, by its method.
//!
//! A purge with such a field that larder does not know is refused: without what the field says, `BAN /` means everything,
//! and `PURGE /` the first page alone.

use larder_http::Fields;

use super::{Wrong, said};
use crate::vsl::Shown;

/// A method of purges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `PURGE`
    Purge,
    /// `BAN`
    Ban,
    /// `URIBAN`
    UriBan,
    /// `PURGEKEYS`
    PurgeKeys,
    /// `URLPURGE`
    UrlPurge,
}

/// An error names the first field whose name sounds like one that says what is purged, and that says nothing with this
/// method. `is_tags` knows the names of the fields that have tags.
pub fn check(fields: &Fields, method: Method, is_tags: impl Fn(&str) -> bool) -> Result<(), Wrong> {
    for (name, _) in fields.iter() {
        if says_which(name) && !is_known(name, method, fields, &is_tags) {
            return Err(Wrong::UnknownField { field: said::shortened([Shown(name)]), method: method.name() });
        }
    }
    Ok(())
}

/// Whether the name of a field sounds as if it said which pages.
fn says_which(name: &[u8]) -> bool {
    let has = |word: &[u8]| name.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word));
    WORDS.iter().any(|word| has(word))
}

const WORDS: [&[u8]; 5] = [b"ban", b"purge", b"tag", b"xkey", b"invalidat"];

fn is_known(name: &[u8], method: Method, fields: &Fields, is_tags: &impl Fn(&str) -> bool) -> bool {
    let Ok(name) = str::from_utf8(name) else { return false };
    let is_in = |names: &[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(name));
    if is_in(&HARMLESS) || HARMLESS_ENDS.iter().any(|end| ends_with(name, end)) {
        return true;
    }
    match method {
        // Only this method has an expression beside its path.
        Method::Purge if is_in(&["X-Ban-Regex"]) => {
            fields.get("X-Purge-Method").is_some_and(|value| value.eq_ignore_ascii_case(b"ban-regex"))
        }
        Method::Purge => is_in(&OF_KEYS) || is_in(&OF_PURGE) || is_tags(name),
        Method::Ban => is_in(&OF_KEYS) || is_in(&OF_BAN) || is_tags(name),
        Method::PurgeKeys => is_in(&OF_KEYS),
        Method::UriBan | Method::UrlPurge => is_in(&OF_SITE),
    }
}

fn ends_with(name: &str, end: &str) -> bool {
    name.len().checked_sub(end.len()).and_then(|at| name.get(at..)).is_some_and(|found| found.eq_ignore_ascii_case(end))
}

impl Method {
    fn name(self) -> &'static str {
        match self {
            Self::Purge => "PURGE",
            Self::Ban => "BAN",
            Self::UriBan => "URIBAN",
            Self::PurgeKeys => "PURGEKEYS",
            Self::UrlPurge => "URLPURGE",
        }
    }
}

/// Fields that do not say which pages, or say it of every method: how a page goes, who asks, and what traces and libraries
/// add.
const HARMLESS: [&str; 7] =
    ["Fastly-Soft-Purge", "X-Purge-Soft", "X-Purge-Scheme", "X-Purge-Key", "X-VC-Purge-Key", "X-Datadog-Tags", "ETag"];
/// Secrets, whatever they are for.
const HARMLESS_ENDS: [&str; 2] = ["-Token", "-Secret"];
const OF_KEYS: [&str; 2] = ["xkey-purge", "xkey-softpurge"];
/// By which Acquia's proxies know the site that asks.
const OF_SITE: [&str; 1] = ["X-Acquia-Purge"];
const OF_PURGE: [&str; 4] = ["X-Magento-Tags-Pattern", "X-Cache-Tags-Pattern", "X-Purge-Method", OF_SITE[0]];
const OF_BAN: [&str; 10] = [
    "X-Ban",
    "X-Ban-Host",
    "X-Ban-Url",
    "X-Ban-Regex",
    "ApiPlatform-Ban-Regex",
    "Varnish-Ban-All",
    "Varnish-Ban-TYPO3-Pid",
    "Varnish-Ban-TYPO3-Sitename",
    "Varnish-Ban-TYPO3-Tag",
    "Varnish-Ban-TYPO3-CacheTag",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_say_which_pages_has_to_be_known() {
        let is_tags = |name: &str| name.eq_ignore_ascii_case("X-Own-Tags");
        for (method, name, is_known) in [
            (Method::Ban, "ApiPlatform-Ban-Regex", true),
            (Method::Ban, "X-Ban-Tags", false),
            (Method::Ban, "X-BAN-URL", true),
            (Method::Ban, "X-Purge-Method", false),
            (Method::Ban, "X-Invalidate-Pattern", false),
            (Method::Ban, "X-Own-Tags", true),
            (Method::Ban, "X-Other-Tags", false),
            (Method::Ban, "X-Acquia-Purge", false),
            (Method::Purge, "x-own-tags", true),
            (Method::Purge, "X-Ban-Url", false),
            (Method::Purge, "X-Purge-Regex", false),
            (Method::Purge, "X-Acquia-Purge", true),
            (Method::Purge, "my-xkeys", false),
            (Method::PurgeKeys, "xkey-purge", true),
            (Method::PurgeKeys, "xkey", false),
            (Method::UriBan, "X-Own-Tags", false),
            (Method::UrlPurge, "X-Purge-Scheme", true),
            // Of all.
            (Method::Ban, "X-Datadog-Tags", true),
            (Method::Purge, "X-Purge-Token", true),
            (Method::Ban, "X-Invalidate-Token", true),
            (Method::Purge, "Accept", true),
            (Method::Purge, "X-Host", true),
        ] {
            let mut fields = Fields::new();
            fields.push(name.as_bytes(), b"a");
            let expected = Wrong::UnknownField { field: name.to_owned(), method: method.name() };
            assert_eq!(
                check(&fields, method, is_tags),
                if is_known { Ok(()) } else { Err(expected) },
                "{method:?} {name}"
            );
        }
    }
}
