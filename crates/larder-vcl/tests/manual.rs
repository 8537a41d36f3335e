//! `docs/vcl-reference.md` is made from the tables of the language. `UPDATE_CASES=1` writes it anew.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use larder_vcl::steps::{STEPS, Steps};
use larder_vcl::vars::{Headers, Rule, Since, Variable};
use larder_vcl::vmods::{Default, Function, Parameter, modules};

#[test]
fn the_manual_has_what_the_tables_have() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/vcl-reference.md");
    let made = format!("{HEAD}\n{}\n{LANGUAGE}\n{}\n{}", subs(), variables(), all_modules());
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

const MODULES: &str = "\
## Modules

A parameter in brackets may be left out; one with `=` has that value then; of words in braces one is written as it is.
";

const LANGUAGE: &str = "\
## Statements and functions of the language

| what | where | what it does |
| --- | --- | --- |
| `set`, `unset` | | sets or unsets a variable; `+=`, `-=`, `*=` and `/=` compute with what it was |
| `if`, `else if`, `elseif`, `elsif`, `elif`, `else` | | |
| `call SUB;` | | carries out another sub |
| `return (ACTION);`, `return;` | | ends the step; alone, it goes back to where the sub was called |
| `new NAME = MODULE.TYPE(...);` | vcl_init | makes an object of a module |
| `hash_data(TEXT);` | vcl_hash | adds to the key |
| `synthetic(TEXT);` | vcl_synth, vcl_backend_error | adds to the body of a response that is made here |
| `ban(TEXT);` | | bans all stored pages that the expression holds for |
| `regsub(TEXT, REGEX, TEXT)` | | the text with the first match replaced; `\\0` to `\\9` are the match and its groups |
| `regsuball(TEXT, REGEX, TEXT)` | | the same with all matches |
| `unused NAME;` | outside of subs | nothing has to refer to this backend, probe, ACL or sub |

Types: STRING; INT; REAL; BOOL; DURATION, with a unit of `ms`, `s`, `m`, `h`, `d`, `w`, `y`; TIME; BYTES, with a unit of `B`,
`KB`, `MB`, `GB`, `TB`, `PB`; IP; BACKEND; PROBE; ACL; REGEX; BLOB, such as `:aGVsbG8=:`; HEADER, a header itself; HTTP, all
headers of a message; STEVEDORE, a storage; SUB; VOID, nothing.
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

The client's side is `vcl_recv` to `vcl_synth`, the backend's side `vcl_backend_fetch` to `vcl_backend_error`. The headers
Content-Length and Transfer-Encoding can be read only. A hit-for-pass or hit-for-miss is remembered in place of a page:
that requests for it are passed, or do not wait for each other.

| variable | type | what it is | read | set | unset |
| --- | --- | --- | --- | --- | --- |
"
    .to_owned();
    let variables = Variable::all().map(|variable| (variable.rule(), ""));
    let mut rows: Vec<(&Rule, &str)> =
        variables.chain(Headers::all().map(|headers| (headers.rule(), ".NAME"))).collect();
    rows.sort_by_key(|(rule, _)| rule.name);
    // Of a storage, which is no variable.
    out.push_str("| `storage.NAME.free_space`, `.used_space` | BYTES | room in a storage | everywhere |  |  |\n");
    out.push_str("| `storage.NAME.happy` | BOOL | whether the storage works | everywhere |  |  |\n");
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
    let mut out = MODULES.to_owned();
    for module in modules() {
        let _ = write!(out, "\n### {}\n\n", module.name);
        for function in &module.functions {
            let _ = writeln!(out, "- {}", signature(module.name, function));
        }
        for object in &module.objects {
            let parameters = list(&object.parameters);
            let _ = writeln!(out, "- `new NAME = {}.{}({parameters})`", module.name, object.name);
            for method in &object.methods {
                let _ = writeln!(out, "  - {}", signature("NAME", method));
            }
        }
    }
    out
}

fn signature(of: &str, function: &Function) -> String {
    let signature = format!("{} {of}.{}({})", function.returns.name(), function.name, list(&function.parameters));
    match function.steps == Steps::ALL {
        true => format!("`{signature}`"),
        false => format!("`{signature}`, {}", function.steps.describe()),
    }
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
