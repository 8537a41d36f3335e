//! Expressions, with the operators that bind least first.
//!
//! ```text
//! or      and { "||" and }                      product  member { ("*" | "/" | "%") member }
//! and     not { "&&" not }                      member   primary { "." NAME [arguments] }
//! not     ["!"] compare                         primary  "(" or ")" | NAME [arguments] | TEXT | BLOB
//! compare sum [OPERATOR sum | "~" pattern]               | ["-"] NUMBER [UNIT] | "-" or
//! sum     product { ("+" | "-") product }       pattern  TEXT { "+" TEXT } | member
//! ```

use larder_source::{Diagnostic, Span};

use super::cursor::{Cursor, Parsed};
use crate::ast::{
    Arg, Arithmetic, Compare, Comparison, Digits, Expr, ExprKind, Member, Number, Path, Term, Word, join,
};
use crate::lex::{Kind, Token};

/// How many points a name may have; those of Varnish have at most four.
const PATH_PARTS_MAX: usize = 16;

/// Reads an expression.
pub fn expression(cursor: &mut Cursor) -> Parsed<Expr> {
    cursor.nested(|cursor| chain(cursor, "||", conjunction, ExprKind::Or))
}

fn conjunction(cursor: &mut Cursor) -> Parsed<Expr> {
    chain(cursor, "&&", negation, ExprKind::And)
}

fn chain(
    cursor: &mut Cursor,
    operator: &str,
    part: fn(&mut Cursor) -> Parsed<Expr>,
    kind: fn(Vec<Expr>) -> ExprKind,
) -> Parsed<Expr> {
    let first = part(cursor)?;
    if !cursor.peek().is(operator) {
        return Ok(first);
    }
    let start = first.span;
    let mut parts = vec![first];
    let mut end = start;
    while cursor.eat(operator) {
        let next = part(cursor)?;
        end = next.span;
        parts.push(next);
    }
    Ok(Expr { kind: kind(parts), span: join(start, end) })
}

fn negation(cursor: &mut Cursor) -> Parsed<Expr> {
    let start = cursor.peek().span;
    if !cursor.eat("!") {
        return comparison(cursor);
    }
    let inner = comparison(cursor)?;
    let span = join(start, inner.span);
    Ok(Expr { kind: ExprKind::Not(Box::new(inner)), span })
}

fn comparison(cursor: &mut Cursor) -> Parsed<Expr> {
    let left = sum(cursor)?;
    let token = cursor.peek();
    let Some(operator) = compare_operator(token) else {
        return Ok(left);
    };
    cursor.take();
    let right = match operator {
        Compare::Matches | Compare::MatchesNot => match cursor.peek().kind {
            Kind::Text(_) => terms(cursor, &[("+", Arithmetic::Add)], literal, ExprKind::Sum)?,
            _ => member(cursor)?,
        },
        Compare::Equal
        | Compare::NotEqual
        | Compare::Less
        | Compare::LessOrEqual
        | Compare::Greater
        | Compare::GreaterOrEqual => sum(cursor)?,
    };
    let whole = join(left.span, right.span);
    let comparison = Comparison { left, operator, span: token.span, right };
    Ok(Expr { kind: ExprKind::Compare(Box::new(comparison)), span: whole })
}

/// A part of a regular expression, which is a string or several.
fn literal(cursor: &mut Cursor) -> Parsed<Expr> {
    let token = cursor.peek();
    match token.kind {
        Kind::Text(_) => primary(cursor),
        _ => {
            let message = format!("expected a string, found {}", token.describe());
            let help = "a regular expression cannot be computed";
            cursor.fail(Diagnostic::error(message).at(token.span).help(help))
        }
    }
}

