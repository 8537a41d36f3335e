//! The limit of `larder_gate adaptive`: the gradient controller of Envoy's adaptive concurrency filter.
//!
//! ```text
//! Learning --TIMES_LEARNT times at LEARNING at once, or a window with TIMES_MIN: their median is `usual`--> Steady
//!    ^ `- every RELEARN, when the lowest limit was not low enough, or when who is in gives no answer -'
//!
//! Steady, every WINDOW:  gradient = usual * (1 + BUFFER) / median, between 0.5 and 2
//!                        limit    = limit * gradient + sqrt(limit * gradient), between min and max
//! ```
//!
//! What is usual is measured with few requests at once, and again and again: an average under load would take the wait in
//! the backlog of an origin for its work. Where fewer than half of the places are in use, times say nothing about the
//! limit, which stays; that is ours, as in Netflix's concurrency-limits.
//!
//! Envoy learns until it has its times, however long that takes. Three event streams or long polls would hold the places
//! of learning for ever, so that here learning has windows of time as well: whoever is in at the end of one is put aside,
//! and holds none of the places of the next.
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
pub(super) const WINDOW: Duration = Duration::from_millis(100);
const TIMES_MIN: usize = 5;
/// Of a window with more, the first ones stand for all.
const WINDOW_TIMES_MAX: usize = 256;
/// The first window of learning, where nothing is known of how long requests take; each is twice the one before.
const LEARNING_WINDOW: Duration = Duration::from_secs(1);
const LEARNING_WINDOW_MAX: Duration = Duration::from_secs(60);
/// Where it is known: so many usual times, but no more than [`LEARNING_WINDOW`].
const LEARNING_WINDOW_TIMES: u32 = 4;
/// How many windows may bring too few times before what was usual is so again.
const LEARNING_WINDOWS: u32 = 3;
/// While others wait and all who are in are silent for so long, or so many usual times, it is measured at once.
const SILENCE: Duration = Duration::from_secs(5);
const SILENCE_TIMES: u32 = 8;

#[derive(Debug)]
pub(super) struct Gradient {
    min: f64,
    max: f64,
    /// In steady times.
    limit: f64,
    stage: Stage,
    /// Of the window, or of what is learnt.
    times: Vec<Duration>,
    /// Grows with each beginning and each window of learning.
    round: Round,
    /// How many requests were in when this round began and still are, if it is no first round.
    aside: u32,
}

/// When a request came in.
pub(super) type Round = u64;

#[derive(Debug)]
enum Stage {
    Learning {
        /// Who came in earlier came in under load.
        first: Round,
        /// Of the window; the first window of all begins with the first request.
        ends: Option<Instant>,
        length: Duration,
        /// How many windows have brought too few times.
        windows: u32,
        /// What was usual, if that is known.
        before: Option<Duration>,
    },
    Steady {
        usual: Duration,
        /// When it was measured.
        learnt: Instant,
        window: Instant,
        /// The most requests that were at the origin in the window.
        running_max: u32,
        /// For how many windows the limit is the lowest.
        lowest: u32,
        /// When an answer came last, or somebody began to wait.
        heard: Instant,
    },
}

impl Gradient {
    /// Between `min` and `max`.
    pub(super) fn new(min: u32, max: u32) -> Gradient {
        let (min, max) = (f64::from(min.max(1)), f64::from(max.max(min).max(1)));
        let limit = LEARNING.clamp(min, max);
        let stage = Stage::Learning { first: 0, ends: None, length: LEARNING_WINDOW, windows: 0, before: None };
        Gradient { min, max, limit, stage, times: Vec::new(), round: 0, aside: 0 }
    }

    /// The same between others, with what was learned.
    pub(super) fn set_bounds(&mut self, min: u32, max: u32) {
        let new = Gradient::new(min, max);
        (self.min, self.max) = (new.min, new.max);
        self.limit = self.limit.clamp(self.min, self.max);
    }

    pub(super) fn limit(&self) -> u32 {
        let limit = match self.stage {
            Stage::Learning { .. } => self.learning_limit(),
            Stage::Steady { .. } => self.limit,
        };
        limit as u32
    }

    fn learning_limit(&self) -> f64 {
        (LEARNING.clamp(self.min, self.max) + f64::from(self.aside)).min(self.max)
    }

