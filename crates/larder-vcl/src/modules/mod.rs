//! What the functions of the modules do, as far as they need nothing but their arguments.

mod blob;
mod cookie;
mod std;

use ::std::sync::LazyLock;

use crate::run::{Failure, Texts, Value};
use crate::vmods::{self, FunctionId};

/// A function that needs nothing but its arguments.
pub type Pure = fn(&[Value], &mut Texts<'_>) -> Result<Value, Failure>;

/// A function of a module, if it needs nothing but its arguments.
pub fn pure(function: FunctionId) -> Option<Pure> {
    static ALL: LazyLock<Vec<Vec<Option<Pure>>>> =
        LazyLock::new(|| vmods::functions().map(|functions| functions.map(named).collect()).collect());
    let (module, function) = function.places();
    *ALL.get(module)?.get(function)?
}

fn named(function: FunctionId) -> Option<Pure> {
    let functions = match function.module() {
        "blob" => &blob::FUNCTIONS[..],
        "cookie" => &cookie::FUNCTIONS[..],
        "std" => &std::FUNCTIONS[..],
        _ => return None,
    };
    let name = function.function().name;
    functions.iter().find(|(own, _)| *own == name).map(|(_, function)| *function)
}

fn kept(bytes: &[u8], texts: &mut Texts<'_>) -> Result<Value, Failure> {
    Ok(Value::Text(Some(texts.keep(bytes)?)))
}

fn failed(name: &str, why: &str) -> Failure {
    Failure::host(format!("{name}(): {why}"))
}

/// The checks rule this out.
fn misfit(name: &str) -> Result<Value, Failure> {
    Err(failed(name, "arguments of other types than its own"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Program;

    /// What a function returns for these arguments; a text argument is given as `Err`.
    pub fn shown(function: &str, args: &[Result<Value, &str>]) -> String {
        let (program, mut made) = (Program::default(), Vec::new());
        let mut texts = Texts::new(&program, &mut made, 1000);
        let mut given = Vec::new();
        for arg in args {
            given.push(match arg {
                Ok(value) => *value,
                Err(text) => kept(text.as_bytes(), &mut texts).expect("there is room"),
            });
        }
        let (module, name) = function.split_once('.').expect("a function has a module");
        let id = vmods::find(module).and_then(|module| vmods::function(module, name)).expect("there is this function");
        let function = pure(id).expect("it needs nothing but its arguments");
        let text = |text, texts: &Texts<'_>| format!("{:?}", String::from_utf8_lossy(texts.bytes(Some(text))));
        match function(&given, &mut texts) {
            Err(failure) => failure.to_string(),
            Ok(Value::Text(Some(found))) => text(found, &texts),
            Ok(Value::Blob(found)) => format!("Blob({})", text(found, &texts)),
            Ok(value) => format!("{value:?}"),
        }
    }

    #[test]
    fn arguments_of_other_types_are_no_panic() {
        for (module, functions) in
            [("blob", &blob::FUNCTIONS[..]), ("cookie", &cookie::FUNCTIONS[..]), ("std", &std::FUNCTIONS[..])]
        {
            for (name, function) in functions {
                for args in [&[][..], &[Value::Nothing; 7], &[Value::Bool(true); 4], &[Value::Int(1); 2]] {
                    let (program, mut made) = (Program::default(), Vec::new());
                    let _ = function(args, &mut Texts::new(&program, &mut made, 10));
                }
                let id = vmods::find(module).and_then(|module| vmods::function(module, name));
                assert!(id.and_then(pure).is_some(), "{module}.{name}");
            }
        }
    }
}
