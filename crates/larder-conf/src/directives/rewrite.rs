//! The rewrite module: `rewrite`, `return`, `set`, `break` and the condition of `if`.

use super::{Action, Args, Contexts, DirectiveInfo, LOCATION, NONE, SERVER, block, repeated};
use crate::diagnostic::{Diagnostic, Outcome};
use crate::model::{Condition, FileTest, Pattern, Rewrite, RewriteFlag, Template, TemplatePart};
use crate::tree::{Directive, Word};
use crate::{template, values};

/// `server`, `location` and `if` in either.
const SCRIPT: Contexts = SERVER.or(LOCATION).or(Contexts::IF_IN_SERVER).or(Contexts::IF_IN_LOCATION);

pub const TABLE: &[DirectiveInfo] = &[
    repeated("rewrite", SCRIPT, Args::Between(2, 3), Action::Script),
    repeated("return", SCRIPT, Args::Between(1, 2), Action::Script),
    repeated("break", SCRIPT, NONE, Action::Script),
    repeated("set", SCRIPT, Args::Between(2, 2), Action::Script),
    block("if", SERVER.or(LOCATION), Args::AtLeast(1), Action::Script),
];

/// One directive, other than `if`.
pub fn step(d: &Directive) -> Outcome<Rewrite> {
    match d.name.text.as_str() {
        "rewrite" => rewrite(d),
        "return" => return_(d),
        "set" => Ok(Rewrite::Set { name: template::variable_name(d.arg(0))?, value: d.template(1)? }),
        _ => Ok(Rewrite::Break),
    }
}

fn is_url(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://") || text.starts_with("$scheme")
}

fn rewrite(d: &Directive) -> Outcome<Rewrite> {
    let (pattern, replacement) = (d.arg(0), d.arg(1));
    if replacement.text.is_empty() {
        return Err(Diagnostic::error("empty replacement").at(replacement.span));
    }
    let flag = match d.args.get(2).map(|word| (word, word.text.as_str())) {
        None => RewriteFlag::None,
        Some((_, "last")) => RewriteFlag::Last,
        Some((_, "break")) => RewriteFlag::Break,
        Some((_, "redirect")) => RewriteFlag::Redirect,
        Some((_, "permanent")) => RewriteFlag::Permanent,
        Some((word, _)) => {
            return Err(Diagnostic::error(format!("invalid parameter \"{}\"", word.text))
                .at(word.span)
                .label("it must be \"last\", \"break\", \"redirect\" or \"permanent\""));
        }
    };
    let flag = match flag {
        RewriteFlag::None | RewriteFlag::Last | RewriteFlag::Break if is_url(&replacement.text) => {
            RewriteFlag::Redirect
        }
        flag => flag,
    };
    let (text, append_args) = match replacement.text.strip_suffix('?') {
        Some(text) => (text, false),
        None => (replacement.text.as_str(), true),
    };
    Ok(Rewrite::Rewrite {
        pattern: Pattern { source: pattern.text.clone(), caseless: false, span: pattern.span },
        replacement: template::parse_template(text, replacement.span)?,
        append_args,
        flag,
    })
}

fn return_(d: &Directive) -> Outcome<Rewrite> {
    let (first, span) = (d.arg(0), d.span());
    let status = values::number(&first.text).and_then(|n| u16::try_from(n).ok()).filter(|&n| n <= 999);
    match (status, d.args.len()) {
        (Some(status), 1) => Ok(Rewrite::Return { status, text: None, span }),
        (Some(status), _) => Ok(Rewrite::Return { status, text: Some(d.template(1)?), span }),
        (None, 1) if is_url(&first.text) => Ok(Rewrite::Return { status: 302, text: Some(d.template(0)?), span }),
        (None, _) => Err(Diagnostic::error(format!("invalid return code \"{}\"", first.text))
            .at(first.span)
            .label("it must be a status, or a URL that begins with http://, https:// or $scheme")),
    }
}

/// The condition of an `if`: `($a)`, `($a = b)`, `($a ~ b)`, `(-f a)` and their kind.
///
/// nginx splits at white space only, so that an operator has to stand alone.
pub fn condition(d: &Directive) -> Outcome<Condition> {
    let mut words = d.args.clone();
    strip_bracket(&mut words, 0, '(', d)?;
    let last = words.len().saturating_sub(1);
    strip_bracket(&mut words, last, ')', d)?;
    let invalid = |word: Option<&Word>| {
        let text = word.map_or("", |word| word.text.as_str());
        Diagnostic::error(format!("invalid condition \"{text}\""))
            .at(word.map_or(d.span(), |word| word.span))
            .label("a condition is ($a), ($a = text), ($a ~ pattern) or (-f path), with spaces around the operator")
    };
    match words.as_slice() {
        [word] if word.text.len() > 1 && word.text.starts_with('$') => Ok(Condition::True(variable(word)?)),
        [left, operator, right] if left.text.len() > 1 && left.text.starts_with('$') => {
            compare(variable(left)?, operator, right)
        }
        [test, path] if test.text.starts_with('-') || test.text.starts_with("!-") => {
            let (name, negate) = match test.text.strip_prefix('!') {
                Some(name) => (name, true),
                None => (test.text.as_str(), false),
            };
            let test = match name {
                "-f" => FileTest::File,
                "-d" => FileTest::Directory,
                "-e" => FileTest::Exists,
                "-x" => FileTest::Executable,
                _ => return Err(invalid(Some(test))),
            };
            Ok(Condition::File { test, path: template::of(path)?, negate })
        }
        _ => Err(invalid(words.first())),
    }
}

