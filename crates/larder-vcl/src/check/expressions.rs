//! Types of expressions, and what becomes of a value where another type is wanted.
//!
//! What is wanted goes down into an expression, as in Varnish: `10m` is ten megabytes where BYTES are wanted and ten
//! minutes elsewhere, and a string is an address where an IP is.

use larder_source::{Diagnostic, Span, nearest};

use super::calls::{Bound, bind};
use super::cx::{Cx, Deed, Symbol, Use};
use super::operators::{begins_sum, is_comparable, may_be_negative, sum_of};
use super::resolve::{Builtin, Meaning, no_property, resolve, span_to};
use super::upstreams;
use super::values::{self, BYTES_HELP, DURATION_HELP};
use crate::ast::{self, Arithmetic, Compare, Comparison, Digits, ExprKind as Ast, Path, Term, Word};
use crate::functions::addresses::address;
use crate::policy::{Argument, Expr, ExprKind, Property, SubId};
use crate::types::Type;
use crate::vars::Rule;
use crate::vmods::{self, Function, Parameter};

/// How many operators of arithmetic, or names behind points, may stand in a row: each makes the tree one deeper.
const CHAIN_MAX: usize = 20;

/// The value of an expression where one of this type is wanted. What has no such value is reported.
pub fn value(cx: &mut Cx, expr: &ast::Expr, want: Type) -> Option<Expr> {
    let found = typed(cx, expr, want)?;
    let found = match want {
        Type::String => to_text(cx, found)?,
        Type::Bool => to_bool(found),
        Type::Body if matches!(found.ty, Type::Blob) => to_body(found),
        Type::Body => to_body(to_text(cx, found)?),
        _ => found,
    };
    if found.ty == want {
        return Some(found);
    }
    let message = format!("expected {}, found {}", want.name(), found.ty.name());
    let diagnostic = Diagnostic::error(message).at(expr.span);
    if let (Ast::Text(_), Some(help)) = (&expr.kind, without_quotes(want)) {
        return cx.fail(diagnostic.help(help));
    }
    cx.fail(match (want, found.ty) {
        (Type::Duration, Type::Int | Type::Real) => diagnostic.help(DURATION_HELP),
        (Type::Ip, Type::String) => diagnostic.help("write std.ip(TEXT, FALLBACK)"),
        (Type::Int, Type::String) => diagnostic.help("write std.integer(TEXT, FALLBACK)"),
        (Type::Regex, Type::String) => diagnostic.help("a regular expression is one string, which cannot be computed"),
        (Type::Regex, Type::Acl) => {
            diagnostic.help("only an IP can be matched with an ACL; of text std.ip(...) makes one")
        }
        _ => diagnostic,
    })
}

/// What to say of a text where a value of this type is written without quotes.
fn without_quotes(want: Type) -> Option<&'static str> {
    match want {
        Type::Int | Type::Real => Some("write the number without quotes"),
        Type::Duration | Type::Bytes => Some("write the number and its unit without quotes"),
        Type::Backend | Type::Acl | Type::Probe | Type::Sub => Some("write the name without quotes"),
        Type::Stevedore => Some("write storage.NAME, without quotes"),
        _ => None,
    }
}

/// The value of an expression, of the type that it has. `hint` is what is wanted, for what could be several things.
fn typed(cx: &mut Cx, expr: &ast::Expr, hint: Type) -> Option<Expr> {
    let span = expr.span;
    match &expr.kind {
        Ast::Or(parts) => Some(make(ExprKind::Or(conditions(cx, parts, hint, "||")?), Type::Bool, span)),
        Ast::And(parts) => Some(make(ExprKind::And(conditions(cx, parts, hint, "&&")?), Type::Bool, span)),
        Ast::Not(inner) => {
            let inner = condition(cx, inner, hint, "!")?;
            Some(make(ExprKind::Not(Box::new(inner)), Type::Bool, span))
        }
        Ast::Compare(comparison) => compare(cx, comparison, hint, span),
        Ast::Sum(first, terms) => match joined(first, terms).filter(|_| hint == Type::Regex) {
            Some(pattern) => text(cx, &pattern, hint, span),
            None => sum(cx, first, terms, hint),
        },
        Ast::Product(first, terms) => product(cx, first, terms, hint),
        Ast::Negate(inner) => negate(cx, inner, hint, span),
        Ast::Number { negative, number } => self::number(cx, *negative, number, hint, span),
        Ast::Text(text) => self::text(cx, text, hint, span),
        Ast::Blob(bytes) => Some(make(ExprKind::Blob(bytes.clone()), Type::Blob, span)),
        Ast::Path(path) => named(cx, path, None, hint, span),
        Ast::Call(path, args) => named(cx, path, Some(args), hint, span),
        Ast::Members(of, members) => {
            let mut found = typed(cx, of, Type::String)?;
            for (at, member) in members.iter().enumerate() {
                within_chain(cx, at, member.name.span)?;
                found = property(cx, fold(found, Type::String), &member.name, member.args.as_deref())?;
            }
            Some(found)
        }
    }
}

