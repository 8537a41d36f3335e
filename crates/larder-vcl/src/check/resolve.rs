//! What a dotted name stands for.

use larder_source::{Diagnostic, Span, nearest};

use super::cx::{Cx, Symbol};
use crate::ast::{Path, Version, Word};
use crate::old;
use crate::policy::{Header, StorageId};
use crate::types::Type;
use crate::vars::{Headers, Rule, Variable};
use crate::vmods::{self, FunctionId};

/// What the first parts of a name stand for.
#[derive(Clone, Copy, Debug)]
pub enum Meaning {
    /// A variable.
    Variable(Variable),
    /// A header.
    Header(Header, Rule),
    /// `storage.NAME`
    Storage(StorageId),
    /// What is declared in the VCL, but for modules.
    Symbol(Symbol),
    /// A function of a module.
    Function(FunctionId),
    /// A function of the language.
    Builtin(Builtin),
}

/// A function or a word of the language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Builtin {
    /// `true`
    True,
    /// `false`
    False,
    /// `default`
    Default,
    /// `regsub(...)`
    Regsub,
    /// `regsuball(...)`
    RegsubAll,
}

/// What a name stands for, and the parts behind it.
pub fn resolve<'p>(cx: &mut Cx, path: &'p Path) -> Option<(Meaning, &'p [Word])> {
    let first = &path.first;
    if let [http, name, rest @ ..] = path.rest.as_slice()
        && !http.quoted
        && let Some(headers) = Headers::named(&first.text, &http.text)
    {
        return Some((header(cx, headers, name)?, rest));
    }
    if let Some((variable, count)) = variable(cx.version, path) {
        if variable.rule().ty == Type::Http && count <= path.rest.len() {
            // There is no more to a message than its variables.
            return unknown(cx, path);
        }
        return Some((Meaning::Variable(variable), &path.rest[count - 1..]));
    }
    if let [name, rest @ ..] = path.rest.as_slice()
        && first.text.eq_ignore_ascii_case("storage")
        && !name.quoted
    {
        return Some((storage(cx, name)?, rest));
    }
    if let Some(builtin) = builtin(&first.text) {
        return Some((Meaning::Builtin(builtin), &path.rest));
    }
    match cx.find(&first.text) {
        Some(Symbol::Module(module)) => {
            let Some((name, rest)) = path.rest.split_first() else {
                let message = format!("\"{}\" is a module", first.text);
                return cx.fail(Diagnostic::error(message).at(first.span).help("name one of its functions"));
            };
            Some((Meaning::Function(function(cx, module, name)?), rest))
        }
        Some(symbol) => {
            cx.refer_to(&first.text, symbol);
            Some((Meaning::Symbol(symbol), &path.rest))
        }
        None => unknown(cx, path),
    }
}

/// The longest variable that a name begins with, and of how many parts it is.
fn variable(version: Version, path: &Path) -> Option<(Variable, usize)> {
    const PARTS_MAX: usize = 3;
    let count = path.parts().take_while(|part| !part.quoted).take(PARTS_MAX).count();
    (1..=count).rev().find_map(|count| {
        let parts: Vec<&str> = path.parts().take(count).map(|part| part.text.as_str()).collect();
        let found = Variable::named(&parts.join("."))?;
        found.rule().is_in(version).then_some((found, count))
    })
}

fn header(cx: &mut Cx, of: Headers, name: &Word) -> Option<Meaning> {
    const NAME_BYTES_MAX: usize = 126;
    if name.quoted && cx.version < Version::V41 {
        let message = "the name of a header stands in quotes since VCL 4.1";
        return cx.fail(Diagnostic::error(message).at(name.span).help("write vcl 4.1; in the first line"));
    }
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.text.is_empty() || !name.text.bytes().all(is_token) {
        return cx.fail(Diagnostic::error("a header cannot have this name").at(name.span));
    }
    if name.text.len() > NAME_BYTES_MAX {
        let message = format!("the name of a header has at most {NAME_BYTES_MAX} characters");
        return cx.fail(Diagnostic::error(message).at(name.span));
    }
    let rule = of.rule_of(&name.text);
    Some(Meaning::Header(Header { of, name: cx.header(of, &name.text) }, rule))
}

fn storage(cx: &mut Cx, name: &Word) -> Option<Meaning> {
    let storages = &cx.policy.storages;
    if let Some(at) = storages.iter().position(|own| own.eq_ignore_ascii_case(&name.text)) {
        return Some(Meaning::Storage(StorageId(at)));
    }
    let help = match storages.is_empty() {
        true => "there are no storages".to_owned(),
        false => format!("the storages are {}", storages.join(", ")),
    };
    cx.fail(Diagnostic::error(format!("there is no storage \"{}\"", name.text)).at(name.span).help(help))
}

