//! `directors.fallback()`: the first healthy member.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::judge::{Judge, Number};
use super::members::Members;

/// The director.
#[derive(Debug, Default)]
pub struct Fallback {
    /// Its members, the best first.
    pub members: Members,
    /// Whether it keeps a member while that is healthy, even if a better one is again.
    is_sticky: bool,
    /// The place of the member that was chosen last.
    current: AtomicUsize,
}

impl Fallback {
    /// One without members.
    pub fn new(is_sticky: bool) -> Self {
        Self { is_sticky, ..Self::default() }
    }

    /// The first healthy member, from the one on that was chosen last if it is sticky; `None` if there is none.
    pub fn choose(&self, judge: &impl Judge) -> Option<Number> {
        let members = self.members.now();
        let first = if self.is_sticky { self.current.load(Ordering::Relaxed) } else { 0 };
        let mut places = (0..members.len()).map(|step| (first + step) % members.len());
        let place = places.find(|place| judge.is_healthy(members[*place].backend))?;
        self.current.store(place, Ordering::Relaxed);
        Some(members[place].backend)
    }

    /// Removes a member. The current one stays it, unless it is the one that is removed.
    pub fn remove(&self, backend: Number) {
        let Some(at) = self.members.remove(backend) else { return };
        let count = self.members.now().len();
        let moved = |current: usize| match current {
            current if at < current => Some(current - 1),
            current if current >= count => Some(0),
            _ => None,
        };
        // Nothing to move is no error.
        let _ = self.current.fetch_update(Ordering::Relaxed, Ordering::Relaxed, moved);
    }
}

#[cfg(test)]
mod tests {
    use super::super::judge::Sick;
    use super::super::members::Member;
    use super::*;

    fn director(is_sticky: bool) -> Fallback {
        let director = Fallback::new(is_sticky);
        [1, 2, 3].iter().for_each(|at| assert!(director.members.add(Member { backend: *at, weight: 1.0 })));
        director
    }

    #[test]
    fn the_first_healthy_member_is_chosen_and_a_sticky_director_keeps_it() {
        // Which are sick, one time after the other, and who is chosen then.
        type Case<'a> = (bool, &'a [(&'a [Number], Option<Number>)]);
        let cases: [Case<'_>; 3] = [
            (false, &[(&[], Some(1)), (&[1], Some(2)), (&[1, 2], Some(3)), (&[2], Some(1)), (&[1, 2, 3], None)]),
            (true, &[(&[], Some(1)), (&[1], Some(2)), (&[], Some(2)), (&[2], Some(3)), (&[3], Some(1))]),
            (true, &[(&[1, 2, 3], None), (&[1, 2], Some(3)), (&[], Some(3))]),
        ];
        for (is_sticky, times) in cases {
            let director = director(is_sticky);
            for (sick, expected) in times {
                assert_eq!(director.choose(&Sick(sick)), *expected, "sticky {is_sticky}, sick {sick:?}");
            }
        }
        assert_eq!(Fallback::new(true).choose(&Sick(&[])), None, "no members");
    }

    #[test]
    fn a_member_that_leaves_does_not_move_the_current_one() {
        for (removed, expected) in [(1, Some(2)), (2, Some(3)), (3, Some(2))] {
            let director = director(true);
            assert_eq!(director.choose(&Sick(&[1])), Some(2));
            director.remove(removed);
            director.remove(99);
            assert_eq!(director.choose(&Sick(&[])), expected, "without {removed}");
        }
    }
}
