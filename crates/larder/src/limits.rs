//! How many workers run, and how many files they may have open.

use std::io;

use larder_conf::model::Workers;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// The number of worker threads. `auto` is the number of cores that affinity mask and cgroup allow.
pub fn worker_count(workers: Workers) -> usize {
    match workers {
        Workers::Auto => std::thread::available_parallelism().map_or(1, usize::from),
        Workers::Count(count) => count.max(1),
    }
}

/// Sets the limit of open files: both limits to `wanted`, or without it the soft limit to the hard one.
pub fn raise_open_files(wanted: Option<u64>) -> io::Result<()> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    match wanted {
        Some(wanted) => setrlimit(Resource::RLIMIT_NOFILE, wanted, wanted)?,
        None if soft < hard => setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?,
        None => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_always_a_worker() {
        for (workers, at_least) in [(Workers::Auto, 1), (Workers::Count(0), 1), (Workers::Count(7), 7)] {
            assert!(worker_count(workers) >= at_least, "{workers:?}");
        }
        assert_eq!(worker_count(Workers::Count(7)), 7);
    }

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        raise_open_files(None).unwrap();
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        assert_eq!(soft, hard);
    }
}