fn make(kind: ExprKind, ty: Type, span: Span) -> Expr {
    Expr { kind, ty, span }
}

/// Reports a chain that is too long.
fn within_chain(cx: &mut Cx, at: usize, span: Span) -> Option<()> {
    match at < CHAIN_MAX {
        true => Some(()),
        false => cx.fail(Diagnostic::error(format!("more than {CHAIN_MAX} in a row")).at(span)),
    }
}

/// What is no text as text, if it can be.
fn to_text(cx: &mut Cx, found: Expr) -> Option<Expr> {
    if found.ty == Type::String {
        return Some(found);
    }
    if !found.ty.has_text() {
        let message = format!("{} cannot be made text", found.ty.described());
        return cx.fail(Diagnostic::error(message).at(found.span));
    }
    let span = found.span;
    Some(make(ExprKind::ToText(Box::new(found)), Type::String, span))
}

/// True or false, if it can be that.
fn to_bool(found: Expr) -> Expr {
    if found.ty == Type::Bool || !found.ty.has_truth() {
        return found;
    }
    let span = found.span;
    make(ExprKind::ToBool(Box::new(found)), Type::Bool, span)
}

fn to_body(found: Expr) -> Expr {
    let span = found.span;
    make(ExprKind::ToBody(Box::new(found)), Type::Body, span)
}

/// A header is text, unless the header itself is wanted.
fn fold(found: Expr, hint: Type) -> Expr {
    if found.ty != Type::Header || hint == Type::Header {
        return found;
    }
    let span = found.span;
    make(ExprKind::ToText(Box::new(found)), Type::String, span)
}

fn conditions(cx: &mut Cx, parts: &[ast::Expr], hint: Type, operator: &str) -> Option<Vec<Expr>> {
    // All of them are checked, even behind one that is wrong.
    let found: Vec<Option<Expr>> = parts.iter().map(|part| condition(cx, part, hint, operator)).collect();
    found.into_iter().collect()
}

fn condition(cx: &mut Cx, part: &ast::Expr, hint: Type, operator: &str) -> Option<Expr> {
    let found = to_bool(typed(cx, part, hint)?);
    if found.ty == Type::Bool {
        return Some(found);
    }
    let message = format!("\"{operator}\" wants a BOOL, found {}", found.ty.name());
    cx.fail(Diagnostic::error(message).at(part.span))
}

fn compare(cx: &mut Cx, comparison: &Comparison, hint: Type, span: Span) -> Option<Expr> {
    let left = typed(cx, &comparison.left, hint)?;
    let is_match = matches!(comparison.operator, Compare::Matches | Compare::MatchesNot);
    if !is_comparable(left.ty, comparison.operator) {
        let symbol = comparison.operator.symbol();
        let message = format!("\"{symbol}\" cannot be used on {}", left.ty.name());
        return cx.fail(Diagnostic::error(message).at(comparison.span).related(left.span, "this is on its left"));
    }
    if is_match {
        return matched(cx, left, comparison, span);
    }
    let right = typed(cx, &comparison.right, left.ty)?;
    if right.ty != left.ty {
        let message = format!("{} is compared with {}", left.ty.described(), right.ty.described());
        let diagnostic = Diagnostic::error(message).at(comparison.right.span);
        return cx.fail(diagnostic.related(left.span, format!("this is {}", left.ty.described())));
    }
    let kind = ExprKind::Compare(comparison.operator, Box::new(left), Box::new(right));
    Some(make(kind, Type::Bool, span))
}