/// Takes the bracket off the word at `index`, and the word away if it was only that.
fn strip_bracket(words: &mut Vec<Word>, index: usize, bracket: char, d: &Directive) -> Outcome {
    let word = words.get_mut(index);
    let rest = word.as_ref().and_then(|word| match bracket {
        '(' => word.text.strip_prefix('('),
        _ => word.text.strip_suffix(')'),
    });
    let Some(rest) = rest.map(str::to_owned) else {
        let (text, span) = word.map_or(("", d.span()), |word| (word.text.as_str(), word.span));
        return Err(Diagnostic::error(format!("invalid condition \"{text}\""))
            .at(span)
            .label(format!("a \"{bracket}\" is missing here")));
    };
    match (rest.is_empty(), word) {
        (false, Some(word)) => word.text = rest,
        _ => {
            words.remove(index);
        }
    }
    Ok(())
}

fn variable(word: &Word) -> Outcome<Template> {
    let name = template::variable_name(word).map_err(|diagnostic| match word.text.contains(['=', '~']) {
        true => diagnostic.help("put spaces around the operator"),
        false => diagnostic.help("the left side is one variable; \"set\" can join several into one"),
    })?;
    Ok(Template { parts: vec![TemplatePart::Variable(name)], span: word.span })
}

fn compare(left: Template, operator: &Word, right: &Word) -> Outcome<Condition> {
    let pattern = |caseless| Pattern { source: right.text.clone(), caseless, span: right.span };
    match operator.text.as_str() {
        "=" => Ok(Condition::Equal { left, right: template::of(right)?, negate: false }),
        "!=" => Ok(Condition::Equal { left, right: template::of(right)?, negate: true }),
        "~" => Ok(Condition::Match { left, pattern: pattern(false), negate: false }),
        "~*" => Ok(Condition::Match { left, pattern: pattern(true), negate: false }),
        "!~" => Ok(Condition::Match { left, pattern: pattern(false), negate: true }),
        "!~*" => Ok(Condition::Match { left, pattern: pattern(true), negate: true }),
        "==" => Err(unexpected(operator).help("equality is a single \"=\"")),
        "&&" | "||" => Err(unexpected(operator).help("an \"if\" has one condition; use a \"map\" to join several")),
        _ => Err(unexpected(operator)),
    }
}

fn unexpected(operator: &Word) -> Box<Diagnostic> {
    Diagnostic::error(format!("unexpected \"{}\" in condition", operator.text))
        .at(operator.span)
        .label("it must be =, !=, ~, ~*, !~ or !~*")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::span::Span;

    fn parse(words: &str) -> Outcome<Condition> {
        let word = |text: &str| Word {
            text: text.into(),
            span: Span { file: 0, start: 0, end: 0 },
            quoted: false,
            starts_line: false,
        };
        let args = words.split(' ').map(word).collect();
        condition(&Directive { name: word("if"), args, block: None, runs_on: None })
    }

    #[test]
    fn conditions_are_read_as_nginx_reads_them() {
        for (text, expected) in [
            ("($a)", "True a"),
            ("( $a )", "True a"),
            ("($a = b)", "a = b"),
            ("($a = b )", "a = b"),
            ("($a != )", "!"),
            ("($a ~ (x))", "a ~ (x)"),
            ("($a ~* x)", "a ~* x"),
            ("($a !~ x)", "a !~ x"),
            ("($a !~* x)", "a !~* x"),
            ("(-f /x)", "-f /x"),
            ("(!-e /x)", "!-e /x"),
            ("(-d /x )", "-d /x"),
            ("($a == b)", "!"),
            ("($a=b)", "!"),
            ("$a", "!"),
            ("($a", "!"),
            ("(a = b)", "!"),
            ("()", "!"),
            ("(", "!"),
            ("( )", "!"),
            (")", "!"),
            ("(-q /x)", "!"),
            ("(-f)", "!"),
            ("($a b)", "!"),
            ("($a = b c)", "!"),
            ("($a$b)", "!"),
            ("($arg_go-get)", "True arg_go-get"),
            ("($arg_go-get = 1)", "arg_go-get = 1"),
            ("($arg_a=b)", "True arg_a=b"),
            ("($my-own !~* x)", "my-own !~* x"),
            ("", "!"),
        ] {
            let show = |template: &Template| match template.parts.as_slice() {
                [TemplatePart::Variable(text) | TemplatePart::Literal(text)] => text.clone(),
                other => format!("{other:?}"),
            };
            let found = match parse(text) {
                Err(_) => "!".to_owned(),
                Ok(Condition::True(value)) => format!("True {}", show(&value)),
                Ok(Condition::Equal { left, right, negate }) => {
                    format!("{} {}= {}", show(&left), if negate { "!" } else { "" }, show(&right))
                }
                Ok(Condition::Match { left, pattern, negate }) => format!(
                    "{} {}~{} {}",
                    show(&left),
                    if negate { "!" } else { "" },
                    if pattern.caseless { "*" } else { "" },
                    pattern.source
                ),
                Ok(Condition::File { test, path, negate }) => {
                    let test = match test {
                        FileTest::File => "-f",
                        FileTest::Directory => "-d",
                        FileTest::Exists => "-e",
                        FileTest::Executable => "-x",
                    };
                    format!("{}{test} {}", if negate { "!" } else { "" }, show(&path))
                }
            };
            assert_eq!(found, expected, "{text}");
        }
    }
}
