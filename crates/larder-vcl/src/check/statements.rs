//! Statements: what they may do to what.

use larder_source::{Diagnostic, Span, nearest};

use super::cx::{Cx, Deed, Symbol, Use};
use super::expressions::{arguments, typed_statement, value};
use super::resolve::{Meaning, no_property, no_property_of_header, resolve};
use crate::ast::{self, Assign, Path, Word, join};
use crate::old;
use crate::policy::{Expr, LabelId, Object, ObjectId, Place, Return, Statement, StatementKind};
use crate::steps::{Action, Step, Steps};
use crate::types::Type;
use crate::vmods;

/// The statements of a block. Those with errors are left out, and all behind too many errors.
pub fn statements(cx: &mut Cx, all: &[ast::Statement]) -> Vec<Statement> {
    all.iter().filter_map(|one| if cx.is_full() { None } else { statement(cx, one) }).collect()
}

fn statement(cx: &mut Cx, statement: &ast::Statement) -> Option<Statement> {
    let (kind, span) = match statement {
        ast::Statement::Set { target, assign, assign_span, value } => {
            (set(cx, target, *assign, *assign_span, value)?, join(target.span(), value.span))
        }
        ast::Statement::Unset(target) => (unset(cx, target)?, target.span()),
        ast::Statement::If { branches, otherwise } => condition(cx, branches, otherwise),
        ast::Statement::Call(target) => (call(cx, target)?, target.span()),
        ast::Statement::Return { span, action: None } => (leave(cx, *span)?, *span),
        ast::Statement::Return { span, action: Some(action) } => (give_back(cx, action)?, *span),
        ast::Statement::Builtin { name, value } => (builtin(cx, name, value)?, name.span),
        ast::Statement::New { name, object, args, args_span } => (new(cx, name, object, args, *args_span)?, name.span),
        ast::Statement::Do(expr) => (StatementKind::Do(typed_statement(cx, expr)?), expr.span),
        ast::Statement::Block(inner) => {
            let inner = statements(cx, inner);
            let span = inner.first().map_or(Span::NOWHERE, |first| first.span);
            (StatementKind::Block(inner), span)
        }
    };
    Some(Statement { kind, span })
}

/// A variable or a header that is set or unset.
struct Target {
    place: Place,
    ty: Type,
    /// In which subs that may be done.
    allowed: Steps,
    /// Whether it can be read at all.
    is_readable: bool,
}

fn target(cx: &mut Cx, path: &Path, deed: Deed) -> Option<Target> {
    let (meaning, rest) = resolve(cx, path)?;
    let (place, rule) = match meaning {
        Meaning::Variable(variable) => (Place::Variable(variable), *variable.rule()),
        Meaning::Header(header, rule) => (Place::Header(header), rule),
        Meaning::Storage(_) | Meaning::Symbol(_) | Meaning::Function(_) | Meaning::Builtin(_) => {
            return cx.fail(Diagnostic::error(format!("\"{}\" is no variable", path.text())).at(path.span()));
        }
    };
    if let Some(name) = rest.first() {
        if rule.ty == Type::Header {
            return no_property_of_header(cx, name);
        }
        return no_property(cx, &rule.ty.described(), name);
    }
    let allowed = match deed {
        Deed::Unset => rule.unset,
        Deed::Set | Deed::Read | Deed::Call => rule.set_in(cx.version),
    };
    Some(Target { place, ty: rule.ty, allowed, is_readable: !rule.read.is_empty() })
}

fn set(cx: &mut Cx, path: &Path, assign: Assign, assign_span: Span, value: &ast::Expr) -> Option<StatementKind> {
    let Target { place, ty, allowed, is_readable } = target(cx, path, Deed::Set)?;
    let name = path.text();
    if allowed.is_empty() {
        let message = match is_readable {
            false => format!("{name} cannot be set"),
            true => format!("{name} is read only"),
        };
        let diagnostic = Diagnostic::error(message).at(path.span());
        return cx.fail(match path.first.text.as_str() {
            "obj" => diagnostic.help("set resp in vcl_deliver and vcl_synth, and beresp in vcl_backend_response"),
            "req" if name == "req.hash" => diagnostic.help("write hash_data(...); in vcl_hash"),
            _ => diagnostic,
        });
    }
    cx.deeds().uses.push(Use { name, deed: Deed::Set, span: path.span(), allowed });
    let Some(want) = wanted(ty, assign) else {
        let message = format!("expected \"=\", as {} is {}", path.text(), ty.described());
        return cx.fail(Diagnostic::error(message).at(assign_span));
    };
    let value = self::value(cx, value, want)?;
    Some(StatementKind::Set { place, assign, value })
}

