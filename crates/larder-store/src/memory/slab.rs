//! Nodes in numbered places, so that a link of a doubly linked list takes four bytes.

use std::sync::Arc;

/// A kept thing, its links, and what the ladder knows about it.
pub(super) struct Node<V> {
    pub(super) kept: Arc<V>,
    /// When it is evicted, on the clock of the ladder, unless it is used before.
    pub(super) due: f64,
    /// Its bytes, as the shelf was last told.
    pub(super) weight: usize,
    pub(super) newer: u32,
    pub(super) older: u32,
    pub(super) step: u8,
    /// Uses that are counted in: at least one, at most [`super::worth::USES_MAX`].
    pub(super) uses: u8,
}

/// No node.
pub(super) const NOWHERE: u32 = u32::MAX;

/// A place of the slab.
enum Slot<V> {
    Taken(Node<V>),
    Free { next: u32 },
}

/// Nodes in numbered places. It grows by a chunk and moves nothing, so no `put` takes long.
pub(super) struct Slab<V> {
    chunks: Vec<Vec<Slot<V>>>,
    free: u32,
    /// Places made so far, free ones among them.
    places: usize,
}

impl<V> Slab<V> {
    pub(super) fn new() -> Self {
        Self { chunks: Vec::new(), free: NOWHERE, places: 0 }
    }

    /// The number of places, taken or free.
    pub(super) fn places(&self) -> usize {
        self.places
    }

    /// Puts a node into a free place. `None` if there are four billion.
    pub(super) fn put(&mut self, node: Node<V>) -> Option<u32> {
        let at = self.free;
        if let Some(slot) = self.slot_mut(at) {
            let was = std::mem::replace(slot, Slot::Taken(node));
            self.free = match was {
                Slot::Free { next } => next,
                // The list of free places has no taken ones; if it had, it would end here.
                Slot::Taken(_) => NOWHERE,
            };
            return Some(at);
        }
        let at = u32::try_from(self.places).ok().filter(|&at| at != NOWHERE)?;
        if self.places.is_multiple_of(CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        self.chunks.last_mut()?.push(Slot::Taken(node));
        self.places += 1;
        Some(at)
    }

    /// Takes out the node at `at`.
    pub(super) fn take(&mut self, at: u32) -> Option<Node<V>> {
        let free = self.free;
        let slot = self.slot_mut(at)?;
        if let Slot::Free { .. } = slot {
            return None;
        }
        let Slot::Taken(node) = std::mem::replace(slot, Slot::Free { next: free }) else {
            return None;
        };
        self.free = at;
        Some(node)
    }

    pub(super) fn get(&self, at: u32) -> Option<&Node<V>> {
        match self.chunks.get(at as usize / CHUNK)?.get(at as usize % CHUNK)? {
            Slot::Taken(node) => Some(node),
            Slot::Free { .. } => None,
        }
    }

    pub(super) fn get_mut(&mut self, at: u32) -> Option<&mut Node<V>> {
        match self.slot_mut(at)? {
            Slot::Taken(node) => Some(node),
            Slot::Free { .. } => None,
        }
    }

    fn slot_mut(&mut self, at: u32) -> Option<&mut Slot<V>> {
        self.chunks.get_mut(at as usize / CHUNK)?.get_mut(at as usize % CHUNK)
    }
}

/// Places in a chunk: 40 KB at a time.
const CHUNK: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn node(number: usize) -> Node<usize> {
        Node { kept: Arc::new(number), due: 0.0, weight: 1, newer: NOWHERE, older: NOWHERE, step: 0, uses: 1 }
    }

    #[test]
    fn places_are_used_again_and_stay_where_they_are() {
        let mut slab = Slab::new();
        let at: Vec<u32> = (0..3000).filter_map(|number| slab.put(node(number))).collect();
        assert_eq!((at.len(), slab.places()), (3000, 3000));
        for &at in &at[1000..1500] {
            assert!(slab.take(at).is_some() && slab.take(at).is_none());
        }
        for number in 0..500 {
            assert!(slab.put(node(10_000 + number)).is_some());
        }
        assert_eq!(slab.places(), 3000);
        assert_eq!(slab.get(at[999]).map(|node| *node.kept), Some(999));
        assert!(slab.get(at[1000]).is_some_and(|node| *node.kept >= 10_000));
        assert!(slab.get(NOWHERE).is_none() && slab.get_mut(3000).is_none());
    }

    #[test]
    fn a_place_takes_what_is_reckoned() {
        assert_eq!(size_of::<Slot<usize>>(), 40);
    }
}