/// `~` and `!~`: text with a regular expression, or an address with an ACL.
fn matched(cx: &mut Cx, left: Expr, comparison: &Comparison, span: Span) -> Option<Expr> {
    let kind = match left.ty {
        Type::Ip => {
            let acl = value(cx, &comparison.right, Type::Acl)?;
            ExprKind::InAcl { ip: Box::new(left), acl: Box::new(acl) }
        }
        _ => {
            let regex = value(cx, &comparison.right, Type::Regex)?;
            ExprKind::Match { text: Box::new(left), regex: Box::new(regex) }
        }
    };
    let found = make(kind, Type::Bool, span);
    match comparison.operator {
        Compare::MatchesNot => Some(make(ExprKind::Not(Box::new(found)), Type::Bool, span)),
        _ => Some(found),
    }
}

fn sum(cx: &mut Cx, first: &ast::Expr, terms: &[Term], hint: Type) -> Option<Expr> {
    let wants_text = hint == Type::String;
    let mut found = typed(cx, first, hint)?;
    let mut numbers = 0;
    for term in terms {
        let left = found.ty;
        let is_number = begins_sum(left, term.operator);
        let right = typed(cx, &term.value, if !is_number && wants_text { Type::String } else { left })?;
        let span = ast::join(found.span, right.span);
        let made = sum_of(left, term.operator, right.ty);
        found = match made {
            Some(ty) => {
                within_chain(cx, numbers, term.span)?;
                numbers += 1;
                make(ExprKind::Arithmetic(term.operator, Box::new(found), Box::new(right)), ty, span)
            }
            None if term.operator == Arithmetic::Add && (left == Type::String || wants_text) => {
                concat(to_text(cx, found)?, to_text(cx, right)?, span)
            }
            None => return impossible(cx, left, term, right.ty),
        };
    }
    Some(found)
}

/// Two texts as one, with all their parts in one list.
fn concat(left: Expr, right: Expr, span: Span) -> Expr {
    let parts = |expr: Expr| match expr.kind {
        ExprKind::Concat(parts) => parts,
        kind => vec![Expr { kind, ..expr }],
    };
    let mut all = parts(left);
    all.extend(parts(right));
    make(ExprKind::Concat(all), Type::String, span)
}

fn product(cx: &mut Cx, first: &ast::Expr, terms: &[Term], hint: Type) -> Option<Expr> {
    let mut found = typed(cx, first, hint)?;
    for (at, term) in terms.iter().enumerate() {
        within_chain(cx, at, term.span)?;
        let factor = match term.operator {
            Arithmetic::Remainder if found.ty != Type::Int => None,
            _ => found.ty.factor(),
        };
        let Some(factor) = factor else {
            let message = format!("\"{}\" cannot be used on {}", term.operator.symbol(), found.ty.name());
            return cx.fail(Diagnostic::error(message).at(term.span));
        };
        let right = typed(cx, &term.value, factor)?;
        if right.ty != Type::Int && right.ty != factor {
            return impossible(cx, found.ty, term, right.ty);
        }
        let (ty, span) = (found.ty, ast::join(found.span, right.span));
        found = make(ExprKind::Arithmetic(term.operator, Box::new(found), Box::new(right)), ty, span);
    }
    Some(found)
}

fn impossible<T>(cx: &mut Cx, left: Type, term: &Term, right: Type) -> Option<T> {
    let message = format!("{} {} {} is not possible", left.name(), term.operator.symbol(), right.name());
    let diagnostic = Diagnostic::error(message).at(term.span);
    cx.fail(match left == Type::String || right == Type::String {
        true => diagnostic.help("std.integer(), std.real() and std.duration() make numbers of text"),
        false => diagnostic,
    })
}

fn negate(cx: &mut Cx, inner: &ast::Expr, hint: Type, span: Span) -> Option<Expr> {
    let found = typed(cx, inner, hint)?;
    match found.ty {
        Type::Bytes | Type::Duration | Type::Int | Type::Real | Type::Time if may_be_negative(hint) => {
            let ty = found.ty;
            Some(make(ExprKind::Negate(Box::new(found)), ty, span))
        }
        ty => cx.fail(Diagnostic::error(format!("\"-\" cannot stand before {} here", ty.described())).at(span)),
    }
}

