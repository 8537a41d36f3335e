//! `return (vcl(LABEL))`: another VCL answers the request.

use crate::context::Cx;
use crate::exchange::{ClientTask, Exchange};
use crate::site::{Handler, Policy, VclPolicy};

use super::headers::roll_back;

/// Gives a request to the VCL of a label, as it came; from now on that VCL decides about it. `None` after a restart, and
/// if the request was given away already.
pub fn switch<'a>(policy: &VclPolicy, label: Option<u32>, ex: &mut Exchange, cx: &'a Cx) -> Option<&'a VclPolicy> {
    if ex.request.way.restarts > 0 {
        return None;
    }
    let first = *policy.labels.get(usize::try_from(label?).ok()?)?;
    let Handler::Vcl(origins) = &cx.loc(ex).handler else { return None };
    let Policy::Vcl(labelled) = &origins.get(first)?.policy else { return None };
    roll_back(ex);
    let ClientTask { xid, is_ready, esi_level, top, .. } = std::mem::take(&mut ex.vcl.client);
    ex.vcl.client = ClientTask { xid, is_ready, esi_level, top, ..ClientTask::default() };
    ex.vcl.origin = first;
    Some(labelled)
}

/// The name of a label of a VCL.
pub fn name(policy: &VclPolicy, label: Option<u32>) -> Option<&str> {
    policy.vcl.policy.labels.get(usize::try_from(label?).ok()?).map(String::as_str)
}

/// Why a request is not given to another VCL.
pub fn refusal(ex: &Exchange) -> &'static str {
    match ex.request.way.restarts {
        0 => "Illegal return(vcl): Only from active VCL",
        _ => "Illegal return(vcl): Not after restarts",
    }
}
