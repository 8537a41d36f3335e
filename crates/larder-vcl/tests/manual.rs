//! `docs/vcl-reference.md` is made from the tables of the language. `UPDATE_CASES=1` writes it anew.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use larder_vcl::steps::STEPS;
use larder_vcl::vars::{Headers, Rule, Since, Variable};
use larder_vcl::vmods::{Default, Function, Parameter, modules};

#[test]
fn the_manual_has_what_the_tables_have() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/vcl-reference.md");
    let made = format!("{HEAD}\n{}\n{}\n{}", subs(), variables(), all_modules());
    if std::env::var_os("UPDATE_CASES").is_some() {
        fs::write(&path, &made).expect("the manual can be written");
    }
    let found = fs::read_to_string(&path).expect("the manual is there");
    assert!(found == made, "docs/vcl-reference.md is not what the tables say: UPDATE_CASES=1 writes it anew");
}

const HEAD: &str = "\
# VCL: subs, variables, modules

Made from larder's own tables by `cargo test -p larder-vcl`; what larder does with a VCL is in [vcl.md](vcl.md).
";

fn subs() -> String {
    let mut out = "## Subs\n\n| sub | what its `return` may name |\n| --- | --- |\n".to_owned();
    for (_, name, actions) in STEPS {
        let actions: Vec<&str> = actions.iter().map(|action| action.name()).collect();
        let _ = writeln!(out, "| `{name}` | {} |", actions.join(", "));
    }
    out
}

fn variables() -> String {
    let mut out = "\
## Variables

The client's side is `vcl_recv` to `vcl_synth`, the backend's side `vcl_backend_fetch` to `vcl_backend_error`.

| variable | type | what it is | read | set | unset |
| --- | --- | --- | --- | --- | --- |
"
    .to_owned();
    let variables = Variable::all().map(|variable| (variable.rule(), ""));
    let mut rows: Vec<(&Rule, &str)> =
        variables.chain(Headers::all().map(|headers| (headers.rule(), ".NAME"))).collect();
    rows.sort_by_key(|(rule, _)| rule.name);
    for (rule, rest) in rows {
        let since = match rule.since {
            Since::All => "",
            Since::Until40 => "; VCL 4.0 only",
            Since::From41 => "; since VCL 4.1",
            Since::SetUntil40 => "; set in VCL 4.0 only",
        };
        let [read, set, unset] = [rule.read, rule.set, rule.unset].map(|steps| match steps.is_empty() {
            true => String::new(),
            false => steps.describe(),
        });
        let ty = rule.ty.name();
        let _ = writeln!(out, "| `{}{rest}` | {ty} | {}{since} | {read} | {set} | {unset} |", rule.name, rule.what);
    }
    out
}

fn all_modules() -> String {
    let mut out = "## Modules\n".to_owned();
    for module in modules() {
        let _ = write!(out, "\n### {}\n\n", module.name);
        for function in &module.functions {
            let _ = writeln!(out, "- `{}`", signature(module.name, function));
        }
        for object in &module.objects {
            let parameters = list(&object.parameters);
            let _ = writeln!(out, "- `new NAME = {}.{}({parameters})`", module.name, object.name);
            for method in &object.methods {
                let _ = writeln!(out, "  - `{}`", signature("NAME", method));
            }
        }
    }
    out
}

fn signature(of: &str, function: &Function) -> String {
    format!("{} {of}.{}({})", function.returns.name(), function.name, list(&function.parameters))
}

fn list(parameters: &[Parameter]) -> String {
    let shown: Vec<String> = parameters.iter().map(parameter).collect();
    shown.join(", ")
}

fn parameter(parameter: &Parameter) -> String {
    let mut shown = match parameter.words.is_empty() {
        true => parameter.ty.name().to_owned(),
        false => format!("{{{}}}", parameter.words.join(", ")),
    };
    if let Some(name) = parameter.name {
        let _ = write!(shown, " {name}");
    }
    match &parameter.default {
        Some(Default::Number(number)) => {
            let _ = write!(shown, "={number}");
        }
        Some(Default::Text(text)) => {
            let _ = write!(shown, "=\"{text}\"");
        }
        Some(Default::Word(at)) => {
            let _ = write!(shown, "={}", parameter.words.get(*at).unwrap_or(&""));
        }
        None => {}
    }
    if parameter.is_optional { format!("[{shown}]") } else { shown }
}
