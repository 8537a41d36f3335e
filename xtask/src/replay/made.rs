//! Traces that are made here, for what the recorded ones do not show.

use std::path::Path;

use super::trace::{Trace, mix, uniform};

/// The made trace of this name.
pub fn by_name(name: &Path) -> Option<Trace> {
    match name.to_str()? {
        "made:zipf" => Some(zipf()),
        "made:drift" => Some(drift()),
        "made:crawl" => Some(crawl()),
        "made:moved" => Some(moved()),
        _ => None,
    }
}

/// Pages of a fixed popularity.
pub fn zipf() -> Trace {
    let mut draws = Draws::new(1, 10_000, 0.9);
    Trace::of("made:zipf", (0..60_000).map(|_| (draws.rank(), None)))
}

/// A new page takes the place of one every 50 requests, of popular ones more often: news.
pub fn drift() -> Trace {
    let mut draws = Draws::new(2, 10_000, 0.9);
    let mut pages: Vec<u64> = (0..10_000).collect();
    let requests = (0..60_000).map(move |at| {
        if at % 50 == 0 {
            let rank = draws.rank() as usize;
            pages[rank] = 10_000 + at;
        }
        (pages[draws.rank() as usize], None)
    });
    Trace::of("made:drift", requests)
}

/// A crawler asks for every page in turn, twice as often as all others ask, half of the time.
pub fn crawl() -> Trace {
    let mut draws = Draws::new(3, 10_000, 0.9);
    let mut crawled = 0;
    let requests = (0..80_000).map(move |at| {
        let crawls = at / 10_000 % 2 == 1 && draws.uniform() < 2.0 / 3.0;
        crawled += u64::from(crawls);
        (if crawls { crawled % 10_000 } else { draws.rank() }, None)
    });
    Trace::of("made:crawl", requests)
}

/// Every 20,000 requests nothing is asked for any more that was before: the worst for what counts uses.
pub fn moved() -> Trace {
    let mut draws = Draws::new(4, 10_000, 0.9);
    Trace::of("made:moved", (0..80_000).map(|at| (draws.rank() + at / 20_000 * 10_000, None)))
}

/// Numbers that look random and are the same every time.
struct Draws {
    state: u64,
    /// The chance of a rank or a lower one.
    below: Vec<f64>,
}

impl Draws {
    /// Ranks below `len`, of a chance that falls with the power `slope` of the rank.
    fn new(seed: u64, len: usize, slope: f64) -> Self {
        let mut sum = 0.0;
        let mut below: Vec<f64> = (1..=len)
            .map(|rank| {
                sum += (rank as f64).powf(-slope);
                sum
            })
            .collect();
        below.iter_mut().for_each(|chance| *chance /= sum);
        Self { state: mix(seed), below }
    }

    fn uniform(&mut self) -> f64 {
        self.state = self.state.wrapping_add(1);
        uniform(mix(self.state))
    }

    fn rank(&mut self) -> u64 {
        let chance = self.uniform();
        self.below.partition_point(|&below| below < chance).min(self.below.len() - 1) as u64
    }
}
