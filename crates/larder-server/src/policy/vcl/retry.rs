//! Another try of a fetch.

use crate::exchange::{Exchange, Stage};
use crate::site::VclPolicy;

/// Notes that the fetch is to be tried again. False if that has been done too often.
pub fn again(policy: &VclPolicy, ex: &mut Exchange) -> bool {
    let fetch = &mut ex.vcl.fetch;
    if fetch.retries >= policy.parameters.max_retries {
        return false;
    }
    fetch.retries += 1;
    fetch.stage = Stage::Again;
    true
}
