//! Has disks keep how far the node has read.

use std::time::Duration;

use crate::place::Place;
use crate::shared::Shared;

/// Has the place kept once a second, if it is another one, and when the node leaves.
pub(crate) fn run(shared: &Shared) {
    let mut kept = None;
    while !shared.ending.is_over() {
        keep(shared, &mut kept);
        shared.ending.rest(KEEP_EVERY);
    }
    // The reader goes on for a moment.
    let mut work = shared.work.lock();
    shared.woken.wait_while(&mut work, |work| !work.is_leaving);
    drop(work);
    keep(shared, &mut kept);
}

fn keep(shared: &Shared, kept: &mut Option<Place>) {
    // Read before the disks are waited for: what comes meanwhile is not on them.
    let place = shared.place.lock().clone();
    if place == *kept {
        return;
    }
    if place.as_ref().is_none_or(|place| shared.carrier.keep(place)) {
        *kept = place;
    }
}

const KEEP_EVERY: Duration = Duration::from_secs(1);
