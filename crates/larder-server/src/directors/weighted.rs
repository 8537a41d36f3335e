//! `directors.random()` and `directors.hash()`: members in proportion to their weights.

use super::judge::{Judge, Number};
use super::members::{Member, Members};

/// The director.
#[derive(Debug, Default)]
pub struct Weighted {
    /// Its members.
    pub members: Members,
}

impl Weighted {
    /// The member at `place`, which is at least 0 and less than 1, of the line on which each healthy member is as long
    /// as its weight. `None` if that line has no length.
    pub fn choose(&self, place: f64, judge: &impl Judge) -> Option<Number> {
        let members = self.members.now();
        let is_healthy = |member: &&Member| member.weight > 0.0 && judge.is_healthy(member.backend);
        let healthy: Vec<&Member> = members.iter().filter(is_healthy).collect();
        let total: f64 = healthy.iter().map(|member| member.weight).sum();
        let mut end = 0.0;
        let chosen = healthy.iter().find(|member| {
            end += member.weight;
            place * total < end
        });
        // What was rounded may lie behind the end.
        chosen.or(healthy.last()).map(|member| member.backend)
    }
}

/// Where a key lies among the members, from its [`hash`](super::hash::hash).
pub fn place_of(hash: u32) -> f64 {
    f64::from(hash) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::super::judge::Sick;
    use super::*;

    fn director(weights: &[(Number, f64)]) -> Weighted {
        let director = Weighted::default();
        weights.iter().for_each(|&(backend, weight)| assert!(director.members.add(Member { backend, weight })));
        director
    }

    #[test]
    fn members_are_chosen_in_proportion_to_their_weights() {
        let weights = &[(1, 1.0), (2, 2.0), (3, 1.0), (4, 0.0), (5, -3.0)];
        for (sick, expected) in [
            (vec![], [100, 200, 100, 0, 0]),
            (vec![2], [200, 0, 200, 0, 0]),
            (vec![1, 3], [0, 400, 0, 0, 0]),
            (vec![1, 2, 3], [0; 5]),
        ] {
            let director = director(weights);
            let mut counts = [0; 5];
            for step in 0..400 {
                if let Some(chosen) = director.choose(f64::from(step) / 400.0, &Sick(&sick)) {
                    counts[chosen as usize - 1] += 1;
                }
            }
            assert_eq!(counts, expected, "sick {sick:?}");
        }
        assert_eq!(director(&[]).choose(0.5, &Sick(&[])), None);
    }

    #[test]
    fn the_end_of_the_line_is_the_last_member() {
        let tenths: Vec<(Number, f64)> = (0..10).map(|backend| (backend, 0.1)).collect();
        let director = director(&tenths);
        for (hash, expected) in [(0, 0), (u32::MAX / 2, 4), (u32::MAX, 9)] {
            assert_eq!(director.choose(place_of(hash), &Sick(&[])), Some(expected), "{hash}");
        }
        assert!(place_of(u32::MAX) < 1.0);
        assert_eq!(director.choose(1.0, &Sick(&[])), Some(9), "rounded");
    }
}
