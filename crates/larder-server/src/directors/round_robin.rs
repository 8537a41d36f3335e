//! `directors.round_robin()`: healthy members take turns.

use parking_lot::Mutex;

use super::judge::{Judge, Number};
use super::members::Members;

/// The director.
#[derive(Debug, Default)]
pub struct RoundRobin {
    /// Its members.
    pub members: Members,
    /// Guards whose turn is next, so that two requests at once get two members. Not held across an await.
    next: Mutex<usize>,
}

impl RoundRobin {
    /// The next healthy member; `None` if there is none.
    pub fn choose(&self, judge: &impl Judge) -> Option<Number> {
        let members = self.members.now();
        let mut next = self.next.lock();
        for _ in 0..members.len() {
            let member = members[*next % members.len()];
            *next = (*next + 1) % members.len();
            if judge.is_healthy(member.backend) {
                return Some(member.backend);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::judge::Sick;
    use super::super::members::Member;
    use super::*;

    #[test]
    fn healthy_members_take_turns() {
        for (members, sick, expected) in [
            (vec![], vec![], [None; 4]),
            (vec![7], vec![], [Some(7); 4]),
            (vec![1, 2, 3], vec![], [Some(1), Some(2), Some(3), Some(1)]),
            (vec![1, 2, 3], vec![2], [Some(1), Some(3), Some(1), Some(3)]),
            (vec![1, 1, 2], vec![], [Some(1), Some(1), Some(2), Some(1)]),
            (vec![1, 2], vec![1, 2], [None; 4]),
        ] {
            let director = RoundRobin::default();
            members.iter().for_each(|backend| assert!(director.members.add(Member { backend: *backend, weight: 1.0 })));
            let chosen = [(); 4].map(|()| director.choose(&Sick(&sick)));
            assert_eq!(chosen, expected, "{members:?}, sick {sick:?}");
        }
    }

    #[test]
    fn a_member_that_leaves_takes_its_turn_with_it() {
        let director = RoundRobin::default();
        [1, 2, 3].iter().for_each(|at| assert!(director.members.add(Member { backend: *at, weight: 1.0 })));
        assert_eq!([(); 3].map(|()| director.choose(&Sick(&[]))), [Some(1), Some(2), Some(3)]);
        assert_eq!(director.members.remove(3), Some(2));
        assert_eq!(director.members.remove(3), None);
        assert_eq!([(); 3].map(|()| director.choose(&Sick(&[]))), [Some(1), Some(2), Some(1)]);
    }
}
