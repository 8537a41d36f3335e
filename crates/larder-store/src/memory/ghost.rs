//! What left lately, as fingerprints: a thing that comes back soon was let go too early.

use std::collections::VecDeque;

use hashbrown::HashTable;

/// A bounded FIFO of the fingerprints of keys. False positives are one in millions, and harmless.
#[derive(Default)]
pub(super) struct Ghost {
    order: VecDeque<u32>,
    here: HashTable<u32>,
}

impl Ghost {
    /// Remembers `hash`; forgets the oldest beyond `len_max`.
    pub(super) fn push(&mut self, hash: u64, len_max: usize) {
        while self.order.len() >= len_max.max(1) {
            let Some(oldest) = self.order.pop_front() else {
                break;
            };
            self.forget(oldest);
        }
        let print = fingerprint(hash);
        self.order.push_back(print);
        if self.here.find(place(print), |&p| p == print).is_none() {
            self.here.insert_unique(place(print), print, |&p| place(p));
        }
    }

    /// Whether `hash` left lately; it is forgotten now.
    pub(super) fn take(&mut self, hash: u64) -> bool {
        // Its place in the order stays until it comes up there, and counts for nothing.
        self.forget(fingerprint(hash))
    }

    fn forget(&mut self, print: u32) -> bool {
        match self.here.find_entry(place(print), |&p| p == print) {
            Ok(slot) => {
                slot.remove();
                true
            }
            Err(_) => false,
        }
    }
}

fn fingerprint(hash: u64) -> u32 {
    (hash >> 32) as u32 ^ hash as u32
}

/// Spreads a fingerprint over the 64 bits that a table looks at.
fn place(print: u32) -> u64 {
    u64::from(print).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten_first_and_a_take_counts_once() {
        let mut ghost = Ghost::default();
        for hash in 1..=4_u64 {
            ghost.push(hash, 3);
        }
        for (hash, here) in [(1, false), (2, true), (2, false), (4, true), (9, false)] {
            assert_eq!(ghost.take(hash), here, "{hash}");
        }
        assert!(ghost.order.len() <= 3);
    }
}
