//! Who leaves when the shelf is full: S3-FIFO, counted in bytes.
//!
//! A new thing goes to the *small* queue, a tenth of the budget. When it comes to the end there it moves
//! to the *main* queue if it was used at least twice, and leaves if not, remembered in the *ghost*: if it
//! is wanted again soon, it goes to main at once. At the end of main a thing that was used since it was
//! last passed over gets another round. One scan of pages that nobody reads twice therefore passes through
//! the small queue only. (Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023.)

use std::sync::Arc;

use super::Kept;
use super::ghost::Ghost;
use super::seat::Seat;

/// Which queue a node is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queue {
    Small,
    Main,
}

/// A kept thing in a doubly linked list.
struct Node<V> {
    kept: Arc<V>,
    weight: usize,
    queue: Queue,
    newer: Option<u32>,
    older: Option<u32>,
}

/// A place in the slab.
enum Slot<V> {
    Taken(Node<V>),
    Free { next: Option<u32> },
}

/// The ends of one list, and what is in it.
#[derive(Clone, Copy, Default)]
struct Ends {
    newest: Option<u32>,
    oldest: Option<u32>,
    bytes: usize,
    len: usize,
}

/// The two queues over one slab, and the ghost.
pub(super) struct Queues<V> {
    slab: Vec<Slot<V>>,
    free: Option<u32>,
    small: Ends,
    main: Ends,
    ghost: Ghost,
    /// Where the next sweep goes on.
    sweep_at: usize,
}

