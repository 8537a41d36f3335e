//! Which location answers a path, as far as that can be told without running regular expressions.

use crate::model::{Location, Matcher, Pattern};

/// The location below `around` that answers `path`; `None` where a pattern leaves it open.
pub(super) fn location_of<'a>(around: &'a Location, path: &str) -> Option<&'a Location> {
    match search(around, path)? {
        Found::Final(location) | Found::Prefix(location) => Some(location),
        Found::Nothing => None,
    }
}

/// Whether a location takes whatever ends in `.php`.
pub(super) fn takes_all_php(matcher: &Matcher) -> bool {
    match matcher {
        Matcher::Regex(pattern) => takes_any_php(pattern),
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
        if matches_path(pattern, path)? {
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

/// Whether the pattern matches the path; `None` where reading it does not tell.
fn matches_path(pattern: &Pattern, path: &str) -> Option<bool> {
    if path.ends_with(".php") && takes_any_php(pattern) {
        return Some(true);
    }
    let source = without_tail(&pattern.source);
    let is_anchored = source.starts_with('^');
    let text = source.strip_prefix('^').unwrap_or(source);
    if let Some(literal) = unescaped(text) {
        let is_whole = source.len() < pattern.source.len();
        return Some(match (is_anchored, is_whole) {
            (true, true) => path == literal,
            (true, false) => path.starts_with(&literal),
            (false, true) => path.ends_with(&literal),
            (false, false) => path.contains(&literal),
        });
    }
    if lists_other_endings(source, path) {
        return Some(false);
    }
    let path = path.to_ascii_lowercase();
    let misses = |run: &String| !path.contains(&run.to_ascii_lowercase());
    required_runs(text)?.iter().any(misses).then_some(false)
}

/// `\.php$`, `[^/]\.php(/|$)`, `^(.+\.php)(/.+)$` and their kin.
fn takes_any_php(pattern: &Pattern) -> bool {
    let source = without_tail(&pattern.source);
    let Some((before, after)) = source.split_once(r"\.php") else { return false };
    let is_closed = match before.contains('(') {
        true => after == ")",
        false => after.is_empty(),
    };
    is_closed && HEADS.contains(&before)
}

/// The pattern without what lets it end, or a path follow.
fn without_tail(source: &str) -> &str {
    TAILS.iter().find_map(|tail| source.strip_suffix(tail)).unwrap_or(source)
}

/// The text that a pattern stands for, if it is text alone.
fn unescaped(source: &str) -> Option<String> {
    let mut text = String::new();
    let mut bytes = source.chars();
    while let Some(next) = bytes.next() {
        match next {
            '\\' => text.push(bytes.next().filter(char::is_ascii_punctuation)?),
            '.' | '*' | '+' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '|' | '^' | '$' => return None,
            _ => text.push(next),
        }
    }
    Some(text)
}

/// Whether the pattern ends in a list of endings, and the path has none of them.
fn lists_other_endings(source: &str, path: &str) -> bool {
    let Some(list) = source.rsplit_once(r"\.(").and_then(|(_, rest)| rest.strip_suffix(')')) else { return false };
    let list = list.strip_prefix("?:").unwrap_or(list);
    let is_plain = list.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'|' || byte == b'?');
    let has = |ending: &str| path.to_ascii_lowercase().ends_with(&ending.to_ascii_lowercase());
    is_plain && !list.contains("php") && !list.split('|').any(|ending| has(ending.trim_end_matches('?')))
}

/// The pieces of text that whatever matches has in it; `None` for a choice.
fn required_runs(source: &str) -> Option<Vec<String>> {
    let mut runs = vec![String::new()];
    let mut depth = 0_usize;
    let mut is_in_class = false;
    let mut chars = source.chars();
    while let Some(next) = chars.next() {
        let literal = match next {
            '\\' => chars.next().filter(char::is_ascii_punctuation),
            '[' => {
                is_in_class = true;
                None
            }
            ']' => {
                is_in_class = false;
                None
            }
            '(' => {
                depth += 1;
                None
            }
            ')' => {
                depth = depth.checked_sub(1)?;
                None
            }
            '|' if depth == 0 && !is_in_class => return None,
            '*' | '?' | '{' => {
                // The character before it need not be there.
                runs.last_mut()?.pop();
                None
            }
            '.' | '+' | '|' | '}' | '^' | '$' => None,
            other => Some(other),
        };
        match literal.filter(|_| depth == 0 && !is_in_class) {
            Some(literal) => runs.last_mut()?.push(literal),
            None => runs.push(String::new()),
        }
    }
    Some(runs)
}

/// What may stand before `\.php` where any script matches.
const HEADS: [&str; 13] = ["", "^", "[^/]", ".", ".+", ".*", "^.+", "^.*", "^/.+", "^/.*", "^(.+", "^(.*", "^(/.+"];
/// How patterns end: what follows the name of a script.
const TAILS: [&str; 9] = ["(?:$|/)", "(?:/|$)", "(/|$)", "($|/)", "(/.*)?$", "(/.+)?$", "(.*)$", "(/?.*)$", "$"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Span;

    fn pattern(source: &str) -> Pattern {
        Pattern { source: source.to_owned(), caseless: false, span: Span::NOWHERE }
    }

    #[test]
    fn what_reading_a_pattern_tells() {
        for (source, path, expected) in [
            (r"\.php$", "/index.php", Some(true)),
            (r"[^/]\.php(/|$)", "/index.php", Some(true)),
            (r"^(.+\.php)(/.+)?$", "/a/index.php", Some(true)),
            (r"^(.+\.php)(/.+)$", "/a/index.php", None),
            (r"^.+\.php(?:$|/)", "/index.php", Some(true)),
            (r"\.php", "/index.php", Some(true)),
            (r"^/index\.php(/|$)", "/index.php", Some(true)),
            (r"^/index\.php(/|$)", "/app.php", Some(false)),
            (r"index\.php$", "/index.php", Some(true)),
            (r"^/wp-admin/.*\.php$", "/index.php", Some(false)),
            (r"^/wp-admin/.*\.php$", "/wp-admin/index.php", None),
            (r"\.(css|jpe?g|png)$", "/index.php", Some(false)),
            (r"\.(css|php)$", "/index.php", None),
            (r"/\.ht", "/index.php", Some(false)),
            (r"/\.(?!well-known)", "/index.php", Some(false)),
            (r"^/(a|b)/", "/index.php", None),
            (r"^/a|index", "/index.php", None),
            (r"^/x?", "/index.php", None),
            (r"purge(/.*)", "/index.php", Some(false)),
            (r"[", "/index.php", None),
            (r"\", "/index.php", None),
            (")", "/index.php", None),
            ("", "/index.php", Some(true)),
        ] {
            assert_eq!(matches_path(&pattern(source), path), expected, "{source} {path}");
        }
    }
}
