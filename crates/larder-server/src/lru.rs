//! A table that knows which of its values was not used for the longest time.

use std::collections::HashMap;
use std::sync::Arc;

/// Stands for "no slot".
const NONE: usize = usize::MAX;

/// Values by key, sorted by their last use. It has no size limit of its own: the caller removes the oldest.
#[derive(Debug)]
pub struct Lru<V> {
    by_key: HashMap<Arc<[u8]>, usize>,
    slots: Vec<Slot<V>>,
    free: Vec<usize>,
    newest: usize,
    oldest: usize,
}

#[derive(Debug)]
struct Slot<V> {
    /// `None` while the slot is free.
    content: Option<(Arc<[u8]>, V)>,
    newer: usize,
    older: usize,
}

impl<V> Default for Lru<V> {
    fn default() -> Self {
        Self { by_key: HashMap::new(), slots: Vec::new(), free: Vec::new(), newest: NONE, oldest: NONE }
    }
}

impl<V> Lru<V> {
    /// The number of values.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// The value of `key`, which becomes the newest.
    pub fn touch(&mut self, key: &[u8]) -> Option<&mut V> {
        let slot = *self.by_key.get(key)?;
        self.unlink(slot);
        self.link_newest(slot);
        self.slots[slot].content.as_mut().map(|(_, value)| value)
    }

    /// Inserts a value as the newest. Returns the previous value of `key`.
    pub fn insert(&mut self, key: &[u8], value: V) -> Option<V> {
        let before = self.remove(key);
        let key: Arc<[u8]> = key.into();
        let content = Some((Arc::clone(&key), value));
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot].content = content;
                slot
            }
            None => {
                self.slots.push(Slot { content, newer: NONE, older: NONE });
                self.slots.len() - 1
            }
        };
        self.by_key.insert(key, slot);
        self.link_newest(slot);
        before
    }

    /// The key and value that were not used for the longest time.
    pub fn oldest(&self) -> Option<(&[u8], &V)> {
        let (key, value) = self.slots.get(self.oldest)?.content.as_ref()?;
        Some((key, value))
    }

    /// Removes the value that was not used for the longest time.
    pub fn pop_oldest(&mut self) -> Option<(Arc<[u8]>, V)> {
        self.take(self.oldest)
    }

    /// Removes the value of `key`.
    pub fn remove(&mut self, key: &[u8]) -> Option<V> {
        let slot = *self.by_key.get(key)?;
        self.take(slot).map(|(_, value)| value)
    }

    fn take(&mut self, slot: usize) -> Option<(Arc<[u8]>, V)> {
        let (key, value) = self.slots.get_mut(slot)?.content.take()?;
        self.by_key.remove(&key);
        self.unlink(slot);
        self.free.push(slot);
        Some((key, value))
    }

    fn unlink(&mut self, slot: usize) {
        let Slot { newer, older, .. } = self.slots[slot];
        match self.slots.get_mut(newer) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
        match self.slots.get_mut(older) {
            Some(older) => older.newer = newer,
            None => self.oldest = newer,
        }
    }

    fn link_newest(&mut self, slot: usize) {
        let second = std::mem::replace(&mut self.newest, slot);
        self.slots[slot].newer = NONE;
        self.slots[slot].older = second;
        match self.slots.get_mut(second) {
            Some(second) => second.newer = slot,
            None => self.oldest = slot,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys from oldest to newest, taking all out.
    fn drain(mut lru: Lru<u8>) -> String {
        let mut keys = String::new();
        while let Some((key, _)) = lru.pop_oldest() {
            keys.push_str(&String::from_utf8_lossy(&key));
        }
        assert!(lru.is_empty());
        keys
    }

    fn abc() -> Lru<u8> {
        let mut lru = Lru::default();
        for (key, value) in [("a", 1), ("b", 2), ("c", 3)] {
            assert_eq!(lru.insert(key.as_bytes(), value), None);
        }
        lru
    }

    #[test]
    fn use_makes_new() {
        for (touched, order) in [("", "abc"), ("a", "bca"), ("b", "acb"), ("c", "abc"), ("ab", "cab"), ("x", "abc")] {
            let mut lru = abc();
            for key in touched.chars() {
                lru.touch(key.to_string().as_bytes());
            }
            assert_eq!(drain(lru), order, "after {touched}");
        }
    }

    #[test]
    fn what_is_taken_out_is_gone_and_its_place_is_used_again() {
        for (removed, order) in [("a", "bcn"), ("b", "acn"), ("c", "abn"), ("abc", "n")] {
            let mut lru = abc();
            for key in removed.chars() {
                assert!(lru.remove(key.to_string().as_bytes()).is_some(), "{key}");
                assert!(lru.touch(key.to_string().as_bytes()).is_none(), "{key}");
            }
            lru.insert(b"n", 9);
            assert_eq!(lru.slots.len(), 3);
            assert_eq!(drain(lru), order, "without {removed}");
        }
    }

    #[test]
    fn a_key_has_one_value() {
        let mut lru = abc();
        assert_eq!(lru.insert(b"a", 7), Some(1));
        assert_eq!(lru.len(), 3);
        assert_eq!(lru.touch(b"a"), Some(&mut 7));
        assert_eq!(lru.oldest(), Some((&b"b"[..], &2)));
    }
}
