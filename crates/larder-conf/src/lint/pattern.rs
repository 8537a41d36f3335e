//! Warns of an unescaped `.` before a file name's ending in a pattern, as in `.php$`: it matches any character.

use crate::diagnostic::Diagnostic;
use crate::model::{Location, Matcher};

pub(super) fn lint(location: &Location, found: &mut Vec<Diagnostic>) {
    let Matcher::Regex(pattern) = &location.matcher else { return };
    let Some(at) = ending_behind_any(&pattern.source) else { return };
    let (before, rest) = pattern.source.split_at(at);
    let ending = rest.trim_start_matches('.');
    let mend = mend(before, rest);
    if let (true, Some(first)) = (before.ends_with('/'), of_files(ending)) {
        found.push(
            *Diagnostic::warning(format!("\"{}\" matches no \"index.{first}\"", pattern.source))
                .at(pattern.span)
                .label(format!("one character, whichever, has to stand between \"/\" and \"{first}\""))
                .help(format!("write \"{mend}\"")),
        );
        return;
    }
    let shown: String = ending.chars().take_while(char::is_ascii_alphanumeric).collect();
    let example = match shown.is_empty() {
        true => "any other character",
        false => &format!("\"/x{shown}\""),
    };
    found.push(
        *Diagnostic::warning(format!("the \".\" before \"{ending}\" matches any character"))
            .at(pattern.span)
            .label(format!("this matches {example} too"))
            .help(format!("write \"{mend}\"")),
    );
}

/// The pattern that was meant. Directly after a slash, a known ending means any file with it; anything else, as in
/// `/.git$`, is the name of a hidden file.
fn mend(before: &str, rest: &str) -> String {
    let is_of_files = of_files(rest.trim_start_matches('.')).is_some();
    match before.strip_suffix('/') {
        Some("") if is_of_files => format!("\\{rest}"),
        Some(_) if is_of_files => format!("{before}.*\\{rest}"),
        Some(_) | None => format!("{before}\\{rest}"),
    }
}

/// The first ending in a list, if it is one of files.
fn of_files(ending: &str) -> Option<&str> {
    let list = ending.trim_start_matches('(').trim_start_matches("?:");
    let first = &list[..list.find(|byte: char| !byte.is_ascii_alphanumeric()).unwrap_or(list.len())];
    FILES.contains(&first.to_ascii_lowercase().as_str()).then_some(first)
}

/// The place of an unescaped dot directly before an ending: letters, or a list of endings, up to the end of the path.
fn ending_behind_any(source: &str) -> Option<usize> {
    let bytes = source.as_bytes();
    let mut at = 0;
    let mut is_in_class = false;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 1,
            b'[' => is_in_class = true,
            b']' => is_in_class = false,
            b'.' if !is_in_class && is_ending(source.get(at + 1..)?) => return Some(at),
            _ => {}
        }
        at += 1;
    }
    None
}

/// Whether this is an ending, such as `php$`, `php(/|$)`, `(jpg|png)$`, `php[57]?$`.
fn is_ending(rest: &str) -> bool {
    let body = rest.strip_suffix("(/|$)").or_else(|| rest.strip_suffix("($|/)")).or_else(|| rest.strip_suffix('$'));
    let Some(body) = body else { return false };
    let inner = body.strip_prefix('(').and_then(|it| it.strip_suffix(')'));
    let list = inner.map(|it| it.strip_prefix("?:").unwrap_or(it)).unwrap_or(body);
    let begins = list.starts_with(|first: char| first.is_ascii_alphanumeric());
    begins && list.len() <= ENDINGS_BYTES_MAX && list.bytes().all(is_of_an_ending)
}

fn is_of_an_ending(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'|' | b'?' | b'[' | b']' | b'-')
}

/// The endings that count as those of files.
const FILES: [&str; 22] = [
    "php", "phtml", "html", "htm", "css", "js", "json", "xml", "txt", "map", "png", "jpg", "jpe", "jpeg", "gif", "svg",
    "ico", "webp", "avif", "woff", "woff2", "pdf",
];
/// Lists of endings may be long; anything longer is something else.
const ENDINGS_BYTES_MAX: usize = 400;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mend_is_what_is_meant() {
        for (source, expected) in [
            (".php$", r"\.php$"),
            ("/.php$", r"\.php$"),
            ("/.php(/|$)", r"\.php(/|$)"),
            ("^/.php$", r"^/.*\.php$"),
            ("^/a/.php$", r"^/a/.*\.php$"),
            ("/.(?:jpg|png)$", r"\.(?:jpg|png)$"),
            ("/index.php$", r"/index\.php$"),
            ("/.git$", r"/\.git$"),
            ("/.(git|svn)$", r"/\.(git|svn)$"),
            ("^/.well-known$", r"^/\.well-known$"),
        ] {
            let (before, rest) = source.split_at(ending_behind_any(source).unwrap());
            assert_eq!(mend(before, rest), expected, "{source}");
        }
    }

    #[test]
    fn only_a_dot_before_an_ending_is_found() {
        for (source, found) in [
            (".php$", Some(0)),
            ("^/a/.php$", Some(4)),
            (".php(/|$)", Some(0)),
            (".(jpg|jpeg|png)$", Some(0)),
            (".(?:css|js)$", Some(0)),
            (".jpe?g$", Some(0)),
            ("index.php$", Some(5)),
            (r"\.php$", None),
            (r"\.(jpg|png)$", None),
            ("[.]php$", None),
            (".*", None),
            ("^/.+/php$", None),
            ("^/a.*$", None),
            ("^/v./x$", None),
            (r"^/(.*)\.php$", None),
            ("^/page.[0-9]+/", None),
            (r"a\\.php$", Some(3)),
            ("", None),
            ("\\", None),
            ("é.php$", Some(2)),
        ] {
            assert_eq!(ending_behind_any(source), found, "{source}");
        }
    }
}
