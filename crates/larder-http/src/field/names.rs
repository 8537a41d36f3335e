//! Sets of field names, to be asked for each field of a head.

use super::known::{Known, KnownSet};

/// A set of field names. Whether it has a known one is a bit; only others are compared as texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    known: KnownSet,
    others: Vec<Box<[u8]>>,
}

impl Names {
    /// Whether it has the name of this field, ignoring case. `known` is that of `name`.
    #[inline]
    pub fn contains(&self, known: Known, name: &[u8]) -> bool {
        match known {
            Known::Other => self.others.iter().any(|other| other.eq_ignore_ascii_case(name)),
            known => self.known.contains(known),
        }
    }

    /// Whether it has this known name.
    #[inline]
    pub fn contains_known(&self, known: Known) -> bool {
        self.known.contains(known)
    }

    /// Whether a field may be in it whose known name is in that set.
    pub(super) fn meet(&self, known: KnownSet) -> bool {
        self.known.meets(known) || !self.others.is_empty() && known.contains(Known::Other)
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.known == KnownSet::default() && self.others.is_empty()
    }

    /// Adds a name.
    pub fn insert(&mut self, name: &[u8]) {
        match Known::of(name) {
            Known::Other if self.contains(Known::Other, name) => {}
            Known::Other => self.others.push(name.into()),
            known => {
                self.known.insert(known);
            }
        }
    }
}

impl<N: AsRef<[u8]>> FromIterator<N> for Names {
    fn from_iter<I: IntoIterator<Item = N>>(names: I) -> Names {
        let mut set = Names::default();
        names.into_iter().for_each(|name| set.insert(name.as_ref()));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_in_any_case() {
        let names: Names = ["host", "X-Pad", "x-pad", "", "Server"].into_iter().collect();
        for (name, is_there) in [
            ("Host", true),
            ("SERVER", true),
            ("Date", false),
            ("X-PAD", true),
            ("X-Pa", false),
            ("X-Pads", false),
            ("", true),
        ] {
            let name = name.as_bytes();
            assert_eq!(names.contains(Known::of(name), name), is_there, "{}", name.escape_ascii());
        }
        assert!(names.contains_known(Known::Host) && !names.contains_known(Known::Other));
        let sets = [&[][..], &["Host"], &["X-Pad"]].map(|names| names.iter().collect::<Names>().is_empty());
        assert_eq!(sets, [true, false, false]);
        assert_eq!(names.others.len(), 2);
    }
}
