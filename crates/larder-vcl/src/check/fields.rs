//! The values of the fields of backends and probes.

use std::collections::HashMap;
use std::time::Duration;

use larder_source::{Diagnostic, Span, nearest};

use super::cx::Cx;
use super::values::{DURATION_HELP, seconds};
use crate::ast::{Digits, Field, FieldValue, Word};

/// Goes through fields, each of which may be given once.
///
/// `read` takes what it knows of a field; a value that is of the wrong type it has reported.
pub fn each<'f>(
    cx: &mut Cx,
    fields: &'f [Field],
    known: &[&str],
    mut read: impl FnMut(&mut Cx, &str, &'f Field) -> Option<()>,
) {
    let mut seen: HashMap<&str, Span> = HashMap::new();
    for field in fields {
        let name = field.name.text.as_str();
        if !known.contains(&name) {
            unknown(cx, &field.name, known);
            continue;
        }
        if let Some(first) = seen.insert(name, field.name.span) {
            let message = format!("the field .{name} is given twice");
            cx.report(Diagnostic::error(message).at(field.name.span).related(first, "it is given here first"));
            continue;
        }
        let _: Option<()> = read(cx, name, field);
    }
}

fn unknown(cx: &mut Cx, name: &Word, known: &[&str]) {
    let diagnostic = Diagnostic::error(format!("unknown field .{}", name.text)).at(name.span);
    cx.report(match nearest(&name.text, known.iter().copied()) {
        Some(near) => diagnostic.help(format!("did you mean .{near}?")),
        None => {
            let all: Vec<_> = known.iter().map(|name| format!(".{name}")).collect();
            diagnostic.help(format!("the fields are {}", all.join(", ")))
        }
    });
}

/// One string.
pub fn text<'f>(cx: &mut Cx, field: &'f Field) -> Option<&'f [u8]> {
    match &field.value {
        FieldValue::Texts(texts) => match texts.as_slice() {
            [text] => Some(text),
            _ => wrong(cx, field, "one string"),
        },
        _ => wrong(cx, field, "a string"),
    }
}

/// One string of characters.
pub fn word(cx: &mut Cx, field: &Field) -> Option<String> {
    let text = text(cx, field)?;
    match std::str::from_utf8(text) {
        Ok(text) => Some(text.to_owned()),
        Err(_) => wrong(cx, field, "valid UTF-8"),
    }
}

/// A whole number.
pub fn count(cx: &mut Cx, field: &Field) -> Option<u64> {
    match &field.value {
        FieldValue::Number(number) if number.unit.is_none() => match number.value {
            Digits::Int(value) => u64::try_from(value).ok(),
            Digits::Real(_) => wrong(cx, field, "a whole number"),
        },
        _ => wrong(cx, field, "a number without a unit"),
    }
}

/// A length of time.
pub fn duration(cx: &mut Cx, field: &Field) -> Option<Duration> {
    let FieldValue::Number(number) = &field.value else {
        return wrong(cx, field, "a DURATION such as 10s");
    };
    let seconds = number.unit.as_ref().and_then(|unit| seconds(number.value, &unit.text));
    let Some(seconds) = seconds else {
        let message = format!("expected a DURATION for .{}", field.name.text);
        return cx.fail(Diagnostic::error(message).at(field.span).help(DURATION_HELP));
    };
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) => Some(duration),
        Err(_) => wrong(cx, field, "a shorter time"),
    }
}

/// `true` or `false`.
pub fn flag(cx: &mut Cx, field: &Field) -> Option<bool> {
    match &field.value {
        FieldValue::Name(name) if name.text.eq_ignore_ascii_case("true") => Some(true),
        FieldValue::Name(name) if name.text.eq_ignore_ascii_case("false") => Some(false),
        _ => wrong(cx, field, "true or false"),
    }
}

/// Reports that a field wants something else.
pub fn wrong<T>(cx: &mut Cx, field: &Field, wanted: &str) -> Option<T> {
    let message = format!("expected {wanted} for .{}", field.name.text);
    cx.fail(Diagnostic::error(message).at(field.span))
}
