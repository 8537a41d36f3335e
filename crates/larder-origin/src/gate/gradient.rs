//! The limit of `larder_gate adaptive`: the gradient controller of Envoy's adaptive concurrency filter.
//!
//! ```text
//! Learning --TIMES_LEARNT times at LEARNING at once: their median is `usual`--> Steady
//!    ^ `--------- every RELEARN, or when the lowest limit was not low enough ------'
//!
//! Steady, every WINDOW:  gradient = usual * (1 + BUFFER) / median, between 0.5 and 2
//!                        limit    = limit * gradient + sqrt(limit * gradient), between min and max
//! ```
//!
//! What is usual is measured with few requests at once, and again and again: an average under load would take the wait in
//! the backlog of an origin for its work. Where fewer than half of the places are in use, times say nothing about the
//! limit, which stays; that is ours, as in Netflix's concurrency-limits.
//!
//! Source: <https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_filters/adaptive_concurrency_filter>,
//! whose defaults these are; one process has no use for its jitter.

use std::time::Duration;

use tokio::time::Instant;

/// How much slower than usual is still usual.
const BUFFER: f64 = 0.25;
/// How many requests at once are few.
const LEARNING: f64 = 3.0;
/// Of how many times the median is usual.
const TIMES_LEARNT: usize = 50;
/// When that is measured again.
const RELEARN: Duration = Duration::from_secs(60);
/// After so many windows at the lowest limit it is measured at once: what is usual has changed.
const LOWEST_WINDOWS: u32 = 5;
/// How often the limit changes, if there were so many times.
const WINDOW: Duration = Duration::from_millis(100);
const WINDOW_TIMES_MIN: usize = 5;
/// Of a window with more, the first ones stand for all.
const WINDOW_TIMES_MAX: usize = 256;

#[derive(Debug)]
pub(super) struct Gradient {
    min: f64,
    max: f64,
    /// In steady times.
    limit: f64,
    stage: Stage,
    /// Of the window, or of what is learnt.
    times: Vec<Duration>,
}

#[derive(Debug)]
enum Stage {
    Learning,
    Steady {
        usual: Duration,
        /// When it was measured.
        learnt: Instant,
        window: Instant,
        /// The most requests that were at the origin in the window.
        running_max: u32,
        /// For how many windows the limit is the lowest.
        lowest: u32,
    },
}

impl Gradient {
    /// Between `min` and `max`.
    pub(super) fn new(min: u32, max: u32) -> Gradient {
        let (min, max) = (f64::from(min.max(1)), f64::from(max.max(min).max(1)));
        Gradient { min, max, limit: LEARNING.clamp(min, max), stage: Stage::Learning, times: Vec::new() }
    }

    /// The same between others, with what was learned.
    pub(super) fn set_bounds(&mut self, min: u32, max: u32) {
        let new = Gradient::new(min, max);
        (self.min, self.max) = (new.min, new.max);
        self.limit = self.limit.clamp(self.min, self.max);
    }

    pub(super) fn limit(&self) -> u32 {
        let limit = match self.stage {
            Stage::Learning => LEARNING.clamp(self.min, self.max),
            Stage::Steady { .. } => self.limit,
        };
        limit as u32
    }

    /// A request of `running` had its answer after `time`.
    pub(super) fn note(&mut self, time: Duration, running: u32, now: Instant) {
        if self.times.len() < WINDOW_TIMES_MAX {
            self.times.push(time);
        }
        match &mut self.stage {
            Stage::Learning if self.times.len() < TIMES_LEARNT => {}
            Stage::Learning => {
                let usual = median(&mut self.times);
                self.stage = Stage::Steady { usual, learnt: now, window: now, running_max: 0, lowest: 0 };
            }
            Stage::Steady { usual, learnt, window, running_max, lowest } => {
                *running_max = running.max(*running_max);
                if self.times.len() < WINDOW_TIMES_MIN || now.saturating_duration_since(*window) < WINDOW {
                    return;
                }
                let (median, is_used) = (median(&mut self.times), f64::from(*running_max) >= self.limit / 2.0);
                (*window, *running_max) = (now, 0);
                if is_used {
                    let gradient = usual.as_secs_f64() * (1.0 + BUFFER) / median.as_secs_f64().max(f64::MIN_POSITIVE);
                    let limit = self.limit * gradient.clamp(0.5, 2.0);
                    self.limit = (limit + limit.sqrt()).clamp(self.min, self.max);
                    *lowest = if limit + limit.sqrt() <= self.min.max(LEARNING) { *lowest + 1 } else { 0 };
                }
                if *lowest >= LOWEST_WINDOWS || now.saturating_duration_since(*learnt) >= RELEARN {
                    self.stage = Stage::Learning;
                }
            }
        }
    }
}

