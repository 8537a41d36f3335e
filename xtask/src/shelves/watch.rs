//! What lies in folders and what has gone to disks, looked at again and again while something else goes on.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Time between two looks.
const INTERVAL: Duration = Duration::from_millis(50);

/// A look may take one part in so many of the time: walking through many files costs what the generator needs.
const SHARE: u32 = 10;

/// One look.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// When.
    pub at: Instant,
    /// What the folders take on their disks, as `du -s` counts it.
    pub used: u64,
    /// Bytes that have been written to the devices since they were made.
    pub written: u64,
}

/// A thread that looks until this is dropped.
pub struct Watch {
    samples: Arc<Mutex<Vec<Sample>>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Looks at `folders` and at block devices, by name (`loop0`). More than `limit` bytes are looked at twice, and the
    /// smaller is taken: a file that is made or moved during a walk may be counted in two places.
    pub fn begin(folders: Vec<PathBuf>, devices: Vec<String>, limit: u64) -> Watch {
        let samples = Arc::new(Mutex::new(Vec::new()));
        let is_over = Arc::new(AtomicBool::new(false));
        let (into, over) = (Arc::clone(&samples), Arc::clone(&is_over));
        let thread = thread::spawn(move || {
            let used = || folders.iter().map(|folder| used_by(folder)).sum::<u64>();
            while !over.load(Ordering::Relaxed) {
                let at = Instant::now();
                let mut sample = Sample { at, used: used(), written: written_to(&devices) };
                if sample.used > limit {
                    sample.used = sample.used.min(used());
                }
                into.lock().unwrap_or_else(PoisonError::into_inner).push(sample);
                thread::sleep(INTERVAL.max(at.elapsed() * (SHARE - 1)));
            }
        });
        Watch { samples, is_over, thread: Some(thread) }
    }

    /// What has been seen until now.
    pub fn samples(&self) -> Vec<Sample> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It only looks; if it has ended early, there are fewer samples.
            let _ = thread.join();
        }
    }
}

/// The last sample before which the devices were written to, at `rate_min` bytes a second or faster.
pub fn last_busy(samples: &[Sample], rate_min: f64) -> Option<Sample> {
    let busy = samples.windows(2).rev().find_map(|pair| {
        let [before, after] = pair else { return None };
        let bytes = after.written.saturating_sub(before.written) as f64;
        (bytes > 0.0 && bytes >= rate_min * (after.at - before.at).as_secs_f64()).then_some(*after)
    });
    busy.or_else(|| samples.first().copied())
}

/// What `folder` and all in it take on the disk, each file once. What goes away meanwhile counts for nothing.
pub fn used_by(folder: &Path) -> u64 {
    let mut seen = HashSet::new();
    let mut waiting = vec![folder.to_path_buf()];
    let mut used = fs::symlink_metadata(folder).map_or(0, |own| own.blocks() * 512);
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(own) = entry.metadata() else { continue };
            if seen.insert(own.ino()) {
                used += own.blocks() * 512;
            }
            if own.is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    used
}

/// Bytes that have been written to all of `devices`.
pub fn written_to(devices: &[String]) -> u64 {
    let of = |device: &String| sectors_written(&fs::read_to_string(format!("/sys/block/{device}/stat")).ok()?);
    devices.iter().filter_map(of).map(|sectors| sectors * 512).sum()
}

/// The seventh number of a device's `stat`; a sector is 512 bytes, whatever the device has.
fn sectors_written(stat: &str) -> Option<u64> {
    stat.split_whitespace().nth(6)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_blocks_of_a_folder_are_counted_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let below = folder.path().join("a/b");
        fs::create_dir_all(&below).expect("a folder");
        let empty = used_by(folder.path());
        fs::write(below.join("page"), vec![1; 1 << 20]).expect("a file");
        fs::hard_link(below.join("page"), folder.path().join("again")).expect("a link");
        fs::File::open(below.join("page")).and_then(|file| file.sync_all()).expect("it is written");
        let used = used_by(folder.path()) - empty;
        assert!((1 << 20..(1 << 20) + 65_536).contains(&used), "{used}");
    }

    #[test]
    fn a_device_says_what_was_written() {
        let stat =
            "     985        0  1233874     1609     8002     6153  5726064    20776        0     3256    23209\n";
        assert_eq!(sectors_written(stat), Some(5_726_064));
        assert_eq!(sectors_written("1 2 3"), None);
    }

    #[test]
    fn the_end_of_writing_is_found() {
        let start = Instant::now();
        let sample = |number: usize, written| Sample { at: start + INTERVAL * number as u32, used: 0, written };
        for (written, end) in [
            (&[5, 5, 5][..], 0),
            (&[0, 100, 200, 200, 200], 2),
            // A few bytes of a journal are not the pages.
            (&[0, 100, 200, 201, 202], 2),
            (&[0, 100, 100, 100, 200], 4),
        ] {
            let samples: Vec<_> = written.iter().enumerate().map(|(number, bytes)| sample(number, *bytes)).collect();
            let found = last_busy(&samples, 200.0).expect("there are samples");
            assert_eq!(found.at, sample(end, 0).at, "{written:?}");
        }
        assert!(last_busy(&[], 1.0).is_none());
    }
}