fn compare_operator(token: &Token) -> Option<Compare> {
    let Kind::Symbol(symbol) = token.kind else {
        return None;
    };
    match symbol {
        "==" => Some(Compare::Equal),
        "!=" => Some(Compare::NotEqual),
        "<" => Some(Compare::Less),
        "<=" => Some(Compare::LessOrEqual),
        ">" => Some(Compare::Greater),
        ">=" => Some(Compare::GreaterOrEqual),
        "~" => Some(Compare::Matches),
        "!~" => Some(Compare::MatchesNot),
        _ => None,
    }
}

fn sum(cursor: &mut Cursor) -> Parsed<Expr> {
    terms(cursor, &[("+", Arithmetic::Add), ("-", Arithmetic::Subtract)], product, ExprKind::Sum)
}

fn product(cursor: &mut Cursor) -> Parsed<Expr> {
    let operators = [("*", Arithmetic::Multiply), ("/", Arithmetic::Divide), ("%", Arithmetic::Remainder)];
    terms(cursor, &operators, member, ExprKind::Product)
}

fn terms(
    cursor: &mut Cursor,
    operators: &[(&str, Arithmetic)],
    part: fn(&mut Cursor) -> Parsed<Expr>,
    kind: fn(Box<Expr>, Vec<Term>) -> ExprKind,
) -> Parsed<Expr> {
    let first = part(cursor)?;
    let mut span = first.span;
    let mut terms = Vec::new();
    while let Some((_, operator)) = operators.iter().find(|(symbol, _)| cursor.peek().is(symbol)) {
        let operator_span = cursor.take().span;
        let value = part(cursor)?;
        span = join(span, value.span);
        terms.push(Term { operator: *operator, span: operator_span, value });
    }
    match terms.is_empty() {
        true => Ok(first),
        false => Ok(Expr { kind: kind(Box::new(first), terms), span }),
    }
}

/// What binds closest: a value, and what is asked of it.
pub fn member(cursor: &mut Cursor) -> Parsed<Expr> {
    let of = primary(cursor)?;
    let mut span = of.span;
    let mut members = Vec::new();
    while cursor.eat(".") {
        let name = cursor.expect_name("a name behind the point")?;
        span = join(span, name.span);
        let args = match cursor.peek().is("(") {
            true => Some(arguments(cursor, &mut span)?),
            false => None,
        };
        members.push(Member { name, args });
    }
    match members.is_empty() {
        true => Ok(of),
        false => Ok(Expr { kind: ExprKind::Members(Box::new(of), members), span }),
    }
}

fn primary(cursor: &mut Cursor) -> Parsed<Expr> {
    let token = cursor.peek();
    let mut span = token.span;
    let kind = match &token.kind {
        Kind::Symbol("(") => {
            cursor.take();
            let inner = expression(cursor)?;
            let end = cursor.expect(")", "behind the expression")?;
            return Ok(Expr { kind: inner.kind, span: join(span, end) });
        }
        Kind::Symbol("-") => {
            cursor.take();
            match cursor.peek().kind {
                Kind::Int(_) | Kind::Real(_) => number(cursor, true, &mut span)?,
                _ => {
                    let inner = expression(cursor)?;
                    span = join(span, inner.span);
                    ExprKind::Negate(Box::new(inner))
                }
            }
        }
        Kind::Int(_) | Kind::Real(_) => number(cursor, false, &mut span)?,
        Kind::Text(text) => {
            cursor.take();
            juxtaposed(cursor)?;
            ExprKind::Text(text.clone())
        }
        Kind::Blob(bytes) => {
            cursor.take();
            ExprKind::Blob(bytes.clone())
        }
        Kind::Name(_) => {
            let path = path(cursor, "a value")?;
            span = path.span();
            match cursor.peek().is("(") {
                true => ExprKind::Call(path, arguments(cursor, &mut span)?),
                false => ExprKind::Path(path),
            }
        }
        Kind::InlineC | Kind::Symbol(_) | Kind::End => {
            return cursor.fail(Diagnostic::error(format!("expected a value, found {}", token.describe())).at(span));
        }
    };
    Ok(Expr { kind, span })
}

