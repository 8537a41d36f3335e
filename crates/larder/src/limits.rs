//! How many workers run, and how many files they may have open.

use std::io;

use larder_conf::model::{Main, Workers};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// The number of worker threads. `auto` is the number of cores that affinity mask and cgroup allow.
pub fn worker_count(workers: Workers) -> usize {
    match workers {
        Workers::Auto => std::thread::available_parallelism().map_or(1, usize::from),
        Workers::Count(count) => count.max(1),
    }
}

/// Sets the limit of open files to `wanted`, or without it to the hard limit. The hard one never falls: a later configuration
/// may want more, and only some may raise it.
pub fn raise_open_files(wanted: Option<u64>) -> io::Result<()> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let wanted = wanted.unwrap_or(hard);
    if wanted != soft {
        setrlimit(Resource::RLIMIT_NOFILE, wanted, hard.max(wanted))?;
    }
    Ok(())
}

/// After a reload: the limit that `now` wants, if `before` wanted another.
pub fn follow(before: &Main, now: &Main) -> io::Result<()> {
    match now.worker_rlimit_nofile {
        wanted if wanted != before.worker_rlimit_nofile => raise_open_files(wanted),
        _ => Ok(()),
    }
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
        let limits = || getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        raise_open_files(None).unwrap();
        let (soft, hard) = limits();
        assert_eq!(soft, hard);
        raise_open_files(Some(hard - 1)).unwrap();
        assert_eq!(limits(), (hard - 1, hard));
        raise_open_files(None).unwrap();
        assert_eq!(limits(), (hard, hard));
    }
}