fn number(cx: &mut Cx, negative: bool, number: &ast::Number, hint: Type, span: Span) -> Option<Expr> {
    if negative && !may_be_negative(hint) {
        return cx.fail(Diagnostic::error("a number cannot have a sign here").at(span));
    }
    let sign = if negative { -1.0 } else { 1.0 };
    let (kind, ty) = match (&number.unit, number.value) {
        (Some(unit), value) if hint == Type::Bytes => match values::bytes(value, &unit.text) {
            Some(bytes) => (ExprKind::Bytes(bytes), Type::Bytes),
            None => return cx.fail(Diagnostic::error("this is no number of BYTES").at(span).help(BYTES_HELP)),
        },
        (None, _) if hint == Type::Bytes => {
            return cx.fail(Diagnostic::error("a number of BYTES needs a unit").at(span).help(BYTES_HELP));
        }
        (Some(unit), value) => match values::seconds(value, &unit.text) {
            Some(seconds) => (ExprKind::Duration(sign * seconds), Type::Duration),
            None => {
                let message = format!("\"{}\" is no unit of time", unit.text);
                return cx.fail(Diagnostic::error(message).at(unit.span).help(DURATION_HELP));
            }
        },
        (None, Digits::Int(value)) if hint != Type::Real => {
            (ExprKind::Int(if negative { -value } else { value }), Type::Int)
        }
        (None, value) => (ExprKind::Real(sign * values::real(value)), Type::Real),
    };
    Some(make(kind, ty, span))
}

/// A string: an address or a regular expression where one is wanted.
fn text(cx: &mut Cx, text: &[u8], hint: Type, span: Span) -> Option<Expr> {
    let (kind, ty) = match hint {
        Type::Ip => {
            let text = String::from_utf8_lossy(text);
            match address(&text, 80) {
                Some(address) => (ExprKind::Ip(address), Type::Ip),
                None => {
                    let diagnostic = Diagnostic::error(format!("\"{text}\" is no address")).at(span);
                    return cx.fail(diagnostic.help("a name is resolved by std.ip(NAME, FALLBACK)"));
                }
            }
        }
        Type::Regex => (ExprKind::Regex(cx.regex(text, span)?), Type::Regex),
        _ => (ExprKind::Text(text.to_vec()), Type::String),
    };
    Some(make(kind, ty, span))
}

/// Strings that are added up, as one.
fn joined(first: &ast::Expr, terms: &[Term]) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let adds = terms.iter().all(|term| term.operator == Arithmetic::Add);
    for part in std::iter::once(first).chain(terms.iter().map(|term| &term.value)) {
        match &part.kind {
            Ast::Text(part) if adds => text.extend_from_slice(part),
            _ => return None,
        }
    }
    Some(text)
}

/// A name with what stands behind its points, and perhaps the arguments of a call behind the last.
fn named(cx: &mut Cx, path: &Path, args: Option<&[ast::Arg]>, hint: Type, span: Span) -> Option<Expr> {
    let (meaning, rest) = resolve(cx, path)?;
    let here = span_to(path, rest);
    // The arguments belong to the last part of the name.
    let (own_args, own_span) = if rest.is_empty() { (args, span) } else { (None, here) };
    let mut rest = rest;
    // What some calls stand for is known here.
    let is_function = matches!(meaning, Meaning::Function(_));
    let mut found = match meaning {
        Meaning::Variable(variable) => {
            read(cx, variable.rule(), variable.rule().name, here);
            make(ExprKind::Variable(variable), variable.rule().ty, here)
        }
        Meaning::Header(header, rule) => {
            read(cx, &rule, &path.text(), here);
            make(ExprKind::Header(header), Type::Header, here)
        }
        Meaning::Storage(storage) => make(ExprKind::Storage(storage), Type::Stevedore, here),
        Meaning::Function(function) => call(cx, function, own_args, own_span)?,
        Meaning::Builtin(builtin) => self::builtin(cx, builtin, own_args, hint, own_span)?,
        Meaning::Symbol(Symbol::Object(object)) => {
            let Some((name, more)) = rest.split_first() else {
                let message = format!("\"{}\" is an object, and no value", path.first.text);
                return cx.fail(Diagnostic::error(message).at(here).help("call one of its methods"));
            };
            rest = more;
            let args = args.filter(|_| more.is_empty());
            method(cx, object, name, args, ast::join(here, if more.is_empty() { span } else { name.span }))?
        }
        Meaning::Symbol(symbol) => symbol_value(cx, symbol, hint, here)?,
    };
    let is_called = is_function || matches!(found.kind, ExprKind::Method { .. } | ExprKind::Regsub { .. });
    if rest.is_empty() && args.is_some() && !is_called {
        let message = format!("\"{}\" is no function", path.text());
        return cx.fail(Diagnostic::error(message).at(here));
    }
    if rest.is_empty() {
        return Some(fold(found, hint));
    }
    for (at, name) in rest.iter().enumerate() {
        within_chain(cx, at, name.span)?;
        let args = args.filter(|_| at + 1 == rest.len());
        found = property(cx, fold(found, Type::String), name, args)?;
    }
    Some(found)
}

