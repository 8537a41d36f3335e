//! A sub that runs, and for whom.

use larder_vcl::steps::Step;

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::site::VclPolicy;

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
    /// `now`, in seconds since 1970.
    pub now: f64,
}
