//! What was counted in the last minute and the last hour, for the dashboard of `larder_status`.
//!
//! ```text
//! counters --once a second, on the first worker--> Point --> the last minute --> Hour
//!                       \--> status/now.rs, if anybody watches --> every stream of request/counted.rs
//! ```
//! Fifty who watch cost one answer a second: the bytes are shared.

mod hour;
mod php;
mod point;

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use larder_http::Time;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;

use crate::clock;

use hour::{Hour, STEP_SECS};

pub use php::{Pool, Pools};
pub use point::{DiskPoint, GatePoint, Point, Span, ZonePoint};

/// What is known of the last minute and the last hour.
#[derive(Debug)]
pub struct Dash {
    began: Duration,
    kept: Mutex<Kept>,
    /// Pools of php-fpm.
    pub php: Pools,
    /// The last event of the streams.
    told: watch::Sender<Bytes>,
}

#[derive(Debug, Default)]
struct Kept {
    /// One for each second of the last minute.
    points: VecDeque<Point>,
    hour: Hour,
    ticks: u64,
}

impl Default for Dash {
    fn default() -> Self {
        Self {
            began: clock::steady(),
            php: Pools::default(),
            kept: Mutex::default(),
            told: watch::Sender::new(Bytes::new()),
        }
    }
}

impl Dash {
    /// Notes what was counted until now. To be called once a second, by one worker.
    pub fn add(&self, point: Point, now: Time) {
        let mut kept = self.kept.lock();
        if kept.points.len() > MINUTE_SECS {
            kept.points.pop_front();
        }
        kept.points.push_back(point);
        kept.ticks += 1;
        if kept.ticks.is_multiple_of(STEP_SECS) {
            let Kept { points, hour, .. } = &mut *kept;
            if let Some((first, last)) = since(points, STEP_SECS as usize) {
                hour.add(&Span::new(first, last), now);
            }
        }
    }

    /// Passes on how counts grew in the last ten seconds, and in the last minute.
    pub fn with_spans<T>(&self, look: impl FnOnce(&Span<'_>, &Span<'_>) -> T) -> T {
        let kept = self.kept.lock();
        let none = Point::default();
        let (first, last) = since(&kept.points, STEP_SECS as usize).unwrap_or((&none, &none));
        look(&Span::new(first, last), &Span::new(kept.points.front().unwrap_or(&none), last))
    }

    /// The last hour.
    pub fn hour(&self) -> Value {
        self.kept.lock().hour.to_json()
    }

    /// How long the process has served.
    pub fn uptime(&self) -> Duration {
        clock::steady().saturating_sub(self.began)
    }

    /// Whether anybody watches.
    pub fn is_watched(&self) -> bool {
        self.told.receiver_count() > 0
    }

    /// Tells those who watch.
    pub fn tell(&self, event: Bytes) {
        self.told.send_replace(event);
    }

    /// What is told from now on.
    pub fn watch(&self) -> watch::Receiver<Bytes> {
        self.told.subscribe()
    }
}

/// The last point, and the one that many before it, or the first.
fn since(points: &VecDeque<Point>, before: usize) -> Option<(&Point, &Point)> {
    let last = points.len().checked_sub(1)?;
    Some((&points[last.saturating_sub(before)], &points[last]))
}

const MINUTE_SECS: usize = 60;