/// Notes that a variable is read.
fn read(cx: &mut Cx, rule: &Rule, name: &str, span: Span) {
    let name = name.to_owned();
    cx.deeds().uses.push(Use { name, deed: Deed::Read, span, allowed: rule.read });
}

fn symbol_value(cx: &mut Cx, symbol: Symbol, hint: Type, span: Span) -> Option<Expr> {
    let (kind, ty) = match symbol {
        Symbol::Backend(id) => (ExprKind::Backend(id), Type::Backend),
        Symbol::Probe(id) => (ExprKind::Probe(id), Type::Probe),
        Symbol::Acl(id) => (ExprKind::Acl(id), Type::Acl),
        Symbol::Sub(id) if hint == Type::Sub => (ExprKind::Sub(passed(cx, id, span)), Type::Sub),
        Symbol::Sub(_) | Symbol::Object(_) | Symbol::Module(_) => {
            let message = format!("{} is no value", symbol.described());
            return cx.fail(Diagnostic::error(message).at(span));
        }
    };
    Some(make(kind, ty, span))
}

/// A sub that a function is given: it is as if it were called here.
fn passed(cx: &mut Cx, sub: SubId, span: Span) -> SubId {
    cx.deeds().calls.push((sub, span));
    sub
}

fn builtin(cx: &mut Cx, builtin: Builtin, args: Option<&[ast::Arg]>, hint: Type, span: Span) -> Option<Expr> {
    match (builtin, hint) {
        (Builtin::True, _) => Some(make(ExprKind::Bool(true), Type::Bool, span)),
        (Builtin::False, _) => Some(make(ExprKind::Bool(false), Type::Bool, span)),
        (Builtin::Default, Type::Backend) => Some(make(ExprKind::DefaultBackend, Type::Backend, span)),
        (Builtin::Default, Type::Probe) => match cx.policy.default_probe {
            Some(probe) => Some(make(ExprKind::Probe(probe), Type::Probe, span)),
            None => cx.fail(Diagnostic::error("there is no probe \"default\"").at(span)),
        },
        (Builtin::Default, _) => {
            cx.fail(Diagnostic::error("\"default\" stands for a backend or a probe only").at(span))
        }
        (Builtin::Regsub, _) => regsub(cx, false, args, span),
        (Builtin::RegsubAll, _) => regsub(cx, true, args, span),
    }
}

fn regsub(cx: &mut Cx, all: bool, args: Option<&[ast::Arg]>, span: Span) -> Option<Expr> {
    let Some([text, regex, with]) = args.filter(|args| args.iter().all(|arg| arg.name.is_none())) else {
        let name = if all { "regsuball" } else { "regsub" };
        let help = format!("write {name}(TEXT, REGEX, REPLACEMENT)");
        return cx.fail(Diagnostic::error(format!("{name} takes three arguments")).at(span).help(help));
    };
    let text = value(cx, &text.value, Type::String);
    let regex = value(cx, &regex.value, Type::Regex);
    let with = value(cx, &with.value, Type::String);
    let kind = ExprKind::Regsub { all, text: Box::new(text?), regex: Box::new(regex?), with: Box::new(with?) };
    Some(make(kind, Type::String, span))
}

