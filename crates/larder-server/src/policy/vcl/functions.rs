//! The functions of modules.

use larder_vcl::modules::pure;
use larder_vcl::program::Callee;
use larder_vcl::run::{Failure, Texts, Value};

use super::directors;
use super::task::Run;

mod bodyaccess;
mod cookie;
mod h2;
mod header;
mod proxy;
mod purge;
mod std;
mod unix;
mod var;
mod vsthrottle;
mod vtc;
mod xkey;

/// Calls a function or a method.
pub fn call(run: &mut Run<'_>, callee: Callee, args: &[Value], texts: &mut Texts<'_>) -> Result<Value, Failure> {
    let function = match callee {
        Callee::Function(function) => function,
        Callee::Method(object, method) => return directors::call(run, object, method, args, texts),
        Callee::New(_) => return Err(unbuilt("a new object beside vcl_init")),
    };
    if let Some(pure) = pure(function) {
        return pure(args, texts);
    }
    let name = function.function().name;
    if let module @ ("purge" | "vsthrottle" | "xkey" | "vtc") = function.module()
        && run.ex.is_walk()
    {
        return Err(Failure::host(format!("{module}.{name}() would change something, and is not called in a walk")));
    }
    match function.module() {
        "std" => std::call(run, name, args, texts),
        "cookie" => cookie::call(run, name, args, texts),
        "header" => header::call(run, name, args, texts),
        "var" => var::call(run, name, args, texts),
        "purge" => purge::call(run, name, args),
        "vsthrottle" => vsthrottle::call(run, name, args, texts),
        "bodyaccess" => bodyaccess::call(run, name, args, texts),
        "proxy" => proxy::call(run, name, texts),
        "unix" => unix::call(run, name, texts),
        "h2" => h2::call(run, name),
        "xkey" => xkey::call(run, name, args, texts),
        "vtc" => vtc::call(run, name, args, texts),
        module => Err(unbuilt(&format!("{module}.{name}()"))),
    }
}

/// A text that may not be there.
fn kept(text: Option<&[u8]>, texts: &mut Texts<'_>) -> Result<Value, Failure> {
    Ok(Value::Text(text.map(|text| texts.keep(text)).transpose()?))
}

fn unbuilt(what: &str) -> Failure {
    Failure::host(format!("{what} is not built yet"))
}
