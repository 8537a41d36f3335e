//! `charset`, `source_charset` and `charset_map`: the charset in `Content-Type`, and conversions between charsets.

use super::{Action, Args, DirectiveInfo, HSL, HSLI, HTTP, ONE, block, directive, http, repeated};
use crate::cx::Cx;
use crate::diagnostic::{Diagnostic, Outcome};
use crate::level::HttpParts;
use crate::model::{At, CharsetMap};
use crate::tree::{Directive, Word};

pub const TABLE: &[DirectiveInfo] = &[
    directive(
        "charset",
        HSLI,
        ONE,
        Action::Level(|l, _, d| {
            l.modules().charset.name = match d.text(0) {
                "off" => None,
                _ => Some(d.template(0)?),
            };
            Ok(())
        }),
    ),
    directive(
        "source_charset",
        HSLI,
        ONE,
        Action::Level(|l, _, d| {
            l.modules().charset.source = match d.text(0) {
                "off" => None,
                _ => Some(d.template(0)?),
            };
            Ok(())
        }),
    ),
    directive(
        "override_charset",
        HSLI,
        Args::Flag,
        Action::Level(|l, _, d| http::set(&mut l.modules().charset.overrides, d.flag())),
    ),
    repeated(
        "charset_types",
        HSL,
        Args::AtLeast(1),
        Action::Level(|l, _, d| {
            let is_first = l.is_first;
            let types = &mut l.modules().charset.types;
            if is_first {
                // nginx always adds this one.
                *types = vec!["text/html".to_owned()];
            }
            for word in &d.args {
                let kind = word.text.to_ascii_lowercase();
                if !types.contains(&kind) {
                    types.push(kind);
                }
            }
            Ok(())
        }),
    ),
    block("charset_map", HTTP, Args::Between(2, 2), Action::Http(charset_map)),
];

fn charset_map(http: &mut HttpParts, cx: &mut Cx<'_>, d: &Directive) -> Outcome {
    let named = |word: &Word| At { value: word.text.clone(), span: word.span };
    let mut map = CharsetMap { span: d.span(), from: named(d.arg(0)), to: named(d.arg(1)), entries: Vec::new() };
    let (from, to) = (map.from.value.as_str(), map.to.value.as_str());
    if from.eq_ignore_ascii_case(to) {
        let message = format!("\"charset_map\" between the same charsets \"{from}\" and \"{to}\"");
        return Err(Diagnostic::error(message).at(d.span()));
    }
    if from.eq_ignore_ascii_case("utf-8") {
        let message = "\"charset_map\" with \"utf-8\" charset should be given in the second column";
        return Err(Diagnostic::error(message).at(d.arg(0).span));
    }
    if let Some(known) = http.charset_maps.iter().find(|known| are_of_one_map(known, from, to)) {
        let message = format!("duplicate \"charset_map\" between \"{from}\" and \"{to}\"");
        return Err(Diagnostic::error(message).at(d.span()).related(known.span, "it is defined here already"));
    }
    let is_utf8 = map.is_to_utf8();
    for line in d.children() {
        match entry(line, is_utf8) {
            Ok(entry) => map.entries.push(entry),
            Err(diagnostic) => cx.report(diagnostic),
        }
    }
    http.charset_maps.push(map);
    Ok(())
}

/// Whether `map` converts between the two, in whatever direction.
pub fn are_of_one_map(map: &CharsetMap, one: &str, other: &str) -> bool {
    let is = |at: &At<String>, name: &str| at.value.eq_ignore_ascii_case(name);
    (is(&map.from, one) && is(&map.to, other)) || (is(&map.from, other) && is(&map.to, one))
}

fn entry(line: &Directive, is_utf8: bool) -> Outcome<(u8, Vec<u8>)> {
    const UTF8_BYTES_MAX: usize = 3;
    if line.args.len() != 1 || line.block.is_some() {
        return Err(Diagnostic::error("invalid parameters number")
            .at(line.span())
            .label("a line in a charset_map is two codes: \"A1 B2;\""));
    }
    let invalid = |word: &Word, expected: &str| {
        Diagnostic::error(format!("invalid value \"{}\"", word.text)).at(word.span).label(expected)
    };
    const BYTE: &str = "this is a byte in hexadecimal digits";
    let from = byte(&line.name.text).ok_or_else(|| invalid(&line.name, BYTE))?;
    let word = line.arg(0);
    if !is_utf8 {
        return Ok((from, vec![byte(&word.text).ok_or_else(|| invalid(word, BYTE))?]));
    }
    let digits = word.text.as_bytes();
    let bytes: Option<Vec<u8>> = digits.chunks(2).map(|pair| std::str::from_utf8(pair).ok().and_then(byte)).collect();
    let wanted = || invalid(word, "this is one character in UTF-8, up to three bytes in hexadecimal digits");
    let bytes = bytes.filter(|bytes| (1..=UTF8_BYTES_MAX).contains(&bytes.len())).ok_or_else(wanted)?;
    match std::str::from_utf8(&bytes) {
        Ok(text) if text.chars().count() == 1 => Ok((from, bytes)),
        Ok(_) | Err(_) => Err(wanted()),
    }
}

fn byte(digits: &str) -> Option<u8> {
    let is_hex = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_hex.then(|| u8::from_str_radix(digits, 16).ok())?
}