fn call(cx: &mut Cx, id: vmods::FunctionId, args: Option<&[ast::Arg]>, span: Span) -> Option<Expr> {
    let function = id.function();
    let name = format!("{}.{}", id.module(), function.name);
    let args = called(cx, function, name, args, span)?;
    if (id.module(), function.name) == (upstreams::MODULE, upstreams::FUNCTION) {
        return upstreams::upstream(cx, &args, span);
    }
    Some(make(ExprKind::Call { function: id, args }, function.returns, span))
}

fn method(
    cx: &mut Cx,
    object: crate::policy::ObjectId,
    name: &Word,
    args: Option<&[ast::Arg]>,
    span: Span,
) -> Option<Expr> {
    let ty = cx.policy.objects[object.0 as usize].ty;
    let Some(id) = vmods::method(ty, &name.text) else {
        let message = format!("a {}.{} has no method \"{}\"", ty.module(), ty.object().name, name.text);
        let diagnostic = Diagnostic::error(message).at(name.span);
        let names = ty.object().methods.iter().map(|method| method.name);
        return cx.fail(match nearest(&name.text, names) {
            Some(near) => diagnostic.help(format!("did you mean \"{near}\"?")),
            None => diagnostic,
        });
    };
    let method = id.method();
    let full = format!("{}.{}", cx.policy.objects[object.0 as usize].name, method.name);
    let args = called(cx, method, full, args, span)?;
    Some(make(ExprKind::Method { object, method: id, args }, method.returns, span))
}

fn called(
    cx: &mut Cx,
    function: &Function,
    name: String,
    args: Option<&[ast::Arg]>,
    span: Span,
) -> Option<Vec<Argument>> {
    let Some(args) = args else {
        let message = format!("\"{name}\" is a function");
        return cx.fail(Diagnostic::error(message).at(span).help(format!("write {name}(...)")));
    };
    cx.deeds().uses.push(Use { name, deed: Deed::Call, span, allowed: function.steps });
    arguments(cx, &function.parameters, args, span)
}

/// The values of arguments, in the order of the parameters.
pub fn arguments(cx: &mut Cx, parameters: &[Parameter], args: &[ast::Arg], span: Span) -> Option<Vec<Argument>> {
    let bound = bind(cx, parameters, args, span)?;
    let found: Vec<Option<Argument>> = parameters
        .iter()
        .zip(bound)
        .map(|(parameter, bound)| match bound {
            Bound::Given(given) => value(cx, given, parameter.ty).map(Argument::Value),
            Bound::Ready(argument) => Some(argument),
        })
        .collect();
    found.into_iter().collect()
}

/// What belongs to a value of its type.
fn property(cx: &mut Cx, of: Expr, name: &Word, args: Option<&[ast::Arg]>) -> Option<Expr> {
    let (property, ty, is_method) = match (of.ty, name.text.to_ascii_lowercase().as_str()) {
        (Type::String, "upper") => (Property::Upper, Type::String, true),
        (Type::String, "lower") => (Property::Lower, Type::String, true),
        (Type::Backend, "resolve") => (Property::Resolve, Type::Backend, true),
        (Type::Stevedore, "free_space") => (Property::FreeSpace, Type::Bytes, false),
        (Type::Stevedore, "used_space") => (Property::UsedSpace, Type::Bytes, false),
        (Type::Stevedore, "happy") => (Property::Happy, Type::Bool, false),
        _ => return no_property(cx, &of.ty.described(), name),
    };
    let span = ast::join(of.span, name.span);
    match (is_method, args) {
        (true, Some([])) | (false, None) => Some(make(ExprKind::Property(property, Box::new(of)), ty, span)),
        (true, Some(_)) => cx.fail(Diagnostic::error("it takes no argument").at(name.span)),
        (true, None) => cx.fail(Diagnostic::error(format!("write {}()", name.text)).at(name.span)),
        (false, Some(_)) => {
            cx.fail(Diagnostic::error(format!("write {} without parentheses", name.text)).at(name.span))
        }
    }
}

/// A call as a statement, whatever its value.
pub fn typed_statement(cx: &mut Cx, expr: &ast::Expr) -> Option<Expr> {
    let found = typed(cx, expr, Type::Header)?;
    match found.kind {
        ExprKind::Call { .. } | ExprKind::Method { .. } => Some(found),
        _ => cx.fail(
            Diagnostic::error("this is no statement").at(expr.span).help("only a call of a module or an object is one"),
        ),
    }
}
