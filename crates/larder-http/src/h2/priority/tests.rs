use super::*;

fn on(on: u32, weight: u16) -> Dependency {
    Dependency { on, is_exclusive: false, weight }
}

fn only(on: u32, weight: u16) -> Dependency {
    Dependency { on, is_exclusive: true, weight }
}

/// A tree made of these dependencies between open streams.
fn tree(dependencies: &[(u32, Dependency)]) -> Tree {
    let mut tree = Tree::default();
    for &(stream, dependency) in dependencies {
        tree.set(stream, true, dependency, |_| false);
    }
    tree
}

/// Depth and share in 1/65536 of each stream.
fn ranks(tree: &Tree, streams: &[u32]) -> Vec<(u16, u32)> {
    streams
        .iter()
        .map(|&stream| {
            let rank = tree.rank(stream);
            (rank.depth, (rank.share * 65536.0) as u32)
        })
        .collect()
}

#[test]
fn a_stream_ranks_below_the_one_it_depends_on() {
    for (dependencies, expected) in [
        (&[(1, on(0, 256)), (3, on(1, 128)), (5, on(1, 64))][..], [(1, 65536), (2, 32768), (2, 16384)]),
        // Exclusive: others are pushed down.
        (&[(1, on(0, 256)), (3, on(1, 128)), (5, only(1, 64))], [(1, 65536), (3, 8192), (2, 16384)]),
        (&[(1, on(0, 256)), (3, on(0, 256)), (5, only(0, 256))], [(2, 65536), (2, 65536), (1, 65536)]),
        // Unknown parents are the root, and then nobody is pushed down.
        (&[(1, on(0, 16)), (3, only(99, 32)), (5, on(3, 256))], [(1, 4096), (1, 8192), (2, 8192)]),
        // A stream moves below its own child, which takes its place first (RFC 7540 §5.3.3).
        (&[(1, on(0, 256)), (3, on(1, 256)), (5, on(3, 256)), (1, on(5, 256))], [(2, 65536), (3, 65536), (1, 65536)]),
        (&[(1, on(0, 256)), (3, on(1, 256)), (5, on(3, 256)), (1, only(5, 256))], [(2, 65536), (3, 65536), (1, 65536)]),
        (&[(1, on(0, 256)), (3, only(0, 256)), (5, only(0, 256)), (3, on(1, 1))], [(2, 65536), (3, 256), (1, 65536)]),
    ] {
        let tree = tree(dependencies);
        assert_eq!(ranks(&tree, &[1, 3, 5]), expected, "{dependencies:?}");
    }
}

#[test]
fn the_lower_rank_goes_first_then_the_larger_share() {
    let tree = tree(&[(1, on(0, 256)), (3, on(1, 128)), (5, on(1, 64)), (7, on(0, 3))]);
    let mut streams = [5, 3, 7, 1];
    streams.sort_by(|&a, &b| tree.rank(a).order(tree.rank(b)));
    assert_eq!(streams, [1, 7, 3, 5]);
    assert_eq!(tree.rank(98), Rank::DEFAULT);
}

#[test]
fn the_tree_stays_bounded_and_sound_whatever_comes() {
    let mut tree = Tree::default();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: u32| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as u32 % below
    };
    for round in 0..30_000 {
        let stream = 1 + 2 * random(100);
        let is_open = stream % 3 == 0;
        match random(10) {
            0 => tree.close(stream),
            1 => tree.begin(stream),
            _ => {
                let dependency =
                    Dependency { on: random(210), is_exclusive: random(2) == 0, weight: 1 + random(256) as u16 };
                tree.set(stream, is_open, dependency, |other| other % 15 == 0);
            }
        }
        assert!(tree.idle <= IDLE_NODES_MAX && tree.nodes.len() < 256, "{} {}", tree.idle, tree.nodes.len());
        if round % 100 != 0 {
            continue;
        }
        assert_eq!(tree.idle, tree.nodes.iter().filter(|node| node.stream != 0 && !node.is_open).count());
        for at in 0..tree.nodes.len() {
            let node = tree.nodes[at];
            if node.stream == 0 {
                continue;
            }
            let depth = std::iter::successors(Some(at as u16), |&at| {
                Some(tree.nodes[usize::from(at)].parent).filter(|&parent| parent != NONE)
            })
            .take(1000)
            .count();
            assert_eq!(usize::from(node.rank.depth), depth, "there is no circle, and ranks are up to date");
            let mut children = Vec::new();
            let mut child = node.first_child;
            while child != NONE {
                children.push(child);
                child = tree.nodes[usize::from(child)].next;
            }
            children.sort_unstable();
            let expected: Vec<u16> = (0..tree.nodes.len() as u16)
                .filter(|&other| is_child(&tree.nodes[usize::from(other)], at as u16))
                .collect();
            assert_eq!(children, expected);
        }
    }
}

#[test]
fn priority_fields_are_read_leniently() {
    for (value, level, is_incremental) in [
        ("", 3, false),
        ("u=0", 0, false),
        ("u=5, i", 5, true),
        ("i,u=7", 7, true),
        ("i=?1;x=1, u=2;foo", 2, true),
        ("i, i=?0", 3, false),
        ("u=8", 3, false),
        ("u=-1, i=1", 3, false),
        ("u=1, u=2", 2, false),
        ("U=1, x=y", 3, false),
    ] {
        assert_eq!(Urgency::of(value.as_bytes()), Urgency { level, is_incremental }, "{value}");
    }
}

#[test]
fn urgent_streams_go_first_and_incremental_ones_take_turns() {
    let urgency = |level, is_incremental| Urgency { level, is_incremental };
    for (a, b, expected) in [
        ((urgency(1, false), 9), (urgency(3, false), 1), Ordering::Less),
        ((urgency(3, false), 9), (urgency(3, false), 1), Ordering::Greater),
        ((urgency(3, true), 9), (urgency(3, true), 1), Ordering::Equal),
        ((urgency(3, false), 9), (urgency(3, true), 1), Ordering::Less),
    ] {
        assert_eq!(a.0.order(a.1, b.0, b.1), expected);
        assert_eq!(b.0.order(b.1, a.0, a.1), expected.reverse());
    }
}
