//! Values of variables as sentences show them: short, and without what says who a visitor is.

use larder_http::{Fields, Known};

use crate::vsl::Shown;

/// A value in a sentence about a request with these fields: of its cookies and its `Authorization`, names and schemes alone. What
/// is made of a part of one is left out as a whole.
pub fn value(value: &[u8], fields: &Fields) -> String {
    let secrets: Vec<&[u8]> = secrets(fields).filter(|secret| secret.len() >= SECRET_BYTES_MIN).collect();
    let mut shown = Vec::with_capacity(value.len().min(SHOWN_BYTES_MAX));
    let (mut rest, mut plain_from) = (value, 0);
    while let Some((&byte, behind)) = rest.split_first() {
        match secrets.iter().filter(|secret| rest.starts_with(secret)).map(|secret| secret.len()).max() {
            Some(len) => {
                if has_part(&shown[plain_from..], &secrets) {
                    return MASK.to_owned();
                }
                shown.extend_from_slice(MASK.as_bytes());
                plain_from = shown.len();
                rest = &rest[len..];
            }
            None => {
                shown.push(byte);
                rest = behind;
            }
        }
    }
    if has_part(&shown[plain_from..], &secrets) {
        return MASK.to_owned();
    }
    Shown(&shown).cut(SHOWN_BYTES_MAX)
}

/// What these fields say of the visitor.
fn secrets(fields: &Fields) -> impl Iterator<Item = &[u8]> {
    let credentials =
        fields.all_known(Known::Authorization).chain(fields.all_known(Known::ProxyAuthorization)).map(|value| {
            let scheme = value.iter().position(|byte| *byte == b' ').map_or(0, |at| at + 1);
            value[scheme..].trim_ascii()
        });
    let cookies = fields.all_known(Known::Cookie).flat_map(|line| line.split(|byte| *byte == b';'));
    credentials.chain(cookies.map(|pair| match pair.iter().position(|byte| *byte == b'=') {
        Some(at) => pair[at + 1..].trim_ascii(),
        None => pair.trim_ascii(),
    }))
}

/// Whether a part of a secret that tells something stands in a text.
fn has_part(text: &[u8], secrets: &[&[u8]]) -> bool {
    text.windows(PART_BYTES_MIN.min(text.len()).max(SECRET_BYTES_MIN))
        .any(|part| secrets.iter().any(|secret| secret.windows(part.len()).any(|window| window == part)))
}

const MASK: &str = "***";
/// What is shorter is a number or a word like `yes`, and tells nothing.
const SECRET_BYTES_MIN: usize = 4;
/// How long a part of a secret is that is left out; a text that is shorter itself, as a whole.
const PART_BYTES_MIN: usize = 8;
/// How much of a value is shown.
const SHOWN_BYTES_MAX: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_tells_no_secret_of_its_visitor() {
        let mut fields = Fields::new();
        for (name, value) in [
            ("Cookie", "sess=0123456789abcdef; on=1; lang=en"),
            ("Cookie", "other=\"quoted\"; bare-token"),
            ("Authorization", "Bearer secret.token-123"),
        ] {
            fields.push(name.as_bytes(), value.as_bytes());
        }
        for (text, expected) in [
            ("1", "1"),
            ("", ""),
            ("en", "en"),
            ("0123456789abcdef", "***"),
            ("x-0123456789abcdef-y", "x-***-y"),
            ("456789ab", "***"),
            ("0123", "***"),
            ("01", "01"),
            ("part 456789abcd of one", "***"),
            ("456789abcd 0123456789abcdef", "***"),
            ("sess=0123456789abcdef; on=1; lang=en", "sess=***; on=1; lang=en"),
            ("Bearer secret.token-123", "Bearer ***"),
            ("bare-token", "***"),
            ("usual text", "usual text"),
            ("\r\n", "\\r\\n"),
        ] {
            assert_eq!(value(text.as_bytes(), &fields), expected, "{text}");
        }
        let long = value(&[b'q'; 8000], &fields);
        assert_eq!(long, format!("{}...", "q".repeat(SHOWN_BYTES_MAX)));
        assert_eq!(value(b"anything", &Fields::new()), "anything");
    }
}