/// Two strings in a row were one until VCL 4.0.
fn juxtaposed(cursor: &mut Cursor) -> Parsed {
    let token = cursor.peek();
    match &token.kind {
        Kind::Text(_) => cursor.fail(
            Diagnostic::error("expected an operator behind the string, found a string")
                .at(token.span)
                .help("join strings with +"),
        ),
        _ => Ok(()),
    }
}

/// A number, of which `span` has the sign.
fn number(cursor: &mut Cursor, negative: bool, span: &mut Span) -> Parsed<ExprKind> {
    let (number, end) = digits(cursor)?;
    *span = join(*span, end);
    Ok(ExprKind::Number { negative, number })
}

/// The digits of a number, and its unit: a name that touches it, or that could be nothing else.
pub fn digits(cursor: &mut Cursor) -> Parsed<(Number, Span)> {
    const UNITS: [&str; 16] = ["ms", "s", "m", "h", "d", "w", "y", "b", "k", "kb", "mb", "g", "gb", "t", "tb", "pb"];
    let token = cursor.peek();
    let value = match token.kind {
        Kind::Int(value) => Digits::Int(value),
        Kind::Real(value) => Digits::Real(value),
        Kind::Name(_) | Kind::Text(_) | Kind::Blob(_) | Kind::InlineC | Kind::Symbol(_) | Kind::End => {
            let message = format!("expected a number, found {}", token.describe());
            return cursor.fail(Diagnostic::error(message).at(token.span));
        }
    };
    cursor.take();
    let next = cursor.peek();
    let touches = next.span.file == token.span.file && next.span.start == token.span.end;
    match &next.kind {
        Kind::Name(name) if touches || UNITS.iter().any(|unit| unit.eq_ignore_ascii_case(name)) => {
            cursor.take();
            let unit = Word { text: name.clone(), span: next.span, quoted: false };
            Ok((Number { value, unit: Some(unit) }, join(token.span, next.span)))
        }
        _ => Ok((Number { value, unit: None }, token.span)),
    }
}

/// A dotted name, whose later parts may stand in quotes.
pub fn path(cursor: &mut Cursor, what: &str) -> Parsed<Path> {
    let first = cursor.expect_name(what)?;
    let mut rest = Vec::new();
    while cursor.peek().is(".") {
        if rest.len() == PATH_PARTS_MAX {
            let span = cursor.peek().span;
            return cursor.fail(Diagnostic::error("no name has so many points").at(span));
        }
        let part = match &cursor.ahead(1).kind {
            Kind::Name(name) => Word { text: name.clone(), span: cursor.ahead(1).span, quoted: false },
            Kind::Text(text) => {
                let text = String::from_utf8_lossy(text).into_owned();
                Word { text, span: cursor.ahead(1).span, quoted: true }
            }
            _ => {
                let after = cursor.ahead(1);
                let message = format!("expected a name behind the point, found {}", after.describe());
                return cursor.fail(Diagnostic::error(message).at(after.span));
            }
        };
        cursor.take();
        cursor.take();
        rest.push(part);
    }
    Ok(Path { first, rest })
}

/// `(A, NAME = B, ...)`; `span` grows to its end.
pub fn arguments(cursor: &mut Cursor, span: &mut Span) -> Parsed<Vec<Arg>> {
    cursor.expect("(", "before the arguments")?;
    let mut args = Vec::new();
    while !cursor.peek().is(")") {
        let name = match cursor.ahead(1).is("=") {
            true => Some(cursor.expect_name("the name of an argument")?),
            false => None,
        };
        if name.is_some() {
            cursor.take();
        }
        args.push(Arg { name, value: expression(cursor)? });
        if !cursor.eat(",") {
            break;
        }
    }
    let end = cursor.expect(")", "behind the arguments")?;
    *span = join(*span, end);
    Ok(args)
}
