//! The objects of a VCL: made by its `vcl_init`, and called by its other subs.

mod blob;
mod directors;
mod init;
pub mod parameter;
mod shard;
pub mod texts;

use larder_vcl::run::{Failure, Texts, Value};
use larder_vcl::steps::{Step, Steps};
use larder_vcl::{Policy, policy, vmods};

use crate::directors::{Asker, Directors, Number, TaskSets, shown};

pub use init::{Surroundings, initialize, name_of};

/// All objects of a VCL. All workers share them.
#[derive(Debug, Default)]
pub struct Objects {
    /// The backends, and the objects that choose among them.
    pub directors: Directors,
    /// The bytes of the objects that are blobs.
    blobs: Vec<Option<Box<[u8]>>>,
}

/// For whom a method is called.
pub struct Caller<'a> {
    /// The sub that calls it.
    pub step: Step,
    /// Now, in seconds since 1970.
    pub now: f64,
    /// Makes random numbers of at least 0 and less than 1.
    pub share: &'a dyn Fn() -> f64,
    /// The key of the page, in a fetch.
    pub page: Option<&'a [u8]>,
    /// The URL.
    pub url: &'a [u8],
    /// What the fetch has said about shard directors; `None` outside of one.
    pub task: Option<&'a mut TaskSets>,
    /// What is to be logged.
    pub notes: Vec<String>,
}

impl Objects {
    /// Those of a VCL, before its `vcl_init`.
    fn new(policy: &Policy, now: f64) -> Self {
        Self { directors: Directors::new(policy, now), blobs: policy.objects.iter().map(|_| None).collect() }
    }

    /// Makes an object.
    fn make(
        &mut self,
        object: usize,
        ty: vmods::ObjectId,
        args: &[Value],
        texts: &mut Texts<'_>,
    ) -> Result<Value, Failure> {
        let name = ty.object().name;
        match (ty.module(), name) {
            ("directors", _) => self.directors.make(object, directors::made(name, args)?),
            ("blob", "blob") => {
                let made = blob::made(args, texts)?;
                if let Some(place) = self.blobs.get_mut(object) {
                    *place = Some(made);
                }
            }
            (module, _) => return Err(Failure::host(format!("{module}.{name}() is not built yet"))),
        }
        Ok(Value::Nothing)
    }

    /// Calls a method of an object.
    pub fn call(
        &self,
        (object, method): (policy::ObjectId, vmods::MethodId),
        args: &[Value],
        caller: &mut Caller<'_>,
        texts: &mut Texts<'_>,
    ) -> Result<Value, Failure> {
        let (object, ty, name) = (object.0 as usize, method.object(), method.method().name);
        match ty.module() {
            "directors" => directors::call(&self.directors, object, name, args, caller, texts),
            "blob" => {
                let bytes = self.blobs.get(object).and_then(Option::as_deref);
                blob::call(bytes.ok_or_else(not_made)?, name, args, texts)
            }
            module => Err(Failure::host(format!("{module}.{}.{name}() is not built yet", ty.object().name))),
        }
    }
}

impl Caller<'_> {
    /// Who asks a director.
    pub fn asker(&self) -> Asker<'_> {
        Asker { now: self.now, share: self.share, page: self.page, url: self.url, task: self.task.as_deref() }
    }

    /// Whether it is `vcl_init`.
    fn is_init(&self) -> bool {
        Steps::HOUSEKEEPING.contains(self.step)
    }

    /// Notes something about a shard director.
    fn note(&mut self, director: &str, note: String) {
        self.notes.extend(shown(director, vec![note]));
    }
}

/// A backend that is one.
fn backend(value: Value, director: &str, verb: &str) -> Result<Number, Failure> {
    match value {
        Value::Id(Some(backend)) => Ok(backend),
        _ => Err(Failure::host(format!("{director}: None backend cannot be {verb}"))),
    }
}

fn not_made() -> Failure {
    Failure::host("the object was not made in vcl_init")
}

/// The checks rule this out.
fn misfit(name: &str) -> Failure {
    Failure::host(format!("{name}(): arguments of other types than its own"))
}