    /// A request comes in. Returns what is to be told when it has its answer, and when it leaves.
    pub(super) fn come(&mut self, now: Instant) -> Round {
        self.begin_window(now);
        self.round
    }

    /// A request leaves.
    pub(super) fn leave(&mut self, came: Round) {
        if came < self.round {
            self.aside = self.aside.saturating_sub(1);
        }
    }

    /// The first begins to wait.
    pub(super) fn line_begins(&mut self, now: Instant) {
        if let Stage::Steady { heard, .. } = &mut self.stage {
            *heard = now;
        }
    }

    /// A request of `running` had its answer after `time`.
    pub(super) fn note(&mut self, time: Duration, came: Round, running: u32, now: Instant) {
        if matches!(self.stage, Stage::Learning { first, .. } if came < first) {
            return;
        }
        if self.times.len() < WINDOW_TIMES_MAX {
            self.times.push(time);
        }
        match &mut self.stage {
            Stage::Learning { .. } if self.times.len() < TIMES_LEARNT => {}
            Stage::Learning { .. } => self.learnt(now),
            Stage::Steady { usual, learnt, window, running_max, lowest, heard } => {
                *heard = now;
                *running_max = running.max(*running_max);
                if self.times.len() < TIMES_MIN || now.saturating_duration_since(*window) < WINDOW {
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
                    let length = usual.saturating_mul(LEARNING_WINDOW_TIMES).clamp(WINDOW, LEARNING_WINDOW);
                    self.learn(length, now);
                }
            }
        }
    }

    /// A request of `running` left after `time` without an answer.
    pub(super) fn note_silent(&mut self, time: Duration, came: Round, running: u32, now: Instant) {
        if matches!(self.stage, Stage::Steady { .. }) {
            self.note(time, came, running, now);
        }
    }

    /// Ends what has had its time, as `running` are in and others want to be.
    pub(super) fn look(&mut self, running: u32, now: Instant) {
        match &mut self.stage {
            Stage::Learning { ends: Some(ends), length, windows, before, .. } if now >= *ends => {
                self.round += 1;
                self.aside = running;
                *windows += 1;
                if self.times.len() >= TIMES_MIN {
                    return self.learnt(now);
                }
                if let Some(usual) = *before
                    && *windows >= LEARNING_WINDOWS
                {
                    return self.steady(usual, now);
                }
                *length = (*length * 2).min(LEARNING_WINDOW_MAX);
                *ends = now + *length;
            }
            Stage::Steady { usual, heard, .. }
                if now.saturating_duration_since(*heard) >= SILENCE.max(usual.saturating_mul(SILENCE_TIMES)) =>
            {
                self.learn(LEARNING_WINDOW, now);
            }
            Stage::Learning { .. } | Stage::Steady { .. } => {}
        }
    }

    fn learn(&mut self, length: Duration, now: Instant) {
        let before = match self.stage {
            Stage::Learning { before, .. } => before,
            Stage::Steady { usual, .. } => Some(usual),
        };
        self.times.clear();
        self.round += 1;
        self.aside = 0;
        self.stage = Stage::Learning { first: self.round, ends: None, length, windows: 0, before };
        self.begin_window(now);
    }

    fn begin_window(&mut self, now: Instant) {
        if let Stage::Learning { ends: ends @ None, length, .. } = &mut self.stage {
            *ends = Some(now + *length);
        }
    }

    fn learnt(&mut self, now: Instant) {
        let usual = median(&mut self.times);
        self.steady(usual, now);
    }

    fn steady(&mut self, usual: Duration, now: Instant) {
        self.times.clear();
        if self.aside > 0 {
            // They are still in.
            self.limit = self.limit.max(self.learning_limit());
        }
        self.stage = Stage::Steady { usual, learnt: now, window: now, running_max: 0, lowest: 0, heard: now };
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
                let came = gradient.come(*now);
                gradient.note(time, came, running, *now);
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
            let came = gradient.come(now);
            gradient.note(Duration::from_millis(u64::from(turn % 500)), came, 3, now);
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
            let came = gradient.come(now);
            gradient.note(Duration::from_millis(step * step), came, 2, now);
            assert!((1..=2).contains(&gradient.limit()));
        }
    }
}
