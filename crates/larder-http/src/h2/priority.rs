//! Which stream sends first: the dependency tree of RFC 7540, as in nginx, and the urgencies of RFC 9218.

use std::cmp::Ordering;

/// The priority of RFC 9218 §4.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Urgency {
    /// 0 goes first, 7 last.
    pub level: u8,
    /// Whether the client can use parts of the answer.
    pub is_incremental: bool,
}

impl Default for Urgency {
    fn default() -> Urgency {
        Urgency { level: 3, is_incremental: false }
    }
}

impl Urgency {
    /// Reads the value of a `Priority` field: `u=1, i`. Missing or invalid parts get the default.
    pub fn of(value: &[u8]) -> Urgency {
        let mut urgency = Urgency::default();
        for member in value.split(|&byte| byte == b',') {
            let item = member.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
            match item {
                [b'u', b'=', level @ b'0'..=b'7'] => urgency.level = level - b'0',
                b"i" | b"i=?1" => urgency.is_incremental = true,
                b"i=?0" => urgency.is_incremental = false,
                _ => {}
            }
        }
        urgency
    }

    /// The order of two streams with these priorities: the lesser one sends first; equal ones take turns.
    pub fn order(self, stream: u32, other: Urgency, other_stream: u32) -> Ordering {
        let key = |urgency: Urgency, stream| {
            (urgency.level, urgency.is_incremental, if urgency.is_incremental { 0 } else { stream })
        };
        key(self, stream).cmp(&key(other, other_stream))
    }
}

/// A priority of RFC 7540 §5.3.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Dependency {
    /// The stream that it depends on; 0 is the root.
    pub on: u32,
    /// Whether all others that depend on it now depend on this one.
    pub is_exclusive: bool,
    /// 1 to 256.
    pub weight: u16,
}

impl Dependency {
    /// Reads the five bytes of a PRIORITY frame.
    pub fn of(bytes: [u8; 5]) -> Dependency {
        let [b0, b1, b2, b3, weight] = bytes;
        Dependency {
            on: super::frame::u31([b0, b1, b2, b3]),
            is_exclusive: b0 & 0x80 != 0,
            weight: u16::from(weight) + 1,
        }
    }
}

/// The place of a stream in the tree: the lower rank goes first, of equal ranks the larger share.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Rank {
    depth: u16,
    share: f32,
}

impl Rank {
    /// The rank of a stream without a priority.
    const DEFAULT: Rank = Rank { depth: 1, share: WEIGHT_DEFAULT as f32 / 256.0 };

    pub fn order(self, other: Rank) -> Ordering {
        self.depth.cmp(&other.depth).then(other.share.total_cmp(&self.share))
    }
}

const WEIGHT_DEFAULT: u16 = 16;

/// As in nginx: how many closed or not yet begun streams stay in the tree, for others to depend on.
const IDLE_NODES_MAX: usize = 32;

/// No node: the root, or the end of a list.
const NONE: u16 = u16::MAX;

/// The tree of dependencies. It is empty until the client sends priorities.
#[derive(Clone, Default, Debug)]
pub(super) struct Tree {
    /// Nodes that are not in use have the stream 0.
    nodes: Vec<Node>,
    idle: usize,
    /// Rises with every use, to find the least recently used idle node.
    clock: u32,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    stream: u32,
    is_open: bool,
    weight: u16,
    parent: u16,
    first_child: u16,
    next: u16,
    used: u32,
    rank: Rank,
}

impl Tree {
    /// Sets the dependency of `stream`. A stream may be added before it begins.
    pub fn set(&mut self, stream: u32, is_open: bool, dependency: Dependency, is_known_open: impl Fn(u32) -> bool) {
        let node = self.find(stream).unwrap_or_else(|| self.add(stream, is_open));
        if is_open {
            self.open(node);
        }
        self.touch(node);
        let parent = match dependency.on {
            0 => Some(NONE),
            on if on == stream => Some(NONE),
            on => self.find(on).or_else(|| is_known_open(on).then(|| self.add(on, true))),
        };
        self.nodes[usize::from(node)].weight = dependency.weight;
        // As in nginx: a dependency on an unknown stream is one on the root, and is not exclusive.
        self.place(node, parent.unwrap_or(NONE), dependency.is_exclusive && parent.is_some());
    }

    /// Notes that a stream has begun, which may already be in the tree.
    pub fn begin(&mut self, stream: u32) {
        if let Some(node) = self.find(stream) {
            self.open(node);
        }
    }

    /// Notes that a stream is closed; it stays for a while, for others to depend on.
    pub fn close(&mut self, stream: u32) {
        let Some(node) = self.find(stream) else { return };
        if std::mem::replace(&mut self.nodes[usize::from(node)].is_open, false) {
            self.idle += 1;
        }
        self.touch(node);
        self.forget_idle(IDLE_NODES_MAX);
    }

    /// The place of a stream.
    pub fn rank(&self, stream: u32) -> Rank {
        self.find(stream).map_or(Rank::DEFAULT, |node| self.nodes[usize::from(node)].rank)
    }

