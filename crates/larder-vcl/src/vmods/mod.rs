//! The modules that larder has: what their functions take and give.
//!
//! Each is a list of signatures in the notation of Varnish's own descriptions, in `signatures`; `parse` reads them
//! once. What Varnish passes to its functions besides (`PRIV_TASK` and the like) is not a part of them.

mod parse;
mod signatures;

use std::sync::LazyLock;

use crate::steps::Steps;
use crate::types::Type;

/// A module.
#[derive(Debug)]
pub struct Module {
    /// Its name.
    pub name: &'static str,
    /// Its functions.
    pub functions: Vec<Function>,
    /// The types of its objects.
    pub objects: Vec<Object>,
}

/// A type of objects.
#[derive(Debug)]
pub struct Object {
    /// Its name.
    pub name: &'static str,
    /// What it is made with.
    pub parameters: Vec<Parameter>,
    /// Its methods.
    pub methods: Vec<Function>,
}

/// A function, or a method of an object.
#[derive(Debug)]
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// The type of its value.
    pub returns: Type,
    /// What it takes.
    pub parameters: Vec<Parameter>,
    /// In which subs it may be called.
    pub steps: Steps,
}

/// What a function takes.
#[derive(Debug)]
pub struct Parameter {
    /// The type of its value.
    pub ty: Type,
    /// Its name, if it has one.
    pub name: Option<&'static str>,
    /// The words it may be, if it is an ENUM.
    pub words: Vec<&'static str>,
    /// What it is if it is not given.
    pub default: Option<Default>,
    /// Whether the function is told that it is not given.
    pub is_optional: bool,
}

/// What a parameter is if it is not given.
#[derive(Clone, Debug, PartialEq)]
pub enum Default {
    /// A number; of a BOOL 0 or 1, of a DURATION seconds, of what has no number nothing at all.
    Number(f64),
    /// Text.
    Text(&'static str),
    /// One of the words, by its place among them.
    Word(usize),
}

/// A function of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FunctionId {
    module: u16,
    function: u16,
}

/// A type of objects of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ObjectId {
    module: u16,
    object: u16,
}

/// A method of a type of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MethodId {
    object: ObjectId,
    method: u16,
}

/// All modules.
pub fn modules() -> &'static [Module] {
    static MODULES: LazyLock<Vec<Module>> =
        LazyLock::new(|| signatures::ALL.iter().map(|(name, text)| parse::module(name, text)).collect());
    &MODULES
}

/// The place of a module in [`modules`].
pub fn find(name: &str) -> Option<usize> {
    modules().iter().position(|module| module.name == name)
}

/// A function of a module, which is given by its place.
pub fn function(module: usize, name: &str) -> Option<FunctionId> {
    let function = modules().get(module)?.functions.iter().position(|function| is(function.name, name))?;
    Some(FunctionId { module: module as u16, function: function as u16 })
}

/// The functions of each module.
pub(crate) fn functions() -> impl Iterator<Item = impl Iterator<Item = FunctionId>> {
    let places = modules().iter().map(|module| module.functions.len()).enumerate();
    places.map(|(module, count)| {
        (0..count).map(move |function| FunctionId { module: module as u16, function: function as u16 })
    })
}

/// A type of objects of a module, which is given by its place.
pub fn object(module: usize, name: &str) -> Option<ObjectId> {
    let object = modules().get(module)?.objects.iter().position(|object| is(object.name, name))?;
    Some(ObjectId { module: module as u16, object: object as u16 })
}

/// A method of a type of objects.
pub fn method(object: ObjectId, name: &str) -> Option<MethodId> {
    let method = object.object().methods.iter().position(|method| is(method.name, name))?;
    Some(MethodId { object, method: method as u16 })
}

/// Names of symbols are compared without case.
fn is(own: &str, name: &str) -> bool {
    own.eq_ignore_ascii_case(name)
}

impl FunctionId {
    /// The places of its module in [`modules`], and of itself there.
    pub(crate) fn places(self) -> (usize, usize) {
        (self.module.into(), self.function.into())
    }

    /// The name of its module.
    pub fn module(self) -> &'static str {
        modules()[usize::from(self.module)].name
    }

    /// Its signature.
    pub fn function(self) -> &'static Function {
        &modules()[usize::from(self.module)].functions[usize::from(self.function)]
    }
}

impl ObjectId {
    /// The name of its module.
    pub fn module(self) -> &'static str {
        modules()[usize::from(self.module)].name
    }

    /// Its signature.
    pub fn object(self) -> &'static Object {
        &modules()[usize::from(self.module)].objects[usize::from(self.object)]
    }
}

impl MethodId {
    /// The type whose method it is.
    pub fn object(self) -> ObjectId {
        self.object
    }

    /// Its signature.
    pub fn method(self) -> &'static Function {
        &self.object.object().methods[usize::from(self.method)]
    }
}
