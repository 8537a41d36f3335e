//! Tags that plugins write as a regular expression: `((^|,)cat_p_1(,|$))|((^|,)cat_p_2(,|$))`, `(^|\s)node:1(\s|$)`, `a|b`.
//!
//! A purge of tags finds its pages by an index, where an expression looks at each page. Only expressions that mean whole
//! tags are taken apart, and lists of tags without borders, which their senders mean so.

/// The tags that a value names; `None` if it is an expression that may mean others.
pub fn tags(value: &[u8]) -> Option<Vec<Box<[u8]>>> {
    let mut tags = Vec::new();
    for part in split_alternatives(value.trim_ascii())? {
        let part = part.trim_ascii();
        match bordered(part) {
            Some(inside) => {
                // In a group, or alone.
                let inside = inside.strip_prefix(b"(").and_then(|rest| rest.strip_suffix(b")")).unwrap_or(inside);
                for tag in split_alternatives(inside)? {
                    tags.push(literal(tag)?);
                }
            }
            None => {
                for tag in larder_cache::split_tags(part) {
                    tags.push(literal(tag)?);
                }
            }
        }
    }
    (!tags.is_empty()).then_some(tags)
}

/// What API Platform writes, with the borders of a whole tag: `(/a|/b)($|\,)` leaves out the one in front as it is sure to be
/// there; older ones write `((^|\,)/a($|\,))|((^|\,)/b($|\,))`.
pub fn of_api_platform(value: &str) -> String {
    let value = value.replace(r"(^|\,)", "(^|,)").replace(r"($|\,)", "(,|$)");
    let is_open = value.starts_with('(') && value.ends_with("(,|$)") && !value.contains("(^|,)");
    if is_open { format!("(^|,){value}") } else { value }
}

/// An expression on a host without the ports that it ends with, as pages know their host: `^a\.example:8080$`, and with the
/// backslash that PHP puts before a colon.
pub fn without_port(expression: &str) -> String {
    let (mut rest, mut out) = (expression, String::with_capacity(expression.len()));
    while let Some((before, behind)) = rest.split_once(':') {
        let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
        let is_port = digits > 0
            && !before.ends_with('?')
            && behind[digits..].chars().next().is_none_or(|next| "$)|".contains(next));
        match is_port {
            true => {
                out.push_str(before.strip_suffix('\\').unwrap_or(before));
                rest = &behind[digits..];
            }
            false => {
                out.push_str(before);
                out.push(':');
                rest = behind;
            }
        }
    }
    out + rest
}

/// What `|` separates outside of groups; `None` if groups do not close.
fn split_alternatives(text: &[u8]) -> Option<Vec<&[u8]>> {
    let (mut parts, mut begin, mut depth, mut is_escaped) = (Vec::new(), 0, 0_usize, false);
    for (at, &byte) in text.iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'(' => depth += 1,
            b')' => depth = depth.checked_sub(1)?,
            b'|' if depth == 0 => {
                parts.push(text.get(begin..at)?);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text.get(begin..)?);
    (depth == 0).then_some(parts)
}

/// What stands between the borders of tags.
fn bordered(text: &[u8]) -> Option<&[u8]> {
    let text = match text.strip_prefix(b"((^|") {
        // One more group around all of it.
        Some(_) => text.strip_prefix(b"(")?.strip_suffix(b")")?,
        None => text,
    };
    BORDERS.iter().find_map(|(before, behind)| text.strip_prefix(*before)?.strip_suffix(*behind))
}

/// Whether the borders of whole tags are in it, so that it is an expression.
pub fn has_borders(text: &[u8]) -> bool {
    BORDERS.iter().any(|(before, _)| text.windows(before.len()).any(|part| part == *before))
}

/// How expressions say that a tag begins and ends.
const BORDERS: [(&[u8], &[u8]); 6] = [
    (b"(^|,)", b"(,|$)"),
    (br"(^|\s)", br"(\s|$)"),
    (b"(^| )", b"( |$)"),
    (b"(^|[ ,])", b"([ ,]|$)"),
    (br"(^|[\s,])", br"([\s,]|$)"),
    (b"(?:^|,)", b"(?:,|$)"),
];

