//! Who is chosen on a ring: Varnish's `vmod_directors_shard_dir.c`.

use super::super::judge::{Judge, Number};
use super::parameters::{Healthy, Question};
use super::ring::Ring;

/// What a choice depends on, beside the question.
pub struct Moment<'a, J> {
    /// Who knows about health.
    pub judge: &'a J,
    /// Now, in seconds since 1970.
    pub now: f64,
    /// A random number from 0 to 1.
    pub share: &'a dyn Fn() -> f64,
    /// How often the next member is taken instead, if the question does not say.
    pub warmup: f64,
    /// How long members get only a part of their requests, in seconds, if they have no number of their own.
    pub rampup: f64,
}

/// The member for a key; `None` if there is none.
pub fn choose<J: Judge>(ring: &Ring, key: u32, question: &Question, moment: &Moment<'_, J>) -> Option<Number> {
    let mut walk = Walk {
        ring,
        judge: moment.judge,
        points: ring.from(key),
        seen: vec![false; ring.members.len()],
        pair: Pair::default(),
    };
    let backend = |place: Option<Place>| place.map(|place| ring.members[place.host].backend);
    let last = u64::try_from(ring.members.len()).unwrap_or(u64::MAX).saturating_sub(1);
    let alt = question.alt.min(last);
    if alt > 0 && !walk.go(alt - 1, question.healthy == Healthy::All) {
        return backend(walk.pair.previous);
    }
    if !walk.go(0, question.healthy != Healthy::Ignore) {
        return backend(walk.pair.previous);
    }
    let chosen = walk.pair.last;
    let warmup = question.warmup.unwrap_or(moment.warmup);
    let is_plain = alt > 0 || question.healthy == Healthy::Ignore || (!question.rampup && warmup == 0.0);
    if is_plain || !walk.go(0, true) {
        return backend(chosen);
    }
    match walk.pair {
        Pair { previous: Some(chosen), last: Some(next) }
            if gives_way(ring, chosen, next, warmup, question, moment) =>
        {
            backend(Some(next))
        }
        Pair { .. } => backend(chosen),
    }
}

/// Whether the next member is asked instead of the chosen one: that one has just become healthy, or the next one is to
/// be warmed up.
fn gives_way<J>(
    ring: &Ring,
    chosen: Place,
    next: Place,
    warmup: f64,
    question: &Question,
    moment: &Moment<'_, J>,
) -> bool {
    let rampup = |place: Place| ring.members[place.host].rampup.unwrap_or(moment.rampup);
    let up = |place: Place| moment.now - place.changed;
    if up(chosen) < rampup(chosen) {
        question.rampup && up(next) >= rampup(next) && (moment.share)() * rampup(chosen) >= up(chosen)
    } else {
        warmup > 0.0 && (moment.share)() <= warmup
    }
}

/// A member that was passed.
#[derive(Clone, Copy)]
struct Place {
    host: usize,
    /// When its health changed, in seconds since 1970.
    changed: f64,
}

/// The healthy member that was passed before the one where the walk has stopped, and that one.
#[derive(Clone, Copy, Default)]
struct Pair {
    previous: Option<Place>,
    last: Option<Place>,
}

struct Walk<'a, J, P> {
    ring: &'a Ring,
    judge: &'a J,
    points: P,
    /// Which members have been passed.
    seen: Vec<bool>,
    pair: Pair,
}

