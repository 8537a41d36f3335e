//! A sub that runs, and for whom.

use std::cell::Cell;
use std::rc::Rc;

use larder_vcl::steps::{Step, Steps};

use crate::context::Cx;
use crate::exchange::{Exchange, ModuleTask};
use crate::regex::BytesSeen;
use crate::site::VclPolicy;
use crate::vsl::Open;

/// The request for which a sub is run.
pub struct Run<'a> {
    /// The VCL.
    pub policy: &'a VclPolicy,
    /// The step of the sub.
    pub step: Step,
    /// The request.
    pub ex: &'a mut Exchange,
    /// Where it is.
    pub cx: &'a Cx,
    /// The bytes of `req.url`, once they were looked at: most VCLs ask many expressions about it.
    pub url: Cell<Option<BytesSeen>>,
    /// `now`, in seconds since 1970.
    pub now: f64,
}

impl Run<'_> {
    /// Where the transaction log is told of the side that runs.
    pub fn log(&self) -> Option<&Rc<Open>> {
        log_of(self.step, self.ex)
    }

    /// What modules keep for the side that runs, and how many bytes each may keep: as many as Varnish's workspace has.
    pub fn modules(&mut self) -> (&mut ModuleTask, usize) {
        let set = &self.policy.parameters;
        let (task, most) = match Steps::BACKEND.contains(self.step) {
            true => (&mut self.ex.vcl.fetch.modules, set.workspace_backend),
            false => (&mut self.ex.vcl.client.modules, set.workspace_client),
        };
        (task, usize::try_from(most).unwrap_or(usize::MAX))
    }
}

/// Where the transaction log is told of a step.
pub fn log_of(step: Step, ex: &Exchange) -> Option<&Rc<Open>> {
    match Steps::BACKEND.contains(step) {
        true => ex.log.fetch.as_ref(),
        false => ex.log.client.as_ref(),
    }
}