/// A tag without the backslashes of an expression; `None` if something in it means more than itself. A dot is one: tags have
/// dots, and their senders mean those.
fn literal(tag: &[u8]) -> Option<Box<[u8]>> {
    let mut bytes = Vec::with_capacity(tag.len());
    let mut rest = tag.iter();
    while let Some(&byte) = rest.next() {
        match byte {
            // Before a letter or a digit it is a class or a reference.
            b'\\' => {
                let is_itself = |byte: &&u8| !byte.is_ascii_alphanumeric() && !b" \t,".contains(byte);
                bytes.push(*rest.next().filter(is_itself)?);
            }
            // No page has such a tag, and an expression may find more.
            b' ' | b'\t' | b',' => return None,
            b'^' | b'$' | b'*' | b'+' | b'?' | b'(' | b')' | b'[' | b']' | b'{' | b'}' | b'|' => return None,
            byte => bytes.push(byte),
        }
    }
    (!bytes.is_empty()).then(|| bytes.into())
}

/// An expression that finds one of these tags in a field where spaces or commas separate them.
pub fn expression<'a>(tags: impl IntoIterator<Item = &'a str>) -> String {
    let mut expression = String::from(r"(^|[\s,])(");
    for (number, tag) in tags.into_iter().enumerate() {
        if number > 0 {
            expression.push('|');
        }
        for char in tag.chars() {
            if char.is_ascii_punctuation() {
                expression.push('\\');
            }
            expression.push(char);
        }
    }
    expression.push_str(r")([\s,]|$)");
    expression
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_compared_without_its_port() {
        for (expression, expected) in [
            ("a.example", "a.example"),
            ("a.example:80", "a.example"),
            (r"^a\.example:8080$", r"^a\.example$"),
            (r"^(a\.example\:8080|b\.example\:81)$", r"^(a\.example|b\.example)$"),
            ("a.example(?::80)?", "a.example(?:)?"),
            ("(?:80|81).example", "(?:80|81).example"),
            (r"^\[::1\]:80$", r"^\[::1\]$"),
            ("a.example:80x", "a.example:80x"),
            (":", ":"),
        ] {
            assert_eq!(without_port(expression), expected, "{expression}");
        }
    }

    #[test]
    fn expressions_of_whole_tags_are_tags() {
        for (value, expected) in [
            ("((^|,)cat_p_1(,|$))", &["cat_p_1"][..]),
            ("((^|,)cat_p_1(,|$))|((^|,)cms_b(,|$))", &["cat_p_1", "cms_b"]),
            (r"(^|,)(article\-1)(,|$)", &["article-1"]),
            (r"(^|,)(home|author\-3)(,|$)", &["home", "author-3"]),
            (r"(^|\s)node:1(\s|$)", &["node:1"]),
            (r"(^|\s)node:1(\s|$)|(^|\s)node:2(\s|$)", &["node:1", "node:2"]),
            ("node:1|user:3", &["node:1", "user:3"]),
            ("node:1 config:system.menu.main", &["node:1", "config:system.menu.main"]),
            ("a,b", &["a", "b"]),
            ("fos_http_cache_hashlookup\\-ann", &["fos_http_cache_hashlookup-ann"]),
        ] {
            let expected: Vec<Box<[u8]>> = expected.iter().map(|tag| tag.as_bytes().into()).collect();
            assert_eq!(tags(value.as_bytes()), Some(expected), "{value}");
        }
    }

    #[test]
    fn others_are_not() {
        for value in [
            "",
            " ",
            "|",
            ".*",
            "cat_p_.*",
            "cat_[cp]",
            "^store",
            "(a",
            "a)",
            "((^|,)a(,|$)",
            "(a|b)c",
            r"\d+",
            r"a\",
            "a{2}",
            "(^|,)(a|b+)(,|$)",
            "(^|,)(,|$)",
            "((^|,)a b(,|$))",
            "(^|,)(a|b,c)(,|$)",
        ] {
            assert_eq!(tags(value.as_bytes()), None, "{value}");
        }
    }

    #[test]
    fn tags_become_an_expression_that_means_no_others() {
        assert_eq!(expression(["node:1", "a.b"]), r"(^|[\s,])(node\:1|a\.b)([\s,]|$)");
        let regex = crate::regex::Regex::new(&expression(["node:1", "a.b", r"c\d|"]), false).expect("it is one");
        for (text, is_found) in [
            ("x node:1", true),
            ("node:1,x", true),
            ("node:12", false),
            ("a.b", true),
            ("axb", false),
            (r"c\d|", true),
            ("c1", false),
        ] {
            assert_eq!(regex.is_match(text.as_bytes()).ok(), Some(is_found), "{text}");
        }
    }
}
