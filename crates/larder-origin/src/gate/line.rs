//! Who waits, and who is next: classes in their order, in a class the first who came.

use std::collections::BTreeMap;

use super::class::{CLASSES, Class};

/// One turn of so many goes to a class behind the first, each of them in its turn, so that nobody starves.
pub(super) const SHARE_EVERY: u64 = 8;

/// Those who wait, each with a `T`.
#[derive(Debug)]
pub(super) struct Line<T> {
    waiting: BTreeMap<Ticket, T>,
    by_class: [u32; CLASSES],
    /// The number of the next who comes.
    next: u64,
    /// How many turns there were while somebody waited.
    turns: u64,
    /// Which class had the last turn out of its order.
    shared: Class,
}

/// A place in the line: the class, and a number that grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket {
    pub(super) class: Class,
    number: u64,
}

impl<T> Line<T> {
    pub(super) fn new() -> Line<T> {
        Line { waiting: BTreeMap::new(), by_class: [0; CLASSES], next: 0, turns: 0, shared: Class::BACKGROUND }
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many of each class wait.
    pub(super) fn by_class(&self) -> [u32; CLASSES] {
        self.by_class
    }

    /// A place behind all of its class.
    pub(super) fn ticket(&mut self, class: Class) -> Ticket {
        self.next += 1;
        Ticket { class, number: self.next }
    }

    /// Has somebody wait at this place.
    pub(super) fn insert(&mut self, ticket: Ticket, who: T) {
        if self.waiting.insert(ticket, who).is_none() {
            self.by_class[ticket.class.index()] += 1;
        }
    }

    /// Takes who waits at this place, if it still waits.
    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<T> {
        let who = self.waiting.remove(&ticket)?;
        self.by_class[ticket.class.index()] -= 1;
        Some(who)
    }

    /// Takes who is next.
    pub(super) fn take(&mut self) -> Option<T> {
        let first = *self.waiting.first_key_value()?.0;
        self.turns += 1;
        let next = match self.turns.is_multiple_of(SHARE_EVERY) {
            true => self.shared_turn(first.class).unwrap_or(first),
            false => first,
        };
        self.remove(next)
    }

    /// The first of the class behind the one that had such a turn last.
    fn shared_turn(&mut self, first: Class) -> Option<Ticket> {
        let from = |class: Class| self.waiting.range(Ticket { class, number: 0 }..).next().map(|(ticket, _)| *ticket);
        let behind = self.shared.max(first).next();
        let next = from(behind).or_else(|| from(first.next()))?;
        self.shared = next.class;
        Some(next)
    }

    /// Takes who gives up its place to somebody of `class`: the last of the last class behind that.
    pub(super) fn make_room(&mut self, class: Class) -> Option<T> {
        let last = *self.waiting.last_key_value()?.0;
        (last.class > class).then(|| self.remove(last)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(classes: &[Class]) -> Line<usize> {
        let mut line = Line::new();
        for (at, class) in classes.iter().enumerate() {
            let ticket = line.ticket(*class);
            line.insert(ticket, at);
        }
        line
    }

    const H: Class = Class::HIGH;
    const N: Class = Class::NORMAL;
    const L: Class = Class::LOW;
    const B: Class = Class::BACKGROUND;

    #[test]
    fn the_first_class_is_first_and_in_it_who_came_first() {
        let mut line = line(&[L, N, H, N, H]);
        let order: Vec<usize> = std::iter::from_fn(|| line.take()).collect();
        assert_eq!(order, [2, 4, 1, 3, 0]);
        assert_eq!(line.by_class(), [0; CLASSES]);
    }

    #[test]
    fn each_class_behind_the_first_has_its_share_of_the_turns() {
        let classes: Vec<Class> = [vec![H; 100], vec![N; 100], vec![L; 100], vec![B; 100]].concat();
        let mut line = line(&classes);
        let taken: Vec<Class> = (0..96).filter_map(|_| line.take()).map(|at| classes[at]).collect();
        let count = |class| taken.iter().filter(|of| **of == class).count();
        assert_eq!((count(H), count(N), count(L), count(B)), (84, 4, 4, 4));
        // A share is for a whole turn of the classes: nobody waits for more than this.
        let first = taken.iter().position(|of| *of == B).unwrap();
        assert!(first < 3 * SHARE_EVERY as usize, "{first}");
    }

    #[test]
    fn alone_a_class_has_all_turns() {
        let mut line = line(&[B; 20]);
        assert_eq!((0..20).map(|_| line.take().unwrap()).collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
        assert_eq!(line.take(), None);
    }

    #[test]
    fn the_last_of_the_last_class_makes_room_for_a_better_one() {
        let mut line = line(&[L, N, L]);
        assert_eq!(line.make_room(L), None, "not for its own class");
        assert_eq!(line.make_room(B), None);
        assert_eq!(line.make_room(N), Some(2));
        assert_eq!(line.make_room(N), Some(0));
        assert_eq!(line.make_room(N), None);
        assert_eq!(line.make_room(H), Some(1));
        assert_eq!((line.make_room(H), line.len()), (None, 0));
    }

    #[test]
    fn who_goes_back_has_its_old_place() {
        let mut line = Line::new();
        let first = line.ticket(N);
        line.insert(first, "first");
        let second = line.ticket(N);
        line.insert(second, "second");
        assert_eq!(line.take(), Some("first"));
        line.insert(first, "first");
        assert_eq!((line.take(), line.remove(second), line.remove(first)), (Some("first"), Some("second"), None));
        assert!(line.is_empty());
    }
}