impl<V: Kept> Queues<V> {
    pub(super) fn new() -> Self {
        Self {
            slab: Vec::new(),
            free: None,
            small: Ends::default(),
            main: Ends::default(),
            ghost: Ghost::default(),
            sweep_at: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.small.len + self.main.len
    }

    pub(super) fn weight(&self) -> usize {
        self.small.bytes + self.main.bytes
    }

    /// Puts a new thing at the end of a queue. True when it had left only lately.
    pub(super) fn push(&mut self, kept: &Arc<V>, weight: usize) -> bool {
        // Whoever removed it between the index and here has set the mark.
        if kept.seat().is_gone() {
            return false;
        }
        let returned = self.ghost.take(kept.seat().hash());
        let queue = if returned { Queue::Main } else { Queue::Small };
        self.link(Arc::clone(kept), weight, queue);
        returned
    }

    /// Notes a new weight.
    pub(super) fn reweigh(&mut self, seat: &Seat, weight: usize) {
        let Some(node) = seat.node().and_then(|at| self.node_mut(at)) else {
            return;
        };
        let old = std::mem::replace(&mut node.weight, weight);
        let queue = node.queue;
        let ends = self.ends(queue);
        ends.bytes = ends.bytes - old + weight;
    }

    /// Takes a thing out. False when it is gone already.
    ///
    /// One that is still on its way in is marked, so that `push` leaves it out.
    pub(super) fn unlink(&mut self, seat: &Seat) -> bool {
        if seat.is_gone() {
            return false;
        }
        seat.set_gone();
        if let Some(at) = seat.node() {
            self.cut(at);
        }
        true
    }

    /// Chooses one to leave and takes it out; its weight comes with it. `None` when none can leave.
    pub(super) fn evict(&mut self, small_max: usize) -> Option<(Arc<V>, usize)> {
        // Every step passes over one thing. The bound keeps the lock short when all of a big shelf is hot:
        // then the oldest leaves though it was used.
        for step in 0..(self.len() * 4).min(STEPS_MAX) {
            let queue = match (self.small.oldest, self.main.oldest) {
                (None, None) => return None,
                (Some(_), None) => Queue::Small,
                (None, Some(_)) => Queue::Main,
                (Some(_), Some(_)) if self.small.bytes > small_max => Queue::Small,
                (Some(_), Some(_)) => Queue::Main,
            };
            let at = self.ends(queue).oldest?;
            let node = self.node_mut(at)?;
            let (busy, uses) = (node.kept.is_busy(), node.kept.seat().uses());
            let patience_over = step + 1 >= STEPS_MAX;
            if busy {
                self.requeue(at, queue, uses);
            } else if uses >= PROVEN_USES && queue == Queue::Small {
                self.requeue(at, Queue::Main, 0);
            } else if uses > 0 && queue == Queue::Main && !patience_over {
                self.requeue(at, Queue::Main, uses - 1);
            } else {
                return self.part(at, queue);
            }
        }
        self.evict_the_oldest_idle()
    }

    /// Looks at `look` slots and gives those that `keep` does not want, and whether the end was reached.
    pub(super) fn sweep(&mut self, look: usize, keep: &mut impl FnMut(&V) -> bool) -> (Vec<Arc<V>>, bool) {
        let end = self.sweep_at.saturating_add(look).min(self.slab.len());
        let unkept = self
            .slab
            .get(self.sweep_at..end)
            .unwrap_or_default()
            .iter()
            .filter_map(|slot| match slot {
                Slot::Taken(node) if !keep(&node.kept) => Some(Arc::clone(&node.kept)),
                Slot::Taken(_) | Slot::Free { .. } => None,
            })
            .collect();
        let wrapped = end >= self.slab.len();
        self.sweep_at = if wrapped { 0 } else { end };
        (unkept, wrapped)
    }

    /// The last resort when every step met a thing with a claim: the oldest that is not at work.
    fn evict_the_oldest_idle(&mut self) -> Option<(Arc<V>, usize)> {
        for queue in [Queue::Small, Queue::Main] {
            let mut at = self.ends(queue).oldest;
            for _ in 0..STEPS_MAX {
                let Some(here) = at else { break };
                let node = self.node_mut(here)?;
                if !node.kept.is_busy() {
                    return self.part(here, queue);
                }
                at = node.newer;
            }
        }
        None
    }

    /// Takes out the one at `at` for good.
    fn part(&mut self, at: u32, queue: Queue) -> Option<(Arc<V>, usize)> {
        let len_max = self.len();
        let node = self.cut(at)?;
        let seat = node.kept.seat();
        seat.set_gone();
        if queue == Queue::Small {
            self.ghost.push(seat.hash(), len_max);
        }
        Some((node.kept, node.weight))
    }

    /// Moves the one at `at` to the new end of `queue`.
    fn requeue(&mut self, at: u32, queue: Queue, uses: u8) {
        if let Some(node) = self.cut(at) {
            node.kept.seat().set_uses(uses);
            self.link(node.kept, node.weight, queue);
        }
    }

    fn link(&mut self, kept: Arc<V>, weight: usize, queue: Queue) {
        let older = self.ends(queue).newest;
        let seat_holder = Arc::clone(&kept);
        let node = Node { kept, weight, queue, newer: None, older };
        let Some(at) = self.put(node) else {
            // Four billion things: it stays in the index without a place here, and a purge can reach it.
            return;
        };
        seat_holder.seat().set_node(Some(at));
        match older.and_then(|older| self.node_mut(older)) {
            Some(before) => before.newer = Some(at),
            None => self.ends(queue).oldest = Some(at),
        }
        let ends = self.ends(queue);
        ends.newest = Some(at);
        ends.bytes += weight;
        ends.len += 1;
    }

    fn cut(&mut self, at: u32) -> Option<Node<V>> {
        let slot = self.slab.get_mut(at as usize)?;
        let node = match std::mem::replace(slot, Slot::Free { next: self.free }) {
            Slot::Taken(node) => node,
            Slot::Free { next } => {
                *slot = Slot::Free { next };
                return None;
            }
        };
        self.free = Some(at);
        node.kept.seat().set_node(None);
        match node.newer.and_then(|newer| self.node_mut(newer)) {
            Some(newer) => newer.older = node.older,
            None => self.ends(node.queue).newest = node.older,
        }
        match node.older.and_then(|older| self.node_mut(older)) {
            Some(older) => older.newer = node.newer,
            None => self.ends(node.queue).oldest = node.newer,
        }
        let ends = self.ends(node.queue);
        ends.bytes -= node.weight;
        ends.len -= 1;
        Some(node)
    }

    fn put(&mut self, node: Node<V>) -> Option<u32> {
        if let Some(at) = self.free {
            let slot = self.slab.get_mut(at as usize)?;
            if let Slot::Free { next } = *slot {
                self.free = next;
            }
            *slot = Slot::Taken(node);
            return Some(at);
        }
        let at = u32::try_from(self.slab.len()).ok().filter(|&at| at != u32::MAX)?;
        self.slab.push(Slot::Taken(node));
        Some(at)
    }

    fn node_mut(&mut self, at: u32) -> Option<&mut Node<V>> {
        match self.slab.get_mut(at as usize) {
            Some(Slot::Taken(node)) => Some(node),
            Some(Slot::Free { .. }) | None => None,
        }
    }

    fn ends(&mut self, queue: Queue) -> &mut Ends {
        match queue {
            Queue::Small => &mut self.small,
            Queue::Main => &mut self.main,
        }
    }
}

/// Uses in the small queue that earn a place in main.
const PROVEN_USES: u8 = 2;

/// How many things one eviction passes over at most.
const STEPS_MAX: usize = 256;
