//! What a Redis and threads of this process have used so far.

use larder_testkit::Redis;
use std::fs;

/// What a Redis has used and done since its start.
#[derive(Debug, Clone, Copy, Default)]
pub struct Used {
    /// Seconds of its one thread that carries out commands.
    pub cpu: f64,
    /// Bytes that it has sent.
    pub sent: f64,
    /// Purges that were added.
    pub adds: f64,
    /// How often nodes have read.
    pub reads: f64,
    /// How often nodes have asked how far others have read.
    pub polls: f64,
}

impl Used {
    /// Until now.
    pub fn by(redis: &Redis) -> Used {
        let text = redis.ask(&["INFO", "everything"]).concat();
        let number = |name: &str| number_in(&text, name);
        let calls = |command: &str| number_in(&text, &format!("cmdstat_{command}:calls="));
        Used {
            cpu: number("used_cpu_user_main_thread:") + number("used_cpu_sys_main_thread:"),
            sent: number("total_net_output_bytes:"),
            adds: calls("xadd"),
            reads: calls("xread"),
            polls: calls("mget"),
        }
    }

    /// What was used since.
    pub fn since(self, before: Used) -> Used {
        Used {
            cpu: self.cpu - before.cpu,
            sent: self.sent - before.sent,
            adds: self.adds - before.adds,
            reads: self.reads - before.reads,
            polls: self.polls - before.polls,
        }
    }
}

/// The number behind a name; 0 without it, as for a command that nobody has sent.
fn number_in(text: &str, name: &str) -> f64 {
    let after = text.split_once(name).map_or("", |(_, after)| after);
    let end = after.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(after.len());
    after.get(..end).and_then(|number| number.parse().ok()).unwrap_or(0.0)
}

/// Seconds of CPU time that all threads of this process with a name have used.
pub fn threads(name: &str) -> f64 {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let nanoseconds = tasks.filter_map(|task| {
        let is_meant = fs::read_to_string(task.path().join("comm")).ok()?.trim_end() == name;
        let text = is_meant.then(|| fs::read_to_string(task.path().join("schedstat")).ok())??;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    nanoseconds.sum::<u64>() as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_redis_tells_is_read() {
        let text = "used_cpu_sys_main_thread:0.25\r\ncmdstat_xread:calls=17,usec=3\r\ntotal_net_input_bytes:5";
        for (name, number) in [
            ("used_cpu_sys_main_thread:", 0.25),
            ("cmdstat_xread:calls=", 17.0),
            ("total_net_input_bytes:", 5.0),
            ("none:", 0.0),
        ] {
            assert_eq!(number_in(text, name), number, "{name}");
        }
    }

    #[test]
    fn a_real_one_tells_all_of_it() {
        let redis = Redis::start(&[]);
        redis.ask(&["XADD", "log", "*", "a", "b"]);
        redis.ask(&["XREAD", "STREAMS", "log", "0"]);
        redis.ask(&["MGET", "a", "b"]);
        let used = Used::by(&redis);
        assert_eq!((used.adds, used.reads, used.polls), (1.0, 1.0, 1.0));
        assert!(used.cpu > 0.0 && used.sent > 0.0, "{used:?}");
    }
}