/// The one in the middle; the list is empty then.
fn median(times: &mut Vec<Duration>) -> Duration {
    let middle = times.len() / 2;
    let (_, median, _) = times.select_nth_unstable(middle);
    let median = *median;
    times.clear();
    median
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An origin of `children`, each of which works at one request at a time; the others wait in its backlog.
    struct Simulated {
        children: u32,
        work: Duration,
    }

    impl Simulated {
        fn time(&self, running: u32) -> Duration {
            self.work * running.max(self.children) / self.children
        }
    }

    /// Runs it with all places in use for so many seconds, and returns the lowest and the highest limit of the last half.
    fn run(gradient: &mut Gradient, origin: &Simulated, seconds: u64, now: &mut Instant) -> (u32, u32) {
        let end = *now + Duration::from_secs(seconds);
        let half = *now + Duration::from_secs(seconds / 2);
        let (mut low, mut high) = (u32::MAX, 0);
        while *now < end {
            let running = gradient.limit();
            let time = origin.time(running);
            // So many answers come while one is under way.
            for _ in 0..running {
                *now += time / running;
                gradient.note(time, running, *now);
            }
            if *now > half {
                (low, high) = (low.min(gradient.limit()), high.max(gradient.limit()));
            }
        }
        (low, high)
    }

    #[test]
    fn the_limit_stays_near_what_the_origin_can_do_at_once() {
        for (children, most) in [(4, 12), (16, 32), (64, 110)] {
            let mut gradient = Gradient::new(1, 1000);
            let mut now = Instant::now();
            let origin = Simulated { children, work: Duration::from_millis(50) };
            let (low, high) = run(&mut gradient, &origin, 60, &mut now);
            // It learns with few at once, now and then.
            assert!(low >= children.min(3) && high >= children && high <= most, "{children} children: {low} to {high}");
        }
    }

    #[test]
    fn a_slower_origin_gets_fewer_and_a_quick_one_more_again() {
        let mut gradient = Gradient::new(1, 1000);
        let mut now = Instant::now();
        let well = Simulated { children: 64, work: Duration::from_millis(20) };
        let (_, before) = run(&mut gradient, &well, 30, &mut now);
        let ill = Simulated { children: 8, work: Duration::from_millis(60) };
        let (_, during) = run(&mut gradient, &ill, 10, &mut now);
        assert!(during < before / 2, "{before}, then {during}");
        let (after, _) = run(&mut gradient, &well, 60, &mut now);
        assert!(after >= 64, "{after}");
    }

    #[test]
    fn times_say_nothing_while_places_are_free() {
        let mut gradient = Gradient::new(1, 1000);
        let mut now = Instant::now();
        run(&mut gradient, &Simulated { children: 64, work: Duration::from_millis(20) }, 5, &mut now);
        let before = gradient.limit();
        assert!(before > 64, "{before}");
        for turn in 0..10_000u32 {
            now += Duration::from_millis(5);
            gradient.note(Duration::from_millis(u64::from(turn % 500)), 3, now);
        }
        assert_eq!(gradient.limit(), before);
    }

    #[test]
    fn the_bounds_hold() {
        let mut now = Instant::now();
        let mut gradient = Gradient::new(3, 5);
        run(&mut gradient, &Simulated { children: 100, work: Duration::from_millis(1) }, 5, &mut now);
        assert_eq!(gradient.limit(), 5);
        gradient.set_bounds(1, 2);
        assert_eq!(gradient.limit(), 2);
        for step in 1..2000u64 {
            now += Duration::from_millis(20);
            gradient.note(Duration::from_millis(step * step), 2, now);
            assert!((1..=2).contains(&gradient.limit()));
        }
    }
}
