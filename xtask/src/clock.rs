//! The clock that a node of a cluster goes by.

use std::time::Duration;

/// How long the machine has run, also while it slept.
pub fn since_boot() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}
