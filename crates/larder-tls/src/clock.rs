//! The time of day, as the embedding program tells it.

use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;
use std::sync::Arc;
use std::time::Duration;

/// Where this crate learns the time from: seconds since 1970. Cheap to clone.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> u64 + Send + Sync>);

impl Clock {
    /// A clock that asks `now` for the seconds since 1970. It is asked a few times a handshake, never on the data path.
    pub fn new(now: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Seconds since 1970.
    pub fn now(&self) -> u64 {
        (self.0)()
    }

    pub(crate) fn unix_time(&self) -> UnixTime {
        UnixTime::since_unix_epoch(Duration::from_secs(self.now()))
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Clock").field(&self.now()).finish()
    }
}

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(self.unix_time())
    }
}
