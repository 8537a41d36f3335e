//! Which location answers a path, as a server finds it: with regular expressions matched, not read.

use pcre2::bytes::RegexBuilder;

use crate::model::{Location, Matcher, Pattern};

/// The location below `around` that answers `path`; `None` where a pattern cannot be matched.
pub(super) fn location_of<'a>(around: &'a Location, path: &str) -> Option<&'a Location> {
    match search(around, path)? {
        Found::Final(location) | Found::Prefix(location) => Some(location),
        Found::Nothing => None,
    }
}

/// Whether a location takes whatever ends in `.php`.
pub(super) fn takes_all_php(matcher: &Matcher) -> bool {
    match matcher {
        Matcher::Regex(pattern) => SCRIPTS.iter().all(|path| matches(pattern, path) == Some(true)),
        Matcher::Root | Matcher::Exact(_) | Matcher::Prefix { .. } | Matcher::Named(_) => false,
    }
}

enum Found<'a> {
    Nothing,
    /// A regular expression around may come before it.
    Prefix(&'a Location),
    Final(&'a Location),
}

/// nginx's order: an exact name, then the regular expressions inside the longest prefix, then those beside it.
fn search<'a>(around: &'a Location, path: &str) -> Option<Found<'a>> {
    if let Some(exact) = around.locations.iter().find(|it| matches!(&it.matcher, Matcher::Exact(name) if name == path))
    {
        return Some(Found::Final(exact));
    }
    let mut best = Found::Nothing;
    if let Some((longest, regex_stops)) = longest_prefix(around, path) {
        best = match search(longest, path)? {
            Found::Nothing => Found::Prefix(longest),
            Found::Prefix(inner) => Found::Prefix(inner),
            found @ Found::Final(_) => return Some(found),
        };
        if regex_stops {
            return Some(best);
        }
    }
    for location in &around.locations {
        let Matcher::Regex(pattern) = &location.matcher else { continue };
        if matches(pattern, path)? {
            return Some(match search(location, path)? {
                Found::Nothing => Found::Final(location),
                Found::Prefix(inner) | Found::Final(inner) => Found::Final(inner),
            });
        }
    }
    Some(best)
}

fn longest_prefix<'a>(around: &'a Location, path: &str) -> Option<(&'a Location, bool)> {
    let prefixes = around.locations.iter().filter_map(|location| match &location.matcher {
        Matcher::Prefix { path: prefix, regex_stops } if path.starts_with(prefix.as_str()) => {
            Some((prefix.len(), location, *regex_stops))
        }
        _ => None,
    });
    prefixes.max_by_key(|(length, ..)| *length).map(|(_, location, regex_stops)| (location, regex_stops))
}

/// Whether the pattern matches the text; `None` where it is no expression, or the match takes too long.
pub(super) fn matches(pattern: &Pattern, text: &str) -> Option<bool> {
    let source = format!("(*LIMIT_MATCH={STEPS_MAX})(*LIMIT_HEAP={HEAP_KIB_MAX}){}", pattern.source);
    let regex = RegexBuilder::new().caseless(pattern.caseless).build(&source).ok()?;
    regex.is_match(text.as_bytes()).ok()
}

/// Scripts of no one application: a pattern that matches all of them matches any.
const SCRIPTS: [&str; 4] = ["/index.php", "/a.php", "/some-login.php", "/a/b/Page_2.php"];
/// The most steps and memory of one match. Paths are short: what takes more is no pattern of a location that works.
const STEPS_MAX: u32 = 100_000;
const HEAP_KIB_MAX: u32 = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Span;

    fn regex(source: &str) -> Pattern {
        let (source, caseless) = source.strip_prefix('*').map_or((source, false), |source| (source, true));
        Pattern { source: source.to_owned(), caseless, span: Span::NOWHERE }
    }

    #[test]
    fn a_pattern_is_matched() {
        for (source, path, expected) in [
            (r"\.php$", "/index.php", Some(true)),
            (r"[^/]\.php(/|$)", "/index.php", Some(true)),
            (r"\.(php|php5)$", "/index.php", Some(true)),
            (r"^(.+?\.php)(/.*)?$", "/index.php", Some(true)),
            (r"^(.+\.php)(/.+)$", "/a/index.php", Some(false)),
            (".php$", "/index.php", Some(true)),
            ("/.php$", "/index.php", Some(false)),
            (r"^/wp-admin/.*\.php$", "/index.php", Some(false)),
            (r"\.(css|php)$", "/index.php", Some(true)),
            (r"/\.(?!well-known)", "/index.php", Some(false)),
            ("*INDEX", "/index.php", Some(true)),
            ("INDEX", "/index.php", Some(false)),
            ("", "/index.php", Some(true)),
            ("[", "/index.php", None),
            (r"\", "/index.php", None),
            (")", "/index.php", None),
            ("^(a+)+$", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/", None),
        ] {
            assert_eq!(matches(&regex(source), path), expected, "{source} {path}");
        }
    }

    #[test]
    fn all_php_is_more_than_some_of_it() {
        for (source, expected) in [
            (r"\.php$", true),
            (r"*\.php$", true),
            (r"\.(php|php5)$", true),
            (r"^(.+?\.php)(/.*)?$", true),
            (r"^/.+\.php(?:$|/)", true),
            (r"\.ph(p|tml)", true),
            (r"^/index\.php(/|$)", false),
            (r"^/(index|login)\.php$", false),
            (r"^/[a-z]+\.php$", false),
            (r"^/wp-admin/.*\.php$", false),
            (r"\.(css|js)$", false),
            ("[", false),
        ] {
            assert_eq!(takes_all_php(&Matcher::Regex(regex(source))), expected, "{source}");
        }
    }
}
