//! Lists separated by commas (RFC 9110 §5.6.1).

/// The members of a list, without the white space around them and without empty members.
///
/// Commas inside double quotes do not separate. A quote that is never closed reaches to the end.
pub fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    parts(value, b',')
}

/// The same of what another byte separates, such as the parameters of a member at `;`.
pub fn parts(value: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> + Clone {
    Parts { rest: value, separator }
}

/// Whether a member of one of the `lines` is `token`, ignoring case.
pub fn has_token<'a>(lines: impl IntoIterator<Item = &'a [u8]>, token: &str) -> bool {
    lines.into_iter().any(|line| members(line).any(|member| member.eq_ignore_ascii_case(token.as_bytes())))
}

/// Whether `text` is a token (RFC 9110 §5.6.2).
pub fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().copied().all(is_token_byte)
}

/// Whether the byte may be in a token.
pub(crate) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// `text` without spaces and tabs at its ends.
pub fn trim(text: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let Some(start) = text.iter().position(|byte| !is_blank(byte)) else {
        return &[];
    };
    let end = text.iter().rposition(|byte| !is_blank(byte)).map_or(start, |last| last + 1);
    &text[start..end]
}

#[derive(Clone)]
struct Parts<'a> {
    rest: &'a [u8],
    separator: u8,
}

impl<'a> Iterator for Parts<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        while !self.rest.is_empty() {
            let end = part_end(self.rest, self.separator);
            let part = trim(&self.rest[..end]);
            self.rest = self.rest.get(end + 1..).unwrap_or_default();
            if !part.is_empty() {
                return Some(part);
            }
        }
        None
    }
}

/// Where the first part of a list ends: at a separator outside quotes, or at the end.
fn part_end(list: &[u8], separator: u8) -> usize {
    let mut is_quoted = false;
    let mut at = 0;
    while let Some(&byte) = list.get(at) {
        match byte {
            byte if byte == separator && !is_quoted => return at,
            b'"' => is_quoted = !is_quoted,
            b'\\' if is_quoted => at += 1,
            _ => {}
        }
        at += 1;
    }
    list.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_split_at_commas_outside_quotes() {
        for (list, expected) in [
            ("", &[][..]),
            (" , ,", &[]),
            ("a", &["a"]),
            (" a , b\t,c", &["a", "b", "c"]),
            ("a=\"1,2\", b", &["a=\"1,2\"", "b"]),
            (r#"a="\",", b"#, &[r#"a="\",""#, "b"]),
            ("a=\"b, c", &["a=\"b, c"]),
            ("a=\"\\", &["a=\"\\"]),
        ] {
            let found: Vec<_> = members(list.as_bytes()).map(|member| String::from_utf8_lossy(member)).collect();
            assert_eq!(found, expected, "{list}");
        }
    }

    #[test]
    fn parameters_are_split_at_semicolons_outside_quotes() {
        let found: Vec<_> = parts(br#"larder ;a="1;\";2";; b=3"#, b';').collect();
        assert_eq!(found, [&b"larder"[..], br#"a="1;\";2""#, b"b=3"]);
    }

    #[test]
    fn tokens_are_whole_members() {
        let lines = || [&b"keep-alive, Upgrade"[..], b"x"];
        assert!(has_token(lines(), "upgrade") && has_token(lines(), "X"));
        assert!(!has_token(lines(), "keep") && !has_token([], "x"));
    }
}
