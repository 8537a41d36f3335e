//! Values of variables as sentences show them: short, and without what says who a visitor is.

use std::borrow::Cow;

use larder_http::{Fields, Known};

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::site::UserVarSource;
use crate::vsl::{Audience, Fact, Note, Shown};

use super::notes::{audience, notes};

/// A value in a sentence about the request: [`value`], and for who gets a response without what is written in the configuration.
pub fn in_sentence(text: &[u8], ex: &Exchange, cx: &Cx) -> String {
    value(&without_secrets(text, ex, cx), &ex.asked.head.fields)
}

/// A value in a row of its own: as it is for who may read what the server does.
pub fn in_row(text: &[u8], ex: &Exchange, cx: &Cx) -> String {
    match audience(ex) {
        Audience::Owner => Shown(text).to_string(),
        Audience::Visitor => in_sentence(text, ex, cx),
    }
}

/// The same for programs.
pub fn as_fact(text: &[u8], ex: &Exchange, cx: &Cx) -> Fact {
    Fact::Text(match audience(ex) {
        Audience::Owner => String::from_utf8_lossy(text).into_owned(),
        Audience::Visitor => in_sentence(text, ex, cx),
    })
}

/// The value of a field that another request may have sent, by which a stored page varies.
pub fn of_page(text: &[u8], is_for_request: bool, ex: &Exchange) -> Cow<'static, [u8]> {
    match audience(ex) {
        Audience::Visitor if !is_for_request && !text.is_empty() => MASK.as_bytes().into(),
        Audience::Owner | Audience::Visitor => text.to_vec().into(),
    }
}

/// A text for who gets a response: what `set`, `map`, `geo` and `split_clients` have put into it is left out unless the request says
/// the same.
pub fn without_secrets<'a>(text: &'a [u8], ex: &Exchange, cx: &Cx) -> Cow<'a, [u8]> {
    if audience(ex) == Audience::Owner {
        return text.into();
    }
    let mut secrets = configured(ex, cx);
    secrets.retain(|secret| secret.len() >= SECRET_BYTES_MIN && !is_said(secret, ex));
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, behind)) = rest.split_first() {
        match secrets.iter().filter(|secret| rest.starts_with(secret)).map(Vec::len).max() {
            Some(len) => {
                out.extend_from_slice(MASK.as_bytes());
                rest = &rest[len..];
            }
            None => {
                out.push(byte);
                rest = behind;
            }
        }
    }
    out.into()
}

/// What the configuration has given variables of this request.
fn configured(ex: &Exchange, cx: &Cx) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for note in notes(ex) {
        if let Note::Set { literals, .. } = note {
            all.extend(literals.into_iter().map(Vec::from));
        }
    }
    let values = ex.eval.values.borrow();
    for (slot, variable) in cx.site().variables.slots.iter().enumerate() {
        let is_written = match variable.source {
            UserVarSource::Map(_) | UserVarSource::Geo(_) | UserVarSource::Split(_) => true,
            UserVarSource::Set => false,
        };
        if let Some(value) = values.bytes(ex.eval.slot(slot)).filter(|_| is_written) {
            all.push(value.to_vec());
        }
    }
    all
}

/// Whether the request itself says this.
fn is_said(text: &[u8], ex: &Exchange) -> bool {
    let head = &ex.asked.head;
    let said = [head.method_name(), head.target(), &ex.request.host];
    said.into_iter().chain(head.fields.iter().map(|(_, value)| value)).any(|said| {
        // It is no empty text.
        said.windows(text.len()).any(|part| part == text)
    })
}

/// The condition of an `if` that holds, without what the request would have to say for it not to.
pub fn condition(written: &str, ex: &Exchange) -> String {
    let operator = [" != ", " !~ ", " !~* "]
        .into_iter()
        .filter_map(|operator| Some(written.find(operator)? + operator.len()))
        .min();
    match operator {
        Some(end) if audience(ex) == Audience::Visitor && written.len() - end >= SECRET_BYTES_MIN => {
            format!("{}{MASK}", &written[..end])
        }
        Some(_) | None => written.to_owned(),
    }
}

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
