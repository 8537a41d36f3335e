//! Has disks keep how far the node has read.

use std::time::Duration;

use crate::place::Place;
use crate::shared::Shared;

/// Has the place kept once a second, if it is another one.
pub(crate) fn run(shared: &Shared) {
    let mut kept = None;
    while !shared.is_over() {
        shared.rest(KEEP_EVERY);
        keep(shared, &mut kept);
    }
}

/// Has it kept now.
pub(crate) fn keep(shared: &Shared, kept: &mut Option<Place>) {
    // Read before the disks are waited for: what comes meanwhile is not on them.
    let place = shared.place.lock().clone();
    if place != *kept
        && let Some(place) = &place
    {
        shared.carrier.keep(place);
    }
    *kept = place;
}

const KEEP_EVERY: Duration = Duration::from_secs(1);