impl<J: Judge, P: Iterator<Item = usize>> Walk<'_, J, P> {
    /// Passes over `skip` members and stops at the next one; only healthy ones count if `is_healthy`. False if there is
    /// none.
    fn go(&mut self, mut skip: u64, is_healthy: bool) -> bool {
        for host in self.points.by_ref() {
            if std::mem::replace(&mut self.seen[host], true) {
                continue;
            }
            let backend = self.ring.members[host].backend;
            let health = self.judge.is_healthy(backend);
            let place = Place { host, changed: self.judge.changed(backend) };
            let counts = health || !is_healthy;
            if counts && skip == 0 {
                self.pair = Pair { previous: self.pair.last.or(self.pair.previous), last: Some(place) };
                return true;
            }
            if health {
                self.pair.previous = Some(place);
            }
            skip -= u64::from(counts);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::judge::Sick;
    use super::super::parameters::{By, Set};
    use super::super::ring::Instance;
    use super::*;

    fn ring(count: Number) -> Ring {
        let member =
            |backend: Number| Instance { backend, ident: format!("s{}", backend + 1), rampup: None, replicas: 67 };
        Ring::new((0..count).map(member).collect())
    }

    fn chosen(ring: &Ring, key: u32, sick: &[Number], set: Set) -> Option<Number> {
        let moment = Moment { judge: &Sick(sick), now: 1000.0, share: &|| 0.5, warmup: 0.0, rampup: 0.0 };
        choose(ring, key, &set.question(), &moment)
    }

    /// The members in the order of a key.
    fn order(ring: &Ring, key: u32) -> Vec<Number> {
        let mut order = Vec::new();
        ring.from(key).map(|host| host as Number).for_each(|host| {
            if !order.contains(&host) {
                order.push(host);
            }
        });
        order
    }

    #[test]
    fn each_alternative_is_the_next_member_and_health_counts_as_asked() {
        let ring = ring(3);
        let order = order(&ring, 7);
        let [a, b, c] = order[..] else { panic!("there are three") };
        use Healthy::{All, Chosen, Ignore};
        for (alt, healthy, sick, expected) in [
            (0, Chosen, vec![], Some(a)),
            (1, Chosen, vec![], Some(b)),
            (2, Chosen, vec![], Some(c)),
            (99, Chosen, vec![], Some(c)),
            (0, Chosen, vec![a], Some(b)),
            (0, Chosen, vec![a, b], Some(c)),
            (0, Chosen, vec![a, b, c], None),
            (0, Ignore, vec![a, b, c], Some(a)),
            (2, Ignore, vec![c], Some(c)),
            (1, Chosen, vec![a], Some(b)),
            (1, Chosen, vec![b], Some(c)),
            (1, All, vec![a], Some(c)),
            (1, All, vec![a, b], None),
            (2, All, vec![b], Some(a)),
            (2, Chosen, vec![c], Some(a)),
        ] {
            let set = Set { by: Some(By::Key(7)), alt: Some(alt), healthy: Some(healthy), ..Set::default() };
            assert_eq!(chosen(&ring, 7, &sick, set), expected, "alt {alt} {healthy:?} sick {sick:?} of {order:?}");
        }
        assert_eq!(chosen(&Ring::default(), 7, &[], Set::default()), None);
    }

    #[test]
    fn when_a_member_leaves_only_its_keys_move() {
        let (four, three) = (ring(4), ring(3));
        let mut counts = [0_u32; 4];
        for step in 0..4000_u32 {
            let key = step.wrapping_mul(0x9e37_79b9);
            let before = chosen(&four, key, &[], Set::default()).expect("all are healthy");
            counts[before as usize] += 1;
            let without = chosen(&three, key, &[], Set::default());
            let sick = chosen(&four, key, &[3], Set::default());
            if key <= 0xf000_0000 {
                assert_eq!(without, sick, "{key:x}: gone is as sick");
            }
            if before != 3 {
                assert_eq!(sick, Some(before), "{key:x}");
            }
        }
        assert!(counts.iter().all(|count| (600..1500).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_member_that_has_just_become_healthy_gets_a_part_of_its_requests() {
        struct Times<'a>(&'a [f64]);
        impl Judge for Times<'_> {
            fn is_healthy(&self, _: Number) -> bool {
                true
            }
            fn changed(&self, backend: Number) -> f64 {
                self.0[backend as usize]
            }
        }
        let ring = ring(2);
        let order = order(&ring, 7);
        // When the first and the second became healthy, the random number, rampup, warmup; whether the second is chosen.
        for (changed, share, rampup, warmup, gives_way) in [
            ([0.0, 0.0], 0.5, None, None, false),
            ([999.0, 0.0], 0.5, None, None, true),
            ([999.0, 0.0], 0.05, None, None, false),
            ([999.0, 998.0], 0.5, None, None, false),
            ([999.0, 0.0], 0.5, Some(false), Some(0.9), false),
            ([0.0, 0.0], 0.5, None, Some(0.4), false),
            ([0.0, 0.0], 0.5, None, Some(0.6), true),
            ([0.0, 0.0], 0.5, Some(false), Some(0.6), true),
            ([0.0, 0.0], 0.5, None, Some(0.0), false),
        ] {
            let mut times = [0.0; 2];
            times[order[0] as usize] = changed[0];
            times[order[1] as usize] = changed[1];
            let moment = Moment { judge: &Times(&times), now: 1000.0, share: &|| share, warmup: 0.0, rampup: 10.0 };
            let question = Set { rampup, warmup, ..Set::default() }.question();
            let chosen = choose(&ring, 7, &question, &moment);
            assert_eq!(chosen, Some(order[usize::from(gives_way)]), "{changed:?} {share} {rampup:?} {warmup:?}");
        }
    }
}
