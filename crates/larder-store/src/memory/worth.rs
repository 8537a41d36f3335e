//! The worth of keeping a thing: the origin time that its next uses will save, for each byte that it takes.

/// The number of steps of worth. Each step is a factor of the square root of two.
pub(super) const STEPS: usize = 96;

/// The most uses that count. With more, an old favourite would stay long after its last use.
pub(super) const USES_MAX: u8 = 12;

/// Typical cost and weight: running means over the things whose cost is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Typical {
    micros: f64,
    weight: f64,
}

impl Default for Typical {
    fn default() -> Self {
        Self { micros: UNMEASURED_MICROS, weight: 0.0 }
    }
}

impl Typical {
    /// Learns from a thing of known cost; 0 is unknown and teaches nothing.
    pub(super) fn learn(&mut self, micros: u32, weight: usize) {
        if micros == 0 {
            return;
        }
        if self.weight == 0.0 {
            *self = Self { micros: f64::from(micros), weight: weight.max(1) as f64 };
        }
        self.micros += (f64::from(micros) - self.micros) * LEARN_SHARE;
        self.weight += (weight as f64 - self.weight) * LEARN_SHARE;
    }

    /// The step of a thing that takes `weight` bytes, costs `micros` to get again, and was used `uses` times. A thing
    /// of unknown cost counts as typical, and no more if it is smaller than that: the entry of a page that is not here
    /// yet, or never will be, is small and saves nothing.
    pub(super) fn step(&self, micros: u32, weight: usize, uses: u8) -> u8 {
        let weight = weight.max(1) as f64;
        let micros_per_byte = match micros {
            0 => self.micros / weight.max(self.weight),
            micros => f64::from(micros) / weight,
        };
        let expected = if uses <= 1 { UNPROVEN_USES } else { f64::from(uses.min(USES_MAX)) };
        let step = (micros_per_byte * expected).log2() * STEPS_PER_DOUBLING + STEP_OF_ONE;
        // The cast saturates, so the result is in range.
        step.round().clamp(0.0, (STEPS - 1) as f64) as u8
    }
}

/// What `step` stands for, in microseconds a byte.
pub(super) fn worth(step: u8) -> f64 {
    ((f64::from(step) - STEP_OF_ONE) / STEPS_PER_DOUBLING).exp2()
}

/// How much a thing counts that was only fetched and never hit: half a use, because most such things are never wanted
/// again.
const UNPROVEN_USES: f64 = 0.5;

const STEPS_PER_DOUBLING: f64 = 2.0;

/// The step of a microsecond a byte. The lowest step is a millisecond for 16 GiB, the highest 16 seconds for a byte.
const STEP_OF_ONE: f64 = 48.0;

/// How much one thing moves the running mean.
const LEARN_SHARE: f64 = 1.0 / 256.0;

/// The assumed cost while no cost is known at all. It only has to be the same for all things.
const UNMEASURED_MICROS: f64 = 60_000.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worth_goes_by_cost_uses_and_size() {
        let typical = Typical::default();
        let base = typical.step(60_000, 9_000, 2);
        for (micros, weight, uses, steps) in [
            (120_000, 9_000, 2, 2),
            (60_000, 4_500, 2, 2),
            (60_000, 36_000, 2, -4),
            (60_000, 9_000, 4, 2),
            (60_000, 9_000, 1, -4),
            (60_000, 9_000, 0, -4),
            (60_000, 9_000, 8, 4),
        ] {
            let step = typical.step(micros, weight, uses);
            assert_eq!(i32::from(step) - i32::from(base), steps, "{micros} {weight} {uses}");
        }
        assert_eq!(typical.step(60_000, 9_000, USES_MAX), typical.step(60_000, 9_000, 200));
        assert_eq!(worth(base + 2), worth(base) * 2.0);
    }

    #[test]
    fn the_extremes_are_on_the_ladder() {
        let typical = Typical::default();
        for (micros, weight, step) in [(u32::MAX, 0, STEPS - 1), (1, usize::MAX, 0), (1, 1, 46)] {
            assert_eq!(usize::from(typical.step(micros, weight, 1)), step, "{micros} {weight}");
        }
        assert!(worth(0) > 0.0 && worth(STEPS as u8 - 1).is_finite());
    }

    #[test]
    fn an_unknown_cost_is_typical_and_a_small_thing_gains_nothing_by_it() {
        let mut typical = Typical::default();
        assert!(typical.step(0, 1_000, 1) > typical.step(0, 9_000, 1), "nothing known: size alone decides");
        typical.learn(0, 5);
        for _ in 0..2_000 {
            typical.learn(30_000, 10_000);
        }
        let usual = typical.step(30_000, 10_000, 1);
        for (weight, steps) in [(10_000, 0), (600, 0), (40_000, -4)] {
            assert_eq!(i32::from(typical.step(0, weight, 1)) - i32::from(usual), steps, "{weight}");
        }
    }
}
