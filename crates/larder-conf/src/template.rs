//! Splits strings with variables into their parts.

use crate::diagnostic::{Diagnostic, Outcome};
use crate::lex::Word;
use crate::model::{Template, TemplatePart};
use crate::span::Span;

/// Splits a word at its variables: `$name`, `${name}`, `$1`. Names end up in lower case.
///
/// A dollar that begins no name is an error, as in nginx; there is no way to write one.
pub fn parse_template(text: &str, span: Span) -> Result<Template, Box<Diagnostic>> {
    let mut parts: Vec<TemplatePart> = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        push_literal(&mut parts, &rest[..at]);
        rest = &rest[at + 1..];
        if let Some(digit @ b'1'..=b'9') = rest.bytes().next() {
            parts.push(TemplatePart::Capture(digit - b'0'));
            rest = &rest[1..];
            continue;
        }
        let in_braces = rest.strip_prefix('{');
        let name_on = in_braces.unwrap_or(rest);
        let length = name_on.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
        let name = &name_on[..length];
        rest = &name_on[length..];
        if in_braces.is_some() {
            rest = rest.strip_prefix('}').ok_or_else(|| {
                Diagnostic::error(format!("the closing bracket in \"{name}\" variable is missing")).at(span)
            })?;
        }
        if name.is_empty() {
            return Err(Diagnostic::error("invalid variable name")
                .at(span)
                .label("no name follows a \"$\" here")
                .help("a name has letters, digits and \"_\"; a literal \"$\" can only come from a variable"));
        }
        parts.push(TemplatePart::Variable(name.to_ascii_lowercase()));
    }
    push_literal(&mut parts, rest);
    Ok(Template { parts, span })
}

/// The template in a word.
pub fn of(word: &Word) -> Outcome<Template> {
    parse_template(&word.text, word.span)
}

/// A template of text alone.
pub fn literal(text: &str, span: Span) -> Template {
    let mut parts = Vec::new();
    push_literal(&mut parts, text);
    Template { parts, span }
}

/// The text of a template that has no variables; `None` when it has some.
pub fn as_literal(template: &Template) -> Option<&str> {
    match template.parts.as_slice() {
        [] => Some(""),
        [TemplatePart::Literal(text)] => Some(text),
        _ => None,
    }
}

/// The template as it may have been written.
pub fn show(template: &Template) -> String {
    let mut text = String::new();
    for part in &template.parts {
        match part {
            TemplatePart::Literal(literal) => text.push_str(literal),
            TemplatePart::Variable(name) => text.extend(["${", name, "}"]),
            TemplatePart::Capture(number) => text.extend(['$', char::from(b'0' + number)]),
        }
    }
    text
}

/// The same template with neighbouring literals made one.
pub fn joined(template: Template) -> Template {
    let mut parts = Vec::new();
    for part in template.parts {
        match part {
            TemplatePart::Literal(text) => push_literal(&mut parts, &text),
            TemplatePart::Variable(_) | TemplatePart::Capture(_) => parts.push(part),
        }
    }
    Template { parts, span: template.span }
}

/// The name in `$name`, as the directives `set`, `map` and `geo` want it: a variable and nothing else.
///
/// What follows the dollar is the name, as in nginx, whatever it is made of: `$arg_go-get` is the argument `go-get`. In
/// a template that would be `$arg_go` with text behind it, so that such a name is of use in an `if` alone.
pub fn variable_name(word: &Word) -> Outcome<String> {
    let name = word.text.strip_prefix('$').unwrap_or("");
    // These are attempts at something else, which nginx reads as the name of a variable that nobody makes.
    let is_name = !name.is_empty() && !name.contains(['$', '{', '}', '=', '~', '!']);
    match is_name || is_of_a_family(name) {
        true => Ok(name.to_ascii_lowercase()),
        false => Err(Diagnostic::error(format!("invalid variable name \"{}\"", word.text))
            .at(word.span)
            .label("a name begins with \"$\" and has letters, digits and \"_\"")),
    }
}

/// Whether a variable of that name is there without being made, as only its beginning is fixed.
fn is_of_a_family(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    FAMILIES.iter().any(|family| name.starts_with(family))
}

/// How the names of variables begin whose end is anything.
const FAMILIES: [&str; 7] =
    ["arg_", "cookie_", "http_", "sent_http_", "sent_trailer_", "upstream_http_", "upstream_cookie_"];

fn push_literal(parts: &mut Vec<TemplatePart>, text: &str) {
    if text.is_empty() {
        return;
    }
    match parts.last_mut() {
        Some(TemplatePart::Literal(last)) => last.push_str(text),
        _ => parts.push(TemplatePart::Literal(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Span = Span { file: 0, start: 0, end: 0 };

    #[test]
    fn variables_are_found_as_nginx_finds_them() {
        let (lit, var, cap) = (
            |s: &str| TemplatePart::Literal(s.into()),
            |s: &str| TemplatePart::Variable(s.into()),
            TemplatePart::Capture,
        );
        for (text, parts) in [
            ("", vec![]),
            ("abc", vec![lit("abc")]),
            ("$host", vec![var("host")]),
            ("$Host-x", vec![var("host"), lit("-x")]),
            ("a${b}c", vec![lit("a"), var("b"), lit("c")]),
            ("$1$2x", vec![cap(1), cap(2), lit("x")]),
            ("$10", vec![cap(1), lit("0")]),
            ("$0", vec![var("0")]),
            ("a$b$c", vec![lit("a"), var("b"), var("c")]),
            ("é$b", vec![lit("é"), var("b")]),
        ] {
            assert_eq!(parse_template(text, SPAN).map(|t| t.parts), Ok(parts), "{text}");
        }
    }

    #[test]
    fn what_follows_a_dollar_is_the_name_where_only_a_name_can_stand() {
        for (text, name) in [
            ("$Host", Some("host")),
            ("$arg_go-get", Some("arg_go-get")),
            ("$my-own.one", Some("my-own.one")),
            ("$arg_a=1", Some("arg_a=1")),
            ("$Cookie_A$b", Some("cookie_a$b")),
            ("$a=1", None),
            ("$a$b", None),
            ("${a}", None),
            ("$", None),
            ("a", None),
        ] {
            let word = Word { text: text.to_owned(), span: SPAN, quoted: false, starts_line: false };
            assert_eq!(variable_name(&word).ok().as_deref(), name, "{text}");
        }
    }

    #[test]
    fn a_dollar_without_a_name_is_an_error() {
        for text in ["$", "a$", "$-", "${", "${}", "${a", "${a-b}", "$$a", "${1"] {
            assert!(parse_template(text, SPAN).is_err(), "{text}");
        }
    }
}
