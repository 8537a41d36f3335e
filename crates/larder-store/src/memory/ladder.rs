//! Decides what is evicted when the shelf is full: the thing that saves the least origin time for its bytes.
//!
//! Each thing is on a step of the ladder, by its worth: cost x uses / bytes ([`super::worth`]), rounded to half a power
//! of two. A virtual clock stands at the due time of the thing that was evicted last. A thing is due at the clock's
//! time when it was put on its step, plus its worth. The first due is evicted. So expensive, small and often used
//! things stay long, and the clock overtakes a thing that nobody uses any more, however expensive it was.
//!
//! All things on one step have the same worth, so a step is a queue, and the first due of all is at the head of a
//! queue: a choice compares one number for each step. A hit only increments a counter in the [`Seat`]. When a thing
//! with new uses is due, they are added to its uses, and it is queued again.
//!
//! This is GreedyDual-Size-Frequency with the queues of CAMP (Ghandeharizadeh et al., 2014), where uses are read only
//! when a thing is due, as in CLOCK. A new thing counts half a use, so a scan stays on the lowest steps. A thing that
//! comes back while the ghost remembers it gets its old uses.

use std::sync::Arc;

use super::Kept;
use super::seat::Seat;
use super::slab::{NOWHERE, Node, Slab};
use super::worth::{STEPS, Typical, USES_MAX, worth};
use crate::ghost::{Evicted, Ghost};

/// The things of a shelf, in the order in which they are evicted.
pub(super) struct Ladder<V> {
    slab: Slab<V>,
    steps: [Ends; STEPS],
    /// The steps that are not empty, a bit each.
    taken: u128,
    /// The due time of the thing that was evicted last. It only grows.
    clock: f64,
    len: usize,
    weight: usize,
    typical: Typical,
    ghost: Ghost,
    /// Where the next sweep goes on.
    sweep_at: usize,
}

/// The ends of one queue, and when its head is due.
#[derive(Clone, Copy)]
struct Ends {
    newest: u32,
    oldest: u32,
    due: f64,
}

/// What to do with the first due.
enum Fate {
    Stays { uses: u8 },
    Leaves,
}