    /// Whether the client has sent no priorities.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub fn heap_bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>()
    }

    fn find(&self, stream: u32) -> Option<u16> {
        self.nodes.iter().position(|node| node.stream == stream).map(|at| at as u16)
    }

    fn touch(&mut self, node: u16) {
        self.clock = self.clock.wrapping_add(1);
        self.nodes[usize::from(node)].used = self.clock;
    }

    fn open(&mut self, node: u16) {
        if !std::mem::replace(&mut self.nodes[usize::from(node)].is_open, true) {
            self.idle -= 1;
        }
    }

    /// Adds a stream below the root. The connection limits open streams, this tree the others, so there are far fewer
    /// than 2^16.
    fn add(&mut self, stream: u32, is_open: bool) -> u16 {
        if !is_open {
            self.forget_idle(IDLE_NODES_MAX - 1);
            self.idle += 1;
        }
        let node = Node {
            stream,
            is_open,
            weight: WEIGHT_DEFAULT,
            parent: NONE,
            first_child: NONE,
            next: NONE,
            used: 0,
            rank: Rank::DEFAULT,
        };
        let at = match self.find(0) {
            Some(free) => {
                self.nodes[usize::from(free)] = node;
                free
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u16
            }
        };
        self.touch(at);
        at
    }

    /// Moves a node below another one, with its children, unless that would make a cycle (RFC 7540 §5.3.3).
    fn place(&mut self, node: u16, parent: u16, is_exclusive: bool) {
        if self.is_below(parent, node) {
            let grandparent = self.nodes[usize::from(node)].parent;
            self.attach(parent, grandparent);
            self.rank_from(parent);
        }
        self.attach(node, parent);
        if is_exclusive {
            for at in 0..self.nodes.len() as u16 {
                let other = self.nodes[usize::from(at)];
                if at != node && other.stream != 0 && other.parent == parent {
                    self.attach(at, node);
                }
            }
        }
        self.rank_from(node);
    }

    fn is_below(&self, mut node: u16, other: u16) -> bool {
        while node != NONE {
            let parent = self.nodes[usize::from(node)].parent;
            if parent == other {
                return true;
            }
            node = parent;
        }
        false
    }

    /// Moves a node from its parent's list to another's.
    fn attach(&mut self, node: u16, parent: u16) {
        self.detach(node);
        let next = match parent {
            NONE => NONE,
            parent => std::mem::replace(&mut self.nodes[usize::from(parent)].first_child, node),
        };
        let node = &mut self.nodes[usize::from(node)];
        node.parent = parent;
        node.next = next;
    }

    /// Removes a node from its parent's list. The root has no list.
    fn detach(&mut self, node: u16) {
        let Node { parent, next, .. } = self.nodes[usize::from(node)];
        if parent == NONE {
            return;
        }
        let first = self.nodes[usize::from(parent)].first_child;
        if first == node {
            self.nodes[usize::from(parent)].first_child = next;
            return;
        }
        let mut at = first;
        while at != NONE {
            let after = self.nodes[usize::from(at)].next;
            if after == node {
                self.nodes[usize::from(at)].next = next;
                return;
            }
            at = after;
        }
    }

    /// Computes the ranks of a node and of all below it.
    fn rank_from(&mut self, top: u16) {
        let mut at = top;
        loop {
            let Node { parent, weight, first_child, .. } = self.nodes[usize::from(at)];
            let above = match parent {
                NONE => Rank { depth: 0, share: 1.0 },
                parent => self.nodes[usize::from(parent)].rank,
            };
            self.nodes[usize::from(at)].rank =
                Rank { depth: above.depth.saturating_add(1), share: above.share / 256.0 * f32::from(weight) };
            if first_child != NONE {
                at = first_child;
                continue;
            }
            // Go up to the first node with a next sibling.
            loop {
                if at == top {
                    return;
                }
                let Node { parent, next, .. } = self.nodes[usize::from(at)];
                if next != NONE {
                    at = next;
                    break;
                }
                at = parent;
            }
        }
    }

    /// Forgets the idle nodes used longest ago, until at most `kept` are left.
    fn forget_idle(&mut self, kept: usize) {
        while self.idle > kept {
            let idle = self.nodes.iter().enumerate().filter(|(_, node)| node.stream != 0 && !node.is_open);
            let Some((at, _)) = idle.max_by_key(|(_, node)| self.clock.wrapping_sub(node.used)) else { return };
            self.forget(at as u16);
        }
    }

    /// Removes a node; its children share its weight (RFC 7540 §5.3.4).
    fn forget(&mut self, node: u16) {
        let Node { parent, weight, .. } = self.nodes[usize::from(node)];
        let sum: u32 =
            self.nodes.iter().filter(|child| is_child(child, node)).map(|child| u32::from(child.weight)).sum();
        for at in 0..self.nodes.len() as u16 {
            let child = self.nodes[usize::from(at)];
            if is_child(&child, node) {
                let share = u32::from(weight) * u32::from(child.weight) / sum.max(1);
                self.nodes[usize::from(at)].weight = share.clamp(1, 256) as u16;
                self.attach(at, parent);
                self.rank_from(at);
            }
        }
        self.detach(node);
        self.nodes[usize::from(node)].stream = 0;
        self.nodes[usize::from(node)].parent = NONE;
        self.idle -= 1;
    }
}

fn is_child(node: &Node, parent: u16) -> bool {
    node.stream != 0 && node.parent == parent
}

#[cfg(test)]
mod tests;
