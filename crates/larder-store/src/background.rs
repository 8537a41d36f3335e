//! Threads for work in the background, at low priority.

use std::io;
use std::thread::{Builder, JoinHandle};

/// The `nice` value of such threads. On a busy CPU they get about a quarter of it, which is enough to keep a disk busy,
/// and no visitor waits while a batch is copied.
const NICENESS: i32 = 5;

/// Starts a thread at low priority.
pub(crate) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name.into()).spawn(move || {
        // On Linux this only concerns this thread. If it fails, the thread works at normal priority.
        let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICENESS);
        run();
    })
}
