//! How often nodes ask the server, so that many of them do not keep it busy by asking.
//!
//! Both bounds hold for all nodes together: each is about a fifth of the one thread of a Redis, by what `cargo xtask cluster`
//! measures.

use std::time::Duration;

/// How long it is at least from one read that brings purges to the next. What comes meanwhile comes with that one.
pub fn between_reads(nodes: usize) -> Duration {
    READ_SHARE.saturating_mul(u32::try_from(nodes).unwrap_or(u32::MAX)).min(READ_REST_MAX)
}

/// How long one who waits until a purge is known everywhere rests before he asks again: each asks after all others.
pub fn between_looks(nodes: usize) -> Duration {
    let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
    let looks = LOOK_SHARE.saturating_add(NODE_SHARE.saturating_mul(nodes));
    looks.saturating_mul(nodes).clamp(LOOK_REST_MIN, LOOK_REST_MAX)
}

/// A read takes 30 µs of the server.
const READ_SHARE: Duration = Duration::from_micros(150);
const READ_REST_MAX: Duration = Duration::from_millis(50);
/// A look takes 60 µs of it, and 0.6 µs for each node that is asked after.
const LOOK_SHARE: Duration = Duration::from_micros(300);
const NODE_SHARE: Duration = Duration::from_micros(3);
const LOOK_REST_MIN: Duration = Duration::from_millis(1);
const LOOK_REST_MAX: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_nodes_ask_less_often() {
        for (nodes, read_micros, look_micros) in [
            (0, 0, 1000),
            (1, 150, 1000),
            (5, 750, 1575),
            (50, 7500, 22_500),
            (200, 30_000, 180_000),
            (usize::MAX, 50_000, 250_000),
        ] {
            assert_eq!(between_reads(nodes), Duration::from_micros(read_micros), "{nodes}");
            assert_eq!(between_looks(nodes), Duration::from_micros(look_micros), "{nodes}");
        }
    }
}
