//! Other orders of leaving, as plain models: LRU, S3-FIFO, and GDSF as it is written.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use super::Cache;
use super::trace::Thing;

/// Whether a cache may let others go for this one. The same for all, as the shelf has it.
fn may_enter(bytes: u64, used: u64, bytes_max: u64) -> bool {
    used + bytes <= bytes_max || bytes <= bytes_max / 2
}

/// The one that was used least lately leaves.
pub struct Lru {
    bytes_max: u64,
    used: u64,
    /// Counts requests.
    now: u64,
    by_use: BTreeMap<u64, (u64, u64)>,
    last_use: HashMap<u64, u64>,
}

impl Lru {
    /// An empty one.
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes_max, used: 0, now: 0, by_use: BTreeMap::new(), last_use: HashMap::new() }
    }
}

impl Cache for Lru {
    fn ask(&mut self, thing: &Thing) -> bool {
        self.now += 1;
        let here = self.last_use.get(&thing.id).and_then(|at| self.by_use.remove(at)).is_some();
        if !here {
            if !may_enter(thing.bytes, self.used, self.bytes_max) {
                return false;
            }
            while self.used + thing.bytes > self.bytes_max
                && let Some((_, (id, bytes))) = self.by_use.pop_first()
            {
                self.last_use.remove(&id);
                self.used -= bytes;
            }
            self.used += thing.bytes;
        }
        self.by_use.insert(self.now, (thing.id, thing.bytes));
        self.last_use.insert(thing.id, self.now);
        here
    }
}

/// S3-FIFO by bytes (Yang et al., SOSP 2023): a small queue of a tenth, a main queue, a ghost of as many as are here.
pub struct S3Fifo {
    bytes_max: u64,
    small: Queue,
    main: Queue,
    here: HashMap<u64, u8>,
    ghost: VecDeque<u64>,
    remembered: HashSet<u64>,
}

/// A queue of ids and their bytes.
#[derive(Default)]
struct Queue {
    order: VecDeque<(u64, u64)>,
    bytes: u64,
}

impl Queue {
    fn push(&mut self, id: u64, bytes: u64) {
        self.order.push_back((id, bytes));
        self.bytes += bytes;
    }

    fn pop(&mut self) -> Option<(u64, u64)> {
        let (id, bytes) = self.order.pop_front()?;
        self.bytes -= bytes;
        Some((id, bytes))
    }
}

impl S3Fifo {
    /// An empty one.
    pub fn new(bytes_max: u64) -> Self {
        Self {
            bytes_max,
            small: Queue::default(),
            main: Queue::default(),
            here: HashMap::new(),
            ghost: VecDeque::new(),
            remembered: HashSet::new(),
        }
    }

    fn used(&self) -> u64 {
        self.small.bytes + self.main.bytes
    }

    /// One step: the oldest of a queue leaves, or moves on.
    fn step(&mut self) {
        if self.small.bytes > self.bytes_max / 10 || self.main.order.is_empty() {
            let Some((id, bytes)) = self.small.pop() else { return };
            if self.here.get(&id).is_some_and(|&uses| uses >= 2) {
                self.here.insert(id, 0);
                self.main.push(id, bytes);
                return;
            }
            self.here.remove(&id);
            while self.ghost.len() > self.here.len()
                && let Some(oldest) = self.ghost.pop_front()
            {
                self.remembered.remove(&oldest);
            }
            self.ghost.push_back(id);
            self.remembered.insert(id);
            return;
        }
        let Some((id, bytes)) = self.main.pop() else { return };
        match self.here.get_mut(&id) {
            Some(uses) if *uses > 0 => {
                *uses -= 1;
                self.main.push(id, bytes);
            }
            _ => {
                self.here.remove(&id);
            }
        }
    }
}

impl Cache for S3Fifo {
    fn ask(&mut self, thing: &Thing) -> bool {
        if let Some(uses) = self.here.get_mut(&thing.id) {
            *uses = (*uses + 1).min(3);
            return true;
        }
        if !may_enter(thing.bytes, self.used(), self.bytes_max) {
            return false;
        }
        while self.used() + thing.bytes > self.bytes_max {
            self.step();
        }
        let queue = if self.remembered.remove(&thing.id) { &mut self.main } else { &mut self.small };
        queue.push(thing.id, thing.bytes);
        self.here.insert(thing.id, 0);
        false
    }
}

/// GreedyDual-Size-Frequency (Cherkasova, 1998), exact: the order is changed by every request.
pub struct Gdsf {
    bytes_max: u64,
    used: u64,
    clock: f64,
    /// Positive floats compare as their bits do.
    by_due: BTreeSet<(u64, u64)>,
    here: HashMap<u64, Placed>,
}

/// What is known of one that is here.
struct Placed {
    due: u64,
    uses: f64,
    bytes: u64,
}

impl Gdsf {
    /// An empty one.
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes_max, used: 0, clock: 0.0, by_due: BTreeSet::new(), here: HashMap::new() }
    }
}

impl Cache for Gdsf {
    fn ask(&mut self, thing: &Thing) -> bool {
        let before = self.here.remove(&thing.id);
        let uses = before.as_ref().map_or(1.0, |placed| placed.uses + 1.0);
        match &before {
            Some(placed) => {
                self.by_due.remove(&(placed.due, thing.id));
            }
            None if !may_enter(thing.bytes, self.used, self.bytes_max) => return false,
            None => {
                while self.used + thing.bytes > self.bytes_max
                    && let Some((due, id)) = self.by_due.pop_first()
                {
                    self.clock = f64::from_bits(due);
                    self.used -= self.here.remove(&id).map_or(0, |placed| placed.bytes);
                }
                self.used += thing.bytes;
            }
        }
        let due = (self.clock + uses * f64::from(thing.micros) / thing.bytes as f64).to_bits();
        self.by_due.insert((due, thing.id));
        self.here.insert(thing.id, Placed { due, uses, bytes: thing.bytes });
        before.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of the requests for pages of ten bytes are hits, in a cache of thirty.
    fn hits(cache: &mut dyn Cache, ids: &str) -> String {
        let ask = |id: char| {
            let thing = Thing { id: u64::from(id), bytes: 10, micros: if id == 'x' { 100 } else { 10 } };
            if cache.ask(&thing) { '+' } else { '-' }
        };
        ids.chars().map(ask).collect()
    }

    #[test]
    fn each_model_keeps_what_it_says() {
        for (ids, expected) in [("abcadb", "---+--"), ("xabcxd", "------")] {
            assert_eq!(hits(&mut Lru::new(30), ids), expected, "lru {ids}");
        }
        for (ids, expected) in [("abcadb", "---+--"), ("xabcdx", "-----+"), ("aaabcdea", "-++----+")] {
            assert_eq!(hits(&mut Gdsf::new(30), ids), expected, "gdsf {ids}");
        }
        for (ids, expected) in [("aaabcdea", "-++----+"), ("abcdab", "------"), ("abcdaefga", "--------+")] {
            assert_eq!(hits(&mut S3Fifo::new(30), ids), expected, "s3fifo {ids}");
        }
    }
}
