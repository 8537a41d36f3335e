//! What many nodes cost, from what each step costs.

use larder_cluster::pace;

/// What each step costs, in seconds of CPU time and in bytes.
#[derive(Debug, Clone)]
pub struct Pieces {
    /// Redis, for a purge that is added with many others.
    pub add: f64,
    /// Redis, for a purge that is sent to a node with many others, and its bytes.
    pub deliver: f64,
    pub deliver_bytes: f64,
    /// Redis, each time that a node reads, and the bytes that it sends then beside purges.
    pub read: f64,
    pub read_sent: f64,
    /// How long a read takes.
    pub cycle: f64,
    /// A node, for a purge that it reads with many others.
    pub node_entry: f64,
    /// A node, each time that it reads.
    pub node_read: f64,
    /// Redis, each time that one who waits asks how far `poll_nodes` nodes have read, and for one node.
    pub poll: f64,
    pub poll_of_one: f64,
    pub poll_nodes: usize,
}

/// What was done in a second.
#[derive(Debug, Clone, Copy)]
pub struct Counts {
    pub adds: f64,
    pub deliveries: f64,
    pub reads: f64,
    pub polls: f64,
}

/// What is asked after.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// How many nodes.
    pub nodes: usize,
    /// How many purges in a second, on all of them together.
    pub rate: usize,
}

/// What that costs.
#[derive(Debug, Clone, Copy)]
pub struct Forecast {
    /// Parts of the thread of Redis: what is added and sent; what reads cost beside; those who wait.
    pub bulk: f64,
    pub reads: f64,
    pub polls: f64,
    /// What Redis sends.
    pub bits_a_second: f64,
    /// The part of a thread that a node reads with.
    pub node: f64,
    /// Seconds from one read of a node to the next.
    pub pause: f64,
    /// Seconds from one question of one who waits to the next.
    pub look: f64,
}

impl Pieces {
    /// What it costs to ask after so many nodes.
    pub fn poll_of(&self, nodes: usize) -> f64 {
        let more = (self.poll - self.poll_of_one) / self.poll_nodes.saturating_sub(1).max(1) as f64;
        self.poll_of_one + more * nodes.saturating_sub(1) as f64
    }

    /// Which part of the thread of Redis a second takes in which this is done, on a cluster of so many nodes.
    pub fn redis_of(&self, counts: &Counts, nodes: usize) -> f64 {
        let Counts { adds, deliveries, reads, polls } = counts;
        adds * self.add + deliveries * self.deliver + reads * self.read + polls * self.poll_of(nodes)
    }

    /// What a load costs, if each purge is waited for.
    pub fn forecast(&self, load: Load) -> Forecast {
        let (nodes, rate) = (load.nodes as f64, load.rate as f64);
        let pause = pace::between_reads(load.nodes).as_secs_f64() + self.cycle;
        // Less often if nothing comes: a purge wakes all.
        let reads = nodes * rate.min(1.0 / pause);
        // One look is too early, and one finds it known.
        let looks = (2.0 * rate).min(nodes / pace::between_looks(load.nodes).as_secs_f64());
        let deliveries = nodes * rate;
        Forecast {
            bulk: rate * self.add + deliveries * self.deliver,
            reads: reads * self.read,
            polls: looks * self.poll_of(load.nodes),
            bits_a_second: 8.0 * (deliveries * self.deliver_bytes + reads * self.read_sent),
            node: rate * self.node_entry + reads / nodes * self.node_read,
            pause,
            look: pace::between_looks(load.nodes).as_secs_f64(),
        }
    }

    /// How many purges a second Redis can bear with so many nodes; 0 if none.
    pub fn rate_max(&self, nodes: usize) -> usize {
        most(|rate| self.forecast(Load { nodes, rate }).redis() < 1.0)
    }

    /// How many nodes it can bear with so many purges a second; 0 if none.
    pub fn nodes_max(&self, rate: usize) -> usize {
        most(|nodes| self.forecast(Load { nodes, rate }).redis() < 1.0)
    }
}

impl Forecast {
    /// The part of the thread of Redis.
    pub fn redis(&self) -> f64 {
        self.bulk + self.reads + self.polls
    }
}

/// The greatest number for which it holds, if it holds for all below.
fn most(holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, MOST);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if holds(middle) { low = middle } else { high = middle - 1 }
    }
    low
}

/// Nobody asks for more.
const MOST: usize = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces() -> Pieces {
        Pieces {
            add: 10e-6,
            deliver: 1e-6,
            deliver_bytes: 100.0,
            read: 10e-6,
            read_sent: 0.0,
            cycle: 0.0,
            node_entry: 1e-6,
            node_read: 10e-6,
            poll: 101e-6,
            poll_of_one: 1e-6,
            poll_nodes: 101,
        }
    }

    #[test]
    fn what_many_cost_is_the_sum_of_what_each_step_costs() {
        let forecast = pieces().forecast(Load { nodes: 100, rate: 1000 });
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9 * b.max(1.0), "{a} {b}");
        near(forecast.bulk, 1000.0 * 10e-6 + 100_000.0 * 1e-6);
        let reads = 1.0 / pace::between_reads(100).as_secs_f64();
        near(forecast.reads, 100.0 * reads * 10e-6);
        // Each looks as often as it may: that is less than twice for each purge.
        let looks = 100.0 / pace::between_looks(100).as_secs_f64();
        assert!(looks < 2000.0, "{looks}");
        near(forecast.polls, looks * 100e-6);
        near(pieces().forecast(Load { nodes: 100, rate: 10 }).polls, 20.0 * 100e-6);
        near(forecast.bits_a_second, 8.0 * 100_000.0 * 100.0);
        near(forecast.node, 1000.0 * 1e-6 + reads * 10e-6);
        near(forecast.redis(), forecast.bulk + forecast.reads + forecast.polls);
        // A purge that comes alone wakes each node once.
        near(pieces().forecast(Load { nodes: 100, rate: 1 }).reads, 100.0 * 10e-6);
    }

    #[test]
    fn the_most_is_where_redis_is_busy() {
        let pieces = pieces();
        for nodes in [1, 100] {
            let most = pieces.rate_max(nodes);
            let redis = |rate| pieces.forecast(Load { nodes, rate }).redis();
            assert!(most > 0 && redis(most) < 1.0 && redis(most + 1) >= 1.0, "{nodes}: {most}");
        }
        let most = pieces.nodes_max(5000);
        assert!(pieces.forecast(Load { nodes: most + 1, rate: 5000 }).redis() >= 1.0, "{most}");
        assert_eq!(most, super::most(|number| number <= most));
    }
}