impl<V: Kept> Ladder<V> {
    pub(super) fn new() -> Self {
        Self {
            slab: Slab::new(),
            steps: [Ends { newest: NOWHERE, oldest: NOWHERE, due: 0.0 }; STEPS],
            taken: 0,
            clock: 0.0,
            len: 0,
            weight: 0,
            typical: Typical::default(),
            ghost: Ghost::default(),
            sweep_at: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    /// Puts a new thing on its step. True if it was evicted only lately.
    pub(super) fn push(&mut self, kept: &Arc<V>, weight: usize) -> bool {
        let seat = kept.seat();
        // It may have been removed between the index and here, which sets this mark.
        if seat.is_gone() {
            return false;
        }
        let before = self.ghost.take(seat.hash());
        let uses = before.map_or(1, |before| before.uses.saturating_add(1).min(USES_MAX));
        seat.set_left_until(before.map_or(0, |before| before.useful_until));
        let micros = seat.cost_micros();
        self.typical.learn(micros, weight);
        let step = self.typical.step(micros, weight, uses);
        let node = Node { kept: Arc::clone(kept), due: 0.0, weight, newer: NOWHERE, older: NOWHERE, step, uses };
        // Beyond four billion things, it stays in the index without a node here; a purge can still remove it.
        if let Some(at) = self.slab.put(node) {
            seat.set_node(Some(at));
            self.len += 1;
            self.weight += weight;
            self.link(at, step, uses);
        }
        before.is_some()
    }

    /// Notes the new weight and cost of a thing.
    pub(super) fn reweigh(&mut self, seat: &Seat, weight: usize) {
        let Some(at) = seat.node() else {
            return;
        };
        let Some(node) = self.slab.get_mut(at) else {
            return;
        };
        let old = std::mem::replace(&mut node.weight, weight);
        let (step, uses) = (node.step, node.uses);
        self.weight = self.weight - old + weight;
        let micros = seat.cost_micros();
        self.typical.learn(micros, weight);
        let new = self.typical.step(micros, weight, uses);
        if new != step {
            self.unlink(at);
            self.link(at, new, uses);
        }
    }

    /// Removes a thing. False if it is gone already.
    ///
    /// A thing that is not here yet is marked, so that `push` does not add it.
    pub(super) fn remove(&mut self, seat: &Seat) -> bool {
        if seat.is_gone() {
            return false;
        }
        seat.set_gone();
        if let Some(at) = seat.node() {
            self.cut(at);
        }
        true
    }

    /// Chooses a thing, removes it, and returns it with its weight. `None` if nothing can be evicted.
    pub(super) fn evict(&mut self) -> Option<(Arc<V>, usize)> {
        // A thing that stays was used since the last look, so in the long run the hits pay for the looks. The bound
        // keeps the lock short if many were used at once: then the first due is evicted although it was used.
        for look in 1..=LOOKS_MAX.min(self.len * 2) {
            let step = self.first_due()?;
            let at = self.steps.get(step)?.oldest;
            self.clock = self.clock.max(self.steps.get(step)?.due);
            let node = self.slab.get(at)?;
            match fate(node, look == LOOKS_MAX) {
                Fate::Stays { uses } => self.renew(at, uses),
                Fate::Leaves => return self.part(at),
            }
        }
        let idle = self.an_idle_one()?;
        self.part(idle)
    }

    /// Looks at `look` places. Returns the things for which `keep` is false, and whether the end was reached.
    pub(super) fn sweep(&mut self, look: usize, keep: &mut impl FnMut(&V) -> bool) -> (Vec<Arc<V>>, bool) {
        let (unkept, next) = self.look_through(self.sweep_at, look, keep);
        self.sweep_at = next.unwrap_or(0);
        (unkept, next.is_none())
    }

    /// The things in `look` places from `at` on for which `keep` is false, and where to go on; `None` at the end.
    pub(super) fn look_through(
        &self,
        at: usize,
        look: usize,
        keep: &mut impl FnMut(&V) -> bool,
    ) -> (Vec<Arc<V>>, Option<usize>) {
        let places = self.slab.places();
        let end = at.saturating_add(look).min(places);
        let unkept = (at..end)
            .filter_map(|at| self.slab.get(at as u32))
            .filter(|node| !keep(&node.kept))
            .map(|node| Arc::clone(&node.kept))
            .collect();
        (unkept, (end < places).then_some(end))
    }

    /// The step whose head is due first; of two, the lower.
    fn first_due(&self) -> Option<usize> {
        let mut left = self.taken;
        let mut first: Option<(f64, usize)> = None;
        while left != 0 {
            let step = left.trailing_zeros() as usize;
            left &= left - 1;
            let due = self.steps.get(step)?.due;
            if first.is_none_or(|(earliest, _)| due < earliest) {
                first = Some((due, step));
            }
        }
        first.map(|(_, step)| step)
    }

    /// The last resort if every look met a thing that stays: one near the end that is not busy.
    fn an_idle_one(&self) -> Option<u32> {
        let heads = (0..STEPS).filter(|step| self.taken >> step & 1 == 1).filter_map(|step| self.steps.get(step));
        let mut looks = LOOKS_MAX;
        for head in heads {
            let mut at = head.oldest;
            while let Some(node) = self.slab.get(at) {
                if !node.kept.is_busy() {
                    return Some(at);
                }
                looks = looks.checked_sub(1)?;
                at = node.newer;
            }
        }
        None
    }

    /// Queues the thing at `at` again, with `uses` in all.
    fn renew(&mut self, at: u32, uses: u8) {
        let Some(node) = self.slab.get_mut(at) else {
            return;
        };
        node.uses = uses;
        let seat = node.kept.seat();
        seat.set_uses(0);
        let step = self.typical.step(seat.cost_micros(), node.weight, uses);
        self.unlink(at);
        self.link(at, step, uses);
    }

    /// Evicts the thing at `at`, and lets the ghost remember it.
    fn part(&mut self, at: u32) -> Option<(Arc<V>, usize)> {
        let len = self.len;
        let node = self.cut(at)?;
        let seat = node.kept.seat();
        seat.set_gone();
        let useful_until = u32::try_from(node.kept.useful_until()).unwrap_or(u32::MAX);
        self.ghost.push(seat.hash(), Evicted { uses: node.uses.saturating_add(seat.uses()), useful_until }, len);
        Some((node.kept, node.weight))
    }

    /// Notes that what was evicted under `hash`, or all that was, would have been removed by now.
    pub(super) fn make_useless(&mut self, hash: Option<u64>) {
        match hash {
            Some(hash) => self.ghost.make_useless(hash),
            None => self.ghost.make_all_useless(),
        }
    }

    fn cut(&mut self, at: u32) -> Option<Node<V>> {
        self.unlink(at);
        let node = self.slab.take(at)?;
        node.kept.seat().set_node(None);
        self.len -= 1;
        self.weight -= node.weight;
        Some(node)
    }

    /// Puts the node at `at` at the end of the queue of `step`, due its worth from now.
    fn link(&mut self, at: u32, step: u8, uses: u8) {
        let due = self.clock + worth(step);
        let Some(ends) = self.steps.get_mut(usize::from(step)) else {
            return;
        };
        let older = std::mem::replace(&mut ends.newest, at);
        if older == NOWHERE {
            ends.oldest = at;
            ends.due = due;
            self.taken |= 1 << step;
        }
        if let Some(before) = self.slab.get_mut(older) {
            before.newer = at;
        }
        if let Some(node) = self.slab.get_mut(at) {
            (node.older, node.newer, node.step, node.due, node.uses) = (older, NOWHERE, step, due, uses);
        }
    }

    /// Removes the node at `at` from its queue; it stays in the slab.
    fn unlink(&mut self, at: u32) {
        let Some(node) = self.slab.get(at) else {
            return;
        };
        let (older, newer, step) = (node.older, node.newer, node.step);
        if let Some(before) = self.slab.get_mut(older) {
            before.newer = newer;
        }
        let due_of_newer = self.slab.get_mut(newer).map(|after| {
            after.older = older;
            after.due
        });
        let Some(ends) = self.steps.get_mut(usize::from(step)) else {
            return;
        };
        if newer == NOWHERE {
            ends.newest = older;
        }
        if older == NOWHERE {
            ends.oldest = newer;
            match due_of_newer {
                Some(due) => ends.due = due,
                None => self.taken &= !(1 << step),
            }
        }
    }
}

/// Decides about the first due. `patience_over` says that enough others were passed over.
fn fate<V: Kept>(node: &Node<V>, patience_over: bool) -> Fate {
    let new_uses = node.kept.seat().uses();
    if node.kept.is_busy() || (new_uses > 0 && !patience_over) {
        return Fate::Stays { uses: node.uses.saturating_add(new_uses).min(USES_MAX) };
    }
    Fate::Leaves
}

/// The most things that one eviction looks at.
const LOOKS_MAX: usize = 256;

const _: () = assert!(STEPS <= u128::BITS as usize);

#[cfg(test)]
mod tests {
    use super::*;

    struct Thing {
        seat: Seat,
        busy: bool,
    }

    impl Kept for Thing {
        fn key(&self) -> &[u8] {
            &[]
        }
        fn weight(&self) -> usize {
            0
        }
        fn seat(&self) -> &Seat {
            &self.seat
        }
        fn is_busy(&self) -> bool {
            self.busy
        }
        fn leave(&self) {}
    }

    fn thing(number: u64, micros: u32, busy: bool) -> Arc<Thing> {
        let seat = Seat::new(number << 32 | number);
        seat.set_cost_micros(micros);
        Arc::new(Thing { seat, busy })
    }

    fn evicted(ladder: &mut Ladder<Thing>) -> Option<u64> {
        ladder.evict().map(|(thing, _)| thing.seat.hash() >> 32)
    }

    /// Checks every queue from end to end against the sums. Gives the places of all.
    fn check(ladder: &Ladder<Thing>) -> Vec<u32> {
        let mut found = Vec::new();
        let mut weight = 0;
        for (step, ends) in ladder.steps.iter().enumerate() {
            let (mut at, mut older, mut due) = (ends.oldest, NOWHERE, 0.0);
            assert_eq!(at != NOWHERE, ladder.taken >> step & 1 == 1, "step {step}");
            while let Some(node) = ladder.slab.get(at) {
                assert!(node.due >= due && node.older == older && usize::from(node.step) == step, "step {step}");
                assert!(older != NOWHERE || node.due == ends.due, "step {step}");
                assert_eq!(node.kept.seat().node(), Some(at));
                found.push(at);
                weight += node.weight;
                (older, due, at) = (at, node.due, node.newer);
            }
            assert_eq!(ends.newest, older, "step {step}");
        }
        assert_eq!((found.len(), weight), (ladder.len, ladder.weight));
        found
    }

    #[test]
    fn the_first_due_leaves_and_a_use_is_another_term() {
        let mut ladder = Ladder::new();
        let things: Vec<_> =
            [30_000, 10_000, 10_000, 90_000].into_iter().zip(1..).map(|(micros, n)| thing(n, micros, false)).collect();
        for thing in &things {
            ladder.push(thing, 100);
        }
        things[1].seat.touch();
        // A new thing counts half a use: the third is due at 50, the first at 150, the last at 450. The second has
        // two uses when it is due at 50, and 200 more to stay.
        assert_eq!([(); 5].map(|()| evicted(&mut ladder)), [Some(3), Some(1), Some(2), Some(4), None]);
        assert_eq!((ladder.len(), ladder.weight()), (0, 0));
        assert!(ladder.push(&thing(2, 10_000, false), 100), "it left lately");
        assert!(!ladder.push(&thing(7, 10_000, false), 100));
        assert_eq!([evicted(&mut ladder), evicted(&mut ladder)], [Some(7), Some(2)]);
    }

    #[test]
    fn one_choice_looks_at_a_bounded_number_however_many_were_used_or_are_at_work() {
        let mut ladder = Ladder::new();
        let things: Vec<_> = (0..4 * LOOKS_MAX as u64).map(|number| thing(number, 10_000, false)).collect();
        for thing in &things {
            ladder.push(thing, 100);
            thing.seat.touch();
        }
        let looked_at = || things.iter().filter(|thing| thing.seat.uses() == 0).count();
        assert!(evicted(&mut ladder).is_some());
        assert!((LOOKS_MAX - 1..=LOOKS_MAX).contains(&looked_at()), "{}", looked_at());

        let mut ladder = Ladder::new();
        for number in 0..4 * LOOKS_MAX as u64 {
            ladder.push(&thing(number, 10_000, number != 700), 100);
        }
        // A choice passes over as many at work as it may look at, and looks for an idle one among as many more.
        assert_eq!([(); 4].map(|()| evicted(&mut ladder)), [None, Some(700), None, None]);
        assert_eq!(check(&ladder).len(), 4 * LOOKS_MAX - 1);
    }

    #[test]
    fn links_and_sums_hold_whatever_happens() {
        let mut ladder = Ladder::new();
        let mut here: Vec<Arc<Thing>> = Vec::new();
        let mut state = 7_u64;
        for number in 0..6_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let draw = (state >> 33) as usize;
            match (state >> 60, here.is_empty()) {
                (0..=6, _) | (_, true) => {
                    here.push(thing(number, draw as u32 % 500_000, draw.is_multiple_of(50)));
                    ladder.push(&here[here.len() - 1], draw % 10_000);
                }
                (7 | 8, false) => here[draw % here.len()].seat.touch(),
                (9 | 10, false) => ladder.reweigh(&here[draw % here.len()].seat, draw % 5_000),
                (11, false) => assert!(ladder.remove(&here.swap_remove(draw % here.len()).seat)),
                (_, false) => {
                    if let Some((gone, _)) = ladder.evict() {
                        here.retain(|thing| !Arc::ptr_eq(thing, &gone));
                    }
                }
            }
            if number % 100 == 0 {
                assert_eq!(check(&ladder).len(), here.len());
            }
        }
        while ladder.evict().is_some() {}
        assert!(check(&ladder).len() < 200, "only who is at work is left");
    }
}
