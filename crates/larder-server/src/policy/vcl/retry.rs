//! Another try of a fetch.

use crate::exchange::{Exchange, Stage};
use crate::site::VclPolicy;

/// Notes that the fetch is to be tried again. False if that has been done too often; the try that is not made counts.
pub fn again(policy: &VclPolicy, ex: &mut Exchange) -> bool {
    let fetch = &mut ex.vcl.fetch;
    let is_allowed = fetch.retries < policy.parameters.max_retries;
    fetch.retries = fetch.retries.saturating_add(1);
    if is_allowed {
        fetch.stage = Stage::Again;
    }
    is_allowed
}