/// What a variable of this type is set to, if it can be set in this way.
fn wanted(ty: Type, assign: Assign) -> Option<Type> {
    match (ty, assign) {
        (Type::String | Type::Header, Assign::To | Assign::Add) => Some(Type::String),
        (Type::Body, Assign::To | Assign::Add) => Some(Type::Body),
        (Type::Int, _) => Some(Type::Int),
        (Type::Duration, Assign::Multiply | Assign::Divide) => Some(Type::Real),
        (Type::Duration, _) => Some(Type::Duration),
        (_, Assign::To) => Some(ty),
        (_, Assign::Add | Assign::Subtract | Assign::Multiply | Assign::Divide) => None,
    }
}

fn unset(cx: &mut Cx, path: &Path) -> Option<StatementKind> {
    let Target { place, allowed, .. } = target(cx, path, Deed::Unset)?;
    if allowed.is_empty() {
        return cx.fail(Diagnostic::error(format!("{} cannot be unset", path.text())).at(path.span()));
    }
    cx.deeds().uses.push(Use { name: path.text(), deed: Deed::Unset, span: path.span(), allowed });
    Some(StatementKind::Unset(place))
}

fn condition(
    cx: &mut Cx,
    branches: &[(ast::Expr, Vec<ast::Statement>)],
    otherwise: &[ast::Statement],
) -> (StatementKind, Span) {
    let span = branches.first().map_or(Span::NOWHERE, |(condition, _)| condition.span);
    let mut found = Vec::new();
    for (condition, body) in branches {
        // The block is checked even if its condition is wrong.
        let condition = value(cx, condition, Type::Bool);
        let body = statements(cx, body);
        found.extend(condition.map(|condition| (condition, body)));
    }
    (StatementKind::If { branches: found, otherwise: statements(cx, otherwise) }, span)
}

fn call(cx: &mut Cx, target: &Path) -> Option<StatementKind> {
    let name = &target.first.text;
    match cx.find_sub(name).filter(|_| target.rest.is_empty()) {
        Some(sub) => {
            cx.refer_to(name, Symbol::Sub(sub));
            cx.deeds().calls.push((sub, target.span()));
            Some(StatementKind::Call(sub))
        }
        None => {
            let diagnostic = Diagnostic::error(format!("there is no sub \"{}\"", target.text())).at(target.span());
            let near = nearest(name, cx.policy.subs.iter().map(|sub| sub.name.as_str()));
            let help = near.map(|near| format!("did you mean \"{near}\"?"));
            cx.fail(match help {
                Some(help) => diagnostic.help(help),
                None => diagnostic,
            })
        }
    }
}

fn leave(cx: &mut Cx, span: Span) -> Option<StatementKind> {
    let name = &cx.policy.subs[cx.sub.0].name;
    match Step::named(name) {
        None => Some(StatementKind::Leave),
        Some(step) => {
            let help = format!("the actions here are {}", names(step.actions()));
            let message = format!("return has to say what {name} leads to");
            cx.fail(Diagnostic::error(message).at(span).help(help))
        }
    }
}

fn names(actions: &[Action]) -> String {
    actions.iter().map(|action| action.name()).collect::<Vec<_>>().join(", ")
}

fn give_back(cx: &mut Cx, given: &ast::Action) -> Option<StatementKind> {
    let sub = cx.policy.subs[cx.sub.0].name.to_ascii_lowercase();
    let name = &given.name;
    let Some(action) = Action::named(&name.text) else {
        let diagnostic = Diagnostic::error(format!("there is no action \"{}\"", name.text)).at(name.span);
        let near = nearest(&name.text, Action::names()).map(|near| format!("did you mean \"{near}\"?"));
        let help = old::action(&sub, &name.text).map(str::to_owned).or(near);
        return cx.fail(match help {
            Some(help) => diagnostic.help(help),
            None => diagnostic,
        });
    };
    cx.deeds().returns.push((action, name.span));
    let args = given.args.as_deref();
    let found = match (action, args) {
        (Action::Synth, Some([status, reason @ ..])) if reason.len() <= 1 => {
            let (status, reason) = status_and_reason(cx, status, reason)?;
            Return::Synth(status, reason)
        }
        (Action::Error, Some([status, reason @ ..])) if reason.len() <= 1 => {
            let (status, reason) = status_and_reason(cx, status, reason)?;
            Return::Error(status, reason)
        }
        (Action::Pass, Some([ttl])) => Return::Pass(value(cx, ttl, Type::Duration)?),
        (Action::Fail, Some([message])) => Return::Fail(value(cx, message, Type::String)?),
        (Action::Vcl, Some([label])) => Return::Vcl(self::label(cx, label)?),
        (Action::Synth | Action::Vcl, _) | (_, Some(_)) => return wrong_arguments(cx, action, name.span),
        (action, None) => Return::Plain(action),
    };
    Some(StatementKind::Return(found))
}

fn status_and_reason(cx: &mut Cx, status: &ast::Expr, reason: &[ast::Expr]) -> Option<(Expr, Option<Expr>)> {
    let status = value(cx, status, Type::Int);
    let reason = match reason {
        [reason, ..] => Some(value(cx, reason, Type::String)?),
        [] => None,
    };
    Some((status?, reason))
}

