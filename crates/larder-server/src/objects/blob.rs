//! The objects of the module `blob`: bytes that are decoded once.

use larder_vcl::modules::pure;
use larder_vcl::run::{Failure, Texts, Value};
use larder_vcl::vmods;

use super::misfit;

/// The bytes of a new object.
pub fn made(args: &[Value], texts: &mut Texts<'_>) -> Result<Box<[u8]>, Failure> {
    let [decoding, encoded] = args else { return Err(misfit("blob.blob")) };
    match function("decode", &[*decoding, Value::Int(0), *encoded], texts)? {
        Value::Blob(blob) => Ok(texts.bytes(Some(blob)).into()),
        _ => Err(misfit("blob.blob")),
    }
}

/// Calls a method.
pub fn call(bytes: &[u8], name: &str, args: &[Value], texts: &mut Texts<'_>) -> Result<Value, Failure> {
    let blob = Value::Blob(texts.keep(bytes)?);
    match (name, args) {
        ("get", []) => Ok(blob),
        ("encode", [encoding, case]) => function("encode", &[*encoding, *case, blob], texts),
        _ => Err(misfit(name)),
    }
}

/// Calls a function of the module.
fn function(name: &str, args: &[Value], texts: &mut Texts<'_>) -> Result<Value, Failure> {
    let function = vmods::find("blob").and_then(|module| vmods::function(module, name)).and_then(pure);
    function.ok_or_else(|| misfit(name))?(args, texts)
}
