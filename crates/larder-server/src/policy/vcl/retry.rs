//! Another try of a fetch.

use crate::exchange::{Exchange, RequestBody, Stage};
use crate::site::VclPolicy;

/// Notes that the fetch is to be tried again. False if that has been done too often, or its body is gone.
pub fn again(policy: &VclPolicy, ex: &mut Exchange) -> bool {
    let has_lost_body = ex.vcl.fetch.has_body && matches!(ex.request.body, RequestBody::Passing(_));
    let fetch = &mut ex.vcl.fetch;
    if fetch.retries >= policy.parameters.max_retries || has_lost_body {
        return false;
    }
    fetch.retries += 1;
    fetch.stage = Stage::Again;
    true
}
