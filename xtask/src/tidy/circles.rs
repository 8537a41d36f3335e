//! Circles in a graph of numbered nodes: `edges[a]` are the nodes that `a` points to.

/// The groups of nodes in which each reaches each other, without those of one node. Nodes and groups are in order.
pub fn knots(edges: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let reached: Vec<Vec<bool>> = (0..edges.len()).map(|from| reached(edges, from)).collect();
    let reaches = |from: usize, to: usize| reached.get(from).and_then(|row| row.get(to)) == Some(&true);
    let knot_of = |node: usize| -> Vec<usize> {
        (0..edges.len()).filter(|other| reaches(node, *other) && reaches(*other, node)).collect()
    };
    let first_of_its_knot = |(node, knot): &(usize, Vec<usize>)| knot.len() > 1 && knot.first() == Some(node);
    (0..edges.len()).map(|node| (node, knot_of(node))).filter(first_of_its_knot).map(|(_, knot)| knot).collect()
}

/// The shortest way round in `knot`: each node points to the next, and the last to the first.
pub fn shortest(edges: &[Vec<usize>], knot: &[usize]) -> Vec<usize> {
    let circles = knot.iter().filter_map(|start| way(edges, *start));
    circles.min_by_key(Vec::len).unwrap_or_default()
}

fn reached(edges: &[Vec<usize>], from: usize) -> Vec<bool> {
    let mut reached = vec![false; edges.len()];
    let mut open = vec![from];
    while let Some(node) = open.pop() {
        for next in edges.get(node).into_iter().flatten() {
            if let Some(seen @ false) = reached.get_mut(*next) {
                *seen = true;
                open.push(*next);
            }
        }
    }
    reached
}

/// The shortest way from `start` back to it, breadth first.
fn way(edges: &[Vec<usize>], start: usize) -> Option<Vec<usize>> {
    let mut ways = vec![vec![start]];
    let mut seen = vec![false; edges.len()];
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            let last = way.last().and_then(|node| edges.get(*node));
            for next in last.into_iter().flatten() {
                if *next == start {
                    return Some(way);
                }
                if let Some(seen @ false) = seen.get_mut(*next) {
                    *seen = true;
                    longer.push(way.iter().chain([next]).copied().collect());
                }
            }
        }
        ways = longer;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_knot_is_where_each_reaches_each() {
        for (edges, expected, circle) in [
            (&[&[1][..], &[2], &[]][..], &[][..], &[][..]),
            (&[&[1], &[0]], &[&[0, 1][..]], &[0, 1]),
            (&[&[0]], &[], &[]),
            (&[&[1], &[2], &[3, 1], &[]], &[&[1, 2]], &[1, 2]),
            (&[&[1], &[2], &[0], &[4], &[3, 0]], &[&[0, 1, 2], &[3, 4]], &[0, 1, 2]),
            (&[&[1], &[2], &[3, 1], &[0]], &[&[0, 1, 2, 3]], &[1, 2]),
        ] {
            let edges: Vec<Vec<usize>> = edges.iter().map(|edges| edges.to_vec()).collect();
            let found = knots(&edges);
            assert_eq!(found, expected, "{edges:?}");
            assert_eq!(found.first().map_or(Vec::new(), |knot| shortest(&edges, knot)), circle, "{edges:?}");
        }
    }
}
