//! Which argument of a call is for which parameter.

use larder_source::{Diagnostic, Span, nearest};

use super::cx::Cx;
use crate::ast::{self, ExprKind, Path};
use crate::policy::{Argument, Expr, ExprKind as Kind};
use crate::types::Type;
use crate::vmods::{Default, Parameter};

/// What is for a parameter.
pub enum Bound<'a> {
    /// A value that is still to be checked.
    Given(&'a ast::Expr),
    /// What needs no check.
    Ready(Argument),
}

/// What is for each of the parameters, in their order. `span` is that of the call.
///
/// Arguments without a name come first, in the order of the parameters; an argument behind one with a name needs one
/// too.
pub fn bind<'a>(cx: &mut Cx, parameters: &[Parameter], args: &'a [ast::Arg], span: Span) -> Option<Vec<Bound<'a>>> {
    let mut given: Vec<Option<&ast::Arg>> = vec![None; parameters.len()];
    let mut has_names = false;
    for (at, arg) in args.iter().enumerate() {
        let Some(name) = &arg.name else {
            if has_names {
                let message = "an argument behind one with a name needs a name too";
                return cx.fail(Diagnostic::error(message).at(arg.value.span));
            }
            let Some(place) = given.get_mut(at) else {
                return cx.fail(too_many(parameters.len()).at(arg.value.span));
            };
            *place = Some(arg);
            continue;
        };
        has_names = true;
        let Some(at) = parameters.iter().position(|parameter| parameter.name == Some(name.text.as_str())) else {
            let diagnostic = Diagnostic::error(format!("there is no argument \"{}\"", name.text)).at(name.span);
            let names: Vec<&str> = parameters.iter().filter_map(|parameter| parameter.name).collect();
            return cx.fail(match nearest(&name.text, names.iter().copied()) {
                Some(near) => diagnostic.help(format!("did you mean \"{near}\"?")),
                None if names.is_empty() => diagnostic.help("its arguments have no names"),
                None => diagnostic.help(format!("the arguments are {}", names.join(", "))),
            });
        };
        if let Some(first) = given[at].replace(arg) {
            let message = format!("the argument \"{}\" is given twice", name.text);
            return cx
                .fail(Diagnostic::error(message).at(name.span).related(first.value.span, "it is given here first"));
        }
    }
    let pairs = parameters.iter().zip(given).enumerate();
    pairs.map(|(at, (parameter, arg))| bound(cx, parameter, at, arg, span)).collect()
}

fn too_many(count: usize) -> Box<Diagnostic> {
    let message = match count {
        0 => "it takes no argument".to_owned(),
        1 => "it takes one argument".to_owned(),
        count => format!("it takes {count} arguments"),
    };
    Diagnostic::error(message)
}

fn bound<'a>(
    cx: &mut Cx,
    parameter: &Parameter,
    at: usize,
    arg: Option<&'a ast::Arg>,
    span: Span,
) -> Option<Bound<'a>> {
    if let Some(arg) = arg {
        return match parameter.ty {
            Type::Enum => Some(Bound::Ready(Argument::Word(word(cx, parameter, &arg.value)?))),
            _ => Some(Bound::Given(&arg.value)),
        };
    }
    match &parameter.default {
        _ if parameter.is_optional => Some(Bound::Ready(Argument::None)),
        Some(default) => Some(Bound::Ready(constant(parameter.ty, default, span))),
        None => {
            let what = parameter.name.map_or_else(|| format!("number {}", at + 1), |name| format!("\"{name}\""));
            let message = format!("the argument {what} is missing, {}", parameter.ty.described());
            cx.fail(Diagnostic::error(message).at(span))
        }
    }
}

/// Which of its words an argument is.
fn word(cx: &mut Cx, parameter: &Parameter, value: &ast::Expr) -> Option<usize> {
    let given = match &value.kind {
        ExprKind::Path(Path { first, rest }) if rest.is_empty() => Some(first.text.as_str()),
        _ => None,
    };
    let found = parameter.words.iter().position(|word| Some(*word) == given);
    found.or_else(|| {
        let help = format!("it is one of {}", parameter.words.join(", "));
        cx.fail(Diagnostic::error("this is none of the words for the argument").at(value.span).help(help))
    })
}

/// What a default is as a value of its type. Of what has no number it is nothing.
fn constant(ty: Type, default: &Default, span: Span) -> Argument {
    let kind = match (ty, default) {
        (_, Default::Word(at)) => return Argument::Word(*at),
        (_, Default::Text(text)) => Kind::Text(text.as_bytes().to_vec()),
        (Type::Bool, Default::Number(number)) => Kind::Bool(*number != 0.0),
        (Type::Int, Default::Number(number)) => Kind::Int(*number as i64),
        (Type::Bytes, Default::Number(number)) => Kind::Bytes(*number as i64),
        (Type::Real, Default::Number(number)) => Kind::Real(*number),
        (Type::Duration, Default::Number(number)) => Kind::Duration(*number),
        (_, Default::Number(_)) => return Argument::None,
    };
    Argument::Value(Expr { kind, ty, span })
}