fn builtin(name: &str) -> Option<Builtin> {
    match name.to_ascii_lowercase().as_str() {
        "true" => Some(Builtin::True),
        "false" => Some(Builtin::False),
        "default" => Some(Builtin::Default),
        "regsub" => Some(Builtin::Regsub),
        "regsuball" => Some(Builtin::RegsubAll),
        _ => None,
    }
}

fn function(cx: &mut Cx, module: usize, name: &Word) -> Option<FunctionId> {
    if let Some(function) = vmods::function(module, &name.text) {
        return Some(function);
    }
    let known = &vmods::modules()[module];
    let full = format!("{}.{}", known.name, name.text);
    let diagnostic =
        Diagnostic::error(format!("the module {} has no function \"{}\"", known.name, name.text)).at(name.span);
    let names = known.functions.iter().map(|function| function.name);
    cx.fail(match (old::function(&full), nearest(&name.text, names), vmods::object(module, &name.text)) {
        (Some(advice), ..) => diagnostic.help(advice),
        (None, _, Some(_)) => diagnostic.help(format!("it is an object: in vcl_init, write new NAME = {full}(...);")),
        (None, Some(near), None) => diagnostic.help(format!("did you mean {}.{near}?", known.name)),
        (None, None, None) => diagnostic,
    })
}

/// Reports a name that stands for nothing, with what was probably meant.
fn unknown<T>(cx: &mut Cx, path: &Path) -> Option<T> {
    if cx.is_spoiled(&path.first.text) {
        return None;
    }
    let text = path.text();
    let diagnostic = Diagnostic::error(format!("there is no \"{text}\"")).at(path.span());
    if let Some(advice) = old::variable(&text.to_ascii_lowercase()) {
        return cx.fail(diagnostic.help(advice));
    }
    if let [http] = path.rest.as_slice()
        && Headers::named(&path.first.text, &http.text).is_some()
    {
        return cx.fail(diagnostic.help(format!("name a header: {text}.NAME")));
    }
    if let Some(variable) = Variable::named(&text) {
        let help = match variable.rule().is_in(Version::V41) {
            true => "it is there since VCL 4.1; write vcl 4.1; in the first line",
            false if variable == Variable::ReqEsi => "it was there until VCL 4.0; write resp.do_esi in vcl_deliver",
            false => "it was there until VCL 4.0",
        };
        return cx.fail(diagnostic.help(help));
    }
    if cx.objects_to_come.contains(&path.first.text.to_ascii_lowercase()) {
        return cx.fail(diagnostic.help("its new stands below; move vcl_init above this"));
    }
    if vmods::find(&path.first.text).is_some() && !path.rest.is_empty() {
        return cx.fail(diagnostic.help(format!("write import {}; before it", path.first.text)));
    }
    let known =
        Variable::all().filter(|variable| variable.rule().is_in(cx.version)).map(|variable| variable.rule().name);
    let near = match path.rest.is_empty() {
        true => nearest(&text, known.chain(cx.names())),
        false => nearest(&text, known),
    };
    let near = near.map(str::to_owned).or_else(|| header_meant(path));
    let near = near.map(|near| format!("did you mean \"{near}\"?"));
    cx.fail(match near {
        Some(help) => diagnostic.help(help),
        None => diagnostic,
    })
}

/// The header that was probably meant: `http` is missing in its name, or written wrong.
fn header_meant(path: &Path) -> Option<String> {
    let of = path.first.text.as_str();
    Headers::named(of, "http")?;
    let name = match path.rest.as_slice() {
        [name] => name.text.trim_start_matches("http_"),
        [http, name] if nearest(&http.text, ["http"].into_iter()).is_some() => &name.text,
        _ => return None,
    };
    Some(format!("{of}.http.{name}"))
}

/// Reports a part of a name for which there is nothing.
pub fn no_property<T>(cx: &mut Cx, of: &str, name: &Word) -> Option<T> {
    cx.fail(Diagnostic::error(format!("{of} has no \"{}\"", name.text)).at(name.span))
}

/// Reports a part of a name behind that of a header.
pub fn no_property_of_header<T>(cx: &mut Cx, name: &Word) -> Option<T> {
    let help = "the name of a header with a point in it stands in quotes: req.http.\"a.b\"";
    cx.fail(Diagnostic::error(format!("a header has no \"{}\"", name.text)).at(name.span).help(help))
}

/// From the first part of a name to the last of some others.
pub fn span_to(path: &Path, rest: &[Word]) -> Span {
    let count = path.rest.len() - rest.len();
    let last = count.checked_sub(1).map_or(path.first.span, |last| path.rest[last].span);
    crate::ast::join(path.first.span, last)
}
