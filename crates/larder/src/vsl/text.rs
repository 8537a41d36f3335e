//! Words in the texts of records.

/// What stands behind a prefix in any case, and spaces.
pub fn behind<'a>(text: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    let (front, rest) = text.split_at_checked(prefix.len())?;
    let spaces = if prefix.is_empty() { 0 } else { rest.iter().take_while(|byte| **byte == b' ').count() };
    front.eq_ignore_ascii_case(prefix).then(|| &rest[spaces..])
}

/// A word, counted from 1.
pub fn word(text: &[u8], number: usize) -> Option<&[u8]> {
    text.split(|byte| is_space(*byte)).filter(|word| !word.is_empty()).nth(number - 1)
}

/// A text without spaces around it.
pub fn trimmed(text: &[u8]) -> &[u8] {
    let start = text.iter().take_while(|byte| is_space(**byte)).count();
    let end = text.iter().rposition(|byte| !is_space(*byte)).map_or(start, |last| last + 1);
    &text[start..end]
}

/// Like `isspace()`.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}
