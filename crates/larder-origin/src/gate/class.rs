//! Which requests come before others at a gate.

/// The place of a request among those that wait: the lowest comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class(u8);

/// How many classes there are.
pub const CLASSES: usize = 11;

impl Class {
    /// Somebody who would lose work: `high`, 2.
    pub const HIGH: Class = Class(2);
    /// Everybody else: `normal`, 5.
    pub const NORMAL: Class = Class(5);
    /// Who can come again: `low`, 8.
    pub const LOW: Class = Class(8);
    /// A fetch that no client waits for; no visitor has this class.
    pub const BACKGROUND: Class = Class(10);

    /// By a word of `larder_gate_class`: `high`, `normal`, `low`, or a digit, of which 0 comes first.
    pub fn parse(word: &[u8]) -> Option<Class> {
        match word {
            b"high" => Some(Class::HIGH),
            b"normal" => Some(Class::NORMAL),
            b"low" => Some(Class::LOW),
            [digit @ b'0'..=b'9'] => Some(Class(digit - b'0')),
            _ => None,
        }
    }

    /// As a number that is higher the later it comes, for those who know no classes.
    pub fn rank(self) -> u8 {
        self.0
    }

    /// The class with this [`rank`](Self::rank).
    pub fn of_rank(rank: u8) -> Option<Class> {
        (usize::from(rank) < CLASSES).then_some(Class(rank))
    }

    /// Its word, or else its digit.
    pub fn name(self) -> &'static str {
        const NAMES: [&str; CLASSES] = ["0", "1", "high", "3", "4", "normal", "6", "7", "low", "9", "background"];
        NAMES[self.index()]
    }

    /// All, in order.
    pub fn all() -> impl Iterator<Item = Class> {
        (0..CLASSES as u8).map(Class)
    }

    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The one behind it, which may be none that a request has.
    pub(super) fn next(self) -> Class {
        Class(self.0 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_digits_are_one_order() {
        let order: Vec<Class> = ["0", "high", "3", "normal", "7", "low", "9"]
            .iter()
            .filter_map(|word| Class::parse(word.as_bytes()))
            .collect();
        assert_eq!(order.len(), 7);
        assert!(order.is_sorted() && order.iter().all(|class| *class < Class::BACKGROUND));
        for word in ["", "10", "urgent", "-1", "High", "background"] {
            assert_eq!(Class::parse(word.as_bytes()), None, "{word}");
        }
        assert!(Class::all().all(|class| Class::of_rank(class.rank()) == Some(class)));
        assert_eq!(Class::of_rank(CLASSES as u8), None);
        assert_eq!(Class::all().map(Class::name).collect::<std::collections::HashSet<_>>().len(), CLASSES);
    }
}