fn wrong_arguments<T>(cx: &mut Cx, action: Action, span: Span) -> Option<T> {
    let form = match action {
        Action::Synth => "synth(STATUS) or synth(STATUS, REASON)",
        Action::Error => "error, error(STATUS) or error(STATUS, REASON)",
        Action::Pass => "pass or pass(DURATION)",
        Action::Fail => "fail or fail(MESSAGE)",
        Action::Vcl => "vcl(LABEL)",
        Action::Abandon
        | Action::Beresp
        | Action::Deliver
        | Action::Fetch
        | Action::Hash
        | Action::Lookup
        | Action::Merge
        | Action::ObjStale
        | Action::Ok
        | Action::Pipe
        | Action::Purge
        | Action::Restart
        | Action::Retry => action.name(),
    };
    let message = format!("{} is given other arguments than it takes", action.name());
    cx.fail(Diagnostic::error(message).at(span).help(format!("it is written {form}")))
}

fn label(cx: &mut Cx, expr: &ast::Expr) -> Option<LabelId> {
    let ast::ExprKind::Path(path) = &expr.kind else {
        return cx.fail(Diagnostic::error("expected the label of a VCL").at(expr.span));
    };
    let name = path.text();
    if !cx.labels.contains(&name) {
        let help = how_to_label(&name, &cx.labels);
        return cx.fail(Diagnostic::error(format!("no VCL has the label \"{name}\"")).at(expr.span).help(help));
    }
    let used = &mut cx.policy.labels;
    let at = used.iter().position(|label| *label == name).unwrap_or_else(|| {
        used.push(name);
        used.len() - 1
    });
    Some(LabelId(at))
}

/// Which labels there are, and how one is made.
fn how_to_label(name: &str, labels: &[String]) -> String {
    let known = match labels {
        [] => "there are no labels".to_owned(),
        [only] => format!("there is only \"{only}\""),
        all => format!("there are \"{}\"", all.join("\", \"")),
    };
    format!(
        "{known}; \"vcl_label {name} FILE;\" makes one beside \"vcl\" in nginx.conf, and \"vcl.label {name} VCL\" \
         in the CLI of larder varnishd, before the VCL that names it is loaded"
    )
}

fn builtin(cx: &mut Cx, name: &Word, value: &ast::Expr) -> Option<StatementKind> {
    let word = name.text.to_ascii_lowercase();
    let (allowed, make): (Steps, fn(Expr) -> StatementKind) = match word.as_str() {
        "ban" => (Steps::ALL, StatementKind::Ban),
        "hash_data" => (Steps::of(Step::Hash), StatementKind::HashData),
        _ => (Steps::of(Step::Synth).or(Steps::of(Step::BackendError)), StatementKind::Synthetic),
    };
    cx.deeds().uses.push(Use { name: word, deed: Deed::Call, span: name.span, allowed });
    Some(make(self::value(cx, value, Type::String)?))
}

fn new(cx: &mut Cx, name: &Word, path: &Path, args: &[ast::Arg], span: Span) -> Option<StatementKind> {
    let allowed = Steps::of(Step::Init);
    cx.deeds().uses.push(Use { name: "new".to_owned(), deed: Deed::Call, span: name.span, allowed });
    let Some(ty) = object_type(cx, path) else {
        cx.spoil(&name.text);
        return None;
    };
    let object = ObjectId(cx.policy.objects.len() as u32);
    if !cx.declare(name, Symbol::Object(object), true) {
        return None;
    }
    cx.policy.objects.push(Object { name: name.text.clone(), span: name.span, ty });
    let args = arguments(cx, &ty.object().parameters, args, span)?;
    Some(StatementKind::New { object, args })
}

fn object_type(cx: &mut Cx, path: &Path) -> Option<vmods::ObjectId> {
    let module = match cx.find(&path.first.text) {
        Some(Symbol::Module(module)) => module,
        _ if cx.is_spoiled(&path.first.text) => return None,
        _ => {
            let diagnostic = Diagnostic::error(format!("there is no \"{}\"", path.text())).at(path.span());
            return cx.fail(match vmods::find(&path.first.text) {
                Some(_) => diagnostic.help(format!("write import {}; before it", path.first.text)),
                None => diagnostic.help("an object is made of a type of an imported module"),
            });
        }
    };
    let found = match path.rest.as_slice() {
        [name] => vmods::object(module, &name.text),
        _ => None,
    };
    let known = &vmods::modules()[module];
    found.or_else(|| {
        let message = format!("the module {} has no objects \"{}\"", known.name, path.text());
        let names: Vec<_> = known.objects.iter().map(|object| format!("{}.{}", known.name, object.name)).collect();
        let diagnostic = Diagnostic::error(message).at(path.span());
        cx.fail(match names.is_empty() {
            true => diagnostic,
            false => diagnostic.help(format!("it has {}", names.join(", "))),
        })
    })
}
